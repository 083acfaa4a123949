"""One estimator for each aggregate: from the rows of a sample to a value with its interval.

Each function turns Horvitz–Thompson sums (`sketches.sampling.horvitz_thompson`) into value, lower and upper limit, with
the intervals of `sketches.sampling.intervals`. All of them work on arrays with one entry for each as-of time. A single
answer is a series of length one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import numpy as np
from numba import njit

from sketches.arrays import Floats, Ints, Rows
from sketches.errors import UnanswerableError
from sketches.estimate import Item
from sketches.events import Kind
from sketches.question import DEFAULT_TOP, NEEDS_ORDER
from sketches.sampling.inquiry import Estimates, Inquiry
from sketches.sampling.intervals import Total
from sketches.sampling.joins import self_join
from sketches.sampling.poisson_sample import PoissonSample
from sketches.sampling.quantiles import quantiles
from sketches.sampling.ratios import mean_of_sums, share_limits
from sketches.sampling.thresholds import above_threshold


def answer(inquiry: Inquiry) -> Estimates:
    """Answer the question at all its as-of times."""
    question, sample = inquiry.question, inquiry.sample
    if sample.kind is Kind.KEY and len(sample):
        if question.aggregate in NEEDS_ORDER:
            raise UnanswerableError(f"{question.aggregate} needs ordered values, but this stream's values are text")
        if question.of_value:
            raise UnanswerableError("of='value' needs numbers, but this stream's values are text")
    if question.threshold is not None:
        return above_threshold(inquiry, question.threshold)
    return _ESTIMATORS[question.aggregate](inquiry)


def _at_each_time(inquiry: Inquiry, estimate: Callable[[Inquiry], Estimates]) -> Estimates:
    """Estimate at one time after the other, where many times cannot be estimated at once."""
    parts = [estimate(replace(inquiry, as_of=inquiry.as_of[at : at + 1])) for at in range(len(inquiry.as_of))]
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return Estimates(np.zeros(0), np.zeros(0), np.zeros(0), np.zeros(0, np.int64))
    return Estimates(
        np.concatenate([part.value for part in parts]),
        np.concatenate([part.lower for part in parts]),
        np.concatenate([part.upper for part in parts]),
        np.concatenate([part.used for part in parts]),
    )


def _sum(inquiry: Inquiry) -> Estimates:
    return _summed(inquiry)


def _summed(inquiry: Inquiry, rows: Rows | None = None) -> Estimates:
    """Σ w·f over all rows or some or, of the value, Σ w·v·f."""
    if inquiry.question.of_value:
        return _value_sum(inquiry, rows)
    return _of_total(*inquiry.weight(rows), inquiry.confidence)


def _count(inquiry: Inquiry) -> Estimates:
    return _of_total(*inquiry.weight(), inquiry.confidence)


def _of_total(total: Total, used: Ints, confidence: float) -> Estimates:
    return Estimates(total.value, *total.bounds(confidence), used)


def _value_sum(inquiry: Inquiry, rows: Rows | None) -> Estimates:
    """Σ w·v·f as the sum of positive values less that of negative ones.

    The two are sums over different events, so the squares of their errors add up.
    """
    sample = inquiry.sample
    scale = max(abs(sample.least_value), abs(sample.greatest_value))
    scale = scale if 0.0 < scale < np.inf else 1.0
    sides = []
    for sign, largest in ((1, sample.greatest_value), (-1, -sample.least_value)):
        sums = inquiry.sums(sample.value_coefficients(sign, scale), rows)
        largest_factor = max(float(largest) / scale, 0.0) if np.isfinite(largest) else 0.0
        sides.append(sums.total(0, 1, 0, inquiry.unseen_unit, largest_factor))
    positive, negative = sides
    (positive_lower, positive_upper), (negative_lower, negative_upper) = (
        side.bounds(inquiry.confidence) for side in sides
    )
    value = positive.value - negative.value
    lower = value - np.hypot(positive.value - positive_lower, negative_upper - negative.value)
    upper = value + np.hypot(positive_upper - positive.value, negative.value - negative_lower)
    return Estimates(value * scale, lower * scale, upper * scale, sums.used)


def _mean(inquiry: Inquiry, rows: Rows | None = None) -> Estimates:
    """Σ w·f / Σ f over all rows or some; for values, base + scale·(Σ w·(v - base)/scale·f / Σ w·f)."""
    return mean_of_sums(inquiry, inquiry.sums(inquiry.mean_coefficients, rows))


def _share(inquiry: Inquiry, rows: Rows) -> Estimates:
    whole, used = inquiry.weight()
    part, _ = inquiry.weight(rows)
    return Estimates(*share_limits(part, whole, inquiry.confidence), used)


def _selectivity(inquiry: Inquiry) -> Estimates:
    question = inquiry.question
    if question.tau is not None:
        return _share(inquiry, inquiry.between(float(question.tau), None))
    return _share(inquiry, inquiry.between(question.low, question.high))


def _rank(inquiry: Inquiry) -> Estimates:
    value = inquiry.question.value
    if isinstance(value, str):
        raise UnanswerableError(f"rank needs a number, not {value!r}")
    return _share(inquiry, inquiry.between(None, value))


def _frequency(inquiry: Inquiry) -> Estimates:
    assert inquiry.question.value is not None
    return _share(inquiry, inquiry.equal(inquiry.question.value))


def _range_sum(inquiry: Inquiry) -> Estimates:
    return _summed(inquiry, inquiry.between(inquiry.question.low, inquiry.question.high))


def _range_frequency(inquiry: Inquiry) -> Estimates:
    return _share(inquiry, inquiry.between(inquiry.question.low, inquiry.question.high))


def _correlated(inquiry: Inquiry, tau: float) -> Estimates:
    """Sum, count or mean over the events with v ≥ tau, or their share."""
    rows = inquiry.between(tau, None)
    match inquiry.question.aggregate:
        case "correlated-sum":
            return _summed(inquiry, rows)
        case "correlated-count":
            return _of_total(*inquiry.weight(rows), inquiry.confidence)
        case "correlated-mean":
            return _mean(inquiry, rows)
        case _:
            return _share(inquiry, rows)


def _correlated_at_number(inquiry: Inquiry) -> Estimates:
    assert inquiry.question.tau is not None
    return _correlated(inquiry, float(inquiry.question.tau))


def _quantile_at_phi(inquiry: Inquiry) -> Estimates:
    assert inquiry.question.phi is not None
    return _quantile(inquiry, inquiry.question.phi)


def _quantile(inquiry: Inquiry, phi: float) -> Estimates:
    return Estimates(
        *quantiles(inquiry.sample, inquiry.decay, inquiry.as_of, phi, inquiry.confidence, inquiry.unseen_unit)
    )


def _heavy_hitters(inquiry: Inquiry) -> Estimates:
    """The values with the largest shares.

    The largest of many estimates is often too large by chance. The intervals therefore hold for all sampled values at
    once (Bonferroni).
    """
    if len(inquiry.as_of) > 1:
        raise UnanswerableError("heavy-hitters is a list: ask for it at one as-of time")
    sample, question = inquiry.sample, inquiry.question
    distinct, codes = sample.groups
    decayed = inquiry.factors[0]
    used = np.array([np.count_nonzero(decayed.factors)])
    certain, sampled, variance = _per_group(
        codes, sample.coefficients_by_time, decayed.factors, decayed.rows.start, len(distinct)
    )
    whole = certain.sum() + sampled.sum()
    if whole <= 0:
        return Estimates(np.array([np.nan]), np.array([0.0]), np.array([1.0]), used)
    order = np.argsort(-(certain + sampled), kind="stable")
    order = order[(certain + sampled)[order] > 0]
    candidates = len(order)
    if question.phi is not None:
        least = max(question.phi - inquiry.share_error / 2.0, question.phi / 2.0)
        order = order[(certain + sampled)[order] >= least * whole]
    if question.top is not None or question.phi is None:
        order = order[: question.top or DEFAULT_TOP]
    unseen = inquiry.unseen_unit
    part = Total(certain[order], sampled[order], variance[order], *unseen, decayed.table_error)
    everything = Total(certain.sum(), sampled.sum(), variance.sum(), *unseen, decayed.table_error)
    together = 1.0 - (1.0 - inquiry.confidence) / candidates
    value, lower, upper = share_limits(part, everything, together)
    items = tuple(
        Item(_readable(sample, distinct[code]), float(v), float(low), float(high))
        for code, v, low, high in zip(order, value, lower, upper, strict=True)
    )
    if not items:
        return Estimates(np.array([0.0]), np.array([0.0]), np.array([1.0]), used)
    return Estimates(value[:1], lower[:1], upper[:1], used, items)


@njit(cache=True, nogil=True)
def _per_group(codes: Rows, coefficients: Floats, factors: Floats, start: int, groups: int) -> Floats:
    """For each group the certain part, the sampled part and the variance of its sum, in one pass."""
    sums = np.zeros((3, groups))
    for row in range(len(factors)):
        code = codes[start + row]
        sums[0, code] += coefficients[0, start + row] * factors[row]
        sums[1, code] += coefficients[1, start + row] * factors[row]
        sums[2, code] += coefficients[2, start + row] * factors[row] * factors[row]
    return sums


def _readable(sample: PoissonSample, value: np.generic) -> int | float | str:
    """A value as users know it: the text of a key, a whole number or a float."""
    if sample.kind is Kind.KEY:
        return sample.labels.text_of(int(value))
    return int(value) if sample.kind is Kind.INTEGER else float(value)


def _self_join(inquiry: Inquiry) -> Estimates:
    return _at_each_time(inquiry, self_join)


_ESTIMATORS: Final[dict[str, Callable[[Inquiry], Estimates]]] = {
    "sum": _sum,
    "count": _count,
    "mean": _mean,
    "selectivity": _selectivity,
    "rank": _rank,
    "quantile": _quantile_at_phi,
    "median": _quantile_at_phi,
    "heavy-hitters": _heavy_hitters,
    "frequency": _frequency,
    "range-sum": _range_sum,
    "range-frequency": _range_frequency,
    "correlated-sum": _correlated_at_number,
    "correlated-count": _correlated_at_number,
    "correlated-mean": _correlated_at_number,
    "self-join": _self_join,
}
