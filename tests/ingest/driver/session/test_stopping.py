"""A run that is told to stop commits nothing, and leaves nothing on the disk."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

import wane
from ingest.driver import job
from ingest.driver.configuration.settings import read_settings
from ingest.driver.progress import Progress
from ingest.driver.run_options import RunOptions
from ingest.driver.session import spark_folder as sparks_folder
from ingest.driver.session.spark_folder import spark_folder, temporary_files_in
from ingest.driver.session.stopping import Stopped, kept_handlers, stoppable
from ingest.driver.stream_work import StreamWork
from sketches.errors import WaneError
from store import Run, Store
from store.writing import transaction, turns
from tests.support.paths import ROOT
from tests.support.stores import parts, run_of
from tests.support.streams import STREAMS

TWO = """
store = "wane.duckdb"
[streams.calls]
input = "raw/*.csv"
id = "id"
time = "t"
[streams.readings]
input = "raw/*.csv"
id = "id"
time = "t"
"""


@pytest.fixture(params=[signal.SIGINT, signal.SIGTERM])
def number(request: pytest.FixtureRequest) -> Iterator[signal.Signals]:
    """A signal that is heard, also where a shell runs the tests in the background."""
    with kept_handlers():
        signal.signal(request.param, signal.default_int_handler)
        yield request.param


def test_no_half_of_the_streams_is_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    """A signal whose exception is lost on its way, so that a stream only fails, stops the run before its commit."""
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw/1.csv").write_text("id,t\n1,1\n")
    (tmp_path / "wane.toml").write_text(TWO)

    def sketched(work: StreamWork, *_: Any) -> Run:
        if work.settings.name == "calls":
            return run_of(parts({"a": STREAMS["late"](10, 1)}), stream="calls")
        try:
            os.kill(os.getpid(), number)
        except KeyboardInterrupt:
            raise WaneError("Spark could not do it: the job was cancelled") from None
        raise AssertionError("the signal did nothing")

    monkeypatch.setattr(job, "_ingest", sketched)
    before = signal.getsignal(number)
    with pytest.raises(Stopped):
        job.run(read_settings(tmp_path / "wane.toml"), RunOptions(), Progress(quiet=True))
    assert not (tmp_path / "wane.duckdb").exists()
    assert signal.getsignal(number) is before


@pytest.mark.parametrize(
    ("module", "place", "too_late"), [(transaction, "write_ledger", False), (turns, "settle", True)]
)
def test_a_signal_while_the_store_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, module: Any, place: str, *, too_late: bool
) -> None:
    """What is not committed yet is taken back; what is committed is no failure: the run ends as if nothing had come."""
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw/1.csv").write_text("id,t\n1,1\n")
    (tmp_path / "wane.toml").write_text(TWO)
    monkeypatch.setattr(job, "sketched_together", lambda *_: {})
    monkeypatch.setattr(
        job, "_ingest", lambda work, *_: run_of(parts({"a": STREAMS["late"](10, 1)}), stream=work.settings.name)
    )
    written = getattr(module, place)

    def struck(*given: Any, **more: Any) -> None:
        os.kill(os.getpid(), number)
        written(*given, **more)

    monkeypatch.setattr(module, place, struck)
    with nullcontext() if too_late else pytest.raises(Stopped):
        done = job.run(read_settings(tmp_path / "wane.toml"), RunOptions(), Progress(quiet=True))
        assert (done.generation, done.exit_code) == (1, 0)
    held = Store(tmp_path / "wane.duckdb").catalogue()
    assert (held.generation, sorted(held.streams)) == ((1, ["calls", "readings"]) if too_late else (0, []))


def test_a_shell_hears_which_signal_it_was(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """130 after Ctrl-C, 143 after SIGTERM, and a line."""

    def stopped(number: int) -> int:
        def stop(_: object) -> None:
            raise Stopped(number)

        monkeypatch.setattr(wane, "_info", stop)
        return wane.main(["info", "--store", "some.duckdb"])

    assert [stopped(number) for number in (signal.SIGINT, signal.SIGTERM)] == [130, 143]
    assert capsys.readouterr().err == "wane: interrupted\n" * 2


def test_what_is_ignored_stays_ignored() -> None:
    """A run that a shell put in the background does not hear Ctrl-C, whatever handler pyspark sets."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with stoppable() as stopping:
            with kept_handlers():
                signal.signal(signal.SIGINT, signal.default_int_handler)
            os.kill(os.getpid(), signal.SIGINT)
            stopping.check()
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_signal_that_comes_out_as_another_error_is_a_signal(number: signal.Signals) -> None:
    """DuckDB says RuntimeError, "Query interrupted", of what is raised while it works; others stay."""

    def query() -> None:
        try:
            os.kill(os.getpid(), number)
            time.sleep(5)
        except Stopped:
            raise RuntimeError("Query interrupted") from None

    with pytest.raises(Stopped) as stopped, stoppable():
        query()
    assert stopped.value.exit_code == 128 + number
    with pytest.raises(RuntimeError, match="by itself"), stoppable():
        raise RuntimeError("by itself")


def test_other_threads_set_no_handlers() -> None:
    """Python lets only the main thread do so; a run in another one goes without."""
    found: list[str] = []

    def work() -> None:
        with stoppable() as stopping:
            stopping.check()
            found.append("done")

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == ["done"]


def test_no_stack_trace_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """py4j logs one of the signal; other lines pass."""
    with stoppable():
        logging.getLogger().error("KeyboardInterrupt while sending command.")
        logging.getLogger().error("something else")
    assert caplog.messages == ["something else"]


def runs(process: int) -> bool:
    """Whether a process is there, and no more than a note that it was."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


KILLED = """
import os, signal, subprocess, sys
from ingest.driver.session.spark_folder import spark_folder
with spark_folder() as folder:
    (folder / "blockmgr-1").mkdir()
    told = {"_PYSPARK_DRIVER_CONN_INFO_PATH": f"{folder}/tmp1/tmp2"}
    nowhere = subprocess.DEVNULL
    java = subprocess.Popen(["sleep", "60"], env=os.environ | told, stdout=nowhere, stderr=nowhere)
    print(folder, java.pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_next_run_clears_what_a_killed_one_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its folder goes, and Java that would look for it; that of a run that lives stays, and so do links and what is not
    a run's."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    environment = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    killed = subprocess.run(
        [sys.executable, "-c", KILLED], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    name, java = killed.stdout.split()
    left = Path(name)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert (left / "blockmgr-1").is_dir()
    assert runs(int(java))
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/lock").touch()
    (tmp_path / "wane-spark-link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "wane-spark-begins").mkdir()
    with spark_folder() as living:
        assert not left.exists()
        deadline = time.monotonic() + 10
        while runs(int(java)) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not runs(int(java))
        with spark_folder() as second:
            assert living.is_dir()
            assert second.is_dir()
            with temporary_files_in(second):
                assert Path(tempfile.mkdtemp()).parent == second
        assert not second.exists()
    assert not living.exists()
    assert {path.name for path in tmp_path.iterdir()} == {"elsewhere", "wane-spark-link", "wane-spark-begins"}
    assert (tmp_path / "elsewhere/lock").exists()


def test_what_writes_after_a_run_has_ended_leaves_nothing_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Something of the run that takes a while to end makes folders while they are removed: the run tries again; where
    that does not help, the lock stays, and the next run removes the rest."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    removed, rmtree = list[str](), shutil.rmtree

    def made_again(path: Path, **options: Any) -> None:
        rmtree(path, **options)
        removed.append(path.name)
        if len(removed) < 3:
            path.mkdir()

    monkeypatch.setattr(shutil, "rmtree", made_again)
    with spark_folder() as folder:
        (folder / "blockmgr-1").mkdir()
    assert removed == ["blockmgr-1"] * 3
    assert not folder.exists()
    monkeypatch.setattr(sparks_folder, "_ATTEMPTS", 1)
    removed.clear()
    with spark_folder() as folder:
        (folder / "blockmgr-2").mkdir()
    assert {entry.name for entry in folder.iterdir()} == {"lock", "blockmgr-2"}
    removed += ["", ""]  # it has ended
    with spark_folder():
        assert not folder.exists()


def test_a_folder_without_a_lock_is_removed_once_it_is_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that was killed before it had its lock; one that begins just now is left alone."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    old, new = tmp_path / "wane-spark-old", tmp_path / "wane-spark-new"
    for folder in (old, new):
        (folder / "tmp1").mkdir(parents=True)
    os.utime(old, (time.time() - 120, time.time() - 120))
    with spark_folder():
        assert not old.exists()
        assert new.exists()
