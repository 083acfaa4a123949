"""Which block holds which time, once a clock is known: the longest dyadic stretch that a decay lets stand together.

Time falls into intervals of `span` times (the epochs of a stream), counted from time 0. A block is a dyadic part of an
interval or, beyond that, 2^j intervals that begin at a multiple of 2^j. So any two blocks are apart or one holds the
other, and which blocks there are follows from the clock alone: two sites at the same clock have the same ones, whatever
came to them and in whatever order. As the clock moves on blocks only grow.

This is the merging histogram of Cormode, Tirthapura and Xu 2009, §3.2, without its table of merging times, and answers
the open question of Cormode, Korn and Tirthapura 2008, §7.1: how divisions of many streams can be merged in bounded
space.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from sketches.arrays import Flags, Ints, Levels, frozen
from sketches.blocks.reach import NEVER, quotient, reach
from sketches.compiled import njit
from sketches.decay import Decay
from sketches.records import dataclass
from sketches.units import TimeUnit

_LONGEST: Final = 1 << 61  # times in a block


class Blocks(NamedTuple):
    """Blocks by the first of their times, and their heights: 2^height times, or 2^(height - top) intervals."""

    first: Ints
    height: Levels


@dataclass(frozen=True, eq=False)
class Grid:
    """The blocks of one decay over intervals of a span; `error` is how much more the newest time of a block may weigh
    than the oldest one."""

    decay: Decay
    unit: TimeUnit
    span: int
    error: float
    history: float  # seconds: see `reach`

    @property
    def top(self) -> int:
        """The height of an interval."""
        return (self.span - 1).bit_length()

    @property
    def lengths(self) -> Ints:
        """How many times a block of each height has; at the end of an interval it may have fewer."""
        within = [min(1 << height, self.span) for height in range(self.top + 1)]
        beyond = range(1, (_LONGEST // self.span).bit_length())
        return np.array(within + [self.span << intervals for intervals in beyond], np.int64)

    @property
    def reach(self) -> Ints:
        """From which age of its newest time on a block of each height may stand."""
        return reach(self.decay, self.unit, tuple(self.lengths.tolist()), self.error, self.history)

    def holding(self, times: Ints, clock: int) -> Blocks:
        """The block of each time; none is after the clock."""
        return Blocks(*holding(frozen(times), clock, self.span, self.top, frozen(self.reach)))

    def grown(self, blocks: Blocks, clock: int) -> Blocks:
        """The blocks that hold these by a later clock.

        A block stays as long as it is even where it would not be made today: computers do not agree on the last digit
        of a weight. What such a block holds joins it.
        """
        found = self.holding(blocks.first, clock)
        longer = blocks.height > found.height
        first, height = np.where(longer, blocks.first, found.first), np.maximum(blocks.height, found.height)
        order = np.lexsort((~height, first))
        last = self.last(Blocks(first, height))[order]
        inside = np.zeros(len(order), bool)
        inside[1:] = last[1:] <= np.maximum.accumulate(last)[:-1]
        outer = np.maximum.accumulate(np.where(inside, 0, np.arange(len(order))))
        into = np.empty(len(order), np.intp)
        into[order] = order[outer]
        return Blocks(first[into], height[into])

    def last(self, blocks: Blocks) -> Ints:
        """The last time of each block."""
        within = blocks.height <= self.top
        interval = np.floor_divide(blocks.first, self.span) * self.span
        of_interval = interval + self.span - 1
        part = blocks.first + (np.int64(1) << np.where(within, blocks.height, 0).astype(np.int64)) - 1
        intervals = np.int64(1) << np.where(within, 0, blocks.height - self.top).astype(np.int64)
        return np.asarray(np.where(within, np.minimum(part, of_interval), interval + self.span * intervals - 1))

    def allowed(self, blocks: Blocks, clock: int) -> Flags:
        """Whether each of these blocks may stand by the clock."""
        return np.asarray(self.reach[blocks.height] <= np.maximum(clock - self.last(blocks), 0))

    def quotient(self, decay: Decay, oldest_age: int) -> float:
        """How many times as much as the oldest time of a block the newest one may weigh, under any decay.

        `oldest_age` is that of the oldest event: blocks that are made later do not matter.
        """
        made = self.reach <= min(oldest_age, NEVER - 1)
        return quotient(decay, self.unit, self.reach[made], self.lengths[made], self.history)


@njit(cache=True, nogil=True)
def holding(times: Ints, clock: int, span: int, top: int, reaches: Ints) -> tuple[Ints, Levels]:
    """The first time and the height of the block of each time, by the age from which on each height may stand."""
    rows = len(times)
    firsts, heights = np.empty(rows, np.int64), np.empty(rows, np.uint8)
    first, last, height = 0, -1, 0
    for row in range(rows):
        time = times[row]
        if not first <= time <= last:
            low, high = 0, len(reaches)  # a height at which it may stand, and one at which it may not
            while high - low > 1:
                middle = (low + high) // 2
                _, end = _block(time, middle, span, top)
                if reaches[middle] <= max(clock - end, 0):
                    low = middle
                else:
                    high = middle
            height = low
            first, last = _block(time, height, span, top)
        firsts[row], heights[row] = first, height
    return firsts, heights


@njit(cache=True, nogil=True, inline="always")
def _block(time: int, height: int, span: int, top: int) -> tuple[int, int]:
    """The first and the last time of the block of a height that holds a time."""
    interval = time // span
    begin = interval * span
    if height > top:
        more = height - top
        begin = ((interval >> more) << more) * span
        return begin, begin + (span << more) - 1
    first = begin + (((time - begin) >> height) << height)
    return first, min(first + (1 << height), begin + span) - 1
