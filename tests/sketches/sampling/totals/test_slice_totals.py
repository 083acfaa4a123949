"""Totals of rows by slices of time: those of brute force, in any order and split, and no finer than they are."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from sketches import Events
from sketches.arrays import Ints
from sketches.encoding.envelope import Reader, Writer
from sketches.errors import CorruptError
from sketches.event_rules import MAX_TIME
from sketches.sampling.inclusion.ladder import NO_CUT
from sketches.sampling.totals.row_counts import Room, count_rows
from sketches.sampling.totals.row_totals import RowTotals
from sketches.sampling.totals.slice_totals import NEVER, ROWS, VALUE, WEIGHT, SliceTotals
from sketches.units import SECOND, TimeUnit

HOUR = 3_600
TABLES = ("hourly", "by_source", "by_class")
UNITS = {"s": SECOND, "ms": TimeUnit(1, 1_000), "days": TimeUnit(86_400, 1)}

Columns = tuple[Ints, NDArray[Any], Ints, NDArray[np.int32]]


def columns(seed: int, size: int = 3_000, reach: int = 40 * HOUR, *, whole: bool = True) -> Columns:
    """Times, values of both signs and zeros, weights, numbers of sources."""
    rng = np.random.default_rng(seed)
    values = (
        rng.integers(-50, 200, size) if whole else np.where(rng.random(size) < 0.1, 0.0, rng.normal(1.0, 2.0, size))
    )
    return (
        rng.integers(-reach // 4, reach, size),
        values,
        rng.integers(0, 5, size),
        rng.integers(0, 3, size).astype("i4"),
    )


def totals_of(rows: Columns, unit: TimeUnit = SECOND) -> RowTotals:
    times, values, weights, sources = rows
    return RowTotals.of(Events.of(np.arange(len(times)), times, values, weights), sources, unit, kept=10**7)


def taken(rows: Columns, which: Any) -> Columns:
    times, values, weights, sources = rows
    return times[which], values[which], weights[which], sources[which]


def class_of(value: float) -> int:
    """0, or by sign and power of two, as `sketches.sampling.totals.value_classes` says in words."""
    if value == 0.0:
        return 0
    size = max(math.frexp(abs(value))[1], -40) + 41
    return size if value > 0.0 else -size


def brute(rows: Columns, table: str, length: int) -> dict[tuple[int, int], list[float]]:
    """Rows, weight and value of every group and hour, one row after the other."""
    found: dict[tuple[int, int], list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
    for time, value, weight, source in zip(*(column.tolist() for column in rows), strict=True):
        group = {"hourly": 0, "by_source": source, "by_class": class_of(value)}[table]
        entry = found[group, time // length]
        entry[ROWS] += 1
        entry[WEIGHT] += weight
        entry[VALUE] += value
    return dict(found)


def entries(table: SliceTotals) -> dict[tuple[int, int], list[float]]:
    keys = zip(table.groups.tolist(), table.starts.tolist(), strict=True)
    return dict(zip(keys, table.sums.tolist(), strict=True))


def same(one: SliceTotals, other: SliceTotals) -> bool:
    names = ("groups", "starts", "sums", "coarse")
    equal = all(np.array_equal(getattr(one, name), getattr(other, name), equal_nan=True) for name in names)
    if one.limits is not None and other.limits is not None:
        equal &= np.array_equal(one.limits, other.limits)
    return equal and (one.unknown_up_to, one.length) == (other.unknown_up_to, other.length)


def lengths(table: SliceTotals) -> Ints:
    """In hours, of each slice."""
    begins, ends, _, _ = table.slices()
    return np.asarray((ends - begins) // table.length)


@pytest.mark.parametrize("whole", [True, False], ids=["whole values", "floats"])
@pytest.mark.parametrize("unit", UNITS.values(), ids=UNITS)
def test_totals_are_those_of_brute_force(unit: TimeUnit, whole: bool) -> None:
    """By hour, by source and hour, by class of value and hour; also before 1970."""
    length = {"s": HOUR, "ms": 1_000 * HOUR, "days": 1}[next(name for name, one in UNITS.items() if one == unit)]
    rows = columns(1, reach=40 * length, whole=whole)
    totals = totals_of(rows, unit)
    for name in TABLES:
        table, exact = getattr(totals, name), brute(rows, name, length)
        found = entries(table)
        assert found.keys() == exact.keys()
        for key, sums in exact.items():
            assert found[key] == pytest.approx(sums, rel=1e-12, abs=1e-9), (name, key)
        assert table.unknown_up_to == NO_CUT
    begins, ends, _, _ = totals.hourly.slices()
    limits = totals.hourly.limits
    assert limits is not None
    for begin, end, (least, greatest) in zip(begins.tolist(), ends.tolist(), limits.tolist(), strict=True):
        inside = rows[1][(rows[0] >= begin) & (rows[0] < end)]
        assert (least, greatest) == (inside.min(), inside.max())


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 1_000), st.integers(1, 6), st.randoms(use_true_random=False))
def test_any_order_and_any_split_give_equal_tables(seed: int, parts: int, lot: Any) -> None:
    rows = columns(seed, 300)
    whole = totals_of(rows)
    where = np.random.default_rng(seed + 1).integers(0, parts, 300)
    made = [totals_of(taken(rows, where == part)) for part in range(parts) if (where == part).any()]
    lot.shuffle(made)
    nested = made[0]
    for one in made[1:]:
        nested = RowTotals.merged([one, nested])
    for merged in (RowTotals.merged(made), nested):
        for name in TABLES:
            assert same(getattr(merged, name), getattr(whole, name)), name


def test_weights_beyond_what_a_float_holds_are_added_up_to_a_rounding() -> None:
    """A sum above 2^53 is the float next to the exact one, however many small weights are in it."""
    size = 40_000
    weights = np.where(np.arange(size) < size // 2, (1 << 40) - 1, 1)  # each of the latter would be lost by itself
    rows = (np.zeros(size, np.int64), np.ones(size, np.int64), weights, np.zeros(size, np.int32))
    exact = sum(weights.tolist())
    assert exact > 1 << 53
    assert totals_of(rows).hourly.sums[0, WEIGHT] == float(exact)
    halves = [totals_of(taken(rows, half)) for half in (slice(9), slice(9, size))]
    assert RowTotals.merged(halves).hourly.sums[0, WEIGHT] == pytest.approx(float(exact), rel=1e-15)


SPANS = {  # in hours: how far apart the two ends of a batch are, and where its middle is
    "two years": (20_000, 40),
    "two centuries": (2_000_000, 40),
    "all of time": (2 * (MAX_TIME // HOUR), 40),
}


@pytest.mark.parametrize("whole", [True, False], ids=["whole values", "floats"])
@pytest.mark.parametrize("span", SPANS.values(), ids=SPANS)
def test_rows_that_are_far_apart_are_counted_alike(span: tuple[int, int], whole: bool) -> None:
    """A clock that stood still, or went wrong, changes nothing for the rows in between."""
    times, values, weights, sources = columns(13, 400, span[1] * HOUR, whole=whole)
    times[[5, 50]] = -(span[0] // 2) * HOUR, (span[0] // 2) * HOUR
    rows = (times, values, weights, sources)
    totals = totals_of(rows)
    for name in TABLES:
        found, exact = entries(getattr(totals, name)), brute(rows, name, HOUR)
        assert found.keys() == exact.keys()
        assert all(found[key] == pytest.approx(exact[key], rel=1e-12, abs=1e-9) for key in exact)


def test_sums_of_values_beyond_64_bits_are_right_to_a_rounding() -> None:
    """No sum of values wraps round."""
    size = 30_000
    values = np.where(np.arange(size) % 3 == 0, -(1 << 61), (1 << 62) - 1)
    rows = (np.arange(size), values, np.full(size, 7), np.zeros(size, np.int32))
    found = totals_of(rows).hourly
    exact = brute(rows, "hourly", HOUR)
    assert found.sums[:, VALUE].tolist() == pytest.approx([sums[VALUE] for sums in exact.values()], rel=1e-12)


@pytest.mark.parametrize("whole", [True, False], ids=["whole values", "floats"])
def test_slices_that_are_far_too_many_are_doubled_while_they_are_counted(whole: bool) -> None:
    """To the same table as when all of them had been made first."""
    times, values, weights, sources = columns(14, 6_000, 3_000 * HOUR, whole=whole)
    events = Events.of(np.arange(len(times)), times, values, weights)
    fine = count_rows(events, sources, HOUR)
    coarse = count_rows(events, sources, HOUR, None, Room(150, 100))
    assert len(fine.by_source) > 3 * 150 > 150 < len(coarse.by_source) < len(fine.by_source)
    for name, most in (("by_source", 150), ("by_class", 100)):
        one, other = getattr(coarse, name).fitted(most), getattr(fine, name).fitted(most)
        assert np.array_equal(one.starts, other.starts)
        assert np.array_equal(one.groups, other.groups)
        assert np.array_equal(one.coarse, other.coarse)
        assert one.sums == pytest.approx(other.sums, rel=1e-12, abs=1e-9)


def test_hours_in_which_no_row_came_are_known_to_be_empty() -> None:
    """A batch with a gap does not make the hours of the gap unknown: rows that others bring for them count."""
    ends = (np.array([10, 5 * HOUR + 10]), np.array([3, 4]), np.array([1, 1]), np.zeros(2, np.int32))
    between = (np.array([2 * HOUR]), np.array([9]), np.array([2]), np.zeros(1, np.int32))
    merged = RowTotals.merged([totals_of(ends), totals_of(between)])
    assert entries(merged.hourly) == {(0, 0): [1.0, 1.0, 3.0], (0, 2): [1.0, 2.0, 9.0], (0, 5): [1.0, 1.0, 4.0]}


@pytest.mark.parametrize("name", ["by_source", "by_class"])
@pytest.mark.parametrize("most", [200, 60, 25, 12])
def test_longer_slices_hold_the_same_sums_and_never_become_shorter(name: str, most: int) -> None:
    """Each group keeps what it had; each long slice is the sum of the hours that it covers; a merge stays long."""
    rows = columns(2, reach=300 * HOUR)
    table = getattr(totals_of(rows), name)
    groups = len(np.unique(table.groups))
    fitted = table.fitted(max(most, 2 * groups))
    assert len(fitted) <= max(most, 2 * groups) < len(table)
    exact = brute(rows, name, HOUR)
    hours = lengths(fitted)
    for group, start, long, sums in zip(
        fitted.groups.tolist(), fitted.starts.tolist(), hours.tolist(), fitted.sums.tolist(), strict=True
    ):
        assert start % long == 0
        covered = [exact[group, hour] for hour in range(start, start + long) if (group, hour) in exact]
        assert sums == pytest.approx(np.sum(covered, axis=0).tolist())
    for group in np.unique(table.groups).tolist():
        assert fitted.sums[fitted.groups == group].sum(axis=0) == pytest.approx(
            table.sums[table.groups == group].sum(axis=0)
        )
        own = hours[fitted.groups == group]
        assert (np.diff(own) <= 0).all(), "the oldest are the longest"
    again = SliceTotals.merged([fitted, table])
    assert np.array_equal(again.starts, fitted.starts), "never refined"
    assert again.sums == pytest.approx(2.0 * fitted.sums)
    assert same(fitted.fitted(10**6), fitted)


def test_a_table_with_more_groups_than_room_gives_up_for_ever() -> None:
    table = totals_of(columns(3)).by_class.fitted(3)
    assert len(table) == 0
    assert table.unknown_up_to == NEVER
    assert len(SliceTotals.merged([table, totals_of(columns(4)).by_class])) == 0


def test_a_table_whose_groups_would_hardly_have_two_slices_each_gives_up() -> None:
    """Then a slice would be as long as all of time. One that fits as it is stays."""
    times, values, weights, sources = columns(3)
    table = totals_of((times + 10 * HOUR, values, weights, sources)).by_source
    assert len(np.unique(table.groups)) == 3
    assert table.fitted(5).unknown_up_to == NEVER
    assert 0 < len(table.fitted(6)) <= 6
    few = table.take(np.searchsorted(table.groups, [0, 1, 2]))
    assert same(few.fitted(3), few)


def test_a_slice_that_lost_rows_stays_unknown() -> None:
    """Also when rows of it come later: they are not all of it. An hour that went as a whole is counted anew."""
    times = np.arange(0, 10 * HOUR, 60)
    ones, sources = np.ones(len(times), np.int64), np.zeros(len(times), np.int32)
    rows = (times, ones, ones, sources)
    left = totals_of(rows).hourly.without(2 * HOUR + 5, 4 * HOUR)
    assert entries(left)[0, 2] == [0.0, 0.0, 0.0]
    assert (0, 3) not in entries(left)
    later = totals_of(taken(rows, [121, 185])).hourly
    found = entries(SliceTotals.merged([left, later]))
    assert [found[0, hour][ROWS] for hour in (1, 2, 3, 4)] == [60.0, 0.0, 1.0, 60.0]
    long = SliceTotals.merged([left, replace(later, coarse=np.array([4]))])
    assert [entries(long)[0, hour][ROWS] for hour in (0, 2, 4)] == [120.0, 0.0, 60.0], "and spoils a longer slice"


def test_without_takes_a_stretch_of_some_groups() -> None:
    rows = columns(5)
    table, begin, end = totals_of(rows).by_source, 5 * HOUR + 1, 9 * HOUR + 7
    left, exact = entries(table.without(begin, end, np.array([1]))), brute(rows, "by_source", HOUR)
    for key, sums in exact.items():
        group, hour = key
        if group != 1 or not 5 <= hour <= 9:
            assert left[key] == sums
        elif hour in (5, 9):
            assert left[key] == [0.0, 0.0, 0.0]
        else:
            assert key not in left
    partly = entries(table.without(5 * HOUR, 9 * HOUR, np.array([1]), wholly=False))
    assert all(partly[1, hour] == [0.0, 0.0, 0.0] for hour in range(5, 9))


def test_a_forgotten_source_leaves_what_the_others_brought() -> None:
    """By hour exactly, where the source's own hours are known; where they are not, the hour is unknown."""
    rows = columns(6)
    times, sources = rows[0], rows[3]
    totals, begin, end = totals_of(rows), 4 * HOUR, 12 * HOUR + 10
    left = totals.without(begin, end, np.array([2]))
    kept = taken(rows, ~((times >= begin) & (times < end) & (sources == 2)))
    exact = brute(kept, "hourly", HOUR)
    found = entries(left.hourly)
    assert found.pop((0, 12)) == [0.0, 0.0, 0.0], "the stretch cuts it"
    exact.pop((0, 12))
    assert found == exact
    assert not [key for key in entries(left.by_source) if key[0] == 2 and 4 <= key[1] < 12]
    classes = entries(left.by_class)
    assert all(sums[ROWS] == 0.0 for (_, hour), sums in classes.items() if 4 <= hour <= 12)
    long = replace(totals, by_source=replace(totals.by_source, coarse=np.array([6]))._added_up())
    unknown = entries(long.without(begin, end, np.array([2])).hourly)
    assert [unknown[0, hour][ROWS] == 0.0 for hour in (3, 4, 5, 6, 7)] == [False, True, True, False, False]


def test_only_one_source_in_an_hour_takes_the_hour_with_it() -> None:
    rows = (np.array([10, HOUR + 10]), np.array([3, 4]), np.array([1, 1]), np.array([0, 1], np.int32))
    left = totals_of(rows).without(0, 2 * HOUR, np.array([0]))
    assert entries(left.hourly) == {(0, 1): [1.0, 1.0, 4.0]}


def test_time_before_which_nothing_was_counted_stays_unknown() -> None:
    rows = columns(7)
    old = RowTotals.nothing(SECOND, 10 * HOUR + 5)
    merged = RowTotals.merged([totals_of(rows), old, totals_of(columns(8))])
    for name in TABLES:
        table = getattr(merged, name)
        assert table.starts.min() == 11
        assert table.unknown_up_to == 10 * HOUR + 5


def test_some_sources_are_added_up_and_renumbered() -> None:
    rows = columns(9)
    table = totals_of(rows).by_source
    some = entries(table.together(np.array([0, 2])))
    exact = brute(taken(rows, rows[3] != 1), "hourly", HOUR)
    assert some == exact
    other = entries(table.renumbered(np.array([5, -1, 0])))
    assert other == {
        ((5 if group == 0 else 0), hour): sums for (group, hour), sums in entries(table).items() if group != 1
    }


def written(totals: RowTotals) -> bytes:
    writer = Writer()
    totals.write(writer)
    return writer.to_bytes()


@pytest.mark.parametrize("whole", [True, False], ids=["whole values", "floats"])
def test_bytes_hold_all_of_it(whole: bool) -> None:
    """Also long slices, unknown ones, none at all, and weights beyond 2^53."""
    totals = totals_of(columns(10, whole=whole))
    heavy = replace(totals, hourly=replace(totals.hourly, sums=totals.hourly.sums * [1.0, 2.0**53, 1.0]))
    for one in (
        totals,
        RowTotals(totals.hourly, totals.by_source.fitted(50), totals.by_class.fitted(2)),
        totals.without(HOUR + 1, 3 * HOUR, np.array([1])),
        heavy,
        RowTotals.nothing(SECOND, 77),
    ):
        back = RowTotals.read(Reader(written(one)), SECOND)
        for name in TABLES:
            assert same(getattr(back, name), getattr(one, name)), name


def test_corrupt_bytes_are_refused_by_name() -> None:
    """Cut short anywhere, or with one byte changed: refused, or totals all the same; never another error."""
    data = written(totals_of(columns(11, 60)))
    for end in range(0, len(data), 3):
        with pytest.raises(CorruptError):
            RowTotals.read(Reader(data[:end]), SECOND)
    refused = 0
    for at in range(len(data)):
        changed = bytearray(data)
        changed[at] ^= 0x51
        try:
            found = RowTotals.read(Reader(bytes(changed)), SECOND)
        except CorruptError:
            refused += 1
        else:
            assert (found.hourly.sums[:, :2] >= 0.0).all()
    assert refused > len(data) // 4


def test_a_table_without_its_first_column_is_refused() -> None:
    """A column that is like the one before it is written as nothing; before the first there is none."""
    writer = Writer()
    writer.i64(0)
    writer.varint(0)
    writer.varint(1)
    writer.i64(0)
    for column in (b"\x00", b"\x00", b"", b"", b""):
        writer.blob(column)
    with pytest.raises(CorruptError, match="no number of rows"):
        SliceTotals.read(Reader(writer.to_bytes()), SECOND)


def test_an_impossible_table_is_refused() -> None:
    good = totals_of(columns(12, 60)).by_source
    for bad in (
        replace(good, starts=good.starts[::-1].copy()),
        replace(good, sums=-good.sums),
        replace(good, coarse=np.array([1, 5])),
        replace(good, coarse=np.zeros(41, np.int64)),
    ):
        writer = Writer()
        bad.write(writer)
        with pytest.raises(CorruptError):
            SliceTotals.read(Reader(writer.to_bytes()), SECOND)
