"""How much room a store takes on disk. DuckDB writes changed rows behind the others and leaves the room of the old ones
free: after a commit that rewrites most of a store, the file has twice the size of what it holds."""

from __future__ import annotations

from typing import Final

import duckdb

from store.database import bytes_used, file_bytes

_ROOM: Final = 1.3  # times what is in use that a file may take
_MORE: Final = 1 << 17  # bytes besides
_PARTS: Final = ("heads", "segments")


def live_bytes(connection: duckdb.DuckDBPyConnection) -> int:
    """The bytes of all payloads."""
    sizes = [f"SELECT coalesce(sum(bytes), 0) AS bytes FROM {table}" for table in ("sketches", *_PARTS)]
    return int(connection.execute(f"SELECT sum(bytes) FROM ({' UNION ALL '.join(sizes)})").fetchall()[0][0])


def settle(connection: duckdb.DuckDBPyConnection) -> None:
    """Write the parts of sketches once more where the file has much free room: they move to its beginning, and it is
    cut behind them. All of it or nothing, as a commit."""
    if file_bytes(connection) <= _ROOM * bytes_used(connection) + _MORE:
        return
    connection.begin()
    try:
        for table in _PARTS:
            connection.execute(f"CREATE OR REPLACE TEMP TABLE again AS FROM {table}")
            connection.execute(f"DELETE FROM {table}")
            connection.execute(f"INSERT INTO {table} FROM again")
            connection.execute("DROP TABLE again")
        connection.commit()
    except BaseException:
        connection.rollback()
        raise
    connection.execute("CHECKPOINT")
