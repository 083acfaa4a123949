"""Confidence intervals for sums over a Poisson sample, good also for a handful of sampled events.

Every kept event was sampled on its own with a known probability π, so a decayed sum is estimated by Σ y/π and its
variance by Σ (y/π)²·(1-π) (Horvitz and Thompson). A normal interval around that is far too short where few events
match. These are used instead:

- **sums**: the gamma interval of Fay and Feuer (Statistics in Medicine 16, 1997) for weighted sums of counts. Its
  upper limit adds the largest contribution that an event *not seen* could have made, so that zero sampled matches still
  give an honest upper limit (-ln(α/2)/π for one rare unit).
- **shares and ratios**: limits recovered from those of numerator and denominator (MOVER: Zou and Donner, Statistics in
  Medicine 27, 2008), which keeps their asymmetry. Matching and other events are disjoint, hence independent.

All functions broadcast over arrays.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincinv, ndtri

Floats = NDArray[np.float64]

_TABLE_FROM: Final = 0.5
_CUBE_FROM: Final = 60.0


@dataclass(frozen=True, slots=True)
class Total:
    """An estimated sum of non-negative terms: what was kept with certainty plus what was sampled.

    `unseen` is the largest contribution y/π that an event which was not sampled could have made, and
    `unseen_variance` its share of variance, (y/π)²·(1-π).
    """

    certain: Floats
    sampled: Floats
    variance: Floats
    unseen: Floats
    unseen_variance: Floats
    slack: float | Floats = 0.0  # how far, relatively, each term may be off besides, because f was read off a table

    @property
    def value(self) -> Floats:
        return self.certain + self.sampled

    def bounds(self, confidence: float) -> tuple[Floats, Floats]:
        """Lower and upper limit of the sum, each missed with probability (1 - confidence) / 2."""
        tail = (1.0 - confidence) / 2.0
        lower = _gamma_quantile(self.sampled, self.variance, tail)
        upper = _gamma_quantile(self.sampled + self.unseen, self.variance + self.unseen_variance, 1.0 - tail)
        lower = self.certain + np.minimum(lower, self.sampled)
        upper = self.certain + np.maximum(upper, self.sampled)
        return lower * (1.0 - self.slack), upper * (1.0 + self.slack)

    @property
    def exact(self) -> NDArray[np.bool_]:
        """Where nothing was sampled, nothing can be unseen, and f is what it should be."""
        return np.asarray((self.variance == 0) & (self.unseen == 0) & (self.slack == 0))

    def less(self, part: Total) -> Total:
        """What is left of this sum without a part of its terms."""
        return Total(
            np.maximum(self.certain - part.certain, 0.0),
            np.maximum(self.sampled - part.sampled, 0.0),
            np.maximum(self.variance - part.variance, 0.0),
            self.unseen,
            self.unseen_variance,
            self.slack,
        )


def _gamma_quantile(mean: Floats, variance: Floats, probability: float) -> Floats:
    """The quantile of the gamma distribution with this mean and variance; the mean itself where variance is 0.

    For large shapes by Wilson and Hilferty's cube, whose error is then far below the interval's own width; for small
    ones off a table, because inverting the gamma function at each of a chart's points would cost more than the rest.
    """
    mean, variance = np.broadcast_arrays(np.asarray(mean, np.float64), np.asarray(variance, np.float64))
    spread = (mean > 0) & (variance > 0)
    safe_mean = np.where(spread, mean, 1.0)
    scale = np.where(spread, variance, 1.0) / safe_mean
    shape = safe_mean / scale
    ninth = 1.0 / (9.0 * shape)
    quantile = shape * (1.0 - ninth + ndtri(probability) * np.sqrt(ninth)) ** 3
    small = shape < _CUBE_FROM
    if small.any():
        quantile = np.where(small, 0.0, quantile)
        quantile[small] = _small_shapes(shape[small], probability)
    return np.where(spread, quantile * scale, mean)


def _small_shapes(shape: Floats, probability: float) -> Floats:
    grid, logarithms = _table(probability)
    quantile = np.exp(np.interp(np.log(shape), grid, logarithms))
    tiny = shape < _TABLE_FROM
    if tiny.any():
        quantile[tiny] = gammaincinv(shape[tiny], probability)
    return quantile


@lru_cache(maxsize=64)
def _table(probability: float) -> tuple[Floats, Floats]:
    """log of the gamma quantile over log of the shape: interpolated between 2,048 places, right to 5e-6."""
    grid = np.linspace(np.log(_TABLE_FROM), np.log(_CUBE_FROM), 2048)
    return grid, np.log(gammaincinv(np.exp(grid), probability))


def share_bounds(part: Total, rest: Total, confidence: float) -> tuple[Floats, Floats]:
    """Limits of part / (part + rest), where both are sums over different events."""
    part_lower, part_upper = part.bounds(confidence)
    rest_lower, rest_upper = rest.bounds(confidence)
    least = _odds_lower(part.value, part_lower, rest.value, rest_upper)
    greatest = _odds_lower(rest.value, rest_lower, part.value, part_upper)
    sure = np.isinf(least)
    return np.where(sure, 1.0, least / np.where(sure, 1.0, 1.0 + least)), 1.0 / (1.0 + greatest)


def _odds_lower(
    top: Floats, top_lower: Floats, bottom: Floats, bottom_upper: Floats, correlation: float | Floats = 0.0
) -> Floats:
    """Lower limit r of top / bottom: where top - r·bottom is as far below its estimate as both limits allow.

    Solves (top - r·bottom)² = a² + r²·b² - 2·correlation·r·a·b for the root below top / bottom, with a the way from top
    down to its lower limit and b the way from bottom up to its upper one.
    """
    a = top - top_lower
    b = bottom_upper - bottom
    constant = np.maximum(top * top - a * a, 0.0)
    half = top * bottom - correlation * a * b
    square = bottom * bottom - b * b
    root = np.sqrt(np.maximum(half * half - square * constant, 0.0))
    denominator = half + root
    ratio = constant / np.where(denominator > 0, denominator, 1.0)
    # with nothing at the bottom, not even unseen, the ratio has no end
    return np.where(top > 0, np.where(denominator > 0, ratio, np.where(top_lower > 0, np.inf, 0.0)), 0.0)


def ratio_bounds(
    top: Total, bottom: Total, covariance: Floats, effective: Floats, confidence: float
) -> tuple[Floats, Floats]:
    """Limits of top / bottom, two sums over the *same* events, with the covariance of their estimates.

    The correlation seen in few events proves little about the events not seen: it is taken down by the rule of three,
    3.7 in the effective number of sampled events.
    """
    top_lower, top_upper = top.bounds(confidence)
    bottom_lower, bottom_upper = bottom.bounds(confidence)
    scale = np.sqrt(top.variance * bottom.variance)
    correlation = np.where(scale > 0, covariance / np.where(scale > 0, scale, 1.0), 0.0)
    correlation = np.clip(correlation, -1.0, 1.0)
    trust = np.maximum(0.0, 1.0 - 3.7 / np.maximum(effective, 1e-9))
    correlation = np.where(correlation > 0, correlation * trust, correlation)
    least = _odds_lower(top.value, top_lower, bottom.value, bottom_upper, correlation)
    inverse = _odds_lower(bottom.value, bottom_lower, top.value, top_upper, correlation)
    greatest = np.where(inverse > 0, 1.0 / np.where(inverse > 0, inverse, 1.0), np.inf)
    # errors of f do not cancel like errors of sampling: both sums may be off in opposite directions
    return least * (1.0 - 2.0 * top.slack), greatest * (1.0 + 2.0 * top.slack)
