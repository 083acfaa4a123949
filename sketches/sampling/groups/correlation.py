"""How much of their chance two answers about the same groups share: the correlation of the two estimates of each group.

An estimate is off because each kept event stands for 1/π events: it is off by Σ ψ less what that is on average, where
ψ = f·(a - m·b)/π is by how much the event moves it. For a sum a is what is added up, and there is no b; for a mean or a
share m a is the part that an event adds above, b the one below; for a quantile m is φ, and a is b where the value is at
most the quantile. With exact totals only what they leave over moves a sum (`leaned_groups`). The covariance of two
estimates is Σ (1 - π)·ψ·ψ'.

Where few events were sampled, they cannot tell how much of their chance two answers share. So k more are added that
were not, each as large as the largest seen, at the time at which the two decays differ most. With k = (log tail / z)²,
where z is the quantile of the normal distribution, the limits of a difference in which no sampled event takes part are
those of a Poisson count of which none was seen.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np

from sketches.arrays import Floats, Rows
from sketches.differences import UNKNOWN
from sketches.sampling.answers.estimators import rows_of_share
from sketches.sampling.answers.ratio_of_sums import parts_of_ratio
from sketches.sampling.groups.grouped_inquiry import GroupedInquiry
from sketches.sampling.groups.grouped_quantiles import grouped_quantiles
from sketches.sampling.groups.leaned_groups import leaned_factors, leaning_groups
from sketches.sampling.totals.known_totals import KnownTotals
from sketches.special_functions import ndtri

_NOT_ALIKE: Final = 0.5  # of an event that is in one answer alone
_MOMENTS: Final = 500  # at which the decays are compared
_QUANTILES: Final = frozenset({"quantile", "median"})
_SHARES: Final = frozenset({"selectivity", "rank", "frequency", "range-frequency"})


class Moves(NamedTuple):
    """What each row adds to its group's estimate for each unit of f: a - m·b over π; and f of each."""

    inquiry: GroupedInquiry  # about the rows that have a part in the answer
    each: Floats
    factors: Floats

    @property
    def plain(self) -> Floats:
        """ψ of each row."""
        return self.each * self.factors

    def leaned(self, known: KnownTotals) -> Floats:
        """The same of an estimate that leans on these totals."""
        return self.each * leaned_factors(self.inquiry, known)


def correlation(one: GroupedInquiry, other: GroupedInquiry) -> Floats:
    """That of the two answers of each group; -1 where nothing is known of it."""
    if not _known(one):
        return np.full(one.groups, UNKNOWN)
    first, second = moves(one), moves(other)
    plain = _correlated(first, first.plain, second.plain, _least_alike(one, other))
    leans, leans_too, known = leaning_groups(one), leaning_groups(other), one.sample.totals
    if leans is None or leans_too is None or known is None:
        return plain
    leaned = _correlated(first, first.leaned(known), second.leaned(known), _NOT_ALIKE)
    either = np.minimum(np.minimum(plain, leaned), 0.0)
    return np.where(leans & leans_too, leaned, np.where(leans | leans_too, either, plain))


def correlation_of_all(one: GroupedInquiry, other: GroupedInquiry, known: KnownTotals | None) -> float:
    """That of two answers about all events as one group, which may lean on totals or not: the lesser of both."""
    if not _known(one):
        return UNKNOWN
    first, second = moves(one), moves(other)
    found = _correlated(first, first.plain, second.plain, _least_alike(one, other))
    if known is not None and len(known.slices) and len(first.each):
        leaned = _correlated(first, first.leaned(known), second.leaned(known), _NOT_ALIKE)
        found = np.minimum(found, leaned)
    return float(found[0])


def _known(inquiry: GroupedInquiry) -> bool:
    """Whether it is known by how much an event moves the answer."""
    question = inquiry.question
    averaged = _SHARES | _QUANTILES | {"sum", "count", "mean", "ratio", "range-sum"}
    return question.threshold is None and (
        question.aggregate in averaged or question.aggregate.startswith("correlated-")
    )


def _correlated(moves: Moves, one: Floats, other: Floats, unseen_alike: float) -> Floats:
    """The correlation of Σ ψ and Σ ψ' in each group; `unseen_alike` is that of an event which was not sampled."""
    inquiry = moves.inquiry
    tail = (1.0 - inquiry.confidence) / 2.0
    more = (math.log(tail) / float(ndtri(tail))) ** 2
    excluded = inquiry.sample.exclusion_probabilities
    squares = [np.square(each) * excluded for each in (one, other)]
    largest = [inquiry.greatest(square) for square in squares]
    covariance = inquiry.added(one * other * excluded)
    covariance += more * unseen_alike * np.sqrt(largest[0]) * np.sqrt(largest[1])
    spread = np.ones(inquiry.groups)
    for square, most in zip(squares, largest, strict=True):
        spread *= np.sqrt(inquiry.added(square) + more * most)
    return np.divide(covariance, spread, out=np.zeros(inquiry.groups), where=spread > 0.0)


def _least_alike(one: GroupedInquiry, other: GroupedInquiry) -> float:
    """The correlation of what an event adds to both answers that adds least alike: where the decays differ most."""
    sample = one.sample
    if not len(sample):
        return _NOT_ALIKE
    ordered = np.sort(sample.times)
    times = np.append(ordered[:: max(1, len(ordered) // _MOMENTS)], ordered[-1])
    decayed = []
    for each in (one, other):
        (as_of,) = each.as_of.tolist()
        f = np.where(times <= as_of, each.decay(sample.unit.seconds(np.maximum(as_of - times, 0))), 0.0)
        decayed.append(f / (f.max() or 1.0))
    return 1.0 - float(np.square(decayed[0] - decayed[1]).max()) / 2.0


def moves(inquiry: GroupedInquiry) -> Moves:
    """By how much each row moves the estimate."""
    question, aggregate = inquiry.question, inquiry.question.aggregate
    if aggregate == "ratio":
        asked, above, below = parts_of_ratio(inquiry)
        return _about_mean(asked, above, below)
    sample = inquiry.sample
    weights = sample.expanded_weights
    if aggregate in _SHARES:
        return _about_mean(inquiry, _only(weights, rows_of_share(inquiry)), weights)
    if aggregate in _QUANTILES:
        assert sample.codes is not None
        quantile = grouped_quantiles(inquiry).value[sample.codes]
        each = np.where(sample.values <= quantile, weights, 0.0) - (question.phi or 0.5) * weights
        return Moves(inquiry, each, inquiry.factors[0].factors)
    above, below = weights, sample.expanded_events
    if question.sums and question.of_value:
        above, below = weights * sample.summed.values, weights
    inside = None
    if aggregate == "range-sum":
        inside = inquiry.between(question.low, question.high)
    elif aggregate.startswith("correlated-"):
        inside = inquiry.between(float(question.tau or 0.0), None)
    if inside is not None:
        above, below = _only(above, inside), _only(below, inside)
    return _about_mean(inquiry, above, below if question.averages else None)


def _only(column: Floats, rows: Rows) -> Floats:
    found = np.zeros(len(column))
    found[rows] = column[rows]
    return found


def _about_mean(inquiry: GroupedInquiry, above: Floats, below: Floats | None) -> Moves:
    """a - m·b of each row, where m is the quotient of both sums of its group; a alone where there is no b."""
    factors = inquiry.factors[0].factors
    if below is None:
        return Moves(inquiry, above, factors)
    bottom = inquiry.added(below * factors)
    mean = np.divide(inquiry.added(above * factors), bottom, out=np.zeros(inquiry.groups), where=bottom > 0.0)
    assert inquiry.sample.codes is not None
    return Moves(inquiry, above - mean[inquiry.sample.codes] * below, factors)
