"""Lets a DuckDB session of the user's own ask a store: FROM wane('SELECT … DECAY BY …'), joined with his own tables.

The answer comes back as a list of values in SQL, which DuckDB reads as a table: so it needs no extension, and every
column has the type that it has in an answer.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from sketches.errors import QuestionError
from sketches.recent import Recent
from store.serving.sql.sql_answer import SqlAnswer

if TYPE_CHECKING:
    from store.engine import duckdb
    from store.serving.store import Store

MOST_ROWS: Final = 100_000  # they pass through the text of a query
_KEPT: Final = 16  # DuckDB asks twice for each statement: once for its columns, once for its rows
_MOST_KEPT: Final = 64 << 20  # characters of all of them together
_NAME: Final = re.compile(r"[a-z_][a-z0-9_]{0,49}")


def register(connection: duckdb.DuckDBPyConnection, store: Store, name: str = "wane") -> None:
    """Give a session the function `name`, which takes a statement of docs/sql.md and is a table."""
    if not _NAME.fullmatch(name):
        raise QuestionError(f"name is {name!r}; it must be a plain word of the letters a-z, digits and _")
    recent = Recent[tuple[str, bool]](_KEPT, most=_MOST_KEPT, size=lambda found: len(found[0]))

    def asked(statement: str) -> str:
        commit = store.catalogue().name

        def find() -> tuple[str, bool]:
            answer = store.sql(statement)
            return values_of(answer), answer.of_now

        return recent.get((commit, statement), find, lambda found: not found[1] and store.catalogue().name == commit)[0]

    connection.create_function(f"{name}_values", asked, ["VARCHAR"], "VARCHAR")
    connection.execute(f"CREATE OR REPLACE TEMP MACRO {name}(statement) AS TABLE FROM query({name}_values(statement))")


def values_of(answer: SqlAnswer) -> str:
    """An answer as a query that has no other source than its own text.

    >>> values_of(SqlAnswer({"source": ["o'hare"], "n": [2.5]}))
    'SELECT * FROM (VALUES (\\'o\\'\\'hare\\'::VARCHAR, 2.5::DOUBLE)) answer("source", "n")'
    """
    if len(answer) > MOST_ROWS:
        raise QuestionError(f"the answer has {len(answer):,} rows; at most {MOST_ROWS:,} go into a query: add a LIMIT")
    columns, floats = answer.table(), answer.floats
    types = [_type(column, measured=name in floats) for name, column in columns.items()]
    names = ", ".join(_quoted(name, '"') for name in columns)
    rows = [f"({', '.join(map(_literal, row, types))})" for row in zip(*columns.values(), strict=True)] or [
        f"({', '.join(f'NULL::{kind}' for kind in types)})"
    ]
    found = f"SELECT * FROM (VALUES {', '.join(rows)}) answer({names})"
    return found if len(answer) else f"{found} WHERE false"


def _type(column: Sequence[Any], *, measured: bool) -> str:
    kinds = {type(value) for value in column if value is not None}
    if measured or float in kinds:
        return "DOUBLE"
    if kinds == {bool}:
        return "BOOLEAN"
    return "BIGINT" if kinds == {int} else "VARCHAR"


def _literal(value: Any, kind: str) -> str:
    if value is None:
        return f"NULL::{kind}"
    if isinstance(value, float) and not math.isfinite(value):
        return f"'{value}'::DOUBLE"
    if kind == "VARCHAR":
        text = str(value)
        # the text of a query ends at a zero byte
        parts = [_quoted(part, "'") for part in text.split("\0")]
        return f"({' || chr(0) || '.join(parts)})::VARCHAR" if len(parts) > 1 else f"{parts[0]}::VARCHAR"
    return f"{value!r}::{kind}"


def _quoted(text: str, quote: str) -> str:
    return f"{quote}{text.replace(quote, 2 * quote)}{quote}"
