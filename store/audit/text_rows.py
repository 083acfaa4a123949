"""The rows of CSV and JSON files in SQL, read as Spark reads them, with a column for each part of an event.

DuckDB guesses how a file is written, and reads other rows than Spark where it guesses wrong. So it is told everything:
of CSV the columns, from the header of each file; of JSON it reads lines, and takes them apart itself.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

import duckdb

from sketches.event_rules import ROLES
from sketches.events import Kind
from sketches.fields import FieldKind
from store.audit.raw_files import RawFiles, field_column
from store.database import StoreError
from store.writing.ledger import KnownFile

FILE: Final = '"file of wane"'  # a column: which file a row is from
Types = dict[str, tuple[str, str]]  # part of an event, or field → SQL of its column, and its type
NOTHING: Final = ("NULL", "NULL")

_READ: Final = (
    "read_csv($paths{n}, columns = $columns{n}, filename = 'file of wane', hive_partitioning = false, "
    "auto_detect = false, header = false, skip = 0, comment = '', strict_mode = false, null_padding = true, "
    "nullstr = '', allow_quoted_nulls = true, max_line_size = 33554432, {how})"
)
_FIELDS: Final = "delim = ',', quote = '\"', escape = '\"'"
_LINES: Final = "delim = '\x01', quote = '', escape = ''"  # JSON has no such letter but in a line that is none

# What type Spark would find for a column of CSV or JSON: the first that all its values fit. These are the rules of
# Spark's readers, not those of an event: a number of 19 digits is a BIGINT to Spark.
_CSV_TYPES: Final = {
    "INTEGER": "regexp_full_match({c}, '[+-]?[0-9]+') AND TRY_CAST({c} AS INTEGER) IS NOT NULL",
    "BIGINT": "regexp_full_match({c}, '[+-]?[0-9]+') AND TRY_CAST({c} AS BIGINT) IS NOT NULL",
    "DECIMAL(38,0)": "regexp_full_match({c}, '[+-]?[0-9]{{1,38}}')",
    "DOUBLE": r"regexp_full_match({c}, '\s*([+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?"
    r"|NaN|-?Inf|[+-]?Infinity)\s*')",
    "DATE": r"regexp_full_match({c}, '\d{{4}}-\d\d-\d\d') AND TRY_CAST({c} AS DATE) IS NOT NULL",
    "TIMESTAMPTZ": r"regexp_matches({c}, '^\d{{4}}-\d\d-\d\d') AND TRY_CAST({c} AS TIMESTAMPTZ) IS NOT NULL",
    "BOOLEAN": "lower({c}) IN ('true', 'false')",
    "VARCHAR": "true",
}
_JSON_TYPES: Final = {
    "BIGINT": "json_type({c}) IN ('BIGINT', 'UBIGINT') AND TRY_CAST({c}::VARCHAR AS BIGINT) IS NOT NULL",
    "DECIMAL(38,0)": "regexp_full_match({c}::VARCHAR, '-?[0-9]{{1,38}}')",
    "DOUBLE": "json_type({c}) IN ('BIGINT', 'UBIGINT', 'DOUBLE')",
    "BOOLEAN": "json_type({c}) = 'BOOLEAN'",
    "VARCHAR": "json_type({c}) NOT IN ('OBJECT', 'ARRAY')",
    "texts and objects": "true",
}
# Numbers to Java, and to nobody else: 5d, 0x1p3, digits of other scripts.
_IS_JAVA: Final = (
    r"regexp_full_match({c}, '\s*[+-]?([0-9.]+([eE][+-]?[0-9]+)?[dDfF]|0[xX][0-9a-fA-F.]+[pP][+-]?[0-9]+"
    r"|\p{{Nd}}+)\s*') AND NOT regexp_full_match({c}, '\s*[+-]?[0-9]+\s*')"
)
_FRACTION: Final = "json_type({c}) = 'DOUBLE'"  # among texts Spark keeps how it was written


class TextRows(NamedTuple):
    """A query of rows, a column for each part of an event, its parameters, and the parts that it has."""

    query: str
    values: Mapping[str, Any]
    parts: tuple[str, ...]


def text_rows(connection: duckdb.DuckDBPyConnection, raw: RawFiles, links: Mapping[str, KnownFile]) -> TextRows:
    """The rows of all files. Refuses files without the column of a part."""
    return (_csv_rows if raw.format == "csv" else _json_rows)(connection, raw, links)


def _csv_rows(connection: duckdb.DuckDBPyConnection, raw: RawFiles, links: Mapping[str, KnownFile]) -> TextRows:
    groups: dict[tuple[str, ...], list[str]] = {}
    for link in links:
        groups.setdefault(_header(connection, link), []).append(link)
    values: dict[str, Any] = {}
    queries, found = [], dict[str, None]()
    for number, (header, paths) in enumerate(groups.items()):
        spelled = spellings(raw, header, links[paths[0]].path)
        places = {part: header.index(name) for part, name in spelled.items()}
        values[f"paths{number}"] = paths
        values[f"columns{number}"] = {f"column{place}": "VARCHAR" for place in range(len(header))}
        picked = [f"column{places[part]} AS {part}" if part in places else f"NULL AS {part}" for part in _named(raw)]
        is_header = []
        for place in set(places.values()):
            values[f"header{number}_{place}"] = header[place]
            is_header.append(f"column{place} IS NOT DISTINCT FROM $header{number}_{place}")
        queries.append(
            f"SELECT {', '.join([*picked, FILE])} FROM {_READ.format(n=number, how=_FIELDS)} "
            f"WHERE NOT ({' AND '.join(is_header) or 'false'})"
        )
        found |= dict.fromkeys(places)
    return TextRows(" UNION ALL ".join(queries), values, tuple(found))


def _header(connection: duckdb.DuckDBPyConnection, link: str) -> tuple[str, ...]:
    """The names in the first line that is not blank."""
    values = {"paths0": [link], "columns0": {"line": "VARCHAR"}}
    lines = connection.execute(
        f"SELECT line FROM {_READ.format(n=0, how=_LINES)} WHERE trim(line, ' \t') <> '' LIMIT 1", values
    ).fetchall()
    return tuple(next(csv.reader([lines[0][0]]))) if lines else ()


def _json_rows(connection: duckdb.DuckDBPyConnection, raw: RawFiles, links: Mapping[str, KnownFile]) -> TextRows:
    values: dict[str, Any] = {"paths0": list(links), "columns0": {"line": "VARCHAR"}}
    lines = _READ.format(n=0, how=_LINES)
    half = connection.execute(
        rf"SELECT {FILE} FROM {lines} WHERE regexp_matches(line, '\\u[dD][89a-fA-F]') AND NOT json_valid(line) LIMIT 1",
        values,
    ).fetchall()
    if half:
        raise StoreError(
            f"{links[half[0][0]].path} has half of a letter (\\ud800 to \\udfff alone); it cannot be checked"
        )
    # A comma before a closing bracket is valid to DuckDB alone. A line with an array is as many rows.
    trailing = r"',\s*[}\]]'"
    outside = r"regexp_replace(line, '\"(?:[^\"\\]|\\.)*\"', '', 'g')"
    comma = f"regexp_matches(line, {trailing}) AND regexp_matches({outside}, {trailing})"
    # A line that is no JSON is a row in which all is missing, which ingest rejects; a blank one is none.
    objects = (
        f"SELECT {FILE}, unnest(CASE WHEN NOT json_valid(line) OR ({comma}) THEN [NULL::JSON] "
        "WHEN json_type(line) = 'ARRAY' THEN CAST(line AS JSON[]) ELSE [line::JSON] END) "
        rf"AS object FROM {lines} WHERE regexp_matches(line, '[^\x00-\x20]')"
    )
    names = connection.execute(
        f"SELECT DISTINCT unnest(json_keys(object)) FROM ({objects}) WHERE json_type(object) = 'OBJECT'", values
    ).fetchall()
    spelled = spellings(raw, [name for (name,) in names], next(iter(links.values())).path)
    shape = json.dumps(dict.fromkeys(spelled.values(), "JSON"))
    values["shape"] = shape
    for number, name in enumerate(spelled.values()):
        values[f"name{number}"] = name
    picked = [f"row_of[$name{number}] AS {part}" for number, part in enumerate(spelled)]
    picked += [f"NULL AS {part}" for part in _named(raw) if part not in spelled]
    rows = f"SELECT json_transform(object, $shape) AS row_of, {FILE} FROM ({objects})"
    return TextRows(f"SELECT {', '.join([*picked, FILE])} FROM ({rows})", values, tuple(spelled))


def _named(raw: RawFiles) -> list[str]:
    return [part for part, plain in raw.parts.items() if plain.column is not None]


def spellings(raw: RawFiles, names: Iterable[str], where: str, *, exact: bool = False) -> dict[str, str]:
    """How a file spells the columns that are parts of an event, found as Spark finds them: in upper or lower case. A
    field whose column the file does not have is missing in all its rows. With `exact`, a name in the same letters goes
    before others."""
    known = list(names)
    found = {}
    for part, plain in raw.parts.items():
        if plain.column is None:
            continue
        alike = [name for name in known if name.lower() == plain.column.lower()]
        if len(alike) > 1:
            raise StoreError(
                f"{where} has the columns {', '.join(f'`{name}`' for name in alike)}, which Spark takes for one"
            )
        if alike:
            found[part] = alike[0]
        elif part in ROLES:
            raise lacking(raw, part, where)
    return found


def lacking(raw: RawFiles, role: str, where: str) -> StoreError:
    name = raw.columns[role].column
    return StoreError(f"{where} has no column `{name}`, which is the {role} of stream {raw.stream!r}")


class FoundType(NamedTuple):
    """The type that Spark would find for a column, None where it has no value; and whether only Spark reads it: of CSV
    numbers of which some are numbers to Java alone, of JSON values of which some are fractions."""

    kind: str | None
    odd: bool


def found_types(connection: duckdb.DuckDBPyConnection, form: str, rows: TextRows) -> dict[str, FoundType]:
    """The types that Spark would find in text files, from one pass over all files."""
    rules = _CSV_TYPES if form == "csv" else _JSON_TYPES
    odd = _IS_JAVA if form == "csv" else _FRACTION
    numbers = f"(({_CSV_TYPES['DOUBLE']}) OR ({_IS_JAVA}))" if form == "csv" else "true"  # one text makes all texts
    tests = [
        test
        for part in rows.parts
        for test in (
            *(f"bool_and({rule.format(c=part)}) FILTER ({part} IS NOT NULL)" for rule in rules.values()),
            f"bool_or({odd.format(c=part)}) AND bool_and({numbers.format(c=part)}) FILTER ({part} IS NOT NULL)",
        )
    ]
    fits = connection.execute(f"SELECT {', '.join(tests) or 'NULL'} FROM ({rows.query})", dict(rows.values)).fetchall()[
        0
    ]
    found = {}
    for number, part in enumerate(rows.parts):
        *of_part, has_odd = fits[number * (len(rules) + 1) : (number + 1) * (len(rules) + 1)]
        kind = next((name for name, fits_all in zip(rules, of_part, strict=True) if fits_all), None)
        found[part] = FoundType(kind, bool(has_odd))
    return found


def typed(part: str, form: str, kind: str) -> str:
    """SQL of a column's values in the type that was found for it."""
    text = part if form == "csv" else f"({part} ->> '$')"
    if kind.startswith("texts"):
        return text
    return f"TRY_CAST({f'trim({text})' if kind == 'DOUBLE' else text} AS {kind})"


def typed_alone(part: str, kind: str) -> str:
    """The same of CSV where a schema says the type: what is not of it is missing."""
    return f"CASE WHEN {_CSV_TYPES[kind].format(c=part)} THEN {typed(part, 'csv', kind)} END"


def text_types(connection: duckdb.DuckDBPyConnection, raw: RawFiles, rows: TextRows) -> Types:
    """The types of the parts of events. Refuses numbers that only Spark reads."""
    types: Types = dict.fromkeys(_named(raw), NOTHING)
    for part, (kind, odd) in found_types(connection, raw.format, rows).items():
        if kind is None:
            if raw.format == "json" and part in ROLES:
                raise lacking(raw, part, raw.present[0].path)
            continue
        if raw.format == "csv" and odd and _is_number(raw, part):
            name = raw.parts[part].column
            raise StoreError(f"`{name}` has numbers that only Java reads, like 5d; they cannot be checked")
        if raw.format == "json" and odd and kind == "VARCHAR" and not _is_number(raw, part):
            types[part] = (typed(part, raw.format, kind), "texts and fractions")
        else:
            types[part] = (typed(part, raw.format, kind), kind)
    return types


def _is_number(raw: RawFiles, part: str) -> bool:
    """Whether a part of an event is a number."""
    if part in ROLES:
        return part in ("time", "weight") or (part == "value" and raw.kind is not Kind.KEY)
    kinds = {field_column(name): kind for name, kind in raw.field_kinds.items()}
    return kinds.get(part) in (FieldKind.INTEGER, FieldKind.FLOAT)
