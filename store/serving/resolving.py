"""From a question as it was asked to one that leaves nothing open: the stream's settings fill in what was not said.

Sketches hold weights as multiples of the stream's `weight_step`. People ask and are answered in their own unit: what
they ask is turned into steps here, and what sketches answer is turned back.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar

from sketches.estimate import Curve, Estimate, Series
from sketches.event_rules import PlainColumn
from sketches.events import Kind
from sketches.predicate import Predicate, Range
from sketches.question import Counting, Question
from sketches.sentences import Names
from store.serving.catalogue import StoredStream

Numbers = TypeVar("Numbers", Estimate, Series, Curve)


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

    def column(role: str) -> str:
        found = PlainColumn.read(held.described.get(role))
        return found.column or "" if found is not None else ""

    return Names(column("value"), column("weight"))


def resolved(question: Question, held: StoredStream, kind: Callable[[], Kind | None]) -> Question:
    """The question with its counting, what it is of, its as-of time, and its weights in steps; `kind` is of the values.

    Without a word on it, sums and means are of the weight where the stream has one, else of the value where it is a
    number, else of events. The as-of time is the stream's, whatever the sources asked for.
    """
    changes: dict[str, Any] = {"counting": question.counting or counting_of(held)}
    if question.sums and question.of is None:
        of_value = not held.weighted and has_values(held) and kind() not in (None, Kind.KEY)
        changes["of"] = "value" if of_value else "weight"
    if question.as_of is None:
        changes["as_of"] = held.as_of()
    step = weight_step(held)
    if step != 1.0 and "weight" in question.where.columns:
        ranges = {name: limits.in_steps(step) if name == "weight" else limits for name, limits in question.where.ranges}
        changes["where"] = Predicate.of(question.where.key, **ranges)
    return replace(question, **changes)


def with_numbers(question: Question, kind: Kind) -> Question:
    """The question with its value as a number where the stream's values are numbers and it was given as text."""
    if kind is Kind.KEY:
        return question
    where = question.where
    if where.key is not None and (number := _number(where.key)) is not None:
        where = Predicate.of(None, **dict(where.ranges)).and_also(Predicate.of(None, value=Range(number, number)))
    value = question.value
    if isinstance(value, str):
        number = _number(value)
        value = value if number is None else number
    return replace(question, value=value, where=where)


def _number(text: str) -> float | None:
    for read in (int, float):
        with suppress(ValueError):
            return read(text)
    return None


def in_users_unit(answer: Numbers, question: Question, step: float) -> Numbers:
    """An answer of sketches, which count in steps, in the unit of the user."""
    factor = step ** _power(question)
    if factor == 1.0:
        return answer
    scaled: dict[str, Any] = {name: getattr(answer, name) * factor for name in ("value", "lower", "upper")}
    return replace(answer, **scaled)


def _power(question: Question) -> int:
    """How often the weight is a factor of the answer."""
    if question.sums:
        if question.of_value:
            return int(question.by_weight and not question.aggregate.endswith("mean"))
        return 1
    if question.aggregate in ("count", "correlated-count"):
        return int(question.by_weight)
    return 2 * int(question.by_weight) if question.aggregate in ("self-join", "inner-product") else 0


def above_any_threshold(question: Question) -> Question:
    """The sum, count or mean above thresholds that a curve runs over; a sum unless the question is of one of these."""
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
