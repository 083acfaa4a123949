"""Dyadic trees of masses: the q-digests of paper C and the histograms of paper D, with all levels in one tree.

A node is a dyadic interval [start, start + 2^height) of 64-bit coordinates, called a *range* here. It carries a mass:
some events lie in the range, but nobody knows where in it. Every event is in exactly one node. So the mass of the nodes
right of a coordinate x is a certain lower bound L(x) of the mass at x or above. With the mass of the nodes that x cuts
it becomes a certain upper bound U(x). The error at x is the mass of the nodes on one path.

Paper C keeps one tree for every count threshold 2^j, and paper D one histogram for every level. Each of these holds the
most recent ranges only, and a question reads the finest one that is complete. Here a range is kept once, as coarse as
the finest complete level would keep it. A node may carry a share of the mass right of it (`RIGHT`, for times), of all
mass (`ALL`, for values), or of the mass right of it and of the mass left of it, whichever is less (`EITHER`, for values
whose rare ends count). All are sums over events, so if two trees keep to their shares, their union does too. Merging
costs no accuracy (C §7.1), however often and in whatever order it is done.

What a path may carry, over what a coordinate has right of it with its own path included:

- `cover_points` *lays* the events of a batch into ranges, of which no two overlap: 1/K.
- `fold` moves masses of merged trees up into common ancestors. Let C_j(x) be the mass of the ranges of height j or more
  that x cuts, H the height of the tree and θ = 3/8: C_j(x) ≤ (1 + θ·(H + 1 - j)/H)/K · U(x). So a path carries at most
  (1 + θ)/K.

Both sides are sums over events, so what holds of two trees holds of their union. `fold` takes a range together with
all that lies in it, if what the range would carry then, with the ranges above it, keeps to the line of its height: the
lines of greater heights do not see it, and those of lower heights allow more. It only moves mass up, where it lies
right of more coordinates than before, so every U stays as large as it was. As 1 + θ < 2,

    cut(x) ≤ (2/K)·U(x) = (2/K)·(L(x) + cut(x))

and K = 2(1 + ε)/ε makes cut(x) ≤ ε·L(x). The same holds of the mass left of x, with all signs turned round, where a
node keeps to its share of that too. (Before format 8 a path carried 2/K at the most: 1/K as laid and, each node
alone, 1/(H·K) as folded. Such trees merge with those of today, and the last line holds.)

Where a range is not taken, the ranges above it carry at most what the next height allows, so the mass in it exceeds
θ/(H·K) of U. That bounds the number of nodes, however they were merged: of one height these ranges are disjoint, so
there are at most H·K/θ·(1 + ln mass) of them.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sketches.arrays import Ints, Levels, Words
from sketches.compiled import njit

Mass = NDArray[Any]  # int64, or float64 where masses are decayed

PATHS_FORMAT: Final = 8  # the first in which what may be folded is a matter of paths, and no mass says that it was
_CAUTION: Final = 1.0 - 1e-12  # a share is computed in floating point; this takes off what rounding could add
_DEEPEST: Final = 2 * 65 + 1  # ranges that wait at a time: two for each height
_FOLDED: Final = 0.375  # θ: how much wider than those of one batch merged trees may be

# Of what a node may carry a share.
ALL: Final = 0
RIGHT: Final = 1
EITHER: Final = 2


def compression_factor(epsilon: float) -> float:
    """K for an accuracy: a path carries at most 2/K of what is right of it, the path itself included."""
    return 2.0 * (1.0 + epsilon) / epsilon


@njit(cache=True, nogil=True, inline="always")
def floor_to(point: np.uint64, height: int) -> np.uint64:
    """The start of the dyadic range of a height that holds a point."""
    if height >= 64:
        return np.uint64(0)
    return np.uint64((point >> np.uint64(height)) << np.uint64(height))


@njit(cache=True, nogil=True, inline="always")
def end_of(start: np.uint64, height: int) -> np.uint64:
    """The last coordinate of a dyadic range."""
    if height >= 64:
        return np.uint64(0xFFFF_FFFF_FFFF_FFFF)
    return np.uint64(start + ((np.uint64(1) << np.uint64(height)) - np.uint64(1)))


# Laying the events of a batch into ranges.


@njit(cache=True, nogil=True)
def cover_points(
    bounds: Ints, points: Words, counts: Mass, weights: Mass, tree_height: int, factor: float, of: int
) -> tuple[Words, Levels, Ints]:
    """Cover groups of sorted distinct points by as few ranges as the shares allow.

    Gives the starts and heights of the ranges, and the range of each point. A range takes in points, from the right,
    while its count and its weight are both at most 1/factor of what it may carry a share `of`: what is right of it, or
    all, or the lesser of what is right and left of it. It is no wider than its points need. A range of a single point
    may carry any mass, because it causes no error.
    """
    rows = len(points)
    starts, heights, range_of = np.empty(rows, np.uint64), np.empty(rows, np.uint8), np.empty(rows, np.int64)
    made = 0
    for group in range(len(bounds) - 1):
        first, last = bounds[group], bounds[group + 1] - 1
        right_count, right_weight = counts[first] * 0, weights[first] * 0
        count_share, weight_share = 0.0, 0.0
        all_counts, all_weights = counts[first : last + 1].sum(), weights[first : last + 1].sum()
        if of == ALL:
            count_share = all_counts / factor * _CAUTION
            weight_share = all_weights / factor * _CAUTION
        start_right = np.uint64(0)
        at = last
        while at >= first:
            if of != ALL:
                count_share = right_count / factor * _CAUTION
                weight_share = right_weight / factor * _CAUTION
            if of == EITHER:  # c ≤ (rest - c)/K of what is left of it, where the rest is all but what is right of it
                count_share = min(count_share, (all_counts - right_count) / (factor + 1.0) * _CAUTION)
                weight_share = min(weight_share, (all_weights - right_weight) / (factor + 1.0) * _CAUTION)
            height, low, count, weight = _widest_range(
                points, counts, weights, first, at, tree_height, count_share, weight_share, at < last, start_right
            )
            starts[made], heights[made] = floor_to(points[at], height), height
            range_of[low : at + 1] = made
            right_count += count
            right_weight += weight
            start_right = starts[made]
            made += 1
            at = low - 1
    return starts[:made], heights[:made], range_of


@njit(cache=True, nogil=True)
def _widest_range(
    points: Words,
    counts: Mass,
    weights: Mass,
    first: int,
    at: int,
    tree_height: int,
    count_share: float,
    weight_share: float,
    bounded: bool,
    start_right: np.uint64,
) -> tuple[int, int, Any, Any]:
    """The range that the point `at` closes: its height, its lowest point, its count and its weight.

    Where `bounded`, the range must end before `start_right`, the start of its right neighbour.
    """
    low, count, weight = at, counts[at], weights[at]
    best_height, best_low, best_count, best_weight = 0, low, count, weight
    height = 1
    while height <= tree_height and low > first and count <= count_share and weight <= weight_share:
        start = floor_to(points[at], height)
        if bounded and end_of(start, height) >= start_right:
            break
        while low > first and points[low - 1] >= start:
            low -= 1
            count += counts[low]
            weight += weights[low]
            if count > count_share or weight > weight_share:
                return best_height, best_low, best_count, best_weight
        if low < best_low:
            best_height, best_low, best_count, best_weight = height, low, count, weight
        height += 1
    return best_height, best_low, best_count, best_weight


# Folding masses into common ancestors.


@njit(cache=True, nogil=True)
def fold(
    bounds: Ints,
    starts: Words,
    heights: Levels,
    counts: Mass,
    weights: Mass,
    later_counts: Mass,
    later_weights: Mass,
    tree_height: int,
    factor: float,
    of: int,
) -> tuple[Words, Levels]:
    """Where each node's mass goes: the start and height of its own range, or of the ancestor that takes it in.

    The nodes come in groups, one tree each, sorted by start, the wider of two before the narrower. `later_*` is what
    each tree has right of it, beyond its own nodes: 0, or what came in later trees.
    """
    to_start, to_height = starts.copy(), heights.copy()
    count_before, weight_before = _sums(counts), _sums(weights)
    # the ranges still to be looked at: their nodes, and what the ranges above them carry
    first, last = np.empty(_DEEPEST, np.int64), np.empty(_DEEPEST, np.int64)
    count_above, weight_above = np.empty(_DEEPEST, counts.dtype), np.empty(_DEEPEST, weights.dtype)
    for group in range(len(bounds) - 1):
        begin, end = bounds[group], bounds[group + 1]
        all_counts = count_before[end] - count_before[begin] + later_counts[group]
        all_weights = weight_before[end] - weight_before[begin] + later_weights[group]
        first[0], last[0], count_above[0], weight_above[0] = begin, end, counts[begin] * 0, weights[begin] * 0
        waiting = 1
        while waiting:
            waiting -= 1
            low, high, above, above_weight = first[waiting], last[waiting], count_above[waiting], weight_above[waiting]
            if high - low < 2:
                continue
            height = _common_height(starts[low], starts[high - 1], heights[low])
            start = floor_to(starts[low], height)
            share = (1.0 + _FOLDED * (tree_height + 1 - height) / tree_height) / factor * _CAUTION
            count = above + (count_before[high] - count_before[low])
            weight = above_weight + (weight_before[high] - weight_before[low])
            of_count, of_weight = all_counts, all_weights
            if of != ALL:
                of_count = count + (count_before[end] - count_before[high]) + later_counts[group]
                of_weight = weight + (weight_before[end] - weight_before[high]) + later_weights[group]
            if of == EITHER:  # the ranges above come before those that they hold
                of_count = min(of_count, count_before[high] - count_before[begin])
                of_weight = min(of_weight, weight_before[high] - weight_before[begin])
            if count <= share * of_count and weight <= share * of_weight:
                to_start[low:high], to_height[low:high] = start, height
                continue
            if heights[low] == height:
                above += counts[low]
                above_weight += weights[low]
                low += 1
            middle = low + np.searchsorted(starts[low:high], end_of(start, height - 1), side="right")
            for one, other in ((low, middle), (middle, high)):
                first[waiting], last[waiting] = one, other
                count_above[waiting], weight_above[waiting] = above, above_weight
                waiting += 1
    return to_start, to_height


@njit(cache=True, nogil=True)
def _sums(masses: Mass) -> Mass:
    """What all before each are together, and all."""
    found = np.zeros(len(masses) + 1, masses.dtype)
    for row in range(len(masses)):
        found[row + 1] = found[row] + masses[row]
    return found


@njit(cache=True, nogil=True, inline="always")
def _common_height(one: np.uint64, other: np.uint64, least: int) -> int:
    """The height, from a least one on, of the narrowest range that holds two coordinates."""
    height = int(least)
    while height < 64 and (one ^ other) >> np.uint64(height):
        height += 1
    return height
