"""The bytes of fields in a segment: column by column, each behind its length, so that one is read without the others.

Fields are::

    number u8 | for each: length u8, name | kind u8 | length u32, column

A column is whether rows are missing (u8), a block of bits for those that are; then its content. Whole numbers are the
least of them and the distances from it; floats that are decimals of a few digits are whole numbers beside the number of
digits, others are their bits; booleans are bits; text is a list of texts, each once, in order, and a number for each
row. A field of 16 texts takes half a byte a row, a whole number below 1,000 some 1.3 bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from itertools import pairwise
from typing import Final

import numpy as np

from sketches.arrays import Column, Flags, Words
from sketches.encoding.byte_planes import read_block, read_planes, write_block, write_planes
from sketches.errors import CorruptError
from sketches.event_rules import LONGEST_FIELD_TEXT, MAX_VALUE, MOST_FIELDS
from sketches.fields import FieldColumn, FieldKind, Fields, name_fault

_LENGTH: Final = struct.Struct("<I")
_LEAST: Final = struct.Struct("<q")
_KINDS: Final = tuple(FieldKind)
_MOST_DIGITS: Final = 6  # of decimals that are written as whole numbers
_NO_DIGITS: Final = 255  # of floats that are written as they are
_EXACT: Final = 2.0**53


def write_fields(fields: Fields) -> bytes:
    """All columns of some rows, at least one."""
    found = [bytes([len(fields.names)])]
    for name in fields:
        column = fields[name].tight()
        content, spelled = write_column(column), name.encode()
        found += [
            bytes([len(spelled)]),
            spelled,
            bytes([_KINDS.index(column.kind)]),
            _LENGTH.pack(len(content)),
            content,
        ]
    return b"".join(found)


def read_fields(data: memoryview, position: int, rows: int) -> tuple[Fields, int]:
    """The fields of so many rows that begin at a position, and where they end. No column is read yet."""
    makers: dict[str, Callable[[], FieldColumn]] = {}
    number = int(_bytes(data, position, 1)[0])
    position += 1
    if not 0 < number <= MOST_FIELDS:
        raise CorruptError(f"a segment has {number} fields; at most {MOST_FIELDS} are kept")
    for _ in range(number):
        name, kind, position = _read_name(data, position)
        (size,) = _LENGTH.unpack(_bytes(data, position, _LENGTH.size))
        position += _LENGTH.size
        makers[name] = _reader(_bytes(data, position, size), kind, rows)
        position += size
    if len(makers) < number or list(makers) != sorted(makers):
        raise CorruptError("the fields of a segment are not in order")
    return Fields(rows, makers), position


def _read_name(data: memoryview, position: int) -> tuple[str, FieldKind, int]:
    length = int(_bytes(data, position, 1)[0])
    spelled = bytes(_bytes(data, position + 1, length))
    position += 1 + length
    kind = int(_bytes(data, position, 1)[0])
    name = spelled.decode(errors="replace")
    if name_fault(name) is not None or kind >= len(_KINDS):
        raise CorruptError(f"a segment has a field {name[:40]!r} of kind {kind}")
    return name, _KINDS[kind], position + 1


def _reader(content: memoryview, kind: FieldKind, rows: int) -> Callable[[], FieldColumn]:
    return lambda: read_column(content, kind, rows)


def write_column(column: FieldColumn) -> bytes:
    """One column; equal columns give equal bytes."""
    missing = b"\0" if column.missing is None else b"\1" + write_block(np.packbits(column.missing).tobytes())
    match column.kind:
        case FieldKind.INTEGER:
            return missing + _write_whole(column.values, column.known)
        case FieldKind.FLOAT:
            return missing + _write_floats(column.values, column.known)
        case FieldKind.BOOLEAN:
            return missing + write_block(np.packbits(column.values).tobytes())
    spelled = [text.encode() for text in column.texts]
    lengths = np.array([len(one) for one in spelled], np.uint64)
    return b"".join(
        [
            missing,
            _LENGTH.pack(len(spelled)),
            write_planes(lengths),
            write_block(b"".join(spelled)),
            write_planes(column.values.astype(np.uint64)),
        ]
    )


def read_column(data: memoryview, kind: FieldKind, rows: int) -> FieldColumn:
    """What `write_column` wrote of so many rows."""
    missing, position = _read_missing(data, rows)
    texts: tuple[str, ...] = ()
    match kind:
        case FieldKind.INTEGER:
            values, position = _read_whole(data, position, rows)
        case FieldKind.FLOAT:
            values, position = _read_floats(data, position, rows)
        case FieldKind.BOOLEAN:
            block, position = read_block(data, position, (rows + 7) // 8)
            values = np.unpackbits(np.frombuffer(block, np.uint8), count=rows).astype(bool)
        case _:
            texts, position = _read_texts(data, position, rows)
            codes, position = read_planes(data, position, rows)
            if rows and int(codes.max()) >= max(len(texts), 1):
                raise CorruptError(f"a field has text number {codes.max()}, but there are {len(texts)}")
            values = codes.astype(np.int32)
    if position != len(data):
        raise CorruptError(f"a field has {len(data) - position} bytes too many")
    if missing is not None:
        values = np.where(missing, np.zeros(1, values.dtype), values)
    return FieldColumn(kind, values, missing, texts)


def _read_missing(data: memoryview, rows: int) -> tuple[Flags | None, int]:
    form = int(_bytes(data, 0, 1)[0])
    if form == 0:
        return None, 1
    if form != 1:
        raise CorruptError(f"a field says in the unknown form {form} which rows are missing")
    block, position = read_block(data, 1, (rows + 7) // 8)
    return np.unpackbits(np.frombuffer(block, np.uint8), count=rows).astype(bool), position


def _write_whole(values: Column, known: Flags) -> bytes:
    least = int(values[known].min()) if known.any() else 0
    distances = values.view(np.uint64) - np.uint64(least % (1 << 64))
    return _LEAST.pack(least) + write_planes(np.where(known, distances, np.uint64(0)))


def _read_whole(data: memoryview, position: int, rows: int) -> tuple[Column, int]:
    (least,) = _LEAST.unpack(_bytes(data, position, _LEAST.size))
    distances, position = read_planes(data, position + _LEAST.size, rows)
    return (distances + np.uint64(least % (1 << 64))).view(np.int64), position


def _write_floats(values: Column, known: Flags) -> bytes:
    digits = _digits(values)
    if digits is None:
        return bytes([_NO_DIGITS]) + write_planes(values.view(np.uint64))
    return bytes([digits]) + _write_whole(np.rint(values * 10.0**digits).astype(np.int64), known)


def _digits(values: Column) -> int | None:
    """How many digits behind the point say all of these numbers, to the last bit; None where too many would."""
    for digits in range(_MOST_DIGITS + 1):
        scaled = np.rint(values * 10.0**digits)
        if (np.abs(scaled) < _EXACT).all() and (scaled / 10.0**digits == values).all():
            return digits
    return None


def _read_floats(data: memoryview, position: int, rows: int) -> tuple[Column, int]:
    digits = int(_bytes(data, position, 1)[0])
    if digits == _NO_DIGITS:
        bits, position = read_planes(data, position + 1, rows)
        values = bits.view(np.float64)
    elif digits <= _MOST_DIGITS:
        whole, position = _read_whole(data, position + 1, rows)
        values = whole / 10.0**digits
    else:
        raise CorruptError(f"a field has numbers of {digits} digits")
    if not (np.abs(values) <= MAX_VALUE).all():
        raise CorruptError("a field has a number that is not finite, or too large")
    return values, position


def _read_texts(data: memoryview, position: int, rows: int) -> tuple[tuple[str, ...], int]:
    (count,) = _LENGTH.unpack(_bytes(data, position, _LENGTH.size))
    if count > rows:  # each is that of a row
        raise CorruptError(f"a field announces {count} texts of {rows} rows")
    lengths, position = read_planes(data, position + _LENGTH.size, count)
    if count and int(lengths.max()) > LONGEST_FIELD_TEXT:
        raise CorruptError(f"a text of a field has {lengths.max()} bytes; {LONGEST_FIELD_TEXT} are the most")
    ends: Words = np.cumsum(lengths)
    block, position = read_block(data, position, int(ends[-1]) if count else 0)
    bounds = [0, *ends.tolist()]
    try:
        texts = tuple(block[begin:end].decode() for begin, end in pairwise(bounds))
    except UnicodeDecodeError as error:
        raise CorruptError("a text of a field is not UTF-8") from error
    if any(one >= other for one, other in pairwise(texts)):
        raise CorruptError("the texts of a field are not in order")
    return texts, position


def _bytes(data: memoryview, position: int, size: int) -> memoryview:
    if position + size > len(data):
        raise CorruptError("the fields of a segment are cut short")
    return data[position : position + size]
