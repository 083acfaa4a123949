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
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sketches.arrays import Ints
from sketches.compiled import njit
from sketches.errors import EventError, IncompatibleError, QuestionError, WaneError
from sketches.event_rules import MAX_TIME
from sketches.papers import ECM_SKETCHES

Keeping = Literal["eh", "dw"]
Basis = Literal["time", "count"]

KEEPINGS: Final = ("eh", "dw")
BASES: Final = ("time", "count")
MOST_ARRIVALS: Final = 1 << 62  # that a counter can count


@dataclass(frozen=True, slots=True)
class Logs:
    """The remembered ranks of many counters, one after the other: how many arrivals end at which time.

    Arrivals of an entry came after (or with) the end of the entry before it in the same counter; those of a counter's
    first entry not before `oldest` of the counter.
    """

    bounds: Ints  # where each counter's entries begin; one more than there are counters
    end: Ints
    size: Ints
    oldest: Ints

    @property
    def counters(self) -> int:
        return len(self.oldest)

    def starts(self) -> Ints:
        """The earliest time at which an entry's arrivals can have come."""
        start = np.empty_like(self.end)
        start[1:] = self.end[:-1]
        first = self.bounds[:-1][np.diff(self.bounds) > 0]
        start[first] = self.oldest[np.diff(self.bounds) > 0]
        return start

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

    Every aggregation reads each window of the streams it is given within ε of what they say themselves (E, Theorem 4),
    so the errors compound. E §5.1 adds the levels up instead and has hε(1 + ε) + ε: the same for one level, a little
    less for more of them, for which its argument leaves out that the second level errs on what the first made of it.
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


@njit(cache=True, nogil=True)
def aggregated(
    owner: Ints, start: Ints, end: Ints, size: Ints, counters: int, k: int, exponential: bool
) -> tuple[Ints, Ints, Ints]:
    """One log for each counter from entries of several, half of each at its start and half at its end (E §5.1).

    Entries come grouped by their counter. Bounds, ends and sizes of the new logs.
    """
    totals = np.zeros(counters, np.int64)
    for at in range(len(owner)):
        totals[owner[at]] += size[at]
    bounds, ranks = laid_out(totals, k, exponential)
    ends = np.empty(len(ranks), np.int64)
    begin = 0
    for counter in range(counters):
        stop = begin
        while stop < len(owner) and owner[stop] == counter:
            stop += 1
        times, arrivals = np.empty(2 * (stop - begin), np.int64), np.empty(2 * (stop - begin), np.int64)
        for at in range(begin, stop):
            times[2 * (at - begin)], arrivals[2 * (at - begin)] = start[at], size[at] // 2
            times[2 * (at - begin) + 1], arrivals[2 * (at - begin) + 1] = end[at], size[at] - size[at] // 2
        order = np.argsort(times)
        rank, entry = 0, bounds[counter]
        for at in order:
            rank += arrivals[at]
            while entry < bounds[counter + 1] and ranks[entry] <= rank:
                ends[entry] = times[at]
                entry += 1
        begin = stop
    return bounds, ends, sizes_of(bounds, ranks)


@dataclass(frozen=True, slots=True)
class Count:
    """How many arrivals a window holds: the estimate, and between which numbers the exact one surely lies."""

    value: float
    lower: float
    upper: float


@dataclass
class WindowCounter:
    """One exponential histogram or deterministic wave, by itself: how many arrivals in any window up to now.

    With `basis="count"` a window is of the last arrivals of a stream of which only some are counted: `times` are then
    their positions in it.

    >>> counter = WindowCounter(0.1)
    >>> counter.add(range(1000))
    >>> count = counter.count(100)
    >>> count.lower <= 100 <= count.upper and count.upper - count.lower <= 0.2 * 100
    True
    """

    epsilon: float
    keeping: Keeping = "eh"
    basis: Basis = "time"
    levels: int = 0  # how many aggregations lie between the arrivals and this counter
    logs: Logs = field(
        default_factory=lambda: Logs(np.zeros(2, np.int64), *(np.zeros(0, np.int64),) * 2, np.zeros(1, np.int64))
    )

    def __post_init__(self) -> None:
        if not 0 < self.epsilon < 1:
            raise WaneError(f"epsilon is {self.epsilon!r}; it must lie strictly between 0 and 1")
        for name, choice, known in (("keeping", self.keeping, KEEPINGS), ("basis", self.basis, BASES)):
            if choice not in known:
                raise WaneError(f"{name} is {choice!r}; it must be one of {', '.join(known)}")

    @property
    def total(self) -> int:
        return int(self.logs.size.sum())

    @property
    def error(self) -> float:
        """The relative error of any window's count after the aggregations it has gone through."""
        return aggregated_error(self.epsilon, self.levels)

    def add(self, times: ArrayLike) -> None:
        """Count arrivals, which come in order, one or many: the result is the same."""
        new = np.sort(np.asarray(times, np.int64).reshape(-1))
        if len(new) == 0:
            return
        if new[0] < -MAX_TIME or new[-1] > MAX_TIME:
            raise EventError("times lie between -2^62 and 2^62")
        logs, before = self.logs, self.total
        if before and new[0] < logs.end[-1]:
            raise EventError(
                f"an arrival at {new[0]} comes after one at {logs.end[-1]}; aggregate another counter instead"
            )
        if self.levels:
            raise WaneError("an aggregated counter takes no further arrivals")
        ranks = kept(before + len(new), self.epsilon, self.keeping)
        old = np.cumsum(logs.size)
        ends = np.where(ranks <= before, 0, new[np.maximum(ranks - before - 1, 0)])
        known = ranks <= before
        ends[known] = logs.end[np.searchsorted(old, ranks[known])]
        oldest = logs.oldest if before else new[:1]
        self.logs = Logs(np.array([0, len(ranks)]), ends, np.diff(ranks, prepend=0), oldest)

    def count(self, window: int, as_of: int | None = None) -> Count:
        """The arrivals at times in (as_of - window, as_of], where as_of is the newest arrival's or later."""
        logs = self.logs
        if window < 1:
            raise QuestionError(f"window is {window}; it must be at least 1")
        if self.total == 0:
            return Count(0.0, 0.0, 0.0)
        now = int(logs.end[-1]) if as_of is None else as_of
        if now < logs.end[-1]:
            raise QuestionError(f"as_of is {now}, but the newest arrival is at {logs.end[-1]}")
        first = now - window + 1
        surely, may = logs.starts() >= first, logs.end >= first
        lower, upper = float(logs.size[surely].sum()), float(logs.size[may].sum())
        # the newest arrival of an entry is at its end: of one that is cut at least that one counts
        lower += float(np.count_nonzero(may & ~surely))
        value = (lower + upper) / 2.0
        if self.levels:
            return Count(
                value, value / (1.0 + self.error), value / (1.0 - self.error) if self.error < 1.0 else math.inf
            )
        return Count(value, lower, upper)

    @classmethod
    def aggregate(cls, counters: Sequence[WindowCounter]) -> WindowCounter:
        """One counter of the arrivals of all, in the order of their times; its error grows by a level."""
        if not counters:
            raise WaneError("an aggregation needs at least one counter")
        first = counters[0]
        if any(
            (one.epsilon, one.keeping, one.basis) != (first.epsilon, first.keeping, first.basis) for one in counters
        ):
            raise IncompatibleError("counters of different accuracy or kind cannot be aggregated")
        if first.basis == "count":
            raise IncompatibleError(
                "windows of the last arrivals cannot be aggregated: the counters know in which order the counted "
                f"arrivals came, but not how many others came between them ({ECM_SKETCHES} §5.1, Figure 2)"
            )
        seen = [one for one in counters if one.total]
        if len(seen) < 2:
            return replace(seen[0] if seen else first)
        start, end, size = (
            np.concatenate(parts)
            for parts in zip(*((one.logs.starts(), one.logs.end, one.logs.size) for one in seen), strict=True)
        )
        owner = np.zeros(len(end), np.int64)
        bounds, ends, sizes = aggregated(owner, start, end, size, 1, room(first.epsilon), first.keeping == "eh")
        oldest = np.array([min(int(one.logs.oldest[0]) for one in seen)])
        levels = 1 + max(one.levels for one in seen)
        return cls(first.epsilon, first.keeping, first.basis, levels, Logs(bounds, ends, sizes, oldest))
