"""Ranges of numbers, with ends that belong to them or not."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import numpy as np

from sketches.arrays import Column, Flags
from sketches.errors import QuestionError
from sketches.records import dataclass

_SNAP: Final = 1e-6  # of a step: a bound this close to a multiple of the step is that multiple


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

    def with_bounds(self, convert: Callable[[float], float]) -> Range:
        """The range with other bounds where it has any."""
        low, high = (convert(end) if math.isfinite(end) else end for end in (self.low, self.high))
        return replace(self, low=low, high=high)

    def words(self, name: str) -> str:
        if self.low == self.high:
            return f"{name} is {number_words(self.low)}"
        ends = []
        if self.low != -math.inf:
            ends.append(f"{'above' if self.open_low else 'at least'} {number_words(self.low)}")
        if self.high != math.inf:
            ends.append(f"{'below' if self.open_high else 'at most'} {number_words(self.high)}")
        return f"{name} is {' and '.join(ends)}" if ends else f"{name} is any number"


def _least(numbers: Column) -> float:
    """The least number that a column can hold."""
    return np.iinfo(numbers.dtype).min if numbers.dtype.kind in "iu" else -math.inf


def _greatest(numbers: Column) -> float:
    return np.iinfo(numbers.dtype).max if numbers.dtype.kind in "iu" else math.inf


def in_steps(bound: float, step: float) -> float:
    """A bound in steps; one that is a multiple of the step but for rounding is that multiple."""
    steps = bound / step
    nearest = round(steps)
    return nearest if abs(steps - nearest) <= max(_SNAP, abs(steps) * 1e-14) else steps


def number_words(number: float) -> str:
    """A number with all its digits, and with no more than it needs.

    >>> number_words(60.0), number_words(1769860800), number_words(0.1)
    ('60', '1769860800', '0.1')
    """
    short = f"{number:g}"
    return short if "e" not in short and float(short) == number else str(number)


EVERY_NUMBER: Final = Range()
RANGES: Final[dict[str, Callable[[float], Range]]] = {
    "<": lambda bound: Range(high=bound, open_high=True),
    "<=": lambda bound: Range(high=bound),
    ">": lambda bound: Range(low=bound, open_low=True),
    ">=": lambda bound: Range(low=bound),
    "=": lambda bound: Range(bound, bound),
}
