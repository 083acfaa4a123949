"""What `wane info` shows: streams, epochs, families, rejects, and every payload that does not check out."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import duckdb

from sketches.decay import format_duration
from sketches.drawn import TimeUnit
from sketches.errors import CorruptError
from sketches.registry import load
from store.catalogue import Gap, StreamHeld, catalogue_in
from store.database import WAIT, connected

_SHOWN_RUNS: Final = 20
_RUN: Final = ("run", "started", "finished", "rows", "rejected", "late", "conflicts", "sketches", "bytes")


def report(path: Path, wait: float = WAIT) -> dict[str, Any]:
    """The whole store in one dictionary; reads and checks every payload.

    `runs` counts all runs; each stream has its own last ones as a list, newest first.
    """
    with connected(path, write=False, wait=wait) as connection:
        catalogue = catalogue_in(connection, path)
        runs = connection.execute("SELECT count(*) FROM runs").fetchall()[0][0]
        streams = [_stream(connection, held) for _, held in sorted(catalogue.streams.items())]
    return {
        "file_bytes": path.stat().st_size,
        "generation": catalogue.generation,
        "runs": runs,
        "streams": streams,
    }


def _stream(connection: duckdb.DuckDBPyConnection, held: StreamHeld) -> dict[str, Any]:
    runs = _runs(connection, held.name)
    files = connection.execute("SELECT count(*) FROM files WHERE stream = $1", [held.name]).fetchall()[0][0]
    oldest = min((known.oldest for known in held.epochs.values()), default=None)
    newest = max((known.newest for known in held.epochs.values()), default=None)
    gaps = [*held.set_aside, *_damaged(connection, held.name), *held.unsketched()]
    return {
        "stream": held.name,
        "sources": len(held.sources),
        "epochs": len({(epoch.start, epoch.length) for epoch in held.epochs}),
        "events": sum(known.events for known in held.epochs.values()),
        "oldest": oldest,
        "newest": newest,
        "oldest_text": moment_text(oldest, held.unit),
        "newest_text": moment_text(newest, held.unit),
        "epoch_text": format_duration(held.epoch * held.unit.numerator / held.unit.denominator),
        "families": [
            {"family": family, "sketches": len(rows), "bytes": held.bytes_of(family)}
            for family, rows in sorted(held.sketches.items())
        ],
        "files": files,
        "last_run": runs[0] if runs else None,
        "runs": runs,
        "source_newest": _newest(held),
        "rejects": _rejects(connection, held.name),
        "gaps": [gap.as_dict() | {"start_text": moment_text(gap.start, held.unit)} for gap in gaps],
    }


def _runs(connection: duckdb.DuckDBPyConnection, stream: str) -> list[dict[str, Any]]:
    """The last runs that brought this stream something, newest first."""
    rows = connection.execute(
        f"SELECT {', '.join(_RUN)} FROM runs WHERE stream = $1 ORDER BY run DESC LIMIT {_SHOWN_RUNS}", [stream]
    ).fetchall()
    return [dict(zip(_RUN, row, strict=True)) for row in rows]


def _rejects(connection: duckdb.DuckDBPyConnection, stream: str) -> list[dict[str, Any]]:
    """Rejected rows by reason over all runs, with the examples of the newest run that gave any."""
    rows = connection.execute(
        "SELECT reason, sum(rows)::BIGINT, coalesce(max_by(examples, run) FILTER (examples <> '[]'), '[]') "
        "FROM rejects WHERE stream = $1 GROUP BY reason ORDER BY reason",
        [stream],
    ).fetchall()
    return [{"reason": reason, "rows": count, "examples": json.loads(examples)} for reason, count, examples in rows]


def _newest(held: StreamHeld) -> dict[str, int]:
    """The newest event of every source: how far a source lags behind the others is the difference."""
    newest: dict[str, int] = {}
    for epoch, known in held.epochs.items():
        newest[epoch.source] = max(known.newest, newest.get(epoch.source, known.newest))
    return dict(sorted(newest.items()))


def _damaged(connection: duckdb.DuckDBPyConnection, stream: str) -> list[Gap]:
    """Payloads that do not load, one batch of rows in memory at a time."""
    found = []
    cursor = connection.execute(
        "SELECT source, start, length, family, payload FROM sketches WHERE stream = $1 ORDER BY source, start", [stream]
    )
    while rows := cursor.fetchmany(256):
        for source, start, length, family, payload in rows:
            try:
                load(payload)
            except CorruptError as error:
                found.append(Gap(source, start, length, family, f"set aside: {error}"))
    return found


def moment_text(moment: int | None, unit: TimeUnit) -> str:
    """A time of the stream in words, or as the bare number where it lies outside the calendar."""
    if moment is None:
        return "nothing"
    try:
        stamp = datetime.fromtimestamp(moment * unit.numerator / unit.denominator, UTC)
    except (OverflowError, ValueError, OSError):
        return str(moment)
    return f"{stamp:%Y-%m-%d %H:%M:%S} UTC"
