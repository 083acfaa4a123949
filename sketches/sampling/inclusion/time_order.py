"""The order of rows by (time, hash), found fast where the rows are mostly in order already.

Rows come as sorted parts one behind the other (sketches to be merged), or in order of arrival, which is nearly the
order of time. This is therefore a natural merge sort: it finds the ascending runs, extends those shorter than
`_SHORTEST_RUN` by insertion, and merges neighbouring runs two at a time. A merge touches only the stretch in which the
two runs overlap. That takes O(n) for sorted rows, O(n log r) for r runs, and O(n log n) at worst.

One key holds the time and, behind it, as many leading bits of the hash as fit, so that one comparison decides. Rows in
order of arrival are sorted by time but not by hash; where hashes would break many runs, the key is the time alone. In
both cases, rows with equal keys are sorted by hash at the end.

`benchmarks/sorting.py` compares it with numpy's stable sorts. It is needed inside compiled kernels, which cannot call
numpy's `lexsort`; numba's own merge sort ignores runs.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sketches.arrays import Ints, Words
from sketches.compiled import njit

_SHORTEST_RUN: Final = 24


@njit(cache=True, nogil=True)
def time_order(times: Ints, hashes: Words) -> Ints:
    """The row numbers in the order of time and, at one time, of hash; equal rows keep their order.

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
    """Keys in the order of time and, unless that would break many runs, of the leading bits of the hash."""
    oldest, newest = times[0], times[0]
    falls, falling_times = 0, 0
    for row in range(1, len(times)):
        time, before = times[row], times[row - 1]
        falls += time < before or (time == before and hashes[row] < hashes[row - 1])
        falling_times += time < before
        oldest, newest = min(oldest, time), max(newest, time)
    hash_bits = 0
    if 2 * falling_times >= falls:
        span = np.uint64(newest) - np.uint64(oldest)
        while hash_bits < 63 and not span >> np.uint64(63 - hash_bits):
            hash_bits += 1
    keys = np.empty(len(times), np.uint64)
    for row in range(len(times)):
        keys[row] = np.uint64(times[row]) - np.uint64(oldest)
        if hash_bits:
            keys[row] = (keys[row] << np.uint64(hash_bits)) | (hashes[row] >> np.uint64(64 - hash_bits))
    return keys


@njit(cache=True, nogil=True)
def drop_repeats(order: Ints, times: Ints, hashes: Words, values: NDArray[Any], weights: Ints) -> tuple[int, bool]:
    """Move to the front of `order` the rows that differ from the one before in some column.

    Returns how many rows that are, and whether different rows share time and hash. `time_order` does not sort such
    rows any further, so repeats may be left between them. Empty `weights` mean that all weights are 1.
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
    """Sort the rows that share a key by hash; `keys` are sorted, `hashes` are in the order of row numbers."""
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
    """Where each ascending run begins and where the last one ends, after short runs were extended by insertion."""
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
    """Merge two neighbouring runs; only rows between the second's first key and the first's last key move."""
    if keys[middle - 1] <= keys[middle]:
        return
    start += np.searchsorted(keys[start:middle], keys[middle], side="right")
    stop = middle + np.searchsorted(keys[middle:stop], keys[middle - 1])
    count = middle - start
    spare_keys[:count] = keys[start:middle]
    spare_rows[:count] = rows[start:middle]
    left, right, at = 0, middle, start
    while left < count and right < stop:
        # Read both sides and choose one: a branch would be mispredicted for every second row.
        left_key, left_row = spare_keys[left], spare_rows[left]
        right_key, right_row = keys[right], rows[right]
        take_right = right_key < left_key
        keys[at] = right_key if take_right else left_key
        rows[at] = right_row if take_right else left_row
        right += take_right
        left += not take_right
        at += 1
    keys[at : at + count - left] = spare_keys[left:count]
    rows[at : at + count - left] = spare_rows[left:count]
