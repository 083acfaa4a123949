"""The bytes of many samples at once: one sample for each group of the rows of a batch.

One hour of tens of thousands of sources is hundreds of thousands of groups of a few rows each. Building their sketches
one after the other would be almost all overhead. A sample that discards nothing is just its events in order, so one
kernel writes such groups. `sketches.encoding.bodies` says what the bytes mean; tests compare both to the byte.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

import numpy as np

from sketches.arrays import Bytes, Ints, Words, frozen
from sketches.compiled import njit
from sketches.encoding.packing import pack_into, packed_bytes
from sketches.events import Events, Kind, Labels
from sketches.hashing import HASH_SHIFT, event_hash
from sketches.sampling.inclusion.time_order import drop_repeats, time_order

_INTEGER, _FLOAT, _KEY = range(len(Kind))

_BUFFER_BYTES: Final = 1 << 22  # of bodies that are written before they are taken out; they stay in the cache
_VARINT_BYTES: Final = 10  # at most
_HEAD_BYTES: Final = 1 + 1 + 6 * 8 + _VARINT_BYTES
_COPY_BYTES: Final = 1 + 1 + _VARINT_BYTES + 8 + 8 + 1


def whole_bodies(events: Events, starts: Ints, stops: Ints, salts: Sequence[int]) -> Iterator[bytes]:
    """The body of a sample for each group; every row is kept, and there is one copy for each salt.

    Groups have at least one row. The body is empty for a group that must be built on its own: two of its events share a
    hash at one time, which hardly ever happens, or a key has no label, which is an error.
    """
    ids, times, values, weights = events.columns()
    if values.dtype == np.int32:
        values = frozen(values.astype(np.int64).view(np.uint64))
    label_hashes, label_edges, label_bytes = _encoded(events.labels)
    salt_words = np.array(salts, np.uint64)
    kind = list(Kind).index(events.kind)
    out = np.empty(_BUFFER_BYTES, np.uint8)
    ends = np.empty(len(starts), np.int64)
    first = 0
    while first < len(starts):
        done, needed = _write_bodies(
            ids,
            times,
            values,
            weights,
            starts[first:],
            stops[first:],
            salt_words,
            kind,
            label_hashes,
            label_edges,
            label_bytes,
            out,
            ends,
        )
        if not done:
            out = np.empty(needed, np.uint8)
        for begin, end in pairwise([0, *ends[:done].tolist()]):
            yield out[begin:end].tobytes()
        first += done


def _encoded(labels: Labels) -> tuple[Words, Ints, Bytes]:
    """The hashes of the labels, where the UTF-8 of each text begins and the last one ends, and the UTF-8 of all."""
    texts = [text.encode() for text in labels.texts]
    edges = np.cumsum([0, *map(len, texts)], dtype=np.int64)
    return frozen(labels.hashes), frozen(edges), frozen(np.frombuffer(b"".join(texts), np.uint8))


@njit(cache=True, nogil=True)
def _write_bodies(
    ids: Words,
    times: Ints,
    values: Words,
    weights: Ints,
    starts: Ints,
    stops: Ints,
    salts: Words,
    kind: int,
    label_hashes: Words,
    label_edges: Ints,
    label_bytes: Bytes,
    out: Bytes,
    ends: Ints,
) -> tuple[int, int]:
    """Write the bodies of as many groups as fit into `out`, and the end of each into `ends`.

    Returns how many groups that are, and the bytes that the next group needs.
    """
    longest = 0
    for group in range(len(starts)):
        longest = max(longest, stops[group] - starts[group])
    hashes, column = np.empty(longest, np.uint64), np.empty(longest, np.uint64)
    at = 0
    for group in range(len(starts)):
        start, stop = starts[group], stops[group]
        rows = stop - start
        group_times = times[start:stop]
        group_values = values[start:stop].copy()
        group_weights = weights[start:stop] if len(weights) else weights
        labels = np.empty(0, np.int64)
        needed = _HEAD_BYTES + len(salts) * (_COPY_BYTES + 4 * packed_bytes(rows))
        if kind == _KEY:
            distinct = np.unique(group_values)
            labels = np.searchsorted(label_hashes, distinct)
            group_values[:] = np.searchsorted(distinct, group_values)
            if not _all_found(label_hashes, labels, distinct):
                ends[group] = at
                continue
            for label in labels:
                needed += _VARINT_BYTES + label_edges[label + 1] - label_edges[label]
        if at + needed > len(out):
            return group, needed
        begin = at
        at = _write_head(out, at, group_times, group_values, group_weights, kind)
        at = _write_labels(out, at, labels, label_edges, label_bytes)
        for salt in salts:
            _hash_rows(ids, times, values, weights, start, stop, salt, hashes)
            order = time_order(group_times, hashes[:rows])
            kept, conflict = drop_repeats(order, group_times, hashes, group_values, group_weights)
            if conflict:
                at = begin
                break
            at = _write_rows(out, at, order[:kept], group_times, hashes, group_values, group_weights, kind, column)
        ends[group] = at
    return len(starts), 0


@njit(cache=True, nogil=True)
def _hash_rows(
    ids: Words, times: Ints, values: Words, weights: Ints, start: int, stop: int, salt: np.uint64, hashes: Words
) -> None:
    for row in range(start, stop):
        weight = weights[row] if len(weights) else 1
        hashes[row - start] = event_hash(ids[row], np.uint64(times[row]), values[row], np.uint64(weight), salt)


@njit(cache=True, nogil=True)
def _all_found(sorted_hashes: Words, places: Ints, wanted: Words) -> bool:
    """Whether each of the wanted hashes is at its place among the sorted ones."""
    for number, place in enumerate(places):
        if place == len(sorted_hashes) or sorted_hashes[place] != wanted[number]:
            return False
    return True


@njit(cache=True, nogil=True)
def _write_head(out: Bytes, at: int, times: Ints, values: Words, weights: Ints, kind: int) -> int:
    """What `sketches.encoding.bodies.write_head` writes before the labels."""
    out[at], out[at + 1] = kind, 1
    at += 2
    extremes = np.zeros(2, np.float64)
    if kind == _INTEGER:
        integers = values.view(np.int64)
        extremes[0], extremes[1] = integers.min(), integers.max()
    elif kind == _FLOAT:
        floats = values.view(np.float64)
        extremes[0], extremes[1] = floats.min(), floats.max()
    at = _write_word(out, at, np.uint64(times.min()))
    at = _write_word(out, at, np.uint64(times.max()))
    for bits in extremes.view(np.uint64):
        at = _write_word(out, at, bits)
    at = _write_word(out, at, np.uint64(weights.max() if len(weights) else 1))
    return _write_word(out, at, np.uint64(weights.min() if len(weights) else 1))


@njit(cache=True, nogil=True)
def _write_labels(out: Bytes, at: int, labels: Ints, label_edges: Ints, label_bytes: Bytes) -> int:
    """What `sketches.encoding.bodies.write_labels` writes."""
    at = _write_varint(out, at, len(labels))
    for label in labels:
        text = label_bytes[label_edges[label] : label_edges[label + 1]]
        at = _write_varint(out, at, len(text))
        out[at : at + len(text)] = text
        at += len(text)
    return at


@njit(cache=True, nogil=True)
def _write_rows(
    out: Bytes,
    at: int,
    order: Ints,
    times: Ints,
    hashes: Words,
    values: Words,
    weights: Ints,
    kind: int,
    column: Words,
) -> int:
    """One copy: no cuts, a flag that both arrays of cuts are equal, and the rows as `write_rows` writes them.

    `column` is a buffer for one column.
    """
    rows = len(order)
    out[at], out[at + 1] = 0, 1
    at = _write_varint(out, at + 2, rows)
    at = _write_word(out, at, np.uint64(times[order[0]]))
    for place in range(1, rows):
        column[place - 1] = np.uint64(times[order[place]]) - np.uint64(times[order[place - 1]])
    at = pack_into(column[: rows - 1], out, at)
    for place, row in enumerate(order):
        column[place] = hashes[row] >> np.uint64(HASH_SHIFT)
    at = pack_into(column[:rows], out, at)
    least = np.uint64(0)
    if kind == _INTEGER:
        least = np.uint64(values.view(np.int64).min())
        at = _write_word(out, at, least)
    for place, row in enumerate(order):
        column[place] = values[row] - least
    at = pack_into(column[:rows], out, at)
    weighted = len(weights) > 0 and (weights.max() != 1 or weights.min() != 1)
    out[at] = weighted
    at += 1
    if weighted:
        for place, row in enumerate(order):
            column[place] = weights[row]
        at = pack_into(column[:rows], out, at)
    return at


@njit(cache=True, nogil=True)
def _write_word(out: Bytes, at: int, word: np.uint64) -> int:
    for byte in range(8):
        out[at + byte] = word >> np.uint64(8 * byte)
    return at + 8


@njit(cache=True, nogil=True)
def _write_varint(out: Bytes, at: int, number: int) -> int:
    while number >= 0x80:
        out[at] = number & 0x7F | 0x80
        number >>= 7
        at += 1
    out[at] = number
    return at + 1
