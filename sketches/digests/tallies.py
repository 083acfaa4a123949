"""Points put in order and tallied: distinct points with their counts and weights, by table, by runs, or by group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketches.arrays import Ints, Words
from sketches.compiled import njit


def by_group(groups: Ints, codes: Words) -> NDArray[np.intp]:
    """The order of groups, which are numbered from 0, then codes.

    As one number each, where both fit into 64 bits: one sort is faster than two.
    """
    least = codes.min()
    bits = int(codes.max() - least).bit_length()
    if bits + int(groups.max()).bit_length() > 64:
        return np.lexsort((codes, groups))
    return np.argsort(groups.view(np.uint64) << np.uint64(min(bits, 63)) | (codes - least), kind="stable")


def ordered(weights: Ints, order: NDArray[Any]) -> Ints:
    return weights[order] if len(weights) else weights


def changes(columns: Sequence[NDArray[Any]]) -> NDArray[np.int64]:
    """Where a row differs from the one before it in any of the columns; the first row always does."""
    different = np.zeros(len(columns[0]), bool)
    different[:1] = True
    for column in columns:
        different[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(different)


def by_range(belongs: Ints, ranges: int, *masses: Ints) -> list[Ints]:
    """The masses of each range; `belongs` has the range of each point, and points of one range are neighbours."""
    first = changes((belongs,))
    found = [np.empty(ranges, np.int64) for _ in masses]
    for total, mass in zip(found, masses, strict=True):
        total[belongs[first]] = np.add.reduceat(mass, first)
    return found


def mask_of(heights: NDArray[Any]) -> Words:
    """The bits of a coordinate that lie within a range of a height."""
    height = heights.astype(np.uint64)
    whole = height >= np.uint64(64)
    low = (np.uint64(1) << np.where(whole, np.uint64(0), height)) - np.uint64(1)
    return np.where(whole, np.uint64(0xFFFF_FFFF_FFFF_FFFF), low)


def steps_of(codes: Words) -> Ints:
    """From code to code, modulo 2^64."""
    return np.diff(codes, prepend=np.uint64(0)).view(np.int64)


def unsteps(steps: Ints) -> Words:
    return np.cumsum(steps.view(np.uint64), dtype=np.uint64)


@njit(cache=True, nogil=True)
def tally(points: Words, weights: Ints, span: int) -> tuple[Words, Ints, Ints]:
    """The distinct points in order, with how many events each has and what they weigh: by a table over all of them."""
    counts = np.zeros(span, np.int64)
    sums = np.zeros(span if len(weights) else 0, np.int64)
    for row in range(len(points)):
        counts[points[row]] += 1
        if len(weights):
            sums[points[row]] += weights[row]
    distinct = np.flatnonzero(counts)
    found = counts[distinct]
    return distinct.astype(np.uint64), found, sums[distinct] if len(weights) else found


@njit(cache=True, nogil=True)
def runs(points: Words, weights: Ints) -> tuple[Words, Ints, Ints]:
    """The same of sorted points."""
    distinct, counts = np.empty(len(points), np.uint64), np.empty(len(points), np.int64)
    sums = np.empty(len(points), np.int64)
    made = 0
    for row in range(len(points)):
        weight = weights[row] if len(weights) else 1
        if made and distinct[made - 1] == points[row]:
            counts[made - 1] += 1
            sums[made - 1] += weight
        else:
            distinct[made], counts[made], sums[made] = points[row], 1, weight
            made += 1
    return distinct[:made], counts[:made], sums[:made]


@njit(cache=True, nogil=True)
def grouped(groups: Ints, points: Words, weights: Ints) -> tuple[Ints, Ints, Words, Ints, Ints]:
    """Sorted groups of sorted points: the groups, where each begins and ends, and the distinct points of each."""
    rows = len(points)
    names, bounds = np.empty(rows, np.int64), np.empty(rows + 1, np.int64)
    distinct, counts, sums = np.empty(rows, np.uint64), np.empty(rows, np.int64), np.empty(rows, np.int64)
    made, named = 0, 0
    for row in range(rows):
        weight = weights[row] if len(weights) else 1
        fresh = named == 0 or names[named - 1] != groups[row]
        if fresh:
            names[named], bounds[named] = groups[row], made
            named += 1
        if not fresh and distinct[made - 1] == points[row]:
            counts[made - 1] += 1
            sums[made - 1] += weight
        else:
            distinct[made], counts[made], sums[made] = points[row], 1, weight
            made += 1
    bounds[named] = made
    return names[:named], bounds[: named + 1], distinct[:made], counts[:made], sums[:made]


@njit(cache=True, nogil=True)
def numbers(groups: Ints, points: Words) -> Ints:
    """For each row of sorted groups of sorted points, which of the distinct ones it is."""
    numbers = np.empty(len(points), np.int64)
    number = -1
    for row in range(len(points)):
        if row == 0 or groups[row] != groups[row - 1] or points[row] != points[row - 1]:
            number += 1
        numbers[row] = number
    return numbers
