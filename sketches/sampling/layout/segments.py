"""Rows of a ladder as segments: stretches of time of all sources, column by column, each with its checksum.

A segment is, all numbers little-endian::

    "wseg" | format u8 | kind u8 | bits u8 | rows u32 | first time i64 | columns | checksum 8 bytes

Its columns are which rows begin an event (the others are the same event from another source); then of each event, once,
the steps between times, the exponents of u, the mantissas of u, those of one exponent together at just their bits,
values and weights; then of each row its source. Keys and sources are numbers in lists of the head.
`sketches.encoding.byte_planes` writes them. About 7.5 bytes a row, 6 where all weights are 1.

Format 2 has the fields of each event behind that (`layout.field_bytes`). They are read when they are asked
for.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import numpy as np

from sketches.arrays import Column, Ints, Words, distinct_sorted
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
from sketches.event_rules import MAX_TIME, MAX_WEIGHT
from sketches.events import Kind
from sketches.fields import Fields
from sketches.parts import Piece, Segment
from sketches.sampling.inclusion.ladder import LadderRows
from sketches.sampling.inclusion.sampling_number import MOST_EXPONENT, exponents, mantissa_bits
from sketches.sampling.layout.field_bytes import read_fields, write_fields

SEGMENT_ROWS: Final = 1 << 13
_MAGIC: Final = b"wseg"
_FORMAT: Final = 1
_FIELDS_FORMAT: Final = 2  # of rows that have fields
_HEAD: Final = struct.Struct("<4sBBBIq")
_CHECKSUM: Final = 8
_MOST_SOURCE: Final = 0x7FFFFFFF
_MOST_ROWS: Final = 1 << 20  # of a segment that is read: what is announced is allocated


def write_segments(rows: LadderRows, kind: Kind, bits: int, length: int) -> list[Segment]:
    """All rows as segments, of one or several epochs, each `length` long; a busy epoch takes several."""
    return [write_segment(rows.take(part), kind, bits) for part in _parts(rows.times, length)]


def _parts(times: Ints, length: int) -> list[slice]:
    """All epochs, halved until each half fits into a segment; an epoch that does not fit alone is halved likewise.

    Where rows are cut apart does not depend on rows elsewhere: where some come or go, few segments change.
    """
    if len(times) == 0:
        return []
    first, last = int(times[0]) // length, int(times[-1]) // length
    level = (first ^ last).bit_length()
    epochs = range(first >> level, (last >> level) + 1)  # two, where times begin before 0 and end after it
    found: list[slice] = []
    open_parts = [(at * length << level, (at + 1) * length << level) for at in reversed(epochs)]
    while open_parts:
        begin, end = open_parts.pop()
        low, high = np.searchsorted(times, (begin, end)).tolist()
        if high - low > SEGMENT_ROWS and end - begin > 1:
            middle = (begin + end) // 2
            open_parts += [(middle, end), (begin, middle)]
        elif high > low:
            edges = np.linspace(low, high, -(-(high - low) // SEGMENT_ROWS) + 1).astype(int).tolist()
            found += [slice(*edge) for edge in pairwise(edges)]
    return found


def write_segment(rows: LadderRows, kind: Kind, bits: int) -> Segment:
    """One segment of some rows, at least one; the values of keys are their numbers."""
    first = int(rows.times[0])
    begins = rows.first_of_event
    events = rows if begins.all() else rows.take(begins)
    level = exponents(events.hashes)
    form = _FIELDS_FORMAT if rows.fields else _FORMAT
    body = [
        _HEAD.pack(_MAGIC, form, list(Kind).index(kind), bits, len(rows), first),
        write_block(np.packbits(begins).tobytes()),
        write_planes(np.diff(events.times, prepend=first).view(np.uint64)),
        write_block(level.tobytes()),
        _mantissas(events.hashes, level.astype(np.int64), bits),
        write_planes(_from_values(events.values, kind)),
        write_planes(events.weights.view(np.uint64) ^ np.uint64(1)),
        write_planes(rows.sources.astype(np.uint64)),
        write_fields(events.fields) if events.fields else b"",
    ]
    content = b"".join(body)
    return Segment(first, int(rows.times[-1]), len(rows), content + _checksum(content))


def joined(segments: Sequence[tuple[LadderRows, Kind]]) -> tuple[LadderRows, Kind]:
    """The rows of segments that were read, at least one, one after the other."""
    parts, kinds = zip(*segments, strict=True)
    if len(set(kinds)) > 1:
        raise CorruptError(f"segments hold values of different kinds: {', '.join(sorted(set(kinds)))}")
    columns = zip(*(part.columns for part in parts), strict=True)
    times, hashes, values, weights, sources = (np.concatenate(column) for column in columns)
    fields = Fields.together([part.fields or Fields.none(len(part)) for part in parts])
    return LadderRows(times, hashes, values, weights, sources, fields=fields), kinds[0]


def read_segments(
    segments: Sequence[Piece], held: tuple[LadderRows, Kind] | None
) -> tuple[list[tuple[LadderRows, Kind]], dict[int, str]]:
    """The rows of each segment that can be read, and of each other one its number and why.

    Segments that were read before come as slices of the rows that were `held` then, and are not read again.
    """
    found: list[tuple[LadderRows, Kind]] = []
    damaged: dict[int, str] = {}
    for number, piece in enumerate(segments):
        if isinstance(piece, slice):
            assert held is not None
            found.append((held[0].take(piece), held[1]))
            continue
        try:
            found.append(read_segment(piece))
        except CorruptError as error:
            damaged[number] = str(error)
    return found, damaged


def read_segment(payload: bytes | memoryview) -> tuple[LadderRows, Kind]:
    """The rows of one segment and the kind of their values, once its checksum is verified."""
    data = memoryview(payload).cast("B")
    if len(data) < _HEAD.size + _CHECKSUM or bytes(data[:4]) != _MAGIC:
        raise CorruptError("these bytes are not a segment of a sample")
    if bytes(data[-_CHECKSUM:]) != _checksum(data[:-_CHECKSUM]):
        raise CorruptError("the checksum of a segment does not match: its bytes were changed after it was written")
    _, form, kind_number, bits, count, first = _HEAD.unpack_from(data)
    if form not in (_FORMAT, _FIELDS_FORMAT):
        raise CorruptError(f"a segment has format {form}; this wane knows {_FORMAT} and {_FIELDS_FORMAT}")
    if kind_number >= len(Kind) or not 0 < count <= _MOST_ROWS:
        raise CorruptError(f"a segment of {count} rows is empty or too large, or its kind of values is unknown")
    kind = list(Kind)[kind_number]
    data = data[:-_CHECKSUM]
    block, position = read_block(data, _HEAD.size, (count + 7) // 8)
    begins = np.unpackbits(np.frombuffer(block, np.uint8), count=count).astype(bool)
    events = int(begins.sum())
    if not begins[0]:
        raise CorruptError("the first row of a segment is of no event")
    steps, position = read_planes(data, position, events)
    if abs(first) > MAX_TIME or steps.astype(np.float64).sum() > 2.0 * MAX_TIME:
        raise CorruptError("the times of a segment lie outside the range of times")
    times = np.cumsum(steps).view(np.int64) + first
    block, position = read_block(data, position, events)
    level = np.frombuffer(block, np.uint8)
    if level.max(initial=0) > MOST_EXPONENT:
        raise CorruptError(f"an event of a segment is in level {level.max()}; {MOST_EXPONENT} is the deepest")
    hashes, position = _read_mantissas(data, position, level.astype(np.int64), bits)
    values, position = read_planes(data, position, events)
    weights, position = read_planes(data, position, events)
    sources, position = read_planes(data, position, count)
    fields, position = read_fields(data, position, events) if form == _FIELDS_FORMAT else (Fields.none(), position)
    if position != len(data):
        raise CorruptError(f"a segment has {len(data) - position} bytes too many")
    weights ^= np.uint64(1)
    if int(weights.max()) > MAX_WEIGHT or int(sources.max()) > _MOST_SOURCE:
        raise CorruptError(f"a weight of a segment is {weights.max()}, the number of a source {sources.max()}")
    columns = (times, hashes, _to_values(values, kind), weights.view(np.int64))
    if events < count:  # rows of one event that other sources report
        of_event = np.cumsum(begins) - 1
        times, hashes, numbers, units = (column[of_event] for column in columns)
        fields = fields.take(of_event, count)
        return LadderRows(times, hashes, numbers, units, sources.astype(np.int32), fields=fields), kind
    return LadderRows(*columns, sources.astype(np.int32), fields=fields), kind


def _checksum(content: bytes | memoryview) -> bytes:
    return hashlib.blake2b(content, digest_size=_CHECKSUM).digest()


def _from_values(values: Column, kind: Kind) -> Words:
    """Numbers that are small where values are near 0, and that have the order of floats in their high bytes."""
    if kind is Kind.KEY:
        return values.astype(np.uint64)
    if kind is Kind.FLOAT:
        return values.astype(np.float64).view(np.uint64)
    signed = values.astype(np.int64)
    return ((signed << 1) ^ (signed >> 63)).view(np.uint64)


def _to_values(numbers: Words, kind: Kind) -> Column:
    if kind is Kind.KEY:
        return numbers
    if kind is Kind.FLOAT:
        values = numbers.view(np.float64)
        if not np.isfinite(values).all():
            raise CorruptError("a value of a segment is not a finite number")
        return values
    return (numbers >> np.uint64(1)).view(np.int64) ^ -(numbers & np.uint64(1)).view(np.int64)


def _mantissas(hashes: Words, level: Ints, bits: int) -> bytes:
    """The kept bits behind the leading 1, those of one exponent together, in the order of rows."""
    found = []
    for exponent in distinct_sorted(level).tolist():
        width = int(mantissa_bits(np.array(exponent), bits))
        behind = hashes[level == exponent] >> np.uint64(63 - exponent - width)
        found.append(write_bits(behind & np.uint64((1 << width) - 1), width))
    return b"".join(found)


def _read_mantissas(data: memoryview, position: int, level: Ints, bits: int) -> tuple[Words, int]:
    hashes = np.empty(len(level), np.uint64)
    order = np.argsort(level.astype(np.uint8), kind="stable")  # bytes are sorted by counting
    counts = np.bincount(level)
    begin = 0
    widths = mantissa_bits(np.arange(len(counts)), bits).tolist()
    for exponent in np.flatnonzero(counts).tolist():
        count, width = int(counts[exponent]), widths[exponent]
        end = position + bits_size(count, width)
        if end > len(data):
            raise CorruptError("a segment is cut short: bits of its sampling numbers are missing")
        behind = read_bits(np.frombuffer(data[position:end], np.uint8), count, width)
        leading = np.uint64(1 << (63 - exponent))
        hashes[order[begin : begin + count]] = leading | (behind << np.uint64(63 - exponent - width))
        begin, position = begin + count, end
    return hashes, position
