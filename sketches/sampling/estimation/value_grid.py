"""Decayed sums by value at many as-of times, without a pass over the rows for each time.

The rows of a sample lie on a grid: chunks of neighbours in time by blocks of neighbours in value. Each cell has the
weights of `estimation.time_tree`, so the decayed sums of all blocks at all times are a product of two matrices:
f at five ages of each chunk, and the weights of the cells. Chunks in which f bends or jumps, and the chunk in which the
as-of time lies, are added row by row.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sketches.arrays import Floats, Ints, Rows, product
from sketches.decay import Decay
from sketches.records import dataclass
from sketches.sampling.estimation.coefficients import Coefficients
from sketches.sampling.estimation.horvitz_thompson import cover_error
from sketches.sampling.estimation.piecewise_decay import TOLERANCE
from sketches.sampling.estimation.poisson_sample import PoissonSample
from sketches.sampling.estimation.time_tree import NODES, Pairs, TimeTree
from sketches.units import TimeUnit

_BLOCKS: Final = 512  # of values, at most
_CHUNKS: Final = 256  # that many, unless they would be smaller or larger than this
_LEAST_CHUNK: Final = 64
_LARGEST_CHUNK: Final = 1024
_TOGETHER: Final = 16  # as-of times that are multiplied at once: neighbours have the same chunks


@dataclass(frozen=True, slots=True)
class BlockSums:
    """For each as-of time (first axis) and each sum (second axis) the decayed sum of each block of values."""

    linear: Floats
    squared: Floats
    used: Ints
    relative_error: Floats


class _Kind(NamedTuple):
    """Some coefficients, and what the rows of each cell weigh, in chunks of each size."""

    columns: Sequence[Floats]
    cells: list[Floats]  # a line for each chunk and age, a column for each sum and block
    plain: list[Floats]  # the same of all ages together, a line for each chunk


@dataclass(frozen=True)
class ValueGrid:
    """Coefficients of rows sorted by time, and for each row the number of its block of values."""

    coefficients: Coefficients
    block: NDArray[np.int32]
    blocks: int

    @cached_property
    def tree(self) -> TimeTree:
        rows = len(self.coefficients.times)
        leaf = min(max(1 << (rows // _CHUNKS).bit_length(), _LEAST_CHUNK), _LARGEST_CHUNK)
        return TimeTree(self.coefficients.times, leaf)

    @cached_property
    def kinds(self) -> tuple[_Kind, _Kind]:
        """What is multiplied with f, and what with f²."""
        return self._kind(self.coefficients.linear), self._kind(self.coefficients.squared)

    def _kind(self, columns: Sequence[Floats]) -> _Kind:
        cells = np.empty((len(self.tree.levels[-1].oldest), NODES, len(columns), self.blocks))
        for these, rows, by_power in self.tree.by_power():
            length, chunks = rows.stop - rows.start, these.stop - these.start
            first = (np.arange(length) // self.tree.leaf) * (NODES * self.blocks) + self.block[rows]
            places = (first + (np.arange(NODES) * self.blocks)[:, None]).ravel()
            for at, column in enumerate(columns):
                found = np.bincount(places, (by_power * column[rows]).ravel(), chunks * NODES * self.blocks)
                cells[these, :, at] = found.reshape(chunks, NODES, self.blocks)
        every = self.tree.of_all_sizes(cells.reshape(len(cells), NODES, -1))
        return _Kind(columns, [one.reshape(-1, one.shape[2]) for one in every], [one.sum(axis=1) for one in every])

    def sums(self, unit: TimeUnit, decay: Decay, as_of: Ints) -> BlockSums:
        """The decayed sums of all blocks at all times."""
        cover = self.tree.cover(unit, decay, as_of, TOLERANCE)
        found = [np.zeros((len(as_of), len(kind.columns), self.blocks)) for kind in self.kinds]
        for power, (sums, kind) in enumerate(zip(found, self.kinds, strict=True), start=1):
            for pairs, cells, plain in zip(cover.pairs, kind.cells, kind.plain, strict=True):
                factors, weights = pairs.factors**power, cells
                if (factors == factors[:1]).all():  # f is the same over each chunk, as in a window
                    factors, weights = factors[:1], plain
                _add_products(pairs, factors, weights, sums.reshape(len(as_of), -1))
        for times, rows, factors in self.tree.by_row(cover, unit, decay, as_of):
            self._add_rows(times, rows, factors, found)
        linear, squared = (np.maximum(sums, 0.0, out=sums) for sums in found)
        error = cover_error(self.coefficients, cover, linear.sum(axis=2))
        return BlockSums(linear, squared, self.tree.used(unit, decay, as_of), error)

    def _add_rows(self, times: Rows, rows: Rows, factors: Floats, found: list[Floats]) -> None:
        """Add rows one by one, each line of them at its as-of time."""
        begin, end = int(times[0]), int(times[-1]) + 1
        counts = np.flatnonzero(factors)
        places = ((times - begin)[:, None] * self.blocks + self.block[rows]).ravel()[counts]
        these, decayed = rows.ravel()[counts], factors.ravel()[counts]
        for power, (sums, kind) in enumerate(zip(found, self.kinds, strict=True), start=1):
            faded = decayed**power
            for at, column in enumerate(kind.columns):
                added = np.bincount(places, column[these] * faded, (end - begin) * self.blocks)
                sums[begin:end, at] += added.reshape(end - begin, self.blocks)


def _add_products(pairs: Pairs, factors: Floats, weights: Floats, found: Floats) -> None:
    """Add what chunks of one size weigh: f (first axis: ages) times the weights of cells, for some times at once."""
    ages, step = len(factors), _TOGETHER
    edges = np.searchsorted(pairs.times, np.arange(0, len(found) + step, step)).tolist()
    for at, (start, stop) in enumerate(pairwise(edges)):
        if start == stop:
            continue
        times, chunks = slice(at * step, min((at + 1) * step, len(found))), pairs.chunks[start:stop]
        first, last = int(chunks.min()), int(chunks.max()) + 1
        matrix = np.zeros((times.stop - times.start, last - first, ages))
        matrix[pairs.times[start:stop] - times.start, chunks - first] = factors[:, start:stop].T
        found[times] += product(matrix.reshape(len(matrix), -1), weights[first * ages : last * ages])


def stride_of(sample: PoissonSample) -> int:
    """How many rows, in the order of values, a block holds."""
    return max(1, -(-len(sample) // _BLOCKS))


def grid_of(sample: PoissonSample, coefficients: Coefficients, stride: int) -> ValueGrid:
    """The grid of some coefficients of a sample, with blocks of `stride` rows in the order of values; it is kept."""
    blocks = (len(sample) + stride - 1) // stride
    grid: ValueGrid = coefficients.grids.get(stride, lambda: ValueGrid(coefficients, sample.blocks(stride), blocks))
    return grid
