"""Merging the rows of many tasks: one row for each source and epoch, one sketch for the stream, all tallies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ingest.executor.stream_sketches import StreamSketches
from ingest.executor.worker_settings import WorkerSettings, record
from sketches.registry import merge_payloads

_BATCH_BYTES: Final = 64 << 20


def in_order(table: pa.Table, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows by source and epoch, in batches of bounded size: all payloads together may not fit in one array."""
    wide = [field.with_type(pa.large_binary()) if field.type == pa.binary() else field for field in schema]
    rows = table.cast(pa.schema(wide)).sort_by([("source", "ascending"), ("start", "ascending")])
    size = max(1, rows.num_rows * _BATCH_BYTES // max(1, rows.nbytes))
    for start in range(0, rows.num_rows, size):
        yield from rows.slice(start, size).cast(schema).combine_chunks().to_batches()


def merge(batches: Iterable[pa.RecordBatch], settings: WorkerSettings) -> Iterator[pa.RecordBatch]:
    """Make one row of all rows of a source and epoch. They come sorted by both, so few groups are in memory at a time.

    Of the rows without a source tallies stay as they are, and sketches of the stream are merged.
    """
    whole = StreamSketches(settings)
    last_group: list[pa.RecordBatch] = []  # it may go on in the next batch
    for arrived in batches:
        batch = arrived
        if batch.column("source").null_count:
            without = pc.is_null(batch.column("source"))
            yield from _tallies(batch.filter(without))
            yield from whole.add_payloads(batch.filter(without))
            batch = batch.filter(pc.invert(without))
        if batch.num_rows == 0:
            continue
        if last_group and not _same(last_group[-1], batch):
            yield from _merged(last_group, settings)
            last_group = []
        begin = int(_begins(pa.table(batch))[-1])
        if begin:
            yield from _merged([*last_group, batch.slice(0, begin)], settings)
            last_group = []
        last_group.append(batch.slice(begin))
    if last_group:
        yield from _merged(last_group, settings)
    yield from whole.records()


def _tallies(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    found = rows.filter(pc.is_valid(rows.column("tally")))
    if found.num_rows:
        yield found


def _begins(rows: pa.Table) -> NDArray[np.int64]:
    """Where a new source or epoch begins."""
    if rows.num_rows == 1:
        return np.zeros(1, np.int64)
    sources, starts = rows["source"], rows["start"].to_numpy()
    same = pc.equal(sources[1:], sources[:-1]).to_numpy(zero_copy_only=False)
    return np.concatenate(([0], np.flatnonzero(~(same & (starts[1:] == starts[:-1]))) + 1))


def _same(before: pa.RecordBatch, after: pa.RecordBatch) -> bool:
    """Whether the last row of one batch and the first of the next are of one source and epoch."""
    return all(before.column(name)[-1] == after.column(name)[0] for name in ("source", "start"))


def _merged(rows: Sequence[pa.RecordBatch], settings: WorkerSettings) -> Iterator[pa.RecordBatch]:
    """One row for each source and epoch of sorted rows that hold all of them."""
    table = pa.Table.from_batches(rows)
    begins = _begins(table)
    if len(begins) == table.num_rows:
        yield from rows
        return
    found: dict[str, Any] = {
        "source": table["source"].combine_chunks().take(pa.array(begins)),
        "start": table["start"].to_numpy()[begins],
        "events": np.add.reduceat(table["events"].to_numpy(), begins),
        "weight": np.add.reduceat(table["weight"].to_numpy(), begins),
        "oldest": np.minimum.reduceat(table["oldest"].to_numpy(), begins),
        "newest": np.maximum.reduceat(table["newest"].to_numpy(), begins),
    }
    for family, _ in settings.families:
        column = table[family.family]
        if column.null_count < len(column):
            groups = zip(begins.tolist(), np.append(begins[1:], len(column)).tolist(), strict=True)
            payloads = column.to_pylist()
            found[family.family] = [_payload(payloads[begin:end]) for begin, end in groups]
    yield record(settings.schema, len(begins), found)


def _payload(parts: Sequence[bytes | None]) -> bytes | None:
    # sorted: Spark's order differs from run to run, and sums of floating-point numbers depend on it
    there = sorted(part for part in parts if part is not None)
    return merge_payloads(there) if there else None
