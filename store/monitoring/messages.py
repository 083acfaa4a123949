"""The files that sites and centre exchange: reports, signs of life, references and requests.

Each is whole by itself: magic, kind, digest of the rule, body, checksum. They come from outside, by any way, in any
order and any number of times; nothing is believed before length, checksum and every number were checked. A checksum
tells damage, not forgery: let strangers write such files, and you let them write numbers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from sketches.arrays import Floats, Words
from sketches.encoding.byte_planes import read_planes, write_planes
from sketches.encoding.envelope import Reader, Writer
from sketches.errors import CorruptError, WaneError
from sketches.event_rules import MAX_TIME
from sketches.monitoring.site import Reference
from store.monitoring.rule import DIGEST

REPORT, ALIVE, REFERENCE, REQUEST = 1, 2, 3, 4
_GRAIN_BITS: Final = 10
_MOST_GRAINS: Final = 1 << 61
GRAIN: Final = 1024.0  # numbers in files are multiples of its inverse
SUFFIX: Final = ".wane-monitor"
LARGEST: Final = 1 << 22  # bytes of a file
_MAGIC: Final = b"wmo2"
_EARLIER: Final = b"wmo1"  # said nothing of the reference that a site holds
_CHECKSUM: Final = 8
_MARK: Final = 4  # bytes
_MOST_FILES: Final = 20_000
_MOST_NUMBERS: Final = 1 << 17
_MOST: Final = 1 << 40  # of a check or reference


class Message(NamedTuple):
    """One file. `born` is when the sender's state was made: one that was lost and made anew counts from 1 again.

    Of a report and a sign of life `check` and `as_of` are the site's; `number`, `mark` and `centre_born` tell which
    reference it holds, and of which centre. Of a reference, `check` is the report that counts and `site_born` that of
    the site which wrote it.
    """

    kind: int
    digest: bytes
    site: str
    born: int
    check: int = 0
    as_of: int = 0
    number: int = 0  # of the reference that is sent, asked under, or held by the site; 0: none
    site_born: int = 0
    vectors: tuple[Floats, ...] = ()  # of a report one, of a reference the estimate and the slack
    centre_born: int = 0
    mark: int = 0

    def to_bytes(self) -> bytes:
        writer = Writer()
        writer.blob(self.site.encode())
        for number in (self.born, self.check, self.number):
            writer.varint(number)
        if self.kind in (REPORT, ALIVE):
            writer.varint(self.as_of)
            writer.varint(self.centre_born)
            writer.u32(self.mark)
        if self.kind == REFERENCE:
            writer.varint(self.site_born)
        body = writer.to_bytes()
        if self.vectors:
            more = Writer()
            more.varint(len(self.vectors[0]))
            body += more.to_bytes() + b"".join(_packed(vector) for vector in self.vectors)
        content = _MAGIC + bytes([self.kind]) + self.digest + body
        return content + hashlib.blake2b(content, digest_size=_CHECKSUM).digest()

    @classmethod
    def from_bytes(cls, data: bytes) -> Message:
        """`CorruptError` where the bytes are not a whole message."""
        content, checksum = data[:-_CHECKSUM], data[-_CHECKSUM:]
        if data.startswith(_EARLIER):
            raise CorruptError("it was written by an earlier version of wane: sites and centre need the same one")
        if not data.startswith(_MAGIC):
            raise CorruptError("it is no file of ours")
        if hashlib.blake2b(content, digest_size=_CHECKSUM).digest() != checksum:
            raise CorruptError("its checksum does not match: it was cut short or changed on its way")
        begin = len(_MAGIC) + 1
        if len(content) < begin + DIGEST:
            raise CorruptError("it ends before it says what it is")
        kind, digest = content[begin - 1], content[begin : begin + DIGEST]
        if kind not in (REPORT, ALIVE, REFERENCE, REQUEST):
            raise CorruptError(f"it is of the unknown kind {kind}")
        try:
            return cls._read(kind, digest, content[begin + DIGEST :])
        except (ValueError, IndexError, OverflowError) as error:
            raise CorruptError(f"its contents cannot be read: {error}") from None

    @classmethod
    def _read(cls, kind: int, digest: bytes, body: bytes) -> Message:
        reader = Reader(body)
        site = reader.blob().decode()
        born, check, number = reader.varint(), reader.varint(), reader.varint()
        as_of, centre_born, mark = 0, 0, 0
        if kind in (REPORT, ALIVE):
            as_of, centre_born, mark = reader.varint(), reader.varint(), reader.u32()
        site_born = reader.varint() if kind == REFERENCE else 0
        if max(check, number) > _MOST or max(born, as_of, site_born, centre_born) > MAX_TIME:
            raise CorruptError("a number in it is out of range")
        vectors: list[Floats] = []
        rest = len(body) - reader.remaining
        count = {REPORT: 1, REFERENCE: 2}.get(kind, 0)
        if count:
            length = reader.varint()
            if length > _MOST_NUMBERS:
                raise CorruptError(f"it announces {length} numbers; {_MOST_NUMBERS} is the most")
            rest = len(body) - reader.remaining
            for _ in range(count):
                vector, rest = _unpacked(body, rest, length)
                vectors.append(vector)
        if rest != len(body):
            raise CorruptError("it has trailing bytes")
        return cls(kind, digest, site, born, check, as_of, number, site_born, tuple(vectors), centre_born, mark)


def mark_of(reference: Reference | None, sent: Floats | None) -> int:
    """By which a reference is known, and the vector of the report that it counts: both sides must have the same."""
    if reference is None or sent is None:
        return 0
    grains = [np.rint(vector * GRAIN).astype("<i8") for vector in (reference.estimate, reference.slack, sent)]
    numbers = np.array([reference.number, reference.check], "<i8")
    content = b"".join(part.tobytes() for part in (numbers, *grains))
    return int.from_bytes(hashlib.blake2b(content, digest_size=_MARK).digest(), "little")


def whole(vector: Floats) -> Floats:
    """The vector as it can be sent: whole numbers and halves are what they were."""
    found = np.rint(vector * GRAIN)
    if not (np.abs(found) < _MOST_GRAINS).all():
        raise WaneError("a counter holds too much to be sent: less than 2^51 is what a file has room for")
    return np.asarray(found / GRAIN)


def read_folder(folder: Path) -> Iterator[tuple[Path, int, Message | str]]:
    """Every file of a folder with its size: the message in it, or why it is none."""
    if not folder.is_dir():
        return
    files = sorted(path for path in folder.iterdir() if path.name.endswith(SUFFIX))
    if len(files) > _MOST_FILES:
        raise WaneError(f"{folder} has {len(files):,} files; at most {_MOST_FILES:,} are read: remove old ones")
    for path in files:
        try:
            with path.open("rb") as opened:
                data = opened.read(LARGEST + 1)
            if len(data) > LARGEST:
                raise CorruptError(f"it has more than {LARGEST >> 20} MB")
            yield path, len(data), Message.from_bytes(data)
        except CorruptError as error:
            yield path, 0, f"{path} was left out: {error}"
        except OSError as error:
            yield path, 0, f"{path} cannot be read: {error.strerror}"


def _packed(vector: Floats) -> bytes:
    """Multiples of 1/1024 without the zeros that all of them end in, signs folded in, as planes of bytes."""
    numbers = np.rint(vector * GRAIN).astype(np.int64)
    shift = 0
    while shift < _GRAIN_BITS and not (numbers & 1).any():
        numbers, shift = numbers >> 1, shift + 1
    folded: Words = ((numbers << 1) ^ (numbers >> 63)).view(np.uint64)
    return bytes([shift]) + write_planes(folded)


def _unpacked(data: bytes, position: int, length: int) -> tuple[Floats, int]:
    shift = data[position]
    if shift > _GRAIN_BITS:
        raise CorruptError(f"a vector in it has the unknown grain {shift}")
    folded, end = read_planes(data, position + 1, length)
    numbers = (folded >> np.uint64(1)).view(np.int64) ^ -(folded & np.uint64(1)).view(np.int64)
    if len(numbers) and int(np.abs(numbers).max()) >= _MOST_GRAINS >> shift:
        raise CorruptError("a number in it is out of range")
    return (numbers << shift) / GRAIN, end
