"""What `wane info` shows: streams, epochs, families, rejects, and every payload that does not check out."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

import duckdb

from sketches.decay import format_duration
from sketches.drawn import TimeUnit
from sketches.errors import CorruptError
from sketches.registry import load
from store.catalogue import Gap
from store.database import WAIT, connected
from store.schema import check as generation_of

_SHOWN_RUNS: Final = 20
_RUN: Final = ("run", "started", "finished", "rows", "rejected", "late", "conflicts", "sketches", "bytes")


class _Source(NamedTuple):
    events: int
    oldest: int
    newest: int


def report(path: Path, wait: float = WAIT, *, check: bool = True) -> dict[str, Any]:
    """The whole store in one dictionary; reads and checks every payload, unless `check` is false.

    Without the check it reads no payload and counts inside DuckDB, so that it is quick however many sketches there are;
    gaps are then those known without looking: what was set aside, and epochs without a sketch.

    `runs` counts all runs; each stream has its own last ones as a list, newest first.
    """
    with connected(path, write=False, wait=wait) as connection:
        generation = generation_of(connection, path)
        runs = connection.execute("SELECT count(*) FROM runs").fetchall()[0][0]
        rows = connection.execute("FROM streams ORDER BY stream").fetchall()
        streams = [
            _stream(connection, name, TimeUnit(numerator, denominator), epoch, settings, check=check)
            for name, numerator, denominator, epoch, settings in rows
        ]
    return {
        "file_bytes": path.stat().st_size,
        "generation": generation,
        "runs": runs,
        "streams": streams,
    }


def _stream(
    connection: duckdb.DuckDBPyConnection, name: str, unit: TimeUnit, epoch: int, settings: str, *, check: bool
) -> dict[str, Any]:
    runs = _runs(connection, name)
    sources = _sources(connection, name)
    oldest = min((one.oldest for one in sources.values()), default=None)
    newest = max((one.newest for one in sources.values()), default=None)
    (epochs,) = _row(
        connection, "SELECT count(*) FROM (SELECT DISTINCT start, length FROM epochs WHERE stream = $1)", name
    )
    files, size = _row(connection, "SELECT count(*), coalesce(sum(size), 0)::BIGINT FROM files WHERE stream = $1", name)
    gaps = [
        *_set_aside(connection, name),
        *(_damaged(connection, name) if check else ()),
        *_unsketched(connection, name),
    ]
    texts = {start: moment_text(start, unit) for start in {gap.start for gap in gaps}}  # sources share their starts
    return {
        "stream": name,
        "settings": json.loads(settings),
        "sources": len(sources),
        "epochs": epochs,
        "events": sum(one.events for one in sources.values()),
        "oldest": oldest,
        "newest": newest,
        "oldest_text": moment_text(oldest, unit),
        "newest_text": moment_text(newest, unit),
        "epoch_text": format_duration(epoch * unit.numerator / unit.denominator),
        "families": _families(connection, name),
        "files": files,
        "input_bytes": size,
        "last_run": runs[0] if runs else None,
        "runs": runs,
        "source_events": {source: one.events for source, one in sources.items()},
        "source_newest": {source: one.newest for source, one in sources.items()},
        "rejects": _rejects(connection, name),
        "gaps": [gap.as_dict() | {"start_text": texts[gap.start]} for gap in gaps],
    }


def _row(connection: duckdb.DuckDBPyConnection, query: str, stream: str) -> tuple[Any, ...]:
    (row,) = connection.execute(query, [stream]).fetchall()
    return tuple(row)


def _sources(connection: duckdb.DuckDBPyConnection, stream: str) -> dict[str, _Source]:
    """What every source has brought, by name: how far one lags behind the others is a difference of newest events."""
    rows = connection.execute(
        "SELECT source, sum(events)::BIGINT, min(oldest), max(newest) FROM epochs WHERE stream = $1 GROUP BY source",
        [stream],
    ).fetchall()
    return {source: _Source(*numbers) for source, *numbers in sorted(rows)}


def _families(connection: duckdb.DuckDBPyConnection, stream: str) -> list[dict[str, Any]]:
    """The sketches of each family: how many, their bytes, those of the largest and of one on average."""
    names = ("family", "sketches", "bytes", "largest", "mean")
    rows = connection.execute(
        "SELECT family, count(*), sum(bytes)::BIGINT, max(bytes), avg(bytes) FROM sketches WHERE stream = $1 "
        "GROUP BY family ORDER BY family",
        [stream],
    ).fetchall()
    return [dict(zip(names, row, strict=True)) for row in rows]


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


def _set_aside(connection: duckdb.DuckDBPyConnection, stream: str) -> list[Gap]:
    rows = connection.execute("SELECT source, start, length, family, reason FROM set_aside WHERE stream = $1", [stream])
    return [Gap(*row) for row in rows.fetchall()]


def _unsketched(connection: duckdb.DuckDBPyConnection, stream: str) -> list[Gap]:
    """Epochs with events that have no sketch of a family which other epochs have (one added later, or lost)."""
    rows = connection.execute(
        "SELECT source, start, length, family FROM epochs "
        "CROSS JOIN (SELECT DISTINCT family FROM sketches WHERE stream = $1) WHERE stream = $1 "
        "EXCEPT SELECT source, start, length, family FROM sketches WHERE stream = $1 ORDER BY family, source, start",
        [stream],
    )
    return [
        Gap(source, start, length, family, f"no {family} sketch is stored")
        for source, start, length, family in rows.fetchall()
    ]


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
