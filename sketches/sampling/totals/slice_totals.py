"""Exact totals of rows by slices of time, which are counted as rows come and never forgotten.

They are of *rows*: a row that came twice counts twice, so totals simply add, over files, runs and late arrivals. What
makes them usable for questions about events is the number of rows that were seen of each kept event
(`LadderRows.counts`).

A table has totals for several groups (sources, classes of values) or for one. A slice is an hour; where a table has to
fit into some room, its oldest slices become two hours long, then four and so on, the same for all groups, and never
shorter again. Slices of one length begin at multiples of it.

A slice of which some rows are not in the totals is *unknown*: it has an entry with no rows. So is all time up to that
before which nothing was counted. Where there is no entry, no row came.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from sketches.arrays import Flags, Floats, Ints, Rows, distinct_sorted
from sketches.encoding.byte_planes import read_planes, write_planes
from sketches.encoding.envelope import Reader, Writer
from sketches.errors import CorruptError
from sketches.records import dataclass
from sketches.sampling.inclusion.ladder import NO_CUT
from sketches.units import TimeUnit

ROWS, WEIGHT, VALUE = 0, 1, 2  # the columns of `SliceTotals.sums`
NEVER: Final = 1 << 62  # nothing is known up to here: what was given up stays so
_NO_HOUR: Final = -(1 << 62)  # no slice begins before it
FAR_TOO_MANY: Final = 3  # times as many slices as fit: then all become longer, not the older half
_LEAST_SLICES: Final = 2  # that a group has on average, where the longest do not fit
_LEVELS: Final = 40  # lengths of slices: the longest is 125 million years
_MOST_SLICES: Final = 1 << 26  # of a table that is read: what is announced is allocated
_DIGITS: Final = 1e3  # times as large as a difference may be what it is of: then it is right to 1e-12
_WHOLE: Final = float(1 << 53)  # whole numbers up to here are written as such


def hour_length(unit: TimeUnit) -> int:
    """An hour in units of a stream's time, or the unit itself where that is longer."""
    return max(1, 3_600 * unit.denominator // unit.numerator)


def worth_keeping(groups: int, most: int) -> bool:
    """Whether a table of so many slices is: a slice that has to be as long as all of time tells of no part of it."""
    return _LEAST_SLICES * groups <= most


class Slices(NamedTuple):
    """Slices of one group: where each begins and ends, in the stream's unit, and its sums; unknown ones have none."""

    begins: Ints
    ends: Ints
    sums: Floats
    unknown_up_to: int


@dataclass(frozen=True, slots=True)
class SliceTotals:
    """Totals sorted by group and time: for each slice the number of rows, their weight and the sum of their values.

    `starts` are hours, by number. Slices that begin before the hour `coarse[i]` are at least 2^(i+1) hours long. The
    sum of values is NaN where values were not summed. `limits` has the least and the greatest value of each slice, for
    tables that keep them.
    """

    length: int  # of an hour, in units of time
    groups: Ints
    starts: Ints
    sums: Floats
    coarse: Ints
    unknown_up_to: int = NO_CUT  # a time; slices that begin at it or before are unknown
    limits: Floats | None = None

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def complete(self) -> bool:
        """Whether all rows that ever came are in it."""
        return self.unknown_up_to == NO_CUT and bool((self.sums[:, ROWS] > 0.0).all())

    @classmethod
    def nothing(cls, unit: TimeUnit, unknown_up_to: int = NO_CUT, *, limits: bool = False) -> SliceTotals:
        none = np.empty(0, np.int64)
        ends = np.empty((0, 2)) if limits else None
        return cls(hour_length(unit), none, none, np.empty((0, 3)), none, unknown_up_to, ends)

    @classmethod
    def merged(cls, parts: Sequence[SliceTotals]) -> SliceTotals:
        """The totals of all rows of all parts, whose groups have the same numbers, in the longest of their slices."""
        if len(parts) == 1:
            return parts[0]
        levels = max(len(part.coarse) for part in parts)
        coarse = np.full(levels, _NO_HOUR, np.int64)
        for part in parts:
            coarse[: len(part.coarse)] = np.maximum(coarse[: len(part.coarse)], part.coarse)
        limits = None
        if all(part.limits is not None for part in parts):
            limits = np.concatenate([part.limits for part in parts if part.limits is not None])
        together = cls(
            parts[0].length,
            np.concatenate([part.groups for part in parts]),
            np.concatenate([part.starts for part in parts]),
            np.concatenate([part.sums for part in parts]),
            coarse,
            max(part.unknown_up_to for part in parts),
            limits,
        )
        return together._added_up()

    def _added_up(self) -> SliceTotals:
        """Entries in any order put in order and into the slices of `coarse`, and those of one slice added up."""
        levels = self._levels()
        starts = self.starts >> levels << levels
        later = starts * self.length > self.unknown_up_to
        groups, starts, sums = self.groups[later], starts[later], self.sums[later]
        limits = None if self.limits is None else self.limits[later]
        if len(starts) == 0:
            return replace(self, groups=groups, starts=starts, sums=sums, limits=limits)
        ascends = groups[1:] > groups[:-1]
        if not (ascends | ((groups[1:] == groups[:-1]) & (starts[1:] >= starts[:-1]))).all():
            order = np.lexsort((starts, groups))
            groups, starts, sums = groups[order], starts[order], sums[order]
            limits = None if limits is None else limits[order]
        new = np.append(True, (starts[1:] != starts[:-1]) | (groups[1:] != groups[:-1]))
        first = np.flatnonzero(new)
        unknown = np.logical_or.reduceat(sums[:, ROWS] == 0.0, first)
        if limits is not None:
            limits = np.stack(
                [np.minimum.reduceat(limits[:, 0], first), np.maximum.reduceat(limits[:, 1], first)], axis=1
            )
        if len(first) < len(starts):
            groups, starts, sums = groups[first], starts[first], np.add.reduceat(sums, first, axis=0)
        sums[unknown] = 0.0
        return replace(self, groups=groups, starts=starts, sums=sums, limits=limits)

    def _levels(self) -> Ints:
        return _levels(self.starts, self.coarse)

    def fitted(self, most: int) -> SliceTotals:
        """The table with at most so many slices, the oldest longer; nothing at all where groups had too few of them."""
        if len(self) <= most:
            return self
        left = _Bare(self.groups, self.starts, self.coarse)
        if worth_keeping(len(distinct_sorted(self.groups)), most):
            while len(left.starts) > most and len(left.coarse) < _LEVELS:
                left = left.coarser(most)
        if len(left.starts) <= most:
            return replace(self, coarse=left.coarse)._added_up()
        none = np.empty(0, np.int64)
        limits = None if self.limits is None else np.empty((0, 2))
        return SliceTotals(self.length, none, none, np.empty((0, 3)), none, NEVER, limits)

    def without(self, begin: int, end: int, groups: Rows | None = None, *, wholly: bool = True) -> SliceTotals:
        """The totals without the rows of a stretch of time, of all groups or some or, if not `wholly`, without some."""
        begins, ends = self.times()
        touched = (ends > begin) & (begins < end)
        if groups is not None:
            touched &= np.isin(self.groups, groups)
        inside = touched & (begins >= begin) & (ends <= end) if wholly else np.zeros(len(self), bool)
        sums = np.where((touched & ~inside)[:, None], 0.0, self.sums)
        return replace(self, sums=sums).take(~inside)

    def unknown_until(self, time: int) -> SliceTotals:
        """The totals of which nothing is known up to a time."""
        return replace(self, unknown_up_to=max(self.unknown_up_to, time))._added_up()

    def less(self, other: SliceTotals, begin: int, end: int) -> SliceTotals:
        """The totals of one group by the hour without those of other rows, of a stretch of time that is all in `other`.

        Hours that `other` does not have as such are unknown afterwards, and so are those that the stretch cuts, and
        sums of which a difference has too few digits.
        """
        begins, ends = self.times()
        touched = (ends > begin) & (begins < end)
        inside = touched & (begins >= begin) & (ends <= end)
        known = inside & (begins > other.unknown_up_to)
        if len(other.coarse):
            known &= self.starts >= other.coarse[0]
        taken = np.zeros_like(self.sums)
        there = np.isin(self.starts, other.starts)
        taken[there] = other.sums[np.searchsorted(other.starts, self.starts[there])]
        known &= ~there | (taken[:, ROWS] > 0.0)
        left = np.where(known[:, None], self.sums - taken, self.sums)
        lost = known[:, None] & _is_lost(self.sums, taken, left)
        known &= ~lost[:, WEIGHT]
        left[lost[:, VALUE], VALUE] = np.nan
        left[touched & ~known] = 0.0
        gone = known & (left[:, ROWS] == 0.0) & (self.sums[:, ROWS] > 0.0)
        return replace(self, sums=left).take(~gone)

    def take(self, which: Flags | Rows) -> SliceTotals:
        limits = None if self.limits is None else self.limits[which]
        return replace(self, groups=self.groups[which], starts=self.starts[which], sums=self.sums[which], limits=limits)

    def renumbered(self, numbers: Ints) -> SliceTotals:
        """The table with other numbers for its groups; those numbered below 0 are left out."""
        groups = numbers[self.groups]
        found = replace(self, groups=groups).take(groups >= 0)
        return found.take(np.lexsort((found.starts, found.groups)))

    def together(self, groups: Ints | None = None) -> SliceTotals:
        """The totals of some groups, or all, as one group."""
        some = self if groups is None else self.take(np.isin(self.groups, groups))
        return replace(some, groups=np.zeros(len(some), np.int64))._added_up()

    def weighted(self, shares: Floats) -> SliceTotals:
        """Of each entry a share, as one group; entries without a share are left out."""
        some = self.take(shares > 0.0)
        return replace(some, sums=some.sums * shares[shares > 0.0][:, None]).together()

    def times(self) -> tuple[Ints, Ints]:
        """Where each slice begins and ends."""
        return self.starts * self.length, (self.starts + (1 << self._levels())) * self.length

    def length_at(self, time: int) -> int | None:
        """How long a slice is around a time; None where nothing is known of it."""
        if time <= self.unknown_up_to:
            return None
        level = int(np.searchsorted(-self.coarse, -(time // self.length), side="left"))
        return self.length << level

    def slices(self) -> Slices:
        """Those of a table with one group."""
        return Slices(*self.times(), self.sums, self.unknown_up_to)

    def write(self, writer: Writer) -> None:
        writer.i64(self.unknown_up_to)
        writer.varint(len(self.coarse))
        for cut in self.coarse.tolist():
            writer.i64(cut)
        writer.varint(len(self))
        first = int(self.starts.min()) if len(self) else 0
        writer.i64(first)
        same = np.append(False, self.groups[1:] == self.groups[:-1]) if len(self) else np.zeros(0, bool)
        since = self.starts - first
        writer.blob(write_planes(np.diff(self.groups, prepend=0).view(np.uint64), quickly=True))
        writer.blob(write_planes(np.where(same, np.diff(since, prepend=0), since).view(np.uint64), quickly=True))
        columns = [self.sums[:, at] for at in range(3)]
        if self.limits is not None:
            columns += [self.limits[:, 0], self.limits[:, 1]]
        for number, column in enumerate(columns):
            alike = number > 0 and np.array_equal(column, columns[number - 1], equal_nan=True)
            writer.blob(b"" if alike else _packed(column))

    @classmethod
    def read(cls, reader: Reader, unit: TimeUnit, *, limits: bool = False) -> SliceTotals:
        unknown_up_to, levels = reader.i64(), reader.varint()
        if levels > _LEVELS:
            raise CorruptError(f"slices of {levels} lengths are announced; {_LEVELS} are the most")
        coarse = np.array([reader.i64() for _ in range(levels)], np.int64)
        count = reader.varint()
        if count > _MOST_SLICES:
            raise CorruptError(f"totals of {count} slices of time are announced; {_MOST_SLICES} are the most")
        first = reader.i64()
        steps, since = (read_planes(reader.blob(), 0, count)[0].view(np.int64) for _ in range(2))
        groups = np.cumsum(steps)
        same = np.append(False, steps[1:] == 0) if count else np.zeros(0, bool)
        starts = first + _since_each_first(since, same)
        columns: list[Floats] = []
        for _ in range(5 if limits else 3):
            packed = reader.blob()
            if not packed and not columns:
                raise CorruptError("the totals of slices of time have no number of rows")
            columns.append(_unpacked(packed, count) if packed else columns[-1])
        sums = np.stack(columns[:3], axis=1) if count else np.empty((0, 3))
        ends = np.stack(columns[3:], axis=1) if limits else None
        ordered = (steps[1:] >= 0).all() and (since[same] > 0).all() and (np.diff(coarse) <= 0).all()
        if not ordered or not (sums[:, :2] >= 0.0).all():
            raise CorruptError("the totals of slices of time are out of order, or not totals")
        return cls(hour_length(unit), groups, starts, sums, coarse, unknown_up_to, ends)

    @classmethod
    def read_rows_and_weights(cls, reader: Reader, unit: TimeUnit) -> SliceTotals:
        """The hours of all sources as format 4 of a sample had them; the sums of values are not known."""
        unknown_up_to, count = reader.i64(), reader.varint()
        if count > _MOST_SLICES:
            raise CorruptError(f"totals of {count} hours are announced; {_MOST_SLICES} are the most")
        first = reader.i64()
        steps, rows = (read_planes(reader.blob(), 0, count)[0] for _ in range(2))
        packed = reader.blob()
        weights = read_planes(packed, 0, count)[0].view(np.float64) if packed else rows.astype(np.float64)
        starts = first + np.cumsum(steps.view(np.int64))
        if count and (int(rows.max()) >> 62 or (steps[1:].view(np.int64) <= 0).any() or not (weights >= 0).all()):
            raise CorruptError("the totals of hours are out of order, or not totals")
        sums = np.stack([rows.astype(np.float64), weights, np.full(count, np.nan)], axis=1)
        limits = np.tile([-np.inf, np.inf], (count, 1))
        none = np.zeros(count, np.int64)
        return cls(hour_length(unit), none, starts, sums, np.empty(0, np.int64), unknown_up_to, limits)


class _Bare(NamedTuple):
    """The slices of a table without their sums, to find out how many of them there would be."""

    groups: Ints
    starts: Ints
    coarse: Ints

    def coarser(self, most: int) -> _Bare:
        """The older half of that length doubled of which there are most slices; all of it if they are far too many.

        So there are about as many of every length, and the recent past has the shortest.
        """
        levels = _levels(self.starts, self.coarse)
        level = int(np.bincount(levels).argmax())
        own = self.starts[levels == level]
        far = len(self.starts) > FAR_TOO_MANY * most
        edge = int(own.max()) if far else int(np.partition(own, len(own) // 2)[len(own) // 2])
        length = 2 << level
        coarse = np.append(self.coarse, np.full(max(0, level + 1 - len(self.coarse)), _NO_HOUR))
        coarse[: level + 1] = np.maximum(coarse[: level + 1], (edge // length + 1) * length)
        levels = _levels(self.starts, coarse)
        starts = self.starts >> levels << levels
        new = np.append(True, (starts[1:] != starts[:-1]) | (self.groups[1:] != self.groups[:-1]))
        return _Bare(self.groups[new], starts[new], coarse)


def _is_lost(whole: Floats, taken: Floats, left: Floats) -> Flags:
    """Whether what is left of sums is too small beside them to be known; of whole numbers it is."""
    size = np.abs(whole) + np.abs(taken)
    rounded = (size >= _WHOLE) | (whole != np.rint(whole)) | (taken != np.rint(taken))
    return np.asarray(rounded & (np.abs(left) * _DIGITS < size))


def _levels(starts: Ints, coarse: Ints) -> Ints:
    """For each slice the binary logarithm of its hours."""
    return np.searchsorted(-coarse, -starts, side="left")


def _since_each_first(steps: Ints, same: Flags) -> Ints:
    """Sums of steps that begin anew where a group does."""
    running = np.cumsum(steps)
    begins = np.flatnonzero(~same)
    before = np.repeat(running[begins] - steps[begins], np.diff(np.append(begins, len(steps))))
    return running - before


def _packed(column: Floats) -> bytes:
    """A column of numbers: whole ones by their sign and size, others as they are."""
    whole = bool(np.isfinite(column).all() and (np.abs(column) < _WHOLE).all() and (column == np.rint(column)).all())
    if not whole:
        return b"\x00" + write_planes(np.ascontiguousarray(column).view(np.uint64), quickly=True)
    numbers = column.astype(np.int64)
    return b"\x01" + write_planes((numbers << 1 ^ numbers >> 63).view(np.uint64), quickly=True)


def _unpacked(packed: bytes, count: int) -> Floats:
    words = read_planes(packed, 1, count)[0]
    if packed[0] == 0:
        return words.view(np.float64)
    if packed[0] != 1:
        raise CorruptError(f"a column of totals has the unknown form {packed[0]}")
    return ((words >> np.uint64(1)).view(np.int64) ^ -(words & np.uint64(1)).view(np.int64)).astype(np.float64)
