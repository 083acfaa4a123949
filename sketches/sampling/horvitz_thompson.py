"""Horvitz–Thompson sums: decayed sums over the rows of a Poisson sample, at one as-of time or at hundreds in one pass.

There are three ways to compute them, and `sketches.sampling.inquiry` picks the cheapest:

- `sums_by_row`, for few as-of times: f of each row once, then dot products.
- `sums_by_table`, for many as-of times or very many rows: the decay as a table of linear pieces and prefix sums of the
  rows. The cost does not grow with the number of rows, and the prefix sums serve every decay.
- `sums_of_subset`, for some of very many rows at few as-of times: f is read off the table for those rows alone.

Sums that use the table say how far off they may be.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final, Literal

import numpy as np
from numba import njit

from sketches.arrays import Floats, Ints, Rows
from sketches.decay import Decay
from sketches.sampling.coefficients import Coefficients
from sketches.sampling.intervals import Total, Unseen
from sketches.sampling.piecewise_decay import FINE_TOLERANCE, TOLERANCE, PiecewiseDecay, too_faded
from sketches.sampling.poisson_sample import PoissonSample
from sketches.units import TimeUnit

MANY_ROWS: Final = 200_000  # from here on a table of the decay is cheaper than the decay of each row
FEW_TIMES: Final = 6  # as-of times up to which the decay of each row is cheaper than a table
_PREFIX_ROUNDING: Final = 2e-14
_MOST_UNSEEN: Final = 1e150  # so that its square is a number; beside it nothing else counts
_MOST_ROUNDING: Final = 1e-3  # of a sum that is a difference of prefix sums
_THREADS: Final = min(4, os.cpu_count() or 1)
_THREADED_FROM: Final = 50_000  # rows from which threads are worth their start


@dataclass(frozen=True, slots=True)
class Sums:
    """For each as-of time (first axis) one decayed sum of each coefficient, and the number of rows with f > 0.

    `table_error` is how far, relatively, the sums may be off because of the table and of prefix sums; else 0.
    """

    linear: Floats
    squared: Floats
    used: Ints
    table_error: float | Floats = 0.0

    def total(self, certain: int, sampled: int, variance: int, unseen: Unseen, scale: float = 1.0) -> Total:
        """The `Total` of three of the sums; `scale` is the largest factor that an unseen row may carry besides."""
        return Total(
            self.linear[:, certain],
            self.linear[:, sampled],
            self.squared[:, variance],
            unseen.contribution * scale,
            unseen.variance * scale**2,
            self.table_error,
        )


@dataclass(frozen=True, slots=True)
class DecayFactors:
    """The rows that can count at one as-of time, f of each, and the relative error of f."""

    rows: slice
    factors: Floats
    table_error: float

    @classmethod
    def at(cls, times: Ints, as_of: int, decay: Decay, unit: TimeUnit) -> DecayFactors:
        """f itself or, for very many rows, f read off a fine table."""
        rows = _rows_in_reach(times, as_of, decay, unit)
        inside = times[rows]
        if len(inside) < MANY_ROWS or len(too_faded(inside, unit, decay, np.array([as_of]))):
            return cls(rows, decay(unit.seconds(as_of - inside)), 0.0)
        table = PiecewiseDecay.reaching(inside, as_of, unit, decay, FINE_TOLERANCE)
        return cls(rows, table.of_rows(inside, as_of), table.relative_error)


def _rows_in_reach(times: Ints, as_of: int, decay: Decay, unit: TimeUnit) -> slice:
    """The rows that are not newer than the as-of time and not older than the decay's horizon."""
    stop = int(np.searchsorted(times, as_of, side="right"))
    start = 0
    reach = decay.horizon * unit.denominator / unit.numerator
    if reach < float(1 << 62):
        start = int(np.searchsorted(times, as_of - int(np.ceil(reach)), side="left"))
    return slice(min(start, stop), stop)


def sums_by_row(coefficients: Coefficients, factors: Sequence[DecayFactors], rows: Rows | None = None) -> Sums:
    """The sums from f of each row, over all rows or over some of them, whose numbers ascend."""
    linear = np.zeros((len(factors), len(coefficients.linear)))
    squared = np.zeros((len(factors), len(coefficients.squared)))
    used = np.zeros(len(factors), np.int64)
    for at, one in enumerate(factors):
        columns = coefficients.linear, coefficients.squared, one.factors, one.rows.start
        if rows is None:
            _add_all(*columns, linear[at], squared[at])
            used[at] = np.count_nonzero(one.factors)
        else:
            first, last = np.searchsorted(rows, [one.rows.start, one.rows.stop])
            used[at] = _add_some(*columns, rows[first:last], linear[at], squared[at])
    return Sums(linear, squared, used, max((one.table_error for one in factors), default=0.0))


@njit(cache=True, nogil=True, fastmath=True)
def _add_all(linear: Floats, squared: Floats, factors: Floats, start: int, sums: Floats, squares: Floats) -> None:
    """Dot products in one thread and without a copy; numpy's would wait for cores that are busy."""
    for column in range(len(linear)):
        mass = 0.0
        for row in range(len(factors)):
            mass += linear[column, start + row] * factors[row]
        sums[column] = mass
    for column in range(len(squared)):
        mass = 0.0
        for row in range(len(factors)):
            mass += squared[column, start + row] * factors[row] * factors[row]
        squares[column] = mass


@njit(cache=True, nogil=True)
def _add_some(
    linear: Floats, squared: Floats, factors: Floats, start: int, rows: Rows, sums: Floats, squares: Floats
) -> int:
    """The same over some rows, without copying them together first; how many of them have f > 0."""
    used = 0
    for row in rows:
        factor = factors[row - start]
        if factor > 0.0:
            used += 1
            for column in range(len(linear)):
                sums[column] += linear[column, row] * factor
            for column in range(len(squared)):
                squares[column] += squared[column, row] * factor * factor
    return used


def sums_of_subset(coefficients: Coefficients, unit: TimeUnit, decay: Decay, as_of: Ints, rows: Rows) -> Sums:
    """The sums over some rows, with f read off the table for those rows alone."""
    times = coefficients.times
    if len(too_faded(times, unit, decay, as_of)):
        factors = [DecayFactors.at(times, moment, decay, unit) for moment in as_of.tolist()]
        return sums_by_row(coefficients, factors, rows)
    linear = np.zeros((len(as_of), len(coefficients.linear)))
    squared = np.zeros((len(as_of), len(coefficients.squared)))
    used = np.zeros(len(as_of), np.int64)
    table = PiecewiseDecay.reaching(times, int(as_of.max()), unit, decay, FINE_TOLERANCE)
    pieces = table.first, table.height, table.slope
    for at, moment in enumerate(as_of.tolist()):
        used[at] = _look_up_and_add(
            times, coefficients.linear, coefficients.squared, rows, moment, *pieces, linear[at], squared[at]
        )
    return Sums(linear, squared, used, table.relative_error)


@njit(cache=True, nogil=True)
def _look_up_and_add(
    times: Ints,
    linear: Floats,
    squared: Floats,
    rows: Rows,
    as_of: int,
    first: Ints,
    height: Floats,
    slope: Floats,
    sums: Floats,
    squares: Floats,
) -> int:
    """Walk from the newest of the rows to the oldest and along the pieces; how many rows the pieces reach."""
    used = 0
    piece = 0
    begin, end, base, tilt = 0, first[1] if len(first) > 1 else 0, 0.0, 0.0
    if len(height):
        begin, base, tilt = first[0], height[0], slope[0]
    for at in range(len(rows) - 1, -1, -1):
        row = rows[at]
        age = as_of - times[row]
        if age < 0:
            continue
        if age >= end:
            while piece < len(height) and age >= first[piece + 1]:
                piece += 1
            if piece == len(height):
                break
            begin, end, base, tilt = first[piece], first[piece + 1], height[piece], slope[piece]
        factor = base + tilt * (age - begin)
        used += 1
        for column in range(len(linear)):
            sums[column] += linear[column, row] * factor
        for column in range(len(squared)):
            squares[column] += squared[column, row] * factor * factor
    return used


def sums_by_table(coefficients: Coefficients, unit: TimeUnit, decay: Decay, as_of: Ints) -> Sums:
    """The sums from the table and prefix sums; from f of each row where f is too small for the table."""

    def by_row(moments: Ints) -> Sums:
        factors = [DecayFactors.at(coefficients.times, moment, decay, unit) for moment in moments.tolist()]
        return sums_by_row(coefficients, factors)

    if len(coefficients.times) == 0:
        return by_row(as_of)
    sums, lost = _sums_of_pieces(coefficients, unit, decay, as_of)
    faded = np.union1d(too_faded(coefficients.times, unit, decay, as_of), lost)
    if len(faded):
        exact = by_row(as_of[faded])
        sums.linear[faded], sums.squared[faded], sums.used[faded] = exact.linear, exact.squared, exact.used
        table_error = np.array(sums.table_error)
        table_error[faded] = exact.table_error
        sums = replace(sums, table_error=table_error)
    return sums


def _sums_of_pieces(coefficients: Coefficients, unit: TimeUnit, decay: Decay, as_of: Ints) -> tuple[Sums, Rows]:
    """The sums, and the numbers of the as-of times at which rounding leaves too little of them."""
    tolerance = TOLERANCE if len(as_of) > FEW_TIMES else FINE_TOLERANCE
    table = PiecewiseDecay.reaching(coefficients.times, int(as_of.max()), unit, decay, tolerance)
    linear, squared, used = _add_pieces_in_threads(coefficients, table, as_of)
    # The difference of two prefix sums has the rounding error of the prefix sums, however small it is itself.
    whole, parts = coefficients.prefixes[0][-1].sum(), linear.sum(axis=1)
    rounding = _PREFIX_ROUNDING * np.sqrt(len(coefficients.times)) * whole
    lost = (used > 0) & (rounding > _MOST_ROUNDING * parts)
    relative = rounding / np.where(lost | (parts <= 0), np.inf, parts)
    return Sums(linear, squared, used, table.relative_error + relative), np.flatnonzero(lost)


def _add_pieces_in_threads(
    coefficients: Coefficients, table: PiecewiseDecay, as_of: Ints
) -> tuple[Floats, Floats, Ints]:
    """As-of times do not depend on each other, so a long series is dealt out to a few threads."""
    prefixes, times = coefficients.prefixes, len(as_of)
    linear, squared = np.empty((times, len(coefficients.linear))), np.empty((times, len(coefficients.squared)))
    used = np.empty(times, np.int64)

    def add(these: slice) -> None:
        linear[these], squared[these], used[these] = _add_pieces(
            coefficients.times, *prefixes, as_of[these], table.first, table.height, table.slope, table.square_height,
            table.square_slope,
        )  # fmt: skip

    in_threads(add, times, len(coefficients.times))
    return linear, squared, used


def in_threads(add: Callable[[slice], None], times: int, rows: int) -> None:
    """Deal out a pass over the rows for each of many times to a few threads, a stretch of times to each."""
    if times < 2 * _THREADS or rows < _THREADED_FROM:
        add(slice(0, times))
        return
    edges = np.linspace(0, times, 4 * _THREADS + 1).astype(int).tolist()  # later times take longer
    with ThreadPoolExecutor(_THREADS) as threads:
        list(threads.map(add, [slice(*ends) for ends in pairwise(edges)]))


@njit(cache=True, nogil=True)
def _add_pieces(
    times: Ints,
    linear: Floats,
    linear_moment: Floats,
    squared: Floats,
    squared_moment: Floats,
    as_of: Ints,
    first: Ints,
    height: Floats,
    slope: Floats,
    square_height: Floats,
    square_slope: Floats,
) -> tuple[Floats, Floats, Ints]:
    """Add up height + slope·(age - first) over the rows of each piece, from prefix sums over the sorted rows."""
    origin = times[0]
    totals = np.zeros((len(as_of), linear.shape[1]))
    squares = np.zeros((len(as_of), squared.shape[1]))
    used = np.zeros(len(as_of), np.int64)
    for at in range(len(as_of)):
        high = np.searchsorted(times, as_of[at], side="right")
        newest = high
        for piece in range(len(height)):
            if high == 0:
                break
            # The rows of this piece have first[piece] <= age < first[piece + 1]; skip pieces without rows.
            if as_of[at] - times[high - 1] >= first[piece + 1]:
                continue
            low = _rows_up_to(times, high, as_of[at] - first[piece + 1])
            # age - first = (as_of - origin - first) - (t - origin)
            shift = np.float64(as_of[at] - origin - first[piece])
            for column in range(linear.shape[1]):
                mass = linear[high, column] - linear[low, column]
                moment = linear_moment[high, column] - linear_moment[low, column]
                totals[at, column] += height[piece] * mass + slope[piece] * (shift * mass - moment)
            for column in range(squared.shape[1]):
                mass = squared[high, column] - squared[low, column]
                moment = squared_moment[high, column] - squared_moment[low, column]
                squares[at, column] += square_height[piece] * mass + square_slope[piece] * (shift * mass - moment)
            high = low
        used[at] = newest - high
        for column in range(linear.shape[1]):
            totals[at, column] = max(totals[at, column], 0.0)
        for column in range(squared.shape[1]):
            squares[at, column] = max(squares[at, column], 0.0)
    return totals, squares, used


@njit(cache=True, nogil=True, inline="always")
def _rows_up_to(times: Ints, high: int, edge: int) -> int:
    """How many of the first `high` rows, the last of which is newer than `edge`, are not newer than `edge`.

    Search from `high` down in steps that double, because neighbouring pieces have neighbouring rows.
    """
    stride = 1
    low = high - 1
    while low > 0 and times[low - 1] > edge:
        low = max(0, low - stride)
        stride *= 2
    if times[low] <= edge:
        low += int(np.searchsorted(times[low:high], edge, side="right"))
    return low


def largest_unseen(sample: PoissonSample, decay: Decay, as_of: Ints, per: Literal["unit", "event"]) -> Unseen:
    """The most that one unsampled unit of weight or one unsampled event could count at each as-of time."""
    strata = sample.strata
    if per == "unit":
        design_weight, exclusion_probability = strata.unit_design_weight, strata.unit_exclusion_probability
    else:
        design_weight, exclusion_probability = strata.event_design_weight, strata.event_exclusion_probability
    sampled = design_weight > 0
    if not sampled.any() or not len(as_of):
        return Unseen(np.zeros(len(as_of)), np.zeros(len(as_of)))
    newest, oldest = strata.newest[sampled], strata.oldest[sampled]
    ages = as_of[:, None] - np.minimum(newest, as_of[:, None])
    factors = np.where(oldest <= as_of[:, None], decay(sample.unit.seconds(ages)), 0.0)
    with np.errstate(over="ignore"):
        contributions = np.minimum(factors * design_weight[sampled], _MOST_UNSEEN)
    largest = contributions.argmax(axis=1)
    contribution = contributions[np.arange(len(as_of)), largest]
    return Unseen(contribution, np.square(contribution) * exclusion_probability[sampled][largest])
