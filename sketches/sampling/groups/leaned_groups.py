"""Sums, counts and means of many sources at once that lean on the exact totals of each (see `leaning`).

The estimator is the same: Σ over slices g·X + Σ over kept rows (y·f - g·m·x)/π. Here it is computed at one as-of time,
with f of each row, and added up by source.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from sketches.arrays import Flags, Floats, Ints, Rows, distinct_sorted
from sketches.decay.functions import NoDecay
from sketches.records import dataclass
from sketches.sampling.difference_estimator.counted_rows import Counted
from sketches.sampling.difference_estimator.leaned_answers import ENOUGH
from sketches.sampling.difference_estimator.leaning import ROUNDING, LeanedSums, Unseen
from sketches.sampling.estimation.inquiry import Estimates
from sketches.sampling.estimation.intervals import Total
from sketches.sampling.estimation.poisson_sample import PoissonSample
from sketches.sampling.groups.grouped_inquiry import GroupedInquiry
from sketches.sampling.totals.known_totals import KnownTotals
from sketches.sampling.totals.slice_totals import ROWS, WEIGHT

_POINTS: Final = 16  # of a slice at which f is taken for its mean


@dataclass(frozen=True, slots=True)
class _Table:
    """The totals of all groups beside the rows: what does not depend on a question.

    Slices are the same for all groups, so there are few different ones: entry i of the totals is of `group[i]` and of
    the slice `slice[i]`.
    """

    begins: Ints  # of the different slices
    ends: Ints
    group: Ints
    slice: Rows
    known: Flags
    sums: Floats
    unknown_up_to: int
    entry: Rows  # for each row the entry that has counted it; -1 where there is none that is known
    counted: Floats | None  # for each row how many rows of it are in the totals, times the β of its group; None: one
    beta: Floats  # for each entry


class _Fading(NamedTuple):
    """As of one time and for each entry: g, and f at the newest and the oldest time of the slice."""

    height: Floats
    newest: Floats
    oldest: Floats


def leaned_sums(inquiry: GroupedInquiry, plain: Estimates, total: Total) -> Estimates:
    """The sum of the weights of each group, or their number, with exact totals where they are known.

    `plain` is the answer without them, of this `total`.
    """
    worth, found = _worth(total), _lean(inquiry, (_column(inquiry),))
    if found is None:
        return plain
    limits = found.limits(inquiry.confidence, whole=isinstance(inquiry.decay.split()[0], NoDecay))
    some = _with(plain, worth, *(np.maximum(limit, 0.0) for limit in limits))
    few = ~worth & ~total.exact
    return _counted(inquiry).cut(some, few, found.values[:, 0]) if few.any() else some


def _counted(inquiry: GroupedInquiry) -> Counted:
    """What the rows of each group allow, where too few of its events were sampled."""
    known = inquiry.sample.totals
    assert known is not None
    table, fading = _faded(inquiry, known)
    column = _column(inquiry)
    least, most, even = (
        np.bincount(table.group, np.where(f > 0.0, f * table.sums[:, column], 0.0), inquiry.groups)
        for f in (fading.oldest, fading.newest, fading.height)
    )
    unknown = np.bincount(table.group, ~table.known & (fading.newest > 0.0), inquiry.groups) > 0.0
    if table.unknown_up_to >= int(inquiry.sample.strata.oldest.min()):
        unknown[:] = True
    if inquiry.sample.counts_rows and not known.unique:
        unknown |= most > 0.0
    if not known.unique:
        least = np.zeros_like(least)
    return Counted(np.where(unknown, 0.0, least), np.where(unknown, np.inf, most), np.where(unknown, 0.0, even))


def leaned_means(inquiry: GroupedInquiry, plain: Estimates, count: Total) -> Estimates:
    """The mean weight of each group, likewise; `count` is the number of its events."""
    worth, found = _worth(count), _lean(inquiry, (WEIGHT, ROWS))
    if found is None or not worth.any():
        return plain
    sample = inquiry.sample
    least, most = np.array([float(sample.least_weight)]), np.array([float(sample.greatest_weight)])
    quotient = found.mean(least, most)
    lower, upper = quotient.bounds(inquiry.confidence)
    limits = quotient.value, lower * (1.0 - 2.0 * ROUNDING), upper * (1.0 + 2.0 * ROUNDING)
    return _with(plain, worth, *(np.clip(limit, least, most) for limit in limits))


def _worth(total: Total) -> Flags:
    """In which groups enough events were sampled."""
    return np.asarray((total.variance > 0.0) & (np.square(total.sampled) >= ENOUGH * total.variance))


def _with(plain: Estimates, which: Flags, value: Floats, lower: Floats, upper: Floats) -> Estimates:
    value, lower, upper = (
        np.where(which, better, before)
        for before, better in ((plain.value, value), (plain.lower, lower), (plain.upper, upper))
    )
    return replace(plain, value=value, lower=np.fmin(lower, value), upper=np.fmax(upper, value))


def _lean(inquiry: GroupedInquiry, columns: tuple[int, ...]) -> LeanedSums | None:
    """The leaned sums of each group; None where totals are not known, or where the question is about some events."""
    sample, known = inquiry.sample, inquiry.sample.totals
    if known is None or not len(sample) or not len(known.slices) or inquiry.question.where:
        return None
    table, fading = _faded(inquiry, known)
    expanded = [sample.expanded_weights if column == WEIGHT else sample.expanded_events for column in columns]
    pairs = [(one, other) for one in range(len(columns)) for other in range(one, len(columns))]

    def left_and_squared(some: slice) -> list[Floats]:
        factors, exclusion = _left_of_f(inquiry, table, fading, some), sample.exclusion_probabilities[some]
        rest = [one[some] * factors for one in expanded]
        return [*rest, *(rest[one] * rest[other] * exclusion for one, other in pairs)]

    found = inquiry.added_by_parts(left_and_squared, len(sample), inquiry.bounds())
    held = np.stack([np.where(table.known, table.sums[:, one], 0.0) * table.beta for one in columns])
    whole, mass = (
        np.stack([np.bincount(table.group, factors * one, inquiry.groups) for one in held], axis=1)
        for factors in (fading.height, fading.newest)
    )
    left, covariances = found[:, : len(columns)], found[:, len(columns) :]
    off = np.asarray(ROUNDING * (3.0 * mass + np.abs(left)), np.float64)  # of totals, and of rows with f and with g
    values = whole + left
    more, fewer = _unseen(inquiry, known, table, fading, columns)
    limits = _certain(inquiry, known, table, fading, columns[0])
    return LeanedSums(values, off, more, fewer, covariances, *limits)


def _faded(inquiry: GroupedInquiry, known: KnownTotals) -> tuple[_Table, _Fading]:
    table: _Table = inquiry.sample.leanings.get("groups", lambda: _table(inquiry.sample, known))
    return table, inquiry.kept.get("fading", lambda: _fading(table, inquiry))


def _left_of_f(inquiry: GroupedInquiry, table: _Table, fading: _Fading, some: slice = slice(None)) -> Floats:
    """f of some rows, less the mean of f in the slice that has counted each, as often as it has."""
    factors = np.append(fading.height, 0.0)[table.entry[some]]  # the last is that of rows in no entry
    if table.counted is not None:
        factors *= table.counted[some]
    return np.asarray(np.subtract(inquiry.factors[0].factors[some], factors, out=factors))


def leaned_factors(inquiry: GroupedInquiry, known: KnownTotals) -> Floats:
    """Of each row what is left of f beside these totals: what chance moves an answer by that leans on them."""
    table, fading = _faded(inquiry, known)
    return _left_of_f(inquiry, table, fading)


def leaning_groups(inquiry: GroupedInquiry) -> Flags | None:
    """Which groups lean on totals; None where none does."""
    sample, question = inquiry.sample, inquiry.question
    inside = question.where or question.of_value or question.aggregate not in ("sum", "count", "mean")
    if sample.totals is None or not len(sample) or not len(sample.totals.slices) or inside:
        return None
    if not question.averages:
        return _worth(inquiry.weight()[0])
    return _worth(inquiry.sums(inquiry.mean_coefficients).total(2, 3, 1, inquiry.unseen_event))


def _column(inquiry: GroupedInquiry) -> int:
    return WEIGHT if inquiry.question.by_weight or inquiry.question.sums else ROWS


def _table(sample: PoissonSample, known: KnownTotals) -> _Table:
    assert sample.codes is not None
    totals = known.slices
    begins, ends = totals.times()
    different = distinct_sorted(begins)
    number = np.searchsorted(different, begins)
    until = np.zeros(len(different), np.int64)
    until[number] = ends
    usable = (totals.sums[:, ROWS] > 0.0) & (begins > totals.unknown_up_to)
    place = np.searchsorted(different, sample.times, side="right") - 1
    keys = totals.groups * len(different) + number
    entry = np.minimum(np.searchsorted(keys, sample.codes * len(different) + np.maximum(place, 0)), len(keys) - 1)
    inside = (place >= 0) & (sample.times < until[np.maximum(place, 0)])
    inside &= (totals.groups[entry] == sample.codes) & (number[entry] == place) & usable[entry]
    groups = int(max(totals.groups[-1], sample.codes[-1])) + 1
    counted, beta = None, np.ones(groups)
    if sample.most_rows > 1 and sample.counts is not None and not sample.counts_rows:
        beta = _beta(sample, inside * sample.counts, groups)
        counted = sample.counts * beta[sample.codes]
    oldest, newest = int(sample.strata.oldest.min()), int(sample.strata.newest.max())
    different, until = np.maximum(different, oldest), np.minimum(until, newest + 1)
    entries = np.where(inside, entry, -1)
    parts = (totals.groups, number, usable, totals.sums, totals.unknown_up_to)
    return _Table(different, until, *parts, entries, counted, beta[totals.groups])


def _beta(sample: PoissonSample, counted: Ints, groups: int) -> Floats:
    """That of each group, by regression over its kept rows, some of which came more than once."""
    assert sample.codes is not None
    spread = sample.exclusion_probabilities * np.square(sample.expanded_weights) * counted
    both, squared = (np.bincount(sample.codes, column, groups) for column in (spread, spread * counted))
    return np.where(squared > 0.0, both / np.where(squared > 0.0, squared, 1.0), 1.0)


def _fading(table: _Table, inquiry: GroupedInquiry) -> _Fading:
    (as_of,), unit = inquiry.as_of.tolist(), inquiry.sample.unit
    first, last = table.begins, table.ends - 1

    def f(times: Ints) -> Floats:
        return np.where(times <= as_of, inquiry.decay(unit.seconds(np.maximum(as_of - times, 0))), 0.0)

    points = first[:, None] + ((last - first + 1)[:, None] * (2 * np.arange(_POINTS) + 1)) // (2 * _POINTS)
    newest = np.where(first <= as_of, f(np.minimum(last, as_of)), 0.0)
    oldest = np.where(last <= as_of, f(first), 0.0)
    return _Fading(f(points).mean(axis=1)[table.slice], newest[table.slice], oldest[table.slice])


def _unseen(
    inquiry: GroupedInquiry, known: KnownTotals, table: _Table, fading: _Fading, columns: tuple[int, ...]
) -> tuple[Floats, Floats]:
    """The most that an unseen event could add to each sum, and take away from it."""
    height = table.beta * fading.height
    may = Unseen.of(inquiry.sample, known)
    above = np.where(table.known, np.maximum(may.most * fading.newest - may.once * height, 0.0), fading.newest)
    below = np.where(table.known, np.maximum(may.often * height - may.least * fading.oldest, 0.0), 0.0)
    found = np.zeros((2, inquiry.groups, len(columns)))
    first = np.flatnonzero(np.append(True, table.group[1:] != table.group[:-1]))
    for number, column in enumerate(columns):
        largest = _largest(inquiry, table, column)
        for side, left in enumerate((above, below)):
            found[side, table.group[first], number] = np.maximum.reduceat(left * largest, first)
        if table.unknown_up_to >= int(inquiry.sample.strata.oldest.min()):  # nothing was counted there
            unseen = inquiry.unseen_unit if column == WEIGHT else inquiry.unseen_event
            found[0, :, number] = np.maximum(found[0, :, number], unseen.contribution)
    return found[0], found[1]


def _largest(inquiry: GroupedInquiry, table: _Table, column: int) -> Floats:
    """The largest that an unseen event of each entry could count, over π: at its oldest time, as strata are sampled the
    less the older they are."""
    strata = inquiry.sample.strata
    weights = strata.unit_design_weight if column == WEIGHT else strata.event_design_weight
    stratum = np.clip(np.searchsorted(strata.newest, table.begins), 0, len(weights) - 1)
    assert inquiry.complete_since is not None
    complete = table.begins[table.slice] > inquiry.complete_since[table.group]
    return np.where(complete, 0.0, weights[stratum][table.slice])


def _certain(
    inquiry: GroupedInquiry, known: KnownTotals, table: _Table, fading: _Fading, column: int
) -> tuple[Floats, Floats]:
    """Limits of a sum where no row repeats and nothing is unknown: f lies between its ends in every slice."""
    if not known.unique or table.unknown_up_to >= int(inquiry.sample.strata.oldest.min()):
        return np.full(inquiry.groups, -np.inf), np.full(inquiry.groups, np.inf)
    unknown = np.bincount(table.group, ~table.known, inquiry.groups) > 0.0
    least, most = (
        np.bincount(table.group, f * table.sums[:, column], inquiry.groups) for f in (fading.oldest, fading.newest)
    )
    return (
        np.where(unknown, -np.inf, least * (1.0 - ROUNDING)),
        np.where(unknown, np.inf, most * (1.0 + ROUNDING)),
    )
