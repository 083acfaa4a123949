"""The totals of the rows of a batch, in one compiled pass: by hour, by source and hour, by class of value and hour."""

from __future__ import annotations

import math
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sketches.arrays import Floats, Ints, frozen
from sketches.compiled import njit
from sketches.events import Events, Kind
from sketches.sampling.totals.slice_totals import SliceTotals
from sketches.sampling.totals.value_classes import LEAST_EXPONENT, SHIFT, classes_of

_MOST_CELLS: Final = 1 << 20  # of a dense table
_NO_CUTS: Final = np.empty(0, np.int64)
_COLUMNS: Final = 3  # rows, weight, value; and what rounding has taken from the latter two, where it takes something


class RowCounts(NamedTuple):
    """The totals of a batch; the groups of the second are numbers of sources, of the third classes of values."""

    hourly: SliceTotals
    by_source: SliceTotals
    by_class: SliceTotals


def count_rows(events: Events, sources: NDArray[np.int32], length: int) -> RowCounts:
    """Count the rows of a batch; `length` is that of an hour in the stream's unit."""
    hours, of_row = _hours(events.times, length)
    numeric = events.kind is not Kind.KEY
    values = events.values if numeric else np.empty(0)
    level = _level(int(sources.max(initial=-1)) + 1, hours)
    lowest, classes = _classes(values)
    exact = _exact(events.weights, values)
    columns = _COLUMNS if exact else _COLUMNS + 2
    hourly, limits = np.zeros((len(hours), columns)), np.tile([np.inf, -np.inf], (len(hours), 1))
    slices, slice_of_hour = _slices(hours, level)
    by_source = np.zeros(((int(sources.max(initial=-1)) + 1) * len(slices), columns))
    by_class = np.zeros((len(hours) * classes, columns))
    _add_rows(
        frozen(of_row),
        frozen(sources),
        frozen(slice_of_hour),
        frozen(np.empty(0, np.int64) if events.weights is None else events.weights),
        frozen(values),
        (hourly, limits, by_source, by_class),
        len(slices),
        lowest,
        exact,
    )
    if not numeric:
        limits[:] = 0.0
    here = np.flatnonzero(hourly[:, 0])
    source, slice_at = _nonzero(by_source, len(slices))
    value_class, hour_at = _nonzero(by_class, len(hours))
    coarse = np.full(level, slices[-1] + (1 << level) if len(slices) else 0, np.int64)
    return RowCounts(
        _table(length, np.zeros(len(here), np.int64), hours[here], hourly[here], limits=limits[here]),
        _table(length, source, slices[slice_at], by_source[source * len(slices) + slice_at], coarse=coarse),
        _table(length, value_class + lowest, hours[hour_at], by_class[value_class * len(hours) + hour_at]),
    )


def _nonzero(table: Floats, width: int) -> tuple[Ints, Ints]:
    """The cells of a table, so many of them to a group, in which rows came: their groups, and their places in it."""
    used = np.flatnonzero(table[:, 0])
    return used // max(width, 1), used % max(width, 1)


def _level(sources: int, hours: Ints) -> int:
    """How often slices by source have to be doubled so that a dense table of them is not too large."""
    level = 0
    while hours.size and sources * ((int(hours[-1]) >> level) - (int(hours[0]) >> level) + 1) > _MOST_CELLS:
        level += 1
        if 1 << level > int(hours[-1]) - int(hours[0]) + 1:
            break
    return level


def _slices(hours: Ints, level: int) -> tuple[Ints, Ints]:
    """The starts of all slices of so many doubled hours, and the place of each hour among them."""
    if not len(hours):
        return hours, hours
    first, last = int(hours[0]) >> level, int(hours[-1]) >> level
    return np.arange(first, last + 1) << level, (hours >> level) - first


def _table(
    length: int, groups: Ints, starts: Ints, sums: Floats, *, coarse: Ints | None = None, limits: Floats | None = None
) -> SliceTotals:
    whole = sums[:, :_COLUMNS].copy()
    if sums.shape[1] > _COLUMNS:
        whole[:, 1:] += sums[:, _COLUMNS:]
    return SliceTotals(length, groups, starts, whole, _NO_CUTS if coarse is None else coarse, limits=limits)


def _hours(times: Ints, length: int) -> tuple[Ints, Ints]:
    """The hours of the batch in order, and for each row the place of its hour; as many as lie between, if few do."""
    if len(times) == 0:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    first, last = int(times.min()) // length, int(times.max()) // length
    if last - first < _MOST_CELLS // 64:
        return np.arange(first, last + 1), _places(frozen(times), first * length, length)
    hours, of_row = np.unique(times // length, return_inverse=True)
    return hours, of_row


@njit(cache=True, nogil=True)
def _places(times: Ints, begin: int, length: int) -> Ints:
    """(t - begin) // length, by multiplication, which is many times as fast as division."""
    found = np.empty(len(times), np.int64)
    inverse = 1.0 / length
    for row in range(len(times)):
        since = times[row] - begin
        place = np.int64(since * inverse)
        if place * length > since:
            place -= 1
        elif (place + 1) * length <= since:
            place += 1
        found[row] = place
    return found


def _classes(values: NDArray[Any]) -> tuple[int, int]:
    """The lowest class of the values, and how many there may be from it to the highest."""
    if len(values) == 0:
        return 0, 0
    ends = classes_of(np.array([values.min(), values.max()]))
    lowest, highest = (int(end) for end in ends)
    if lowest > 0:
        least = values[values > 0].min() if values.dtype.kind == "f" else 1
        lowest = min(int(classes_of(np.array([least]))[0]), lowest)
    return lowest, highest - lowest + 1


def _exact(weights: Ints | None, values: NDArray[Any]) -> bool:
    """Whether no sum of these whole numbers can be beyond what a float holds exactly."""
    if values.dtype.kind == "f" and len(values):
        return False
    ends = [column for column in (weights, values) if column is not None and len(column)]
    largest = max((max(abs(int(column.min())), abs(int(column.max()))) for column in ends), default=1)
    return largest * max((len(column) for column in ends), default=1) < 1 << 53


@njit(cache=True, nogil=True)
def _add_rows(
    of_row: Ints,
    sources: NDArray[np.int32],
    slice_of_hour: Ints,
    weights: Ints,
    values: NDArray[Any],
    tables: tuple[Floats, Floats, Floats, Floats],
    slices: int,
    lowest: int,
    exact: bool,
) -> None:
    """Add each row to the tables by hour, with their least and greatest values, by source and by class.

    `exact`: all sums are whole numbers that a float holds exactly.
    """
    hourly, limits, by_source, by_class = tables
    numeric = len(values) > 0
    hours = len(hourly)
    for row in range(len(of_row)):
        hour = of_row[row]
        weight = np.float64(weights[row]) if len(weights) else 1.0
        value = np.float64(values[row]) if numeric else 0.0
        _add(hourly, hour, weight, value, exact)
        _add(by_source, sources[row] * slices + slice_of_hour[hour], weight, value, exact)
        if numeric:
            limits[hour, 0] = min(limits[hour, 0], value)
            limits[hour, 1] = max(limits[hour, 1], value)
            _add(by_class, (_class_of(value) - lowest) * hours + hour, weight, value, exact)


@njit(cache=True, nogil=True, inline="always")
def _class_of(value: float) -> int:
    if value == 0.0:
        return 0
    exponent = max(math.frexp(value)[1], LEAST_EXPONENT) + SHIFT
    return exponent if value > 0.0 else -exponent


@njit(cache=True, nogil=True, inline="always")
def _add(sums: Floats, at: int, weight: float, value: float, exact: bool) -> None:
    """Add a row to a cell; what rounding takes is kept beside the sum (Neumaier)."""
    sums[at, 0] += 1.0
    if exact:
        sums[at, 1] += weight
        sums[at, 2] += value
        return
    for column, number in ((1, weight), (2, value)):
        total = sums[at, column] + number
        if abs(sums[at, column]) >= abs(number):
            sums[at, column + 2] += (sums[at, column] - total) + number
        else:
            sums[at, column + 2] += (number - total) + sums[at, column]
        sums[at, column] = total
