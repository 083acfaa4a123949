"""Versions of the schema: a store is created whole, once, and brought up to date whole or not at all."""

from __future__ import annotations

from itertools import groupby
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import pytest

import store.schema
from sketches import Question
from store import Store, StoreError, known_files
from store.database import connected, create
from store.schema import MIGRATIONS, VERSION, Step, check, create_store, migrate
from tests.support.old_stores import LEDGER_1, VERSION_1, fill_by_epoch, migrate_as_it_was
from tests.support.stores import (
    PROCESSES,
    STREAM,
    TABLES,
    beside,
    content,
    execute,
    stored,
)
from tests.support.streams import STREAMS

NEXT = VERSION + 1


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "wane.duckdb"
    stored(path, {"north": STREAMS["uniform"](50, 1)})
    return path


def make(path: Path, together: Barrier) -> None:
    together.wait(60)
    create_store(path)


def test_a_new_store_is_empty_and_of_this_version(tmp_path: Path) -> None:
    """All tables are there; generation 0 holds nothing."""
    create_store(tmp_path / "wane.duckdb")
    found = content(tmp_path / "wane.duckdb")
    assert sorted(found) == sorted(TABLES)
    assert [row[:2] for row in found.pop("wane")] == [(VERSION, 0)]
    assert not any(found.values())
    assert [file.name for file in tmp_path.iterdir()] == ["wane.duckdb"]


def test_creating_again_changes_nothing(path: Path) -> None:
    """A store that is there stays as it is."""
    before = path.read_bytes()
    create_store(path)
    assert path.read_bytes() == before


def test_processes_that_create_at_once_make_one_whole_store(tmp_path: Path) -> None:
    """However many come first, none fails, one store appears, and nothing half made stays beside it."""
    for attempt in range(6):
        path = tmp_path / f"{attempt}.duckdb"
        together = PROCESSES.Barrier(3)
        makers = [PROCESSES.Process(target=make, args=(path, together)) for _ in range(3)]
        for maker in makers:
            maker.start()
        for maker in makers:
            maker.join()
        assert [maker.exitcode for maker in makers] == [0, 0, 0]
        assert [row[:2] for row in content(path)["wane"]] == [(VERSION, 0)]
    assert len(list(tmp_path.iterdir())) == 6


def migrate_with(patch: pytest.MonkeyPatch, path: Path, steps: dict[int, tuple[Step, ...]], to: int) -> None:
    """Migrate as a wane of another version would, with these statements."""
    patch.setattr(store.schema, "MIGRATIONS", steps)
    patch.setattr(store.schema, "VERSION", to)
    migrate(path, 1)


@pytest.mark.parametrize(
    "broken",
    ["INSERT INTO nowhere VALUES (1)", "SELECT error('stop')", "not even SQL", "INSERT INTO wane VALUES (NULL, 1)"],
)
def test_a_failing_migration_leaves_no_trace(path: Path, broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables, columns and rows of the steps before the failure are gone, down to the bytes of the file."""
    whole, before = content(path), path.read_bytes()
    steps = ("CREATE TABLE extra (x INTEGER)", "ALTER TABLE runs ADD COLUMN y INTEGER", "DELETE FROM sketches", broken)
    with pytest.raises(StoreError, match=rf"stays at schema {VERSION}, the way to {NEXT} failed"):
        migrate_with(monkeypatch, path, {VERSION: steps}, NEXT)
    assert content(path) == whole
    assert path.read_bytes() == before
    assert beside(path) == []


def test_a_migration_over_several_versions_fails_as_one(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the second step of two fails, the first is undone as well."""
    whole = content(path)
    steps = {VERSION: ("CREATE TABLE extra (x INTEGER)",), NEXT: ("nonsense",)}
    with pytest.raises(StoreError):
        migrate_with(monkeypatch, path, steps, NEXT + 1)
    assert content(path) == whole


def test_a_migration_brings_the_store_to_the_next_version(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The statements are carried out, the version and the generation rise, the rest stays."""
    before = content(path)
    steps = ("ALTER TABLE runs ADD COLUMN note VARCHAR DEFAULT 'none'", "CREATE TABLE extra (x INTEGER)")
    migrate_with(monkeypatch, path, {VERSION: steps}, NEXT)
    after = content(path)
    assert [row[:2] for row in after["wane"]] == [(NEXT, 2)]
    assert after["wane"][0][2] == before["wane"][0][2], "it is the same store"
    assert after["wane"][0][3] != before["wane"][0][3], "but not the same commit"
    assert [row[-1] for row in after["runs"]] == ["none"]
    assert after["extra"] == []
    assert after["segments"] == before["segments"] != []


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A store of version 1 with a row in every table and sketches that answer."""
    path = tmp_path / "old.duckdb"
    create(path, [*VERSION_1, *LEDGER_1])
    rows = STREAMS["uniform"](50, 1)
    fill_by_epoch(path, {"north": rows.take(rows.ids % 2 == 0), "south": rows.take(rows.ids % 2 == 1)})
    return path


def shape(path: Path) -> list[tuple[object, ...]]:
    """Every column with its type and whether it may be empty."""
    with connected(path, write=False) as connection:
        return connection.execute(
            "SELECT table_name, column_index, column_name, data_type, is_nullable, column_default "
            "FROM duckdb_columns() WHERE NOT internal ORDER BY ALL"
        ).fetchall()


def summed(rows: list[tuple[Any, ...]]) -> list[list[tuple[Any, ...]]]:
    """Totals by source and epoch, added up by epoch and by source."""
    found = []
    for key in (lambda row: (row[0], row[2], row[3]), lambda row: (row[0], row[1])):
        groups = [list(group) for _, group in groupby(sorted(rows, key=key), key)]
        columns = [list(zip(*group, strict=True)) for group in groups]
        found.append(
            [
                (*key(group[0]), sum(one[4]), sum(one[5]), min(one[6]), max(one[7]), max(one[8]))
                for group, one in zip(groups, columns, strict=True)
            ]
        )
    return [sorted(one, key=repr) for one in found]


def test_version_1_becomes_this_version(old: Path, tmp_path: Path) -> None:
    """Nothing is lost, what version 1 did not know is 0 or empty, and the tables are those of a new store."""
    before = content(old)
    migrate(old, 1)
    after = content(old)
    create_store(tmp_path / "new.duckdb")
    assert shape(old) == shape(tmp_path / "new.duckdb")
    assert before.pop("wane") == [(1, 7)]
    assert [row[:2] for row in after.pop("wane")] == [(VERSION, 8)]
    assert after.pop("files") == [(*row, 0, None, None) for row in before.pop("files")]
    assert after.pop("runs") == [(*row, 0, 0, 0, 0) for row in before.pop("runs")]
    by_epoch, by_source = summed([(*row, row[-1]) for row in before.pop("epochs")])  # latest is the newest event
    assert (after.pop("epochs"), after.pop("sources")) == (by_epoch, by_source)
    assert len(by_source) == 2 <= len(by_epoch) < len(after["sketches"])
    assert before.pop("labels")
    assert (after.pop("heads"), after.pop("segments"), after.pop("sites")) == ([], [], [])
    assert after == before
    assert Store(old).ask(STREAM, Question("count")).estimate.value == 50


def test_ingest_goes_on_with_a_store_of_version_1(old: Path) -> None:
    """Readers send the user to `wane ingest`; that asks for the known files first, and commits then."""
    with pytest.raises(StoreError, match=f"has schema 1; run `wane ingest` once to bring it to {VERSION}"):
        Store(old).catalogue()
    assert [(file.run, file.path, file.modified, file.rows) for file in known_files(old, STREAM)] == [
        (6, "a.csv", 0, 50),
        (7, "b.csv", 0, 2),
    ]
    stored(old, {"north": STREAMS["uniform"](20, 2)})
    assert Store(old).catalogue().generation == 9
    assert Store(old).ask(STREAM, Question("count")).estimate.value == 70


@pytest.fixture
def second(old: Path) -> Path:
    """The same store as version 2 wrote it."""
    migrate_as_it_was(old, 2)
    return old


@pytest.fixture
def third(old: Path) -> Path:
    """The same store as version 3 wrote it."""
    migrate_as_it_was(old, 3)
    return old


def test_version_2_becomes_this_version(second: Path, tmp_path: Path) -> None:
    """Its epochs get a `latest` that is their newest event; no run of it saw a repeat or a clock that is ahead."""
    before = content(second)
    migrate(second, 1)
    after = content(second)
    create_store(tmp_path / "new.duckdb")
    assert shape(second) == shape(tmp_path / "new.duckdb")
    assert (before.pop("wane"), after.pop("wane")[0][:2]) == ([(2, 8)], (VERSION, 9))
    assert after.pop("runs") == [(*row, 0, 0) for row in before.pop("runs")]
    assert [after.pop("epochs"), after.pop("sources")] == summed([(*row, row[-1]) for row in before.pop("epochs")])
    assert after == {name: rows for name, rows in before.items() if name != "labels"} | {
        "heads": [],
        "segments": [],
        "sites": [],
    }
    held = Store(second).catalogue().streams[STREAM]
    assert held.as_of() == held.newest(held.sources)


def test_version_3_becomes_this_version(third: Path, tmp_path: Path) -> None:
    """Totals are added up by epoch and by source, the store gets a name; sketches and ledger stay as they are."""
    before = content(third)
    migrate(third, 1)
    after = content(third)
    create_store(tmp_path / "new.duckdb")
    assert shape(third) == shape(tmp_path / "new.duckdb")
    assert (before.pop("wane"), after["wane"][0][:2]) == ([(3, 8)], (VERSION, 9))
    assert all(len(name) == 36 for name in after.pop("wane")[0][2:])
    assert [after.pop("epochs"), after.pop("sources")] == summed(before.pop("epochs"))
    assert before.pop("labels") == [("calls", 1, "one")]
    assert after == before | {"heads": [], "segments": [], "sites": []}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("version", "failing"), [(old, failing) for old in MIGRATIONS for failing in range(1, len(MIGRATIONS[old]) + 1)]
)
def test_the_way_from_a_version_is_whole_or_not_at_all(
    old: Path, version: int, failing: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped after any of its steps, the file is what it was, to the byte."""
    migrate_as_it_was(old, version)
    whole, before = content(old), old.read_bytes()
    stopped: tuple[Step, ...] = (*MIGRATIONS[version][:failing], "SELECT error('stop')")
    with pytest.raises(StoreError, match=f"stays at schema {version}, the way to {version + 1} failed"):
        migrate_with(monkeypatch, old, {version: stopped}, version + 1)
    assert content(old) == whole
    assert old.read_bytes() == before


def test_a_store_of_this_version_is_not_opened_for_writing(path: Path) -> None:
    """Nothing to migrate, nothing written: readers elsewhere are not in the way."""
    with connected(path, write=False):
        before = path.stat().st_mtime_ns
        migrate(path, 0)
    assert path.stat().st_mtime_ns == before


def test_a_version_without_a_way_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An older schema that no migration starts from is named in one sentence."""
    with pytest.raises(StoreError, match=f"has schema {VERSION}, and no way is known from there to schema {NEXT}$"):
        migrate_with(monkeypatch, path, {}, NEXT)


def test_readers_of_an_older_schema_say_what_to_do(path: Path) -> None:
    """A reader never migrates; it says who does."""
    execute(path, "UPDATE wane SET version = $1", [VERSION - 1])
    with pytest.raises(StoreError, match=rf"has schema {VERSION - 1}; run `wane ingest` once"):
        Store(path).catalogue()


def test_check_gives_the_generation(path: Path) -> None:
    """The number that the last commit returned."""
    with connected(path, write=False) as connection:
        assert check(connection, path) == 1
