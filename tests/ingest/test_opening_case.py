"""A week of web requests, as a new user has them: from a CSV with ISO times to the mean latency, by real Spark.

There is no weight. What to average, filter and split by is chosen when asking. All events are kept, so that answers
are exact and equal those of the raw columns.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv

from ingest.driver.configuration.settings import read_settings
from sketches.question import Question
from store.audit.exact import Exact
from store.audit.raw_files import raw_files
from store.serving.store import Store
from tests.support.runs import ingest
from wane import main

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS = """
store = "wane.duckdb"
[streams.requests]
input = "requests.csv"
source = "service"
id = "request"
time = "at"
value = "latency_ms"
epoch = "1d"
[streams.requests.fields]
status = "status"
path = "path"
bytes = "bytes_sent"
cached = "cached"
"""
ROWS = 4_000
PATHS = np.array(["/", "/cart", "/pay", "/it's"])


@pytest.fixture(scope="module")
def week(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, Any]]:
    """The store's path, and the raw columns."""
    folder: Path = tmp_path_factory.mktemp("week")
    rng = np.random.default_rng(8)
    start = datetime(2026, 1, 25, tzinfo=UTC)
    columns: dict[str, Any] = {
        "request": np.arange(ROWS),
        "at": [(start + timedelta(seconds=int(one))).isoformat() for one in np.sort(rng.integers(0, 7 * 86_400, ROWS))],
        "service": rng.choice(["web", "api"], ROWS),
        "latency_ms": np.round(rng.lognormal(3, 1, ROWS), 2),
        "status": rng.choice([200, 404, 500], ROWS, p=[0.9, 0.06, 0.04]),
        "path": rng.choice(PATHS, ROWS),
        "bytes_sent": rng.integers(0, 100_000, ROWS),
        "cached": rng.random(ROWS) < 0.5,
    }
    written = {**columns, "path": pa.array([None if row % 50 == 0 else columns["path"][row] for row in range(ROWS)])}
    csv.write_csv(pa.table(written), folder / "requests.csv")
    (folder / "wane.toml").write_text(SETTINGS)
    assert ingest(read_settings(folder / "wane.toml"), spark).exit_code == 0
    columns["path"] = np.where(np.arange(ROWS) % 50 == 0, "", columns["path"])
    return str(folder / "wane.duckdb"), columns


def answer(store: str, capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["query", "--store", store, "--stream", "requests", *options, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_a_mean_is_the_mean_latency(week: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a word on it, and it says so."""
    store, raw = week
    found = answer(store, capsys, "--aggregate", "mean")
    assert found["estimate"] == pytest.approx(raw["latency_ms"].mean(), rel=1e-9)
    assert "latency_ms" in found["asked"]


def test_only_failed_requests(week: Any, capsys: pytest.CaptureFixture[str]) -> None:
    store, raw = week
    failed = raw["status"] == 500
    found = answer(store, capsys, "--aggregate", "mean", "--where", "status = 500")
    assert found["estimate"] == pytest.approx(raw["latency_ms"][failed].mean(), rel=1e-9)
    found = answer(
        store, capsys, "--aggregate", "sum", "--of", "bytes", "--where", "status = 500 and not cached = true"
    )
    assert found["estimate"] == pytest.approx(raw["bytes_sent"][failed & ~raw["cached"]].sum())
    slow = answer(store, capsys, "--aggregate", "mean", "--where", "latency_ms >= 100")
    assert slow["estimate"] == pytest.approx(raw["latency_ms"][raw["latency_ms"] >= 100].mean(), rel=1e-9)


def test_by_path(week: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """Requests of which no path is known are a group of their own; what is not listed is one number."""
    store, raw = week
    found = answer(store, capsys, "--aggregate", "sum", "--of", "bytes", "--by", "path", "--top", "3")
    sums = {path or None: raw["bytes_sent"][raw["path"] == path].sum() for path in ("", *PATHS)}
    largest = sorted(sums, key=lambda path: -sums[path])[:3]
    assert [item["value"] for item in found["items"]] == largest
    assert [item["estimate"] for item in found["items"]] == pytest.approx([sums[path] for path in largest])
    rest = sum(sums.values()) - sum(sums[path] for path in largest)
    assert found["others"]["estimate"] == pytest.approx(rest)


def test_the_raw_file_gives_the_same_answers(week: Any) -> None:
    """What ingest made of each column is what the audit reads from the file: ISO times, numbers, text, booleans."""
    path, _ = week
    store = Store(path)
    columns = store.columns("requests")
    with Exact(raw_files(path, "requests")) as exact:
        assert exact.raw.field_kinds == {"bytes": "integer", "cached": "boolean", "path": "text", "status": "integer"}
        for question in (
            Question("mean", "exp:half_life=1d"),
            Question("mean", "exp:half_life=1d", of="bytes", where=columns.parse("path in ('/cart', '/it''s')")),
            Question("count", where=columns.parse("path is null or cached = true and latency_ms < 20")),
            Question("quantile", of="bytes", phi=0.9, where=columns.parse("time >= '2026-01-28'")),
            Question("sum", of="bytes", where=columns.parse("status >= median(status)")),
        ):
            found = store.ask("requests", question).estimate
            assert exact.answer(question) == pytest.approx(found.value, rel=1e-9), question
