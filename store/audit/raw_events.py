"""From raw files to a table of events, in SQL, by the same rules as ingest: those of `sketches.event_rules`.

Text of the settings enters a statement only as a quoted identifier or as a parameter.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import duckdb

from sketches.event_rules import (
    LONGEST_KEY,
    LONGEST_SOURCE,
    MAX_TIME,
    MAX_VALUE,
    MAX_WEIGHT,
    MIN_WEIGHT,
    NUMBER,
    ROLES,
    WHOLE_NUMBER,
)
from sketches.events import Kind
from sketches.units import TimeUnit
from store.audit.raw_files import RawFiles
from store.database import StoreError
from store.file_formats import CHECKABLE_COMPRESSIONS
from store.writing.ledger import KnownFile

_WHOLE_TYPES: Final = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT")
_ZONED: Final = ("TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ")
_FINE: Final = ("TIMESTAMP_NS", "TIMESTAMPTZ_NS")
_MOMENTS: Final = ("DATE", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", *_FINE, *_ZONED)
_LAST_DIGITS: Final = 2.0**-50  # of a float: what a cast from decimals and a division may lose
_NO_ID: Final = ("FLOAT", "DOUBLE", "BOOLEAN")
_BLANKS: Final = "".join(filter(str.isspace, map(chr, range(sys.maxunicode + 1))))  # what ingest trims off numbers

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


def load(connection: duckdb.DuckDBPyConnection, raw: RawFiles, links: Mapping[str, KnownFile]) -> None:
    """Make the table `events`: every distinct row of every source that ingest took for an event."""
    # Ingest rejected times outside a file's span by `max_future` or `max_age`, which the store does not know.
    connection.execute("CREATE TEMP TABLE spans (link VARCHAR, oldest BIGINT, newest BIGINT)")
    spans = [(link, *_span(known)) for link, known in links.items()]
    connection.executemany("INSERT INTO spans VALUES ($1, $2, $3)", spans)
    values: dict[str, Any] = {role: plain.constant for role, plain in raw.columns.items() if plain.constant is not None}
    if raw.format == "json":
        values["columns"] = {plain.column: "JSON" for plain in raw.columns.values() if plain.column is not None}
    parts = []
    for number, (types, paths) in enumerate(_groups(connection, raw, links, values)):
        events = ", ".join(f"{_converted(role, *types[role], raw)} AS {role}" for role in ROLES)
        parts.append(
            f'SELECT source, id, time, value, weight FROM (SELECT {events}, "file of wane" AS link '
            f"FROM {_READERS[raw.format].format(n=number)}) JOIN spans USING (link) "
            f"WHERE time BETWEEN oldest AND newest AND weight BETWEEN {MIN_WEIGHT} AND {MAX_WEIGHT} "
            "AND source IS NOT NULL AND id IS NOT NULL AND value IS NOT NULL"
        )
        values[f"paths{number}"] = paths
    query = (
        "CREATE TABLE events AS SELECT source, id, time AS t, value AS v, weight AS w, count(*) AS repeats "
        f"FROM ({' UNION ALL '.join(parts)}) GROUP BY ALL"
    )
    connection.execute(query, values)


def _span(known: KnownFile) -> tuple[int, int]:
    if known.oldest is None or known.newest is None:
        return (
            (1, 0) if known.modified else (-MAX_TIME, MAX_TIME)
        )  # an old ledger does not say; a new one says that no row was an event
    return known.oldest, known.newest


Types = dict[str, tuple[str, str]]  # role → SQL of its column, and its type


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
        found = (columns.get(role) or ("", "") for role in ROLES)
        groups.setdefault(tuple(found), []).append(link)
    return [
        ({role: _constant(raw, role) or column for role, column in zip(ROLES, found, strict=True)}, paths)
        for found, paths in groups.items()
    ]


def _described(connection: duckdb.DuckDBPyConnection, form: str, values: Mapping[str, Any]) -> dict[str, str]:
    cursor = connection.execute(f"FROM {_READERS[form].format(n=0)} LIMIT 0", dict(values))
    return {name: str(kind) for name, kind, *_ in cursor.description or ()}


def _found(raw: RawFiles, names: Mapping[str, str], where: str) -> Types:
    """The columns of a file that are parts of an event, found as Spark finds them: in upper or lower case."""
    spelled = {name.lower(): name for name in names}
    found = {}
    for role, plain in raw.columns.items():
        if plain.column is None:
            continue
        name = plain.column if plain.column in names else spelled.get(plain.column.lower())
        if name is None:
            raise _lacking(raw, role, where)
        found[role] = (_quoted(name), names[name])
    return found


def _lacking(raw: RawFiles, role: str, where: str) -> StoreError:
    name = raw.columns[role].column
    return StoreError(f"{where} has no column `{name}`, which is the {role} of stream {raw.stream!r}")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _constant(raw: RawFiles, role: str) -> tuple[str, str] | None:
    constant = raw.columns[role].constant
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
    types = {role: constant for role in ROLES if (constant := _constant(raw, role)) is not None}
    for number, (role, (column, _)) in enumerate(columns.items()):
        fit = dict(zip(rules, fits[number * len(rules) :], strict=False))
        text = column if raw.format == "csv" else f"({column} ->> '$')"
        kind = next(
            (name for name, fits_all in fit.items() if fits_all), "VARCHAR" if raw.format == "csv" else "JSON[]"
        )
        types[role] = (f"TRY_CAST({text} AS {kind})", kind)
        if fit["BIGINT"] is None:  # there is no value
            if raw.format == "json":
                raise _lacking(raw, role, first)
            types[role] = ("NULL", "NULL")
    return types


def _converted(role: str, column: str, kind: str, raw: RawFiles) -> str:
    """SQL that converts a raw column as ingest does; NULL where ingest rejects the row."""
    assert raw.kind is not None
    target = {"source": "VARCHAR", "id": "VARCHAR", "value": _VALUE_TYPES[raw.kind]}.get(role, "BIGINT")
    made = None
    if kind in ("NULL", '"NULL"'):
        made = f"NULL::{target}"
    elif role == "time":
        made = _time(column, kind, raw.unit)
    elif role == "id":
        made = _id(column, kind)
    elif role == "weight":
        made = _whole(column, kind) if raw.weight_step == 1 else _steps(column, kind, raw.weight_step)
    elif role == "source" or raw.kind is Kind.KEY:
        made = _label(column, kind, LONGEST_SOURCE if role == "source" else LONGEST_KEY)
    elif kind == "VARCHAR":
        made = _spelled(column, raw.kind)
    elif kind == "BOOLEAN":
        made = f"{column}::{target}"
    elif raw.kind is Kind.INTEGER:
        made = _whole(column, kind)
    elif kind in _WHOLE_TYPES or _is_number(kind):
        made = _finite(f"{column}::DOUBLE")
    if made is None:
        raise StoreError(f"`{raw.columns[role].column}` is of type {kind}, which cannot be checked here as a {role}")
    return made


_VALUE_TYPES: Final = {Kind.INTEGER: "BIGINT", Kind.FLOAT: "DOUBLE", Kind.KEY: "VARCHAR"}


def _is_number(kind: str) -> bool:
    return kind in ("FLOAT", "DOUBLE") or kind.startswith("DECIMAL")


def _time(column: str, kind: str, unit: TimeUnit) -> str | None:
    if kind in _MOMENTS:
        stamp, resolution = f"epoch_us({column})", 1_000_000
        if kind in _FINE:
            stamp, resolution = f"epoch_ns({column})", 1_000_000_000
        elif kind not in _ZONED:
            stamp = f"epoch_us({column}::TIMESTAMP)"
        top, bottom = unit.denominator, unit.numerator * resolution
        shared = math.gcd(top, bottom)
        made = f"TRY(floored({stamp}::HUGEINT * {top // shared}, {bottom // shared}))"
    elif kind in _WHOLE_TYPES:
        made = column
    elif _is_number(kind):
        made = f"floor({column})"
    else:
        return None
    made = f"TRY_CAST({made} AS BIGINT)"
    return f"CASE WHEN {made} BETWEEN {-MAX_TIME} AND {MAX_TIME} THEN {made} END"


def _id(column: str, kind: str) -> str | None:
    if kind in _NO_ID or (kind.endswith(("]", ")")) and not kind.startswith(("DECIMAL", "ENUM"))):
        return None
    return f"{column}::BIGINT" if kind in _WHOLE_TYPES and kind != "UBIGINT" else f"{column}::VARCHAR"


def _label(column: str, kind: str, longest: int) -> str | None:
    if kind == "VARCHAR" or kind.startswith("ENUM"):
        return f"CASE WHEN strlen({column}::VARCHAR) <= {longest} THEN {column}::VARCHAR END"
    return f"{column}::VARCHAR" if kind in (*_WHOLE_TYPES, "BOOLEAN", "DATE") else None


def _whole(column: str, kind: str) -> str | None:
    if kind in _WHOLE_TYPES:
        return f"TRY_CAST({column} AS BIGINT)"
    if kind.startswith("DECIMAL"):
        return f"CASE WHEN {column} % 1 = 0 THEN TRY_CAST({column} AS BIGINT) END"
    if _is_number(kind):
        return f"CASE WHEN isfinite({column}) AND {column} = trunc({column}) THEN TRY_CAST({column} AS BIGINT) END"
    return None


def _steps(column: str, kind: str, step: Fraction) -> str | None:
    """How many steps a weight is, to within a millionth of one, or as near as floats of its type come."""
    if kind not in _WHOLE_TYPES and not _is_number(kind):
        return None
    top, bottom = f"{float(step.numerator)!r}::DOUBLE", f"{float(step.denominator)!r}::DOUBLE"
    steps = f"({column}::DOUBLE * {bottom} / {top})"
    nearest = f"round_even({steps}, 0)"
    off = f"abs({steps} - {nearest})"
    narrow = "FLOAT" if kind == "FLOAT" else "DOUBLE"
    spelled = f"TRY_CAST({nearest} * {top} / {bottom} AS {narrow}) = {column}::{narrow}"
    close = f"({off} <= 1e-6 OR {off} <= abs({steps}) * {_LAST_DIGITS!r}::DOUBLE OR {spelled})"
    return f"CASE WHEN isfinite({steps}) AND {close} THEN TRY_CAST({nearest} AS BIGINT) END"


def _finite(number: str) -> str:
    return f"CASE WHEN abs({number}) <= {MAX_VALUE!r} THEN {number} + 0.0::DOUBLE END"


def _spelled(column: str, kind: Kind) -> str:
    """A number written as text."""
    trimmed = f"trim({column}, '{_BLANKS}')"
    if kind is Kind.INTEGER:
        return (
            f"CASE WHEN regexp_full_match({trimmed}, '{WHOLE_NUMBER}') "
            f"THEN TRY_CAST(ltrim({trimmed}, '+') AS BIGINT) END"
        )
    number = f"TRY_CAST(ltrim({trimmed}, '+') AS DOUBLE)"
    return f"CASE WHEN regexp_full_match({trimmed}, '{NUMBER}') THEN {_finite(number)} END"
