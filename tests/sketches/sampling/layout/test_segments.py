"""Segments hold rows of every kind to the bit, end where epochs end, and never give a wrong row."""

from __future__ import annotations

import hashlib
import struct
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sketches.errors import CorruptError
from sketches.event_rules import MAX_TIME, MAX_WEIGHT
from sketches.events import Kind
from sketches.sampling.inclusion.ladder import LadderRows
from sketches.sampling.inclusion.sampling_number import shortened
from sketches.sampling.layout import segments
from sketches.sampling.layout.segments import joined, read_segment, write_segment, write_segments
from tests.support.conformance import little_memory, within

VALUES = {
    Kind.INTEGER: st.one_of(st.integers(-5, 5), st.sampled_from((-(2**63), 2**63 - 1))),
    Kind.FLOAT: st.one_of(st.sampled_from((0.0, -1.5, 1e300, 5e-324)), st.floats(-1e9, 1e9)),
    Kind.KEY: st.integers(0, 2**31),
}
TIMES = st.one_of(st.integers(-20, 20), st.sampled_from((-MAX_TIME, MAX_TIME)))
WEIGHTS = st.one_of(st.integers(0, 3), st.just(MAX_WEIGHT))


@st.composite
def ladder_rows(draw: st.DrawFn, kind: Kind, bits: int) -> LadderRows:
    one = st.tuples(TIMES, st.integers(0, 2**56 - 1), VALUES[kind], WEIGHTS, st.integers(0, 2**31 - 1))
    found = draw(st.lists(one, min_size=1, max_size=30))
    times, hashes, values, weights, sources = zip(*found, strict=True)
    return LadderRows.sorted(
        np.array(times, np.int64),
        shortened(np.array(hashes, np.uint64) << np.uint64(8), bits),
        np.array(values, kind.dtype),
        np.array(weights, np.int64),
        np.array(sources, np.int32),
    )


def many(rows: int, seed: int = 1, kind: Kind = Kind.INTEGER) -> LadderRows:
    rng = np.random.default_rng(seed)
    return LadderRows.sorted(
        np.sort(rng.integers(0, 86_400, rows)),
        shortened(rng.integers(0, 2**56, rows, dtype=np.uint64) << np.uint64(8), 48),
        rng.integers(0, 1000, rows).astype(kind.dtype),
        rng.integers(0, 4, rows),
        rng.integers(0, 50, rows).astype(np.int32),
    )


def equal(one: LadderRows, other: LadderRows) -> bool:
    columns = zip(one.columns, other.columns, strict=True)
    return all(here.dtype == there.dtype and here.tobytes() == there.tobytes() for here, there in columns)


def forged(content: bytes) -> bytes:
    """The same content with a checksum that matches."""
    return content + hashlib.blake2b(content, digest_size=8).digest()


@given(st.data(), st.sampled_from(list(Kind)), st.sampled_from((8, 13, 48, 52)))
@settings(max_examples=80)
def test_rows_come_back_to_the_bit(data: st.DataObject, kind: Kind, bits: int) -> None:
    """Of every kind, with the least and the greatest times, weights and values, at any number of bits."""
    rows = data.draw(ladder_rows(kind, bits))
    segment = write_segment(rows, kind, bits)
    assert (segment.oldest, segment.newest, segment.rows) == (rows.times[0], rows.times[-1], len(rows))
    found, found_kind = read_segment(memoryview(segment.payload))
    assert found_kind is kind
    assert equal(found, rows)


@pytest.mark.parametrize("kind", Kind)
def test_damage_anywhere_is_refused(kind: Kind) -> None:
    """Any flipped bit and any truncation gives CorruptError, never rows."""
    payload = bytearray(write_segment(many(40, kind=kind), kind, 48).payload)
    for at in range(len(payload)):
        for bit in range(8):
            payload[at] ^= 1 << bit
            with pytest.raises(CorruptError):
                read_segment(bytes(payload))
            payload[at] ^= 1 << bit
        with pytest.raises(CorruptError):
            read_segment(bytes(payload[:at]))
    with pytest.raises(CorruptError):
        read_segment(bytes(payload) + b"\0")


@pytest.mark.parametrize("kind", Kind)
def test_forged_bytes_do_no_harm(kind: Kind) -> None:
    """Any byte changed below a checksum that matches: CorruptError, or rows that events could have; little memory."""
    content = bytearray(write_segment(many(12, kind=kind), kind, 48).payload[:-8])
    harmless = 0
    with within(20), little_memory(64 << 20):
        for at in range(len(content)):
            for other in (0, 1, 255):
                before, content[at] = content[at], other
                try:
                    rows, _ = read_segment(forged(bytes(content)))
                    harmless += 1
                    assert len(rows)
                    assert (np.diff(rows.times) >= 0).all()
                    assert np.abs(rows.times).max() <= MAX_TIME
                    assert 0 <= rows.weights.min() <= rows.weights.max() <= MAX_WEIGHT
                    assert rows.sources.min() >= 0
                    assert (rows.hashes > 0).all()
                    if rows.values.dtype.kind == "f":
                        assert np.isfinite(rows.values).all()
                except CorruptError:
                    pass
                content[at] = before
    assert 0 < harmless < len(content) * 3


def test_absurd_counts_allocate_nothing() -> None:
    """Four billion rows, announced by bytes that match their checksum, are refused at once."""
    content = bytearray(write_segment(many(30), Kind.INTEGER, 48).payload[:-8])
    for count in (0, 29, 31, 1 << 21, 0xFFFFFFFF):
        content[7:11] = struct.pack("<I", count)
        with within(1), little_memory(), pytest.raises(CorruptError):
            read_segment(forged(bytes(content)))


def test_what_no_event_can_be_is_refused() -> None:
    """A weight above the most, a time out of range, a value that is no number, an unknown format or kind."""
    rows = many(5)
    wrong = (
        (replace(rows, weights=rows.weights + MAX_WEIGHT), Kind.INTEGER, "a weight"),
        (replace(rows, values=np.full(5, np.nan)), Kind.FLOAT, "finite"),
    )
    for one, kind, text in wrong:
        with pytest.raises(CorruptError, match=text):
            read_segment(write_segment(one, kind, 48).payload)
    first = bytearray(write_segment(rows, Kind.INTEGER, 48).payload[:-8])
    first[11:19] = struct.pack("<q", MAX_TIME + 1)
    with pytest.raises(CorruptError, match="range of times"):
        read_segment(forged(bytes(first)))
    for at, text in ((4, "format 9"), (5, "kind of values")):
        content = bytearray(write_segment(rows, Kind.INTEGER, 48).payload[:-8])
        content[at] = 9
        with pytest.raises(CorruptError, match=text):
            read_segment(forged(bytes(content)))


def test_segments_end_where_epochs_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two, four and so on neighbouring epochs share a segment while they fit; a busy one takes several for itself."""
    monkeypatch.setattr(segments, "SEGMENT_ROWS", 100)
    rng = np.random.default_rng(2)
    sizes = [10, 30, 250, 5, 60, 60, 0, 99, 1, 0, 400, 3]
    times = np.concatenate([hour * 3600 + np.sort(rng.integers(0, 3600, size)) for hour, size in enumerate(sizes)])
    rows = replace(many(len(times)), times=times)
    found = write_segments(rows, Kind.INTEGER, 48, 3600)
    assert equal(joined([read_segment(one.payload) for one in found])[0], rows)
    busy = [[one.rows for one in found if one.oldest // 3600 == epoch] for epoch in (2, 10)]
    assert [sum(several) for several in busy] == [250, 400]
    assert all(0 < size <= 100 for several in busy for size in several)
    assert [one.rows for one in found if one.oldest // 3600 not in (2, 10)] == [40, 5, 60, 60, 99, 1, 3]
    for one, following in pairwise(found):
        same = one.newest // 3600 == following.oldest // 3600
        assert not same or sizes[one.newest // 3600] > 100
        assert one.newest <= following.oldest
    assert write_segments(LadderRows.empty(), Kind.INTEGER, 48, 3600) == []
    before = replace(rows, times=rows.times - 8 * 3600)  # epochs begin at multiples of their length, also below 0
    assert [one.rows for one in write_segments(before, Kind.INTEGER, 48, 3600)] == [one.rows for one in found]


@pytest.mark.parametrize("length", [3600, 86_400, 1 << 62])
def test_segments_keep_their_bytes_where_rows_come_and_go_elsewhere(
    monkeypatch: pytest.MonkeyPatch, length: int
) -> None:
    """However long epochs are: a store rewrites, and whoever holds a sketch reads, only the stretches that changed."""
    monkeypatch.setattr(segments, "SEGMENT_ROWS", 100)
    rows = many(20_000, 4)
    before = {one.payload for one in write_segments(rows, Kind.INTEGER, 48, length)}
    gone = np.ones(len(rows), bool)
    gone[[5_000, 5_001, 12_000]] = False
    after = [one.payload for one in write_segments(rows.take(gone), Kind.INTEGER, 48, length)]
    assert sum(payload not in before for payload in after) <= 3
    assert 200 <= len(after) <= 400


def test_a_row_takes_as_many_bytes_as_stated() -> None:
    """About 7.5 bytes a row of a stream with few sources and heavy weights, about 6 where all weights are 1."""
    rng = np.random.default_rng(3)
    rows = many(32_768)
    rows = replace(rows, values=rng.integers(0, 200, len(rows)), weights=np.ones(len(rows), np.int64))
    light = len(write_segment(rows, Kind.INTEGER, 48).payload) / len(rows)
    heavy = replace(rows, weights=np.ceil(rng.lognormal(2, 1, len(rows))).astype(np.int64))
    weighted = len(write_segment(heavy, Kind.INTEGER, 48).payload) / len(rows)
    assert light < 8.5
    assert weighted < light + 1.0


def test_segments_of_different_kinds_do_not_join() -> None:
    """Whole numbers and keys are no one column."""
    parts = [read_segment(write_segment(many(5, kind=kind), kind, 48).payload) for kind in (Kind.INTEGER, Kind.KEY)]
    with pytest.raises(CorruptError, match="different kinds"):
        joined(parts)
