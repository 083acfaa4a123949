"""What runs on Spark's executors: Arrow batches of raw rows in, payloads of sketches out.

It imports no Spark: `sketch` and `merge` are functions from batches to batches, for Spark's `mapInArrow`. A row of the
output is one source and epoch with its totals and one payload for each family that keeps sketches by epoch. A row
without a source holds a tally, or the payloads of families that keep one sketch for the whole stream.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ingest.executor.arrow_columns import is_text, plain_type
from ingest.executor.chunk import Chunk
from ingest.executor.columns import CheckedRows, check
from ingest.executor.merging import merge
from ingest.executor.stream_sketches import StreamSketches
from ingest.executor.tally import FileTally, Tally
from ingest.executor.worker_settings import NO_START, WorkerSettings, record
from sketches.event_rules import PlainColumn

__all__ = ["RowGroup", "UnreadableError", "merge", "read_row_group", "sketch", "sketch_row_groups", "sketch_rows"]

CHUNK: Final = 96 << 20  # bytes of columns that are sketched together: the more, the fewer sketches to merge later
_BATCH_ROWS: Final = 1 << 17
_BY_ROW: Final = ("id", "time", "value", "weight")  # the columns whose texts hardly repeat


@dataclass(frozen=True, slots=True)
class RowGroup:
    """A row group of a Parquet file, which a task reads by itself."""

    path: str
    number: int
    rows: int


class UnreadableError(Exception):
    """A file cannot be read. Its path is in the message, because only text comes back from a worker."""


def sketch_row_groups(
    batches: Iterable[pa.RecordBatch],
    tasks: Sequence[Sequence[RowGroup]],
    columns: Mapping[str, PlainColumn],
    settings: WorkerSettings,
) -> Iterator[pa.RecordBatch]:
    """Sketch the row groups of the tasks whose numbers arrive. Rows that are read here do not go through the JVM."""
    numbers = [number for batch in batches for number in batch.column(0).to_pylist()]
    rows = (found for number in numbers for group in tasks[number] for found in read_row_group(group, columns))
    yield from sketch(rows, settings)


def read_row_group(group: RowGroup, columns: Mapping[str, PlainColumn]) -> Iterator[dict[str, pa.Array]]:
    """The columns of a row group by role, batch by batch, with the name of the file."""
    for (found,) in read_for_all(group, [columns]):
        yield found


def read_for_all(
    group: RowGroup, streams: Sequence[Mapping[str, PlainColumn]]
) -> Iterator[tuple[dict[str, pa.Array], ...]]:
    """The same for several streams, each with columns of its own: the row group is read once."""
    try:
        head = pq.read_metadata(group.path)
        types = {column.name: plain_type(column.type) for column in head.schema.to_arrow_schema()}
        wanted = sorted(types.keys() & {plain.column for columns in streams for plain in columns.values()})
        by_row = {columns[role].column for columns in streams for role in _BY_ROW}
        texts = [name for name in wanted if name not in by_row and is_text(types[name])]
        with pq.ParquetFile(group.path, metadata=head, read_dictionary=texts) as file:
            for batch in file.iter_batches(_BATCH_ROWS, row_groups=[group.number], columns=wanted, use_threads=False):
                name = pa.DictionaryArray.from_arrays(
                    pa.array(np.zeros(batch.num_rows, np.int32)), pa.array([group.path])
                )
                yield tuple(
                    {role: _column(batch, plain) for role, plain in columns.items()} | {"file": name}
                    for columns in streams
                )
    except (OSError, pa.ArrowException) as error:
        raise UnreadableError(f"{group.path} cannot be read: {error}") from error


def _column(batch: pa.RecordBatch, plain: PlainColumn) -> pa.Array:
    if plain.column is None:
        return pa.repeat(pa.scalar(plain.constant), batch.num_rows)
    if plain.column not in batch.schema.names:  # a field that this file does not have
        return pa.nulls(batch.num_rows)
    return batch.column(plain.column)


def sketch_rows(batches: Iterable[pa.RecordBatch], settings: WorkerSettings) -> Iterator[pa.RecordBatch]:
    """Sketch batches whose columns are named for their roles, as Spark hands them over."""
    rows = ({name: batch.column(name) for name in batch.schema.names} for batch in batches)
    yield from sketch(rows, settings)


def sketch(batches: Iterable[Mapping[str, pa.Array]], settings: WorkerSettings) -> Iterator[pa.RecordBatch]:
    """Check rows and sketch them, a chunk of bounded size at a time."""
    sketching = Sketching(settings)
    for columns in batches:
        yield from sketching.add(columns)
    yield from sketching.done()


class Sketching:
    """The sketches of the rows of a task, which come batch by batch.

    Sketches of the whole stream come once, after all those of sources and epochs, and the tally comes last.
    """

    def __init__(self, settings: WorkerSettings, most: int = CHUNK) -> None:
        self._settings = settings
        self._most = most
        self._chunk = Chunk(settings)
        self._whole = StreamSketches(settings)
        self._tally = Tally()

    def add(self, columns: Mapping[str, pa.Array]) -> Iterator[pa.RecordBatch]:
        """Take the columns of further rows by role, with the name of their file."""
        tally, conversion = self._tally, self._settings.conversion
        tally.first_row = tally.first_row or time.time()
        checked = check(columns, conversion)
        if checked.fault is not None:
            tally.reject(columns, checked.fault, checked.reasons)
        tally.miss_fields(checked.field_faults)
        _count_files(tally, columns["file"], checked)
        _count_missing(tally, columns["file"], checked)
        _count_ahead(tally, checked, conversion.clock)
        self._chunk.add(checked)
        if self._chunk.nbytes >= self._most:
            yield from self._chunk.sketched(tally, self._whole)

    def reject(self, columns: Mapping[str, pa.Array], reason: str) -> None:
        """Count rows of which no event can be made, by what is known of them."""
        rows = len(columns["file"])
        self._tally.reject(columns, np.ones(rows, np.uint8), (reason,))
        for name in columns["file"].unique().to_pylist():
            self._tally.files.setdefault(name, FileTally()).add(
                pc.sum(pc.equal(columns["file"], name)).as_py(), None, None
            )

    def done(self) -> Iterator[pa.RecordBatch]:
        """What is left, the sketches of the whole stream, and the tally."""
        yield from self._chunk.sketched(self._tally, self._whole)
        yield from self._whole.records()
        yield record(self._settings.schema, 1, {"start": [NO_START], "tally": [self._tally.to_bytes()]})


def _count_files(tally: Tally, names: pa.Array, checked: CheckedRows) -> None:
    encoded = names if pa.types.is_dictionary(names.type) else names.dictionary_encode()
    codes = encoded.indices.to_numpy()
    kept = codes if checked.fault is None else codes[checked.fault == 0]
    if len(encoded.dictionary) == 1:
        oldest, newest = (int(checked.times.min()), int(checked.times.max())) if len(checked) else (None, None)
        name = encoded.dictionary[0].as_py()
        tally.files.setdefault(name, FileTally()).add(len(codes), oldest, newest)
        return
    rows = np.bincount(codes, minlength=len(encoded.dictionary))
    times = checked.times[np.argsort(kept, kind="stable")]
    ends = np.cumsum(np.bincount(kept, minlength=len(encoded.dictionary)))
    for number, name in enumerate(encoded.dictionary.to_pylist()):
        here = times[ends[number - 1] if number else 0 : ends[number]]
        oldest, newest = (int(here.min()), int(here.max())) if len(here) else (None, None)
        tally.files.setdefault(name, FileTally()).add(int(rows[number]), oldest, newest)


def _count_missing(tally: Tally, names: pa.Array, checked: CheckedRows) -> None:
    """Count the events of each file, and those that came without a field."""
    if not checked.fields:
        return
    encoded = names if pa.types.is_dictionary(names.type) else names.dictionary_encode()
    codes, files = encoded.indices.to_numpy(), encoded.dictionary.to_pylist()
    kept = codes if checked.fault is None else codes[checked.fault == 0]
    every = np.bincount(kept, minlength=len(files))
    tally.miss("", dict(zip(files, every.tolist(), strict=True)))
    for name, field in checked.fields.items():
        rows = 0 * every if field.missing is None else np.bincount(kept[field.missing], minlength=len(files))
        tally.miss(name, dict(zip(files, rows.tolist(), strict=True)))


def _count_ahead(tally: Tally, checked: CheckedRows, clock: int) -> None:
    latest = int(checked.times.max()) if len(checked) else clock
    if latest > clock:
        tally.ahead.add(int(np.count_nonzero(checked.times > clock)), latest)
