"""`wane info`: what a store holds, in numbers that agree with its rows."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from sketches.units import SECOND, TimeUnit
from store import InputFile, Reject, Run, SketchTables, Stream, commit
from store.database import connected
from store.packed_sources import SourceColumns, pack
from store.serving import report as reporting
from store.serving.report import moment_text, report, report_lines
from tests.support.stores import (
    EPOCH,
    GENERATION,
    NOON,
    STREAM,
    execute,
    flipped,
    overlapping,
    part,
    payloads,
    replace_payload,
    run_of,
    stored,
    stream_parts,
)
from tests.support.streams import STREAMS

ROWS = STREAMS["correlated"](600, 5)
SOURCES = overlapping(ROWS, ["east", "west"], 5)
FIRST = int(ROWS.t.min() - ROWS.t.min() % EPOCH)
FAMILIES = ("sample", "by-epoch", "integral")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "wane.duckdb"
    stored(path, SOURCES, families=FAMILIES)
    return path


def test_a_store_in_numbers(path: Path) -> None:
    """Sources, epochs, events, times and bytes of each family, of every stream by name."""
    stored(path, {"north": ROWS}, stream="a first one")
    found = report(path)
    assert (found["generation"], found["runs"]) == (2, 2)
    assert found["file_bytes"] == path.stat().st_size
    assert [stream["stream"] for stream in found["streams"]] == ["a first one", STREAM]
    calls = found["streams"][1]
    assert (calls["sources"], calls["epochs"]) == (2, 7)
    assert calls["events"] == sum(len(rows) for rows in SOURCES.values())
    assert (calls["oldest"], calls["newest"]) == (ROWS.t.min(), ROWS.t.max())
    assert calls["epoch_text"] == "10m"
    assert calls["source_events"] == {name: len(rows) for name, rows in SOURCES.items()}
    sizes = {
        family: [len(payload) for (*_, name), payload in payloads(path).items() if name == family]
        for family in ("by-epoch", "integral")
    }
    assert [len(each) for each in sizes.values()] == [14, 14]
    head, segments = stream_parts(path)
    sizes["sample"] = [len(head), *(len(payload) for *_, payload in segments)]
    assert calls["families"] == [
        {
            "family": family,
            "sketches": len(each) - (family == "sample"),  # its segments, without the head
            "bytes": sum(each),
            "largest": max(each),
            "mean": pytest.approx(sum(each) / len(each)),
            "faded": 0,
        }
        for family, each in sizes.items()
    ]
    assert calls["gaps"] == calls["rejects"] == []


def test_rejects_are_summed_by_reason(path: Path) -> None:
    """What could not be an event, over all runs, with examples."""
    commit(path, run_of([], rejects=[Reject("no time", 2, ["a"]), Reject("weight below 1", 1)]))
    commit(path, run_of([], rejects=[Reject("no time", 3, ["a"])]))
    (calls,) = report(path)["streams"]
    assert calls["rejects"] == [
        {"reason": "no time", "rows": 5, "examples": ["a"]},
        {"reason": "weight below 1", "rows": 1, "examples": []},
    ]


def test_the_ledger_in_numbers(path: Path) -> None:
    """Files, the last run, and the runs before it, of each stream for itself."""
    file = InputFile("a.csv", 10, "aaa", 600, 1)
    later = part(ROWS.take(ROWS.t < FIRST + EPOCH), "east", FIRST, families=FAMILIES)
    started, finished = NOON + timedelta(hours=1), NOON + timedelta(hours=1, seconds=9)
    rejects = [Reject("no time", 2)]
    last = Run(Stream(STREAM, EPOCH), SketchTables.of([later]), started, finished, [file], rejects, rows=9, conflicts=3)
    commit(path, last)
    commit(path, run_of([], stream="another"))
    another, calls = report(path)["streams"]
    assert (calls["files"], another["files"]) == (1, 0)
    assert (calls["input_bytes"], another["input_bytes"]) == (10, 0)
    with connected(path, write=False) as connection:
        written = " UNION ALL ".join(
            f"SELECT bytes FROM {table} WHERE {GENERATION} = 2" for table in ("sketches", "heads", "segments")
        )
        ((size,),) = connection.execute(f"SELECT sum(bytes) FROM ({written})").fetchall()
    assert calls["last_run"] == {
        "run": 2,
        "started": started,
        "finished": finished,
        "rows": 9,
        "rejected": 2,
        "late": later.events,
        "conflicts": 3,
        "sketches": 3,  # two by epoch, and a segment
        "bytes": size,
        "repeats": 0,
        "ahead": 0,
    }
    assert [run["run"] for run in calls["runs"]] == [2, 1]
    assert [run["run"] for run in another["runs"]] == [3]
    assert calls["source_newest"] == {name: rows.t.max() for name, rows in SOURCES.items()}


@pytest.mark.slow
def test_only_the_last_runs_are_listed(path: Path) -> None:
    """Twenty of each stream, newest first; their number is told as well."""
    for _ in range(22):
        commit(path, run_of([]))
    found = report(path)
    (calls,) = found["streams"]
    assert found["runs"] == 23
    assert [run["run"] for run in calls["runs"]] == list(range(23, 3, -1))


def test_examples_are_those_of_the_newest_run_that_has_some(path: Path) -> None:
    """A reason without examples does not hide earlier ones."""
    for examples in (["old"], [{"id": 1, "time": None}, 2], []):
        commit(path, run_of([], rejects=[Reject("no time", 2, examples)]))
    (calls,) = report(path)["streams"]
    assert calls["rejects"] == [{"reason": "no time", "rows": 6, "examples": [{"id": 1, "time": None}, 2]}]


def test_every_damaged_payload_is_found(path: Path) -> None:
    """All payloads are checked, of every family, also those that no question would reach."""
    stored_bytes = payloads(path)
    replace_payload(path, "east", FIRST, flipped(stored_bytes["east", FIRST, "by-epoch"], -1))
    replace_payload(path, "west", FIRST + EPOCH, b"", family="integral")
    (calls,) = report(path)["streams"]
    assert [(gap["source"], gap["start"], gap["family"]) for gap in calls["gaps"]] == [
        ("east", FIRST, "by-epoch"),
        ("west", FIRST + EPOCH, "integral"),
    ]
    assert "checksum" in calls["gaps"][0]["reason"]
    assert calls["gaps"][0]["start_text"] == "2023-11-14 22:10:00 UTC"


def test_what_was_set_aside_stays_in_the_report(path: Path) -> None:
    """Late events do not hide that the earlier ones of their epoch were lost."""
    replace_payload(path, "east", FIRST, b"damaged")
    late = SOURCES["east"].take(SOURCES["east"].t < FIRST + EPOCH)
    commit(path, run_of([part(late, "east", FIRST, families=FAMILIES)]))
    (calls,) = report(path)["streams"]
    assert [(gap["source"], gap["start"], gap["family"]) for gap in calls["gaps"]] == [("east", FIRST, "by-epoch")]


def test_an_empty_store_and_an_empty_stream(tmp_path: Path) -> None:
    """A run of rejects only: the stream is there, with nothing in it."""
    path = tmp_path / "wane.duckdb"
    commit(path, run_of([], rejects=[Reject("no time", 2)]))
    (calls,) = report(path)["streams"]
    assert (calls["sources"], calls["epochs"], calls["events"], calls["families"]) == (0, 0, 0, [])
    assert (calls["oldest"], calls["oldest_text"]) == (None, "nothing")


@pytest.mark.parametrize(
    ("moment", "unit", "text"),
    [
        (0, SECOND, "1970-01-01 00:00:00 UTC"),
        (1_700_000_000_999, TimeUnit(1, 1000), "2023-11-14 22:13:20 UTC"),
        (28_333_333, TimeUnit(60, 1), "2023-11-14 22:13:00 UTC"),
        (-1, SECOND, "1969-12-31 23:59:59 UTC"),
        (1 << 62, SECOND, str(1 << 62)),
        (None, SECOND, "nothing"),
    ],
)
def test_moments_in_words(moment: int | None, unit: TimeUnit, text: str) -> None:
    """A time of the stream as a date, whatever its unit, and as the number where the calendar ends."""
    assert moment_text(moment, unit) == text


def test_epochs_without_a_sketch_are_named(path: Path) -> None:
    """An epoch that holds events but lost its row in a family is a gap of that family alone."""
    execute(path, "DELETE FROM sketches WHERE source = 'west' AND start = ? AND family = 'integral'", [FIRST])
    (calls,) = report(path)["streams"]
    assert [(gap["source"], gap["start"], gap["family"], gap["reason"]) for gap in calls["gaps"]] == [
        ("west", FIRST, "integral", "no integral sketch is stored")
    ]


def test_settings_are_those_of_the_last_run(path: Path) -> None:
    """What a run says of its stream comes back as it was said, and a later run may say something else."""
    (calls,) = report(path)["streams"]
    assert calls["settings"] == {}
    for settings in ({"value_unit": "s", "families": ["sample"]}, {"value_unit": "°C", "families": ["sample"]}):
        commit(path, Run(Stream(STREAM, EPOCH, settings=settings), SketchTables.of([]), NOON, NOON))
        (calls,) = report(path)["streams"]
        assert calls["settings"] == settings


def test_without_the_check_no_payload_is_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same numbers; of the gaps those that were set aside and those without a sketch, but not fresh damage."""
    replace_payload(path, "east", FIRST, b"damaged")
    late = SOURCES["east"].take(SOURCES["east"].t < FIRST + EPOCH)
    commit(path, run_of([part(late, "east", FIRST, families=FAMILIES)]))
    replace_payload(path, "east", FIRST + EPOCH, b"damaged")
    execute(path, "DELETE FROM sketches WHERE source = 'west' AND start = ? AND family = 'integral'", [FIRST])
    whole = report(path)
    monkeypatch.setattr(reporting, "load", None)
    quick = report(path, check=False)
    found = [stream["streams"][0].pop("gaps") for stream in (whole, quick)]
    assert whole["streams"][0].pop("distinct") is not None
    assert quick["streams"][0].pop("distinct") is None
    assert quick == whole
    assert [(gap["source"], gap["start"], gap["family"]) for gap in found[0]] == [
        ("east", FIRST, "by-epoch"),
        ("east", FIRST + EPOCH, "by-epoch"),
        ("west", FIRST, "integral"),
    ]
    assert found[1] == [found[0][0], found[0][2]]


def test_streams_are_told_apart(path: Path) -> None:
    """Nothing of one stream shows in another, though their sources, times and families are the same."""
    before = report(path)["streams"]
    stored(path, SOURCES, stream="twin", families=FAMILIES)
    execute(path, "DELETE FROM sketches WHERE stream = 'twin' AND start = ? AND family = 'by-epoch'", [FIRST])
    execute(path, "INSERT INTO set_aside VALUES ('twin', 'north', 0, 600, 'sample', 2, 'damaged', 'payload')")
    calls, twin = report(path, check=False)["streams"]
    assert [calls] == [stream | {"distinct": None} for stream in before]
    assert [(gap["source"], gap["start"]) for gap in twin["gaps"]] == [
        ("north", 0),
        ("east", FIRST),
        ("west", FIRST),
    ]


@pytest.mark.slow
def test_hundreds_of_thousands_of_sketches_are_counted_by_the_database(tmp_path: Path) -> None:
    """Without the check a report builds no object for a row: gaps among very many epochs are found all the same."""
    path = tmp_path / "wane.duckdb"
    commit(path, run_of([]))
    key = "'calls', 's' || i % 200, i // 200 * 600, 600"
    execute(path, "INSERT INTO epochs SELECT 'calls', i * 600, 600, 400, 600.0, i, i, i FROM range(1000) many(i)")
    totals = [np.full(200, number) for number in (2000, 3000.0, 0, 600_000, 600_000)]
    packed = pack(SourceColumns(sorted(f"s{number}" for number in range(200)), *totals))
    execute(path, "INSERT INTO packed_sources VALUES ('calls', $1)", [packed])
    execute(path, f"INSERT INTO sketches SELECT {key}, 'by-epoch', 1, 7, 1, 'payload' FROM range(200000) many(i)")
    (calls,) = report(path, check=False)["streams"]
    assert (calls["sources"], calls["epochs"], calls["events"], calls["gaps"]) == (200, 1000, 400_000, [])
    execute(path, "INSERT INTO sketches SELECT 'calls', 's0', 0, 600, 'integral', 1, 7, 1, 'payload'")
    assert len(report(path, check=False)["streams"][0]["gaps"]) == 199_999


def test_rows_and_different_events_are_told_apart(path: Path) -> None:
    """Events that two sources reported are rows of both, and one event each; the text says both numbers."""
    (calls,) = report(path)["streams"]
    assert calls["rows"] == calls["events"] == sum(len(rows) for rows in SOURCES.values()) > len(ROWS)
    assert calls["source_rows"] == {name: len(rows) for name, rows in SOURCES.items()}
    assert calls["distinct"]["lower"] <= len(ROWS.distinct()) <= calls["distinct"]["upper"]
    first, second, *_ = list(report_lines(report(path), path))[2:]
    assert first == f"calls: {calls['rows']:,} rows of 2 sources in 7 epochs"
    assert second.startswith("  events       ")
    assert "different ones" in second


def test_too_many_sketches_are_not_read_for_it(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of different events is then unknown, and so it is where no family can tell."""
    monkeypatch.setattr(reporting, "_MOST_PAYLOAD", 10)
    (calls,) = report(path)["streams"]
    assert calls["distinct"] is None
    assert any("unknown" in line for line in report_lines(report(path), path))


def test_weights_are_told_in_the_unit_of_the_user(tmp_path: Path) -> None:
    """Epochs hold multiples of the step; the report has the weight as the rows had it."""
    path = tmp_path / "wane.duckdb"
    stream = Stream(STREAM, EPOCH, settings={"weight_step": 0.01})
    rows = ROWS.take(ROWS.t < FIRST + EPOCH)
    commit(path, Run(stream, SketchTables.of([part(rows, "east", FIRST)]), NOON, NOON))
    (calls,) = report(path)["streams"]
    assert calls["weight"] == pytest.approx(0.01 * rows.w.sum())


def test_repeats_clocks_and_revoked_promises_are_told(path: Path) -> None:
    """What runs saw, added up over all of them."""
    promised = Stream(STREAM, EPOCH, settings={"unique": True})
    commit(path, Run(promised, SketchTables.of([]), NOON, NOON, repeats=2, ahead=5))
    commit(path, Run(promised, SketchTables.of([]), NOON, NOON, repeats=1, ahead=1))
    found = report(path)
    (calls,) = found["streams"]
    assert (calls["repeats"], calls["ahead"]) == (3, 6)
    lines = list(report_lines(found, path))
    assert "  repeats      about 3 rows repeated an event of the same run" in lines
    assert "  unique       revoked: 2 repeated rows were seen in the run of 2026-01-31 12:00:00 UTC" in lines
    assert "  ahead        6 rows ahead of the clock of the run that brought them" in lines
