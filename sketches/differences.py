"""How far two answers are apart, absolutely and relatively, with limits that know how much of their chance they share.

Two answers about the same events are mostly off in the same direction, so their difference is surer than their
intervals make it look. The limits of a difference are recovered from those of both answers and their correlation, as in
MOVER (Zou and Donner, Statistics in Medicine 27, 2008). What both share moves both up or both down, to the limits on
that side; only what each has by itself moves one up and the other down. Where intervals are even, that is MOVER; where
they are skewed, it is less wide. The limits of a ratio are those for which the difference may just be 0.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from sketches.arrays import Flags, Floats
from sketches.records import dataclass

UNKNOWN: Final = -1.0  # a correlation of which nothing is known: then the limits of both answers add up
_HALVINGS: Final = 30


@dataclass(frozen=True, slots=True)
class Limited:
    """Answers with their limits."""

    value: Floats
    lower: Floats
    upper: Floats

    @classmethod
    def of(cls, value: float, lower: float, upper: float) -> Limited:
        """A single answer."""
        return cls(*(np.array([number], np.float64) for number in (value, lower, upper)))

    @property
    def turned(self) -> Limited:
        """With the other sign."""
        return Limited(-self.value, -self.upper, -self.lower)

    def times(self, factor: Floats) -> Limited:
        ends = self.lower * factor, self.upper * factor
        return Limited(self.value * factor, np.minimum(*ends), np.maximum(*ends))


@dataclass(frozen=True, slots=True)
class Differences:
    """What is now less what was before, and that in parts of what was before; NaN where one has no answer.

    Limits hold as those of both answers do; infinite where nothing is known.
    """

    change: Limited
    relative: Limited
    beyond: Flags  # chance: 0 lies outside the limits


def differences(now: Limited, before: Limited, correlation: Floats | float) -> Differences:
    """The differences of answers whose errors have this correlation."""
    shared = np.clip(np.asarray(correlation, np.float64), -1.0, 1.0)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        value = now.value - before.value
        upper = value + _reach(now, before, shared)
        lower = value - _reach(now.turned, before.turned, shared)
        change = Limited(value, np.where(np.isnan(lower), -np.inf, lower), np.where(np.isnan(upper), np.inf, upper))
        relative = Limited(
            np.where(before.value != 0.0, value / np.abs(before.value), np.nan),
            -_most_ratio(now.turned, before, shared) - 1.0,
            _most_ratio(now, before, shared) - 1.0,
        )
        beyond = np.isfinite(value) & ((change.lower > 0.0) | (change.upper < 0.0))
    return Differences(change, relative, beyond)


def _reach(now: Limited, before: Limited, shared: Floats) -> Floats:
    """How far above its estimate the difference may be."""
    up, down = now.upper - now.value, now.value - now.lower
    before_up, before_down = before.upper - before.value, before.value - before.lower
    both = np.maximum(np.maximum(up - before_up, before_down - down), 0.0)  # what is shared moves both up, or both down
    apart = np.square(up) + np.square(before_down)
    common = np.maximum(shared, 0.0)
    against = np.minimum(shared, 0.0)
    return np.sqrt(np.square(both) * common + apart * (1.0 - common) - 2.0 * against * up * before_down)


def _most_ratio(now: Limited, before: Limited, shared: Floats) -> Floats:
    """The greatest ratio r for which now - r·before may be 0; infinite where what was before may be 0 or less."""
    known = np.asarray(before.lower > 0.0)
    inner = now.value / before.value
    outer = np.maximum(np.maximum(now.upper / before.lower, now.upper / before.upper), inner)
    for _ in range(_HALVINGS):
        middle = (inner + outer) / 2.0
        possible = now.value - middle * before.value + _reach(now, before.times(middle), shared) >= 0.0
        inner, outer = np.where(possible, middle, inner), np.where(possible, outer, middle)
    return np.where(known, outer, np.inf)
