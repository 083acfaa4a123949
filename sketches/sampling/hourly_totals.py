"""Exact totals of the rows of every hour, which are counted as rows come and never forgotten: a few bytes an hour.

They are of *rows*: a row that came twice counts twice, so totals simply add, over files, runs and late arrivals. What
makes them usable for questions about events is the number of rows that were seen of each kept event
(`LadderRows.counts`).

An hour of which some rows are not in the totals is *unknown*: it has an entry with no rows. So are all hours up to a
time before which nothing was counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from sketches.arrays import Column, Flags, Floats, Ints
from sketches.encoding.byte_planes import read_planes, write_planes
from sketches.encoding.envelope import Reader, Writer
from sketches.errors import CorruptError
from sketches.sampling.ladder import NO_CUT
from sketches.units import TimeUnit

_HALF: Final = np.int64((1 << 20) - 1)  # sums of so many bits are exact as floats, for 2^33 rows
_MOST_HOURS: Final = 1 << 26  # of a stream that is read: what is announced is allocated


def hour_length(unit: TimeUnit) -> int:
    """An hour in units of a stream's time, or the unit itself where that is longer."""
    return max(1, 3_600 * unit.denominator // unit.numerator)


@dataclass(frozen=True, slots=True)
class HourlyTotals:
    """The hours in which rows came, by number and in order; how many rows came in each, and what they weigh."""

    length: int  # of an hour
    hours: Ints
    rows: Ints  # 0: unknown
    weights: Floats
    unknown_up_to: int = NO_CUT  # a time; hours up to that of it are unknown

    @classmethod
    def of(cls, times: Ints, weights: Column | None, unit: TimeUnit) -> HourlyTotals:
        length = hour_length(unit)
        hours, places = np.unique(times // length, return_inverse=True)
        rows = np.bincount(places, minlength=len(hours))
        if weights is None:
            return cls(length, hours, rows, rows.astype(np.float64))
        low, high = (np.bincount(places, part, len(hours)) for part in (weights & _HALF, weights >> np.int64(20)))
        return cls(length, hours, rows, low + high * np.float64(1 << 20))

    @classmethod
    def nothing(cls, unit: TimeUnit, unknown_up_to: int = NO_CUT) -> HourlyTotals:
        none = np.empty(0, np.int64)
        return cls(hour_length(unit), none, none, np.empty(0), unknown_up_to)

    @classmethod
    def merged(cls, parts: Sequence[HourlyTotals]) -> HourlyTotals:
        """The totals of all rows of all parts."""
        hours, places = np.unique(np.concatenate([part.hours for part in parts]), return_inverse=True)
        rows, weights = np.zeros(len(hours), np.int64), np.zeros(len(hours))
        np.add.at(rows, places, np.concatenate([part.rows for part in parts]))
        np.add.at(weights, places, np.concatenate([part.weights for part in parts]))
        unknown = np.zeros(len(hours), bool)
        unknown[places[np.concatenate([part.rows for part in parts]) == 0]] = True
        found = cls(parts[0].length, hours, rows, weights, max(part.unknown_up_to for part in parts))
        return found._unknown(unknown)

    def without(self, begin: int, end: int, *, wholly: bool) -> HourlyTotals:
        """The totals without the rows of a stretch of time or, if not `wholly`, without some of them."""
        starts = self.hours * self.length
        touched = (starts + self.length > begin) & (starts < end)
        inside = touched & (starts >= begin) & (starts + self.length <= end) if wholly else np.zeros(len(starts), bool)
        left = ~inside
        return self.of_hours(left)._unknown((touched & ~inside)[left])

    def of_hours(self, which: Flags | slice) -> HourlyTotals:
        return HourlyTotals(self.length, self.hours[which], self.rows[which], self.weights[which], self.unknown_up_to)

    def _unknown(self, which: Flags) -> HourlyTotals:
        which = which | (self.hours * self.length <= self.unknown_up_to)
        if not which.any():
            return self
        later = self.hours * self.length > self.unknown_up_to  # the others need no entry
        return replace(self, rows=np.where(which, 0, self.rows), weights=np.where(which, 0.0, self.weights)).of_hours(
            later
        )

    def known(self, times: Ints) -> tuple[Ints, Flags]:
        """For each time the place of its hour among those with an entry, and whether its totals are known."""
        places = np.minimum(np.searchsorted(self.hours, times // self.length), max(len(self.hours) - 1, 0))
        if len(self.hours) == 0:
            return places, np.zeros(len(times), bool)
        return places, (self.hours[places] == times // self.length) & (self.rows[places] > 0)

    def write(self, writer: Writer) -> None:
        writer.i64(self.unknown_up_to)
        writer.varint(len(self.hours))
        first = int(self.hours[0]) if len(self.hours) else 0
        writer.i64(first)
        writer.blob(write_planes(np.diff(self.hours, prepend=first).view(np.uint64)))
        writer.blob(write_planes(self.rows.view(np.uint64)))
        alike = bool((self.weights == self.rows).all())
        writer.blob(b"" if alike else write_planes(np.ascontiguousarray(self.weights).view(np.uint64)))

    @classmethod
    def read(cls, reader: Reader, unit: TimeUnit) -> HourlyTotals:
        unknown_up_to, count = reader.i64(), reader.varint()
        if count > _MOST_HOURS:
            raise CorruptError(f"totals of {count} hours are announced; {_MOST_HOURS} are the most")
        first = reader.i64()
        steps, rows = (read_planes(reader.blob(), 0, count)[0] for _ in range(2))
        packed = reader.blob()
        weights = read_planes(packed, 0, count)[0].view(np.float64) if packed else rows.astype(np.float64)
        hours = first + np.cumsum(steps.view(np.int64))
        if count and (int(rows.max()) >> 62 or (steps[1:].view(np.int64) <= 0).any() or not (weights >= 0).all()):
            raise CorruptError("the totals of hours are out of order, or not totals")
        return cls(hour_length(unit), hours, rows.view(np.int64), weights, unknown_up_to)
