"""From a decay to whole units: how many an event counts at an age, and when its units have expired (paper A §3).

An event of weight w counts floor(scale·w·f(age) + θ) units. θ is a number in [0, 1) drawn from the event's own hash, so
the expectation is scale·w·f(age) exactly, the number never rises with age, and every machine finds the same one. With
scale 1 there is no θ: under `none` and windows that is exact, under other decays weights are rounded down.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from sketches.arrays import Flags, Floats, Ints, Rows, Words
from sketches.compiled import vectorize
from sketches.decay import Decay
from sketches.decay.base import DecayClass
from sketches.event_rules import MAX_TIME, MAX_WEIGHT
from sketches.hashing import finalise
from sketches.records import dataclass
from sketches.sampling.inclusion.nested_sample import NO_CUT, starts_of
from sketches.sampling.inclusion.range_sample import FALL, FALL_INDEX, PRIME, deepest_level
from sketches.units import TimeUnit

NEVER: Final = MAX_TIME + 1  # the expiry of an event that still counts at the last time that can be asked about
LAST_AGE: Final = (1 << 62) - 1  # in time units; what counts at this age counts for ever
FOREVER: Final = LAST_AGE + 1
MOST_UNITS: Final = MAX_WEIGHT  # of one event: RangeSample is even up to there

_UNIT_ROUNDING: Final = 1e-9  # w·f this close below a whole number has reached it
_DECAY_ROUNDING: Final = 1e-8  # far more than the rounding error of a decay
_DITHER_SALT: Final = np.uint64(0x8CB92BA72F3D8DD7)  # makes θ another number than the start of the event's units
_DITHER_SHIFT: Final = np.uint64(11)  # a double holds 53 bits


@vectorize(["int64(uint64, int64, int64)"], cache=True)
def first_sampled_index(start: np.uint64, weight: int, level: int) -> int:
    """The smallest j whose unit is sampled at the level; `weight` where none of the event's units is.

    Like `smallest_unit` this walks the records, and each step leads to the *next* smaller unit: O(log w).

    >>> int(first_sampled_index(np.uint64(12345), 1000, 0))
    0
    """
    threshold = np.uint64(PRIME) >> np.uint64(level)
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


def zero_or_one(decay: Decay) -> bool:
    """Whether an event counts whole or not at all: no decay, or a window."""
    return decay.split()[0].decay_class is DecayClass.NONE


@dataclass(frozen=True, slots=True)
class IntegralDecay:
    """A decay that gives whole numbers of units. Ages are in time units."""

    decay: Decay
    unit: TimeUnit
    scale: int = 1  # units that a weight of 1 counts where f is 1

    def __call__(self, ages: Ints) -> Floats:
        return self.decay(self.unit.seconds(ages))

    @property
    def floors(self) -> bool:
        """Whether it rounds weights down and so gives another quantity than the decay."""
        return self.scale == 1 and not zero_or_one(self.decay)

    def dither(self, hashes: Words) -> Floats:
        """θ of each event."""
        if self.scale == 1:
            return np.zeros(len(hashes))
        return np.asarray((finalise(hashes ^ _DITHER_SALT) >> _DITHER_SHIFT) * 2.0**-53)

    def masses(self, weights: Ints, ages: Ints) -> Floats:
        """scale·w·f(age), not yet whole."""
        return np.asarray(weights * self(ages) * self.scale)

    def units(self, weights: Ints, ages: Ints, dither: Floats) -> Ints:
        """floor(scale·w·f(age) + θ): the number of an event's units that still count."""
        rounding = _UNIT_ROUNDING if self.scale == 1 else 0.0
        return np.asarray(np.floor(self.masses(weights, ages) + dither + rounding), np.int64)

    def lifetimes(self, weights: Ints, first: Ints, dither: Floats) -> Ints:
        """The first age at which no more than `first` units count, or FOREVER; at age 0 more must count.

        Without θ it depends on `weights` and `first` alone, and is searched once for each distinct pair.
        """
        if len(weights) == 0 or self.scale > 1 or weights.max() >= 1 << 31:
            return self._search(weights, first, dither)
        pairs, which = np.unique((weights << 31) | first, return_inverse=True)
        return self._search(pairs >> 31, pairs & ((1 << 31) - 1), np.zeros(len(pairs)))[which]

    def _search(self, weights: Ints, first: Ints, dither: Floats) -> Ints:
        low, high = np.zeros(len(weights), np.int64), np.full(len(weights), FOREVER)
        open_ended = np.arange(len(weights))
        for power in range(63):
            age = np.array([min(1 << power, LAST_AGE)])
            counts = self.units(weights[open_ended], age, dither[open_ended]) > first[open_ended]
            high[open_ended[~counts]] = age
            open_ended = open_ended[counts]
            if len(open_ended) == 0:
                break
            low[open_ended] = age
        searching = np.flatnonzero((high < FOREVER) & (high - low > 1))
        while len(searching):
            middle = low[searching] + (high[searching] - low[searching]) // 2
            counts = self.units(weights[searching], middle, dither[searching]) > first[searching]
            low[searching[counts]] = middle[counts]
            high[searching[~counts]] = middle[~counts]
            searching = searching[high[searching] - low[searching] > 1]
        return high

    def may_outlast(self, moment: int, times: Ints, weights: Ints, first: Ints, dither: Floats) -> Flags:
        """Whether more than `first` units may still count at a moment; at the edge of rounding they may.

        This takes one evaluation of the decay instead of a search for the expiry.
        """
        if moment == NO_CUT:
            return np.ones(len(times), bool)
        if moment == NEVER:
            return np.zeros(len(times), bool)  # nothing expires later than that
        ages = ages_at(moment, times)
        most = self.masses(weights, ages) * (1.0 + _DECAY_ROUNDING) + _DECAY_ROUNDING + dither
        return np.asarray((ages < 0) | (most >= first + 1))

    def expiries(self, times: Ints, hashes: Words, weights: Ints, ends: Ints) -> Ints:
        """The expiry of each event at each level (first axis), as many levels as are needed.

        NO_CUT where the event never was in the level, or has expired there by the level's entry in `ends`.
        """
        starts, dither = starts_of(hashes), self.dither(hashes)
        units = self.units(weights, np.zeros(1, np.int64), dither)
        deepest = np.asarray(deepest_level(starts, units))
        expiries = np.full((int(deepest.max(initial=-1)) + 1, len(times)), NO_CUT)
        if len(expiries) == 0:
            return expiries
        asked: list[tuple[Rows, Ints]] = []  # of each level: its rows, and the first of their units in it
        for level, end in enumerate(ends[: len(expiries)].tolist()):
            rows = np.flatnonzero(deepest >= level)
            first = np.asarray(first_sampled_index(starts[rows], units[rows], level))
            alive = self.may_outlast(end, times[rows], weights[rows], first, dither[rows])
            asked.append((rows[alive], first[alive]))
        levels = np.repeat(np.arange(len(asked)), [len(rows) for rows, _ in asked])
        rows, first = (np.concatenate(column) for column in zip(*asked, strict=True))
        # one search for all levels: of small sketches each takes as long, whatever the number of rows
        lifetimes = self.lifetimes(weights[rows], first, dither[rows])
        found = times[rows] + np.minimum(lifetimes, LAST_AGE)  # at most 2^62 each, so the sum cannot overflow
        found = np.where(lifetimes == FOREVER, NEVER, np.minimum(found, NEVER))
        expiries[levels, rows] = np.where(found > ends[levels], found, NO_CUT)
        return without_empty_levels(expiries)

    def may_be_kept(self, times: Ints, hashes: Words, weights: Ints, ends: Ints) -> Flags:
        """The rows that may expire after the end of some level; a row at the edge of rounding passes."""
        starts, dither = starts_of(hashes), self.dither(hashes)
        units = self.units(weights, np.zeros(1, np.int64), dither)
        may_be_kept = np.zeros(len(times), bool)
        rows = np.flatnonzero(units > 0)
        for level, end in enumerate(ends.tolist()):
            first = np.asarray(first_sampled_index(starts[rows], units[rows], level))
            inside = first < units[rows]
            rows, first = rows[inside], first[inside]
            above = self.may_outlast(end, times[rows], weights[rows], first, dither[rows])
            may_be_kept[rows[above]] = True
            rows = rows[~above]
            if len(rows) == 0:
                break
        return may_be_kept


def without_empty_levels(expiries: Ints) -> Ints:
    """The table up to the deepest level that an event is in."""
    used = np.flatnonzero((expiries > NO_CUT).any(axis=1))
    return expiries[: used[-1] + 1 if len(used) else 0]
