"""Sketches of a whole stream, which are stored in parts: what a run brings is merged into them, and they are written.

`find_parts` reads what is stored, `merge_parts` merges it, and no connection is open meanwhile; `write_parts` writes
the segments that have changed. What a stream holds in the form that its family had before is taken over by the first
run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from sketches.errors import CorruptError
from sketches.event_rules import MAX_TIME
from sketches.family import Sketch
from sketches.parts import Parts, Segment
from sketches.records import dataclass
from sketches.registry import FAMILIES, load
from store.keys import WHOLE_STREAM, Epoch, Span
from store.writing.late_merge import load_new, merge_all, repeats_between
from store.writing.run import Run


@dataclass(frozen=True, slots=True)
class HeldParts:
    """What a stream holds of one family: the parts of its sketch, and sketches of epochs in the earlier form."""

    family: str
    head: bytes | None = None
    segments: Sequence[tuple[int, int, bytes]] = ()  # oldest, newest, payload
    earlier: Sequence[tuple[Epoch, bytes]] = ()


@dataclass(frozen=True, slots=True)
class Damaged:
    """A part that could not be read: the stretch of time that it covered, why, and its bytes."""

    epoch: Epoch
    reason: str
    payload: bytes


@dataclass(frozen=True, slots=True)
class MergedParts:
    """The sketch to be stored (None: what is stored stays), the epochs that it has taken over, what was damaged."""

    family: str
    parts: Parts | None
    moved: Sequence[Epoch] = ()
    damaged: Sequence[Damaged] = ()
    repeats: int = 0


def families_in_parts(run: Run) -> list[str]:
    """The families of a run that are stored in parts."""
    brought = pc.unique(run.tables.sketches["family"]).to_pylist()
    return [family for family in brought if family in FAMILIES and FAMILIES[family].in_parts]


def find_parts(connection: duckdb.DuckDBPyConnection, run: Run) -> list[HeldParts]:
    """What is stored of the families that the run brings in parts, or that a backfill takes events out of."""
    families = set(families_in_parts(run))
    if run.replacing is not None:
        stored = connection.execute("SELECT family FROM heads WHERE stream = $1", [run.stream.name]).fetchall()
        families |= {family for (family,) in stored if family in FAMILIES}
    return [read_parts(connection, run.stream.name, family) for family in sorted(families)]


def read_parts(connection: duckdb.DuckDBPyConnection, stream: str, family: str) -> HeldParts:
    """The stored parts of one family of a stream, and what is stored in its earlier form."""
    heads = connection.execute(
        "SELECT payload FROM heads WHERE stream = $1 AND family = $2", [stream, family]
    ).fetchall()
    segments = connection.execute(
        "SELECT oldest, newest, payload FROM segments WHERE stream = $1 AND family = $2 ORDER BY oldest, newest, rowid",
        [stream, family],
    ).fetchall()
    earlier = connection.execute(
        "SELECT source, start, length, payload FROM sketches WHERE stream = $1 AND family = $2 ORDER BY start, source",
        [stream, family],
    ).fetchall()
    return HeldParts(
        family, heads[0][0] if heads else None, segments, [(Epoch(*key), payload) for *key, payload in earlier]
    )


def merge_parts(
    run: Run,
    held: HeldParts,
    merged_by_key: pa.Table,
    *,
    find_repeats: bool = False,
    forgotten_before: int | None = None,
) -> MergedParts:
    """The stored sketch and what the run brings as one, by the settings of the run.

    `merged_by_key` has the sketches by epoch, in the earlier form, that the run has added to stored ones. Events before
    `forgotten_before` are dropped. Where the stream has a budget of bytes, the sketch loses half of its capacity until
    it fits, and never gains it back.
    """
    name = run.stream.name
    brought = [load_new(name, WHOLE_STREAM, held.family, payload) for payload in sorted(_payloads(run, held.family))]
    stored, damaged = stored_sketch(held)
    if stored is not None and run.replacing is not None:
        stored = stored.without(*run.replacing)
    together = [*([] if stored is None else [stored]), *brought]
    if not together:
        return MergedParts(held.family, None)
    merged = merge_all(name, WHOLE_STREAM, held.family, together)
    repeats = repeats_between(together, merged) if find_repeats and merged.abilities.forgives_repeats else 0
    merged, moved = take_over(merged, _earlier_after(run, held, merged_by_key))
    if forgotten_before is not None:
        merged = merged.without(-MAX_TIME, forgotten_before)
    parts = _within_budget(merged, stored, run)
    return MergedParts(held.family, parts, moved, damaged, repeats)


def _within_budget(merged: Sketch, stored: Sketch | None, run: Run) -> Parts:
    budget = run.stream.settings.get("budget")
    if not isinstance(budget, int):
        return merged.parts(run.stream.epoch)
    if stored is not None:
        merged = merged.smaller(stored)
    while True:
        parts = merged.parts(run.stream.epoch)
        if len(parts.head) + sum(len(segment.payload) for segment in parts.segments) <= budget:
            return parts
        less = merged.smaller()
        if less is merged:
            return parts
        merged = less


def _payloads(run: Run, family: str) -> list[bytes]:
    """The payloads of the run that cover the whole stream; those of the earlier form are merged by epoch."""
    rows = run.tables.sketches.filter(pc.equal(run.tables.sketches["family"], family))
    lengths = rows["length"].to_pylist()
    return [
        payload
        for payload, length in zip(rows["payload"].to_pylist(), lengths, strict=True)
        if length == WHOLE_STREAM.length
    ]


def stored_sketch(held: HeldParts) -> tuple[Sketch | None, list[Damaged]]:
    """The stored sketch without the segments that cannot be read; none where its head cannot."""
    if held.head is None:
        return None, []
    try:
        sketch, lost = FAMILIES[held.family].from_parts(held.head, [payload for *_, payload in held.segments])
    except CorruptError as error:
        return None, [Damaged(WHOLE_STREAM, str(error), held.head)]
    return sketch, [_damaged(held.segments[number], reason) for number, reason in lost.items()]


def _damaged(segment: tuple[int, int, bytes], reason: str) -> Damaged:
    oldest, newest, payload = segment
    return Damaged(Epoch("", oldest, newest - oldest + 1), reason, payload)


def _earlier_after(run: Run, held: HeldParts, merged_by_key: pa.Table) -> list[tuple[Epoch, bytes]]:
    """What will be stored in the earlier form once the run is: without what it replaces, and with what it brings."""
    begin, end = run.replacing or (0, 0)
    found = {
        epoch: payload
        for epoch, payload in held.earlier
        if run.replacing is None or epoch.start + epoch.length <= begin or epoch.start >= end
    }
    for table in (run.tables.sketches, merged_by_key):
        for row in table.filter(pc.equal(table["family"], held.family)).to_pylist():
            epoch = Epoch(row["source"], row["start"], row["length"])
            if epoch != WHOLE_STREAM:
                found[epoch] = row["payload"]
    return sorted(found.items(), key=lambda one: (one[0].start, one[0]))


def take_over(merged: Sketch, earlier: Sequence[tuple[Epoch, bytes]]) -> tuple[Sketch, list[Epoch]]:
    """The sketch with what epochs hold in the earlier form, and the epochs that it has taken over.

    A stretch of time is taken over with all its sources or not at all: an event that two of them have reported would
    otherwise be in both forms, and count twice.
    """
    loaded: list[tuple[Epoch, Sketch]] = []
    stay: set[Span] = set()
    for epoch, payload in earlier:
        try:
            loaded.append((epoch, load(payload)))
        except CorruptError:
            stay.add(epoch.span)
    taken, left = merged.moved([(epoch.source, sketch) for epoch, sketch in loaded]) if loaded else (merged, [])
    stay |= {loaded[number][0].span for number in left}
    moved = [(epoch, sketch) for epoch, sketch in loaded if epoch.span not in stay]
    if len(moved) < len(loaded) - len(left):
        taken, _ = merged.moved([(epoch.source, sketch) for epoch, sketch in moved])
    return taken, [epoch for epoch, _ in moved]


def write_parts(
    connection: duckdb.DuckDBPyConnection, stream: str, merged: Sequence[MergedParts], mark: int
) -> tuple[int, int]:
    """Write the parts in place of what is stored, segments where they differ; returns segments and bytes written."""
    segments, size = 0, 0
    for one in merged:
        if one.parts is None:
            continue
        key = [stream, one.family]
        connection.execute("DELETE FROM heads WHERE stream = $1 AND family = $2", key)
        connection.execute(
            "INSERT INTO heads VALUES ($1, $2, $3, $4, $5)", [*key, len(one.parts.head), mark, one.parts.head]
        )
        fresh = _replace_segments(connection, key, one.parts.segments, mark)
        segments += len(fresh)
        size += len(one.parts.head) + sum(len(segment.payload) for segment in fresh)
        _drop_earlier(connection, key, one.moved)
        for damaged in one.damaged:
            connection.execute(
                "INSERT INTO set_aside VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
                [stream, *damaged.epoch, one.family, mark, damaged.reason, damaged.payload],
            )
    return segments, size


def _replace_segments(
    connection: duckdb.DuckDBPyConnection, key: list[str], segments: Sequence[Segment], mark: int
) -> list[Segment]:
    """Delete stored segments that are not among these, and insert those of these that are not stored."""
    stored = connection.execute(
        "SELECT rowid, sha256(payload) FROM segments WHERE stream = $1 AND family = $2", key
    ).fetchall()
    wanted = {hashlib.sha256(segment.payload).hexdigest(): segment for segment in segments}
    gone = [row for row, digest in stored if digest not in wanted]
    known = {digest for _, digest in stored}
    if gone:
        connection.execute("DELETE FROM segments WHERE rowid IN (SELECT unnest($1))", [gone])
    fresh = [segment for digest, segment in wanted.items() if digest not in known]
    for segment in fresh:
        connection.execute(
            "INSERT INTO segments VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
            [*key, segment.oldest, segment.newest, segment.rows, len(segment.payload), mark, segment.payload],
        )
    return fresh


def _drop_earlier(connection: duckdb.DuckDBPyConnection, key: list[str], moved: Sequence[Epoch]) -> None:
    if not moved:
        return
    columns = [list(column) for column in zip(*moved, strict=True)]
    connection.execute(
        "DELETE FROM sketches USING (SELECT unnest($3) AS source, unnest($4) AS start, unnest($5) AS length) AS moved "
        "WHERE sketches.stream = $1 AND sketches.family = $2 AND sketches.source = moved.source "
        "AND sketches.start = moved.start AND sketches.length = moved.length",
        [*key, *columns],
    )
