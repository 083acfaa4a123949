"""How ingest converts the columns of a raw file to the parts and fields of events, as SQL: by `sketches.event_rules`.

NULL stands where ingest rejects a row; of a field, where it is missing.
"""

from __future__ import annotations

import math
import sys
from fractions import Fraction
from typing import Final

from sketches.event_rules import (
    LONGEST_FIELD_TEXT,
    LONGEST_KEY,
    LONGEST_SOURCE,
    MAX_TIME,
    MAX_VALUE,
    NUMBER,
    WHOLE_NUMBER,
)
from sketches.events import Kind
from sketches.fields import FieldKind
from sketches.units import TimeUnit
from store.audit.raw_files import RawFiles
from store.database import StoreError

_WHOLE_TYPES: Final = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT")
_ZONED: Final = ("TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ")
_FINE: Final = ("TIMESTAMP_NS", "TIMESTAMPTZ_NS")
_MOMENTS: Final = ("DATE", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", *_FINE, *_ZONED)
_LAST_DIGITS: Final = 2.0**-50  # of a float: what a cast from decimals and a division may lose
_NO_ID: Final = ("FLOAT", "DOUBLE", "BOOLEAN")
_BLANKS: Final = "".join(filter(str.isspace, map(chr, range(sys.maxunicode + 1))))  # what ingest trims off numbers
_NOTHING: Final = ("NULL", '"NULL"')
_VALUE_TYPES: Final = {Kind.INTEGER: "BIGINT", Kind.FLOAT: "DOUBLE", Kind.KEY: "VARCHAR"}
_FIELD_TYPES: Final = {
    FieldKind.INTEGER: "BIGINT",
    FieldKind.FLOAT: "DOUBLE",
    FieldKind.TEXT: "VARCHAR",
    FieldKind.BOOLEAN: "BOOLEAN",
}


def converted(role: str, column: str, kind: str, raw: RawFiles) -> str:
    """SQL that converts a raw column as ingest does; NULL where ingest rejects the row."""
    assert raw.kind is not None
    target = {"source": "VARCHAR", "id": "VARCHAR", "value": _VALUE_TYPES[raw.kind]}.get(role, "BIGINT")
    made = None
    if kind in _NOTHING:
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


def converted_field(column: str, kind: str, field: FieldKind) -> str | None:
    """SQL that converts a raw column to a field as ingest does; None where it cannot be done here."""
    target = _FIELD_TYPES[field]
    if kind in _NOTHING:
        return f"NULL::{target}"
    if field is FieldKind.TEXT:
        return _iso(column, kind) if kind in _MOMENTS else _label(column, kind, LONGEST_FIELD_TEXT)
    if kind in _MOMENTS or (field is FieldKind.BOOLEAN and (kind in _WHOLE_TYPES or _is_number(kind))):
        return f"NULL::{target}"
    if field is FieldKind.BOOLEAN:
        lower = f"lower(trim({column}, '{_BLANKS}'))"
        spelled = f"CASE WHEN {lower} IN ('true', 'false') THEN {lower} = 'true' END"
        return {"BOOLEAN": column, "VARCHAR": spelled}.get(kind)
    if kind == "VARCHAR":
        return _spelled(column, Kind.INTEGER if field is FieldKind.INTEGER else Kind.FLOAT)
    if kind == "BOOLEAN":
        return f"{column}::INTEGER::{target}"
    if field is FieldKind.INTEGER:
        return _whole(column, kind)
    return _finite(f"{column}::DOUBLE") if kind in _WHOLE_TYPES or _is_number(kind) else None


def _iso(column: str, kind: str) -> str | None:
    """A time as ISO writes it, without zeros behind its last digit."""
    if kind in _FINE:
        return None
    if kind == "DATE":
        return f"{column}::VARCHAR"
    whole = f"strftime({column}::TIMESTAMP, '%Y-%m-%dT%H:%M:%S.%f')"
    return f"rtrim(rtrim({whole}, '0'), '.')" + (" || 'Z'" if kind in _ZONED else "")


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
