"""The shares of groups of events in one stretch of time against another, with intervals that hold for all at once.

In a Poisson sample the share of a group is estimated by its part of Σ y/π, and its interval comes from that of the part
and that of the rest (`sketches.sampling.estimation.intervals`). Where the events themselves are taken for a Poisson
process, which the sample thins, the variance of the same sum is Σ (y/π)² instead of Σ (y/π)²·(1-π), and an event that
might as well have come is as large as an unseen one: so the same gamma intervals allow for chance in what came.

Every column of a stream may be looked at, and each has as many groups as it likes: the columns share what may go wrong,
the two sides share that of a column, and `sketches.sampling.answers.dealt_limits` deals it out among groups. Only the
groups that look most different get limits; which these are costs nothing, because the intervals of all groups hold at
once.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from sketches.arrays import Floats, Ints, Rows
from sketches.changes import Mass, ShareChanges, Shares, Stretch
from sketches.records import dataclass
from sketches.sampling.answers.dealt_limits import dealt_lower, dealt_upper
from sketches.sampling.comparison.groupings import Grouping
from sketches.sampling.estimation.intervals import Total
from sketches.sampling.estimation.poisson_sample import PoissonSample
from sketches.sampling.estimation.quotients import divide

MOST_SHOWN: Final = 100  # groups of a column that get limits
_SMALLEST: Final = 1e-9  # of all: a share from which the search for a lower limit begins, where nothing is known surely


@dataclass(frozen=True)
class Side:
    """The sampled events of some stretches of time."""

    sample: PoissonSample  # with the weights by which events count
    stretches: Sequence[Stretch]
    shared: bool = False  # rows of one event may be in several groups: it has come, or not, in all of them at once

    @cached_property
    def rows(self) -> Rows:
        times = self.sample.times
        inside = np.zeros(len(times), bool)
        for begin, end in self.stretches:
            inside |= (times >= begin) & (times < end)
        return np.flatnonzero(inside)

    @cached_property
    def _columns(self) -> tuple[Floats, ...]:
        """Of each row: what was kept with certainty, all of it, its two variances, and what it counts by itself."""
        sample, rows = self.sample, self.rows
        expanded, excluded = sample.expanded_weights[rows], sample.exclusion_probabilities[rows]
        squared = np.square(expanded)
        copies = max(1, int(sample.copy_numbers.max(initial=0)) + 1)  # copies may hold the same event
        own = sample.weights[rows] / copies
        return np.where(excluded == 0.0, expanded, 0.0), expanded, squared * excluded, squared, own

    @cached_property
    def expanded(self) -> Floats:
        """What each row of the sample counts on this side."""
        found = np.zeros(len(self.sample))
        found[self.rows] = self._columns[1]
        return found

    def sums(self, grouping: Grouping) -> Floats:
        """The columns added up for each group."""
        codes, groups = grouping.codes[self.rows], grouping.groups
        return np.stack([np.bincount(codes, column, groups) for column in self._columns])

    @cached_property
    def groups_each(self) -> Ints:
        """In how many groups the event of each row is."""
        if not self.shared:
            return np.ones(len(self.rows), np.int64)
        _, event, groups = np.unique(self.sample.hashes[self.rows], return_inverse=True, return_counts=True)
        return np.asarray(groups[event])

    @property
    def whole(self) -> Floats:
        """The columns added up over all groups. What an event counts in k groups has k² times its variance, k of them
        for each of its rows."""
        certain, expanded, variance, squared, own = self._columns
        each = self.groups_each
        return np.array([[one.sum()] for one in (certain, expanded, variance * each, squared * each, own)])

    def unseen(self, complete_since: Ints | None) -> tuple[Floats, Floats]:
        """The most that an event which was not sampled counts, of each group or of any: over π, and its 1 - π."""
        strata = self.sample.strata
        design, excluded = strata.unit_design_weight, strata.unit_exclusion_probability
        if not len(design):
            nothing = np.zeros(1 if complete_since is None else len(complete_since))
            return nothing, nothing
        far = np.iinfo(np.int64).max
        ends, which = np.unique(np.array([far]) if complete_since is None else complete_since, return_inverse=True)
        there = np.zeros((len(ends), len(design)), bool)
        for begin, end in self.stretches:
            last = np.minimum(np.minimum(strata.newest, end - 1), ends[:, None])
            there |= np.maximum(strata.oldest, begin) <= last
        most = np.where(there, design, 0.0)
        largest = most.argmax(axis=1)
        contribution = most[np.arange(len(ends)), largest]
        return contribution[which], np.where(contribution > 0.0, excluded[largest], 0.0)[which]

    @property
    def largest(self) -> float:
        """The most that an event which might as well have come counts, where all events are kept."""
        sample = self.sample
        return float(max(sample.greatest_weight, sample.most_rows if sample.counts_rows else 1))

    def mass(self, confidence: float) -> Mass:
        """How much came."""
        certain, expanded, variance, *_ = (column.sum(keepdims=True) for column in self._columns)
        contribution, excluded = self.unseen(None)
        total = Total(certain, expanded - certain, variance, contribution, np.square(contribution) * excluded)
        lower, upper = total.bounds(confidence)
        return Mass(float(total.value[0]), float(lower[0]), float(upper[0]), len(self.rows))


class Compared(NamedTuple):
    """A column, with the events of both sides as its groups have them."""

    grouping: Grouping
    inside: Side
    outside: Side


def share_changes(columns: Sequence[Compared], confidence: float) -> tuple[ShareChanges, ...]:
    """For each column the groups that look most different, with limits that hold together, of all columns at once."""
    tail = (1.0 - confidence) / (4.0 * max(len(columns), 1))  # two sides, two ends of an interval
    return tuple(_changes(one, tail) for one in columns)


def _changes(compared: Compared, tail: float) -> ShareChanges:
    grouping, *sides = compared
    sums = [side.sums(grouping) for side in sides]
    chosen = _most_different(*sums)
    limited = [_limits(side, grouping, one, chosen, tail) for side, one in zip(sides, sums, strict=True)]
    seen = int(np.count_nonzero((sums[0][1] > 0.0) | (sums[1][1] > 0.0)))
    names = tuple(grouping.name(at) for at in chosen.tolist())
    return ShareChanges(
        grouping.column, names, limited[0].shares, limited[1].shares, seen, max(one.unseen for one in limited)
    )


def _most_different(inside: Floats, outside: Floats) -> Rows:
    """The groups whose shares differ most, and those that differ most for their error; in the order of groups."""
    shares, spreads = zip(*(_shares(sums) for sums in (inside, outside)), strict=True)
    there = (inside[1] > 0.0) | (outside[1] > 0.0)
    difference = np.where(there, np.abs(shares[0] - shares[1]), -1.0)
    spread = np.sqrt(spreads[0] + spreads[1])
    relative = np.where(there, divide(difference, spread, 0.0), -1.0)
    chosen = np.zeros(len(there), bool)
    for score in (difference, relative):
        few = min(MOST_SHOWN // 2, len(score))
        chosen[np.argpartition(-score, few - 1)[:few] if few else []] = True
    return np.flatnonzero(chosen & there)


def _shares(sums: Floats) -> tuple[Floats, Floats]:
    """The share of each group, and its variance if events come by chance."""
    whole, spread = sums[1].sum(), sums[3].sum()
    if whole <= 0.0:
        return np.zeros(sums.shape[1]), np.zeros(sums.shape[1])
    shares = sums[1] / whole
    return shares, np.maximum(sums[3] * (1.0 - 2.0 * shares) + np.square(shares) * spread, 0.0) / whole**2


class _Limited(NamedTuple):
    shares: Shares
    unseen: float


def _limits(side: Side, grouping: Grouping, sums: Floats, chosen: Rows, tail: float) -> _Limited:
    """The shares of the chosen groups on one side, with both intervals."""
    whole_sums, most_groups = side.whole, int(side.groups_each.max(initial=1))
    if whole_sums[1, 0] <= 0.0:
        unknown, zero, one = np.full(len(chosen), np.nan), np.zeros(len(chosen)), np.ones(len(chosen))
        return _Limited(Shares(unknown, zero, one, zero, one), 1.0)
    contribution, excluded = side.unseen(grouping.complete_since)
    of_chosen = contribution[chosen] if grouping.complete_since is not None else contribution
    spread = np.square(contribution) * excluded
    spread_of_chosen = spread[chosen] if grouping.complete_since is not None else spread
    largest = int(contribution.argmax())
    certain, expanded, variance, by_chance, own = sums[:, chosen]
    part = Total(certain, expanded - certain, variance, of_chosen, spread_of_chosen)
    whole = Total(
        whole_sums[0],
        whole_sums[1] - whole_sums[0],
        whole_sums[2],
        most_groups * contribution[[largest]],
        most_groups**2 * spread[[largest]],
    )
    value = expanded / whole_sums[1]
    if whole.exact[0]:
        lower = upper = value
    else:
        lower = np.fmin(dealt_lower(part, own, whole, tail), value)
        upper = np.fmax(dealt_upper(part, whole, tail), value)
    free, free_whole = (
        Total(np.zeros_like(mass), mass, squares, most, np.square(most))
        for mass, squares, most in (
            (expanded, by_chance, np.maximum(of_chosen, side.largest)),
            (whole_sums[1], whole_sums[3], most_groups * np.maximum(contribution[[largest]], side.largest)),
        )
    )
    least = np.fmin(dealt_lower(free, np.full(len(chosen), _SMALLEST * whole_sums[1, 0]), free_whole, tail), lower)
    most = np.fmax(dealt_upper(free, free_whole, tail), upper)
    zero = np.zeros(1)
    nothing = Total(zero, zero, zero, contribution[[largest]], spread[[largest]])
    unseen = 0.0 if whole.exact[0] else float(np.minimum(dealt_upper(nothing, whole, tail), 1.0)[0])
    limits = (np.clip(limit, 0.0, 1.0) for limit in (lower, upper, least, most))
    return _Limited(Shares(value, *limits), unseen)
