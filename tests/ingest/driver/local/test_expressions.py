"""Every expression that is evaluated without Spark gives what Spark gives, row by row, and all others are refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingest.driver.local.expressions import _CASED, translated
from ingest.driver.local.rows import connected
from ingest.driver.local.values import NeedsSparkError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 10_000
LONGS = [0, 1, -1, 7, -7, 1000, 2**31 - 1, 2**31, -(2**31), 2**53 + 1, 2**63 - 1, -(2**63)]
INTS = [0, 1, -1, 2, -3, 1000, 86_400, 2**31 - 1, -(2**31)]
FLOATS = [0.0, -0.0, 1.0, -1.5, 0.1, 2.5, -2.5, 1e18, 9.3e18, -9.3e18, 1e300, -1e300, 5e-324]
FLOATS += [float("nan"), float("inf"), float("-inf"), 2147483647.5, -2147483648.5]
TEXTS = [
    "",
    " ",
    "a",
    "A",
    "north",
    "North ",
    "  south",
    "ab c",
    "0",
    "42",
    "-7",
    "1.5",
    "é",
    "日本語",
    "😀x",
    "e\u0301",
]
TEXTS += ["\tx\t", "it's", "100%", "a_b", "x" * 300, "\u00a0nbsp\u00a0", "NaN", "null"]
MOMENTS = [0, 1, -1, 999_999, 1_700_000_000_123_456, -62_135_596_800_000_000, 253_402_300_799_999_999]
CASED = re.sub(r"\\x\{(\w+)\}", lambda match: f"\\U{match[1]:0>8}", _CASED)  # as Python writes it
LETTERS = [letter for letter in map(chr, range(32, 0x1F650)) if re.match(f"[{CASED}]", letter)]
LETTERS = [letter for at, letter in enumerate(LETTERS) if letter.lower() != letter.upper() or at % 20 == 0]
EXPRESSIONS = (
    # arithmetic, which wraps, and whose division by zero is null
    *("i + j", "l + 1", "l + i", "l - m", "i - 1", "-i", "-l", "i * 1000", "l * m", "l * 3", "t * t", "s * s", "t + s"),
    *("d + e", "d - l", "d * i", "i * 2e0", "-d", "d * 1e3", "1 - d", "10 + 5", "2147483647 + i", "3000000000 + i"),
    *("i / j", "l / 1000", "d / e", "d / 0", "l / m", "i / 0", "1 / d", "(l + i) / 2", "0 / i"),
    *("i % j", "l % 7", "l % m", "mod(l, 60)", "i % 0", "i div j", "l div 1000", "l div m", "t div s", "i div 0"),
    *("abs(i)", "abs(l)", "abs(d)", "abs(t)", "floor(d)", "ceil(d)", "ceil(d / 3)", "floor(d * 1000)"),
    # comparisons, with NaN above all numbers and null where one is missing
    *("i < j", "l = m", "l <> i", "d < e", "d = e", "d >= e", "d > l", "l <= d", "d = d", "x < y", "x = y", "x >= 'b'"),
    *("i = 7", "x <> ''", "z = z", "z <= z", "when_ < at", "b = c", "b < c", "d > 1e300", "d != 0e0", "i == 1"),
    *("i between -1 and 1000", "d between -1e0 and l", "x between 'a' and 'n'", "not i between 0 and 5"),
    *("i in (1, 2, 1000)", "x in ('a', 'north', '')", "l in (i, 7)", "d in (0e0, 1e0)", "x not in ('a')"),
    *("x is null", "d is not null", "isnull(i)", "isnotnull(x)", "i is null or b", "b and c", "b or c", "not b"),
    *("not (b and x = 'a')", "b and i > 0 or c", "i > 0 and null", "b or null"),
    # choices
    *("case when i > 0 then 'up' when i < 0 then 'down' else 'level' end", "case when b then i end", "if(b, l, i)"),
    *("case when i > 0 then d else l end", "if(x = '', null, x)", "coalesce(i, j, 0)", "coalesce(x, 'none')"),
    *("nvl(d, l)", "ifnull(x, y)", "nullif(x, '')", "nullif(i, 0)", "nullif(d, 0e0)", "nullif(l, i)", "coalesce(b, c)"),
    # text
    *("concat(x, '-', y)", "concat(x, i)", "x || y", "x || l", "concat(b, x)", "concat('a', 'b')", "concat(t, s)"),
    *("trim(x)", "ltrim(x)", "rtrim(x)", "length(x)", "length(trim(x))", "char_length(x)", "length('日本')"),
    *("substring(x, 1, 3)", "substr(x, 2)", "substring(x, 3, 0)", "substring(x, 2, 1000)", "left_"),
    *("upper(word)", "lower(word)", "lower(concat(word, 'ABC'))", "x like '%o%'", "x like 'a_%'", "x not like ''"),
    *("startswith(x, 'n')", "startswith(x, y)", "contains(x, 'o')", "contains(x, '')", "concat(x, null)"),
    # casts and moments
    *("cast(i as bigint)", "cast(l as int)", "cast(l as double)", "cast(d as bigint)", "cast(d as int)", "l::int"),
    *("cast(i as string)", "cast(l as string)", "cast(b as string)", "cast(b as int)", "cast(b as bigint)", "int(l)"),
    *("cast(when_ as bigint)", "unix_seconds(when_)", "unix_millis(when_)", "unix_micros(at)", "cast(null as int)"),
    *("date_trunc('hour', when_)", "date_trunc('DAY', at)", "date_trunc('minute', when_)", "date_trunc('second', at)"),
    *("timestamp_micros(i)", "timestamp_millis(i)", "unix_seconds(date_trunc('day', when_)) % 86400", "5", "'text'"),
    *("`a b` + 1", "`a b` div 10", "((i))", "true", "null", "false and b", "1e3", "-5", "3000000000"),
)
REFUSED = {
    "initcap(x)": "initcap()",
    "x like y": "a text as its pattern",
    "rand()": "rand()",
    "i * 1.5": "1.5 is a decimal",
    "x + 1": "needs a cast",
    "x > 5": "needs a cast",
    "cast(x as int)": "cast from VARCHAR to INTEGER",
    "cast(d as string)": "cast from DOUBLE to VARCHAR",
    "to_timestamp(x)": "a cast to",
    "x || i + 1": "parentheses",
    "1 + i || x": "parentheses",
    "'a\\tb'": "backslash",
    "small / 2": "no expression takes",
    "sum(i)": "sum()",
    "i & 3": "i & 3",
    "round(d)": "round()",
    "floor(i)": "floor()",
    "date_trunc('week', when_)": "not evaluated",
    "case i when 1 then 2 end": "case when",
    "(select 1)": "not evaluated",
    "i + ": "cannot be read",
    "substring(x, -2)": "places as numbers",
    "d % 2e0": "of DOUBLE",
    "x is true": "not evaluated",
    "x like 'a' escape '/'": "not evaluated",
    "x like any ('a', 'b')": "a text as its pattern",
    "try_cast(l as int)": "not evaluated",
    "floor(d, 2)": "not evaluated",
    "i in (select 1)": "not evaluated",
    "row_number() over ()": "not evaluated",
}


def rows() -> pa.Table:
    """Random rows: half of the values are the odd ones above, a tenth is missing."""
    rng = np.random.default_rng(24)

    def column(odd: list[Any], more: Any, kind: pa.DataType) -> pa.Array:
        usual = more.tolist()
        picks, which = rng.integers(0, len(odd), ROWS).tolist(), rng.random(ROWS).tolist()
        values = [odd[pick] if luck < 0.5 else value for pick, luck, value in zip(picks, which, usual, strict=True)]
        return pa.array([None if luck > 0.9 else value for value, luck in zip(values, which, strict=True)], kind)

    words = np.array(["".join(map(chr, rng.integers(32, 127, size))) for size in rng.integers(0, 9, ROWS)], object)
    moments = rng.integers(-(2**50), 2**50, ROWS)
    return pa.table(
        {
            **{name: column(INTS, rng.integers(-(2**31), 2**31, ROWS), pa.int32()) for name in ("i", "j")},
            **{name: column(LONGS, rng.integers(-(2**62), 2**62, ROWS), pa.int64()) for name in ("l", "m", "a b")},
            **{name: column(FLOATS, rng.normal(0, 1e6, ROWS), pa.float64()) for name in ("d", "e")},
            **{name: column(TEXTS, words, pa.string()) for name in ("x", "y", "left_")},
            **{name: column([True], rng.random(ROWS) < 0.5, pa.bool_()) for name in ("b", "c")},
            "word": pa.array([f"a{LETTERS[at % len(LETTERS)]}B" for at in range(ROWS)]),
            "t": column([-128, 127], rng.integers(-128, 128, ROWS), pa.int8()),
            "s": column([-32768, 32767], rng.integers(-32768, 32768, ROWS), pa.int16()),
            "z": column([0.0, -0.0, float("nan")], rng.random(ROWS), pa.float64()),
            "when_": column(MOMENTS, moments, pa.timestamp("us", "Europe/Berlin")),
            "at": column([0, 1, -1], moments // 1000, pa.timestamp("ms", "Asia/Kolkata")),
        }
    )


def test_letters_that_only_spark_knows_are_an_error() -> None:
    """They may be met in the last row of all; then the stream fails, and says why."""
    table = pa.table({"x": ["a", None, "ß"]})
    assert here(table.slice(0, 2), ("upper(x)",))["upper(x)"].to_pylist() == ["A", None]
    with pytest.raises(duckdb.Error, match="this needs Spark"):
        here(table, ("upper(x)",))


def here(table: pa.Table, expressions: tuple[str, ...]) -> dict[str, pa.Array]:
    """The columns that DuckDB makes, as a run with the local engine does."""
    names = {name: (f"c{at}", table.schema.field(at).type) for at, name in enumerate(table.column_names)}
    connection = connected()
    connection.register("rows", table.rename_columns([f"c{at}" for at in range(table.num_columns)]))
    made = [translated(expression, names) for expression in expressions]
    found = connection.sql(f"SELECT {', '.join(f'{one.sql} AS p{at}' for at, one in enumerate(made))} FROM rows")
    return dict(zip(expressions, found.to_arrow_table().combine_chunks().columns, strict=True))


def differing(mine: pa.Array, other: pa.Array) -> list[tuple[Any, Any]]:
    """Pairs that are not the same: by being missing, by value; NaN is NaN, and -0.0 is not 0.0."""
    if mine.equals(other) and not pa.types.is_floating(mine.type):
        return []
    pairs = zip(mine.to_pylist(), other.to_pylist(), strict=True)
    return [(one, two) for one, two in pairs if repr(one) != repr(two)]


def test_rows_are_evaluated_as_by_spark(spark: SparkSession, tmp_path: Path) -> None:
    """Ten thousand rows with missing values, NaN, extremes and zones, for every expression of the list."""
    table = rows()
    pq.write_table(table, tmp_path / "rows.parquet")
    frame = spark.read.parquet(str(tmp_path / "rows.parquet"))
    by_spark = frame.selectExpr(*(f"{text} AS p{at}" for at, text in enumerate(EXPRESSIONS))).toArrow()
    by_spark = dict(zip(EXPRESSIONS, by_spark.combine_chunks().columns, strict=True))
    faults = {}
    for text, mine in here(table, EXPRESSIONS).items():
        kinds = (mine.type, by_spark[text].type)
        if kinds[0] != kinds[1] and not all(map(pa.types.is_timestamp, kinds)):
            faults[text] = [kinds]
        elif found := differing(mine, by_spark[text]):
            faults[text] = found[:3]
    assert faults == {}


@pytest.mark.parametrize("expression", REFUSED)
def test_what_needs_spark_is_refused_by_name(expression: str) -> None:
    """Never evaluated in another way than Spark does."""
    kinds = {"small": pa.float32()} | {field.name: field.type for field in rows().slice(0, 0).schema}
    with pytest.raises(NeedsSparkError, match=re.escape(REFUSED[expression])):
        translated(expression, {name: (name, kind) for name, kind in kinds.items()})
