"""A file of changes: what a store has, or what was written after one of its commits, in an envelope of our own.

It comes from outside, by mail or on a stick. So it is no DuckDB file, and nothing in it is believed before it was
checked: its length and checksum, what is announced before it is allocated, and the checksum of every sketch. A checksum
tells damage, not forgery: whoever lets strangers write such files lets them write numbers.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from sketches.encoding.byte_planes import read_block, write_block
from sketches.encoding.envelope import Reader, Writer
from sketches.errors import CorruptError
from sketches.event_rules import MAX_TIME
from sketches.registry import FAMILIES, load
from sketches.units import TimeUnit
from store.database import StoreError
from store.keys import is_in_parts
from store.merging.commit_history import as_header
from store.merging.contribution import Contribution, texts
from store.merging.from_outside import as_generation, as_json, as_number, as_settings, as_text, table_of
from store.merging.site_ids import MAGIC, header_of
from store.merging.site_state import Key, SiteState, SiteStream, SketchRow, Stretch
from store.packed_columns import MOST_ROWS, write_table
from store.writing.run import Stream

_CHECKSUM: Final = 32
_MOST: Final = 1 << 31  # bytes of the file, and of what is in it
_LONGEST_STREAM: Final = 100  # characters of its name
_KEY: Final = ("source", "start", "length", "family")


def write_changes(state: SiteState) -> bytes:
    """The bytes of a file of changes."""
    body = Writer()
    body.varint(len(state.streams))
    for one in state.streams.values():
        _write_stream(body, one)
    content = body.to_bytes()
    header = json.dumps(
        state.ids._asdict()
        | {"name": state.name, "since": state.since, "bytes": len(content)}
        | as_header(state.commits),
        ensure_ascii=False,
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
        size = as_number(header.get("bytes"), 0, _MOST)
        since = None if header.get("since") is None else as_generation(header["since"])
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
    _write_keys(writer, list(one.marks), mark=list(one.marks.values()))
    marks, forms = ([getattr(row, name) for row in one.rows] for name in ("mark", "format"))
    _write_keys(writer, [row.key for row in one.rows], mark=marks, format=forms)
    for row in one.rows:
        writer.blob(row.payload)
    writer.varint(len(one.sketches))
    for family, sketch in sorted(one.sketches.items()):
        writer.blob(family.encode())
        writer.blob(sketch.to_bytes())
        stretches = np.array(one.kept.get(family, []), np.int64).reshape(-1, 2)
        writer.blob(write_table({"oldest": stretches[:, 0], "newest": stretches[:, 1]}))


def _write_keys(writer: Writer, keys: Sequence[Key], **numbers: Sequence[int]) -> None:
    """Which sketches there are, in as many tables as that takes."""
    writer.varint(-(-len(keys) // MOST_ROWS))
    for begin in range(0, len(keys), MOST_ROWS):
        some = slice(begin, begin + MOST_ROWS)
        source, start, length, family = zip(*keys[some], strict=True)
        table: dict[str, Any] = {
            "source": texts(source),
            "start": np.array(start, np.int64),
            "length": np.array(length, np.int64),
            "family": texts(family),
        }
        writer.blob(write_table(table | {name: np.array(column[some], np.int64) for name, column in numbers.items()}))


def _read_keys(reader: Reader, *numbers: str) -> Iterator[tuple[Key, tuple[int, ...]]]:
    for _ in range(reader.varint()):
        table = table_of(reader.blob(), ("start", "length", *numbers), ("source", "family"))
        columns = (table[name].tolist() for name in numbers)
        yield from zip(
            zip(*(table[name].tolist() for name in _KEY), strict=True), zip(*columns, strict=True), strict=True
        )


def _read_stream(reader: Reader) -> SiteStream:
    stream = _read_settings(reader.blob())
    contribution = Contribution.from_bytes(reader.blob())
    marks = {key: mark for key, (mark,) in _read_keys(reader, "mark")}
    brought = list(_read_keys(reader, "format", "mark"))
    rows = [SketchRow(*key, form, mark, _checked(reader.blob(), key[3])) for key, (form, mark) in brought]
    if any(marks.get(row.key) != row.mark for row in rows):
        raise CorruptError("it brings a sketch that it does not list")
    sketches: dict[str, Any] = {}
    kept: dict[str, list[Stretch]] = {}
    for _ in range(reader.varint()):
        family = reader.blob().decode(errors="replace")
        sketches[family] = load(_checked(reader.blob(), family))
        stretches = table_of(reader.blob(), ("oldest", "newest"))
        kept[family] = list(zip(stretches["oldest"].tolist(), stretches["newest"].tolist(), strict=True))
    if any(not is_in_parts(family) for family in sketches) or set(contribution.tallies) != set(sketches):
        raise CorruptError("its sketches of whole streams are not those that it lists")
    for family, tally in contribution.tallies.items():
        _checked(tally, family)
    return SiteStream(stream, contribution, marks, rows, sketches, kept)


def _checked(payload: bytes, family: str) -> bytes:
    """The payload, once it is known to be a whole sketch of its family."""
    if family not in FAMILIES or load(payload).family != family:
        raise CorruptError(f"a sketch in it is not one of family {family!r}")
    return payload


def _read_settings(data: bytes) -> Stream:
    found = as_json(data)
    unit, name = found.get("unit"), as_text(found.get("name"), _LONGEST_STREAM)
    if not name or not isinstance(unit, list) or len(unit) != 2:
        raise CorruptError("the settings of a stream cannot be read")
    numerator, denominator = (as_number(number, 1, MAX_TIME) for number in unit)
    epoch = as_number(found.get("epoch"), 1, MAX_TIME)
    return Stream(name, epoch, TimeUnit(numerator, denominator), as_settings(found.get("settings")))
