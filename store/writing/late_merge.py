"""Merging the new sketches of a run with the stored ones of the same keys, before the store is opened for writing.

`find_overlap` reads what must be merged, `merge_overlap` merges it; no connection is open meanwhile. Out of a sketch of
many epochs is taken what a backfill reads again and what is older than the stream is kept.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sketches.errors import CorruptError, IncompatibleError, UnanswerableError
from sketches.event_rules import MAX_TIME
from sketches.family import Sketch
from sketches.question import Question
from sketches.records import dataclass
from sketches.registry import FAMILIES, load, union
from store.database import StoreError
from store.keys import Epoch, is_cut
from store.packed_sources import read_sources
from store.writing.run import SKETCHES, Run

KEY: Final = "source, start, length, family"
SET_ASIDE: Final = SKETCHES.append(pa.field("reason", pa.string()))

_COUNT: Final = Question("count", confidence=1 - 1e-9)  # a chance in so many merges must not look like a repeat

Key = tuple[str, int, int, str]


@dataclass(frozen=True, slots=True)
class Overlap:
    """The rows of a run that need merging, and the stored rows of the same keys; others are written as they came."""

    new: pa.Table
    stored: pa.Table
    replacing: tuple[int, int] | None = None
    everything: bool = False  # whether that is all the stream has
    retained_since: int | None = None

    def without_replaced(self, sketch: Sketch) -> Sketch:
        """A stored sketch without what the run has read again."""
        return sketch.without(*self.replacing) if self.replacing and is_cut(sketch.family) else sketch

    def retained(self, sketch: Sketch) -> Sketch:
        """A sketch without what is older than the stream is kept."""
        if self.retained_since is None or not is_cut(sketch.family):
            return sketch
        return sketch.without(-MAX_TIME, self.retained_since)


@dataclass(frozen=True, slots=True)
class MergedOverlap:
    """One row for each key that needed merging, and the stored rows that could not be read, each with its reason.

    A sketch out of which all events were taken has no bytes. `repeats` is how many events of the run were stored
    before, as far as it was looked for and could be told.
    """

    sketches: pa.Table
    set_aside: pa.Table
    repeats: int = 0


def by_key(run: Run) -> pa.Table:
    """The sketches of a run that are stored under keys; those of a whole stream that are stored in parts are not."""
    sketches = run.tables.sketches
    in_parts = [
        name for name in pc.unique(sketches["family"]).to_pylist() if name in FAMILIES and FAMILIES[name].in_parts
    ]
    if not in_parts:
        return sketches
    apart = pc.and_(pc.is_in(sketches["family"], pa.array(in_parts)), pc.equal(sketches["length"], 0))
    return sketches.filter(pc.invert(apart))


def find_overlap(connection: duckdb.DuckDBPyConnection, run: Run, retained_since: int | None = None) -> Overlap:
    """What must be merged: keys that occur twice in the run, or in the store outside the range the run replaces.

    And sketches of many epochs that lose events by the run.
    """
    least, most = run.replacing or (0, 0)
    connection.register("wane_sketches", by_key(run))
    met = connection.sql(
        f"SELECT {KEY}, payload FROM sketches SEMI JOIN wane_sketches USING ({KEY}) "
        "WHERE stream = $stream AND NOT (length > 0 AND start + length > $least AND start < $most AND $replacing)",
        params={"stream": run.stream.name, "least": least, "most": most, "replacing": run.replacing is not None},
    ).to_arrow_table()
    stored = pa.concat_tables([met, _losing(connection, run, retained_since)])
    connection.register("wane_stored", stored)
    new = connection.sql(
        f"SELECT {KEY}, payload FROM wane_sketches SEMI JOIN ("
        f"SELECT {KEY} FROM wane_sketches GROUP BY ALL HAVING count(*) > 1 UNION ALL SELECT {KEY} FROM wane_stored "
        f"UNION ALL SELECT {KEY} FROM wane_sketches WHERE $retained AND length = 0 AND family IN (SELECT unnest($cut))"
        f") USING ({KEY})",
        params={"retained": retained_since is not None, "cut": list(filter(is_cut, FAMILIES))},
    ).to_arrow_table()
    for name in ("wane_sketches", "wane_stored"):
        connection.unregister(name)
    return Overlap(new, stored, run.replacing, replaces_all(connection, run), retained_since)


def replaces_all(connection: duckdb.DuckDBPyConnection, run: Run) -> bool:
    """Whether a run reads again all that its stream has."""
    if run.replacing is None:
        return False
    others = "FROM epochs WHERE stream = $1 AND NOT (start + length > $2 AND start < $3) LIMIT 1"
    return not connection.execute(others, [run.stream.name, *run.replacing]).fetchall()


def _losing(connection: duckdb.DuckDBPyConnection, run: Run, retained_since: int | None) -> pa.Table:
    """Stored sketches of many epochs that the run brings nothing for, but takes events out of."""
    names: Sequence[str] = []
    if run.replacing is None and retained_since is not None:
        for known in read_sources(connection, [run.stream.name]).values():
            names = [known.names[at] for at in np.flatnonzero(known.oldest < retained_since).tolist()]
    return connection.sql(
        f"SELECT {KEY}, payload FROM sketches ANTI JOIN wane_sketches USING ({KEY}) WHERE stream = $stream "
        "AND length = 0 AND family IN (SELECT unnest($cut)) AND ($replacing OR source IN (SELECT unnest($names)))",
        params={
            "stream": run.stream.name,
            "cut": list(filter(is_cut, FAMILIES)),
            "replacing": run.replacing is not None,
            "names": names,
        },
    ).to_arrow_table()


def merge_overlap(stream: str, overlap: Overlap, *, find_repeats: bool = False) -> MergedOverlap:
    """One sketch for each key, merged all at once: the stored one first, then those of the run, sorted by their bytes.

    The order matters to families that add up floating-point numbers. Sorted, it does not depend on how Spark spread
    the work.
    """
    new: dict[Key, list[bytes]] = defaultdict(list)
    for key, payload in _rows(overlap.new):
        new[key].append(payload)
    stored = dict(_rows(overlap.stored))
    sketches: list[tuple[object, ...]] = []
    set_aside: list[tuple[object, ...]] = []
    repeats = dict.fromkeys(FAMILIES, 0)
    for key in sorted(new.keys() | stored.keys()):
        source, start, length, family = key
        epoch = Epoch(source, start, length)
        together = [load_new(stream, epoch, family, payload) for payload in sorted(new[key])]
        if key in stored and not (overlap.everything and is_cut(family)):
            try:
                together.insert(0, overlap.without_replaced(load(stored[key])))
            except CorruptError as error:
                set_aside.append((*key, stored[key], str(error)))
        if not together:
            sketches.append((*key, None))
            continue
        merged = overlap.retained(merge_all(stream, epoch, family, together))
        emptied = is_cut(family) and merged.extremes.newest is None
        sketches.append((*key, None if emptied else merged.to_bytes()))
        if find_repeats and merged.abilities.forgives_repeats:
            repeats[merged.family] += repeats_between(together, merged)
    return MergedOverlap(_table(sketches, SKETCHES), _table(set_aside, SET_ASIDE), max(repeats.values()))


def repeats_between(parts: list[Sketch], merged: Sketch) -> int:
    """How many events several parts have, at the least: what they count together beyond what their union counts."""
    try:
        together = merged.answer(_COUNT).upper
        apart = sum(part.answer(_COUNT).lower for part in parts)
    except UnanswerableError:
        return 0
    return max(0, round(apart - together))


def merge_all(stream: str, epoch: Epoch, family: str, sketches: list[Sketch]) -> Sketch:
    """One sketch of all; `StoreError` where they were built with other settings."""
    try:
        return union(sketches)
    except IncompatibleError as error:
        raise StoreError(
            f"stream {stream!r} was sketched with other settings before, at {_place(epoch)}: {error} "
            "(stored and new); restore the settings, or give the stream another name"
        ) from error


def load_new(stream: str, epoch: Epoch, family: str, payload: bytes) -> Sketch:
    """A sketch that a run brings; `StoreError` where its bytes are damaged."""
    try:
        return load(payload)
    except CorruptError as error:
        raise StoreError(
            f"the run brings a damaged {family} sketch of stream {stream!r}, {_place(epoch)}: {error}"
        ) from error


def _place(epoch: Epoch) -> str:
    if epoch.length:
        return f"{epoch.source} from {epoch.start}"
    return f"{epoch.source or 'all sources'} over all epochs"


def _rows(table: pa.Table) -> Iterator[tuple[Key, bytes]]:
    *key, payloads = (column.to_pylist() for column in table.columns)
    return zip(zip(*key, strict=True), payloads, strict=True)


def _table(rows: list[tuple[object, ...]], schema: pa.Schema) -> pa.Table:
    return pa.table({name: [row[at] for row in rows] for at, name in enumerate(schema.names)}, schema=schema)
