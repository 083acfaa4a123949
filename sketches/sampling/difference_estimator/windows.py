"""Sums over sliding windows beside exact totals, from sums of neighbours among rows and among slices.

Within a window every event counts once, so f and g are 1 in the slices that lie in it as a whole, and what they add is
the sum of a range (`RangeSums`). Only the slices that an end of the window cuts are looked at, in which f jumps: g is
the part of such a slice that is in the window.
"""

from __future__ import annotations

from functools import cached_property
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
    and g; where the slices between them begin and end; and all rows inside."""

    slices: Rows
    first: Rows
    last: Rows
    heights: Floats
    whole: Flags  # whether all of the slice is inside
    inner: tuple[Rows, Rows]
    rows: tuple[Rows, Rows]

    def steps(self) -> Steps:
        """The slices at the ends, as `SliceTree.cover` has them, numbered among slices."""
        some = self.heights > 0.0
        times = np.broadcast_to(np.arange(self.slices.shape[1]), some.shape)[some]
        newest = np.ones(len(times))
        return Steps(times, self.slices[some], self.heights[some], newest, self.whole[some].astype(np.float64))


@dataclass(frozen=True)
class RowsInWindows:
    """The same rows as `LeanRows`, for windows alone."""

    rows: LeanRows

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
    def _sums(self) -> list[RangeSums]:
        """Those of what `LeanRows` adds up of rows, by kind."""
        rows = self.rows
        none = np.empty((0, len(rows.tree.times)))
        return [RangeSums(np.stack(kind) if kind else none) for kind in rows._columns(slice(None))]

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
        return Windows(slices, first, last, covered / lengths, covered == lengths, inner, rows)

    def residuals(self, windows: Windows) -> Residuals:
        """What is left at all as-of times."""
        heights = windows.heights
        certain, sampled, products, mixed = self._sums
        of_certain, of_sampled, spreads = (kind.between(*windows.rows) for kind in (certain, sampled, products))
        sums = of_certain + of_sampled
        for number, mass in enumerate(self.rows.counts):
            sums[number] -= self.added(mass, windows)
        inside, outside = self._at_ends(products, windows)
        left = (np.square(1.0 - heights) * inside + np.square(heights) * outside).sum(axis=1)
        inside, outside = self._at_ends(mixed, windows)
        left[: len(inside)] += (heights * ((1.0 - heights) * inside - heights * outside)).sum(axis=1)
        for number, lost in enumerate(self.rows.besides):
            left[number] += self.added(lost, windows, squared=True)
        for number, (one, other) in enumerate(self.rows.pairs):
            if one == other:
                np.maximum(left[number], 0.0, out=left[number])
        nothing = np.zeros_like(sums)
        return Residuals(*(column.T for column in (sums, left, of_certain, of_sampled, spreads, nothing)))

    def added(self, of_nodes: Floats, windows: Windows, *, squared: bool = False) -> Floats:
        """What slices hold, g times each (or g² times), by as-of time; of all slices and groups of them."""
        own = self._of_slices(of_nodes)
        heights = np.square(windows.heights) if squared else windows.heights
        inner = RangeSums(own[None]).between(*windows.inner)[0]
        return np.asarray((heights * own[windows.slices]).sum(axis=0) + inner)

    def greatest(self, of_slices: Floats, windows: Windows) -> Floats:
        """The greatest of slices between the ends, and 0, by as-of time."""
        pairs = np.stack(windows.inner, axis=1)
        found = np.maximum.reduceat(np.append(of_slices, 0.0), pairs.ravel())[::_ENDS]
        return np.where(pairs[:, 1] > pairs[:, 0], np.maximum(found, 0.0), 0.0)

    def _of_slices(self, of_nodes: Floats) -> Floats:
        """Of slices alone."""
        tree = self.rows.tree
        return of_nodes[tree.depths[tree.slices] : tree.steps]

    def _at_ends(self, sums: RangeSums, windows: Windows) -> tuple[Floats, Floats]:
        """Of the rows of the slices at the ends: of those inside the window, and of the others."""
        begin, end = self._row_edges[windows.slices], self._row_edges[windows.slices + 1]
        before, inside, behind = (
            sums.between(*rows) for rows in ((begin, windows.first), (windows.first, windows.last), (windows.last, end))
        )
        return inside, before + behind
