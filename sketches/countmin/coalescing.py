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

from sketches.arrays import Flags, Floats, Ints, Rows
from sketches.compiled import njit
from sketches.countmin.window_logs import Logs

_MOST_SPAN: Final = 1 << 38  # of times that can be told apart beside the number of any counter
_NEARLY: Final = 8  # steps for each number, by which numbers that are nearly in order are put in order


def coalesced(parts: Sequence[Logs], k: int, later: Ints | None = None) -> Logs:
    """One log for each counter from those of all parts, the same in whatever order they come.

    `later` is how many arrivals of each counter may be taken as come after all of them: these are certain for every
    window that begins here. The error then holds as long as they are there.
    """
    parts = sorted(parts, key=lambda part: tuple(column.tobytes() for column in (part.end, part.start, part.size)))
    bounds = np.sum([part.bounds for part in parts], axis=0)
    owner, start, end, size = (
        np.concatenate(columns)
        for columns in zip(*((part.owners(), part.start, part.end, part.size) for part in parts), strict=True)
    )
    order = _sorted(owner, end)
    more = np.zeros(len(bounds) - 1, np.int64) if later is None else later
    return Logs(*_coalesced(bounds, start[order], end[order], size[order], k, more))


def _sorted(owner: Ints, end: Ints) -> Rows:
    """Rows by counter and, within a counter, by time; parts stay in their order."""
    oldest = int(end.min(initial=0))
    span = int(end.max(initial=0)) - oldest + 1
    if span > _MOST_SPAN:
        return np.lexsort((end, owner))
    return np.argsort(owner * span + (end - oldest), kind="stable")


@njit(cache=True, nogil=True)
def _coalesced(bounds: Ints, start: Ints, end: Ints, size: Ints, k: int, later: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """The bounds and columns of what is left of the entries of every counter, which come in the order of their ends.

    Between two neighbouring times nothing changes: `slack` is how much more may be in doubt there.
    """
    most = (bounds[1:] - bounds[:-1]).max()
    times, slack = np.empty(2 * most, np.int64), np.empty(2 * most)
    lows, highs, changed = np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most, np.bool_)
    left = np.zeros_like(bounds)
    made = 0
    for counter in range(len(bounds) - 1):
        begin, stop = bounds[counter], bounds[counter + 1]
        if begin < stop:
            starts, ends, sizes = start[begin:stop], end[begin:stop], size[begin:stop]
            low, high, fresh = lows[: stop - begin], highs[: stop - begin], changed[: stop - begin]
            _begin_lone(starts, ends, sizes)
            _number(times, starts, ends, low, high)
            _fill(slack, low, high, sizes, k, 2.0 * later[counter])
            first = _paired(slack, low, high, sizes, fresh, k)
            for at in range(first, stop - begin):
                start[made], end[made], size[made] = times[low[at]], times[high[at]], sizes[at]
                made += 1
            _begin_lone(start[left[counter] : made], end[left[counter] : made], size[left[counter] : made])
        left[counter + 1] = made
    return left, start[:made].copy(), end[:made].copy(), size[:made].copy()


@njit(cache=True, nogil=True)
def _begin_lone(start: Ints, end: Ints, size: Ints) -> None:
    """The start of a lone arrival means nothing: let it be where the entry before it ends, or its own end."""
    for at in range(len(size)):
        if size[at] == 1:
            start[at] = end[max(at - 1, 0)]


@njit(cache=True, nogil=True)
def _number(times: Ints, start: Ints, end: Ints, low: Ints, high: Ints) -> None:
    """All times of a counter, rising, each once, and the numbers of those at which each entry starts and ends."""
    order = _in_order(start)
    made, at, entries = 0, 0, len(end)
    for entry in range(entries):
        while at < entries and start[order[at]] <= end[entry]:
            if made == 0 or times[made - 1] != start[order[at]]:
                times[made] = start[order[at]]
                made += 1
            low[order[at]] = made - 1
            at += 1
        if times[made - 1] != end[entry]:
            times[made] = end[entry]
            made += 1
        high[entry] = made - 1


@njit(cache=True, nogil=True)
def _in_order(numbers: Ints) -> Rows:
    """The order of numbers that mostly are in order already: each is moved to its place, while that takes few steps."""
    order, steps = np.arange(len(numbers)), _NEARLY * len(numbers)
    for row in range(1, len(numbers)):
        number, at = numbers[row], row
        while at and numbers[order[at - 1]] > number:
            order[at] = order[at - 1]
            at -= 1
        order[at] = row
        steps -= row - at
        if steps < 0:
            return np.argsort(numbers)
    return order


@njit(cache=True, nogil=True)
def _paired(slack: Floats, low: Ints, high: Ints, sizes: Ints, fresh: Flags, k: int) -> int:
    """Make pairs of entries into one until nothing fits; where what is left begins.

    In rounds, newest first. Making one takes slack away, so two entries that did not fit once never will: after the
    first round only entries that were made in the round before are looked at.
    """
    fresh[:] = True
    begin, newest = 0, len(sizes) - 1
    while newest >= 0:
        begin, newest = _round(slack, low, high, sizes, fresh, begin, newest, k)
    return begin


@njit(cache=True, nogil=True)
def _round(
    slack: Floats, low: Ints, high: Ints, sizes: Ints, fresh: Flags, begin: int, newest: int, k: int
) -> tuple[int, int]:
    """One round, from the newest entry that may fit on; where the rest begins, and the newest that was made, or -1.

    What is left moves towards the newest.
    """
    at, to, made = newest, newest + 1, -1
    while at >= begin:
        to -= 1
        low_at, sizes_at, fresh_at, high[to] = low[at], sizes[at], fresh[at], high[at]
        old, fresh[to] = at - 1, False
        looked_at = old >= begin and (fresh_at or fresh[old])
        if looked_at and _fits(slack, low[old], high[old], sizes[old], low_at, high[to], sizes_at, k):
            low_at = min(low[old], low_at)
            sizes_at += sizes[old]
            old -= 1
            fresh[to] = True
            made = max(made, to)
        low[to], sizes[to] = low_at, sizes_at
        at = old
    return to, min(made + 1, newest) if made >= 0 else -1


@njit(cache=True, nogil=True)
def _fits(
    slack: Floats, low: int, high: int, size: int, newer_low: int, newer_high: int, newer_size: int, k: int
) -> bool:
    """Whether an entry and the next newer one may be one; then the slack is what it is with that one.

    All arrivals of an entry are certain up to its start, and one of them from there up to its end. So what the two add
    to the slack changes where one of them starts or ends: there are three stretches of times, the newest first.
    """
    certain, cut = 2.0 * size, 2.0 - k * (size - 1.0)
    newer_certain, newer_cut = 2.0 * newer_size, 2.0 - k * (newer_size - 1.0)
    whole = 2.0 - k * (size + newer_size - 1.0)
    wider, middle = min(low, newer_low), max(high, newer_low)
    inner, between = (high, newer_certain) if high < newer_low else (max(low, newer_low), cut + newer_cut)
    outer = cut + newer_certain if low < newer_low else certain + newer_cut
    if not (
        _has(slack, middle, newer_high, newer_cut - whole)
        and _has(slack, wider, inner, outer - whole)
        and _has(slack, inner, middle, between - whole)
    ):
        return False
    _take(slack, middle, newer_high, newer_cut - whole)
    _take(slack, wider, inner, outer - whole)
    _take(slack, inner, middle, between - whole)
    return True


@njit(cache=True, nogil=True, inline="always")
def _has(slack: Floats, after: int, last: int, needed: float) -> bool:
    """Whether there is so much slack at all places after one, up to a last one."""
    place = last
    while place > after and slack[place] >= needed:
        place -= 1
    return place <= after


@njit(cache=True, nogil=True, inline="always")
def _take(slack: Floats, after: int, last: int, needed: float) -> None:
    """Take so much of it."""
    for place in range(after + 1, last + 1):
        slack[place] -= needed


@njit(cache=True, nogil=True)
def _fill(slack: Floats, low: Ints, high: Ints, size: Ints, k: int, later: float) -> None:
    """2 · certain - k · doubtful of a counter, at each of the times at which its entries start or end."""
    begin, stop = low.min(), high.max()
    slack[begin : stop + 1] = 0.0
    slack[begin] = later
    for at in range(len(size)):
        certain, cut = 2.0 * size[at], 2.0 - k * (size[at] - 1.0)
        slack[begin] += certain
        if low[at] < stop:
            slack[low[at] + 1] += cut - certain
        if high[at] < stop:
            slack[high[at] + 1] -= cut
    for place in range(begin, stop):
        slack[place + 1] += slack[place]
