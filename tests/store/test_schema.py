"""Versions of the schema: a store is created whole, once, and brought up to date whole or not at all."""

from __future__ import annotations

from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest

from store import Store, StoreError
from store.database import connected
from store.schema import VERSION, check, create_store, migrate
from tests.store.helpers import PROCESSES, TABLES, beside, content, execute, stored
from tests.streams import STREAMS

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
    assert found.pop("wane") == [(VERSION, 0)]
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
        assert content(path)["wane"] == [(VERSION, 0)]
    assert len(list(tmp_path.iterdir())) == 6


@pytest.mark.parametrize(
    "broken",
    ["INSERT INTO nowhere VALUES (1)", "SELECT error('stop')", "not even SQL", "INSERT INTO wane VALUES (NULL, 1)"],
)
def test_a_failing_migration_leaves_no_trace(path: Path, broken: str) -> None:
    """Tables, columns and rows of the steps before the failure are gone, down to the bytes of the file."""
    whole, before = content(path), path.read_bytes()
    steps = ("CREATE TABLE extra (x INTEGER)", "ALTER TABLE runs ADD COLUMN y INTEGER", "DELETE FROM sketches", broken)
    with pytest.raises(StoreError, match=rf"stays at schema {VERSION}, the way to {NEXT} failed"):
        migrate(path, 1, {VERSION: steps}, NEXT)
    assert content(path) == whole
    assert path.read_bytes() == before
    assert beside(path) == []


def test_a_migration_over_several_versions_fails_as_one(path: Path) -> None:
    """Where the second step of two fails, the first is undone as well."""
    whole = content(path)
    with pytest.raises(StoreError):
        migrate(path, 1, {VERSION: ("CREATE TABLE extra (x INTEGER)",), NEXT: ("nonsense",)}, NEXT + 1)
    assert content(path) == whole


def test_a_migration_brings_the_store_to_the_next_version(path: Path) -> None:
    """The statements are carried out, the version and the generation rise, the rest stays."""
    before = content(path)
    steps = ("ALTER TABLE runs ADD COLUMN note VARCHAR DEFAULT 'none'", "CREATE TABLE extra (x INTEGER)")
    migrate(path, 1, {VERSION: steps}, NEXT)
    after = content(path)
    assert after["wane"] == [(NEXT, 2)]
    assert [row[-1] for row in after["runs"]] == ["none"]
    assert after["extra"] == []
    assert after["sketches"] == before["sketches"]


def test_a_store_of_this_version_is_not_opened_for_writing(path: Path) -> None:
    """Nothing to migrate, nothing written: readers elsewhere are not in the way."""
    with connected(path, write=False):
        before = path.stat().st_mtime_ns
        migrate(path, 0)
    assert path.stat().st_mtime_ns == before


def test_a_version_without_a_way_is_refused(path: Path) -> None:
    """An older schema that no migration starts from is named in one sentence."""
    with pytest.raises(StoreError, match=f"has schema {VERSION}, and no way is known from there to schema {NEXT}$"):
        migrate(path, 1, {}, NEXT)


def test_readers_of_an_older_schema_say_what_to_do(path: Path) -> None:
    """A reader never migrates; it says who does."""
    execute(path, "UPDATE wane SET version = $1", [VERSION - 1])
    with pytest.raises(StoreError, match=rf"has schema {VERSION - 1}; run `wane ingest` once"):
        Store(path).catalogue()


def test_check_gives_the_generation(path: Path) -> None:
    """The number that the last commit returned."""
    with connected(path, write=False) as connection:
        assert check(connection, path) == 1
