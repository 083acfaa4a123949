"""Means of a decay over slices of time, as step functions: one for each as-of time, fixed without looking at a sample.

Slices in which the decay hardly differs are taken together: those that lie within one piece of the decay's table.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from sketches.arrays import Floats, Ints
from sketches.sampling.piecewise_decay import NEGLIGIBLE, TOLERANCE, PiecewiseDecay
from sketches.sampling.residuals import Parabolas, Steps

_TOGETHER: Final = 6  # pieces of a table that may be one parabola


class SteppedDecay(NamedTuple):
    """The steps, the numbers of the edges between which each lies, and f at its newest and at its oldest time.

    Events that are newer than the as-of time do not count, so f is 0 there.
    """

    steps: Steps
    first: Ints
    last: Ints
    newest: Floats
    oldest: Floats


def parabolas(table: PiecewiseDecay) -> Parabolas:
    """Neighbouring pieces of a table taken together where one parabola goes through all of their ends.

    Where none does, as at a jump, the pieces stay as they are. What counts next to nothing beside a new event is left
    out.
    """
    pieces = int(np.count_nonzero(table.height > NEGLIGIBLE * table.height[:1]))  # f never rises: these come first
    if pieces == 0:
        return Parabolas(table.first[:1], 0.0)
    group = np.arange(pieces) // _TOGETHER
    begins, after = np.arange(0, pieces, _TOGETHER), np.minimum(np.arange(0, pieces, _TOGETHER) + _TOGETHER, pieces)
    newest, oldest = table.first[begins], table.first[after] - 1
    middle = (newest + oldest) // 2
    ends = [f_at(table, ages) for ages in (newest, middle, oldest)]
    off = np.zeros(len(begins))
    for ages in (table.first[:pieces], table.first[1 : pieces + 1] - 1):
        exact = f_at(table, ages)
        curve = _through((newest[group], middle[group], oldest[group]), [end[group] for end in ends], ages)
        np.maximum.at(off, group, np.abs(curve - exact) / np.maximum(exact, NEGLIGIBLE))
    together = off <= TOLERANCE
    kept = ~together[group] | (np.arange(pieces) % _TOGETHER == 0)
    error = 2.0 * float(off[together].max(initial=0.0))
    if not together.all():
        error = max(error, table.relative_error)
    return Parabolas(np.append(table.first[:pieces][kept], table.first[pieces]), error)


def _through(ages: tuple[Ints, Ints, Ints], heights: list[Floats], at: Ints) -> Floats:
    """The parabola through three points, two of which or all may be one."""
    newest, middle, oldest = (one.astype(np.float64) for one in ages)
    first, second, last = heights
    to_middle, to_oldest = np.maximum(middle - newest, 1.0), np.maximum(oldest - newest, 1.0)
    slope = (second - first) / to_middle
    bend = ((last - first) / to_oldest - slope) / np.maximum(oldest - middle, 1.0)
    return np.asarray(first + (at - newest) * (slope + bend * (at - middle)))


def stepped(edges: Ints, as_of: Ints, table: PiecewiseDecay, ages: Ints) -> SteppedDecay:
    """The mean of f over each slice in reach; `edges` are the ends of all slices, in order.

    Slices between two of the `ages` are taken together.
    """
    below = np.searchsorted(edges, as_of[:, None] - ages[None, :], side="right") - 1
    used = np.zeros((len(as_of), len(edges) + 1), bool)  # one more, for edges beyond all
    at = np.broadcast_to(np.arange(len(as_of))[:, None], below.shape)
    used[at, np.maximum(below, 0)] = True
    used[at, np.maximum(below, -1) + 1] = True
    number, edge = np.nonzero(used[:, :-1])
    follows = np.flatnonzero(number[1:] == number[:-1])
    number, first, last = number[follows], edge[follows], edge[follows + 1]
    begins, ends = edges[first], edges[last]
    moments = as_of[number]
    heights = (_sum_up_to(table, moments - begins) - _sum_up_to(table, moments - ends)) / (ends - begins)
    newest = f_at(table, np.maximum(moments - ends + 1, 0))
    oldest = np.where(ends <= moments + 1, f_at(table, moments - begins), 0.0)
    return SteppedDecay(Steps(number, begins, ends, heights), first, last, newest, oldest)


def f_at(table: PiecewiseDecay, ages: Ints) -> Floats:
    """f at whole ages, by the table; 0 at ages below 0."""
    if len(table.height) == 0:
        return np.zeros(len(ages))
    piece = np.searchsorted(table.first, ages, side="right") - 1
    counts = (piece >= 0) & (piece < len(table.height))
    chosen = np.where(counts, piece, 0)
    return np.where(counts, table.height[chosen] + table.slope[chosen] * (ages - table.first[chosen]), 0.0)


def _sum_up_to(table: PiecewiseDecay, ages: Ints) -> Floats:
    """The sum of f over all whole ages from 0 up to each of these."""
    if len(table.height) == 0:
        return np.zeros(len(ages))
    lengths = np.diff(table.first).astype(np.float64)
    wholes = lengths * table.height + table.slope * lengths * (lengths - 1.0) / 2.0
    before = np.append(0.0, np.cumsum(wholes))
    piece = np.searchsorted(table.first, ages, side="right") - 1
    chosen = np.clip(piece, 0, len(table.height) - 1)
    inside = np.minimum(ages - table.first[chosen] + 1.0, lengths[chosen])
    found = before[chosen] + inside * table.height[chosen] + table.slope[chosen] * inside * (inside - 1.0) / 2.0
    return np.where(piece < 0, 0.0, found)
