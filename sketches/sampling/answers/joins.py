"""Self-join size of one sample and inner product of two: sums over pairs of events that share a value.

The square of an estimate is too large by the estimate's variance on average, so the variance is subtracted: Σ of
unbiased estimates of A_k², where A_k is the decayed weight of value k. The error has two parts: single events, each
multiplied by the rest of its group, and pairs of events. The upper limit adds the largest contribution that an unseen
event could have made, as for sums in `estimation.intervals`; here that is an event of the largest group.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sketches.arrays import Column, Floats, Ints, Rows
from sketches.errors import IncompatibleError
from sketches.sampling.estimation.horvitz_thompson import DecayFactors, largest_unseen
from sketches.sampling.estimation.inquiry import Estimates, Inquiry
from sketches.sampling.estimation.intervals import Total
from sketches.sampling.estimation.poisson_sample import PoissonSample
from sketches.sampling.estimation.quotients import deviation, divide


class _DecayedRows:
    """The rows that can count at the as-of time: y = w·f, its contribution x = y/π, and the variance x²·(1-π)."""

    def __init__(self, sample: PoissonSample, inquiry: Inquiry) -> None:
        decayed = DecayFactors.at(sample.times, int(inquiry.as_of[0]), inquiry.decay, sample.unit)
        self.rows, factors = decayed.rows, decayed.factors
        self.decayed_weights = sample.weights[self.rows] * factors
        self.contributions = sample.expanded_weights[self.rows] * factors
        self.exclusion_probabilities = sample.exclusion_probabilities[self.rows]
        self.variances = np.square(self.contributions) * self.exclusion_probabilities
        self.values: Column = sample.values[self.rows]
        self.sample = sample

    @property
    def groups(self) -> Rows:
        """For each row the number of its value."""
        return self.sample.groups[1][self.rows]

    def per_value(self, distinct: Column, numbers: Floats) -> Floats:
        """The sums of the rows' numbers for each of the distinct values."""
        return np.bincount(np.searchsorted(distinct, self.values), numbers, minlength=len(distinct)).astype(np.float64)

    def identity(self) -> NDArray[np.void]:
        """For each row a key of the event and of the copy in which it was sampled."""
        sample = self.sample
        columns = [
            sample.hashes[self.rows],
            sample.times[self.rows].view(np.uint64),
            self.values.view(np.uint64),
            sample.weights[self.rows].view(np.uint64),
            sample.copy_numbers[self.rows].astype(np.uint64),
        ]
        packed = np.ascontiguousarray(np.stack(columns, axis=1))
        return packed.view([("", np.uint64)] * len(columns)).reshape(-1)


class _Product(NamedTuple):
    """The estimate of a join, its variance, and what an unseen event or pair of events could have added."""

    value: float
    variance: float
    unseen: Floats

    def estimates(self, confidence: float, used: Ints) -> Estimates:
        value, variance = np.array([self.value]), np.array([self.variance])
        lower, _ = Total(np.zeros(1), value, variance, self.unseen, np.square(self.unseen)).bounds(confidence)
        events = divide(np.square(value), variance, 0.0)
        upper = value + deviation(variance, self.unseen, events, (1.0 - confidence) / 2.0)
        return Estimates(value, lower, upper, used)


def self_join(inquiry: Inquiry) -> Estimates:
    """Σ_k (Σ_{v = k} w·f)²."""
    decayed = _DecayedRows(inquiry.sample, inquiry)
    used = np.array([len(decayed.contributions)])
    if used[0] == 0:
        return _no_pairs(inquiry, used)
    codes = decayed.groups
    sums = np.bincount(codes, decayed.contributions)
    variances = np.bincount(codes, decayed.variances)
    rest_of_group = sums[codes] - decayed.contributions
    single = float((decayed.variances * np.square(2.0 * rest_of_group + decayed.decayed_weights)).sum())
    pairs = 2.0 * max(float(np.square(variances).sum() - np.square(decayed.variances).sum()), 0.0)
    value = float((np.square(sums) - variances).sum())
    event = largest_unseen(inquiry.sample, inquiry.decay, inquiry.as_of, "unit").contribution
    # One more event in the largest group, or a pair of events of which neither was seen.
    unseen = np.maximum(event * (2.0 * rest_of_group.max() + _own(event, inquiry, inquiry.sample)), 2.0 * event * event)
    product = _Product(value, _without_twice(single, pairs), unseen)
    return product.estimates(inquiry.confidence, used)


def _without_twice(single: float, pairs: float) -> float:
    """The variance of both parts. The rest of a group is itself an estimate, whose square is too large by its own
    variance: the part of single events so holds that of pairs twice too often, on average."""
    return max(single - pairs, single / 2.0)


def _own(event: Floats, inquiry: Inquiry, sample: PoissonSample) -> Floats:
    """What an unseen event may weigh itself: at most the heaviest event at its newest, or what it would have added."""
    heaviest = sample.greatest_weight * float(inquiry.decay(np.zeros(1))[0])
    return np.minimum(event, heaviest)


def inner_product(inquiry: Inquiry, other: PoissonSample) -> Estimates:
    """Σ_k (Σ_{v = k} w·f here)·(Σ_{v = k} w·f there); an event that both samples hold counts in both."""
    here = inquiry.sample
    if here.kind is not other.kind and len(here) and len(other):
        raise IncompatibleError(f"an inner product needs values of one kind, not {here.kind} and {other.kind}")
    left, right = _DecayedRows(here, inquiry), _DecayedRows(other, inquiry)
    used = np.array([len(left.contributions) + len(right.contributions)])
    if len(left.contributions) == 0 or len(right.contributions) == 0:
        return _no_pairs(inquiry, used, other)
    distinct = np.unique(np.concatenate([left.values, right.values]))
    left_sums, right_sums = (side.per_value(distinct, side.contributions) for side in (left, right))
    left_variances, right_variances = (side.per_value(distinct, side.variances) for side in (left, right))
    # Both samples keep a shared event by the same hash, so its own product is kept with probability min(π, π') and
    # counts 1/max(π, π') times on average instead of once.
    _, at_left, at_right = np.intersect1d(left.identity(), right.identity(), return_indices=True)
    exclusion = np.minimum(left.exclusion_probabilities[at_left], right.exclusion_probabilities[at_right])
    shared = left.contributions[at_left] * right.contributions[at_right] * exclusion
    value = float(left_sums @ right_sums - shared.sum())
    codes = np.searchsorted(distinct, left.values[at_left])
    single = (
        left_variances @ np.square(right_sums)
        + right_variances @ np.square(left_sums)
        + 2.0 * (shared * left_sums[codes] * right_sums[codes]).sum()
    )
    variance = _without_twice(float(single), float(left_variances @ right_variances))
    left_event = largest_unseen(here, inquiry.decay, inquiry.as_of, "unit").contribution
    right_event = largest_unseen(other, inquiry.decay, inquiry.as_of, "unit").contribution
    # One more event on either side meets the largest group of the other side.
    alone = np.maximum(
        left_event * (_rest(right) + _own(right_event, inquiry, other)),
        right_event * (_rest(left) + _own(left_event, inquiry, here)),
    )
    unseen = np.maximum(alone, left_event * right_event)
    return _Product(max(value, 0.0), variance, unseen).estimates(inquiry.confidence, used)


def _rest(side: _DecayedRows) -> float:
    """The largest sum of the rows of one value, but for one of its rows: a value sampled once tells of no group."""
    codes = side.groups
    return float((np.bincount(codes, side.contributions)[codes] - side.contributions).max(initial=0.0))


def _no_pairs(inquiry: Inquiry, used: Ints, other: PoissonSample | None = None) -> Estimates:
    """The estimate 0 of samples that hold no pair; unseen events may still have formed one."""
    unseen = np.square(largest_unseen(inquiry.sample, inquiry.decay, inquiry.as_of, "unit").contribution)
    if other is not None:
        unseen = unseen + np.square(largest_unseen(other, inquiry.decay, inquiry.as_of, "unit").contribution)
    return _Product(0.0, 0.0, 2.0 * unseen).estimates(inquiry.confidence, used)
