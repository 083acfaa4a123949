"""Ranges of time that hold events, and between which limits a decay weighs the events of each range.

An event of a range counts at least as much as at the oldest time of the range and at most as much as at the newest: the
reduction of any decay to windows, evaluated at stored boundaries only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numba import njit

from sketches.arrays import Floats, Ints
from sketches.decay import Decay
from sketches.event_rules import MAX_TIME
from sketches.units import TimeUnit


class Ranges(Protocol):
    """The ranges of time that masses lie in."""

    def __len__(self) -> int: ...

    def factors(self, decay: Decay, moments: Ints) -> tuple[Floats, Floats]:
        """The least and the greatest f of an event in each range; one row per moment."""

    def alive(self, decay: Decay, moments: Ints, rows: Ints) -> Ints:
        """How many rows, over all ranges, may carry weight at each moment."""

    def scale(self, moments: Ints) -> Floats | None:
        """The factor by which sums (not shares) are multiplied at each moment; None: no factor."""


@dataclass(frozen=True, slots=True)
class TimeRanges:
    """Ranges from a first to a last time. Limits of f are taken at the oldest and the newest time seen by a moment."""

    first: Ints
    last: Ints
    unit: TimeUnit

    def __len__(self) -> int:
        return len(self.first)

    def factors(self, decay: Decay, moments: Ints) -> tuple[Floats, Floats]:
        unit = self.unit
        shape = (len(moments), len(self.first))
        oldest, newest = np.empty(shape), np.empty(shape)
        _ages(moments, self.first, self.last, np.float64(unit.numerator), np.float64(unit.denominator), oldest, newest)
        least, most = decay(oldest), decay(newest)
        return np.minimum(least, most, out=least), most

    def alive(self, decay: Decay, moments: Ints, rows: Ints) -> Ints:
        unit = self.unit
        reach = decay.horizon * unit.denominator / unit.numerator
        begun, faded = np.argsort(self.first, kind="stable"), np.argsort(self.last, kind="stable")
        come, gone = (np.concatenate(([0], np.cumsum(rows[order]))) for order in (begun, faded))
        here = come[np.searchsorted(self.first[begun], moments, side="right")]
        if reach > 2.0 * MAX_TIME:
            return np.asarray(here, np.int64)
        before = np.maximum(moments, math.ceil(reach) - MAX_TIME - 1) - math.ceil(reach)
        return np.asarray(here - gone[np.searchsorted(self.last[faded], before, side="right")], np.int64)

    def scale(self, moments: Ints) -> None:
        return None


def elapsed(later: Ints, earlier: Ints) -> Floats:
    """The time from one moment to a later one, rounded once, also where it spans the whole range of times."""
    return np.asarray((later - earlier).view(np.uint64).astype(np.float64))


@njit(cache=True, nogil=True)
def _ages(
    moments: Ints, first: Ints, last: Ints, numerator: float, denominator: float, oldest: Floats, newest: Floats
) -> None:
    """The ages in seconds of the oldest and the newest event that a range can hold at a moment; -1 where it holds none.

    Events newer than the moment do not count. A range that reaches beyond it may hold no event yet, or one that just
    came.
    """
    for row in range(len(moments)):
        now = moments[row]
        for at in range(len(first)):
            oldest[row, at] = (
                -1.0 if now < last[at] else np.float64(np.uint64(now - first[at])) * numerator / denominator
            )
            if now < first[at]:
                newest[row, at] = -1.0
            elif now < last[at]:
                newest[row, at] = 0.0
            else:
                newest[row, at] = np.float64(np.uint64(now - last[at])) * numerator / denominator
