"""The generated calls keep what they promise, measured on the rows: rhythm, incidents, lateness, repeats, faults."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

from demo.calls import REGIONS, Calls, Incident, files, generate
from sketches.errors import WaneError

END = 1_768_003_200  # the end of a Friday, UTC: the three days before it are workdays
HOUR = 3600
DAY = 86_400
CALLS = 400_000


@pytest.fixture(scope="module")
def data() -> Calls:
    return generate(seed=1, end=END)


@pytest.fixture(scope="module")
def tables(data: Calls) -> list[tuple[str, pa.Table]]:
    return files(data, 72)


def columns(data: Calls) -> dict[str, NDArray[np.generic]]:
    return {f.name: getattr(data, f.name) for f in fields(data) if isinstance(getattr(data, f.name), np.ndarray)}


def first(data: Calls) -> NDArray[np.intp]:
    """The first arrival of every call that is not broken."""
    rows = np.unique(data.call_id, return_index=True)[1]
    return rows[data.fault[rows] == ""]


def during(data: Calls, region: str, begin: int, end: int) -> NDArray[np.intp]:
    rows = first(data)
    started = data.started_at[rows]
    return rows[(data.region[rows] == region) & (started >= begin) & (started < end)]


def ordinary(data: Calls, incident: Incident) -> list[NDArray[np.intp]]:
    """The same region at the same hours of other days, those with an incident of its own left out."""
    known = [(other.begin, other.end) for other in data.incidents if other.region == incident.region]
    spells = [(incident.begin + shift, incident.end + shift) for shift in (-2 * DAY, -DAY, DAY, 2 * DAY)]
    return [
        during(data, incident.region, begin, end)
        for begin, end in spells
        if data.begin <= begin and end <= data.end and all(end <= a or b <= begin for a, b in known)
    ]


def test_same_seed_same_rows() -> None:
    """Two runs agree in every column; another seed gives other calls, another end moves the same calls in time."""
    one, two = (columns(generate(5_000, days=2, seed=3, end=END)) for _ in range(2))
    other = generate(5_000, days=2, seed=4, end=END)
    later = generate(5_000, days=2, seed=3, end=END + 7 * DAY)
    for name, column in one.items():
        assert np.array_equal(column, two[name]), name
    assert not np.array_equal(one["duration_s"], other.duration_s)
    assert np.array_equal(np.sort(one["arrived"]) + 7 * DAY, later.arrived)


def test_as_many_calls_as_asked_in_the_span_asked(data: Calls) -> None:
    """Every call has one id and starts within the three days before the end."""
    assert len(np.unique(data.call_id)) == CALLS
    started = data.started_at[first(data)]
    assert (data.begin, data.end) == (END - 3 * DAY, END)
    assert data.begin <= started.min() < data.begin + 60
    assert data.end - 60 < started.max() < data.end


def test_three_in_a_hundred_records_arrive_twice(data: Calls) -> None:
    """The repeats agree with their originals in every column, and come minutes later, often into another file."""
    counts = np.unique(data.call_id, return_counts=True)[1]
    assert counts.max() == 2
    assert (counts == 2).sum() == 0.03 * CALLS
    rows = np.argsort(data.call_id, kind="stable")
    again = np.flatnonzero(np.diff(data.call_id[rows]) == 0)
    originals, repeats = rows[again], rows[again + 1]
    for name in ("region", "started_at", "duration_s", "loss", "fault"):
        column = getattr(data, name)
        assert np.array_equal(column[originals], column[repeats]), name
    waited = data.arrived[repeats] - data.arrived[originals]
    assert waited.min() >= 60
    assert 5 * 60 < np.median(waited) < 30 * 60
    cuts = np.cumsum([len(table) for _, table in files(data, 72)])
    elsewhere = np.searchsorted(cuts, originals, "right") != np.searchsorted(cuts, repeats, "right")
    assert 0.2 < elsewhere.mean() < 0.6


def test_records_arrive_after_their_call_and_some_hours_late(data: Calls) -> None:
    """Usually seconds after the end of the call; only regions whose collector was down are more than an hour late."""
    rows = first(data)
    late = data.arrived[rows] - data.started_at[rows] - data.duration_s[rows]
    assert np.all(np.diff(data.arrived) >= 0)
    assert late.min() >= 1
    assert np.median(late) < 15
    hours = late > HOUR
    assert 0.01 < hours.mean() < 0.10
    assert {outage.region for outage in data.outages} == set(data.region[rows][hours].tolist())
    assert 3 * HOUR < late.max() < 8 * HOUR


def test_nothing_arrives_while_a_collector_is_down(data: Calls) -> None:
    """An outage leaves a hole in the region's arrivals and a batch of all it held back after it."""
    assert len(data.outages) == 2
    for outage in data.outages:
        arrived = data.arrived[data.region == outage.region]
        length = outage.end - outage.begin
        assert length >= 3 * HOUR
        assert not np.any((arrived >= outage.begin) & (arrived < outage.end))
        before = np.sum((arrived >= outage.begin - length) & (arrived < outage.begin))
        batch = np.sum((arrived >= outage.end) & (arrived < outage.end + HOUR // 2))
        following = np.sum((arrived >= outage.end + HOUR // 2) & (arrived < outage.end + HOUR))
        assert before > 0
        assert batch > 2 * following


def test_regions_differ_in_size(data: Calls) -> None:
    """The regions come in the order of their shares, the largest at least five times the smallest."""
    region = data.region[first(data)]
    shares = [float(np.mean(region == name)) for name in REGIONS]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] > 5 * shares[-1]


def test_regions_wake_up_one_after_the_other(data: Calls) -> None:
    """The mean angle of a region's starts on the 24-hour clock is later, the further west it lies."""
    rows = first(data)
    angle = 2 * np.pi * data.started_at[rows] / DAY
    noon = {}
    for name in REGIONS:
        here = angle[data.region[rows] == name]
        noon[name] = np.arctan2(np.sin(here).mean(), np.cos(here).mean()) % (2 * np.pi) * 24 / (2 * np.pi)
    assert (noon["west"] - noon["east"]) % 24 == pytest.approx(3, abs=0.5)
    assert (noon["islands"] - noon["west"]) % 24 == pytest.approx(2, abs=0.5)


def test_nights_are_quiet(data: Calls) -> None:
    """In the quietest hour of the day one region makes less than a tenth of the calls of its busiest hour."""
    rows = first(data)
    hour = data.started_at[rows][data.region[rows] == "west"] // HOUR % 24
    counts = np.bincount(hour, minlength=24)
    assert counts.min() < counts.max() / 10


def test_weekends_are_quieter() -> None:
    """Over two weeks a Sunday has about 0.7 of the calls of a Wednesday."""
    rows = generate(200_000, days=14, seed=2, end=END)
    here = during(rows, "north", rows.begin, rows.end)
    weekday = np.bincount(((rows.started_at[here] - 6 * HOUR) // DAY + 3) % 7, minlength=7)
    assert weekday[6] / weekday[2] == pytest.approx(0.7, abs=0.06)


def test_durations_have_a_heavy_tail(data: Calls) -> None:
    """One call in a hundred is fifteen times the median or longer; none is longer than the switch allows."""
    duration = data.duration_s[first(data)]
    assert 60 < np.median(duration) < 300
    assert np.quantile(duration, 0.99) > 15 * np.median(duration)
    assert duration.mean() > 2 * np.median(duration)
    assert duration.min() >= 1
    assert duration.max() == 6 * HOUR


def test_loss_is_worse_in_the_busy_hour(data: Calls) -> None:
    """In a region without incidents, loss in its busiest hours is at least twice that of its nights."""
    rows = during(data, "west", data.begin, data.end)
    hour = (data.started_at[rows] - 8 * HOUR) // HOUR % 24
    busy, night = (data.loss[rows][np.isin(hour, hours)].mean() for hours in ([10, 11], [1, 2, 3, 4]))
    assert busy > 2 * night
    assert data.loss[rows].min() >= 0


def test_bad_lines_make_people_hang_up(data: Calls) -> None:
    """Calls of less than a minute lost more packets than calls of ten minutes or more, also outside of incidents."""
    rows = during(data, "west", data.begin, data.end)
    short, long = data.duration_s[rows] < 60, data.duration_s[rows] >= 600
    assert data.loss[rows][short].mean() > 1.03 * data.loss[rows][long].mean()
    everywhere = first(data)
    short, long = data.duration_s[everywhere] < 60, data.duration_s[everywhere] >= 600
    assert data.loss[everywhere][short].mean() > 1.3 * data.loss[everywhere][long].mean()


def test_incidents_show(data: Calls) -> None:
    """Against the same hours of other days: loss times the factor, shorter calls, a few more of them."""
    assert len(data.incidents) == 3
    for incident in data.incidents:
        assert data.begin <= incident.begin < incident.end <= data.end
        assert 5 <= incident.factor <= 10
        hit, usual = during(data, incident.region, incident.begin, incident.end), ordinary(data, incident)
        others = np.concatenate(usual)
        assert data.loss[hit].mean() / data.loss[others].mean() == pytest.approx(incident.factor, rel=0.05)
        assert np.median(data.duration_s[hit]) < 0.9 * np.median(data.duration_s[others])
        assert data.duration_s[hit].mean() < 0.8 * data.duration_s[others].mean()
        assert 1.15 < len(hit) / np.mean([len(rows) for rows in usual]) < 1.35


@pytest.mark.slow
def test_an_incident_stays_in_its_region(data: Calls) -> None:
    """While one region suffers, no other region's loss leaves its usual range."""
    for incident in data.incidents:
        for region in set(REGIONS) - {incident.region}:
            elsewhere = Incident(region, incident.begin, incident.end, 1.0)
            hit = during(data, region, incident.begin, incident.end)
            others = np.concatenate(ordinary(data, elsewhere))
            assert 0.8 < data.loss[hit].mean() / data.loss[others].mean() < 1.25


def test_incidents_fit_into_a_short_span() -> None:
    """Also within a single day every incident and outage lies inside the span."""
    rows = generate(1_000, days=1, seed=1, end=END)
    for spell in (*rows.incidents, *rows.outages):
        assert rows.begin <= spell.begin < spell.end <= rows.end
        assert spell.end - spell.begin <= 2 * HOUR


def test_one_call_in_five_thousand_is_broken(data: Calls) -> None:
    """Four kinds of fault, equally often, named in `fault`; all other rows are sound."""
    calls = np.unique(data.call_id, return_index=True)[1]
    names, counts = np.unique(data.fault[calls], return_counts=True)
    assert dict(zip(names.tolist(), counts.tolist(), strict=True)) == {
        "": CALLS - 80,
        "no time": 20,
        "no region": 20,
        "negative loss": 20,
        "clock in 2106": 20,
    }
    good = data.fault == ""
    assert data.loss[good].min() == 0, "calls without loss are sound"
    assert set(np.unique(data.region[good]).tolist()) == set(REGIONS)
    assert np.all((data.started_at[good] >= data.begin) & (data.started_at[good] < data.end))


def test_faults_reach_the_files(data: Calls, tables: list[tuple[str, pa.Table]]) -> None:
    """What `fault` names is what the tables hold: null times, null regions, losses below 0, the year 2106."""
    table = pa.concat_tables([table for _, table in tables])
    rows = {name: table.filter(data.fault == name) for name in np.unique(data.fault).tolist()}
    assert rows["no time"]["started_at"].null_count == len(rows["no time"]) == table["started_at"].null_count
    assert rows["no region"]["region"].null_count == len(rows["no region"]) == table["region"].null_count
    assert pc.sum(pc.less(table["loss"], 0)).as_py() == len(rows["negative loss"])
    assert pc.max(rows["negative loss"]["loss"]).as_py() < 0
    assert pc.unique(pc.year(rows["clock in 2106"]["started_at"])).to_pylist() == [2106]
    assert sum(len(found) for found in rows.values()) == len(table)


def test_files_hold_every_row_once_in_order_of_arrival(data: Calls, tables: list[tuple[str, pa.Table]]) -> None:
    """The files one after the other are the columns as generated, with the promised names and types."""
    assert [name for name, _ in tables] == [f"calls-{i:04d}.parquet" for i in range(72)]
    table = pa.concat_tables([table for _, table in tables])
    assert table.schema == pa.schema(
        {
            "call_id": pa.int64(),
            "region": pa.string(),
            "started_at": pa.timestamp("us", tz="UTC"),
            "duration_s": pa.int64(),
            "loss": pa.int64(),
            "device": pa.string(),
            "codec": pa.string(),
            "error_code": pa.int64(),
        }
    )
    for name in ("call_id", "duration_s", "loss"):
        assert np.array_equal(table[name].to_numpy(), getattr(data, name)), name
    assert table["region"].fill_null("").to_pylist() == data.region.tolist()
    seconds = pc.divide(table["started_at"].cast(pa.int64()), 1_000_000)
    timed = data.fault != "no time"
    assert np.array_equal(seconds.filter(timed).to_numpy(), data.started_at[timed])


def test_a_file_is_an_hour_of_arrivals(data: Calls, tables: list[tuple[str, pa.Table]]) -> None:
    """Of 72 files over three days each has what arrived in its hour, and the last whatever arrived after it."""
    start = 0
    for i, (_, table) in enumerate(tables):
        arrived = data.arrived[start : start + len(table)]
        assert len(arrived) > 0
        assert arrived.min() >= data.begin + i * HOUR
        assert arrived.max() < data.begin + (i + 1) * HOUR or i == 71
        start += len(table)
    assert start == len(data.arrived)
    assert data.arrived[-1] > data.end


def test_a_file_survives_parquet(tables: list[tuple[str, pa.Table]], tmp_path: Path) -> None:
    """A table written to Parquet and read again is the same table, time zone included."""
    name, table = tables[7]
    pq.write_table(table, tmp_path / name)
    assert pq.read_table(tmp_path / name).equals(table)


def test_few_calls_make_few_files() -> None:
    """One call in three files: the number of files is kept, and no row is lost."""
    tables = files(generate(1, days=1, seed=1, end=END), 3)
    assert sorted(len(table) for _, table in tables) == [0, 0, 1]


@pytest.mark.parametrize(("wrong", "sentence"), [({"calls": 0}, "calls is 0"), ({"days": -1}, "days is -1")])
def test_impossible_sizes_are_refused(wrong: dict[str, int], sentence: str) -> None:
    """The message names the parameter, its value and what would be valid."""
    with pytest.raises(WaneError, match=f"{sentence}; it must be at least 1"):
        generate(**wrong, seed=1, end=END)


def test_no_files_are_refused() -> None:
    """Rows cannot be spread over no file."""
    with pytest.raises(WaneError, match="count is 0; it must be at least 1"):
        files(generate(10, days=1, seed=1, end=END), 0)


def test_device_codec_and_error_go_with_the_line(data: Calls) -> None:
    """Every call has one of each; calls on bad lines fail far more often, and most of these are out of service."""
    rows = first(data)
    assert set(data.device[rows]) == {"mobile", "desk phone", "softphone", "conference room"}
    assert set(data.codec[rows]) == {"opus", "g711", "g729"}
    assert not (data.codec[rows][data.device[rows] == "softphone"] == "g729").any()
    assert set(data.error_code[rows].tolist()) == {0, 408, 480, 503}
    failed, bad = data.error_code[rows] > 0, data.loss[rows] >= 200
    assert failed[bad].mean() > 5 * failed[~bad].mean()
    assert (data.error_code[rows][bad & failed] == 503).mean() > 0.5
