"""Limits of sums, shares and ratios against what is known of them."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import binom, chi2, poisson

from sketches.sampling.estimation.intervals import Total, share_bounds


def total(sampled: float, variance: float, certain: float = 0.0, unseen: float = 0.0) -> Total:
    columns = (certain, sampled, variance, unseen, unseen**2)
    return Total(*(np.array([number]) for number in columns))


@pytest.mark.parametrize("count", [0, 1, 2, 5, 30, 59, 61, 500])
def test_equal_contributions_give_the_exact_poisson_interval(count: int) -> None:
    """Sampled units of one size are a Poisson count, whose exact limits are quantiles of chi-square."""
    size = 256.0
    lower, upper = total(count * size, count * size**2, unseen=size).bounds(0.95)
    exact = (chi2.ppf(0.025, 2 * count) / 2 if count else 0.0, chi2.ppf(0.975, 2 * count + 2) / 2)
    assert lower[0] / size == pytest.approx(exact[0], rel=2e-4)
    assert upper[0] / size == pytest.approx(exact[1], rel=2e-4)


def test_what_is_certain_has_no_width() -> None:
    """Without sampled or unseen events the interval is the sum itself."""
    lower, upper = total(0.0, 0.0, certain=41.5).bounds(0.99)
    assert lower[0] == upper[0] == 41.5


def test_what_is_certain_shifts_the_interval() -> None:
    """A certain part moves both limits by its own amount."""
    plain = total(640.0, 6400.0, unseen=10.0).bounds(0.9)
    moved = total(640.0, 6400.0, certain=1000.0, unseen=10.0).bounds(0.9)
    assert moved[0][0] - plain[0][0] == pytest.approx(1000.0)
    assert moved[1][0] - plain[1][0] == pytest.approx(1000.0)


def test_more_confidence_is_never_narrower() -> None:
    """Intervals nest as the confidence rises."""
    one = total(300.0, 9000.0, unseen=64.0)
    limits = [one.bounds(confidence) for confidence in (0.5, 0.8, 0.95, 0.999)]
    assert all(outer[0] <= inner[0] and inner[1] <= outer[1] for inner, outer in pairwise(limits))


@pytest.mark.parametrize("mean", [0.5, 2.0, 6.0, 20.0])
def test_few_sampled_units_are_covered(mean: float) -> None:
    """Summed over all counts a Poisson law can give, the interval covers its mean with at least its confidence."""
    counts = np.arange(200, dtype=np.float64)
    one = np.ones_like(counts)
    lower, upper = Total(0.0 * one, counts, counts, one, one).bounds(0.95)
    covered = poisson.pmf(counts, mean)[(lower <= mean) & (mean <= upper)].sum()
    assert covered >= 0.95


@pytest.mark.parametrize(("whole", "share"), [(40, 0.02), (40, 0.5), (300, 0.01), (300, 0.97)])
def test_shares_cover_over_all_outcomes(whole: int, share: float) -> None:
    """Summed over all outcomes of two independent Poisson counts, the share's interval covers at its confidence."""
    part = np.arange(0, 400, dtype=np.float64)
    rest = part[:, None]
    chance = poisson.pmf(part, whole * share) * poisson.pmf(rest, whole * (1 - share))
    one = np.ones_like(chance)
    zero = 0.0 * one
    lower, upper = share_bounds(
        Total(zero, part * one, part * one, one, one), Total(zero, rest * one, rest * one, one, one), 0.95
    )
    assert chance[(lower <= share) & (share <= upper)].sum() >= 0.95


def test_shares_lie_between_nothing_and_everything() -> None:
    """No sampled match gives a lower limit of 0 and an upper one below 1; all matching gives the reverse."""
    none = share_bounds(total(0.0, 0.0, unseen=4.0), total(400.0, 1600.0, unseen=4.0), 0.95)
    every = share_bounds(total(400.0, 1600.0, unseen=4.0), total(0.0, 0.0, unseen=4.0), 0.95)
    assert none[0][0] == 0.0
    assert 0.0 < none[1][0] < 0.1
    assert every[1][0] == pytest.approx(1.0)
    assert 0.9 < every[0][0] < 1.0


@pytest.mark.parametrize("kept", [0.5, 0.25])
def test_half_sampled_populations_are_covered(kept: float) -> None:
    """With π = 1/2 the count is binomial, less spread than Poisson; the interval uses that and still covers."""
    population = 60
    counts = np.arange(population + 1, dtype=np.float64)
    one = np.ones_like(counts)
    sampled, variance = counts / kept, counts / kept**2 * (1 - kept)
    lower, upper = Total(0 * one, sampled, variance, one / kept, one / kept**2 * (1 - kept)).bounds(0.95)
    covered = binom.pmf(counts, population, kept)[(lower <= population) & (population <= upper)].sum()
    assert covered >= 0.95


def test_a_share_of_a_heavy_certain_part_keeps_the_width_of_the_light_sampled_one() -> None:
    """Beside 10^12 that are certain, what a few sampled units leave open is not rounded away."""
    part = total(2_000.0, 40_000.0, certain=1e12, unseen=20.0)
    rest = total(5_000.0, 100_000.0, certain=3e12, unseen=20.0)
    lower, upper = share_bounds(part, rest, 0.95)
    share = part.value[0] / (part.value[0] + rest.value[0])
    spread = 1.96 * np.sqrt(40_000.0 * 0.75**2 + 100_000.0 * 0.25**2) / (part.value[0] + rest.value[0])
    assert share - lower[0] == pytest.approx(spread, rel=0.1)
    assert upper[0] - share == pytest.approx(spread, rel=0.2)


@pytest.mark.parametrize("least", [5e-324, 3e-310, 1e-200, 1e-160])
def test_a_share_beside_next_to_nothing_is_all_of_it(least: float) -> None:
    """However little the rest is and may be, it does not put the share in doubt, and there is no warning."""
    most = total(1e-4, 0.0), total(least, 0.0, unseen=7.0 * least)
    for (part, rest), expected in ((most, 1.0), (most[::-1], 0.0)):
        lower, upper = share_bounds(part, rest, 0.95)
        assert lower[0] == pytest.approx(expected, abs=1e-100)
        assert upper[0] == pytest.approx(expected, abs=1e-100)


@pytest.mark.parametrize("size", [1e-170, 1e-300])
def test_shares_whose_squares_are_too_small_for_floats_keep_their_limits(size: float) -> None:
    """What may be unseen of a faint part is not lost because its square is 0."""
    faint = Total(np.array([0.0]), np.array([size]), np.array([0.0]), np.array([size]), np.array([0.0]))
    assert share_bounds(faint, total(0.0, 0.0, certain=1.0), 0.95)[1][0] / size == pytest.approx(2.0)


def test_a_share_whose_inverse_is_beyond_all_floats_is_none() -> None:
    """It is no error either."""
    assert share_bounds(total(5e-324, 0.0), total(1.0, 0.5, unseen=0.1), 0.95)[1] == 0.0


def test_a_part_whose_variance_vanishes_is_not_known_to_be_there() -> None:
    """Its square is too small for a float, which does not make its estimate certain."""
    lower, _ = total(1e-175, 0.0, unseen=1e-30).bounds(0.95)
    assert lower[0] == 0.0
