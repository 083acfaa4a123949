"""Runs on real Spark: which rows are events, what they weigh, which of them repeat, which are ahead of the clock."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ingest.driver.configuration.settings import Settings
from sketches import Question
from store import Store
from store.serving.catalogue import Rejected, StoredStream
from store.serving.report import report
from tests.support.runs import configure, ingest, write
from tests.support.stores import content
from tests.support.streams import STREAMS

LATE = STREAMS["late"](2000, 1)


def raw(path: Path, times: list[int], weights: list[float], first_id: int = 0) -> None:
    """A file of one source with these times and weights, and ids of its own."""
    path.parent.mkdir(parents=True, exist_ok=True)
    size = len(times)
    columns = {"source": ["north"] * size, "id": np.arange(size) + first_id, "t": times, "v": [7] * size, "w": weights}
    pq.write_table(pa.table(columns), path)


def held(settings: Settings) -> StoredStream:
    return Store(settings.store).catalogue().streams["calls"]


def test_weight_0_counts_and_negative_weights_are_rejected_by_name(tmp_path: Path) -> None:
    """Of six calls two lost nothing: they are in the mean. A negative loss is no weight; the catalogue says so."""
    raw(tmp_path / "raw/a.parquet", [10, 11, 12, 13, 14, 15], [0, 0, 3, 2, 1, -4])
    settings = configure(tmp_path)
    outcome = ingest(settings, None, engine="local").outcomes[0]
    reason = "weight is negative: a measure, not a weight"
    assert outcome.rejected == {reason: 1}
    assert held(settings).rejected == Rejected(read=6, rows=1, reason=reason)
    ((*_, rows, weight, _, _, _),) = content(settings.store)["epochs"]
    assert (rows, weight) == (5, 6.0)
    store = Store(settings.store)
    assert store.ask("calls", Question("count")).estimate.value == 5
    assert store.ask("calls", Question("sum")).estimate.value == 6
    assert store.ask("calls", Question("mean")).estimate.value == 1.2


def test_fractions_are_weights_in_a_declared_unit(tmp_path: Path) -> None:
    """Sketches and epochs hold multiples of the step; other weights are rejected by name; reports have the unit."""
    raw(tmp_path / "raw/a.parquet", [10, 11, 12, 13], [0.07, 1.1 + 2.2, 0.0, 0.075])
    settings = configure(tmp_path, "weight_step = 0.01\n")
    assert ingest(settings, None, engine="local").outcomes[0].rejected == {"weight is not a multiple of weight_step": 1}
    ((*_, rows, weight, _, _, _),) = content(settings.store)["epochs"]
    assert (rows, weight) == (3, 7 + 330)
    assert held(settings).described["weight_step"] == 0.01
    (stream,) = report(settings.store)["streams"]
    assert abs(stream["weight"] - 3.37) < 1e-9
    whole = configure(tmp_path, 'max_rejected = "none"\n', name="whole")
    reason = "weight is not a whole number (see weight_step)"
    assert ingest(whole, None, engine="local").outcomes[0].rejected == {reason: 3}


def test_repeats_are_counted_and_revoke_unique(tmp_path: Path) -> None:
    """Rows that repeat an event, over all workers and files of a run; then the stream is not taken to have none."""
    write(tmp_path / "raw/a.parquet", LATE)
    settings = configure(tmp_path, "unique = true\n")
    outcome = ingest(settings, None, engine="local").outcomes[0]
    assert (outcome.repeats, outcome.conflicts_exact, outcome.unique_revoked) == (0, True, None)
    assert held(settings).described["unique"] is True
    fresh = STREAMS["late"](500, 2)
    fresh = replace(fresh, ids=fresh.ids + (1 << 50))
    write(tmp_path / "raw/b.parquet", fresh)
    write(tmp_path / "raw/c.parquet", fresh.take(np.arange(500) < 100), group=30)
    summary = ingest(settings, None, engine="local")
    outcome = summary.outcomes[0]
    assert (outcome.repeats, outcome.revoked_now) == (100, True)
    assert any("100 repeated rows were seen in the run of " in line for line in summary.problems())
    assert held(settings).described["unique"] is False
    assert held(settings).described["unique_revoked"] == outcome.unique_revoked
    assert [row[10] for row in content(settings.store)["runs"]] == [0, 100]
    raw(tmp_path / "raw/d.parquet", [10], [1], first_id=1 << 51)
    summary = ingest(settings, None, engine="local")
    assert not list(summary.problems())
    assert any("stays revoked" in line for line in summary.lines())
    assert held(settings).described["unique"] is False


def test_events_of_an_earlier_run_revoke_unique_too(tmp_path: Path) -> None:
    """A file that holds old rows and new ones: sketches that forgive repeats tell how many came again."""
    write(tmp_path / "raw/a.parquet", LATE)
    settings = configure(tmp_path, "unique = true\n")
    ingest(settings, None, engine="local")
    write(tmp_path / "raw/b.parquet", LATE.take(np.arange(len(LATE)) < 20))
    outcome = ingest(settings, None, engine="local").outcomes[0]
    assert outcome.repeats == 0, "inside the run there are none"
    assert outcome.revoked_now


def test_a_clock_that_is_ahead_is_told_and_moves_no_as_of(tmp_path: Path) -> None:
    """One sensor an hour ahead: its rows are taken and counted, and the stream is asked as of the run's own clock."""
    now = int(time.time())
    raw(tmp_path / "raw/a.parquet", [now - 100, now - 50, now + 3600, now + 3000], [1, 1, 1, 1])
    settings = configure(tmp_path)
    summary = ingest(settings, None, engine="local")
    outcome = summary.outcomes[0]
    assert (outcome.ahead, outcome.rejected) == (2, {})
    assert 3000 < outcome.furthest_ahead <= 3600
    assert any(line.startswith("  2 rows are ahead of this machine's clock by up to ") for line in summary.lines())
    stream = held(settings)
    assert stream.newest(["north"]) == now + 3600
    as_of = stream.as_of()
    assert as_of is not None
    assert now <= as_of <= time.time()
    assert report(settings.store)["streams"][0]["ahead"] == 2
    start, end = as_of - 86_400, as_of + 86_400
    ingest(settings, None, engine="local", backfill=(start, end))
    assert held(settings).as_of() >= as_of  # type: ignore[operator]


def test_times_of_no_clock_are_asked_as_of_the_newest_event(tmp_path: Path) -> None:
    """Where all events are ahead of the clock, their times are not those of a clock."""
    far = 1 << 40
    raw(tmp_path / "raw/a.parquet", [far, far + 50], [1, 1])
    settings = configure(tmp_path, max_future="none")
    assert ingest(settings, None, engine="local").outcomes[0].ahead == 2
    assert held(settings).as_of() == far + 50
