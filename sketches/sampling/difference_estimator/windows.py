"""Sums over sliding windows beside exact totals, from sums of neighbours among rows and among slices.

Within a window every event counts once, so f and g are 1 in the slices that lie in it as a whole, and what they add is
the sum of a range (`RangeSums`). Only the slices that an end of the window cuts are looked at, in which f jumps: g is
the part of such a slice that is in the window.
"""

from __future__ import annotations

from functools import cached_property
from itertools import accumulate
from typing import Final, NamedTuple

import numpy as np

from sketches.arrays import Flags, Floats, Ints, Rows
from sketches.records import dataclass
from sketches.sampling.difference_estimator.range_sums import RangeSums
from sketches.sampling.difference_estimator.residuals import LeanRows, Residuals
from sketches.sampling.difference_estimator.slice_tree import Steps

_ENDS: Final = 2


class Windows(NamedTuple):
    """The windows of some as-of times: of the slices at both ends (first axis) the number, which rows of it are inside
    and g; and where the slices between them begin and end."""

    slices: Rows
    first: Rows
    last: Rows
    heights: Floats
    whole: Flags  # whether all of the slice is inside
    inner: tuple[Rows, Rows]

    def steps(self) -> Steps:
        """The slices at the ends, as `SliceTree.cover` has them, numbered among slices."""
        some = self.heights > 0.0
        times = np.broadcast_to(np.arange(self.slices.shape[1]), some.shape)[some]
        newest = np.ones(len(times))
        return Steps(times, self.slices[some], self.heights[some], newest, self.whole[some].astype(np.float64))


class InWindows(NamedTuple):
    """What is left in some windows, and the totals beside it by quantity: g times those of all slices, those of slices
    between the ends, and all that was added up for them, at the ends of whole slices."""

    residuals: Residuals
    whole: Floats
    between: Floats
    masses: Floats


@dataclass(frozen=True)
class RowsInWindows:
    """The same rows as `LeanRows`, for windows alone, and the totals of all slices and groups of them."""

    rows: LeanRows
    held: Floats
    masses: Floats

    @cached_property
    def edges(self) -> Ints:
        """Where slices begin, and where the last ends."""
        tree = self.rows.tree
        begins, ends = (edge[tree.depths[tree.slices] : tree.steps] for edge in (tree.begins, tree.ends))
        return np.append(begins, ends[-1:])

    @cached_property
    def _row_edges(self) -> Rows:
        return np.searchsorted(self.rows.tree.times, self.edges)

    @cached_property
    def _row_sums(self) -> RangeSums:
        """Those of what `LeanRows` adds up of rows."""
        return RangeSums(np.stack([column for kind in self.rows._columns(slice(None)) for column in kind]))

    @cached_property
    def _slice_sums(self) -> RangeSums:
        """Those of the same and of what else is added up of slices."""
        tree, rows = self.rows.tree, self.rows
        own = slice(tree.depths[tree.slices], tree.steps)
        of_rows = self._row_sums.between(self._row_edges[:-1], self._row_edges[1:])
        of_nodes = (*rows.counts, *rows.besides, *self.held, *self.masses)
        return RangeSums(np.concatenate([of_rows, np.stack([column[own] for column in of_nodes])]))

    def windows(self, as_of: Ints, oldest: int) -> Windows:
        """Those that hold ages up to the oldest."""
        edges, times = self.edges, self.rows.tree.times
        begin = np.clip(as_of - oldest, edges[0], edges[-1])
        end = np.maximum(np.minimum(as_of + 1, edges[-1]), begin)
        low = np.minimum(np.searchsorted(edges, begin, side="right") - 1, len(edges) - 2)
        high = np.maximum(np.searchsorted(edges, end - 1, side="right") - 1, low)
        further = high > low
        starts, stops = np.stack([begin, np.where(further, edges[high], end)]), np.stack([end, end])
        stops[0] = np.minimum(end, edges[low + 1])
        slices = np.stack([low, high])
        rows = np.searchsorted(times, begin), np.searchsorted(times, end)
        first = np.stack([rows[0], np.where(further, self._row_edges[high], rows[1])])
        last = np.stack([np.minimum(rows[1], self._row_edges[low + 1]), rows[1]])
        covered, lengths = stops - starts, np.diff(edges)[slices]
        inner = low + 1, np.maximum(high, low + 1)
        return Windows(slices, first, last, covered / lengths, covered == lengths, inner)

    def sums(self, windows: Windows) -> InWindows:
        """What is in the windows of all as-of times."""
        rows, heights, sums = self.rows, windows.heights, self._slice_sums
        inner, ends = sums.between(*windows.inner), sums.columns.take(windows.slices, axis=1)
        inside, outside = self._at_ends(windows)
        number, pairs = rows.quantities, len(rows.pairs)
        of_rows, counts, besides, held, masses = _parted(len(inside), number, len(rows.besides), number, number)
        in_all = inner[of_rows] + inside.sum(axis=1)
        certain, sampled, spreads, _ = _parted(number, number, pairs, len(inside) - 2 * number - pairs)
        products, mixed = slice(spreads.start, spreads.stop), slice(spreads.stop, None)
        squared = np.square(heights)
        left = (np.square(1.0 - heights) * inside[products] + squared * outside[products]).sum(axis=1)
        cut = heights * ((1.0 - heights) * inside[mixed] - heights * outside[mixed])
        left[: len(cut)] += cut.sum(axis=1)
        left[: len(rows.besides)] += inner[besides] + (squared * ends[besides]).sum(axis=1)
        for at, (one, other) in enumerate(rows.pairs):
            if one == other:
                np.maximum(left[at], 0.0, out=left[at])
        counted = inner[counts] + (heights * ends[counts]).sum(axis=1)
        parts = in_all[certain], in_all[sampled]
        residuals = (parts[0] + parts[1] - counted, left, *parts, in_all[spreads], np.zeros_like(counted))
        return InWindows(
            Residuals(*(column.T for column in residuals)),
            (inner[held] + (heights * ends[held]).sum(axis=1)).T,
            inner[held].T,
            (inner[masses] + ((heights > 0.0) * ends[masses]).sum(axis=1)).T,
        )

    def greatest(self, of_slices: Floats, windows: Windows) -> Floats:
        """The greatest of slices between the ends, and 0, by as-of time."""
        pairs = np.stack(windows.inner, axis=1)
        found = np.maximum.reduceat(np.append(of_slices, 0.0), pairs.ravel())[::_ENDS]
        return np.where(pairs[:, 1] > pairs[:, 0], np.maximum(found, 0.0), 0.0)

    def _at_ends(self, windows: Windows) -> tuple[Floats, Floats]:
        """Of the rows of the slices at the ends: of those inside the window, and of the others."""
        begin, end = self._row_edges[windows.slices], self._row_edges[windows.slices + 1]
        first, last = (begin, windows.first, windows.last), (windows.first, windows.last, end)
        before, inside, behind = np.moveaxis(self._row_sums.between(np.stack(first), np.stack(last)), 1, 0)
        return inside, before + behind


def _parted(*sizes: int) -> list[slice]:
    """Parts of so many, one after the other."""
    ends = list(accumulate(sizes))
    return [slice(end - size, end) for size, end in zip(sizes, ends, strict=True)]
