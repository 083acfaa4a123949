"""Streams over one input are sketched together: each file is read once, however many streams name it.

That goes for streams whose new files are the same and are read alike. Where something is in the way of one of them (a
file that cannot be read, an expression that Spark refuses), nothing is kept of the attempt: each stream is then
sketched by itself, which finds out what it is and whom it concerns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from ingest.driver.configuration.settings import StreamSettings
from ingest.driver.configuration.stream_kinds import checked_kinds
from ingest.driver.files.file_faults import looked_at
from ingest.driver.files.input_files import unchanged
from ingest.driver.progress import Progress
from ingest.driver.reading import ParquetReading, base_path, evaluated_by_spark, read_parquet, spark_schema
from ingest.driver.session.shipping import on_workers
from ingest.driver.session.spark import SparkError
from ingest.driver.sketching import FEW_TASKS, SketchedFiles, in_order, partitions_for, split_tallies, worker_settings
from ingest.driver.stream_work import StreamWork
from ingest.executor.one_pass import (
    NUMBER,
    merge_for_all,
    rows_of,
    schema_of,
    sketch_row_groups_for_all,
    sketch_rows_for_all,
)
from ingest.executor.worker import merge
from ingest.executor.worker_settings import WorkerSettings
from sketches.errors import WaneError
from sketches.formatting import listed


@dataclass(frozen=True, slots=True)
class _ParquetReading:
    """Tasks read row groups of Parquet files by themselves, with the columns of all streams."""

    readings: Sequence[ParquetReading]

    def types(self, number: int) -> Mapping[str, Sequence[pa.DataType]]:
        return self.readings[number].types

    def sketches(self, spark: SparkSession, hows: Sequence[WorkerSettings]) -> tuple[DataFrame, int]:
        tasks = self.readings[0].tasks(spark.sparkContext.defaultParallelism)
        streams = [dict(reading.columns) for reading in self.readings]
        work = on_workers(spark, sketch_row_groups_for_all, tasks=tasks, streams=streams, settings=tuple(hows))
        frame = spark.range(0, len(tasks), 1, max(1, len(tasks)))
        return frame.mapInArrow(work, spark_schema(schema_of(hows))), len(tasks)


@dataclass(frozen=True, slots=True)
class _SparkReading:
    """Spark reads the files and evaluates the expressions of all streams, the same expression once."""

    frame: DataFrame
    found: Mapping[str, Sequence[pa.DataType]]
    streams: Sequence[Mapping[str, str]]  # of each the names of its columns by part

    def types(self, number: int) -> Mapping[str, Sequence[pa.DataType]]:
        return {part: self.found[name] for part, name in self.streams[number].items()}

    def sketches(self, spark: SparkSession, hows: Sequence[WorkerSettings]) -> tuple[DataFrame, int]:
        streams = [{**names, "file": "file"} for names in self.streams]
        work = on_workers(spark, sketch_rows_for_all, streams=streams, settings=tuple(hows))
        return self.frame.mapInArrow(work, spark_schema(schema_of(hows))), self.frame.rdd.getNumPartitions()


def sketched_together(
    works: Sequence[StreamWork],
    spark: Callable[[], SparkSession],
    started: datetime,
    progress: Progress,
) -> dict[str, SketchedFiles]:
    """The new files of all streams that share them with another one, by the stream's name."""
    found: dict[str, SketchedFiles] = {}
    for some in _over_one_input(works):
        try:
            found |= _one_pass(some, spark(), started, progress)
        except SparkError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, each stream by itself will tell
            names = listed([work.settings.name for work in some])
            progress.say(f"{names} cannot be read in one pass ({type(error).__name__}); one after the other, then")
    return found


def _over_one_input(works: Sequence[StreamWork]) -> list[list[StreamWork]]:
    """The streams that have the same new files and read them alike, two or more at a time."""
    groups: dict[object, list[StreamWork]] = {}
    for work in works:
        if work.outcome.error is None and work.inputs.new:
            how = work.settings
            files = tuple((file.path, file.size, file.modified) for file in work.inputs.new)
            alike = how.format, how.schema, tuple(sorted(how.options.items())), base_path(how)
            groups.setdefault((alike, files), []).append(work)
    return [group for group in groups.values() if len(group) > 1]


class _NotTogetherError(WaneError):
    """Something concerns one of the streams alone."""


def _one_pass(
    works: Sequence[StreamWork], spark: SparkSession, started: datetime, progress: Progress
) -> dict[str, SketchedFiles]:
    files = works[0].inputs.new
    looked = works if works[0].settings.format == "parquet" else works[:1]  # at text as such, whatever is taken of it
    looks = [looked_at(work.settings, files, lambda: spark, work.kinds.value) for work in looked]
    if any(unreadable for unreadable, _ in looks):
        raise _NotTogetherError("a file cannot be read")
    empty = looks[0][1]
    left = [file for file in files if file not in empty]
    reading = _reading(works, [file.path for file in left], spark)
    kinds = [checked_kinds(work.settings, reading.types(at), work.kinds) for at, work in enumerate(works)]
    hows = [
        replace(worker_settings(work.settings, known, started), earlier=work.earlier)
        for work, known in zip(works, kinds, strict=True)
    ]
    names = [work.settings.name for work in works]
    with progress.watching(spark.sparkContext, f"sketching {listed(names)} in one pass"):
        tables = _collect(spark, reading, hows)
    if not all(unchanged(file) for file in left):
        raise _NotTogetherError("a file changed while it was read")
    found = {}
    for name, known, table in zip(names, kinds, tables, strict=True):
        tally, rows = split_tallies(table)
        progress.start.ended("workers", tally.first_row)
        found[name] = SketchedFiles(known, rows, tally, [*left, *empty], {})
    return found


def _reading(works: Sequence[StreamWork], paths: Sequence[str], spark: SparkSession) -> _ParquetReading | _SparkReading:
    direct = [read_parquet(work.settings, paths) for work in works]
    readings = [reading for reading, broken in direct if reading is not None and not broken]
    if len(readings) == len(works):
        return _ParquetReading(readings)
    picked: dict[str, tuple[StreamSettings, str]] = {}
    streams: list[dict[str, str]] = []
    numbers: dict[str, str] = {}
    for work in works:
        own = {}
        for part, expression in work.settings.parts.items():
            own[part] = numbers.setdefault(expression, f"column {len(numbers)}")
            picked.setdefault(own[part], (work.settings, part))
        streams.append(own)
    try:
        frame, types = evaluated_by_spark(picked, paths, spark)
    except PySparkException as error:
        raise _NotTogetherError(str(error)) from error
    return _SparkReading(frame, types, streams)


def _collect(
    spark: SparkSession, reading: _ParquetReading | _SparkReading, hows: Sequence[WorkerSettings]
) -> list[pa.Table]:
    """For each stream the partial sketches of all tasks, merged."""
    frame, tasks = reading.sketches(spark, hows)
    if tasks <= FEW_TASKS:
        table = frame.toArrow()
        own = [rows_of(table, number, how) for number, how in enumerate(hows)]
        return [
            pa.Table.from_batches(merge(in_order(rows, how.schema), how), how.schema)
            for rows, how in zip(own, hows, strict=True)
        ]
    keys = (NUMBER, "source", "start")
    sorted_rows = frame.repartition(partitions_for(spark, tasks), *keys).sortWithinPartitions(*keys)
    work = on_workers(spark, merge_for_all, settings=tuple(hows))
    table = sorted_rows.mapInArrow(work, frame.schema).toArrow()
    return [rows_of(table, number, how).cast(how.schema) for number, how in enumerate(hows)]
