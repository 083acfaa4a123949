"""The totals of the rows of a batch, in one compiled pass: by hour, by source and hour, by class of value and hour.

Tables are dense while rows come: a row adds to a cell of its source and to one of its class of values. The cells of an
hour lie together, because rows mostly come in about the order of their times. The sums of an hour are those of its
classes. Then slices are doubled as long as there are far too many of them, before anything else is made of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sketches.arrays import Flags, Floats, Ints, Rows, frozen
from sketches.compiled import njit
from sketches.events import Events, Extremes, Kind
from sketches.sampling.totals.slice_totals import FAR_TOO_MANY, ROWS, VALUE, WEIGHT, SliceTotals
from sketches.sampling.totals.value_classes import LEAST_EXPONENT, SHIFT, classes_of

_MOST_CELLS: Final = 1 << 20  # of a dense table by source
_MOST_HOURS: Final = 1 << 22  # from the first to the last: they are numbered
_FEW_HOURS: Final = 1 << 12  # that are numbered without looking whether rows came in them,
_ROWS_AN_HOUR: Final = 64  # or that have so many rows on average
_SOME: Final = 4  # of so many rows one tells whether slices by source are far too many
_MOST_CLASSES: Final = 1 << 23  # cells of a dense table by class
_EXACT: Final = 1 << 62  # what whole numbers add up to less than
_EVERYTHING: Final = 1 << 62
_NO_CUTS: Final = np.empty(0, np.int64)
_U: Final = np.uint64  # of places in arrays: signed ones may count from the end, and asking that takes a third longer
_ROWS, _WEIGHT, _VALUE = _U(ROWS), _U(WEIGHT), _U(VALUE)
_SUM, _LOST = _LEAST, _GREATEST = _U(0), _U(1)


class RowCounts(NamedTuple):
    """The totals of a batch; the groups of the second are numbers of sources, of the third classes of values, of the
    others numbers of the values of a field."""

    hourly: SliceTotals
    by_source: SliceTotals
    by_class: SliceTotals
    by_field: tuple[SliceTotals, ...] = ()

    @classmethod
    def merged(cls, parts: Sequence[RowCounts]) -> RowCounts:
        first, second, third, of_fields = zip(*parts, strict=True)
        by_field = tuple(SliceTotals.merged(tables) for tables in zip(*of_fields, strict=True))
        return cls(SliceTotals.merged(first), SliceTotals.merged(second), SliceTotals.merged(third), by_field)


class Room(NamedTuple):
    """How many slices tables may have: by source, by class, and by each field."""

    by_source: int = _EVERYTHING
    by_class: int = _EVERYTHING
    by_field: int = _EVERYTHING


_ALL_ROOM: Final = Room()


def count_rows(
    events: Events,
    sources: NDArray[np.int32],
    length: int,
    extremes: Extremes | None = None,
    room: Room = _ALL_ROOM,
    fields: Sequence[Rows] = (),
) -> RowCounts:
    """Count the rows of a batch, whose extremes may be known; `length` is that of an hour in the stream's unit.

    `fields` have the number of each row's value. Slices are doubled while there are far more of them than have room.
    """
    extremes = Extremes.of(events) if extremes is None else extremes
    oldest, newest = extremes.oldest or 0, extremes.newest or 0
    first, last = oldest // length, newest // length
    if extremes.greatest_weight * len(events) >= _EXACT or last - first >= _MOST_HOURS:
        return _in_halves(events, sources, length, (first + last + 1) // 2 * length, room, fields)
    hours, place = _hours(events.times, first, last, length)
    values, lowest, classes = _values(events, extremes)
    if len(hours) * classes > _MOST_CLASSES and len(hours) > 1:
        return _in_halves(events, sources, length, int(hours[len(hours) // 2]) * length, room, fields)
    number, whole = int(sources.max(initial=-1)) + 1, values.dtype.kind != "f"
    weights = np.empty(0, np.int64) if events.weights is None else events.weights
    in_hours = first * length, length, frozen(place)

    def too_many(slice_of_hour: Ints, cells: int) -> bool:
        there = np.zeros(cells if cells > FAR_TOO_MANY * room.by_source else 0, np.bool_)
        where = *in_hours, slice_of_hour, number
        return len(there) > 0 and _found(
            frozen(events.times), frozen(sources), where, there, FAR_TOO_MANY * room.by_source
        )

    starts, slice_of_hour, level = _slices(hours, number, too_many)
    source_cells, class_cells = _Cells.of(len(starts), number, whole=whole), _Cells.of(len(hours), classes, whole=whole)
    limits = np.zeros((len(hours), 2), values.dtype)
    if len(values):
        limits[:] = (_EXACT, -_EXACT) if whole else (np.inf, -np.inf)
    _add_rows(
        (frozen(events.times), frozen(sources), frozen(weights), frozen(values)),
        (*in_hours, frozen(slice_of_hour), lowest),
        (*source_cells.flat(), *class_cells.flat(), limits),
        (number, classes),
    )
    if events.weights is None:
        for cells in (source_cells, class_cells):
            cells.counts[:, :, WEIGHT] = cells.counts[:, :, ROWS]
    none, here, sums = class_cells.all_groups().totals()
    if not len(values):
        class_cells = _Cells.of(0, 0, whole=True)
    return RowCounts(
        SliceTotals(length, none, hours[here], sums, _NO_CUTS, limits=limits[here].astype(np.float64)),
        _table(source_cells, starts, level, length, room.by_source),
        _table(class_cells, hours, 0, length, room.by_class, lowest),
        tuple(_of_groups(one, (events.times, weights, values), hours, place, length, room.by_field) for one in fields),
    )


def _of_groups(
    groups: Rows, columns: tuple[Ints, Ints, NDArray[Any]], hours: Ints, place: Ints, length: int, most: int
) -> SliceTotals:
    """The totals of rows by the number of a group alone."""
    times, weights, values = columns
    number = int(groups.max(initial=-1)) + 1
    starts, slice_of_hour, level = _slices(hours, number, lambda *_: False)
    cells = _Cells.of(len(starts), number, whole=values.dtype.kind != "f")
    _add_to_groups(
        (frozen(times), frozen(groups), frozen(weights), frozen(values)),
        (int(hours[:1].sum()) * length, length, frozen(slice_of_hour[place]), number),
        cells.flat(),
    )
    if not len(weights):
        cells.counts[:, :, WEIGHT] = cells.counts[:, :, ROWS]
    return _table(cells, starts, level, length, most)


def _in_halves(
    events: Events, sources: NDArray[np.int32], length: int, middle: int, room: Room, fields: Sequence[Rows]
) -> RowCounts:
    """Of rows that are too many, or too far apart, for one table: those before a time, and the others."""
    before = events.times < middle
    if before.all() or not before.any():
        before = np.arange(len(events)) < len(events) // 2
    parts = []
    for which in (before, ~before):
        part = events.take(which)
        parts.append(count_rows(part, sources[which], length, None, room, [one[which] for one in fields]))
    return RowCounts.merged(parts)


def _values(events: Events, extremes: Extremes) -> tuple[NDArray[Any], int, int]:
    """The values that are added up, their lowest class, and how many there are from it to the highest; for keys none,
    and one class for all. Whole numbers are floats where their sum might be beyond them."""
    if events.kind is Kind.KEY or not len(events):
        return np.empty(0, np.int64), 0, 1
    ends = np.array([extremes.least_value, extremes.greatest_value])
    lowest, highest = classes_of(ends).tolist()
    whole = events.kind is Kind.INTEGER and float(np.abs(ends).max()) * len(events) < _EXACT
    return events.values.astype(np.int64 if whole else np.float64, copy=False), lowest, highest - lowest + 1


class _Cells(NamedTuple):
    """A dense table with axes of slices and groups: rows, weight and whole values of each cell; and values that are
    not whole, with what rounding took from their sum."""

    counts: Ints
    sums: Floats

    @classmethod
    def of(cls, slices: int, groups: int, *, whole: bool) -> _Cells:
        return cls(np.zeros((slices, groups, 3), np.int64), np.zeros((slices, groups, 0 if whole else 2)))

    def together(self, first: Ints) -> _Cells:
        """Slices from each of some up to the next, one or two of them, added up."""
        pairs = np.flatnonzero(np.diff(first, append=len(self.counts)) > 1)
        counts, sums = self.counts[first], self.sums[first]
        counts[pairs] += self.counts[first[pairs] + 1]
        sums[pairs] += self.sums[first[pairs] + 1]
        return _Cells(counts, sums)

    def all_groups(self) -> _Cells:
        return _Cells(self.counts.sum(axis=1, keepdims=True), self.sums.sum(axis=1, keepdims=True))

    def totals(self) -> tuple[Ints, Ints, Floats]:
        """The cells in which rows came by group and slice: both, and rows, weight and value."""
        group, at = np.nonzero(self.counts[:, :, 0].T)
        found = self.counts[at, group].astype(np.float64)
        if self.sums.size:
            found[:, VALUE] = self.sums[at, group].sum(axis=1)
        return group, at, found

    def flat(self) -> tuple[Ints, Floats]:
        cells = self.counts.shape[0] * self.counts.shape[1]
        return self.counts.reshape(cells, 3), self.sums.reshape(cells, self.sums.shape[2])


def _hours(times: Ints, first: int, last: int, length: int) -> tuple[Ints, Ints]:
    """The hours of a batch in order, and the place among them of each from the first; as many as lie between, if few
    do, and otherwise those in which rows came."""
    if not len(times):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    if last - first < max(_FEW_HOURS, len(times) // _ROWS_AN_HOUR):
        return np.arange(first, last + 1), np.arange(last + 1 - first)
    there = np.zeros(last + 1 - first, np.bool_)
    _mark(frozen(times), first * length, length, there)
    return np.flatnonzero(there) + first, np.cumsum(there) - 1


def _slices(hours: Ints, number: int, too_many: Callable[[Ints, int], bool]) -> tuple[Ints, Ints, int]:
    """Slices by source: their starts, the place of each hour among them, and how often an hour is doubled so that a
    dense table is not too large, and not far too much of it is in use."""
    level = 0
    while True:
        slices = hours >> level
        new = np.diff(slices, prepend=slices[:1] - 1) > 0
        count, place = int(np.count_nonzero(new)), np.cumsum(new) - 1
        if count <= 1 or (number * count <= _MOST_CELLS and not too_many(place, number * count)):
            return slices[new] << level, place, level
        level += 1


def _table(cells: _Cells, starts: Ints, level: int, length: int, most: int, lowest: int = 0) -> SliceTotals:
    """The totals of dense cells, whose slices are doubled while there are far too many; the lowest group is given."""
    while len(starts) > 1 and np.count_nonzero(cells.counts[:, :, 0]) > FAR_TOO_MANY * most:
        level += 1
        slices = starts >> level
        first = np.flatnonzero(np.diff(slices, prepend=slices[0] - 1))
        starts, cells = slices[first] << level, cells.together(first)
    group, at, sums = cells.totals()
    coarse = np.full(level, starts[-1:].sum() + (1 << level), np.int64)
    return SliceTotals(length, group + lowest, starts[at], sums, coarse)


@njit(cache=True, nogil=True)
def _hour(time: int, begin: int, length: int, inverse: float) -> int:
    """(time - begin) // length, by multiplication, which is many times as fast as division."""
    since = time - begin
    place = int(since * inverse)
    if place * length > since:
        place -= 1
    elif (place + 1) * length <= since:
        place += 1
    return place


@njit(cache=True, nogil=True)
def _mark(times: Ints, begin: int, length: int, there: Flags) -> None:
    inverse = 1.0 / length
    for row in range(len(times)):
        there[_U(_hour(times[row], begin, length, inverse))] = True


@njit(cache=True, nogil=True)
def _found(
    times: Ints, sources: NDArray[np.int32], where: tuple[int, int, Ints, Ints, int], there: Flags, enough: int
) -> bool:
    """Whether some of the rows alone are in more cells than are enough."""
    begin, length, place, slice_of_hour, number = where
    inverse = 1.0 / length
    found = 0
    for row in range(0, len(times), _SOME):
        hour = place[_U(_hour(times[row], begin, length, inverse))]
        cell = _U(slice_of_hour[_U(hour)] * number + sources[row])
        if not there[cell]:
            there[cell] = True
            found += 1
            if found > enough:
                return True
    return False


@njit(cache=True, nogil=True)
def _add_rows(
    rows: tuple[Ints, NDArray[np.int32], Ints, NDArray[Any]],
    places: tuple[int, int, Ints, Ints, int],
    tables: tuple[Ints, Floats, Ints, Floats, NDArray[Any]],
    widths: tuple[int, int],
) -> None:
    """Add each row to the cells of its source and of its class, and to the least and greatest values of its hour.

    `places` are the time at which the first hour begins and the length of an hour, the place of each hour from the
    first, the slice of each such place, and the lowest class; `widths` the numbers of sources and of classes.
    """
    times, sources, weights, values = rows
    begin, length, place, slice_of_hour, lowest = places
    source_counts, source_sums, class_counts, class_sums, limits = tables
    sources_in_all, classes = widths
    inverse = 1.0 / length
    whole = source_sums.shape[1] == 0
    number = np.empty(1, np.float64)
    bits = number.view(np.int64)
    for row in range(len(times)):
        hour = place[_U(_hour(times[row], begin, length, inverse))]
        at_source = _U(slice_of_hour[_U(hour)] * sources_in_all + sources[row])
        at_class = _U(hour * classes - lowest)
        if len(values):
            value = values[row]
            if value != 0:
                number[0] = abs(value)
                exponent = max((bits[0] >> 52) - 1022, LEAST_EXPONENT) + SHIFT
                at_class += _U(exponent if value > 0 else -exponent)
            if value < limits[_U(hour), _LEAST]:  # noqa: PLR1730 - min() stores each time, and the next row waits
                limits[_U(hour), _LEAST] = value
            if value > limits[_U(hour), _GREATEST]:  # noqa: PLR1730 - as above
                limits[_U(hour), _GREATEST] = value
            if whole:
                source_counts[at_source, _VALUE] += np.int64(value)
                class_counts[at_class, _VALUE] += np.int64(value)
            else:
                before = source_sums[at_source, _SUM]
                source_sums[at_source, _SUM] += value
                source_sums[at_source, _LOST] += _rounded_off(before, value)
                before = class_sums[at_class, _SUM]
                class_sums[at_class, _SUM] += value
                class_sums[at_class, _LOST] += _rounded_off(before, value)
        source_counts[at_source, _ROWS] += 1
        class_counts[at_class, _ROWS] += 1
        if len(weights):
            source_counts[at_source, _WEIGHT] += weights[row]
            class_counts[at_class, _WEIGHT] += weights[row]


@njit(cache=True, nogil=True)
def _add_to_groups(
    rows: tuple[Ints, Rows, Ints, NDArray[Any]], places: tuple[int, int, Ints, int], tables: tuple[Ints, Floats]
) -> None:
    """Add each row to the cell of its group: the same as `_add_rows` does for sources."""
    times, groups, weights, values = rows
    begin, length, slice_of_place, groups_in_all = places
    counts, sums = tables
    inverse = 1.0 / length
    whole = sums.shape[1] == 0
    for row in range(len(times)):
        at = _U(slice_of_place[_U(_hour(times[row], begin, length, inverse))] * groups_in_all + groups[row])
        counts[at, _ROWS] += 1
        if len(weights):
            counts[at, _WEIGHT] += weights[row]
        if len(values):
            value = values[row]
            if whole:
                counts[at, _VALUE] += np.int64(value)
            else:
                before = sums[at, _SUM]
                sums[at, _SUM] += value
                sums[at, _LOST] += _rounded_off(before, value)


@njit(cache=True, nogil=True)
def _rounded_off(before: float, added: float) -> float:
    """What rounding takes from a sum of two (Knuth's two-sum)."""
    total = before + added
    moved = total - before
    return (before - (total - moved)) + (added - moved)
