"""Variance and standard deviation of every group at once: around the mean of each group (see `answers.spread`)."""

from __future__ import annotations

from dataclasses import replace

from sketches.arrays import Flags, Floats
from sketches.sampling.answers.spread import around_the_mean, of_range, rooted, squared
from sketches.sampling.estimation.inquiry import Estimates
from sketches.sampling.estimation.ratios import mean_of_sums
from sketches.sampling.groups.grouped_inquiry import GroupedInquiry


def grouped_variance(inquiry: GroupedInquiry) -> Estimates:
    """NaN where nothing counts, and what the values allow as its limits."""
    return squared(*_spread(inquiry))


def grouped_stddev(inquiry: GroupedInquiry) -> Estimates:
    return rooted(*_spread(inquiry))


def _spread(inquiry: GroupedInquiry) -> tuple[Estimates, float]:
    asked, scale = of_range(inquiry)
    codes = asked.sample.codes
    assert codes is not None

    def mean_of(values: Floats, confidence: float) -> tuple[Estimates, Flags]:
        one = replace(asked, sample=replace(asked.sample, values=values), confidence=confidence)
        sums = one.sums(one.mean_coefficients)
        return mean_of_sums(one, sums), sums.total(2, 3, 1, one.unseen_unit).exact

    return around_the_mean(mean_of, asked.sample.values, codes, asked.confidence), scale
