"""Arithmetic of Java in SQL of DuckDB: numbers that wrap, fractions cut off at limits, times rounded down."""

from __future__ import annotations

from typing import Final

WHOLE: Final = {"TINYINT": 8, "SMALLINT": 16, "INTEGER": 32, "BIGINT": 64}  # bits


def wrapped(number: str, kind: str) -> str:
    """A number of any size in as many bits as the type has, as Java does it."""
    half = 1 << (WHOLE[kind] - 1)
    moved = f"({number} + {half}::HUGEINT)"
    return f"CAST((({moved} % {2 * half}::HUGEINT) + {2 * half}) % {2 * half}::HUGEINT - {half} AS {kind})"


def truncated(number: str, kind: str) -> str:
    """A floating-point number without its fraction, at the limits of the type where it is beyond; 0 where it is NaN."""
    half = 1 << (WHOLE[kind] - 1)
    return (
        f"CASE WHEN isnan({number}) THEN 0::{kind} WHEN {number} >= {half}::DOUBLE THEN {half - 1}::{kind} "
        f"WHEN {number} <= {-half}::DOUBLE THEN ({-half})::{kind} ELSE CAST(trunc({number}) AS {kind}) END"
    )


def floored(number: str, size: int) -> str:
    return f"CAST(({number} - ((({number}) % {size}) + {size}) % {size}) // {size} AS BIGINT)"
