"""Shares and means with their limits, from the sums of their two parts."""

from __future__ import annotations

import numpy as np

from sketches.arrays import Floats
from sketches.sampling.horvitz_thompson import Sums
from sketches.sampling.inquiry import Estimates, Inquiry
from sketches.sampling.intervals import Total, ratio_bounds, share_bounds


def mean_of_sums(inquiry: Inquiry, sums: Sums) -> Estimates:
    """The mean from the sums of `Inquiry.mean_coefficients`."""
    sample, of_value = inquiry.sample, inquiry.question.of_value
    base, scale = inquiry.mean_scale
    top = sums.total(0, 1, 0, inquiry.unseen_unit)
    bottom = sums.total(2, 3, 1, inquiry.unseen_unit if of_value else inquiry.unseen_event)
    least, most = (base, base + scale) if of_value else (float(sample.least_weight), float(sample.greatest_weight))
    effective = divide(np.square(bottom.sampled), bottom.variance, np.inf)
    lower, upper = ratio_bounds(top, bottom, sums.squared[:, 2], effective, inquiry.confidence)
    value = base + scale * divide(top.value, bottom.value, np.nan)
    exact = (top.unseen == 0) & (bottom.unseen == 0) & ((np.asarray(bottom.table_error) == 0) | np.isnan(value))
    lower = np.where(exact, value, np.clip(base + scale * lower, least, most))
    upper = np.where(exact, value, np.clip(base + scale * upper, least, most))
    return Estimates(value, lower, upper, sums.used)


def share_limits(part: Total, whole: Total, confidence: float) -> tuple[Floats, Floats, Floats]:
    lower, upper = share_bounds(part, whole.without(part), confidence)
    value = divide(part.value, whole.value, np.nan)
    nothing = whole.value <= 0
    lower = np.where(nothing, 0.0, np.where(whole.exact, value, np.fmin(lower, value)))
    upper = np.where(nothing, 1.0, np.where(whole.exact, value, np.fmax(upper, value)))
    return value, lower, upper


def divide(top: Floats, bottom: Floats, otherwise: float) -> Floats:
    """top / bottom, or `otherwise` where the bottom is 0; infinite where the bottom is next to nothing."""
    with np.errstate(over="ignore"):
        return np.where(bottom > 0, top / np.where(bottom > 0, bottom, 1.0), otherwise)
