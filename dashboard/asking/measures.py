"""What a question of a stream can be of and split by, in the names of its columns, and which question comes first."""

from __future__ import annotations

from typing import Final

from dashboard.wording import AGGREGATES, ON_KEYS
from sketches.events import Kind
from sketches.fields import FieldKind
from sketches.question import Question
from sketches.registry import FAMILIES
from sketches.vocabulary import RATE
from store.serving.catalogue import StoredStream
from store.serving.resolving import has_values, names_of
from store.serving.split_answer import SOURCE

EVENTS: Final = "events"  # each counts 1, however much it weighs
SUMS: Final = ("sum", RATE, "mean", "variance", "stddev", "range-sum", "correlated-sum", "correlated-mean")
RANKED: Final = ("median", "quantile", "rank", "selectivity", "range-frequency")
OF: Final = (*SUMS, *RANKED, "frequency")  # aggregates that are of something
COUNTS: Final = {"sum": "count", RATE: "count", "correlated-sum": "correlated-count"}  # as which events are summed
UNSPLIT: Final = ("inner-product", "self-join", "heavy-hitters")  # aggregates of one group only


def is_keyed(stream: StoredStream) -> bool:
    """Whether the values of a stream are texts."""
    return stream.described.get("kind") == Kind.KEY


def number_fields(stream: StoredStream) -> list[str]:
    """The fields that can be summed and ranked."""
    return sorted(name for name, kind in stream.fields.items() if kind.is_number)


def aggregates_of(stream: StoredStream) -> list[str]:
    """The aggregates that can be drawn over time for a stream: texts have no order and no sum."""
    if not is_keyed(stream):
        return list(AGGREGATES)
    of_fields = RANKED if number_fields(stream) else ()
    return [name for name in AGGREGATES if name in ON_KEYS or name in of_fields]


def measures(stream: StoredStream, aggregate: str) -> list[str]:
    """What an aggregate can be of: weight, value, fields, events; the first is the usual one."""
    numbers = has_values(stream) and not is_keyed(stream)
    fields = number_fields(stream)
    if aggregate in SUMS:
        own = [name for name, there in (("weight", stream.weighted), ("value", numbers)) if there]
        return [*(own or ["weight"]), *fields, *([EVENTS] if aggregate in COUNTS else [])]
    if aggregate in RANKED:
        return [*(["value"] if numbers else []), *(["weight"] if stream.weighted and numbers else []), *fields]
    if aggregate == "frequency":
        texts = sorted(name for name, kind in stream.fields.items() if kind is FieldKind.TEXT)
        return ["value", *fields, *texts]
    return []


def own_measure(stream: StoredStream, aggregate: str, of: str) -> str:
    """What an aggregate is of, where `of` was asked for; empty for the usual measure."""
    if of and (of in (*measures(stream, aggregate), "weight") or (of == "value" and not is_keyed(stream))):
        return of
    usual = usual_measure(stream, aggregate)
    return "" if usual in ("weight", "value") else usual


def usual_measure(stream: StoredStream, aggregate: str) -> str:
    """What an aggregate is of where nobody says; empty where it is of nothing."""
    return next(iter(measures(stream, aggregate)), "")


def label(stream: StoredStream, column: str) -> str:
    """A column as the stream calls it."""
    names = names_of(stream)
    own = {"value": names.value, "weight": names.weight}.get(column, "")
    return f"{own} (the {column})" if own and own != column else column


def splits(stream: StoredStream, aggregate: str = "sum") -> list[str]:
    """What answers can be split by: the source, and every field but numbers with fractions."""
    if aggregate in UNSPLIT:
        return []
    fields = sorted(name for name, kind in stream.fields.items() if kind is not FieldKind.FLOAT)
    return [*([SOURCE] if len(stream.sources) > 1 else []), *fields]


def first_look(stream: StoredStream) -> tuple[str, str]:
    """The aggregate on which a stream opens, and what it is of.

    The mean of the weights, or else of values that are numbers: it makes sense whether weights add up, as bytes do, or
    do not, as percentages do. Where values are texts, how many events a second; where no family gives means, the sum.
    """
    if stream.weighted:
        return ("mean" if _is_answered(stream, Question("mean")) else "sum"), ""
    if is_keyed(stream) or not has_values(stream):
        return RATE, EVENTS
    return "mean", ""


def _is_answered(stream: StoredStream, question: Question) -> bool:
    """Whether a stored family may answer a question at any time."""
    known = [FAMILIES[name].abilities for name in stream.sketches if name in FAMILIES]
    return any(abilities.past and abilities.refusal(question) is None for abilities in known)
