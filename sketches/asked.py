"""One question put to one sample, and the shape of what comes back: arrays with one entry per as-of time."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sketches.decay import Decay
from sketches.drawn import Columns, Drawn
from sketches.errors import UnanswerableError
from sketches.estimate import Item
from sketches.events import Kind
from sketches.hashing import hash_one
from sketches.intervals import Total
from sketches.question import Question
from sketches.totals import FEW, LARGE, Faded, Sums, fade, sums_by_row, sums_by_table, sums_by_walk, total, unseen

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Rows = NDArray[np.intp]


def _whole(bound: float | None, towards: Callable[[float], int]) -> float | None:
    """The whole number that bounds whole numbers alike; infinities and numbers beyond 64 bits stay floats."""
    return towards(bound) if bound is not None and abs(bound) < float(1 << 62) else bound


@dataclass(frozen=True, slots=True)
class Answer:
    """Value and limits per as-of time, the number of rows that took part, and the list where the answer is one."""

    value: Floats
    lower: Floats
    upper: Floats
    used: Ints
    items: tuple[Item, ...] = ()


@dataclass(frozen=True)
class Asked:
    """One question put to one sample at some as-of times."""

    drawn: Drawn
    question: Question
    as_of: Ints
    confidence: float
    share_error: float  # ε: what may separate a reported heavy hitter from φ

    @property
    def decay(self) -> Decay:
        assert isinstance(self.question.decay, Decay)
        return self.question.decay

    @cached_property
    def unseen_weight(self) -> tuple[Floats, Floats]:
        return unseen(self.drawn, self.decay, self.as_of, "weight")

    @cached_property
    def unseen_count(self) -> tuple[Floats, Floats]:
        return unseen(self.drawn, self.decay, self.as_of, "count")

    @cached_property
    def faded(self) -> list[Faded]:
        """f of the rows at each as-of time: evaluated once, whatever is summed with it."""
        return [fade(self.drawn.times, moment, self.decay, self.drawn.unit) for moment in self.as_of.tolist()]

    def sums(self, columns: Columns, rows: Rows | None = None) -> Sums:
        """Decayed sums over all rows or some, the cheaper way: f of each row, or prefix sums and a table of f."""
        few = len(self.as_of) <= FEW
        if few and len(self.drawn) < LARGE:
            return sums_by_row(columns, self.faded, rows)
        if few and rows is not None:
            return sums_by_walk(columns, self.drawn.unit, self.decay, self.as_of, rows)
        whole = columns if rows is None else columns.rows(rows)
        return sums_by_table(whole, self.drawn.unit, self.decay, self.as_of)

    def weight(self, rows: Rows | None = None) -> tuple[Total, Ints]:
        sums = self.sums(self.drawn.weight_columns, rows)
        return total(sums, 0, 1, 0, self.unseen_weight), sums.used

    def count(self, rows: Rows | None = None) -> tuple[Total, Ints]:
        sums = self.sums(self.drawn.count_columns, rows)
        return total(sums, 0, 1, 0, self.unseen_count), sums.used

    def between(self, low: float | None, high: float | None) -> Rows:
        if self.drawn.kind is Kind.INTEGER:  # compared as such: as floats, every value would be converted first
            low, high = _whole(low, math.ceil), _whole(high, math.floor)
        return self.drawn.between(low, high)

    def equal(self, value: float | str) -> Rows:
        if self.drawn.kind is Kind.KEY:
            return np.flatnonzero(self.drawn.values == np.uint64(hash_one(str(value))))
        if isinstance(value, str):
            raise UnanswerableError(f"value is {value!r}, but this stream's values are numbers")
        return np.flatnonzero(self.drawn.values == value)
