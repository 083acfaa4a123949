"""What the bodies of sketches share: a head, labels of keys, and rows of events as packed columns in canonical order.

Times are differences from row to row, values are distances from the smallest one (floats their bits, keys their number
in the list of labels), weights are left out where all are 1. Everything is checked on reading before it is used.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sketches.arrays import Column, Ints, Words
from sketches.encoding.envelope import Reader, Writer
from sketches.encoding.packing import deltas, undeltas
from sketches.errors import CorruptError
from sketches.event_rules import MAX_TIME, MAX_VALUE, MAX_WEIGHT
from sketches.events import Extremes, Kind, Labels
from sketches.hashing import HASH_SHIFT, hash_text


def write_head(writer: Writer, kind: Kind, extremes: Extremes, labels: Labels) -> None:
    """What comes before the rows: the kind of values, what is known of all events, the texts of keys."""
    writer.u8(list(Kind).index(kind))
    seen = extremes.newest is not None
    writer.u8(int(seen))
    if seen:
        writer.i64(extremes.oldest or 0)
        writer.i64(extremes.newest or 0)
        writer.f64(extremes.least_value)
        writer.f64(extremes.greatest_value)
        writer.u64(extremes.greatest_weight)
        writer.u64(extremes.least_weight)
    write_labels(writer, labels)


def read_head(reader: Reader) -> tuple[Kind, Extremes, Labels]:
    """What `write_head` wrote."""
    code = reader.u8()
    if code >= len(Kind):
        raise CorruptError(f"kind of values {code} is unknown")
    extremes = Extremes()
    if reader.u8():
        extremes = Extremes(reader.i64(), reader.i64(), reader.f64(), reader.f64(), reader.u64())
        if reader.version > 1:  # before, every weight was at least 1
            extremes = replace(extremes, least_weight=reader.u64())
        if not -MAX_TIME <= (extremes.oldest or 0) <= (extremes.newest or 0) <= MAX_TIME:
            raise CorruptError("the oldest or the newest time is out of range")
        if not (abs(extremes.least_value) <= MAX_VALUE and abs(extremes.greatest_value) <= MAX_VALUE):
            raise CorruptError("the least or the greatest value is out of range")
        if not 0 <= extremes.least_weight <= extremes.greatest_weight <= MAX_WEIGHT:
            raise CorruptError(
                f"weights are {extremes.least_weight} to {extremes.greatest_weight}; they must lie within 0 to "
                f"{MAX_WEIGHT}"
            )
    return list(Kind)[code], extremes, read_labels(reader)


def write_labels(writer: Writer, labels: Labels) -> None:
    writer.varint(len(labels.texts))
    for text in labels.texts:
        writer.blob(text.encode())


def read_labels(reader: Reader) -> Labels:
    count = reader.varint()
    if count > reader.remaining:
        raise CorruptError(f"{count} labels are announced, but only {reader.remaining} bytes are left")
    try:
        texts = tuple(reader.blob().decode() for _ in range(count))
    except UnicodeDecodeError as error:
        raise CorruptError("a label is not UTF-8 text") from error
    hashes = hash_text(np.array(texts, object)) if texts else np.empty(0, np.uint64)
    if (hashes[1:] <= hashes[:-1]).any():
        raise CorruptError("labels are not in the order of their hashes")
    return Labels(hashes, texts)


def write_cuts(writer: Writer, cuts: Ints, none: int) -> None:
    """Cuts fall with the level and end where nothing was discarded: only the front part is stored."""
    used = int(np.count_nonzero(cuts != none))
    writer.u8(used)
    for cut in cuts[:used].tolist():
        writer.i64(cut)


def read_cuts(reader: Reader, none: int, levels: int) -> Ints:
    used = reader.u8()
    if used > levels:
        raise CorruptError(f"{used} thresholds are announced; there are {levels} levels")
    cuts = np.full(levels, none, np.int64)
    cuts[:used] = [reader.i64() for _ in range(used)]
    if (cuts[1:used] > cuts[: max(used - 1, 0)]).any() or (cuts[:used] == none).any():
        raise CorruptError("thresholds rise from a level to a deeper one")
    return cuts


def write_rows(
    writer: Writer, times: Ints, hashes: Words, values: Column, weights: Ints, kind: Kind, labels: Labels
) -> None:
    """Rows sorted by time; the columns follow each other behind the number of rows."""
    rows = len(times)
    writer.varint(rows)
    if rows == 0:
        return
    writer.i64(int(times[0]))
    writer.column(deltas(times))
    writer.column(hashes >> np.uint64(HASH_SHIFT))
    if kind is Kind.INTEGER:
        least = int(values.min())
        writer.i64(least)
        writer.column(values.astype(np.uint64) - np.uint64(least & 0xFFFF_FFFF_FFFF_FFFF))
    elif kind is Kind.FLOAT:
        writer.column(np.ascontiguousarray(values, np.float64).view(np.uint64))
    else:
        writer.column(np.searchsorted(labels.hashes, values).astype(np.uint64))
    weighted = bool((weights != 1).any())
    writer.u8(int(weighted))
    if weighted:
        writer.column(weights.astype(np.uint64))


def read_rows(reader: Reader, kind: Kind, labels: Labels) -> tuple[Ints, Words, Column, Ints]:
    """What `write_rows` wrote. Distinct rows take at least a bit each, so a row count beyond that is refused."""
    rows = reader.varint()
    if rows > 8 * reader.remaining:
        raise CorruptError(f"{rows} rows are announced, but only {reader.remaining} bytes are left")
    if rows == 0:
        return np.empty(0, np.int64), np.empty(0, np.uint64), np.empty(0, kind.dtype), np.empty(0, np.int64)
    first = reader.i64()
    steps = reader.column(rows - 1)
    if not -MAX_TIME <= first <= MAX_TIME or steps.astype(np.float64).sum() > 2.0 * MAX_TIME:
        raise CorruptError("times lie outside the range of times")
    times = undeltas(first, steps)
    hashes = reader.column(rows) << np.uint64(HASH_SHIFT)
    values: Column
    if kind is Kind.INTEGER:
        least = reader.i64()
        values = (reader.column(rows) + np.uint64(least & 0xFFFF_FFFF_FFFF_FFFF)).view(np.int64)
    elif kind is Kind.FLOAT:
        values = reader.column(rows).view(np.float64)
        if not np.isfinite(values).all():
            raise CorruptError("a value is not a finite number")
    else:
        codes = reader.column(rows)
        if codes.max() >= len(labels.texts):
            raise CorruptError(f"a key has number {codes.max()}, but there are {len(labels.texts)} labels")
        values = labels.hashes[codes.astype(np.intp)]
    weights = np.ones(rows, np.int64)
    if reader.u8():
        stored = reader.column(rows)
        if stored.max() > MAX_WEIGHT:
            raise CorruptError(f"a weight is {int(stored.max())}; weights are at most {MAX_WEIGHT}")
        weights = stored.astype(np.int64) + (1 if reader.version == 1 else 0)
    return times, hashes, values, weights
