"""How much room a store takes on disk. DuckDB writes changed rows behind the others and leaves the room of the old ones
free: after a commit that rewrites most of a store, the file has twice the size of what it holds."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import duckdb

from store.database import bytes_used, file_bytes
from store.writing.compacting import written_anew

_ROOM: Final = 1.3  # times what is in use that a file may take
_MORE: Final = 1 << 17  # bytes besides
_MUCH_MORE: Final = 1 << 19  # besides what rows take by an estimate
_ROW: Final = 100  # bytes of a row without its payload or its longest texts


def live_bytes(connection: duckdb.DuckDBPyConnection) -> int:
    """The bytes of all payloads."""
    sizes = [f"SELECT coalesce(sum(bytes), 0) AS bytes FROM {table}" for table in ("sketches", "heads", "segments")]
    return int(connection.execute(f"SELECT sum(bytes) FROM ({' UNION ALL '.join(sizes)})").fetchall()[0][0])


def _held_bytes(connection: duckdb.DuckDBPyConnection) -> int:
    """About the bytes of all rows, at the most: blocks in use hold deleted rows too."""
    texts = [
        "SELECT sum(octet_length(payload)) FROM packed_sources",
        "SELECT sum(octet_length(payload)) FROM set_aside",
        "SELECT sum(octet_length(payload)) FROM packed_ledger",
        "SELECT sum(octet_length(payload)) FROM sites",
    ]
    texts += ["SELECT sum(strlen(path) + strlen(fingerprint)) FROM files", "SELECT sum(strlen(examples)) FROM rejects"]
    texts += ["SELECT 16 * count(*) FROM commits"]
    rows = [f"SELECT {_ROW} * count(*) FROM {table}" for table in ("sketches", "epochs", "runs", "files", "rejects")]
    more = " UNION ALL ".join(f"({query})" for query in texts + rows)
    return live_bytes(connection) + int(
        connection.execute(f"SELECT coalesce(sum(one), 0) FROM ({more}) AS held(one)").fetchall()[0][0]
    )


def settle(connection: duckdb.DuckDBPyConnection, file: Path) -> None:
    """Write the store anew beside its file where that has much free room, and put it in its place.

    To write rows once more inside the file is not enough: where they are more than before, the last of them come to lie
    behind all the free room. The copy is the same commit.
    """
    file = file.resolve()  # a link stays one
    size = file_bytes(connection)
    if size <= _ROOM * bytes_used(connection) + _MORE and size <= _ROOM * _held_bytes(connection) + _MUCH_MORE:
        return
    with written_anew(connection, file) as copy:
        copy.replace(file)
