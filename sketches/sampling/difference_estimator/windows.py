"""Sums over sliding windows beside exact totals, by sums of all rows and all slices up to each.

Within a window every event counts once, so f and g are 1 in the slices that lie in it as a whole, and what they add is
the difference of two sums from the beginning on. Only the slices that an end of the window cuts are looked at, in which
f jumps: g is the part of such a slice that is in the window.
"""

from __future__ import annotations

from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from sketches.arrays import Flags, Floats, Ints, Rows
from sketches.records import dataclass
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
    def _columns(self) -> list[list[Floats]]:
        """What `LeanRows` adds up of rows, each up to every row."""
        return [[_up_to(column) for column in kind] for kind in self.rows._columns(slice(None))]

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
        rows, heights = self.rows, windows.heights
        products, mixed = self._columns[2:]
        in_all = [[column[windows.rows[1]] - column[windows.rows[0]] for column in kind] for kind in self._columns]
        sums = [one + other for one, other in zip(in_all[0], in_all[1], strict=True)]
        for number, mass in enumerate(self._counts):
            sums[number] = sums[number] - self._added(mass, windows)
        left = []
        for product in products:
            inside, outside = self._at_ends(product, windows)
            left.append((np.square(1.0 - heights) * inside + np.square(heights) * outside).sum(axis=0))
        for number, column in enumerate(mixed):
            inside, outside = self._at_ends(column, windows)
            left[number] = left[number] + (heights * ((1.0 - heights) * inside - heights * outside)).sum(axis=0)
        for number, lost in enumerate(self._besides):
            left[number] = left[number] + self._added(lost, windows, squared=True)
        for number, (one, other) in enumerate(rows.pairs):
            if one == other:
                left[number] = np.maximum(left[number], 0.0)
        spreads = [np.maximum(one, 0.0) for one in in_all[2]]
        nothing = [np.zeros_like(one) for one in sums]
        return Residuals(*(np.stack(one, axis=1) for one in (sums, left, *in_all[:2], spreads, nothing)))

    def added(self, of_nodes: Floats, windows: Windows) -> Floats:
        """What slices hold, g times each, by as-of time; of all slices and groups of them."""
        return self._added(self._of_slices(of_nodes), windows)

    def greatest(self, of_slices: Floats, windows: Windows) -> Floats:
        """The greatest of slices between the ends, and 0, by as-of time."""
        pairs = np.stack(windows.inner, axis=1)
        found = np.maximum.reduceat(np.append(of_slices, 0.0), pairs.ravel())[::_ENDS]
        return np.where(pairs[:, 1] > pairs[:, 0], np.maximum(found, 0.0), 0.0)

    @cached_property
    def _counts(self) -> list[tuple[Floats, Floats]]:
        return [self._of_slices(column) for column in self.rows.counts]

    @cached_property
    def _besides(self) -> list[tuple[Floats, Floats]]:
        return [self._of_slices(column) for column in self.rows.besides]

    def _of_slices(self, of_nodes: Floats) -> tuple[Floats, Floats]:
        """Of slices alone: the numbers themselves, and added up to each."""
        tree = self.rows.tree
        own = of_nodes[tree.depths[tree.slices] : tree.steps]
        return own, _up_to(own)

    def _added(self, column: tuple[Floats, Floats], windows: Windows, *, squared: bool = False) -> Floats:
        own, up_to = column
        heights = np.square(windows.heights) if squared else windows.heights
        begin, end = windows.inner
        return np.asarray((heights * own[windows.slices]).sum(axis=0) + up_to[end] - up_to[begin])

    def _at_ends(self, column: Floats, windows: Windows) -> tuple[Floats, Floats]:
        """Of the rows of the slices at the ends: of those inside the window, and of the others."""
        inside = column[windows.last] - column[windows.first]
        whole = column[self._row_edges[windows.slices + 1]] - column[self._row_edges[windows.slices]]
        return inside, whole - inside


def _up_to(column: Floats) -> Floats:
    return np.append(0.0, np.cumsum(column))
