"""One question put to one sample, and its estimates: arrays with one entry for each as-of time."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Final

import numpy as np

from sketches.arrays import Floats, Ints, Rows
from sketches.decay import Decay
from sketches.errors import UnanswerableError
from sketches.estimate import Item
from sketches.events import Kind
from sketches.hashing import hash_one
from sketches.question import Question
from sketches.records import dataclass
from sketches.sampling.estimation.coefficients import Coefficients
from sketches.sampling.estimation.horvitz_thompson import (
    FEW_TIMES,
    MANY_ROWS,
    DecayFactors,
    Sums,
    largest_unseen,
    sums_by_row,
    sums_by_tree,
)
from sketches.sampling.estimation.intervals import Total, Unseen
from sketches.sampling.estimation.poisson_sample import PoissonSample
from sketches.sampling.estimation.time_tree import rows_that_count

_AT_ONCE: Final = 1 << 20  # rows, each as often as there are as-of times


@dataclass(frozen=True, slots=True)
class Estimates:
    """Value and limits at each as-of time, the number of rows with f > 0, and the items of a list.

    `unlisted` is the share that no value has which a list leaves out.
    """

    value: Floats
    lower: Floats
    upper: Floats
    used: Ints
    items: tuple[Item, ...] = ()
    unlisted: float | None = None

    @classmethod
    def joined(cls, parts: Sequence[Estimates]) -> Estimates:
        """Estimates of different as-of times, one after the other; a list belongs to one time alone."""
        if len(parts) == 1:
            return parts[0]
        value, lower, upper = (
            np.concatenate([np.zeros(0), *(getattr(part, name) for part in parts)])
            for name in ("value", "lower", "upper")
        )
        return cls(value, lower, upper, np.concatenate([np.zeros(0, np.int64), *(part.used for part in parts)]))

    def in_order(self, order: Rows) -> Estimates:
        """Those of the as-of times of these numbers."""
        return replace(
            self, value=self.value[order], lower=self.lower[order], upper=self.upper[order], used=self.used[order]
        )


@dataclass(frozen=True)
class Inquiry:
    """One question put to one sample at some as-of times."""

    sample: PoissonSample
    question: Question
    as_of: Ints
    confidence: float
    share_error: float  # ε: a reported heavy hitter's share may be this far below φ
    everything: PoissonSample | None = None  # before the predicate, for a threshold that is an aggregate; None: sample
    unrestricted: PoissonSample | None = None  # before the predicate, with the weights of `sample`; None: sample

    @property
    def decay(self) -> Decay:
        return self.question.decay

    def in_parts(self, more: int = 0) -> list[Inquiry]:
        """The same at few enough as-of times that all rows at each of them, and `more`, are looked at together."""
        rows = max(1, (len(self.sample) + more) * len(self.as_of))
        times = np.array_split(self.as_of, max(1, min(-(-rows // _AT_ONCE), len(self.as_of))))
        return [replace(self, as_of=some) for some in times]

    @cached_property
    def unseen_unit(self) -> Unseen:
        return largest_unseen(self.sample, self.decay, self.as_of, "unit")

    @cached_property
    def unseen_event(self) -> Unseen:
        return largest_unseen(self.sample, self.decay, self.as_of, "event")

    @cached_property
    def factors(self) -> list[DecayFactors]:
        """f of the rows at each as-of time, computed once for all sums."""
        return self._factors_of(self.sample.times)

    def _factors_of(self, times: Ints) -> list[DecayFactors]:
        return [DecayFactors.at(times, moment, self.decay, self.sample.unit) for moment in self.as_of.tolist()]

    def sums(self, coefficients: Coefficients, rows: Rows | None = None) -> Sums:
        """Decayed sums over all rows or some, computed in the cheapest way."""
        chosen = coefficients if rows is None else coefficients.rows(rows)
        if not self.is_small(rows):
            return sums_by_tree(chosen, self.sample.unit, self.decay, self.as_of)
        return sums_by_row(chosen, self.factors if rows is None else self._factors_of(chosen.times))

    def is_small(self, rows: Rows | None = None) -> bool:
        """Whether f of each row is cheaper than f of chunks of rows."""
        return len(self.as_of) <= FEW_TIMES and len(self.sample if rows is None else rows) < MANY_ROWS

    def used(self, rows: Rows | None = None) -> Ints:
        """How many of all rows or some have f > 0, at each as-of time."""
        first, last = rows_that_count(self.sample.times, self.sample.unit, self.decay, self.as_of)
        if rows is not None:
            first, last = np.searchsorted(rows, first), np.searchsorted(rows, last)
        return last - first

    def weight(self, rows: Rows | None = None) -> tuple[Total, Ints]:
        """Σ w·f over all rows or some, and the number of rows with f > 0."""
        sums = self.sums(self.sample.weight_coefficients, rows)
        return sums.total(0, 1, 0, self.unseen_unit), sums.used

    def count(self, rows: Rows | None = None) -> tuple[Total, Ints]:
        """Σ f over all rows or some, and the number of rows with f > 0."""
        sums = self.sums(self.sample.count_coefficients, rows)
        return sums.total(0, 1, 0, self.unseen_event), sums.used

    @cached_property
    def mean_scale(self) -> tuple[float, float]:
        """Means of values are computed as base + scale·(a mean between 0 and 1); of weights, as they are."""
        _, least, greatest = self.sample.summed
        if not self.question.of_value or not np.isfinite(greatest - least):
            return 0.0, 1.0
        return least, (greatest - least) or 1.0

    @property
    def mean_coefficients(self) -> Coefficients:
        """Those of the mean that is asked for: of the values by weight, or of the weight over the number of events."""
        if self.question.of_value:
            return self.sample.value_mean_coefficients(self.mean_scale[1])
        return self.sample.mean_coefficients

    def between(self, low: float | None, high: float | None) -> Rows:
        """Numbers of the rows with low ≤ v ≤ high."""
        if self.sample.kind is Kind.INTEGER:  # with whole bounds, numpy need not convert every value to a float
            low, high = _whole(low, math.ceil), _whole(high, math.floor)
        return self.sample.between(low, high)

    def equal(self, value: float | str) -> Rows:
        """Numbers of the rows with v = value."""
        if self.sample.kind is Kind.KEY:
            if not isinstance(value, str):
                raise UnanswerableError(f"value is {value!r}, but what it is compared with is text")
            return np.flatnonzero(self.sample.values == np.uint64(hash_one(value)))
        if isinstance(value, str):
            raise UnanswerableError(f"value is {value!r}, but this stream's values are numbers")
        return self.between(value, value)


def _whole(bound: float | None, towards: Callable[[float], int]) -> float | None:
    """The whole number that bounds whole values equally, with all its digits; infinities stay floats."""
    return towards(bound) if bound is not None and math.isfinite(bound) else bound
