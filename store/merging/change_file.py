"""A file of changes: what a store has, or what was written after one of its commits, in an envelope of our own.

It comes from outside, by mail or on a stick. So it is no DuckDB file, and nothing in it is believed before it was
checked: its length and checksum, what is announced before it is allocated, and the checksum of every sketch. A checksum
tells damage, not forgery: whoever lets strangers write such files lets them write numbers.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from sketches.encoding.byte_planes import read_block, write_block
from sketches.encoding.envelope import Reader, Writer
from sketches.errors import CorruptError
from sketches.registry import FAMILIES, load
from sketches.units import TimeUnit
from store.database import StoreError
from store.keys import is_in_parts
from store.merging.contribution import Contribution, texts
from store.merging.site_ids import MAGIC, header_of
from store.merging.site_state import Key, SiteState, SiteStream, SketchRow, Stretch
from store.packed_columns import read_table, write_table
from store.writing.run import Stream

_CHECKSUM: Final = 32
_MOST: Final = 1 << 31  # bytes of the file, and of what is in it
_KEY: Final = ("source", "start", "length", "family")


def write_changes(state: SiteState) -> bytes:
    """The bytes of a file of changes."""
    body = Writer()
    body.varint(len(state.streams))
    for one in state.streams.values():
        _write_stream(body, one)
    content = body.to_bytes()
    header = json.dumps(
        state.ids._asdict() | {"name": state.name, "since": state.since, "bytes": len(content)}, ensure_ascii=False
    ).encode()
    whole = MAGIC + len(header).to_bytes(4, "little") + header + write_block(content)
    return whole + hashlib.blake2b(whole, digest_size=_CHECKSUM).digest()


def read_changes(path: Path) -> SiteState:
    """What a file of changes holds; `StoreError` where it is damaged."""
    if path.stat().st_size > _MOST:
        raise StoreError(f"{path} has {path.stat().st_size:,} bytes; a file of changes has {_MOST:,} at most")
    data = path.read_bytes()
    content, checksum = data[:-_CHECKSUM], data[-_CHECKSUM:]
    try:
        if hashlib.blake2b(content, digest_size=_CHECKSUM).digest() != checksum:
            raise CorruptError("its checksum does not match: it was cut short or changed on its way")
        ids, header, end = header_of(content, path)
        size, since = header.get("bytes"), header.get("since")
        if not isinstance(size, int) or not 0 <= size <= _MOST or not isinstance(since, int | None):
            raise CorruptError("its header is not one of ours")
        body, end = read_block(content, end, size)
        if end != len(content):
            raise CorruptError("it has trailing bytes")
        reader = Reader(body)
        streams = [_read_stream(reader) for _ in range(reader.varint())]
        reader.done()
    except CorruptError as error:
        raise StoreError(f"{path} is no whole file of changes: {error}; send it once more") from error
    return SiteState(str(header.get("name")), ids, {one.stream.name: one for one in streams}, since)


def _write_stream(writer: Writer, one: SiteStream) -> None:
    stream = one.stream
    described = {
        "name": stream.name,
        "epoch": stream.epoch,
        "unit": [stream.unit.numerator, stream.unit.denominator],
        "settings": stream.settings,
    }
    writer.blob(json.dumps(described, ensure_ascii=False).encode())
    writer.blob(one.contribution.to_bytes())
    writer.blob(_write_keys(list(one.marks), mark=list(one.marks.values())))
    writer.blob(
        _write_keys(
            [row.key for row in one.rows], mark=[row.mark for row in one.rows], format=[row.format for row in one.rows]
        )
    )
    for row in one.rows:
        writer.blob(row.payload)
    writer.varint(len(one.sketches))
    for family, sketch in sorted(one.sketches.items()):
        writer.blob(family.encode())
        writer.blob(sketch.to_bytes())
        stretches = np.array(one.kept.get(family, []), np.int64).reshape(-1, 2)
        writer.blob(write_table({"oldest": stretches[:, 0], "newest": stretches[:, 1]}))


def _write_keys(keys: Sequence[Key], **numbers: Sequence[int]) -> bytes:
    source, start, length, family = zip(*keys, strict=True) if keys else ((), (), (), ())
    table: dict[str, Any] = {
        "source": texts(source),
        "start": np.array(start, np.int64),
        "length": np.array(length, np.int64),
        "family": texts(family),
    }
    return write_table(table | {name: np.array(column, np.int64) for name, column in numbers.items()})


def _read_stream(reader: Reader) -> SiteStream:
    stream = _read_settings(reader.blob())
    contribution = Contribution.from_bytes(reader.blob())
    all_keys = read_table(reader.blob())
    marks = dict(zip(_keys(all_keys), all_keys["mark"].tolist(), strict=True))
    brought = read_table(reader.blob())
    rows = [
        SketchRow(*key, form, mark, _checked(reader.blob(), key[3]))
        for key, form, mark in zip(_keys(brought), brought["format"].tolist(), brought["mark"].tolist(), strict=True)
    ]
    if any(marks.get(row.key) != row.mark for row in rows):
        raise CorruptError("it brings a sketch that it does not list")
    sketches: dict[str, Any] = {}
    kept: dict[str, list[Stretch]] = {}
    for _ in range(reader.varint()):
        family = reader.blob().decode(errors="replace")
        sketches[family] = load(_checked(reader.blob(), family))
        stretches = read_table(reader.blob())
        kept[family] = list(zip(stretches["oldest"].tolist(), stretches["newest"].tolist(), strict=True))
    if any(not is_in_parts(family) for family in sketches) or set(contribution.tallies) != set(sketches):
        raise CorruptError("its sketches of whole streams are not those that it lists")
    for family, tally in contribution.tallies.items():
        _checked(tally, family)
    return SiteStream(stream, contribution, marks, rows, sketches, kept)


def _keys(table: Mapping[str, Any]) -> list[Key]:
    if not set(_KEY) | {"mark"} <= set(table):
        raise CorruptError("a list of its sketches lacks columns")
    return list(zip(*(table[name].tolist() for name in _KEY), strict=True))


def _checked(payload: bytes, family: str) -> bytes:
    """The payload, once it is known to be a whole sketch of its family."""
    if family not in FAMILIES or load(payload).family != family:
        raise CorruptError(f"a sketch in it is not one of family {family!r}")
    return payload


def _read_settings(data: bytes) -> Stream:
    try:
        found = json.loads(data)
        numerator, denominator = (int(number) for number in found["unit"])
        if min(numerator, denominator, int(found["epoch"])) <= 0 or not isinstance(found["settings"], dict):
            raise ValueError
        return Stream(str(found["name"]), int(found["epoch"]), TimeUnit(numerator, denominator), found["settings"])
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptError("the settings of a stream cannot be read") from error
