"""The report behind `wane info` and the page Health: streams, epochs, families, runs, rejected rows and gaps."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import duckdb

from sketches.durations import format_duration
from sketches.errors import CorruptError
from sketches.formatting import counted, moment_text, row_text, size_text
from sketches.registry import load
from sketches.units import TimeUnit
from store.database import WAIT, connected
from store.keys import ALL_EPOCHS
from store.schema import check as generation_of
from store.serving.catalogue import Gap

_REPORTED_RUNS: Final = 20  # of each stream
_SHOWN_GAPS: Final = 20
_SHOWN_EXAMPLES: Final = 2
_RUN: Final = ("run", "started", "finished", "rows", "rejected", "late", "conflicts", "sketches", "bytes")


class _SourceTotals(NamedTuple):
    events: int
    oldest: int
    newest: int


def report(path: Path, wait: float = WAIT, *, check: bool = True) -> dict[str, Any]:
    """The whole store in one dictionary; reads and checks every payload, unless `check` is false.

    Without the check it reads no payload and counts inside DuckDB, so it is quick however many sketches there are. Its
    gaps are then only the sketches that were set aside and the epochs without a sketch.

    `runs` counts all runs. Each stream has its own last runs as a list, newest first.
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
    oldest = min((totals.oldest for totals in sources.values()), default=None)
    newest = max((totals.newest for totals in sources.values()), default=None)
    (epochs,) = _row(
        connection, "SELECT count(*) FROM (SELECT DISTINCT start, length FROM epochs WHERE stream = $1)", name
    )
    files, size = _row(connection, "SELECT count(*), coalesce(sum(size), 0)::BIGINT FROM files WHERE stream = $1", name)
    gaps = [
        *_set_aside(connection, name),
        *(_damaged(connection, name) if check else ()),
        *_unsketched(connection, name),
    ]
    starts = {(gap.start, gap.length) for gap in gaps}  # sources share them
    texts = {epoch: moment_text(epoch[0], unit) if epoch != ALL_EPOCHS else "every epoch" for epoch in starts}
    return {
        "stream": name,
        "settings": json.loads(settings),
        "sources": len(sources),
        "epochs": epochs,
        "events": sum(totals.events for totals in sources.values()),
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
        "source_events": {source: totals.events for source, totals in sources.items()},
        "source_newest": {source: totals.newest for source, totals in sources.items()},
        "rejects": _rejects(connection, name),
        "gaps": [gap.as_dict() | {"start_text": texts[gap.start, gap.length]} for gap in gaps],
    }


def _row(connection: duckdb.DuckDBPyConnection, query: str, stream: str) -> tuple[Any, ...]:
    (row,) = connection.execute(query, [stream]).fetchall()
    return tuple(row)


def _sources(connection: duckdb.DuckDBPyConnection, stream: str) -> dict[str, _SourceTotals]:
    """The totals of every source over all epochs, by name."""
    rows = connection.execute(
        "SELECT source, sum(events)::BIGINT, min(oldest), max(newest) FROM epochs WHERE stream = $1 GROUP BY source",
        [stream],
    ).fetchall()
    return {source: _SourceTotals(*numbers) for source, *numbers in sorted(rows)}


def _families(connection: duckdb.DuckDBPyConnection, stream: str) -> list[dict[str, Any]]:
    """The sketches of each family: how many, their bytes, the bytes of the largest and of one on average."""
    names = ("family", "sketches", "bytes", "largest", "mean")
    rows = connection.execute(
        "SELECT family, count(*), sum(bytes)::BIGINT, max(bytes), avg(bytes) FROM sketches WHERE stream = $1 "
        "GROUP BY family ORDER BY family",
        [stream],
    ).fetchall()
    return [dict(zip(names, row, strict=True)) for row in rows]


def _runs(connection: duckdb.DuckDBPyConnection, stream: str) -> list[dict[str, Any]]:
    """The last runs that brought events of this stream, newest first."""
    rows = connection.execute(
        f"SELECT {', '.join(_RUN)} FROM runs WHERE stream = $1 ORDER BY run DESC LIMIT {_REPORTED_RUNS}", [stream]
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
    """Epochs with events, but without a sketch of a family that other epochs have: it was added later, or lost."""
    rows = connection.execute(
        "SELECT source, start, length, family FROM epochs "
        "CROSS JOIN (SELECT DISTINCT family FROM sketches WHERE stream = $1 AND length > 0) WHERE stream = $1 "
        "EXCEPT SELECT source, start, length, family FROM sketches WHERE stream = $1 ORDER BY family, source, start",
        [stream],
    )
    return [
        Gap(source, start, length, family, f"no {family} sketch is stored")
        for source, start, length, family in rows.fetchall()
    ]


def _damaged(connection: duckdb.DuckDBPyConnection, stream: str) -> list[Gap]:
    """The payloads that cannot be loaded. Few rows at a time are in memory."""
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


def report_lines(found: dict[str, Any], path: Path | str) -> Iterator[str]:
    """A report as `wane info` prints it."""
    runs = counted(found["runs"], "run")
    yield f"{path}: {size_text(found['file_bytes'])}, generation {found['generation']}, {runs}"
    if not found["streams"]:
        yield "It holds no streams yet: `wane ingest` brings some."
    for stream in found["streams"]:
        yield ""
        yield from _stream_lines(stream)


def _stream_lines(stream: dict[str, Any]) -> Iterator[str]:
    sources, epochs = counted(stream["sources"], "source"), counted(stream["epochs"], "epoch")
    yield f"{stream['stream']}: {counted(stream['events'], 'event')} of {sources} in {epochs}"
    yield f"  from {stream['oldest_text']} to {stream['newest_text']}, epochs of {stream['epoch_text']}"
    for family in stream["families"]:
        sketches = counted(family["sketches"], "sketch", "sketches")
        yield f"  {family['family']:12} {sketches}, {size_text(family['bytes'])}"
    last = stream["last_run"]
    if last is not None:
        yield (
            f"  last run     {last['finished']:%Y-%m-%d %H:%M:%S} UTC: {counted(last['rows'], 'row')}, "
            f"{last['late']:,} late, {last['rejected']:,} rejected; {counted(stream['files'], 'file')} so far"
        )
    for reject in stream["rejects"]:
        yield f"  rejected     {counted(reject['rows'], 'row')}: {reject['reason']}"
        for example in reject["examples"][:_SHOWN_EXAMPLES]:
            yield f"               such as {row_text(example)}"
    yield from _gap_lines(stream["gaps"])


def _gap_lines(gaps: Sequence[dict[str, Any]]) -> Iterator[str]:
    for gap in gaps[:_SHOWN_GAPS]:
        yield f"  gap          {gap['source'] or 'all sources'} at {gap['start_text']}: {gap['reason']}"
    if len(gaps) > _SHOWN_GAPS:
        yield f"  …            and {counted(len(gaps) - _SHOWN_GAPS, 'more gap')}; --json lists them all"
