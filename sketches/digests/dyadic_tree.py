"""Dyadic trees of masses: the q-digests of paper C and the histograms of paper D, with all levels in one tree.

A node is a dyadic interval [start, start + 2^height) of 64-bit coordinates, called a *range* here. It carries a mass:
some events lie in the range, but nobody knows where in it. Every event is in exactly one node. So the mass of the nodes
right of a coordinate x is a certain lower bound L(x) of the mass at x or above. With the mass of the nodes that x cuts
it becomes a certain upper bound U(x). The error at x is the mass of the nodes on one path.

Paper C keeps one tree for every count threshold 2^j, and paper D one histogram for every level. Each of these holds the
most recent ranges only, and a question reads the finest one that is complete. Here a range is kept once, as coarse as
the finest complete level would keep it. A node may carry a share of the mass right of it (`suffix`, for times), or of
all mass (for values). Both are sums over events, so if two trees keep to their shares, their union does too. Merging
costs no accuracy (C §7.1), however often and in whatever order it is done.

There are two kinds of mass. `cover_points` *lays* the events of a batch into ranges: of one batch, at most one node on
each path carries laid mass, and at most 1/K of what is right of it. `compress`, the compression of a q-digest, *folds*
masses into a common parent: of folded mass a node carries at most 1/(height of the tree · K) of what is right of it. A
path therefore carries at most 2/K:

    cut(x) = laid + folded ≤ U(x)/K + U(x)/K = (2/K)·(L(x) + cut(x))

and K = 2(1 + ε)/ε makes cut(x) ≤ ε·L(x). `compress` only moves mass up, where it lies right of more coordinates than
before, and merging only adds. Both leave every U as large as it was, so neither breaks what held before. After
`compress`, two siblings and the mass folded into their parent together exceed the parent's share. That bounds the
number of nodes by O(height/ε·log mass), the space of C's Theorem 1.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sketches.arrays import Floats, Ints, Levels, Words
from sketches.compiled import njit

Mass = NDArray[Any]  # int64, or float64 where masses are decayed

_CAUTION: Final = 1.0 - 1e-12  # a share is computed in floating point; this takes off what rounding could add


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
    bounds: Ints, points: Words, counts: Mass, weights: Mass, tree_height: int, factor: float, suffix: bool
) -> tuple[Words, Levels, Ints]:
    """Cover groups of sorted distinct points by as few ranges as the shares allow.

    Gives the starts and heights of the ranges, and the range of each point. A range takes in points, from the right,
    while its count and its weight are both at most 1/factor of what is right of it (or of all, without `suffix`). It is
    no wider than its points need. A range of a single point may carry any mass, because it causes no error.
    """
    rows = len(points)
    starts, heights, range_of = np.empty(rows, np.uint64), np.empty(rows, np.uint8), np.empty(rows, np.int64)
    made = 0
    for group in range(len(bounds) - 1):
        first, last = bounds[group], bounds[group + 1] - 1
        right_count, right_weight = counts[first] * 0, weights[first] * 0
        count_share, weight_share = 0.0, 0.0
        if not suffix:
            count_share = counts[first : last + 1].sum() / factor * _CAUTION
            weight_share = weights[first : last + 1].sum() / factor * _CAUTION
        start_right = np.uint64(0)
        at = last
        while at >= first:
            if suffix:
                count_share = right_count / factor * _CAUTION
                weight_share = right_weight / factor * _CAUTION
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


# Folding masses into common parents.


@njit(cache=True, nogil=True)
def compress(
    bounds: Ints,
    starts: Words,
    heights: Levels,
    counts: Mass,
    weights: Mass,
    folded_counts: Mass,
    folded_weights: Mass,
    tree_height: int,
    factor: float,
    suffix: bool,
) -> tuple[Words, Levels]:
    """Where each node's mass goes: the start and height of its own range, or of the ancestor that takes it in.

    The nodes come in groups, one tree each, sorted by height, then start. `counts` and `weights` are all that a node
    carries, `folded_*` the part of it that was folded there before. A node moves up only to meet a sibling or a parent.
    """
    to_start, to_height = starts.copy(), heights.copy()
    for group in range(len(bounds) - 1):
        first, last = bounds[group], bounds[group + 1]
        if last - first > 1:
            start, height, into = _compress_tree(
                starts[first:last],
                heights[first:last],
                counts[first:last],
                weights[first:last],
                folded_counts[first:last],
                folded_weights[first:last],
                tree_height,
                factor,
                suffix,
            )
            for node in range(last - first):
                target = node
                while into[target] >= 0:
                    target = into[target]
                to_start[first + node], to_height[first + node] = start[target], height[target]
    return to_start, to_height


@njit(cache=True, nogil=True)
def _compress_tree(
    starts: Words,
    heights: Levels,
    counts: Mass,
    weights: Mass,
    folded_counts: Mass,
    folded_weights: Mass,
    tree_height: int,
    factor: float,
    suffix: bool,
) -> tuple[Words, Levels, Ints]:
    """The nodes of one tree, first those given, then the parents made for siblings; the node that took each in, or -1.

    Goes up level by level. `rising` are the nodes from below that may still be folded, in the order of their starts.
    """
    given = made = len(starts)
    start, height = np.empty(2 * given, np.uint64), np.empty(2 * given, np.uint8)
    count, weight = np.zeros(2 * given, counts.dtype), np.zeros(2 * given, weights.dtype)
    start[:given], height[:given], count[:given], weight[:given] = starts, heights, counts, weights
    into = np.full(2 * given, -1, np.int64)
    ends, count_shares, weight_shares = _shares(starts, heights, counts, weights, factor * max(tree_height, 1))
    rising, risen = np.empty(given, np.int64), np.empty(given, np.int64)
    native = 0  # the given nodes from here on lie at the current level or above
    while native < given and heights[native] == 0:
        rising[native] = native
        native += 1
    rising_count = native
    for level in range(1, tree_height + 1):
        rising_count, native, made = _fold_level(
            level,
            start,
            height,
            count,
            weight,
            into,
            folded_counts,
            folded_weights,
            ends,
            count_shares,
            weight_shares,
            suffix,
            rising,
            rising_count,
            native,
            made,
            risen,
        )
        rising, risen = risen, rising
    return start, height, into


@njit(cache=True, nogil=True)
def _shares(
    starts: Words, heights: Levels, counts: Mass, weights: Mass, inverse: float
) -> tuple[Words, Floats, Floats]:
    """The sorted ends of the nodes, and 1/inverse of the mass of the nodes that end there or later.

    Folding only moves ends to the right, so these shares are never too large while the tree is compressed.
    """
    rows = len(starts)
    ends = np.empty(rows, np.uint64)
    for row in range(rows):
        ends[row] = end_of(starts[row], heights[row])
    order = np.argsort(ends)
    count_shares, weight_shares = np.zeros(rows + 1), np.zeros(rows + 1)
    right_count, right_weight = counts[0] * 0, weights[0] * 0
    for row in range(rows - 1, -1, -1):
        right_count += counts[order[row]]
        right_weight += weights[order[row]]
        count_shares[row] = right_count / inverse * _CAUTION
        weight_shares[row] = right_weight / inverse * _CAUTION
    return ends[order], count_shares, weight_shares


@njit(cache=True, nogil=True)
def _fold_level(
    level: int,
    start: Words,
    height: Levels,
    count: Mass,
    weight: Mass,
    into: Ints,
    folded_counts: Mass,
    folded_weights: Mass,
    ends: Words,
    count_shares: Floats,
    weight_shares: Floats,
    suffix: bool,
    rising: Ints,
    rising_count: int,
    native: int,
    made: int,
    risen: Ints,
) -> tuple[int, int, int]:
    """Fold what fits into the ranges of one level; how many nodes rise further, the next given node, the nodes made."""
    given, at, risen_count = len(ends), 0, 0
    while at < rising_count or (native < given and height[native] == level):
        here = floor_to(start[rising[at]], level) if at < rising_count else start[native]
        parent = -1
        if native < given and height[native] == level and start[native] <= here:
            here, parent = start[native], native
            native += 1
        children, moved_count, moved_weight = 0, count[0] * 0, weight[0] * 0
        while children < 2 and at + children < rising_count and floor_to(start[rising[at + children]], level) == here:
            moved_count += count[rising[at + children]]
            moved_weight += weight[rising[at + children]]
            children += 1
        stays = parent  # the node that may be folded at a level above; -1: none
        if children > 0:
            if parent >= 0:
                moved_count += folded_counts[parent]
                moved_weight += folded_weights[parent]
            right = np.searchsorted(ends, end_of(here, level), side="right") if suffix else 0
            if moved_count <= count_shares[right] and moved_weight <= weight_shares[right]:
                if parent < 0 and children == 2:
                    parent = made
                    made += 1
                    start[parent], height[parent] = here, level
                stays = parent if parent >= 0 else rising[at]  # alone, until it meets another node further up
                if parent >= 0:
                    for child in rising[at : at + children]:
                        into[child] = parent
                        count[parent] += count[child]
                        weight[parent] += weight[child]
        at += children
        if stays >= 0:
            risen[risen_count] = stays
            risen_count += 1
    return risen_count, native, made
