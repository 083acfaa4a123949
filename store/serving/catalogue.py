"""What a store holds, without the payloads: all of one generation, read in one short connection."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import field
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from sketches.arrays import Ints
from sketches.errors import QuestionError
from sketches.event_rules import Repeats
from sketches.family import Scope
from sketches.fields import FieldKind
from sketches.formatting import listed
from sketches.holdings import Holdings
from sketches.records import dataclass
from sketches.suggestions import did_you_mean
from sketches.units import TimeUnit
from store.database import WAIT, connected
from store.engine import duckdb
from store.keys import WHOLE_STREAM, Epoch, Span, is_in_parts, scope_of, spans_epochs
from store.packed_sources import read_sources
from store.schema import check, name_of_commit
from store.serving import catalogue_tables as tables
from store.stretches import Stretches

_COLUMNS: Final = ("oldest", "newest", "events")
_MOST_LIVES: Final = 256  # selections of sources that are remembered


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


class Lived(NamedTuple):
    """When some sources have events: the time of the oldest and of the newest, and since when one of them is silent."""

    oldest: int
    newest: int
    silent: int


@dataclass(frozen=True)
class StoredStream:
    """One stream: the totals of its epochs and of its sources, the keys of its sketches, and what was set aside."""

    name: str
    unit: TimeUnit
    epoch: int
    settings: str
    epochs: dict[Span, Totals] = field(default_factory=dict)  # of all sources together
    by_source: dict[str, Totals] = field(default_factory=dict)
    # family → key of a sketch → the commit that wrote it last, and its bytes
    sketches: dict[str, dict[Epoch, tuple[int, int]]] = field(default_factory=dict)
    beginnings: dict[str, bytes] = field(default_factory=dict)  # of the heads of families that are stored in parts
    set_aside: list[Gap] = field(default_factory=list)
    rejected: Rejected | None = None  # None where no row was rejected
    spans: list[tuple[int, int]] = field(default_factory=list)  # of each run, the oldest and newest event that it read
    holdings: dict[tuple[str, ...], Holdings] = field(default_factory=dict)  # remembered for the planner
    lives: dict[frozenset[str], Lived | None] = field(default_factory=dict)  # remembered

    @cached_property
    def described(self) -> dict[str, Any]:
        """The stream's settings, as ingest stored them."""
        settings = json.loads(self.settings)
        return settings if isinstance(settings, dict) else {}

    @cached_property
    def fields(self) -> dict[str, FieldKind]:
        """The fields that events were ever kept with, by name."""
        kinds = self.described.get("field_kinds", {})
        known = {str(kind) for kind in FieldKind}
        return {name: FieldKind(kind) for name, kind in kinds.items() if kind in known}

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
        lived = self.lived(sources)
        return None if lived is None else lived.newest

    def lived(self, sources: Iterable[str]) -> Lived | None:
        """From when to when these sources have events; None where they have none. Remembered: each answer asks."""
        key = frozenset(sources)
        if key in (known := self.lives):
            return known[key]
        totals = [one for source, one in self.by_source.items() if source in key]
        newest = [one.newest for one in totals]
        found = Lived(min(one.oldest for one in totals), max(newest), min(newest)) if totals else None
        if len(known) < _MOST_LIVES:
            known[key] = found
        return found

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
        unsketched = any(not self.is_sketched(family, span) for span in self.epochs)
        return unsketched or bool(self._unsketched_sources(family) or self._lacking(family))

    def is_sketched(self, family: str, span: Span) -> bool:
        """Whether a sketch of the family, of whatever source, is stored that covers the epoch."""
        return WHOLE_STREAM in self.sketches.get(family, {}) or span in self._sketched[family]

    @cached_property
    def _known_epochs(self) -> set[Epoch]:
        """The epochs of sources of which some family has a sketch of their own: these are known to hold events."""
        own = (keys for family, keys in self.sketches.items() if not spans_epochs(family))
        return {key for keys in own for key in keys if key.span in self.epochs}

    @cached_property
    def stretches(self) -> dict[str, Stretches]:
        """By family the stretches of several epochs for which one sketch stands."""
        return {family: Stretches(keys, self.epochs.keys()) for family, keys in self.sketches.items()}

    def _lacking(self, family: str) -> set[Epoch]:
        """Of the known epochs those that no sketch of the family covers."""
        known = set() if spans_epochs(family) else self._known_epochs - self.sketches.get(family, {}).keys()
        return {key for key in known if family not in self.stretches or not self.stretches[family].covers(key)}

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
            found[family] |= {key.span for key in keys if key.length}
            found[family].update(self.stretches[family].epochs())
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
        lacking = self._lacking(family)
        missing = {key for key in lacking if key.source in sources and key.span in covered}
        unsketched = self._unsketched_sources(family) & sources
        for span in covered:
            without = unsketched if self.is_sketched(family, span) else sources
            missing |= {Epoch(source, *span) for source in without if self.overlaps(source, span)}
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
    """The streams of a store at one generation; `name` is the random one of the store and of its last commit."""

    generation: int
    streams: dict[str, StoredStream]
    name: tuple[str, str] = ("", "")
    unread: frozenset[str] = frozenset()  # streams that are there, but were not asked for

    def stream(self, name: str) -> StoredStream:
        """The stream of this name; `QuestionError` where there is none, or none any more."""
        check_known("stream", name, [*self.streams, *self.unread])
        return self.streams[name]

    def knows(self, stream: str | None) -> bool:
        """Whether it tells of this stream, or of all, whatever there is to tell."""
        return not self.unread if stream is None else stream not in self.unread


def check_known(what: str, name: str, names: Sequence[str]) -> None:
    """Refuse a name that is not among those in the store, and say which are."""
    if name not in names:
        known = listed(sorted(names), 20) or "none"
        raise QuestionError(f"{what} {name!r} is not in the store; it holds {known}{did_you_mean(name, names)}")


def read_catalogue(
    path: Path, wait: float = WAIT, known: Catalogue | None = None, stream: str | None = None
) -> Catalogue:
    """The catalogue as of now, of one stream or of all; what is known of the same commit is not read again."""
    with connected(path, write=False, wait=wait) as connection:
        return catalogue_in(connection, path, known, stream)


def catalogue_in(
    connection: duckdb.DuckDBPyConnection, path: Path, known: Catalogue | None = None, stream: str | None = None
) -> Catalogue:
    """The catalogue in an open connection, in which the payloads of the same generation may be read afterwards.

    However many streams there are, it takes the same number of queries.
    """
    connection.begin()
    generation = check(connection, path)
    written = name_of_commit(connection)
    same = known if known is not None and known.name == written else None
    if same is not None and same.knows(stream):
        connection.commit()
        return same
    known_streams = {} if same is None else same.streams
    rows = [row for row in connection.execute("FROM streams").fetchall() if row[0] not in known_streams]
    asked = [row for row in rows if stream in (None, row[0])]
    with tables.no_collection():
        fresh = _read(connection, asked) if asked else {}
    connection.commit()
    unread = frozenset(name for name, *_ in rows) - set(fresh)
    return Catalogue(generation, known_streams | fresh, written, unread)


def _read(connection: duckdb.DuckDBPyConnection, rows: Sequence[Sequence[Any]]) -> dict[str, StoredStream]:
    """Streams as rows of the table of streams, with all that other tables have of them."""
    names = [name for name, *_ in rows]
    tables.open_runs(connection, names)
    rejected = {name: Rejected(read, rows, why) for name, read, rows, why in tables.rejected(connection, names)}
    spans = tables.spans(connection, names)
    streams = {
        name: StoredStream(
            name,
            TimeUnit(numerator, denominator),
            epoch,
            settings,
            rejected=rejected.get(name),
            spans=spans.get(name, []),
        )
        for name, numerator, denominator, epoch, settings in rows
    }
    _fill(connection, streams)
    return streams


def _fill(connection: duckdb.DuckDBPyConnection, streams: Mapping[str, StoredStream]) -> None:
    """Fill in the epochs, sources and sketches of streams, column by column: there may be hundreds of thousands."""
    names = list(streams)
    for name, (starts, lengths, *numbers) in tables.epochs(connection, names):
        spans = map(Span._make, zip(starts, lengths, strict=True))
        streams[name].epochs.update(zip(spans, map(Totals._make, zip(*numbers, strict=True)), strict=True))
    for name, (sources, *columns) in read_sources(connection, names).items():
        lists = (column.tolist() for column in columns)
        streams[name].by_source.update(zip(sources, map(Totals._make, zip(*lists, strict=True)), strict=True))
    for name, family, (*keys, commits, sizes) in tables.sketches(connection, names):
        written = zip(commits, sizes, strict=True)
        streams[name].sketches[family] = dict(zip(map(Epoch._make, zip(*keys, strict=True)), written, strict=True))
    in_parts = tables.sketches_in_parts(connection, names)
    for name, family, commit, size, _ in in_parts:
        streams[name].sketches.setdefault(family, {})[WHOLE_STREAM] = commit, size
    for name, family, *_, beginning in in_parts:
        if len(streams[name].sketches) > 1:  # else there is nothing to plan
            streams[name].beginnings[family] = beginning
    for name, source, start, length, family, reason in tables.set_aside(connection, names):
        stream = streams[name]
        stream.set_aside.extend(stream.gaps_of(family, Epoch(source, start, length), reason))
