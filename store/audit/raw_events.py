"""From raw files to a table of events, in SQL, by the same rules as ingest: those of `sketches.event_rules`.

Text of the settings enters a statement only as a quoted identifier or as a parameter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import duckdb

from sketches.event_rules import MAX_TIME, MAX_WEIGHT, MIN_WEIGHT, ROLES
from store.audit.conversion import converted, converted_field
from store.audit.raw_files import RawFiles, field_column
from store.audit.text_rows import FILE, NOTHING, Types, spellings, text_rows, text_types
from store.file_formats import CHECKABLE_COMPRESSIONS
from store.writing.ledger import KnownFile

_PARQUET: Final = "read_parquet($paths{n}, filename = 'file of wane', hive_partitioning = false)"


def link(files: Sequence[KnownFile], folder: Path) -> dict[str, KnownFile]:
    """Links to the files under plain names: DuckDB would take *, ? and [ in a path for a glob."""
    links = {}
    for number, known in enumerate(files):
        ending = Path(known.path).suffix if known.path.endswith(CHECKABLE_COMPRESSIONS) else ""
        link = folder / f"{number}{ending}"
        link.symlink_to(known.path)
        links[str(link)] = known
    return links


def load(connection: duckdb.DuckDBPyConnection, raw: RawFiles, links: Mapping[str, KnownFile]) -> dict[str, str]:
    """Make the table `events`: every distinct row of every source that ingest took for an event. Where events have
    fields, make `event_fields` too: those of every event. Why fields cannot be read comes back, by their names."""
    # Ingest rejected times outside a file's span by `max_future` or `max_age`, which the store does not know.
    connection.execute("CREATE TEMP TABLE spans (link VARCHAR, oldest BIGINT, newest BIGINT)")
    spans = [(link, *_span(known)) for link, known in links.items()]
    connection.executemany("INSERT INTO spans VALUES ($1, $2, $3)", spans)
    values: dict[str, Any] = {part: plain.constant for part, plain in raw.parts.items() if plain.constant is not None}
    parts, refused = [], {}
    for types, rows in _groups(connection, raw, links, values):
        columns = {role: converted(role, *types[role], raw) for role in ROLES}
        for name in raw.fields:
            made = converted_field(*types[field_column(name)], raw.field_kinds[name])
            if made is None:
                refused[name] = f"its column is of type {types[field_column(name)][1]}, which cannot be checked here"
            columns[field_column(name)] = made or "NULL"
        events = ", ".join(f"{made} AS {part}" for part, made in columns.items())
        parts.append(
            f"SELECT {', '.join(columns)} FROM (SELECT {events}, {FILE} AS link FROM {rows}) JOIN spans USING (link) "
            f"WHERE time BETWEEN oldest AND newest AND weight BETWEEN {MIN_WEIGHT} AND {MAX_WEIGHT} "
            "AND source IS NOT NULL AND id IS NOT NULL AND value IS NOT NULL"
        )
    rows = f"({' UNION ALL '.join(parts)})"
    read = "SELECT source, id, time AS t, value AS v, weight AS w, count(*) AS repeats"
    if not raw.fields:
        connection.execute(f"CREATE TABLE events AS {read} FROM {rows} GROUP BY ALL", values)
        return refused
    # Of copies that differ the least is taken, as in `sketches.fields`: structs are compared so, nulls last.
    fields = ", ".join(f"{name} := {name}" for name in map(field_column, sorted(raw.fields)))
    connection.execute(
        f"CREATE TABLE arrived AS {read}, min(struct_pack({fields})) AS least FROM {rows} GROUP BY ALL", values
    )
    connection.execute("CREATE TABLE events AS SELECT * EXCLUDE (least) FROM arrived")
    connection.execute(
        "CREATE TABLE event_fields AS SELECT id, t, v, w, unnest(least) FROM "
        "(SELECT id, t, v, w, min(least) AS least FROM arrived GROUP BY ALL)"
    )
    connection.execute("DROP TABLE arrived")
    return refused


def _span(known: KnownFile) -> tuple[int, int]:
    if known.oldest is None or known.newest is None:
        return (
            (1, 0) if known.modified else (-MAX_TIME, MAX_TIME)
        )  # an old ledger does not say; a new one says that no row was an event
    return known.oldest, known.newest


def _groups(
    connection: duckdb.DuckDBPyConnection, raw: RawFiles, links: Mapping[str, KnownFile], values: dict[str, Any]
) -> list[tuple[Types, str]]:
    """The files by the types of their columns, as what to read them from. Those of other formats than Parquet are one
    group, as for Spark. Parameters are added to the values."""
    constants = {part: constant for part in raw.parts if (constant := _constant(raw, part)) is not None}
    if raw.format != "parquet":
        rows = text_rows(connection, raw, links)
        values |= rows.values
        return [({**text_types(connection, raw, rows), **constants}, f"({rows.query})")]
    groups: dict[tuple[tuple[str, tuple[str, str]], ...], list[str]] = {}
    for link, known in links.items():
        cursor = connection.execute(f"FROM {_PARQUET.format(n=0)} LIMIT 0", {"paths0": [link]})
        names = {name: str(kind) for name, kind, *_ in cursor.description or ()}
        spelled = spellings(raw, names, known.path, exact=True)
        columns = {part: (_quoted(name), names[name]) for part, name in spelled.items()}
        groups.setdefault(tuple(columns.items()), []).append(link)
    found = []
    for number, (spelled_types, paths) in enumerate(groups.items()):
        values[f"paths{number}"] = paths
        found.append(
            ({**dict.fromkeys(raw.parts, NOTHING), **dict(spelled_types), **constants}, _PARQUET.format(n=number))
        )
    return found


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _constant(raw: RawFiles, role: str) -> tuple[str, str] | None:
    constant = raw.parts[role].constant
    if constant is None:
        return None
    kind = "VARCHAR" if isinstance(constant, str) else "BIGINT"
    return f"${role}::{kind}", kind
