"""The samples S_0, S_1, … of paper A §3 for one decay fixed beforehand: each level keeps what will live longest there.

Under a known decay f an event of weight w counts floor(w·f(age)) whole units, its first ones; the last to fade is unit
0. Level i samples each unit with probability 2^-i, so the event is in level i exactly as long as its first sampled unit
there has not faded: until its *expiry* at that level. Each level keeps the events that expire last, down to a time t_i
(the *cut*): the (capacity + 1)-th latest expiry of the level. That is a function of the set of events, so that no two
ways of seeing the same events disagree (Lemmas 3.1, 3.2).

An event's expiry only falls with the level, and so do the cuts; but the order of expiries differs from level to level,
so what the levels keep does not nest. An event is stored once, iff some level keeps it, and its expiries are computed
anew when they are needed. The paper also forgets what expired before the present: here nothing reads a clock, and only
capacity discards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numba import uint64, vectorize
from numpy.typing import NDArray

from sketches.decay import Decay
from sketches.drawn import TimeUnit
from sketches.events import MAX_TIME, Column, Events
from sketches.hashing import event_hashes
from sketches.nested_sample import NO_CUT, distinct_order, starts_of
from sketches.range_sample import FALL, FALL_INDEX, LEVELS, PRIME, PROBABILITY, deepest_level, range_sample

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Words = NDArray[np.uint64]
Mask = NDArray[np.bool_]

NEVER: Final = MAX_TIME + 1  # the expiry of whatever still counts at the last time that can be asked about
LAST_AGE: Final = (1 << 62) - 1  # in time units; what lives longer lives for ever
FOREVER: Final = LAST_AGE + 1

_LOST_IN_ROUNDING: Final = 1e-9  # w·f this far below a whole number has reached it
_SHARE_ROUNDING: Final = 1e-12  # a cumulated share this close below φ, relatively, has reached it
_DOUBT: Final = 1e-8  # what rounding may lift or lower a decay by, many times over
_CHUNK: Final = 1 << 16  # rows


@vectorize(["int64(uint64, int64, int64)"], cache=True)
def first_sampled_index(start: np.uint64, weight: int, level: int) -> int:
    """The smallest j whose unit is sampled at the level; `weight` where none of the event's units is.

    Walks the records as `smallest_unit` does, since each step there leads to the *next* smaller unit: O(log w).

    >>> int(first_sampled_index(np.uint64(12345), 1000, 0))
    0
    """
    threshold = uint64(PRIME) >> uint64(level)
    value = start
    index = 0
    record = 0
    while value >= threshold:
        while record < len(FALL) and FALL[record] > value:
            record += 1
        if record == len(FALL) or index + FALL_INDEX[record] >= weight:
            return weight
        index += FALL_INDEX[record]
        value -= FALL[record]
    return index


def ages_at(moment: int, times: Ints) -> Ints:
    """Ages in time units, at most `LAST_AGE`, and -1 for events newer than the moment; no difference overflows."""
    apart = np.uint64(moment & 0xFFFF_FFFF_FFFF_FFFF) - times.view(np.uint64)
    ages = np.minimum(apart, np.uint64(LAST_AGE)).view(np.int64)
    return np.where(times > moment, -1, ages)


@dataclass(frozen=True, slots=True)
class Fading:
    """A decay as whole weights over ages in time units: any decay becomes integral by rounding w·f down."""

    decay: Decay
    unit: TimeUnit

    def __call__(self, ages: Ints) -> Floats:
        return self.decay(self.unit.seconds(ages))

    def weights(self, weights: Ints, ages: Ints) -> Ints:
        """floor(w·f(age) + 1e-9): the number of an event's units that still count."""
        return np.asarray(np.floor(weights * self(ages) + _LOST_IN_ROUNDING), np.int64)

    def lifetimes(self, weights: Ints, first: Ints) -> Ints:
        """The first age at which no more than `first` units count, or FOREVER, for events that begin with more.

        A function of weight and index alone, hence searched once for each pair of them.
        """
        if len(weights) == 0 or weights.max() >= 1 << 31:
            return self._search(weights, first)
        pairs, which = np.unique((weights << 31) | first, return_inverse=True)
        return self._search(pairs >> 31, pairs & ((1 << 31) - 1))[which]

    def _search(self, weights: Ints, first: Ints) -> Ints:
        low, high = np.zeros(len(weights), np.int64), np.full(len(weights), FOREVER)
        alive = np.arange(len(weights))
        for power in range(63):
            age = np.array([min(1 << power, LAST_AGE)])
            lives = self.weights(weights[alive], age) > first[alive]
            high[alive[~lives]] = age
            alive = alive[lives]
            if len(alive) == 0:
                break
            low[alive] = age
        unsure = np.flatnonzero((high < FOREVER) & (high - low > 1))
        while len(unsure):
            middle = low[unsure] + (high[unsure] - low[unsure]) // 2
            lives = self.weights(weights[unsure], middle) > first[unsure]
            low[unsure[lives]] = middle[lives]
            high[unsure[~lives]] = middle[~lives]
            unsure = unsure[high[unsure] - low[unsure] > 1]
        return high

    def expiries(self, times: Ints, starts: Words, weights: Ints) -> Ints:
        """expiry(e, i) for each level (first axis) and event; NO_CUT where the event never was in the level."""
        if len(times) == 0:
            return np.empty((0, 0), np.int64)
        begins = self.weights(weights, np.zeros(1, np.int64))
        deepest = np.asarray(deepest_level(starts, begins))
        expiries = np.full((int(deepest.max()) + 1, len(times)), NO_CUT)
        levels, rows = np.nonzero(np.arange(len(expiries))[:, None] <= deepest)
        first = np.asarray(first_sampled_index(starts[rows], begins[rows], levels))
        lives = self.lifetimes(weights[rows], first)
        ends = times[rows] + np.minimum(lives, LAST_AGE)  # at most 2^62 each, so the sum cannot overflow
        expiries[levels, rows] = np.where(lives == FOREVER, NEVER, np.minimum(ends, NEVER))
        return expiries


@dataclass(frozen=True, slots=True)
class Survivors:
    """One level at one time (S_ℓ at c): the values of its events and how many units of each it holds."""

    values: Column
    units: Ints
    level: int

    def total(self, matching: Mask | None = None) -> float:
        """(1/p_ℓ)·Σ RangeSample over the matching events: Figure 3."""
        units = self.units if matching is None else self.units[matching]
        return float(units.sum() / PROBABILITY[self.level])

    def share(self, matching: Mask) -> float:
        """The matching events' part of all sampled units: Figure 4."""
        return float(self.units[matching].sum() / self.units.sum())

    def shares(self, distinct: Column) -> Floats:
        """The share of each of the values, which are sorted and include all of the sample's."""
        units = np.bincount(np.searchsorted(distinct, self.values), self.units, minlength=len(distinct))
        return np.asarray(units / units.sum())

    def quantile(self, phi: float) -> float:
        """The smallest value up to which lies a share φ of the sampled units: Theorem 3.3's sorted sample."""
        order = np.argsort(self.values, kind="stable")
        below = np.cumsum(self.units[order])
        return float(self.values[order[np.searchsorted(below, phi * below[-1] * (1.0 - _SHARE_ROUNDING))]])


@dataclass(frozen=True)
class ExpirySample:
    """The samples of all levels as one table: rows sorted by (time, hash, value, weight), distinct, and the cuts t_i.

    Level i keeps the rows whose expiry there is above t_i.
    """

    times: Ints
    hashes: Words
    values: Column
    weights: Ints
    cuts: Ints
    fading: Fading

    def __len__(self) -> int:
        return len(self.times)

    @classmethod
    def empty(cls, fading: Fading) -> ExpirySample:
        none = np.empty(0, np.int64)
        return cls(none, np.empty(0, np.uint64), none, none, np.full(LEVELS, NO_CUT, np.int64), fading)

    @classmethod
    def build(cls, events: Events, capacity: int, salt: int, fading: Fading) -> ExpirySample:
        """Sample a batch in chunks of rows, newest end first, so that cuts rise early and most rows fall at once.

        The result is a function of the set of events alone; the direction of the pass only saves time.
        """
        sample = cls.empty(fading)
        rows = len(events)
        backward = rows > 0 and bool(events.times[-1] >= events.times[0])
        waiting: list[ExpirySample] = []
        for done in range(0, rows, _CHUNK):
            until = min(done + _CHUNK, rows)
            part = slice(rows - until, rows - done) if backward else slice(done, until)
            waiting.append(cls._promising(events, part, salt, sample))
            if until == rows or sum(map(len, waiting)) >= max(_CHUNK // 2, 4 * capacity):
                sample = cls.union([sample, *waiting], capacity)
                waiting = []
        return sample

    @classmethod
    def _promising(cls, events: Events, part: slice, salt: int, sample: ExpirySample) -> ExpirySample:
        """The rows that may be above the cut of some level, as a table that is neither sorted nor distinct."""
        times = events.times[part]
        values = events.values[part].astype(events.kind.dtype, copy=False)
        weights = events.weights[part] if events.weights is not None else np.ones(len(times), np.int64)
        words = (column.view(np.uint64) for column in (events.ids[part], times, values, weights))
        hashes = np.asarray(event_hashes(*words, np.uint64(salt)))
        keep = _may_stay(times, starts_of(hashes), weights, sample.cuts, sample.fading)
        return cls(times[keep], hashes[keep], values[keep], weights[keep], sample.cuts, sample.fading)

    @classmethod
    def union(cls, parts: Sequence[ExpirySample], capacity: int | None) -> ExpirySample:
        """Union of rows, duplicates dropped, the larger cut per level; trimmed to the capacity unless it is None.

        Without trimming (to answer, not to store) every row stays that is above the aligned cuts.
        """
        fading = parts[0].fading
        cuts = np.max([part.cuts for part in parts], axis=0)
        filled = [part for part in parts if len(part)]
        if not filled:
            return cls(*parts[0].rows, cuts, fading)
        times, hashes, values, weights = (
            np.concatenate(columns) for columns in zip(*(part.rows for part in filled), strict=True)
        )
        order = distinct_order(times, hashes, values, weights)
        expiries = _side_by_side([part.expiries for part in filled])[:, order]
        if capacity is not None:
            cuts = _raise_cuts(cuts, expiries, capacity)
        stay = (expiries > cuts[: len(expiries), None]).any(axis=0)
        order = order[stay]
        union = cls(times[order], hashes[order], values[order], weights[order], cuts, fading)
        union.__dict__["expiries"] = expiries[:, stay]
        return union

    @property
    def rows(self) -> tuple[Ints, Words, Column, Ints]:
        return self.times, self.hashes, self.values, self.weights

    @cached_property
    def starts(self) -> Words:
        return starts_of(self.hashes)

    @cached_property
    def expiries(self) -> Ints:
        """expiry(e, i), levels along the first axis: computed after loading, handed on by `union`."""
        return self.fading.expiries(self.times, self.starts, self.weights)

    def level_at(self, moment: int) -> int:
        """ℓ, the finest level that has discarded nothing which still counts (LEVELS: there is none)."""
        return int(LEVELS - np.searchsorted(self.cuts[::-1], moment, side="right"))

    def members(self, level: int) -> NDArray[np.intp]:
        """The rows of S_i."""
        if level >= len(self.expiries):
            return np.empty(0, np.intp)
        return np.flatnonzero(self.expiries[level] > self.cuts[level])

    def at(self, moment: int) -> Survivors | None:
        """S_ℓ at a time no earlier than the newest event; None where every level has discarded what still counts."""
        level = self.level_at(moment)
        if level == LEVELS:
            return None
        rows = self.members(level)
        units = self.fading.weights(self.weights[rows], ages_at(moment, self.times[rows]))
        return Survivors(self.values[rows], np.asarray(range_sample(self.starts[rows], units, level)), level)


def _side_by_side(tables: Sequence[Ints]) -> Ints:
    """Expiries of several tables as one: as many levels as the deepest of them has."""
    joined = np.full((max(len(table) for table in tables), sum(table.shape[1] for table in tables)), NO_CUT)
    column = 0
    for table in tables:
        joined[: len(table), column : column + table.shape[1]] = table
        column += table.shape[1]
    return joined


def _raise_cuts(cuts: Ints, expiries: Ints, capacity: int) -> Ints:
    """Per level the (capacity + 1)-th latest expiry of its rows, where it has so many."""
    raised = cuts.copy()
    for level, row in enumerate(expiries):
        members = row[row > cuts[level]]
        if len(members) > capacity:
            raised[level] = np.partition(members, -capacity - 1)[-capacity - 1]
    return raised


def _may_stay(times: Ints, starts: Words, weights: Ints, cuts: Ints, fading: Fading) -> Mask:
    """Rows that may expire after the cut of some level: those with a sampled unit there that still counts at the cut.

    One evaluation of the decay for each level in the place of a search. Rounding gets the benefit of the doubt: what
    really stays is decided by the expiry alone.
    """
    begins = fading.weights(weights, np.zeros(1, np.int64))
    stay = np.zeros(len(times), bool)
    rows = np.flatnonzero(begins > 0)
    for level, cut in enumerate(cuts.tolist()):
        first = np.asarray(first_sampled_index(starts[rows], begins[rows], level))
        inside = first < begins[rows]
        rows, first = rows[inside], first[inside]
        if cut == NO_CUT:
            stay[rows] = True
            break
        if cut == NEVER:
            continue  # nothing expires later than that
        ages = ages_at(cut, times[rows])
        above = (ages < 0) | (weights[rows] * fading(ages) * (1.0 + _DOUBT) + _DOUBT >= first + 1)
        stay[rows[above]] = True
        rows = rows[~above]
    return stay
