"""The unit in which a stream counts time."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from sketches.arrays import Floats, Ints
from sketches.records import dataclass


@dataclass(frozen=True, slots=True)
class TimeUnit:
    """Seconds per unit of time as a fraction, so that whole seconds stay whole however fine the unit."""

    numerator: int = 1
    denominator: int = 1

    @property
    def possible(self) -> bool:
        """Whether it is a number of seconds, and an hour a number of it that can be counted with."""
        return min(self.numerator, self.denominator) > 0 and 3_600 * self.denominator < self.numerator << 62

    def seconds(self, ages: Ints | Floats) -> Floats:
        if self.numerator == self.denominator == 1:
            return np.asarray(ages, np.float64)
        return np.asarray(ages * np.float64(self.numerator) / np.float64(self.denominator))

    def whole(self, seconds: float) -> int:
        """The least number of units that is no shorter than so many seconds; 2⁶² where that is more.

        >>> TimeUnit(1, 1000).whole(0.0123), TimeUnit(60).whole(61.0), SECOND.whole(float("inf")) == 1 << 62
        (13, 2, True)
        """
        units = seconds * self.denominator / self.numerator
        return math.ceil(units) if units < float(1 << 62) else 1 << 62


SECOND: Final = TimeUnit()
