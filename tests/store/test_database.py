"""Opening the file: turns are waited for within a bound, and whoever holds the file is named."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

import duckdb
import pytest

from sketches import Question
from store import Store, StoreBusyError, StoreError, commit
from store.database import connected, create
from store.locks import closed_to_readers
from store.schema import create_store
from tests.support.stores import PROCESSES, STREAM, parts, run_of, stored
from tests.support.streams import STREAMS


def hold(path: Path, write: bool, seconds: float, ready: Connection) -> None:
    with connected(path, write=write):
        ready.send(os.getpid())
        time.sleep(seconds)


def read_for_ever(path: Path, ready: Connection) -> None:
    """Keep the file open for nine tenths of the time."""
    with connected(path, write=False):
        ready.send(True)
    while True:
        with connected(path, write=False):
            time.sleep(0.09)
        time.sleep(0.01)


@contextmanager
def held(path: Path, *, write: bool, seconds: float) -> Iterator[int]:
    """Another process has the file open; its id."""
    here, there = PROCESSES.Pipe(duplex=False)
    holder = PROCESSES.Process(target=hold, args=(path, write, seconds, there))
    holder.start()
    there.close()  # so that a holder that dies is the end of the pipe, and not of all patience
    try:
        assert here.poll(60), "the other process did not open the file"
        yield here.recv()
    finally:
        holder.kill()
        holder.join()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "wane.duckdb"
    stored(path, {"north": STREAMS["uniform"](50, 1)})
    return path


def storage_version(path: Path) -> str:
    with duckdb.connect(str(path), read_only=True) as connection:
        row = connection.execute("SELECT tags['storage_version'] FROM duckdb_databases() WHERE path IS NOT NULL")
        return str(row.fetchall()[0][0])


def test_the_storage_version_is_pinned(tmp_path: Path, path: Path) -> None:
    """A new store and one that was written to are both in the format that DuckDB 1.4 reads."""
    create_store(tmp_path / "new.duckdb")
    assert storage_version(tmp_path / "new.duckdb") == "v1.4.0+"
    assert storage_version(path) == "v1.4.0+"


@pytest.mark.parametrize("write", [True, False])
def test_a_writer_waits_for_others_to_close(path: Path, write: bool) -> None:
    """A commit that finds the file open elsewhere goes through as soon as it is closed."""
    with held(path, write=write, seconds=0.5):
        assert commit(path, run_of(parts({"south": STREAMS["uniform"](50, 2)})), wait=20) == 2


def test_a_reader_waits_for_a_writer(path: Path) -> None:
    """A question that finds a writer at work is answered as soon as it is done."""
    with held(path, write=True, seconds=0.5):
        assert Store(path, wait=20).ask(STREAM, Question("count")).estimate.value == 50


def test_readers_do_not_wait_for_each_other(path: Path) -> None:
    """A question is answered while another process reads, without any wait."""
    with held(path, write=False, seconds=30):
        assert Store(path, wait=0).ask(STREAM, Question("count")).estimate.value == 50


def test_a_store_held_open_is_read_again_while_a_writer_waits(path: Path) -> None:
    """The writer waits for the one who reads, so the reader must not wait for the writer; nor does it read twice."""
    store = Store(path, wait=60.0)
    with store.held_open(), closed_to_readers(path, time.monotonic() + 60.0):
        begun = time.monotonic()
        catalogue = store.catalogue()
        assert store.ask(STREAM, Question("count")).estimate.value > 0
        assert time.monotonic() - begun < 50.0
        assert store.catalogue() is catalogue
    commit(path, run_of([], stream="another"))
    assert set(store.catalogue().streams) == {STREAM, "another"}


@pytest.mark.parametrize("asks", [True, False], ids=["reader", "writer"])
def test_the_wait_is_bounded_and_names_the_holder(path: Path, asks: bool) -> None:
    """When the wait is over the error says which process has the file, and for how long was waited."""
    with held(path, write=True, seconds=120) as holder:
        start = time.monotonic()
        with pytest.raises(StoreBusyError, match=rf"in use by process {holder} \(python.*waited 1 s"):
            Store(path, wait=1).catalogue() if asks else commit(path, run_of([]), wait=1)
        assert 1 <= time.monotonic() - start < 60


def test_readers_that_come_one_after_the_other_do_not_starve_a_writer(path: Path) -> None:
    """Three processes that open the file again as soon as they have closed it let a commit through at once."""
    here, there = PROCESSES.Pipe(duplex=False)
    readers = [PROCESSES.Process(target=read_for_ever, args=(path, there)) for _ in range(3)]
    for reader in readers:
        reader.start()
    for _ in readers:
        assert here.poll(60), "the other process did not open the file"
        here.recv()
    try:
        for generation in range(2, 7):
            assert commit(path, run_of([]), wait=15) == generation
    finally:
        for reader in readers:
            reader.kill()
            reader.join()


def test_a_door_left_by_a_killed_writer_is_open(path: Path) -> None:
    """The lock goes with the process that held it; its file may stay."""
    with held(path, write=True, seconds=30):
        pass
    assert path.with_name(f"{path.name}.lock").exists()
    assert Store(path, wait=1).catalogue().generation == 1
    assert commit(path, run_of([]), wait=1) == 2


@pytest.mark.slow
def test_threads_of_one_process_take_turns(path: Path) -> None:
    """Commits and new readers in several threads never meet DuckDB's refusal of unlike connections."""
    failures: list[Exception] = []

    def work(number: int) -> None:
        try:
            for _ in range(5):
                if number == 0:
                    commit(path, run_of([]))
                else:
                    assert Store(path).ask(STREAM, Question("count")).estimate.value == 50
        except Exception as error:  # noqa: BLE001 - a thread must hand over whatever happened in it
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert Store(path).catalogue().generation == 6


def test_an_error_inside_leaves_the_file_free(path: Path) -> None:
    """The connection closes when its user fails, and others can write at once."""
    with pytest.raises(ZeroDivisionError), connected(path, write=True):
        _ = 1 / 0
    with held(path, write=True, seconds=0):
        pass


def test_an_open_store_reaches_nothing_else(path: Path, tmp_path: Path) -> None:
    """A connection can neither read nor write other files: a store from elsewhere is data only."""
    with connected(path, write=False) as connection, pytest.raises(duckdb.PermissionException):
        connection.execute(f"COPY (SELECT 1) TO '{tmp_path / 'stolen.csv'}'")
    assert not (tmp_path / "stolen.csv").exists()


def test_a_store_cannot_be_created_where_there_is_no_folder(tmp_path: Path) -> None:
    """One sentence, no traceback of DuckDB or the operating system."""
    with pytest.raises(StoreError, match=r"missing/wane\.duckdb cannot be created: No such file or directory$"):
        commit(tmp_path / "missing" / "wane.duckdb", run_of([]))


def test_a_store_that_cannot_be_finished_never_appears(tmp_path: Path) -> None:
    """Where a statement fails, neither the file nor anything half made stays."""
    with pytest.raises(StoreError, match="cannot be created"):
        create(tmp_path / "wane.duckdb", ["CREATE TABLE wane (version INTEGER)", "nonsense"])
    assert list(tmp_path.iterdir()) == []
