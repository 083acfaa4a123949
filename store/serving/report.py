"""The report behind `wane info` and the page Health: streams, epochs, families, runs, rejected rows and gaps.

Epochs count rows. How many different events these are, only sketches that forgive repeats can tell.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence, Set
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from sketches.durations import format_duration
from sketches.errors import CorruptError, WaneError
from sketches.estimate import Estimate
from sketches.formatting import counted, limit_texts, moment_text, row_text, size_text
from sketches.question import Question
from sketches.registry import FAMILIES, family_of, load
from sketches.units import TimeUnit
from store.database import WAIT, connected
from store.engine import duckdb
from store.keys import ALL_EPOCHS, is_in_parts
from store.packed_ledger import open_ledger
from store.packed_sources import read_sources
from store.schema import check as generation_of
from store.serving.catalogue import Gap, catalogue_in
from store.serving.provenance import unknown_in_words
from store.serving.resolution import HEADER, resolutions
from store.serving.selected import askable_of
from store.serving.store import Store

_REPORTED_RUNS: Final = 20  # of each stream
_SHOWN_GAPS: Final = 20
_SHOWN_EXAMPLES: Final = 2
_MOST_PAYLOAD: Final = 64 << 20  # bytes that are read to tell how many different events there are
_RUN: Final = (
    "run",
    "started",
    "finished",
    "rows",
    "rejected",
    "late",
    "conflicts",
    "sketches",
    "bytes",
    "repeats",
    "ahead",
)


class _SourceTotals(NamedTuple):
    events: int  # rows
    weight: float  # in multiples of weight_step
    oldest: int
    newest: int


def report(path: Path, wait: float = WAIT, *, check: bool = True, streams: Set[str] | None = None) -> dict[str, Any]:
    """The whole store in one dictionary; reads and checks every payload, unless `check` is false.

    Without the check it reads no payload and counts inside DuckDB, so it is quick however many sketches there are. Its
    gaps are then only the sketches that were set aside and the epochs without a sketch, and `distinct` is None.

    `runs` counts all runs. Each stream has its own last runs as a list, newest first. `streams` are those that may be
    seen; it tells of no others.
    """
    with connected(path, write=False, wait=wait) as connection:
        generation = generation_of(connection, path)
        open_ledger(connection)
        rows = connection.execute("FROM streams ORDER BY stream").fetchall()
        rows = [row for row in rows if streams is None or row[0] in streams]
        names = [row[0] for row in rows]
        runs = connection.execute("SELECT count(*) FROM all_runs WHERE stream IN $1", [names]).fetchall()[0][0]
        found_streams = [
            _stream(connection, name, TimeUnit(numerator, denominator), epoch, settings, check=check)
            for name, numerator, denominator, epoch, settings in rows
        ]
        known = catalogue_in(connection, path).streams
        for stream in found_streams:
            found = resolutions(connection, known[stream["stream"]])
            stream["resolution"] = [one.as_dict() | {"line": one.line()} for one in found]
    store = Store(path, wait=wait)
    for stream in found_streams if check else ():
        found_events = distinct_events(store, stream["stream"])
        stream["distinct"] = _as_dict(found_events)
        stream["unknown_fields"] = unknown_fields(store, stream["stream"])
        if found_events is not None and found_events.seen is not None:
            stream["repeated"] = found_events.seen.as_dict()["repeated"]
    return {
        "file_bytes": path.stat().st_size,
        "generation": generation,
        "runs": runs,
        "streams": found_streams,
    }


def distinct_events(store: Store, stream: str) -> Estimate | None:
    """About how many different events a stream holds; None where its sketches cannot tell, or are too many to read."""
    held = store.catalogue().streams.get(stream)
    if held is None:
        return None
    for name, keys in held.sketches.items():
        family = FAMILIES.get(name)
        if family is None or not family.abilities.forgives_repeats or family.abilities.fixed_decay:
            continue
        if sum(size for _, size in keys.values()) > _MOST_PAYLOAD:
            continue
        with suppress(WaneError):
            question = Question("count", as_of=held.newest(held.sources), counting="events")
            return store.ask(stream, question, family=name).estimate
    return None


def unknown_fields(store: Store, stream: str) -> list[str]:
    """The fields that events of some time came without, in words; none where sketches are too many to read."""
    held = store.catalogue(stream).streams.get(stream)
    if held is None or not held.fields:
        return []
    for name, keys in held.sketches.items():
        family = FAMILIES.get(name)
        if family is None or not family.abilities.fields or sum(size for _, size in keys.values()) > _MOST_PAYLOAD:
            continue
        with suppress(WaneError):
            askable = askable_of(store.selected(stream, Question("count"), name).selections[0])
            return list(unknown_in_words(held, askable, held.fields.keys(), held.newest(held.sources) or 0))
    return []


def _as_dict(estimate: Estimate | None) -> dict[str, float] | None:
    return None if estimate is None else {name: getattr(estimate, name) for name in ("value", "lower", "upper")}


def _stream(
    connection: duckdb.DuckDBPyConnection, name: str, unit: TimeUnit, epoch: int, settings: str, *, check: bool
) -> dict[str, Any]:
    runs = _runs(connection, name)
    sources = _sources(connection, name)
    oldest = min((totals.oldest for totals in sources.values()), default=None)
    newest = max((totals.newest for totals in sources.values()), default=None)
    (epochs,) = _row(connection, "SELECT count(*) FROM epochs WHERE stream = $1", name)
    files, size = _row(
        connection, "SELECT count(*), coalesce(sum(size), 0)::BIGINT FROM all_files WHERE stream = $1", name
    )
    repeats, ahead = _row(
        connection,
        "SELECT coalesce(sum(repeats), 0)::BIGINT, coalesce(sum(ahead), 0)::BIGINT FROM all_runs WHERE stream = $1",
        name,
    )
    described = json.loads(settings)
    step = described.get("weight_step", 1) if isinstance(described, dict) else 1
    rows = sum(totals.events for totals in sources.values())
    gaps = [
        *_set_aside(connection, name),
        *(_damaged(connection, name) if check else ()),
        *_unsketched(connection, name),
    ]
    starts = {(gap.start, gap.length) for gap in gaps}  # sources share them
    texts = {epoch: moment_text(epoch[0], unit) if epoch != ALL_EPOCHS else "every epoch" for epoch in starts}
    return {
        "stream": name,
        "settings": described,
        "sources": len(sources),
        "epochs": epochs,
        "rows": rows,
        "events": rows,  # the name that `rows` had in earlier versions
        "unknown_fields": [],
        "distinct": None,
        "repeated": None,  # the share of rows that repeat an event, with its limits, where it is known
        "weight": sum(totals.weight for totals in sources.values()) * step,
        "repeats": repeats,
        "ahead": ahead,
        "oldest": oldest,
        "newest": newest,
        "oldest_text": moment_text(oldest, unit),
        "newest_text": moment_text(newest, unit),
        "epoch_text": format_duration(epoch * unit.numerator / unit.denominator),
        "families": _families(connection, name),
        "resolution": [],
        "files": files,
        "input_bytes": size,
        "last_run": runs[0] if runs else None,
        "runs": runs,
        "source_rows": {source: totals.events for source, totals in sources.items()},
        "source_events": {source: totals.events for source, totals in sources.items()},  # the same, by its old name
        "source_newest": {source: totals.newest for source, totals in sources.items()},
        "rejects": _rejects(connection, name),
        "gaps": [gap.as_dict() | {"start_text": texts[gap.start, gap.length]} for gap in gaps],
    }


def _row(connection: duckdb.DuckDBPyConnection, query: str, stream: str) -> tuple[Any, ...]:
    (row,) = connection.execute(query, [stream]).fetchall()
    return tuple(row)


def _sources(connection: duckdb.DuckDBPyConnection, stream: str) -> dict[str, _SourceTotals]:
    """The totals of every source over all epochs, by name."""
    found = read_sources(connection, [stream]).get(stream)
    if found is None:
        return {}
    names, *columns = found
    totals = zip(*(column.tolist() for column in columns[:4]), strict=True)
    return {source: _SourceTotals(*numbers) for source, numbers in zip(names, totals, strict=True)}


def _families(connection: duckdb.DuckDBPyConnection, stream: str) -> list[dict[str, Any]]:
    """The sketches of each family, or the segments of its one: how many, their bytes, the largest, the mean."""
    names = ("family", "sketches", "bytes", "largest", "mean", "faded")
    rows = connection.execute(
        "SELECT family, sum(number)::BIGINT, sum(bytes)::BIGINT, max(bytes), avg(bytes), sum(faded)::BIGINT FROM ("
        "SELECT family, 1 AS number, bytes, (sketches.length > streams.epoch)::INT AS faded FROM sketches "
        "JOIN streams USING (stream) WHERE stream = $1 UNION ALL "
        "SELECT family, 1, bytes, 0 FROM segments WHERE stream = $1 UNION ALL "
        "SELECT family, 0, bytes, 0 FROM heads WHERE stream = $1) GROUP BY family ORDER BY family",
        [stream],
    ).fetchall()
    return [dict(zip(names, row, strict=True)) for row in rows]


def _runs(connection: duckdb.DuckDBPyConnection, stream: str) -> list[dict[str, Any]]:
    """The last runs that brought events of this stream, newest first."""
    rows = connection.execute(
        f"SELECT {', '.join(_RUN)} FROM all_runs WHERE stream = $1 ORDER BY run DESC LIMIT {_REPORTED_RUNS}", [stream]
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
    """Epochs with events, but without a sketch of a family that other epochs have: it was added later, or lost.

    Which sources have events in an epoch, the sketches of other families tell; where there are none, it is all of them.
    """
    in_parts = [family for family in FAMILIES if is_in_parts(family)]
    rows = connection.execute(
        "WITH own AS (SELECT source, start, length, family FROM sketches WHERE stream = $1 AND length > 0 "
        "AND family NOT IN (SELECT unnest($2))), families AS (SELECT DISTINCT family FROM own), "
        "held AS (SELECT start, length FROM epochs WHERE stream = $1), "
        "keys AS (SELECT DISTINCT source, start, length FROM own SEMI JOIN held USING (start, length)), "
        "lacking AS (SELECT source, start, length, family FROM keys CROSS JOIN families EXCEPT FROM own), "
        "without AS (SELECT '' AS source, start, length, family FROM held ANTI JOIN keys USING (start, length) "
        "CROSS JOIN families) "
        "SELECT source, start, length, family FROM (FROM lacking UNION ALL FROM without) AS gap WHERE NOT EXISTS "
        "(FROM own WHERE own.family = gap.family AND (gap.source = '' OR own.source = gap.source) "
        "AND own.start <= gap.start AND own.start + own.length >= gap.start + gap.length) "
        "ORDER BY family, source, start",
        [stream, in_parts],
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
    return found + _damaged_parts(connection, stream)


def _damaged_parts(connection: duckdb.DuckDBPyConnection, stream: str) -> list[Gap]:
    found = []
    heads = connection.execute("SELECT family, payload FROM heads WHERE stream = $1", [stream]).fetchall()
    for family, head in heads:
        segments = connection.execute(
            "SELECT oldest, newest, payload FROM segments WHERE stream = $1 AND family = $2 ORDER BY oldest, newest",
            [stream, family],
        ).fetchall()
        try:
            _, damaged = family_of(family).from_parts(head, [payload for *_, payload in segments])
        except WaneError as error:
            found.append(Gap("", *ALL_EPOCHS, family, f"set aside: {error}"))
            continue
        for number, reason in damaged.items():
            oldest, newest, _ = segments[number]
            found.append(Gap("", oldest, newest - oldest + 1, family, f"set aside: {reason}"))
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
    yield f"{stream['stream']}: {counted(stream['rows'], 'row')} of {sources} in {epochs}"
    yield f"  events       {_distinct_text(stream)}"
    yield f"  from {stream['oldest_text']} to {stream['newest_text']}, epochs of {stream['epoch_text']}"
    kinds = stream["settings"].get("field_kinds", {}) if isinstance(stream["settings"], dict) else {}
    if kinds:
        yield f"  fields: {', '.join(f'{name} ({kind})' for name, kind in sorted(kinds.items()))}"
    yield from (f"               {words}" for words in stream["unknown_fields"])
    for family in stream["families"]:
        words = ("segment", "segments") if is_in_parts(family["family"]) else ("sketch", "sketches")
        faded = f"; {family['faded']:,} of several epochs that have faded" if family["faded"] else ""
        yield f"  {family['family']:12} {counted(family['sketches'], *words)}, {size_text(family['bytes'])}{faded}"
    if stream["resolution"]:
        yield f"  {HEADER}"
        yield from (f"  {one['line']}" for one in stream["resolution"])
    last = stream["last_run"]
    if last is not None:
        yield (
            f"  last run     {last['finished']:%Y-%m-%d %H:%M:%S} UTC: {counted(last['rows'], 'row')}, "
            f"{last['late']:,} late, {last['rejected']:,} rejected; {counted(stream['files'], 'file')} so far"
        )
    if stream["repeats"]:
        yield f"  repeats      about {counted(stream['repeats'], 'row')} repeated an event of the same run"
    if revoked := stream["settings"].get("unique_revoked"):
        yield f"  unique       revoked: {revoked}"
    if stream["ahead"]:
        yield f"  ahead        {counted(stream['ahead'], 'row')} ahead of the clock of the run that brought them"
    for reject in stream["rejects"]:
        yield f"  rejected     {counted(reject['rows'], 'row')}: {reject['reason']}"
        for example in reject["examples"][:_SHOWN_EXAMPLES]:
            yield f"               such as {row_text(example)}"
    yield from _gap_lines(stream["gaps"])


def _distinct_text(stream: dict[str, Any]) -> str:
    """How many different events there are, or what to do to know it."""
    found = stream["distinct"]
    if found is None:
        return "unknown: no stored sketch tells repeated rows from others" if stream["rows"] else "none"
    if found["lower"] == found["upper"]:
        return f"{counted(round(found['value']), 'different one')}{_repeated_text(stream)}"
    lower, upper = limit_texts(found["lower"], found["upper"])
    return f"about {found['value']:,.0f} different ones, between {lower} and {upper}{_repeated_text(stream)}"


def _repeated_text(stream: dict[str, Any]) -> str:
    """Which share of the rows repeats an event, where that is known and some may."""
    found = stream["repeated"]
    if not found or not found["upper"]:
        return ""
    lower, upper = (f"{100.0 * found[name]:.2g}%" for name in ("lower", "upper"))
    return f"; {lower} to {upper} of the rows repeat an event"


def _gap_lines(gaps: Sequence[dict[str, Any]]) -> Iterator[str]:
    for gap in gaps[:_SHOWN_GAPS]:
        yield f"  gap          {gap['source'] or 'all sources'} at {gap['start_text']}: {gap['reason']}"
    if len(gaps) > _SHOWN_GAPS:
        yield f"  …            and {counted(len(gaps) - _SHOWN_GAPS, 'more gap')}; --json lists them all"
