"""Envelopes come back whole or not at all, and no length in them is believed before it is checked."""

from __future__ import annotations

import hashlib
import math
import struct
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sketches.encoding import envelope
from sketches.encoding.envelope import Envelope, Reader, Writer, load, open_envelope, seal
from sketches.errors import CorruptError, WaneError

SAMPLE = seal("sample", 1, b"\x01\x02", 42, b"body bytes")
GOLDEN = (
    "77616e65"  # wane
    "0100"  # version
    "0673616d706c65"  # sample
    "02000102"  # parameters
    "2a00000000000000"  # seed
    "0a00000000000000626f6479206279746573"  # body
    "b8d8819bf06b8f6d"  # checksum
)
names = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=255)


def signed(content: bytes) -> bytes:
    """The content with the checksum that makes it pass."""
    return content + hashlib.blake2b(content, digest_size=8).digest()


def peak_memory(action: Callable[[], Any]) -> int:
    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@given(names, st.binary(max_size=300), st.integers(0, 2**64 - 1), st.binary(max_size=300))
def test_what_is_sealed_comes_back(family: str, parameters: bytes, seed: int, body: bytes) -> None:
    """Every part of an envelope comes back as it went in, from any kind of buffer."""
    data = seal(family, 1, parameters, seed, body)
    expected = Envelope(family, 1, parameters, seed, body)
    assert open_envelope(data) == open_envelope(bytearray(data)) == open_envelope(memoryview(data)) == expected


def test_known_bytes_never_change() -> None:
    """Stored sketches are wrapped in these bytes, so they are a literal here."""
    assert SAMPLE.hex() == GOLDEN
    assert open_envelope(bytes.fromhex(GOLDEN)) == Envelope("sample", 1, b"\x01\x02", 42, b"body bytes")


def test_what_was_opened_does_not_alias_the_buffer() -> None:
    """Overwriting a receive buffer does not change an envelope that was opened from it."""
    buffer = bytearray(SAMPLE)
    envelope = open_envelope(buffer)
    buffer[:] = bytes(len(buffer))
    assert envelope.body == b"body bytes"


def test_every_truncation_is_refused() -> None:
    """Whatever number of its last bytes an envelope misses, it is called truncated and both sizes are given."""
    for length in range(len(SAMPLE)):
        with pytest.raises(CorruptError, match=rf"truncated: {length} bytes of (at least )?\d+"):
            open_envelope(SAMPLE[:length])
    with pytest.raises(CorruptError, match=f"truncated: {len(SAMPLE) - 1} bytes of {len(SAMPLE)}$"):
        open_envelope(SAMPLE[:-1])


def test_every_flipped_bit_is_refused() -> None:
    """One bit flipped anywhere, in a length, in the body or in the checksum itself, is found."""
    for offset in range(len(SAMPLE)):
        for bit in range(8):
            damaged = bytearray(SAMPLE)
            damaged[offset] ^= 1 << bit
            with pytest.raises(CorruptError):
                open_envelope(damaged)


def test_each_fault_has_its_own_sentence() -> None:
    """A stranger's bytes, a bad checksum, trailing bytes and a nameless family are told apart."""
    with pytest.raises(CorruptError, match="not a sketch: they start with b'PAR1'"):
        open_envelope(b"PAR1" + SAMPLE[4:])
    with pytest.raises(CorruptError, match="not a sketch"):
        open_envelope(b"no")
    with pytest.raises(CorruptError, match="checksum of the sketch does not match"):
        open_envelope(SAMPLE[:-1] + bytes([SAMPLE[-1] ^ 1]))
    with pytest.raises(CorruptError, match=f"trailing bytes: 3 after its {len(SAMPLE)}"):
        open_envelope(SAMPLE + b"abc")
    nameless = signed(b"wane" + struct.pack("<HBHQQ", 1, 0, 0, 0, 0))
    with pytest.raises(CorruptError, match="names its family b''"):
        open_envelope(nameless)
    foreign = signed(b"wane" + struct.pack("<HB", 1, 1) + b"\xe9" + struct.pack("<HQQ", 0, 0, 0))
    with pytest.raises(CorruptError, match="ASCII"):
        open_envelope(foreign)


@pytest.mark.parametrize("length", [2**31, 2**63, 2**64 - 1])
def test_a_hostile_body_length_allocates_nothing(length: int) -> None:
    """A body length that the bytes do not bear out fails at once, though the checksum over it is right."""
    hostile = signed(b"wane" + struct.pack("<HB", 1, 1) + b"f" + struct.pack("<HQQ", 0, 0, length) + b"short")

    def attempt() -> None:
        with pytest.raises(CorruptError, match="truncated"):
            open_envelope(hostile)

    assert peak_memory(attempt) < 1_000_000


def test_hostile_header_lengths_are_refused() -> None:
    """Family and parameter lengths that reach beyond the end are found before they are followed."""
    hostile_family = signed(b"wane" + struct.pack("<HB", 1, 255) + bytes(30))
    hostile_parameters = signed(b"wane" + struct.pack("<HB", 1, 1) + b"f" + struct.pack("<H", 0xFFFF) + bytes(30))
    for hostile in (hostile_family, hostile_parameters):
        with pytest.raises(CorruptError, match="truncated"):
            open_envelope(hostile)


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("version", 0),
        ("version", envelope.NEWEST_VERSION + 1),
        ("family", ""),
        ("family", "x" * 256),
        ("family", "é"),
        ("parameters", bytes(0x10000)),
        ("seed", -1),
        ("seed", 2**64),
    ],
)
def test_what_does_not_fit_is_not_sealed(part: str, value: Any) -> None:
    """A part that the envelope has no room for is refused by its name."""
    parts: dict[str, Any] = {"family": "f", "version": 1, "parameters": b"", "seed": 0, "body": b""}
    with pytest.raises(WaneError, match=f"^{part} "):
        seal(**(parts | {part: value}))


def test_the_loader_of_the_family_is_called() -> None:
    """`load` hands the whole envelope to the loader of its family and returns what that makes of it."""
    loaded = load(SAMPLE, {"other": lambda _: "wrong", "sample": lambda envelope: f"{envelope.seed} {envelope.body!r}"})
    assert loaded == "42 b'body bytes'"


def test_an_unknown_family_is_refused_with_the_known_ones() -> None:
    """The message names the family that was met and those that could be read."""
    with pytest.raises(CorruptError, match=r"family 'sample', which is not known; known are: ecm, qdigest$"):
        load(SAMPLE, {"qdigest": repr, "ecm": repr})


def test_a_newer_version_is_refused_even_of_an_unknown_family(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes of a later format are said to be from a newer wane, and can still be opened for a look."""
    newer = envelope.NEWEST_VERSION + 1
    with monkeypatch.context() as patch:
        patch.setattr(envelope, "NEWEST_VERSION", newer)
        data = seal("new", newer, b"", 0, b"")
    for families in ({"new": repr}, {"sample": repr}):
        with pytest.raises(CorruptError, match=f"newer wane: it has format version {newer}"):
            load(data, families)
    assert open_envelope(data).version == newer


def test_version_0_was_never_written() -> None:
    """The version below the first one is refused."""
    with pytest.raises(CorruptError, match="version 0"):
        load(signed(b"wane" + struct.pack("<HB", 0, 1) + b"f" + struct.pack("<HQQ", 0, 0, 0)), {"f": repr})


@pytest.mark.parametrize("stray", [ValueError("v"), IndexError("v"), OverflowError("v"), struct.error("v")])
def test_a_stumbling_loader_means_bad_contents(stray: Exception) -> None:
    """Where a loader stumbles over contents, the error says so, names the family and keeps the cause."""

    def stumble(_: Envelope) -> None:
        raise stray

    with pytest.raises(CorruptError, match=r"checksum of the sketch is right, but .* 'sample': v") as caught:
        load(SAMPLE, {"sample": stumble})
    assert caught.value.__cause__ is stray


@pytest.mark.parametrize("own", [CorruptError("own words"), TypeError("a bug"), MemoryError()])
def test_other_errors_of_a_loader_pass_unchanged(own: Exception) -> None:
    """What a loader says about corruption is not reworded, and a bug or a lack of memory is not called corruption."""

    def refuse(_: Envelope) -> None:
        raise own

    with pytest.raises(type(own)) as caught:
        load(SAMPLE, {"sample": refuse})
    assert caught.value is own


def write_all(writer: Writer) -> None:
    writer.u8(255)
    writer.u16(65535)
    writer.u32(2**32 - 1)
    writer.u64(2**64 - 1)
    writer.i64(-(2**63))
    writer.f64(-0.0)
    writer.varint(300)
    writer.blob(b"blob")
    writer.column(np.arange(300, dtype=np.uint64))


def read_all(reader: Reader) -> list[Any]:
    return [
        reader.u8(),
        reader.u16(),
        reader.u32(),
        reader.u64(),
        reader.i64(),
        math.copysign(1, reader.f64()),
        reader.varint(),
        reader.blob(),
        reader.column(300).tolist(),
    ]


def test_what_is_written_is_read_back() -> None:
    """One of everything, at the ends of its range, comes back in order and leaves nothing over."""
    writer = Writer()
    write_all(writer)
    reader = Reader(writer.to_bytes())
    expected = [255, 65535, 2**32 - 1, 2**64 - 1, -(2**63), -1.0, 300, b"blob", list(range(300))]
    assert read_all(reader) == expected
    assert reader.remaining == 0
    reader.done()


def test_every_short_read_is_refused() -> None:
    """Contents that miss any number of their last bytes are refused by whichever read meets the end."""
    writer = Writer()
    write_all(writer)
    content = writer.to_bytes()
    for length in range(len(content)):
        with pytest.raises(CorruptError):
            read_all(Reader(content[:length]))


def test_numbers_are_little_endian() -> None:
    """The bytes do not depend on the machine that writes them."""
    writer = Writer()
    writer.u16(1)
    writer.u32(2)
    writer.i64(-2)
    writer.f64(1.0)
    assert writer.to_bytes().hex() == "010002000000" + "feffffffffffffff" + "000000000000f03f"


def test_leftover_contents_are_refused() -> None:
    """A reader that is done with bytes left over says how many."""
    reader = Reader(b"\x01\x02\x03")
    reader.u8()
    with pytest.raises(CorruptError, match="trailing bytes: 2 after the 1 read"):
        reader.done()


@given(st.integers(0, 2**64 - 1))
def test_varints_come_back(number: int) -> None:
    """Any 64-bit number comes back, from 1 byte for each 7 bits it has."""
    writer = Writer()
    writer.varint(number)
    content = writer.to_bytes()
    assert len(content) == max(1, math.ceil(number.bit_length() / 7))
    reader = Reader(content)
    assert reader.varint() == number
    reader.done()


@pytest.mark.parametrize("spelling", ["8000", "ff" * 9 + "02", "80" * 10 + "01", "ff" * 20])
def test_other_spellings_of_a_varint_are_refused(spelling: str) -> None:
    """Padded numbers and those above 64 bits are not what a writer writes."""
    with pytest.raises(CorruptError, match="not written as wane writes it"):
        Reader(bytes.fromhex(spelling)).varint()


@pytest.mark.parametrize("length", [4, 2**31, 2**63, 2**64 - 1])
def test_a_hostile_blob_length_allocates_nothing(length: int) -> None:
    """The length of a blob is held against the bytes left before they are taken."""
    writer = Writer()
    writer.varint(length)
    content = writer.to_bytes() + b"abc"

    def attempt() -> None:
        with pytest.raises(CorruptError, match=f"{length} bytes wanted .* 3 left"):
            Reader(content).blob()

    assert peak_memory(attempt) < 1_000_000


def test_a_hostile_row_count_allocates_nothing() -> None:
    """The rows of a column are held against the bytes left before the column is made."""

    def attempt() -> None:
        with pytest.raises(CorruptError, match="cannot be in 3 bytes"):
            Reader(b"\0\0\0").column(2**62)

    assert peak_memory(attempt) < 1_000_000


@pytest.mark.parametrize(
    ("method", "number"),
    [
        ("u8", 256),
        ("u8", -1),
        ("u16", 65536),
        ("u32", 2**32),
        ("u64", 2**64),
        ("u64", 1.5),
        ("i64", 2**63),
        ("varint", -1),
        ("varint", 2**64),
    ],
)
def test_numbers_that_do_not_fit_are_not_written(method: str, number: float) -> None:
    """A number out of range is refused with its value, and nothing is written."""
    writer = Writer()
    with pytest.raises(WaneError, match=f"number is {number}; it must fit"):
        getattr(writer, method)(number)
    assert writer.to_bytes() == b""
