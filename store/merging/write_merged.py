"""Writing merged streams: in one transaction, what has changed."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

import duckdb
import numpy as np
import pyarrow as pa

from sketches.records import dataclass
from store.merging.contribution import LEDGER, Contribution, epochs_of_all, sources_of_all
from store.merging.site_ids import Ids
from store.merging.site_state import Key, SketchRow, written_in
from store.packed_ledger import pack_ledger
from store.writing.compacting import OF_STREAMS
from store.writing.run import Stream
from store.writing.stream_parts import MergedParts, write_parts

_ALIKE: Final = " AND ".join(f"sketches.{name} = wane_gone.{name}" for name in ("source", "start", "length", "family"))


@dataclass(frozen=True, slots=True)
class Record:
    """What the centre notes of a site and a stream."""

    site: str
    name: str
    prefix: str
    ids: Ids
    file: str
    contribution: Contribution


@dataclass(frozen=True, slots=True)
class MergedStream:
    """A stream as it is to be: of all its sites, what they were before, sketches of the whole stream, sketches of
    epochs to be written and those to be dropped."""

    name: str
    stream: Stream
    records: Sequence[Record]
    before: Sequence[Record]
    parts: Sequence[MergedParts]
    rows: Sequence[SketchRow]
    dropped: Sequence[Key]
    now: datetime


def write_merged(
    connection: duckdb.DuckDBPyConnection, streams: Sequence[MergedStream], generation: int, mark: int
) -> int:
    """Write all of it in the open transaction; returns bytes of payload."""
    return sum(_write_stream(connection, one, generation, mark) for one in streams)


def _write_stream(connection: duckdb.DuckDBPyConnection, one: MergedStream, generation: int, mark: int) -> int:
    name = one.name
    if not one.records:  # no site has the stream any longer
        for table in [*OF_STREAMS, "sources"]:
            if table != "packed_sources":
                connection.execute(f"DELETE FROM {table} WHERE stream = $1", [name])
        return 0
    size = _write_sketches(connection, one, mark)
    segments, more = write_parts(connection, name, one.parts, mark)
    parts = [record.contribution for record in one.records]
    _write_totals(connection, name, parts)
    _write_aside(connection, name, parts, mark)
    _write_runs(connection, one, generation, len(one.rows) + segments, size + more)
    connection.execute("DELETE FROM streams WHERE stream = $1", [name])
    unit = one.stream.unit
    connection.execute(
        "INSERT INTO streams VALUES ($1, $2, $3, $4, $5)",
        [name, unit.numerator, unit.denominator, one.stream.epoch, json.dumps(one.stream.settings)],
    )
    _write_records(connection, one)
    return size + more


def _write_sketches(connection: duckdb.DuckDBPyConnection, one: MergedStream, mark: int) -> int:
    gone = [*one.dropped, *(row.key for row in one.rows)]
    if gone:
        source, start, length, family = zip(*gone, strict=True)
        connection.register(
            "wane_gone", pa.table({"source": source, "start": start, "length": length, "family": family})
        )
        connection.execute(f"DELETE FROM sketches USING wane_gone WHERE sketches.stream = $1 AND {_ALIKE}", [one.name])
        connection.unregister("wane_gone")
    if one.rows:
        rows = [row._replace(mark=mark if written_in(row.mark) == row.mark else row.mark) for row in one.rows]
        columns = dict(zip(SketchRow._fields, zip(*rows, strict=True), strict=True))
        connection.register("wane_brought", pa.table({name: list(column) for name, column in columns.items()}))
        connection.execute(
            "INSERT INTO sketches SELECT $1, source, start, length, family, format, octet_length(payload), mark, "
            "payload FROM wane_brought ORDER BY source, start",
            [one.name],
        )
        connection.unregister("wane_brought")
    return sum(len(row.payload) for row in one.rows)


def _write_totals(connection: duckdb.DuckDBPyConnection, stream: str, parts: Sequence[Contribution]) -> None:
    connection.execute("DELETE FROM epochs WHERE stream = $1", [stream])
    connection.register("wane_epochs", epochs_of_all(parts))
    connection.execute(
        "INSERT INTO epochs SELECT $1, start, length, events, weight, oldest, newest, latest FROM wane_epochs", [stream]
    )
    connection.unregister("wane_epochs")
    connection.execute("DELETE FROM sources WHERE stream = $1", [stream])
    found = sources_of_all(parts)
    connection.register("wane_sources", found._asdict() | {"names": np.array([*found.names, None], object)[:-1]})
    connection.execute("INSERT INTO sources SELECT $1, * FROM wane_sources", [stream])
    connection.unregister("wane_sources")


def _write_aside(connection: duckdb.DuckDBPyConnection, stream: str, parts: Sequence[Contribution], mark: int) -> None:
    """What sites have set aside is a gap here too; the damaged bytes stay there."""
    connection.execute("DELETE FROM set_aside WHERE stream = $1", [stream])
    for part in parts:
        columns = [part.aside[name].tolist() for name in ("source", "start", "length", "family", "reason")]
        for *epoch, reason in zip(*columns, strict=True):
            connection.execute(
                "INSERT INTO set_aside VALUES ($1, $2, $3, $4, $5, $6, $7, $8)", [stream, *epoch, mark, reason, b""]
            )


def _write_runs(
    connection: duckdb.DuckDBPyConnection, one: MergedStream, generation: int, sketches: int, size: int
) -> None:
    """Enter the merge as one run, with what the runs of all sites have read since they were merged before."""
    more: Counter[str] = Counter()
    rejected: Counter[str] = Counter()
    for sign, records in ((1, one.records), (-1, one.before)):
        for record in records:
            part = record.contribution
            for name in LEDGER:
                more[name] += sign * int(part.ledger[name].sum())
            for reason, rows in zip(part.rejects["reason"].tolist(), part.rejects["rows"].tolist(), strict=True):
                rejected[reason] += sign * rows
    row: list[Any] = [generation, one.name, one.now, one.now, more["rows"], more["rejected"], more["conflicts"]]
    connection.execute(
        "INSERT INTO runs VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
        [*row, sketches, more["late"], size, more["repeats"], more["ahead"]],
    )
    for reason, rows in sorted(rejected.items()):
        if rows:
            connection.execute(
                "INSERT INTO rejects VALUES ($1, $2, $3, $4, '[]')", [generation, one.name, reason, rows]
            )
    pack_ledger(connection, one.name)


def _write_records(connection: duckdb.DuckDBPyConnection, one: MergedStream) -> None:
    """Write the records that are new, and drop those that are no longer."""
    kept = {record.site: record.ids for record in one.records}
    same = [record.site for record in one.before if kept.get(record.site) == record.ids]
    connection.execute(
        "DELETE FROM sites WHERE stream = $1 AND NOT list_contains($2::VARCHAR[], site)", [one.name, same]
    )
    for record in one.records:
        if record.site not in same:
            ids = record.ids
            connection.execute(
                "INSERT INTO sites VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
                [
                    *(
                        one.name,
                        record.site,
                        record.name,
                        record.prefix,
                        ids.generation,
                        ids.commit,
                        record.file,
                        one.now,
                    ),
                    record.contribution.to_bytes(),
                ],
            )
