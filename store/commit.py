"""Committing runs: their sketches, what was read and what was rejected, in one transaction or not at all.

Late events merge with what is stored before the file is opened for writing: readers are shut out only while rows are
inserted. Where another commit comes in between, the merging starts over from what that one left.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import duckdb

from sketches.wire import FORMAT_VERSION
from store.database import WAIT, StoreBusyError, StoreError, bytes_used, connected, vacuum
from store.ledger import write_ledger
from store.merging import KEY, Merged, merged, overlap
from store.run import Run, Stream
from store.schema import check, create_store, migrate

_EPOCH: Final = "source, start, length"
_ROOM: Final = 1.5  # blocks in use over payloads, above which rows are packed anew: in the end the file takes 1 more


def commit(path: str | Path, runs: Run | Sequence[Run], *, wait: float = WAIT) -> int:
    """Add runs, one a stream, to the store, creating it if need be, and return the new generation.

    Late events merge into the epochs they belong to. What cannot be merged because its stored bytes are damaged is set
    aside, and stays known as a gap. A file that the ledger knows already is an `AlreadyIngestedError`.
    """
    file = Path(path)
    together = [runs] if isinstance(runs, Run) else list(runs)
    _refuse_twins(together)
    create_store(file)
    migrate(file, wait)
    deadline = time.monotonic() + wait
    while True:
        with connected(file, write=False, wait=wait) as connection:
            generation = check(connection, file)
            for run in together:
                _check_unit(connection, run.stream)
            overlaps = [overlap(connection, run) for run in together]
        ready = [merged(run.stream.name, found) for run, found in zip(together, overlaps, strict=True)]
        with connected(file, write=True, wait=wait) as connection:
            if check(connection, file) == generation:
                _write(connection, list(zip(together, ready, strict=True)), generation + 1)
                return generation + 1
        if time.monotonic() >= deadline:
            raise StoreBusyError(f"{file} was changed by others each time this run was merged; waited {wait:.0f} s")


def _refuse_twins(runs: Sequence[Run]) -> None:
    names = [run.stream.name for run in runs]
    twins = sorted({name for name in names if names.count(name) > 1})
    if twins or not names:
        raise StoreError(f"a commit takes one run a stream, not {len(names)} of {', '.join(twins) or 'none'}")


def _write(connection: duckdb.DuckDBPyConnection, runs: Sequence[tuple[Run, Merged]], generation: int) -> None:
    used = bytes_used(connection)
    connection.begin()
    try:
        used += sum(_write_run(connection, run, ready, generation) for run, ready in runs)
        connection.execute("UPDATE wane SET generation = $1", [generation])
        live = connection.execute("SELECT coalesce(sum(bytes), 0) FROM sketches").fetchall()[0][0]
        vacuum(connection, wanted=used > _ROOM * int(live))
        connection.commit()
    except BaseException:
        connection.rollback()
        raise
    connection.execute("CHECKPOINT")  # a write-ahead log that is cut short loses commits without a word


def _write_run(connection: duckdb.DuckDBPyConnection, run: Run, ready: Merged, generation: int) -> int:
    """All that a run brings; the bytes of payload that were written."""
    _write_stream(connection, run.stream)
    tables = {
        "wane_epochs": run.sketched.epochs,
        "wane_sketches": run.sketched.sketches,
        "wane_merged": ready.sketches,
        "wane_aside": ready.set_aside,
    }
    for name, table in tables.items():
        connection.register(name, table)
    late = _late(connection, run.stream.name)
    if run.replacing is not None:
        for table in ("epochs", "sketches", "set_aside"):
            connection.execute(
                f"DELETE FROM {table} WHERE stream = $1 AND start + length > $2 AND start < $3",
                [run.stream.name, *run.replacing],
            )
    sketches, size = _write_sketches(connection, run.stream.name, generation)
    _write_epochs(connection, run.stream.name)
    write_ledger(connection, run, generation, sketches=sketches, late=late, size=size)
    for name in tables:
        connection.unregister(name)
    return size


def _check_unit(connection: duckdb.DuckDBPyConnection, stream: Stream) -> None:
    known = connection.execute(
        "SELECT unit_numerator, unit_denominator FROM streams WHERE stream = $1", [stream.name]
    ).fetchall()
    unit = (stream.unit.numerator, stream.unit.denominator)
    if known and known != [unit]:
        raise StoreError(
            f"stream {stream.name!r} counts time in {known[0][0]}/{known[0][1]} s, not {unit[0]}/{unit[1]} s; "
            "another unit needs another stream"
        )


def _write_stream(connection: duckdb.DuckDBPyConnection, stream: Stream) -> None:
    row = (stream.name, stream.unit.numerator, stream.unit.denominator, stream.epoch, json.dumps(stream.settings))
    if connection.execute("FROM streams WHERE stream = $1", [stream.name]).fetchall() == [row]:
        return
    connection.execute("DELETE FROM streams WHERE stream = $1", [stream.name])
    connection.execute("INSERT INTO streams VALUES ($1, $2, $3, $4, $5)", list(row))


def _late(connection: duckdb.DuckDBPyConnection, stream: str) -> int:
    """New events of epochs that were over when the newest event came that their source had before this run."""
    (late,) = connection.execute(
        "SELECT coalesce(sum(events), 0)::BIGINT FROM wane_epochs "
        "JOIN (SELECT source, max(newest) AS seen FROM epochs WHERE stream = $1 GROUP BY source) USING (source) "
        "WHERE start + length <= seen",
        [stream],
    ).fetchall()[0]
    return int(late)


def _write_sketches(connection: duckdb.DuckDBPyConnection, stream: str, generation: int) -> tuple[int, int]:
    """Rows and bytes of payload written: what was merged in place of what it came from, the rest as it came."""
    connection.execute(
        f"INSERT INTO set_aside SELECT $1, {KEY}, $2, reason, payload FROM wane_aside", [stream, generation]
    )
    _delete(connection, "sketches", KEY, "wane_merged", stream)
    connection.execute(
        f"INSERT INTO sketches SELECT $1, {KEY}, $2, octet_length(payload), $3, payload FROM "
        f"(SELECT {KEY}, payload FROM wane_sketches ANTI JOIN wane_merged USING ({KEY}) "
        f"UNION ALL SELECT {KEY}, payload FROM wane_merged) ORDER BY source, start",
        [stream, FORMAT_VERSION, generation],
    )
    rows, size = connection.execute(
        "SELECT count(*), coalesce(sum(bytes), 0)::BIGINT FROM sketches WHERE stream = $1 AND generation = $2",
        [stream, generation],
    ).fetchall()[0]
    return int(rows), int(size)


def _write_epochs(connection: duckdb.DuckDBPyConnection, stream: str) -> None:
    """One row an epoch: what earlier runs brought and what this one brings."""
    connection.execute(
        f"CREATE OR REPLACE TEMP TABLE summed AS SELECT {_EPOCH}, sum(events)::BIGINT AS events, "
        "sum(weight) AS weight, min(oldest) AS oldest, max(newest) AS newest FROM "
        f"(FROM wane_epochs UNION ALL SELECT * EXCLUDE stream FROM epochs SEMI JOIN wane_epochs USING ({_EPOCH}) "
        f"WHERE stream = $1) GROUP BY {_EPOCH}",
        [stream],
    )
    _delete(connection, "epochs", _EPOCH, "summed", stream)
    connection.execute("INSERT INTO epochs SELECT $1, * FROM summed ORDER BY source, start", [stream])
    connection.execute("DROP TABLE summed")


def _delete(connection: duckdb.DuckDBPyConnection, table: str, key: str, rows: str, stream: str) -> None:
    alike = " AND ".join(f"{table}.{name} = {rows}.{name}" for name in key.split(", "))
    connection.execute(f"DELETE FROM {table} USING {rows} WHERE {table}.stream = $1 AND {alike}", [stream])
