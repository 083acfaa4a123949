"""The ledger of long-lived streams, packed: runs and files as columns inside the store, some 20 bytes a row.

A commit adds rows to the tables `runs` and `files`, where DuckDB takes 140 bytes for a run with its file. Once a stream
has many of them, they go to a row of `packed_ledger`, with those that are packed already. Whoever reads the ledger
reads `all_runs` and `all_files`, which `open_ledger` provides. Packs were Parquet before schema 6.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Collection, Mapping, Sequence
from typing import Final

import numpy as np

from sketches.errors import CorruptError
from store.engine import duckdb
from store.packed_columns import MOST_ROWS, Column, read_table, write_table

TABLE: Final = """CREATE TABLE packed_ledger (
        stream VARCHAR NOT NULL, ledger VARCHAR NOT NULL, first BIGINT NOT NULL, rows BIGINT NOT NULL,
        payload BLOB NOT NULL)"""
_LEDGERS: Final = ("runs", "files")
_LOOSE: Final = 64  # rows of a stream that are left as they are
_FULL: Final = 8_192  # rows of a pack to which no more are added
_CHECKSUM: Final = 8
_FORM: Final = b"WAN1"  # what a pack begins with
_PARQUET: Final = b"PAR1"  # what packs began with before

Rows = dict[str, Column]


def open_ledger(
    connection: duckdb.DuckDBPyConnection,
    columns: Mapping[str, Collection[str]] | None = None,
    streams: Sequence[str] | None = None,
) -> None:
    """Provide the views `all_runs` and `all_files` of what is packed and what is not, in this connection.

    `columns` says which columns of a ledger will be read, `streams` of which streams; the others may be missing.
    """
    found = connection.execute(
        "SELECT ledger, payload FROM packed_ledger WHERE $1 IS NULL OR list_contains($1, stream) "
        "ORDER BY ledger, stream, first",
        [streams],
    ).fetchall()
    for ledger in _LEDGERS:
        packs = [payload for of, payload in found if of == ledger]
        everything = f"FROM {ledger}"
        if packs:
            wanted = None if columns is None else columns[ledger]
            rows = _joined([_unpack(payload, wanted) for payload in packs])
            connection.register(f"wane_packed_{ledger}", rows)
            everything = f"FROM wane_packed_{ledger} UNION ALL BY NAME {everything}"
        connection.execute(f"CREATE OR REPLACE TEMP VIEW all_{ledger} AS {everything}")


def pack_ledger(connection: duckdb.DuckDBPyConnection, stream: str) -> None:
    """Pack the rows of a stream where they have become many; a run of a million files stays as it is."""
    for ledger in _LEDGERS:
        order = "run" if ledger == "runs" else "run, path"
        loose = connection.execute(f"FROM {ledger} WHERE stream = $1 ORDER BY {order}", [stream]).fetchnumpy()
        if not _LOOSE < len(loose["run"]) <= MOST_ROWS - _FULL:
            continue
        last = connection.execute(
            "SELECT first, rows, payload FROM packed_ledger WHERE stream = $1 AND ledger = $2 "
            "ORDER BY first DESC LIMIT 1",
            [stream, ledger],
        ).fetchall()
        if last and last[0][1] < _FULL:
            connection.execute(
                "DELETE FROM packed_ledger WHERE stream = $1 AND ledger = $2 AND first = $3",
                [stream, ledger, last[0][0]],
            )
            loose = _joined([_unpack(last[0][2]), loose])
        first, count = int(loose["run"][0]), len(loose["run"])
        connection.execute(
            "INSERT INTO packed_ledger VALUES ($1, $2, $3, $4, $5)", [stream, ledger, first, count, _pack(loose)]
        )
        connection.execute(f"DELETE FROM {ledger} WHERE stream = $1", [stream])


def unpack_ledger(connection: duckdb.DuckDBPyConnection, stream: str) -> None:
    """Put the packed rows of a stream back into the tables, where SQL can change them."""
    for ledger in _LEDGERS:
        packs = connection.execute(
            "SELECT payload FROM packed_ledger WHERE stream = $1 AND ledger = $2 ORDER BY first", [stream, ledger]
        ).fetchall()
        for (payload,) in packs:
            connection.register("wane_unpacked", _unpack(payload))
            connection.execute(f"INSERT INTO {ledger} BY NAME FROM wane_unpacked")
            connection.unregister("wane_unpacked")
    connection.execute("DELETE FROM packed_ledger WHERE stream = $1", [stream])


def renew_packs(connection: duckdb.DuckDBPyConnection) -> None:
    """Bring packs of schema 5 to this form: it wrote Parquet, and at last, without a schema of its own, this form."""
    packs = connection.execute("SELECT rowid, payload FROM packed_ledger").fetchall()
    for row, payload in packs:
        if payload.startswith(_PARQUET):
            renewed = _pack(_from_parquet(_checked(payload)))
            connection.execute("UPDATE packed_ledger SET payload = $1 WHERE rowid = $2", [renewed, row])


def _joined(tables: list[Rows]) -> Rows:
    joined: Rows = {}
    for name in tables[0]:
        columns = [table[name] for table in tables]
        missing = np.concatenate([np.ma.getmaskarray(column) for column in columns])
        joined[name] = np.ma.masked_array(np.concatenate([np.ma.getdata(column) for column in columns]), missing)
    return joined


def _pack(rows: Rows) -> bytes:
    """The columns, behind them a checksum."""
    content = _FORM + write_table(rows)
    return content + hashlib.blake2b(content, digest_size=_CHECKSUM).digest()


def _unpack(data: bytes, columns: Collection[str] | None = None) -> Rows:
    """What `_pack` packed, all columns or some; `CorruptError` where the bytes are damaged."""
    return read_table(_checked(data)[len(_FORM) :], columns)


def _checked(data: bytes) -> bytes:
    content, checksum = data[:-_CHECKSUM], data[-_CHECKSUM:]
    if hashlib.blake2b(content, digest_size=_CHECKSUM).digest() != checksum:
        raise CorruptError("a packed part of the ledger was changed after it was written")
    return content


def _from_parquet(content: bytes) -> Rows:
    """A pack of before; its fingerprints may be the bytes that hexadecimal digits stand for."""
    import pyarrow.parquet as pq  # noqa: PLC0415 - takes half a second, and only a migration needs it

    rows: Rows = {}
    for name, values in pq.read_table(io.BytesIO(content)).to_pydict().items():
        plain = [value.hex() if isinstance(value, bytes) else value for value in values]
        missing = np.array([value is None for value in plain])
        kind = next((type(value) for value in plain if value is not None), int)
        filler, dtype = {int: (0, "int64"), str: ("", "object")}.get(kind, (None, "datetime64[us]"))
        column = np.array([filler if value is None else value for value in plain], dtype)
        rows[name] = np.ma.masked_array(column, missing)
    return rows
