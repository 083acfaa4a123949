"""What the events that still count in one level of each copy say: sums, shares and quantiles with their limits.

Every copy has an error of its own. A level above 0 errs by ε (Theorems 3.1 to 3.3 of paper A). Level 0 holds every
event that counts a unit or more for certain, and each lighter one with the probability that it would count one; the
number n of those is a sum of independent chances, so the sum of the chances lies between the limits that n has as a
Poisson number (such sums stray less than Poisson numbers do: Anderson and Samuels 1967). An answer is the median over
the copies, and so is each limit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Final

import numpy as np

from sketches.arrays import Column, Flags, Floats, Limits, Rows, places
from sketches.records import dataclass
from sketches.special_functions import gammaincinv

_SHARE_ROUNDING: Final = 1e-12  # a cumulated share this close below φ, relatively, has reached it

Selection = Callable[["Survivors"], Flags]  # which rows of a copy are meant
Parts = Callable[["Survivors", Floats], Floats]  # adds up a column of a copy over some of its rows, part by part


@dataclass(frozen=True)
class Survivors:
    """One level at one time (S_ℓ at time c): its events, and how many units of each it holds."""

    values: Column
    weights: Column
    units: Floats
    by_chance: Flags  # lighter than a unit, and kept with that probability
    level: int
    certain: bool  # these are all events that count, none of them by chance
    units_in_one: float  # how many units a decayed weight of 1 has here on average: p_ℓ·scale

    @cached_property
    def whole(self) -> float:
        """(1/p_ℓ)·Σ RangeSample over all events: Figure 3."""
        return float(self.units.sum() / self.units_in_one)


@dataclass(frozen=True)
class Copies:
    """The survivors of every copy of a sketch at one time.

    `delta` is the probability with which the limits of one copy may fail.
    """

    all: Sequence[Survivors]
    epsilon: float
    delta: float

    @cached_property
    def exact(self) -> bool:
        """Whether every copy holds all that counts, nothing of it by chance."""
        return all(copy.certain for copy in self.all)

    @cached_property
    def held(self) -> list[Survivors]:
        """The copies in which anything still counts."""
        return [copy for copy in self.all if copy.units.any()]

    @cached_property
    def error(self) -> float:
        """How far shares may be off: ε, or what the light events of level 0 leave open; the largest of the copies."""
        return max((self._share_error(copy) for copy in self.held), default=0.0 if self.exact else np.inf)

    def sums(self, parts: Parts, *, everything: bool = False) -> Limits:
        """Decayed sums over parts of the events. `parts` adds up a column of a copy over each part.

        Figure 3 for all events, which have a relative error; parts have an additive one, of the whole.
        """
        found = [self._sums_of_copy(copy, parts, everything) for copy in self.all]
        value, lower, upper = (np.median(column, axis=0) for column in zip(*found, strict=True))
        return value, lower, upper

    def _sums_of_copy(self, copy: Survivors, parts: Parts, everything: bool) -> Limits:
        value = parts(copy, copy.units) / copy.units_in_one
        if copy.certain:
            return value, value, value
        if copy.level == 0:
            below, above = self._chances(parts(copy, copy.by_chance.astype(np.float64)))
            return value, np.maximum(value - below / copy.units_in_one, 0.0), value + above / copy.units_in_one
        if everything:
            return value, value / (1.0 + self.epsilon), value / (1.0 - self.epsilon)
        error = self.epsilon * copy.whole / (1.0 - self.epsilon)
        return value, np.maximum(value - error, 0.0), value + error

    def shares(self, inside: Parts, about: Selection | None) -> Limits:
        """The part of the units that lies inside (Figure 4): of all, or of those that the question is about.

        Both what lies inside and what is about but outside are known within the error, which gives limits of their
        ratio. Something must be held.
        """
        ends: list[tuple[Floats, ...]] = []
        for copy in self.held:
            whole, error = copy.units.sum(), self._share_error(copy)
            within = inside(copy, copy.units) / whole
            without = (1.0 if about is None else copy.units[about(copy)].sum() / whole) - within
            ends.append((*_around(within, error), *_around(without, error)))
        a, least_a, most_a, b, least_b, most_b = (np.median(column, axis=0) for column in zip(*ends, strict=True))
        return _ratio(a, b, np.nan), _ratio(least_a, most_b, 0.0), _ratio(most_a, least_b, 1.0)

    def quantiles(self, phis: Floats, about: Selection | None, least: float, greatest: float) -> Limits:
        """The smallest values at which the cumulated share reaches φ, and those at the limits of the share.

        Theorem 3.3. `least` and `greatest` are limits that hold in any case.
        """
        found = self.quantile_places(phis, about)
        if found is None:
            open_ended = (np.nan, np.nan) if self.exact else (least, greatest)
            nothing, low, high = (np.full(len(phis), number) for number in (np.nan, *open_ended))
            return nothing, low, high
        distinct, where = found
        values = np.concatenate([[least], distinct.astype(np.float64), [greatest]])
        value, lower, upper = values[where]
        return value, lower, upper

    def quantile_places(self, phis: Floats, about: Selection | None) -> tuple[Column, Rows] | None:
        """The values that are held, and the places of the quantiles and of their limits among them, a line each.

        The first value has place 1: 0 is before all, and one more than there are is behind all. None: nothing that the
        question is about is held.
        """
        if not self.held:
            return None
        distinct, of_each = self.by_value(about)

        def up_to(copy: Survivors, column: Floats) -> Floats:
            return np.concatenate([np.zeros(1), np.cumsum(of_each(copy, column))])  # first: below all that is held

        rank, least_rank, most_rank = self.shares(up_to, about)
        if np.isnan(rank).any():
            return None
        reached = phis * (1.0 - _SHARE_ROUNDING)
        return distinct, np.stack([np.searchsorted(ranks, reached) for ranks in (rank, most_rank, least_rank)])

    def by_value(self, about: Selection | None) -> tuple[Column, Parts]:
        """The values that are held, and what adds up a column of a copy over each of them."""
        values = np.unique(np.concatenate([copy.values for copy in self.held]))

        def of_each(copy: Survivors, column: Floats) -> Floats:
            counted = column if about is None else column * about(copy)
            places = np.searchsorted(values, copy.values)
            return np.asarray(np.bincount(places, counted, minlength=len(values)), np.float64)

        return values, of_each

    def _share_error(self, copy: Survivors) -> float:
        """How far a share may be off: as far as the sum, relatively."""
        if copy.certain:
            return 0.0
        if copy.level > 0:
            return self.epsilon
        return float(max(self._chances(copy.by_chance.sum())) / copy.units.sum())

    def _chances(self, number: Floats | np.integer) -> tuple[Floats, Floats]:
        """How far below and above this number of light events the sum of their chances may be."""
        n = np.asarray(number, np.float64)
        below = np.where(n > 0, gammaincinv(np.maximum(n, 1.0), self.delta / 2.0), 0.0)
        return np.asarray(n - below), np.asarray(gammaincinv(n + 1.0, 1.0 - self.delta / 2.0) - n)


def matching(selection: Selection) -> Parts:
    """Adds up a column of a copy over the rows of a selection."""
    return lambda copy, column: np.asarray([column[selection(copy)].sum()])


def at_least(thresholds: Column, about: Selection | None) -> Parts:
    """Adds up a column of a copy over the values from each threshold on, in one sweep over the copy."""

    def swept(copy: Survivors, column: Floats) -> Floats:
        order = np.argsort(copy.values, kind="stable")
        counted = column if about is None else column * about(copy)
        above = np.concatenate([np.cumsum(counted[order][::-1])[::-1], np.zeros(1)])
        return np.asarray(above[places(copy.values[order], thresholds)])

    return swept


def _around(share: Floats, error: float) -> Limits:
    return np.maximum(share, 0.0), np.maximum(share - error, 0.0), np.minimum(share + error, 1.0)


def _ratio(part: Floats, rest: Floats, nothing: float) -> Floats:
    """part / (part + rest); `nothing` where both are 0."""
    whole = part + rest
    return np.where(whole > 0.0, part / np.where(whole > 0.0, whole, 1.0), nothing)
