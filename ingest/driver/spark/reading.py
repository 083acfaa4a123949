"""Files that Spark reads: expressions, and formats other than Parquet. Rows go through the JVM."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as spark_functions
from pyspark.sql.pandas.types import to_arrow_schema

from ingest.driver.configuration.settings import SettingsError, StreamSettings
from ingest.driver.files.file_faults import parquet_heads
from ingest.driver.files.input_files import base_path
from ingest.driver.files.parquet_types import alike_types
from ingest.driver.files.text_files import alike_headers, reader_options
from ingest.driver.session.spark import first_line


@dataclass(frozen=True, slots=True)
class SparkReading:
    """Spark reads the files and evaluates the expressions; rows go through the JVM."""

    frame: DataFrame
    types: Mapping[str, Sequence[pa.DataType]]


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
    frames = [_read(settings, picked, group, spark) for group in _alike(settings, paths)]
    schemas = [to_arrow_schema(frame.schema, timezone="UTC") for frame in frames]
    try:
        whole = reduce(DataFrame.union, frames)
    except PySparkException as error:
        raise SettingsError(f"the files of stream {settings.name!r} do not go together: {first_line(error)}") from None
    return whole, {name: list(dict.fromkeys(schema.field(name).type for schema in schemas)) for name in picked}


def _alike(settings: StreamSettings, paths: Sequence[str]) -> list[list[str]]:
    """The files in groups that Spark can give one schema each."""
    if settings.format != "parquet" or settings.schema or settings.options:
        return [list(group) for group in alike_headers(settings, paths)]
    heads = zip(paths, parquet_heads(paths), strict=True)
    return alike_types({path: pa.schema([]) if isinstance(head, str) else head[0] for path, head in heads})


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
