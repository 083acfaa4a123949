"""Chunks of neighbours in time, small and large, over each of which a decay is nearly a polynomial of its age.

Rows sorted by time form chunks, and neighbouring chunks form larger ones, up to a handful that hold all. Over the ages
of a chunk f is taken for the polynomial of degree 4 that it equals at five ages, from the newest to the oldest. What a
chunk adds to a decayed sum is then five products of f with weights that depend neither on the decay nor on the as-of
time: each row's part of them is Lagrange's polynomial at its age (Berrut and Trefethen, SIAM Review 46, 2004).

`TimeTree.cover` finds for each as-of time the largest chunks over which f is close enough to its polynomial, as is
measured at the four ages halfway between the five. The smallest chunks of which even that cannot be said, because f
jumps there or the as-of time lies inside, are left to be added row by row. All as-of times go down the tree together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from sketches.arrays import Flags, Floats, Ints, Rows, product
from sketches.decay import Decay
from sketches.records import dataclass
from sketches.units import TimeUnit

NODES: Final = 5  # ages at which f is known in a chunk
FAN_OUT: Final = 8  # chunks that form a larger one
SQUARE_TOLERANCE: Final = 1e-3  # relative to f², which only variances need
_AT_ONCE: Final = 1 << 14  # rows whose weights fit into the processor's cache
_MOST_ROWS: Final = 1 << 18  # that are looked at together
_FEW_CHUNKS: Final = 16  # that need no larger ones
_NEGLIGIBLE: Final = 1e-8  # of f of the newest row: smaller ones need no relative precision
_ROUNDING: Final = 1e-13
_PROBES: Final = 64  # ages at which f is looked at together, in search of where it ends
_POSITIONS: Final = np.linspace(0.0, 1.0, 2 * NODES - 1)  # from newest to oldest: the ages of f and those between them


def powers(positions: Floats) -> Floats:
    """The powers (first axis) of which polynomials over a chunk are made; positions are 0 at its newest time and 1 at
    its oldest."""
    found = np.ones((NODES, *positions.shape))
    np.subtract(2.0 * positions, 1.0, out=found[1])
    for power in range(2, NODES):
        np.multiply(found[power - 1], found[1], out=found[power])
    return found


_LAGRANGE: Final = np.linalg.inv(powers(_POSITIONS[::2])).astype(np.float64)  # Lagrange's polynomials as sums of powers
_BETWEEN: Final = (_LAGRANGE @ powers(_POSITIONS[1::2])).T  # from f at the five ages to the polynomial at the four


class Chunks(NamedTuple):
    """Neighbours of equally many rows: the oldest and the newest time of each chunk."""

    oldest: Ints
    newest: Ints

    @property
    def lengths(self) -> Ints:
        return self.newest - self.oldest


class Pairs(NamedTuple):
    """Chunks that count at as-of times, by the numbers of both, and f at the five ages (first axis)."""

    times: Rows
    chunks: Rows
    factors: Floats


class Cover(NamedTuple):
    """What counts at each as-of time: chunks of each size, from the largest to the smallest, and smallest chunks of
    which the rows must be looked at."""

    pairs: list[Pairs]
    by_row: tuple[Rows, Rows]  # as-of times and chunks
    relative_error: Floats  # of f, at each as-of time: twice the largest that was measured
    faint_error: Floats  # the same of f itself, where f is too small to need relative precision


@dataclass(frozen=True)
class TimeTree:
    """The chunks of rows sorted by time, of which the smallest hold `leaf` rows each."""

    times: Ints
    leaf: int

    @cached_property
    def levels(self) -> list[Chunks]:
        """From the largest chunks to the smallest."""
        levels, size, rows = [], self.leaf, len(self.times)
        while rows:
            starts = np.arange(0, rows, size)
            levels.append(Chunks(self.times[starts], self.times[np.minimum(starts + size, rows) - 1]))
            if len(starts) <= _FEW_CHUNKS:
                break
            size *= FAN_OUT
        return levels[::-1]

    def by_row(self, cover: Cover, unit: TimeUnit, decay: Decay, as_of: Ints) -> Iterator[tuple[Rows, Rows, Floats]]:
        """The chunks of a cover that are added row by row, some after the other: a line for each with the number of its
        as-of time, and its rows with f of each."""
        times, chunks = cover.by_row
        for start in range(0, len(times), _MOST_ROWS // self.leaf):
            these = slice(start, start + _MOST_ROWS // self.leaf)
            rows = chunks[these, None] * self.leaf + np.arange(self.leaf)
            there = rows < len(self.times)  # the last chunk may be short
            rows = np.minimum(rows, len(self.times) - 1)
            yield times[these], rows, decay(unit.seconds(as_of[times[these], None] - self.times[rows])) * there

    def by_power(self) -> Iterator[tuple[slice, slice, Floats]]:
        """Some smallest chunks after the other: which they are, their rows, and the powers of these."""
        chunks, together = self.levels[-1], max(1, _AT_ONCE // self.leaf)
        for start in range(0, len(chunks.oldest), together):
            these = slice(start, min(start + together, len(chunks.oldest)))
            rows = slice(start * self.leaf, min(these.stop * self.leaf, len(self.times)))
            newest, length = (
                np.repeat(column[these], self.leaf)[: rows.stop - rows.start]
                for column in (chunks.newest, np.maximum(chunks.lengths, 1))
            )
            yield these, rows, powers((newest - self.times[rows]) / length)

    def weights(self, columns: Sequence[Floats]) -> list[Floats]:
        """The weights of the sums of some columns, in chunks of all sizes: chunks, the five ages, sums."""
        found = np.empty((len(self.levels[-1].oldest), NODES, len(columns)))
        for these, rows, by_power in self.by_power():
            whole = (rows.stop - rows.start) // self.leaf  # chunks: the last of all may be short
            parts = [(slice(these.start, these.start + whole), slice(0, whole * self.leaf), self.leaf)]
            if these.start + whole < these.stop:
                rest = slice(whole * self.leaf, rows.stop - rows.start)
                parts.append((slice(these.start + whole, these.stop), rest, rest.stop - rest.start))
            for chunks, part, size in parts:
                lines = by_power[:, part].reshape(NODES, -1, size)
                for at, column in enumerate(columns):
                    found[chunks, :, at] = np.einsum("jcr,cr->cj", lines, column[rows][part].reshape(-1, size))
        return self.of_all_sizes(found)

    def of_all_sizes(self, sums: Floats) -> list[Floats]:
        """The weights of chunks of all sizes, from the sums by power of the smallest: chunks, powers, and whatever is
        summed; powers become ages."""
        found = [_LAGRANGE @ sums]
        for larger, smaller in zip(self.levels[-2::-1], self.levels[:0:-1], strict=True):
            parents = np.arange(len(smaller.oldest)) // FAN_OUT
            nodes = (larger.newest[parents] - smaller.newest) + smaller.lengths * _POSITIONS[::2, None]
            by_power = powers(nodes / np.maximum(larger.lengths[parents], 1))
            shares = product(_LAGRANGE, by_power.reshape(NODES, -1)).reshape(by_power.shape)
            moved = shares.transpose(2, 0, 1) @ found[-1]
            found.append(np.add.reduceat(moved, np.arange(0, len(parents), FAN_OUT), axis=0))
        return found[::-1]

    def cover(self, unit: TimeUnit, decay: Decay, as_of: Ints, tolerance: float) -> Cover:
        """The chunks that count at each as-of time; there is at least one row."""
        least = _NEGLIGIBLE * self._newest_factors(unit, decay, as_of)
        error, faint = np.zeros(len(as_of)), np.zeros(len(as_of))
        times, chunks = (place.ravel() for place in np.indices((len(as_of), len(self.levels[0].oldest))))
        found: list[Pairs] = []
        for level in self.levels:
            if found:
                times = np.repeat(times, FAN_OUT)
                chunks = (chunks[:, None] * FAN_OUT + np.arange(FAN_OUT)).ravel()
                there = chunks < len(level.oldest)
                times, chunks = times[there], chunks[there]
            begun = level.oldest[chunks] <= as_of[times]
            times, chunks = times[begun], chunks[begun]
            age = as_of[times] - level.newest[chunks]
            length = level.newest[chunks] - level.oldest[chunks]
            ages = unit.seconds(np.maximum(age, 0) + length * _POSITIONS[:, None])
            factors = decay(ages)
            split = age < 0  # the as-of time lies inside
            close, relative = _close(factors, least[times], tolerance)
            whole = close & ~split
            np.maximum.at(error, times[whole], np.where(relative <= tolerance, relative, 0.0)[whole])
            if (loose := whole & (relative > tolerance)).any():
                np.maximum.at(faint, times[loose], tolerance * least[times[loose]])
            counts = whole & (factors[0] > 0.0)
            found.append(Pairs(times[counts], chunks[counts], factors[::2, counts]))
            deeper = ~whole & ((factors[0] > 0.0) | split)
            times, chunks = times[deeper], chunks[deeper]
        return Cover(found, (times, chunks), np.where(error > _ROUNDING, 2.0 * error, 0.0), 2.0 * faint)

    def _newest_factors(self, unit: TimeUnit, decay: Decay, as_of: Ints) -> Floats:
        """f of the newest row at each as-of time."""
        newest = np.maximum(np.searchsorted(self.times, as_of, side="right") - 1, 0)
        return decay(unit.seconds(np.maximum(as_of - self.times[newest], 0)))

    def used(self, unit: TimeUnit, decay: Decay, as_of: Ints) -> Ints:
        """How many rows have f > 0 at each as-of time."""
        first, last = rows_that_count(self.times, unit, decay, as_of)
        return last - first


def rows_that_count(times: Ints, unit: TimeUnit, decay: Decay, as_of: Ints) -> tuple[Rows, Rows]:
    """The first row with f > 0 at each as-of time, and the one behind the last: f never rises, so they are
    neighbours."""
    last = np.searchsorted(times, as_of, side="right")
    if not len(times) or not len(as_of):
        return last, last
    oldest = oldest_age(unit, decay, max(int(as_of.max()) - int(times[0]), 0))
    return np.minimum(np.searchsorted(times, as_of - oldest), last), last


def oldest_age(unit: TimeUnit, decay: Decay, most: int) -> int:
    """The oldest whole age up to this one at which f > 0; -1 where there is none."""
    if decay(unit.seconds(np.array([most])))[0] > 0.0:
        return most
    counts, fades = -1, most  # f > 0 up to the one, and not from the other on
    ages = np.arange(-2, 1) + min(unit.whole(decay.horizon), most)  # f may end where the decay says
    ages = ages[(ages > counts) & (ages < fades)]
    while fades - counts > 1:
        if not len(ages):
            ages = np.arange(counts + 1, fades, max(1, (fades - counts) // _PROBES))
        positive = int(np.count_nonzero(decay(unit.seconds(ages)) > 0.0))
        counts = int(ages[positive - 1]) if positive else counts
        fades = int(ages[positive]) if positive < len(ages) else fades
        ages = ages[:0]
    return counts


def _close(factors: Floats, least: Floats, tolerance: float) -> tuple[Flags, Floats]:
    """Whether f and f² are close to their polynomials, and how far f is, relatively, at the worst place."""
    known, between = factors[::2], factors[1::2]
    off = np.abs(product(_BETWEEN, known) - between)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        relative = np.where(off > 0.0, off / between, 0.0).max(axis=0)
    close = off <= tolerance * np.maximum(between, least)
    squares = np.square(between)
    off = np.abs(product(_BETWEEN, np.square(known)) - squares)
    close &= off <= SQUARE_TOLERANCE * np.maximum(squares, np.square(least))
    return np.asarray(close.all(axis=0)), relative
