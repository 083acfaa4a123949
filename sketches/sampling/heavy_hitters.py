"""The values with the largest shares, with intervals that hold for all values at once: listed, unlisted and unseen.

A list picks the largest of very many estimates, and the largest are often too large by chance. An interval that holds
for a value picked beforehand is therefore too narrow for one that the sample picked. Here the error probability α is
dealt out among *all* values of the stream in proportion to their true shares: a value of share s may be missed with
probability α·s. The shares add up to 1, so some value is missed with probability at most α, however many values there
are and whether or not the sample holds them. The true share is not known, but a limit is where it stops being possible:
the lower limit is the greatest s whose test at level α·s/2 rejects all that is smaller, and the upper one likewise.
Common values so get nearly the interval of a single question, and a value that was sampled once gets no more from
below than what the sampled event itself weighs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numba import njit

from sketches.arrays import Column, Floats, Rows
from sketches.errors import UnanswerableError
from sketches.estimate import Item
from sketches.events import Kind
from sketches.question import DEFAULT_TOP
from sketches.sampling.inquiry import Estimates, Inquiry
from sketches.sampling.intervals import Total, Unseen, share_between
from sketches.sampling.poisson_sample import PoissonSample
from sketches.sampling.quotients import divide

_STEPS_UP: Final = 8  # of a lower limit; each step is safe, and more of them change less than a thousandth
_STEPS_DOWN: Final = 3  # of an upper limit; it swings around its place, so an odd number ends on the safe side
_ONE_BY_ONE: Final = 2_000  # unlisted values whose limits are computed each by itself; the others share one


@dataclass(frozen=True)
class _Groups:
    """The decayed sums of every sampled value: its certain part, its sampled part, its variance, what its own rows
    weigh; and what an unseen event may count."""

    sums: Floats
    unseen: Unseen
    table_error: float

    def total(self, codes: Rows) -> Total:
        """The totals of some values."""
        certain, sampled, variance, _ = self.sums[:, codes]
        return Total(certain, sampled, variance, *self.unseen, self.table_error)

    @property
    def whole(self) -> Total:
        certain, sampled, variance, _ = self.sums.sum(axis=1)
        return Total(np.array([certain]), np.array([sampled]), np.array([variance]), *self.unseen, self.table_error)

    @property
    def masses(self) -> Floats:
        return np.asarray(self.sums[0] + self.sums[1])


def heavy_hitters(inquiry: Inquiry) -> Estimates:
    """The most frequent values, and the share that no value has which is not among them."""
    if len(inquiry.as_of) > 1:
        raise UnanswerableError("heavy-hitters is a list: ask for it at one as-of time")
    sample, decayed = inquiry.sample, inquiry.factors[0]
    distinct, codes = sample.groups
    used = np.array([np.count_nonzero(decayed.factors)])
    sums = _per_group(
        codes, sample.coefficients_by_time, sample.weights, decayed.factors, decayed.rows.start, len(distinct)
    )
    sums[3] /= max(1, int(sample.copy_numbers.max(initial=0)) + 1)  # copies may hold the same event
    groups = _Groups(sums, inquiry.unseen_unit, decayed.table_error)
    whole = groups.whole
    if whole.value[0] <= 0:
        nothing = 0.0 if whole.exact[0] else 1.0
        return Estimates(np.array([np.nan]), np.array([0.0]), np.array([1.0]), used, unlisted=nothing)
    order = np.argsort(-groups.masses, kind="stable")
    order = order[groups.masses[order] > 0]
    listed = order[: _length(inquiry, groups.masses[order] / whole.value[0])]
    return _listed(inquiry, groups, distinct, listed, order[len(listed) :], used)


def _length(inquiry: Inquiry, shares: Floats) -> int:
    """How many of the values, whose shares fall, are listed."""
    question, length = inquiry.question, len(shares)
    if question.phi is not None:
        least = max(question.phi - inquiry.share_error / 2.0, question.phi / 2.0)
        length = int(np.count_nonzero(shares >= least))
    if question.top is not None or question.phi is None:
        length = min(length, question.top or DEFAULT_TOP)
    return length


def _listed(inquiry: Inquiry, groups: _Groups, distinct: Column, listed: Rows, others: Rows, used: Rows) -> Estimates:
    tail = (1.0 - inquiry.confidence) / 2.0
    part, whole = groups.total(listed), groups.whole
    value = divide(part.value, np.broadcast_to(whole.value, part.value.shape), np.nan)
    if whole.exact[0]:
        lower = upper = value
        unlisted = float(groups.masses[others].max(initial=0.0) / whole.value[0])
    else:
        lower = np.fmin(_lower(part, groups.sums[3, listed], whole, tail), value)
        upper = np.fmax(_upper(part, whole, tail), value)
        rest = max(1.0 - float(lower.sum()), 0.0)  # all shares together are 1
        unlisted = min(_most_unlisted(groups, others, whole, tail), rest)
    items = tuple(
        Item(_readable(inquiry.sample, distinct[code]), float(v), float(low), float(high))
        for code, v, low, high in zip(listed, value, lower, upper, strict=True)
    )
    if not items:
        return Estimates(np.array([0.0]), np.array([0.0]), np.array([unlisted]), used, unlisted=unlisted)
    return Estimates(value[:1], lower[:1], upper[:1], used, items, unlisted)


def _lower(part: Total, own: Floats, whole: Total, tail: float) -> Floats:
    """Lower limits of shares, each missed with probability `tail` times the share.

    From below: while the limit is too small its tail is too, and the next limit is larger but never too large. A value
    weighs at least what its own sampled rows do.
    """
    rest = whole.without(part)
    own = np.maximum(own, part.certain)
    least = own / (own + rest.at_tail(tail * own / whole.value)[1])
    limit = least
    for _ in range(_STEPS_UP):
        tails = tail * limit
        limit = np.maximum(share_between(part, part.at_tail(tails), rest, rest.at_tail(tails))[0], least)
    return limit


def _upper(part: Total, whole: Total, tail: float) -> Floats:
    """Upper limits of shares, each missed with probability `tail` times the share.

    A limit that is too small has too large a tail, so the next one is too large: every second one is safe.
    """
    rest = whole.without(part)
    limit = np.maximum(part.value, np.broadcast_to(whole.unseen, part.value.shape)) / (whole.value + whole.unseen)
    for _ in range(_STEPS_DOWN):
        tails = tail * np.minimum(limit, 1.0)
        limit = share_between(part, part.at_tail(tails), rest, rest.at_tail(tails))[1]
    return limit


def _most_unlisted(groups: _Groups, others: Rows, whole: Total, tail: float) -> float:
    """The largest share that a value may have which is not listed: a sampled one, or one of which nothing was seen."""
    few, many = others[:_ONE_BY_ONE], others[_ONE_BY_ONE:]
    columns = [groups.sums[:3, few], np.zeros((3, 1))]
    if len(many):  # one that is at least as large as each of them in every respect
        columns.append(groups.sums[:3, many].max(axis=1, keepdims=True))
    certain, sampled, variance = np.concatenate(columns, axis=1)
    part = Total(certain, sampled, variance, *groups.unseen, groups.table_error)
    return float(np.minimum(_upper(part, whole, tail), 1.0).max())


@njit(cache=True, nogil=True)
def _per_group(codes: Rows, coefficients: Floats, weights: Rows, factors: Floats, start: int, groups: int) -> Floats:
    """For each group the certain part, the sampled part and the variance of its sum, and its own decayed weight."""
    sums = np.zeros((4, groups))
    for row in range(len(factors)):
        at, code, factor = start + row, codes[start + row], factors[row]
        sums[0, code] += coefficients[0, at] * factor
        sums[1, code] += coefficients[1, at] * factor
        sums[2, code] += coefficients[2, at] * factor * factor
        sums[3, code] += weights[at] * factor
    return sums


def _readable(sample: PoissonSample, value: np.generic) -> int | float | str:
    """A value as users know it: the text of a key, a whole number or a float."""
    if sample.kind is Kind.KEY:
        return sample.labels.text_of(int(value))
    return int(value) if sample.kind is Kind.INTEGER else float(value)
