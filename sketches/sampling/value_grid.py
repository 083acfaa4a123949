"""Decayed sums by value at many as-of times, without a pass over the rows for each time.

The rows of a sample lie on a grid: chunks of neighbours in time by blocks of neighbours in value. Each cell has the
weights of `sketches.sampling.time_tree`, so the decayed sums of all blocks at all times are a product of two matrices:
f at five ages of each chunk, and the weights of the cells. Chunks in which f bends or jumps, and the chunk in which the
as-of time lies, are added row by row.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sketches.arrays import Floats, Ints
from sketches.decay import Decay
from sketches.sampling.coefficients import Coefficients
from sketches.sampling.horvitz_thompson import cover_error
from sketches.sampling.piecewise_decay import TOLERANCE
from sketches.sampling.poisson_sample import PoissonSample
from sketches.sampling.time_tree import NODES, Pairs, TimeTree
from sketches.units import TimeUnit

BLOCKS: Final = 512  # of values
_CHUNKS: Final = 256  # that many, unless they would be smaller or larger than this
_LEAST_CHUNK: Final = 64
_LARGEST_CHUNK: Final = 1024
_TOGETHER: Final = 32  # as-of times that are multiplied at once: neighbours have the same chunks


@dataclass(frozen=True, slots=True)
class BlockSums:
    """For each as-of time (first axis) and each sum (second axis) the decayed sum of each block of values."""

    linear: Floats
    squared: Floats
    used: Ints
    relative_error: Floats


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
    def kinds(self) -> tuple[tuple[Floats, list[list[Floats]]], tuple[Floats, list[list[Floats]]]]:
        """The coefficients of both kinds, each with the weights of its cells, in chunks of all sizes."""
        linear, squared = self.coefficients.linear, self.coefficients.squared
        return (linear, [self._cells(one) for one in linear]), (squared, [self._cells(one) for one in squared])

    def _cells(self, column: Floats) -> list[Floats]:
        """A matrix for each size of chunks: a line for each chunk and age, a column for each block."""
        leaf, smallest = self.tree.leaf, len(self.tree.levels[-1].oldest)
        cells = np.empty((smallest, NODES, self.blocks))
        for these, rows, by_power in self.tree.by_power():
            length, chunks = rows.stop - rows.start, these.stop - these.start
            first = (np.arange(length) // leaf) * (NODES * self.blocks) + self.block[rows]
            places = first + (np.arange(NODES) * self.blocks)[:, None]
            found = np.bincount(places.ravel(), (by_power * column[rows]).ravel(), chunks * NODES * self.blocks)
            cells[these] = found.reshape(chunks, NODES, self.blocks)
        return [one.reshape(-1, self.blocks) for one in self.tree.of_all_sizes(cells)]

    def sums(self, unit: TimeUnit, decay: Decay, as_of: Ints) -> BlockSums:
        """The decayed sums of all blocks at all times."""
        cover = self.tree.cover(unit, decay, as_of, TOLERANCE)
        found = [np.zeros((len(columns), len(as_of), self.blocks)) for columns, _ in self.kinds]
        for times, rows, factors in self.tree.by_row(cover, unit, decay, as_of):
            begin, end = int(times[0]), int(times[-1]) + 1
            places = ((times - begin)[:, None] * self.blocks + self.block[rows]).ravel()
            for power, (sums, (columns, _)) in enumerate(zip(found, self.kinds, strict=True), start=1):
                decayed = factors**power
                for total, column in zip(sums, columns, strict=True):
                    added = np.bincount(places, (column[rows] * decayed).ravel(), (end - begin) * self.blocks)
                    total[begin:end] += added.reshape(end - begin, self.blocks)
        for size, pairs in enumerate(cover.pairs):
            self._add_products(size, pairs, found)
        linear, squared = (np.maximum(sums, 0.0).swapaxes(0, 1) for sums in found)
        error = cover_error(self.coefficients, cover, linear.sum(axis=2))
        return BlockSums(linear, squared, self.tree.used(unit, decay, as_of), error)

    def _add_products(self, size: int, pairs: Pairs, found: list[Floats]) -> None:
        """Add what chunks of one size weigh: f at their ages times the weights of cells, for some times at once."""
        edges = np.searchsorted(pairs.times, np.arange(0, found[0].shape[1] + _TOGETHER, _TOGETHER))
        for at, (start, stop) in enumerate(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)):
            if start == stop:
                continue
            times = slice(at * _TOGETHER, min((at + 1) * _TOGETHER, found[0].shape[1]))
            chunks = pairs.chunks[start:stop]
            first, last = int(chunks.min()), int(chunks.max()) + 1
            factors = np.zeros((times.stop - times.start, last - first, NODES))
            factors[pairs.times[start:stop] - times.start, chunks - first] = pairs.factors[:, start:stop].T
            factors = factors.reshape(len(factors), -1)
            lines = slice(first * NODES, last * NODES)
            for power, (sums, (_, cells)) in enumerate(zip(found, self.kinds, strict=True), start=1):
                decayed = factors**power
                for total, of_sizes in zip(sums, cells, strict=True):
                    total[times] += decayed @ of_sizes[size][lines]


def grid_of(sample: PoissonSample, coefficients: Coefficients, stride: int) -> ValueGrid:
    """The grid of some coefficients of a sample, with blocks of `stride` rows in the order of values; it is kept."""
    grids = coefficients.grids
    if stride not in grids:
        grids.clear()
        blocks = (len(sample) + stride - 1) // stride
        grids[stride] = ValueGrid(coefficients, sample.blocks(stride), blocks)
    grid: ValueGrid = grids[stride]
    return grid
