"""What repeated rows mean in a stream's settings is what its sample answers, with exact totals of rows beside it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from sketches import Question
from sketches.errors import UnanswerableError
from sketches.units import SECOND
from store import Run, SketchTables, Store, Stream, commit
from store.serving.report import report, report_lines
from tests.support.stores import EPOCH, NOON, STREAM, parts
from tests.support.streams import START
from tests.support.streams import Stream as Rows

COUNT = Question("count", "none", counting="events")


def rows_of(seed: int, events: int = 40_000) -> tuple[Rows, Rows]:
    """Events over a day, and the rows they came in: a third of them two or three times."""
    rng = np.random.default_rng(seed)
    times = START + np.sort(rng.integers(0, 86_400, events))
    distinct = Rows("day", rng.integers(0, 1 << 60, events), times, rng.integers(0, 100, events), np.ones(events, int))
    often = np.where(rng.random(events) < 0.33, rng.integers(2, 4, events), 1)
    return distinct, distinct.take(rng.permutation(np.repeat(np.arange(events), often)))


def store_of(path: Path, rows: Rows, *, family: str = "counted", runs: int = 3, **settings: object) -> Store:
    """A store with the rows of one source, in several commits."""
    for part in np.array_split(np.arange(len(rows)), runs):
        found = parts({"north": rows.take(part)}, EPOCH * 20, families=(family,), epsilon=0.2, detail=1)
        stream = Stream(STREAM, EPOCH * 20, SECOND, {"epsilon": 0.2, "detail": 1, **settings})
        commit(path, Run(stream, SketchTables.of(found), NOON, NOON))
    return Store(path)


def test_a_stream_forgives_repeats_or_counts_them(tmp_path: Path) -> None:
    """The sample answers by itself for either; the same rows give the number of events or the number of rows."""
    distinct, rows = rows_of(1)
    forgiving = store_of(tmp_path / "forgive.duckdb", rows).ask(STREAM, COUNT)
    counting = store_of(tmp_path / "count.duckdb", rows, repeats="count").ask(STREAM, COUNT)
    assert forgiving.estimate.lower <= len(distinct) <= forgiving.estimate.upper
    assert counting.estimate.lower <= len(rows) <= counting.estimate.upper
    assert counting.estimate.value == pytest.approx(len(rows)), "what is whole was counted"
    assert "rows" in counting.provenance.asked
    assert "rows" not in forgiving.provenance.asked


def test_a_count_of_events_tells_rows_and_repeats(tmp_path: Path) -> None:
    """In JSON and in words, each with its interval; and so does the report."""
    distinct, rows = rows_of(6)
    store = store_of(tmp_path / "wane.duckdb", rows)
    answer = store.ask(STREAM, Question("count", "window:6h", counting="events"))
    since = answer.estimate.as_of - 6 * 3_600
    came, events = int((rows.t > since).sum()), int((distinct.t > since).sum())
    shape = json.loads(json.dumps(answer.as_dict()))
    for name, truth in (("rows", came), ("repeated", 1.0 - events / came)):
        assert shape[name]["lower"] <= truth <= shape[name]["upper"], name
        assert shape[name]["upper"] - shape[name]["lower"] < 0.2 * truth
    assert any(line.startswith("repeated") for line in answer.lines(SECOND))
    found = report(store.path)
    [stream] = found["streams"]
    assert stream["repeated"]["lower"] <= 1.0 - len(distinct) / len(rows) <= stream["repeated"]["upper"]
    assert any("of the rows repeat an event" in line for line in report_lines(found, str(store.path)))


def test_no_repeats_make_whole_slices_exact(tmp_path: Path) -> None:
    """A stream that says unique = true leaves nothing open where no slice is cut, and little elsewhere."""
    distinct, _ = rows_of(3)
    plain = store_of(tmp_path / "plain.duckdb", distinct).ask(STREAM, COUNT).estimate
    unique = store_of(tmp_path / "unique.duckdb", distinct, unique=True).ask(STREAM, COUNT).estimate
    assert plain.lower < len(distinct)
    assert unique.lower == pytest.approx(len(distinct), rel=1e-9)
    assert unique.upper == pytest.approx(len(distinct), rel=1e-9)


def test_unique_is_not_believed_once_a_kept_event_came_twice(tmp_path: Path) -> None:
    distinct, rows = rows_of(4)
    found = store_of(tmp_path / "wane.duckdb", rows, unique=True).ask(STREAM, COUNT).estimate
    assert found.lower <= len(distinct) <= found.upper


def test_rows_that_were_not_counted_cannot_be_told(tmp_path: Path) -> None:
    """A sample without totals refuses a stream that counts repeats, in a sentence."""
    _, rows = rows_of(5, 10_000)
    store = store_of(tmp_path / "wane.duckdb", rows, family="sample", repeats="count")
    with pytest.raises(UnanswerableError, match="counts repeated rows"):
        store.ask(STREAM, COUNT)
