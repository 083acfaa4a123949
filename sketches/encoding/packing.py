"""Lossless columns of unsigned 64-bit integers in as few bits as each block of them needs.

A column is cut into blocks of 128 rows. A block is one byte with the bit width of its largest value (0 to 64), then its
rows at that width, the first row in the lowest bits, padded to whole bytes. Small numbers among large ones thus cost
little: one outlier widens its own block only. The row count is not stored, because whoever packs several columns of one
table stores it once.

Times are sorted, so their `deltas` are small; signed numbers near 0 become small by `zigzag`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sketches.arrays import frozen
from sketches.compiled import njit
from sketches.errors import CorruptError, WaneError

BLOCK_ROWS = 128

_WHOLE, _SHORT, _TOO_WIDE = 0, 1, 2


def pack(column: NDArray[np.uint64]) -> bytes:
    """The column as bytes; equal columns give equal bytes.

    >>> pack(np.array([5, 1, 7], dtype=np.uint64)).hex()
    '03cd01'
    """
    if column.dtype != np.uint64 or column.ndim != 1:
        raise WaneError(f"column has dtype {column.dtype} and {column.ndim} dimensions; it must be uint64 and have 1")
    packed = np.empty(packed_bytes(len(column)), np.uint8)
    size = pack_into(frozen(column), packed, 0)
    return packed[:size].tobytes()


def unpack(data: bytes | bytearray | memoryview, rows: int) -> tuple[NDArray[np.uint64], int]:
    """The first `rows` values packed at the start of `data`, and how many bytes they took.

    The block headers are walked before the column is allocated, so a row count that the data cannot hold costs nothing.

    >>> column, used = unpack(bytes.fromhex("03cd01") + b"what follows", 3)
    >>> column.tolist(), used
    ([5, 1, 7], 3)
    """
    stored = frozen(np.frombuffer(data, dtype=np.uint8))
    blocks = -(-rows // BLOCK_ROWS)
    if rows < 0 or blocks > len(stored):
        raise CorruptError(f"a packed column of {rows} rows cannot be in {len(stored)} bytes")
    position, fault = _measure(stored, rows)
    if fault == _TOO_WIDE:
        width = stored[position]
        raise CorruptError(f"a packed column has a block of {width} bits a row at byte {position}; 64 is the most")
    if fault == _SHORT:
        raise CorruptError(f"a packed column of {rows} rows is cut short: {len(stored)} bytes, not {position} or more")
    column = np.empty(rows, dtype=np.uint64)
    _unpack(stored, column)
    return column, int(position)


def zigzag(column: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Signed to unsigned, so that numbers near 0 stay small: 0, -1, 1, -2 become 0, 1, 2, 3."""
    signed = np.asarray(column, dtype=np.int64)
    return ((signed << 1) ^ (signed >> 63)).view(np.uint64)


def unzigzag(column: NDArray[np.uint64]) -> NDArray[np.int64]:
    """The inverse of `zigzag`."""
    folded = np.asarray(column, dtype=np.uint64)
    halves = (folded >> np.uint64(1)).view(np.int64)
    signs = (folded & np.uint64(1)).view(np.int64)
    return halves ^ -signs


def deltas(column: NDArray[np.int64]) -> NDArray[np.uint64]:
    """The steps between the rows of a sorted column: one fewer than rows; the caller keeps the first value.

    Exact over the whole of int64: the step from its least to its largest number still fits 64 unsigned bits.
    """
    ordered = np.asarray(column, dtype=np.int64)
    falls = np.flatnonzero(ordered[1:] < ordered[:-1])
    if len(falls):
        row = int(falls[0]) + 1
        raise WaneError(f"column falls from {ordered[row - 1]} to {ordered[row]} at row {row}; it must be sorted")
    bits = ordered.view(np.uint64)
    return bits[1:] - bits[:-1]


def undeltas(first: int, steps: NDArray[np.uint64]) -> NDArray[np.int64]:
    """The sorted column, of at least one row, that starts at `first` and has these `deltas`.

    Steps that would leave int64 are refused: `deltas` never gives them, so the bytes they came from are damaged.
    """
    column = np.empty(len(steps) + 1, dtype=np.int64)
    column[0] = first
    bits = column.view(np.uint64)
    bits[1:] = steps
    np.cumsum(bits, out=bits)
    if np.any(column[1:] < column[:-1]):
        raise CorruptError(f"the steps of a sorted column that starts at {first} lead beyond 2**63 - 1")
    return column


@njit(cache=True, nogil=True)
def pack_into(column: NDArray[np.uint64], packed: NDArray[np.uint8], position: int) -> int:
    """For kernels: write the packed column from `position` on, where `packed_bytes` are free, and say where it ends."""
    rows = len(column)
    for start in range(0, rows, BLOCK_ROWS):
        stop = min(start + BLOCK_ROWS, rows)
        union = np.uint64(0)
        for row in range(start, stop):
            union |= column[row]
        width = 0
        while union:
            union >>= np.uint64(1)
            width += 1
        packed[position] = width
        position += 1
        word = np.uint64(0)
        filled = 0  # bits of `word` in use; below 64 whenever a row is added, so no shift reaches 64
        for row in range(start, stop):
            number = column[row]
            word |= number << np.uint64(filled)
            filled += width
            if filled >= 64:
                for byte in range(8):
                    packed[position + byte] = word >> np.uint64(8 * byte)
                position += 8
                filled -= 64
                word = np.uint64(0)
                if filled:
                    word = number >> np.uint64(width - filled)
        while filled > 0:
            packed[position] = word
            word >>= np.uint64(8)
            position += 1
            filled -= 8
    return position


@njit(cache=True, nogil=True)
def packed_bytes(rows: int) -> int:
    """The most bytes that a column of so many rows takes: every block at 64 bits a row."""
    return 8 * rows + (rows + BLOCK_ROWS - 1) // BLOCK_ROWS


@njit(cache=True)
def _measure(stored: NDArray[np.uint8], rows: int) -> tuple[int, int]:
    """Where the column ends, and `_WHOLE`; or where it fails, and how."""
    position = 0
    for start in range(0, rows, BLOCK_ROWS):
        if position >= len(stored):
            return position + 1, _SHORT
        width = int(stored[position])
        if width > 64:
            return position, _TOO_WIDE
        position += 1 + (min(BLOCK_ROWS, rows - start) * width + 7) // 8
    return position, _WHOLE if position <= len(stored) else _SHORT


@njit(cache=True)
def _unpack(stored: NDArray[np.uint8], column: NDArray[np.uint64]) -> None:
    rows = len(column)
    position = 0
    for start in range(0, rows, BLOCK_ROWS):
        stop = min(start + BLOCK_ROWS, rows)
        width = int(stored[position])
        position += 1
        if width == 0:
            column[start:stop] = 0
            continue
        end = position + ((stop - start) * width + 7) // 8
        mask = ~np.uint64(0) >> np.uint64(64 - width)
        word = np.uint64(0)
        filled = 0  # bits of `word` not yet read; below 64 whenever a row is read, as a row uses at least one
        for row in range(start, stop):
            if filled >= width:
                column[row] = word & mask
                word >>= np.uint64(width)
                filled -= width
                continue
            fresh = np.uint64(0)
            if end - position >= 8:
                for byte in range(8):
                    fresh |= np.uint64(stored[position + byte]) << np.uint64(8 * byte)
            else:
                for byte in range(end - position):
                    fresh |= np.uint64(stored[position + byte]) << np.uint64(8 * byte)
            position += 8
            column[row] = (word | (fresh << np.uint64(filled))) & mask
            taken = width - filled
            filled = 64 - taken
            word = np.uint64(0)
            if taken < 64:
                word = fresh >> np.uint64(taken)
        position = end
