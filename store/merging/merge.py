"""Merging what sites bring into a centre: what is held of each of them goes, what it brings comes, all at once."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import duckdb

from sketches.errors import IncompatibleError
from sketches.records import dataclass
from sketches.registry import FAMILIES
from sketches.units import TimeUnit
from store.database import StoreError, connected
from store.merging.arrivals import Arrival, SiteOutcome
from store.merging.change_file import read_changes
from store.merging.commit_history import refuse_restored
from store.merging.contribution import Contribution
from store.merging.shared_settings import merged_stream
from store.merging.site_ids import Ids
from store.merging.site_state import Key, SiteState, SiteStream, SketchRow, read_site, written_in
from store.merging.write_merged import MergedStream, Record, write_merged
from store.writing.late_merge import repeats_between
from store.writing.run import Stream
from store.writing.stream_parts import HeldParts, MergedParts, read_parts, stored_sketch
from store.writing.turns import commit_in_turn


class News(NamedTuple):
    """What one file brings, and whether its site's name is a prefix of its sources."""

    arrival: Arrival
    state: SiteState

    @property
    def file(self) -> str:
        """What the file was when it was read; nothing where the site has committed meanwhile."""
        return self.arrival.file if self.state.ids == self.arrival.ids else ""


@dataclass(frozen=True, slots=True)
class HeldStream:
    """What the centre holds of one stream."""

    stream: Any = None
    records: Mapping[str, Record] = field(default_factory=dict)  # by site
    marks: Mapping[Key, int] = field(default_factory=dict)
    parts: Sequence[HeldParts] = ()
    ingested: bool = False


def merge_news(
    file: Path, arrivals: Sequence[Arrival], held: Mapping[str, Ids], *, replace: bool, wait: float
) -> list[SiteOutcome]:
    """One commit with what these files bring."""
    news = [News(one, _read(one, held.get(one.ids.store), replace=replace, wait=wait)) for one in arrivals]
    names = sorted({name for one in news for name in one.state.streams})
    brought: Counter[tuple[str, str]] = Counter()  # rows and sketches by site

    def read(connection: duckdb.DuckDBPyConnection) -> dict[str, HeldStream]:
        mine = [one.state.ids.store for one in news]
        more = connection.execute("SELECT DISTINCT stream FROM sites WHERE site IN (SELECT unnest($1))", [mine])
        return {name: _held_stream(connection, name) for name in {*names, *(name for (name,) in more.fetchall())}}

    def together(streams: dict[str, HeldStream]) -> list[MergedStream]:
        brought.clear()
        return [_merge_stream(name, one, news, brought, replace=replace) for name, one in sorted(streams.items())]

    commit_in_turn(file, wait, read, together, write_merged)
    return [_outcome(one, brought) for one in news]


def _read(one: Arrival, held: Ids | None, *, replace: bool, wait: float) -> SiteState:
    if one.changes:
        return read_changes(one.path)
    since = None if held is None or replace else held.generation
    with connected(one.path, write=False, wait=wait) as connection:
        state = read_site(connection, one.path, since)
    if held is not None and not replace:
        again = "--replace takes it as it is now"
        refuse_restored(state.commits, held, one.path, state.ids.token, again)
    return state


def _outcome(one: News, brought: Counter[tuple[str, str]]) -> SiteOutcome:
    rows, sketches = (brought[one.state.ids.store, what] for what in ("rows", "sketches"))
    return SiteOutcome(one.arrival.name, str(one.arrival.path), "merged", one.state.ids.token, rows, sketches)


def _held_stream(connection: duckdb.DuckDBPyConnection, name: str) -> HeldStream:
    rows = connection.execute("FROM streams WHERE stream = $1", [name]).fetchall()
    records = {
        site: Record(site, called, prefix, Ids(site, generation, commit), file, Contribution.from_bytes(payload))
        for site, called, prefix, generation, commit, file, payload in connection.execute(
            "SELECT site, name, prefix, generation, commit, file, payload FROM sites WHERE stream = $1 ORDER BY site",
            [name],
        ).fetchall()
    }
    marks = connection.execute(
        "SELECT source, start, length, family, generation FROM sketches WHERE stream = $1", [name]
    ).fetchall()
    heads = connection.execute("SELECT family FROM heads WHERE stream = $1", [name]).fetchall()
    return HeldStream(
        _stream_of(*rows[0]) if rows else None,
        records,
        {(source, start, length, family): mark for source, start, length, family, mark in marks},
        [read_parts(connection, name, family) for (family,) in heads],
        ingested=bool(rows) and not records,
    )


def _stream_of(name: str, numerator: int, denominator: int, epoch: int, settings: str) -> Stream:
    return Stream(name, epoch, TimeUnit(numerator, denominator), json.loads(settings))


def _merge_stream(
    name: str, held: HeldStream, news: Sequence[News], counts: Counter[tuple[str, str]], *, replace: bool
) -> MergedStream:
    if held.ingested:
        raise StoreError(
            f"stream {name!r} of the centre was ingested here, so others cannot be merged into it; ingest it into a "
            "store of its own, and merge that like the others"
        )
    records = dict(held.records)
    gone: set[str] = set()  # sources whose sketches are no longer there
    brought: list[tuple[News, SiteStream]] = []
    for one in news:
        site = one.state.ids.store
        before = records.pop(site, None)
        gone |= set(before.contribution.sources.names) if before is not None else set()
        if name not in one.state.streams:
            continue
        prefix = before.prefix if before is not None else one.arrival.name if one.arrival.prefixed else ""
        found = one.state.streams[name].under(prefix)
        _check_base(one, found, before, held, replace=replace)
        _make_room(one, found, records, gone, replace=replace)
        records[site] = Record(site, one.arrival.name, prefix, one.state.ids, one.file, found.contribution)
        brought.append((one, found))
        counts[site, "rows"] += _rows(found.contribution) - (_rows(before.contribution) if before is not None else 0)
    by_site = [(records[one.state.ids.store].name, found.stream) for one, found in brought]
    stream = merged_stream(held.stream, by_site) if by_site else held.stream
    parts, repeated = _merge_parts(name, held, brought, list(records.values()))
    if repeated and stream.settings.get("unique") is True:
        stream.settings.update(unique=False, unique_revoked=f"{repeated:,} events were reported by several sites")
    rows: list[SketchRow] = []
    dropped: list[Key] = []
    for one, found in brought:
        rows += found.rows
        counts[one.state.ids.store, "sketches"] += len(found.rows) + len(found.sketches)
        gone |= set(found.contribution.sources.names)
    listed = {key for _, found in brought for key in found.marks}
    dropped = [key for key in held.marks if key[0] in gone and key not in listed]
    now = datetime.now(UTC).replace(tzinfo=None)
    return MergedStream(name, stream, list(records.values()), list(held.records.values()), parts, rows, dropped, now)


def _rows(contribution: Contribution) -> int:
    return int(contribution.epochs["events"].sum())


def _check_base(one: News, found: SiteStream, before: Record | None, held: HeldStream, *, replace: bool) -> None:
    """Refuse changes of something else than what is held: then nothing is known of what they leave out."""
    brought = {row.key for row in found.rows}
    same = all(
        key in brought or held.marks.get(key) == mark or (key in held.marks and written_in(mark) == mark)
        for key, mark in found.marks.items()
    )
    known: set[tuple[Any, ...]] = set()
    if before is not None:
        table = before.contribution.segments
        known = set(zip(*(table[column].tolist() for column in ("family", "oldest", "newest", "mark")), strict=True))
    table = found.contribution.segments
    for row in zip(*(table[column].tolist() for column in ("family", "oldest", "newest", "mark")), strict=True):
        stays = any(oldest <= row[1] <= newest for oldest, newest in found.kept.get(row[0], ()))
        same &= not stays or row in known
    if same or one.state.since is None:
        return
    if one.arrival.changes:
        held_now = f"--since {before.ids.token}" if before is not None else "no --since: nothing of it is here"
        raise StoreError(
            f"{one.arrival.path} has the changes since a commit that was never merged here: a file before it is "
            f"missing, or the site was restored from a backup; nothing was merged. Export with {held_now}"
        )
    raise StoreError(
        f"{one.arrival.path} holds other rows of the time before commit {one.state.since} than were merged from it: it "
        "was restored from a backup, and went on differently; --replace takes it as it is now"
    )


def _make_room(one: News, found: SiteStream, records: dict[str, Record], gone: set[str], *, replace: bool) -> None:
    """Refuse a source that another site has; with `replace` that site goes."""
    mine = set(found.contribution.sources.names)
    for site, other in list(records.items()):
        shared = sorted(mine & set(other.contribution.sources.names))
        if shared and replace:
            gone |= set(other.contribution.sources.names)
            del records[site]
        elif shared:
            raise StoreError(
                f"source {shared[0]!r} of stream {found.stream.name!r} comes from two stores: {one.arrival.path} "
                f"(id {one.state.ids.store}) and {other.name} (id {site}); --prefix, or NAME=FILE, tells them "
                "apart; if the one was made anew in place of the other, --replace drops what is held of the old one"
            )


def _merge_parts(
    name: str, held: HeldStream, brought: Sequence[tuple[News, SiteStream]], records: Sequence[Record]
) -> tuple[list[MergedParts], int]:
    """The sketches of the whole stream, and how many events were found to come from several sites."""
    families = sorted({one.family for one in held.parts} | {name for _, found in brought for name in found.sketches})
    merged, repeats = [], 0
    for family in families:
        stored = None
        for one in held.parts:
            if one.family == family:
                stored, damaged = stored_sketch(one)
                if damaged:
                    raise StoreError(
                        f"the {family} sketch of stream {name!r} of the centre is damaged ({damaged[0].reason}); merge "
                        "all sites into a new centre"
                    )
        tallies = [
            FAMILIES[family].from_bytes(one.contribution.tallies[family])
            for one in records
            if family in one.contribution.tallies
        ]
        if not tallies:
            continue
        fresh = [found for _, found in brought if family in found.sketches]
        sketches = [found.sketches[family] for found in fresh]
        try:
            whole = FAMILIES[family].of_sites(
                stored,
                sketches,
                [found.kept.get(family, ()) for found in fresh],
                [
                    tally.under(one.prefix)
                    for tally, one in zip(
                        tallies, (one for one in records if family in one.contribution.tallies), strict=True
                    )
                ],
            )
        except IncompatibleError as error:
            raise StoreError(f"stream {name!r} of these sites cannot be merged: {error}") from error
        if whole.abilities.forgives_repeats and len(sketches) > 1:
            repeats = max(repeats, repeats_between(sketches, whole))
        merged.append((family, whole))
    epoch = brought[0][1].stream.epoch if brought else held.stream.epoch
    return [MergedParts(family, whole.parts(epoch)) for family, whole in merged], repeats
