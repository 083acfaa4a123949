"""Stores as earlier versions wrote them: `sample` had a sketch for each source and epoch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import duckdb

from sketches.sampling.epoch_sample import EpochSample
from store.schema import MIGRATIONS
from tests.support.stores import STREAM, events, parts
from tests.support.streams import Stream as Rows

# A store as version 1 wrote it; never to be changed.
VERSION_1 = (
    "CREATE TABLE wane (version INTEGER NOT NULL, generation BIGINT NOT NULL)",
    """CREATE TABLE streams (
        stream VARCHAR NOT NULL, unit_numerator BIGINT NOT NULL, unit_denominator BIGINT NOT NULL,
        epoch BIGINT NOT NULL, settings VARCHAR NOT NULL)""",
    """CREATE TABLE epochs (
        stream VARCHAR NOT NULL, source VARCHAR NOT NULL, start BIGINT NOT NULL, length BIGINT NOT NULL,
        events BIGINT NOT NULL, weight DOUBLE NOT NULL, oldest BIGINT NOT NULL, newest BIGINT NOT NULL)""",
    """CREATE TABLE sketches (
        stream VARCHAR NOT NULL, source VARCHAR NOT NULL, start BIGINT NOT NULL, length BIGINT NOT NULL,
        family VARCHAR NOT NULL, format INTEGER NOT NULL, bytes BIGINT NOT NULL, generation BIGINT NOT NULL,
        payload BLOB NOT NULL)""",
    """CREATE TABLE set_aside (
        stream VARCHAR NOT NULL, source VARCHAR NOT NULL, start BIGINT NOT NULL, length BIGINT NOT NULL,
        family VARCHAR NOT NULL, generation BIGINT NOT NULL, reason VARCHAR NOT NULL, payload BLOB NOT NULL)""",
    """CREATE TABLE runs (
        run BIGINT NOT NULL, stream VARCHAR NOT NULL, started TIMESTAMP NOT NULL, finished TIMESTAMP NOT NULL,
        rows BIGINT NOT NULL, rejected BIGINT NOT NULL, conflicts BIGINT NOT NULL, sketches BIGINT NOT NULL)""",
    """CREATE TABLE files (
        run BIGINT NOT NULL, stream VARCHAR NOT NULL, path VARCHAR NOT NULL, size BIGINT NOT NULL,
        fingerprint VARCHAR NOT NULL, rows BIGINT NOT NULL)""",
    """CREATE TABLE rejects (
        run BIGINT NOT NULL, stream VARCHAR NOT NULL, reason VARCHAR NOT NULL, rows BIGINT NOT NULL,
        examples VARCHAR NOT NULL)""",
    "CREATE TABLE labels (stream VARCHAR NOT NULL, key UBIGINT NOT NULL, label VARCHAR NOT NULL)",
    "INSERT INTO wane VALUES (1, 7)",
    "INSERT INTO streams VALUES ('calls', 1, 1, 600, '{}')",
)
# A ledger, and what was set aside.
LEDGER_1 = (
    "INSERT INTO runs VALUES (6, 'calls', '2026-01-31 12:00:00', '2026-01-31 12:00:09', 50, 1, 0, 1)",
    "INSERT INTO runs VALUES (7, 'calls', '2026-01-31 13:00:00', '2026-01-31 13:00:09', 2, 0, 0, 0)",
    "INSERT INTO files VALUES (6, 'calls', 'a.csv', 123, 'f00', 50), (7, 'calls', 'b.csv', 5, 'f01', 2)",
    "INSERT INTO rejects VALUES (6, 'calls', 'no time', 1, '[4]')",
    "INSERT INTO labels VALUES ('calls', 1, 'one')",
    "INSERT INTO set_aside VALUES ('calls', 'south', 0, 600, 'sample', 7, 'checksum', 'x'::BLOB)",
)


def fill_by_epoch(path: Path, by_source: Mapping[str, Rows], **accuracy: Any) -> None:
    """Write rows into a store of version 1: totals and a sample for each source and epoch."""
    with duckdb.connect(str(path)) as connection:
        for one in parts(by_source):
            rows = by_source[one.source]
            key = [STREAM, one.source, one.start, one.length]
            connection.execute(
                "INSERT INTO epochs VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
                [*key, one.events, one.weight, one.oldest, one.newest],
            )
            inside = rows.take((rows.t >= one.start) & (rows.t < one.start + one.length))
            payload = EpochSample.build(events(inside), **accuracy).to_bytes()
            connection.execute(
                "INSERT INTO sketches VALUES ($1, $2, $3, $4, 'sample', 1, $5, 6, $6)", [*key, len(payload), payload]
            )


def migrate_as_it_was(path: Path, to: int) -> None:
    """Migrate to an earlier version, step by step, each time with a generation of its own."""
    with duckdb.connect(str(path)) as connection:
        ((version,),) = connection.execute("SELECT version FROM wane").fetchall()
        for old in range(version, to):
            for step in MIGRATIONS[old]:
                connection.execute(step) if isinstance(step, str) else step(connection)
        connection.execute("UPDATE wane SET version = $1, generation = generation + 1", [to])
