"""What a site holds of each stream, read from its store: all of it, or what has changed since a commit."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any, Final, NamedTuple

import duckdb
import numpy as np

from sketches.family import Sketch
from sketches.records import dataclass
from sketches.units import TimeUnit
from store.database import StoreError
from store.keys import is_in_parts
from store.merging.commit_history import Commits, read_commits
from store.merging.contribution import EPOCHS, LEDGER, Contribution, prefixed, texts
from store.merging.site_ids import Ids, ids_in
from store.packed_ledger import open_ledger
from store.packed_sources import SourceColumns, read_sources
from store.schema import RANDOM_BITS
from store.writing.run import Stream
from store.writing.stream_parts import read_parts, stored_sketch

Key = tuple[str, int, int, str]  # source, start, length, family
Stretch = tuple[int, int]  # the times of its oldest and its newest row

_NO_SOURCES: Final = SourceColumns([], *(np.empty(0, kind) for kind in (np.int64, float, *[np.int64] * 3)))


class SketchRow(NamedTuple):
    """A stored sketch of an epoch of a source, and the mark of the commit which wrote it."""

    source: str
    start: int
    length: int
    family: str
    format: int
    mark: int
    payload: bytes

    @property
    def key(self) -> Key:
        return self.source, self.start, self.length, self.family


@dataclass(frozen=True, slots=True)
class SiteStream:
    """A stream of a site. `marks` has all its sketches by epoch, `rows` those that are brought. Of a sketch of the
    whole stream, `kept` names the stretches of time whose rows are not brought, because they have not changed."""

    stream: Stream
    contribution: Contribution
    marks: Mapping[Key, int]
    rows: Sequence[SketchRow]
    sketches: Mapping[str, Sketch]
    kept: Mapping[str, Sequence[Stretch]] = field(default_factory=dict)

    def under(self, prefix: str) -> SiteStream:
        """The same with other names for the sources."""
        if not prefix:
            return self
        return SiteStream(
            self.stream,
            self.contribution.under(prefix),
            {(prefixed(prefix, source), *rest): mark for (source, *rest), mark in self.marks.items()},  # type: ignore[misc]
            [row._replace(source=prefixed(prefix, row.source)) for row in self.rows],
            {family: sketch.under(prefix) for family, sketch in self.sketches.items()},
            self.kept,
        )


@dataclass(frozen=True, slots=True)
class SiteState:
    """What a site brings, under the name that its sources may be prefixed by; `since` is the generation from which on
    changes are brought, None: all of it is. `commits` led there, from that generation on."""

    name: str
    ids: Ids
    streams: Mapping[str, SiteStream]
    since: int | None = None
    commits: Commits = field(default_factory=dict)


def written_in(mark: int) -> int:
    """The generation that wrote a row with this mark; rows of old versions have the bare number."""
    return mark >> RANDOM_BITS or mark


def read_site(connection: duckdb.DuckDBPyConnection, path: Path, since: int | None = None) -> SiteState:
    """All that a store holds, or what was written after a generation."""
    open_ledger(connection)
    rows = connection.execute("FROM streams ORDER BY stream").fetchall()
    found = {
        name: _read_stream(
            connection, Stream(name, epoch, TimeUnit(numerator, denominator), json.loads(settings)), since
        )
        for name, numerator, denominator, epoch, settings in rows
    }
    ids = ids_in(connection, path)
    return SiteState(path.name.partition(".")[0], ids, found, since, read_commits(connection, ids, since or 0))


def _read_stream(connection: duckdb.DuckDBPyConnection, stream: Stream, since: int | None) -> SiteStream:
    name = stream.name
    _refuse_merged(connection, name)
    found = connection.execute(
        "SELECT source, start, length, family, generation FROM sketches WHERE stream = $1", [name]
    ).fetchall()
    marks: dict[Key, int] = {(source, start, length, family): mark for source, start, length, family, mark in found}
    for _, _, _, family in marks:
        if is_in_parts(family):
            raise StoreError(
                f"stream {name!r} holds {family} sketches of epochs in the form that came before format 3, "
                "which cannot be merged with those of other stores; a backfill of these epochs brings them up to date"
            )
    rows = [
        SketchRow(*row)
        for row in connection.execute(
            "SELECT source, start, length, family, format, generation, payload FROM sketches WHERE stream = $1 "
            f"AND if(generation >> {RANDOM_BITS} = 0, generation, generation >> {RANDOM_BITS}) > $2 "
            "ORDER BY source, start",
            [name, -1 if since is None else since],
        ).fetchall()
    ]
    heads = connection.execute("SELECT family FROM heads WHERE stream = $1 ORDER BY family", [name]).fetchall()
    sketches: dict[str, Any] = {}
    tallies: dict[str, bytes] = {}
    gaps: list[tuple[Any, ...]] = []
    kept: dict[str, list[Stretch]] = {}
    segments = connection.execute(
        "SELECT family, oldest, newest, generation FROM segments WHERE stream = $1 ORDER BY ALL", [name]
    ).fetchall()
    for (family,) in heads:
        sketch, damaged = stored_sketch(read_parts(connection, name, family))
        gaps += [(*one.epoch, family, one.reason) for one in damaged]
        if sketch is None:
            raise StoreError(f"the {family} sketch of stream {name!r} is damaged: {damaged[0].reason}")
        kept[family] = (
            [] if since is None or damaged else _unchanged([row[1:] for row in segments if row[0] == family], since)
        )
        tallies[family] = sketch.tally().to_bytes()
        sketches[family] = sketch.between(kept[family]) if kept[family] else sketch
    return SiteStream(stream, _contribution(connection, name, gaps, segments, tallies), marks, rows, sketches, kept)


def _refuse_merged(connection: duckdb.DuckDBPyConnection, stream: str) -> None:
    if connection.execute("FROM sites WHERE stream = $1 LIMIT 1", [stream]).fetchall():
        raise StoreError(
            f"stream {stream!r} was itself merged from other stores; merge those, so that each is counted once"
        )


def _unchanged(segments: Sequence[tuple[int, int, int]], since: int) -> list[Stretch]:
    """Stretches that were written no later, and share no time with one that was."""
    changed = [(oldest, newest) for oldest, newest, mark in segments if written_in(mark) > since]
    return [
        (oldest, newest)
        for oldest, newest, mark in segments
        if written_in(mark) <= since and not any(begin <= newest and end >= oldest for begin, end in changed)
    ]


def _contribution(
    connection: duckdb.DuckDBPyConnection,
    name: str,
    gaps: Sequence[tuple[Any, ...]],
    segments: Sequence[tuple[Any, ...]],
    tallies: Mapping[str, bytes],
) -> Contribution:
    epochs = connection.execute(
        f"SELECT {', '.join(EPOCHS)} FROM epochs WHERE stream = $1 ORDER BY start, length", [name]
    ).fetchnumpy()
    aside = connection.execute(
        "SELECT source, start, length, family, reason FROM set_aside WHERE stream = $1 ORDER BY ALL", [name]
    ).fetchall()
    rejects = connection.execute(
        "SELECT reason, sum(rows)::BIGINT AS rows FROM rejects WHERE stream = $1 GROUP BY reason ORDER BY reason",
        [name],
    ).fetchnumpy()
    sums = ", ".join(f"coalesce(sum({column}), 0)::BIGINT AS {column}" for column in LEDGER)
    ledger = connection.execute(f"SELECT {sums} FROM all_runs WHERE stream = $1", [name]).fetchnumpy()
    return Contribution(
        {column: np.ma.getdata(found) for column, found in epochs.items()},
        read_sources(connection, [name]).get(name, _NO_SOURCES),
        _table(("source", "start", "length", "family", "reason"), sorted([*aside, *gaps])),
        {column: np.ma.getdata(found) for column, found in rejects.items()},
        {column: np.ma.getdata(found) for column, found in ledger.items()},
        _table(("family", "oldest", "newest", "mark"), segments),
        tallies,
    )


def _table(names: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> dict[str, Any]:
    columns = zip(*rows, strict=True) if rows else [()] * len(names)
    words = {"source", "family", "reason"}
    return {
        name: texts(column) if name in words else np.array(column, np.int64)
        for name, column in zip(names, columns, strict=True)
    }
