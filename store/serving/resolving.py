"""From a question as it was asked to one that leaves nothing open: the stream's settings fill in what was not said.

Sketches hold weights as multiples of the stream's `weight_step`. People ask and are answered in their own unit: what
they ask is turned into steps here, and what sketches answer is turned back.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from sketches.decay import Decay
from sketches.decay.weighed_time import weighed_time
from sketches.errors import QuestionError, UnanswerableError
from sketches.estimate import Curve, Estimate, Series, Split, SplitSeries
from sketches.event_rules import PlainColumn
from sketches.events import Kind
from sketches.measured_types import fitting, number_in
from sketches.predicate import EVENT_COLUMNS, ColumnType, Literal, Predicate, StreamColumns, in_steps
from sketches.question import Counting, Question
from sketches.sentences import Names
from sketches.units import TimeUnit
from store.serving.catalogue import StoredStream, check_known
from store.serving.timeline import read_moment

Numbers = TypeVar("Numbers", Estimate, Series, Curve, Split, SplitSeries)


def counting_of(held: StoredStream) -> Counting:
    """What the stream's shares and counts are of, unless a question says otherwise."""
    return "weight" if held.described.get("counting") == "weight" else "events"


def weight_step(held: StoredStream) -> float:
    """What one unit of a stored weight stands for."""
    step = held.described.get("weight_step", 1)
    return float(step) if isinstance(step, int | float) and step > 0 else 1.0


def has_values(held: StoredStream) -> bool:
    """Whether the settings name a value; without one every value is 0."""
    return str(held.described.get("value", "value")).strip() != "0"


def names_of(held: StoredStream) -> Names:
    """What the stream calls its value and its weight: the columns that they come from."""
    return Names(_column_of(held, "value"), _column_of(held, "weight"))


def _column_of(held: StoredStream, role: str) -> str:
    """The column that a part of events comes from, or what the settings call it; empty where it is an expression."""
    stated = held.described.get(f"{role}_name")
    if isinstance(stated, str) and stated:
        return stated
    found = PlainColumn.read(held.described.get(role))
    return found.column or "" if found is not None else ""


def columns_of(held: StoredStream) -> StreamColumns:
    """The columns of the stream's events, under all their names."""
    return StreamColumns.of(held.fields, **{role: _column_of(held, role) for role in EVENT_COLUMNS})


def resolved(question: Question, held: StoredStream, kind: Callable[[], Kind | None]) -> Question:
    """The question with its counting, what it is of, its as-of time, and its bounds on times and weights as they are
    stored; `kind` is of the values.

    Without a word on it, sums and means are of the weight where the stream has one, else of the value where it is a
    number, else of events. The as-of time is the stream's, whatever the sources asked for.
    """
    for name in sorted(question.fields):
        check_known("field", name, sorted(held.fields))
    changes: dict[str, Any] = {"counting": question.counting or counting_of(held)}
    if question.sums and question.of is None:
        of_value = not held.weighted and has_values(held) and kind() not in (None, Kind.KEY)
        changes["of"] = "value" if of_value else "weight"
    if question.as_of is None:
        changes["as_of"] = held.as_of()
    if question.compared == "weight" and (step := weight_step(held)) != 1.0:
        given = {name: getattr(question, name) for name in ("tau", "low", "high", "value")}
        changes |= {name: in_steps(bound, step) for name, bound in given.items() if isinstance(bound, int | float)}
    return replace(question, **changes, where=_resolved(question.where, held), share=_resolved(question.share, held))


def _resolved(predicate: Predicate, held: StoredStream) -> Predicate:
    step = weight_step(held)
    found = in_moments(predicate, held.unit)
    if step == 1.0:
        return found
    return found.with_bounds("weight", lambda bound: bound if isinstance(bound, str) else in_steps(bound, step))


def in_moments(predicate: Predicate, unit: TimeUnit) -> Predicate:
    """The predicate with its times in units of the stream."""
    return predicate.with_bounds("time", lambda bound: read_moment(bound, unit) if isinstance(bound, str) else bound)


def with_numbers(question: Question, type_of: Callable[[str], ColumnType]) -> Question:
    """The question with its values as numbers where they were given as text, and what they are compared with is not.

    Refuses what the columns that it measures cannot hold.
    """
    question = fitting(question, type_of)
    if type_of("value") is ColumnType.TEXT:
        return question
    where, share = (one.with_bounds("value", _number_or_text) for one in (question.where, question.share))
    return replace(question, where=where, share=share)


def _number_or_text(bound: Literal) -> Literal:
    number = number_in(bound) if isinstance(bound, str) else bound
    return bound if number is None or not math.isfinite(number) else number


def in_users_unit(answer: Numbers, question: Question, step: float) -> Numbers:
    """An answer of sketches, which count in steps, in the unit of the user."""
    factor = step ** _power(question)
    if factor == 1.0:
        return answer
    scaled: dict[str, Any] = {name: getattr(answer, name) * factor for name in ("value", "lower", "upper")}
    return replace(answer, **scaled)


def per_second(answer: Numbers, decay: Decay, held: StoredStream) -> Numbers:
    """Sums or counts over the time that the decay weighs, since the stream's first event; not a number before it."""
    as_of: Any = getattr(answer, "as_of", None)
    first = min((one.oldest for one in held.epochs.values()), default=0)
    weighed = weighed_time(decay, held.unit.seconds(np.atleast_1d(np.asarray(as_of, np.int64)) - first + 1))
    factors = np.divide(1.0, weighed, out=np.full(len(weighed), np.nan), where=weighed > 0.0)
    factor = factors if np.ndim(as_of) else float(factors[0])
    scaled: dict[str, Any] = {name: getattr(answer, name) * factor for name in ("value", "lower", "upper")}
    if hasattr(answer, "seen"):
        scaled["seen"] = None  # in how many rows events came is no rate
    return replace(answer, **scaled)


def _power(question: Question) -> int:
    """How often the weight is a factor of the answer."""
    if question.aggregate == "ratio":
        powers = (1 if name == "weight" else int(question.by_weight) for name in (question.of, question.per))
        return next(powers) - next(powers)
    if question.sums:
        if question.of_value:
            return int(question.by_weight and not question.averages)
        return 2 if question.aggregate == "variance" else 1
    if question.aggregate in ("count", "correlated-count"):
        return int(question.by_weight)
    if question.aggregate in ("quantile", "median"):
        return int(question.ranked == "weight")
    return 2 * int(question.by_weight) if question.aggregate in ("self-join", "inner-product") else 0


def above_any_threshold(question: Question) -> Question:
    """The sum, count or mean above thresholds that a curve runs over; a sum unless the question is of one of these."""
    refuse_threshold(question)
    part = question.aggregate.removeprefix("correlated-")
    return replace(
        question,
        aggregate=f"correlated-{part if part in ('sum', 'count', 'mean') else 'sum'}",
        tau=0.0,
        phi=None,
        phis=(),
        top=None,
        of=question.of if question.sums else None,
    )


def refuse_threshold(question: Question) -> None:
    """Refuse a curve of the events above an aggregate: it would be a curve of all events."""
    if question.threshold is not None:
        raise UnanswerableError(f"a curve cannot be drawn of the events above an aggregate ({question.tau})")


def one_share(question: Question) -> Question:
    """The question with one share; refuses several, which are no one series."""
    if len(question.phis) > 1:
        shares = ", ".join(f"{phi:g}" for phi in question.phis)
        raise QuestionError(f"phis are {shares}; one series is at one share: ask at each (question.at_each_share)")
    return question.at_each_share[0]
