"""Which engine a run has."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from ingest.driver.engine import Engine
from ingest.driver.progress import Progress
from ingest.driver.run_options import RunOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def engine_for(
    options: RunOptions, progress: Progress, session: SparkSession | None, reads_rows: Callable[[], bool]
) -> Iterator[Engine]:
    """The engine that the options name. Spark starts when it is first needed, and ends with the block.

    `reads_rows` is asked then: whether Spark must read rows of a stream, because tasks cannot.
    """
    if options.engine == "local":
        from ingest.driver.local.engine import LocalEngine

        with ExitStack() as stack:
            yield LocalEngine(progress, stack)
        return
    from ingest.driver.spark.engine import spark_engine

    with spark_engine(options, progress, session, reads_rows) as engine:
        yield engine


@contextmanager
def shared_session(options: RunOptions, *, reads_rows: bool = True) -> Iterator[SparkSession | None]:
    """A session of Spark for several runs; None where their engine needs none."""
    if options.engine == "local":
        yield None
        return
    from ingest.driver.session.spark import spark_session

    with spark_session(options.master, reads_rows=reads_rows) as session:
        yield session
