"""A full disk is said to be full, with how much is needed; the store is whole, and the same run succeeds with room."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from store import Store, StoreError, commit
from tests.support.stores import parts, run_of
from tests.support.streams import STREAMS

SENTENCE = r"^the disk of .*wane\.duckdb is full: .* are free, and a commit needs up to .* besides what it brings"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 700 kB, in memory."""
    made = (
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=700k", "tmpfs", str(tmp_path)],
            capture_output=True,
            text=True,
            check=False,
        )
        if shutil.which("mount")
        else None
    )
    if made is None or made.returncode:
        pytest.skip("Nothing may be mounted here: the test needs a small disk in memory.")
    yield tmp_path
    subprocess.run(["umount", "-l", str(tmp_path)], check=True)


def run(number: int) -> object:
    return run_of(parts({"north": STREAMS["correlated"](20_000, number)}, epsilon=0.01), stream=f"stream {number}")


def test_a_commit_to_a_full_disk_says_so(small_disk: Path) -> None:
    """However far DuckDB came: not that no transaction is active, and not that the store is damaged."""
    path = small_disk / "wane.duckdb"
    refused: list[str] = []
    for number in range(5):
        try:
            commit(path, run(number))
        except StoreError as error:
            refused.append(str(error))
    assert len(refused) >= 2
    assert [sentence for sentence in refused if not re.match(SENTENCE, sentence)] == []
    assert set(Store(path).catalogue().streams) <= {f"stream {number}" for number in range(5)}
    subprocess.run(["mount", "-o", "remount,size=20m", str(small_disk)], check=True)
    commit(path, run(9))
    assert "stream 9" in Store(path).catalogue().streams


def test_a_store_that_cannot_be_begun_says_so(small_disk: Path) -> None:
    (small_disk / "ballast").write_bytes(bytes(690_000))
    with pytest.raises(StoreError, match=SENTENCE):
        commit(small_disk / "wane.duckdb", run(0))
