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
        """The columns, and from each the sums of so many neighbours, as long as these are more than a few."""
        levels = [self.columns]
        while (count := levels[-1].shape[1]) >= _FAN_OUT:
            levels.append(np.add.reduceat(levels[-1], np.arange(0, count, _FAN_OUT), axis=1))
        return levels

    def between(self, first: Rows, last: Rows) -> Floats:
        """The sums from each first row to before the last, with an axis of columns first."""
        found = np.zeros((len(self.columns), *first.shape))
        last = np.maximum(first, last)
        for level in self._levels:
            begin, end = -(-first // _FAN_OUT), last // _FAN_OUT  # of the sums of neighbours that lie inside
            until = np.minimum(begin * _FAN_OUT, last)
            found += _few(level, first, until)
            found += _few(level, np.maximum(end * _FAN_OUT, until), last)
            first, last = begin, np.maximum(begin, end)
        return found


def _few(columns: Floats, first: Rows, last: Rows) -> Floats:
    """The sums over ranges of fewer rows than make one sum of neighbours."""
    if not columns.shape[1]:
        return np.zeros((len(columns), *first.shape))
    rows = first[..., None] + _WITHIN
    inside = rows < last[..., None]
    return np.asarray(np.where(inside, columns.take(np.where(inside, rows, 0), axis=1), 0.0).sum(axis=-1))
