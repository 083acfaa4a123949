"""Sums and counts that lean on exact totals: what the sample has to say is only how far f is from its mean in an hour.

With X the rows (or the weight of the rows) of an hour, m the number of rows seen of a kept event, and f̄ the mean of f
over the hour, a number that is fixed beforehand,

    Σ over hours β·f̄·X  +  Σ over kept events (w·f - β·f̄·m·w)/π

has the expectation Σ w·f: every event of an hour counts m times in X, and the second sum takes off again what it
estimates of that. Where f hardly changes within an hour and no row repeats, hardly anything is left to be estimated.
β is 1 where none of the kept events has repeated, and else what leaves least to be estimated, by regression. (Särndal,
Swensson and Wretman, Model Assisted Survey Sampling, 1992, Sections 6.3 and 6.4.)

What is left has two signs. Both sides are sums over different events, hence independent: each has its gamma limits,
with the most that an unseen event could have left, and the squares of the distances add up (MOVER).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np
from numba import njit

from sketches.arrays import Column, Flags, Floats, Ints, Limits
from sketches.decay import Decay
from sketches.sampling.horvitz_thompson import FEW_TIMES, in_threads
from sketches.sampling.hourly_totals import HourlyTotals
from sketches.sampling.inquiry import Inquiry
from sketches.sampling.intervals import Total
from sketches.sampling.ladder import NO_CUT
from sketches.sampling.piecewise_decay import FINE_TOLERANCE, TOLERANCE, PiecewiseDecay
from sketches.units import TimeUnit

_POINTS: Final = 32  # of an hour in which f jumps or bends
ENOUGH: Final = 25  # sampled events in a sum: with fewer, an unseen event that came twice could matter more than they
_AT_ONCE: Final = 2_000_000  # times and hours of which f is held in memory together
_LEAST_ROWS: Final = 2  # that an unseen event may have come in: nothing tells that none repeats


class HourlyFactors(NamedTuple):
    """For each as-of time and hour: the mean of f over the hour, and f at its ends, 0 for what is still to come."""

    mean: Floats
    newest: Floats
    oldest: Floats


def hourly_factors(totals: HourlyTotals, as_of: Ints, decay: Decay, unit: TimeUnit) -> HourlyFactors:
    """By Simpson's rule or, where f jumps or bends within the hour, by the mean of many points."""
    starts = totals.hours * totals.length
    ages = as_of[:, None] - starts[None, :]  # of the beginning of each hour, the oldest that may lie in it

    def at(age: Column) -> Floats:
        return np.where(age >= 0, decay(unit.seconds(np.maximum(age, 0))), 0.0)

    last = totals.length - 1
    oldest, middle, newest = at(ages), at(ages - last / 2.0), at(ages - last)
    mean = (oldest + 4.0 * middle + newest) / 6.0
    breaks = [0, *(age * unit.denominator / unit.numerator for age in decay.breaks())]
    uneven = np.zeros(ages.shape, bool)
    for edge in breaks:
        uneven |= (ages >= edge) & (ages - last <= edge)
    steps = (np.arange(_POINTS) + 0.5) * (totals.length / _POINTS)
    mean[uneven] = at(ages[uneven][:, None] - np.floor(steps)).mean(axis=1)
    now = float(decay(np.zeros(1))[0])
    newest = np.where(ages >= last, newest, np.where(ages >= 0, now, 0.0))
    return HourlyFactors(mean, newest, np.where(ages >= last, oldest, 0.0))


def leaned(inquiry: Inquiry, totals: HourlyTotals, *, by_weight: bool) -> Limits:
    """Σ w·f and its limits at all as-of times, at none of which f of all rows is next to nothing; X is the rows of an
    hour or, `by_weight`, what they weigh."""
    totals = _in_reach(inquiry, totals)
    blocks = -(-len(inquiry.as_of) * len(totals.hours) // _AT_ONCE)
    parts = [
        _leaned(replace(inquiry, as_of=block), totals, totals.weights if by_weight else totals.rows.astype(np.float64))
        for block in np.array_split(inquiry.as_of, max(1, min(blocks, len(inquiry.as_of))))
    ]
    value, lower, upper = (np.concatenate(limits) for limits in zip(*parts, strict=True))
    return value, lower, upper


def _leaned(inquiry: Inquiry, totals: HourlyTotals, mass: Floats) -> Limits:
    sample, as_of = inquiry.sample, inquiry.as_of
    places, known = totals.known(sample.times)
    factors = hourly_factors(totals, as_of, inquiry.decay, sample.unit)
    counts = np.ones(len(sample)) if sample.counts is None else sample.counts.astype(np.float64)
    lean = _lean(inquiry, counts, known)
    factors = HourlyFactors(factors.mean * lean, factors.newest, factors.oldest)
    tolerance = FINE_TOLERANCE if len(as_of) <= FEW_TIMES else TOLERANCE
    table = PiecewiseDecay.reaching(sample.times, int(as_of.max()), sample.unit, inquiry.decay, tolerance)
    last = np.searchsorted(sample.times, (as_of // totals.length + 1) * totals.length, side="left")
    sums = np.zeros((len(as_of), 2, 3))
    places = np.where(known, places, -1)

    def add(these: slice) -> None:
        _add_residuals(
            sample.times, sample.expanded_weights, counts, sample.exclusion_probabilities, places,
            factors.mean[these], as_of[these], last[these], table.first, table.height, table.slope, sums[these],
        )  # fmt: skip

    in_threads(add, len(as_of), len(sample))
    more, fewer = _unseen(inquiry, totals, factors, float(counts.max(initial=1.0)))
    whole = factors.mean @ mass
    sides = [
        Total(sums[:, side, 0], sums[:, side, 1], sums[:, side, 2], unseen, np.square(unseen) * share)
        for side, (unseen, share) in enumerate((more, fewer))
    ]
    return _joined(whole, *sides, table.relative_error, inquiry.confidence)


def _lean(inquiry: Inquiry, counts: Floats, known: Flags) -> float:
    """β: how much of the totals to take, by the kept events of which rows were counted."""
    sample = inquiry.sample
    if not known.any() or counts[known].max() == 1.0:
        return 1.0
    spread = np.square(sample.expanded_weights) * sample.exclusion_probabilities * known
    both, squared = spread @ counts, spread @ np.square(counts)
    return float(both / squared) if squared > 0.0 else 1.0


def _in_reach(inquiry: Inquiry, totals: HourlyTotals) -> HourlyTotals:
    """The hours that count at any of the as-of times."""
    unit, length = inquiry.sample.unit, totals.length
    reach = min(inquiry.decay.horizon * unit.denominator / unit.numerator, float(1 << 62))
    first = (int(inquiry.as_of.min()) - int(reach)) // length - 1
    hours = slice(*np.searchsorted(totals.hours, [first, int(inquiry.as_of.max()) // length + 1]).tolist())
    return totals.of_hours(hours)


def _joined(whole: Floats, more: Total, fewer: Total, error: float, confidence: float) -> Limits:
    """The totals, more what they are short of, less what they have too much."""
    (more_lower, more_upper), (fewer_lower, fewer_upper) = (side.bounds(confidence) for side in (more, fewer))
    value = whole + more.value - fewer.value
    off = error * (whole + more.value + fewer.value)
    lower = value - np.hypot(more.value - more_lower, fewer_upper - fewer.value) - off
    upper = value + np.hypot(more_upper - more.value, fewer.value - fewer_lower) + off
    return np.maximum(value, 0.0), np.maximum(lower, 0.0), np.maximum(upper, 0.0)


def _unseen(
    inquiry: Inquiry, totals: HourlyTotals, factors: HourlyFactors, most_rows: float
) -> tuple[tuple[Floats, Floats], tuple[Floats, Floats]]:
    """The most that an unseen event could add to either side at each as-of time, and its 1 - π."""
    strata, starts = inquiry.sample.strata, totals.hours * totals.length
    rows = max(most_rows, float(_LEAST_ROWS))
    at = np.minimum(np.searchsorted(strata.newest, starts), len(strata.newest) - 1)
    weight, share = strata.unit_design_weight[at], strata.unit_exclusion_probability[at]
    counted = totals.rows > 0
    mean = np.where(counted, factors.mean, 0.0)
    above = np.maximum(factors.newest - mean, 0.0) * weight
    below = np.maximum(rows * mean - factors.oldest, 0.0) * np.where(counted, weight, 0.0)
    found = []
    share = np.append(share, 0.0)
    for side in (np.pad(one, ((0, 0), (0, 1))) for one in (above, below)):  # nothing, where no hour counts
        largest = side.argmax(axis=1)
        found.append((side[np.arange(len(side)), largest], share[largest]))
    (more, excluded), fewer = found
    plain, plainly = _unseen_before(inquiry, totals.unknown_up_to)
    return (np.maximum(more, plain), np.where(plain > more, plainly, excluded)), fewer


def _unseen_before(inquiry: Inquiry, time: int) -> tuple[Floats, Floats]:
    """The same of events up to a time, before which nothing was counted."""
    strata, as_of = inquiry.sample.strata, inquiry.as_of[:, None]
    if time == NO_CUT:
        return np.zeros(len(as_of)), np.zeros(len(as_of))
    newest = np.minimum(np.minimum(strata.newest, time), as_of)
    factors = inquiry.decay(inquiry.sample.unit.seconds(as_of - newest))
    there = (strata.oldest <= time) & (strata.oldest <= as_of)
    unseen = np.where(there, factors * strata.unit_design_weight, 0.0)
    largest = unseen.argmax(axis=1)
    return unseen[np.arange(len(unseen)), largest], strata.unit_exclusion_probability[largest]


@njit(cache=True, nogil=True)
def _add_residuals(
    times: Ints,
    expanded: Floats,
    counts: Floats,
    excluded: Floats,
    places: Ints,
    means: Floats,
    as_of: Ints,
    last: Ints,
    first: Ints,
    height: Floats,
    slope: Floats,
    sums: Floats,
) -> None:
    """For each time and sign the residuals that are certain, those that were sampled, and their variance."""
    for at in range(len(as_of)):
        piece = 0
        for row in range(last[at] - 1, -1, -1):
            age = as_of[at] - times[row]
            factor = 0.0
            if age >= first[-1]:
                age = first[-1]
            elif age >= 0:
                while first[piece + 1] <= age:
                    piece += 1
                factor = height[piece] + slope[piece] * (age - first[piece])
            mean = means[at, places[row]] if places[row] >= 0 else 0.0
            if mean == 0.0 and factor == 0.0 and age > 0:
                break
            residual = expanded[row] * (factor - mean * counts[row])
            side = 0 if residual > 0.0 else 1
            residual = abs(residual)
            if excluded[row] == 0.0:
                sums[at, side, 0] += residual
            else:
                sums[at, side, 1] += residual
                sums[at, side, 2] += residual * residual * excluded[row]
