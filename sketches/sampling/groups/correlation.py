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
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from sketches.arrays import Flags, Floats, Rows
from sketches.differences import UNKNOWN
from sketches.sampling.answers.estimators import rows_of_share
from sketches.sampling.answers.ratio_of_sums import parts_of_ratio
from sketches.sampling.estimation.poisson_sample import PoissonSample
from sketches.sampling.groups.grouped_inquiry import GroupedInquiry
from sketches.sampling.groups.grouped_quantiles import grouped_quantiles
from sketches.sampling.groups.leaned_groups import leaned_moves
from sketches.special_functions import ndtri

_NOT_ALIKE: Final = 0.5  # of an event that is in one answer alone
_MOMENTS: Final = 500  # at which the decays are compared
_SHARES: Final = frozenset({"selectivity", "rank", "frequency", "range-frequency"})


class Moves(NamedTuple):
    """By how much each row moves the estimate of its group: ψ. And where the estimates lean on totals, by how much it
    moves those, and in which groups they do."""

    sample: PoissonSample
    plain: Floats
    leaned: Floats | None = None
    leans: Flags | None = None


def correlation(one: GroupedInquiry, other: GroupedInquiry) -> Floats:
    """That of the two answers of each group; -1 where nothing is known of it."""
    unknown = np.full(one.groups, UNKNOWN)
    if one.question.threshold is not None or one.question.aggregate in ("variance", "stddev", "self-join"):
        return unknown
    first, second = moves(one), moves(other)
    if len(first.plain) != len(second.plain):
        return unknown
    plain = _correlated(one, first.sample, first.plain, second.plain, _least_alike(one, other))
    if first.leaned is None or second.leaned is None or first.leans is None or second.leans is None:
        return plain
    leaned = _correlated(one, first.sample, first.leaned, second.leaned, _NOT_ALIKE)
    either = np.minimum(np.minimum(plain, leaned), 0.0)
    return np.where(first.leans & second.leans, leaned, np.where(first.leans | second.leans, either, plain))


def _correlated(
    inquiry: GroupedInquiry, sample: PoissonSample, one: Floats, other: Floats, unseen_alike: float
) -> Floats:
    """The correlation of Σ ψ and Σ ψ' in each group; `unseen_alike` is that of an event which was not sampled."""
    tail = (1.0 - inquiry.confidence) / 2.0
    more = (math.log(tail) / float(ndtri(tail))) ** 2
    excluded = sample.exclusion_probabilities
    grouped = replace(inquiry, sample=sample)
    bounds = grouped.bounds()
    squares = [np.square(each) * excluded for each in (one, other)]
    largest = [grouped.greatest(square, bounds) for square in squares]
    covariance = grouped.added(one * other * excluded, bounds)
    covariance += more * unseen_alike * np.sqrt(largest[0]) * np.sqrt(largest[1])
    spread = np.ones(inquiry.groups)
    for square, most in zip(squares, largest, strict=True):
        spread *= np.sqrt(grouped.added(square, bounds) + more * most)
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
    question, sample = inquiry.question, inquiry.sample
    aggregate, factors = question.aggregate, inquiry.factors[0].factors
    if aggregate == "ratio":
        asked, above, below = parts_of_ratio(inquiry)
        factors = replace(inquiry, sample=asked.sample).factors[0].factors
        return Moves(asked.sample, _about_mean(asked, above * factors, below * factors))
    weights, events = sample.expanded_weights * factors, sample.expanded_events * factors
    if aggregate in _SHARES:
        return Moves(sample, _about_mean(inquiry, _only(weights, rows_of_share(inquiry)), weights))
    if aggregate in ("quantile", "median"):
        assert sample.codes is not None
        quantile = grouped_quantiles(inquiry).value[sample.codes]
        return Moves(sample, np.where(sample.values <= quantile, weights, 0.0) - (question.phi or 0.5) * weights)
    inside = None
    if aggregate == "range-sum":
        inside = inquiry.between(question.low, question.high)
    elif aggregate.startswith("correlated-"):
        inside = inquiry.between(float(question.tau or 0.0), None)
    of_value = question.sums and question.of_value
    above = weights * sample.summed.values if of_value else weights
    above = above if inside is None else _only(above, inside)
    if not question.averages:
        plain = above
    else:
        below = weights if of_value else events
        plain = _about_mean(inquiry, above, below if inside is None else _only(below, inside))
    if inside is not None or of_value:
        return Moves(sample, plain)
    return Moves(sample, plain, *leaned_moves(inquiry))


def _only(column: Floats, rows: Rows) -> Floats:
    found = np.zeros(len(column))
    found[rows] = column[rows]
    return found


def _about_mean(inquiry: GroupedInquiry, above: Floats, below: Floats) -> Floats:
    """a - m·b of each row, where m is the quotient of both sums of its group."""
    bottom = inquiry.added(below)
    mean = np.divide(inquiry.added(above), bottom, out=np.zeros(inquiry.groups), where=bottom > 0.0)
    assert inquiry.sample.codes is not None
    return above - mean[inquiry.sample.codes] * below
