"""What runs on Spark's executors: Arrow batches of raw rows in, payloads of sketches by source and epoch out.

It imports no Spark: `sketch` and `merge` are functions from batches to batches, for Spark's `mapInArrow`. A row of the
output is one source and epoch with its totals and one payload for each family. Rows without a source hold a tally.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ingest.executor.columns import CheckedRows, Conversion, check
from ingest.executor.grouping import group, put
from ingest.executor.tally import FileTally, Tally
from sketches.event_rules import PlainColumn
from sketches.events import Events, Labels
from sketches.family import Sketch
from sketches.registry import merge_payloads

CHUNK: Final = 96 << 20  # bytes of columns that are sketched together: the more, the fewer sketches to merge later
_BATCH_ROWS: Final = 1 << 17
_LABEL_BYTES: Final = 120  # about what a key's text takes besides its characters
_NO_START: Final = 0


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """How a worker makes sketches of rows; the same for every worker."""

    conversion: Conversion
    epoch: int
    families: tuple[tuple[type[Sketch], Mapping[str, Any]], ...]  # with the keywords of its `build`
    within: tuple[int, int] | None = None  # a backfill takes only events of these times from files that it reads again

    @property
    def schema(self) -> pa.Schema:
        return pa.schema(
            [
                ("source", pa.string()),
                ("start", pa.int64()),
                ("events", pa.int64()),
                ("weight", pa.float64()),
                ("oldest", pa.int64()),
                ("newest", pa.int64()),
                ("tally", pa.binary()),
                *((family.family, pa.binary()) for family, _ in self.families),
            ]
        )


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
    wanted = sorted({plain.column for plain in columns.values() if plain.column is not None})
    texts = [plain.column for plain in (columns["source"],) if plain.column is not None]
    try:
        with pq.ParquetFile(group.path, read_dictionary=texts) as file:
            for batch in file.iter_batches(_BATCH_ROWS, row_groups=[group.number], columns=wanted, use_threads=False):
                name = pa.DictionaryArray.from_arrays(
                    pa.array(np.zeros(batch.num_rows, np.int32)), pa.array([group.path])
                )
                yield {role: _column(batch, plain) for role, plain in columns.items()} | {"file": name}
    except (OSError, pa.ArrowException) as error:
        raise UnreadableError(f"{group.path} cannot be read: {error}") from error


def _column(batch: pa.RecordBatch, plain: PlainColumn) -> pa.Array:
    if plain.column is None:
        return pa.repeat(pa.scalar(plain.constant), batch.num_rows)
    return batch.column(plain.column)


def sketch_rows(batches: Iterable[pa.RecordBatch], settings: WorkerSettings) -> Iterator[pa.RecordBatch]:
    """Sketch batches whose columns are named for their roles, as Spark hands them over."""
    rows = ({name: batch.column(name) for name in batch.schema.names} for batch in batches)
    yield from sketch(rows, settings)


def sketch(batches: Iterable[Mapping[str, pa.Array]], settings: WorkerSettings) -> Iterator[pa.RecordBatch]:
    """Check rows and sketch them by source and epoch, a chunk of bounded size at a time. The tally comes last."""
    chunk = _Chunk(settings)
    tally = Tally()
    for columns in batches:
        checked = check(columns, settings.conversion)
        if checked.fault is not None:
            tally.reject(columns, checked.fault, checked.reasons)
        _count_files(tally, columns["file"], checked)
        _count_ahead(tally, checked, settings.conversion.clock)
        chunk.add(checked)
        if chunk.nbytes >= CHUNK:
            yield from chunk.sketched(tally)
    yield from chunk.sketched(tally)
    yield _record(settings.schema, 1, {"start": [_NO_START], "tally": [tally.to_bytes()]})


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


def _count_ahead(tally: Tally, checked: CheckedRows, clock: int) -> None:
    latest = int(checked.times.max()) if len(checked) else clock
    if latest > clock:
        tally.ahead.add(int(np.count_nonzero(checked.times > clock)), latest)


class _Chunk:
    """Checked rows of many batches, until there are enough to sketch."""

    def __init__(self, settings: WorkerSettings) -> None:
        self._settings = settings
        self._sources: dict[str, int] = {}
        self._clear()

    def _clear(self) -> None:
        self._columns: list[list[NDArray[Any]]] = [[], [], [], [], []]
        self._labels: dict[int, str] = {}
        self.nbytes = 0

    def add(self, rows: CheckedRows) -> None:
        if len(rows) == 0:
            return
        numbers = np.array([self._sources.setdefault(name, len(self._sources)) for name in rows.source_names], np.int32)
        columns: list[NDArray[Any]] = [numbers[rows.sources], rows.ids, rows.times, rows.values, rows.weights]
        if (within := self._settings.within) is not None:
            inside = (rows.times >= within[0]) & (rows.times < within[1])
            columns = [column[inside] for column in columns]
        for kept, column in zip(self._columns, columns, strict=True):
            kept.append(column)
            self.nbytes += column.nbytes
        for code, text in rows.labels.items():
            if code not in self._labels:
                self._labels[code] = text
                self.nbytes += _LABEL_BYTES + len(text)

    def sketched(self, tally: Tally) -> Iterator[pa.RecordBatch]:
        """The sketches of the collected rows; the chunk is empty afterwards."""
        if not self._columns[0]:
            return
        sources, ids, times, values, weights = (np.concatenate(parts) for parts in self._columns)
        labels = sorted_labels(self._labels)
        self._clear()
        if len(times) == 0:
            return
        tally.shared_ids.add(ids, times, values, weights)
        groups = group(sources, times, self._settings.epoch)
        del sources
        ids, times, values = (put(column, groups.place) for column in (ids, times, values))
        begins = groups.bounds[:-1]
        names = pa.array(list(self._sources), pa.string())
        found: dict[str, Any] = {
            "source": names.take(pa.array(groups.sources)),
            "start": groups.epochs * self._settings.epoch,
            "events": np.diff(groups.bounds),
            "oldest": np.minimum.reduceat(times, begins),
            "newest": np.maximum.reduceat(times, begins),
        }
        found["weight"] = found["events"]
        units = None
        if (weights != 1).any():
            units = put(weights, groups.place)
            found["weight"] = np.add.reduceat(units, begins)
        kind = self._settings.conversion.kind
        events = Events(ids, times, values, units, labels, kind)
        for family, keywords in self._settings.families:
            found[family.family] = family.payloads(events, groups.bounds, **keywords)
        yield _record(self._settings.schema, len(begins), found)


def sorted_labels(labels: Mapping[int, str]) -> Labels:
    if not labels:
        return Labels.none()
    hashes = np.fromiter(labels.keys(), np.uint64, len(labels))
    order = np.argsort(hashes)
    texts = list(labels.values())
    return Labels(hashes[order], tuple(texts[at] for at in order.tolist()))


def _record(schema: pa.Schema, rows: int, columns: Mapping[str, Any]) -> pa.RecordBatch:
    """A batch of the output; columns that are not given are empty."""
    arrays = [
        pa.array(columns[field.name], field.type) if field.name in columns else pa.nulls(rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def merge(batches: Iterable[pa.RecordBatch], settings: WorkerSettings) -> Iterator[pa.RecordBatch]:
    """Make one row of all rows of a source and epoch. They come sorted by both, so one group is in memory at a time."""
    open_group: list[pa.RecordBatch] = []  # it may go on in the next batch
    for batch in batches:
        if batch.num_rows == 0:
            continue
        begins = _begins(batch)
        if open_group and not _same(open_group[-1], batch):
            yield _merged(open_group, settings)
            open_group = []
        if len(begins) == 1:
            open_group.append(batch)
            continue
        if open_group:
            yield _merged([*open_group, batch.slice(0, begins[1])], settings)
            begins = begins[1:]
        ends = np.append(begins[1:], batch.num_rows)
        alone = ends - begins == 1
        alone[-1] = False
        yield batch.take(pa.array(begins[alone]))
        for begin, end in zip(begins[:-1][~alone[:-1]].tolist(), ends[:-1][~alone[:-1]].tolist(), strict=True):
            yield _merged([batch.slice(begin, end - begin)], settings)
        open_group = [batch.slice(int(begins[-1]))]
    if open_group:
        yield _merged(open_group, settings)


def _begins(batch: pa.RecordBatch) -> NDArray[np.int64]:
    """Where a new source or epoch begins. Rows with tallies have no source, and each is a group of its own."""
    sources, starts = batch.column("source"), batch.column("start").to_numpy()
    same = pc.equal(sources[1:], sources[:-1]).fill_null(False).to_numpy(zero_copy_only=False)
    return np.concatenate(([0], np.flatnonzero(~(same & (starts[1:] == starts[:-1]))) + 1))


def _same(before: pa.RecordBatch, after: pa.RecordBatch) -> bool:
    source = before.column("source")[-1].as_py()
    return (
        source is not None
        and source == after.column("source")[0].as_py()
        and before.column("start")[-1].as_py() == after.column("start")[0].as_py()
    )


def _merged(rows: Sequence[pa.RecordBatch], settings: WorkerSettings) -> pa.RecordBatch:
    table = pa.Table.from_batches(rows)
    if table.num_rows == 1:
        return rows[0]
    found: dict[str, Any] = {name: [table.column(name)[0].as_py()] for name in ("source", "start")}
    found["events"] = [pc.sum(table.column("events")).as_py()]
    found["weight"] = [pc.sum(table.column("weight")).as_py()]
    found["oldest"] = [pc.min(table.column("oldest")).as_py()]
    found["newest"] = [pc.max(table.column("newest")).as_py()]
    for family, _ in settings.families:
        # sorted: Spark's order differs from run to run, and sums of floating-point numbers depend on it
        found[family.family] = [merge_payloads(sorted(table.column(family.family).to_pylist()))]
    return _record(settings.schema, 1, found)
