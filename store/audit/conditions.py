"""Which events count, as SQL over the columns `t` (the time), `v` (the value), `w` (the weight in steps) and those of
fields, with its parameters.

Bounds on whole numbers become whole numbers themselves: as a float, a large one would be rounded.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from fractions import Fraction
from typing import Any, Final

from sketches.errors import UnanswerableError
from sketches.event_rules import MAX_TIME
from sketches.events import Kind
from sketches.fields import FieldKind
from sketches.measured_types import number_in
from sketches.predicate import (
    Aggregate,
    AllOf,
    Among,
    AnyOf,
    ColumnType,
    Comparison,
    Like,
    Literal,
    Missing,
    Not,
    Predicate,
    Term,
)
from sketches.predicate.columns import type_of
from sketches.question import Question
from sketches.records import dataclass
from sketches.units import TimeUnit
from store.audit.raw_files import field_column
from store.serving.resolving import in_moments

_WHOLE_BOUNDS: Final = {">=": math.ceil, ">": math.floor, "<=": math.floor, "<": math.ceil}
_COLUMNS: Final = {"time": "t", "value": "v", "weight": "w"}
_KINDS: Final = {FieldKind.TEXT: Kind.KEY, FieldKind.FLOAT: Kind.FLOAT}  # all others are whole numbers
_CLOSE: Final = Fraction(1, 1_000_000)  # of a step: a bound this close to a multiple of the step is that multiple


@dataclass(frozen=True)
class Condition:
    """A condition in SQL, and the parameters that it names."""

    sql: str = "true"
    values: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class RawColumns:
    """The columns of a table of events. Weights are stored in steps, of which `step` is one in the user's unit."""

    kind: Kind  # of the values
    step: Fraction = Fraction(1)
    fields: Mapping[str, FieldKind] = field(default_factory=dict)

    def sql(self, name: str) -> str:
        return _COLUMNS.get(name) or field_column(name)

    def number(self, name: str) -> str:
        """A column to be summed or ranked: true and false are 1 and 0."""
        return f"{self.sql(name)}::INTEGER" if self.fields.get(name) is FieldKind.BOOLEAN else self.sql(name)

    def kind_of(self, name: str) -> Kind:
        """What the column holds where it takes the place of the value."""
        if name == "value":
            return self.kind
        return _KINDS.get(self.fields.get(name, FieldKind.INTEGER), Kind.INTEGER)

    def type_of(self, name: str) -> ColumnType:
        if self.fields.get(name) is FieldKind.BOOLEAN:
            return ColumnType.BOOLEAN
        return ColumnType.TEXT if self.kind_of(name) is Kind.KEY else ColumnType.NUMBER

    def in_steps(self, question: Question) -> Question:
        """The question with what it compares weights with in steps."""
        if question.compared != "weight":
            return question
        given = {name: getattr(question, name) for name in ("tau", "low", "high", "value")}
        numbers = {name: one for name, one in given.items() if isinstance(one, int | float)}
        steps: dict[str, Any] = {name: in_whole_steps(one, self.step) for name, one in numbers.items()}
        return replace(question, **steps)

    def known(self, names: Iterable[str]) -> str:
        """Where all of these are known, of which fields may be missing."""
        return " AND ".join(f"{self.sql(name)} IS NOT NULL" for name in names if name in self.fields) or "true"


def restriction(where: Predicate, columns: RawColumns, unit: TimeUnit, name: str = "where") -> Condition:
    """The events that satisfy a predicate, whose bounds are as people give them: weights in the user's unit, times as
    text. `name` begins the names of its parameters."""
    found = in_moments(where, unit).with_bounds("weight", lambda bound: in_whole_steps(_numeric(bound), columns.step))
    if columns.kind is not Kind.KEY:
        found = found.with_bounds("value", number_of)
    writer = _Writer(columns, name)
    return Condition(" AND ".join(f"({writer.sql(term)})" for term in found.parts()) or "true", writer.values)


class _Writer:
    """Writes terms as SQL, and collects the parameters that it names."""

    def __init__(self, columns: RawColumns, name: str) -> None:
        self.columns = columns
        self.name = name
        self.values: dict[str, Any] = {}

    def sql(self, term: Term) -> str:
        match term:
            case AllOf(terms):
                return " AND ".join(f"({self.sql(one)})" for one in terms)
            case AnyOf(terms):
                return " OR ".join(f"({self.sql(one)})" for one in terms)
            case Not(other):
                return f"NOT ({self.sql(other)})"
            case Missing(column):  # an event has a value, a weight and a time
                return f"{self.columns.sql(column)} IS NULL" if column in self.columns.fields else "false"
            case Like(column, pattern):
                return f"{self.columns.sql(column)} LIKE {self._parameter(self._checked(term, column, pattern))}"
            case Among(column, wanted):
                bounds = ", ".join(self._bound(term, column, "=", one) for one in wanted)
                return f"{self.columns.sql(column)} IN ({bounds})"
            case Comparison(column, sign, bound) if not isinstance(bound, Aggregate):
                return f"{self.columns.sql(column)} {sign} {self._bound(term, column, sign, bound)}"
        raise UnanswerableError(f"{term} cannot be checked against the raw files")

    def _bound(self, term: Term, column: str, sign: str, bound: Literal) -> str:
        self._checked(term, column, bound)
        if isinstance(bound, str | bool):
            return self._parameter(bound)
        whole = self.columns.kind_of(column) is Kind.INTEGER
        exact = _exactly(bound, whole) if sign in ("=", "!=") else _bound(bound, sign, whole)
        return self._parameter(exact)

    def _checked(self, term: Term, column: str, bound: Literal) -> Literal:
        """A bound on a column, which is of the same type."""
        needed, held = type_of(bound), self.columns.type_of(column)
        if needed is not held:
            raise UnanswerableError(f"{term.words()}: that needs {needed}, but this stream's are {held}")
        return bound

    def _parameter(self, value: Any) -> str:
        name = f"{self.name}_{len(self.values)}"
        self.values[name] = value
        return f"${name}"


def measured(question: Question, columns: RawColumns, threshold: float | None) -> Condition:
    """The events whose part a question measures; `threshold` is its τ, None where it has none or nothing counts.

    A share of what satisfies a predicate is a `restriction`. Bounds and threshold of a weight are in steps.
    """
    kind, x = columns.kind_of(question.compared), columns.number(question.compared)
    whole = kind is Kind.INTEGER
    match question.aggregate:
        case "rank":
            return Condition(f"{x} <= $measured", {"measured": _bound(number_of(question.value), "<=", whole)})
        case "frequency" if kind is Kind.KEY:
            return Condition(f"{x} = $measured", {"measured": str(question.value)})
        case "frequency":
            return Condition(f"{x} = $measured", {"measured": _exactly(number_of(question.value), whole)})
        case "sum" | "mean" | "count":
            return Condition()
    if question.tau is not None:
        return Condition(
            f"{x} >= $measured", {"measured": threshold if threshold is None else _bound(threshold, ">=", whole)}
        )
    low = -math.inf if question.low is None else question.low
    high = math.inf if question.high is None else question.high
    return Condition(
        f"{x} BETWEEN $least AND $most", {"least": _bound(low, ">=", whole), "most": _bound(high, "<=", whole)}
    )


def number_of(value: float | str | None) -> float:
    """A value as a number; text is read as one, as in `Store`."""
    number = number_in(value) if isinstance(value, str) else value
    if number is not None:
        return number
    raise UnanswerableError(f"value is {value!r}, but this stream's values are numbers")


def _numeric(bound: Literal) -> float:
    """A bound on the weight, which cannot be compared with text."""
    assert not isinstance(bound, str)
    return bound


def _bound(number: float, sign: str, whole: bool) -> float:
    """What whole numbers, or all numbers, are compared with."""
    return _WHOLE_BOUNDS[sign](number) if whole and abs(number) < MAX_TIME else float(number)


def _exactly(number: float, whole: bool) -> float:
    return int(number) if whole and abs(number) < MAX_TIME and number == int(number) else float(number)


def in_whole_steps(bound: float, step: Fraction) -> float:
    """A bound in the user's unit as a number of steps."""
    if step == 1 or not math.isfinite(bound):
        return bound
    steps = Fraction(str(bound)) / step
    nearest = round(steps)
    return nearest if abs(steps - nearest) <= _CLOSE else float(steps)
