"""What runs on Spark's executors: Arrow batches of raw rows in, payloads of sketches by source and epoch out.

Knows no Spark: `sketch` and `merge` are functions from batches to batches, for `mapInArrow`. A row of the output is one
source and epoch with its counts and one payload a family; or, where the source is missing, a tally.
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

from ingest.columns import Checked, Limits, check
from ingest.grouping import group, put
from ingest.tally import FileTally, Tally
from sketches.bulk import payloads
from sketches.events import Events, Labels
from sketches.registry import FAMILIES, merge_payloads

CHUNK: Final = 96 << 20  # bytes of columns that are sketched together: the more, the fewer sketches to merge later
_BATCH_ROWS: Final = 1 << 17
_LABEL_BYTES: Final = 120  # about what a key's text takes besides its characters
_NO_START: Final = 0


@dataclass(frozen=True, slots=True)
class Recipe:
    """How rows become sketches; the same for every worker."""

    limits: Limits
    epoch: int
    families: tuple[tuple[str, Mapping[str, Any]], ...]  # name and keywords of its `build`
    within: tuple[int, int] | None = None  # a backfill takes only these times of files it reads again

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
                *((name, pa.binary()) for name, _ in self.families),
            ]
        )


@dataclass(frozen=True, slots=True)
class Piece:
    """Some row groups of a Parquet file, which a task reads by itself."""

    path: str
    first: int
    last: int
    rows: int


@dataclass(frozen=True, slots=True)
class Plain:
    """Where a role's values are found in a Parquet file: a column, or the same value in every row."""

    column: str | None
    literal: int | str | None = None


class UnreadableError(Exception):
    """A file that cannot be read; its path is in the message, because only text comes back from a worker."""


def sketch_pieces(
    batches: Iterable[pa.RecordBatch],
    tasks: Sequence[Sequence[Piece]],
    columns: Mapping[str, Plain],
    recipe: Recipe,
) -> Iterator[pa.RecordBatch]:
    """Sketch the pieces whose task numbers arrive. Reading them here spares every row the way through the JVM."""
    numbers = [number for batch in batches for number in batch.column(0).to_pylist()]
    rows = (found for number in numbers for piece in tasks[number] for found in read_piece(piece, columns))
    yield from sketch(rows, recipe)


def read_piece(piece: Piece, columns: Mapping[str, Plain]) -> Iterator[dict[str, pa.Array]]:
    """The columns of a piece by role, batch by batch, with the name of the file."""
    wanted = sorted({plain.column for plain in columns.values() if plain.column is not None})
    texts = [plain.column for plain in (columns["source"],) if plain.column is not None]
    try:
        with pq.ParquetFile(piece.path, read_dictionary=texts) as file:
            groups = list(range(piece.first, piece.last))
            for batch in file.iter_batches(_BATCH_ROWS, row_groups=groups, columns=wanted, use_threads=False):
                name = pa.DictionaryArray.from_arrays(
                    pa.array(np.zeros(batch.num_rows, np.int32)), pa.array([piece.path])
                )
                yield {role: _column(batch, plain) for role, plain in columns.items()} | {"file": name}
    except (OSError, pa.ArrowException) as error:
        raise UnreadableError(f"{piece.path} cannot be read: {error}") from error


def _column(batch: pa.RecordBatch, plain: Plain) -> pa.Array:
    if plain.column is None:
        return pa.repeat(pa.scalar(plain.literal), batch.num_rows)
    return batch.column(plain.column)


def sketch_rows(batches: Iterable[pa.RecordBatch], recipe: Recipe) -> Iterator[pa.RecordBatch]:
    """Sketch batches whose columns are named for their roles, as Spark hands them over."""
    rows = ({name: batch.column(name) for name in batch.schema.names} for batch in batches)
    yield from sketch(rows, recipe)


def sketch(batches: Iterable[Mapping[str, pa.Array]], recipe: Recipe) -> Iterator[pa.RecordBatch]:
    """Check rows and sketch them by source and epoch, a chunk of bounded size at a time; the tally comes last."""
    chunk = _Chunk(recipe)
    tally = Tally()
    for columns in batches:
        checked = check(columns, recipe.limits)
        if checked.fault is not None:
            tally.reject(columns, checked.fault, checked.reasons)
        _count_files(tally, columns["file"], checked)
        chunk.add(checked)
        if chunk.nbytes >= CHUNK:
            yield from chunk.sketched(tally)
    yield from chunk.sketched(tally)
    yield _record(recipe.schema, 1, {"start": [_NO_START], "tally": [tally.to_bytes()]})


def _count_files(tally: Tally, names: pa.Array, checked: Checked) -> None:
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


class _Chunk:
    """Checked rows of many batches, until there are enough to sketch."""

    def __init__(self, recipe: Recipe) -> None:
        self._recipe = recipe
        self._sources: dict[str, int] = {}
        self._clear()

    def _clear(self) -> None:
        self._columns: list[list[NDArray[Any]]] = [[], [], [], [], []]
        self._labels: dict[int, str] = {}
        self.nbytes = 0

    def add(self, rows: Checked) -> None:
        if len(rows) == 0:
            return
        numbers = np.array([self._sources.setdefault(name, len(self._sources)) for name in rows.source_names], np.int32)
        columns: list[NDArray[Any]] = [numbers[rows.sources], rows.ids, rows.times, rows.values, rows.weights]
        if (within := self._recipe.within) is not None:
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
        """The sketches of what came together, which is then forgotten."""
        if not self._columns[0]:
            return
        sources, ids, times, values, weights = (np.concatenate(parts) for parts in self._columns)
        labels = _sorted_labels(self._labels)
        self._clear()
        if len(times) == 0:
            return
        tally.identities.add(ids, times, values, weights)
        groups = group(sources, times, self._recipe.epoch)
        del sources
        ids, times, values = (put(column, groups.place) for column in (ids, times, values))
        begins = groups.bounds[:-1]
        names = pa.array(list(self._sources), pa.string())
        found: dict[str, Any] = {
            "source": names.take(pa.array(groups.sources)),
            "start": groups.epochs * self._recipe.epoch,
            "events": np.diff(groups.bounds),
            "oldest": np.minimum.reduceat(times, begins),
            "newest": np.maximum.reduceat(times, begins),
        }
        found["weight"] = found["events"]
        units = None
        if weights.max() > 1:
            units = put(weights, groups.place)
            found["weight"] = np.add.reduceat(units, begins)
        kind = self._recipe.limits.kind
        events = Events(ids, times, values, units, labels, kind)
        for name, keywords in self._recipe.families:
            found[name] = payloads(FAMILIES[name], events, groups.bounds, **keywords)
        yield _record(self._recipe.schema, len(begins), found)


def _sorted_labels(labels: Mapping[int, str]) -> Labels:
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


def merge(batches: Iterable[pa.RecordBatch], recipe: Recipe) -> Iterator[pa.RecordBatch]:
    """Make one row of all rows of a source and epoch. The rows come sorted by both, so one group is held at a time."""
    held: list[pa.RecordBatch] = []  # the group that may go on in the next batch
    for batch in batches:
        if batch.num_rows == 0:
            continue
        begins = _begins(batch)
        if held and not _same(held[-1], batch):
            yield _merged(held, recipe)
            held = []
        if len(begins) == 1:
            held.append(batch)
            continue
        if held:
            yield _merged([*held, batch.slice(0, begins[1])], recipe)
            begins = begins[1:]
        ends = np.append(begins[1:], batch.num_rows)
        alone = ends - begins == 1
        alone[-1] = False
        yield batch.take(pa.array(begins[alone]))
        for begin, end in zip(begins[:-1][~alone[:-1]].tolist(), ends[:-1][~alone[:-1]].tolist(), strict=True):
            yield _merged([batch.slice(begin, end - begin)], recipe)
        held = [batch.slice(int(begins[-1]))]
    if held:
        yield _merged(held, recipe)


def _begins(batch: pa.RecordBatch) -> NDArray[np.int64]:
    """Where a new source or epoch begins. Tallies have no source; each stays by itself."""
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


def _merged(rows: Sequence[pa.RecordBatch], recipe: Recipe) -> pa.RecordBatch:
    table = pa.Table.from_batches(rows)
    if table.num_rows == 1:
        return rows[0]
    found: dict[str, Any] = {name: [table.column(name)[0].as_py()] for name in ("source", "start")}
    found["events"] = [pc.sum(table.column("events")).as_py()]
    found["weight"] = [pc.sum(table.column("weight")).as_py()]
    found["oldest"] = [pc.min(table.column("oldest")).as_py()]
    found["newest"] = [pc.max(table.column("newest")).as_py()]
    for name, _ in recipe.families:
        found[name] = [merge_payloads(table.column(name).to_pylist())]
    return _record(recipe.schema, 1, found)
