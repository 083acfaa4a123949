"""The run in which a source falls silent takes its files, says so once, and tells cron."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.runs import configure, ingest, totals

START = 1_600_000_000  # long ago: what counts is the newest event of the stream, not the clock


def hours(folder: Path, name: str, begin: int, end: int, *sources: str) -> None:
    """A row a minute of each source, from one hour to another."""
    (folder / "raw").mkdir(exist_ok=True)
    times = list(range(START + 3600 * begin, START + 3600 * end, 60)) * len(sources)
    whose = [source for source in sources for _ in range(len(times) // len(sources))]
    table = {"source": whose, "id": range(len(times)), "t": times, "v": [1] * len(times), "w": [1] * len(times)}
    pq.write_table(
        pa.table({key: pa.array(list(column)) for key, column in table.items()}), folder / f"raw/{name}.parquet"
    )


def test_a_source_that_falls_silent_is_told_once(tmp_path: Path) -> None:
    """Neither when it comes as history, nor again in later runs; and again after it came back."""
    settings = configure(tmp_path)
    hours(tmp_path, "a", 0, 9, "north", "south")
    hours(tmp_path, "b", 0, 1, "ancient")
    first = ingest(settings, None, engine="local")
    assert (first.exit_code, first.outcomes[0].silent) == (0, {})
    hours(tmp_path, "c", 9, 10, "north")
    second = ingest(settings, None, engine="local")
    assert (second.exit_code, second.outcomes[0].files, list(second.outcomes[0].silent)) == (3, 1, ["south"])
    (problem,) = second.problems()
    assert "calls: source south has fallen silent, 1 h behind the newest event" in problem
    assert any("1 source silent since earlier runs" in line for line in second.lines())
    assert totals(settings)[0] == 60 * (9 + 9 + 1 + 1)
    assert ingest(settings, None).exit_code == 0, "without new files nothing falls silent"
    hours(tmp_path, "d", 10, 11, "north")
    assert ingest(settings, None, engine="local").exit_code == 0
    hours(tmp_path, "e", 10, 11, "south")
    assert ingest(settings, None, engine="local").outcomes[0].silent_before == 1
    hours(tmp_path, "f", 11, 12, "north")
    assert list(ingest(settings, None, engine="local").outcomes[0].silent) == ["south"]


@pytest.mark.parametrize("stale", ["3h", "never"])
def test_the_setting_says_how_long_is_fine(tmp_path: Path, stale: str) -> None:
    settings = configure(tmp_path, stale=stale)
    hours(tmp_path, "a", 0, 9, "north", "south")
    ingest(settings, None, engine="local")
    hours(tmp_path, "b", 9, 11, "north")
    assert ingest(settings, None, engine="local").exit_code == 0
    hours(tmp_path, "c", 11, 40, "north")
    assert ingest(settings, None, engine="local").exit_code == (3 if stale == "3h" else 0)
