"""A column of numbers that becomes text in a later Parquet file does not turn the stream into text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from store.serving.catalogue import read_catalogue
from tests.support.runs import configure, ingest, totals


def file(folder: Path, name: str, values: list[Any]) -> str:
    (folder / "raw").mkdir(exist_ok=True)
    path = folder / f"raw/{name}.parquet"
    rows = len(values)
    start = sum(map(ord, name)) * 1000
    table = {"source": ["north"] * rows, "id": list(range(start, start + rows)), "t": [1_700_000_000] * rows}
    pq.write_table(pa.table(table | {"v": values, "w": [1] * rows}), path)
    return str(path)


def test_a_file_whose_numbers_became_text_is_left(tmp_path: Path) -> None:
    """It is named, in the first run and in later ones; the others are taken, and the stream stays one of numbers."""
    settings = configure(tmp_path)
    file(tmp_path, "a", [1, 2])
    text = file(tmp_path, "b", ["3", "x"])
    for rows in (2, 5):
        summary = ingest(settings, None, engine="local")
        assert summary.exit_code == 3
        assert list(summary.outcomes[0].unreadable) == [text]
        assert "its column 'v' is text, and the values of" in summary.outcomes[0].unreadable[text]
        assert totals(settings)[0] == rows
        assert read_catalogue(settings.store).streams["calls"].described["kind"] == "integer"
        file(tmp_path, "c", [3, 4, 5])


def test_a_stream_of_text_takes_numbers(tmp_path: Path) -> None:
    """As texts: nothing is lost. So does one where most files have text."""
    settings = configure(tmp_path)
    file(tmp_path, "a", ["x", "y"])
    file(tmp_path, "b", ["z"])
    file(tmp_path, "c", [1])
    assert ingest(settings, None, engine="local").exit_code == 0
    file(tmp_path, "d", [5])
    assert ingest(settings, None, engine="local").exit_code == 0
    assert totals(settings)[0] == 5
