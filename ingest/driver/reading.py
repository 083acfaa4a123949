"""From input files to a DataFrame of partial sketches: who reads the rows, and which task reads which part.

Moving rows from the JVM to Python takes most of the time. So where a stream takes plain columns of Parquet files, tasks
read these themselves. Spark reads everything else: expressions and other formats. Both ways end in the same function of
Arrow batches.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as spark_functions
from pyspark.sql.pandas.types import to_arrow_schema

from ingest.driver.configuration.settings import SettingsError, StreamSettings
from ingest.driver.files.file_faults import parquet_heads
from ingest.driver.files.text_files import alike_headers, reader_options
from ingest.driver.session.shipping import on_workers
from ingest.driver.session.spark import first_line
from ingest.executor.worker import RowGroup, sketch_row_groups, sketch_rows
from ingest.executor.worker_settings import WorkerSettings
from sketches.event_rules import ROLES, PlainColumn

_TASK_ROWS: Final = 8_000_000  # a worker sketches a chunk of them at a time; more in a task cost nothing


@dataclass(frozen=True, slots=True)
class ParquetReading:
    """Tasks read row groups of Parquet files by themselves."""

    columns: Mapping[str, PlainColumn]
    row_groups: Sequence[RowGroup]
    types: Mapping[str, Sequence[pa.DataType]]

    @property
    def rows(self) -> int:
        return sum(group.rows for group in self.row_groups)

    def tasks(self, cores: int) -> list[list[RowGroup]]:
        """The row groups in order, dealt evenly to a multiple of the cores. Few tasks leave little to merge."""
        cores = max(1, cores)
        rounds = -(-self.rows // (_TASK_ROWS * cores))
        share = max(1, -(-self.rows // max(1, rounds * cores)))
        tasks: list[list[RowGroup]] = []
        passed = 0
        for group in self.row_groups:
            number = (passed + group.rows // 2) // share
            while len(tasks) <= number:
                tasks.append([])
            tasks[number].append(group)
            passed += group.rows
        return [task for task in tasks if task]

    def sketches(self, spark: SparkSession, how: WorkerSettings) -> tuple[DataFrame, int]:
        tasks = self.tasks(spark.sparkContext.defaultParallelism)
        work = on_workers(spark, sketch_row_groups, tasks=tasks, columns=dict(self.columns), settings=how)
        frame = spark.range(0, len(tasks), 1, max(1, len(tasks)))
        return frame.mapInArrow(work, spark_schema(how.schema)), len(tasks)


@dataclass(frozen=True, slots=True)
class SparkReading:
    """Spark reads the files and evaluates the expressions; rows go through the JVM."""

    frame: DataFrame
    types: Mapping[str, Sequence[pa.DataType]]

    def sketches(self, spark: SparkSession, how: WorkerSettings) -> tuple[DataFrame, int]:
        work = on_workers(spark, sketch_rows, settings=how)
        return self.frame.mapInArrow(work, spark_schema(how.schema)), self.frame.rdd.getNumPartitions()


def spark_schema(schema: pa.Schema) -> str:
    """The schema of a worker's output, as Spark writes it."""
    words = {pa.string(): "string", pa.int64(): "bigint", pa.float64(): "double", pa.binary(): "binary"}
    return ", ".join(f"`{field.name}` {words[field.type]}" for field in schema)


def plain_columns(settings: StreamSettings) -> dict[str, PlainColumn] | None:
    """The parts of an event as columns and constants; None where one is an expression, which Spark must evaluate."""
    if settings.format != "parquet" or settings.schema or settings.options:
        return None
    found = {part: PlainColumn.read(expression) for part, expression in settings.parts.items()}
    plain = {part: column for part, column in found.items() if column is not None}
    return plain if len(plain) == len(found) else None


def read_parquet(settings: StreamSettings, paths: Sequence[str]) -> tuple[ParquetReading | None, dict[str, str]]:
    """How tasks read these files, and which files are not whole; None where Spark must read them."""
    columns = plain_columns(settings)
    if columns is None or not paths:
        return None, {}
    heads = parquet_heads(paths)
    broken = {path: head for path, head in zip(paths, heads, strict=True) if isinstance(head, str)}
    row_groups: list[RowGroup] = []
    types: dict[str, list[pa.DataType]] = {part: [] for part in columns}
    for path, head in zip(paths, heads, strict=True):
        if isinstance(head, str):
            continue
        schema, groups = head
        for part, plain in columns.items():
            if plain.column is not None and plain.column not in schema.names:
                if part in ROLES or _elsewhere(plain.column, path, schema):
                    return None, {}  # in other letters, in the name of a folder, or nowhere: Spark will tell
                continue  # of a field: the file was written before there was such a column
            found = pa.scalar(plain.constant).type if plain.column is None else schema.field(plain.column).type
            if part == "source" and pa.types.is_dictionary(found):
                found = found.value_type
            if found not in types[part]:
                types[part].append(found)
        row_groups += [RowGroup(path, number, rows) for number, rows in enumerate(groups)]
    if row_groups and not all(types.values()):
        return None, {}  # no file has the column of a field
    return ParquetReading(columns, row_groups, types), broken


def _elsewhere(column: str, path: str, schema: pa.Schema) -> bool:
    """Whether a file has a column in other letters, or one of its folders is named for it."""
    name = column.lower()
    return any(other.lower() == name for other in schema.names) or any(
        part.lower().startswith(f"{name}=") for part in Path(path).parts
    )


def read_with_spark(settings: StreamSettings, paths: Sequence[str], spark: SparkSession) -> SparkReading:
    """A DataFrame with a column for each part of an event and for the name of the file. Refuses bad expressions."""
    picked = {part: (settings, part) for part in settings.parts}
    frame, types = evaluated_by_spark(picked, paths, spark)
    return SparkReading(frame, types)


def evaluated_by_spark(
    picked: Mapping[str, tuple[StreamSettings, str]], paths: Sequence[str], spark: SparkSession
) -> tuple[DataFrame, dict[str, list[pa.DataType]]]:
    """A DataFrame with columns of these names, each a part of a stream's events, and the name of the file; and which
    types each of the columns has. All streams read the files alike."""
    settings = next(iter(picked.values()))[0]
    frames = [_read(settings, picked, group, spark) for group in alike_headers(settings, paths)]
    schemas = [to_arrow_schema(frame.schema, timezone="UTC") for frame in frames]
    try:
        whole = reduce(DataFrame.union, frames)
    except PySparkException as error:
        raise SettingsError(f"the files of stream {settings.name!r} do not go together: {first_line(error)}") from None
    return whole, {name: list(dict.fromkeys(schema.field(name).type for schema in schemas)) for name in picked}


def base_path(settings: StreamSettings) -> str:
    """The folder below which Spark takes folders named key=value for columns."""
    return os.path.commonpath([_base(pattern) for pattern in settings.inputs])


def _read(
    settings: StreamSettings,
    picked: Mapping[str, tuple[StreamSettings, str]],
    paths: Sequence[str],
    spark: SparkSession,
) -> DataFrame:
    options = reader_options(settings)
    options.setdefault("basePath", "file://" + base_path(settings))
    reader = spark.read.format(settings.format).options(**options)
    try:
        if settings.schema is not None:
            reader = reader.schema(settings.schema)
        raw = reader.load([_address(path) for path in paths])
    except (PySparkException, Py4JJavaError) as error:  # the latter where it looks into the files for their columns
        raise SettingsError(
            f"stream {settings.name!r} cannot be read as {settings.format}: {first_line(error)}"
        ) from None
    columns = [_evaluated(stream, raw, part).alias(name) for name, (stream, part) in picked.items()]
    return raw.select(*columns, spark_functions.col("_metadata.file_path").alias("file"))


def _address(path: str) -> str:
    """A path as Hadoop takes it: not encoded, with the characters of globs escaped."""
    return "file://" + re.sub(r"([*?\[\]{}\\])", r"\\\1", path)


def _base(pattern: str) -> str:
    """The folders of a glob before its first wildcard. Below them Spark takes folders named key=value for columns."""
    parts: list[str] = []
    for part in Path(pattern).parts:
        if re.search(r"[*?\[]", part):
            break
        parts.append(part)
    folder = Path(*parts)
    return str(folder if folder.is_dir() else folder.parent)


def _evaluated(settings: StreamSettings, raw: DataFrame, part: str) -> Column:
    """The column of an expression, after checks that it makes one value of one row, the same at any time."""
    expression = settings.parts[part]
    where = f"{part} of stream {settings.name!r} is {expression!r}"
    try:
        column = spark_functions.expr(expression)
        plan = raw.select(column)._jdf.queryExecution().analyzed()
    except PySparkException as error:
        raise SettingsError(f"{where}, which Spark cannot read: {first_line(error)}") from None
    one_value_a_row = _operators(plan) == ["Project", *_operators(raw._jdf.queryExecution().analyzed())]
    if not plan.subqueriesAll().isEmpty() or not one_value_a_row or plan.output().size() != 1:
        raise SettingsError(f"{where}; an expression makes one value of the columns of its own row, without a query")
    jvm: Any = raw.sparkSession._jvm
    patterns = jvm.org.apache.spark.sql.catalyst.trees.TreePattern
    if not plan.deterministic() or plan.containsPattern(patterns.CURRENT_LIKE()):
        raise SettingsError(
            f"{where}; an expression must give the same result whenever a row is read (for the name of the file use "
            "_metadata.file_name)"
        )
    return column


def _operators(plan: Any) -> list[str]:
    """The names of a plan's operators from the top down, until one has no input or several."""
    names = [str(plan.nodeName())]
    while plan.children().size() == 1:
        plan = plan.children().head()
        names.append(str(plan.nodeName()))
    return names
