"""One run of ingest at a time: others are told who is at work, may wait, and inherit from the dead."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from sketches.errors import WaneError
from store.locks import RunningError, run_lock
from tests.support.stores import PROCESSES


def hold(store: Path, seconds: float, ready: Connection) -> None:
    with run_lock(store):
        ready.send(True)
        time.sleep(seconds)


@contextmanager
def held(store: Path, seconds: float = 60.0) -> Iterator[BaseProcess]:
    """Another process holds the lock, for so many seconds or until it is killed."""
    here, there = PROCESSES.Pipe(duplex=False)
    holder = PROCESSES.Process(target=hold, args=(store, seconds, there))
    holder.start()
    there.close()  # so that a holder that dies is the end of the pipe, and not of all patience
    try:
        assert here.poll(60), "the other process did not take the lock"
        here.recv()
        yield holder
    finally:
        holder.kill()
        holder.join()


def test_a_second_run_is_refused_by_name(tmp_path: Path) -> None:
    """It is told at once which process is at work since when, on which store, and how to wait."""
    store = tmp_path / "wane.duckdb"
    with held(store) as holder:
        started = time.monotonic()
        with pytest.raises(RunningError) as caught, run_lock(store):
            pytest.fail("two runs at once")
        assert time.monotonic() - started < 30, "not when the other one ends"
    message = str(caught.value)
    assert f"process {holder.pid}, since 20" in message
    assert str(store) in message
    assert "--wait" in message


def test_waiting_has_an_end(tmp_path: Path) -> None:
    """A run that waits gives up after its time."""
    store = tmp_path / "wane.duckdb"
    with held(store):
        started = time.monotonic()
        with pytest.raises(RunningError), run_lock(store, wait=0.5):
            pytest.fail("two runs at once")
        assert 0.5 <= time.monotonic() - started < 30


def test_whoever_waits_comes_next(tmp_path: Path) -> None:
    """A run that waits begins when the other one has ended."""
    store = tmp_path / "wane.duckdb"
    with held(store, seconds=1.0) as holder, run_lock(store, wait=30.0):
        holder.join(60)
        assert holder.exitcode == 0
        assert f"process {os.getpid()}," in store.with_name("wane.duckdb.ingest").read_text()


def test_a_killed_run_leaves_no_lock(tmp_path: Path) -> None:
    """The lock ends with its process, and the file that stays behind locks nobody out."""
    store = tmp_path / "wane.duckdb"
    with held(store) as holder:
        holder.kill()
        holder.join()
        assert f"process {holder.pid}," in store.with_name("wane.duckdb.ingest").read_text()
        with run_lock(store):
            pass


def test_an_error_frees_the_lock(tmp_path: Path) -> None:
    """Runs after one another in one process, failed ones among them, each get the lock."""
    store = tmp_path / "new folder" / "wane.duckdb"
    for _ in range(3):
        with pytest.raises(ZeroDivisionError), run_lock(store):
            _ = 1 / 0
    with run_lock(store), pytest.raises(RunningError, match=f"process {os.getpid()},"), run_lock(store):
        pytest.fail("two runs at once")
    with run_lock(store):
        pass


def test_stores_do_not_lock_each_other(tmp_path: Path) -> None:
    """Two stores in one folder are two locks."""
    with run_lock(tmp_path / "a.duckdb"), run_lock(tmp_path / "b.duckdb"):
        assert {path.name for path in tmp_path.iterdir()} == {"a.duckdb.ingest", "b.duckdb.ingest"}


def test_only_one_of_many_is_at_work(tmp_path: Path) -> None:
    """Of many that want it at once each gets the lock alone."""
    store = tmp_path / "wane.duckdb"
    inside: list[int] = []
    most: list[int] = []

    def work(number: int) -> None:
        with run_lock(store, wait=30.0):
            inside.append(number)
            most.append(len(inside))
            time.sleep(0.01)
            inside.remove(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] * 6


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    """Where there can be no lock file, the message names it."""
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(WaneError, match=r"file/wane\.duckdb\.ingest cannot be written"),
        run_lock(tmp_path / "file" / "wane.duckdb"),
    ):
        pytest.fail("no lock")
