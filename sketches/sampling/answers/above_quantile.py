"""Sums, counts, means and shares over the events above a quantile: the rank of τ is known, only its value is not.

By definition the events below the φ-quantile τ have a share just short of φ. A sample that holds too many of them puts
its own quantile too low, and then sums over too many events above. So the error of a sum above the sample's quantile
is, to first order, that of one sum over all events: each counts y if it is above τ, and besides r·(1[below τ] - φ)
times its own mass x, where r is how much y there is for each x at τ. Both parts vary together, which is why the
interval is far narrower than one for τ joined with one for the sum. (This is the influence function of a quantile:
Serfling, Approximation Theorems of Mathematical Statistics, 1980, Chapter 6.)

What has exactly the value τ is on neither side. It adds at most r times the mass of that value, a tie, to the answer.

r is a mean over all events that τ may lie among. Where few of them are heavy, the sum above does not change evenly
from one to the next: it jumps. How far it is from even, at the worst place that τ may have, is read off the sample and
added.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from sketches.arrays import Flags, Floats, Rows, ranges
from sketches.sampling.estimation.horvitz_thompson import Sums
from sketches.sampling.estimation.inquiry import Estimates, Inquiry
from sketches.sampling.estimation.poisson_sample import PoissonSample
from sketches.sampling.estimation.quotients import deviation, divide
from sketches.sampling.estimation.ratios import noticed
from sketches.special_functions import ndtri

_ROUNDING: Final = 1e-12  # a cumulated share this close below φ has reached it
_AT_ONCE: Final = 1 << 18  # events between the limits of τ that are looked at together


class Around(NamedTuple):
    """Sums over the events above the lower limit of the threshold, above its estimate, above its upper limit."""

    many: Sums
    middle: Sums
    few: Sums


class Taus(NamedTuple):
    """The threshold at each as-of time with its limits; infinite where nothing counts."""

    low: Floats
    middle: Floats
    high: Floats

    @property
    def certain(self) -> Flags:
        return np.equal(self.low, self.high)


class _Moments(NamedTuple):
    """Of two measures y and x of each event: their sums, and variances and covariance of these sums."""

    y: Floats
    x: Floats
    yy: Floats
    xx: Floats
    yx: Floats

    @classmethod
    def of(cls, sums: Sums) -> _Moments:
        """From the sums of `Inquiry.mean_coefficients`."""
        y, x = (sums.linear[:, at] + sums.linear[:, at + 1] for at in (0, 2))
        return cls(y, x, *sums.squared.T[:3])

    def less(self, part: _Moments) -> _Moments:
        """Those of the other events."""
        return _Moments(*(np.maximum(whole - some, 0.0) for whole, some in zip(self, part, strict=True)))

    def variance(self, of_y: Floats | float, of_x: Floats | float) -> Floats:
        """The variance of a sum that counts y and x so many times."""
        spread = np.square(of_y) * self.yy + 2.0 * of_y * of_x * self.yx + np.square(of_x) * self.xx
        return np.maximum(spread, 0.0)


def counts_above(inquiry: Inquiry, phi: float, around: Around, ties: Floats) -> Estimates:
    """What is counted above the quantile of the same mass: 1 - φ of all, and at most the tie."""
    whole, used = inquiry.weight()
    value = around.middle.linear[:, 0] + around.middle.linear[:, 1]
    if inquiry.question.aggregate == "selectivity":
        least = (1.0 - phi) * (1.0 - _ROUNDING) * np.ones(len(value))
        most = np.minimum(1.0 - phi + divide(ties, whole.bounds(inquiry.confidence)[0], 1.0), 1.0)
        return Estimates(np.clip(divide(value, whole.value, np.nan), least, most), least, most, used)
    lower, upper = whole.bounds(inquiry.confidence)
    least, most = (1.0 - phi) * lower, (1.0 - phi) * upper + ties
    return Estimates(np.clip(value, least, most), least, most, around.middle.used)


class AboveQuantile:
    """The sums of one question above the quantile, y being what is summed or averaged and x what the rank counts."""

    def __init__(self, inquiry: Inquiry, phi: float, taus: Taus, around: Around, whole: Sums, ties: Floats) -> None:
        question = inquiry.question
        self.inquiry, self.phi, self.taus, self.ties, self.sums = inquiry, phi, taus, ties, around.middle
        self.by_top = question.by_weight and not question.of_value  # the rank counts what is summed, not the events
        many, above, few = (_Moments.of(part) for part in around)
        everything = _Moments.of(whole)
        self.above, self.below = above, everything.less(above)
        rank = "y" if self.by_top else "x"
        between = getattr(many, rank) - getattr(few, rank)
        self.top_at_tau = divide(many.y - few.y, between, 0.0)  # r: how much y for each unit of rank at τ
        self.bottom_at_tau = divide(many.x - few.x, between, 0.0)
        if question.of_value and inquiry.sample.measures is None:
            base, scale = inquiry.mean_scale
            self.top_at_tau, self.bottom_at_tau = (taus.middle - base) / scale, np.ones(len(ties))
        ranked = getattr(above, rank), getattr(everything, rank)
        self.surplus = np.maximum(ranked[0] - (1.0 - phi) * ranked[1], 0.0)  # of the tie at the sample's quantile
        sampled = around.middle.linear[:, 3], whole.linear[:, 3] - around.middle.linear[:, 3]
        self.events = [
            divide(np.square(mass), part.xx, 0.0) for mass, part in zip(sampled, (above, self.below), strict=True)
        ]
        self.unseen_rank = inquiry.unseen_unit.contribution if self.by_top else self._unseen_event

    @property
    def _unseen_event(self) -> Floats:
        of_value = self.inquiry.question.of_value
        return (self.inquiry.unseen_unit if of_value else self.inquiry.unseen_event).contribution

    def answer(self) -> Estimates:
        """The sum or mean that is asked for."""
        question, sample = self.inquiry.question, self.inquiry.sample
        if question.aggregate != "correlated-mean":
            found = self.values() if question.of_value else self.weight()
        elif question.of_value:
            base, scale = self.inquiry.mean_scale
            above = (self.taus.low - base) / scale if sample.measures is None else np.zeros(1)
            mean = self.mean(above, np.ones(1))
            value, lower, upper = (base + scale * limit for limit in (mean.value, mean.lower, mean.upper))
            lost = noticed(abs(base) + np.abs(value - base), value)
            found = Estimates(value, lower - lost, upper + lost, mean.used)
        else:
            found = self.mean(np.array([float(sample.least_weight)]), np.array([float(sample.greatest_weight)]))
        error = 2.0 * np.asarray(self.sums.table_error)
        lower, upper = (limit - side * error * np.abs(limit) for limit, side in ((found.lower, 1), (found.upper, -1)))
        return replace(found, lower=np.fmin(lower, found.value), upper=np.fmax(upper, found.value))

    def weight(self) -> Estimates:
        """Σ w over the events above τ, where the rank counts events."""
        rate = self.top_at_tau
        more = np.maximum(self.inquiry.unseen_unit.contribution, rate * (1.0 - self.phi) * self.unseen_rank)
        found = self._total(1.0, 0.0, rate, more, rate * self.phi * self.unseen_rank)
        return replace(found, lower=np.maximum(found.lower, 0.0))

    def values(self) -> Estimates:
        """Σ v over the events above τ, or the sum of another column."""
        base, scale = self.inquiry.mean_scale
        _, least, greatest = self.inquiry.sample.summed
        own = self.inquiry.sample.measures is None
        rate = self.taus.middle if own else base + scale * self.top_at_tau
        below = (1.0 - self.phi) * rate
        most = np.maximum(greatest - self.phi * rate, below)
        fewest = below if own else np.minimum(least - self.phi * rate, below)
        more, fewer = (np.maximum(side, 0.0) * self.unseen_rank for side in (most, -fewest))
        found = self._total(scale, base, rate, more, fewer)
        lost = noticed(scale * self.above.y + (abs(base) + np.abs(rate)) * self.above.x, found.value)
        return replace(found, lower=found.lower - lost, upper=found.upper + lost)

    def _total(self, of_y: float, of_x: float, rate: Floats, more: Floats, fewer: Floats) -> Estimates:
        """A sum above τ; `more` and `fewer` are what an unseen event may add to it or take away."""
        value = of_y * self.above.y + of_x * self.above.x
        middle = value - rate * self.surplus
        spread = self._spread(of_y, of_x, rate)
        tie = rate * self.ties
        down, up = self._jumps(of_y, of_x, rate)
        lower = middle - self._deviation(spread, fewer) + np.minimum(tie, 0.0) + down
        upper = middle + self._deviation(spread, more) + np.maximum(tie, 0.0) + up
        return Estimates(value, lower, upper, self.sums.used)

    def mean(self, least: Floats, most: Floats) -> Estimates:
        """Σ y / Σ x over the events above τ, which lies between `least` and `most`."""
        value = divide(self.above.y, self.above.x, np.nan)
        at = np.where(np.isnan(value), 0.0, value)
        rate = self.top_at_tau - at * self.bottom_at_tau
        spread = self._spread(1.0, -at, rate)
        up, down = np.maximum(rate, 0.0) * self.unseen_rank, np.maximum(-rate, 0.0) * self.unseen_rank
        greatest = np.minimum(
            self._unseen_event * (most - at), self.inquiry.unseen_unit.contribution * (1.0 - divide(at, most, 0.0))
        )
        more = np.maximum(np.maximum(greatest, 0.0) + self.phi * down, (1.0 - self.phi) * up)
        fewer = np.maximum(np.maximum(self._unseen_event * (at - least), 0.0) + self.phi * up, (1.0 - self.phi) * down)
        mass = np.where(self.above.x > 0, self.above.x, 1.0)
        middle = value - rate * self.surplus / mass
        least_jump, most_jump = self._jumps(1.0, -at, rate)
        lower = middle - (self._deviation(spread, fewer) - np.minimum(rate, 0.0) * self.ties - least_jump) / mass
        upper = middle + (self._deviation(spread, more) + np.maximum(rate, 0.0) * self.ties + most_jump) / mass
        return Estimates(value, np.clip(lower, least, most), np.clip(upper, least, most), self.sums.used)

    def _jumps(self, of_y: float, of_x: Floats | float, rate: Floats) -> tuple[Floats, Floats]:
        """How far below and above what the rate says the sum above τ may be, at any place between τ's limits."""
        inquiry, times = self.inquiry, len(self.ties)
        least, most, from_middle = np.zeros((3, times))
        of_x = np.broadcast_to(of_x, times)
        linear = inquiry.mean_coefficients.linear
        y, x = linear[0] + linear[1], linear[2] + linear[3]
        ranked = y if self.by_top else x
        for near in _near(inquiry, inquiry.sample, self.taus):
            at, rows = near.times, near.rows
            uneven = (of_y * y[rows] + of_x[at] * x[rows] - rate[at] * ranked[rows]) * near.factors
            from_middle += np.bincount(at, uneven * (near.values >= self.taus.middle[at]), times)
            size = np.maximum(np.bincount(at, np.abs(uneven), times), np.finfo(np.float64).tiny)
            up_to = np.append(0.0, np.cumsum(uneven / size[at]))  # small times keep their digits beside large ones
            of_values, ends = at[near.begins], np.cumsum(np.bincount(at, minlength=times))
            from_each = (up_to[ends[of_values]] - up_to[near.begins]) * size[of_values]
            np.minimum.at(least, of_values, from_each)
            np.maximum.at(most, of_values, from_each)
        return least - from_middle, most - from_middle

    def _spread(self, of_y: Floats | float, of_x: Floats | float, rate: Floats) -> _Spread:
        """Of the sum that counts an event above τ by these factors, and every event by the rate for its rank."""
        above, below = -self.phi * rate, (1.0 - self.phi) * rate
        if self.by_top:
            parts = self.above.variance(of_y + above, of_x), self.below.variance(below, 0.0)
        else:
            parts = self.above.variance(of_y, of_x + above), self.below.variance(0.0, below)
        variance = parts[0] + parts[1]
        events = divide(parts[0] * self.events[0] + parts[1] * self.events[1], variance, 1.0)
        return _Spread(variance, np.maximum(events, 1.0))

    def _deviation(self, spread: _Spread, unseen: Floats) -> Floats:
        return deviation(spread.variance, unseen, spread.events, (1.0 - self.inquiry.confidence) / 2.0)


class _Spread(NamedTuple):
    """A variance, and how many sampled events it comes from."""

    variance: Floats
    events: Floats


class _Near(NamedTuple):
    """The events between the limits of τ at some times, time by time and by value: rows, f of their ages, and where
    each value begins."""

    times: Rows
    rows: Rows
    values: Floats
    factors: Floats
    begins: Rows


def _near(inquiry: Inquiry, sample: PoissonSample, taus: Taus) -> Iterator[_Near]:
    """Some times after the other, of which all have events between the limits."""
    firsts = np.searchsorted(sample.sorted_values, taus.low, "left")
    lasts = np.maximum(np.searchsorted(sample.sorted_values, taus.high, "right"), firsts)
    edges = np.flatnonzero(np.diff(np.cumsum(lasts - firsts) // _AT_ONCE, prepend=-1))
    for start, stop in zip(edges.tolist(), [*edges[1:].tolist(), len(firsts)], strict=True):
        ranks, which = ranges(firsts[start:stop], lasts[start:stop])
        rows, times = sample.by_value[ranks], which + start
        ages = inquiry.as_of[times] - sample.times[rows]
        counts = np.flatnonzero(ages >= 0)
        rows, times, values = rows[counts], times[counts], sample.sorted_values[ranks[counts]]
        factors = inquiry.decay(sample.unit.seconds(ages[counts]))
        new = np.ones(len(rows), bool)
        new[1:] = (np.diff(values) != 0.0) | (np.diff(times) != 0)
        if len(rows):
            yield _Near(times, rows, values, factors, np.flatnonzero(new))


def largest_ties(inquiry: Inquiry, counted: PoissonSample, taus: Taus) -> tuple[Floats, Floats]:
    """At each time the most that the events of one value between the limits of τ weigh, and what all there weigh.

    A value that was sampled once is taken as it is: where values have many events each, others there were sampled
    more often.
    """
    deviations = -float(ndtri((1.0 - inquiry.confidence) / 2.0))
    found, between = np.zeros((2, len(inquiry.as_of)))
    for near in _near(inquiry, counted, taus):
        masses = counted.expanded_weights[near.rows] * near.factors
        variances = np.square(masses) * counted.exclusion_probabilities[near.rows]
        others = np.add.reduceat(variances, near.begins) - np.maximum.reduceat(variances, near.begins)
        ties = np.add.reduceat(masses, near.begins) + deviations * np.sqrt(np.maximum(others, 0.0))
        between += np.bincount(near.times, masses, len(between))
        np.maximum.at(found, near.times[near.begins], ties)
    return found, between
