"""Paper C §3.2 in its *eager merge* version, one tuple at a time: the peer of the `qdigest` family, which defers it.

As it is printed, with what the print leaves open settled so:

- A q-digest records a count at the lowest range there is on the path to an item and opens the next one below it once
  that range is full: then a parent is full before it has children, and there is nothing for Compress to fold.
- Figure 2 inserts into Q_1, Q_2, ... what leaves the buffer, and reads its answer from one of them alone, where what is
  in the buffer would be missing. Here each Q_j gets every tuple, as the proof of Theorem 1 has it.

The certain error of an answer from Q_l is 2^l·log W, as the text derives it: `Answer.bound`. That it is at most ε·D_w
needs all α ranges of Q_(l-1) to hold four times its threshold, and but half of them surely hold it once; so the tests
look at both, the certain bound and ε·D_w.
"""

from __future__ import annotations

import math
from bisect import bisect_right, insort
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

Range = tuple[int, int]  # height and index: [index·2^height, (index + 1)·2^height - 1]


@dataclass(frozen=True)
class Answer:
    """An estimate that is never above the exact count, and never more than `bound` below it."""

    value: float
    bound: float


@dataclass
class Digest:
    """A q-digest with a fixed count threshold over a domain of 2^bits items.

    >>> digest = Digest(bits=3, threshold=1)
    >>> for item in (5, 5, 5, 6):
    ...     place = digest.insert(item)
    >>> digest.counts, digest.rank(5)
    ({(3, 0): 1, (2, 1): 1, (1, 2): 1, (1, 3): 1}, 1)
    """

    bits: int
    threshold: int
    counts: dict[Range, int] = field(default_factory=dict)

    def path(self, item: int) -> list[Range]:
        """The ranges that hold an item, the widest first."""
        return [(height, item >> height) for height in range(self.bits, -1, -1)]

    def insert(self, item: int) -> Range:
        """Record one more; returns where."""
        place: Range = (self.bits, 0)
        for place in self.path(item):
            if place[0] == 0 or self.counts.get(place, 0) < self.threshold:
                break
        self.counts[place] = self.counts.get(place, 0) + 1
        return place

    def rank(self, item: int) -> int:
        """How many are surely at most `item`; of those in ranges that it cuts nothing is known."""
        return sum(count for (height, index), count in self.counts.items() if ((index + 1) << height) - 1 <= item)


@dataclass
class TimeWise:
    """Q_j: a q-digest of times, each range of which has a q-digest of the values of all tuples since it is there."""

    time_bits: int
    value_bits: int
    level: int
    alpha: int
    tau: int = -1
    times: Digest = field(init=False)
    values: dict[Range, Digest] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.times = Digest(self.time_bits, 1 << (self.level - 1))

    def insert(self, value: int, time: int) -> None:
        if time <= self.tau:
            return
        deepest = self.times.insert(time)
        if deepest not in self.values:
            self.values[deepest] = Digest(self.value_bits, (1 << (self.level - 1)) // self.value_bits)
        for place in self.times.path(time):
            if place in self.values:
                self.values[place].insert(value)
        self._discard()

    def _discard(self) -> None:
        """Keep the α ranges that come last by their right ends, of equal ones the wider (the order of post-order)."""
        while len(self.values) > self.alpha:
            oldest = min(self.values, key=lambda place: (_end(place), place[0]))
            self.tau = max(self.tau, _end(oldest))
            for place in [place for place in self.values if _end(place) <= self.tau]:
                del self.values[place]
                del self.times.counts[place]

    def rank(self, since: int, value: int) -> int:
        """Tuples of values up to `value` and times from `since` on, by the dyadic decomposition of these times."""
        found, at = 0, since
        while at < 1 << self.time_bits:
            height = (at & -at).bit_length() - 1 if at else self.time_bits
            digest = self.values.get((height, at >> height))
            found += digest.rank(value) if digest else 0
            at += 1 << height
        return found


@dataclass
class Eager:
    """Q_0, the most recent tuples themselves, and Q_1 to Q_J, over times below 2^time_bits and values below
    2^value_bits.

    >>> peer = Eager(epsilon=0.5, time_bits=3, value_bits=3, most=100)
    >>> for time, value in enumerate([5, 1, 5, 7]):
    ...     peer.arrive(value, time)
    >>> peer.window(2, 5), peer.alpha, len(peer.levels)
    (Answer(value=1, bound=0.0), 18, 6)
    """

    epsilon: float
    time_bits: int
    value_bits: int
    most: int  # N, at least as many tuples as will come
    now: int = -1
    recent: list[tuple[int, int]] = field(default_factory=list)  # times and values, in order
    levels: list[TimeWise] = field(init=False)
    _tau: int = -1

    def __post_init__(self) -> None:
        """J and one more: thresholds are half of those of §3.1, and of α ranges only half are surely full."""
        last = max(1, math.ceil(math.log2(self.epsilon * self.most) - math.log2(self.time_bits)) + 1)
        self.levels = [TimeWise(self.time_bits, self.value_bits, level, self.alpha) for level in range(1, last + 1)]

    @property
    def alpha(self) -> int:
        return math.ceil(3 / self.epsilon * self.time_bits)

    def arrive(self, value: int, time: int) -> None:
        """A tuple, in any order of times."""
        self.now = max(self.now, time)
        insort(self.recent, (time, value))
        if len(self.recent) > self.alpha:
            self._tau = max(self._tau, self.recent.pop(0)[0])
        for level in self.levels:
            level.insert(value, time)

    def window(self, width: int, value: int) -> Answer:
        """r(w, x): how many values up to x are of the times in (now - w, now]."""
        edge = max(self.now - width, -1)
        if edge >= self._tau:
            recent = self.recent[bisect_right(self.recent, (edge, 1 << self.value_bits)) :]
            return Answer(sum(one <= value for _, one in recent), 0.0)
        used = next(level for level in self.levels if level.tau <= edge)
        return Answer(used.rank(edge + 1, value), float((1 << used.level) * self.time_bits))

    def decayed(self, decay: Callable[[np.ndarray], np.ndarray], value: int) -> Answer:
        """Σ g(age) of the values up to x, by reduction to the windows of all widths (§5.1): what ages from j - 1 to j
        lose is lost by all in the window of width j."""
        weights = decay(np.arange(self.now + 1.0))
        lost = weights - np.append(weights[1:], 0.0)
        windows = [self.window(width, value) for width in range(1, self.now + 2)]
        return Answer(
            float(lost @ np.array([one.value for one in windows])),
            float(lost @ np.array([one.bound for one in windows])),
        )

    @property
    def nodes(self) -> int:
        """Pairs of a range and a count in all q-digests of values; counts of times and recent tuples are not in it."""
        return sum(len(digest.counts) for level in self.levels for digest in level.values.values())


def _end(place: Range) -> int:
    height, index = place
    return ((index + 1) << height) - 1
