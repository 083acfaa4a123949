"""The kept values of many KLL sketches side by side, and how many rows a decay leaves below a value.

Sketches of the same stretch of time fade alike, so what is kept is sorted once and every value knows its stretch. At
each as-of time a stretch has a least, a greatest and a middle factor. A quantile is the place where a sum of factors
along the sorted values reaches a target: the sums are known at a few hundred places, and counted out between two of
them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Final, Literal

import numpy as np

from sketches.arrays import Column, Flags, Floats, Ints
from sketches.decay import Decay
from sketches.kll.kll_bytes import KllBytes, rank_error
from sketches.predicate import Range
from sketches.records import dataclass
from sketches.time_ranges import TimeRanges, elapsed
from sketches.units import TimeUnit

NORMAL_99: Final = 2.5758293035489004  # standard deviations that hold 99% of what is normal
_TABLE: Final = 1 << 22  # numbers in the table of sums along the values
_MOST_PLACES: Final = 512
_AT_ONCE: Final = 1 << 21  # factors
_POINTS: Final = 16  # at which a decay is averaged over a stretch


@dataclass(frozen=True, slots=True)
class Part:
    """A sketch, and between which times its events came, both included."""

    sketch: KllBytes
    oldest: int
    newest: int


@dataclass(frozen=True, slots=True)
class Factors:
    """What an event of each stretch (columns) counts at each moment (rows): at the least, at the most, about."""

    moments: Ints
    least: Floats
    most: Floats
    middle: Floats


@dataclass(frozen=True)
class DecayedRanks:
    """Parts side by side; `variance` is that of the ranks of each part, in rows squared: for one end, and for two."""

    ranges: TimeRanges
    stretch: Ints  # of each part
    rows: Floats
    variance: Floats
    between: Floats
    ends: tuple[Column, Column]  # the least and the greatest value of each part
    values: Column  # in order
    of: Ints  # the stretch of each value
    weights: Floats

    @classmethod
    def of_parts(cls, parts: Sequence[Part], dtype: type[np.generic], unit: TimeUnit) -> DecayedRanks:
        """Parts of any times; a value stands for as many rows as its sketch says."""
        spans = np.array([(part.oldest, part.newest) for part in parts], np.int64).reshape(-1, 2)
        distinct, stretch = np.unique(spans, axis=0, return_inverse=True)
        stretch = stretch.reshape(-1).astype(np.int64)
        rows = np.array([part.sketch.rows for part in parts], np.float64)
        kept = np.array([len(part.sketch.values) for part in parts], np.int64)
        errors = [
            np.array([0.0 if one.sketch.exact else rank_error(one.sketch.least_k, ends=ends) for one in parts])
            for ends in (1, 2)
        ]
        variance, between = ((error * rows / NORMAL_99) ** 2 for error in errors)
        values = np.concatenate([np.empty(0, dtype), *(part.sketch.values.astype(dtype) for part in parts)])
        weights = np.concatenate([np.zeros(0), *(part.sketch.weights for part in parts)])
        order = np.argsort(values, kind="stable")
        least, greatest = (
            np.array([getattr(part.sketch, end) for part in parts], dtype) for end in ("least", "greatest")
        )
        return cls(
            TimeRanges(distinct[:, 0], distinct[:, 1], unit),
            stretch,
            rows,
            variance,
            between,
            (least, greatest),
            values[order],
            np.repeat(stretch, kept)[order],
            weights[order],
        )

    # 1. What decays.

    def factors(self, decay: Decay, moments: Ints) -> list[Factors]:
        """The factors of all stretches, for some moments at a time."""
        step = max(1, _AT_ONCE // max(1, len(self.ranges)))
        return [self._factors(decay, moments[at : at + step]) for at in range(0, len(moments), step)]

    def _factors(self, decay: Decay, moments: Ints) -> Factors:
        least, most = self.ranges.limits(decay, moments)
        middle = np.zeros_like(most)
        for point in (np.arange(_POINTS) + 0.5) / _POINTS:
            time = self.ranges.first + np.floor(elapsed(self.ranges.last, self.ranges.first) * point).astype(np.int64)
            come = time <= moments[:, None]
            age = self.ranges.unit.seconds(elapsed(np.maximum(moments[:, None], time), time))
            middle += np.where(come, decay(age), 0.0) / _POINTS
        return Factors(moments, least, most, np.clip(middle, least, most))

    @cached_property
    def total(self) -> Floats:
        """The rows of each stretch."""
        return self._by_stretch(self.rows)

    @cached_property
    def spread(self) -> Floats:
        """The variance of a rank in each stretch."""
        return self._by_stretch(self.variance)

    def _by_stretch(self, of_parts: Floats) -> Floats:
        found: Floats = np.bincount(self.stretch, of_parts, minlength=len(self.ranges)).astype(np.float64)
        return found

    # 2. Ranges that are the same at every moment.

    def within(self, limits: Range) -> tuple[Floats, Floats]:
        """How many rows of each stretch have values in a range, and the variance of these numbers."""
        ends = limits.closed(whole=self.values.dtype.kind == "i")
        if ends.empty or len(self.values) == 0:
            return np.zeros(len(self.ranges)), np.zeros(len(self.ranges))
        first, last = self._place(ends.low, "left"), self._place(ends.high, "right")
        inside = slice(first, max(first, last))
        rows = np.bincount(self.of[inside], self.weights[inside], minlength=len(self.ranges)).astype(np.float64)
        least, greatest = self.ends
        low, high = self._cuts(ends.low, least, greatest, below=True), self._cuts(ends.high, least, greatest)
        return rows, self._by_stretch(np.where(low & high, self.between, np.where(low | high, self.variance, 0.0)))

    def _place(self, bound: float, side: Literal["left", "right"]) -> int:
        """How many of the sorted values are below a bound, or at it at the most; whole ones with all their digits."""
        if self.values.dtype.kind == "i" and np.isfinite(bound):
            if not -(2**63) <= bound < 2**63:
                return 0 if bound < 0 else len(self.values)
            return int(np.searchsorted(self.values, np.int64(bound), side=side))
        return int(np.searchsorted(self.values, bound, side=side))

    def _cuts(self, bound: float, least: Column, greatest: Column, *, below: bool = False) -> Flags:
        """Which sketches a bound cuts in two: elsewhere they know exactly that all or none of their rows are beyond."""
        if not np.isfinite(bound):
            return np.zeros(len(least), bool)
        return (least < bound) & (bound <= greatest) if below else (least <= bound) & (bound < greatest)

    # 3. Places along the values, other ones at every moment.

    @cached_property
    def _table(self) -> tuple[Ints, Floats]:
        """Some places along the values, and how many rows of each stretch come before them."""
        stretches = len(self.ranges)
        count = int(np.clip(_TABLE // max(1, stretches), 8, _MOST_PLACES))
        edges = np.unique(np.linspace(0, len(self.values), count + 1).astype(np.int64))
        cell = np.repeat(np.arange(len(edges) - 1), np.diff(edges))
        flat = np.bincount(
            self.of * (len(edges) - 1) + cell, self.weights, minlength=stretches * (len(edges) - 1)
        ).reshape(stretches, len(edges) - 1)
        before = np.zeros((stretches, len(edges)))
        np.cumsum(flat, axis=1, out=before[:, 1:])
        return edges, before

    def reached(self, factors: Floats, targets: Floats) -> Ints:
        """At each moment the first of the values at which the sum up to and with it reaches a target; as many as there
        are values where none does."""
        edges, before = self._table
        sums = factors @ before
        found = np.full(len(targets), len(self.values), np.int64)
        for row, (target, line) in enumerate(zip(targets.tolist(), sums, strict=True)):
            cell = int(np.searchsorted(line, target))
            if cell == 0:
                found[row] = 0
            elif cell < len(edges):
                here = slice(edges[cell - 1], edges[cell])
                along = line[cell - 1] + np.cumsum(factors[row, self.of[here]] * self.weights[here])
                found[row] = min(int(edges[cell - 1] + np.searchsorted(along, target)), int(edges[cell]) - 1)
        return found

    def summed(self, factors: Floats, until: Ints) -> Floats:
        """At each moment the sum of what comes before a place."""
        edges, before = self._table
        cell = np.searchsorted(edges, until, side="right") - 1
        found: Floats = np.einsum("tg,gt->t", factors, before[:, cell])
        for row, (start, end) in enumerate(zip(edges[cell].tolist(), until.tolist(), strict=True)):
            found[row] += factors[row, self.of[start:end]] @ self.weights[start:end]
        return found
