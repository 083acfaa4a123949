"""Columns of numbers as byte planes: all lowest bytes, then all second bytes and so on, each deflated where that helps.

A plane of a column that varies little is nearly constant and deflates to next to nothing; a plane of random bits is
kept as it is. Reading is numpy alone, some ten million rows a second. Every length is checked before anything is
allocated.
"""

from __future__ import annotations

import zlib
from typing import Final

import numpy as np

from sketches.arrays import Bytes, Words
from sketches.errors import CorruptError

_LEVEL: Final = 6  # of deflation
_RAW, _DEFLATED = 0, 1
_WORTHWHILE: Final = 0.98  # a plane that deflates to more than this part is kept as it is, to be read faster


def write_planes(column: Words, *, quickly: bool = False) -> bytes:
    """The column as bytes: the number of planes, then each of them with its form and length.

    `quickly` takes a half to a quarter of the time and 1 to 3% more bytes.

    >>> read_planes(write_planes(np.array([5, 70_000], np.uint64)), 0, 2)[0].tolist()
    [5, 70000]
    """
    greatest = int(column.max()) if len(column) else 0
    planes = (greatest.bit_length() + 7) // 8
    bytes_of = np.ascontiguousarray(column.astype("<u8")).view(np.uint8).reshape(-1, 8)
    blocks = (write_block(bytes_of[:, plane].tobytes(), quickly=quickly) for plane in range(planes))
    return bytes([planes]) + b"".join(blocks)


def read_planes(data: memoryview | bytes, position: int, rows: int) -> tuple[Words, int]:
    """The column of so many rows that begins at a position, and where it ends."""
    if position >= len(data):
        raise CorruptError("a column is cut short: the number of its planes is missing")
    planes = data[position]
    if planes > 8:
        raise CorruptError(f"a column has {planes} planes of bytes; 8 is the most")
    position += 1
    column = np.zeros(rows, "<u8")
    bytes_of = column.view(np.uint8).reshape(-1, 8)
    for plane in range(planes):
        block, position = read_block(data, position, rows)
        bytes_of[:, plane] = np.frombuffer(block, np.uint8)
    return column.astype(np.uint64, copy=False), position


def write_block(data: bytes, *, quickly: bool = False) -> bytes:
    """Bytes, deflated where that helps, behind their form and length."""
    deflated = (_packed(data, zlib.Z_RLE) if quickly else _deflated(data)) if data else data
    form, content = (_DEFLATED, deflated) if len(deflated) < _WORTHWHILE * len(data) else (_RAW, data)
    return bytes([form]) + len(content).to_bytes(4, "little") + content


def _deflated(data: bytes) -> bytes:
    """The shorter of two: where bytes repeat in no order, looking for repeats costs more than it saves."""
    return min(zlib.compress(data, _LEVEL), _packed(data, zlib.Z_HUFFMAN_ONLY), key=len)


def _packed(data: bytes, strategy: int) -> bytes:
    coder = zlib.compressobj(strategy=strategy)
    return coder.compress(data) + coder.flush()


def read_block(data: memoryview | bytes, position: int, size: int) -> tuple[bytes, int]:
    """The bytes of a block, of which there must be `size`, and where the block ends."""
    begin = position + 5
    if begin > len(data):
        raise CorruptError("a block of bytes is cut short: its length is missing")
    form, length = data[position], int.from_bytes(data[position + 1 : begin], "little")
    end = begin + length
    if end > len(data):
        raise CorruptError(f"a block of bytes is cut short: {len(data) - begin} of {length} bytes")
    content = bytes(data[begin:end])
    if form == _DEFLATED:
        inflater = zlib.decompressobj()
        try:
            content = inflater.decompress(content, size + 1)
        except zlib.error as error:
            raise CorruptError(f"a block of bytes cannot be inflated: {error}") from None
        if not inflater.eof or inflater.unused_data:
            raise CorruptError(f"a block of bytes holds other than {size} bytes")
    elif form != _RAW:
        raise CorruptError(f"a block of bytes has the unknown form {form}")
    if len(content) != size:
        raise CorruptError(f"a block of bytes holds {len(content)} bytes, not {size}")
    return content, end


def write_bits(numbers: Words, width: int) -> bytes:
    """Numbers below 2^width, at that many bits each: their whole bytes plane by plane, then the bits above them."""
    whole, rest = divmod(width, 8)
    bytes_of = np.ascontiguousarray(numbers.astype("<u8")).view(np.uint8).reshape(-1, 8)
    planes = np.ascontiguousarray(bytes_of[:, :whole].T).tobytes()
    if not rest:
        return planes
    bits = np.unpackbits(np.ascontiguousarray(bytes_of[:, whole])[:, None], axis=1)[:, 8 - rest :]
    return planes + np.packbits(bits).tobytes()


def bits_size(rows: int, width: int) -> int:
    """How many bytes `write_bits` gives."""
    whole, rest = divmod(width, 8)
    return rows * whole + (rows * rest + 7) // 8


def read_bits(data: Bytes, rows: int, width: int) -> Words:
    """What `write_bits` wrote, from exactly its bytes."""
    whole, rest = divmod(width, 8)
    numbers = np.zeros(rows, "<u8")
    bytes_of = numbers.view(np.uint8).reshape(-1, 8)
    if whole:
        bytes_of[:, :whole] = data[: rows * whole].reshape(whole, rows).T
    if rest:
        bits = np.zeros((rows, 8), np.uint8)
        bits[:, 8 - rest :] = np.unpackbits(data[rows * whole :], count=rows * rest).reshape(rows, rest)
        bytes_of[:, whole] = np.packbits(bits, axis=1)[:, 0]
    return numbers.astype(np.uint64, copy=False)
