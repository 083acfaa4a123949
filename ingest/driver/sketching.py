"""Sketching files with Spark: one table of totals and sketches, and a tally of what was read.

A file that cannot be read, or that changes while it is read, is left out, and the others are read again: the table
never holds a part of a file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import unquote, urlparse

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ingest.driver.configuration.settings import SettingsError, StreamSettings
from ingest.driver.configuration.stream_kinds import StreamKinds, checked_kinds
from ingest.driver.files.file_faults import damaged_files, looked_at
from ingest.driver.files.input_files import FoundFile, unchanged
from ingest.driver.progress import Progress
from ingest.driver.reading import ParquetReading, SparkReading, read_parquet, read_with_spark
from ingest.driver.session.shipping import on_workers
from ingest.driver.session.spark import JobError, first_line, java_reached
from ingest.executor.columns import Conversion
from ingest.executor.tally import Tally
from ingest.executor.worker import merge
from ingest.executor.worker_settings import EarlierEpochs, WorkerSettings
from sketches.event_rules import MAX_TIME
from sketches.events import Kind
from sketches.family import Sketch
from sketches.fields import FieldKind
from sketches.registry import FAMILIES
from sketches.units import TimeUnit

_MOST_ATTEMPTS: Final = 20  # each leaves out one more file that cannot be read
_MOST_PARTITIONS: Final = 200
FEW_TASKS: Final = 4
_BATCH_BYTES: Final = 64 << 20

Reading = ParquetReading | SparkReading


@dataclass(frozen=True, slots=True)
class SketchedFiles:
    """The rows of `ingest.executor.worker` for some files, which files these are, and why others were left out."""

    kinds: StreamKinds
    table: pa.Table  # rows without a source hold sketches of the whole stream
    tally: Tally
    files: Sequence[FoundFile]
    unreadable: Mapping[str, str]


@java_reached()
def sketch_files(
    settings: StreamSettings,
    files: Sequence[FoundFile],
    kinds: StreamKinds,
    spark: SparkSession,
    started: datetime,
    progress: Progress,
    earlier: Mapping[str, EarlierEpochs],
    within: tuple[int, int] | None = None,
) -> SketchedFiles:
    """Sketch whole files; of their events only those `within` a range of times, if one is given."""
    unreadable, empty = looked_at(settings, files, lambda: spark, kinds.value)
    left = [file for file in files if file.path not in unreadable and file not in empty]
    for _ in range(_MOST_ATTEMPTS if left else 0):
        try:
            reading, broken = choose_reading(settings, left, lambda: spark)
        except PySparkException as error:
            raise JobError(f"Spark could not read the files: {first_line(error)}") from error
        unreadable |= broken
        left = [file for file in left if file.path not in unreadable]
        if not left:
            break
        known = checked_kinds(settings, reading.types, kinds)
        how = replace(worker_settings(settings, known, started, within), earlier=earlier)
        try:
            with progress.watching(spark.sparkContext, f"sketching {settings.name}"):
                table = _collect(spark, reading, how)
        except Exception as error:
            culprits = _named_in(error, left)
            if not culprits:
                raise JobError(f"Spark could not do it: {first_line(error)} (--verbose shows more)") from error
            unreadable |= damaged_files(settings, left) | culprits
        else:
            moved = {file.path: "it changed while it was read" for file in left if not unchanged(file)}
            if not moved:
                tally, rows = split_tallies(table)
                progress.start.ended("workers", tally.first_row)
                return SketchedFiles(known, rows, tally, [*left, *empty], unreadable)
            unreadable |= moved
        left = [file for file in left if file.path not in unreadable]
        if not left:
            break
    return SketchedFiles(
        kinds,
        empty_table(settings),
        Tally(),
        empty,
        unreadable | dict.fromkeys((f.path for f in left), "too many files failed before it"),
    )


def choose_reading(
    settings: StreamSettings, files: Sequence[FoundFile], spark: Callable[[], SparkSession]
) -> tuple[Reading, dict[str, str]]:
    """How these files are read, and which files are not whole. Spark starts only where it is needed."""
    paths = [file.path for file in files]
    direct, broken = read_parquet(settings, paths)
    return (direct, broken) if direct is not None else (read_with_spark(settings, paths, spark()), {})


def clock_of(moment: datetime, unit: TimeUnit) -> int:
    """A moment of UTC in units of a stream."""
    return int(moment.replace(tzinfo=UTC).timestamp() * unit.denominator / unit.numerator)


def worker_settings(
    settings: StreamSettings, kinds: StreamKinds, started: datetime, within: tuple[int, int] | None = None
) -> WorkerSettings:
    """What the driver tells every worker. For the range of a backfill, `max_age` does not hold."""
    now = clock_of(started, settings.unit)
    latest = MAX_TIME if settings.max_future is None else min(MAX_TIME, now + settings.max_future)
    earliest = -MAX_TIME if settings.max_age is None or within is not None else max(-MAX_TIME, now - settings.max_age)
    kind = kinds.value or Kind.INTEGER
    fields = {name: kinds.fields.get(name, FieldKind.INTEGER) for name in settings.fields}  # or has only nulls
    conversion = Conversion(kind, settings.unit, earliest, latest, now, settings.weight_step, fields)
    return WorkerSettings(conversion, settings.epoch, _families(settings, kind), within)


def _families(settings: StreamSettings, kind: Kind | None = None) -> tuple[tuple[type[Sketch], dict[str, Any]], ...]:
    """The families of a stream with the keywords of their `build`; each must take the kind of the stream's values."""
    chosen = [FAMILIES[name] for name in settings.families]
    for family in chosen:
        if kind is not None and kind not in family.abilities.kinds:
            raise SettingsError(
                f"family {family.family!r} takes values of kind {', '.join(family.abilities.kinds)}, but those of "
                f"stream {settings.name!r} are of kind {kind}"
            )
    return tuple((family, settings.build_keywords(family)) for family in chosen)


def empty_table(settings: StreamSettings) -> pa.Table:
    """No rows, in the schema of a worker's output but for tallies."""
    conversion = Conversion(Kind.INTEGER, settings.unit)
    schema = WorkerSettings(conversion, settings.epoch, _families(settings)).schema
    return schema.empty_table().drop_columns("tally")


def _named_in(error: BaseException, files: Sequence[FoundFile]) -> dict[str, str]:
    """The files that an error of Spark names, with the reason for each."""
    text = unquote(str(error))
    named = [file.path for file in files if file.path in text]
    longest = [path for path in named if not any(path != other and path in other for other in named)]
    return {path: _reason(text, path) for path in longest}


def _reason(text: str, path: str) -> str:
    lines = [line.strip() for line in text.splitlines() if path in line]
    return lines[0].removeprefix("ingest.executor.worker.UnreadableError: ")[:300] if lines else "Spark cannot read it"


def _collect(spark: SparkSession, reading: Reading, how: WorkerSettings) -> pa.Table:
    """Partial sketches from every task, merged by source and epoch or for the whole stream, as one table here.

    The workers merge them. Each task makes one of the whole stream, and these meet in one task, for their rows have no
    source. A small run has few sketches, which are merged here: a shuffle would take longer.
    """
    frame, tasks = reading.sketches(spark, how)
    if tasks == 0:
        return how.schema.empty_table()
    if tasks <= FEW_TASKS:
        return pa.Table.from_batches(merge(in_order(frame.toArrow(), how.schema), how), how.schema)
    sorted_rows = frame.repartition(partitions_for(spark, tasks), "source", "start")
    sorted_rows = sorted_rows.sortWithinPartitions("source", "start")
    return sorted_rows.mapInArrow(on_workers(spark, merge, settings=how), frame.schema).toArrow()


def partitions_for(spark: SparkSession, tasks: int) -> int:
    """Into how many parts the rows of so many tasks are dealt to be merged."""
    return max(spark.sparkContext.defaultParallelism, min(tasks, _MOST_PARTITIONS))


def in_order(table: pa.Table, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows by source and epoch, in batches of bounded size: all payloads together may not fit in one array."""
    wide = [field.with_type(pa.large_binary()) if field.type == pa.binary() else field for field in schema]
    rows = table.cast(pa.schema(wide)).sort_by([("source", "ascending"), ("start", "ascending")])
    size = max(1, rows.num_rows * _BATCH_BYTES // max(1, rows.nbytes))
    for start in range(0, rows.num_rows, size):
        yield from rows.slice(start, size).cast(schema).combine_chunks().to_batches()


def split_tallies(table: pa.Table) -> tuple[Tally, pa.Table]:
    """The tallies of all tasks as one, and the other rows."""
    tally = Tally()
    for data in table["tally"].drop_null().to_pylist():
        tally.merge_bytes(data)
    tally.files = {_path_of(name): file for name, file in tally.files.items()}
    return tally, table.filter(pc.is_null(table["tally"])).drop_columns("tally")


def _path_of(name: str) -> str:
    """The path of a file that Spark names by its address."""
    return unquote(urlparse(name).path) if name.startswith("file:") else name
