"""The values with the largest shares, with intervals that hold for all values at once: listed, unlisted and unseen.

A list picks the largest of very many estimates, and the largest are often too large by chance. So the error probability
is dealt out among all values of the stream (`sketches.sampling.answers.dealt_limits`).
"""

from __future__ import annotations

from functools import cached_property
from typing import Final

import numpy as np

from sketches.arrays import Flags, Floats, Rows, ranges
from sketches.errors import UnanswerableError
from sketches.estimate import Item
from sketches.events import Kind
from sketches.question import DEFAULT_TOP
from sketches.records import dataclass
from sketches.sampling.answers.dealt_limits import dealt_lower, dealt_upper
from sketches.sampling.estimation.horvitz_thompson import sums_by_value
from sketches.sampling.estimation.inquiry import Estimates, Inquiry
from sketches.sampling.estimation.intervals import Total, Unseen
from sketches.sampling.estimation.poisson_sample import PoissonSample
from sketches.sampling.estimation.quotients import divide

_ONE_BY_ONE: Final = 64  # unlisted values whose limits are computed each by itself; the others share one


@dataclass(frozen=True)
class _Groups:
    """The decayed sums of every sampled value: its certain part, its sampled part, its variance; and what an unseen
    event may count."""

    sums: Floats
    unseen: Unseen

    @classmethod
    def of(cls, inquiry: Inquiry) -> _Groups:
        sample = inquiry.sample
        sums = sums_by_value(sample, inquiry.decay, int(inquiry.as_of[0]), sample.group_starts)
        return cls(sums, inquiry.unseen_unit)

    def total(self, codes: Rows) -> Total:
        """The totals of some values."""
        return _total(self.sums.take(codes, axis=1), self.unseen)

    @cached_property
    def whole(self) -> Total:
        return _total(self.sums.sum(axis=1, keepdims=True), self.unseen)

    @cached_property
    def masses(self) -> Floats:
        return np.asarray(self.sums[0] + self.sums[1])

    def largest(self, count: int) -> Rows:
        """The values that count most, from the first on; of equal ones the smaller."""
        order = np.arange(len(self.masses) if count else 0)
        if count < len(order):
            least = -np.partition(-self.masses, count - 1)[count - 1]
            order = np.flatnonzero(self.masses >= least)
        order = order[np.argsort(-self.masses[order], kind="stable")][:count]
        return order[self.masses[order] > 0]


def _total(sums: Floats, unseen: Unseen) -> Total:
    certain, sampled, variance = sums
    return Total(certain, sampled, variance, *unseen)


def heavy_hitters(inquiry: Inquiry) -> Estimates:
    """The most frequent values, and the share that no value has which is not among them."""
    if len(inquiry.as_of) > 1:
        raise UnanswerableError("heavy-hitters is a list: ask for it at one as-of time")
    groups = _Groups.of(inquiry)
    used, whole = inquiry.used(), groups.whole
    if whole.value[0] <= 0:
        nothing = 0.0 if whole.exact[0] else 1.0
        return Estimates(np.array([np.nan]), np.array([0.0]), np.array([1.0]), used, unlisted=nothing)
    return _listed(inquiry, groups, groups.largest(_length(inquiry, groups.masses / whole.value[0])), used)


def _length(inquiry: Inquiry, shares: Floats) -> int:
    """How many of the values are listed, by their shares; fewer, where fewer count."""
    question, length = inquiry.question, len(shares)
    if question.phi is not None:
        least = max(question.phi - inquiry.share_error / 2.0, question.phi / 2.0)
        length = int(np.count_nonzero(shares >= least))
    if question.top is not None or question.phi is None:
        length = min(length, question.top or DEFAULT_TOP)
    return length


def _listed(inquiry: Inquiry, groups: _Groups, listed: Rows, used: Rows) -> Estimates:
    others = np.ones(len(groups.masses), bool)
    others[listed] = False
    tail = (1.0 - inquiry.confidence) / 2.0
    part, whole = groups.total(listed), groups.whole
    value = divide(part.value, np.broadcast_to(whole.value, part.value.shape), np.nan)
    if whole.exact[0]:
        lower = upper = value
        unlisted = float(groups.masses[others].max(initial=0.0) / whole.value[0])
    else:
        lower = np.fmin(dealt_lower(part, _own(inquiry, listed), whole, tail), value)
        largest = np.concatenate([groups.sums.take(listed, axis=1), _largest_of(groups, others)], axis=1)
        limits = dealt_upper(_total(largest, groups.unseen), whole, tail)
        upper = np.fmax(limits[: len(listed)], value)
        rest = max(1.0 - float(lower.sum()), 0.0)  # all shares together are 1
        unlisted = min(float(limits[len(listed) :].max()), rest)
    sample = inquiry.sample
    values = sample.values[sample.by_value[sample.group_starts[listed]]]
    items = tuple(
        Item(_readable(sample, one), float(v), float(low), float(high))
        for one, v, low, high in zip(values, value, lower, upper, strict=True)
    )
    if not items:
        return Estimates(np.array([0.0]), np.array([0.0]), np.array([unlisted]), used, unlisted=unlisted)
    return Estimates(value[:1], lower[:1], upper[:1], used, items, unlisted)


def _largest_of(groups: _Groups, others: Flags) -> Floats:
    """The sums of those of the others that may have the largest share; one of them is of a value of which nothing was
    seen, and one at least as large as each that is left out."""
    sums, columns = groups.sums, [np.zeros((3, 1))]
    scores = np.where(others & (groups.masses > 0), groups.masses + np.sqrt(sums[2]), -1.0)
    for _ in range(_ONE_BY_ONE):
        if not len(scores) or scores[best := int(scores.argmax())] < 0.0:
            break
        first = sums[:, [best]]
        columns.append(first)
        # One that is smaller in every respect has the smaller limit.
        left = np.flatnonzero((scores >= 0.0) & ((sums[0] > first[0]) | (sums[1] > first[1]) | (sums[2] > first[2])))
        sums, scores = sums[:, left], scores[left]
    sums = sums[:, scores >= 0.0]
    columns.append(sums.max(axis=1, initial=0.0, keepdims=True))
    return np.concatenate(columns, axis=1)


def _own(inquiry: Inquiry, listed: Rows) -> Floats:
    """What the sampled rows of each listed value weigh themselves."""
    sample = inquiry.sample
    ends = np.append(sample.group_starts, len(sample))
    ranks, which = ranges(ends[listed], ends[listed + 1])
    masses = inquiry.decay(sample.unit.seconds(inquiry.as_of[0] - sample.times_by_value[ranks]))
    if not sample.least_weight == sample.greatest_weight == 1:
        masses *= sample.weights[sample.by_value[ranks]]
    copies = max(1, int(sample.copy_numbers.max(initial=0)) + 1)  # copies may hold the same event
    return np.bincount(which, masses, len(listed)) / copies


def _readable(sample: PoissonSample, value: np.generic) -> int | float | str:
    """A value as users know it: the text of a key, a whole number or a float."""
    if sample.kind is Kind.KEY:
        return sample.labels.text_of(int(value))
    return int(value) if sample.kind is Kind.INTEGER else float(value)
