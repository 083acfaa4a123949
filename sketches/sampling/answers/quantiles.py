"""Decayed quantiles with intervals, at one as-of time or at many.

A sweep goes over the rows in the order of their values, adds up their decayed weight, and finds the smallest value
whose cumulated share reaches φ. The interval is that of the rank, inverted: it holds every value whose share of the
weight up to it may be φ. For many as-of times the cumulated sums are kept only at about 500 checkpoints along the
sweep, and limits move outwards to the next checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from sketches.arrays import Flags, Floats, Ints, Rows
from sketches.decay import Decay
from sketches.records import dataclass
from sketches.sampling.estimation.horvitz_thompson import FEW_TIMES, MANY_ROWS, MOST_ERROR, sums_by_value
from sketches.sampling.estimation.intervals import Total, Unseen, share_bounds
from sketches.sampling.estimation.poisson_sample import PoissonSample
from sketches.sampling.estimation.time_tree import rows_that_count
from sketches.sampling.estimation.value_grid import grid_of, stride_of

_ROUNDING: Final = 1e-12  # a cumulated share this close below φ, relatively, has reached it
_CHECKPOINTS_OF_ONE_TIME: Final = 4096  # over very many rows


@dataclass(frozen=True, slots=True)
class _Sweeps:
    """One sweep for each as-of time: what is cumulated at the checkpoints, and the row that reaches φ."""

    checkpoints: Rows  # the number of rows up to each
    sums: Floats  # certain part, sampled part and variance; as-of times; checkpoints
    reached: Ints  # in the order of values; -1 where nothing counts
    used: Ints
    table_error: float | Floats


def quantiles(
    sample: PoissonSample, decay: Decay, as_of: Ints, phi: float, confidence: float, unseen: Unseen
) -> tuple[Floats, Floats, Floats, Ints]:
    """Value, lower and upper limit, and number of rows with f > 0, at each as-of time; NaN where nothing counts."""
    nothing = np.full(len(as_of), np.nan)
    if len(sample) == 0:
        return nothing, nothing, nothing, np.zeros(len(as_of), np.int64)
    share = phi * (1.0 - _ROUNDING)
    if len(as_of) <= FEW_TIMES:
        return _of_sweeps(sample, _sweeps_by_row(sample, decay, as_of, share), phi, confidence, unseen)
    sweeps = _sweeps_by_grid(sample, decay, as_of, share)
    found = _of_sweeps(sample, sweeps, phi, confidence, unseen)
    lost = np.flatnonzero(np.asarray(sweeps.table_error) > MOST_ERROR)
    for one in np.array_split(lost, -(-len(lost) // FEW_TIMES)) if len(lost) else ():
        exact = quantiles(sample, decay, as_of[one], phi, confidence, Unseen(*(part[one] for part in unseen)))
        for column, number in zip(found, exact, strict=True):
            column[one] = number
    return found


def _of_sweeps(
    sample: PoissonSample, sweeps: _Sweeps, phi: float, confidence: float, unseen: Unseen
) -> tuple[Floats, Floats, Floats, Ints]:
    sums, reached = sweeps.sums, sweeps.reached
    value = np.where(reached >= 0, sample.sorted_values[np.maximum(reached, 0)], np.nan)
    whole = Total(sums[0, :, -1], sums[1, :, -1], sums[2, :, -1], *unseen, sweeps.table_error)
    lower, upper = _limits(sample, sweeps.checkpoints, sums, whole, phi, confidence)
    empty = reached < 0
    exact = whole.exact | (empty & (whole.unseen == 0))
    lower = np.where(exact, value, np.where(empty, sample.least_value, np.fmin(lower, value)))
    upper = np.where(exact, value, np.where(empty, sample.greatest_value, np.fmax(upper, value)))
    return value, lower, upper, sweeps.used


def _checkpoints(rows: int, stride: int) -> Rows:
    return np.append(np.arange(stride, rows, stride), rows)


def _sweeps_by_row(sample: PoissonSample, decay: Decay, as_of: Ints, phi: float) -> _Sweeps:
    """With f of each row; every row is a checkpoint, unless there are very many."""
    rows = len(sample)
    stride = max(1, rows // _CHECKPOINTS_OF_ONE_TIME) if rows >= MANY_ROWS else 1
    checkpoints, starts = _checkpoints(rows, stride), np.arange(0, rows, stride)
    sums = np.empty((3, len(as_of), len(checkpoints)))
    first, last = rows_that_count(sample.times, sample.unit, decay, as_of)
    for at, moment in enumerate(as_of.tolist()):
        sums[:, at] = sums_by_value(sample, decay, moment, starts)
    sums = np.cumsum(sums, axis=2)
    return _Sweeps(checkpoints, sums, _reached(sample, decay, as_of, phi, stride, sums[0] + sums[1]), last - first, 0.0)


def _sweeps_by_grid(sample: PoissonSample, decay: Decay, as_of: Ints, phi: float) -> _Sweeps:
    """With the sums of all blocks from a grid; only the rows of the block in which φ is reached are looked at."""
    stride = stride_of(sample)
    found = grid_of(sample, sample.weight_coefficients, stride).sums(sample.unit, decay, as_of)
    sums = np.cumsum(np.stack([found.linear[:, 0], found.linear[:, 1], found.squared[:, 0]]), axis=2)
    reached = _reached(sample, decay, as_of, phi, stride, sums[0] + sums[1])
    return _Sweeps(_checkpoints(len(sample), stride), sums, reached, found.used, found.relative_error)


def _reached(sample: PoissonSample, decay: Decay, as_of: Ints, phi: float, stride: int, cumulated: Floats) -> Ints:
    """The row that reaches φ at each time, in the order of values, from the sums cumulated up to each checkpoint; -1
    where nothing counts."""
    goals = phi * cumulated[:, -1]
    checkpoint = np.minimum(np.count_nonzero(cumulated < goals[:, None], axis=1), cumulated.shape[1] - 1)
    mass = np.where(checkpoint > 0, cumulated[np.arange(len(goals)), np.maximum(checkpoint, 1) - 1], 0.0)
    if stride == 1:
        return np.where(goals > 0.0, checkpoint, -1)
    ranks = checkpoint[:, None] * stride + np.arange(stride)
    rows = sample.by_value[np.minimum(ranks, len(sample) - 1)]
    factors = decay(sample.unit.seconds(as_of[:, None] - sample.times[rows])) * (ranks < len(sample))
    enough = mass[:, None] + np.cumsum(sample.expanded_weights[rows] * factors, axis=1) >= goals[:, None]
    enough &= factors > 0.0
    last = stride - 1 - (factors > 0.0)[:, ::-1].argmax(axis=1)  # the last one that counts
    last = np.where((factors > 0.0).any(axis=1), last, 0)
    within = np.where(enough.any(axis=1), enough.argmax(axis=1), last)
    return np.where(goals > 0.0, checkpoint * stride + within, -1)


def sweep(sample: PoissonSample, decay: Decay, as_of: int) -> Floats:
    """At one time the cumulated certain part, sampled part and variance after each row in the order of values."""
    return np.cumsum(sums_by_value(sample, decay, as_of, np.arange(len(sample))), axis=1)


def quantiles_of_sweep(
    sample: PoissonSample, sums: Floats, phis: Floats, confidence: float, unseen: Unseen
) -> tuple[Floats, Floats, Floats]:
    """Value, lower and upper limit at many shares, from the sums of one `sweep`."""
    values = sample.sorted_values
    cumulated = sums[0] + sums[1]
    value = values[np.minimum(np.searchsorted(cumulated, phis * (1.0 - _ROUNDING) * cumulated[-1]), len(values) - 1)]
    one = np.ones(len(phis))
    certain, sampled, variance = sums[:, -1:] * one
    whole = Total(certain, sampled, variance, unseen.contribution * one, unseen.variance * one)
    if whole.exact.all():
        return value, value, value
    shared = np.broadcast_to(sums[:, None, :], (3, len(phis), sums.shape[1]))
    lower, upper = _limits(sample, np.arange(1, len(values) + 1), shared, whole, phis, confidence)
    return value, np.fmin(lower, value), np.fmax(upper, value)


def _limits(
    sample: PoissonSample, checkpoints: Rows, sums: Floats, whole: Total, phi: float | Floats, confidence: float
) -> tuple[Floats, Floats]:
    """The smallest and the largest value whose share of the weight up to it may be φ, at each time."""
    times = len(whole.certain)
    row = np.arange(times)[:, None]
    unseen = Unseen(whole.unseen[:, None], whole.unseen_variance[:, None])
    error = np.broadcast_to(whole.table_error, times)[:, None]
    everything = Total(whole.certain[:, None], whole.sampled[:, None], whole.variance[:, None], *unseen, error)
    goal = np.broadcast_to(phi, times)[:, None]

    def may_have_reached_and_has(index: Rows) -> tuple[Flags, Flags]:
        certain, sampled, variance = sums[0][row, index], sums[1][row, index], sums[2][row, index]
        part = Total(certain, sampled, variance, *unseen, error)
        lower, upper = share_bounds(part, everything.without(part), confidence)
        return upper >= goal, lower >= goal

    possible, sure = first_of_both(may_have_reached_and_has, times, len(checkpoints))
    zero = np.zeros(times)
    none = Total(zero, zero, zero, whole.unseen, whole.unseen_variance, whole.table_error)
    below_all = share_bounds(none, whole, confidence)[1] >= goal[:, 0]
    before = np.concatenate([[0], checkpoints])[np.minimum(possible, len(checkpoints) - 1)]
    values = sample.sorted_values
    lower = np.where(below_all, sample.least_value, values[before])
    last = len(checkpoints) - 1
    upper = np.where(sure <= last, values[checkpoints[np.minimum(sure, last)] - 1], sample.greatest_value)
    return lower, upper


def first_of_both(holds: Callable[[Rows], tuple[Flags, Flags]], times: int, length: int) -> tuple[Rows, Rows]:
    """For each time the first index at which each of two monotone conditions holds; `length` where it never does.

    Both are searched at once with several probes a round, because a call costs more than the numbers in it.
    """
    probes = 48 if times == 1 else 8
    low, high = np.zeros((2, times), np.intp), np.full((2, times), length, np.intp)
    steps = np.arange(probes)
    side, row = np.ogrid[:2, :times]
    while (low < high).any():
        probed = np.minimum(low[..., None] + (high - low)[..., None] * steps // probes, length - 1)
        first, second = holds(np.concatenate(probed, axis=1))
        true = np.stack([first[:, :probes], second[:, probes:]])
        hit = np.where(true.any(axis=2), true.argmax(axis=2), probes)
        above = probed[side, row, np.minimum(hit, probes - 1)]
        below = probed[side, row, np.maximum(hit, 1) - 1] + 1
        searching = low < high
        low = np.where(searching & (hit > 0), below, low)
        high = np.where(searching & (hit < probes), above, high)
    return high[0], high[1]
