"""Which events count, as SQL over the columns `v` (the value) and `w` (the weight in steps), with its parameters.

Bounds on whole numbers become whole numbers themselves: as a float, a large one would be rounded.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final

from sketches.errors import UnanswerableError
from sketches.event_rules import MAX_TIME
from sketches.events import Kind
from sketches.predicate import Predicate, Range
from sketches.question import Question

_WHOLE_BOUNDS: Final = {">=": math.ceil, ">": math.floor, "<=": math.floor, "<": math.ceil}
_CLOSE: Final = Fraction(1, 1_000_000)  # of a step: a bound this close to a multiple of the step is that multiple


@dataclass(frozen=True)
class Condition:
    """A condition in SQL, and the parameters that it names."""

    sql: str = "true"
    values: dict[str, Any] = field(default_factory=dict)


def restriction(where: Predicate, kind: Kind, step: Fraction) -> Condition:
    """The events that a question is about. Bounds on weights are in the user's unit, of which `step` is one step."""
    terms: list[str] = []
    values: dict[str, Any] = {}
    if where.key is not None:
        terms.append("v = $only")
        values["only"] = where.key if kind is Kind.KEY else _exactly(number_of(where.key), kind)
    for column, limits in where.ranges:
        if column == "value" and kind is Kind.KEY:
            raise UnanswerableError(f"{limits.words('the value')}: that needs numbers, but this stream's are text")
        if column == "weight":
            ends = Range(_steps(limits.low, step), _steps(limits.high, step), limits.open_low, limits.open_high)
            found = _within(ends, "w", "weight", whole=True)
        else:
            found = _within(limits, "v", "value", whole=kind is Kind.INTEGER)
        for term, name, bound in found:
            terms.append(term)
            values[name] = bound
    return Condition(" AND ".join(terms) or "true", values)


def measured(question: Question, kind: Kind, threshold: float | None) -> Condition:
    """The events whose part a question measures; `threshold` is its τ, None where it has none or nothing counts."""
    whole = kind is Kind.INTEGER
    match question.aggregate:
        case "rank":
            return Condition("v <= $measured", {"measured": _bound(number_of(question.value), "<=", whole)})
        case "frequency" if kind is Kind.KEY:
            return Condition("v = $measured", {"measured": str(question.value)})
        case "frequency":
            return Condition("v = $measured", {"measured": _exactly(number_of(question.value), kind)})
        case "sum" | "mean" | "count":
            return Condition()
    if question.tau is not None:
        return Condition(
            "v >= $measured", {"measured": threshold if threshold is None else _bound(threshold, ">=", whole)}
        )
    low = -math.inf if question.low is None else question.low
    high = math.inf if question.high is None else question.high
    return Condition(
        "v BETWEEN $least AND $most", {"least": _bound(low, ">=", whole), "most": _bound(high, "<=", whole)}
    )


def number_of(value: float | str | None) -> float:
    """A value as a number; text is read as one, as in `Store`."""
    if isinstance(value, str):
        for read in (int, float):
            with suppress(ValueError):
                return read(value)
    if isinstance(value, int | float):
        return value
    raise UnanswerableError(f"value is {value!r}, but this stream's values are numbers")


def _within(limits: Range, column: str, name: str, *, whole: bool) -> Iterator[tuple[str, str, float]]:
    """The terms of a range, each with its parameter."""
    if limits.low != -math.inf:
        sign = ">" if limits.open_low else ">="
        yield f"{column} {sign} $least_{name}", f"least_{name}", _bound(limits.low, sign, whole)
    if limits.high != math.inf:
        sign = "<" if limits.open_high else "<="
        yield f"{column} {sign} $most_{name}", f"most_{name}", _bound(limits.high, sign, whole)


def _bound(number: float, sign: str, whole: bool) -> float:
    """What whole numbers, or all numbers, are compared with."""
    return _WHOLE_BOUNDS[sign](number) if whole and abs(number) < MAX_TIME else float(number)


def _exactly(number: float, kind: Kind) -> float:
    return int(number) if kind is Kind.INTEGER and abs(number) < MAX_TIME and number == int(number) else float(number)


def _steps(bound: float, step: Fraction) -> float:
    """A bound in the user's unit as a number of steps."""
    if step == 1 or not math.isfinite(bound):
        return bound
    steps = Fraction(str(bound)) / step
    nearest = round(steps)
    return nearest if abs(steps - nearest) <= _CLOSE else float(steps)
