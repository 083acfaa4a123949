"""A table as bytes, column by column: numbers as differences that are small, texts by what they share with the last.

One column can be read without the others. Reading is numpy alone: whoever asks a store waits for nothing else.
"""

from __future__ import annotations

import os.path
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sketches.arrays import Ints
from sketches.encoding.byte_planes import read_block, read_planes, write_block, write_planes
from sketches.encoding.envelope import Reader, Writer
from sketches.encoding.packing import unzigzag, zigzag
from sketches.errors import CorruptError

Column = NDArray[Any]  # whole numbers, times in microseconds or texts; masked where some are missing

_NUMBERS, _TIMES, _TEXTS, _HEXADECIMAL = range(4)
_NONE_MISSING, _SOME_MISSING = range(2)
_MOST_TEXT: Final = 1 << 31  # bytes of a column
MOST_ROWS: Final = 1 << 20  # of a table: what is announced is allocated
_MOST_COLUMNS: Final = 16


def write_table(columns: Mapping[str, Column]) -> bytes:
    """The columns as bytes.

    >>> table = {"run": np.array([7, 8]), "path": np.array(["a/1.csv", "a/2.csv"], object)}
    >>> {name: column.tolist() for name, column in read_table(write_table(table)).items()}
    {'run': [7, 8], 'path': ['a/1.csv', 'a/2.csv']}
    """
    writer = Writer()
    writer.varint(len(next(iter(columns.values()))) if columns else 0)
    writer.varint(len(columns))
    for name, column in columns.items():
        writer.blob(name.encode())
        writer.blob(_write_column(column))
    return writer.to_bytes()


def read_table(data: bytes, names: Collection[str] | None = None) -> dict[str, Column]:
    """All columns, or those of these names; `CorruptError` where the bytes are damaged."""
    reader = Reader(data)
    rows, count = reader.varint(), reader.varint()
    if rows > MOST_ROWS:
        raise CorruptError(f"a packed table says that it has {rows:,} rows; {MOST_ROWS:,} is the most")
    if count > _MOST_COLUMNS:
        raise CorruptError(f"a packed table says that it has {count:,} columns; {_MOST_COLUMNS} is the most")
    found = {}
    for _ in range(count):
        name, content = _text(reader.blob()), reader.blob()
        if names is None or name in names:
            found[name] = _read_column(content, rows)
    reader.done()
    return found


def _write_column(column: Column) -> bytes:
    missing = np.ma.getmaskarray(column)
    plain = np.ma.getdata(column)
    head = bytes([_NONE_MISSING])
    if missing.any():
        head = bytes([_SOME_MISSING]) + write_block(np.packbits(missing).tobytes())
    if plain.dtype.kind in "iM":
        kind = _TIMES if plain.dtype.kind == "M" else _NUMBERS
        numbers = plain.astype("datetime64[us]").view(np.int64) if kind == _TIMES else plain.astype(np.int64)
        return head + bytes([kind]) + _write_numbers(np.where(missing, 0, numbers))
    texts = ["" if gone else str(text) for text, gone in zip(plain.tolist(), missing.tolist(), strict=True)]
    if all(map(_is_hexadecimal, texts)):
        return head + bytes([_HEXADECIMAL]) + _write_texts([bytes.fromhex(text) for text in texts])
    return head + bytes([_TEXTS]) + _write_texts([text.encode() for text in texts])


def _read_column(data: bytes, rows: int) -> Column:
    if len(data) < 2:
        raise CorruptError("a column is cut short: what it holds is missing")
    missing, position = None, 1
    if data[0] == _SOME_MISSING:
        bits, position = read_block(data, 1, (rows + 7) // 8)
        missing = np.unpackbits(np.frombuffer(bits, np.uint8), count=rows).astype(bool)
    kind, position = data[position], position + 1
    column: Column
    if kind in (_NUMBERS, _TIMES):
        column = _read_numbers(data, position, rows)
        column = column.view("datetime64[us]") if kind == _TIMES else column
    elif kind in (_TEXTS, _HEXADECIMAL):
        written: Callable[[bytes], str] = _text if kind == _TEXTS else bytes.hex
        column = np.array([*map(written, _read_texts(data, position, rows)), None], object)[:-1]
    else:
        raise CorruptError(f"a column is of the unknown kind {kind}")
    return column if missing is None else np.ma.masked_array(column, missing)


def _write_numbers(numbers: Ints) -> bytes:
    first = int(numbers[0]) if len(numbers) else 0
    bits = numbers.view(np.uint64)  # differences may leave 63 bits; they come back all the same
    return first.to_bytes(8, "little", signed=True) + write_planes(zigzag((bits[1:] - bits[:-1]).view(np.int64)))


def _read_numbers(data: bytes, position: int, rows: int) -> Ints:
    first = int.from_bytes(data[position : position + 8], "little", signed=True)
    steps, _ = read_planes(data, position + 8, max(rows - 1, 0))
    numbers = np.concatenate([np.array([first], np.int64), unzigzag(steps)])[:rows]
    return np.cumsum(numbers.view(np.uint64)).view(np.int64)


def _write_texts(texts: Sequence[bytes]) -> bytes:
    """Of each text how many bytes it shares with the one before, how many follow, and those."""
    shared = [len(os.path.commonprefix(pair)) for pair in pairwise([b"", *texts])]  # noqa: RUF071 - of bytes, not folders
    rests = [text[same:] for text, same in zip(texts, shared, strict=True)]
    lengths = [np.array(some, np.uint64) for some in (shared, list(map(len, rests)))]
    return b"".join(map(write_planes, lengths)) + write_block(b"".join(rests))


def _read_texts(data: bytes, position: int, rows: int) -> list[bytes]:
    shared, position = read_planes(data, position, rows)
    lengths, position = read_planes(data, position, rows)
    total = sum(lengths.tolist())
    if total > _MOST_TEXT:
        raise CorruptError(f"the texts of a column have {total} bytes; {_MOST_TEXT} is the most")
    rests, _ = read_block(data, position, total)
    texts, last, at = [], b"", 0
    for same, length in zip(shared.tolist(), lengths.tolist(), strict=True):
        last = last[:same] + rests[at : at + length]
        at += length
        texts.append(last)
    return texts


def _text(written: bytes) -> str:
    try:
        return written.decode()
    except UnicodeDecodeError:
        raise CorruptError("a text of a packed table is not UTF-8") from None


def _is_hexadecimal(text: str) -> bool:
    """Whether nothing is lost when the text is read as hexadecimal digits and written again."""
    try:
        return bytes.fromhex(text).hex() == text
    except ValueError:
        return False
