"""Ranges of time that hold events, and between which limits a decay weighs the events of each range.

An event of a range counts at least as much as at the oldest time of the range and at most as much as at the newest: the
reduction of any decay to windows, evaluated at stored boundaries only.
"""

from __future__ import annotations

import math
from typing import Final, Protocol

import numpy as np

from sketches.arrays import Floats, Ints
from sketches.decay import Decay
from sketches.decay.functions import LastEvents, NoDecay, Window
from sketches.event_rules import MAX_TIME
from sketches.records import dataclass
from sketches.units import TimeUnit

_BEFORE_ALL: Final = -(1 << 63)
FAINT: Final = 1e-306  # numbers below this have few digits
_CHUNK: Final = 1 << 21  # of moments and ranges at a time


class Ranges(Protocol):
    """The ranges of time that masses lie in."""

    def __len__(self) -> int: ...

    def limits(self, decay: Decay, moments: Ints) -> tuple[Floats, Floats]:
        """The least and the greatest f of an event in each range; one row per moment."""

    def alive(self, decay: Decay, moments: Ints, rows: Ints) -> Ints:
        """How many rows, over all ranges, may carry weight at each moment."""

    def scale(self, moments: Ints) -> Floats | None:
        """The factor by which sums (not shares) are multiplied at each moment; None: no factor."""


@dataclass(frozen=True, slots=True)
class TimeRanges:
    """Ranges from a first to a last time. Limits of f are taken at the oldest and the newest time seen by a moment.

    `events` says how many events each range holds, for windows of the newest events by number; None: nobody knows.
    """

    first: Ints
    last: Ints
    unit: TimeUnit
    events: Floats | None = None

    def __len__(self) -> int:
        return len(self.first)

    def factors(self, decay: Decay, moments: Ints) -> tuple[Floats, Floats]:
        if isinstance(decay, LastEvents):
            return self._among_newest(decay.count, moments)
        oldest, newest = self._ages(moments[:, None])
        least, most = decay(oldest), decay(newest)
        return np.minimum(least, most, out=least), most

    def _ages(self, now: Ints) -> tuple[Floats, Floats]:
        """The ages in seconds of the oldest and the newest event that a range can hold; -1 where it holds none.

        Events newer than the moment do not count. A range that reaches beyond it may hold no event yet, or one that
        just came.
        """
        ended, begun = now >= self.last, now >= self.first
        oldest = np.where(ended, self.unit.seconds(elapsed(now, self.first)), -1.0)
        newest = np.where(ended, self.unit.seconds(elapsed(now, self.last)), np.where(begun, 0.0, -1.0))
        return oldest, newest

    def limits(self, decay: Decay, moments: Ints) -> tuple[Floats, Floats]:
        """The same moved outwards where f has few digits, or is above 0 and too small to be a number."""
        least, most = self.factors(decay, moments)
        if isinstance(decay, NoDecay | Window | LastEvents) or not (most < FAINT).any():
            return least, most
        least[least < FAINT] = 0.0
        horizon = decay.horizon * self.unit.denominator / self.unit.numerator
        now = moments[:, None]
        counts = now >= self.first
        if horizon < 2.0 * MAX_TIME:
            counts &= elapsed(np.maximum(now, self.last), self.last) <= horizon + 1.0
        return least, np.where(counts, np.maximum(most, FAINT), most)

    def _among_newest(self, count: float, moments: Ints) -> tuple[Floats, Floats]:
        """1 for ranges whose events are surely, and possibly, among the newest `count` up to each moment."""
        begins, latest = self._newest_begin(count, moments)
        now = moments[:, None]
        least = (self.first >= latest[:, None]) & (self.last <= now)
        most = (self.last >= begins[:, None]) & (self.first <= now)
        return least.astype(np.float64), most.astype(np.float64)

    def _newest_begin(self, count: float, moments: Ints) -> tuple[Ints, Ints]:
        """The earliest and the latest time at which the newest `count` events up to each moment may begin.

        They begin at the greatest time since which there are so many. There are so many since the earliest one for
        sure, by the ranges that lie wholly since then; since no time after the latest one can there be so many.
        """
        assert self.events is not None
        earliest, latest = (np.full(len(moments), _BEFORE_ALL, np.int64) for _ in range(2))
        if len(self) == 0:
            return earliest, latest
        now = moments[:, None]
        for found, since, until in ((earliest, self.first, self.last), (latest, self.last, self.first)):
            order = np.argsort(since, kind="stable")[::-1]
            reached = np.cumsum(np.where(until[order] <= now, self.events[order], 0.0), axis=1) >= count
            enough = reached[:, -1]
            found[enough] = since[order][np.argmax(reached[enough], axis=1)]
        return earliest, np.minimum(latest, moments)

    def alive(self, decay: Decay, moments: Ints, rows: Ints) -> Ints:
        if isinstance(decay, LastEvents):
            step = max(1, _CHUNK // max(1, len(self)))
            parts = [self._among_newest(decay.count, moments[at : at + step])[1] for at in range(0, len(moments), step)]
            return np.concatenate([np.zeros(0), *(part @ rows for part in parts)]).astype(np.int64)
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
