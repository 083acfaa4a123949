"""The unit in which a stream counts time."""

from __future__ import annotations

from typing import Final

import numpy as np

from sketches.arrays import Floats, Ints
from sketches.records import dataclass


@dataclass(frozen=True, slots=True)
class TimeUnit:
    """Seconds per unit of time as a fraction, so that whole seconds stay whole however fine the unit."""

    numerator: int = 1
    denominator: int = 1

    def seconds(self, ages: Ints | Floats) -> Floats:
        if self.numerator == self.denominator == 1:
            return np.asarray(ages, np.float64)
        return np.asarray(ages * np.float64(self.numerator) / np.float64(self.denominator))


SECOND: Final = TimeUnit()
