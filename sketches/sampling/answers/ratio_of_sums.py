"""The ratio of two sums over the same events, such as bytes per request or loss per second of talk.

As with a mean, the ratio r is right where the deviations a - r·b cancel, and its limits are those for which they may
just not. An event may have any a and any b from 0 on, so what an unseen one may add is bounded by the ends of both.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple, TypeVar

import numpy as np

from sketches.arrays import Floats
from sketches.errors import UnanswerableError
from sketches.records import dataclass
from sketches.sampling.estimation.field_values import with_measures
from sketches.sampling.estimation.inquiry import Estimates, Inquiry
from sketches.sampling.estimation.poisson_sample import PoissonSample
from sketches.sampling.estimation.quotients import Quotient, deviation, divide
from sketches.vocabulary import EVENTS

Asked = TypeVar("Asked", bound=Inquiry)


@dataclass(frozen=True, slots=True)
class _Ratio(Quotient):
    """A ratio whose deviations of one unseen event are known by the least and the most that it adds to each sum."""

    most_above: Floats
    least_above: Floats
    most_below: Floats

    def _deviation(self, mean: Floats, tail: float, side: float) -> Floats:
        top, bottom = self.top, self.bottom
        apart = top.variance + np.square(mean) * bottom.variance
        variance = np.maximum(apart - 2.0 * mean * self.covariance, 1e-15 * apart)
        slope = np.where(np.isfinite(mean), mean, 0.0)
        falls, rises = np.minimum(slope, 0.0) * self.most_below, np.maximum(slope, 0.0) * self.most_below
        unseen = self.most_above - falls if side > 0 else rises - self.least_above
        events = divide(np.square(bottom.sampled), bottom.variance, 0.0)
        return deviation(variance, np.maximum(unseen, 0.0), events, tail)


class _Part(NamedTuple):
    """What one of the two sums adds up of each row, over π, and the least and the most that an unseen event adds."""

    expanded: Floats
    least: Floats
    most: Floats


def ratio(inquiry: Inquiry) -> Estimates:
    """At all as-of times, or of all groups."""
    asked = _of_known(inquiry)
    top, bottom = _parts(asked)
    if bottom.least.min(initial=0.0) < 0.0 or bottom.expanded.min(initial=0.0) < 0.0:
        per = inquiry.question.per
        raise UnanswerableError(f"a ratio per {per} needs numbers from 0 on, but some of it is negative")
    sums = asked.sums(asked.sample.quotient_coefficients(top.expanded, bottom.expanded))
    above, below = sums.total(0, 1, 0, asked.unseen_event), sums.total(2, 3, 1, asked.unseen_event)
    least = np.full(1, -np.inf if top.expanded.min(initial=0.0) < 0.0 or top.least.min(initial=0.0) < 0.0 else 0.0)
    found = _Ratio(above, below, sums.squared[:, 2], least, np.full(1, np.inf), top.most, top.least, bottom.most)
    with np.errstate(invalid="ignore"):  # where nothing counts, there is no ratio to start from
        lower, upper = found.bounds(inquiry.confidence)
    value = found.value
    off = [2.0 * np.asarray(sums.table_error) * np.abs(np.where(np.isfinite(end), end, 0.0)) for end in (lower, upper)]
    exact = above.exact & below.exact & (bottom.most == 0.0) & (top.most == 0.0)
    there = np.isfinite(value)
    lower = np.where(exact, value, np.where(there, lower - off[0], least))
    upper = np.where(exact, value, np.where(there, upper + off[1], np.inf))
    return Estimates(value, lower, upper, sums.used)


def parts_of_ratio(inquiry: Asked) -> tuple[Asked, Floats, Floats]:
    """The question about the events of which both columns are known, and what each of them adds to both sums."""
    asked = _of_known(inquiry)
    top, bottom = _parts(asked)
    return asked, top.expanded, bottom.expanded


def _of_known(inquiry: Asked) -> Asked:
    sample = inquiry.sample
    for name in (inquiry.question.of, inquiry.question.per):
        assert name is not None
        sample = _of_which_known(sample, name)
    return replace(inquiry, sample=sample)


def _parts(asked: Inquiry) -> tuple[_Part, _Part]:
    assert asked.question.of is not None
    assert asked.question.per is not None
    return _part(asked, asked.question.of), _part(asked, asked.question.per)


def _of_which_known(sample: PoissonSample, name: str) -> PoissonSample:
    if name in (EVENTS, "weight", "value"):
        return sample
    return with_measures(sample, name, sample)


def _part(inquiry: Inquiry, name: str) -> _Part:
    sample, by_weight = inquiry.sample, inquiry.question.by_weight or name == "weight"
    expanded = sample.expanded_weights if by_weight else sample.expanded_events
    unseen = (inquiry.unseen_unit if by_weight else inquiry.unseen_event).contribution
    if name in (EVENTS, "weight"):
        return _Part(expanded, np.zeros_like(unseen), unseen)
    values, least, greatest = with_measures(sample, name, sample).summed
    least, greatest = (end if np.isfinite(end) else 0.0 for end in (least, greatest))  # infinite where nothing came
    return _Part(values * expanded, min(least, 0.0) * unseen, max(greatest, 0.0) * unseen)
