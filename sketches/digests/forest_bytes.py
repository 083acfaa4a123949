"""A forest as bytes: its rows as packed columns, and every range and mass checked when they are read."""

from __future__ import annotations

from typing import Final

import numpy as np

from sketches.arrays import Ints, Words
from sketches.digests.dyadic_forest import CODE_BITS, MOST, Forest, Shape
from sketches.digests.dyadic_tree import PATHS_FORMAT
from sketches.digests.tallies import changes, mask_of, steps_of, unsteps
from sketches.encoding.envelope import Reader, Writer
from sketches.encoding.packing import undeltas, unzigzag, zigzag
from sketches.errors import CorruptError
from sketches.event_rules import MAX_TIME

FADED_FORMAT: Final = 13  # of a forest that has faded: ranges of time may be of several intervals

# how weights follow counts: the same, by how much they are greater, or as they are
_ALIKE: Final = 0
_HEAVIER: Final = 1
_APART: Final = 2


def write_forest(writer: Writer, forest: Forest, valued: bool) -> None:
    """The rows as columns; ranges of time once, with the number of rows of each, where values are kept."""
    writer.varint(len(forest))
    if len(forest) == 0:
        return
    first = changes((forest.interval, forest.start, forest.height)) if valued else np.arange(len(forest))
    if valued:
        writer.varint(len(first))
        writer.column(np.diff(np.append(first, len(forest))).astype(np.uint64) - np.uint64(1))
    interval = forest.interval[first]
    writer.i64(int(interval[0]))
    writer.column((interval[1:] - interval[:-1]).view(np.uint64))
    writer.column(zigzag(steps_of(forest.start[first])))
    writer.column(forest.height[first].astype(np.uint64))
    if valued:
        writer.column(zigzag(steps_of(forest.code)))
        writer.column(forest.code_height.astype(np.uint64))
    writer.column(forest.count.view(np.uint64) - np.uint64(1))
    if bool((forest.count == forest.weight).all()):
        writer.u8(_ALIKE)
    elif bool((forest.weight >= forest.count).all()):
        writer.u8(_HEAVIER)
        writer.column((forest.weight - forest.count).view(np.uint64))
    else:  # some events weigh nothing
        writer.u8(_APART)
        writer.column(forest.weight.view(np.uint64))


def read_forest(reader: Reader, shape: Shape) -> Forest:
    """What `write_forest` wrote; every range is checked to be dyadic, and every mass to be one of events."""
    valued = shape.value_share is not None
    rows = reader.varint()
    if rows == 0:
        return Forest.empty()
    if rows > CODE_BITS * 2 * (reader.remaining + 1):  # a block of 128 rows takes a byte at least
        raise CorruptError(f"{rows} rows are announced, but only {reader.remaining} bytes are left")
    lengths = _read_lengths(reader, rows) if valued else np.ones(rows, np.int64)
    interval, start, height = _read_times(reader, len(lengths), shape)
    folded = reader.column(rows) if reader.version < PATHS_FORMAT else np.zeros(rows, np.uint64)
    if folded.max() > 3:
        raise CorruptError("a mass is of an unknown kind")
    code, code_height = np.zeros(rows, np.uint64), np.zeros(rows, np.uint64)
    if valued:
        code = unsteps(unzigzag(reader.column(rows)))
        code_height = reader.column(rows)
        if code_height.max() > CODE_BITS or (code & mask_of(code_height)).any():
            raise CorruptError("a range of values is not dyadic")
    made = Forest(
        np.repeat(interval, lengths),
        np.repeat(start, lengths),
        np.repeat(height.astype(np.uint8), lengths),
        code,
        code_height.astype(np.uint8),
        *_read_masses(reader, rows),
    )
    if len(changes((made.interval, made.start, made.height, made.code, made.code_height, folded))) != rows:
        raise CorruptError("a range is named twice")
    return made if reader.version >= PATHS_FORMAT else made.gathered()


def _read_lengths(reader: Reader, rows: int) -> Ints:
    """How many rows each range of time has."""
    nodes = reader.varint()
    if not 1 <= nodes <= rows:
        raise CorruptError(f"{nodes} ranges of time are announced for {rows} rows")
    stored = reader.column(nodes)
    if stored.max() >= rows or int(stored.sum()) + nodes != rows:
        raise CorruptError("the rows of the ranges of time do not add up")
    return stored.astype(np.int64) + 1


def _read_times(reader: Reader, nodes: int, shape: Shape) -> tuple[Ints, Words, Words]:
    """Interval, start and height of each range of time."""
    begin = reader.i64()
    most = MAX_TIME // shape.span + 1
    if not -most <= begin <= most:
        raise CorruptError("times lie outside the range of times")
    interval = undeltas(begin, reader.column(nodes - 1))
    if interval[-1] > most:
        raise CorruptError("times lie outside the range of times")
    start = unsteps(unzigzag(reader.column(nodes)))
    height = reader.column(nodes)
    several = shape.blocks or reader.version >= FADED_FORMAT  # whether a range may be of several intervals
    if (
        height.max() > (shape.highest if several else shape.top)
        or start.max() >= shape.span
        or (start & mask_of(height)).any()
    ):
        raise CorruptError("a range of time does not lie in its interval, or is not dyadic")
    if several and (interval & mask_of(np.maximum(height, shape.top) - np.uint64(shape.top)).view(np.int64)).any():
        raise CorruptError("a range of several intervals is not dyadic")
    return interval, start, height


def _read_masses(reader: Reader, rows: int) -> tuple[Ints, Ints]:
    """Count and weight of each row."""
    stored = reader.column(rows)
    if stored.astype(np.float64).sum() + rows > MOST:
        raise CorruptError("there are more events than can be counted")
    count = stored.view(np.int64) + 1
    how = reader.u8()
    if how == _ALIKE:
        return count, count
    if how not in (_HEAVIER, _APART):
        raise CorruptError(f"weights are written in an unknown way, {how}")
    more, least = reader.column(rows), count if how == _HEAVIER else np.zeros(rows, np.int64)
    if more.astype(np.float64).sum() + float(least.sum()) > MOST:
        raise CorruptError("the events weigh more than can be counted")
    return count, least + more.view(np.int64)
