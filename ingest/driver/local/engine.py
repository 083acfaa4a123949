"""Sketching files in this process alone: no Java, no Spark, one file after the other.

The rows are checked and sketched by the functions that Spark's workers run, so the sketches are the same.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

import pyarrow as pa

from ingest.driver.configuration.settings import StreamSettings
from ingest.driver.local.rows import RowReading
from ingest.driver.local.sources import schema_columns, source_of
from ingest.driver.parquet_reading import ParquetReading, read_parquet
from ingest.driver.progress import Progress
from ingest.executor.merging import in_order, merge
from ingest.executor.one_pass import sketch_for_all
from ingest.executor.worker import RowGroup, read_for_all, read_row_group, sketch
from ingest.executor.worker_settings import WorkerSettings

_MOST_BYTES: Final = 256 << 20  # of partial sketches, which are merged then

Rows = Mapping[str, pa.Array]


@dataclass(frozen=True, slots=True)
class SharedReadings:
    """How files are read once for several streams: by row groups, or all from one source."""

    readings: Sequence[ParquetReading] | Sequence[RowReading]

    def types(self, number: int) -> Mapping[str, Sequence[pa.DataType]]:
        return self.readings[number].types


class LocalEngine:
    """Sketches here, in the order of the files."""

    def __init__(self, progress: Progress, stack: ExitStack) -> None:
        """What is put on the disk meanwhile goes when the stack is closed."""
        self._progress = progress
        self._stack = stack
        self._done, self._all = 0, 0

    def schema_names(self, schema: str) -> list[str] | None:
        """The names in a schema; None where it needs Spark, which reading will tell."""
        columns = schema_columns(schema)
        return None if columns is None else list(columns)

    def choose(
        self, settings: StreamSettings, paths: Sequence[str]
    ) -> tuple[ParquetReading | RowReading, dict[str, str]]:
        """How these files are read, and which files are not whole. Refuses what needs Spark."""
        direct, broken = read_parquet(settings, paths)
        if direct is not None:
            return direct, broken
        source, broken = source_of([settings], paths, self._folder)
        return RowReading(settings, source), broken

    def choose_shared(self, streams: Sequence[StreamSettings], paths: Sequence[str]) -> SharedReadings:
        """How files are read that several streams share."""
        direct = [read_parquet(settings, paths)[0] for settings in streams]
        plain = [reading for reading in direct if reading is not None]
        if len(plain) == len(streams):
            return SharedReadings(plain)
        source, _ = source_of(streams, paths, self._folder)
        return SharedReadings([RowReading(settings, source) for settings in streams])

    def sketch(self, reading: ParquetReading | RowReading, how: WorkerSettings, name: str) -> pa.Table:
        """All sketches of the rows, those of a source and epoch merged to one."""
        with self._progress.watching(name, self._passed):
            return merged(sketch(self._rows(reading), how), how)

    def sketch_shared(self, reading: SharedReadings, hows: Sequence[WorkerSettings], name: str) -> list[pa.Table]:
        """The same for each stream; the rows are read once."""
        with self._progress.watching(name, self._passed):
            found: list[list[pa.RecordBatch]] = [[] for _ in hows]
            for number, batch in sketch_for_all(self._shared_rows(reading), hows):
                found[number].append(batch)
            return [merged(batches, how) for batches, how in zip(found, hows, strict=True)]

    def first_rows(self, reading: ParquetReading | RowReading) -> Rows | None:
        """Columns of some first rows by part; None where there is no row."""
        return next((batch for batch in islice(self._rows(reading), 10) if len(batch["file"])), None)

    def failure(self, error: Exception) -> str:
        """What happened, by its first line."""
        return f"it could not be read: {(str(error).splitlines() or [type(error).__name__])[0][:500]}"

    def _folder(self) -> Path:
        return Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="wane-local-")))

    def _passed(self) -> tuple[int, int]:
        return self._done, self._all

    def _rows(self, reading: ParquetReading | RowReading) -> Iterator[Rows]:
        if isinstance(reading, RowReading):
            yield from reading.batches()
            return
        for group in self._counted(reading.row_groups):
            yield from read_row_group(group, reading.columns)

    def _shared_rows(self, reading: SharedReadings) -> Iterator[Sequence[Rows]]:
        plain = [one for one in reading.readings if isinstance(one, ParquetReading)]
        if plain:
            for group in self._counted(plain[0].row_groups):
                yield from read_for_all(group, [one.columns for one in plain])
            return
        rows = [one for one in reading.readings if isinstance(one, RowReading)]
        for batch in rows[0].source.batches():
            yield tuple(one.evaluator.parts(batch) for one in rows)

    def _counted(self, groups: Sequence[RowGroup]) -> Iterator[RowGroup]:
        self._done, self._all = 0, len(groups)
        for group in groups:
            yield group
            self._done += 1


def merged(batches: Iterable[pa.RecordBatch], how: WorkerSettings) -> pa.Table:
    """One row for each source and epoch, and one for the stream; what is held meanwhile is bounded."""
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        held.append(batch)
        size += batch.nbytes
        if size > _MOST_BYTES:
            held = _merged(held, how).to_batches()
            size = 0
    return _merged(held, how)


def _merged(batches: Sequence[pa.RecordBatch], how: WorkerSettings) -> pa.Table:
    rows = pa.Table.from_batches(batches, how.schema)
    return pa.Table.from_batches(merge(in_order(rows, how.schema), how), how.schema)
