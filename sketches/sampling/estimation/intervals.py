"""Confidence intervals for sums over a Poisson sample that hold also where only a few sampled events match.

Every kept event was sampled independently with a known inclusion probability π. A decayed sum is estimated by Σ y/π,
and the variance of the estimate by Σ (y/π)²·(1-π) (Horvitz and Thompson). A normal interval around that is far too
short where few events match. These intervals are used instead:

- **Sums**: the gamma interval of Fay and Feuer (Statistics in Medicine 16, 1997) for weighted sums of counts. Its
  upper limit adds the largest contribution that an *unseen* event could have made, one that came and was not sampled.
  So the upper limit holds even where no sampled event matches: it is -ln(α/2)/π for one rare unit.
- **Shares**: limits recovered from those of numerator and denominator (MOVER: Zou and Donner, Statistics in
  Medicine 27, 2008), which keeps their asymmetry. Matching and other events are disjoint, hence independent.

All functions broadcast over arrays.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np

from sketches.arrays import Flags, Floats
from sketches.records import dataclass
from sketches.special_functions import gammainccinv, gammaincinv, ndtri

_TABLE_FROM: Final = 0.5  # shapes of the gamma distribution between which quantiles are read off a table
_TABLE_UP_TO: Final = 60.0
_TABLE_POINTS: Final = 2048
_NO_SQUARE: Final = 1e-140  # a sampled part below it has a variance with few digits or none
_LEAST_TAIL: Final = 1e-300  # a quantile beyond it would be infinite


class Unseen(NamedTuple):
    """The largest contribution y/π that an event which was not sampled could have made, and its (y/π)²·(1-π)."""

    contribution: Floats
    variance: Floats


@dataclass(frozen=True, slots=True)
class Total:
    """An estimated sum of non-negative terms: what was kept with certainty plus what was sampled.

    `unseen` and `unseen_variance` are those of `Unseen`.
    """

    certain: Floats
    sampled: Floats
    variance: Floats
    unseen: Floats
    unseen_variance: Floats
    table_error: float | Floats = 0.0  # relative error of each term because f was read off a table; 0: it was not

    @property
    def value(self) -> Floats:
        return self.certain + self.sampled

    def bounds(self, confidence: float) -> tuple[Floats, Floats]:
        """Lower and upper limit of the sum, each missed with probability (1 - confidence) / 2."""
        return self.at_tail((1.0 - confidence) / 2.0)

    def at_tail(self, tail: float | Floats) -> tuple[Floats, Floats]:
        """Lower and upper limit of the sum, each missed with probability `tail`, which each sum may have of its own."""
        return self.lower(tail), self.upper(tail)

    def lower(self, tail: float | Floats) -> Floats:
        lower = gamma_quantile(self.sampled, self.variance, tail)
        lower = np.where(np.asarray(self.sampled) < _NO_SQUARE, 0.0, lower)
        return np.asarray((self.certain + np.minimum(lower, self.sampled)) * (1.0 - self.table_error))

    def upper(self, tail: float | Floats) -> Floats:
        upper = gamma_quantile(self.sampled + self.unseen, self.variance + self.unseen_variance, tail, upper=True)
        return np.asarray((self.certain + np.maximum(upper, self.sampled)) * (1.0 + self.table_error))

    @property
    def exact(self) -> Flags:
        """Where every event was kept with certainty, none can be unseen, and f is exact."""
        return np.asarray((self.variance == 0) & (self.unseen == 0) & (self.table_error == 0))

    def without(self, part: Total) -> Total:
        """The sum of the other terms; `part` is the sum of some of the terms."""
        return Total(
            np.maximum(self.certain - part.certain, 0.0),
            np.maximum(self.sampled - part.sampled, 0.0),
            np.maximum(self.variance - part.variance, 0.0),
            self.unseen,
            self.unseen_variance,
            self.table_error,
        )


def gamma_quantile(mean: Floats, variance: Floats, tail: float | Floats, *, upper: bool = False) -> Floats:
    """What the gamma distribution with this mean and variance is below (or above) with probability `tail`.

    The mean itself where the variance is 0. Large shapes use the cube formula of Wilson and Hilferty, whose error is
    far below the interval's own width. Small shapes are read off a table where all have one tail, because inverting the
    gamma function for each point of a chart would cost too much.
    """
    mean, variance, tails = np.broadcast_arrays(
        np.asarray(mean, np.float64), np.asarray(variance, np.float64), np.asarray(tail, np.float64)
    )
    tails = np.maximum(tails, _LEAST_TAIL)
    spread = (mean > 0) & (variance > 0)
    safe_mean = np.where(spread, mean, 1.0)
    scale = np.where(spread, variance, 1.0) / safe_mean
    shape = safe_mean / scale
    ninth = 1.0 / (9.0 * shape)
    deviation = (-1.0 if upper else 1.0) * (ndtri(tails) if np.ndim(tail) else _normal_quantile(float(tail)))
    quantile = shape * np.maximum(1.0 - ninth + deviation * np.sqrt(ninth), 0.0) ** 3
    small = shape < _TABLE_UP_TO
    if small.any():
        quantile = np.where(small, 0.0, quantile)
        if np.ndim(tail):
            quantile[small] = (gammainccinv if upper else gammaincinv)(shape[small], tails[small])
        else:
            quantile[small] = _gamma_quantile_of_small_shapes(shape[small], float(tail), upper)
    return np.where(spread, quantile * scale, mean)


def _gamma_quantile_of_small_shapes(shape: Floats, tail: float, upper: bool) -> Floats:
    log_shapes, log_quantiles = _gamma_table(tail, upper)
    quantile = np.exp(np.interp(np.log(shape), log_shapes, log_quantiles))
    tiny = shape < _TABLE_FROM
    if tiny.any():
        quantile[tiny] = (gammainccinv if upper else gammaincinv)(shape[tiny], tail)
    return quantile


@lru_cache(maxsize=64)
def _normal_quantile(tail: float) -> float:
    return float(ndtri(max(tail, _LEAST_TAIL)))


@lru_cache(maxsize=64)
def _gamma_table(tail: float, upper: bool) -> tuple[Floats, Floats]:
    """The logarithms of shapes and of their gamma quantiles; interpolation between them is right to 5e-6."""
    log_shapes = np.linspace(np.log(_TABLE_FROM), np.log(_TABLE_UP_TO), _TABLE_POINTS)
    return log_shapes, np.log((gammainccinv if upper else gammaincinv)(np.exp(log_shapes), tail))


def share_bounds(part: Total, rest: Total, confidence: float) -> tuple[Floats, Floats]:
    """Limits of part / (part + rest), where the two are sums over different events."""
    tail = (1.0 - confidence) / 2.0
    return least_share(part, rest, tail), most_share(part, rest, tail)


def least_share(part: Total, rest: Total, tail: float | Floats) -> Floats:
    """The lower limit of a share, missed with probability `tail`, which each may have of its own."""
    odds = _ratio_lower(part.value, part.lower(tail), rest.value, rest.upper(tail))
    unbounded = np.isinf(odds)
    return np.where(unbounded, 1.0, odds / np.where(unbounded, 1.0, 1.0 + odds))


def most_share(part: Total, rest: Total, tail: float | Floats) -> Floats:
    """The upper limit of a share."""
    return np.asarray(1.0 / (1.0 + _ratio_lower(rest.value, rest.lower(tail), part.value, part.upper(tail))))


def _ratio_lower(top: Floats, top_lower: Floats, bottom: Floats, bottom_upper: Floats) -> Floats:
    """Lower limit r of top / bottom: where top - r·bottom is as far below its estimate as both limits allow.

    r solves (top - r·bottom)² = a² + r²·b² and lies below top / bottom. Here a is the distance from top down to its
    lower limit, and b the distance from bottom up to its upper limit.
    """
    # In units of the top and of the bottom's upper limit: else squares of what is next to nothing would be nothing.
    top_unit, bottom_unit = (np.where(unit > 0, unit, 1.0) for unit in (top, np.maximum(bottom, bottom_upper)))
    a = (top - top_lower) / top_unit
    b = (bottom_upper - bottom) / bottom_unit
    near = bottom / bottom_unit
    constant = np.maximum(top_lower, 0.0) / top_unit * (1.0 + a)
    # near² - (near² - b²)·(1 - a²), written so that limits next to the estimate are not rounded onto it
    root = np.sqrt(np.maximum(np.square(a * near) + np.square(b) - np.square(a * b), 0.0))
    denominator = near + root
    ratio = constant / np.where(denominator > 0, denominator, 1.0)
    with np.errstate(over="ignore"):  # beyond all floats it is infinite, as where the bottom is 0
        ratio = np.where(ratio > 0, np.maximum(ratio, np.finfo(np.float64).tiny) * (top_unit / bottom_unit), 0.0)
    # Where the bottom is 0 and nothing is unseen there, the ratio is unbounded.
    unbounded = (top_lower > 0) & (bottom_upper <= 0)
    return np.where(top > 0, np.where(denominator > 0, ratio, np.where(unbounded, np.inf, 0.0)), 0.0)
