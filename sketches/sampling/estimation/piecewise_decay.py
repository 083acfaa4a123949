"""A decay as a piecewise linear function of age, which is evaluated faster than the decay itself.

Ages are whole numbers of time units. Each piece is exact at its first and last age and within a tolerance of the decay
between them. Jumps and corners are found by bisection. Among rows sorted by time, each piece covers neighbours, so
prefix sums give its part of a decayed sum at once (`sketches.sampling.estimation.horvitz_thompson`).
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Final

import numpy as np

from sketches.arrays import Flags, Floats, Ints, Rows, distinct_sorted
from sketches.decay import Decay
from sketches.records import dataclass
from sketches.units import TimeUnit

TOLERANCE: Final = 1e-4  # relative to f, where f is above NEGLIGIBLE; for many as-of times
FINE_TOLERANCE: Final = 2e-5  # for single answers over very many rows
SQUARE_TOLERANCE: Final = 1e-3  # relative to f², which only variances need
NEGLIGIBLE: Final = 1e-14
_NEARLY_ZERO: Final = 1e-5  # f of the newest row below which ratios need f itself
_ROUNDING: Final = 1e-13
_MOST_PIECES: Final = 20_000
_FIRST_PIECES: Final = 64  # before they are halved where they must be
_FIRST_PIECES_OF_CURVES: Final = 512  # a curve needs hundreds in the end


@dataclass(frozen=True, slots=True)
class PiecewiseDecay:
    """Piece j starts at the age `first[j]` and ends before `first[j + 1]`; f is 0 after the last piece."""

    first: Ints
    height: Floats  # f at the piece's first age
    slope: Floats
    square_height: Floats  # the same for f²
    square_slope: Floats
    relative_error: float  # of f within a piece: twice the largest error measured at three ages in each

    @classmethod
    def reaching(cls, times: Ints, as_of: int, unit: TimeUnit, decay: Decay, tolerance: float) -> PiecewiseDecay:
        """One that reaches the oldest row. Its last age is rounded up, so that a slightly later as-of time finds the
        same one in the cache."""
        oldest_age = max(0, as_of - int(times[0]))
        return lay_out(decay, unit, (1 << oldest_age.bit_length()) - 1, tolerance)

    def of_rows(self, times: Ints, as_of: int) -> Floats:
        """f of rows that are sorted by time and not newer than the as-of time."""
        factors = np.zeros(len(times))
        if not len(self.height):
            return factors
        ends = np.searchsorted(times, as_of - self.first[::-1], side="right")  # of each piece, from the oldest
        rows, lengths = slice(ends[0], ends[-1]), np.diff(ends)
        first, height, slope = (np.repeat(one[::-1], lengths) for one in (self.first[:-1], self.height, self.slope))
        factors[rows] = height + slope * (as_of - times[rows] - first)
        return factors


@lru_cache(maxsize=64)
def lay_out(decay: Decay, unit: TimeUnit, oldest_age: int, tolerance: float = TOLERANCE) -> PiecewiseDecay:
    """The decay as linear pieces over the ages 0 … oldest_age."""
    first = _first_ages(decay, unit, oldest_age)
    while True:
        last = np.append(first[1:] - 1, oldest_age)
        start, end = decay(unit.seconds(first)), decay(unit.seconds(last))
        coarse, worst = _coarse(decay, unit, first, last, start, end, tolerance)
        if not coarse.any() or len(first) > _MOST_PIECES:
            break
        middle = first[coarse] + (last[coarse] - first[coarse] + 1) // 2
        first = distinct_sorted(np.concatenate([first, middle]))
    positive = int(np.count_nonzero(start > 0))  # f never rises, so these pieces come first
    first, last, start, end = first[:positive], last[:positive], start[:positive], end[:positive]
    length = np.maximum(last - first, 1)
    slope, square_slope = (end - start) / length, (np.square(end) - np.square(start)) / length
    # Join neighbouring pieces of the same constant height.
    new = np.ones(positive, bool)
    new[1:] = (start[1:] != start[:-1]) | (slope[1:] != 0) | (slope[:-1] != 0)
    return PiecewiseDecay(
        np.append(first[new], last[-1:] + 1),
        start[new],
        slope[new],
        np.square(start[new]),
        square_slope[new],
        2.0 * worst if worst > _ROUNDING else 0.0,
    )


def _first_ages(decay: Decay, unit: TimeUnit, oldest_age: int) -> Ints:
    """Where the pieces begin at first: at ages spaced geometrically, and at the corners of the decay."""
    is_curve = math.isinf(decay.horizon) and not decay.breaks() and decay.spec != "none"
    pieces = _FIRST_PIECES_OF_CURVES if is_curve else _FIRST_PIECES
    grid = distinct_sorted(
        np.concatenate([[0], np.geomspace(1, oldest_age + 1, pieces).astype(np.int64), [oldest_age + 1]])
    )
    corners = np.array([edge * unit.denominator / unit.numerator for edge in decay.breaks()])
    corners = np.ceil(corners[corners <= oldest_age]).astype(np.int64)
    return distinct_sorted(np.concatenate([grid[grid <= oldest_age], corners]))


def _coarse(
    decay: Decay, unit: TimeUnit, first: Ints, last: Ints, start: Floats, end: Floats, tolerance: float
) -> tuple[Flags, float]:
    """Which pieces are too far from the decay and can be halved, and the largest relative error of all pieces."""
    length = last - first
    coarse = np.zeros(len(first), bool)
    worst = 0.0
    for quarter in (1, 2, 3):
        probe = first + length * quarter // 4
        exact = decay(unit.seconds(probe))
        part = (probe - first) / np.maximum(length, 1)
        scale = np.maximum(exact, NEGLIGIBLE)
        error = np.abs(exact - start - (end - start) * part) / scale
        worst = max(worst, float(error.max()))
        coarse |= error > tolerance
        square = np.square(start) + (np.square(end) - np.square(start)) * part
        coarse |= np.abs(np.square(exact) - square) > SQUARE_TOLERANCE * np.square(scale)
    return coarse & (length >= 2), worst


def too_faded(times: Ints, unit: TimeUnit, decay: Decay, as_of: Ints) -> Rows:
    """Numbers of the as-of times at which f of even the newest row is so small that ratios need f itself."""
    if not len(times):
        return np.zeros(0, np.intp)
    newest = np.searchsorted(times, as_of, side="right") - 1
    ages = unit.seconds(np.maximum(as_of - times[np.maximum(newest, 0)], 0))
    return np.flatnonzero((newest >= 0) & (decay(ages) < _NEARLY_ZERO))
