"""Counters over sliding windows: exponential histograms, deterministic waves and randomised waves.

An exponential histogram and a deterministic wave are the same thing kept at different places: of the arrivals in a
counter, numbered from the oldest, some *ranks* are remembered with their times, so that the arrivals between two of
them are known to lie between their times. Which ranks depends on the number of arrivals alone, so a batch is summarised
without going through its events one by one as the papers do, with the same result. A randomised wave remembers a sample
of the arrivals instead.

Many counters lie side by side (`Logs`), because a Count-Min sketch is made of them.
"""

from __future__ import annotations

import math
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from sketches.arrays import Ints
from sketches.compiled import njit
from sketches.errors import EventError
from sketches.records import dataclass

Keeping = Literal["eh", "dw"]
Basis = Literal["time", "count"]

KEEPINGS: Final = ("eh", "dw")
BASES: Final = ("time", "count")
MOST_ARRIVALS: Final = 1 << 62  # that a counter can count


@dataclass(frozen=True, slots=True)
class Logs:
    """The entries of many counters, one counter after the other, each in the order of their ends.

    Of the arrivals of an entry one came at its end and the others since its start. In a log that was not merged, an
    entry starts where the one before it ends, and the first of a counter at its first arrival.
    """

    bounds: Ints  # where each counter's entries begin; one more than there are counters
    start: Ints
    end: Ints
    size: Ints

    @classmethod
    def none(cls, counters: int) -> Logs:
        """The logs of counters that have counted nothing."""
        return cls(np.zeros(counters + 1, np.int64), *(np.zeros(0, np.int64) for _ in range(3)))

    @classmethod
    def in_order(cls, bounds: Ints, end: Ints, size: Ints, oldest: Ints) -> Logs:
        """The logs of arrivals in order; `oldest` is the time of each counter's first."""
        start = np.empty_like(end)
        start[1:] = end[:-1]
        used = np.diff(bounds) > 0
        start[bounds[:-1][used]] = oldest[used]
        return cls(bounds, start, end, size)

    @property
    def counters(self) -> int:
        return len(self.bounds) - 1

    def oldest(self) -> Ints:
        """When the first entry of each counter starts; 0 where it has none."""
        used = np.diff(self.bounds) > 0
        found = np.zeros(self.counters, np.int64)
        found[used] = self.start[self.bounds[:-1][used]]
        return found

    def owners(self) -> NDArray[np.intp]:
        """The counter of every entry."""
        return np.repeat(np.arange(self.counters), np.diff(self.bounds))

    def totals(self) -> Ints:
        """How many arrivals each counter has had."""
        sums = np.concatenate((np.zeros(1, np.int64), np.cumsum(self.size)))  # modulo 2^64: differences are exact
        return np.asarray(sums[self.bounds[1:]] - sums[self.bounds[:-1]])


def refuse_more(arrivals: float) -> None:
    """Refuse more arrivals, or weight, than a counter can count."""
    if arrivals > MOST_ARRIVALS:
        raise EventError(f"the weights add up to {arrivals:.3g}; a counter counts up to 2^62")


def aggregated_error(epsilon: float, levels: int) -> float:
    """The relative error of a counter after h aggregations: (1 + ε)^(h + 1) - 1.

    Merging was aggregation (E §5.1) before format 7, and sketches of then are still read. Every aggregation reads each
    window of the streams it is given within ε of what they say themselves (E, Theorem 4), so the errors compound. E
    adds the levels up instead and has hε(1 + ε) + ε: the same for one level, a little less for more of them, for which
    its argument leaves out that the second level errs on what the first made of it.
    """
    return float((1.0 + epsilon) ** (levels + 1) - 1.0)


def room(epsilon: float) -> int:
    """k of the papers: how many ranks a level keeps for a relative error of ε."""
    return math.ceil(1.0 / epsilon)


def kept(total: int, epsilon: float, keeping: Keeping) -> Ints:
    """The ranks, rising, that a counter of so many arrivals remembers; the last is the newest arrival.

    >>> kept(10, 0.5, "eh"), kept(10, 0.5, "dw")
    (array([ 4,  6,  8,  9, 10]), array([ 4,  6,  8,  9, 10]))
    """
    ranks = np.empty(_number(total, room(epsilon), keeping == "eh"), np.int64)
    _ranks(total, room(epsilon), keeping == "eh", ranks)
    return ranks


@njit(cache=True, nogil=True)
def _number(total: int, k: int, exponential: bool) -> int:
    """How many ranks are kept."""
    if exponential:
        made, left, least = 0, total, k
        while left > 0:
            here = left if left <= least + 1 else least + (left - least) % 2
            made += here
            left = (left - here) // 2
            least = (k + 1) // 2
        return made
    made, step, before = 0, 1, total + 1
    while total // step > 0:
        newest = total // step * step
        oldest = max(newest - k * step, step)
        rank = min(newest, (before - 1) // step * step)
        while rank >= oldest:
            made += 1
            before = rank
            rank -= step
        step *= 2
    return made


@njit(cache=True, nogil=True)
def _ranks(total: int, k: int, exponential: bool, ranks: Ints) -> None:
    """Fill in the kept ranks, rising.

    Exponential histogram: at level i buckets of 2^i arrivals, k to k + 1 of them at level 0 and ⌈k/2⌉ to ⌈k/2⌉ + 1
    above; one more makes the two oldest into one of the next level. So a bucket of 2^i has at least k·2^i/2 newer
    arrivals, and half of it is at most 1/k of them (E, invariant 1).
    Deterministic wave: at level i the k + 1 newest ranks that 2^i divides.
    """
    at = len(ranks)
    if exponential:
        rank, left, least, size = total, total, k, 1
        while left > 0:
            here = left if left <= least + 1 else least + (left - least) % 2
            for _ in range(here):
                at -= 1
                ranks[at] = rank
                rank -= size
            left = (left - here) // 2
            least = (k + 1) // 2
            size *= 2
        return
    step, before = 1, total + 1
    while total // step > 0:
        newest = total // step * step
        oldest = max(newest - k * step, step)
        rank = min(newest, (before - 1) // step * step)
        while rank >= oldest:
            at -= 1
            ranks[at] = rank
            before = rank
            rank -= step
        step *= 2


@njit(cache=True, nogil=True)
def laid_out(totals: Ints, k: int, exponential: bool) -> tuple[Ints, Ints]:
    """For counters of so many arrivals: where the entries of each begin, and the ranks they end at."""
    bounds = np.zeros(len(totals) + 1, np.int64)
    for counter in range(len(totals)):
        bounds[counter + 1] = bounds[counter] + _number(totals[counter], k, exponential)
    ranks = np.empty(bounds[-1], np.int64)
    for counter in range(len(totals)):
        _ranks(totals[counter], k, exponential, ranks[bounds[counter] : bounds[counter + 1]])
    return bounds, ranks


@njit(cache=True, nogil=True)
def sizes_of(bounds: Ints, ranks: Ints) -> Ints:
    """How many arrivals each entry stands for."""
    sizes = np.empty_like(ranks)
    for counter in range(len(bounds) - 1):
        before = 0
        for at in range(bounds[counter], bounds[counter + 1]):
            sizes[at] = ranks[at] - before
            before = ranks[at]
    return sizes


@dataclass(frozen=True, slots=True)
class Count:
    """How many arrivals a window holds: the estimate, and between which numbers the exact one surely lies."""

    value: float
    lower: float
    upper: float
