"""One estimator for each aggregate: from the rows of a sample to a value with its interval.

Each function turns Horvitz–Thompson sums (`estimation.horvitz_thompson`) into value, lower and upper limit, with
the intervals of `estimation.intervals`. All of them work on arrays with one entry for each as-of time. A single
answer is a series of length one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from sketches.arrays import Rows, apart, power_of_two
from sketches.errors import UnanswerableError
from sketches.events import Kind
from sketches.predicate import Range
from sketches.sampling.answers.faint import magnified
from sketches.sampling.answers.heavy_hitters import heavy_hitters
from sketches.sampling.answers.joins import self_join
from sketches.sampling.answers.quantiles import quantiles
from sketches.sampling.answers.ratio_of_sums import ratio
from sketches.sampling.answers.spread import stddev, variance
from sketches.sampling.answers.thresholds import above_threshold
from sketches.sampling.difference_estimator.leaned_answers import leaned_count, leaned_mean, leaned_value_sum
from sketches.sampling.estimation.inquiry import Estimates, Inquiry
from sketches.sampling.estimation.ratios import noticed, share_limits


def answer(inquiry: Inquiry) -> Estimates:
    """Answer the question at all its as-of times."""
    question, sample = inquiry.question, inquiry.sample
    if sample.kind is Kind.KEY and len(sample):
        if question.needs_order:
            raise UnanswerableError(f"{question.aggregate} needs ordered values, but this stream's values are text")
        if question.of_value:
            raise UnanswerableError("of='value' needs numbers, but this stream's values are text")
    return magnified(inquiry, _estimate)


def _estimate(inquiry: Inquiry) -> Estimates:
    question = inquiry.question
    if question.threshold is not None:
        return above_threshold(inquiry, question.threshold)
    return _ESTIMATORS[question.aggregate](inquiry)


def _sum(inquiry: Inquiry) -> Estimates:
    return _summed(inquiry)


def _summed(inquiry: Inquiry, rows: Rows | None = None, values: Range | None = None) -> Estimates:
    """Σ w·f over all rows or, of the value, Σ w·v·f; or over some rows, those with values in a range."""
    if inquiry.question.of_value:
        return leaned_value_sum(inquiry, value_sum(inquiry, rows), inquiry.weight(rows)[0], values)
    return leaned_count(inquiry, rows, values)


def _count(inquiry: Inquiry) -> Estimates:
    return leaned_count(inquiry)


def value_sum(inquiry: Inquiry, rows: Rows | None) -> Estimates:
    """Σ w·v·f as the sum of positive values less that of negative ones.

    The two are sums over different events, so the squares of their errors add up.
    """
    sample = inquiry.sample
    _, least, greatest = sample.summed
    largest_size = max(abs(least), abs(greatest))
    scale = power_of_two(largest_size) if largest_size < np.inf else 1.0
    sides = []
    for sign, largest in ((1, greatest), (-1, -least)):
        sums = inquiry.sums(sample.value_coefficients(sign, scale), rows)
        largest_factor = max(float(largest) / scale, 0.0) if np.isfinite(largest) else 0.0
        sides.append(sums.total(0, 1, 0, inquiry.unseen_unit, largest_factor))
    positive, negative = sides
    (positive_lower, positive_upper), (negative_lower, negative_upper) = (
        side.bounds(inquiry.confidence) for side in sides
    )
    value = positive.value - negative.value
    rounding = noticed(positive.value + negative.value, value)
    lower = value - np.hypot(positive.value - positive_lower, negative_upper - negative.value) - rounding
    upper = value + np.hypot(positive_upper - positive.value, negative.value - negative_lower) + rounding
    return Estimates(value * scale, lower * scale, upper * scale, sums.used)


def _mean(
    inquiry: Inquiry, rows: Rows | None = None, values: Range | None = None, at_least: float = -np.inf
) -> Estimates:
    """Σ w·f / Σ f over all rows or some; for values, base + scale·(Σ w·(v - base)/scale·f / Σ w·f)."""
    return leaned_mean(inquiry, rows, values, at_least)


def _share(inquiry: Inquiry, rows: Rows) -> Estimates:
    part, used = inquiry.weight(rows)
    rest, others = inquiry.weight(inquiry.sample.others(rows))
    return Estimates(*share_limits(part, rest, inquiry.confidence), used + others)


def share(inquiry: Inquiry) -> Estimates:
    """The share of what is counted of the rows that the question is about."""
    return _share(inquiry, rows_of_share(inquiry))


def rows_of_share(inquiry: Inquiry) -> Rows:
    """Numbers of the rows whose share a question is for."""
    question = inquiry.question
    if question.aggregate == "frequency":
        assert question.value is not None
        return inquiry.equal(question.value)
    if question.aggregate == "rank":
        if isinstance(question.value, str):
            raise UnanswerableError(f"rank needs a number, not {question.value!r}")
        return inquiry.between(None, question.value)
    if question.aggregate == "selectivity" and question.share:
        return inquiry.sample.satisfying(question.share)
    if question.aggregate == "selectivity" and question.tau is not None:
        return inquiry.between(_number(question.tau), None)
    return inquiry.between(question.low, question.high)


def _range_sum(inquiry: Inquiry) -> Estimates:
    low, high = inquiry.question.low, inquiry.question.high
    values = Range(-np.inf if low is None else low, np.inf if high is None else high)
    return _summed(inquiry, inquiry.between(low, high), values)


def _correlated(inquiry: Inquiry, tau: float) -> Estimates:
    """Sum, count or mean over the events with v ≥ tau, or their share."""
    rows, values = inquiry.between(tau, None), Range(tau)
    match inquiry.question.aggregate:
        case "correlated-sum":
            return _summed(inquiry, rows, values)
        case "correlated-count":
            return leaned_count(inquiry, rows, values)
        case "correlated-mean":
            return _mean(inquiry, rows, values, float(np.nextafter(float(tau), -np.inf)))
        case _:
            return _share(inquiry, rows)


def _correlated_at_number(inquiry: Inquiry) -> Estimates:
    assert inquiry.question.tau is not None
    return _correlated(inquiry, _number(inquiry.question.tau))


def _number(tau: float | str) -> float:
    """τ as it was given: a whole number above 2^53 keeps all its digits."""
    return float(tau) if isinstance(tau, str) else tau


def _quantile_at_phi(inquiry: Inquiry) -> Estimates:
    assert inquiry.question.phi is not None
    return _quantile(inquiry, inquiry.question.phi)


def _quantile(inquiry: Inquiry, phi: float) -> Estimates:
    sample = inquiry.sample
    found = quantiles(sample, inquiry.decay, inquiry.as_of, phi, inquiry.confidence, inquiry.unseen_unit)
    value, lower, upper, used = found
    return Estimates(value, *(apart(lower, upper) if sample.kind is Kind.INTEGER else (lower, upper)), used)


_ESTIMATORS: Final[dict[str, Callable[[Inquiry], Estimates]]] = {
    "sum": _sum,
    "count": _count,
    "mean": _mean,
    "variance": variance,
    "stddev": stddev,
    "ratio": ratio,
    "selectivity": share,
    "rank": share,
    "quantile": _quantile_at_phi,
    "median": _quantile_at_phi,
    "heavy-hitters": heavy_hitters,
    "frequency": share,
    "range-sum": _range_sum,
    "range-frequency": share,
    "correlated-sum": _correlated_at_number,
    "correlated-count": _correlated_at_number,
    "correlated-mean": _correlated_at_number,
    "self-join": self_join,
}
