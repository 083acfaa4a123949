"""Random predicates as text, over any columns: every operator, any nesting, capitals and blanks as people type them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

import duckdb
import numpy as np

from sketches.arrays import Flags
from sketches.errors import QuestionError
from sketches.predicate import ColumnType, Predicate
from tests.support.streams import Stream

Rng = np.random.Generator
Literals = Mapping[str, Sequence[str]]  # of each column, as they are written


def random_predicate(rng: Rng, types: Mapping[str, ColumnType], literals: Literals, depth: int = 3) -> str:
    """The text of a predicate that can be read."""
    if depth and rng.random() < 0.55:
        joined = _cased(rng, str(rng.choice([" and ", " or "])))
        parts = [random_predicate(rng, types, literals, depth - 1) for _ in range(int(rng.integers(2, 4)))]
        text = f"({joined.join(parts)})"
        return f"{_cased(rng, 'not')} {text}" if rng.random() < 0.25 else text
    column = str(rng.choice(list(types)))
    text = _leaf(rng, column, types[column], literals[column])
    return f"{_cased(rng, 'not')} {text}" if rng.random() < 0.15 else text


def _leaf(rng: Rng, column: str, held: ColumnType, literals: Sequence[str]) -> str:
    bounds = rng.choice(literals, int(rng.integers(1, 5))).tolist()
    negated = "not " if rng.random() < 0.4 else ""
    forms = ["equal", "in", "null"]
    forms += ["order", "order", "between"] if held in (ColumnType.NUMBER, ColumnType.TIME) else []
    forms += ["like", "like"] if held is ColumnType.TEXT else []
    blank = " " if rng.random() < 0.5 or bounds[0][0] in "+-" else ""  # DuckDB takes !=- for one operator
    match str(rng.choice(forms)):
        case "equal":
            return f"{column}{blank}{rng.choice(['=', '==', '!=', '<>'])}{blank}{bounds[0]}"
        case "order":
            return f"{column}{blank}{rng.choice(['<', '<=', '>', '>='])}{blank}{bounds[0]}"
        case "in":
            return f"{column} {_cased(rng, negated + 'in')}{blank}({(',' + blank).join(bounds)})"
        case "between":
            return f"{column} {_cased(rng, negated + 'between')} {bounds[0]} and {bounds[-1]}"
        case "like":
            text = bounds[0][1:-1]
            cut = text[: int(rng.integers(0, len(text) + 1))].rstrip("'")
            return f"{column} {_cased(rng, negated + 'like')} '{cut}{rng.choice(['%', '%', '', '_', '_%'])}'"
        case _:
            return f"{column} {_cased(rng, 'is ' + negated + 'null')}"


def _cased(rng: Rng, word: str) -> str:
    return word.upper() if rng.random() < 0.2 else word


def selected(texts: Sequence[str], rows: Stream) -> list[Flags]:
    """The rows that each predicate on value, weight and time selects, as DuckDB reads its text."""
    columns = {"value": rows.v.tolist(), "weight": rows.w.tolist(), "time": rows.t.tolist()}
    asked = ", ".join(f"({text}) IS TRUE" for text in texts)
    events = ", ".join(f"unnest(${name}) AS {name}" for name in columns)
    with duckdb.connect() as sql:
        found = sql.execute(f"SELECT {asked} FROM (SELECT {events})", columns).fetchall()
    return list(np.array(found, bool).reshape(len(rows), len(texts)).T)


def event_columns(rows: Stream) -> tuple[dict[str, ColumnType], Literals]:
    """The columns that any stream has, and bounds among its own values."""
    value = ColumnType.TEXT if rows.is_text else ColumnType.NUMBER
    literals = {
        "value": [
            "'" + one.replace("'", "''") + "'" if rows.is_text else repr(one) for one in np.unique(rows.v)[::7].tolist()
        ],
        "weight": [repr(one) for one in np.unique(rows.w).tolist()] + ["2.5"],
        "time": [repr(one) for one in np.unique(rows.t)[::11].tolist()],
    }
    return {"value": value, "weight": ColumnType.NUMBER, "time": ColumnType.TIME}, literals


def random_predicates(rng: Rng, rows: Stream, number: int) -> list[str]:
    """Predicates on the events of a stream, none of which contradicts itself."""
    found: list[str] = []
    while len(found) < number:
        text = random_predicate(rng, *event_columns(rows), depth=2)
        with suppress(QuestionError):
            Predicate.parse(text)
            found.append(text)
    return found
