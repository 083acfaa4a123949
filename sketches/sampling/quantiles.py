"""Decayed quantiles with intervals, at one as-of time or at many.

A sweep goes over the rows in the order of their values, adds up their decayed weight, and finds the smallest value
whose cumulated share reaches φ. The interval is that of the rank, inverted: it holds every value whose share of the
weight up to it may be φ. For many as-of times the cumulated sums are kept only at about 500 checkpoints along the
sweep, and limits move outwards to the next checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sketches.arrays import Flags, Floats, Ints, Rows
from sketches.decay import Decay
from sketches.sampling.horvitz_thompson import FEW_TIMES, MANY_ROWS, DecayFactors
from sketches.sampling.intervals import Total, Unseen, share_bounds
from sketches.sampling.piecewise_decay import FINE_TOLERANCE, TOLERANCE, PiecewiseDecay, too_faded
from sketches.sampling.poisson_sample import PoissonSample
from sketches.sampling.value_grid import WORTHWHILE, grid_of

_ROUNDING: Final = 1e-12  # a cumulated share this close below φ, relatively, has reached it
_CHECKPOINTS: Final = 512
_CHECKPOINTS_OF_ONE_TIME: Final = 4096  # over very many rows


@dataclass(frozen=True, slots=True)
class _Sweeps:
    """One sweep for each as-of time: what is cumulated at the checkpoints, and the row that reaches φ."""

    checkpoints: Rows  # the number of rows up to each
    sums: Floats  # certain part, sampled part and variance; as-of times; checkpoints
    reached: Ints  # in the order of values; -1 where nothing counts
    used: Ints
    table_error: float


def quantiles(
    sample: PoissonSample, decay: Decay, as_of: Ints, phi: float, confidence: float, unseen: Unseen
) -> tuple[Floats, Floats, Floats, Ints]:
    """Value, lower and upper limit, and number of rows with f > 0, at each as-of time; NaN where nothing counts."""
    rows, times = len(sample), len(as_of)
    nothing = np.full(times, np.nan)
    if rows == 0:
        return nothing, nothing, nothing, np.zeros(times, np.int64)
    found = _quantiles(sample, decay, as_of, phi, confidence, unseen)
    if times > FEW_TIMES:
        for at in too_faded(sample.times, sample.unit, decay, as_of):
            one = slice(at, at + 1)
            unseen_then = Unseen(unseen.contribution[one], unseen.variance[one])
            exact = _quantiles(sample, decay, as_of[one], phi, confidence, unseen_then)
            for column, number in zip(found, exact, strict=True):
                column[one] = number
    return found


def _quantiles(
    sample: PoissonSample, decay: Decay, as_of: Ints, phi: float, confidence: float, unseen: Unseen
) -> tuple[Floats, Floats, Floats, Ints]:
    by_row = len(as_of) <= FEW_TIMES and len(sample) < MANY_ROWS
    sweeps = (_sweeps_by_row if by_row else _sweeps_by_table)(sample, decay, as_of, phi * (1.0 - _ROUNDING))
    sums, reached = sweeps.sums, sweeps.reached
    value = np.where(reached >= 0, sample.sorted_values[np.maximum(reached, 0)], np.nan)
    whole = Total(sums[0, :, -1], sums[1, :, -1], sums[2, :, -1], *unseen, sweeps.table_error)
    lower, upper = _limits(sample, sweeps.checkpoints, sums, whole, phi, confidence)
    empty = reached < 0
    exact = whole.exact | (empty & (whole.unseen == 0))
    lower = np.where(exact, value, np.where(empty, sample.least_value, np.fmin(lower, value)))
    upper = np.where(exact, value, np.where(empty, sample.greatest_value, np.fmax(upper, value)))
    return value, lower, upper, sweeps.used


def _sweeps_by_row(sample: PoissonSample, decay: Decay, as_of: Ints, phi: float) -> _Sweeps:
    """With f of each row, and every row a checkpoint."""
    rows, times = len(sample), len(as_of)
    sums = np.empty((3, times, rows))
    reached, used = np.empty(times, np.int64), np.empty(times, np.int64)
    for at, moment in enumerate(as_of.tolist()):
        factors = _factors_of_all_rows(sample, DecayFactors.at(sample.times, moment, decay, sample.unit))
        used[at] = np.count_nonzero(factors)
        reached[at] = _sweep_one(sample.by_value, sample.coefficients_by_value, factors, phi, sums[:, at])
    return _Sweeps(np.arange(1, rows + 1), sums, reached, used, 0.0)


def _sweeps_by_table(sample: PoissonSample, decay: Decay, as_of: Ints, phi: float) -> _Sweeps:
    """With f read off the table, and a checkpoint after every `stride` rows."""
    rows, times = len(sample), len(as_of)
    many_times = times > FEW_TIMES
    stride = max(1, rows // (_CHECKPOINTS if many_times else _CHECKPOINTS_OF_ONE_TIME))
    checkpoints = np.append(np.arange(stride, rows, stride), rows)
    sums = np.empty((3, times, len(checkpoints)))
    reached, used = np.empty(times, np.int64), np.empty(times, np.int64)
    tolerance = TOLERANCE if many_times else FINE_TOLERANCE
    if many_times and rows >= WORTHWHILE:
        return _sweeps_by_grid(sample, decay, as_of, phi, stride, checkpoints)
    table = PiecewiseDecay.reaching(sample.times, int(as_of.max()), sample.unit, decay, tolerance)
    _sweep_all(
        sample.times, sample.coefficients_by_time, sample.by_value, sample.blocks(stride), as_of, table.first,
        table.height, table.slope, phi, stride, sums, reached, used,
    )  # fmt: skip
    return _Sweeps(checkpoints, sums, reached, used, table.relative_error)


def _sweeps_by_grid(
    sample: PoissonSample, decay: Decay, as_of: Ints, phi: float, stride: int, checkpoints: Rows
) -> _Sweeps:
    """With the sums of all blocks from a grid; only the rows of the block in which φ is reached are looked at."""
    found = grid_of(sample, sample.weight_coefficients, stride).sums(sample.unit, decay, as_of)
    sums = np.cumsum(np.stack([found.linear[:, 0], found.linear[:, 1], found.squared[:, 0]]), axis=2)
    table = PiecewiseDecay.reaching(sample.times, int(as_of.max()), sample.unit, decay, TOLERANCE)
    reached = np.empty(len(as_of), np.int64)
    _reach_all(
        sample.times, sample.coefficients_by_time, sample.by_value, as_of, table.first, table.height, table.slope, phi,
        stride, sums[0] + sums[1], reached,
    )  # fmt: skip
    return _Sweeps(checkpoints, sums, reached, found.used, found.relative_error)


@njit(cache=True, nogil=True)
def _reach_all(
    times: Ints,
    coefficients: Floats,
    order: Rows,
    as_of: Ints,
    first: Ints,
    height: Floats,
    slope: Floats,
    phi: float,
    stride: int,
    cumulated: Floats,
    reached: Ints,
) -> None:
    """The row that reaches φ at each time, from the sums cumulated up to each checkpoint."""
    for at in range(len(as_of)):
        goal = phi * cumulated[at, -1]
        if goal <= 0.0:
            reached[at] = -1
            continue
        checkpoint = min(np.searchsorted(cumulated[at], goal), cumulated.shape[1] - 1)
        mass = cumulated[at, checkpoint - 1] if checkpoint > 0 else 0.0
        ranks = checkpoint * stride, min((checkpoint + 1) * stride, len(order))
        reached[at] = _first_to_reach(goal, mass, times, coefficients, order, ranks, as_of[at], first, height, slope)


def _factors_of_all_rows(sample: PoissonSample, decayed: DecayFactors) -> Floats:
    factors = np.zeros(len(sample))
    factors[decayed.rows] = decayed.factors
    return factors


def sweep(sample: PoissonSample, decay: Decay, as_of: int) -> tuple[Floats, float]:
    """At one time the cumulated certain part, sampled part and variance after each row in the order of values, and the
    relative error of f."""
    sums = np.zeros((3, len(sample)))
    decayed = DecayFactors.at(sample.times, as_of, decay, sample.unit)
    _sweep_one(sample.by_value, sample.coefficients_by_value, _factors_of_all_rows(sample, decayed), 0.5, sums)
    return sums, decayed.table_error


def quantiles_of_sweep(
    sample: PoissonSample, sums: Floats, phis: Floats, confidence: float, unseen: Unseen, table_error: float
) -> tuple[Floats, Floats, Floats]:
    """Value, lower and upper limit at many shares, from the sums of one `sweep`."""
    values = sample.sorted_values
    cumulated = sums[0] + sums[1]
    value = values[np.minimum(np.searchsorted(cumulated, phis * (1.0 - _ROUNDING) * cumulated[-1]), len(values) - 1)]
    one = np.ones(len(phis))
    certain, sampled, variance = sums[:, -1:] * one
    whole = Total(certain, sampled, variance, unseen.contribution * one, unseen.variance * one, table_error)
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
    everything = Total(
        whole.certain[:, None], whole.sampled[:, None], whole.variance[:, None], *unseen, whole.table_error
    )
    goal = np.broadcast_to(phi, times)[:, None]

    def may_have_reached_and_has(index: Rows) -> tuple[Flags, Flags]:
        certain, sampled, variance = sums[0][row, index], sums[1][row, index], sums[2][row, index]
        part = Total(certain, sampled, variance, *unseen, whole.table_error)
        lower, upper = share_bounds(part, everything.without(part), confidence)
        return upper >= goal, lower >= goal

    possible, sure = _first_of_both(may_have_reached_and_has, times, len(checkpoints))
    zero = np.zeros(times)
    none = Total(zero, zero, zero, whole.unseen, whole.unseen_variance, whole.table_error)
    below_all = share_bounds(none, whole, confidence)[1] >= goal[:, 0]
    before = np.concatenate([[0], checkpoints])[np.minimum(possible, len(checkpoints) - 1)]
    values = sample.sorted_values
    lower = np.where(below_all, sample.least_value, values[before])
    last = len(checkpoints) - 1
    upper = np.where(sure <= last, values[checkpoints[np.minimum(sure, last)] - 1], sample.greatest_value)
    return lower, upper


def _first_of_both(holds: Callable[[Rows], tuple[Flags, Flags]], times: int, length: int) -> tuple[Rows, Rows]:
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


@njit(cache=True, nogil=True)
def _sweep_one(order: Rows, coefficients: Floats, factors: Floats, phi: float, sums: Floats) -> int:
    """Cumulate the certain part, the sampled part and the variance in the order of values, at a single time.

    `coefficients` are in that order already, `factors` in the order of time. Returns the first row at which the share
    reaches φ, -1 where nothing counts.
    """
    certain = sampled = variance = 0.0
    for at in range(len(order)):
        factor = factors[order[at]]
        certain += coefficients[at, 0] * factor
        sampled += coefficients[at, 1] * factor
        variance += coefficients[at, 2] * factor * factor
        sums[0, at], sums[1, at], sums[2, at] = certain, sampled, variance
    if certain + sampled <= 0.0:
        return -1
    return int(np.searchsorted(sums[0] + sums[1], phi * (certain + sampled)))


@njit(cache=True, nogil=True)
def _sweep_all(
    times: Ints,
    coefficients: Floats,
    order: Rows,
    block: NDArray[np.int32],
    as_of: Ints,
    first: Ints,
    height: Floats,
    slope: Floats,
    phi: float,
    stride: int,
    sums: Floats,
    reached: Ints,
    used: Ints,
) -> None:
    """The sums at the checkpoints and the row that reaches φ, for each as-of time.

    Rows are read in the order of time and added to the block of values that they belong to. The blocks fit into the
    fastest cache; reading the rows in the order of values would miss it for every row.
    """
    blocks = np.zeros((sums.shape[2], 3))
    for at in range(len(as_of)):
        blocks[:] = 0.0
        used[at] = _add_to_blocks(times, coefficients, block, as_of[at], first, height, slope, blocks)
        for column in range(3):
            mass = 0.0
            for checkpoint in range(len(blocks)):
                mass += blocks[checkpoint, column]
                sums[column, at, checkpoint] = mass
        goal = phi * (sums[0, at, -1] + sums[1, at, -1])
        if goal <= 0.0:
            reached[at] = -1
            continue
        checkpoint = np.searchsorted(sums[0, at] + sums[1, at], goal)
        mass = sums[0, at, checkpoint - 1] + sums[1, at, checkpoint - 1] if checkpoint > 0 else 0.0
        ranks = checkpoint * stride, min((checkpoint + 1) * stride, len(order))
        reached[at] = _first_to_reach(goal, mass, times, coefficients, order, ranks, as_of[at], first, height, slope)


@njit(cache=True, nogil=True)
def _add_to_blocks(
    times: Ints,
    coefficients: Floats,
    block: NDArray[np.int32],
    as_of: int,
    first: Ints,
    height: Floats,
    slope: Floats,
    blocks: Floats,
) -> int:
    """Walk from the newest row to the oldest and along the pieces of the decay; how many rows the pieces reach."""
    piece = 0
    newest = np.searchsorted(times, as_of, side="right") - 1
    row = newest
    while row >= 0:
        age = as_of - times[row]
        while piece < len(height) and age >= first[piece + 1]:
            piece += 1
        if piece == len(height):
            break
        factor = height[piece] + slope[piece] * (age - first[piece])
        group = block[row]
        blocks[group, 0] += coefficients[0, row] * factor
        blocks[group, 1] += coefficients[1, row] * factor
        blocks[group, 2] += coefficients[2, row] * factor * factor
        row -= 1
    return int(newest - row)


@njit(cache=True, nogil=True)
def _first_to_reach(
    goal: float,
    mass: float,
    times: Ints,
    coefficients: Floats,
    order: Rows,
    ranks: tuple[int, int],
    as_of: int,
    first: Ints,
    height: Floats,
    slope: Floats,
) -> int:
    """The first rank of a range at which the cumulated mass reaches the goal; else the last one that counts."""
    reached = ranks[0]
    for rank in range(ranks[0], ranks[1]):
        row = order[rank]
        age = as_of - times[row]
        if age < 0 or age >= first[-1]:
            continue
        piece = np.searchsorted(first, age, side="right") - 1
        factor = height[piece] + slope[piece] * (age - first[piece])
        if factor > 0.0:
            reached = rank
            mass += (coefficients[0, row] + coefficients[1, row]) * factor
            if mass >= goal:
                break
    return reached
