"""Whole curves from one sweep over the sampled rows: what lies above each threshold, and the value at each share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sketches.asked import Asked
from sketches.errors import QuestionError, UnanswerableError
from sketches.events import Kind
from sketches.intervals import Total
from sketches.quantiles import limits_of, sweep

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Curve:
    """Estimates with limits along an axis; each point's interval holds at `confidence` by itself."""

    at: Floats
    value: Floats
    lower: Floats
    upper: Floats
    confidence: float


def threshold_curve(asked: Asked, thresholds: ArrayLike) -> Curve:
    """Σ w·f over v ≥ τ for many τ at one as-of time (the correlated sum against its threshold)."""
    taus = np.asarray(thresholds, np.float64)
    _check(asked, taus, "thresholds")
    sums, values, slack = sweep(asked.drawn, asked.decay, int(asked.as_of[0]))
    before = np.searchsorted(values, taus, side="left")
    padded = np.concatenate([np.zeros((3, 1)), sums], axis=1)
    above = np.maximum(padded[:, -1:] - padded[:, before], 0.0)
    most, most_variance = asked.unseen_weight
    part = Total(above[0], above[1], above[2], most, most_variance, slack)
    return Curve(taus, part.value, *part.bounds(asked.confidence), asked.confidence)


def quantile_curve(asked: Asked, shares: ArrayLike) -> Curve:
    """The value at each share φ: the whole quantile function at one as-of time."""
    phis = np.asarray(shares, np.float64)
    _check(asked, phis, "shares")
    if ((phis <= 0) | (phis >= 1)).any():
        raise QuestionError("shares must lie strictly between 0 and 1")
    sums, values, slack = sweep(asked.drawn, asked.decay, int(asked.as_of[0]))
    if len(values) == 0 or sums[0, -1] + sums[1, -1] <= 0:
        nothing = np.full(len(phis), np.nan)
        return Curve(phis, nothing, nothing, nothing, asked.confidence)
    return Curve(
        phis,
        *limits_of(asked.drawn, sums, values, phis, asked.confidence, asked.unseen_weight, slack),
        asked.confidence,
    )


def _check(asked: Asked, axis: Floats, name: str) -> None:
    if asked.drawn.kind is Kind.KEY and len(asked.drawn):
        raise UnanswerableError("a curve over values needs an order, but this stream's values are text")
    if axis.ndim != 1 or np.isnan(axis).any():
        raise QuestionError(f"{name} must be a flat array of numbers")
