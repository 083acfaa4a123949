"""What is left to estimate beside exact totals: Σ (y·f - g·z)/π over kept events, and the variance of that.

f is the decay at an event's age, g a step function of time, z/π what an event has in the totals. `SliceTree` says where
f is a parabola and what g is there; the rest is sums over the rows of its nodes, which serve every decay and as-of
time. No as-of time is looped over.

With h = f - g and d = y - z, what is left of an event is y·h + g·d. So its square is h²·y² + 2·g·h·y·d + g²·d², in
which nothing cancels: where no row repeats and nothing restricts, d is 0, and h is small beside f.

Several quantities y with their z may be asked together (numerator and denominator of a mean), with their covariances.
The sums without totals come along: what was kept with certainty, what was sampled, and its variance.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from sketches.arrays import Floats, Ints, Rows, ranges
from sketches.decay import Decay
from sketches.records import dataclass
from sketches.sampling.difference_estimator.slice_tree import Cover, Parts, SliceTree
from sketches.sampling.difference_estimator.steps import added_by
from sketches.units import TimeUnit

_PAIRS: Final = {1: ((0, 0),), 2: ((0, 0), (0, 1), (1, 1))}  # whose covariances are computed
_AT_ONCE: Final = 1 << 18  # rows that are looked at together


class Residuals(NamedTuple):
    """For each as-of time (first axis): Σ (y·f - g·z)/π and the covariances of that by pairs; Σ y·f/π of what was kept
    with certainty and of what was sampled, and the covariances of that; and how far sums may be off but for chance."""

    sums: Floats
    covariances: Floats
    certain: Floats
    sampled: Floats
    spreads: Floats
    off: Floats


@dataclass(frozen=True)
class LeanRows:
    """Kept events sorted by time: y/π and z/π, with an axis of quantities first, and 1 - π."""

    tree: SliceTree
    asked: Floats  # y/π
    counted: Floats | None  # z/π; None: the same
    exclusion: Floats

    @property
    def quantities(self) -> int:
        return len(self.asked)

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        return _PAIRS[self.quantities]

    @cached_property
    def weights(self) -> _Columns:
        """What nodes weigh in sums, for all of `_columns`."""
        found = iter(self.tree.weights(lambda rows: [one for kind in self._columns(rows) for one in kind]))
        return _Columns(*([next(found) for _ in kind] for kind in self._columns(slice(0, 0))))

    @cached_property
    def masses(self) -> list[Floats]:
        """The sum of |y| of the rows of each node, for each quantity."""
        return [self.tree.sums(np.abs(column)) for column in self.asked]

    @property
    def masses_of_steps(self) -> Floats:
        """The sum of |y| and |z| of the rows of each slice and group of slices, with an axis of quantities first."""
        asked = np.stack(self.masses)[:, : self.tree.steps]
        if self.counted is None:
            return 2.0 * asked
        return asked + np.stack([self.tree.sums(np.abs(column)) for column in self.counted])[:, : self.tree.steps]

    @cached_property
    def counts(self) -> list[Floats]:
        """The sum of z of the rows of each slice and group of slices, for each quantity."""
        counted = self.asked if self.counted is None else self.counted
        return [self.tree.sums(column)[: self.tree.steps] for column in counted]

    @cached_property
    def besides(self) -> list[Floats]:
        """The sum of d·d of the rows of each slice and group of slices, for each pair."""
        if self.counted is None:
            return []
        lost = self.asked - self.counted
        columns = (lost[one] * lost[other] * self.exclusion for one, other in self.pairs)
        return [self.tree.sums(column)[: self.tree.steps] for column in columns]

    def _columns(self, rows: slice | Rows) -> _Columns:
        """Those of some rows."""
        asked, exclusion = _of(self.asked, rows), self.exclusion[rows]
        certain = np.where(exclusion == 0.0, asked, 0.0)
        products = [asked[one] * asked[other] * exclusion for one, other in self.pairs]
        mixed: list[Floats] = []
        if self.counted is not None:
            lost = asked - _of(self.counted, rows)
            mixed = [(asked[one] * lost[other] + lost[one] * asked[other]) * exclusion for one, other in self.pairs]
        return _Columns([*certain], [*(asked - certain)], products, mixed)


class _Columns(NamedTuple):
    """What is added up of rows: y of those that were kept with certainty, with f, and of the others, with f; products
    y·y, with f² or h²; and twice y·d, with g·h."""

    certain: list[Floats]
    sampled: list[Floats]
    products: list[Floats]
    mixed: list[Floats]


class _Added:
    """Adds up what cells and rows weigh, for each as-of time."""

    def __init__(self, rows: LeanRows, times: int) -> None:
        self.certain, self.sampled, self.off = np.zeros((3, rows.quantities, times))
        self.spreads, self.left = np.zeros((2, len(rows.pairs), times))

    def add(self, times: Rows, factors: Floats, heights: Floats, columns: _Columns) -> None:
        """Of columns with an axis of ages, or without, as f has it."""
        count, axes = self.certain.shape[1], "jp,jp->p" if factors.ndim > 1 else "p,p->p"

        def added(by: Floats, column: Floats) -> Floats:
            return added_by(times, np.einsum(axes, by, column), count)

        above = factors - heights
        squares, left, mixed = np.square(factors), np.square(above), above * heights
        for found, kind in ((self.certain, columns.certain), (self.sampled, columns.sampled)):
            for at, column in enumerate(kind):
                found[at] += added(factors, column)
        for at, column in enumerate(columns.products):
            self.spreads[at] += added(squares, column)
            self.left[at] += added(left, column)
        for at, column in enumerate(columns.mixed):
            self.left[at] += added(mixed, column)


def residuals(rows: LeanRows, cover: Cover, as_of: Ints, decay: Decay, unit: TimeUnit) -> Residuals:
    """What is left at all as-of times."""
    times, (steps, cells, parts) = len(as_of), cover
    found = _Added(rows, times)
    weights = _Columns(*([column.take(cells.nodes, axis=1) for column in kind] for kind in rows.weights))
    found.add(cells.times, cells.factors, cells.heights, weights)
    found.off[:] = [added_by(cells.times, cells.off * mass[cells.nodes], times) for mass in rows.masses]
    for which, numbers in _some(parts):
        at, heights = parts.times[which], parts.heights[which]
        factors = decay(unit.seconds(as_of[at] - rows.tree.times[numbers]))
        found.add(at, factors, heights, rows._columns(numbers))
    sums, left = found.certain + found.sampled, found.left
    for number, mass in enumerate(rows.counts):
        sums[number] -= added_by(steps.times, steps.heights * mass[steps.nodes], times)
    for number, square in enumerate(rows.besides):
        left[number] += added_by(steps.times, np.square(steps.heights) * square[steps.nodes], times)
    for number, (one, other) in enumerate(rows.pairs):
        if one == other:  # of parabolas, a variance that is next to nothing may be below 0
            np.maximum(left[number], 0.0, out=left[number])
    columns = (sums, left, found.certain, found.sampled, np.maximum(found.spreads, 0.0), found.off)
    return Residuals(*(np.ascontiguousarray(column.T) for column in columns))


def _of(columns: Floats, rows: slice | Rows) -> Floats:
    return columns[:, rows] if isinstance(rows, slice) else columns.take(rows, axis=1)


def _some(parts: Parts) -> Iterator[tuple[Rows, Rows]]:
    """The rows of some parts after the other, by number: of which part each is, and which it is."""
    before = np.cumsum(parts.last - parts.first)
    edges = np.flatnonzero(np.diff(before // _AT_ONCE, prepend=-1))
    for start, stop in pairwise([*edges.tolist(), len(before)]):
        numbers, which = ranges(parts.first[start:stop], parts.last[start:stop])
        yield which + start, numbers
