"""From input files to a DataFrame of partial sketches: who reads the rows, and which task reads which part.

Moving rows from the JVM to Python takes most of the time. So where a stream takes plain columns of Parquet files, tasks
read these themselves. Spark reads everything else: expressions and other formats. Both ways end in the same function of
Arrow batches.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as spark_functions
from pyspark.sql.pandas.types import to_arrow_schema

from ingest.driver.settings import SettingsError, StreamSettings
from ingest.driver.shipping import on_workers
from ingest.driver.spark import first_line
from ingest.executor.columns import kind_of, type_fault
from ingest.executor.worker import RowGroup
from ingest.executor.worker_settings import WorkerSettings
from sketches.event_rules import ROLES, PlainColumn
from sketches.events import Kind

_TASK_ROWS: Final = 8_000_000  # a worker sketches a chunk of them at a time; more in a task cost nothing
_WIDEST: Final = (Kind.INTEGER, Kind.FLOAT, Kind.KEY)


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
        work = on_workers(spark, "sketch_row_groups", tasks=tasks, columns=dict(self.columns), settings=how)
        frame = spark.range(0, len(tasks), 1, max(1, len(tasks)))
        return frame.mapInArrow(work, spark_schema(how)), len(tasks)


@dataclass(frozen=True, slots=True)
class SparkReading:
    """Spark reads the files and evaluates the expressions; rows go through the JVM."""

    frame: DataFrame
    types: Mapping[str, Sequence[pa.DataType]]

    def sketches(self, spark: SparkSession, how: WorkerSettings) -> tuple[DataFrame, int]:
        work = on_workers(spark, "sketch_rows", settings=how)
        return self.frame.mapInArrow(work, spark_schema(how)), self.frame.rdd.getNumPartitions()


def spark_schema(how: WorkerSettings) -> str:
    """The schema of a worker's output, as Spark writes it."""
    words = {pa.string(): "string", pa.int64(): "bigint", pa.float64(): "double", pa.binary(): "binary"}
    return ", ".join(f"`{field.name}` {words[field.type]}" for field in how.schema)


def plain_columns(settings: StreamSettings) -> dict[str, PlainColumn] | None:
    """The parts of an event as columns and constants; None where one is an expression, which Spark must evaluate."""
    if settings.format != "parquet" or settings.schema or settings.options:
        return None
    found = {role: PlainColumn.read(expression) for role, expression in settings.expressions.items()}
    plain = {role: column for role, column in found.items() if column is not None}
    return plain if len(plain) == len(found) else None


def read_parquet(settings: StreamSettings, paths: Sequence[str]) -> tuple[ParquetReading | None, dict[str, str]]:
    """How tasks read these files, and which files are not whole; None where Spark must read them."""
    columns = plain_columns(settings)
    if columns is None or not paths:
        return None, {}
    with ThreadPoolExecutor(min(16, 4 * (os.cpu_count() or 1))) as threads:
        heads = list(threads.map(_head, paths))
    broken = {path: head for path, head in zip(paths, heads, strict=True) if isinstance(head, str)}
    row_groups: list[RowGroup] = []
    types: dict[str, list[pa.DataType]] = {role: [] for role in ROLES}
    for path, head in zip(paths, heads, strict=True):
        if isinstance(head, str):
            continue
        schema, groups = head
        for role, plain in columns.items():
            if plain.column is not None and plain.column not in schema.names:
                return None, {}  # in other letters, in the name of a folder, or nowhere: Spark will tell
            found = pa.scalar(plain.constant).type if plain.column is None else schema.field(plain.column).type
            if role == "source" and pa.types.is_dictionary(found):
                found = found.value_type
            if found not in types[role]:
                types[role].append(found)
        row_groups += [RowGroup(path, number, rows) for number, rows in enumerate(groups)]
    return ParquetReading(columns, row_groups, types), broken


def _head(path: str) -> tuple[pa.Schema, list[int]] | str:
    """The columns of a Parquet file and the rows of each row group, or why it cannot be read."""
    try:
        with pq.ParquetFile(path) as file:
            groups = [file.metadata.row_group(number).num_rows for number in range(file.num_row_groups)]
            return file.schema_arrow, groups
    except (OSError, pa.ArrowException) as error:
        return f"not a whole Parquet file ({str(error).splitlines()[0][:200]})"


def read_with_spark(settings: StreamSettings, paths: Sequence[str], spark: SparkSession) -> SparkReading:
    """A DataFrame with a column for each part of an event and for the name of the file. Refuses bad expressions."""
    options = dict(settings.options)
    if settings.format == "csv":
        options.setdefault("header", "true")
        if settings.schema is None:
            options.setdefault("inferSchema", "true")
    options.setdefault("basePath", "file://" + os.path.commonpath([_base(pattern) for pattern in settings.inputs]))
    reader = spark.read.format(settings.format).options(**options)
    try:
        if settings.schema is not None:
            reader = reader.schema(settings.schema)
        raw = reader.load([_address(path) for path in paths])
    except PySparkException as error:
        raise SettingsError(
            f"stream {settings.name!r} cannot be read as {settings.format}: {first_line(error)}"
        ) from None
    picked = [_evaluated(settings, raw, role).alias(role) for role in ROLES]
    frame = raw.select(*picked, spark_functions.col("_metadata.file_path").alias("file"))
    fields = to_arrow_schema(frame.select(*ROLES).schema, timezone="UTC")
    return SparkReading(frame, {role: [fields.field(role).type] for role in ROLES})


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


def _evaluated(settings: StreamSettings, raw: DataFrame, role: str) -> Column:
    """The column of an expression, after checks that it makes one value of one row, the same at any time."""
    where = f"{role} of stream {settings.name!r} is {settings.expressions[role]!r}"
    try:
        column = spark_functions.expr(settings.expressions[role])
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


def checked_kind(settings: StreamSettings, types: Mapping[str, Sequence[pa.DataType]], stored: Kind | None) -> Kind:
    """The kind of the stream's values, after a look at the types of all columns."""
    for role in ROLES:
        for found in types[role]:
            if (fault := type_fault(role, found)) is not None:
                raise SettingsError(
                    f"{role} of stream {settings.name!r} is {settings.expressions[role]!r}, of type {found}; {fault}"
                )
    if stored is not None:
        return stored
    kinds = [kind for found in types["value"] if (kind := kind_of(found)) is not None]
    return max(kinds, key=_WIDEST.index, default=Kind.INTEGER)
