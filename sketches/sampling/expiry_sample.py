"""The samples S_0, S_1, … of paper A §3 for one decay that is known beforehand.

Under a known decay f, an event of weight w counts floor(w·f(age)) whole units: its first ones, and unit 0 for longest.
Level i samples each unit with probability 2^-i. The event's *expiry* at level i is when its first sampled unit there
stops to count; until then the event is in the level. Each level keeps the events that expire last. Its *cut* t_i is
the level's (capacity + 1)-th latest expiry, and the level keeps the events that expire after it. A cut depends on the
set of events alone, not on their order or repeats (Lemmas 3.1, 3.2).

An event's expiry only falls with the level, and so do the cuts. But the order of expiries differs between levels, so
what the levels keep does not nest. An event is stored once, iff some level keeps it, and its expiries are computed
again when they are needed. The paper also drops events that have expired by now. Nothing here reads a clock, and only
the capacity makes a level discard events.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numba import uint64, vectorize
from numpy.typing import NDArray

from sketches.arrays import Column, Flags, Floats, Ints, Words
from sketches.decay import Decay
from sketches.event_rules import MAX_TIME
from sketches.events import Events
from sketches.hashing import event_hashes
from sketches.sampling.nested_sample import NO_CUT, distinct_order, starts_of
from sketches.sampling.range_sample import (
    FALL,
    FALL_INDEX,
    LEVEL_PROBABILITY,
    LEVELS,
    PRIME,
    deepest_level,
    range_sample,
)
from sketches.units import TimeUnit

NEVER: Final = MAX_TIME + 1  # the expiry of an event that still counts at the last time that can be asked about
LAST_AGE: Final = (1 << 62) - 1  # in time units; what counts at this age counts for ever
FOREVER: Final = LAST_AGE + 1

_UNIT_ROUNDING: Final = 1e-9  # w·f this close below a whole number has reached it
_SHARE_ROUNDING: Final = 1e-12  # a cumulated share this close below φ, relatively, has reached it
_DECAY_ROUNDING: Final = 1e-8  # far more than the rounding error of a decay
_CHUNK: Final = 1 << 16  # rows


@vectorize(["int64(uint64, int64, int64)"], cache=True)
def first_sampled_index(start: np.uint64, weight: int, level: int) -> int:
    """The smallest j whose unit is sampled at the level; `weight` where none of the event's units is.

    Like `smallest_unit` this walks the records, and each step leads to the *next* smaller unit: O(log w).

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
    """Ages in time units, at most `LAST_AGE`; -1 for events newer than the moment. No difference overflows."""
    apart = np.uint64(moment & 0xFFFF_FFFF_FFFF_FFFF) - times.view(np.uint64)
    ages = np.minimum(apart, np.uint64(LAST_AGE)).view(np.int64)
    return np.where(times > moment, -1, ages)


@dataclass(frozen=True, slots=True)
class IntegralDecay:
    """A decay that gives whole numbers of units, because w·f is rounded down. Ages are in time units."""

    decay: Decay
    unit: TimeUnit

    def __call__(self, ages: Ints) -> Floats:
        return self.decay(self.unit.seconds(ages))

    def weights(self, weights: Ints, ages: Ints) -> Ints:
        """floor(w·f(age) + 1e-9): the number of an event's units that still count."""
        return np.asarray(np.floor(weights * self(ages) + _UNIT_ROUNDING), np.int64)

    def lifetimes(self, weights: Ints, first: Ints) -> Ints:
        """The first age at which no more than `first` units count, or FOREVER; at age 0 more must count.

        It depends on `weights` and `first` alone, so it is searched once for each distinct pair.
        """
        if len(weights) == 0 or weights.max() >= 1 << 31:
            return self._search(weights, first)
        pairs, which = np.unique((weights << 31) | first, return_inverse=True)
        return self._search(pairs >> 31, pairs & ((1 << 31) - 1))[which]

    def _search(self, weights: Ints, first: Ints) -> Ints:
        low, high = np.zeros(len(weights), np.int64), np.full(len(weights), FOREVER)
        open_ended = np.arange(len(weights))
        for power in range(63):
            age = np.array([min(1 << power, LAST_AGE)])
            counts = self.weights(weights[open_ended], age) > first[open_ended]
            high[open_ended[~counts]] = age
            open_ended = open_ended[counts]
            if len(open_ended) == 0:
                break
            low[open_ended] = age
        searching = np.flatnonzero((high < FOREVER) & (high - low > 1))
        while len(searching):
            middle = low[searching] + (high[searching] - low[searching]) // 2
            counts = self.weights(weights[searching], middle) > first[searching]
            low[searching[counts]] = middle[counts]
            high[searching[~counts]] = middle[~counts]
            searching = searching[high[searching] - low[searching] > 1]
        return high

    def expiries(self, times: Ints, starts: Words, weights: Ints) -> Ints:
        """The expiry of each event at each level (first axis); NO_CUT where the event never was in the level."""
        if len(times) == 0:
            return np.empty((0, 0), np.int64)
        units = self.weights(weights, np.zeros(1, np.int64))
        deepest = np.asarray(deepest_level(starts, units))
        expiries = np.full((int(deepest.max()) + 1, len(times)), NO_CUT)
        levels, rows = np.nonzero(np.arange(len(expiries))[:, None] <= deepest)
        first = np.asarray(first_sampled_index(starts[rows], units[rows], levels))
        lifetimes = self.lifetimes(weights[rows], first)
        ends = times[rows] + np.minimum(lifetimes, LAST_AGE)  # at most 2^62 each, so the sum cannot overflow
        expiries[levels, rows] = np.where(lifetimes == FOREVER, NEVER, np.minimum(ends, NEVER))
        return expiries


@dataclass(frozen=True, slots=True)
class Survivors:
    """One level at one time (S_ℓ at time c): the values of its events, and how many units of each it holds."""

    values: Column
    units: Ints
    level: int

    def total(self, matching: Flags | None = None) -> float:
        """(1/p_ℓ)·Σ RangeSample over the matching events: Figure 3."""
        units = self.units if matching is None else self.units[matching]
        return float(units.sum() / LEVEL_PROBABILITY[self.level])

    def share(self, matching: Flags) -> float:
        """The matching events' part of all sampled units: Figure 4."""
        return float(self.units[matching].sum() / self.units.sum())

    def shares(self, distinct: Column) -> Floats:
        """The share of each of `distinct`, which is sorted and holds every value of the level."""
        units = np.bincount(np.searchsorted(distinct, self.values), self.units, minlength=len(distinct))
        return np.asarray(units / units.sum())

    def quantile(self, phi: float) -> float:
        """The smallest value at which the cumulated share of the sampled units reaches φ: Theorem 3.3."""
        order = np.argsort(self.values, kind="stable")
        below = np.cumsum(self.units[order])
        return float(self.values[order[np.searchsorted(below, phi * below[-1] * (1.0 - _SHARE_ROUNDING))]])


@dataclass(frozen=True)
class ExpirySample:
    """Distinct rows sorted by (time, hash, value, weight), and the cut t_i of each level.

    Level i keeps the rows whose expiry there is above t_i.
    """

    times: Ints
    hashes: Words
    values: Column
    weights: Ints
    cuts: Ints
    decay: IntegralDecay

    def __len__(self) -> int:
        return len(self.times)

    @classmethod
    def empty(cls, decay: IntegralDecay) -> ExpirySample:
        none = np.empty(0, np.int64)
        return cls(none, np.empty(0, np.uint64), none, none, np.full(LEVELS, NO_CUT, np.int64), decay)

    @classmethod
    def build(cls, events: Events, capacity: int, salt: int, decay: IntegralDecay) -> ExpirySample:
        """Sample a batch in chunks of rows, from the end that is newer: cuts rise early, and most rows are below them.

        The result depends on the set of events alone. Starting at the newer end only saves time.
        """
        sample = cls.empty(decay)
        rows = len(events)
        backward = rows > 0 and bool(events.times[-1] >= events.times[0])
        waiting: list[ExpirySample] = []
        for done in range(0, rows, _CHUNK):
            until = min(done + _CHUNK, rows)
            part = slice(rows - until, rows - done) if backward else slice(done, until)
            waiting.append(cls._candidates(events, part, salt, sample))
            if until == rows or sum(map(len, waiting)) >= max(_CHUNK // 2, 4 * capacity):
                sample = cls.union([sample, *waiting], capacity)
                waiting = []
        return sample

    @classmethod
    def _candidates(cls, events: Events, part: slice, salt: int, sample: ExpirySample) -> ExpirySample:
        """The rows that may be above the cut of some level, neither sorted nor distinct."""
        times = events.times[part]
        values = events.values[part].astype(events.kind.dtype, copy=False)
        weights = events.weights[part] if events.weights is not None else np.ones(len(times), np.int64)
        words = (column.view(np.uint64) for column in (events.ids[part], times, values, weights))
        hashes = np.asarray(event_hashes(*words, np.uint64(salt)))
        keep = _may_be_kept(times, starts_of(hashes), weights, sample.cuts, sample.decay)
        return cls(times[keep], hashes[keep], values[keep], weights[keep], sample.cuts, sample.decay)

    @classmethod
    def union(cls, parts: Sequence[ExpirySample], capacity: int) -> ExpirySample:
        """The distinct rows of all parts that are above the largest cut of some level, trimmed to the capacity."""
        decay = parts[0].decay
        cuts = np.max([part.cuts for part in parts], axis=0)
        filled = [part for part in parts if len(part)]
        if not filled:
            return cls(*parts[0].rows, cuts, decay)
        times, hashes, values, weights = (
            np.concatenate(columns) for columns in zip(*(part.rows for part in filled), strict=True)
        )
        order = distinct_order(times, hashes, values, weights)
        expiries = _side_by_side([part.expiries for part in filled])[:, order]
        cuts = _raised(cuts, expiries, capacity)
        kept = (expiries > cuts[: len(expiries), None]).any(axis=0)
        order = order[kept]
        union = cls(times[order], hashes[order], values[order], weights[order], cuts, decay)
        union.__dict__["expiries"] = expiries[:, kept]
        return union

    @property
    def rows(self) -> tuple[Ints, Words, Column, Ints]:
        return self.times, self.hashes, self.values, self.weights

    @cached_property
    def starts(self) -> Words:
        return starts_of(self.hashes)

    @cached_property
    def expiries(self) -> Ints:
        """The expiry of each row at each level (first axis). `union` sets it; loaded samples compute it here."""
        return self.decay.expiries(self.times, self.starts, self.weights)

    def level_at(self, moment: int) -> int:
        """ℓ, the finest level that has discarded nothing that still counts; LEVELS where there is none."""
        return int(LEVELS - np.searchsorted(self.cuts[::-1], moment, side="right"))

    def members(self, level: int) -> NDArray[np.intp]:
        """The rows of S_i."""
        if level >= len(self.expiries):
            return np.empty(0, np.intp)
        return np.flatnonzero(self.expiries[level] > self.cuts[level])

    def at(self, moment: int) -> Survivors | None:
        """S_ℓ at a time not before the newest event; None where every level has discarded events that still count."""
        level = self.level_at(moment)
        if level == LEVELS:
            return None
        rows = self.members(level)
        units = self.decay.weights(self.weights[rows], ages_at(moment, self.times[rows]))
        return Survivors(self.values[rows], np.asarray(range_sample(self.starts[rows], units, level)), level)


def _side_by_side(tables: Sequence[Ints]) -> Ints:
    """The expiries of several samples as one array, with as many levels as the deepest of them has."""
    joined = np.full((max(len(table) for table in tables), sum(table.shape[1] for table in tables)), NO_CUT)
    column = 0
    for table in tables:
        joined[: len(table), column : column + table.shape[1]] = table
        column += table.shape[1]
    return joined


def _raised(cuts: Ints, expiries: Ints, capacity: int) -> Ints:
    """The cuts, each raised to the (capacity + 1)-th latest expiry of its level where that has so many rows."""
    raised = cuts.copy()
    for level, row in enumerate(expiries):
        members = row[row > cuts[level]]
        if len(members) > capacity:
            raised[level] = np.partition(members, -capacity - 1)[-capacity - 1]
    return raised


def _may_be_kept(times: Ints, starts: Words, weights: Ints, cuts: Ints, decay: IntegralDecay) -> Flags:
    """The rows that may expire after the cut of some level: a unit sampled there still counts at the cut.

    That takes one evaluation of the decay for each level instead of a search for the expiry. A row at the edge of
    rounding passes; `union` decides by the expiry itself.
    """
    units = decay.weights(weights, np.zeros(1, np.int64))
    may_be_kept = np.zeros(len(times), bool)
    rows = np.flatnonzero(units > 0)
    for level, cut in enumerate(cuts.tolist()):
        first = np.asarray(first_sampled_index(starts[rows], units[rows], level))
        inside = first < units[rows]
        rows, first = rows[inside], first[inside]
        if cut == NO_CUT:
            may_be_kept[rows] = True
            break
        if cut == NEVER:
            continue  # nothing expires later than that
        ages = ages_at(cut, times[rows])
        above = (ages < 0) | (weights[rows] * decay(ages) * (1.0 + _DECAY_ROUNDING) + _DECAY_ROUNDING >= first + 1)
        may_be_kept[rows[above]] = True
        rows = rows[~above]
    return may_be_kept
