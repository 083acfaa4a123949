"""The quantile of every group of rows at once.

Rows are in the order of groups and, within a group, of values. Cumulated masses over all of them, each group's divided
by its own, are searched for every group at once. The interval is that of the rank, inverted, as for a single quantile
(`sketches.sampling.answers.quantiles`).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from sketches.arrays import Flags, Floats, Rows, apart
from sketches.events import Kind
from sketches.sampling.answers.quantiles import first_of_both
from sketches.sampling.estimation.inquiry import Estimates
from sketches.sampling.estimation.intervals import Total, share_bounds
from sketches.sampling.groups.grouped_inquiry import GroupedInquiry

_ROUNDING: Final = 1e-12  # a cumulated share this close below φ has reached it, whatever was added up before it


def grouped_quantiles(inquiry: GroupedInquiry) -> Estimates:
    """The value at the question's share φ in every group; NaN where nothing counts."""
    sample, phi = inquiry.sample, inquiry.question.phi
    assert phi is not None
    sums = inquiry.sums(sample.weight_coefficients)
    whole = sums.total(0, 1, 0, inquiry.unseen_unit)
    there = whole.value > 0.0
    scale = np.where(there, whole.value, 1.0)
    bounds, values, cumulated = _cumulated(inquiry, scale)
    first, last = bounds[:-1], np.maximum(bounds[1:] - 1, bounds[:-1])
    padded = np.concatenate([np.zeros((3, 1)), cumulated], axis=1)  # what is cumulated before each row
    before = padded[:, first]
    mass = cumulated[0] + cumulated[1]
    goals = before[0] + before[1] + phi
    reached = np.minimum(np.searchsorted(mass, goals - _ROUNDING * (1.0 + goals)), last)
    value = np.where(there, _at(values, reached), np.nan)
    normal = Total(
        whole.certain / scale,
        whole.sampled / scale,
        whole.variance / scale**2,
        whole.unseen / scale,
        whole.unseen_variance / scale**2,
    )
    lower, upper = _limits(inquiry, normal, (first, last), (padded, before), values, phi)
    exact = whole.exact | (~there & (whole.unseen == 0.0))
    lower = np.where(exact, value, np.where(there, np.fmin(lower, value), sample.least_value))
    upper = np.where(exact, value, np.where(there, np.fmax(upper, value), sample.greatest_value))
    if sample.kind is Kind.INTEGER:
        lower, upper = apart(lower, upper)
    return Estimates(value, lower, upper, sums.used)


def _cumulated(inquiry: GroupedInquiry, scale: Floats) -> tuple[Rows, Floats, Floats]:
    """Where the rows of each group begin, their values in order, and the cumulated certain part, sampled part and
    variance, in units of the group's own mass."""
    sample = inquiry.sample
    order, decayed = sample.by_group_and_value, inquiry.factors[0]
    assert sample.codes is not None
    factors = (decayed.factors / scale[sample.codes])[order]
    columns = sample.coefficients_by_group * factors
    columns[2] *= factors
    return inquiry.bounds(), sample.values_by_group, np.cumsum(columns, axis=1)


def _at(values: Floats, places: Rows) -> Floats:
    return values[np.minimum(places, len(values) - 1)] if len(values) else np.full(len(places), np.nan)


def _limits(
    inquiry: GroupedInquiry,
    whole: Total,
    rows: tuple[Rows, Rows],
    sums: tuple[Floats, Floats],
    values: Floats,
    phi: float,
) -> tuple[Floats, Floats]:
    """The smallest and the largest value of each group whose share of the mass up to it may be φ."""
    sample, confidence = inquiry.sample, inquiry.confidence
    (first, last), (padded, before) = rows, sums
    unseen = whole.unseen[:, None], whole.unseen_variance[:, None]
    everything = Total(whole.certain[:, None], whole.sampled[:, None], whole.variance[:, None], *unseen)

    def may_have_reached_and_has(index: Rows) -> tuple[Flags, Flags]:
        place = np.minimum(np.minimum(first[:, None] + index, last[:, None]) + 1, padded.shape[1] - 1)
        certain, sampled, variance = np.maximum(padded[:, place] - before[:, :, None], 0.0)
        part = Total(certain, sampled, variance, *unseen)
        lower, upper = share_bounds(part, everything.without(part), confidence)
        return upper >= phi, lower >= phi

    length = int((last - first).max(initial=0)) + 1
    possible, sure = first_of_both(may_have_reached_and_has, len(first), length)
    zero = np.zeros(len(first))
    none = Total(zero, zero, zero, whole.unseen, whole.unseen_variance)
    below_all = share_bounds(none, whole, confidence)[1] >= phi
    lower = np.where(below_all, sample.least_value, _at(values, np.minimum(first + possible, last)))
    inside = first + sure <= last
    upper = np.where(inside, _at(values, np.minimum(first + sure, last)), sample.greatest_value)
    return lower, upper
