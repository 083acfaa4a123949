"""Trees of time, one for each interval of a stream, whose nodes may hold trees of values.

This is what `histogram` and `qdigest` keep: every row is some mass with the range of times, and of values, in which its
events are known to lie.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

import numba
import numpy as np
from numpy.typing import NDArray

from sketches.dyadic import Heights, Words, cover, fold
from sketches.errors import CorruptError
from sketches.events import MAX_TIME, Events
from sketches.packing import frozen, undeltas, unzigzag, zigzag
from sketches.wire import Reader, Writer

Ints = NDArray[np.int64]

CODE_BITS: Final = 64
_DENSE: Final = 4  # a table over all times of an interval pays while it has at most so many entries an event


@dataclass(frozen=True, slots=True)
class Shape:
    """How long an interval is, and how much a path of a tree may carry: see `sketches.dyadic`."""

    span: int  # times in an interval
    time_share: float
    value_share: float | None  # None: values are not kept

    @property
    def top(self) -> int:
        """The height of an interval's tree."""
        return (self.span - 1).bit_length()


@dataclass(frozen=True, slots=True)
class Forest:
    """Rows in the order of interval, time range, value range; `folded` says which masses were moved up, in either tree.

    Times are counted from the start of their interval. Where values are not kept, codes are 0.
    """

    interval: Ints
    start: Words
    height: Heights
    folded: NDArray[np.uint8]  # 1: folded in time, 2: folded in value
    code: Words
    code_height: Heights
    count: Ints
    weight: Ints

    def __len__(self) -> int:
        return len(self.count)

    @classmethod
    def empty(cls) -> Forest:
        ints, words, small = np.empty(0, np.int64), np.empty(0, np.uint64), np.empty(0, np.uint8)
        return cls(ints, words, small, small, words, small, ints, ints)

    @classmethod
    def build(cls, events: Events, codes: Words | None, shape: Shape) -> Forest:
        """The forest of a batch; `codes` are the events' values in the order of the domain, or None to keep none."""
        if len(events) == 0:
            return cls.empty()
        weights = events.weights if events.weights is not None else np.empty(0, np.int64)
        interval = np.floor_divide(events.times, shape.span)
        points = (events.times - interval * shape.span).view(np.uint64)
        order = np.empty(0, np.int64)
        if interval[0] == interval[-1] and (interval == interval[0]).all():
            if shape.span <= _DENSE * len(events):
                distinct, counts, sums = _tally(frozen(points), frozen(weights), shape.span)
            else:
                order = np.argsort(points, kind="stable")
                distinct, counts, sums = _runs(frozen(points[order]), frozen(_ordered(weights, order)))
            trees, bounds = interval[:1], np.array([0, len(distinct)], np.int64)
        else:
            order = np.lexsort((points, interval))
            trees, bounds, distinct, counts, sums = _groups(
                frozen(interval[order]), frozen(points[order]), frozen(_ordered(weights, order))
            )
        starts, heights, belongs = cover(bounds, distinct, counts, sums, shape.top, shape.time_share, True)
        node_tree = np.zeros(len(starts), np.int64)
        node_tree[belongs] = np.repeat(np.arange(len(trees)), np.diff(bounds))
        if codes is None:
            made, total, mass = len(starts), np.zeros(len(starts), np.int64), np.zeros(len(starts), np.int64)
            np.add.at(total, belongs, counts)
            np.add.at(mass, belongs, sums)
            none, low = np.zeros(made, np.uint64), np.zeros(made, np.uint8)
            return cls(trees[node_tree], starts, heights, low, none, low, total, mass)._tidied(shape)
        if len(order) == 0:
            table = np.zeros(shape.span, np.int64)
            table[distinct.astype(np.intp)] = belongs
            node = table[points.astype(np.intp)]
        else:
            node = np.empty(len(events), np.int64)
            node[order] = belongs[_numbers(frozen(interval[order]), frozen(points[order]))]
        inside = _by_group(node, codes)
        nodes, limits, values, counts, sums = _groups(
            frozen(node[inside]), frozen(codes[inside]), frozen(_ordered(weights, inside))
        )
        assert shape.value_share is not None
        code, code_height, cell = cover(limits, values, counts, sums, CODE_BITS, shape.value_share, False)
        total, mass = np.zeros(len(code), np.int64), np.zeros(len(code), np.int64)
        np.add.at(total, cell, counts)
        np.add.at(mass, cell, sums)
        owner = np.empty(len(code), np.int64)
        owner[cell] = np.repeat(nodes, np.diff(limits))
        folded = np.zeros(len(code), np.uint8)
        rows = cls(trees[node_tree[owner]], starts[owner], heights[owner], folded, code, code_height, total, mass)
        return rows._tidied(shape)

    @classmethod
    def merged(cls, parts: Sequence[Forest], shape: Shape) -> Forest:
        """All parts' masses in one forest, which keeps to the same shares."""
        return cls.joined(parts)._tidied(shape)

    @classmethod
    def joined(cls, parts: Sequence[Forest]) -> Forest:
        """All parts' masses side by side, each as narrow as it is."""
        return cls(*(np.concatenate([getattr(part, one.name) for part in parts]) for one in fields(cls)))

    def _tidied(self, shape: Shape) -> Forest:
        """The same masses, folded as far as the shares allow, and in order."""
        rows = self._gathered()._folded_in_time(shape)
        return rows if shape.value_share is None else rows._folded_in_value(shape.value_share)

    def _gathered(self) -> Forest:
        """One row for all masses of one range and kind."""
        place = self.start << np.uint64(7) | self.height  # starts have at most 48 bits, heights 7
        kind = self.code_height.astype(np.uint16) << 2 | self.folded
        keys: tuple[NDArray[Any], ...] = (kind, self.code, place, self.interval)
        if len(self) and self.interval.min() == self.interval.max():
            keys = keys[:-1]
        rows = self._taken(np.lexsort(keys))
        first = changes((rows.interval, rows.start, rows.height, rows.code, rows.code_height, rows.folded))
        if len(first) == len(rows):
            return rows
        kept = rows._taken(first)
        return Forest(
            kept.interval,
            kept.start,
            kept.height,
            kept.folded,
            kept.code,
            kept.code_height,
            np.add.reduceat(rows.count, first),
            np.add.reduceat(rows.weight, first),
        )

    def _taken(self, which: NDArray[Any]) -> Forest:
        return Forest(*(getattr(self, one.name)[which] for one in fields(Forest)))

    def _folded_in_time(self, shape: Shape) -> Forest:
        if len(self) < 2 or self.count.sum() < shape.time_share * max(shape.top, 1):
            return self  # not a single event would fit into a share
        # rows come by range, so that those of a node are neighbours
        first = changes((self.interval, self.start, self.height))
        counts, weights = np.add.reduceat(self.count, first), np.add.reduceat(self.weight, first)
        moved = self.folded & 1
        old_counts = np.add.reduceat(self.count * moved, first)
        old_weights = np.add.reduceat(self.weight * moved, first)
        interval, start, height = self.interval[first], self.start[first], self.height[first]
        order = np.lexsort((start, height, interval))
        bounds = np.append(changes((interval[order],)), len(order))
        to_start, to_height = fold(
            bounds,
            start[order],
            height[order],
            counts[order],
            weights[order],
            old_counts[order],
            old_weights[order],
            shape.top,
            shape.time_share,
            True,
        )
        risen = to_height != height[order]
        if not risen.any():
            return self
        new_start, new_height, rose = start.copy(), height.copy(), np.zeros(len(start), np.uint8)
        new_start[order], new_height[order], rose[order] = to_start, to_height, risen
        lengths = np.diff(np.append(first, len(self)))
        rows = Forest(
            self.interval,
            np.repeat(new_start, lengths),
            np.repeat(new_height, lengths),
            self.folded | np.repeat(rose, lengths),
            self.code,
            self.code_height,
            self.count,
            self.weight,
        )
        return rows._gathered()

    def _folded_in_value(self, most: float) -> Forest:
        if len(self) < 2:
            return self
        # a node of time has one tree of values, whichever way its masses came to it
        begins = changes((self.interval, self.start, self.height))
        if np.add.reduceat(self.count, begins).max() < most * CODE_BITS:
            return self  # not a single event would fit into a share
        node = np.zeros(len(self), np.int64)
        node[begins[1:]] = 1
        node = np.cumsum(node)
        order = np.lexsort((self.code, node << 7 | self.code_height))
        rows = self._taken(order)
        node = node[order]
        first = changes((node, rows.code_height, rows.code))
        moved = (rows.folded >> 1).astype(np.int64)
        bounds = np.append(changes((node[first],)), len(first))
        to_code, to_height = fold(
            bounds,
            rows.code[first],
            rows.code_height[first],
            np.add.reduceat(rows.count, first),
            np.add.reduceat(rows.weight, first),
            np.add.reduceat(rows.count * moved, first),
            np.add.reduceat(rows.weight * moved, first),
            CODE_BITS,
            most,
            False,
        )
        risen = to_height != rows.code_height[first]
        if not risen.any():
            return self
        lengths = np.diff(np.append(first, len(rows)))
        return Forest(
            rows.interval,
            rows.start,
            rows.height,
            rows.folded | np.repeat(risen.astype(np.uint8) << 1, lengths),
            np.repeat(to_code, lengths),
            np.repeat(to_height, lengths),
            rows.count,
            rows.weight,
        )._gathered()

    def times(self, span: int) -> tuple[Ints, Ints]:
        """The first and the last time of each row's range, both within its interval."""
        begin = self.interval * span
        width = (np.int64(1) << self.height.astype(np.int64)) - 1
        first = self.start.view(np.int64)
        return begin + first, begin + np.minimum(first + width, span - 1)

    def code_mask(self) -> Words:
        """How far each row's range of codes reaches beyond its first."""
        return mask_of(self.code_height)

    def write(self, writer: Writer, valued: bool) -> None:
        """The rows as columns; ranges of time once, with the number of rows of each, where values are kept."""
        writer.varint(len(self))
        if len(self) == 0:
            return
        first = changes((self.interval, self.start, self.height)) if valued else np.arange(len(self))
        if valued:
            writer.varint(len(first))
            writer.column(np.diff(np.append(first, len(self))).astype(np.uint64) - np.uint64(1))
        interval = self.interval[first]
        writer.i64(int(interval[0]))
        writer.column((interval[1:] - interval[:-1]).view(np.uint64))
        writer.column(zigzag(steps_of(self.start[first])))
        writer.column(self.height[first].astype(np.uint64))
        writer.column(self.folded.astype(np.uint64))
        if valued:
            writer.column(zigzag(steps_of(self.code)))
            writer.column(self.code_height.astype(np.uint64))
        writer.column(self.count.view(np.uint64) - np.uint64(1))
        light = bool((self.count == self.weight).all())
        writer.u8(int(not light))
        if not light:
            writer.column((self.weight - self.count).view(np.uint64))

    @classmethod
    def read(cls, reader: Reader, shape: Shape) -> Forest:
        """What `write` wrote; every range is checked to be one, and every mass to be one of events."""
        valued = shape.value_share is not None
        rows = reader.varint()
        if rows == 0:
            return cls.empty()
        if rows > CODE_BITS * 2 * (reader.remaining + 1):  # a block of 128 rows takes a byte at least
            raise CorruptError(f"{rows} rows are announced, but only {reader.remaining} bytes are left")
        nodes = reader.varint() if valued else rows
        lengths = np.ones(rows, np.int64)
        if valued:
            if not 1 <= nodes <= rows:
                raise CorruptError(f"{nodes} ranges of time are announced for {rows} rows")
            stored = reader.column(nodes)
            if stored.max() >= rows or int(stored.sum()) + nodes != rows:
                raise CorruptError("the rows of the ranges of time do not add up")
            lengths = stored.astype(np.int64) + 1
        begin = reader.i64()
        most = MAX_TIME // shape.span + 1
        if not -most <= begin <= most:
            raise CorruptError("times lie outside the range of times")
        interval = undeltas(begin, reader.column(nodes - 1))
        if interval[-1] > most:
            raise CorruptError("times lie outside the range of times")
        start = unsteps(unzigzag(reader.column(nodes)))
        height = reader.column(nodes)
        if height.max() > shape.top or start.max() >= shape.span or (start & mask_of(height)).any():
            raise CorruptError("a range of time is not one of its interval")
        folded = reader.column(rows)
        if folded.max() > 3:
            raise CorruptError("a mass is of an unknown kind")
        code, code_height = np.zeros(rows, np.uint64), np.zeros(rows, np.uint64)
        if valued:
            code = unsteps(unzigzag(reader.column(rows)))
            code_height = reader.column(rows)
            if code_height.max() > CODE_BITS or (code & mask_of(code_height)).any():
                raise CorruptError("a range of values is not one of the domain")
        stored = reader.column(rows)
        if stored.astype(np.float64).sum() + rows > MAX_TIME:
            raise CorruptError("there are more events than can be counted")
        count = stored.view(np.int64) + 1
        weight = count
        if reader.u8():
            more = reader.column(rows)
            if more.astype(np.float64).sum() + float(count.sum()) > MAX_TIME:
                raise CorruptError("the events weigh more than can be counted")
            weight = count + more.view(np.int64)
        made = cls(
            np.repeat(interval, lengths),
            np.repeat(start, lengths),
            np.repeat(height.astype(np.uint8), lengths),
            folded.astype(np.uint8),
            code,
            code_height.astype(np.uint8),
            count,
            weight,
        )
        keys = (made.interval, made.start, made.height, made.code, made.code_height, made.folded)
        if len(changes(keys)) != rows:
            raise CorruptError("a range is named twice")
        return made


def _by_group(groups: Ints, codes: Words) -> NDArray[np.intp]:
    """The order of groups, which are numbered from 0, then codes.

    As one number each, where both fit into 64 bits: one sort is faster than two.
    """
    least = codes.min()
    bits = int(codes.max() - least).bit_length()
    if bits + int(groups.max()).bit_length() > 64:
        return np.lexsort((codes, groups))
    return np.argsort(groups.view(np.uint64) << np.uint64(min(bits, 63)) | (codes - least), kind="stable")


def _ordered(weights: Ints, order: NDArray[Any]) -> Ints:
    return weights[order] if len(weights) else weights


def changes(columns: Sequence[NDArray[Any]]) -> NDArray[np.int64]:
    """Where a row differs from the one before it in any of the columns; the first row always does."""
    different = np.zeros(len(columns[0]), bool)
    different[:1] = True
    for column in columns:
        different[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(different)


def mask_of(heights: NDArray[Any]) -> Words:
    """The bits of a coordinate that lie within a range of a height."""
    height = heights.astype(np.uint64)
    whole = height >= np.uint64(64)
    low = (np.uint64(1) << np.where(whole, np.uint64(0), height)) - np.uint64(1)
    return np.where(whole, np.uint64(0xFFFF_FFFF_FFFF_FFFF), low)


def steps_of(codes: Words) -> Ints:
    """From code to code, modulo 2^64."""
    return np.diff(codes, prepend=np.uint64(0)).view(np.int64)


def unsteps(steps: Ints) -> Words:
    return np.cumsum(steps.view(np.uint64), dtype=np.uint64)


@numba.njit(cache=True, nogil=True)
def _tally(points: Words, weights: Ints, span: int) -> tuple[Words, Ints, Ints]:
    """The distinct points in order, with how many events each has and what they weigh: by a table over all of them."""
    counts = np.zeros(span, np.int64)
    sums = np.zeros(span if len(weights) else 0, np.int64)
    for row in range(len(points)):
        counts[points[row]] += 1
        if len(weights):
            sums[points[row]] += weights[row]
    distinct = np.flatnonzero(counts)
    found = counts[distinct]
    return distinct.astype(np.uint64), found, sums[distinct] if len(weights) else found


@numba.njit(cache=True, nogil=True)
def _runs(points: Words, weights: Ints) -> tuple[Words, Ints, Ints]:
    """The same of sorted points."""
    distinct, counts = np.empty(len(points), np.uint64), np.empty(len(points), np.int64)
    sums = np.empty(len(points), np.int64)
    made = 0
    for row in range(len(points)):
        weight = weights[row] if len(weights) else 1
        if made and distinct[made - 1] == points[row]:
            counts[made - 1] += 1
            sums[made - 1] += weight
        else:
            distinct[made], counts[made], sums[made] = points[row], 1, weight
            made += 1
    return distinct[:made], counts[:made], sums[:made]


@numba.njit(cache=True, nogil=True)
def _groups(groups: Ints, points: Words, weights: Ints) -> tuple[Ints, Ints, Words, Ints, Ints]:
    """Sorted groups of sorted points: the groups, where each begins and ends, and the distinct points of each."""
    rows = len(points)
    names, bounds = np.empty(rows, np.int64), np.empty(rows + 1, np.int64)
    distinct, counts, sums = np.empty(rows, np.uint64), np.empty(rows, np.int64), np.empty(rows, np.int64)
    made, named = 0, 0
    for row in range(rows):
        weight = weights[row] if len(weights) else 1
        fresh = named == 0 or names[named - 1] != groups[row]
        if fresh:
            names[named], bounds[named] = groups[row], made
            named += 1
        if not fresh and distinct[made - 1] == points[row]:
            counts[made - 1] += 1
            sums[made - 1] += weight
        else:
            distinct[made], counts[made], sums[made] = points[row], 1, weight
            made += 1
    bounds[named] = made
    return names[:named], bounds[: named + 1], distinct[:made], counts[:made], sums[:made]


@numba.njit(cache=True, nogil=True)
def _numbers(groups: Ints, points: Words) -> Ints:
    """For each row of sorted groups of sorted points, which of the distinct ones it is."""
    numbers = np.empty(len(points), np.int64)
    number = -1
    for row in range(len(points)):
        if row == 0 or groups[row] != groups[row - 1] or points[row] != points[row - 1]:
            number += 1
        numbers[row] = number
    return numbers
