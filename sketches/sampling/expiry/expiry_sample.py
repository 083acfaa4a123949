"""The samples S_0, S_1, … of paper A §3 for one decay that is known beforehand.

Under a known decay f, an event counts whole units (`integral_decay`): its first ones, and unit 0 for longest. Level i
samples each unit with probability 2^-i. The event's *expiry* at level i is when its first sampled unit there stops to
count; until then the event is in the level. Each level keeps the events that expire last. Its *cut* t_i is the level's
(capacity + 1)-th latest expiry, and the level keeps the events that expire after it.

What has expired by the newest event can never count again, because answers are as of that event or later. So a level
keeps an event iff it expires there after both the cut and the newest event, and a cut that is not after the newest
event is no cut: nothing at or below it could be asked for. The clock is that of the events. Nothing here reads another.

The table depends on the set of events alone, not on their order, repeats or merges (Lemmas 3.1, 3.2). Take two tables
with cuts a and b and newest events m ≤ n; let t be the (capacity + 1)-th latest expiry in a level over all events of
both. If t > n, then all events that expire at or after t are in the tables, but for those that one of the cuts has
dropped: that cut then is t itself. So the cut is the (capacity + 1)-th latest expiry of the rows above max(a, b, n), or
max(a, b) where there are not so many. If t ≤ n, at most `capacity` rows expire after n, and no cut is left. An event
that comes late and has expired already is dropped in the same way.

An event's expiry only falls with the level, and so do the cuts; those that are not after the newest event are the last
ones. But the order of expiries differs between levels, so what the levels keep does not nest. An event is stored once,
iff some level keeps it, and its expiries are computed again when they are needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sketches.arrays import Column, Ints, Words
from sketches.events import Events
from sketches.hashing import event_hashes
from sketches.records import dataclass
from sketches.sampling.expiry.integral_decay import IntegralDecay, ages_at, without_empty_levels
from sketches.sampling.expiry.survivors import Survivors
from sketches.sampling.inclusion.nested_sample import NO_CUT, distinct_order, starts_of
from sketches.sampling.inclusion.range_sample import LEVEL_PROBABILITY, LEVELS, range_sample

NOTHING_SEEN: Final = NO_CUT  # before any event
_CHUNK: Final = 1 << 16  # rows


@dataclass(frozen=True)
class ExpirySample:
    """Distinct rows sorted by (time, hash, value, weight), the cut t_i of each level, and the time of the newest event.

    Level i keeps the rows whose expiry there is after both.
    """

    times: Ints
    hashes: Words
    values: Column
    weights: Ints
    cuts: Ints
    newest: int  # of all events ever seen, kept or not
    decay: IntegralDecay

    def __len__(self) -> int:
        return len(self.times)

    @classmethod
    def empty(cls, decay: IntegralDecay, newest: int = NOTHING_SEEN) -> ExpirySample:
        none = np.empty(0, np.int64)
        return cls(none, np.empty(0, np.uint64), none, none, np.full(LEVELS, NO_CUT, np.int64), newest, decay)

    @classmethod
    def build(
        cls, events: Events, capacity: int, salt: int, decay: IntegralDecay, *, once: bool = False
    ) -> ExpirySample:
        """Sample a batch in chunks of rows, from the end that is newer: cuts rise early, and most rows are below them.

        The result depends on the set of events alone. Starting at the newer end only saves time. With `once` every
        event weighs 1, but events that differ in nothing but their weight remain two.
        """
        rows = len(events)
        sample = cls.empty(decay, int(events.times.max()) if rows else NOTHING_SEEN)
        backward = rows > 0 and bool(events.times[-1] >= events.times[0])
        waiting: list[ExpirySample] = []
        for done in range(0, rows, _CHUNK):
            until = min(done + _CHUNK, rows)
            part = slice(rows - until, rows - done) if backward else slice(done, until)
            waiting.append(sample._candidates(events, part, salt, once))
            if until == rows or sum(map(len, waiting)) >= max(_CHUNK // 2, 4 * capacity):
                sample = cls.union([sample, *waiting], capacity)
                waiting = []
        return sample

    def _candidates(self, events: Events, part: slice, salt: int, once: bool) -> ExpirySample:
        """The rows that may be kept by some level, neither sorted nor distinct."""
        times = events.times[part]
        values = events.values[part].astype(events.kind.dtype, copy=False)
        weights = events.weights[part] if events.weights is not None else np.ones(len(times), np.int64)
        words = (column.view(np.uint64) for column in (events.ids[part], times, values, weights))
        hashes = np.asarray(event_hashes(*words, np.uint64(salt)))
        if once:
            weights = np.ones(len(times), np.int64)
        keep = self.decay.may_be_kept(times, hashes, weights, self.ends)
        return ExpirySample(times[keep], hashes[keep], values[keep], weights[keep], self.cuts, self.newest, self.decay)

    @classmethod
    def union(cls, parts: Sequence[ExpirySample], capacity: int) -> ExpirySample:
        """The distinct rows of all parts that some level keeps, trimmed to the capacity."""
        decay = parts[0].decay
        newest = max(part.newest for part in parts)
        cuts = np.max([part.cuts for part in parts], axis=0)
        filled = [part for part in parts if len(part)]
        if not filled:
            return cls(*parts[0].rows, np.where(cuts > newest, cuts, NO_CUT), newest, decay)
        times, hashes, values, weights = (
            np.concatenate(columns) for columns in zip(*(part.rows for part in filled), strict=True)
        )
        order = distinct_order(times, hashes, values, weights)
        expiries = _side_by_side([part.expiries for part in filled])[:, order]
        cuts = _raised(cuts, newest, expiries, capacity)
        ends = np.maximum(cuts, newest)[: len(expiries), None]
        expiries = np.where(expiries > ends, expiries, NO_CUT)
        kept = (expiries > NO_CUT).any(axis=0)
        order = order[kept]
        union = cls(times[order], hashes[order], values[order], weights[order], cuts, newest, decay)
        union.__dict__["expiries"] = without_empty_levels(expiries[:, kept])
        return union

    @property
    def rows(self) -> tuple[Ints, Words, Column, Ints]:
        return self.times, self.hashes, self.values, self.weights

    @property
    def ends(self) -> Ints:
        """The time of each level after which its rows expire."""
        return np.maximum(self.cuts, self.newest)

    @cached_property
    def expiries(self) -> Ints:
        """The expiry of each row at each level that keeps it (first axis), else NO_CUT.

        `union` sets it; loaded samples compute it here.
        """
        return self.decay.expiries(self.times, self.hashes, self.weights, self.ends)

    def level_at(self, moment: int) -> int:
        """ℓ, the finest level that has discarded nothing that still counts; LEVELS where there is none."""
        return int(LEVELS - np.searchsorted(self.cuts[::-1], moment, side="right"))

    def members(self, level: int) -> NDArray[np.intp]:
        """The rows of S_i."""
        if level >= len(self.expiries):
            return np.empty(0, np.intp)
        return np.flatnonzero(self.expiries[level] > NO_CUT)

    def at(self, moment: int, *, heavy: bool = False) -> Survivors | None:
        """S_ℓ at a time not before the newest event; None where every level has discarded events that still count.

        In level 0 an event is kept with the probability min(1, scale·w·f), so it stands for w·f, or for 1/scale where
        w·f is less. In deeper levels it stands for its sampled units (Figure 3). `heavy` says that no event ever seen
        counts less than a unit, so that none is kept by chance.
        """
        level = self.level_at(moment)
        if level == LEVELS:
            return None
        rows = self.members(level)
        weights, hashes, ages = self.weights[rows], self.hashes[rows], ages_at(moment, self.times[rows])
        units = self.decay.units(weights, ages, self.decay.dither(hashes))
        counted, by_chance = range_sample(starts_of(hashes), units, level).astype(np.float64), np.zeros(len(rows), bool)
        if level == 0 and self.decay.scale > 1:
            masses = self.decay.masses(weights, ages)
            counted, by_chance = np.where(units > 0, np.maximum(masses, 1.0), 0.0), (units > 0) & (masses < 1.0)
        in_one = float(LEVEL_PROBABILITY[level]) * self.decay.scale
        certain = level == 0 and (heavy or self.decay.scale == 1)
        return Survivors(self.values[rows], weights, counted, by_chance, level, certain, in_one)


def _side_by_side(tables: Sequence[Ints]) -> Ints:
    """The expiries of several samples as one array, with as many levels as the deepest of them has."""
    joined = np.full((max(len(table) for table in tables), sum(table.shape[1] for table in tables)), NO_CUT)
    column = 0
    for table in tables:
        joined[: len(table), column : column + table.shape[1]] = table
        column += table.shape[1]
    return joined


def _raised(cuts: Ints, newest: int, expiries: Ints, capacity: int) -> Ints:
    """The cuts, each raised to the (capacity + 1)-th latest expiry of its level where that has so many rows."""
    raised = np.where(cuts > newest, cuts, NO_CUT)
    for level, row in enumerate(expiries):
        members = row[row > max(cuts[level], newest)]
        if len(members) > capacity:
            raised[level] = np.partition(members, -capacity - 1)[-capacity - 1]
    return raised
