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

from sketches.arrays import Column, Floats, Ints, Rows, distinct_sorted
from sketches.errors import IncompatibleError
from sketches.sampling.estimation.counting_rows import CountingRows, span
from sketches.sampling.estimation.horvitz_thompson import largest_unseen
from sketches.sampling.estimation.inquiry import Estimates, Inquiry
from sketches.sampling.estimation.intervals import Total
from sketches.sampling.estimation.poisson_sample import PoissonSample
from sketches.sampling.estimation.quotients import deviation, divide


class _Decayed:
    """The rows that count at each as-of time: y = w·f, the contribution x = y/π, and the variance x²·(1-π); and the
    sums of x and of its variance for each as-of time and value."""

    def __init__(self, sample: PoissonSample, inquiry: Inquiry, codes: Rows, values: int) -> None:
        self.counting = CountingRows.of(sample, inquiry)
        rows, at, factors, _ = self.counting
        shape = len(inquiry.as_of), values
        self.weights = sample.weights[rows] * factors
        contributions = sample.expanded_weights[rows] * factors
        self.variances = np.square(contributions) * sample.exclusion_probabilities[rows]
        groups = at * values + codes[rows]
        self.sums, self.variances_by_value = (
            np.bincount(groups, column, shape[0] * shape[1]).astype(np.float64).reshape(shape)
            for column in (contributions, self.variances)
        )
        self.rest = self.sums.ravel()[groups] - contributions  # of each row's value, but for the row

    @property
    def largest_rest(self) -> Floats:
        """At each as-of time; a value sampled once tells of no group."""
        return self.counting.largest(self.rest)


class _Product(NamedTuple):
    """At each as-of time the estimate of a join, its variance, and what an unseen event or pair could have added."""

    value: Floats
    variance: Floats
    unseen: Floats

    def estimates(self, confidence: float, used: Ints) -> Estimates:
        value, variance, unseen = self
        lower, _ = Total(np.zeros(len(value)), value, variance, unseen, np.square(unseen)).bounds(confidence)
        events = divide(np.square(value), variance, 0.0)
        upper = value + deviation(variance, unseen, events, (1.0 - confidence) / 2.0)
        return Estimates(value, lower, upper, used)


def self_join(inquiry: Inquiry) -> Estimates:
    """Σ_k (Σ_{v = k} w·f)², at all as-of times."""
    return Estimates.joined([_self_join(some) for some in inquiry.in_parts()])


def _self_join(inquiry: Inquiry) -> Estimates:
    values, codes = inquiry.sample.groups
    decayed = _Decayed(inquiry.sample, inquiry, codes, len(values))
    counting, variances = decayed.counting, decayed.variances_by_value
    single = counting.added(decayed.variances * np.square(2.0 * decayed.rest + decayed.weights))
    pairs = 2.0 * np.maximum(_squared(variances) - counting.added(np.square(decayed.variances)), 0.0)
    value = _squared(decayed.sums) - variances.sum(axis=1)
    event = largest_unseen(inquiry.sample, inquiry.decay, inquiry.as_of, "unit").contribution
    # One more event in the largest group, or a pair of events of which neither was seen.
    own = _own(event, inquiry, inquiry.sample)
    unseen = np.maximum(event * (2.0 * decayed.largest_rest + own), 2.0 * np.square(event))
    return _Product(value, _without_twice(single, pairs), unseen).estimates(inquiry.confidence, counting.used)


def _squared(sums: Floats) -> Floats:
    return np.asarray(np.square(sums).sum(axis=1))


def _without_twice(single: Floats, pairs: Floats) -> Floats:
    """The variance of both parts. The rest of a group is itself an estimate, whose square is too large by its own
    variance: the part of single events so holds that of pairs twice too often, on average."""
    return np.maximum(single - pairs, single / 2.0)


def _own(event: Floats, inquiry: Inquiry, sample: PoissonSample) -> Floats:
    """What an unseen event may weigh itself: at most the heaviest event at its newest, or what it would have added."""
    heaviest = sample.greatest_weight * float(inquiry.decay(np.zeros(1))[0])
    return np.minimum(event, heaviest)


def inner_product(inquiry: Inquiry, other: PoissonSample) -> Estimates:
    """Σ_k (Σ_{v = k} w·f here)·(Σ_{v = k} w·f there), at all as-of times; an event that both samples hold counts in
    both."""
    here = inquiry.sample
    if here.kind is not other.kind and len(here) and len(other):
        raise IncompatibleError(f"an inner product needs values of one kind, not {here.kind} and {other.kind}")
    shared = _shared(here, other, inquiry)
    return Estimates.joined([_inner_product(some, other, shared) for some in inquiry.in_parts(len(other))])


def _inner_product(inquiry: Inquiry, other: PoissonSample, shared: tuple[Rows, Rows]) -> Estimates:
    here = inquiry.sample
    distinct = distinct_sorted(np.concatenate([here.groups[0], other.groups[0]]))
    here_codes, there_codes = (np.searchsorted(distinct, side.groups[0])[side.groups[1]] for side in (here, other))
    left = _Decayed(here, inquiry, here_codes, len(distinct))
    right = _Decayed(other, inquiry, there_codes, len(distinct))
    # Both samples keep a shared event by the same hash, so its own product is kept with probability min(π, π') and
    # counts 1/max(π, π') times on average instead of once.
    both = CountingRows.of(here, inquiry, shared[0])
    at_left, at_right = (side[both.rows] for side in shared)
    exclusion = np.minimum(here.exclusion_probabilities[at_left], other.exclusion_probabilities[at_right])
    twice = here.expanded_weights[at_left] * other.expanded_weights[at_right] * np.square(both.factors) * exclusion
    value = (left.sums * right.sums).sum(axis=1) - both.added(twice)
    groups = both.at, here_codes[at_left]
    single = (left.variances_by_value * np.square(right.sums) + right.variances_by_value * np.square(left.sums)).sum(
        axis=1
    ) + 2.0 * both.added(twice * left.sums[groups] * right.sums[groups])
    variance = _without_twice(single, (left.variances_by_value * right.variances_by_value).sum(axis=1))
    left_event, right_event = (
        largest_unseen(side, inquiry.decay, inquiry.as_of, "unit").contribution for side in (here, other)
    )
    # One more event on either side meets the largest group of the other side.
    alone = np.maximum(
        left_event * (right.largest_rest + _own(right_event, inquiry, other)),
        right_event * (left.largest_rest + _own(left_event, inquiry, here)),
    )
    nothing = (left.counting.used == 0) | (right.counting.used == 0)  # of one side; unseen events may form a pair
    none_seen = 2.0 * (np.square(left_event) + np.square(right_event))
    unseen = np.where(nothing, none_seen, np.maximum(alone, left_event * right_event))
    used = left.counting.used + right.counting.used
    return _Product(np.maximum(value, 0.0), variance, unseen).estimates(inquiry.confidence, used)


def _shared(here: PoissonSample, other: PoissonSample, inquiry: Inquiry) -> tuple[Rows, Rows]:
    """The rows of both samples that are of one event in one copy, by number, in the order of time."""
    spans = [span(sample, inquiry) for sample in (here, other)]
    left, right = (_identity(sample, span) for sample, span in zip((here, other), spans, strict=True))
    _, at_left, at_right = np.intersect1d(left, right, return_indices=True)
    order = np.argsort(at_left)
    return at_left[order] + spans[0].start, at_right[order] + spans[1].start


def _identity(sample: PoissonSample, rows: slice) -> NDArray[np.void]:
    """For each row a key of the event and of the copy in which it was sampled."""
    values: Column = sample.values[rows]
    columns = [
        sample.hashes[rows],
        sample.times[rows].view(np.uint64),
        values.view(np.uint64),
        sample.weights[rows].view(np.uint64),
        sample.copy_numbers[rows].astype(np.uint64),
    ]
    packed = np.ascontiguousarray(np.stack(columns, axis=1))
    return packed.view([("", np.uint64)] * len(columns)).reshape(-1)
