"""Decayed sums over sampled rows, at one as-of time or at hundreds in one pass.

One time costs one evaluation of the decay and a few dot products. For many times, or very many rows, the decay is laid
out once as a table of straight pieces over whole ages (exact at both ends of every piece, within a tolerance of the
decay in between, jumps and corners found by bisection); then prefix sums of the rows, which serve every decay, give
each piece's share of each answer, and the cost does not grow with the number of rows.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sketches.decay import Decay
from sketches.drawn import Columns, Drawn, TimeUnit
from sketches.intervals import Total

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

TOLERANCE: Final = 1e-4  # of the decay's value, where that is above NEGLIGIBLE
SQUARE_TOLERANCE: Final = 1e-3  # the same for f², which only variances need
NEGLIGIBLE: Final = 1e-14
FINE: Final = 2e-5  # the tolerance for single answers over very many rows
LARGE: Final = 200_000  # rows from which a table of the decay is cheaper than the decay of each row
FEW: Final = 6  # as-of times up to which plain evaluation is cheaper than a table
_FADED: Final = 1e-5
_ROUNDING: Final = 1e-13
_PREFIX_ROUNDING: Final = 2e-14
_MOST_PIECES: Final = 20_000
_THREADS: Final = min(4, os.cpu_count() or 1)
_MANY: Final = 50_000  # rows from which threads are worth their start


@dataclass(frozen=True, slots=True)
class Sums:
    """Per as-of time (first axis) one decayed sum for each column, and the number of rows that count.

    `slack` is how far, relatively, sums may be off because f was read off a table and sums off prefix sums; else 0.
    """

    linear: Floats
    squared: Floats
    used: Ints
    slack: float | Floats = 0.0


@dataclass(frozen=True, slots=True)
class Faded:
    """The rows that can carry weight at one as-of time, f of each, and how far f may be off, relatively."""

    rows: slice
    weights: Floats
    slack: float


def sums_by_table(columns: Columns, unit: TimeUnit, decay: Decay, as_of: Ints) -> Sums:
    """Every column's decayed sum at every as-of time, from prefix sums."""
    if len(columns.times) == 0:
        return sums_by_row(columns, [fade(columns.times, moment, decay, unit) for moment in as_of.tolist()])
    sums = _by_pieces(columns, unit, decay, as_of)
    faded = all_but_faded(columns.times, unit, decay, as_of)
    if len(faded):
        exact = sums_by_row(columns, [fade(columns.times, moment, decay, unit) for moment in as_of[faded].tolist()])
        sums.linear[faded], sums.squared[faded], sums.used[faded] = exact.linear, exact.squared, exact.used
        slack = np.array(sums.slack)
        slack[faded] = exact.slack
        sums = replace(sums, slack=slack)
    return sums


def all_but_faded(times: Ints, unit: TimeUnit, decay: Decay, as_of: Ints) -> NDArray[np.intp]:
    """The as-of times at which even the newest row weighs so little that the table is too coarse for ratios of it."""
    newest = np.searchsorted(times, as_of, side="right") - 1
    ages = unit.seconds(np.maximum(as_of - times[np.maximum(newest, 0)], 0))
    return np.flatnonzero((newest >= 0) & (decay(ages) < _FADED))


def sums_by_row(columns: Columns, faded: Sequence[Faded], rows: NDArray[np.intp] | None = None) -> Sums:
    """Every column's decayed sum from f of each row, over all rows or some (in ascending order)."""
    linear = np.zeros((len(faded), len(columns.linear)))
    squared = np.zeros((len(faded), len(columns.squared)))
    used = np.zeros(len(faded), np.int64)
    for at, one in enumerate(faded):
        if rows is None:
            _weigh(columns.linear, columns.squared, one.weights, one.rows.start, linear[at], squared[at])
            used[at] = np.count_nonzero(one.weights)
        else:
            first, last = np.searchsorted(rows, [one.rows.start, one.rows.stop])
            some = rows[first:last]
            used[at] = _weigh_some(
                columns.linear, columns.squared, one.weights, one.rows.start, some, linear[at], squared[at]
            )
    return Sums(linear, squared, used, max((one.slack for one in faded), default=0.0))


def sums_by_walk(columns: Columns, unit: TimeUnit, decay: Decay, as_of: Ints, rows: NDArray[np.intp]) -> Sums:
    """The same over some of very many rows at few times: f is read off the table for those rows alone."""
    faded = all_but_faded(columns.times, unit, decay, as_of)
    if len(faded):
        return sums_by_row(columns, [fade(columns.times, moment, decay, unit) for moment in as_of.tolist()], rows)
    linear = np.zeros((len(as_of), len(columns.linear)))
    squared = np.zeros((len(as_of), len(columns.squared)))
    used = np.zeros(len(as_of), np.int64)
    table = pieces_for(columns.times, int(as_of.max()), unit, decay, FINE)
    for at, moment in enumerate(as_of.tolist()):
        used[at] = _walk(
            columns.times, columns.linear, columns.squared, rows, moment, table.first, table.height, table.slope,
            linear[at], squared[at],
        )  # fmt: skip
    return Sums(linear, squared, used, table.slack)


@njit(cache=True, nogil=True)
def _walk(
    times: Ints,
    linear: Floats,
    squared: Floats,
    rows: NDArray[np.intp],
    as_of: int,
    first: Ints,
    height: Floats,
    slope: Floats,
    sums: Floats,
    squares: Floats,
) -> int:
    used = 0
    piece = 0
    begin, reach, base, tilt = 0, first[1] if len(first) > 1 else 0, 0.0, 0.0
    if len(height):
        begin, base, tilt = first[0], height[0], slope[0]
    for at in range(len(rows) - 1, -1, -1):
        row = rows[at]
        age = as_of - times[row]
        if age < 0:
            continue
        if age >= reach:
            while piece < len(height) and age >= first[piece + 1]:
                piece += 1
            if piece == len(height):
                break
            begin, reach, base, tilt = first[piece], first[piece + 1], height[piece], slope[piece]
        weight = base + tilt * (age - begin)
        used += 1
        for column in range(len(linear)):
            sums[column] += linear[column, row] * weight
        for column in range(len(squared)):
            squares[column] += squared[column, row] * weight * weight
    return used


@njit(cache=True, nogil=True, fastmath=True)
def _weigh(linear: Floats, squared: Floats, fading: Floats, start: int, sums: Floats, squares: Floats) -> None:
    """Dot products in one thread and without a copy: a threaded one waits for cores that others are using."""
    for column in range(len(linear)):
        mass = 0.0
        for row in range(len(fading)):
            mass += linear[column, start + row] * fading[row]
        sums[column] = mass
    for column in range(len(squared)):
        mass = 0.0
        for row in range(len(fading)):
            mass += squared[column, start + row] * fading[row] * fading[row]
        squares[column] = mass


@njit(cache=True, nogil=True)
def _weigh_some(
    linear: Floats,
    squared: Floats,
    fading: Floats,
    start: int,
    rows: NDArray[np.intp],
    sums: Floats,
    squares: Floats,
) -> int:
    """The same over some rows, without copying them together first."""
    used = 0
    for row in rows:
        weight = fading[row - start]
        if weight > 0.0:
            used += 1
            for column in range(len(linear)):
                sums[column] += linear[column, row] * weight
            for column in range(len(squared)):
                squares[column] += squared[column, row] * weight * weight
    return used


def fade(times: Ints, as_of: int, decay: Decay, unit: TimeUnit) -> Faded:
    """f of the rows that can carry weight: plainly, or for very many rows off a fine table of the decay."""
    rows = span(times, as_of, decay, unit)
    inside = times[rows]
    if len(inside) < LARGE or len(all_but_faded(inside, unit, decay, np.array([as_of]))):
        return Faded(rows, decay(unit.seconds(as_of - inside)), 0.0)
    table = pieces_for(inside, as_of, unit, decay, FINE)
    return Faded(rows, _read_off(inside, as_of, table.first, table.height, table.slope), table.slack)


@njit(cache=True, nogil=True)
def _read_off(times: Ints, as_of: int, first: Ints, height: Floats, slope: Floats) -> Floats:
    """f of rows sorted by time, walking back along the pieces."""
    fading = np.zeros(len(times))
    piece = 0
    for row in range(len(times) - 1, -1, -1):
        age = as_of - times[row]
        while piece < len(height) and age >= first[piece + 1]:
            piece += 1
        if piece == len(height):
            break
        fading[row] = height[piece] + slope[piece] * (age - first[piece])
    return fading


def span(times: Ints, as_of: int, decay: Decay, unit: TimeUnit) -> slice:
    """The rows that can carry weight: not newer than the as-of time, not older than the decay's horizon."""
    stop = int(np.searchsorted(times, as_of, side="right"))
    start = 0
    reach = decay.horizon * unit.denominator / unit.numerator
    if reach < float(1 << 62):
        start = int(np.searchsorted(times, as_of - int(np.ceil(reach)), side="left"))
    return slice(min(start, stop), stop)


@dataclass(frozen=True, slots=True)
class Pieces:
    """Straight pieces over whole ages in time units: piece j starts at `first[j]` and ends before `first[j + 1]`."""

    first: Ints
    height: Floats  # f at the piece's first age
    slope: Floats
    square_height: Floats  # the same for f²
    square_slope: Floats
    slack: float  # how far, relatively, f may be from the piece: twice what was measured at three ages in each


def pieces_for(times: Ints, as_of: int, unit: TimeUnit, decay: Decay, tolerance: float) -> Pieces:
    """The table that reaches the oldest row; rounded up, so that a chart which moves on a little finds it again."""
    oldest = max(0, as_of - int(times[0]))
    return pieces(decay, unit, (1 << oldest.bit_length()) - 1, tolerance)


@lru_cache(maxsize=64)
def pieces(decay: Decay, unit: TimeUnit, oldest: int, tolerance: float = TOLERANCE) -> Pieces:
    """The decay as straight pieces over the ages 0 … oldest."""

    def fading(ages: Ints) -> Floats:
        return decay(unit.seconds(ages))

    # a curve needs hundreds of pieces and is spared rounds of halving; straight decays need but few
    start_with = 512 if math.isinf(decay.horizon) and not decay.breaks() and decay.spec != "none" else 64
    grid = np.unique(np.concatenate([[0], np.geomspace(1, oldest + 1, start_with).astype(np.int64), [oldest + 1]]))
    corners = np.array([edge * unit.denominator / unit.numerator for edge in decay.breaks()])
    corners = np.ceil(corners[corners <= oldest]).astype(np.int64)
    first = np.unique(np.concatenate([grid[grid <= oldest], corners]))
    while True:
        last = np.append(first[1:] - 1, oldest)
        start, end = fading(first), fading(last)
        length = last - first
        probes = [first + length * part // 4 for part in (1, 2, 3)]
        coarse = np.zeros(len(first), bool)
        worst = 0.0
        for probe in probes:
            exact = fading(probe)
            part = (probe - first) / np.maximum(length, 1)
            scale = np.maximum(exact, NEGLIGIBLE)
            error = np.abs(exact - start - (end - start) * part) / scale
            worst = max(worst, float(error.max()))
            coarse |= error > tolerance
            square = np.square(start) + (np.square(end) - np.square(start)) * part
            coarse |= np.abs(np.square(exact) - square) > SQUARE_TOLERANCE * np.square(scale)
        coarse &= length >= 2
        if not coarse.any() or len(first) > _MOST_PIECES:
            break
        middle = first[coarse] + (length[coarse] + 1) // 2
        first = np.union1d(first, middle)
    alive = int(np.count_nonzero(start > 0))  # f only falls: the pieces that count come first
    first, last, start, end = (column[:alive] for column in (first, last, start, end))
    length = np.maximum(last - first, 1)
    slope, square_slope = (end - start) / length, (np.square(end) - np.square(start)) / length
    # a level stretch is one piece however it was cut
    new = np.ones(alive, bool)
    new[1:] = (start[1:] != start[:-1]) | (slope[1:] != 0) | (slope[:-1] != 0)
    return Pieces(
        np.append(first[new], last[-1:] + 1),
        start[new],
        slope[new],
        np.square(start[new]),
        square_slope[new],
        2.0 * worst if worst > _ROUNDING else 0.0,
    )


def _by_pieces(columns: Columns, unit: TimeUnit, decay: Decay, as_of: Ints) -> Sums:
    table = pieces_for(columns.times, int(as_of.max()), unit, decay, TOLERANCE if len(as_of) > FEW else FINE)
    linear, squared, used = _sum_pieces_of(columns, table, as_of)
    # the difference of two prefix sums is right to their own rounding, however small it is itself
    whole, parts = columns.prefixes[0][-1].sum(), linear.sum(axis=1)
    rounding = _PREFIX_ROUNDING * np.sqrt(len(columns.times)) * whole / np.where(parts > 0, parts, np.inf)
    return Sums(linear, squared, used, np.minimum(table.slack + rounding, 1.0))


def _sum_pieces_of(columns: Columns, table: Pieces, as_of: Ints) -> tuple[Floats, Floats, Ints]:
    """Every as-of time by itself, so a long series goes to a few threads, the times dealt out in turn."""
    prefixes = columns.prefixes

    def add_up(moments: Ints) -> tuple[Floats, Floats, Ints]:
        return _sum_pieces(
            columns.times, *prefixes, moments, table.first, table.height, table.slope, table.square_height,
            table.square_slope,
        )  # fmt: skip

    if len(as_of) < 2 * _THREADS or len(columns.times) < _MANY:
        return add_up(as_of)
    with ThreadPoolExecutor(_THREADS) as threads:
        found = list(threads.map(add_up, [as_of[first::_THREADS] for first in range(_THREADS)]))
    dealt = tuple(np.empty((len(as_of), *part.shape[1:]), part.dtype) for part in found[0])
    for first, parts in enumerate(found):
        for whole, part in zip(dealt, parts, strict=True):
            whole[first::_THREADS] = part
    linear, squared, used = dealt
    return linear, squared, used


@njit(cache=True, nogil=True)
def _sum_pieces(
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
            # rows of this piece: first[piece] <= age < first[piece + 1]; jump over pieces that hold no row
            if as_of[at] - times[high - 1] >= first[piece + 1]:
                continue
            edge = as_of[at] - first[piece + 1]
            # gallop down from the last boundary: neighbouring boundaries are close in the table
            stride = 1
            low = high - 1
            while low > 0 and times[low - 1] > edge:
                low = max(0, low - stride)
                stride *= 2
            if times[low] <= edge:
                low += np.searchsorted(times[low:high], edge, side="right")
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


def unseen(drawn: Drawn, decay: Decay, as_of: Ints, per: str) -> tuple[Floats, Floats]:
    """The most that one unsampled unit (per="weight") or event (per="count") could count, and its variance."""
    strata = drawn.strata
    size = strata.weight if per == "weight" else strata.count
    doubt = strata.weight_doubt if per == "weight" else strata.count_doubt
    relevant = size > 0
    if not relevant.any() or not len(as_of):
        return np.zeros(len(as_of)), np.zeros(len(as_of))
    newest, oldest = strata.newest[relevant], strata.oldest[relevant]
    ages = as_of[:, None] - np.minimum(newest, as_of[:, None])
    reach = np.where(oldest <= as_of[:, None], decay(drawn.unit.seconds(ages)), 0.0) * size[relevant]
    largest = reach.argmax(axis=1)
    most = reach[np.arange(len(as_of)), largest]
    return most, np.square(most) * doubt[relevant][largest]


def total(
    sums: Sums, certain: int, sampled: int, variance: int, most: tuple[Floats, Floats], scale: float = 1.0
) -> Total:
    """A `Total` from three columns of the sums; `scale` is the largest factor that an unseen row may carry besides."""
    return Total(
        sums.linear[:, certain],
        sums.linear[:, sampled],
        sums.squared[:, variance],
        most[0] * scale,
        most[1] * scale**2,
        sums.slack,
    )
