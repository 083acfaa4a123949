"""Whole curves from one sweep over the rows of a sample: the sum above each threshold, and the value at each share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from sketches.arrays import Floats, places
from sketches.errors import QuestionError, UnanswerableError
from sketches.estimate import Curve
from sketches.events import Kind
from sketches.sampling.answers.quantiles import quantiles_of_sweep, sweep
from sketches.sampling.estimation.coefficients import Coefficients
from sketches.sampling.estimation.horvitz_thompson import Sums
from sketches.sampling.estimation.inquiry import Inquiry
from sketches.sampling.estimation.ratios import mean_of_sums


def all_at_once(
    curve: Callable[[Inquiry, ArrayLike], Curve], inquiry: Inquiry, axis: ArrayLike, together: bool
) -> Curve:
    """A curve whose limits hold at all points at once: each point gets its part of the error (Bonferroni)."""
    if not together:
        return curve(inquiry, axis)
    missed = (1.0 - inquiry.confidence) / max(1, np.size(axis))
    return replace(curve(replace(inquiry, confidence=1.0 - missed), axis), confidence=inquiry.confidence, together=True)


def threshold_curve(inquiry: Inquiry, thresholds: ArrayLike) -> Curve:
    """The sum, count or mean over v ≥ τ for many τ at one as-of time (a correlated aggregate against its threshold)."""
    taus = np.asarray(thresholds, np.float64)
    _check(inquiry, taus, "thresholds")
    question, sample = inquiry.question, inquiry.sample
    if question.aggregate == "correlated-mean":
        found = mean_of_sums(inquiry, _sums_above(inquiry, inquiry.mean_coefficients, taus), taus)
        return Curve(taus, found.value, found.lower, found.upper, inquiry.confidence)
    if question.of_value:
        raise UnanswerableError("a curve of sums of the value is not drawn: ask for their mean, or for the weight")
    total = _sums_above(inquiry, sample.weight_coefficients, taus).total(0, 1, 0, inquiry.unseen_unit)
    return Curve(taus, total.value, *total.bounds(inquiry.confidence), inquiry.confidence)


def _sums_above(inquiry: Inquiry, coefficients: Coefficients, taus: Floats) -> Sums:
    """The decayed sums over v ≥ τ, one row for each τ, from one pass in the order of values."""
    sample = inquiry.sample
    decayed = inquiry.factors[0]
    factors = np.zeros(len(sample))
    factors[decayed.rows] = decayed.factors
    factors = factors[sample.by_value]
    rows_below = places(sample.values[sample.by_value], taus)

    def above(columns: Sequence[Floats], by: Floats) -> Floats:
        sums = np.zeros((len(sample) + 1, len(columns)))
        for at, column in enumerate(columns):
            sums[:-1, at] = np.cumsum((column[sample.by_value] * by)[::-1])[::-1]
        return sums[rows_below]

    used = above([np.ones(len(sample))], (factors > 0).astype(np.float64))[:, 0].astype(np.int64)
    squares = above(coefficients.squared, np.square(factors))
    return Sums(above(coefficients.linear, factors), squares, used)


def quantile_curve(inquiry: Inquiry, shares: ArrayLike) -> Curve:
    """The value at each share φ: the whole quantile function at one as-of time."""
    phis = np.asarray(shares, np.float64)
    _check(inquiry, phis, "shares")
    if ((phis <= 0) | (phis >= 1)).any():
        raise QuestionError("shares must lie strictly between 0 and 1")
    if inquiry.question.threshold is not None:
        raise UnanswerableError(f"a curve cannot be drawn of the events above an aggregate ({inquiry.question.tau})")
    cumulated = sweep(inquiry.sample, inquiry.decay, int(inquiry.as_of[0]))
    if len(inquiry.sample) == 0 or cumulated[0, -1] + cumulated[1, -1] <= 0:
        nothing = np.full(len(phis), np.nan)
        return Curve(phis, nothing, nothing, nothing, inquiry.confidence)
    return Curve(
        phis,
        *quantiles_of_sweep(inquiry.sample, cumulated, phis, inquiry.confidence, inquiry.unseen_unit),
        inquiry.confidence,
    )


def _check(inquiry: Inquiry, axis: Floats, name: str) -> None:
    if inquiry.sample.kind is Kind.KEY and len(inquiry.sample):
        raise UnanswerableError("a curve over values needs ordered values, but this stream's values are text")
    if axis.ndim != 1 or np.isnan(axis).any():
        raise QuestionError(f"{name} must be a flat array of numbers")
