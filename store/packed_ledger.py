"""The ledger of long-lived streams, packed: runs and files as Parquet inside the store, some 20 bytes a row.

A commit adds rows to the tables `runs` and `files`, where DuckDB takes 140 bytes for a run with its file. Once a stream
has many of them, they go to a row of `packed_ledger`, with those that are packed already. Whoever reads the ledger
reads `all_runs` and `all_files`, which `open_ledger` provides.
"""

from __future__ import annotations

import hashlib
import io
from typing import Final

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from sketches.errors import CorruptError

TABLE: Final = """CREATE TABLE packed_ledger (
        stream VARCHAR NOT NULL, ledger VARCHAR NOT NULL, first BIGINT NOT NULL, rows BIGINT NOT NULL,
        payload BLOB NOT NULL)"""
_LEDGERS: Final = ("runs", "files")
_LOOSE: Final = 64  # rows of a stream that are left as they are
_FULL: Final = 8_192  # rows of a pack to which no more are added
_CHECKSUM: Final = 8
_HEX: Final = "fingerprint"  # text of hexadecimal digits, packed as the bytes that it stands for


def open_ledger(connection: duckdb.DuckDBPyConnection) -> None:
    """Provide the views `all_runs` and `all_files` of what is packed and what is not, in this connection."""
    for ledger in _LEDGERS:
        packs = connection.execute(
            "SELECT payload FROM packed_ledger WHERE ledger = $1 ORDER BY stream, first", [ledger]
        ).fetchall()
        everything = f"FROM {ledger}"
        if packs:
            connection.register(f"wane_packed_{ledger}", pa.concat_tables([_unpack(payload) for (payload,) in packs]))
            everything = f"FROM wane_packed_{ledger} UNION ALL BY NAME {everything}"
        connection.execute(f"CREATE OR REPLACE TEMP VIEW all_{ledger} AS {everything}")


def pack_ledger(connection: duckdb.DuckDBPyConnection, stream: str) -> None:
    """Pack the rows of a stream where they have become many."""
    for ledger in _LEDGERS:
        order = "run" if ledger == "runs" else "run, path"
        loose = connection.sql(f"FROM {ledger} WHERE stream = $1 ORDER BY {order}", params=[stream]).to_arrow_table()
        if len(loose) <= _LOOSE:
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
            loose = pa.concat_tables([_unpack(last[0][2]).cast(loose.schema), loose])
        first = loose["run"][0].as_py()
        connection.execute(
            "INSERT INTO packed_ledger VALUES ($1, $2, $3, $4, $5)", [stream, ledger, first, len(loose), _pack(loose)]
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


def _pack(rows: pa.Table) -> bytes:
    """As Parquet, numbers and paths as differences from the row before, behind them a checksum."""
    if _HEX in rows.column_names:
        at, texts = rows.column_names.index(_HEX), rows[_HEX].to_pylist()
        if all(_is_hex(text) for text in texts):
            rows = rows.set_column(at, _HEX, pa.array([bytes.fromhex(text) for text in texts], pa.binary()))
    constant = [name for name in rows.column_names if len(rows[name].unique()) == 1]
    encodings = {column.name: _encoding(column.type) for column in rows.schema if column.name not in constant}
    written = io.BytesIO()
    pq.write_table(
        rows, written, compression="zstd", use_dictionary=constant, column_encoding=encodings, store_schema=False
    )
    content = written.getvalue()
    return content + hashlib.blake2b(content, digest_size=_CHECKSUM).digest()


def _encoding(kind: pa.DataType) -> str:
    if pa.types.is_string(kind):
        return "DELTA_BYTE_ARRAY"
    return "PLAIN" if pa.types.is_binary(kind) else "DELTA_BINARY_PACKED"


def _is_hex(text: str) -> bool:
    """Whether nothing is lost when the text is read as hexadecimal digits and written again."""
    try:
        return bytes.fromhex(text).hex() == text
    except ValueError:
        return False


def _unpack(data: bytes) -> pa.Table:
    """What `_pack` packed; `CorruptError` where the bytes are damaged."""
    content, checksum = data[:-_CHECKSUM], data[-_CHECKSUM:]
    if hashlib.blake2b(content, digest_size=_CHECKSUM).digest() != checksum:
        raise CorruptError("a packed part of the ledger was changed after it was written")
    rows = pq.read_table(io.BytesIO(content))
    if _HEX in rows.column_names and not pa.types.is_string(rows.schema.field(_HEX).type):
        at = rows.column_names.index(_HEX)
        rows = rows.set_column(at, _HEX, pa.array([data.hex() for data in rows[_HEX].to_pylist()], pa.string()))
    return rows
