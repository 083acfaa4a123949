"""Randomised waves: counters that remember a sample of their arrivals, which can be merged without any loss.

An arrival is at level l with probability 2^-l, which its hash decides; a counter remembers of every level the newest
arrivals, as many as its accuracy takes. A window is counted at the finest level that still remembers all of it, each
arrival for 2^l. Levels nest, so an arrival is stored once, with its deepest level, while that level remembers its time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numba
import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from sketches.errors import CorruptError
from sketches.events import MAX_TIME
from sketches.wire import Reader, Writer

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Levels = NDArray[np.uint8]

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


@numba.njit(cache=True, nogil=True)
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
