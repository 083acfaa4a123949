"""Our special functions beside scipy's, over all that intervals may ask, and beside sums that anyone can check."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.special
from numpy.typing import NDArray

from sketches import special_functions
from sketches.special_functions import bdtrc, gammainccinv, gammaincinv, ndtri

RNG = np.random.default_rng(17)
SHARES = {
    "small": 10.0 ** RNG.uniform(-12, 0, 4_000),
    "tiny": 10.0 ** RNG.uniform(-300, -12, 4_000),
    "any": RNG.uniform(0.0, 1.0, 4_000),
    "near one": 1.0 - 10.0 ** RNG.uniform(-12, 0, 4_000),
}
# scipy itself errs by 2e-9 for shapes near a million: what it says of the tails of these misses them by 5e-6.
SHAPES = 10.0 ** RNG.uniform(-6, 5, 4_000)


@pytest.mark.parametrize("shares", SHARES)
def test_normal_quantiles_are_scipys(shares: str) -> None:
    """All digits but the last, down to tails of 1e-300."""
    p = SHARES[shares]
    np.testing.assert_allclose(ndtri(p), scipy.special.ndtri(p), rtol=1e-14, atol=1e-16)


def test_normal_quantiles_at_the_ends() -> None:
    """0 and 1 are infinitely far, what is no probability has no quantile, and a number gives a number."""
    assert ndtri([0.0, 0.5, 1.0]).tolist() == [-math.inf, 0.0, math.inf]
    assert np.isnan(ndtri([-0.1, 1.1, math.nan])).all()
    assert float(ndtri(0.3)) == -float(ndtri(0.7))


@pytest.mark.parametrize("shares", SHARES)
@pytest.mark.parametrize("name", ["gammaincinv", "gammainccinv"])
def test_gamma_quantiles_are_scipys(name: str, shares: str) -> None:
    """Ten digits at the least, for shapes from 1e-6 to 1e5 and tails on both sides; also where both are underflows."""
    found, known = (getattr(module, name)(SHAPES, SHARES[shares]) for module in (special_functions, scipy.special))
    np.testing.assert_allclose(found, known, rtol=1e-10, atol=1e-300)


@pytest.mark.parametrize("deviations", [-7.0, -4.0, -0.5, 0.0, 0.5, 4.0, 7.0])
@pytest.mark.parametrize("shape", [3e5, 1e6, 1e9])
def test_gamma_quantiles_of_large_shapes_are_what_the_density_adds_up_to(shape: float, deviations: float) -> None:
    """The density, added up with 64 binary digits in many small steps, gives back the probability asked for."""
    x = shape + deviations * math.sqrt(shape)
    upper = deviations > 0
    share = _added_up(shape, x, upper)
    found = (gammainccinv if upper else gammaincinv)(shape, share)
    assert abs(float(found) / x - 1.0) < 1e-12


def _added_up(shape: float, x: float, upper: bool) -> float:
    """Simpson's rule over the density of t = x·exp(±s), with Stirling's formula for Γ."""
    a, end = np.longdouble(shape), np.longdouble(40.0 / math.sqrt(shape))
    s = np.linspace(np.longdouble(0.0), end, 40_001)
    log_ratio = np.log(np.longdouble(x) / a) + (s if upper else -s)
    scale = np.sqrt(a / (2.0 * np.arccos(np.longdouble(-1.0)))) / np.exp(1.0 / (12.0 * a) - 1.0 / (360.0 * a**3))
    density: NDArray[np.longdouble] = np.exp(a * (log_ratio - np.expm1(log_ratio)))
    weights = np.where(np.arange(len(s)) % 2 == 1, 4.0, 2.0)
    weights[[0, -1]] = 1.0
    return float((density * weights).sum() * end / (len(s) - 1) / 3.0 * scale)


def test_gamma_quantiles_at_the_ends() -> None:
    """Below 0 lies nothing and everything is below infinity; what is no probability or shape has no quantile."""
    assert gammaincinv(2.0, [0.0, 1.0]).tolist() == [0.0, math.inf]
    assert gammainccinv(2.0, [0.0, 1.0]).tolist() == [math.inf, 0.0]
    assert np.isnan(gammaincinv([2.0, 2.0, -1.0, math.nan], [1.5, math.nan, 0.5, 0.5])).all()
    assert gammaincinv(np.ones((2, 1)), np.full(3, 0.5)).shape == (2, 3)
    assert gammaincinv(np.empty(0), 0.5).shape == (0,)


def test_exponential_quantiles_are_logarithms() -> None:
    """The gamma distribution of shape 1 has quantiles that need no table."""
    np.testing.assert_allclose(gammainccinv(1.0, SHARES["tiny"]), -np.log(SHARES["tiny"]), rtol=1e-13)
    np.testing.assert_allclose(gammaincinv(1.0, SHARES["any"]), -np.log1p(-SHARES["any"]), rtol=1e-12)


@pytest.mark.parametrize("trials", [1, 3, 9, 41])
def test_binomial_tails_are_scipys(trials: int) -> None:
    """The probability of more successes than each number."""
    for successes in range(trials):
        found, known = bdtrc(successes, trials, 0.05), scipy.special.bdtrc(successes, trials, 0.05)
        assert math.isclose(found, known, rel_tol=1e-12)
