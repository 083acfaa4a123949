"""A run that would reject most rows fails, says so to cron, and leaves its files to the next run."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.runs import configure, ingest, totals


def rows(folder: Path, name: str, good: int, bad: int) -> None:
    """So many events, and so many rows without a time."""
    (folder / "raw").mkdir(exist_ok=True)
    start = 1_700_000_000
    table = {
        "source": ["north"] * (good + bad),
        "id": [sum(map(ord, name)) * 10_000 + number for number in range(good + bad)],
        "t": pa.array([start] * good + [None] * bad, pa.int64()),
        "v": [1] * (good + bad),
        "w": [1] * (good + bad),
    }
    pq.write_table(pa.table(table), folder / f"raw/{name}.parquet")


@pytest.mark.parametrize(("more", "bad"), [("", 51), ('max_rejected = "5%"\n', 6), ('max_rejected = "0%"\n', 1)])
def test_too_many_rejected_rows_stop_the_stream(tmp_path: Path, more: str, bad: int) -> None:
    """Nothing is committed, the sentence says how many, why, with an example, and the files wait."""
    rows(tmp_path, "a", 100 - bad, bad)
    settings = configure(tmp_path, more)
    summary = ingest(settings, None, engine="local")
    assert (summary.exit_code, summary.generation) == (1, None)
    (problem,) = summary.problems()
    assert f"{bad} of 100 rows would be rejected, more than max_rejected" in problem
    assert "no time" in problem
    assert "a.parquet" in problem
    rows(tmp_path, "b", 10_000, 0)
    assert ingest(settings, None, engine="local").exit_code == (0 if bad > 1 else 1), (
        "the share is that of the whole run"
    )


@pytest.mark.parametrize(("more", "bad"), [("", 50), ('max_rejected = "5%"\n', 5), ('max_rejected = "none"\n', 100)])
def test_as_many_as_the_stream_allows_are_rejected(tmp_path: Path, more: str, bad: int) -> None:
    """Up to the threshold a row costs itself."""
    rows(tmp_path, "a", 100 - bad, bad)
    settings = configure(tmp_path, more)
    summary = ingest(settings, None, engine="local")
    assert (summary.exit_code, summary.outcomes[0].rejected) == (0, {"no time": bad})
    assert totals(settings)[0] == 100 - bad or bad == 100


def test_rows_that_are_too_old_are_not_counted(tmp_path: Path) -> None:
    """The stream itself says with max_age that it wants to do without them."""
    rows(tmp_path, "a", 100, 0)
    summary = ingest(configure(tmp_path, 'max_age = "1d"\n'), None, engine="local")
    assert summary.exit_code == 0
    assert sum(summary.outcomes[0].rejected.values()) == 100
