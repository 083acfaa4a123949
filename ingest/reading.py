"""From input files to a DataFrame of partial sketches: which way the rows go, and who reads which part.

Rows on their way from the JVM to Python are the bottleneck, so where a stream takes plain columns of Parquet files,
tasks read these themselves; everything else (expressions, other formats) is read by Spark. Both ways end in the same
function of Arrow batches.
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

from ingest.columns import kind_of, type_fault
from ingest.session import first_line
from ingest.settings import ROLES, SettingsError, StreamSettings
from ingest.shipping import on_workers
from ingest.worker import Piece, Plain, Recipe
from sketches.events import Kind

_NAME: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_QUOTED_NAME: Final = re.compile(r"`([^`]+)`")
_NUMBER: Final = re.compile(r"-?[0-9]{1,18}")
_TEXT: Final = re.compile(r"'([^'\\]*)'")
_CONSTANTS: Final = ("true", "false", "null")  # names to a regular expression, not to SQL
_TASK_ROWS: Final = 8_000_000  # a worker sketches a chunk of them at a time; more in a task cost nothing
_WIDEST: Final = (Kind.INTEGER, Kind.FLOAT, Kind.KEY)


@dataclass(frozen=True, slots=True)
class ParquetReading:
    """Tasks read row groups of Parquet files by themselves."""

    columns: Mapping[str, Plain]
    pieces: Sequence[Piece]
    types: Mapping[str, Sequence[pa.DataType]]

    @property
    def rows(self) -> int:
        return sum(piece.rows for piece in self.pieces)

    def tasks(self, cores: int) -> list[list[Piece]]:
        """The pieces in their order, dealt evenly to few tasks, a whole number a core: the fewer, the less to merge."""
        cores = max(1, cores)
        rounds = -(-self.rows // (_TASK_ROWS * cores))
        share = max(1, -(-self.rows // max(1, rounds * cores)))
        tasks: list[list[Piece]] = []
        passed = 0
        for piece in self.pieces:
            number = (passed + piece.rows // 2) // share
            while len(tasks) <= number:
                tasks.append([])
            tasks[number].append(piece)
            passed += piece.rows
        return [task for task in tasks if task]

    def sketches(self, spark: SparkSession, recipe: Recipe) -> tuple[DataFrame, int]:
        tasks = self.tasks(spark.sparkContext.defaultParallelism)
        work = on_workers(spark, "sketch_pieces", tasks=tasks, columns=dict(self.columns), recipe=recipe)
        frame = spark.range(0, len(tasks), 1, max(1, len(tasks)))
        return frame.mapInArrow(work, spark_schema(recipe)), len(tasks)


@dataclass(frozen=True, slots=True)
class SparkReading:
    """Spark reads the files and evaluates the expressions; rows go through the JVM."""

    frame: DataFrame
    types: Mapping[str, Sequence[pa.DataType]]

    def sketches(self, spark: SparkSession, recipe: Recipe) -> tuple[DataFrame, int]:
        work = on_workers(spark, "sketch_rows", recipe=recipe)
        return self.frame.mapInArrow(work, spark_schema(recipe)), self.frame.rdd.getNumPartitions()


def spark_schema(recipe: Recipe) -> str:
    """The worker's output as Spark's words for it."""
    words = {pa.string(): "string", pa.int64(): "bigint", pa.float64(): "double", pa.binary(): "binary"}
    return ", ".join(f"`{field.name}` {words[field.type]}" for field in recipe.schema)


def plain_columns(settings: StreamSettings) -> dict[str, Plain] | None:
    """The roles as columns and constants, where all of them are so simple; None where Spark is needed."""
    if settings.format != "parquet" or settings.schema or settings.options:
        return None
    found = {}
    for role, expression in settings.expressions.items():
        if _NAME.fullmatch(expression) and expression.lower() not in _CONSTANTS:
            found[role] = Plain(expression)
        elif match := _QUOTED_NAME.fullmatch(expression):
            found[role] = Plain(match[1])
        elif _NUMBER.fullmatch(expression):
            found[role] = Plain(None, int(expression))
        elif match := _TEXT.fullmatch(expression):
            found[role] = Plain(None, match[1])
        else:
            return None
    return found


def read_parquet(settings: StreamSettings, paths: Sequence[str]) -> tuple[ParquetReading | None, dict[str, str]]:
    """How tasks read these files, and which files are not whole; nothing where Spark must read them."""
    columns = plain_columns(settings)
    if columns is None or not paths:
        return None, {}
    with ThreadPoolExecutor(min(16, 4 * (os.cpu_count() or 1))) as threads:
        heads = list(threads.map(_head, paths))
    broken = {path: head for path, head in zip(paths, heads, strict=True) if isinstance(head, str)}
    pieces: list[Piece] = []
    types: dict[str, list[pa.DataType]] = {role: [] for role in ROLES}
    for path, head in zip(paths, heads, strict=True):
        if isinstance(head, str):
            continue
        schema, groups = head
        for role, plain in columns.items():
            if plain.column is not None and plain.column not in schema.names:
                return None, {}  # another spelling, a folder's name, or an error: Spark will tell
            found = pa.scalar(plain.literal).type if plain.column is None else schema.field(plain.column).type
            if role == "source" and pa.types.is_dictionary(found):
                found = found.value_type
            if found not in types[role]:
                types[role].append(found)
        pieces += [Piece(path, number, number + 1, rows) for number, rows in enumerate(groups)]
    return ParquetReading(columns, pieces, types), broken


def _head(path: str) -> tuple[pa.Schema, list[int]] | str:
    """The columns of a Parquet file and the rows of each row group, or why it cannot be read."""
    try:
        with pq.ParquetFile(path) as file:
            groups = [file.metadata.row_group(number).num_rows for number in range(file.num_row_groups)]
            return file.schema_arrow, groups
    except (OSError, pa.ArrowException) as error:
        return f"not a whole Parquet file ({str(error).splitlines()[0][:200]})"


def read_with_spark(settings: StreamSettings, paths: Sequence[str], spark: SparkSession) -> SparkReading:
    """A DataFrame with a column for each role and the file's name; what is wrong with an expression is said plainly."""
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
    """A path as Hadoop takes it: nothing encoded, and no character of it a glob."""
    return "file://" + re.sub(r"([*?\[\]{}\\])", r"\\\1", path)


def _base(pattern: str) -> str:
    """The folder down to which a glob is plain: below it Spark takes folders named key=value for columns."""
    parts: list[str] = []
    for part in Path(pattern).parts:
        if re.search(r"[*?\[]", part):
            break
        parts.append(part)
    folder = Path(*parts)
    return str(folder if folder.is_dir() else folder.parent)


def _evaluated(settings: StreamSettings, raw: DataFrame, role: str) -> Column:
    """The column of a role, once it is clear that the expression is one, and looks at nothing but its row."""
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
    """The names of a plan's operators from the top to the first that has several inputs or none."""
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
