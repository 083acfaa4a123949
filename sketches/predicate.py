"""Which events a question is about: conditions on their columns, all of which must hold.

One object for every aggregate and every family. A family applies all of it or refuses it by name; none ignores a part.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from sketches.arrays import Column, Flags
from sketches.errors import QuestionError
from sketches.event_rules import NUMBER, WHOLE_NUMBER

COLUMNS: Final = ("value", "weight")
_LONGEST: Final = 2_000  # characters of a predicate
_MOST_TERMS: Final = 20
_SNAP: Final = 1e-6  # of a step: a bound this close to a multiple of the step is that multiple
_TERM: Final = re.compile(
    r"\s*([A-Za-z_]\w*)\s*(<=|>=|=|<|>)\s*('(?:[^']|'')*'|[^\s']+)\s*(?:(and)\b|$)", re.IGNORECASE | re.ASCII
)


@dataclass(frozen=True, slots=True)
class Range:
    """The numbers between two ends. An end belongs to the range unless it is open.

    >>> Range(60, open_low=True).words("the value"), Range(1, 5).holds(np.array([0, 1, 5, 6])).tolist()
    ('the value is above 60', [False, True, True, False])
    """

    low: float = -math.inf
    high: float = math.inf
    open_low: bool = False
    open_high: bool = False

    def __post_init__(self) -> None:
        if math.isnan(self.low) or math.isnan(self.high):
            raise QuestionError("a bound is NaN; it must be a number")

    def __bool__(self) -> bool:
        """Whether it leaves any number out."""
        return self.low != -math.inf or self.high != math.inf

    @property
    def empty(self) -> bool:
        """Whether no number at all lies in it."""
        return self.low > self.high or (self.low == self.high and (self.open_low or self.open_high))

    def closed(self, *, whole: bool) -> Range:
        """The same numbers with ends that belong to it: whole ones, or floats next to an open end."""
        low, high = self.low, self.high
        if whole:
            if math.isfinite(low):
                low = math.floor(low) + 1 if self.open_low else math.ceil(low)
            if math.isfinite(high):
                high = math.ceil(high) - 1 if self.open_high else math.floor(high)
            return Range(low, high)
        return Range(
            math.nextafter(low, math.inf) if self.open_low and math.isfinite(low) else low,
            math.nextafter(high, -math.inf) if self.open_high and math.isfinite(high) else high,
        )

    def holds(self, numbers: Column) -> Flags:
        """Which of the numbers lie in the range."""
        ends = self.closed(whole=numbers.dtype.kind in "iu")
        if ends.empty or ends.low > _greatest(numbers) or ends.high < _least(numbers):
            return np.zeros(len(numbers), bool)
        inside = np.ones(len(numbers), bool)
        if ends.low > _least(numbers):
            inside &= numbers >= ends.low
        if ends.high < _greatest(numbers):
            inside &= numbers <= ends.high
        return inside

    def within(self, other: Range) -> Range:
        """The numbers that lie in both."""
        low, open_low = max((self.low, self.open_low), (other.low, other.open_low))
        high, closed_high = min((self.high, not self.open_high), (other.high, not other.open_high))
        return Range(low, high, open_low, not closed_high)

    def in_steps(self, step: float) -> Range:
        """The range of the whole numbers whose multiples of the step lie in this one."""
        return Range(_steps(self.low, step), _steps(self.high, step), self.open_low, self.open_high)

    def words(self, name: str) -> str:
        if self.low == self.high:
            return f"{name} is {self.low:g}"
        ends = []
        if self.low != -math.inf:
            ends.append(f"{'above' if self.open_low else 'at least'} {self.low:g}")
        if self.high != math.inf:
            ends.append(f"{'below' if self.open_high else 'at most'} {self.high:g}")
        return f"{name} is {' and '.join(ends)}" if ends else f"{name} is any number"


def _least(numbers: Column) -> float:
    """The least number that a column can hold."""
    return np.iinfo(numbers.dtype).min if numbers.dtype.kind in "iu" else -math.inf


def _greatest(numbers: Column) -> float:
    return np.iinfo(numbers.dtype).max if numbers.dtype.kind in "iu" else math.inf


def _steps(bound: float, step: float) -> float:
    """A bound in steps; one that is a multiple of the step but for rounding is that multiple."""
    if not math.isfinite(bound):
        return bound
    steps = bound / step
    nearest = round(steps)
    return nearest if abs(steps - nearest) <= max(_SNAP, abs(steps) * 1e-14) else steps


@dataclass(frozen=True, slots=True)
class Predicate:
    """Conditions on events: the range of each column that is restricted, and the text that the value must be.

    >>> Predicate.parse("value < 60 and weight >= 5").words()
    'the value is below 60 and the weight is at least 5'
    """

    ranges: tuple[tuple[str, Range], ...] = ()
    key: str | None = field(default=None)  # the value itself, where it is text

    @classmethod
    def of(cls, key: str | None = None, **ranges: Range) -> Predicate:
        """The predicate with these ranges; one that leaves nothing out is no condition."""
        for column in ranges:
            if column not in COLUMNS:
                raise QuestionError(f"{column!r} is not a column; a predicate is about {' or '.join(COLUMNS)}")
        return cls(tuple(sorted((name, limits) for name, limits in ranges.items() if limits)), key)

    @classmethod
    def parse(cls, text: str) -> Predicate:
        """Comparisons joined by `and`, such as ``value >= 60 and weight < 5`` or ``value = 'GET /'``.

        Nothing in the text is executed.
        """
        if len(text) > _LONGEST:
            raise QuestionError(f"the predicate has {len(text):,} characters; at most {_LONGEST:,} are allowed")
        found, at, more = cls(), 0, True
        terms = 0
        while more:
            match = _TERM.match(text, at)
            terms += 1
            if not match or terms > _MOST_TERMS:
                raise QuestionError(
                    f"the predicate cannot be read from {text[at : at + 40].strip()!r} on; it must be comparisons "
                    f"joined by 'and', such as value >= 60 and weight < 5 (at most {_MOST_TERMS})"
                )
            found = found.and_also(_term(match[1].lower(), match[2], match[3]))
            at, more = match.end(), bool(match[4])
        return found

    def __bool__(self) -> bool:
        """Whether it leaves any event out."""
        return bool(self.ranges) or self.key is not None

    @property
    def columns(self) -> frozenset[str]:
        """The columns that it is about."""
        own = {"value"} if self.key is not None else set()
        return frozenset(own | {name for name, _ in self.ranges})

    def range_of(self, column: str) -> Range:
        """The range that a column must lie in; all numbers where it is not restricted."""
        return dict(self.ranges).get(column, EVERY_NUMBER)

    def and_also(self, other: Predicate) -> Predicate:
        """The events that satisfy both."""
        if self.key is not None and other.key is not None and self.key != other.key:
            raise QuestionError(f"no value can be both {self.key!r} and {other.key!r}")
        names = {name for name, _ in (*self.ranges, *other.ranges)}
        both = {name: self.range_of(name).within(other.range_of(name)) for name in names}
        for name, limits in both.items():
            if limits.empty:
                one, two = (side.range_of(name).words(f"the {name}") for side in (self, other))
                raise QuestionError(f"no event has both: {one}, and {two}")
        return Predicate.of(self.key if self.key is not None else other.key, **both)

    def holds(self, columns: Callable[[str], Column]) -> Flags:
        """Which events satisfy the ranges; `columns` gives a column by its name. The key is the caller's to compare."""
        masks = [limits.holds(columns(name)) for name, limits in self.ranges]
        return np.asarray(np.logical_and.reduce(masks))

    def words(self) -> str:
        parts = [] if self.key is None else [f"the value is '{self.key}'"]
        return " and ".join([*parts, *(limits.words(f"the {name}") for name, limits in self.ranges)])


EVERY_NUMBER: Final = Range()
EVERY_EVENT: Final = Predicate()


def everything(predicates: Iterable[Predicate]) -> Predicate:
    """The events that satisfy all of the predicates."""
    found = EVERY_EVENT
    for predicate in predicates:
        found = found.and_also(predicate)
    return found


def _term(column: str, sign: str, text: str) -> Predicate:
    if text.startswith("'"):
        if column != "value" or sign != "=":
            raise QuestionError(f"{column} {sign} {text} cannot be asked; text goes with value =")
        return Predicate.of(text[1:-1].replace("''", "'"))
    if not re.fullmatch(NUMBER, text):
        raise QuestionError(f"{text[:40]!r} is not a number; write text in single quotes, like value = 'GET /'")
    number = int(text) if re.fullmatch(WHOLE_NUMBER, text) else float(text)
    if not math.isfinite(number):
        raise QuestionError(f"{text[:40]!r} is too large a number")
    return Predicate.of(None, **{column: RANGES[sign](number)})


RANGES: Final[dict[str, Callable[[float], Range]]] = {
    "<": lambda bound: Range(high=bound, open_high=True),
    "<=": lambda bound: Range(high=bound),
    ">": lambda bound: Range(low=bound, open_low=True),
    ">=": lambda bound: Range(low=bound),
    "=": lambda bound: Range(bound, bound),
}
