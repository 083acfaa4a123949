"""Bytes of fields come back to the bit, and damage below a checksum that matches does no harm."""

from __future__ import annotations

import hashlib
import struct
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sketches import Events, Question, Sample
from sketches.encoding.byte_planes import write_block, write_planes
from sketches.encoding.envelope import open_envelope, seal
from sketches.errors import CorruptError
from sketches.fields import FieldColumn, FieldKind
from sketches.sampling.layout.field_bytes import read_column, write_column
from tests.support.conformance import little_memory, within

MOST = 100 << 20  # bytes that a damaged sample may allocate
ITEMS: dict[FieldKind, st.SearchStrategy[Any]] = {
    FieldKind.INTEGER: st.one_of(st.integers(-5, 5), st.sampled_from((-(2**63), 2**63 - 1))),
    FieldKind.FLOAT: st.one_of(st.sampled_from((0.0, -1.5, 1e300, 5e-324, 0.07)), st.floats(-1e9, 1e9)),
    FieldKind.TEXT: st.one_of(st.sampled_from(("", "a", "日本語", "nul\0")), st.text(max_size=5)),
    FieldKind.BOOLEAN: st.booleans(),
}


@given(st.data(), st.sampled_from(list(FieldKind)))
@settings(max_examples=100)
def test_columns_come_back_to_the_bit(data: st.DataObject, kind: FieldKind) -> None:
    """Of every kind, with any rows missing; equal columns have equal bytes."""
    items = data.draw(st.lists(ITEMS[kind], max_size=20))
    missing = np.array(data.draw(st.lists(st.booleans(), min_size=len(items), max_size=len(items))), bool)
    values = np.array(items, object if kind is FieldKind.TEXT else kind.dtype)
    column = FieldColumn.of(values, missing if missing.any() else None).tight()
    content = write_column(column)
    found = read_column(memoryview(content), kind, len(items))
    assert found.to_list() == column.to_list()
    assert found.values.tobytes() == column.values.tobytes()
    assert write_column(found) == content


def wide_sample() -> Sample:
    rng = np.random.default_rng(3)
    size = 300
    fields = {
        "status": rng.choice([200, 404, 500], size),
        "share": np.where(rng.random(size) < 0.2, np.nan, rng.random(size)),
        "price": np.round(rng.random(size) * 10, 2),
        "cached": rng.random(size) < 0.3,
        "path": np.array(["/", "/cart", "日本語", None], object)[rng.integers(0, 4, size)],
    }
    return Sample.build(Events.of(np.arange(size), np.arange(size), rng.random(size), fields=fields), epsilon=0.5)


def read_all(data: bytes) -> bytes:
    """Load a sample, read all its fields, and ask about one; its bytes."""
    sample = Sample.from_bytes(data)
    for name in sample.rows.fields:
        sample.rows.fields[name].to_list()
    if "status" in sample.known and sample.known["status"].kind.is_number:
        sample.answer(Question("mean", of="status"))
    return sample.to_bytes()


def resealed(data: bytes, damage: Any) -> bytes:
    """The sample with its body damaged, below checksums of segments and envelope that match."""
    envelope = open_envelope(data)
    body = bytearray(envelope.body)
    damage(body)
    return seal(envelope.family, envelope.version, envelope.parameters, envelope.seed, bytes(body))


def segment_in(body: bytes) -> tuple[int, int]:
    """Where the last segment begins and its checksum: it ends with the body."""
    for begin in range(len(body) - 8, -1, -1):
        if hashlib.blake2b(body[begin:-8], digest_size=8).digest() == body[-8:]:
            return begin, len(body) - 8
    raise AssertionError("there is no segment")


def test_flipped_bits_below_a_checksum_that_matches_do_no_harm() -> None:
    """CorruptError, or a sample that can be read and written: no other error, and little memory."""
    data = wide_sample().to_bytes()
    body = open_envelope(data).body
    begin, end = segment_in(body)
    rng, harmless, refused = np.random.default_rng(4), 0, 0
    read_all(data)
    with little_memory(MOST):
        for _ in range(150):
            at, bit = int(rng.integers(begin, end)), int(rng.integers(8))

            def flip(one: bytearray, at: int = at, bit: int = bit) -> None:
                one[at] ^= 1 << bit
                one[end:] = hashlib.blake2b(bytes(one[begin:end]), digest_size=8).digest()

            try:
                again = read_all(resealed(data, flip))
                assert Sample.from_bytes(again).to_bytes() == again
                harmless += 1
            except CorruptError:
                refused += 1
    assert harmless > 10
    assert refused > 10


def test_a_head_whose_bits_were_flipped_does_no_harm() -> None:
    """What is known of fields lies before the segments."""
    data = wide_sample().to_bytes()
    begin, _ = segment_in(open_envelope(data).body)
    rng = np.random.default_rng(5)
    read_all(data)
    with little_memory(MOST):
        for _ in range(200):
            at, bit = int(rng.integers(0, begin)), int(rng.integers(8))

            def flip(one: bytearray, at: int = at, bit: int = bit) -> None:
                one[at] ^= 1 << bit

            with suppress(CorruptError):
                read_all(resealed(data, flip))


def test_columns_that_are_cut_short_are_refused() -> None:
    rows = 50
    rng = np.random.default_rng(6)
    for column in (
        FieldColumn.of(rng.integers(0, 9, rows)),
        FieldColumn.of(rng.random(rows)),
        FieldColumn.of(np.round(rng.random(rows), 2), rng.random(rows) < 0.3),
        FieldColumn.of(rng.random(rows) < 0.5),
        FieldColumn.of(np.array(["a", "b", None], object)[rng.integers(0, 3, rows)]),
    ):
        content = write_column(column)
        for end in range(len(content)):
            with pytest.raises(CorruptError):
                read_column(memoryview(content[:end]), column.kind, rows)
        with pytest.raises(CorruptError):
            read_column(memoryview(content + b"\0"), column.kind, rows)


def test_more_texts_than_rows_are_refused_before_they_are_read() -> None:
    """A hundred kilobytes that announce a hundred million empty texts."""
    filler = write_block(np.random.default_rng(7).bytes(100_000))
    content = b"\0" + struct.pack("<I", 100_000_000) + write_planes(np.zeros(1, np.uint64)) + filler
    with within(1), little_memory(), pytest.raises(CorruptError, match="texts"):
        read_column(memoryview(content), FieldKind.TEXT, 10)
