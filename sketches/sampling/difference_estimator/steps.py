"""Means of a decay over slices of time, as step functions: one for each as-of time, fixed without looking at a sample.

Slices in which the decay hardly differs are taken together: those that lie within one piece of the decay's table.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from sketches.arrays import Floats, Ints, Rows, ranges
from sketches.decay import Decay
from sketches.sampling.estimation.piecewise_decay import PiecewiseDecay, lay_out
from sketches.units import TimeUnit

MEAN_TOLERANCE: Final = 1e-3  # relative to f: a mean serves as well where it is off
_FEW_AGES: Final = 1 << 14


class Steps(NamedTuple):
    """A step function g of time for each as-of time: step i begins at `begins[i]` and ends before `ends[i]`.

    Steps of one as-of time, `at[i]` by number, stand one after the other, in the order of time and without a gap.
    """

    at: Ints
    begins: Ints
    ends: Ints
    heights: Floats


class SteppedDecay(NamedTuple):
    """The steps, the numbers of the edges between which each lies, and f at its newest and at its oldest time.

    Events that are newer than the as-of time do not count, so f is 0 there.
    """

    steps: Steps
    first: Ints
    last: Ints
    newest: Floats
    oldest: Floats


def added_by(at: Ints | Rows, amounts: Floats, times: int) -> Floats:
    """The sum of the amounts of each as-of time, which are given by number."""
    return np.bincount(at, amounts, times).astype(np.float64, copy=False)


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


def mean_between(decay: Decay, unit: TimeUnit, as_of: Ints, begins: Ints, ends: Ints) -> Floats:
    """The mean of f, as of each time, over a stretch of time that has begun by then; f is 0 at what is newer.

    Of few ages each is looked at: a table takes longer to make.
    """
    newest = np.maximum(as_of - ends + 1, 0)
    if int((as_of - begins + 1 - newest).sum()) <= _FEW_AGES:
        ages, stretch = ranges(newest, as_of - begins + 1)
        return added_by(stretch, decay(unit.seconds(ages)), len(as_of)) / (ends - begins)
    oldest = int((as_of - begins).max(initial=0))
    table = lay_out(decay, unit, (1 << oldest.bit_length()) - 1, MEAN_TOLERANCE)
    return (_sum_up_to(table, as_of - begins) - _sum_up_to(table, as_of - ends)) / (ends - begins)


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
