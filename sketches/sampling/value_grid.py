"""Decayed sums by value at many as-of times, without a pass over the rows for each time.

The rows of a sample lie on a grid: chunks of neighbours in time by blocks of neighbours in value. In each cell the sums
of the coefficients are known, plain and multiplied by the time since the chunk began. Within a chunk f is nearly
a line, so the decayed sums of all blocks at all times are products of two matrices. Chunks in which f bends or jumps,
and the chunk in which the as-of time lies, are added row by row.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sketches.arrays import Floats, Ints
from sketches.decay import Decay
from sketches.sampling.coefficients import Coefficients
from sketches.sampling.piecewise_decay import NEGLIGIBLE, TOLERANCE, PiecewiseDecay
from sketches.sampling.poisson_sample import PoissonSample
from sketches.units import TimeUnit

CHUNK: Final = 512  # rows
WORTHWHILE: Final = 32 * CHUNK  # rows from which the grid is faster than passes over them
_BENT: Final = 5e-4  # relative error of a line from which on the rows of a chunk are looked at; the limits move by it


@dataclass(frozen=True, slots=True)
class BlockSums:
    """For each as-of time (first axis) and each sum (second axis) the decayed sum of each block of values."""

    linear: Floats
    squared: Floats
    used: Ints
    relative_error: float


@dataclass(frozen=True)
class ValueGrid:
    """Coefficients of rows sorted by time, and for each row the number of its block of values."""

    coefficients: Coefficients
    block: NDArray[np.int32]
    blocks: int

    @cached_property
    def starts(self) -> Ints:
        return _starts(len(self.coefficients.times))

    @cached_property
    def cells(self) -> tuple[Floats, Floats, Floats, Floats]:
        """The sums of each cell, plain and times the time since the chunk began, of both kinds of coefficients."""
        times = self.coefficients.times
        linear, squared = self.coefficients.linear, self.coefficients.squared
        return (*_cells(times, linear, self.block, self.blocks), *_cells(times, squared, self.block, self.blocks))

    def sums(self, unit: TimeUnit, decay: Decay, as_of: Ints) -> BlockSums:
        """The decayed sums of all blocks at all times."""
        times = self.coefficients.times
        lines = _lines(times, unit, decay, as_of)
        plain, moment, square_plain, square_moment = self.cells
        whole, square_whole = self.whole
        linear = _products(lines.height, lines.slope, plain, moment, whole)
        squared = _products(lines.square_height, lines.square_slope, square_plain, square_moment, square_whole)
        counting = (lines.height > 0) | (lines.slope > 0)
        used = counting.astype(np.int64) @ np.diff(self.starts)
        table = PiecewiseDecay.reaching(times, int(as_of.max()), unit, decay, TOLERANCE)
        _add_rows(
            times, self.coefficients.linear, self.coefficients.squared, self.block, self.starts, *lines.by_row, as_of,
            table.first, table.height, table.slope, linear, squared, used,
        )  # fmt: skip
        return BlockSums(linear, squared, used, max(table.relative_error, 2.0 * lines.error))

    @cached_property
    def whole(self) -> tuple[Floats, Floats]:
        """The sums of all chunks before each, and of all, for each block."""
        linear, _, squared, _ = self.cells
        up_to = (np.cumsum(cells, axis=1) for cells in (linear, squared))
        return tuple(np.concatenate([cells[:, :1] * 0.0, cells], axis=1) for cells in up_to)  # type: ignore[return-value]


def grid_of(sample: PoissonSample, coefficients: Coefficients, stride: int) -> ValueGrid:
    """The grid of some coefficients of a sample, with blocks of `stride` rows in the order of values; it is kept."""
    grids = coefficients.grids
    if stride not in grids:
        grids.clear()
        blocks = (len(sample) + stride - 1) // stride
        grids[stride] = ValueGrid(coefficients, sample.blocks(stride), blocks)
    grid: ValueGrid = grids[stride]
    return grid


def _starts(rows: int) -> Ints:
    """The first row of each chunk, and the number of rows."""
    return np.append(np.arange(0, rows, CHUNK), rows)


_latest: list[tuple[Ints, TimeUnit, Decay, bytes, _Lines]] = []  # a threshold and the sums above it need the same ones


def _lines(times: Ints, unit: TimeUnit, decay: Decay, as_of: Ints) -> _Lines:
    """The lines of all chunks; those asked for last are remembered."""
    asked = as_of.tobytes()
    for known, *about, moments, lines in _latest[:1]:
        if known is times and about == [unit, decay] and moments == asked:
            return lines
    starts = _starts(len(times))
    found = _Lines.of(times[starts[:-1]], times[starts[1:] - 1], unit, decay, as_of)
    _latest[:] = [(times, unit, decay, asked, found)]
    return found


@dataclass(frozen=True, slots=True)
class _Lines:
    """For each time and chunk f and f² as lines over the time since the chunk began, 0 where rows must be looked at."""

    height: Floats
    slope: Floats
    square_height: Floats
    square_slope: Floats
    by_row: tuple[Ints, Ints]  # the times and the chunks of which the rows must be looked at
    error: float  # the largest relative one of a line

    @classmethod
    def of(cls, first: Ints, last: Ints, unit: TimeUnit, decay: Decay, as_of: Ints) -> _Lines:
        """Only chunks that have begun by a time and are within the decay's reach then are looked at."""
        reach = decay.horizon * unit.denominator / unit.numerator
        begun = first <= as_of[:, None]
        if reach < float(1 << 62):
            begun &= as_of[:, None] - last < np.ceil(reach)
        times, chunks = np.nonzero(begun)
        moment, begin, length = as_of[times], first[chunks], (last - first)[chunks]

        def at(moments: Ints) -> Floats:
            return decay(unit.seconds(np.maximum(moment - moments, 0)))

        start, end, error = at(begin), at(begin + length), np.zeros(len(times))
        for quarter in (1, 2, 3):
            probe = length * quarter // 4
            exact = at(begin + probe)
            line = start + (end - start) * (probe / np.maximum(length, 1))
            error = np.maximum(error, np.abs(exact - line) / np.maximum(exact, NEGLIGIBLE))
        straight = (begin + length <= moment) & (error <= _BENT)
        span = np.maximum(length, 1)
        columns = np.zeros((4, len(as_of), len(first)))
        numbers = (start, (end - start) / span, np.square(start), (np.square(end) - np.square(start)) / span)
        for column, number in zip(columns, numbers, strict=True):
            column[times, chunks] = number * straight
        height, slope, square_height, square_slope = columns
        rows = times[~straight], chunks[~straight]
        error_of_lines = float(error[straight].max(initial=0.0))
        return cls(height, slope, square_height, square_slope, rows, error_of_lines)


def _products(height: Floats, slope: Floats, plain: Floats, moment: Floats, whole: Floats) -> Floats:
    """height @ plain + slope @ moment for each sum. Under a window f is 1 in neighbouring chunks: `whole`, the sums of
    all chunks up to each, is enough."""
    counting = height != 0
    if not slope.any() and (height[counting] == 1.0).all():
        begins, size = counting.argmax(axis=1), counting.sum(axis=1)
        ends = np.where(size > 0, counting.shape[1] - counting[:, ::-1].argmax(axis=1), begins)
        if (ends - begins == size).all():
            return np.ascontiguousarray((whole[:, ends] - whole[:, begins]).swapaxes(0, 1))
    found = np.empty((len(height), len(plain), plain.shape[2]))
    for which in range(len(plain)):
        found[:, which] = height @ plain[which] + slope @ moment[which]
    return found


@njit(cache=True, nogil=True)
def _cells(times: Ints, rows: Floats, block: NDArray[np.int32], blocks: int) -> tuple[Floats, Floats]:
    chunks = (len(times) + CHUNK - 1) // CHUNK
    plain = np.zeros((len(rows), chunks, blocks))
    moment = np.zeros((len(rows), chunks, blocks))
    for row in range(len(times)):
        chunk = row // CHUNK
        offset = np.float64(times[row] - times[chunk * CHUNK])
        for which in range(len(rows)):
            plain[which, chunk, block[row]] += rows[which, row]
            moment[which, chunk, block[row]] += rows[which, row] * offset
    return plain, moment


@njit(cache=True, nogil=True)
def _add_rows(
    times: Ints,
    linear: Floats,
    squared: Floats,
    block: NDArray[np.int32],
    starts: Ints,
    moments: Ints,
    chunks: Ints,
    as_of: Ints,
    first: Ints,
    height: Floats,
    slope: Floats,
    sums: Floats,
    squares: Floats,
    used: Ints,
) -> None:
    """Add the rows of single chunks at single times, from the newest to the oldest, along the pieces of the decay."""
    for pair in range(len(moments)):
        at, chunk = moments[pair], chunks[pair]
        now = as_of[at]
        piece = np.searchsorted(first, max(now - times[starts[chunk + 1] - 1], 0), side="right") - 1
        for row in range(starts[chunk + 1] - 1, starts[chunk] - 1, -1):
            age = now - times[row]
            if age < 0:
                continue
            while piece < len(height) and age >= first[piece + 1]:
                piece += 1
            if piece >= len(height):
                break
            factor = height[piece] + slope[piece] * (age - first[piece])
            used[at] += 1
            for which in range(len(linear)):
                sums[at, which, block[row]] += linear[which, row] * factor
            for which in range(len(squared)):
                squares[at, which, block[row]] += squared[which, row] * factor * factor
