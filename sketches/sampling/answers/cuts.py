"""Where a threshold that is itself an aggregate cuts the values of a sample.

A threshold is a float, for its interval is computed with. Whole numbers from 2^53 on have more digits than floats, and
one float stands for many of them. There rows are chosen not by their values but by the places of these among all
values that the sample holds: a quantile is the value of a row, whose place is known.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from sketches.arrays import Column, Floats, Limits, apart, places
from sketches.events import Kind
from sketches.question import Question
from sketches.sampling.answers.above_quantile import Taus
from sketches.sampling.answers.quantiles import quantiles
from sketches.sampling.estimation.inquiry import Inquiry
from sketches.sampling.estimation.poisson_sample import PoissonSample
from sketches.sampling.estimation.ratios import mean_of_sums
from sketches.threshold import Threshold

_WHOLE: Final = 2.0**53


class Cuts(NamedTuple):
    """A threshold of each as-of time, as numbers and as what the rows of a sample are compared with.

    `order` is what each row has to compare: its value, or the place of its value.
    """

    taus: Taus
    ends: Taus
    order: Floats | None  # None: the value itself

    def at(self, time: int) -> Cuts:
        taus, ends = (Taus(*(end[time : time + 1] for end in one)) for one in (self.taus, self.ends))
        return Cuts(taus, ends, self.order)

    def compared(self, sample: PoissonSample) -> Floats:
        """What the ends are compared with, for each row."""
        return sample.values.astype(np.float64) if self.order is None else self.order


def cuts_of(inquiry: Inquiry, threshold: Threshold) -> Cuts:
    """τ over all events of the chosen sources, before any predicate."""
    sample = inquiry.everything if inquiry.everything is not None else inquiry.sample
    if sample.kind is not Kind.INTEGER or max(abs(sample.least_value), abs(sample.greatest_value)) < _WHOLE:
        taus = taus_of(_aggregate(inquiry, sample, threshold), threshold.factor)
        return Cuts(taus, taus, None)
    held, order = inquiry.sample.groups[0], inquiry.sample.ranked.values.astype(np.float64)
    if threshold.phi is None or threshold.factor != 1.0:
        value, lower, upper = _aggregate(inquiry, sample, threshold)
        taus = taus_of((value, *apart(lower, upper)), threshold.factor)
        return Cuts(taus, Taus(*(places(held, end).astype(np.float64) for end in taus)), order)
    found, values = _aggregate(inquiry, sample.ranked, threshold), sample.groups[0]
    value, lower, upper = _read_off(found, values, sample.least_value, sample.greatest_value)
    ends = taus_of(_read_off(found, places(held, values), 0.0, float(len(held))))
    return Cuts(taus_of((value, *apart(lower, upper))), ends, order)


def _aggregate(inquiry: Inquiry, sample: PoissonSample, threshold: Threshold) -> Limits:
    """The quantile or the mean of all values, with its limits; NaN where nothing counts."""
    everything = replace(inquiry, sample=sample, everything=None, question=Question("mean", inquiry.decay, of="value"))
    if threshold.phi is None:
        mean = mean_of_sums(everything, everything.sums(everything.mean_coefficients))
        return mean.value, mean.lower, mean.upper
    unseen = everything.unseen_unit
    return quantiles(sample, inquiry.decay, inquiry.as_of, threshold.phi, inquiry.confidence, unseen)[:3]


def _read_off(found: Limits, numbers: Column, least: float, greatest: float) -> Limits:
    """What stands at places among numbers, with the least before the first of them and the greatest behind the last."""
    every = np.concatenate([[least], numbers.astype(np.float64), [greatest]])
    value, lower, upper = (
        np.where(np.isnan(place), np.nan, every[np.where(np.isnan(place), 0.0, place + 1.0).astype(np.intp)])
        for place in found
    )
    return value, lower, upper


def taus_of(found: Limits, factor: float = 1.0) -> Taus:
    value, lower, upper = found
    nothing = np.isnan(value)
    ends = (np.where(nothing, np.inf, factor * number) for number in (lower, value, upper))
    return Taus(*(np.where(np.isnan(end), np.inf, end) for end in ends))
