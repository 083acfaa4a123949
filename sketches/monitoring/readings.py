"""What the counters of a sketch hold over a window: the numbers that sites send in place of sketches."""

from __future__ import annotations

import numpy as np

from sketches.arrays import Floats, Limits
from sketches.records import dataclass

_ROUNDING = 1e-3  # limits are whole numbers but for the rounding that they were widened by


@dataclass(frozen=True, slots=True)
class Shape:
    """How many rows of how many counters, and which share of all arrivals collides with a key in each of its rows but
    with the probability that the sketch was built for."""

    rows: int
    width: int
    collisions: float


@dataclass(frozen=True, slots=True)
class Readings:
    """Counters over a window, rows by width, between their limits; `totals` are those of the counter of all arrivals.

    Values are multiples of a half and limits whole numbers, so that sums over sites are exact.
    """

    lower: Floats
    value: Floats
    upper: Floats
    totals: Floats  # lower, value, upper

    @classmethod
    def of(cls, limits: Limits, shape: tuple[int, int]) -> Readings:
        """From value, lower and upper limit of all counters in a row, the one of all arrivals last."""
        value, lower, upper = limits
        least = np.maximum(np.floor(lower + _ROUNDING), 0.0)
        most = np.ceil(upper - _ROUNDING)
        totals = np.array([least[-1], value[-1], most[-1]])
        return cls(least[:-1].reshape(shape), value[:-1].reshape(shape), most[:-1].reshape(shape), totals)

    @classmethod
    def none(cls, shape: tuple[int, int]) -> Readings:
        """Of a window in which nothing came."""
        return cls(np.zeros(shape), np.zeros(shape), np.zeros(shape), np.zeros(3))
