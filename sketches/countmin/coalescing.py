"""Merging the logs of counters: their entries are put side by side, and coalesced as far as the error allows.

An entry says that so many arrivals came between two times, one of them at the later time. So the count of a window that
begins at t is in doubt by the arrivals, but for one each, of the entries that t cuts. It is at least what lies behind t
for certain, and one for each that is cut. A counter that errs by 1/k may leave in doubt

    k · doubtful(t) ≤ 2 · certain(t)        for every t,

because the middle of an interval errs by half its width. Exponential histograms and deterministic waves keep to this
(E, invariant 1), and both sides are sums over entries: counters that keep to it still do side by side, whatever their
times. Merging then makes two neighbours into one entry wherever that stays true, in rounds from the newest to the
oldest, until there is none left. So the error does not grow with the number of merges, nor with the order of arrivals.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from sketches.arrays import Floats, Ints
from sketches.compiled import njit
from sketches.countmin.window_logs import Logs

_MOST_SPAN: Final = 1 << 38  # of times that can be told apart beside the number of any counter


def coalesced(parts: Sequence[Logs], k: int) -> Logs:
    """One log for each counter from those of all parts, the same in whatever order they come."""
    parts = sorted(parts, key=lambda part: tuple(column.tobytes() for column in (part.end, part.start, part.size)))
    counters = np.arange(parts[0].counters + 1)
    owner, start, end, size = (
        np.concatenate(columns)
        for columns in zip(*((part.owners(), part.start, part.end, part.size) for part in parts), strict=True)
    )
    order = np.argsort(_keys(owner, start, end)[1], kind="stable")
    owner, end, size = owner[order], end[order], size[order]
    start = _begun(owner, start[order], end, size)
    begins, ends = _keys(owner, start, end)
    times = _distinct(begins, ends)
    low, high = np.searchsorted(times, begins), np.searchsorted(times, ends)
    kept, first, sizes = _paired(np.searchsorted(owner, counters), low, high, size, k)
    owner, start, end = owner[kept], start[first], end[kept]
    return Logs(np.searchsorted(owner, counters), _begun(owner, start, end, sizes), end, sizes)


def _keys(owner: Ints, start: Ints, end: Ints) -> tuple[Ints, Ints]:
    """Numbers of the starts and the ends that are in the order of counters and, within a counter, of times."""
    oldest = int(start.min(initial=0))
    span = int(end.max(initial=0)) - oldest + 1
    if span <= _MOST_SPAN:
        return owner * span + (start - oldest), owner * span + (end - oldest)
    times = _distinct(start, end)
    return owner * len(times) + np.searchsorted(times, start), owner * len(times) + np.searchsorted(times, end)


def _distinct(one: Ints, other: Ints) -> Ints:
    """All numbers of both, rising, each once; numpy's own `unique` takes twenty times as long."""
    both = np.sort(np.concatenate((one, other)))
    fresh = np.ones(len(both), bool)
    fresh[1:] = both[1:] != both[:-1]
    return np.asarray(both[fresh])


def _begun(owner: Ints, start: Ints, end: Ints, size: Ints) -> Ints:
    """The starts of entries; that of a lone arrival means nothing, and is where the entry before it ends, if any."""
    before = np.concatenate((end[:1], end[:-1]))
    leads = np.concatenate(([True], owner[1:] != owner[:-1]))
    return np.where(size == 1, np.where(leads, end, before), start)


@njit(cache=True, nogil=True)
def _paired(bounds: Ints, low: Ints, high: Ints, size: Ints, k: int) -> tuple[Ints, Ints, Ints]:
    """The entries that are left: which one each ends with, which one it starts with, and its size.

    Between two neighbouring times nothing changes: `slack` is how much more may be in doubt there.
    """
    kept, first, sizes = np.arange(len(size)), np.arange(len(size)), size.copy()
    low, high = low.copy(), high.copy()
    slack = np.empty(high.max() + 1 if len(high) else 0)
    made = 0
    for counter in range(len(bounds) - 1):
        begin, stop = bounds[counter], bounds[counter + 1]
        if begin == stop:
            continue
        _fill(slack, low[begin:stop], high[begin:stop], size[begin:stop], k)
        before = -1
        while before != begin:
            before = begin
            begin = _round(slack, low, high, sizes, kept, first, begin, stop, k)
        for at in range(begin, stop):
            kept[made], first[made], sizes[made] = kept[at], first[at], sizes[at]
            made += 1
    return kept[:made], first[:made], sizes[:made]


@njit(cache=True, nogil=True)
def _round(
    slack: Floats, low: Ints, high: Ints, sizes: Ints, kept: Ints, first: Ints, begin: int, stop: int, k: int
) -> int:
    """Make pairs of a counter's entries into one wherever there is slack, newest first; where the rest begins.

    What is left moves to the end of the counter's stretch of the columns.
    """
    at, to = stop - 1, stop
    while at >= begin:
        to -= 1
        low_at, sizes_at, first_at = low[at], sizes[at], first[at]
        high[to], kept[to] = high[at], kept[at]
        old = at - 1
        if old >= begin and _fits(slack, low[old], high[old], sizes[old], low_at, high[to], sizes_at, k):
            if low[old] <= low_at:
                low_at, first_at = low[old], first[old]
            sizes_at += sizes[old]
            old -= 1
        low[to], sizes[to], first[to] = low_at, sizes_at, first_at
        at = old
    return to


@njit(cache=True, nogil=True)
def _fits(
    slack: Floats, low: int, high: int, size: int, newer_low: int, newer_high: int, newer_size: int, k: int
) -> bool:
    """Whether an entry and the next newer one may be one; then the slack is what it is with that one."""
    wider, whole = min(low, newer_low), 2.0 - k * (size + newer_size - 1.0)
    for place in range(wider + 1, newer_high + 1):
        apart = _part(place, low, high, size, k) + _part(place, newer_low, newer_high, newer_size, k)
        if slack[place] - apart + whole < 0.0:
            return False
    for place in range(wider + 1, newer_high + 1):
        apart = _part(place, low, high, size, k) + _part(place, newer_low, newer_high, newer_size, k)
        slack[place] += whole - apart
    return True


@njit(cache=True, nogil=True, inline="always")
def _part(place: int, low: int, high: int, size: int, k: int) -> float:
    """What an entry adds to the slack: all its arrivals are certain up to its start, one of them up to its end."""
    if place <= low:
        return 2.0 * size
    return 2.0 - k * (size - 1.0) if place <= high else 0.0


@njit(cache=True, nogil=True)
def _fill(slack: Floats, low: Ints, high: Ints, size: Ints, k: int) -> None:
    """2 · certain - k · doubtful of a counter, at each of the times at which its entries start or end."""
    begin, stop = low.min(), high.max()
    slack[begin : stop + 1] = 0.0
    for at in range(len(size)):
        certain, cut = 2.0 * size[at], 2.0 - k * (size[at] - 1.0)
        slack[begin] += certain
        if low[at] < stop:
            slack[low[at] + 1] += cut - certain
        if high[at] < stop:
            slack[high[at] + 1] -= cut
    for place in range(begin, stop):
        slack[place + 1] += slack[place]
