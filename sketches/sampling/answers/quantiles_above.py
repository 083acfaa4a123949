"""Quantiles over the events above a threshold τ that is itself an aggregate, for many groups of rows at once.

τ lies within an interval. At any place in it, the share of what lies above τ that has a value up to y is a part over
the part and a rest. Both only shrink as τ rises, and a share grows with its part and shrinks with its rest. So with the
most of the one and the least of the other the share is enclosed wherever τ is, and so is the value at which it reaches
φ: the interval is that of the rank, inverted (`answers.quantiles`).
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from sketches.arrays import Flags, Floats, Rows
from sketches.sampling.answers.quantiles import first_of_both
from sketches.sampling.estimation.intervals import Total, Unseen, least_share, most_share

_ROUNDING: Final = 1e-12  # a cumulated share this close below φ has reached it


class Ranking(NamedTuple):
    """Rows in the order of groups and, within each, of what is ranked."""

    values: Floats
    bounds: Rows  # where each group begins, and where the last ends
    masses: Floats  # of each row certain part, sampled part and variance of what it counts
    above: tuple[Flags, Flags, Flags]  # which rows lie above the lower limit of τ, its estimate, its upper limit
    ends: tuple[Floats, Floats]  # of each group what its answer is not below, and not above


class _Cumulated(NamedTuple):
    """What is cumulated before each row and after the last, before each group, and of each group as a whole."""

    before_row: Floats
    before: Floats
    whole: Floats

    @classmethod
    def of(cls, masses: Floats, bounds: Rows) -> _Cumulated:
        before_row = np.concatenate([np.zeros((3, 1)), np.cumsum(masses, axis=1)], axis=1)
        before = before_row[:, bounds[:-1]]
        return cls(before_row, before, np.maximum(before_row[:, bounds[1:]] - before, 0.0))

    def up_to(self, places: Rows) -> tuple[Floats, Floats]:
        """What each group's rows before some places count, and the others."""
        part = np.maximum(self.before_row[:, places] - self.before[:, :, None], 0.0)
        return part, np.maximum(self.whole[:, :, None] - part, 0.0)


def quantiles_above(ranking: Ranking, phi: float, confidence: float, unseen: Unseen) -> tuple[Floats, Floats, Floats]:
    """Value, lower and upper limit of each group; NaN where nothing counts."""
    values, bounds = ranking.values, ranking.bounds
    first, last = bounds[:-1], np.maximum(bounds[1:] - 1, bounds[:-1])
    scale = _masses_of_groups(ranking)  # small groups keep their digits beside large ones
    each = np.repeat(scale, np.diff(bounds))
    masses = ranking.masses / np.stack([each, each, np.square(each)])
    unseen = Unseen(unseen.contribution / scale, unseen.variance / np.square(scale))
    many, middle, few = (_Cumulated.of(masses * inside, bounds) for inside in ranking.above)
    there = middle.whole[0] + middle.whole[1] > 0.0
    value = np.where(there, _at(values, _reached(middle, phi, first, last)), np.nan)
    lower, upper = _limits(values, (many, few), (first, last), phi, confidence, unseen, ranking.ends)
    exact = (many.whole == few.whole).all(axis=0) & (many.whole[2] == 0.0) & (unseen.contribution == 0.0)
    lower, upper = np.fmin(np.maximum(lower, ranking.ends[0]), value), np.fmax(upper, value)
    return value, np.where(exact, value, lower), np.where(exact, value, upper)


def _masses_of_groups(ranking: Ranking) -> Floats:
    found = np.ones(len(ranking.bounds) - 1)
    filled = np.flatnonzero(np.diff(ranking.bounds))
    if len(filled):
        mass = (ranking.masses[0] + ranking.masses[1]) * ranking.above[0]
        found[filled] = np.add.reduceat(mass, ranking.bounds[filled])
    return np.where(found > 0.0, found, 1.0)


def _reached(middle: _Cumulated, phi: float, first: Rows, last: Rows) -> Rows:
    """The row of each group at which φ of what lies above τ's estimate is reached."""
    before, whole = (sums[0] + sums[1] for sums in (middle.before, middle.whole))
    goals = before + phi * whole
    mass = middle.before_row[0, 1:] + middle.before_row[1, 1:]
    found: Rows = np.searchsorted(mass, goals - _ROUNDING * (whole + goals))
    inside: Rows = np.minimum(np.maximum(found, first), last)
    return inside


def _limits(
    values: Floats,
    sums: tuple[_Cumulated, _Cumulated],
    rows: tuple[Rows, Rows],
    phi: float,
    confidence: float,
    unseen: Unseen,
    ends: tuple[Floats, Floats],
) -> tuple[Floats, Floats]:
    """The smallest and the largest value whose share of what lies above τ may be φ, wherever τ lies."""
    (many, few), (first, last), tail = sums, rows, (1.0 - confidence) / 2.0
    unknown = Unseen(unseen.contribution[:, None], unseen.variance[:, None])

    def may_have_reached_and_has(index: Rows) -> tuple[Flags, Flags]:
        places = np.minimum(np.minimum(first[:, None] + index, last[:, None]) + 1, len(values))
        most, more_left = many.up_to(places)
        least, less_left = few.up_to(places)
        possible = most_share(_total(most, unknown), _total(less_left, unknown), tail)
        sure = least_share(_total(least, unknown), _total(more_left, unknown), tail)
        return possible >= phi * (1.0 - _ROUNDING), sure >= phi

    length = int((last - first).max(initial=0)) + 1
    possible, sure = first_of_both(may_have_reached_and_has, len(first), length)
    nothing = _total(np.zeros((3, len(first))), unseen)
    below_all = most_share(nothing, _total(few.whole, unseen), tail) >= phi
    lower = np.where(below_all, ends[0], _at(values, np.minimum(first + possible, last)))
    upper = np.where(first + sure <= last, _at(values, np.minimum(first + sure, last)), ends[1])
    return lower, upper


def _total(sums: Floats, unseen: Unseen) -> Total:
    certain, sampled, variance = sums
    return Total(certain, sampled, variance, unseen.contribution, unseen.variance)


def _at(values: Floats, places: Rows) -> Floats:
    return values[np.minimum(places, len(values) - 1)] if len(values) else np.full(len(places), np.nan)
