"""Sums of columns over any ranges of their rows, from sums of 16 neighbours, of 256, and so on.

No sum is a difference of two others: what lies outside a range, be it 1e20, takes no digits from what lies inside.
"""

from __future__ import annotations

from functools import cached_property
from typing import Final

import numpy as np

from sketches.arrays import Floats, Rows
from sketches.records import dataclass

_FAN_OUT: Final = 16
_WITHIN: Final = np.arange(_FAN_OUT)


@dataclass(frozen=True)
class RangeSums:
    """Columns (first axis) over rows.

    >>> RangeSums(np.array([[1e20, 1.0, 2.0, -1e20]])).between(np.array([1, 0]), np.array([3, 1])).tolist()
    [[3.0, 1e+20]]
    """

    columns: Floats

    @cached_property
    def _levels(self) -> list[Floats]:
        """The columns, and from each the sums of so many neighbours, as long as these are more than a few; and a 0 at
        the end of all."""
        levels = [self.columns]
        while (count := levels[-1].shape[1]) >= _FAN_OUT:
            levels.append(np.add.reduceat(levels[-1], np.arange(0, count, _FAN_OUT), axis=1))
        return [np.append(level, np.zeros((len(level), 1)), axis=1) for level in levels]

    def between(self, first: Rows, last: Rows) -> Floats:
        """The sums from each first row to before the last, with an axis of columns first."""
        shape, first, last = first.shape, first.ravel(), np.maximum(first, last).ravel()
        found, ranges = np.zeros((len(self.columns), len(first))), np.arange(len(first))
        for level in self._levels:
            begin, end = -(-first // _FAN_OUT), last // _FAN_OUT  # of the sums of neighbours that lie inside
            until = np.minimum(begin * _FAN_OUT, last)
            starts = np.stack([first, np.maximum(end * _FAN_OUT, until)], axis=1)[:, :, None]
            rows, stops = starts + _WITHIN, np.stack([until, last], axis=1)[:, :, None]
            rows = np.where(rows < stops, rows, level.shape[1] - 1).reshape(len(first), 2 * _FAN_OUT)
            found[:, ranges] += level.take(rows, axis=1).sum(axis=2)
            left = np.flatnonzero(begin < end)
            first, last, ranges = begin[left], end[left], ranges[left]
            if not len(left):
                break
        return found.reshape(len(found), *shape)
