"""From raw columns to fields, held against an oracle that looks at one row at a time in plain Python."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.executor.field_columns import (
    FieldRows,
    check_fields,
    column_name,
    field_hashes,
    field_kind_of,
    field_type_fault,
    fields_of,
)
from sketches.fields import FieldColumn, FieldKind

WORDS = {
    FieldKind.BOOLEAN: "true or false",
    FieldKind.INTEGER: "a whole number",
    FieldKind.FLOAT: "a number",
}
DAY = datetime(2024, 2, 29, tzinfo=UTC)
TYPES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int8(): st.integers(-128, 127),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.uint64(): st.one_of(st.integers(0, 9), st.integers(2**63 - 1, 2**64 - 1)),
    pa.float32(): st.floats(width=32),
    pa.float64(): st.one_of(st.floats(), st.sampled_from([1e300, 2.0**63, -(2.0**63), -0.0, 1e301])),
    pa.decimal128(38, 3): st.one_of(st.integers(-9, 9).map(Decimal), st.decimals(-(10**30), 10**30, places=3)),
    pa.bool_(): st.booleans(),
    pa.string(): st.one_of(
        st.sampled_from(["", "a", "é", "z", "\U0001f600", "\uffff", " 12 ", "+7", "1.5", "TRUE", "false", "x" * 1001]),
        st.text(max_size=3),
    ),
    pa.large_string(): st.sampled_from(["a", "b"]),
    pa.dictionary(pa.int32(), pa.string()): st.sampled_from(["a", "12", "true", "1e400"]),
    pa.date32(): st.integers(0, 9).map(lambda day: date(2024, 2, 29) + timedelta(day)),
    pa.timestamp("us"): st.integers(0, 10**7).map(lambda micros: DAY.replace(tzinfo=None) + timedelta(0, 0, micros)),
    pa.timestamp("ms", "UTC"): st.integers(0, 3000).map(lambda millis: DAY + timedelta(0, 0, 0, millis)),
}


class Faulty(Exception):  # noqa: N818 - not an error: the oracle's other answer
    """Why a row lacks a field in which something stands."""


def spelled(raw: Any, kind: pa.DataType) -> str:
    """A value as the text of a field."""
    if isinstance(raw, bool):
        return str(raw).lower()
    if isinstance(raw, datetime):
        return raw.replace(tzinfo=None).isoformat().rstrip("0" if raw.microsecond else "") + ("Z" if raw.tzinfo else "")
    if isinstance(raw, float):
        return str(pa.scalar(raw + 0.0, kind).cast(pa.string()))
    return pa.scalar(raw, kind).cast(pa.string()).as_py() if isinstance(raw, Decimal) else str(raw)


def expected(raw: Any, kind: FieldKind, column: pa.DataType) -> Any:
    """One row of a field; None where it is missing."""
    wrong = f"it is not {WORDS.get(kind)}, as the field is"
    if raw is None or (isinstance(raw, float) and math.isnan(raw)):
        return None
    if isinstance(raw, float) and math.isinf(raw):
        raise Faulty(wrong if kind is FieldKind.BOOLEAN else "it is not a finite number")
    if isinstance(raw, float) and abs(raw) > 1e300 and kind is not FieldKind.BOOLEAN:
        raise Faulty("it is larger than 1e+300")
    if kind is FieldKind.TEXT:
        if len(spelled(raw, column).encode()) > 1000:
            raise Faulty("it is longer than 1,000 bytes")
        return spelled(raw, column)
    if isinstance(raw, str):
        word = raw.strip()
        if kind is FieldKind.BOOLEAN and word.lower() in ("true", "false"):
            return word.lower() == "true"
        pattern = {FieldKind.INTEGER: r"[+-]?[0-9]{1,18}", FieldKind.FLOAT: r"[+-]?[0-9]+(\.[0-9]*)?(e[0-9]+)?"}
        if kind is FieldKind.BOOLEAN or not re.fullmatch(pattern[kind], word, re.ASCII):
            raise Faulty(wrong)
        if math.isinf(float(word)):
            raise Faulty("it is not a finite number")
        return int(word) if kind is FieldKind.INTEGER else float(word)
    if isinstance(raw, date) or (kind is FieldKind.BOOLEAN and not isinstance(raw, bool)):
        raise Faulty(wrong)
    if kind is FieldKind.INTEGER:
        if raw != int(raw):
            raise Faulty(wrong)
        if not -(2**63) <= int(raw) < 2**63:
            raise Faulty("it is 2^63 or larger")
        return int(raw)
    return float(raw) + 0.0 if kind is FieldKind.FLOAT else raw


def listed(column: FieldColumn) -> list[Any]:
    values = [column.texts[at] for at in column.values] if column.kind is FieldKind.TEXT and column.texts else None
    values = column.values.tolist() if values is None else values
    gone = [False] * len(column) if column.missing is None else column.missing.tolist()
    return [None if missing else value for value, missing in zip(values, gone, strict=True)]


def made(parts: Sequence[FieldRows], kind: FieldKind) -> FieldColumn:
    rows = sum(len(part.values) for part in parts)
    return fields_of(rows, {"f": kind}, {"f": parts})["f"]


@st.composite
def batches(draw: st.DrawFn) -> list[tuple[pa.DataType, list[Any], list[bool]]]:
    """Batches of one field, each with its own type, and which rows of it are events."""
    found = []
    for _ in range(draw(st.integers(1, 3))):
        column = draw(st.sampled_from(list(TYPES)))
        rows = draw(st.lists(st.one_of(st.none(), TYPES[column]), min_size=1, max_size=6))
        found.append((column, rows, draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows)))))
    return found


@settings(max_examples=400, deadline=None)
@given(batches(), st.sampled_from(FieldKind))
def test_columns_of_every_type_become_fields_of_every_kind(
    drawn: list[tuple[pa.DataType, list[Any], list[bool]]], kind: FieldKind
) -> None:
    """Each row has the value that Python makes of it, or is missing and counted by the reason."""
    parts, wanted = [], []
    counts: dict[str, int] = {}
    told: dict[str, int] = {}
    for column, rows, keep in drawn:
        found, faults = check_fields({column_name("f"): pa.array(rows, column)}, {"f": kind}, np.array(keep))
        parts.append(found["f"])
        for reason, number in faults.get("f", {}).items():
            told[reason] = told.get(reason, 0) + number
        for raw, kept in zip(pa.array(rows, column).to_pylist(), keep, strict=True):
            if not kept:
                continue
            try:
                wanted.append(expected(raw, kind, column))
            except Faulty as fault:
                counts[str(fault)] = counts.get(str(fault), 0) + 1
                wanted.append(None)
    column_made = made(parts, kind)
    assert listed(column_made) == wanted
    assert told == counts
    assert column_made.values.dtype == kind.dtype
    assert column_made.texts == tuple(sorted({one for one in wanted if isinstance(one, str)}))
    if column_made.missing is not None:
        assert not column_made.values[column_made.missing].any()


def test_the_same_text_is_one_text_whatever_batches_it_came_in() -> None:
    """The numbers of texts in a batch are those of its own list; together there is one list, in order."""
    parts = []
    for texts in (["b", "a", "b"], [None, "c"], [None], ["a", "é"]):
        found, _ = check_fields({column_name("f"): pa.array(texts, pa.string())}, {"f": FieldKind.TEXT}, None)
        parts.append(found["f"])
    column = made(parts, FieldKind.TEXT)
    assert column.texts == ("a", "b", "c", "é")
    assert listed(column) == ["b", "a", "b", None, "c", None, "a", "é"]


def test_bytes_that_are_not_text_are_missing() -> None:
    """A text that is not UTF-8 is counted; its neighbours stay."""
    raw = pa.array([b"ok", b"\xff\xfe", b"ok"]).view(pa.string())
    found, faults = check_fields({column_name("f"): raw}, {"f": FieldKind.TEXT}, None)
    assert listed(made([found["f"]], FieldKind.TEXT)) == ["ok", None, "ok"]
    assert faults == {"f": {"it is not UTF-8 text": 1}}


@pytest.mark.parametrize(
    ("types", "kind"),
    [
        ([pa.int32()], FieldKind.INTEGER),
        ([pa.int32(), pa.float32()], FieldKind.FLOAT),
        ([pa.decimal128(9, 2)], FieldKind.FLOAT),
        ([pa.int32(), pa.string()], FieldKind.TEXT),
        ([pa.dictionary(pa.int32(), pa.string())], FieldKind.TEXT),
        ([pa.bool_()], FieldKind.BOOLEAN),
        ([pa.bool_(), pa.int8()], FieldKind.INTEGER),
        ([pa.timestamp("ns")], FieldKind.TEXT),
        ([pa.null(), pa.bool_()], FieldKind.BOOLEAN),
        ([pa.null()], None),
    ],
)
def test_the_kind_is_the_narrowest_that_holds_all_files(types: list[pa.DataType], kind: FieldKind | None) -> None:
    """Whole numbers and floats are floats; numbers and text are text; a column of nulls says nothing."""
    assert field_kind_of(types) is kind
    assert all(field_type_fault(one) is None for one in types)


@pytest.mark.parametrize("column", [pa.list_(pa.int8()), pa.struct([("a", pa.int8())]), pa.binary(), pa.duration("s")])
def test_what_cannot_be_a_field_is_refused_with_what_would_help(column: pa.DataType) -> None:
    """Nested columns name their parts with a dot, others become text."""
    fault = field_type_fault(column)
    assert fault is not None
    assert ("dot" if pa.types.is_nested(column) else "string(...)") in fault


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.sampled_from([None, "", "a", "b"]), st.sampled_from([None, 0, 1])), min_size=1))
def test_hashes_of_fields_are_equal_where_all_fields_are(rows: list[tuple[str | None, int | None]]) -> None:
    """Also where the texts have other numbers, because other texts came with them."""
    kinds = {"path": FieldKind.TEXT, "status": FieldKind.INTEGER}

    def hashes(some: list[tuple[str | None, int | None]]) -> list[int]:
        path = pa.array([row[0] for row in some], pa.string())
        status = pa.array([row[1] for row in some], pa.int8())
        found, _ = check_fields({column_name("path"): path, column_name("status"): status}, kinds, None)
        fields = fields_of(len(some), kinds, {name: [part] for name, part in found.items()})
        return field_hashes(fields, np.arange(len(some))).tolist()

    together = hashes(rows)
    assert together == [hashes([row])[0] for row in rows]
    assert len(set(together)) == len(set(rows))
