"""Packed columns come back bit for bit, and damaged ones are refused before they cost memory."""

from __future__ import annotations

import itertools
import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from sketches.encoding.packing import deltas, pack, undeltas, unpack, unzigzag, zigzag
from sketches.errors import CorruptError, WaneError

LARGEST = 2**64 - 1
LENGTHS = (0, 1, 127, 128, 129, 1000)


def random_column(rows: int, width: int, seed: int = 1) -> NDArray[np.uint64]:
    """Random numbers of `width` bits, the last of which uses all of them."""
    column = np.random.default_rng(seed).integers(0, LARGEST, rows, dtype=np.uint64, endpoint=True)
    if width == 0:
        return column * np.uint64(0)
    column >>= np.uint64(64 - width)
    column[-1:] = LARGEST >> (64 - width)
    return column


def packed_by_hand(column: NDArray[np.uint64]) -> bytes:
    """The format as its docstring says, on Python's unbounded integers."""
    packed = b""
    for start in range(0, len(column), 128):
        rows = column[start : start + 128].tolist()
        width = max(rows).bit_length()
        stream = sum(number << (width * row) for row, number in enumerate(rows))
        packed += bytes([width]) + stream.to_bytes((width * len(rows) + 7) // 8, "little")
    return packed


@pytest.mark.parametrize("rows", LENGTHS)
@pytest.mark.parametrize("width", range(65))
def test_every_width_and_length_comes_back(width: int, rows: int) -> None:
    """For all widths 0 to 64 around the block size, the bytes are those of the format and unpack to the column."""
    column = random_column(rows, width)
    packed = pack(column)
    assert packed == packed_by_hand(column)
    back, used = unpack(packed, rows)
    assert back.dtype == np.uint64
    assert back.tolist() == column.tolist()
    assert used == len(packed)


@given(hnp.arrays(np.uint64, st.integers(0, 400), elements=st.integers(0, LARGEST)))
def test_any_column_comes_back(column: NDArray[np.uint64]) -> None:
    """Blocks of different widths follow one another without loss, and what follows the column is left alone."""
    packed = pack(column)
    assert packed == packed_by_hand(column)
    back, used = unpack(memoryview(packed + b"\xff" * 20), len(column))
    assert back.tolist() == column.tolist()
    assert used == len(packed)


def test_known_bytes_never_change() -> None:
    """Stored sketches hold these bytes, so they are a literal here."""
    column = np.array([0, 1, 2, 1000] + [0] * 124 + [LARGEST, 3], dtype=np.uint64)
    packed = pack(column)
    assert packed.hex() == "0a000420 00fa".replace(" ", "") + "00" * 155 + "40" + "ff" * 8 + "0300000000000000"
    assert unpack(packed, 130)[0].tolist() == column.tolist()


def test_an_outlier_widens_its_own_block_only() -> None:
    """One large number among a thousand small ones costs its 128 rows, not all."""
    column = np.ones(1280, dtype=np.uint64)
    column[700] = LARGEST
    assert len(pack(column)) == 9 * (1 + 128 // 8) + (1 + 128 * 8)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_buffer_is_read(kind: type[Any]) -> None:
    """Read-only and writable buffers give the same column, which is the caller's own to write to."""
    column = random_column(200, 13)
    back, _ = unpack(kind(pack(column)), 200)
    assert back.tolist() == column.tolist()
    assert back.flags.writeable
    assert back.flags.owndata


def test_a_strided_or_read_only_column_is_packed() -> None:
    """What counts is the values: views, and columns nobody may write to, pack like copies."""
    column = random_column(500, 20)
    strided = column[::3]
    strided.flags.writeable = False
    assert pack(strided) == pack(strided.copy())


@pytest.mark.parametrize("column", [np.array([1, 2]), np.array([[1]], dtype=np.uint64), np.array([1.5])])
def test_other_columns_are_refused(column: Any) -> None:
    """Only one-dimensional uint64 is packed: a silent cast would lose signs or fractions."""
    with pytest.raises(WaneError, match="it must be uint64"):
        pack(column)


@pytest.mark.parametrize("width", [0, 1, 13, 64])
def test_every_truncation_is_refused(width: int) -> None:
    """A packed column that misses any number of its last bytes is refused."""
    packed = pack(random_column(300, width))
    for length in range(len(packed)):
        with pytest.raises(CorruptError, match=r"cut short|cannot be in"):
            unpack(packed[:length], 300)


@pytest.mark.parametrize("width", [65, 128, 255])
def test_a_width_above_64_is_refused(width: int) -> None:
    """A block header that no packed column has is refused, in the first block and in a later one."""
    with pytest.raises(CorruptError, match=f"block of {width} bits a row at byte 0"):
        unpack(bytes([width]) + bytes(5000), 10)
    with pytest.raises(CorruptError, match=f"block of {width} bits a row at byte 1"):
        unpack(bytes([0, width]) + bytes(5000), 200)


@pytest.mark.parametrize("rows", [-1, 129 * 128, 2**31, 2**62, 2**63, 2**64, 2**200])
def test_a_row_count_the_data_cannot_hold_allocates_nothing(rows: int) -> None:
    """Hostile row counts fail at once, before memory for the column is asked for."""
    unpack(b"\0", 1)  # compiles
    tracemalloc.start()
    try:
        with pytest.raises(CorruptError, match=f"{rows} rows cannot be in 128 bytes"):
            unpack(bytes(128), rows)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_a_wide_column_in_too_few_bytes_allocates_nothing() -> None:
    """Enough bytes for the headers but not for the rows is noticed before memory for the column is asked for."""
    rows = 128 * 4000
    unpack(b"\0", 1)  # compiles
    tracemalloc.start()
    try:
        with pytest.raises(CorruptError, match="cut short"):
            unpack(b"\x40" + bytes(4000), rows)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_zigzag_orders_by_size() -> None:
    """Numbers near 0 become small whatever their sign, out to both ends of int64."""
    column = np.array([0, -1, 1, -2, 2, 2**63 - 1, -(2**63)])
    assert zigzag(column).tolist() == [0, 1, 2, 3, 4, 2**64 - 2, 2**64 - 1]


@given(hnp.arrays(np.int64, st.integers(0, 50), elements=st.integers(-(2**63), 2**63 - 1)))
def test_zigzag_comes_back(column: NDArray[np.int64]) -> None:
    """`unzigzag` undoes `zigzag` over the whole of int64."""
    back = unzigzag(zigzag(column))
    assert back.dtype == np.int64
    assert back.tolist() == column.tolist()


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=50))
def test_deltas_come_back(numbers: list[int]) -> None:
    """A sorted column comes back from its first value and its steps, whatever the range."""
    ordered = sorted(numbers)
    column = np.array(ordered)
    steps = deltas(column)
    assert steps.tolist() == [later - earlier for earlier, later in itertools.pairwise(ordered)]
    assert undeltas(int(column[0]), steps).tolist() == column.tolist()


def test_an_empty_column_has_no_deltas() -> None:
    """Nothing, and one row, have no steps."""
    assert len(deltas(np.array([], dtype=np.int64))) == 0
    assert len(deltas(np.array([5]))) == 0


def test_unsorted_columns_have_no_deltas() -> None:
    """A falling step is refused, and the message names the row."""
    with pytest.raises(WaneError, match="falls from 3 to 2 at row 2"):
        deltas(np.array([1, 3, 2]))


def test_steps_beyond_int64_are_refused() -> None:
    """Damaged steps do not wrap around into an unsorted column."""
    with pytest.raises(CorruptError, match="lead beyond"):
        undeltas(5, np.array([1, LARGEST], dtype=np.uint64))
