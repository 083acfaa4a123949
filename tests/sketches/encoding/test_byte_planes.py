"""Byte planes come back as they were written; damaged ones are refused, before anything is allocated."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sketches.encoding.byte_planes import (
    bits_size,
    read_bits,
    read_block,
    read_planes,
    write_bits,
    write_block,
    write_planes,
)
from sketches.errors import CorruptError
from tests.support.conformance import little_memory

WORDS = st.lists(st.one_of(st.integers(0, 300), st.integers(0, 2**64 - 1)), max_size=40)


@given(WORDS, st.binary(max_size=9))
def test_columns_come_back(numbers: list[int], before: bytes) -> None:
    """From any position, to the exact end."""
    column = np.array(numbers, np.uint64)
    data = before + write_planes(column) + b"behind"
    found, position = read_planes(data, len(before), len(column))
    assert found.tolist() == numbers
    assert data[position:] == b"behind"


@given(st.integers(0, 63), st.integers(0, 40), st.integers(0, 2**32))
def test_bits_come_back(width: int, rows: int, seed: int) -> None:
    """At just their bits, whatever the number of bits and of rows."""
    numbers = np.random.default_rng(seed).integers(0, 1 << width, rows, dtype=np.uint64)
    data = write_bits(numbers, width)
    assert len(data) == bits_size(rows, width) == -(-rows * (width // 8 * 8) // 8) + -(-rows * (width % 8) // 8)
    assert read_bits(np.frombuffer(data, np.uint8), rows, width).tolist() == numbers.tolist()


def test_small_numbers_take_little() -> None:
    """A column of equal numbers takes next to nothing, a random byte a byte, and zeros a byte in all."""
    rng = np.random.default_rng(1)
    assert len(write_planes(np.full(10_000, 70_000, np.uint64))) < 120
    assert len(write_planes(np.zeros(10_000, np.uint64))) == 1
    noise = write_planes(rng.integers(0, 256, 10_000).astype(np.uint64))
    assert 10_000 < len(noise) < 10_010


@pytest.mark.parametrize("content", [b"", b"a", b"a" * 500, bytes(range(256)) * 3])
def test_blocks_come_back_and_damage_shows(content: bytes) -> None:
    """Cut short, with another length or form, or as a block of another size: refused."""
    data = write_block(content)
    assert read_block(data, 0, len(content)) == (content, len(data))
    for length in range(len(data)):
        with pytest.raises(CorruptError):
            read_block(data[:length], 0, len(content))
    for size in {0, len(content) - 1, len(content) + 1, 10**9} - {len(content), -1}:
        with pytest.raises(CorruptError):
            read_block(data, 0, size)
    with pytest.raises(CorruptError, match="unknown form"):
        read_block(bytes([7]) + data[1:], 0, len(content))


def test_what_inflates_to_more_than_announced_is_not_inflated() -> None:
    """A block that would inflate to 100 MB is refused at the announced size, with little memory."""
    bomb = zlib.compress(bytes(100 << 20), 9)
    data = bytes([1]) + len(bomb).to_bytes(4, "little") + bomb
    with little_memory(), pytest.raises(CorruptError):
        read_block(data, 0, 1000)


def test_a_deflated_block_must_end_where_it_says() -> None:
    """Bytes behind the deflated ones, or a deflated stream without its end, are damage."""
    deflated = zlib.compress(b"a" * 1000)
    for content in (deflated + b"\0", deflated[:-1]):
        with pytest.raises(CorruptError):
            read_block(bytes([1]) + len(content).to_bytes(4, "little") + content, 0, 1000)


def test_no_column_has_nine_planes() -> None:
    """More planes than a word has bytes, or none at all, are refused."""
    with pytest.raises(CorruptError, match="9 planes"):
        read_planes(bytes([9]) + bytes(100), 0, 1)
    with pytest.raises(CorruptError, match="cut short"):
        read_planes(b"", 0, 1)
