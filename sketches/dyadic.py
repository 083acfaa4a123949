"""Dyadic trees of masses: the q-digests of paper C and the histograms of paper D, all levels folded into one tree.

A node is a dyadic range of 64-bit coordinates, [start, start + 2^height), and carries a mass: of some events it is
known that they lie in the range, but not where. An event is in exactly one node, so whatever happens to the tree, the
mass of the nodes right of a coordinate x is a certain lower bound L(x) of the mass at x or above, and adding the masses
of the nodes that x cuts makes it a certain upper bound U(x). The error at x is the mass of the nodes on one path.

Paper C keeps one tree for every count threshold 2^j and paper D one histogram for every level, each with the most
recent ranges only, and a question reads the finest one that is complete. Here a range is kept once, as coarse as the
finest complete level would have it: what a node may carry is a share of the mass right of it (`suffix`, for times), or
of all mass (for values). Both are sums over events, so what two trees keep to, their union keeps to as well: merging
costs no accuracy (C §7.1), however often and in whatever order.

Masses come in two kinds. *Laid* mass is where `cover` put it: of one batch, at most one node on each path carries any,
and at most 1/K of what is right of it. *Folded* mass was moved up by `fold`, the compression of a q-digest, and each
node may carry at most 1/(height of the tree · K) of what is right of it. A path therefore carries at most 2/K:

    cut(x) = laid + folded ≤ U(x)/K + U(x)/K = (2/K)·(L(x) + cut(x))

and K = 2(1 + ε)/ε makes cut(x) ≤ ε·L(x). `fold` only moves mass up, where it lies right of more coordinates than
before, and merging only adds: both leave every U as large as it was, so neither breaks what held before. After `fold`,
two siblings and what was folded into their parent together exceed the parent's share, which bounds the number of nodes
by O(height/ε·log mass), the space of C's Theorem 1.
"""

from __future__ import annotations

from typing import Any, Final

import numba
import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]
Heights = NDArray[np.uint8]
Masses = NDArray[Any]  # int64, or float64 where masses are decayed

_CAUTION: Final = 1.0 - 1e-12  # a share is computed in floating point; what rounding could add is taken off


def share(epsilon: float) -> float:
    """K for an accuracy: a path carries at most 2/K of what is right of it, itself included."""
    return 2.0 * (1.0 + epsilon) / epsilon


@numba.njit(cache=True, nogil=True, inline="always")
def floor_to(point: np.uint64, height: int) -> np.uint64:
    """The start of the dyadic range of a height that holds a point."""
    if height >= 64:
        return np.uint64(0)
    return np.uint64((point >> np.uint64(height)) << np.uint64(height))


@numba.njit(cache=True, nogil=True, inline="always")
def end_of(start: np.uint64, height: int) -> np.uint64:
    """The last coordinate of a dyadic range."""
    if height >= 64:
        return np.uint64(0xFFFF_FFFF_FFFF_FFFF)
    return np.uint64(start + ((np.uint64(1) << np.uint64(height)) - np.uint64(1)))


@numba.njit(cache=True, nogil=True)
def cover(
    bounds: NDArray[np.int64], points: Words, counts: Masses, weights: Masses, top: int, most: float, suffix: bool
) -> tuple[Words, Heights, NDArray[np.int64]]:
    """Lay groups of sorted distinct points into as few ranges as the shares allow: starts, heights, each point's range.

    From the right: a range takes in points while both of its masses stay within 1/most of what is right of it (or of
    all, where not `suffix`), and is no wider than they need. A single point may carry any mass: it errs nowhere.
    """
    rows = len(points)
    starts, heights = np.empty(rows, np.uint64), np.empty(rows, np.uint8)
    belongs = np.empty(rows, np.int64)
    made = 0
    for group in range(len(bounds) - 1):
        first, last = bounds[group], bounds[group + 1] - 1
        count_share = counts[first : last + 1].sum() * 0.0
        weight_share = weights[first : last + 1].sum() * 0.0
        if not suffix:
            count_share = counts[first : last + 1].sum() / most * _CAUTION
            weight_share = weights[first : last + 1].sum() / most * _CAUTION
        right_count = counts[first] * 0
        right_weight = weights[first] * 0
        limit, limited = np.uint64(0), False
        at = last
        while at >= first:
            if suffix:
                count_share = right_count / most * _CAUTION
                weight_share = right_weight / most * _CAUTION
            low, count, weight = at, counts[at], weights[at]
            best, best_low, best_count, best_weight = 0, at, count, weight
            height = 1
            while height <= top and low > first and count <= count_share and weight <= weight_share:
                start = floor_to(points[at], height)
                if limited and end_of(start, height) >= limit:
                    break
                while low > first and points[low - 1] >= start:
                    low -= 1
                    count += counts[low]
                    weight += weights[low]
                    if count > count_share or weight > weight_share:
                        break
                if count > count_share or weight > weight_share:
                    break
                if low < best_low:
                    best, best_low, best_count, best_weight = height, low, count, weight
                height += 1
            starts[made], heights[made] = floor_to(points[at], best), best
            belongs[best_low : at + 1] = made
            made += 1
            right_count += best_count
            right_weight += best_weight
            limit, limited = floor_to(points[at], best), True
            at = best_low - 1
    return starts[:made], heights[:made], belongs


@numba.njit(cache=True, nogil=True)
def fold(
    bounds: NDArray[np.int64],
    starts: Words,
    heights: Heights,
    counts: Masses,
    weights: Masses,
    folded_counts: Masses,
    folded_weights: Masses,
    top: int,
    most: float,
    suffix: bool,
) -> tuple[Words, Heights]:
    """Where each node's mass goes: to itself, or up to a range that it shares with others.

    Groups of nodes sorted by height, then start; `counts` and `weights` are all that a node carries, `folded_*` the
    part of it that was folded there before. A node rises only to meet a sibling or a parent, never alone.
    """
    rows = len(starts)
    to_start, to_height = starts.copy(), heights.copy()
    for group in range(len(bounds) - 1):
        first, last = bounds[group], bounds[group + 1]
        if last - first > 1:
            _fold_group(
                starts[first:last],
                heights[first:last],
                counts[first:last],
                weights[first:last],
                folded_counts[first:last],
                folded_weights[first:last],
                top,
                most,
                suffix,
                to_start[first:last],
                to_height[first:last],
            )
    return to_start[:rows], to_height[:rows]


@numba.njit(cache=True, nogil=True)
def _fold_group(
    starts: Words,
    heights: Heights,
    counts: Masses,
    weights: Masses,
    folded_counts: Masses,
    folded_weights: Masses,
    top: int,
    most: float,
    suffix: bool,
    to_start: Words,
    to_height: Heights,
) -> None:
    rows = len(starts)
    least = most * max(top, 1)
    # what lies right of a coordinate, by the nodes' ends; mass that rises meanwhile can only add to it
    ends = np.empty(rows, np.uint64)
    for row in range(rows):
        ends[row] = end_of(starts[row], heights[row])
    order = np.argsort(ends)
    ends = ends[order]
    right_counts, right_weights = np.zeros(rows + 1, counts.dtype), np.zeros(rows + 1, weights.dtype)
    for row in range(rows - 1, -1, -1):
        right_counts[row] = right_counts[row + 1] + counts[order[row]]
        right_weights[row] = right_weights[row + 1] + weights[order[row]]
    # entries: nodes on their way up, and the nodes they became; each knows the entry it was taken into
    room = 2 * rows
    taken = np.full(room, -1, np.int64)
    place, tall = np.empty(room, np.uint64), np.empty(room, np.uint8)
    count, weight = np.empty(room, counts.dtype), np.empty(room, weights.dtype)
    old_count, old_weight = np.zeros(room, counts.dtype), np.zeros(room, weights.dtype)
    place[:rows], tall[:rows], count[:rows], weight[:rows] = starts, heights, counts, weights
    old_count[:rows], old_weight[:rows] = folded_counts, folded_weights
    made = rows
    rising, risen = np.empty(rows, np.int64), np.empty(rows, np.int64)
    number = 0
    native = 0
    while native < rows and heights[native] == 0:
        rising[number] = native
        number += 1
        native += 1
    for height in range(1, top + 1):
        at, found = 0, 0
        while at < number or (native < rows and heights[native] == height):
            here = native < rows and heights[native] == height
            if at < number:
                start = floor_to(place[rising[at]], height)
                if here and starts[native] < start:
                    start = starts[native]
            else:
                start = starts[native]
            parent = -1
            if here and starts[native] == start:
                parent = native
                native += 1
            one, other = -1, -1
            if at < number and floor_to(place[rising[at]], height) == start:
                one = rising[at]
                at += 1
                if at < number and floor_to(place[rising[at]], height) == start:
                    other = rising[at]
                    at += 1
            if one < 0:
                risen[found] = parent
                found += 1
                continue
            moved_count, moved_weight = count[one], weight[one]
            if other >= 0:
                moved_count += count[other]
                moved_weight += weight[other]
            if parent >= 0:
                moved_count += old_count[parent]
                moved_weight += old_weight[parent]
            if suffix:
                right = np.searchsorted(ends, end_of(start, height), side="right")
                count_share = right_counts[right] / least * _CAUTION
                weight_share = right_weights[right] / least * _CAUTION
            else:
                count_share = right_counts[0] / least * _CAUTION
                weight_share = right_weights[0] / least * _CAUTION
            if moved_count <= count_share and moved_weight <= weight_share:
                if parent >= 0:
                    taken[one] = parent
                    count[parent] += count[one]
                    weight[parent] += weight[one]
                    if other >= 0:
                        taken[other] = parent
                        count[parent] += count[other]
                        weight[parent] += weight[other]
                    old_count[parent], old_weight[parent] = moved_count, moved_weight
                    risen[found] = parent
                elif other >= 0:
                    place[made], tall[made] = start, height
                    count[made], weight[made] = moved_count, moved_weight
                    old_count[made], old_weight[made] = moved_count, moved_weight
                    taken[one] = made
                    taken[other] = made
                    risen[found] = made
                    made += 1
                else:
                    risen[found] = one  # alone: it stays where it is until it meets another further up
                found += 1
            elif parent >= 0:
                risen[found] = parent  # its children stay behind
                found += 1
        rising, risen = risen, rising
        number = found
    for row in range(rows):
        last = row
        while taken[last] >= 0:
            last = taken[last]
        to_start[row], to_height[row] = place[last], tall[last]
