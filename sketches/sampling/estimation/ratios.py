"""Shares and means with their limits, from the sums of their two parts."""

from __future__ import annotations

from typing import Final

import numpy as np

from sketches.arrays import Floats
from sketches.sampling.estimation.horvitz_thompson import Sums
from sketches.sampling.estimation.inquiry import Estimates, Inquiry
from sketches.sampling.estimation.intervals import Total, share_bounds
from sketches.sampling.estimation.quotients import Quotient, divide

_ROUNDING: Final = 1e-13  # of all that is added up, whatever its sign
_NOTICED: Final = 1e-9  # of an answer: rounding beyond this widens its interval


def mean_of_sums(inquiry: Inquiry, sums: Sums, at_least: Floats | float = -np.inf) -> Estimates:
    """The mean from the sums of `Inquiry.mean_coefficients`; `at_least` where the values are known not to be less."""
    sample, of_value = inquiry.sample, inquiry.question.of_value
    base, scale = inquiry.mean_scale
    top = sums.total(0, 1, 0, inquiry.unseen_unit)
    bottom = sums.total(2, 3, 1, inquiry.unseen_unit if of_value else inquiry.unseen_event)
    if of_value:
        least, most = np.clip((at_least - base) / scale, 0.0, 1.0), np.ones(1)
    else:
        least, most = np.array([float(sample.least_weight)]), np.array([float(sample.greatest_weight)])
    quotient = Quotient(top, bottom, sums.squared[:, 2], least, most)
    lower, upper = quotient.bounds(inquiry.confidence)
    value = quotient.value
    # Errors of the table do not cancel as sampling errors do: both sums may be off in opposite directions.
    error = 2.0 * np.asarray(top.table_error)
    exact = (top.unseen == 0) & (bottom.unseen == 0) & ((error == 0) | np.isnan(value))
    lower = np.where(exact, value, np.clip(lower * (1.0 - error), least, most))
    upper = np.where(exact, value, np.clip(upper * (1.0 + error), least, most))
    if not of_value:
        return Estimates(value, lower, upper, sums.used)
    # A mean near 0 beside values that are far apart, in whatever event, is a small difference of large numbers.
    value, lower, upper = (base + scale * limit for limit in (value, lower, upper))
    lost = [noticed(abs(base) + np.abs(limit - base), limit) for limit in (lower, upper)]
    _, least_value, greatest_value = sample.summed
    lower, upper = lower - lost[0], upper + lost[1]
    if least_value <= greatest_value:  # else there is no event at all
        lower, upper = np.fmax(lower, least_value), np.fmin(upper, greatest_value)
    return Estimates(value, np.fmin(lower, value), np.fmax(upper, value), sums.used)


def noticed(mass: Floats, found: Floats) -> Floats:
    """How far what was found may be off because floats are rounded, where that is to be noticed; `mass` is what was
    added up for it, whatever its sign."""
    lost = _ROUNDING * mass
    return np.where(lost > _NOTICED * np.abs(found), lost, 0.0)


def share_limits(part: Total, rest: Total, confidence: float) -> tuple[Floats, Floats, Floats]:
    """The share of a part beside the rest. The rest is no difference: light events would be lost beside heavy ones."""
    lower, upper = share_bounds(part, rest, confidence)
    whole, exact = part.value + rest.value, part.exact & rest.exact
    value = divide(part.value, whole, np.nan)
    lower = np.where(whole <= 0, 0.0, np.where(exact, value, np.fmin(lower, value)))
    upper = np.where(whole <= 0, 1.0, np.where(exact, value, np.fmax(upper, value)))
    return value, lower, upper
