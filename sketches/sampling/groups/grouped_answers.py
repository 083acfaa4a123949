"""The answer of every group of rows at once: sums, counts, means, shares and quantiles, each with its interval."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from sketches.arrays import Rows
from sketches.errors import UnanswerableError
from sketches.events import Kind
from sketches.sampling.answers.estimators import share, value_sum
from sketches.sampling.answers.ratio_of_sums import ratio
from sketches.sampling.estimation.horvitz_thompson import Sums
from sketches.sampling.estimation.inquiry import Estimates
from sketches.sampling.estimation.ratios import mean_of_sums
from sketches.sampling.groups.grouped_inquiry import GroupedInquiry
from sketches.sampling.groups.grouped_quantiles import grouped_quantiles
from sketches.sampling.groups.grouped_spread import grouped_stddev, grouped_variance
from sketches.sampling.groups.leaned_groups import leaned_means, leaned_sums

_FAINT: Final = 1e-120  # a sum below it has a square with few digits or none: nothing is said of a mean over it


def grouped_answer(inquiry: GroupedInquiry) -> Estimates:
    """The estimates of all groups."""
    question = inquiry.question
    if question.aggregate not in _ESTIMATORS:
        raise UnanswerableError(
            f"{question.aggregate} is not answered by groups; answered are {', '.join(sorted(_ESTIMATORS))}"
        )
    refuse_text(inquiry)
    return _ESTIMATORS[question.aggregate](inquiry)


def refuse_text(inquiry: GroupedInquiry) -> None:
    question = inquiry.question
    if inquiry.sample.kind is Kind.KEY and (question.needs_order or question.of_value):
        raise UnanswerableError(f"{question.aggregate} needs numbers, but this stream's values are text")


def _sum(inquiry: GroupedInquiry) -> Estimates:
    return value_sum(inquiry, None) if inquiry.question.of_value else _count(inquiry)


def _count(inquiry: GroupedInquiry) -> Estimates:
    total, used = inquiry.weight()
    return leaned_sums(inquiry, Estimates(total.value, *total.bounds(inquiry.confidence), used), total)


def _counted(inquiry: GroupedInquiry, rows: Rows) -> Estimates:
    total, used = inquiry.weight(rows)
    return Estimates(total.value, *total.bounds(inquiry.confidence), used)


def _of_some(inquiry: GroupedInquiry, rows: Rows) -> Estimates:
    return value_sum(inquiry, rows) if inquiry.question.of_value else _counted(inquiry, rows)


def _mean(inquiry: GroupedInquiry) -> Estimates:
    sums = inquiry.sums(inquiry.mean_coefficients)
    plain = mean_of_groups(inquiry, sums)
    if inquiry.question.of_value:
        return plain
    return leaned_means(inquiry, plain, sums.total(2, 3, 1, inquiry.unseen_event))


def mean_of_groups(inquiry: GroupedInquiry, sums: Sums, at_least: float = -np.inf) -> Estimates:
    """The mean of each group; what is too faint to be squared has no limits but those of all events."""
    return unknown_where_faint(inquiry, mean_of_sums(inquiry, sums, at_least), sums)


def unknown_where_faint(inquiry: GroupedInquiry, found: Estimates, sums: Sums) -> Estimates:
    """Means with no limits but those of all events where their sums are too faint to be squared."""
    faint = sums.linear[:, 2:4].sum(axis=1) < _FAINT
    unknown = faint & (inquiry.unseen_event.contribution > 0.0)
    least, most = _ends(inquiry)
    lower, upper = np.where(unknown, least, found.lower), np.where(unknown, most, found.upper)
    return Estimates(found.value, lower, upper, found.used)


def _ends(inquiry: GroupedInquiry) -> tuple[float, float]:
    sample = inquiry.sample
    if inquiry.question.of_value:
        return sample.summed.least, sample.summed.greatest
    return float(sample.least_weight), float(sample.greatest_weight)


def _between(inquiry: GroupedInquiry) -> Estimates:
    return _of_some(inquiry, inquiry.between(inquiry.question.low, inquiry.question.high))


def _above(inquiry: GroupedInquiry) -> Estimates:
    assert inquiry.question.tau is not None
    tau = float(inquiry.question.tau)
    rows = inquiry.between(tau, None)
    match inquiry.question.aggregate:
        case "correlated-sum":
            return _of_some(inquiry, rows)
        case "correlated-count":
            return _counted(inquiry, rows)
        case _:
            sums = inquiry.sums(inquiry.mean_coefficients, rows)
            return mean_of_groups(inquiry, sums, float(np.nextafter(tau, -np.inf)))


_ESTIMATORS: Final[dict[str, Callable[[GroupedInquiry], Estimates]]] = {
    "sum": _sum,
    "count": _count,
    "mean": _mean,
    "variance": grouped_variance,
    "stddev": grouped_stddev,
    "ratio": ratio,
    "selectivity": share,
    "rank": share,
    "frequency": share,
    "range-sum": _between,
    "range-frequency": share,
    "correlated-sum": _above,
    "correlated-count": _above,
    "correlated-mean": _above,
    "quantile": grouped_quantiles,
    "median": grouped_quantiles,
}
