"""SIGKILL of the driver and of Spark's Python workers, amid their work: the next run puts everything right.

More of it: WANE_KILLS=5 python -m pytest tests/ingest/test_kill.py has five times as many.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.support.runs import BOTH, configure, expected, ingest, outcome_of, stored, write
from tests.support.streams import STREAMS, Stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ingest.driver.configuration.settings import Settings

MORE = int(os.environ.get("WANE_KILLS", "1"))
DRIVERS, WORKERS = 2 * MORE, 4 * MORE  # a driver takes as long as Spark takes to start
FILES = 8


@pytest.fixture
def rows(tmp_path: Path) -> Stream:
    found = STREAMS["late"](30_000, 1).duplicated(1, 2)
    for number, part in enumerate(found.split(FILES, 2)):
        write(tmp_path / f"raw/{number}.parquet", part, group=2000)
    return found


def undisturbed(settings: Settings, tmp_path: Path, spark: SparkSession) -> dict[str, object]:
    peaceful = configure(tmp_path, BOTH, name="peaceful")
    ingest(peaceful, spark)
    assert settings.store != peaceful.store
    return outcome_of(peaceful.store)


def test_a_killed_driver_leaves_nothing_behind(spark: SparkSession, tmp_path: Path, rows: Stream) -> None:
    """Killed while Spark sketches or while it commits, the store is as if the run had not begun or as if it had ended;
    a normal run completes it."""
    settings = configure(tmp_path, BOTH)
    wanted = undisturbed(settings, tmp_path, spark)
    rng = np.random.default_rng(1)
    kill = late = 0
    while kill < DRIVERS:
        process = subprocess.Popen(
            [str(Path(sys.executable).with_name("wane")), "ingest", "--quiet", "--master", "local[1]"],
            cwd=tmp_path,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            if kill % 2:
                _wait(process, lambda: any(file.suffix != ".ingest" for file in tmp_path.glob("wane.duckdb*")), 0.02)
                time.sleep(rng.uniform(0.0, 0.1))
            else:
                _wait(process, lambda process=process: bool(_workers(process.pid)), 0.1)  # a look at every process
                time.sleep(rng.uniform(0.0, 3.0 if kill else 1.0))  # its worker imports what it needs, and sketches
        finally:
            process.kill()
            process.wait()
        committed = settings.store.exists() and bool(stored(settings))
        if committed:
            assert outcome_of(settings.store) == wanted, "committed means committed whole"
        if kill < DRIVERS - 1 and (committed or kill % 2 == 0):  # else the next one starts with what this one left
            for file in tmp_path.glob("wane.duckdb*"):
                file.unlink()
        assert process.returncode == -signal.SIGKILL or committed, "it ended by itself, without a commit"
        if kill == 0 and committed:  # this process had to wait for its turn; the first kill must come before a commit
            late += 1
            assert late < 4, "no kill came before its commit: the test shows little"
            continue
        kill += 1
    assert ingest(settings, spark).exit_code == 0
    assert outcome_of(settings.store) == wanted
    assert stored(settings) == expected(rows)


def _wait(process: subprocess.Popen[bytes], reached: Callable[[], bool], pause: float) -> None:
    """Wait until the run is so far, or over."""
    deadline = time.monotonic() + 200
    while not reached() and process.poll() is None:
        assert time.monotonic() < deadline, "the run did not get there"
        time.sleep(pause)


def test_a_killed_worker_costs_a_task_and_nothing_else(spark: SparkSession, tmp_path: Path, rows: Stream) -> None:
    """A Python worker that dies is replaced and its task done again; should the run fail, the next one completes it."""
    settings = configure(tmp_path, BOTH)
    wanted = undisturbed(settings, tmp_path, spark)
    rng = np.random.default_rng(2)
    killed = 0
    for number in range(5 * WORKERS):  # a quick run may be over before its turn to be hit
        if killed >= WORKERS:
            break
        for file in tmp_path.glob("wane.duckdb*"):
            file.unlink()
        with _killer((number + rng.random()) % WORKERS / WORKERS / 2) as victims:
            code = ingest(settings, spark).exit_code
        killed += len(victims)
        assert code in {0, 1}
        if code == 1:
            assert not (settings.store.exists() and stored(settings))
            assert ingest(settings, spark).exit_code == 0
        assert outcome_of(settings.store) == wanted
    assert killed >= WORKERS, "too few workers were hit: the test shows nothing"
    assert stored(settings) == expected(rows)


@contextlib.contextmanager
def _killer(pause: float) -> Iterator[list[int]]:
    """Kill one Python worker of Spark's, found among our descendants, some time after the block begins."""
    victims: list[int] = []
    done = threading.Event()

    def hunt() -> None:
        done.wait(pause)
        while not done.is_set() and not victims:
            for worker in _workers(os.getpid()):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(worker, signal.SIGKILL)
                    victims.append(worker)
                    break
            done.wait(0.03)

    thread = threading.Thread(target=hunt)
    thread.start()
    try:
        yield victims
    finally:
        done.set()
        thread.join()


def _workers(ancestor: int) -> list[int]:
    """The Python workers that Spark's daemon below a process has forked."""
    parents: dict[int, int] = {}
    daemons: set[int] = set()
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, IndexError):
            parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            if b"pyspark.worker" in (entry / "cmdline").read_bytes():
                daemons.add(int(entry.name))

    def ours(process: int) -> bool:
        while process > 1:
            if process == ancestor:
                return True
            process = parents.get(process, 0)
        return False

    return [process for process in daemons if parents.get(process) in daemons and ours(process)]
