"""Sketching files with Spark.

Moving rows from the JVM to Python takes most of the time. So where a stream takes plain columns of Parquet files, tasks
read these themselves. Spark reads everything else: expressions and other formats. Both ways end in the same function of
Arrow batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import Final

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from ingest.driver.configuration.settings import StreamSettings
from ingest.driver.engine import JobError
from ingest.driver.parquet_reading import ParquetReading, read_parquet
from ingest.driver.progress import Progress
from ingest.driver.run_options import RunOptions
from ingest.driver.session.shipping import on_workers
from ingest.driver.session.spark import first_line, java_reached, spark_session
from ingest.driver.spark.reading import SparkReading, evaluated_by_spark, read_with_spark
from ingest.executor.merging import in_order
from ingest.executor.one_pass import (
    NUMBER,
    merge_for_all,
    rows_of,
    schema_of,
    sketch_row_groups_for_all,
    sketch_rows_for_all,
)
from ingest.executor.worker import merge, read_row_group, sketch_row_groups, sketch_rows
from ingest.executor.worker_settings import WorkerSettings

_MOST_PARTITIONS: Final = 200
FEW_TASKS: Final = 4
_LOOKED_AT: Final = 1_000  # rows that Spark reads to show some


@contextmanager
def spark_engine(
    options: RunOptions, progress: Progress, session: SparkSession | None, reads_rows: Callable[[], bool]
) -> Iterator[SparkEngine]:
    """An engine with this session, or one of its own that ends with the block."""
    with ExitStack() as stack:

        @cache
        def spark() -> SparkSession:
            return session or stack.enter_context(_started(options, progress, reads_rows=reads_rows()))

        yield SparkEngine(spark, progress)


@contextmanager
def _started(options: RunOptions, progress: Progress, *, reads_rows: bool) -> Iterator[SparkSession]:
    progress.say(f"Starting Spark on {options.master or 'the default master'} …")
    with spark_session(
        options.master,
        configuration=options.configuration,
        verbose=options.verbose,
        reads_rows=reads_rows,
        start=progress.start,
    ) as session:
        yield session


@dataclass(frozen=True, slots=True)
class SharedParquet:
    """Tasks read row groups of Parquet files by themselves, with the columns of all streams."""

    readings: Sequence[ParquetReading]

    def types(self, number: int) -> Mapping[str, Sequence[pa.DataType]]:
        return self.readings[number].types


@dataclass(frozen=True, slots=True)
class SharedBySpark:
    """Spark reads the files and evaluates the expressions of all streams, the same expression once."""

    frame: DataFrame
    found: Mapping[str, Sequence[pa.DataType]]
    streams: Sequence[Mapping[str, str]]  # of each the names of its columns by part

    def types(self, number: int) -> Mapping[str, Sequence[pa.DataType]]:
        return {part: self.found[name] for part, name in self.streams[number].items()}


class SparkEngine:
    """Sketches in tasks of Spark, which starts when it is first needed."""

    def __init__(self, spark: Callable[[], SparkSession], progress: Progress) -> None:
        self._spark = spark
        self._progress = progress

    @java_reached()
    def schema_names(self, schema: str) -> list[str] | None:
        """The names in a schema; None where it cannot be read, which reading will tell."""
        try:
            return self._spark().createDataFrame([], schema).schema.names
        except (PySparkException, Py4JJavaError, ValueError):
            return None

    @java_reached()
    def choose(
        self, settings: StreamSettings, paths: Sequence[str]
    ) -> tuple[ParquetReading | SparkReading, dict[str, str]]:
        """How these files are read, and which files are not whole. Spark starts only where it is needed."""
        direct, broken = read_parquet(settings, paths)
        if direct is not None:
            return direct, broken
        try:
            return read_with_spark(settings, paths, self._spark()), {}
        except PySparkException as error:
            raise JobError(f"Spark could not read the files: {first_line(error)}") from error

    @java_reached()
    def choose_shared(self, streams: Sequence[StreamSettings], paths: Sequence[str]) -> SharedParquet | SharedBySpark:
        """How files are read that several streams share."""
        direct = [read_parquet(settings, paths) for settings in streams]
        readings = [reading for reading, broken in direct if reading is not None and not broken]
        if len(readings) == len(streams):
            return SharedParquet(readings)
        picked: dict[str, tuple[StreamSettings, str]] = {}
        columns: list[dict[str, str]] = []
        numbers: dict[str, str] = {}
        for settings in streams:
            own = {}
            for part, expression in settings.parts.items():
                own[part] = numbers.setdefault(expression, f"column {len(numbers)}")
                picked.setdefault(own[part], (settings, part))
            columns.append(own)
        return SharedBySpark(*evaluated_by_spark(picked, paths, self._spark()), columns)

    def sketch(self, reading: ParquetReading | SparkReading, how: WorkerSettings, name: str) -> pa.Table:
        """Partial sketches from every task, merged by source and epoch or for the whole stream, as one table here.

        The workers merge them. Each task makes one of the whole stream, and these meet in one task, for their rows have
        no source. A small run has few sketches, which are merged here: a shuffle would take longer.
        """
        spark = self._spark()
        with self._watching(spark, name):
            frame, tasks = _sketches(spark, reading, how)
            if tasks == 0:
                return how.schema.empty_table()
            if tasks <= FEW_TASKS:
                return pa.Table.from_batches(merge(in_order(frame.toArrow(), how.schema), how), how.schema)
            sorted_rows = frame.repartition(_partitions_for(spark, tasks), "source", "start")
            sorted_rows = sorted_rows.sortWithinPartitions("source", "start")
            return sorted_rows.mapInArrow(on_workers(spark, merge, settings=how), frame.schema).toArrow()

    def sketch_shared(
        self, reading: SharedParquet | SharedBySpark, hows: Sequence[WorkerSettings], name: str
    ) -> list[pa.Table]:
        """For each stream the partial sketches of all tasks, merged."""
        spark = self._spark()
        with self._watching(spark, name):
            frame, tasks = _shared_sketches(spark, reading, hows)
            if tasks <= FEW_TASKS:
                table = frame.toArrow()
                own = [rows_of(table, number, how) for number, how in enumerate(hows)]
                return [
                    pa.Table.from_batches(merge(in_order(rows, how.schema), how), how.schema)
                    for rows, how in zip(own, hows, strict=True)
                ]
            keys = (NUMBER, "source", "start")
            sorted_rows = frame.repartition(_partitions_for(spark, tasks), *keys).sortWithinPartitions(*keys)
            work = on_workers(spark, merge_for_all, settings=tuple(hows))
            table = sorted_rows.mapInArrow(work, frame.schema).toArrow()
            return [rows_of(table, number, how).cast(how.schema) for number, how in enumerate(hows)]

    def first_rows(self, reading: ParquetReading | SparkReading) -> Mapping[str, pa.Array] | None:
        """Columns of some first rows by part; None where there is no row."""
        if isinstance(reading, ParquetReading):
            batches = (batch for group in reading.row_groups for batch in read_row_group(group, reading.columns))
            return next(islice(batches, 1), None)
        table = reading.frame.limit(_LOOKED_AT).toArrow().combine_chunks()
        if table.num_rows == 0:
            return None
        return {name: table.column(name).chunk(0) for name in table.column_names}

    def failure(self, error: Exception) -> str:
        """What Spark says of an error."""
        return f"Spark could not do it: {first_line(error)} (--verbose shows more)"

    @contextmanager
    def _watching(self, spark: SparkSession, name: str) -> Iterator[None]:
        context = spark.sparkContext
        context.setJobGroup(name, name)
        with self._progress.watching(name, lambda: _tasks_done(context, name)):
            yield


def _sketches(
    spark: SparkSession, reading: ParquetReading | SparkReading, how: WorkerSettings
) -> tuple[DataFrame, int]:
    """A DataFrame of partial sketches, and the number of tasks that make them."""
    if isinstance(reading, SparkReading):
        work = on_workers(spark, sketch_rows, settings=how)
        return reading.frame.mapInArrow(work, spark_schema(how.schema)), reading.frame.rdd.getNumPartitions()
    tasks = reading.tasks(spark.sparkContext.defaultParallelism)
    work = on_workers(spark, sketch_row_groups, tasks=tasks, columns=dict(reading.columns), settings=how)
    frame = spark.range(0, len(tasks), 1, max(1, len(tasks)))
    return frame.mapInArrow(work, spark_schema(how.schema)), len(tasks)


def _shared_sketches(
    spark: SparkSession, reading: SharedParquet | SharedBySpark, hows: Sequence[WorkerSettings]
) -> tuple[DataFrame, int]:
    schema = spark_schema(schema_of(hows))
    if isinstance(reading, SharedBySpark):
        streams = [{**names, "file": "file"} for names in reading.streams]
        work = on_workers(spark, sketch_rows_for_all, streams=streams, settings=tuple(hows))
        return reading.frame.mapInArrow(work, schema), reading.frame.rdd.getNumPartitions()
    tasks = reading.readings[0].tasks(spark.sparkContext.defaultParallelism)
    columns = [dict(one.columns) for one in reading.readings]
    work = on_workers(spark, sketch_row_groups_for_all, tasks=tasks, streams=columns, settings=tuple(hows))
    frame = spark.range(0, len(tasks), 1, max(1, len(tasks)))
    return frame.mapInArrow(work, schema), len(tasks)


def _partitions_for(spark: SparkSession, tasks: int) -> int:
    """Into how many parts the rows of so many tasks are dealt to be merged."""
    return max(spark.sparkContext.defaultParallelism, min(tasks, _MOST_PARTITIONS))


def spark_schema(schema: pa.Schema) -> str:
    """The schema of a worker's output, as Spark writes it."""
    words = {pa.string(): "string", pa.int64(): "bigint", pa.float64(): "double", pa.binary(): "binary"}
    return ", ".join(f"`{field.name}` {words[field.type]}" for field in schema)


def _tasks_done(context: SparkContext, name: str) -> tuple[int, int]:
    tracker = context.statusTracker()
    finished = total = 0
    for job in tracker.getJobIdsForGroup(name):
        info = tracker.getJobInfo(job)
        for stage in info.stageIds if info is not None else ():
            state = tracker.getStageInfo(stage)
            if state is not None:
                finished += state.numCompletedTasks
                total += state.numTasks
    return finished, total
