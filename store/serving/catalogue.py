"""What a store holds, without the payloads: all of one generation, read in one short connection."""

from __future__ import annotations

import gc
import json
from collections import defaultdict
from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from sys import intern
from typing import Any, Final, NamedTuple

import duckdb
import numpy as np

from sketches.arrays import Ints
from sketches.errors import QuestionError
from sketches.event_rules import Repeats
from sketches.family import Scope
from sketches.formatting import listed
from sketches.holdings import Holdings
from sketches.suggestions import did_you_mean
from sketches.units import TimeUnit
from store.database import WAIT, connected
from store.keys import WHOLE_STREAM, Epoch, Span, is_in_parts, scope_of, spans_epochs
from store.packed_ledger import open_ledger
from store.packed_sources import read_sources
from store.schema import check

_COLUMNS: Final = ("oldest", "newest", "events")
_READ: Final = {"runs": ("stream", "rows", "rejected"), "files": ("run", "stream", "oldest", "newest")}  # of the ledger


class Totals(NamedTuple):
    """The totals of one epoch, or of one source: how many rows, their weight, the oldest and the newest event.

    The weight is in multiples of the stream's weight_step. `latest` is the newest event, but no later than the clock of
    the run that brought it; None where that is not known.
    """

    events: int
    weight: float
    oldest: int
    newest: int
    latest: int | None = None


class TotalsByColumn(NamedTuple):
    """Totals as columns, in the order of epochs or of sources."""

    start: Ints
    oldest: Ints
    newest: Ints
    events: Ints


@dataclass(frozen=True, slots=True)
class Gap:
    """An epoch that holds events, but has no readable sketch of a family, and why."""

    source: str
    start: int
    length: int
    family: str
    reason: str

    @property
    def end(self) -> int:
        return self.start + self.length

    def as_dict(self) -> dict[str, Any]:
        return {
            "source": self.source,
            "start": self.start,
            "length": self.length,
            "family": self.family,
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True)
class Rejected:
    """The rows of a stream that were rejected, of all that were read, and the reason of most of them."""

    read: int
    rows: int
    reason: str

    @property
    def share(self) -> float:
        return self.rows / self.read if self.read else 0.0

    def as_dict(self) -> dict[str, Any]:
        return {"rows": self.rows, "read": self.read, "share": self.share, "reason": self.reason}

    def words(self) -> str:
        return f"{self.rows:,} of {self.read:,} rows ({self.share:.3g} of all) were rejected, most: {self.reason}"


@dataclass(frozen=True)
class StoredStream:
    """One stream: the totals of its epochs and of its sources, the keys of its sketches, and what was set aside."""

    name: str
    unit: TimeUnit
    epoch: int
    settings: str
    epochs: dict[Span, Totals] = field(default_factory=dict)  # of all sources together
    by_source: dict[str, Totals] = field(default_factory=dict)
    # family → key of a sketch → the generation that wrote it last, and its bytes
    sketches: dict[str, dict[Epoch, tuple[int, int]]] = field(default_factory=dict)
    set_aside: list[Gap] = field(default_factory=list)
    rejected: Rejected | None = None  # None where no row was rejected
    spans: list[tuple[int, int]] = field(default_factory=list)  # of each run, the oldest and newest event that it read
    holdings: dict[tuple[str, ...], Holdings] = field(default_factory=dict)  # remembered for the planner

    @cached_property
    def described(self) -> dict[str, Any]:
        """The stream's settings, as ingest stored them."""
        settings = json.loads(self.settings)
        return settings if isinstance(settings, dict) else {}

    @cached_property
    def repeats(self) -> Repeats:
        """What a row that repeats an event means."""
        if self.described.get("unique") is True:
            return Repeats.NONE
        return Repeats.COUNTED if self.described.get("repeats") == "count" else Repeats.FORGIVEN

    @cached_property
    def weighted(self) -> bool:
        """Whether events have weights of their own: the settings name some, or the totals differ from the counts."""
        stated = str(self.described.get("weight", "1")).strip()
        return stated != "1" or any(one.weight != one.events for one in self.epochs.values())

    @cached_property
    def newest_by_source(self) -> dict[str, int]:
        """The time of the newest event of each source."""
        return {source: totals.newest for source, totals in self.by_source.items()}

    @cached_property
    def sources(self) -> list[str]:
        return sorted(self.by_source)

    @cached_property
    def epoch_columns(self) -> TotalsByColumn:
        """The totals of epochs as arrays, in the order of time."""
        return _by_column([(span.start, totals) for span, totals in sorted(self.epochs.items())])

    @cached_property
    def source_columns(self) -> TotalsByColumn:
        """The totals of sources as arrays, in the order of names."""
        return _by_column([(self.by_source[name].oldest, self.by_source[name]) for name in self.sources])

    def newest(self, sources: Sequence[str]) -> int | None:
        """The time of the newest event of these sources; None where they have none."""
        known = self.newest_by_source
        return max((known[source] for source in sources if source in known), default=None)

    def as_of(self) -> int | None:
        """The time of the stream's newest event, but never later than the clock of the run that brought it.

        Where all events are ahead of that clock their times are not those of a clock, and the newest event counts.
        """
        return self._as_of

    @cached_property
    def _as_of(self) -> int | None:
        latest = max((one.newest if one.latest is None else one.latest for one in self.epochs.values()), default=None)
        if latest is None or latest >= min(one.oldest for one in self.epochs.values()):
            return latest
        return max(one.newest for one in self.epochs.values())

    def earlier_keys(self, family: str) -> frozenset[tuple[str, int]]:
        """The epochs, by source and start, of which an earlier form of a family that covers a stream is stored."""
        if not is_in_parts(family):
            return frozenset()
        return frozenset((key.source, key.start) for key in self.sketches.get(family, {}) if key.length)

    def stored_bytes(self, family: str) -> int:
        """The bytes of all sketches of a family."""
        return sum(size for _, size in self.sketches.get(family, {}).values())

    def lacks_epochs(self, family: str) -> bool:
        """Whether some epochs have no sketch of the family: it was added later, or sketches were lost."""
        if self._unsketched_sources(family) or any(not self.is_sketched(family, span) for span in self.epochs):
            return True
        return not spans_epochs(family) and len(self.sketches.get(family, {})) < len(self._known_epochs)

    def is_sketched(self, family: str, span: Span) -> bool:
        """Whether a sketch of the family, of whatever source, is stored that covers the epoch."""
        return WHOLE_STREAM in self.sketches.get(family, {}) or span in self._sketched[family]

    @cached_property
    def _known_epochs(self) -> set[Epoch]:
        """The epochs of sources of which some family has a sketch: these are known to hold events."""
        return {key for family, keys in self.sketches.items() if not spans_epochs(family) for key in keys}

    def _unsketched_sources(self, family: str) -> set[str]:
        """The sources without a sketch, where the family keeps one for each source."""
        if scope_of(family) is not Scope.SOURCE:
            return set()
        return set(self.by_source) - {key.source for key in self.sketches.get(family, {})}

    @cached_property
    def _sketched(self) -> defaultdict[str, set[Span]]:
        """The epochs of which each family has a sketch of some source."""
        found: defaultdict[str, set[Span]] = defaultdict(set)
        for family, keys in self.sketches.items():
            if any(key.length == 0 for key in keys):
                sources = {key.source for key in keys}
                found[family] |= {
                    span for span in self.epochs if any(self.overlaps(source, span) for source in sources)
                }
            found[family] |= {Span(key.start, key.length) for key in keys if key.length}
        return found

    def overlaps(self, source: str, span: Span) -> bool:
        """Whether a source may have events in an epoch: it began before its end, and was heard of since."""
        totals = self.by_source.get(source)
        return totals is not None and totals.oldest < span.end and totals.newest >= span.start

    def missing(self, family: str, sources: Set[str], covered: Set[Span]) -> list[Gap]:
        """The epochs with events of these sources that have no sketch of the family.

        Which source has events in which epoch, only sketches by source and epoch tell. Where another family has one, or
        where no source has one of this family, the epoch is a gap.
        """
        own = self.sketches.get(family, {})
        known: set[Epoch] = set() if spans_epochs(family) else self._known_epochs
        missing = {
            key for key in known if key not in own and key.source in sources and Span(key.start, key.length) in covered
        }
        unsketched = self._unsketched_sources(family) & sources
        for span in covered:
            lacking = unsketched if self.is_sketched(family, span) else sources
            missing |= {Epoch(source, *span) for source in lacking if self.overlaps(source, span)}
        return [Gap(*key, family, f"no {family} sketch is stored") for key in sorted(missing)]

    @property
    def spanning_families(self) -> set[str]:
        """The stored families whose sketches cover many epochs, told by their keys, also where they are not known."""
        return {
            family
            for family, keys in self.sketches.items()
            if is_in_parts(family) or any(key.length == 0 for key in keys)
        }

    def gaps_of(self, family: str, key: Epoch, reason: str) -> list[Gap]:
        """The gaps that an unreadable sketch leaves: one for each epoch that it covers."""
        if key.length:
            return [Gap(*key, family, reason)]
        return [Gap(key.source, *span, family, reason) for span in self.epochs]


def _by_column(rows: Sequence[tuple[int, Totals]]) -> TotalsByColumn:
    columns = ([start for start, _ in rows], *([getattr(one, name) for _, one in rows] for name in _COLUMNS))
    return TotalsByColumn(*(np.array(column, np.int64) for column in columns))


@dataclass(frozen=True)
class Catalogue:
    """All streams of a store at one generation; `name` is the random one of the store and of its last commit."""

    generation: int
    streams: dict[str, StoredStream]
    name: tuple[str, str] = ("", "")

    def stream(self, name: str) -> StoredStream:
        """The stream of this name; `QuestionError` where there is none, or none any more."""
        check_known("stream", name, list(self.streams))
        return self.streams[name]


def check_known(what: str, name: str, names: Sequence[str]) -> None:
    """Refuse a name that is not among those in the store, and say which are."""
    if name not in names:
        known = listed(sorted(names), 20) or "none"
        raise QuestionError(f"{what} {name!r} is not in the store; it holds {known}{did_you_mean(name, names)}")


def read_catalogue(path: Path, wait: float = WAIT) -> Catalogue:
    """The catalogue as of now."""
    with connected(path, write=False, wait=wait) as connection:
        return catalogue_in(connection, path)


def catalogue_in(connection: duckdb.DuckDBPyConnection, path: Path, known: Catalogue | None = None) -> Catalogue:
    """The catalogue in an open connection, in which the payloads of the same generation may be read afterwards.

    Where it is that of the commit which is known already, nothing is read again.
    """
    connection.begin()
    generation = check(connection, path)
    written = connection.execute("SELECT store, commit FROM wane").fetchall()[0]
    if known is not None and known.name == written:
        connection.commit()
        return known
    open_ledger(connection, _READ)
    rejected = _rejected(connection)
    streams = {
        name: StoredStream(name, TimeUnit(numerator, denominator), epoch, settings, rejected=rejected.get(name))
        for name, numerator, denominator, epoch, settings in connection.execute("FROM streams").fetchall()
    }
    for name, oldest, newest in connection.execute(
        "SELECT stream, min(oldest), max(newest) FROM all_files WHERE oldest IS NOT NULL GROUP BY stream, run"
    ).fetchall():
        if name in streams:
            streams[name].spans.append((oldest, newest))
    with _no_collection():
        for stream in streams.values():
            _fill(connection, stream)
    rows = connection.execute("SELECT stream, source, start, length, family, reason FROM set_aside")
    for name, source, start, length, family, reason in rows.fetchall():
        stream = streams[name]
        stream.set_aside.extend(stream.gaps_of(family, Epoch(source, start, length), reason))
    connection.commit()
    return Catalogue(generation, streams, written)


def _rejected(connection: duckdb.DuckDBPyConnection) -> dict[str, Rejected]:
    """The rejected rows of each stream that has any. A backfill counts no file again, and takes back no reject."""
    rows = connection.execute(
        "SELECT stream, read, rejected, coalesce(reason, 'unknown') FROM (SELECT stream, sum(rows)::BIGINT AS read, "
        "sum(rejected)::BIGINT AS rejected FROM all_runs GROUP BY stream HAVING sum(rejected) > 0) LEFT JOIN "
        "(SELECT stream, arg_max(reason, (rows, reason)) AS reason FROM "
        "(SELECT stream, reason, sum(rows) AS rows FROM rejects GROUP BY ALL) GROUP BY stream) USING (stream)"
    ).fetchall()
    return {stream: Rejected(*found) for stream, *found in rows}


def _fill(connection: duckdb.DuckDBPyConnection, stream: StoredStream) -> None:
    """Fill in the epochs, sources and sketches of a stream, column by column: there may be hundreds of thousands."""
    totals = "events, weight, oldest, newest, latest"
    start, length, *numbers = _columns(
        connection, f"SELECT start, length, {totals} FROM epochs WHERE stream = $stream", stream=stream.name
    )
    spans = map(Span._make, zip(start, length, strict=True))
    stream.epochs.update(zip(spans, map(Totals._make, zip(*numbers, strict=True)), strict=True))
    names, *columns = read_sources(connection, stream.name)
    lists = (column.tolist() for column in columns)
    stream.by_source.update(zip(names, map(Totals._make, zip(*lists, strict=True)), strict=True))
    families = connection.execute("SELECT DISTINCT family FROM sketches WHERE stream = $1", [stream.name]).fetchall()
    for (family,) in sorted(families):
        *key_columns, generation, size = _columns(
            connection,
            "SELECT source, start, length, generation, bytes FROM sketches WHERE stream = $stream AND family = $family",
            stream=stream.name,
            family=family,
        )
        written = zip(generation, size, strict=True)
        stream.sketches[family] = dict(zip(map(Epoch._make, zip(*key_columns, strict=True)), written, strict=True))
    in_parts = connection.execute(
        "SELECT family, max(generation), sum(bytes)::BIGINT FROM ("
        "SELECT family, generation, bytes FROM heads WHERE stream = $1 UNION ALL "
        "SELECT family, generation, bytes FROM segments WHERE stream = $1) GROUP BY family ORDER BY family",
        [stream.name],
    ).fetchall()
    for family, generation, size in in_parts:
        stream.sketches.setdefault(family, {})[WHOLE_STREAM] = generation, size


def _columns(connection: duckdb.DuckDBPyConnection, query: str, **values: str) -> list[list[Any]]:
    """A query's columns as lists; equal texts in a column are one object.

    By way of numpy: rows of Python objects take five times as long, and pyarrow half a second to import.
    """
    columns = connection.execute(query, values).fetchnumpy().values()
    return [list(map(intern, column)) if column.dtype == object else column.tolist() for column in columns]


@contextmanager
def _no_collection() -> Iterator[None]:
    """Stop Python's search for cycles, which would go through all these tuples again and again: half the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
