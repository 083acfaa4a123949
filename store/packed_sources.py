"""The totals of a stream's sources, packed as columns in one row: a stream may have tens of thousands of sources.

DuckDB would take 42 bytes for each. A commit unpacks them into a temporary table `sources`, which SQL can change, and
packs them again at its end.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from sketches.arrays import Floats, Ints, Words
from sketches.encoding.byte_planes import read_block, read_planes, write_block, write_planes
from sketches.errors import CorruptError
from store.engine import duckdb

TABLE: Final = "CREATE TABLE packed_sources (stream VARCHAR NOT NULL, payload BLOB NOT NULL)"
UNPACKED: Final = """CREATE OR REPLACE TEMP TABLE sources (
    stream VARCHAR, source VARCHAR, events BIGINT, weight DOUBLE, oldest BIGINT, newest BIGINT, latest BIGINT)"""
_CHECKSUM: Final = 8
_MOST_SOURCES: Final = 1 << 22  # of a stream: what is announced is allocated
_COUNTS: Final = 16  # bytes of the number of sources and of the bytes of their names


class SourceColumns(NamedTuple):
    """The totals of all sources of a stream, in the order of their names."""

    names: Sequence[str]
    events: Ints
    weight: Floats
    oldest: Ints
    newest: Ints
    latest: Ints


def pack(sources: SourceColumns) -> bytes:
    """The columns as bytes: names, then numbers as differences that are small."""
    lengths = np.array([len(name.encode()) for name in sources.names], np.uint64)
    texts = "".join(sources.names).encode()
    body = [
        len(sources.names).to_bytes(8, "little"),
        len(texts).to_bytes(8, "little"),
        write_planes(lengths),
        write_block(texts),
        write_planes(sources.events.view(np.uint64)),
        write_planes(np.ascontiguousarray(sources.weight).view(np.uint64)),
        _write_times(sources.oldest),
        write_planes((sources.newest - sources.oldest).view(np.uint64)),
        write_planes((sources.newest - sources.latest).view(np.uint64)),
    ]
    content = b"".join(body)
    return content + hashlib.blake2b(content, digest_size=_CHECKSUM).digest()


def unpack(data: bytes) -> SourceColumns:
    """What `pack` packed; `CorruptError` where the bytes are damaged."""
    content, checksum = memoryview(data)[:-_CHECKSUM], data[-_CHECKSUM:]
    if len(data) < _COUNTS + _CHECKSUM or hashlib.blake2b(content, digest_size=_CHECKSUM).digest() != checksum:
        raise CorruptError("the totals of the sources were changed after they were written")
    count, size = (int.from_bytes(content[at : at + 8], "little") for at in (0, 8))
    if count > _MOST_SOURCES:
        raise CorruptError(f"the totals are said to be of {count:,} sources; {_MOST_SOURCES:,} is the most")
    lengths, position = read_planes(content, _COUNTS, count)
    texts, position = read_block(content, position, size)
    ends = np.cumsum(lengths.astype(np.int64)).tolist()
    try:
        names = [texts[begin:end].decode() for begin, end in zip([0, *ends[:-1]], ends, strict=True)] if count else []
    except UnicodeDecodeError as error:
        raise CorruptError("the name of a source is not UTF-8") from error
    events, position = read_planes(content, position, count)
    weight, position = read_planes(content, position, count)
    first = int.from_bytes(content[position : position + 8], "little", signed=True)
    since, position = read_planes(content, position + 8, count)
    lived, position = read_planes(content, position, count)
    ahead, position = read_planes(content, position, count)
    oldest = first + _signed(since)
    newest = oldest + _signed(lived)
    return SourceColumns(names, _signed(events), weight.view(np.float64), oldest, newest, newest - _signed(ahead))


def _write_times(times: Ints) -> bytes:
    first = int(times.min()) if len(times) else 0
    return first.to_bytes(8, "little", signed=True) + write_planes((times - first).view(np.uint64))


def _signed(column: Words) -> Ints:
    return column.view(np.int64)


def read_sources(
    connection: duckdb.DuckDBPyConnection, streams: Sequence[str] | None = None
) -> dict[str, SourceColumns]:
    """The sources of these streams, or of all; a stream without events is left out."""
    rows = connection.execute(
        "SELECT stream, payload FROM packed_sources WHERE $1 IS NULL OR list_contains($1, stream)", [streams]
    ).fetchall()
    found: dict[str, SourceColumns] = {}
    for stream, payload in rows:
        try:
            found[stream] = unpack(payload)
        except CorruptError as error:
            raise CorruptError(f"stream {stream!r}: {error}") from error
    return found


def open_sources(connection: duckdb.DuckDBPyConnection) -> None:
    """Unpack the sources of all streams into the temporary table `sources`."""
    connection.execute(UNPACKED)
    for stream, found in read_sources(connection).items():
        connection.register("wane_unpacked", found._asdict() | {"names": np.array([*found.names, None], object)[:-1]})
        connection.execute("INSERT INTO sources SELECT $1, * FROM wane_unpacked", [stream])
        connection.unregister("wane_unpacked")


def close_sources(connection: duckdb.DuckDBPyConnection) -> None:
    """Pack the temporary table again, the streams that have changed, and drop it."""
    stored = dict(connection.execute("SELECT stream, payload FROM packed_sources").fetchall())
    streams = {stream for (stream,) in connection.execute("SELECT DISTINCT stream FROM sources").fetchall()}
    for stream in sorted(streams | set(stored)):
        rows = connection.execute(
            "SELECT source, events, weight, oldest, newest, latest FROM sources WHERE stream = $1 ORDER BY source",
            [stream],
        ).fetchnumpy()
        names = [str(name) for name in rows["source"]]
        numbers = [np.asarray(rows[name]) for name in SourceColumns._fields[1:]]
        payload = pack(SourceColumns(names, *numbers)) if names else b""
        if payload != stored.get(stream, b""):
            connection.execute("DELETE FROM packed_sources WHERE stream = $1", [stream])
            if payload:
                connection.execute("INSERT INTO packed_sources VALUES ($1, $2)", [stream, payload])
    connection.execute("DROP TABLE sources")
