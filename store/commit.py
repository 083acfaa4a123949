"""Committing a run: its sketches, what was read and what was rejected, in one transaction or not at all."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import duckdb
import pyarrow as pa

from sketches.drawn import SECOND, TimeUnit
from sketches.errors import CorruptError
from sketches.family import Sketch
from sketches.registry import load
from sketches.wire import FORMAT_VERSION
from store.database import WAIT, StoreError, connected
from store.schema import check, create_store, migrate


@dataclass(frozen=True, slots=True)
class Stream:
    """What the store must know of a stream to answer: its unit of time and the usual length of an epoch in it."""

    name: str
    epoch: int
    unit: TimeUnit = SECOND
    settings: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Part:
    """One epoch of one source with its new events: how many, and their sketches, one a family."""

    source: str
    start: int
    length: int
    events: int
    weight: float
    oldest: int
    newest: int
    sketches: Sequence[Sketch]


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file that a run read whole."""

    path: str
    size: int
    fingerprint: str
    rows: int


@dataclass(frozen=True, slots=True)
class Reject:
    """Rows that cannot be events, by reason, with a few of them."""

    reason: str
    rows: int
    examples: Sequence[object] = ()


@dataclass(frozen=True, slots=True)
class Run:
    """All that one run of ingest has to say about one stream."""

    stream: Stream
    parts: Sequence[Part]
    started: datetime
    finished: datetime
    files: Sequence[InputFile] = ()
    rejects: Sequence[Reject] = ()
    rows: int = 0
    conflicts: int = 0
    labels: Mapping[int, str] = field(default_factory=dict)


def commit(path: str | Path, run: Run, *, wait: float = WAIT, replacing: tuple[int, int] | None = None) -> int:
    """Add a run to the store, creating it if need be, and return the new generation.

    Late events merge into the epochs they belong to. `replacing` names a range of times whose epochs are dropped first
    (a backfill). What cannot be merged because its stored bytes are damaged is set aside, and stays known as a gap.
    """
    file = Path(path)
    create_store(file)
    migrate(file, wait)
    with connected(file, write=True, wait=wait) as connection:
        generation = check(connection, file) + 1
        connection.begin()
        try:
            _write(connection, run, generation, replacing)
            connection.execute("UPDATE wane SET generation = $1", [generation])
            connection.commit()
        except BaseException:
            connection.rollback()
            raise
        connection.execute("CHECKPOINT")  # a write-ahead log that is cut short loses commits without a word
    return generation


def _write(connection: duckdb.DuckDBPyConnection, run: Run, generation: int, replacing: tuple[int, int] | None) -> None:
    name = run.stream.name
    _write_stream(connection, run.stream)
    if replacing is not None:
        for table in ("epochs", "sketches", "set_aside"):
            connection.execute(
                f"DELETE FROM {table} WHERE stream = $1 AND start + length > $2 AND start < $3", [name, *replacing]
            )
    rows = [(*key, sketch) for key, sketch in _by_key(run).items()]
    merged = _merge_stored(connection, rows, generation)
    keys = [row[:5] for row in rows]
    _delete(connection, "sketches", ("stream", "source", "start", "length", "family"), keys)
    payloads = [sketch.to_bytes() for sketch in merged]
    _insert(
        connection,
        "sketches",
        {
            "stream": pa.array([row[0] for row in rows], pa.string()),
            "source": pa.array([row[1] for row in rows], pa.string()),
            "start": pa.array([row[2] for row in rows], pa.int64()),
            "length": pa.array([row[3] for row in rows], pa.int64()),
            "family": pa.array([row[4] for row in rows], pa.string()),
            "format": pa.array([FORMAT_VERSION] * len(rows), pa.int32()),
            "bytes": pa.array([len(payload) for payload in payloads], pa.int64()),
            "generation": pa.array([generation] * len(rows), pa.int64()),
            "payload": pa.array(payloads, pa.binary()),
        },
    )
    _write_epochs(connection, run)
    _write_ledger(connection, run, generation, len(rows))


def _write_stream(connection: duckdb.DuckDBPyConnection, stream: Stream) -> None:
    known = connection.execute(
        "SELECT unit_numerator, unit_denominator FROM streams WHERE stream = $1", [stream.name]
    ).fetchone()
    if known is not None and known != (stream.unit.numerator, stream.unit.denominator):
        raise StoreError(
            f"stream {stream.name!r} counts time in {known[0]}/{known[1]} s, not "
            f"{stream.unit.numerator}/{stream.unit.denominator} s; another unit needs another stream"
        )
    connection.execute("DELETE FROM streams WHERE stream = $1", [stream.name])
    connection.execute(
        "INSERT INTO streams VALUES ($1, $2, $3, $4, $5)",
        [stream.name, stream.unit.numerator, stream.unit.denominator, stream.epoch, json.dumps(stream.settings)],
    )


def _by_key(run: Run) -> dict[tuple[str, str, int, int, str], Sketch]:
    """One sketch a key, also where several parts of the run fall into one epoch."""
    found: dict[tuple[str, str, int, int, str], Sketch] = {}
    for part in run.parts:
        for sketch in part.sketches:
            key = (run.stream.name, part.source, part.start, part.length, sketch.family)
            found[key] = found[key].merge(sketch) if key in found else sketch
    return found


def _merge_stored(
    connection: duckdb.DuckDBPyConnection, rows: Sequence[tuple[str, str, int, int, str, Sketch]], generation: int
) -> list[Sketch]:
    """The new sketches, each merged with what the store already holds of its epoch."""
    if not rows:
        return []
    _register_keys(connection, ("stream", "source", "start", "length", "family"), [row[:5] for row in rows])
    stored = connection.execute(
        "SELECT stream, source, start, length, family, payload FROM sketches SEMI JOIN wane_keys "
        "USING (stream, source, start, length, family)"
    ).fetchall()
    connection.unregister("wane_keys")
    held = {tuple(row[:5]): bytes(row[5]) for row in stored}
    merged = []
    for *key, sketch in rows:
        payload = held.get(tuple(key))
        if payload is None:
            merged.append(sketch)
            continue
        try:
            merged.append(load(payload).merge(sketch))
        except CorruptError as error:
            connection.execute(
                "INSERT INTO set_aside VALUES ($1, $2, $3, $4, $5, $6, $7, $8)", [*key, generation, str(error), payload]
            )
            merged.append(sketch)
    return merged


def _write_epochs(connection: duckdb.DuckDBPyConnection, run: Run) -> None:
    if not run.parts:
        return
    _insert(
        connection,
        "epochs",
        {
            "stream": pa.array([run.stream.name] * len(run.parts), pa.string()),
            "source": pa.array([part.source for part in run.parts], pa.string()),
            "start": pa.array([part.start for part in run.parts], pa.int64()),
            "length": pa.array([part.length for part in run.parts], pa.int64()),
            "events": pa.array([part.events for part in run.parts], pa.int64()),
            "weight": pa.array([part.weight for part in run.parts], pa.float64()),
            "oldest": pa.array([part.oldest for part in run.parts], pa.int64()),
            "newest": pa.array([part.newest for part in run.parts], pa.int64()),
        },
    )
    # one row an epoch: what earlier runs brought and what this one brings
    connection.execute(
        "CREATE OR REPLACE TEMP TABLE summed AS SELECT stream, source, start, length, sum(events)::BIGINT AS events, "
        "sum(weight) AS weight, min(oldest) AS oldest, max(newest) AS newest "
        "FROM epochs WHERE stream = $1 GROUP BY ALL",
        [run.stream.name],
    )
    connection.execute("DELETE FROM epochs WHERE stream = $1", [run.stream.name])
    connection.execute("INSERT INTO epochs SELECT * FROM summed ORDER BY stream, source, start")


def _write_ledger(connection: duckdb.DuckDBPyConnection, run: Run, generation: int, sketches: int) -> None:
    name = run.stream.name
    rejected = sum(reject.rows for reject in run.rejects)
    connection.execute(
        "INSERT INTO runs VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
        [generation, name, run.started, run.finished, run.rows, rejected, run.conflicts, sketches],
    )
    if run.labels:
        connection.register(
            "wane_labels",
            pa.table(
                {
                    "stream": pa.array([name] * len(run.labels), pa.string()),
                    "key": pa.array(list(run.labels), pa.uint64()),
                    "label": pa.array(list(run.labels.values()), pa.string()),
                }
            ),
        )
        connection.execute("INSERT INTO labels SELECT * FROM wane_labels ANTI JOIN labels USING (stream, key)")
        connection.unregister("wane_labels")
    for file in run.files:
        connection.execute(
            "INSERT INTO files VALUES ($1, $2, $3, $4, $5, $6)",
            [generation, name, file.path, file.size, file.fingerprint, file.rows],
        )
    for reject in run.rejects:
        connection.execute(
            "INSERT INTO rejects VALUES ($1, $2, $3, $4, $5)",
            [generation, name, reject.reason, reject.rows, json.dumps(list(reject.examples), default=str)],
        )


def _register_keys(
    connection: duckdb.DuckDBPyConnection, names: Sequence[str], keys: Sequence[Sequence[object]]
) -> None:
    connection.register("wane_keys", pa.table({name: [key[at] for key in keys] for at, name in enumerate(names)}))


def _delete(
    connection: duckdb.DuckDBPyConnection, table: str, names: Sequence[str], keys: Sequence[Sequence[object]]
) -> None:
    if not keys:
        return
    _register_keys(connection, names, keys)
    joined = " AND ".join(f"{table}.{name} = wane_keys.{name}" for name in names)
    connection.execute(f"DELETE FROM {table} USING wane_keys WHERE {joined}")
    connection.unregister("wane_keys")


def _insert(connection: duckdb.DuckDBPyConnection, table: str, columns: dict[str, pa.Array]) -> None:
    connection.register("wane_rows", pa.table(columns))
    connection.execute(f"INSERT INTO {table} SELECT * FROM wane_rows ORDER BY stream, source, start")
    connection.unregister("wane_rows")
