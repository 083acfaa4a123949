"""Answers long after the newest event, where what is left of all events is so little that its square is nothing.

Variances are sums of squares. Where f of even the newest event is below 1e-60 they would vanish, and an estimate would
look exact. Such as-of times, be they long after all events or in a lull, are answered under the same decay magnified,
so that the newest event counts once, and sums are scaled back: all that an interval is made of is homogeneous in f.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import numpy as np

from sketches.arrays import Floats
from sketches.decay import Decay, DecayClass
from sketches.sampling.estimation.inquiry import Estimates, Inquiry

_FAINT: Final = 1e-60
_LEAST: Final = 1e-290  # what is less has lost its digits
_UNSEEN: Final = 1e-30  # beside what may be unseen, rows that count less than this need no digits
_DEGREES: Final = {  # how often f is a factor of the answer; else not at all
    "sum": 1,
    "count": 1,
    "range-sum": 1,
    "correlated-sum": 1,
    "correlated-count": 1,
    "self-join": 2,
    "inner-product": 2,
}


class _Magnified(Decay):
    """f times a factor."""

    base: Decay
    factor: float
    decay_class = DecayClass.GENERAL

    @property
    def spec(self) -> str:
        return f"{self.factor!r}*{self.base.spec}"

    @property
    def horizon(self) -> float:  # type: ignore[override]
        return self.base.horizon

    def breaks(self) -> tuple[float, ...]:
        return self.base.breaks()

    def _weights(self, ages: Floats) -> Floats:
        return np.minimum(self.base._weights(ages) * self.factor, np.finfo(np.float64).max)


def magnified(inquiry: Inquiry, estimate: Callable[[Inquiry], Estimates]) -> Estimates:
    """The estimates at all as-of times; those at which f is faint under the decay magnified."""
    if inquiry.sample.newest is None or not len(inquiry.as_of):
        return estimate(inquiry)
    seen, unseen = _newest_factor(inquiry), _newest_unseen_factor(inquiry)
    left = np.where(seen > 0.0, np.maximum(seen, _UNSEEN * unseen), unseen)
    left = np.where(left > 0.0, np.maximum(left, _LEAST), 0.0)
    faint = (left > 0.0) & (left < _FAINT)
    if not faint.any():
        return estimate(inquiry)
    degree = _DEGREES.get(inquiry.question.aggregate, 0)
    clear, rest = np.flatnonzero(~faint), np.flatnonzero(faint)
    found = [_scaled(inquiry, at, float(left[at]), degree, estimate) for at in rest.tolist()]
    if not len(clear):
        return Estimates.joined(found)
    found.insert(0, estimate(replace(inquiry, as_of=inquiry.as_of[clear])))
    return Estimates.joined(found).in_order(np.argsort(np.concatenate([clear, rest])))


def _newest_factor(inquiry: Inquiry) -> Floats:
    """f of the newest row that is not newer than each as-of time; 0 where there is none."""
    times = inquiry.sample.times
    at = np.searchsorted(times, inquiry.as_of, side="right") - 1
    if not len(times):
        return np.zeros(len(inquiry.as_of))
    ages = np.maximum(inquiry.as_of - times[np.maximum(at, 0)], 0)
    return np.where(at >= 0, inquiry.decay(inquiry.sample.unit.seconds(ages)), 0.0)


def _newest_unseen_factor(inquiry: Inquiry) -> Floats:
    """f of the newest event that may have come unseen, at each as-of time; 0 where all were kept."""
    strata = inquiry.sample.strata
    sampled = np.maximum(strata.unit_design_weight, strata.event_design_weight) > 0
    newest, oldest = strata.newest[sampled], strata.oldest[sampled]
    moments = inquiry.as_of[:, None]
    ages = inquiry.sample.unit.seconds(moments - np.minimum(newest, moments))
    return np.asarray(np.where(oldest <= moments, inquiry.decay(ages), 0.0).max(axis=1, initial=0.0))


def _scaled(inquiry: Inquiry, at: int, left: float, degree: int, estimate: Callable[[Inquiry], Estimates]) -> Estimates:
    """The estimate at one as-of time at which the newest event counts only `left`."""
    question = replace(inquiry.question, decay=_Magnified(inquiry.decay, 1.0 / left))
    found = estimate(replace(inquiry, as_of=inquiry.as_of[at : at + 1], question=question))
    if degree == 0:
        return found
    value, lower, upper = (limit * left**degree for limit in (found.value, found.lower, found.upper))
    vanished = (upper == 0.0) & (found.upper > 0.0)  # too small for a float, and still not nothing
    return replace(found, value=value, lower=lower, upper=np.where(vanished, np.nextafter(0.0, 1.0), upper))
