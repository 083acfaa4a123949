"""The quantiles that intervals need: of the normal and of the gamma distribution; and the tail of the binomial one.

The names are those of `scipy.special`, which computes the same; importing it takes longer than answering a question.
All are right to 1e-10 of the result, most to 1e-13.

>>> float(ndtri(0.975).round(12)), float(gammaincinv(1.0, 0.5).round(12)), bdtrc(0, 2, 0.5)
(1.95996398454, 0.69314718056, 0.75)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from sketches.arrays import Floats

# Wichura's algorithm AS 241 (Applied Statistics 37, 1988): from the highest power down, above and below the fraction.
_CENTRE: Final = (
    (
        2.5090809287301226727e3,
        3.3430575583588128105e4,
        6.7265770927008700853e4,
        4.5921953931549871457e4,
        1.3731693765509461125e4,
        1.9715909503065514427e3,
        1.3314166789178437745e2,
        3.3871328727963666080e0,
    ),
    (
        5.2264952788528545610e3,
        2.8729085735721942674e4,
        3.9307895800092710610e4,
        2.1213794301586595867e4,
        5.3941960214247511077e3,
        6.8718700749205790830e2,
        4.2313330701600911252e1,
        1.0,
    ),
)
_TAIL: Final = (
    (
        7.74545014278341407640e-4,
        2.27238449892691845833e-2,
        2.41780725177450611770e-1,
        1.27045825245236838258e0,
        3.64784832476320460504e0,
        5.76949722146069140550e0,
        4.63033784615654529590e0,
        1.42343711074968357734e0,
    ),
    (
        1.05075007164441684324e-9,
        5.47593808499534494600e-4,
        1.51986665636164571966e-2,
        1.48103976427480074590e-1,
        6.89767334985100004550e-1,
        1.67638483018380384940e0,
        2.05319162663775882187e0,
        1.0,
    ),
)
_FAR_TAIL: Final = (
    (
        2.01033439929228813265e-7,
        2.71155556874348757815e-5,
        1.24266094738807843860e-3,
        2.65321895265761230930e-2,
        2.96560571828504891230e-1,
        1.78482653991729133580e0,
        5.46378491116411436990e0,
        6.65790464350110377720e0,
    ),
    (
        2.04426310338993978564e-15,
        1.42151175831644588870e-7,
        1.84631831751005468180e-5,
        7.86869131145613259100e-4,
        1.48753612908506148525e-2,
        1.36929880922735805310e-1,
        5.99832206555887937690e-1,
        1.0,
    ),
)
_HALF_CENTRE: Final = 0.425
_FAR: Final = 5.0  # √(-ln p) from which the far tail begins

_LARGE: Final = 60.0  # shapes above it are integrated: series and fractions would become long
_NODES: Final = 40
_NEWTON_STEPS: Final = 5  # each doubles the correct digits of a node, and three are there at the start
_NEGLIGIBLE: Final = 45.0  # e^-45 of what it begins with, a density adds nothing to an integral
_DIGITS: Final = 1e-16
_MOST_TERMS: Final = 2_000
_MOST_STEPS: Final = 100
_LONGEST_STEP: Final = 2.0  # in ln x
_SMALL_STEP: Final = 1e-5  # the error after a step is about its third power
_NEAR_ZERO: Final = 1.5  # up to which x a series gives the upper tail of shapes below 1
# ln Γ(1 + a) of a tiny a by the powers of a, from the fifth down: -ζ(5)/5, ζ(4)/4, -ζ(3)/3, ζ(2)/2, Euler's constant.
_NEAR_ONE: Final = (
    -0.20738555102867399,
    0.27058080842778455,
    -0.40068563438653143,
    0.82246703342411322,
    -0.57721566490153286,
)
_TINY: Final = 1e-3
_STIRLING: Final = (
    -1.0 / 1680.0,
    1.0 / 1260.0,
    -1.0 / 360.0,
    1.0 / 12.0,
)  # by the odd powers of 1/a, from the 7th down

Tail = Callable[[Floats, Floats, Floats, bool], tuple[Floats, Floats]]


def ndtri(share: ArrayLike) -> Floats:
    """What a standard normal number is below with this probability; infinite at 0 and 1, NaN outside."""
    p = np.asarray(share, np.float64)
    q = p - 0.5
    with np.errstate(all="ignore"):
        square = 0.180625 - q * q
        found = q * _fraction(_CENTRE, square)
        if (outside := np.abs(q) > _HALF_CENTRE).any():
            root = np.sqrt(-np.log(np.minimum(p, 1.0 - p)))
            near, far = _fraction(_TAIL, root - 1.6), _fraction(_FAR_TAIL, root - _FAR)
            tail = np.where(np.isinf(root), np.inf, np.where(root <= _FAR, near, far))
            found = np.where(outside, np.copysign(tail, q), found)
    return np.asarray(found)


def _fraction(coefficients: tuple[Sequence[float], Sequence[float]], x: Floats) -> Floats:
    above, below = coefficients
    return _polynomial(above, x) / _polynomial(below, x)


def _polynomial(coefficients: Sequence[float], x: Floats) -> Floats:
    total = np.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        total = total * x + coefficient
    return total


def bdtrc(successes: int, trials: int, chance: float) -> float:
    """The probability of more than so many successes."""
    some = range(successes + 1, trials + 1)
    return math.fsum(math.comb(trials, k) * chance**k * (1.0 - chance) ** (trials - k) for k in some)


def gammaincinv(shape: ArrayLike, share: ArrayLike) -> Floats:
    """What a gamma-distributed number of this shape is below with this probability."""
    return _gamma_quantile(shape, share, upper=False)


def gammainccinv(shape: ArrayLike, share: ArrayLike) -> Floats:
    """What a gamma-distributed number of this shape is above with this probability."""
    return _gamma_quantile(shape, share, upper=True)


def _gamma_quantile(shape: ArrayLike, share: ArrayLike, *, upper: bool) -> Floats:
    """Solved for whichever tail is the smaller one: its logarithm is nearly straight."""
    a, p = np.broadcast_arrays(np.asarray(shape, np.float64), np.asarray(share, np.float64))
    found = np.select([p == float(upper), p == float(not upper)], [0.0, np.inf], np.nan)
    large, few = a > _LARGE, p <= 0.5
    for side in (False, True):
        asked = (a > 0.0) & (p > 0.0) & (p < 1.0) & (few if side is upper else ~few)
        tails = p if side is upper else 1.0 - p
        for chosen, tail in ((asked & ~large, _tail_by_terms), (asked & large, _tail_by_integral)):
            if chosen.any():
                with np.errstate(all="ignore"):
                    found[chosen] = _solve(tail, a[chosen], np.log(tails[chosen]), side)
    return found


def _solve(tail: Tail, a: Floats, log_share: Floats, upper: bool) -> Floats:
    """Halley's method in ln x, between bounds that close in; where a step leaves them, their middle is next."""
    log_gamma = _log_gamma(a) if tail is _tail_by_terms else a
    log_x = _guess(a, log_gamma, log_share, upper)
    low, high = np.full_like(a, -np.inf), np.full_like(a, np.inf)
    left = np.arange(len(a))
    for _ in range(_MOST_STEPS):
        at, shapes = log_x[left], a[left]
        found, rate = tail(shapes, log_gamma[left], at, upper)
        miss = found - log_share[left]
        beyond = (miss > 0.0) ^ upper
        high[left] = np.where(beyond, at, high[left])
        low[left] = np.where(beyond, low[left], at)
        newton = (miss if upper else -miss) / rate
        bend = shapes - np.exp(at) + (rate if upper else -rate)  # the second derivative over the first
        step = newton / np.maximum(1.0 + 0.5 * newton * bend, 0.5)
        stepped = at + np.clip(step, -_LONGEST_STEP, _LONGEST_STEP)
        inside = (stepped >= low[left]) & (stepped <= high[left])
        log_x[left] = np.where(inside, stepped, 0.5 * (low[left] + high[left]))
        left = left[np.abs(log_x[left] - at) > _SMALL_STEP]
        if not len(left):
            break
    return np.asarray(np.exp(log_x))


def _guess(a: Floats, log_gamma: Floats, log_share: Floats, upper: bool) -> Floats:
    """ln x by the cube formula of Wilson and Hilferty; by what holds near 0 or far out where that is better."""
    normal = ndtri(np.exp(log_share))
    ninth = 1.0 / (9.0 * a)
    root = 1.0 - ninth + (-normal if upper else normal) * np.sqrt(ninth)
    cube = np.log(a) + 3.0 * np.log(np.maximum(root, 0.1))
    if (a > _LARGE).all():
        return cube
    if not upper:
        return np.where(root < 0.4, (log_share + log_gamma) / a, cube)
    near = (np.log1p(-np.exp(log_share)) + log_gamma) / a
    distance = np.maximum(np.log(a) - log_share - log_gamma, 1.0)
    far = np.log(np.maximum(distance + (a - 1.0) * np.log(distance), 0.5))
    return np.where(a < 1.0, np.where(near < -1.0, near, far), cube)


def _log_gamma(a: Floats) -> Floats:
    """ln Γ(1 + a)."""
    plain = np.array([math.lgamma(1.0 + one) for one in a.tolist()])
    return np.where(a < _TINY, _polynomial((*_NEAR_ONE, 0.0), a), plain)


def _tail_by_terms(a: Floats, log_gamma: Floats, log_x: Floats, upper: bool) -> tuple[Floats, Floats]:
    """The logarithm of a tail, and x·density over it; `log_gamma` is ln Γ(1 + a).

    A power series serves up to about the mean, a continued fraction beyond.
    """
    x = np.exp(log_x)
    power = a * log_x - log_gamma  # ln of x^a / Γ(1 + a)
    density = power - x + np.log(a)
    found = np.empty_like(x)
    beyond = x >= np.maximum(a + 1.0, _NEAR_ZERO)
    if beyond.any():
        above = density[beyond] + np.log(_continued_fraction(a[beyond], x[beyond]))
        found[beyond] = above if upper else np.log(-np.expm1(above))
    near = ~beyond & (a < 1.0) & upper
    if near.any():
        found[near] = np.log(_upper_near_zero(a[near], x[near], power[near]))
    if (rest := ~(beyond | near)).any():
        below = power[rest] - x[rest] + np.log(_series(a[rest], x[rest]))
        found[rest] = np.log(-np.expm1(below)) if upper else below
    return found, np.exp(density - found)


def _series(a: Floats, x: Floats) -> Floats:
    """Σ xⁿ / ((a + 1)···(a + n)), from n = 0."""
    total, term, divisor = np.ones_like(x), np.ones_like(x), a.copy()
    for number in range(_MOST_TERMS):
        divisor += 1.0
        term *= x
        term /= divisor
        total += term
        if number % 8 == 7 and not (term > _DIGITS * total).any():
            break
    return total


def _upper_near_zero(a: Floats, x: Floats, power: Floats) -> Floats:
    """1 - P written so that it keeps its digits where P is next to 1, as it is for small shapes (Gautschi 1979)."""
    total, term = np.zeros_like(x), -np.ones_like(x)
    for number in range(1, 40):
        term = -term * x / number
        total += term / (a + number)
    return np.asarray(-np.expm1(power) + np.exp(power) * a * total)


def _continued_fraction(a: Floats, x: Floats) -> Floats:
    """The upper tail over x·density, by Lentz's method."""
    bottom = x + 1.0 - a
    upward = np.full_like(x, 1e300)
    downward = 1.0 / bottom
    total = downward.copy()
    for number in range(1, _MOST_TERMS):
        factor = number * (a - number)
        bottom += 2.0
        downward = 1.0 / (factor * downward + bottom)
        upward = bottom + factor / upward
        change = upward * downward
        total *= change
        if number % 4 == 0 and not (np.abs(change - 1.0) > 4.0 * _DIGITS).any():
            break
    return total


def _tail_by_integral(a: Floats, _: Floats, log_x: Floats, upper: bool) -> tuple[Floats, Floats]:
    """The same for large shapes: the density from x outward in the variable ln t, by Gauss and Legendre."""
    ratio = log_x - np.log(a)
    square = 1.0 / np.square(a)
    density = a * (ratio - np.expm1(ratio)) + 0.5 * np.log(a / (2.0 * np.pi)) - _polynomial(_STIRLING, square) / a
    x = np.exp(log_x)
    slope = x - a if upper else a - x
    reach = 2.0 * _NEGLIGIBLE / (slope + np.sqrt(np.square(slope) + 2.0 * _NEGLIGIBLE * x))
    reach *= 1.0 if upper else 1.25  # downward the density falls more slowly than a normal one
    nodes, weights = _gauss_legendre()
    steps = 0.5 * reach[:, None] * (1.0 + nodes)
    signed = steps if upper else -steps
    over = 0.5 * reach * (np.exp(a[:, None] * signed - x[:, None] * np.expm1(signed)) @ weights)
    return density + np.log(over), 1.0 / over


@cache
def _gauss_legendre() -> tuple[Floats, Floats]:
    """Nodes and weights, by Newton's method: numpy's own would be imported for them alone, and solves a matrix."""
    nodes = np.cos(np.pi * (np.arange(_NODES, 0, -1) - 0.25) / (_NODES + 0.5))
    for _ in range(_NEWTON_STEPS):
        before, value = np.ones_like(nodes), nodes
        for degree in range(2, _NODES + 1):
            before, value = value, ((2 * degree - 1) * nodes * value - (degree - 1) * before) / degree
        slope = _NODES * (nodes * value - before) / (np.square(nodes) - 1.0)
        nodes = nodes - value / slope
    return nodes, 2.0 / ((1.0 - np.square(nodes)) * np.square(slope))
