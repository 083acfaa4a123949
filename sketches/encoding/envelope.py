"""The envelope around the bytes of every sketch, and the reader and writer that the bodies inside are made with.

An envelope is, all numbers little-endian::

    "wane" | version u16 | length u8, family | length u16, parameters | seed u64 | length u64, body | checksum 8 bytes

The checksum is BLAKE2b over everything before it. It guards against damage, not against an attacker, who can
compute it too. So the readers of bodies check every length against the bytes left before they allocate.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Mapping
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from sketches.encoding.packing import pack, unpack
from sketches.errors import CorruptError, WaneError
from sketches.hashing import refuse_seed
from sketches.records import dataclass

T = TypeVar("T")

# Shared by all families: a family that changes its bytes raises this and takes the new number, also where its own last
# one was lower. Then any older wane refuses the bytes by this number alone.
FORMAT_VERSION = 2
BEGINNING = 256  # bytes of a sketch that are enough for what is said first in its body
NEWEST_VERSION = 13  # that any family writes; those that do not say otherwise write FORMAT_VERSION

_MAGIC = b"wane"
_CHECKSUM_BYTES = 8
_LEAST_BYTES = len(_MAGIC) + 2 + 1 + 2 + 8 + 8 + _CHECKSUM_BYTES
_VARINT_BYTES = 10  # 64 bits at 7 a byte


@dataclass(frozen=True, slots=True)
class Envelope:
    """What was sealed. The parameters are the family's canonical bytes: equal parameters, equal bytes."""

    family: str
    version: int
    parameters: bytes
    seed: int
    body: bytes

    def reader(self) -> Reader:
        """What reads the body, by the version that it was written in."""
        return Reader(self.body, self.version)


def seal(family: str, version: int, parameters: bytes, seed: int, body: bytes) -> bytes:
    """The bytes of a sketch, which `open_envelope` opens.

    >>> open_envelope(seal("sample", 1, b"", 7, b"body"))
    Envelope(family='sample', version=1, parameters=b'', seed=7, body=b'body')
    """
    return sealer(family, version, parameters, seed)(body)


def sealer(family: str, version: int, parameters: bytes, seed: int) -> Callable[[bytes], bytes]:
    """`seal` for many bodies of one family, parameters and seed, which are checked and written once."""
    if not 1 <= version <= NEWEST_VERSION:
        raise WaneError(f"version is {version}; it must be at least 1 and at most {NEWEST_VERSION}")
    if not (family.isascii() and 1 <= len(family) <= 0xFF):
        raise WaneError(f"family is {family!r}; it must be 1 to 255 ASCII characters")
    if len(parameters) > 0xFFFF:
        raise WaneError(f"parameters take {len(parameters)} bytes; they may take at most {0xFFFF}")
    refuse_seed(seed)
    before = b"".join(
        (
            _MAGIC,
            struct.pack("<HB", version, len(family)),
            family.encode("ascii"),
            struct.pack("<H", len(parameters)),
            parameters,
            struct.pack("<Q", seed),
        )
    )

    def sealed(body: bytes) -> bytes:
        content = before + len(body).to_bytes(8, "little") + body
        return content + _checksum(content)

    return sealed


def open_envelope(data: bytes | bytearray | memoryview) -> Envelope:
    """Open what `seal` sealed, once it is clear that it is whole; nothing is copied before the checksum is verified."""
    view = memoryview(data).cast("B")
    start = bytes(view[: len(_MAGIC)])
    if start != _MAGIC[: len(start)]:
        raise CorruptError(f"these bytes are not a sketch: they start with {start!r}, not {_MAGIC!r}")
    total = _LEAST_BYTES
    if len(view) < total:
        raise _truncated(view, total, "at least ")
    version, family_bytes = struct.unpack_from("<HB", view, len(_MAGIC))
    family_start = len(_MAGIC) + 3
    total += family_bytes
    if len(view) < total:
        raise _truncated(view, total, "at least ")
    (parameter_bytes,) = struct.unpack_from("<H", view, family_start + family_bytes)
    parameter_start = family_start + family_bytes + 2
    total += parameter_bytes
    if len(view) < total:
        raise _truncated(view, total, "at least ")
    seed, body_bytes = struct.unpack_from("<QQ", view, parameter_start + parameter_bytes)
    body_start = parameter_start + parameter_bytes + 16
    total += body_bytes
    if len(view) < total:
        raise _truncated(view, total, "")
    if len(view) > total:
        raise CorruptError(f"the sketch has trailing bytes: {len(view) - total} after its {total}")
    if view[-_CHECKSUM_BYTES:] != _checksum(view[:-_CHECKSUM_BYTES]):
        raise CorruptError("the checksum of the sketch does not match: its bytes were changed after it was written")
    family = bytes(view[family_start : family_start + family_bytes])
    if not (family and family.isascii()):
        raise CorruptError(f"the sketch names its family {family!r}; a family is 1 to 255 ASCII characters")
    parameters = bytes(view[parameter_start : parameter_start + parameter_bytes])
    body = bytes(view[body_start : body_start + body_bytes])
    return Envelope(family.decode("ascii"), version, parameters, seed, body)


def version_of(data: bytes | bytearray | memoryview) -> int:
    """The format version that bytes say they have, without a look at anything else; 0 where there is none.

    >>> version_of(seal("sample", 2, b"", 7, b"body"))
    2
    """
    return int.from_bytes(bytes(memoryview(data)[len(_MAGIC) : len(_MAGIC) + 2]), "little")


def body_of_beginning(data: bytes | bytearray | memoryview) -> memoryview:
    """How the body begins, of bytes that need not be whole; nothing is verified.

    >>> bytes(body_of_beginning(seal("sample", 2, b"", 7, b"body")[:-10]))
    b'bo'
    """
    view = memoryview(data).cast("B")
    family_bytes = view[len(_MAGIC) + 2]
    parameter_start = len(_MAGIC) + 3 + family_bytes + 2
    parameter_bytes = int.from_bytes(view[parameter_start - 2 : parameter_start], "little")
    return view[parameter_start + parameter_bytes + 16 :]


def load(data: bytes | bytearray | memoryview, families: Mapping[str, Callable[[Envelope], T]]) -> T:
    """Open the envelope and hand it to the loader of its family.

    Loaders raise `CorruptError` for a body they cannot read. Any other error of a loader (a value out of range, an
    index beyond the end) becomes a `CorruptError` that blames the contents, because the envelope was whole.
    """
    envelope = open_envelope(data)
    if envelope.version > NEWEST_VERSION:
        raise CorruptError(
            f"the sketch was written by a newer wane: it has format version {envelope.version}, and the newest that "
            f"this wane reads is {NEWEST_VERSION}"
        )
    if envelope.version < 1:
        raise CorruptError(f"the sketch has format version {envelope.version}, which no wane ever wrote")
    loader = families.get(envelope.family)
    if loader is None:
        known = ", ".join(sorted(families))
        raise CorruptError(f"the sketch is of the family {envelope.family!r}, which is not known; known are: {known}")
    try:
        return loader(envelope)
    except CorruptError:
        raise
    except (ValueError, IndexError, OverflowError, struct.error) as error:
        raise CorruptError(
            f"the checksum of the sketch is right, but its contents are not those of a {envelope.family!r}: {error}"
        ) from error


class Writer:
    """Bytes of a body, or of parameters, in the order in which `Reader` takes them back.

    >>> writer = Writer()
    >>> writer.varint(300)
    >>> writer.blob(b"ab")
    >>> writer.to_bytes().hex()
    'ac02026162'
    """

    def __init__(self) -> None:
        self._bytes = bytearray()

    def u8(self, number: int) -> None:
        self._number("<B", number, "8 unsigned bits")

    def u16(self, number: int) -> None:
        self._number("<H", number, "16 unsigned bits")

    def u32(self, number: int) -> None:
        self._number("<I", number, "32 unsigned bits")

    def u64(self, number: int) -> None:
        self._number("<Q", number, "64 unsigned bits")

    def i64(self, number: int) -> None:
        self._number("<q", number, "64 signed bits")

    def f64(self, number: float) -> None:
        """A double, bit for bit (infinities and NaN as well)."""
        self._number("<d", number, "a double")

    def varint(self, number: int) -> None:
        """An unsigned number in 7-bit groups, lowest first: small ones take one byte, 64-bit ones up to ten."""
        if not 0 <= number < 1 << 64:
            raise WaneError(f"number is {number}; it must fit 64 unsigned bits")
        while number >= 0x80:
            self._bytes.append(number & 0x7F | 0x80)
            number >>= 7
        self._bytes.append(number)

    def blob(self, content: bytes) -> None:
        """Bytes with their length before them."""
        self.varint(len(content))
        self._bytes += content

    def column(self, column: NDArray[np.uint64]) -> None:
        """A packed column (see `sketches.encoding.packing`) without its row count, which the reader must know."""
        self._bytes += pack(column)

    def to_bytes(self) -> bytes:
        return bytes(self._bytes)

    def _number(self, layout: str, number: float, room: str) -> None:
        try:
            self._bytes += struct.pack(layout, number)
        except struct.error:
            raise WaneError(f"number is {number!r}; it must fit {room}") from None


class Reader:
    """Takes back what a `Writer` wrote; every length is checked against the bytes left before anything is copied.

    >>> reader = Reader(bytes.fromhex("ac02026162"))
    >>> reader.varint(), reader.blob()
    (300, b'ab')
    >>> reader.done()
    """

    def __init__(self, data: bytes | bytearray | memoryview, version: int = FORMAT_VERSION) -> None:
        self.version = version
        self._view = memoryview(data).cast("B")
        self._position = 0

    @property
    def remaining(self) -> int:
        """How many bytes are left, the bound for any count that is read."""
        return len(self._view) - self._position

    def u8(self) -> int:
        return self._integer("<B")

    def u16(self) -> int:
        return self._integer("<H")

    def u32(self) -> int:
        return self._integer("<I")

    def u64(self) -> int:
        return self._integer("<Q")

    def i64(self) -> int:
        return self._integer("<q")

    def f64(self) -> float:
        number: float = struct.unpack("<d", self._take(8))[0]
        return number

    def varint(self) -> int:
        """A number written by `Writer.varint`; longer spellings are refused: equal numbers, equal bytes."""
        number = 0
        for group in range(_VARINT_BYTES):
            byte = self.u8()
            number |= (byte & 0x7F) << (7 * group)
            if byte < 0x80:
                if number >= 1 << 64 or (byte == 0 and group > 0):
                    break
                return number
        raise CorruptError(f"a number before byte {self._position} of the contents is not written as wane writes it")

    def blob(self) -> bytes:
        return bytes(self._take(self.varint()))

    def column(self, rows: int) -> NDArray[np.uint64]:
        """A column of `rows` rows written by `Writer.column`."""
        column, used = unpack(self._view[self._position :], rows)
        self._position += used
        return column

    def done(self) -> None:
        """Refuse bytes that are left over after everything was read."""
        if self.remaining:
            raise CorruptError(f"the contents have trailing bytes: {self.remaining} after the {self._position} read")

    def _integer(self, layout: str) -> int:
        number: int = struct.unpack(layout, self._take(struct.calcsize(layout)))[0]
        return number

    def _take(self, count: int) -> memoryview:
        if count > self.remaining:
            raise CorruptError(
                f"the contents are cut short: {count} bytes wanted at byte {self._position}, {self.remaining} left"
            )
        self._position += count
        return self._view[self._position - count : self._position]


def _truncated(view: memoryview, total: int, qualifier: str) -> CorruptError:
    return CorruptError(f"the sketch is truncated: {len(view)} bytes of {qualifier}{total}")


def _checksum(content: bytes | memoryview) -> bytes:
    return hashlib.blake2b(content, digest_size=_CHECKSUM_BYTES).digest()
