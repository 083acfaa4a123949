"""What expressions are made of: literals, the types that they know, and the error where Spark is needed."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

import pyarrow as pa
from sqlglot import exp

from sketches.errors import WaneError

MOMENT: Final = "TIMESTAMPTZ"
_ARROW: Final = (
    (pa.types.is_int8, "TINYINT"),
    (lambda kind: pa.types.is_int16(kind) or pa.types.is_uint8(kind), "SMALLINT"),
    (lambda kind: pa.types.is_int32(kind) or pa.types.is_uint16(kind), "INTEGER"),
    (lambda kind: pa.types.is_int64(kind) or pa.types.is_uint32(kind), "BIGINT"),
    (pa.types.is_float64, "DOUBLE"),
    (pa.types.is_boolean, "BOOLEAN"),
    (lambda kind: pa.types.is_string(kind) or pa.types.is_large_string(kind), "VARCHAR"),
    (lambda kind: pa.types.is_timestamp(kind) and kind.tz is not None and kind.unit in ("us", "ms"), MOMENT),
    (pa.types.is_null, "NULL"),
)


class NeedsSparkError(WaneError):
    """An expression is not among those that are evaluated without Spark; the message names what is not."""


class Made(NamedTuple):
    """SQL of DuckDB, and the type that both give it."""

    sql: str
    type: str


def type_of(kind: pa.DataType) -> str | None:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return next((name for fits, name in _ARROW if fits(kind)), None)


def literal(node: exp.Literal, sign: str = "") -> Made:
    text = str(node.this)
    if node.is_string:
        if sign:
            raise NeedsSparkError("- of a text is not evaluated without Spark")
        return Made("'" + text.replace("'", "''") + "'", "VARCHAR")
    if text.isdecimal() and abs(number := int(sign + text)) < 1 << 63:
        return Made(f"{number}", "INTEGER" if -(1 << 31) <= number < 1 << 31 else "BIGINT")
    if re.fullmatch(r"[0-9.]+[eE][+-]?[0-9]+", text):
        return Made(f"CAST('{sign}{text}' AS DOUBLE)", "DOUBLE")
    raise NeedsSparkError(f"{text} is a decimal to Spark, and is not evaluated without it; {text}e0 is a number")


def whole_literal(node: exp.Expr | None) -> int | None:
    return int(node.this) if isinstance(node, exp.Literal) and not node.is_string and node.this.isdecimal() else None
