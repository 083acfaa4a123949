"""The raw files that a stream was ingested from: which are still at hand, and how their rows become events.

Ingest takes Spark's SQL expressions for its columns, and those are not DuckDB's: only a plain column or a constant is
understood here. No text of the settings enters a statement but as a quoted identifier.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import duckdb

from sketches.drawn import SECOND, TimeUnit
from sketches.events import MAX_TIME, MAX_VALUE, Kind
from sketches.range_sample import MAX_WEIGHT
from store.database import WAIT, StoreError, connected
from store.ledger import KnownFile
from store.schema import check

ROLES: Final = ("source", "id", "time", "value", "weight")

_NAME: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_QUOTED_NAME: Final = re.compile(r"`([^`]+)`")
_NUMBER: Final = re.compile(r"-?[0-9]{1,18}")
_TEXT: Final = re.compile(r"'([^'\\]*)'")
_CONSTANTS: Final = ("true", "false", "null")
_PACKED: Final = (".gz", ".zst")
_UNREAD: Final = (".bz2", ".lz4", ".snappy")

_WHOLE_TYPES: Final = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT")
_ZONED: Final = ("TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ")
_FINE: Final = ("TIMESTAMP_NS", "TIMESTAMPTZ_NS")
_MOMENTS: Final = ("DATE", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", *_FINE, *_ZONED)
_NO_ID: Final = ("FLOAT", "DOUBLE", "BOOLEAN")

# What Spark would take a column of CSV or JSON for: the first type that all its values fit.
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


@dataclass(frozen=True, slots=True)
class Plain:
    """A role as a column of the input, or as a constant."""

    column: str | None
    constant: int | str | None = None


@dataclass(frozen=True, slots=True)
class RawFiles:
    """The files that the ledger says a stream was read from, by what became of them, and how they become events.

    `reason` says why the stream cannot be checked against them, None where it can. Copies, which ingest did not read,
    are left out. Where the ledger of an old store has no time of change, the size alone tells a changed file.
    """

    stream: str
    present: tuple[KnownFile, ...] = ()
    changed: tuple[KnownFile, ...] = ()
    missing: tuple[KnownFile, ...] = ()
    reason: str | None = None
    format: str = ""
    kind: Kind | None = None
    unit: TimeUnit = SECOND
    columns: Mapping[str, Plain] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        """Whether all of the stream's events can be read again."""
        return bool(self.present) and not (self.changed or self.missing)

    @property
    def rows(self) -> int:
        """The rows in the files at hand, rejected ones and repeats included."""
        return sum(file.rows for file in self.present)


def raw_files(path: str | Path, stream: str, wait: float = WAIT) -> RawFiles:
    """Hold the ledger of a stream against the files as they lie there now; reads none of them."""
    file = Path(path)
    with connected(file, write=False, wait=wait) as connection:
        check(connection, file)
        held = connection.execute(
            "SELECT unit_numerator, unit_denominator, settings FROM streams WHERE stream = $1", [stream]
        ).fetchall()
        rows = connection.execute(
            "SELECT run, path, size, fingerprint, modified, rows, oldest, newest FROM files "
            "WHERE stream = $1 AND rows > 0 ORDER BY path",
            [stream],
        ).fetchall()
    if not held:
        raise StoreError(f"stream {stream!r} is not in {file}")
    numerator, denominator, text = held[0]
    ledger = [KnownFile(*row) for row in rows]
    states = {known.path: state_of(known) for known in ledger}
    present, changed, missing = (
        tuple(known for known in ledger if states[known.path] == state) for state in ("present", "changed", "missing")
    )
    settings = json.loads(text)
    kind = Kind(settings["kind"]) if settings.get("kind") in list(Kind) else None
    columns = {role: _plain(settings.get(role)) for role in ROLES}
    reason = _reason(settings, kind, columns, ledger, present)
    plain = {role: column for role, column in columns.items() if column is not None}
    unit = TimeUnit(numerator, denominator)
    return RawFiles(stream, present, changed, missing, reason, settings.get("format", ""), kind, unit, plain)


def state_of(known: KnownFile) -> str:
    try:
        status = Path(known.path).stat()
    except OSError:
        return "missing"
    same = status.st_size == known.size and known.modified in (0, status.st_mtime_ns)
    return "present" if same else "changed"


def _plain(expression: object) -> Plain | None:
    """An expression as a column or constant, None where it is more than that."""
    if not isinstance(expression, str):
        return None
    if _NAME.fullmatch(expression) and expression.lower() not in _CONSTANTS:
        return Plain(expression)
    if match := _QUOTED_NAME.fullmatch(expression):
        return Plain(match[1])
    if _NUMBER.fullmatch(expression):
        return Plain(None, int(expression))
    match = _TEXT.fullmatch(expression)
    return Plain(None, match[1]) if match else None


def _reason(
    settings: Mapping[str, Any],
    kind: Kind | None,
    columns: Mapping[str, Plain | None],
    ledger: Sequence[KnownFile],
    present: Sequence[KnownFile],
) -> str | None:
    if not ledger:
        return "the store has no record of the files that this stream was read from"
    for role, column in columns.items():
        if role not in settings:
            return f"the store does not say what the stream's {role} was read from"
        if column is None:
            return (
                f"`{role}` is the expression `{settings[role]}`; only plain columns and constants (whole numbers, "
                "quoted text) can be checked here"
            )
    if kind is None:
        return "the store does not say whether the stream's values are numbers or text"
    if settings.get("format") not in _READERS:
        return f"files of format {settings.get('format')!r} cannot be checked here; {', '.join(_READERS)} can"
    for known in ledger:
        if known.path.lower().endswith(_UNREAD):
            return f"{known.path} is packed in a way that cannot be read here; {' and '.join(_PACKED)} can"
    if not present:
        return f"none of the stream's {len(ledger):,} input files is at hand as it was when it was read"
    return None


def link(files: Sequence[KnownFile], folder: Path) -> dict[str, KnownFile]:
    """Names of our own for the files: DuckDB takes *, ? and [ in a path for a glob."""
    links = {}
    for number, known in enumerate(files):
        link = folder / f"{number}{Path(known.path).suffix if known.path.endswith(_PACKED) else ''}"
        link.symlink_to(known.path)
        links[str(link)] = known
    return links


def load(connection: duckdb.DuckDBPyConnection, raw: RawFiles, links: Mapping[str, KnownFile]) -> None:
    """The table `events`: every distinct row of every source that ingest took for an event."""
    # Times outside a file's span were rejected by `max_future` or `max_age`, which the store does not have.
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
            f"WHERE time BETWEEN oldest AND newest AND weight BETWEEN 1 AND {MAX_WEIGHT} AND source IS NOT NULL "
            "AND id IS NOT NULL AND value IS NOT NULL"
        )
        values[f"paths{number}"] = paths
    query = (
        "CREATE TABLE events AS SELECT source, id, time AS t, value AS v, weight AS w, count(*) AS repeats "
        f"FROM ({' UNION ALL '.join(parts)}) GROUP BY ALL"
    )
    connection.execute(query, values)


def _span(known: KnownFile) -> tuple[int, int]:
    if known.oldest is None or known.newest is None:
        return (1, 0) if known.modified else (-MAX_TIME, MAX_TIME)  # an old ledger says nothing, a new one that all
    return known.oldest, known.newest


Types = dict[str, tuple[str, str]]  # role → SQL of its column, and its type


def _groups(
    connection: duckdb.DuckDBPyConnection, raw: RawFiles, links: Mapping[str, KnownFile], values: Mapping[str, Any]
) -> list[tuple[Types, list[str]]]:
    """The files by the types of their columns. Others than Parquet are read as one, as by Spark."""
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
    """The columns of the roles among those of a file, found as Spark finds them: whatever the case."""
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
    """The types that Spark finds by itself in text, from one pass over all files."""
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
    """SQL that makes of a raw column what ingest makes of it (see `ingest.columns`), NULL where it rejects the row."""
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
        made = _whole(column, kind)
    elif role == "source" or raw.kind is Kind.KEY:
        made = _label(column, kind, 1_000 if role == "source" else 1 << 20)
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


def _finite(number: str) -> str:
    return f"CASE WHEN abs({number}) <= {MAX_VALUE!r} THEN {number} + 0.0::DOUBLE END"


def _spelled(column: str, kind: Kind) -> str:
    """A number written as text."""
    trimmed = f"trim({column}, E' \\t\\n\\r\\v\\f')"
    if kind is Kind.INTEGER:
        return (
            f"CASE WHEN regexp_full_match({trimmed}, '[+-]?[0-9]{{1,18}}') "
            f"THEN TRY_CAST(ltrim({trimmed}, '+') AS BIGINT) END"
        )
    pattern = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?"
    number = f"TRY_CAST(ltrim({trimmed}, '+') AS DOUBLE)"
    return f"CASE WHEN regexp_full_match({trimmed}, '{pattern}') THEN {_finite(number)} END"
