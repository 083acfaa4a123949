"""Files without rows are taken as empty; JSON that is not one object a line is left with one sentence."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.runs import configure, ingest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", "source,id,t,v,w\n"),
        ("a.csv", "source,id,t,v,w"),
        ("a.csv", "\n"),
        ("a.json", "\n"),
        ("a.json", " \n\n"),
    ],
)
def test_a_file_without_rows_is_taken_as_empty(spark: SparkSession, tmp_path: Path, name: str, content: str) -> None:
    """It is entered in the ledger, and a later file with rows is read."""
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / name).write_text(content)
    settings = configure(tmp_path, input=f"raw/*.{name[2:]}")
    summary = ingest(settings, spark)
    assert summary.outcomes[0].error is None
    assert (summary.exit_code, summary.rows, summary.outcomes[0].files) == (0, 0, 1)
    again = ingest(settings, None)
    assert (again.generation, again.outcomes[0].known) == (None, 1)
    rows = {"a.csv": "source,id,t,v,w\nx,1,1700000000,2,1\n", "a.json": '{"source":"x","id":1,"t":1,"v":2,"w":1}\n'}
    (tmp_path / f"raw/b{name[1:]}").write_text(rows[name])
    assert ingest(settings, spark).rows == 1


@pytest.mark.parametrize(
    "content", ['[\n  {"id": 1, "t": 5},\n  {"id": 2, "t": 6}\n]\n', '{\n  "id": 1,\n  "t": 5\n}\n']
)
def test_json_over_several_lines_names_the_option(spark: SparkSession, tmp_path: Path, content: str) -> None:
    """Such a file is left with a sentence; with the option it is read."""
    (tmp_path / "raw").mkdir()
    path = tmp_path / "raw/a.json"
    path.write_text(content)
    plain = {"input": "raw/*.json", "source": "'all'", "value": "1", "weight": "1"}
    outcome = ingest(configure(tmp_path, **plain), spark).outcomes[0]
    assert outcome.error is None
    assert "options = { multiLine = true }" in outcome.unreadable[str(path)]
    named = configure(tmp_path, "options = { multiLine = true }\n", "other", **plain)
    assert ingest(named, spark).rows == content.count("id")
