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
from store.database import StoreError
from store.file_formats import CHECKABLE_COMPRESSIONS
from store.writing.ledger import KnownFile

# What type Spark would find for a column of CSV or JSON: the first that all its values fit. These are the rules of
# Spark's readers, not those of an event: a number of 19 digits is a BIGINT to Spark.
_CSV_TYPES: Final = {
    "BIGINT": "regexp_full_match({c}, '[+-]?[0-9]+') AND TRY_CAST({c} AS BIGINT) IS NOT NULL",
    "DOUBLE": r"regexp_full_match({c}, '[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|NaN|-?Inf')",
    "DATE": r"regexp_full_match({c}, '\d{{4}}-\d\d-\d\d') AND TRY_CAST({c} AS DATE) IS NOT NULL",
    "TIMESTAMPTZ": r"regexp_matches({c}, '^\d{{4}}-\d\d-\d\d') AND TRY_CAST({c} AS TIMESTAMPTZ) IS NOT NULL",
    "BOOLEAN": "lower({c}) IN ('true', 'false')",
}
_JSON_TYPES: Final = {
    "BIGINT": "json_type({c}) IN ('BIGINT', 'UBIGINT')",
    "DOUBLE": "json_type({c}) IN ('BIGINT', 'UBIGINT', 'DOUBLE')",
    "BOOLEAN": "json_type({c}) = 'BOOLEAN'",
    "VARCHAR": "json_type({c}) NOT IN ('OBJECT', 'ARRAY')",
}
_NOTHING: Final = ("NULL", "NULL")
_READERS: Final = {
    "parquet": "read_parquet($paths{n}, filename = 'file of wane', hive_partitioning = false)",
    "csv": "read_csv($paths{n}, filename = 'file of wane', hive_partitioning = false, all_varchar = true, "
    "header = true, skip = 0, delim = ',', quote = '\"', escape = '\"', comment = '', null_padding = true, "
    "allow_quoted_nulls = false)",
    "json": "read_json($paths{n}, filename = 'file of wane', hive_partitioning = false, columns = $columns, "
    "format = 'newline_delimited', ignore_errors = true)",
}


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
    if raw.format == "json":
        values["columns"] = {plain.column: "JSON" for plain in raw.parts.values() if plain.column is not None}
    parts, refused = [], {}
    for number, (types, paths) in enumerate(_groups(connection, raw, links, values)):
        columns = {role: converted(role, *types[role], raw) for role in ROLES}
        for name in raw.fields:
            made = converted_field(*types[field_column(name)], raw.field_kinds[name])
            if made is None:
                refused[name] = f"its column is of type {types[field_column(name)][1]}, which cannot be checked here"
            columns[field_column(name)] = made or "NULL"
        events = ", ".join(f"{made} AS {part}" for part, made in columns.items())
        parts.append(
            f'SELECT {", ".join(columns)} FROM (SELECT {events}, "file of wane" AS link '
            f"FROM {_READERS[raw.format].format(n=number)}) JOIN spans USING (link) "
            f"WHERE time BETWEEN oldest AND newest AND weight BETWEEN {MIN_WEIGHT} AND {MAX_WEIGHT} "
            "AND source IS NOT NULL AND id IS NOT NULL AND value IS NOT NULL"
        )
        values[f"paths{number}"] = paths
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


Types = dict[str, tuple[str, str]]  # part of an event, or field → SQL of its column, and its type


def _groups(
    connection: duckdb.DuckDBPyConnection, raw: RawFiles, links: Mapping[str, KnownFile], values: Mapping[str, Any]
) -> list[tuple[Types, list[str]]]:
    """The files by the types of their columns. Files of other formats than Parquet are one group, as for Spark."""
    if raw.format != "parquet":
        return [(_types_inferred(connection, raw, list(links), values), list(links))]
    groups: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for link, known in links.items():
        names = _described(connection, "parquet", {"paths0": [link]})
        columns = _found(raw, names, known.path)
        found = (columns.get(part) or ("", "") for part in raw.parts)
        groups.setdefault(tuple(found), []).append(link)
    return [
        ({part: _constant(raw, part) or column for part, column in zip(raw.parts, found, strict=True)}, paths)
        for found, paths in groups.items()
    ]


def _described(connection: duckdb.DuckDBPyConnection, form: str, values: Mapping[str, Any]) -> dict[str, str]:
    cursor = connection.execute(f"FROM {_READERS[form].format(n=0)} LIMIT 0", dict(values))
    return {name: str(kind) for name, kind, *_ in cursor.description or ()}


def _found(raw: RawFiles, names: Mapping[str, str], where: str) -> Types:
    """The columns of a file that are parts of an event, found as Spark finds them: in upper or lower case. A field
    whose column the file does not have is missing in all its rows."""
    spelled = {name.lower(): name for name in names}
    found = {}
    for role, plain in raw.parts.items():
        if plain.column is None:
            continue
        name = plain.column if plain.column in names else spelled.get(plain.column.lower())
        if name is not None:
            found[role] = (_quoted(name), names[name])
        elif role in ROLES:
            raise _lacking(raw, role, where)
        else:
            found[role] = _NOTHING
    return found


def _lacking(raw: RawFiles, role: str, where: str) -> StoreError:
    name = raw.columns[role].column
    return StoreError(f"{where} has no column `{name}`, which is the {role} of stream {raw.stream!r}")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _constant(raw: RawFiles, role: str) -> tuple[str, str] | None:
    constant = raw.parts[role].constant
    if constant is None:
        return None
    kind = "VARCHAR" if isinstance(constant, str) else "BIGINT"
    return f"${role}::{kind}", kind


def _types_inferred(
    connection: duckdb.DuckDBPyConnection, raw: RawFiles, paths: list[str], values: Mapping[str, Any]
) -> Types:
    """The types that Spark would find in text files, from one pass over all files."""
    known = {"paths0": paths} | ({"columns": values["columns"]} if raw.format == "json" else {})
    first = raw.present[0].path
    columns = _found(raw, _described(connection, raw.format, known), first)
    rules = _CSV_TYPES if raw.format == "csv" else _JSON_TYPES
    tests = [
        f"bool_and({rule.format(c=column)}) FILTER ({column} IS NOT NULL)"
        for column, _ in columns.values()
        for rule in rules.values()
    ]
    query = f"SELECT {', '.join(tests) or 'NULL'} FROM {_READERS[raw.format].format(n=0)}"
    fits = connection.execute(query, known).fetchall()[0]
    types = {part: constant for part in raw.parts if (constant := _constant(raw, part)) is not None}
    for number, (role, (column, _)) in enumerate(columns.items()):
        fit = dict(zip(rules, fits[number * len(rules) :], strict=False))
        text = column if raw.format == "csv" else f"({column} ->> '$')"
        kind = next(
            (name for name, fits_all in fit.items() if fits_all), "VARCHAR" if raw.format == "csv" else "JSON[]"
        )
        types[role] = (f"TRY_CAST({text} AS {kind})", kind)
        if fit["BIGINT"] is None:  # there is no value
            if raw.format == "json" and role in ROLES:
                raise _lacking(raw, role, first)
            types[role] = _NOTHING
    return types
