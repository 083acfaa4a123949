"""The tables behind the catalogue, of some streams: one query each, however many streams there are."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby, pairwise
from operator import itemgetter
from sys import intern
from typing import Any, Final

import numpy as np

from sketches.encoding.envelope import BEGINNING
from store.engine import duckdb
from store.packed_ledger import open_ledger

_READ: Final = {"runs": ("stream", "rows", "rejected"), "files": ("run", "stream", "oldest", "newest")}  # of the ledger
_AMONG: Final = "JOIN (SELECT unnest($streams) AS stream) USING (stream)"

Columns = list[list[Any]]


def epochs(connection: duckdb.DuckDBPyConnection, streams: Sequence[str]) -> Iterator[tuple[str, Columns]]:
    """Of each stream that has epochs: start, length, events, weight, oldest, newest, latest."""
    query = "SELECT start, length, events, weight, oldest, newest, latest, stream FROM epochs"
    for (stream,), columns in _split(connection, query, ["stream"], streams, "start, length"):
        yield stream, columns


def sketches(connection: duckdb.DuckDBPyConnection, streams: Sequence[str]) -> Iterator[tuple[str, str, Columns]]:
    """Of each stream and family that has sketches by source or epoch: source, start, length, commit, bytes."""
    query = "SELECT source, start, length, generation, bytes, stream, family FROM sketches"
    for (stream, family), columns in _split(connection, query, ["stream", "family"], streams, "sketches.rowid"):
        yield stream, family, columns


def sketches_in_parts(
    connection: duckdb.DuckDBPyConnection, streams: Sequence[str]
) -> Sequence[tuple[str, str, int, int, bytes]]:
    """Of each sketch of a whole stream: stream, family, the commit that wrote it last, bytes, and how its head begins.

    Whoever changes one of its parts writes its head.
    """
    return connection.execute(
        "SELECT stream, family, max(generation), sum(bytes)::BIGINT, any_value(beginning) FROM ("
        f"SELECT stream, family, generation, bytes, payload[1:{BEGINNING}] AS beginning FROM heads UNION ALL "
        f"SELECT stream, family, NULL, bytes, NULL FROM segments) {_AMONG} GROUP BY stream, family "
        "ORDER BY stream, family",
        {"streams": streams},
    ).fetchall()


def set_aside(
    connection: duckdb.DuckDBPyConnection, streams: Sequence[str]
) -> Sequence[tuple[str, str, int, int, str, str]]:
    """Stream, source, start, length, family and reason of each payload that was set aside."""
    return connection.execute(
        f"SELECT stream, source, start, length, family, reason FROM set_aside {_AMONG}", {"streams": streams}
    ).fetchall()


def open_runs(connection: duckdb.DuckDBPyConnection, streams: Sequence[str]) -> None:
    """Unpack the ledger of these streams, for `spans` and `rejected`."""
    open_ledger(connection, _READ, streams)


def spans(connection: duckdb.DuckDBPyConnection, streams: Sequence[str]) -> dict[str, list[tuple[int, int]]]:
    """The oldest and the newest event that each run of a stream read."""
    rows = connection.execute(
        f"SELECT stream, min(oldest), max(newest) FROM all_files {_AMONG} WHERE oldest IS NOT NULL "
        "GROUP BY stream, run ORDER BY ALL",
        {"streams": streams},
    ).fetchall()
    return {stream: [(oldest, newest) for _, oldest, newest in some] for stream, some in groupby(rows, itemgetter(0))}


def rejected(connection: duckdb.DuckDBPyConnection, streams: Sequence[str]) -> Sequence[tuple[str, int, int, str]]:
    """Of each stream with rejected rows: rows read, rows rejected, and the reason for most of them.

    A backfill counts no file again, and takes back no reject.
    """
    found = connection.execute(
        f"SELECT stream, sum(rows)::BIGINT, sum(rejected)::BIGINT FROM all_runs {_AMONG} GROUP BY stream "
        "HAVING sum(rejected) > 0",
        {"streams": streams},
    ).fetchall()
    if not found:  # most often; the next query would take longer than all others of a catalogue
        return []
    reasons = connection.execute(
        "SELECT stream, arg_max(reason, (rows, reason)) FROM "
        f"(SELECT stream, reason, sum(rows) AS rows FROM rejects {_AMONG} GROUP BY ALL) GROUP BY stream",
        {"streams": [stream for stream, *_ in found]},
    ).fetchall()
    most = dict(reasons)
    return [(*row, most.get(row[0], "unknown")) for row in found]


def _split(
    connection: duckdb.DuckDBPyConnection, query: str, keys: Sequence[str], streams: Sequence[str], order: str
) -> Iterator[tuple[list[str], Columns]]:
    """The columns of a query as lists, cut where the keys change, which are its last columns; equal texts are one
    object.

    By way of numpy: rows of Python objects take five times as long, and pyarrow half a second to import.
    """
    ordered = f"{query} {_AMONG} ORDER BY {', '.join(keys)}, {order}"
    found = connection.execute(ordered, {"streams": streams}).fetchnumpy()
    texts = [found.pop(key) for key in keys]
    count = len(texts[0])
    changed = np.any([text[1:] != text[:-1] for text in texts], axis=0)
    for begin, end in pairwise([0, *(np.flatnonzero(changed) + 1).tolist(), count] if count else []):
        part = (column[begin:end] for column in found.values())
        lists = [list(map(intern, one)) if one.dtype == object else one.tolist() for one in part]
        yield [str(text[begin]) for text in texts], lists


@contextmanager
def no_collection() -> Iterator[None]:
    """Stop Python's search for cycles, which would go through all these tuples again and again: half the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
