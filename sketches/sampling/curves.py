"""Whole curves from one sweep over the rows of a sample: the sum above each threshold, and the value at each share."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from sketches.arrays import Floats
from sketches.errors import QuestionError, UnanswerableError
from sketches.estimate import Curve
from sketches.events import Kind
from sketches.sampling.inquiry import Inquiry
from sketches.sampling.intervals import Total
from sketches.sampling.quantiles import quantiles_of_sweep, sweep


def threshold_curve(inquiry: Inquiry, thresholds: ArrayLike) -> Curve:
    """Σ w·f over v ≥ τ for many τ at one as-of time (the correlated sum against its threshold)."""
    taus = np.asarray(thresholds, np.float64)
    _check(inquiry, taus, "thresholds")
    cumulated, table_error = sweep(inquiry.sample, inquiry.decay, int(inquiry.as_of[0]))
    rows_below = np.searchsorted(inquiry.sample.sorted_values, taus, side="left")
    below = np.concatenate([np.zeros((3, 1)), cumulated], axis=1)
    above = np.maximum(below[:, -1:] - below[:, rows_below], 0.0)
    total = Total(above[0], above[1], above[2], *inquiry.unseen_unit, table_error)
    return Curve(taus, total.value, *total.bounds(inquiry.confidence), inquiry.confidence)


def quantile_curve(inquiry: Inquiry, shares: ArrayLike) -> Curve:
    """The value at each share φ: the whole quantile function at one as-of time."""
    phis = np.asarray(shares, np.float64)
    _check(inquiry, phis, "shares")
    if ((phis <= 0) | (phis >= 1)).any():
        raise QuestionError("shares must lie strictly between 0 and 1")
    cumulated, table_error = sweep(inquiry.sample, inquiry.decay, int(inquiry.as_of[0]))
    if len(inquiry.sample) == 0 or cumulated[0, -1] + cumulated[1, -1] <= 0:
        nothing = np.full(len(phis), np.nan)
        return Curve(phis, nothing, nothing, nothing, inquiry.confidence)
    return Curve(
        phis,
        *quantiles_of_sweep(inquiry.sample, cumulated, phis, inquiry.confidence, inquiry.unseen_unit, table_error),
        inquiry.confidence,
    )


def _check(inquiry: Inquiry, axis: Floats, name: str) -> None:
    if inquiry.sample.kind is Kind.KEY and len(inquiry.sample):
        raise UnanswerableError("a curve over values needs ordered values, but this stream's values are text")
    if axis.ndim != 1 or np.isnan(axis).any():
        raise QuestionError(f"{name} must be a flat array of numbers")
