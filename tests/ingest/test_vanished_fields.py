"""A field that stops coming: the run, the store's report and the answers say so, and since when."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ingest.driver.configuration.settings import read_settings
from ingest.driver.summary import Summary
from store import Store
from store.serving.report import report, report_lines
from tests.support.runs import ingest
from wane import main

SETTINGS = """
store = "wane.duckdb"
[streams.requests]
input = "day*.csv"
source = "'web'"
id = "request"
time = "at"
value = "latency_ms"
epoch = "1h"
[streams.requests.fields]
status = "status"
path = "path"
error = "error"
"""
ROWS = 300
DAY = 86_400


def write_day(folder: Path, day: int, *, header: bool = True, null_from: int = ROWS) -> None:
    """A day of requests; the status is empty from a row on, or not a column at all. Errors are rare always."""
    rng = np.random.default_rng(day)
    names = ["request", "at", "latency_ms", "path", "error", *(["status"] if header else [])]
    lines = [",".join(names)]
    for number in range(ROWS):
        error = "timeout" if number % 60 == 7 else ""
        row = [str(day * ROWS + number), str(day * DAY + number * 280), f"{rng.random() * 90:.1f}", "/cart", error]
        lines.append(",".join([*row, *([""] if number >= null_from else ["200"])][: len(names)]))
    (folder / f"day{day}.csv").write_text("\n".join(lines) + "\n")


def run(folder: Path) -> Summary:
    (folder / "wane.toml").write_text(SETTINGS)
    return ingested(folder)


def ingested(folder: Path) -> Summary:
    return ingest(read_settings(folder / "wane.toml"), None, engine="local")


def asked(folder: Path, capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, Any]:
    capsys.readouterr()
    about = ["query", "--store", str(folder / "wane.duckdb"), "--stream", "requests", "--aggregate", "count"]
    assert main([*about, *options, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_a_field_that_is_empty_from_a_run_on_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By the run that brings none of it, by `wane info` and by the answers that are about it, with the time since."""
    write_day(tmp_path, 0)
    assert not [line for line in run(tmp_path).lines() if "missing" in line]
    write_day(tmp_path, 1, null_from=0)
    second = run(tmp_path)
    [line] = [line for line in second.lines() if "status" in line]
    assert line == f"  field status is missing in all {ROWS} rows, though it came before"
    assert second.as_dict()["streams"][0]["fields_missing"] == {"status": f"in all {ROWS} rows, though it came before"}
    last = (ROWS - 1) * 280
    [told] = asked(tmp_path, capsys, "--where", "status = 200")["unknown"]
    assert told.startswith(f"status is missing in all {ROWS} sampled events after 1970-01-01 23:15:20 UTC ({last})")
    assert asked(tmp_path, capsys, "--where", "path = '/cart'")["unknown"] == []
    assert asked(tmp_path, capsys, "--where", "status = 200", "--as-of", str(last))["unknown"] == []
    lines = "\n".join(report_lines(report(tmp_path / "wane.duckdb"), "wane.duckdb"))
    assert f"status is missing in all {ROWS} sampled events after" in lines
    assert "error is missing" not in lines


def test_a_column_that_some_files_of_a_run_lack_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By the run with the name of the file; where all files of a run lack it, the run is refused."""
    for day in (0, 1):
        rows = [
            {"request": day * ROWS + n, "at": day * DAY + n * 280, "latency_ms": 1.5, "path": "/"} for n in range(ROWS)
        ]
        status = {"status": 200} if day == 0 else {}
        (tmp_path / f"day{day}.json").write_text(
            "".join(json.dumps(row | status | {"error": "no"}) + "\n" for row in rows)
        )
    (tmp_path / "wane.toml").write_text(SETTINGS.replace("csv", "json"))
    [line] = [line for line in ingested(tmp_path).lines() if "status" in line]
    assert line == f"  field status is missing in all {ROWS} rows of {tmp_path}/day1.json"
    [told] = asked(tmp_path, capsys, "--where", "status = 200")["unknown"]
    assert told.startswith(f"status is missing in all {ROWS} sampled events after 1970-01-01")
    write_day(tmp_path, 2, header=False)
    assert "no column `status`" in "".join(run(tmp_path).lines())


def test_one_run_over_many_days_tells_it_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The answers do: the field is there in some rows of the run."""
    write_day(tmp_path, 0)
    write_day(tmp_path, 1, null_from=100)
    run(tmp_path)
    [told] = asked(tmp_path, capsys, "--by", "status")["unknown"]
    assert "status is missing in all 200 sampled events after 1970-01-02" in told


def test_a_rare_field_that_is_missing_for_a_while_is_not_told(tmp_path: Path) -> None:
    """Errors come in one row of 60; a stretch without any of them is chance."""
    write_day(tmp_path, 0)
    run(tmp_path)
    store = Store(tmp_path / "wane.duckdb")
    assert store.by_group("requests", _about("error")).provenance(np.array([DAY]), 0.0).unknown == ()


def test_a_field_that_never_came_is_told_by_the_run(tmp_path: Path) -> None:
    write_day(tmp_path, 0, null_from=0)
    [line] = [line for line in run(tmp_path).lines() if "status" in line]
    assert line == f"  field status is missing in all {ROWS} rows"


def _about(field: str) -> Any:
    from sketches import Question

    return Question("count", as_of=DAY, where=_where(f"{field} = 'timeout'"))


def _where(text: str) -> Any:
    from sketches.fields import FieldKind
    from sketches.predicate import Predicate, columns_with

    return Predicate.parse(text, columns_with({"error": FieldKind.TEXT}))
