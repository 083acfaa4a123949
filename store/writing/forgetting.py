"""Taking events out of a store for good: a stream, a source, a range of times.

Sketches in parts lose exactly these events; sketches of many epochs do, but for blocks of time that the range cuts, of
which no value is left. A sketch of an epoch that cannot lose some of its events is dropped, and is a gap until a
backfill builds it again. Examples of rejected rows go too. What is left is written to a new file, which
takes the place of the old one: all of it happens or nothing, and no byte of what was forgotten is left in the file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import field
from pathlib import Path

import duckdb

from sketches.encoding.envelope import FORMAT_VERSION
from sketches.errors import CorruptError
from sketches.event_rules import MAX_TIME
from sketches.formatting import counted, listed
from sketches.records import dataclass
from sketches.registry import FAMILIES, load
from store.database import WAIT, StoreError, abandon, connected
from store.keys import ALL_EPOCHS, is_cut, is_in_parts
from store.packed_sources import close_sources, open_sources
from store.schema import check, mark_of, migrate, next_commit
from store.writing.compacting import OF_STREAMS, written_anew
from store.writing.stream_parts import MergedParts, read_parts, stored_sketch, write_parts


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What was taken out: sampled rows, and sketches of epochs by family, which a backfill would build again."""

    stream: str
    whole: bool
    rows: int = 0
    dropped: dict[str, int] = field(default_factory=dict)
    cut: int = 0  # sketches of many epochs that lost events

    def as_dict(self) -> dict[str, object]:
        found = {"stream": self.stream, "whole": self.whole, "rows": self.rows, "dropped": self.dropped}
        return found | {"cut": self.cut}

    def lines(self) -> list[str]:
        """In words, a sentence a line."""
        if self.whole:
            return [f"Stream {self.stream!r} and its ledger are gone; `wane ingest` would read its files anew."]
        found = [
            f"{counted(self.rows, 'kept row')} of stream {self.stream!r} {'is' if self.rows == 1 else 'are'} gone."
        ]
        if self.cut:
            found.append(
                f"{counted(self.cut, 'sketch', 'sketches')} of many epochs lost them, and of a block of time that the "
                "range cuts all values; a backfill of that time narrows what is then in doubt."
            )
        found += [
            f"{counted(number, 'sketch', 'sketches')} of family {family} had to be dropped whole; "
            "`wane ingest --backfill FROM..TO` builds them again from the files that are left."
            for family, number in sorted(self.dropped.items())
        ]
        return [*found, "The ledger still knows the files: what they hold is not read again unless by a backfill."]


def forget(
    path: str | Path,
    stream: str,
    *,
    sources: Sequence[str] = (),
    begin: int | None = None,
    end: int | None = None,
    wait: float = WAIT,
) -> Forgotten:
    """Forget a stream, or its events of some sources, or those from `begin` to before `end`, or both at once."""
    file = Path(path).resolve()  # a link stays one
    if not file.exists():
        raise StoreError(f"{file} does not exist; `wane ingest` creates it")
    if begin is not None and end is not None and begin >= end:
        raise StoreError(f"the range from {begin} to {end} is empty; the end must lie after the start")
    migrate(file, wait)
    with connected(file, write=True, wait=wait) as connection:
        generation = check(connection, file) + 1
        known = {name for (name,) in connection.execute("SELECT stream FROM streams").fetchall()}
        if stream not in known:
            raise StoreError(f"stream {stream!r} is not in the store; it holds {', '.join(sorted(known)) or 'none'}")
        if sources or begin is not None or end is not None:
            _refuse_merged(connection, stream)
        connection.execute("CHECKPOINT")  # so that no write-ahead log is left behind
        connection.begin()
        try:
            if not sources and begin is None and end is None:
                found = _forget_stream(connection, stream)
            else:
                span = (-MAX_TIME if begin is None else begin, MAX_TIME if end is None else end)
                found = _forget_events(connection, stream, list(sources), span, generation)
            connection.execute("UPDATE rejects SET examples = '[]' WHERE stream = $1", [stream])
            next_commit(connection)
            with written_anew(connection, file) as copy:
                connection.rollback()  # the old file stays as it is, with all that is to be forgotten, until it goes
                copy.replace(file)
        except BaseException:
            abandon(connection)  # it may be rolled back already
            raise
    return found


def _refuse_merged(connection: duckdb.DuckDBPyConnection, stream: str) -> None:
    sites = connection.execute("SELECT name FROM sites WHERE stream = $1 ORDER BY name", [stream]).fetchall()
    if sites:
        raise StoreError(
            f"stream {stream!r} is merged from other stores, which would bring these events again; forget them there "
            f"({listed([name for (name,) in sites])}), and then merge and compact; or forget the whole stream here"
        )


def _forget_stream(connection: duckdb.DuckDBPyConnection, stream: str) -> Forgotten:
    for table in OF_STREAMS:
        connection.execute(f"DELETE FROM {table} WHERE stream = $1", [stream])
    return Forgotten(stream, whole=True)


def _forget_events(
    connection: duckdb.DuckDBPyConnection, stream: str, sources: list[str], span: tuple[int, int], generation: int
) -> Forgotten:
    open_sources(connection)
    _check_sources(connection, stream, sources)
    epoch = int(connection.execute("SELECT epoch FROM streams WHERE stream = $1", [stream]).fetchall()[0][0])
    rows = 0
    heads = connection.execute("SELECT family FROM heads WHERE stream = $1", [stream]).fetchall()
    for (family,) in heads:
        if family not in FAMILIES:
            raise StoreError(f"family {family!r} of stream {stream!r} is not known to this version of wane")
        held = read_parts(connection, stream, family)
        sketch, damaged = stored_sketch(held)
        if sketch is None:
            continue
        left = sketch.without(*span, sources or None, for_good=True)
        parts = left.parts(epoch)
        if left.kept < sketch.kept or damaged or parts.head != held.head:
            write_parts(connection, stream, [MergedParts(family, parts, (), damaged)], mark_of(generation))
        rows += sketch.kept - left.kept
    cut, unread = _cut_sketches(connection, stream, sources, span, mark_of(generation))
    gone, dropped = _drop_sketches(connection, stream, sources, span)
    _subtract(connection, stream, sources, span, found=rows + cut + gone > 0)
    close_sources(connection)
    return Forgotten(stream, whole=False, rows=rows, dropped=dropped | unread, cut=cut)


def _check_sources(connection: duckdb.DuckDBPyConnection, stream: str, sources: list[str]) -> None:
    rows = connection.execute("SELECT source FROM sources WHERE stream = $1", [stream]).fetchall()
    known = {source for (source,) in rows}
    for source in sources:
        if source not in known:
            raise StoreError(f"source {source!r} is not in stream {stream!r}")


def _cut_sketches(
    connection: duckdb.DuckDBPyConnection, stream: str, sources: list[str], span: tuple[int, int], mark: int
) -> tuple[int, dict[str, int]]:
    """Take such events out of sketches of many epochs; how many lost some, and how many of each family could not be
    read and went whole."""
    able = "stream = $1 AND length = 0 AND family IN (SELECT unnest($2)) AND ($3 = [] OR source IN (SELECT unnest($3)))"
    values = [stream, list(filter(is_cut, FAMILIES)), sources]
    rows = connection.execute(f"SELECT source, family, payload FROM sketches WHERE {able}", values).fetchall()
    connection.execute(f"DELETE FROM set_aside WHERE {able}", values)
    cut, unread = 0, Counter[str]()
    for source, family, payload in rows:
        try:
            sketch = load(payload)
            left = sketch.without(*span, for_good=True)
        except CorruptError:
            unread[family] += 1
            left = None
            connection.execute(
                "INSERT INTO set_aside VALUES ($1, $2, $3, $4, $5, $6, 'it could not be read, and was forgotten', '')",
                [stream, source, *ALL_EPOCHS, family, mark],
            )
        if left is not None and left is sketch:
            continue
        cut += left is not None
        key = [stream, source, family]
        if left is None or left.extremes.newest is None:
            connection.execute("DELETE FROM sketches WHERE stream = $1 AND source = $2 AND family = $3", key)
            continue
        data = left.to_bytes()
        connection.execute(
            "UPDATE sketches SET payload = $4, bytes = $5, format = $6, generation = $7 "
            "WHERE stream = $1 AND source = $2 AND family = $3",
            [*key, data, len(data), FORMAT_VERSION, mark],
        )
    return cut, dict(unread)


def _drop_sketches(
    connection: duckdb.DuckDBPyConnection, stream: str, sources: list[str], span: tuple[int, int]
) -> tuple[int, dict[str, int]]:
    """Drop the sketches of epochs that hold such events; how many, and how many of each family hold others too."""
    mine = (
        "stream = $1 AND ($2 = [] OR source IN (SELECT unnest($2)) OR source = '') "
        "AND NOT (length = 0 AND family IN (SELECT unnest($5)))"
    )
    touched = f"{mine} AND (length = 0 OR (start + length > $3 AND start < $4))"
    values = [stream, sources, *span, list(filter(is_cut, FAMILIES))]
    others = connection.execute(
        f"SELECT family, count(*) FROM sketches WHERE {touched} AND "
        "(length = 0 OR start < $3 OR start + length > $4) GROUP BY family",
        values,
    ).fetchall()
    _leave_gaps(connection, touched, values)
    gone = 0
    for table in ("sketches", "set_aside"):
        gone += len(connection.execute(f"DELETE FROM {table} WHERE {touched} RETURNING 1", values).fetchall())
    return gone, {family: number for family, number in others if not is_in_parts(family) or number}


def _leave_gaps(connection: duckdb.DuckDBPyConnection, touched: str, values: list[object]) -> None:
    """Where a sketch of several epochs goes for the sake of some, the others are known as gaps."""
    connection.execute(
        "CREATE TEMP TABLE left_over AS SELECT stream, source, part.start, part.stop - part.start AS length, family, "
        "generation, 'dropped with a part of it that was forgotten' AS reason, ''::BLOB AS payload FROM ("
        "SELECT sketches.*, unnest([{start: sketches.start, stop: least($3, sketches.start + sketches.length)}, "
        "{start: greatest($4, sketches.start), stop: sketches.start + sketches.length}]) AS part "
        f"FROM sketches JOIN (SELECT stream, epoch FROM streams) USING (stream) WHERE {touched} "
        "AND length > epoch) WHERE part.stop > part.start",
        values,
    )
    connection.execute("INSERT INTO set_aside FROM left_over")
    connection.execute("DROP TABLE left_over")


def _subtract(
    connection: duckdb.DuckDBPyConnection, stream: str, sources: list[str], span: tuple[int, int], *, found: bool
) -> None:
    """Take the forgotten events off the totals. Which source had how many in which epoch is not kept: each epoch loses
    the share that the range has of its time, and the share that the sources have of all events.

    Where nothing was found to forget, only epochs that lie inside the range go: whoever is not sure that it was done
    may do it again, and loses nothing twice.
    """
    part = 1.0
    if sources:
        mine, whole = connection.execute(
            "SELECT coalesce(sum(events) FILTER (source IN (SELECT unnest($2))), 0), coalesce(sum(events), 0) "
            "FROM sources WHERE stream = $1",
            [stream, sources],
        ).fetchall()[0]
        part = float(mine) / float(whole) if whole else 0.0
    left = "(1 - $4 * greatest(0, least(start + length, $3) - greatest(start, $2)) / length)"
    before = _events(connection, stream)
    connection.execute(
        f"UPDATE epochs SET events = round(events * {left})::BIGINT, weight = weight * {left} "
        f"WHERE stream = $1 AND ($5 OR {left} <= 0)",
        [stream, *span, part, found],
    )
    connection.execute("DELETE FROM epochs WHERE stream = $1 AND events <= 0", [stream])
    if not sources:  # else others may have events at these times
        _clip(connection, "epochs", "stream = $1", [stream], span)
    after = _events(connection, stream)
    everything = span[0] <= -MAX_TIME and span[1] >= MAX_TIME
    if sources and everything:
        connection.execute("DELETE FROM sources WHERE stream = $1 AND source IN (SELECT unnest($2))", [stream, sources])
        return
    chosen = "($2 = [] OR source IN (SELECT unnest($2)))"
    gone = before - after - _clip(connection, "sources", f"stream = $1 AND {chosen}", [stream, sources], span)
    (held,) = connection.execute(
        f"SELECT coalesce(sum(events), 0) FROM sources WHERE stream = $1 AND {chosen}", [stream, sources]
    ).fetchall()[0]
    if held:
        connection.execute(
            "UPDATE sources SET events = round(events * $3)::BIGINT, weight = weight * $3 "
            f"WHERE stream = $1 AND {chosen}",
            [stream, sources, min(1.0, max(0.0, 1.0 - gone / float(held)))],
        )
    connection.execute("DELETE FROM sources WHERE stream = $1 AND events <= 0", [stream])


def _clip(
    connection: duckdb.DuckDBPyConnection, table: str, which: str, values: list[object], span: tuple[int, int]
) -> int:
    """Keep no time of a forgotten event in totals: those that lie inside the range go, and how many events they had is
    returned; other ends that lie inside move to its edge."""
    begin, end = (f"${len(values) + more}" for more in (1, 2))
    rows = connection.execute(
        f"DELETE FROM {table} WHERE {which} AND oldest >= {begin} AND newest < {end} RETURNING events", [*values, *span]
    ).fetchall()
    connection.execute(
        f"UPDATE {table} SET oldest = CASE WHEN oldest >= {begin} THEN greatest(oldest, {end}) ELSE oldest END, "
        f"newest = CASE WHEN newest < {end} THEN least(newest, {begin} - 1) ELSE newest END, "
        f"latest = CASE WHEN latest < {end} THEN least(latest, {begin} - 1) ELSE latest END WHERE {which}",
        [*values, *span],
    )
    return sum(int(events) for (events,) in rows)


def _events(connection: duckdb.DuckDBPyConnection, stream: str) -> float:
    (found,) = connection.execute("SELECT sum(events) FROM epochs WHERE stream = $1", [stream]).fetchall()[0]
    return float(found or 0)
