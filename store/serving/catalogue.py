"""What a store holds, without the payloads: all of one generation, read in one short connection."""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import numpy as np
import pyarrow as pa

from sketches.arrays import Ints
from sketches.holdings import Holdings
from sketches.units import TimeUnit
from store.database import WAIT, connected
from store.keys import Epoch, sketch_key, spans_epochs
from store.schema import check


class EpochTotals(NamedTuple):
    """The totals of one epoch of one source: how many rows, their weight, the oldest and the newest event.

    The weight is in multiples of the stream's weight_step. `latest` is the newest event, but no later than the clock of
    the run that brought it; None where that is not known.
    """

    events: int
    weight: float
    oldest: int
    newest: int
    latest: int | None = None


class TotalsByColumn(NamedTuple):
    """The totals of all epochs as columns; a source is its number among the stream's."""

    source: Ints
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
    """One stream: its epochs with their totals, the keys of its sketches by family, and what was set aside."""

    name: str
    unit: TimeUnit
    epoch: int
    settings: str
    epochs: dict[Epoch, EpochTotals] = field(default_factory=dict)
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
    def weighted(self) -> bool:
        """Whether events have weights of their own: the settings name some, or the totals differ from the counts."""
        stated = str(self.described.get("weight", "1")).strip()
        return stated != "1" or any(one.weight != one.events for one in self.epochs.values())

    @cached_property
    def newest_by_source(self) -> dict[str, int]:
        """The time of the newest event of each source."""
        found: dict[str, int] = {}
        for epoch, totals in self.epochs.items():
            if totals.newest > found.get(epoch.source, totals.newest - 1):
                found[epoch.source] = totals.newest
        return found

    @cached_property
    def sources(self) -> list[str]:
        return sorted({epoch.source for epoch in self.epochs})

    @cached_property
    def totals_by_column(self) -> TotalsByColumn:
        """The same totals as arrays, for who reads them all."""
        rows, number = len(self.epochs), {source: at for at, source in enumerate(self.sources)}
        totals = self.epochs.values()
        return TotalsByColumn(
            np.fromiter((number[epoch.source] for epoch in self.epochs), np.int64, rows),
            np.fromiter((epoch.start for epoch in self.epochs), np.int64, rows),
            np.fromiter((one.oldest for one in totals), np.int64, rows),
            np.fromiter((one.newest for one in totals), np.int64, rows),
            np.fromiter((one.events for one in totals), np.int64, rows),
        )

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

    def is_sketched(self, family: str, epoch: Epoch) -> bool:
        """Whether a sketch of the family is stored that covers the epoch."""
        return sketch_key(family, epoch) in self.sketches.get(family, {})

    def lacks_epochs(self, family: str) -> bool:
        """Whether some epochs have no sketch of the family: it was added later, or sketches were lost."""
        if not spans_epochs(family):
            return len(self.sketches[family]) < len(self.epochs)
        return not all(self.is_sketched(family, epoch) for epoch in self.epochs)

    @property
    def spanning_families(self) -> set[str]:
        """The stored families whose sketches cover many epochs, told by their keys, also where they are not known."""
        return {family for family, keys in self.sketches.items() if next(iter(keys)).length == 0}

    def gaps_of(self, family: str, key: Epoch, reason: str) -> list[Gap]:
        """The gaps that an unreadable sketch leaves: one for each epoch that it covers."""
        covered = [epoch for epoch in self.epochs if sketch_key(family, epoch) == key] if key.length == 0 else [key]
        return [Gap(*epoch, family, reason) for epoch in covered]


@dataclass(frozen=True)
class Catalogue:
    """All streams of a store at one generation."""

    generation: int
    streams: dict[str, StoredStream]


def read_catalogue(path: Path, wait: float = WAIT) -> Catalogue:
    """The catalogue as of now."""
    with connected(path, write=False, wait=wait) as connection:
        return catalogue_in(connection, path)


def catalogue_in(connection: duckdb.DuckDBPyConnection, path: Path) -> Catalogue:
    """The catalogue in an open connection, in which the payloads of the same generation may be read afterwards."""
    connection.begin()
    generation = check(connection, path)
    rejected = _rejected(connection)
    streams = {
        name: StoredStream(name, TimeUnit(numerator, denominator), epoch, settings, rejected=rejected.get(name))
        for name, numerator, denominator, epoch, settings in connection.execute("FROM streams").fetchall()
    }
    for name, oldest, newest in connection.execute(
        "SELECT stream, min(oldest), max(newest) FROM files WHERE oldest IS NOT NULL GROUP BY stream, run"
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
    return Catalogue(generation, streams)


def _rejected(connection: duckdb.DuckDBPyConnection) -> dict[str, Rejected]:
    """The rejected rows of each stream that has any. A backfill counts no file again, and takes back no reject."""
    rows = connection.execute(
        "SELECT stream, read, rejected, coalesce(reason, 'unknown') FROM (SELECT stream, sum(rows)::BIGINT AS read, "
        "sum(rejected)::BIGINT AS rejected FROM runs GROUP BY stream HAVING sum(rejected) > 0) LEFT JOIN "
        "(SELECT stream, arg_max(reason, (rows, reason)) AS reason FROM "
        "(SELECT stream, reason, sum(rows) AS rows FROM rejects GROUP BY ALL) GROUP BY stream) USING (stream)"
    ).fetchall()
    return {stream: Rejected(*found) for stream, *found in rows}


def _fill(connection: duckdb.DuckDBPyConnection, stream: StoredStream) -> None:
    """Fill in the epochs and sketches of a stream, column by column: there may be hundreds of thousands."""
    *key, events, weight, oldest, newest, latest = _columns(
        connection,
        "SELECT source, start, length, events, weight, oldest, newest, latest FROM epochs WHERE stream = $stream",
        stream=stream.name,
    )
    totals = map(EpochTotals._make, zip(events, weight, oldest, newest, latest, strict=True))
    stream.epochs.update(zip(map(Epoch._make, zip(*key, strict=True)), totals, strict=True))
    families = connection.execute("SELECT DISTINCT family FROM sketches WHERE stream = $1", [stream.name]).fetchall()
    for (family,) in sorted(families):
        *key, generation, size = _columns(
            connection,
            "SELECT source, start, length, generation, bytes FROM sketches WHERE stream = $stream AND family = $family",
            stream=stream.name,
            family=family,
        )
        written = zip(generation, size, strict=True)
        stream.sketches[family] = dict(zip(map(Epoch._make, zip(*key, strict=True)), written, strict=True))


def _columns(connection: duckdb.DuckDBPyConnection, query: str, **values: str) -> list[list[Any]]:
    """A query's columns as lists; equal texts in a column are one object.

    Goes by way of DLPack, because pyarrow's `to_numpy` imports pandas, which takes seconds.
    """
    found: list[list[Any]] = []
    for column in connection.sql(query, params=values).to_arrow_table().columns:
        array = column.combine_chunks()
        if pa.types.is_string(array.type):
            encoded = array.dictionary_encode()
            texts = encoded.dictionary.to_pylist()
            found.append([texts[at] for at in np.from_dlpack(encoded.indices).tolist()])
        else:
            found.append(np.from_dlpack(array).tolist())
    return found


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
