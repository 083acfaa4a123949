"""The tables of a store, their version, and the migration of an older store to this version."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Final

from store.database import StoreError, abandon, connected, create
from store.engine import duckdb
from store.packed_ledger import TABLE as PACKED_LEDGER
from store.packed_ledger import renew_packs
from store.packed_sources import TABLE as PACKED_SOURCES
from store.packed_sources import UNPACKED, close_sources

VERSION: Final = 8
RANDOM_BITS: Final = 40  # of the mark of a commit
_MOST_GENERATIONS: Final = 1 << 63 - RANDOM_BITS  # that a mark tells apart

# A row of `sketches` is one (stream, source, epoch, family), or one of many epochs (`store.keys`); its `generation` is
# the mark of the commit which wrote it last (`mark_of`; in older stores, the number of its generation). A family whose
# one sketch of a stream is stored in parts has a row of `heads` and, in the order of time, rows of `segments`. Rows of
# `epochs` say which epochs hold events, of whatever source, and rows of `packed_sources` what each source has brought.
# Their `weight` is in multiples of the stream's weight_step, as sketches hold it; their `latest` is the newest event,
# but no later than the clock of the run that brought it. `store` is the random name of the store, `commit` that of the
# commit which made this generation.
EPOCHS: Final = """CREATE TABLE epochs (
        stream VARCHAR NOT NULL, start BIGINT NOT NULL, length BIGINT NOT NULL, events BIGINT NOT NULL,
        weight DOUBLE NOT NULL, oldest BIGINT NOT NULL, newest BIGINT NOT NULL, latest BIGINT NOT NULL)"""
HEADS: Final = """CREATE TABLE heads (
        stream VARCHAR NOT NULL, family VARCHAR NOT NULL, bytes BIGINT NOT NULL, generation BIGINT NOT NULL,
        payload BLOB NOT NULL)"""
SEGMENTS: Final = """CREATE TABLE segments (
        stream VARCHAR NOT NULL, family VARCHAR NOT NULL, oldest BIGINT NOT NULL, newest BIGINT NOT NULL,
        rows BIGINT NOT NULL, bytes BIGINT NOT NULL, generation BIGINT NOT NULL, payload BLOB NOT NULL)"""
# of a stream that is merged from other stores, and of each of them: which commit it was, and what adds up only once
SITES: Final = """CREATE TABLE sites (
        stream VARCHAR NOT NULL, site VARCHAR NOT NULL, name VARCHAR NOT NULL, prefix VARCHAR NOT NULL,
        generation BIGINT NOT NULL, commit VARCHAR NOT NULL, file VARCHAR NOT NULL, merged TIMESTAMP NOT NULL,
        payload BLOB NOT NULL)"""
# commits before the last one, each by the first digits of its name: a store that was restored, and went on, has others
COMMITS: Final = "CREATE TABLE commits (generation BIGINT NOT NULL, name UINTEGER NOT NULL)"
_DIGITS: Final = 8
_SHORT: Final = f"coalesce(TRY_CAST('0x' || left(commit, {_DIGITS}) AS UINTEGER), 0)"
# Begin the next commit in the open transaction.
NEXT_COMMIT: Final = (
    f"INSERT INTO commits SELECT generation, {_SHORT} FROM wane",
    "UPDATE wane SET generation = generation + 1, commit = uuid()",
)
TABLES: Final = (
    """CREATE TABLE wane (
        version INTEGER NOT NULL, generation BIGINT NOT NULL, store VARCHAR NOT NULL, commit VARCHAR NOT NULL)""",
    """CREATE TABLE streams (
        stream VARCHAR NOT NULL, unit_numerator BIGINT NOT NULL, unit_denominator BIGINT NOT NULL,
        epoch BIGINT NOT NULL, settings VARCHAR NOT NULL)""",
    EPOCHS,
    PACKED_SOURCES,
    HEADS,
    SEGMENTS,
    """CREATE TABLE sketches (
        stream VARCHAR NOT NULL, source VARCHAR NOT NULL, start BIGINT NOT NULL, length BIGINT NOT NULL,
        family VARCHAR NOT NULL, format INTEGER NOT NULL, bytes BIGINT NOT NULL, generation BIGINT NOT NULL,
        payload BLOB NOT NULL USING COMPRESSION zstd)""",
    """CREATE TABLE set_aside (
        stream VARCHAR NOT NULL, source VARCHAR NOT NULL, start BIGINT NOT NULL, length BIGINT NOT NULL,
        family VARCHAR NOT NULL, generation BIGINT NOT NULL, reason VARCHAR NOT NULL, payload BLOB NOT NULL)""",
    """CREATE TABLE runs (
        run BIGINT NOT NULL, stream VARCHAR NOT NULL, started TIMESTAMP NOT NULL, finished TIMESTAMP NOT NULL,
        rows BIGINT NOT NULL, rejected BIGINT NOT NULL, conflicts BIGINT NOT NULL, sketches BIGINT NOT NULL,
        late BIGINT NOT NULL, bytes BIGINT NOT NULL, repeats BIGINT NOT NULL, ahead BIGINT NOT NULL)""",
    """CREATE TABLE files (
        run BIGINT NOT NULL, stream VARCHAR NOT NULL, path VARCHAR NOT NULL, size BIGINT NOT NULL,
        fingerprint VARCHAR NOT NULL, rows BIGINT NOT NULL, modified BIGINT NOT NULL, oldest BIGINT, newest BIGINT)""",
    """CREATE TABLE rejects (
        run BIGINT NOT NULL, stream VARCHAR NOT NULL, reason VARCHAR NOT NULL, rows BIGINT NOT NULL,
        examples VARCHAR NOT NULL)""",
    PACKED_LEDGER,
    SITES,
    COMMITS,
    f"INSERT INTO wane SELECT {VERSION}, 0, uuid(), uuid()",
)

# of rows that are added up, by epoch or by source
_TOTALS: Final = "sum(events)::BIGINT, sum(weight), min(oldest), max(newest), max(latest)"

# For each version the statements that lead to the next one. A migration is one transaction.
Step = str | Callable[[duckdb.DuckDBPyConnection], None]

MIGRATIONS: Final[dict[int, tuple[Step, ...]]] = {
    1: (
        "ALTER TABLE files ADD COLUMN modified BIGINT DEFAULT 0",
        "ALTER TABLE files ALTER modified SET NOT NULL",
        "ALTER TABLE files ALTER modified DROP DEFAULT",
        "ALTER TABLE files ADD COLUMN oldest BIGINT",
        "ALTER TABLE files ADD COLUMN newest BIGINT",
        "ALTER TABLE runs ADD COLUMN late BIGINT DEFAULT 0",
        "ALTER TABLE runs ALTER late SET NOT NULL",
        "ALTER TABLE runs ALTER late DROP DEFAULT",
        "ALTER TABLE runs ADD COLUMN bytes BIGINT DEFAULT 0",
        "ALTER TABLE runs ALTER bytes SET NOT NULL",
        "ALTER TABLE runs ALTER bytes DROP DEFAULT",
        "ALTER TABLE sketches RENAME TO uncompressed",
        """CREATE TABLE sketches (
            stream VARCHAR NOT NULL, source VARCHAR NOT NULL, start BIGINT NOT NULL, length BIGINT NOT NULL,
            family VARCHAR NOT NULL, format INTEGER NOT NULL, bytes BIGINT NOT NULL, generation BIGINT NOT NULL,
            payload BLOB NOT NULL USING COMPRESSION zstd)""",
        "INSERT INTO sketches FROM uncompressed ORDER BY stream, source, start",
        "DROP TABLE uncompressed",
    ),
    2: (
        "ALTER TABLE epochs RENAME TO unclocked",
        """CREATE TABLE epochs (
            stream VARCHAR NOT NULL, source VARCHAR NOT NULL, start BIGINT NOT NULL, length BIGINT NOT NULL,
            events BIGINT NOT NULL, weight DOUBLE NOT NULL, oldest BIGINT NOT NULL, newest BIGINT NOT NULL,
            latest BIGINT NOT NULL)""",
        "INSERT INTO epochs SELECT *, newest FROM unclocked ORDER BY stream, source, start",
        "DROP TABLE unclocked",
        "ALTER TABLE runs ADD COLUMN repeats BIGINT DEFAULT 0",
        "ALTER TABLE runs ALTER repeats SET NOT NULL",
        "ALTER TABLE runs ALTER repeats DROP DEFAULT",
        "ALTER TABLE runs ADD COLUMN ahead BIGINT DEFAULT 0",
        "ALTER TABLE runs ALTER ahead SET NOT NULL",
        "ALTER TABLE runs ALTER ahead DROP DEFAULT",
    ),
    3: (
        "ALTER TABLE wane RENAME TO unnamed",
        """CREATE TABLE wane (
            version INTEGER NOT NULL, generation BIGINT NOT NULL, store VARCHAR NOT NULL, commit VARCHAR NOT NULL)""",
        "INSERT INTO wane SELECT *, uuid(), uuid() FROM unnamed",
        "DROP TABLE unnamed",
        "ALTER TABLE epochs RENAME TO by_source",
        EPOCHS,
        PACKED_SOURCES,
        UNPACKED,
        f"INSERT INTO epochs SELECT stream, start, length, {_TOTALS} FROM by_source GROUP BY ALL ORDER BY ALL",
        f"INSERT INTO sources SELECT stream, source, {_TOTALS} FROM by_source GROUP BY ALL ORDER BY ALL",
        "DROP TABLE by_source",
        close_sources,
        HEADS,
        SEGMENTS,
        "DROP TABLE labels",
    ),
    4: (PACKED_LEDGER,),
    5: (renew_packs,),
    6: (SITES,),
    7: (COMMITS,),
}


def is_older(connection: duckdb.DuckDBPyConnection, path: Path) -> bool:
    """Whether a store must be migrated before it can be read."""
    return _state(connection, path)[0] < VERSION


def create_store(path: Path) -> None:
    """A new, empty store, unless there is one already."""
    if not path.exists():
        create(path, list(TABLES))


def check(connection: duckdb.DuckDBPyConnection, path: Path) -> int:
    """The generation of a store that this version can read; `StoreError` for anything else."""
    version, generation = _state(connection, path)
    if version < VERSION:
        raise StoreError(f"{path} has schema {version}; run `wane ingest` once to bring it to {VERSION}")
    return generation


def name_of_commit(connection: duckdb.DuckDBPyConnection) -> tuple[str, str]:
    """The random names of the store and of its last commit: where both are the same, so is everything."""
    store, commit = connection.execute("SELECT store, commit FROM wane").fetchall()[0]
    return str(store), str(commit)


def next_commit(connection: duckdb.DuckDBPyConnection) -> None:
    """What the open transaction commits has a name of its own, and the next generation."""
    for statement in NEXT_COMMIT:
        connection.execute(statement)


def short_name(commit: str) -> int:
    """The name of a commit as `commits` has it."""
    digits = commit[:_DIGITS]
    return int(digits, 16) if re.fullmatch(f"[0-9a-fA-F]{{1,{_DIGITS}}}", digits) else 0


def commits_since(connection: duckdb.DuckDBPyConnection, generation: int) -> list[tuple[int, int]]:
    """The commits of this generation and those after it, but for the last, as far as they are known."""
    rows = connection.execute("FROM commits WHERE generation >= $1 ORDER BY generation", [generation]).fetchall()
    return [(int(one), int(name)) for one, name in rows]


def mark_of(generation: int) -> int:
    """The mark of a commit, for the rows that it writes: as long as a row has the same, so are its bytes.

    Random bits stand behind the number, because a store that was restored from a backup counts the same generations
    again, with other commits.
    """
    return (generation % _MOST_GENERATIONS << RANDOM_BITS) | secrets.randbits(RANDOM_BITS)


def _state(connection: duckdb.DuckDBPyConnection, path: Path) -> tuple[int, int]:
    """Version and generation; refuses a version that is newer than this one."""
    try:
        rows = connection.execute("SELECT version, generation FROM wane").fetchall()
    except (duckdb.CatalogException, duckdb.BinderException) as error:
        raise StoreError(f"{path} is a DuckDB database, but not a wane store") from error
    if len(rows) != 1:
        raise StoreError(f"{path} is damaged: it states {len(rows)} versions instead of one")
    version, generation = rows[0]
    if version > VERSION:
        raise StoreError(
            f"{path} was written by a newer wane (schema {version}; this one knows {VERSION}): update wane"
        )
    return int(version), int(generation)


def _take(connection: duckdb.DuckDBPyConnection, step: Step) -> None:
    if isinstance(step, str):
        connection.execute(step)
    else:
        step(connection)


def migrate(path: Path, wait: float) -> None:
    """Bring an older store up to date, all of it or nothing. The file is opened for writing only where needed."""
    with connected(path, write=False, wait=wait) as connection:
        version, _ = _state(connection, path)
    if version == VERSION:
        return
    if any(old not in MIGRATIONS for old in range(version, VERSION)):
        raise StoreError(f"{path} has schema {version}, and no way is known from there to schema {VERSION}")
    with connected(path, write=True, wait=wait) as connection:
        connection.begin()
        try:
            for old in range(version, VERSION):
                for step in MIGRATIONS[old]:
                    _take(connection, step)
            connection.execute("UPDATE wane SET version = $1", [VERSION])
            next_commit(connection)
            connection.commit()
        except BaseException as error:
            abandon(connection)
            if isinstance(error, duckdb.Error):
                raise StoreError(f"{path} stays at schema {version}, the way to {VERSION} failed: {error}") from error
            raise
        connection.execute("CHECKPOINT")
