"""Spark's Java may end at any moment: every stream says so in a sentence, and none stops the run with a stack trace."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JNetworkError

from ingest.driver import job
from ingest.driver.configuration.settings import read_settings
from ingest.driver.progress import Progress
from ingest.driver.run_options import RunOptions

SETTINGS = """
store = "wane.duckdb"
[streams.calls]
input = "raw/*.csv"
schema = "id LONG, t LONG"
id = "id"
time = "t"
[streams.reads]
input = "raw/*.json"
id = "id"
time = "t"
"""


class Gone:
    """A session whose Java has ended: whatever is asked of it, py4j reaches nobody."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def __getattr__(self, name: str) -> Any:
        raise self.error


GONE = "Spark's Java cannot be reached any more: somebody ended it, or memory ran out"
CLEANED = "Spark lost what it works with: No such file or directory: /tmp/spark/1"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ConnectionRefusedError(111, "Connection refused"), GONE),
        (Py4JNetworkError("Answer from Java side is empty"), GONE),
        (FileNotFoundError(2, "No such file or directory", "/tmp/spark/1"), CLEANED),
    ],
)
def test_each_stream_says_what_it_lost(tmp_path: Path, error: Exception, said: str) -> None:
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw/1.csv").write_text("id,t\n1,10\n")
    (tmp_path / "raw/1.json").write_text('{"id": 1, "t": 10}\n')
    (tmp_path / "wane.toml").write_text(SETTINGS)
    gone: Any = Gone(error)
    summary = job.run(read_settings(tmp_path / "wane.toml"), RunOptions(), Progress(quiet=True), gone)
    assert summary.exit_code == 1
    assert [outcome.error for outcome in summary.outcomes] == [said] * 2
