"""Self-join size of a sample and inner product of two: sums over pairs of events that share a value.

Squares of estimates are too large by their variance, so that is taken out again (Σ of unbiased estimates of A_k²). The
error has two parts: events weighed by the rest of their group, and pairs. The upper limit adds the largest contribution
that an event nobody saw could have made, as for sums in `sketches.intervals`: by joining the largest group.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sketches.asked import Answer, Asked
from sketches.drawn import Drawn
from sketches.errors import IncompatibleError
from sketches.events import Column
from sketches.intervals import Total
from sketches.totals import fade, unseen

Floats = NDArray[np.float64]


class _Faded:
    """The rows that count at the as-of time: contribution x = y/π, its variance x²·(1-π), and sums per value."""

    def __init__(self, drawn: Drawn, asked: Asked) -> None:
        faded = fade(drawn.times, int(asked.as_of[0]), asked.decay, drawn.unit)
        self.rows, fading = faded.rows, faded.weights
        self.slack = 4.0 * faded.slack  # a product of two sums, each off by this much at most
        self.own = drawn.weights[self.rows] * fading
        self.amount = drawn.amounts[self.rows] * fading
        self.doubt = drawn.doubt[self.rows]
        self.variance = np.square(self.amount) * self.doubt
        self.values: Column = drawn.values[self.rows]
        self.drawn = drawn

    def per_value(self, distinct: Column, coefficients: Floats) -> Floats:
        return np.bincount(np.searchsorted(distinct, self.values), coefficients, minlength=len(distinct)).astype(
            np.float64
        )

    def identity(self) -> NDArray[np.void]:
        """One key per row that says which event it is and in which copy it was sampled."""
        drawn = self.drawn
        columns = [
            drawn.hashes[self.rows],
            drawn.times[self.rows].view(np.uint64),
            self.values.view(np.uint64),
            drawn.weights[self.rows].view(np.uint64),
            drawn.copy[self.rows].astype(np.uint64),
        ]
        packed = np.ascontiguousarray(np.stack(columns, axis=1))
        return packed.view([("", np.uint64)] * len(columns)).reshape(-1)


def self_join(asked: Asked) -> Answer:
    """Σ_k (Σ_{v = k} w·f)²."""
    faded = _Faded(asked.drawn, asked)
    used = np.array([len(faded.amount)])
    if used[0] == 0:
        return _nothing(asked, used)
    _, codes = np.unique(faded.values, return_inverse=True)
    sums = np.bincount(codes, faded.amount)
    variances = np.bincount(codes, faded.variance)
    others = sums[codes] - faded.amount
    single = (faded.variance * np.square(2.0 * others + faded.own)).sum()
    pairs = 2.0 * max(float(np.square(variances).sum() - np.square(faded.variance).sum()), 0.0)
    value = float((np.square(sums) - variances).sum())
    most = unseen(asked.drawn, asked.decay, asked.as_of, "weight")[0]
    most = most * (2.0 * sums.max() + most)  # one more event in the largest group
    found = Total(np.zeros(1), np.array([value]), np.array([single + pairs]), most, np.square(most), faded.slack)
    return Answer(found.value, *found.bounds(asked.confidence), used)


def inner_product(asked: Asked, other: Drawn) -> Answer:
    """Σ_k (Σ_{v = k} w·f here)·(Σ_{v = k} w·f there); an event that both sides hold counts on both."""
    here = asked.drawn
    if here.kind is not other.kind and len(here) and len(other):
        raise IncompatibleError(f"an inner product needs values of one kind, not {here.kind} and {other.kind}")
    left, right = _Faded(here, asked), _Faded(other, asked)
    used = np.array([len(left.amount) + len(right.amount)])
    if len(left.amount) == 0 or len(right.amount) == 0:
        return _nothing(asked, used, other)
    distinct = np.unique(np.concatenate([left.values, right.values]))
    left_sums, right_sums = (side.per_value(distinct, side.amount) for side in (left, right))
    left_variances, right_variances = (side.per_value(distinct, side.variance) for side in (left, right))
    # An event on both sides was sampled there by one and the same hash: its own product is expected 1/max(π, π') times.
    _, at_left, at_right = np.intersect1d(left.identity(), right.identity(), return_indices=True)
    shared = left.amount[at_left] * right.amount[at_right] * np.minimum(left.doubt[at_left], right.doubt[at_right])
    value = float(left_sums @ right_sums - shared.sum())
    codes = np.searchsorted(distinct, left.values[at_left])
    variance = (
        left_variances @ np.square(right_sums)
        + right_variances @ np.square(left_sums)
        + left_variances @ right_variances
        + 2.0 * (shared * left_sums[codes] * right_sums[codes]).sum()
    )
    most_left = unseen(here, asked.decay, asked.as_of, "weight")[0]
    most_right = unseen(other, asked.decay, asked.as_of, "weight")[0]
    # one more event on either side meets the largest group of the other
    most = np.maximum(most_left * (right_sums.max() + most_right), most_right * (left_sums.max() + most_left))
    slack = max(left.slack, right.slack)
    found = Total(np.zeros(1), np.array([max(value, 0.0)]), np.array([float(variance)]), most, np.square(most), slack)
    return Answer(found.value, *found.bounds(asked.confidence), used)


def _nothing(asked: Asked, used: NDArray[np.int64], other: Drawn | None = None) -> Answer:
    most = np.square(unseen(asked.drawn, asked.decay, asked.as_of, "weight")[0])
    if other is not None:
        most = most + np.square(unseen(other, asked.decay, asked.as_of, "weight")[0])
    found = Total(np.zeros(1), np.zeros(1), np.zeros(1), 2.0 * most, np.square(2.0 * most))
    return Answer(found.value, *found.bounds(asked.confidence), used)
