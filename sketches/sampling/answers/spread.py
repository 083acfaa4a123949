"""Variance and standard deviation of the values or of the weights.

The variance is the mean of the squared distances from the mean. Around the estimated mean it is a mean like any other,
with the interval of one; around the true mean it is less by the square of how far the two are apart, which the interval
of the mean bounds. A tenth of the error probability goes to that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final, TypeVar

import numpy as np

from sketches.arrays import Flags, Floats, Rows
from sketches.events import Kind
from sketches.question import Question
from sketches.sampling.estimation.counting_rows import CountingRows
from sketches.sampling.estimation.horvitz_thompson import Sums
from sketches.sampling.estimation.inquiry import Estimates, Inquiry
from sketches.sampling.estimation.poisson_sample import PoissonSample
from sketches.sampling.estimation.ratios import mean_of_sums

_FOR_THE_MEAN: Final = 0.1  # of the error probability
_ROUNDING: Final = 1e-12
Asked = TypeVar("Asked", bound=Inquiry)


def variance(inquiry: Inquiry) -> Estimates:
    """At all as-of times; NaN where nothing counts, and what the values allow as its limits."""
    return squared(*_spread(inquiry))


def stddev(inquiry: Inquiry) -> Estimates:
    return rooted(*_spread(inquiry))


def squared(found: Estimates, scale: float) -> Estimates:
    """The variance of values in a range of this length, from that in units of its square."""
    with np.errstate(over="ignore"):
        return _times(found, scale**2)


def rooted(found: Estimates, scale: float) -> Estimates:
    """The standard deviation, likewise."""
    roots = Estimates(np.sqrt(found.value), np.sqrt(found.lower), np.sqrt(found.upper), found.used)
    return _times(roots, scale)


def _times(found: Estimates, factor: float | Floats) -> Estimates:
    return Estimates(found.value * factor, found.lower * factor, found.upper * factor, found.used)


def _spread(inquiry: Inquiry) -> tuple[Estimates, float]:
    """The variance in units of the square of the range of all values, and that range."""
    asked, scale = of_range(inquiry)
    return Estimates.joined([_around_the_mean(some) for some in asked.in_parts()]), scale


def of_range(inquiry: Asked) -> tuple[Asked, float]:
    """The question for the mean of what is asked of in units of the range of all values, and that range."""
    sample = _measured(inquiry)
    base = sample.least_value
    scale = (sample.greatest_value - base) or 1.0
    if not np.isfinite(scale):
        base, scale = 0.0, 1.0
    numbers = sample.values.astype(np.float64) / scale - base / scale
    sample = replace(sample, values=numbers, kind=Kind.FLOAT, least_value=0.0, greatest_value=1.0)
    question = Question("mean", inquiry.decay, of="value", counting=inquiry.question.counting)
    return replace(inquiry, sample=sample, question=question, everything=None, unrestricted=None), scale


def _around_the_mean(inquiry: Inquiry) -> Estimates:
    """The variance of values between 0 and 1."""
    counting = CountingRows.of(inquiry.sample, inquiry)

    def mean_of(values: Floats, confidence: float) -> tuple[Estimates, Flags]:
        return _mean(replace(inquiry, confidence=confidence), counting, values)

    return around_the_mean(mean_of, inquiry.sample.values[counting.rows], counting.at, inquiry.confidence)


def around_the_mean(
    mean_of: Callable[[Floats, float], tuple[Estimates, Flags]], values: Floats, at: Rows, confidence: float
) -> Estimates:
    """The variance of values between 0 and 1 at each time, or of each group.

    `mean_of` gives the means of one number a row at a confidence, and whether they are exact; `at` is each row's time
    or group.
    """
    missed = 1.0 - confidence
    mean, _ = mean_of(values, 1.0 - _FOR_THE_MEAN * missed)
    there = np.isfinite(mean.value)
    middle = np.where(there, mean.value, 0.0)
    furthest = np.square(np.maximum(middle, 1.0 - middle))
    squared = np.square(values - middle[at]) / furthest[at]
    found, exact = mean_of(squared, 1.0 - (1.0 - _FOR_THE_MEAN) * missed)
    found = _times(found, furthest)
    off = np.square(np.maximum(mean.upper - middle, middle - mean.lower))
    lower = np.where(exact, found.value, np.maximum(found.lower - off, 0.0) * (1.0 - _ROUNDING))
    upper = np.where(exact, found.value, np.minimum(found.upper, 0.25) * (1.0 + _ROUNDING))
    lower = np.where(there, np.minimum(lower, found.value), 0.0)
    upper = np.where(there, np.maximum(upper, found.value), 0.25)
    return Estimates(np.where(there, found.value, np.nan), lower, upper, found.used)


def _mean(inquiry: Inquiry, counting: CountingRows, values: Floats) -> tuple[Estimates, Flags]:
    """The mean of these numbers of the rows that count, and whether it is exact: every event that counts was kept."""
    exclusion = inquiry.sample.exclusion_probabilities[counting.rows]
    masses = inquiry.sample.expanded_weights[counting.rows] * counting.factors
    certain = exclusion == 0.0
    linear = [masses * values * certain, masses * values * ~certain, masses * certain, masses * ~certain]
    spread = np.square(masses) * exclusion
    squared = [spread * np.square(values), spread, spread * values]
    sums = Sums(counting.sums(linear), counting.sums(squared), counting.used)
    return mean_of_sums(inquiry, sums), sums.total(2, 3, 1, inquiry.unseen_unit).exact


def _measured(inquiry: Inquiry) -> PoissonSample:
    """The sample with what is asked of as its values, and the weights by which events count in its mean."""
    sample = inquiry.sample
    if inquiry.question.of_value:
        return sample
    weights = sample.weights if not sample.counts_rows else sample.weights // sample.times_counted
    ends = float(sample.least_weight), float(sample.greatest_weight)
    return replace(
        sample.each_once, values=weights, kind=Kind.INTEGER, least_value=ends[0], greatest_value=ends[1], totals=None
    )
