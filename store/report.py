"""What `wane info` shows: streams, epochs, families, rejects, and every payload that does not check out."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb

from sketches.decay import format_duration
from sketches.drawn import TimeUnit
from sketches.errors import CorruptError
from sketches.registry import load
from store.catalogue import Gap, StreamHeld, catalogue_in
from store.database import WAIT, connected


def report(path: Path, wait: float = WAIT) -> dict[str, Any]:
    """The whole store in one dictionary; reads and checks every payload."""
    with connected(path, write=False, wait=wait) as connection:
        catalogue = catalogue_in(connection, path)
        runs = connection.execute("SELECT count(*) FROM runs").fetchone()
        streams = [_stream(connection, held) for _, held in sorted(catalogue.streams.items())]
    return {
        "file_bytes": path.stat().st_size,
        "generation": catalogue.generation,
        "runs": runs[0] if runs else 0,
        "streams": streams,
    }


def _stream(connection: duckdb.DuckDBPyConnection, held: StreamHeld) -> dict[str, Any]:
    rejects = connection.execute(
        "SELECT reason, sum(rows)::BIGINT, any_value(examples) FROM rejects "
        "WHERE stream = $1 GROUP BY reason ORDER BY reason",
        [held.name],
    ).fetchall()
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
        "rejects": [{"reason": reason, "rows": rows, "examples": examples} for reason, rows, examples in rejects],
        "gaps": [gap.as_dict() | {"start_text": moment_text(gap.start, held.unit)} for gap in gaps],
    }


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
