"""New sketches merged with those that the store holds of the same epochs, before the store is opened for writing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import duckdb
import pyarrow as pa

from sketches.errors import CorruptError, IncompatibleError
from sketches.family import Sketch
from sketches.registry import load
from store.database import StoreError
from store.run import SKETCHES, Run

KEY: Final = "source, start, length, family"
SET_ASIDE: Final = SKETCHES.append(pa.field("reason", pa.string()))

Key = tuple[str, int, int, str]


@dataclass(frozen=True, slots=True)
class Overlap:
    """The rows of a run that need merging, and the stored rows they meet; all other rows are written as they came."""

    new: pa.Table
    stored: pa.Table


@dataclass(frozen=True, slots=True)
class Merged:
    """One row for each key that needed merging, and the stored rows that could not be read, each with its reason."""

    sketches: pa.Table
    set_aside: pa.Table


def overlap(connection: duckdb.DuckDBPyConnection, run: Run) -> Overlap:
    """What must be merged: keys that occur twice in the run, or in the store outside the range the run replaces."""
    least, most = run.replacing or (0, 0)
    connection.register("wane_sketches", run.sketched.sketches)
    stored = connection.sql(
        f"SELECT {KEY}, payload FROM sketches SEMI JOIN wane_sketches USING ({KEY}) "
        "WHERE stream = $stream AND NOT (start + length > $least AND start < $most AND $replacing)",
        params={"stream": run.stream.name, "least": least, "most": most, "replacing": run.replacing is not None},
    ).to_arrow_table()
    connection.register("wane_stored", stored)
    new = connection.sql(
        f"SELECT {KEY}, payload FROM wane_sketches SEMI JOIN ("
        f"SELECT {KEY} FROM wane_sketches GROUP BY ALL HAVING count(*) > 1 UNION ALL SELECT {KEY} FROM wane_stored"
        f") USING ({KEY})"
    ).to_arrow_table()
    for name in ("wane_sketches", "wane_stored"):
        connection.unregister(name)
    return Overlap(new, stored)


def merged(stream: str, found: Overlap) -> Merged:
    """The sketches of a key as one: what the store holds first, then what the run brings, in the order of their bytes.

    A sum of floating-point numbers may depend on its order; this one does not depend on how Spark spread the work.
    """
    brought: dict[Key, list[bytes]] = defaultdict(list)
    for key, payload in _rows(found.new):
        brought[key].append(payload)
    held = dict(_rows(found.stored))
    sketches: list[tuple[object, ...]] = []
    set_aside: list[tuple[object, ...]] = []
    for key, payloads in brought.items():
        new = _union(stream, key, [_brought(stream, key, payload) for payload in sorted(payloads)])
        if key in held:
            try:
                stored = load(held[key])
            except CorruptError as error:
                set_aside.append((*key, held[key], str(error)))
            else:
                new = _union(stream, key, [stored, new])
        sketches.append((*key, new.to_bytes()))
    return Merged(_table(sketches, SKETCHES), _table(set_aside, SET_ASIDE))


def _union(stream: str, key: Key, sketches: list[Sketch]) -> Sketch:
    together = sketches[0]
    for sketch in sketches[1:]:
        try:
            together = together.merge(sketch)
        except IncompatibleError as error:
            source, start, *_ = key
            raise StoreError(
                f"stream {stream!r} was sketched with other settings before, at {source} from {start}: {error} "
                "(stored and new); restore the settings, or give the stream another name"
            ) from error
    return together


def _brought(stream: str, key: Key, payload: bytes) -> Sketch:
    try:
        return load(payload)
    except CorruptError as error:
        source, start, _, family = key
        raise StoreError(
            f"the run brings a damaged {family} sketch of stream {stream!r}, {source} from {start}: {error}"
        ) from error


def _rows(table: pa.Table) -> Iterator[tuple[Key, bytes]]:
    *key, payloads = (column.to_pylist() for column in table.columns)
    return zip(zip(*key, strict=True), payloads, strict=True)


def _table(rows: list[tuple[object, ...]], schema: pa.Schema) -> pa.Table:
    return pa.table({name: [row[at] for row in rows] for at, name in enumerate(schema.names)}, schema=schema)
