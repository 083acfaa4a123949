"""Spark at work: from files to one table of sketches by source and epoch, and a tally of what was read.

A file that cannot be read, or that changes under the reader, is left out and the rest is done again: the table never
holds a part of a file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final
from urllib.parse import unquote, urlparse

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ingest.columns import Limits
from ingest.inputs import FoundFile, unchanged
from ingest.progress import Progress
from ingest.reading import ParquetReading, SparkReading, checked_kind, read_parquet, read_with_spark
from ingest.session import JobError, first_line
from ingest.settings import StreamSettings
from ingest.shipping import on_workers
from ingest.tally import Tally
from ingest.worker import Recipe, merge
from sketches.events import MAX_TIME, Kind

_MOST_ATTEMPTS: Final = 20  # each without one more file that cannot be read
_MOST_PARTITIONS: Final = 200
_FEW_TASKS: Final = 4
_BATCH_BYTES: Final = 64 << 20

Reading = ParquetReading | SparkReading


@dataclass(frozen=True, slots=True)
class Sketches:
    """The rows of `ingest.worker` for some files, which files these are, and why others were left out."""

    kind: Kind | None
    table: pa.Table
    tally: Tally
    files: Sequence[FoundFile]
    unreadable: Mapping[str, str]


def sketch_files(
    settings: StreamSettings,
    files: Sequence[FoundFile],
    kind: Kind | None,
    spark: SparkSession,
    started: datetime,
    progress: Progress,
    within: tuple[int, int] | None = None,
) -> Sketches:
    """Sketch whole files; of their events only those `within` a range of times, if one is given."""
    left = list(files)
    unreadable: dict[str, str] = {}
    for _ in range(_MOST_ATTEMPTS):
        try:
            reading, broken = read(settings, left, lambda: spark)
        except PySparkException as error:
            raise JobError(f"Spark could not read the files: {first_line(error)}") from error
        unreadable |= broken
        left = [file for file in left if file.path not in unreadable]
        if not left:
            break
        recipe = make_recipe(settings, reading, kind, started, within)
        try:
            with progress.watching(spark.sparkContext, f"sketching {settings.name}"):
                table = _collect(spark, reading, recipe)
        except Exception as error:
            culprits = _named_in(error, left)
            if not culprits:
                raise JobError(f"Spark could not do it: {first_line(error)} (--verbose shows more)") from error
            unreadable |= culprits
        else:
            moved = {file.path: "it changed while it was read" for file in left if not unchanged(file)}
            if not moved:
                tally, rows = _split(table)
                return Sketches(recipe.limits.kind, rows, tally, left, unreadable)
            unreadable |= moved
        left = [file for file in left if file.path not in unreadable]
        if not left:
            break
    return Sketches(
        kind,
        empty_table(settings),
        Tally(),
        [],
        unreadable | dict.fromkeys((f.path for f in left), "too many files failed before it"),
    )


def read(
    settings: StreamSettings, files: Sequence[FoundFile], spark: Callable[[], SparkSession]
) -> tuple[Reading, dict[str, str]]:
    """The way these files are read, and which are no whole files; Spark starts only where it is needed."""
    paths = [file.path for file in files]
    direct, broken = read_parquet(settings, paths)
    return (direct, broken) if direct is not None else (read_with_spark(settings, paths, spark()), {})


def make_recipe(
    settings: StreamSettings,
    reading: Reading,
    kind: Kind | None,
    started: datetime,
    within: tuple[int, int] | None = None,
) -> Recipe:
    """What every worker is to do, settled by the driver. A range that is asked for may be as old as it likes."""
    unit = settings.unit
    now = int(started.replace(tzinfo=UTC).timestamp() * unit.denominator / unit.numerator)
    latest = MAX_TIME if settings.max_future is None else min(MAX_TIME, now + settings.max_future)
    earliest = -MAX_TIME if settings.max_age is None or within is not None else max(-MAX_TIME, now - settings.max_age)
    limits = Limits(checked_kind(settings, reading.types, kind), unit, earliest, latest)
    families = tuple((family, settings.build_keywords(family)) for family in settings.families)
    return Recipe(limits, settings.epoch, families, within)


def empty_table(settings: StreamSettings) -> pa.Table:
    families = tuple((family, settings.build_keywords(family)) for family in settings.families)
    return Recipe(Limits(Kind.INTEGER, settings.unit), settings.epoch, families).schema.empty_table()


def _named_in(error: BaseException, files: Sequence[FoundFile]) -> dict[str, str]:
    """The files that an error of Spark names."""
    text = unquote(str(error))
    named = [file.path for file in files if file.path in text]
    longest = [path for path in named if not any(path != other and path in other for other in named)]
    return {path: _reason(text, path) for path in longest}


def _reason(text: str, path: str) -> str:
    lines = [line.strip() for line in text.splitlines() if path in line]
    return lines[0].removeprefix("ingest.worker.UnreadableError: ")[:300] if lines else "Spark cannot read it"


def _collect(spark: SparkSession, reading: Reading, recipe: Recipe) -> pa.Table:
    """Partial sketches from every task, merged by source and epoch, as one table here.

    The workers merge them, but for the few that a small run has: the way through a shuffle would take longer.
    """
    frame, tasks = reading.sketches(spark, recipe)
    if tasks == 0:
        return recipe.schema.empty_table()
    if tasks <= _FEW_TASKS:
        return pa.Table.from_batches(merge(_sorted(frame.toArrow(), recipe.schema), recipe), recipe.schema)
    partitions = max(spark.sparkContext.defaultParallelism, min(tasks, _MOST_PARTITIONS))
    sorted_rows = frame.repartition(partitions, "source", "start").sortWithinPartitions("source", "start")
    return sorted_rows.mapInArrow(on_workers(spark, "merge", recipe=recipe), frame.schema).toArrow()


def _sorted(table: pa.Table, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows by source and epoch, in batches of bounded size; all payloads together may be larger than an array."""
    wide = [field.with_type(pa.large_binary()) if field.type == pa.binary() else field for field in schema]
    rows = table.cast(pa.schema(wide)).sort_by([("source", "ascending"), ("start", "ascending")])
    size = max(1, rows.num_rows * _BATCH_BYTES // max(1, rows.nbytes))
    for start in range(0, rows.num_rows, size):
        yield from rows.slice(start, size).cast(schema).combine_chunks().to_batches()


def _split(table: pa.Table) -> tuple[Tally, pa.Table]:
    """The tallies of all tasks as one, and the rows with sketches."""
    tally = Tally()
    for data in table["tally"].drop_null().to_pylist():
        tally.merge_bytes(data)
    tally.files = {_path_of(name): file for name, file in tally.files.items()}
    return tally, table.filter(pc.is_valid(table["source"]))


def _path_of(name: str) -> str:
    """Spark names a file by its address."""
    return unquote(urlparse(name).path) if name.startswith("file:") else name
