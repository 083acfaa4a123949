"""Randomised waves: counters that remember a sample of their arrivals, which can be merged without any loss.

An arrival is at level l with probability 2^-l, which its hash decides; a counter remembers of every level the newest
arrivals, as many as its accuracy takes. A window is counted at the finest level that still remembers all of it, each
arrival for 2^l. Levels nest, so an arrival is stored once, with its deepest level, while that level remembers its time.
Copies of a row are told apart by their number within a batch; those in different sketches that are merged are not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from sketches.arrays import Floats, Ints, Levels, Words
from sketches.compiled import njit
from sketches.countmin.window_logs import Count
from sketches.encoding.envelope import Reader, Writer
from sketches.errors import CorruptError, IncompatibleError, QuestionError, WaneError
from sketches.event_rules import MAX_TIME
from sketches.events import Events
from sketches.hashing import finalise, salt
from sketches.records import dataclass
from sketches.special_functions import ndtri

LEVELS: Final = 48
NO_CUT: Final = -(1 << 62) - 1  # earlier than any time: nothing was forgotten


def capacity(epsilon: float, delta: float) -> int:
    """How many arrivals a level remembers, that the count of any window errs by more than ε with probability δ at most.

    The level before the one that is read overflowed, so that one holds at least half as many sampled arrivals, whose
    count has a relative standard deviation of at most sqrt(2/capacity).
    """
    return max(16, math.ceil(2.0 * (float(ndtri(1.0 - delta / 2.0)) / epsilon) ** 2))


@dataclass(frozen=True, slots=True)
class Waves:
    """Many randomised waves: arrivals by counter and time, each with its deepest level, and what each level forgot."""

    owner: Ints
    time: Ints
    level: Levels
    cuts: Ints  # counters by levels: up to which time a level has forgotten

    @classmethod
    def none(cls, counters: int) -> Waves:
        nothing = np.zeros(0, np.int64)
        return cls(nothing, nothing, np.zeros(0, np.uint8), np.full((counters, LEVELS), NO_CUT, np.int64))

    @classmethod
    def of(cls, owner: Ints, time: Ints, level: Levels, counters: int, most: int) -> Waves:
        """The waves of arrivals in any order."""
        return cls(owner, time, level, np.full((counters, LEVELS), NO_CUT, np.int64))._trimmed(most)

    @classmethod
    def merged(cls, parts: Sequence[Waves], most: int) -> Waves:
        """The waves of all parts' arrivals, the same whatever the order and the tree of merges."""
        owner, time, level = (
            np.concatenate([getattr(part, name) for part in parts]) for name in ("owner", "time", "level")
        )
        return cls(owner, time, level, np.maximum.reduce([part.cuts for part in parts]))._trimmed(most)

    def _trimmed(self, most: int) -> Waves:
        order = np.lexsort((self.level, self.time, self.owner))
        owner, time, level = self.owner[order], self.time[order], self.level[order]
        cuts = _cuts(owner, time, level, self.cuts, most)
        kept = time > cuts[owner, level]
        return Waves(owner[kept], time[kept], level[kept], cuts)

    def sizes(self) -> Floats:
        """How many arrivals each one stands for: 2^l at the finest level that remembers its time, if it is at that."""
        finest = np.argmax(self.cuts[self.owner] < self.time[:, None], axis=1)
        return np.where(self.level >= finest, np.exp2(finest), 0.0)

    def write(self, writer: Writer) -> None:
        writer.varint(len(self.time))
        counters = len(self.cuts)
        writer.column(np.bincount(self.owner, minlength=counters).astype(np.uint64))
        if len(self.time):
            least = int(self.time.min())
            writer.i64(least)
            writer.column((self.time - least).view(np.uint64))
            writer.column(self.level.astype(np.uint64))
        used = np.count_nonzero(self.cuts != NO_CUT, axis=1)  # cuts fall with the level: only the front part is used
        writer.column(used.astype(np.uint64))
        front = np.arange(LEVELS) < used[:, None]
        writer.column((self.cuts[front] - NO_CUT).view(np.uint64))

    @classmethod
    def read(cls, reader: Reader, counters: int, oldest: int, newest: int) -> Waves:
        """What `write` wrote, every time within those of the sketch."""
        rows = reader.varint()
        lengths = reader.column(counters)
        if rows > 8 * reader.remaining or lengths.astype(np.float64).sum() != rows:
            raise CorruptError(f"{rows} arrivals are announced, but only {reader.remaining} bytes are left")
        owner = np.repeat(np.arange(counters), lengths.view(np.int64))
        time, level = np.zeros(0, np.int64), np.zeros(0, np.uint64)
        if rows:
            least = reader.i64()
            delays, level = reader.column(rows), reader.column(rows)
            if not oldest <= least <= newest or delays.max() > np.uint64(newest - least):
                raise CorruptError("times lie outside the range of times")
            time = least + delays.view(np.int64)
            if level.max() >= LEVELS:
                raise CorruptError(f"an arrival is at level {level.max()}; there are {LEVELS}")
        used = reader.column(counters)
        if used.max(initial=np.uint64(0)) > LEVELS:
            raise CorruptError(f"{used.max()} thresholds are announced; there are {LEVELS} levels")
        cuts = np.full((counters, LEVELS), NO_CUT, np.int64)
        front = np.arange(LEVELS) < used.view(np.int64)[:, None]
        stored = reader.column(int(used.sum()))
        if len(stored) and stored.max() > np.uint64(2 * MAX_TIME):
            raise CorruptError("a threshold lies outside the range of times")
        cuts[front] = stored.view(np.int64) + NO_CUT
        if (cuts[:, 1:] > cuts[:, :-1]).any():
            raise CorruptError("thresholds rise from a level to a deeper one")
        if rows and ((time <= cuts[owner, level.view(np.int64)]).any()):
            raise CorruptError("an arrival is remembered that its level has forgotten")
        return cls(owner, time, level.astype(np.uint8), cuts)


@dataclass(frozen=True)
class RandomisedWave:
    """One randomised wave, by itself: how many arrivals in any window, with probability 1 - δ within ε.

    >>> wave = RandomisedWave.of(0.1, 0.05, ids=range(10_000), times=range(10_000))
    >>> count = wave.count(1000)
    >>> count.lower <= 1000 <= count.upper
    True
    """

    epsilon: float
    delta: float
    seed: int
    waves: Waves

    @classmethod
    def of(cls, epsilon: float, delta: float, ids: ArrayLike, times: ArrayLike, seed: int = 0) -> RandomisedWave:
        """The wave of a batch of arrivals; ids tell them apart, and with the seed decide which are sampled."""
        for name, number in (("epsilon", epsilon), ("delta", delta)):
            if not 0 < number < 1:
                raise WaneError(f"{name} is {number!r}; it must lie strictly between 0 and 1")
        events = Events.of(ids, times)
        words = events.ids ^ finalise(events.times.view(np.uint64) ^ np.uint64(salt(seed, LEVELS)))
        owner = np.zeros(len(events), np.int64)
        most = capacity(epsilon, delta)
        return cls(epsilon, delta, seed, Waves.of(owner, events.times, levels_of(apart(finalise(words))), 1, most))

    def merge(self, other: RandomisedWave) -> RandomisedWave:
        """The wave of both waves' arrivals: the same as if one had seen them all."""
        if (self.epsilon, self.delta, self.seed) != (other.epsilon, other.delta, other.seed):
            raise IncompatibleError("waves of different accuracy or seed cannot be merged")
        merged = Waves.merged([self.waves, other.waves], capacity(self.epsilon, self.delta))
        return RandomisedWave(self.epsilon, self.delta, self.seed, merged)

    def count(self, window: int, as_of: int | None = None) -> Count:
        """The arrivals at times in (as_of - window, as_of], where as_of is the newest arrival's or later."""
        times = self.waves.time
        if window < 1:
            raise QuestionError(f"window is {window}; it must be at least 1")
        if len(times) == 0:
            return Count(0.0, 0.0, 0.0)
        now = int(times[-1]) if as_of is None else as_of
        if now < times[-1]:
            raise QuestionError(f"as_of is {now}, but the newest arrival is at {times[-1]}")
        first = now - window + 1
        finest = int(np.argmax(self.waves.cuts[0] < first))
        inside = (times >= first) & (self.waves.level >= finest)
        value = float(np.count_nonzero(inside)) * 2.0**finest
        if finest == 0:
            return Count(value, value, value)
        return Count(value, value / (1.0 + self.epsilon), value / (1.0 - self.epsilon))


def apart(hashes: Words) -> Words:
    """Hashes that tell copies of a row apart, by how many came before; the first keeps its hash.

    Sampled by the same hash they would come and go together, and a count would be off by more than its bounds say.

    >>> len(set(apart(np.array([5, 7, 5, 5], np.uint64)).tolist()))
    4
    """
    order = np.argsort(hashes, kind="stable")
    first = np.concatenate(([True], hashes[order[1:]] != hashes[order[:-1]])) if len(hashes) else np.zeros(0, bool)
    if first.all():
        return hashes
    number = np.arange(len(hashes))
    before = np.zeros(len(hashes), np.uint64)
    before[order] = (number - np.maximum.accumulate(np.where(first, number, 0))).astype(np.uint64)
    return np.where(before == 0, hashes, finalise(hashes ^ finalise(before)))


def levels_of(hashes: Words) -> Levels:
    """The deepest level of arrivals with these hashes: how many bits from the highest on are 0."""
    left, zeros = hashes.copy(), np.zeros(len(hashes), np.uint8)
    for shift in (32, 16, 8, 4, 2, 1):
        low = left < np.uint64(1) << np.uint64(64 - shift)
        zeros[low] += shift
        left[low] <<= np.uint64(shift)
    return np.minimum(zeros, LEVELS - 1)


@njit(cache=True, nogil=True)
def _cuts(owner: Ints, time: Ints, level: Levels, cuts: Ints, most: int) -> Ints:
    """The thresholds once every level remembers its newest arrivals only; of a time it remembers all or none."""
    found = cuts.copy()
    seen = np.zeros(LEVELS, np.int64)
    for at in range(len(owner) - 1, -1, -1):
        if at == len(owner) - 1 or owner[at] != owner[at + 1]:
            seen[:] = 0
        for deep in range(level[at] + 1):
            if time[at] <= found[owner[at], deep]:
                continue
            seen[deep] += 1
            if seen[deep] > most:
                found[owner[at], deep] = time[at]
    return found
