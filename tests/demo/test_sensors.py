"""The generated readings keep what they promise: many reports agree on each, by paths of different length."""

from __future__ import annotations

import itertools
from dataclasses import fields

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from demo.sensors import Readings, files, generate
from sketches.errors import WaneError

END = 1_768_003_200
HOUR = 3_600_000
DAY = 24 * HOUR
READINGS = 150_000


@pytest.fixture(scope="module")
def data() -> Readings:
    return generate(seed=1, end=END)


@pytest.fixture(scope="module")
def tables(data: Readings) -> list[tuple[str, pa.Table]]:
    return files(data, 36)


def columns(data: Readings) -> dict[str, NDArray[np.generic]]:
    return {f.name: getattr(data, f.name) for f in fields(data) if isinstance(getattr(data, f.name), np.ndarray)}


def first(data: Readings) -> NDArray[np.intp]:
    """The first report of every reading."""
    return np.unique(data.reading_id, return_index=True)[1]


def test_same_seed_same_rows() -> None:
    """Two runs agree in every column; another seed gives other readings."""
    one, two = (columns(generate(5_000, days=2, seed=3, end=END)) for _ in range(2))
    for name, column in one.items():
        assert np.array_equal(column, two[name]), name
    other = generate(5_000, days=2, seed=4, end=END)
    assert not np.array_equal(one["tenths"], other.tenths)


def test_as_many_readings_as_asked_in_the_span_asked(data: Readings) -> None:
    """150,000 readings of 120 sensors, numbered in order of time, over the three days before the end."""
    rows = first(data)
    assert len(rows) == READINGS
    assert (data.begin, data.end) == (END * 1000 - 3 * DAY, END * 1000)
    assert data.begin <= data.at.min() < data.begin + HOUR
    assert data.end - HOUR < data.at.max() < data.end
    assert np.array_equal(np.unique(data.sensor), [f"s{i:03d}" for i in range(1, 121)])
    assert np.array_equal(
        data.reading_id[rows], [f"s{i:03d}-{turn:06d}" for i in range(1, 121) for turn in range(1250)]
    )
    times = data.at[rows].reshape(120, 1250)
    assert np.all(np.diff(times, axis=1) > 0)


def test_all_reports_of_a_reading_agree(data: Readings) -> None:
    """Sensor, time and value are those of the reading, whoever reports it and whenever the report arrives."""
    rows, inverse = np.unique(data.reading_id, return_index=True, return_inverse=True)[1:]
    for name in ("sensor", "at", "tenths"):
        column = getattr(data, name)
        assert np.array_equal(column, column[rows][inverse]), name


def test_a_reading_is_reported_by_several_gateways(data: Readings) -> None:
    """About 2.5 reports a reading, never two by one gateway; a dozen gateways, each with a good share."""
    pairs = np.strings.add(data.reading_id, data.reporter)
    assert len(np.unique(pairs)) == len(pairs)
    counts = np.unique(data.reading_id, return_counts=True)[1]
    assert counts.mean() == pytest.approx(2.5, abs=0.25)
    assert np.mean(counts >= 2) > 0.6
    assert counts.max() >= 5
    names, reports = np.unique(data.reporter, return_counts=True)
    assert names.tolist() == [f"g{i:02d}" for i in range(1, 13)]
    assert reports.min() > len(pairs) / 12 / 3


def test_gateways_hear_their_neighbourhood(data: Readings) -> None:
    """Only a few of the twelve gateways hear a sensor regularly (one reading in ten), and not everywhere the same."""
    sensor, reporter = (np.unique(column, return_inverse=True)[1] for column in (data.sensor, data.reporter))
    heard = np.zeros((120, 12))
    np.add.at(heard, (sensor, reporter), 1 / 1250)
    often = heard > 0.1
    assert 2 < often.sum(axis=1).mean() < 6
    assert often.sum(axis=1).max() < 9
    assert len(np.unique(often, axis=0)) > 12


def test_reports_come_late_and_out_of_order(data: Readings) -> None:
    """Rows are in order of arrival, times are not; far gateways take seconds, the three sleepy ones minutes."""
    late = data.arrived - data.at
    assert np.all(np.diff(data.arrived) >= 0)
    assert late.min() >= 1
    assert np.mean(np.diff(data.at) < 0) > 0.1
    median = np.array([np.median(late[data.reporter == name]) for name in np.unique(data.reporter)])
    sleepy = median > 60_000
    assert sleepy.sum() == 3
    assert median[~sleepy].min() > 500
    assert median[~sleepy].max() > 2 * median[~sleepy].min()


def test_paths_of_one_reading_differ_in_delay(data: Readings) -> None:
    """Between the first and the last report of a reading pass seconds, in some cases minutes."""
    rows = np.lexsort((data.arrived, data.reading_id))
    starts = np.flatnonzero(np.r_[True, data.reading_id[rows][1:] != data.reading_id[rows][:-1]])
    ends = np.r_[starts[1:], len(rows)] - 1
    apart = (data.arrived[rows][ends] - data.arrived[rows][starts])[ends > starts]
    assert np.median(apart) > 1_000
    assert np.mean(apart > 60_000) > 0.1


def test_a_gateway_without_uplink_delivers_hours_late(data: Readings) -> None:
    """It is silent in its outage, sends what it held when it is back, and nobody else is so late."""
    outage = data.outage
    mine = data.reporter == outage.reporter
    assert outage.end - outage.begin >= 3 * HOUR
    assert not np.any(mine & (data.arrived >= outage.begin) & (data.arrived < outage.end))
    late = data.arrived - data.at
    assert late[mine].max() > 3 * HOUR
    assert late[~mine].max() < HOUR
    held = mine & (data.at >= outage.begin + HOUR) & (data.at < outage.begin + 2 * HOUR)
    assert held.sum() > 100
    assert np.all((data.arrived[held] >= outage.end) & (data.arrived[held] < outage.end + HOUR))


def test_afternoons_are_warm(data: Readings) -> None:
    """Of each day the mean over all sensors at three in the afternoon is far above the one at three at night."""
    rows = first(data)
    hour = data.at[rows] % DAY // HOUR
    sound = data.sensor[rows] != data.drift.sensor
    warm, cold = (data.tenths[rows][sound & (hour == when)].mean() for when in (15, 3))
    assert 80 < warm - cold < 140
    assert data.tenths.min() > 0


def test_the_heat_event_is_local_and_passes(data: Readings) -> None:
    """Its sensors read degrees more than the others while it lasts, as the others before and after."""
    rows = first(data)
    near = np.isin(data.sensor[rows], data.heat.sensors)
    sound = data.sensor[rows] != data.drift.sensor
    at, tenths = data.at[rows], data.tenths[rows]

    def excess(begin: int, end: int) -> float:
        when = (at >= begin) & (at < end)
        return float(tenths[when & near].mean() - tenths[when & ~near & sound].mean())

    begin, end = data.heat.begin, data.heat.end
    assert data.begin < begin < end < data.end
    assert 3 <= len(data.heat.sensors) <= 30
    assert excess(begin, end) > 60
    assert abs(excess(begin - DAY, begin)) < 20
    assert abs(excess(end, data.end)) < 20
    hottest = tenths[near & (at >= begin) & (at < end)].max()
    assert hottest > tenths[sound & ((at < begin) | (at >= end))].max() + 50


def test_the_broken_sensor_drifts(data: Readings) -> None:
    """It agrees with the others at first, then leaves them steadily, up to 30 degrees too much at the end."""
    rows = first(data)
    at, tenths = data.at[rows], data.tenths[rows]
    mine = data.sensor[rows] == data.drift.sensor
    quiet = ~mine & ~np.isin(data.sensor[rows], data.heat.sensors)
    assert data.drift.sensor not in data.heat.sensors

    def excess(begin: int, end: int) -> float:
        when = (at >= begin) & (at < end)
        return float(tenths[when & mine].mean() - tenths[when & quiet].mean())

    before = excess(data.drift.begin - DAY, data.drift.begin)
    assert abs(before) < 30
    steps = np.linspace(data.drift.begin, data.end, 7).astype(np.int64)
    after = [excess(a, b) - before for a, b in itertools.pairwise(steps)]
    assert after == sorted(after)
    assert after[-1] == pytest.approx(300 * 11 / 12, abs=20)


def test_files_hold_every_row_once_in_order_of_arrival(data: Readings, tables: list[tuple[str, pa.Table]]) -> None:
    """The files one after the other are the columns as generated, with the promised names and types."""
    assert [name for name, _ in tables] == [f"sensors-{i:04d}.parquet" for i in range(36)]
    table = pa.concat_tables([table for _, table in tables])
    text, number = pa.string(), pa.int64()
    assert table.schema == pa.schema(
        {"reading_id": text, "sensor": text, "reporter": text, "at": number, "tenths": number}
    )
    for name in table.column_names:
        assert table[name].to_pylist() == getattr(data, name).tolist(), name


def test_a_file_is_two_hours_of_arrivals(data: Readings, tables: list[tuple[str, pa.Table]]) -> None:
    """Of 36 files over three days each has what arrived in its two hours, and the last whatever arrived after it."""
    start = 0
    for i, (_, table) in enumerate(tables):
        arrived = data.arrived[start : start + len(table)]
        assert len(arrived) > 0
        assert arrived.min() >= data.begin + 2 * i * HOUR
        assert arrived.max() < data.begin + 2 * (i + 1) * HOUR or i == 35
        start += len(table)
    assert start == len(data.arrived)
    assert data.arrived[-1] >= data.end


def test_reports_of_one_reading_lie_in_several_files(data: Readings, tables: list[tuple[str, pa.Table]]) -> None:
    """Deduplicating within a file is not enough: some readings are reported in two files."""
    cuts = np.cumsum([len(table) for _, table in tables])
    file = np.searchsorted(cuts, np.arange(len(data.at)), "right")
    inverse = np.unique(data.reading_id, return_inverse=True)[1]
    pairs = len(np.unique(inverse * 36 + file))
    assert pairs > 1.01 * READINGS


def test_the_smallest_network() -> None:
    """Two sensors and one gateway: every reading is reported exactly once, and no reading is lost."""
    rows = generate(101, sensors=2, gateways=1, days=1, seed=1, end=END)
    assert len(np.unique(rows.reading_id)) == len(rows.reading_id) == 101
    assert rows.heat.sensors not in ((), (rows.drift.sensor,))


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"readings": 0}, "readings is 0; it must be at least 1"),
        ({"sensors": 1}, "sensors is 1; it must be at least 2"),
        ({"gateways": 0}, "gateways is 0; it must be at least 1"),
        ({"days": 0}, "days is 0; it must be at least 1"),
    ],
)
def test_impossible_sizes_are_refused(wrong: dict[str, int], sentence: str) -> None:
    """The message names the parameter, its value and what would be valid."""
    with pytest.raises(WaneError, match=sentence):
        generate(**wrong, seed=1, end=END)


def test_no_files_are_refused() -> None:
    """Rows cannot be spread over no file."""
    with pytest.raises(WaneError, match="count is 0; it must be at least 1"):
        files(generate(10, days=1, seed=1, end=END), 0)
