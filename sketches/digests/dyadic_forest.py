"""Trees of time, one for each interval of a stream, whose nodes may hold trees of values.

This is what `histogram` and `qdigest` keep: every row is some mass with the range of times, and of values, in which its
events are known to lie.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sketches.arrays import Ints, Levels, Words, frozen
from sketches.digests.dyadic_tree import ALL, RIGHT, cover_points, fold
from sketches.digests.tallies import by_group, by_range, changes, grouped, mask_of, numbers, ordered, runs, tally
from sketches.errors import WaneError
from sketches.events import Events
from sketches.records import dataclass

CODE_BITS: Final = 64
MOST: Final = 1 << 62  # events, or their weight, in one sketch
_DENSE: Final = 4  # a table over all times of an interval pays while it has at most so many entries an event


def refuse_too_much(masses: Ints) -> None:
    """Masses are added up as whole numbers of 64 bits."""
    if masses.sum(dtype=np.float64) > MOST:
        raise WaneError("the events of a sketch must not number or weigh more than 2^62 in all")


@dataclass(frozen=True, slots=True)
class Shape:
    """How long an interval is, and how much a path of a tree may carry: see `sketches.digests.dyadic_tree`."""

    span: int  # times in an interval
    time_share: float
    value_share: float | None  # None: values are not kept
    value_of: int = ALL  # of what a range of values may carry a share
    blocks: bool = False  # whether a range of time may be as long as many intervals

    @property
    def top(self) -> int:
        """The height of an interval's tree."""
        return (self.span - 1).bit_length()

    @property
    def highest(self) -> int:
        """The height of the longest range of time, where it may be as long as many intervals."""
        return self.top + (MOST // 2 // self.span).bit_length() - 1


@dataclass(frozen=True, slots=True)
class Forest:
    """Rows in the order of interval, time range, value range, each by its start and the wider before the narrower.

    Times are counted from the start of their interval. Where values are not kept, codes are 0. A range that is higher
    than an interval is of several: it starts at 0 of the first of them.
    """

    interval: Ints
    start: Words
    height: Levels
    code: Words
    code_height: Levels
    count: Ints
    weight: Ints

    def __len__(self) -> int:
        return len(self.count)

    @classmethod
    def empty(cls) -> Forest:
        ints, words, small = np.empty(0, np.int64), np.empty(0, np.uint64), np.empty(0, np.uint8)
        return cls(ints, words, small, words, small, ints, ints)

    @classmethod
    def build(cls, events: Events, codes: Words | None, shape: Shape) -> Forest:
        """The forest of a batch; `codes` are the events' values in the order of the domain, or None to keep none."""
        if len(events) == 0:
            return cls.empty()
        weights = events.weights if events.weights is not None else np.empty(0, np.int64)
        refuse_too_much(weights)
        interval = np.floor_divide(events.times, shape.span)
        points = (events.times - interval * shape.span).view(np.uint64)
        order = np.empty(0, np.int64)
        if interval[0] == interval[-1] and (interval == interval[0]).all():
            if shape.span <= _DENSE * len(events):
                distinct, counts, sums = tally(frozen(points), frozen(weights), shape.span)
            else:
                order = np.argsort(points, kind="stable")
                distinct, counts, sums = runs(frozen(points[order]), frozen(ordered(weights, order)))
            trees, bounds = interval[:1], np.array([0, len(distinct)], np.int64)
        else:
            order = np.lexsort((points, interval))
            trees, bounds, distinct, counts, sums = grouped(
                frozen(interval[order]), frozen(points[order]), frozen(ordered(weights, order))
            )
        starts, heights, belongs = cover_points(bounds, distinct, counts, sums, shape.top, shape.time_share, RIGHT)
        node_tree = np.zeros(len(starts), np.int64)
        node_tree[belongs] = np.repeat(np.arange(len(trees)), np.diff(bounds))
        if codes is None:
            total, mass = by_range(belongs, len(starts), counts, sums)
            none, low = np.zeros(len(starts), np.uint64), np.zeros(len(starts), np.uint8)
            return cls(trees[node_tree], starts, heights, none, low, total, mass).gathered()
        if len(order) == 0:
            table = np.zeros(shape.span, np.int64)
            table[distinct.astype(np.intp)] = belongs
            node = table[points.astype(np.intp)]
        else:
            node = np.empty(len(events), np.int64)
            node[order] = belongs[numbers(frozen(interval[order]), frozen(points[order]))]
        return cls.laid(trees[node_tree], starts, heights, node, codes, weights, shape)

    @classmethod
    def laid(
        cls, interval: Ints, start: Words, height: Levels, node: Ints, codes: Words, weights: Ints, shape: Shape
    ) -> Forest:
        """The values of events in ranges of time: `node` has the range of each event, `weights` nothing where all weigh
        1."""
        inside = by_group(node, codes)
        nodes, limits, values, counts, sums = grouped(
            frozen(node[inside]), frozen(codes[inside]), frozen(ordered(weights, inside))
        )
        assert shape.value_share is not None
        code, code_height, cell = cover_points(
            limits, values, counts, sums, CODE_BITS, shape.value_share, shape.value_of
        )
        total, mass = by_range(cell, len(code), counts, sums)
        owner = np.empty(len(code), np.int64)
        owner[cell] = np.repeat(nodes, np.diff(limits))
        return cls(interval[owner], start[owner], height[owner], code, code_height, total, mass).gathered()

    @classmethod
    def merged(cls, parts: Sequence[Forest], shape: Shape) -> Forest:
        """All parts' masses in one forest, which keeps to the same shares."""
        return cls.summed(parts).gathered()._folded(shape)

    @classmethod
    def summed(cls, parts: Sequence[Forest]) -> Forest:
        """All parts' masses side by side; refuses more than can be added up."""
        joined = cls.joined(parts)
        refuse_too_much(joined.count)
        refuse_too_much(joined.weight)
        return joined

    @classmethod
    def faded(cls, parts: Sequence[Forest], shape: Shape, count: int, weight: int) -> Forest:
        """All parts' masses in one forest, folded as one tree, where so many events count as later ones, of such a
        weight.

        An interval keeps its own newest end in detail although, once it is over, every window that reaches into it
        holds all that came since. Here all intervals are one tree, which counts what came later, or a part of it, as
        right of it: C's Theorem 1 over the whole history. With `later` that mass, where a window begins at x

            cut(x) ≤ (2/K)·(U(x) + later), that is cut(x) ≤ ε·(L(x) + later)

        As of the newest event or later, a count or a sum over all intervals is therefore at most ε of itself wide. The
        price is the past: what came after a time T does not count as of T, but ranges are as wide as if it did. Of a
        window as of T, both ends cut ranges: it is at most ε of the answer wide, and 2ε of what came after T in this
        forest, and of `later`.

        Such a forest merges with others: what their union knows of is the sum of what they knew.
        """
        rows = cls.summed(parts).gathered()
        return rows._in_value(shape, rows._folded_in_time(shape, np.zeros(1, np.int64), (count, weight)))

    def _folded(self, shape: Shape) -> Forest:
        return self._in_value(shape, self._folded_in_time(shape, self._trees(shape)))

    @staticmethod
    def _in_value(shape: Shape, rows: Forest) -> Forest:
        return rows if shape.value_share is None else rows.folded_in_value(shape.value_share, shape.value_of)

    def _intervals(self, shape: Shape) -> Ints:
        """How many intervals the range of each row has."""
        return np.int64(1) << np.maximum(self.height.astype(np.int64) - shape.top, 0)

    def _trees(self, shape: Shape) -> Ints:
        """Where each tree begins: of an interval, or of all those that a range of several of them holds."""
        if len(self) == 0 or self.height.max() <= shape.top:
            return changes((self.interval,))
        last = np.maximum.accumulate(self.interval + self._intervals(shape))
        return np.append(0, np.flatnonzero(self.interval[1:] >= last[:-1]) + 1)

    @classmethod
    def joined(cls, parts: Sequence[Forest]) -> Forest:
        """All parts' masses side by side, each as narrow as it is."""
        return cls(*(np.concatenate([getattr(part, one.name) for part in parts]) for one in fields(cls)))

    def gathered(self) -> Forest:
        """One row for all masses of one range, in order."""
        place = self.start << np.uint64(7) | ~self.height & 0x7F  # starts have at most 48 bits, heights 7
        keys: tuple[NDArray[Any], ...] = (~self.code_height, self.code, place, self.interval)
        if len(self) and self.interval.min() == self.interval.max():
            keys = keys[:-1]
        rows = self.taken(np.lexsort(keys))
        first = changes((rows.interval, rows.start, rows.height, rows.code, rows.code_height))
        if len(first) == len(rows):
            return rows
        kept = rows.taken(first)
        return replace(kept, count=np.add.reduceat(rows.count, first), weight=np.add.reduceat(rows.weight, first))

    def taken(self, which: NDArray[Any]) -> Forest:
        """Some of the rows, in their order."""
        return Forest(*(getattr(self, one.name)[which] for one in fields(Forest)))

    def _folded_in_time(self, shape: Shape, begins: Ints, later: tuple[int, int] = (0, 0)) -> Forest:
        """The same masses, in as few ranges of time as the shares allow.

        `begins` has the first row of each tree; `later` is what each of them has right of it.
        """
        if len(self) < 2:
            return self
        # rows come by range, so that those of a node are neighbours
        first = changes((self.interval, self.start, self.height))
        trees = np.searchsorted(first, begins)
        counts, weights = np.add.reduceat(self.count, first), np.add.reduceat(self.weight, first)
        interval, begin = self.interval[first], self.interval[begins]
        end = np.maximum.reduceat(interval + self._intervals(shape)[first], trees) - 1
        more = int(np.bitwise_xor(begin, end).max()).bit_length()  # a tree is of 2^more intervals at the most
        base = np.repeat(begin >> more << more, np.diff(np.append(trees, len(first))))
        place = (interval - base).astype(np.uint64) << np.uint64(shape.top) | self.start[first]
        to_place, height = fold(
            np.append(trees, len(first)),
            place,
            self.height[first],
            counts,
            weights,
            np.full(len(trees), later[0], np.int64),
            np.full(len(trees), later[1], np.int64),
            max(shape.top + more, 1),
            shape.time_share,
            RIGHT,
        )
        if (height == self.height[first]).all():
            return self
        lengths = np.diff(np.append(first, len(self)))
        interval = base + (to_place >> np.uint64(shape.top)).view(np.int64)
        start = to_place & mask_of(np.array([shape.top]))
        columns = (np.repeat(column, lengths) for column in (interval, start, height))
        return replace(self, **dict(zip(("interval", "start", "height"), columns, strict=True))).gathered()

    def folded_in_value(self, most: float, of: int) -> Forest:
        """The same of values, in every range of time."""
        if len(self) < 2:
            return self
        bounds = np.append(changes((self.interval, self.start, self.height)), len(self))
        none = np.zeros(len(bounds) - 1, np.int64)
        code, height = fold(
            bounds, self.code, self.code_height, self.count, self.weight, none, none, CODE_BITS, most, of
        )
        if (height == self.code_height).all():
            return self
        return replace(self, code=code, code_height=height).gathered()

    def times(self, span: int) -> tuple[Ints, Ints]:
        """The first and the last time of each row's range, both within its interval or intervals."""
        top = (span - 1).bit_length()
        begin, height = self.interval * span, self.height.astype(np.int64)
        width = (np.int64(1) << np.minimum(height, top)) - 1
        first = self.start.view(np.int64)
        more = span * ((np.int64(1) << np.maximum(height - top, 0)) - 1)  # of further intervals
        return begin + first, begin + np.minimum(first + width, span - 1) + more

    def code_mask(self) -> Words:
        """How far each row's range of codes reaches beyond its first."""
        return mask_of(self.code_height)
