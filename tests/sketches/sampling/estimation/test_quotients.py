"""Limits of means from the deviations of single events, against streams whose means are known."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest
from scipy.stats import binom

from sketches.arrays import Floats
from sketches.sampling.estimation.intervals import Total
from sketches.sampling.estimation.quotients import Quotient


def sampled(values: Floats, kept: np.ndarray, probability: float, greatest: float) -> Quotient:
    """The mean of the values from which each was kept with one probability."""
    x = np.full(int(kept.sum()), 1.0 / probability)
    y = values[kept] * x
    excluded = 1.0 - probability
    unseen = np.array([1.0 / probability])

    def total(numbers: Floats, largest: float) -> Total:
        variance = np.array([np.square(numbers).sum() * excluded])
        return Total(
            np.zeros(1), np.array([numbers.sum()]), variance, unseen * largest, np.square(unseen * largest) * excluded
        )

    covariance = np.array([(x * y).sum() * excluded])
    return Quotient(total(y, greatest), total(x, 1.0), covariance, np.zeros(1), np.array([greatest]))


def missed(values: Floats, probability: float, seeds: int) -> tuple[int, float]:
    """How often the mean lies outside its limits, and how wide they are over 1.96 standard deviations."""
    rng = np.random.default_rng(3)
    kept = [rng.random(len(values)) < probability for _ in range(seeds)]
    quotient = side_by_side([sampled(values, one, probability, float(values.max())) for one in kept if one.any()])
    lower, upper = quotient.bounds(0.95)
    misses = int(np.count_nonzero((values.mean() < lower) | (values.mean() > upper)))
    return misses, float(np.mean((upper - lower) / 2.0) / (1.96 * np.std(quotient.value)))


def side_by_side(quotients: list[Quotient]) -> Quotient:
    """All of them as one, whose limits are found at once: those of each alone, as a test below shows."""

    def totals(which: list[Total]) -> Total:
        return Total(
            *(np.concatenate([np.atleast_1d(getattr(one, part.name)) for one in which]) for part in fields(Total))
        )

    tops, bottoms = totals([one.top for one in quotients]), totals([one.bottom for one in quotients])
    rest = (np.concatenate([getattr(one, name) for one in quotients]) for name in ("covariance", "least", "greatest"))
    return Quotient(tops, bottoms, *rest)


def test_limits_found_at_once_are_those_of_each_alone() -> None:
    """Of 8 sampled events and of 1,000, beside each other."""
    rng = np.random.default_rng(2)
    values = rng.exponential(1.0, 10_000)
    probabilities = (8e-4, 3e-3, 0.1) * 4
    kept = [rng.random(len(values)) < probability for probability in probabilities]
    alone = [sampled(values, one, p, float(values.max())) for one, p in zip(kept, probabilities, strict=True)]
    together = side_by_side(alone).bounds(0.95)
    each = np.array([one.bounds(0.95) for one in alone])[:, :, 0].T
    assert np.allclose(together, each, rtol=1e-12, atol=0.0)


@pytest.mark.parametrize("size", [8, 30, 120, 1000])
@pytest.mark.parametrize("shape", ["uniform", "exponential", "two values", "one outlier"])
def test_means_are_covered_whatever_the_values_are(shape: str, size: int) -> None:
    """With 8 sampled events or with 1,000, of even or of very uneven values, 95% of the intervals hold the mean."""
    rng = np.random.default_rng(1)
    values = {
        "uniform": rng.random(10_000),
        "exponential": rng.exponential(1.0, 10_000),
        "two values": (rng.random(10_000) < 0.02).astype(np.float64) + 0.5,
        "one outlier": np.append(rng.random(9_999), 5_000.0),
    }[shape]
    misses, ratio = missed(values, size / len(values), 300)
    assert misses <= binom.ppf(1.0 - 1e-3, 300, 0.05)
    if size >= 30 and shape == "uniform":
        assert ratio < 1.3
    if size >= 1_000 and shape == "exponential":
        assert ratio < 1.3


def test_equal_values_have_a_mean_without_error() -> None:
    """Where all events weigh the same and none can weigh anything else, nothing is left to chance."""
    kept = np.arange(100) % 7 == 0
    quotient = sampled(np.full(100, 3.0), kept, 1 / 7, 3.0)
    quotient = Quotient(quotient.top, quotient.bottom, quotient.covariance, np.array([3.0]), np.array([3.0]))
    lower, upper = quotient.bounds(0.95)
    assert lower[0] == pytest.approx(3.0)
    assert upper[0] == pytest.approx(3.0)


def test_nothing_sampled_leaves_every_mean_possible() -> None:
    """Without a sampled event the limits are the least and the greatest that an event can be."""
    quotient = sampled(np.ones(10), np.zeros(10, bool), 0.1, 4.0)
    lower, upper = quotient.bounds(0.95)
    assert (lower[0], upper[0]) == (0.0, 4.0)
