"""Several streams over one input, on an executor: rows are read once, and every stream makes its own sketches of them.

A row of the output is one of `ingest.executor.worker`, with the number of its stream and a column for each family that
any of the streams has.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ingest.executor.merging import merge
from ingest.executor.worker import CHUNK, RowGroup, Sketching, read_for_all
from ingest.executor.worker_settings import WorkerSettings
from sketches.event_rules import PlainColumn

NUMBER = "stream"  # the column with the number of the stream


def schema_of(settings: Sequence[WorkerSettings]) -> pa.Schema:
    """The number of the stream, and the columns of all of them."""
    return pa.unify_schemas([pa.schema([(NUMBER, pa.int64())]), *(one.schema for one in settings)])


def sketch_row_groups_for_all(
    batches: Iterable[pa.RecordBatch],
    tasks: Sequence[Sequence[RowGroup]],
    streams: Sequence[Mapping[str, PlainColumn]],
    settings: Sequence[WorkerSettings],
) -> Iterator[pa.RecordBatch]:
    """Sketch the row groups of the tasks whose numbers arrive, each for every stream."""
    numbers = [number for batch in batches for number in batch.column(0).to_pylist()]
    rows = (found for number in numbers for group in tasks[number] for found in read_for_all(group, streams))
    yield from _sketched(rows, settings)


def sketch_rows_for_all(
    batches: Iterable[pa.RecordBatch], streams: Sequence[Mapping[str, str]], settings: Sequence[WorkerSettings]
) -> Iterator[pa.RecordBatch]:
    """Sketch batches as Spark hands them over; for each stream the names of its columns by role."""
    rows = (tuple({role: batch.column(name) for role, name in names.items()} for names in streams) for batch in batches)
    yield from _sketched(rows, settings)


def _sketched(
    rows: Iterable[Sequence[Mapping[str, pa.Array]]], settings: Sequence[WorkerSettings]
) -> Iterator[pa.RecordBatch]:
    schema = schema_of(settings)
    for number, batch in sketch_for_all(rows, settings):
        yield _numbered(batch, number, schema)


def sketch_for_all(
    rows: Iterable[Sequence[Mapping[str, pa.Array]]], settings: Sequence[WorkerSettings]
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows of the output of each stream, with its number. The memory for the rows of one is shared among all."""
    sketchings = [Sketching(one, CHUNK // len(settings)) for one in settings]
    for columns in rows:
        for number, sketching in enumerate(sketchings):
            yield from ((number, batch) for batch in sketching.add(columns[number]))
    for number, sketching in enumerate(sketchings):
        yield from ((number, batch) for batch in sketching.done())


def merge_for_all(batches: Iterable[pa.RecordBatch], settings: Sequence[WorkerSettings]) -> Iterator[pa.RecordBatch]:
    """Merge the rows of each stream, which come sorted by stream, source and epoch."""
    schema = schema_of(settings)
    for number, parts in groupby(_parts(batches), key=lambda part: part[0]):
        how = settings[number]
        own = (batch.select(how.schema.names) for _, batch in parts)
        yield from (_numbered(batch, number, schema) for batch in merge(own, how))


def rows_of(table: pa.Table, number: int, settings: WorkerSettings) -> pa.Table:
    """The rows of one stream, as `ingest.executor.worker` makes them."""
    return table.filter(pc.equal(table[NUMBER], number)).select(settings.schema.names)


def _parts(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows of one stream after the other, with its number."""
    for batch in batches:
        numbers = batch.column(NUMBER).to_numpy()
        edges = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]
        for begin, end in pairwise(edges):
            if end > begin:
                yield int(numbers[begin]), batch.slice(begin, end - begin)


def _numbered(batch: pa.RecordBatch, number: int, schema: pa.Schema) -> pa.RecordBatch:
    rows, names = batch.num_rows, set(batch.schema.names)
    columns = [pa.repeat(pa.scalar(number, pa.int64()), rows)]
    columns += [batch.column(one.name) if one.name in names else pa.nulls(rows, one.type) for one in schema][1:]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
