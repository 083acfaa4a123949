"""The order of rows by (time, hash), found fast where most of it is there already.

Rows come as sorted parts behind one another (sketches to merge) or in order of arrival, which nearly is the order of
time. So this is a natural merge sort: the ascending runs that are there are merged, two neighbours at a time, and of
two neighbours only the stretch in which they overlap is touched. Runs shorter than `_SHORTEST_RUN` are first made that
long by insertion. That is O(n) for sorted rows, O(n log r) for r runs, and O(n log n) at worst.

One number holds the time and, behind it, as many bits of the hash as there is room for, so that one comparison decides
instead of two. Rows in order of arrival are ordered by time but not by hash: where hashes break many runs, times alone
are sorted. Either way the few rows that are still tied are ordered by hash in the end.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import njit
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Words = NDArray[np.uint64]

_SHORTEST_RUN: Final = 24


@njit(cache=True, nogil=True)
def time_order(times: Ints, hashes: Words) -> Ints:
    """The row numbers that order the rows by time and, at one time, by hash; equal rows stay as they are.

    >>> time_order(np.array([7, 5, 7]), np.array([2, 9, 1], np.uint64)).tolist()
    [1, 2, 0]
    """
    rows = np.arange(len(times))
    if len(rows) > 1:
        keys = _keys(times, hashes)
        _sort(keys, rows)
        _order_ties(keys, hashes, rows)
    return rows


@njit(cache=True, nogil=True)
def _keys(times: Ints, hashes: Words) -> Words:
    """Numbers that order the rows by time and, unless that would break many runs, by the first bits of the hash."""
    oldest, newest = times[0], times[0]
    falls, falling_times = 0, 0
    for row in range(1, len(times)):
        time, before = times[row], times[row - 1]
        falls += time < before or (time == before and hashes[row] < hashes[row - 1])
        falling_times += time < before
        oldest, newest = min(oldest, time), max(newest, time)
    room = 0
    if 2 * falling_times >= falls:
        span = np.uint64(newest) - np.uint64(oldest)
        while room < 63 and not span >> np.uint64(63 - room):
            room += 1
    keys = np.empty(len(times), np.uint64)
    for row in range(len(times)):
        keys[row] = np.uint64(times[row]) - np.uint64(oldest)
        if room:
            keys[row] = (keys[row] << np.uint64(room)) | (hashes[row] >> np.uint64(64 - room))
    return keys


@njit(cache=True, nogil=True)
def drop_repeats(order: Ints, times: Ints, hashes: Words, values: NDArray[Any], weights: Ints) -> tuple[int, bool]:
    """Leave out of `order` the rows that equal the one before in all columns, and say how many are left.

    And whether there are rows that share time and hash but are not equal: `time_order` does not say how those follow
    each other, so equal ones may be left. No weights mean that all are equal.
    """
    kept = 0
    conflict = False
    for row in order:
        if kept:
            last = order[kept - 1]
            if times[row] == times[last] and hashes[row] == hashes[last]:
                if values[row] == values[last] and (len(weights) == 0 or weights[row] == weights[last]):
                    continue
                conflict = True
        order[kept] = row
        kept += 1
    return kept, conflict


@njit(cache=True, nogil=True)
def _order_ties(keys: Words, hashes: Words, rows: Ints) -> None:
    """Order the rows of each key by hash; keys are sorted, and `rows` are the numbers of their hashes."""
    stop = 0
    while stop < len(rows):
        start = stop
        stop += 1
        while stop < len(rows) and keys[stop] == keys[start]:
            stop += 1
        if stop - start > _SHORTEST_RUN:
            _sort(hashes[rows[start:stop]], rows[start:stop])
            continue
        for place in range(start + 1, stop):
            moved, hole = rows[place], place
            while hole > start and hashes[rows[hole - 1]] > hashes[moved]:
                rows[hole] = rows[hole - 1]
                hole -= 1
            rows[hole] = moved


@njit(cache=True, nogil=True)
def _sort(keys: Words, rows: Ints) -> None:
    """Sort the keys in place, stably, and move the row numbers along."""
    edges = _runs(keys, rows)
    runs = len(edges) - 1
    if runs < 2:
        return
    spare_keys = np.empty(len(keys), keys.dtype)
    spare_rows = np.empty(len(keys), np.int64)
    while runs > 1:
        merged = 0
        for run in range(0, runs - 1, 2):
            _merge(keys, rows, edges[run], edges[run + 1], edges[run + 2], spare_keys, spare_rows)
            merged += 1
            edges[merged] = edges[run + 2]
        if runs % 2:
            merged += 1
            edges[merged] = edges[runs]
        runs = merged


@njit(cache=True, nogil=True)
def _runs(keys: Words, rows: Ints) -> Ints:
    """Where the ascending runs begin, and the end of the last; short runs are made longer by insertion."""
    count = len(keys)
    edges = np.empty(count // _SHORTEST_RUN + 2, np.int64)
    edges[0] = 0
    runs = 0
    stop = 0
    while stop < count:
        start = stop
        stop += 1
        while stop < count and keys[stop - 1] <= keys[stop]:
            stop += 1
        least = min(start + _SHORTEST_RUN, count)
        while stop < least:
            key, moved = keys[stop], rows[stop]
            row = stop
            while row > start and keys[row - 1] > key:
                keys[row], rows[row] = keys[row - 1], rows[row - 1]
                row -= 1
            keys[row], rows[row] = key, moved
            stop += 1
        runs += 1
        edges[runs] = stop
    return edges[: runs + 1]


@njit(cache=True, nogil=True)
def _merge(keys: Words, rows: Ints, start: int, middle: int, stop: int, spare_keys: Words, spare_rows: Ints) -> None:
    """Merge two neighbouring runs: only what lies between the second's first key and the first's last key moves."""
    if keys[middle - 1] <= keys[middle]:
        return
    start += np.searchsorted(keys[start:middle], keys[middle], side="right")
    stop = middle + np.searchsorted(keys[middle:stop], keys[middle - 1])
    left = middle - start
    spare_keys[:left] = keys[start:middle]
    spare_rows[:left] = rows[start:middle]
    one, other, at = 0, middle, start
    while one < left and other < stop:
        # Both sides are read and one is chosen: a branch here would be mispredicted for every second row.
        key, row = spare_keys[one], spare_rows[one]
        other_key, other_row = keys[other], rows[other]
        behind = other_key < key
        keys[at] = other_key if behind else key
        rows[at] = other_row if behind else row
        other += behind
        one += not behind
        at += 1
    keys[at : at + left - one] = spare_keys[one:left]
    rows[at : at + left - one] = spare_rows[one:left]
