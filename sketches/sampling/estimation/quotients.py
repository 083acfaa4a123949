"""Means with their limits: quotients of two sums over the same events.

A mean is right where the deviations from it cancel: Σ (y - mean·x)/π estimates 0. The limits are the means for which
that sum is as far from 0 as its own interval allows (Fieller, Journal of the Royal Statistical Society B 16, 1954).
What numerator and denominator have in common drops out. The interval is that of `estimation.intervals`: a gamma
quantile, with the largest deviation that an unseen event could have made.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from sketches.arrays import Flags, Floats
from sketches.records import dataclass
from sketches.sampling.estimation.intervals import Total, gamma_quantile

_DOUBLINGS: Final = 24
_HALVINGS: Final = 11  # then a limit is right to a two-thousandth of its distance, on the outer side
_CANCELLATION: Final = 1e-15  # of a variance, which is a difference here


@dataclass(frozen=True, slots=True)
class Quotient:
    """A mean Σ y·f / Σ x·f, with the covariance of both estimates; y/x of an event is from `least` to `greatest`."""

    top: Total
    bottom: Total
    covariance: Floats
    least: Floats
    greatest: Floats

    @property
    def value(self) -> Floats:
        return divide(self.top.value, self.bottom.value, np.nan)

    def bounds(self, confidence: float) -> tuple[Floats, Floats]:
        """Lower and upper limit of the mean, each missed with probability (1 - confidence) / 2."""
        tail = (1.0 - confidence) / 2.0
        return self._limit(tail, -1.0), self._limit(tail, 1.0)

    def _limit(self, tail: float, side: float) -> Floats:
        """The outermost mean on one side for which the deviations may cancel: found by doubling, then by halving."""
        value = self.value
        end = np.broadcast_to(self.greatest if side > 0 else self.least, value.shape)
        start = np.where(np.isfinite(value), value, end)
        room = np.maximum(side * (end - start), 0.0)
        mass = self.bottom.value

        def possible(step: Floats) -> Flags:
            """Whether a mean so far out is: whether the deviations may be as far off as they would have to be."""
            return self._deviation(start + side * step, tail, side) > step * mass

        inner, outer = np.zeros_like(room), np.minimum(divide(self._deviation(start, tail, side), mass, np.inf), room)
        for _ in range(_DOUBLINGS):
            beyond = possible(outer) & (outer < room)
            if not beyond.any():
                break
            inner = np.where(beyond, outer, inner)
            outer = np.where(beyond, np.minimum(2.0 * outer, room), outer)
        else:
            outer = np.where(beyond, room, outer)
        for _ in range(_HALVINGS):
            middle = (inner + outer) / 2.0
            further = possible(middle)
            inner, outer = np.where(further, middle, inner), np.where(further, outer, middle)
        return np.where(outer >= room, end, start + side * outer)

    def _deviation(self, mean: Floats, tail: float, side: float) -> Floats:
        """How far the sum of the deviations from this mean may be off, by chance and by what is unseen."""
        top, bottom = self.top, self.bottom
        apart = top.variance + np.square(mean) * bottom.variance
        variance = np.maximum(apart - 2.0 * mean * self.covariance, _CANCELLATION * apart)
        if side > 0:
            unseen = bottom.unseen * (self.greatest - mean)
            heaviest = top.unseen * (1.0 - divide(mean, np.broadcast_to(self.greatest, mean.shape), 0.0))
            unseen = np.maximum(np.minimum(unseen, heaviest), 0.0)
        else:
            unseen = np.maximum(bottom.unseen * (mean - self.least), 0.0)
        return deviation(variance, unseen, divide(np.square(bottom.sampled), bottom.variance, 0.0), tail)


class LeanedQuotient(Quotient):
    """The same of sums that lean on exact totals: what is left of an event may have either sign."""

    __slots__ = ()

    def _deviation(self, mean: Floats, tail: float, side: float) -> Floats:
        top, bottom = self.top, self.bottom
        apart = top.variance + np.square(mean) * bottom.variance
        variance = np.maximum(apart - 2.0 * mean * self.covariance, _CANCELLATION * apart)
        above = np.minimum(bottom.unseen * np.maximum(self.greatest - mean, 0.0), top.unseen + self._of_bottom(-mean))
        below = np.minimum(bottom.unseen * np.maximum(mean - self.least, 0.0), top.unseen + self._of_bottom(mean))
        unseen = np.maximum(above, below)
        return deviation(variance, unseen, shape_of(variance, unseen), tail)

    def _of_bottom(self, mean: Floats) -> Floats:
        """The most that an unseen event may add to a multiple of the bottom."""
        return np.asarray(self.bottom.unseen * np.maximum(mean, 0.0))


def shape_of(variance: Floats, largest: Floats) -> Floats:
    """That of a gamma distribution which is as skewed as a sum can be whose terms are not larger than the largest."""
    return divide(4.0 * variance, np.square(largest), 1.0)


def deviation(variance: Floats, unseen: Floats, events: Floats, tail: float) -> Floats:
    """How far a sum of deviations of both signs may be off its estimate, on one side, with probability `tail`.

    `unseen` is the most that an unseen event could have added on that side. The gamma distribution is that of a sum
    over so many `events`, which is as skewed as so many may be. The unseen event moves its middle only as far as it
    stands out: where the events seen vary as much as it could add, they have told of its like.
    """
    mass = np.sqrt(variance * np.maximum(events, 1.0))
    spread = variance + np.square(unseen)
    seen = divide(variance, spread, 0.0)
    return gamma_quantile(mass + unseen, spread, tail, upper=True) - mass - seen * unseen


def divide(top: Floats, bottom: Floats, otherwise: float) -> Floats:
    """top / bottom, or `otherwise` where the bottom is 0; infinite where the bottom is next to nothing."""
    with np.errstate(over="ignore"):
        return np.where(bottom > 0, top / np.where(bottom > 0, bottom, 1.0), otherwise)
