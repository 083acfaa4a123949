"""Tables as bytes: they come back as they were, one column or all, small, and never from damaged bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from sketches.errors import CorruptError
from store.packed_columns import read_table, write_table

NUMBERS = st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), max_size=40)
TEXTS = st.lists(st.none() | st.text(max_size=8) | st.sampled_from(["", "00ff", "ABCD", "a/b/c.csv", "a/b/d.csv"]))


def column(values: list[Any], dtype: str) -> NDArray[Any]:
    """The values as DuckDB hands them over: masked where some are missing."""
    plain = np.array([(0 if dtype != "object" else "") if value is None else value for value in values], dtype)
    return np.ma.masked_array(plain, [value is None for value in values]) if None in values else plain


@given(NUMBERS)
def test_whole_numbers_and_times_come_back(values: list[int | None]) -> None:
    """From the least to the greatest, in any order, missing ones too."""
    numbers = column(values, "int64")
    found = read_table(write_table({"number": numbers, "time": numbers.view("datetime64[us]")}))
    assert found["number"].tolist() == values
    assert found["time"].dtype == "datetime64[us]"
    assert found["time"].view(np.int64).tolist() == values


@given(TEXTS)
def test_texts_come_back(values: list[str | None]) -> None:
    """Whether they share their beginning or not, and whether they are hexadecimal digits or not."""
    assert read_table(write_table({"text": column(values, "object")}))["text"].tolist() == values


def test_one_column_is_read_without_the_others() -> None:
    """Only what is named is there, in the order of the table."""
    table = {name: np.arange(3) + at for at, name in enumerate("abc")}
    assert {name: found.tolist() for name, found in read_table(write_table(table), {"c", "a"}).items()} == {
        "a": [0, 1, 2],
        "c": [2, 3, 4],
    }


def test_a_ledger_is_small() -> None:
    """8,000 hourly files with their fingerprints take the 16 bytes of each fingerprint and 8 more."""
    rng = np.random.default_rng(3)
    paths = [f"/data/calls/2026/{at // 24:04}/calls-{at:06}.parquet" for at in range(8_000)]
    table = {
        "run": np.arange(8_000),
        "path": np.array(paths, object),
        "fingerprint": np.array([rng.bytes(16).hex() for _ in paths], object),
        "rows": rng.integers(900, 1_100, 8_000),
        "oldest": 1_700_000_000 + 3_600 * np.arange(8_000),
    }
    assert len(write_table(table)) < 24 * 8_000


def test_damaged_bytes_are_refused() -> None:
    """Whatever is cut short, or says more than is there, is a `CorruptError`, or the same number of rows."""
    data = write_table({"a": np.arange(50) ** 3, "b": np.array([f"text {at}" for at in range(50)], object)})
    for at in range(len(data)):
        with pytest.raises(CorruptError):
            read_table(data[:at])


def test_texts_that_are_no_texts_are_refused() -> None:
    """Bytes that are not UTF-8, in a name or in a column, are a `CorruptError`."""
    data = write_table({"name": np.array(["text"], object)})
    for text in (b"name", b"text"):
        with pytest.raises(CorruptError, match="not UTF-8"):
            read_table(data.replace(text, b"\xff" + text[1:]))


def test_rows_that_cannot_be_there_are_refused() -> None:
    """Nothing is allocated for them: 13 bytes could ask for 600 GB."""
    data = write_table({"a": np.zeros(3, np.int64)})
    assert data[0] == 3
    with pytest.raises(CorruptError, match="80,740,724,852 rows; 1,048,576 is the most"):
        read_table(bytes.fromhex("f4e096e4ac02") + data[1:])
