"""The size of the file over many commits: dead rows are packed away, and not at every commit."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from sketches import Sample
from store import EpochSketches, Run, SketchTables, Store, Stream, commit
from store.database import connected
from store.writing.settling import live_bytes
from tests.support.stores import BY_EPOCH, EPOCH, NOON, STREAM, beside, events, run_of
from tests.support.stores import part as part_of
from tests.support.streams import Stream as Rows

FIXED = 4 << 20  # bytes of a store with a long ledger and hardly a payload: blocks of nine tables, once more when free
BLOCK = 1 << 18

part = partial(part_of, families=BY_EPOCH)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "wane.duckdb"


def rows(number: int, epoch: int, count: int) -> Rows:
    ids = 1_000_000 * number + 1_000 * epoch + np.arange(count)
    return Rows.of("growth", ids, EPOCH * epoch + np.arange(count) % EPOCH, ids % 997)


def bulk(count: int, size: int, first: int = 0) -> Run:
    """New epochs with payloads of random bytes: nothing looks into them as long as nothing is merged."""
    numbers = np.arange(first, first + count)
    packed = np.random.default_rng(first).bytes(count * size)
    columns = {
        "source": pa.array(["north"] * count),
        "start": numbers * EPOCH,
        "length": np.full(count, EPOCH),
        "family": pa.array(["by-epoch"] * count),
        "payload": pa.array([packed[at : at + size] for at in range(0, count * size, size)], pa.binary()),
    }
    totals = {name: np.ones(count, int) for name in ("events", "weight", "oldest", "newest")}
    table = pa.table(columns | totals)
    return Run(Stream(STREAM, EPOCH), SketchTables(table, table), NOON, NOON)


def live_parts(path: Path) -> int:
    with connected(path, write=False) as connection:
        return live_bytes(connection)


def live(path: Path) -> int:
    with connected(path, write=False) as connection:
        return int(connection.execute("SELECT sum(bytes) FROM sketches").fetchall()[0][0])


@pytest.mark.slow
def test_late_data_for_ever_does_not_fill_the_disk(path: Path) -> None:
    """Late events for the same 50 epochs and a few new ones, again and again: three times the payloads at most."""
    commit(path, run_of([part(rows(0, epoch, 600), "north", EPOCH * epoch) for epoch in range(50)]))
    written, sizes = 0, []
    for number in range(1, 17):
        late = [part(rows(number, epoch, 2), "north", EPOCH * epoch) for epoch in range(50)]
        new = [part(rows(number, 49 + number, 600), "north", EPOCH * (49 + number))]
        commit(path, run_of(late + new))
        sizes.append(path.stat().st_size)
        written += live(path) - 600
    assert written > 10 * live(path)  # all that was ever written would not fit into the bound
    assert max(sizes) <= 3 * live(path) + FIXED


@pytest.mark.slow
def test_tiny_commits_share_blocks(path: Path) -> None:
    """A block is 256 kB: were each commit to keep its own, 15 of them would take megabytes for a few hundred bytes."""
    for number in range(15):
        commit(path, bulk(1, 100, number))
    assert path.stat().st_size < FIXED


@pytest.mark.slow
def test_the_parts_of_a_sketch_leave_little_free_room(path: Path) -> None:
    """Each commit changes the newest segments and the head; the file never has a third more than its payloads."""
    rng = np.random.default_rng(5)
    over = []
    for number in range(15):
        ids = 20_000 * number + np.arange(20_000)
        times = EPOCH * number + ids % EPOCH
        times[:20] = np.arange(20) * EPOCH * number // 20  # late ones, which change all segments
        fresh = Rows.of("growth", ids, times, rng.integers(0, 1 << 60, len(ids)), rng.integers(1, 1 << 40, len(ids)))
        sketch = Sample.build(events(fresh), detail=0).named("north")
        totals = EpochSketches("north", EPOCH * number, EPOCH, len(ids), 1.0, 0, int(times.max()), [sketch])
        commit(path, run_of([totals]))
        over.append(path.stat().st_size - 1.3 * live_parts(path))
    assert live_parts(path) > 4 << 20
    assert max(over) <= 1 << 20


def test_a_file_that_is_written_anew_keeps_its_place_and_its_mode(path: Path) -> None:
    """A store behind a link, which a group may read: both stay so, and nothing is left beside it."""
    behind = path.with_name("behind.duckdb")
    commit(behind, bulk(100, 20_000))
    behind.chmod(0o640)
    path.symlink_to(behind)
    before = behind.stat()
    commit(path, run_of([], replacing=(0, 90 * EPOCH)))
    after = behind.stat()
    assert after.st_ino != before.st_ino, "else it was not written anew"
    assert after.st_size < before.st_size / 3
    assert (path.is_symlink(), after.st_mode) == (True, before.st_mode)
    assert [name for name in beside(behind) if "settled" in name] == []
    assert len(Store(path).catalogue().streams[STREAM].epochs) == 10


def test_a_small_commit_does_not_write_the_store_anew(path: Path) -> None:
    """DuckDB by itself would pack all rows again, and shut readers out meanwhile; here the file hardly grows."""
    commit(path, bulk(300, 100_000))
    before = path.stat().st_size
    assert before > 30_000_000
    for number in range(3):
        commit(path, bulk(2, 100_000, 300 + 2 * number))
    assert path.stat().st_size < before + 6 * 100_000 + 3 * 12 * BLOCK


def test_payloads_are_compressed(path: Path) -> None:
    """Sketches of many tiny epochs have much in common: their heads, at least."""
    many = [part(rows(1, epoch, 3), "north", EPOCH * epoch) for epoch in range(3_000)]
    commit(path, run_of(many))
    with duckdb.connect(str(path), read_only=True) as connection:
        used = connection.execute(
            "SELECT DISTINCT compression FROM pragma_storage_info('sketches') "
            "WHERE column_name = 'payload' AND segment_type = 'BLOB'"
        ).fetchall()
    assert used == [("ZSTD",)]
