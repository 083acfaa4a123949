"""Java that cannot be reached is given up: pyspark would wait for ever for a file that a cleaner took."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from ingest.driver.session.java_patience import NoAnswerError, bounded_wait
from tests.support.paths import ROOT

START = """
import shutil, sys, tempfile, threading, time
from pathlib import Path
from ingest.driver.session.spark import SparkError, spark_session

tempfile.tempdir = sys.argv[1]

def clean():
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        time.sleep(0.05)
        if taken := list(Path(sys.argv[1]).glob("wane-spark-*/tmp*")):
            shutil.rmtree(taken[0], ignore_errors=True)
            return

threading.Thread(target=clean).start()
try:
    with spark_session("local[1]"):
        print("it started")
except SparkError as error:
    print(error)
"""


@pytest.mark.slow
def test_a_cleaner_that_takes_the_file_of_a_start_ends_it(tmp_path: Path) -> None:
    """With the real pyspark, and a Java that never says where it is: the run hung, and kept others waiting.

    In a process of its own: where Spark runs already, nothing would start, and the session of other tests would end.
    """
    java = tmp_path / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\nexec sleep 60\n")
    java.chmod(0o755)
    (tmp_path / "tmp").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", START, str(tmp_path / "tmp")],
        cwd=ROOT,
        env=os.environ | {"JAVA_HOME": str(tmp_path / "java")},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert re.search(r"did not start: somebody removed .*tmp", done.stdout), done.stdout + done.stderr


def launch_gateway(conn_info_dir: str) -> None:
    """Waits as pyspark's function of this name does."""
    while True:
        time.sleep(0.05)


def test_a_wait_has_an_end(tmp_path: Path) -> None:
    """Where nobody took anything, too; the alarm is as it was afterwards."""
    before = signal.getsignal(signal.SIGALRM)
    with pytest.raises(NoAnswerError, match=r"did not say within 0\.1 s"), bounded_wait(0.1):
        launch_gateway(str(tmp_path))
    assert signal.getsignal(signal.SIGALRM) is before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_a_folder_that_pyspark_removes_itself_is_not_missed(tmp_path: Path) -> None:
    """Once Java has said where it is, the start goes on, however long: Java was killed in the middle of it."""

    def launch_gateway(conn_info_dir: str) -> None:
        gateway_port = 7
        until = time.monotonic() + 1.3
        while time.monotonic() < until:
            time.sleep(0.05)
        assert gateway_port == 7

    with bounded_wait():
        launch_gateway(str(tmp_path / "removed"))


def test_other_errors_stay_what_they_are() -> None:
    with pytest.raises(FileNotFoundError), bounded_wait():
        raise FileNotFoundError("another file")


@pytest.mark.parametrize("moment", ["wait", "_execute_child"])
def test_a_start_that_is_broken_off_leaves_no_java(moment: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C or SIGTERM while Java starts: it would never be asked for anything, and stay for ever."""
    started = list[subprocess.Popen[bytes]]()

    def struck(process: subprocess.Popen[bytes], *given: Any, **more: Any) -> None:
        begin(process, *given, **more)
        started.append(process)
        raise KeyboardInterrupt

    def launch_gateway() -> None:
        proc = subprocess.Popen(["sleep", "60"], stdin=subprocess.PIPE)
        started.append(proc)
        raise KeyboardInterrupt

    begin = subprocess.Popen._execute_child  # type: ignore[attr-defined]
    if moment != "wait":
        monkeypatch.setattr(subprocess.Popen, moment, struck)
    with pytest.raises(KeyboardInterrupt), bounded_wait():
        launch_gateway()
    assert [process.poll() for process in started] == [-signal.SIGKILL]
