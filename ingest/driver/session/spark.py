"""A session of Spark as the job needs it: quiet, on any master, with our code on every worker."""

from __future__ import annotations

import logging
import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkConf, SparkContext, accumulators
from pyspark.sql import SparkSession

from ingest.driver.engine import EngineError, JobError
from ingest.driver.session.java_patience import bounded_wait
from ingest.driver.session.java_start import LAUNCHER, java_options
from ingest.driver.session.shipping import ROOT, ship
from ingest.driver.session.spark_folder import spark_folder, temporary_files_in
from ingest.driver.session.start_times import StartTimes
from ingest.driver.session.stopping import kept_handlers
from ingest.driver.session.without_pandas import import_pandas_meanwhile

_RAISED: Final = re.compile(r"^[ \t]*((?:\w+\.)*\w*(?:Error|Exception): .+)$", re.MULTILINE)
_RETRIES: Final = 4  # attempts at a task; Spark's own default anywhere but on local masters
_DAEMON: Final = "ingest.driver.session.worker_daemon"
_CONFIGURATION: Final = {
    "spark.app.name": "wane ingest",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
    "spark.sql.execution.arrow.useLargeVarTypes": "false",
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "true",
    "spark.driver.maxResultSize": "0",  # no limit: all sketches come to the driver
    "spark.sql.adaptive.enabled": "false",  # it would join the partitions over which merging is spread
    "spark.sql.legacy.parquet.nanosAsLong": "true",  # else a column of nanoseconds that nobody names is in the way
    "spark.sql.caseSensitive": "false",
    "spark.sql.ansi.enabled": "false",  # a value that cannot be converted becomes null, and its row is rejected
}


class SparkError(EngineError):
    """Spark could not start; the message holds the last lines of its log."""


@contextmanager
def spark_session(
    master: str | None,
    *,
    configuration: Mapping[str, str] | None = None,
    verbose: bool = False,
    reads_rows: bool = True,
    start: StartTimes | None = None,
) -> Iterator[SparkSession]:
    """A session that ends with the block. Without `master`, the one of spark-submit or else all cores of this machine.

    One that runs in this process already is taken as it is, and goes on: it is somebody else's.

    What Spark and its workers print goes to a file that is shown only if the session fails, unless `verbose`. Without
    `reads_rows` it starts faster, and would read rows at half the speed; tasks that read files themselves do not mind.
    """
    if shutil.which(_java()) is None:
        raise SparkError("Spark needs a Java runtime of version 17 or newer on the PATH or in JAVA_HOME")
    target = _with_retries(master or "local[*]")
    others = SparkContext._active_spark_context is not None
    with spark_folder() as folder:
        local = target.startswith("local") and not _submitted()
        _environment(local=local)
        chosen = _CONFIGURATION | {
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            "spark.driver.defaultJavaOptions": java_options(reads_rows=reads_rows),
        }
        chosen |= {"spark.python.daemon.module": _DAEMON, "spark.local.dir": str(folder)} if local else {}
        chosen |= {"spark.master": target} if master is not None or not _submitted() else {}
        chosen |= configuration or {}
        log = folder / "spark.log"
        start = start or StartTimes()
        try:
            with _quiet(None if verbose else log), temporary_files_in(folder), kept_handlers(), bounded_wait():
                import_pandas_meanwhile()
                conf = SparkConf().setAll(list(chosen.items()))
                SparkContext._ensure_initialized(conf=conf)
                start.ended("Java")
                session = SparkSession.builder.config(conf=conf).getOrCreate()
                start.ended("session")
        except Exception as error:  # py4j has many errors of its own for what the JVM refuses
            raise SparkError(f"Spark did not start: {first_line(error)}{_tail(log)}") from error
        try:
            _leave_errors_to_us(verbose)
            if verbose:
                session.sparkContext.setLogLevel("WARN")
            if not str(session.sparkContext.master).startswith("local"):
                ship(session, folder)
            yield session
        finally:
            if not others:
                with suppress(Exception):  # where the JVM is gone, there is nothing to stop
                    session.stop()


@contextmanager
def java_reached() -> Iterator[None]:
    """Raise `JobError` where the block cannot reach Spark's Java any more: py4j and sockets have own errors."""
    try:
        yield
    except Py4JJavaError:  # Java is there, and told of an error
        raise
    except (Py4JError, ConnectionError) as error:
        raise JobError("Spark's Java cannot be reached any more: somebody ended it, or memory ran out") from error
    except OSError as error:  # a cleaner took Spark's temporary folder, say
        raise JobError(f"Spark lost what it works with: {error.strerror}: {error.filename}") from error


def _leave_errors_to_us(verbose: bool) -> None:
    """Unless they are wanted, print no stack traces of errors that we report, such as that Java has gone, by whatever
    thread of pyspark and py4j notices first."""
    logging.getLogger("SQLQueryContextLogger").disabled = not verbose
    logging.getLogger("py4j").setLevel(logging.NOTSET if verbose else logging.CRITICAL + 1)
    if not verbose:
        for server in (accumulators.AccumulatorTCPServer, accumulators.AccumulatorUnixServer):
            setattr(server, "handle_error", lambda *_: None)  # noqa: B010  its class has it from the standard library


def first_line(error: BaseException) -> str:
    """The message of an error of Spark, or of the Python worker that caused it, without stack traces."""
    text = re.sub(r"\AAn error occurred while calling \S+\s*: (?:[a-z]\w*\.)*\w+: ", "", str(error).strip())
    text = text or type(error).__name__
    raised = [line for line in _RAISED.findall(text) if not line.startswith(("org.", "java."))]
    return (raised[-1] if raised else text.splitlines()[0]).strip()[:500]


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    return str(Path(home, "bin", "java")) if home else "java"


def _submitted() -> bool:
    """Whether spark-submit started this process and has chosen the master."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _with_retries(master: str) -> str:
    """A local master that tries a failed task again, as every other master does: a worker that dies costs one task."""
    match = re.fullmatch(r"local(?:\[([0-9]+|\*)\])?", master)
    return f"local[{match[1] or '1'},{_RETRIES}]" if match else master


def _environment(*, local: bool) -> None:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else workers take any python3 on the PATH
    if local:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        os.environ.setdefault("SPARK_LAUNCHER_OPTS", LAUNCHER)
        # On this machine workers import our packages from where they are, with numba's compiled kernels beside them.
        paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        if str(ROOT) not in paths:
            os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, paths)])


@contextmanager
def _quiet(log: Path | None) -> Iterator[None]:
    """Let processes that start inside the block, such as the JVM, write their errors to a file."""
    if log is None:
        yield
        return
    sys.stderr.flush()
    kept = os.dup(2)
    with log.open("wb") as file:
        os.dup2(file.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(kept, 2)
            os.close(kept)


def _tail(log: Path) -> str:
    if not log.exists():
        return ""
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return "; its last words: " + " | ".join(lines[-3:])[:600] if lines else ""
