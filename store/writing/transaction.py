"""Committing runs: their sketches, what was read and what was rejected, in one transaction or not at all.

Late events are merged with what is stored before the file is opened for writing, so that readers are shut out only
while rows are inserted. Where another commit comes in between, the merging starts over from what that one left.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import duckdb

from sketches.encoding.envelope import FORMAT_VERSION
from sketches.formatting import counted
from store.database import WAIT, StoreError
from store.keys import is_in_parts, loses_events, scope_fault
from store.schema import create_store, migrate
from store.writing.fading import Faded, HeldEpochs, fade, find_fading, refuse_cut, write_faded
from store.writing.late_merge import KEY, MergedOverlap, Overlap, by_key, find_overlap, merge_overlap, replaces_all
from store.writing.ledger import write_ledger
from store.writing.retention import drop_before, retained_since, retention_of
from store.writing.run import Run, Stream
from store.writing.stream_parts import HeldParts, MergedParts, find_parts, merge_parts, write_parts
from store.writing.totals import take_out, write_totals
from store.writing.turns import commit_in_turn

_Held = tuple[Run, Overlap, Sequence[HeldParts], int | None, Sequence[HeldEpochs]]


def commit(
    path: str | Path, runs: Run | Sequence[Run], *, wait: float = WAIT, before: Callable[[], None] = lambda: None
) -> int:
    """Add runs, one a stream, to the store, creating it if need be, and return the new generation.

    Late events are merged into the epochs they belong to. A stored sketch whose bytes are damaged cannot be merged: it
    is set aside, and stays known as a gap. A file that the ledger knows already is an `AlreadyIngestedError`. `before`
    is called when all is written and nothing is committed: what it raises takes all of it back.
    """
    file = Path(path)
    together = [runs] if isinstance(runs, Run) else list(runs)
    _refuse_repeated_streams(together)
    create_store(file)
    migrate(file, wait)

    def read(connection: duckdb.DuckDBPyConnection) -> list[_Held]:
        for run in together:
            _check_unit(connection, run.stream)
            _check_scopes(connection, run)
            refuse_cut(connection, run)
            _refuse_merged(connection, run.stream.name)
        since = [retained_since(connection, run) for run in together]
        return [
            (
                run,
                find_overlap(connection, run, oldest),
                find_parts(connection, run),
                oldest,
                find_fading(connection, run),
            )
            for run, oldest in zip(together, since, strict=True)
        ]

    return commit_in_turn(file, wait, read, lambda held: [_merged(*found) for found in held], _write, before)


def _refuse_repeated_streams(runs: Sequence[Run]) -> None:
    names = [run.stream.name for run in runs]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated or not names:
        raise StoreError(f"a commit takes one run a stream, not {len(names)} of {', '.join(repeated) or 'none'}")


class _Merged(NamedTuple):
    """A run, and what it and the store hold together."""

    run: Run
    by_key: MergedOverlap
    in_parts: list[MergedParts]
    retained_since: int | None
    faded: Faded

    @property
    def repeats(self) -> int:
        return max([self.by_key.repeats, *(one.repeats for one in self.in_parts)])


def _merged(
    run: Run, overlap: Overlap, held: Sequence[HeldParts], since: int | None, old: Sequence[HeldEpochs]
) -> _Merged:
    find_repeats = run.stream.settings.get("unique") is True
    by_key = merge_overlap(run.stream.name, overlap, find_repeats=find_repeats)
    in_parts = [
        merge_parts(run, one, by_key.sketches, find_repeats=find_repeats, forgotten_before=since) for one in held
    ]
    return _Merged(run, by_key, in_parts, since, fade(old))


def _write(connection: duckdb.DuckDBPyConnection, runs: Sequence[_Merged], generation: int, mark: int) -> int:
    return sum(_write_run(connection, merged, generation, mark) for merged in runs)


def _write_run(connection: duckdb.DuckDBPyConnection, merged: _Merged, generation: int, mark: int) -> int:
    """Write all that a run brings; returns how many bytes of payload that were."""
    run = merged.run
    tables = {
        "wane_epochs": run.tables.epochs,
        "wane_sketches": by_key(run),
        "wane_merged": merged.by_key.sketches,
        "wane_aside": merged.by_key.set_aside,
    }
    for name, table in tables.items():
        connection.register(name, table)
    late = _late(connection, run.stream.name)
    if run.replacing is not None:
        take_out(connection, run.stream.name, *run.replacing)
    write_faded(connection, run.stream.name, merged.faded, mark)
    sketches, size = _write_sketches(connection, run.stream.name, mark)
    segments, more = write_parts(connection, run.stream.name, merged.in_parts, mark)
    write_totals(connection, run.stream.name, run.clock)
    if merged.retained_since is not None:
        drop_before(connection, run.stream.name, merged.retained_since)
    repeats = run.repeats + merged.repeats
    write_ledger(
        connection, run, generation, sketches=sketches + segments, late=late, size=size + more, repeats=repeats
    )
    _write_stream(connection, run.stream)
    for name in tables:
        connection.unregister(name)
    return size + more


def _refuse_merged(connection: duckdb.DuckDBPyConnection, stream: str) -> None:
    """Refuse to add files to a stream of which every row belongs to a site."""
    if connection.execute("FROM sites WHERE stream = $1 LIMIT 1", [stream]).fetchall():
        raise StoreError(
            f"stream {stream!r} is merged from other stores (`wane merge`), so no files can be added to it here; "
            "ingest them into a store of their own, and merge that"
        )


def _check_unit(connection: duckdb.DuckDBPyConnection, stream: Stream) -> None:
    known = connection.execute(
        "SELECT unit_numerator, unit_denominator FROM streams WHERE stream = $1", [stream.name]
    ).fetchall()
    unit = (stream.unit.numerator, stream.unit.denominator)
    if known and known != [unit]:
        raise StoreError(
            f"stream {stream.name!r} counts time in {known[0][0]}/{known[0][1]} s, not {unit[0]}/{unit[1]} s; "
            "another unit needs another stream"
        )


def _check_scopes(connection: duckdb.DuckDBPyConnection, run: Run) -> None:
    """Refuse what would leave a sketch of many epochs with other events than its epochs have."""
    name = run.stream.name
    adds_nothing = run.tables.epochs.num_rows == 0 and run.replacing is None
    if adds_nothing or not connection.execute("FROM epochs WHERE stream = $1 LIMIT 1", [name]).fetchall():
        return
    rows = connection.execute(
        "SELECT family, length FROM sketches WHERE stream = $1 UNION SELECT family, 0 FROM heads WHERE stream = $1",
        [name],
    )
    stored = {family for family, length in rows.fetchall() if length == 0 or is_in_parts(family)}
    brought = run.tables.spanning_families
    if run.tables.epochs.num_rows == 0:  # a backfill that only takes events out
        brought |= {family for family in stored if loses_events(family)}
    fault = scope_fault(
        stored,
        brought,
        replacing=run.replacing is not None,
        everything=replaces_all(connection, run),
        losing=retention_of(run.stream) is not None,
    )
    if fault is not None:
        raise StoreError(f"stream {name!r}: {fault}")


def _write_stream(connection: duckdb.DuckDBPyConnection, stream: Stream) -> None:
    settings = json.dumps(stream.settings | _revocation(connection, stream))
    row = (stream.name, stream.unit.numerator, stream.unit.denominator, stream.epoch, settings)
    if connection.execute("FROM streams WHERE stream = $1", [stream.name]).fetchall() == [row]:
        return
    connection.execute("DELETE FROM streams WHERE stream = $1", [stream.name])
    connection.execute("INSERT INTO streams VALUES ($1, $2, $3, $4, $5)", list(row))


def _revocation(connection: duckdb.DuckDBPyConnection, stream: Stream) -> dict[str, object]:
    """What the settings say instead where a stream is said to have no repeats, and a run has seen some."""
    if "unique" not in stream.settings:
        return {}
    seen = connection.execute(
        "SELECT repeats, started FROM all_runs WHERE stream = $1 AND repeats > 0 ORDER BY run LIMIT 1", [stream.name]
    ).fetchall()
    if not seen or (stream.settings["unique"] is False and not _was_revoked(connection, stream.name)):
        return {}
    repeats, started = seen[0]
    words = f"{counted(repeats, 'repeated row')} {'was' if repeats == 1 else 'were'} seen"
    return {"unique": False, "unique_revoked": f"{words} in the run of {started:%Y-%m-%d %H:%M:%S} UTC"}


def _was_revoked(connection: duckdb.DuckDBPyConnection, stream: str) -> bool:
    rows = connection.execute("SELECT settings FROM streams WHERE stream = $1", [stream]).fetchall()
    return any("unique_revoked" in json.loads(settings) for (settings,) in rows)


def _late(connection: duckdb.DuckDBPyConnection, stream: str) -> int:
    """How many new events are late: their epoch ended before the newest event that was stored of their source."""
    (late,) = connection.execute(
        "SELECT coalesce(sum(events), 0)::BIGINT FROM wane_epochs "
        "JOIN (SELECT source, newest AS seen FROM sources WHERE stream = $1) USING (source) "
        "WHERE start + length <= seen",
        [stream],
    ).fetchall()[0]
    return int(late)


def _write_sketches(connection: duckdb.DuckDBPyConnection, stream: str, mark: int) -> tuple[int, int]:
    """Write merged sketches in place of what they were merged from, the others as they came; returns rows and bytes."""
    connection.execute(f"INSERT INTO set_aside SELECT $1, {KEY}, $2, reason, payload FROM wane_aside", [stream, mark])
    _delete(connection, "sketches", KEY, "wane_merged", stream)
    connection.execute(
        f"INSERT INTO sketches SELECT $1, {KEY}, $2, octet_length(payload), $3, payload FROM "
        f"(SELECT {KEY}, payload FROM wane_sketches ANTI JOIN wane_merged USING ({KEY}) "
        f"UNION ALL SELECT {KEY}, payload FROM wane_merged WHERE payload IS NOT NULL) ORDER BY source, start",
        [stream, FORMAT_VERSION, mark],
    )
    rows, size = connection.execute(
        "SELECT count(*), coalesce(sum(bytes), 0)::BIGINT FROM sketches WHERE stream = $1 AND generation = $2",
        [stream, mark],
    ).fetchall()[0]
    return int(rows), int(size)


def _delete(connection: duckdb.DuckDBPyConnection, table: str, key: str, rows: str, stream: str) -> None:
    alike = " AND ".join(f"{table}.{name} = {rows}.{name}" for name in key.split(", "))
    connection.execute(f"DELETE FROM {table} USING {rows} WHERE {table}.stream = $1 AND {alike}", [stream])
