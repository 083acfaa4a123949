"""The ledger: which files were read by which run, so that no file is counted twice."""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import duckdb
import pyarrow as pa

from sketches.records import dataclass
from store.database import WAIT, StoreError, connected
from store.packed_ledger import open_ledger, pack_ledger, unpack_ledger
from store.schema import check, migrate
from store.writing.run import InputFile, Run

BATCH: Final = "batch "  # begins the names of what came from a query, and is no file
_BLOCK: Final = 1 << 20


class AlreadyIngestedError(StoreError):
    """A file of the run is in the ledger already: by its path, or by its content."""


@dataclass(frozen=True, slots=True)
class KnownFile:
    """A file in the ledger and the run that brought it.

    `modified` is 0 where a store of schema 1 did not say. Then size and fingerprint tell whether the file has changed.
    """

    run: int
    path: str
    size: int
    fingerprint: str
    modified: int
    rows: int
    oldest: int | None
    newest: int | None


def fingerprint(path: str) -> str:
    """A fingerprint of the whole content: 128 bits of BLAKE2b. What is not a plain file is an `OSError`: a pipe would
    be waited for, and a device read for ever."""
    digest = hashlib.blake2b(digest_size=16)
    with open(path, "rb", opener=_without_waiting) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(None, "it is not a plain file")
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def content_of(path: str, mark: str, expressions: Iterable[str]) -> str:
    """A fingerprint of what a file brings: its content, and what folders named key=value add to each of its rows.

    Only keys that an expression names count; else the same bytes in another folder are a copy.
    """
    folders = [part for part in Path(path).parts[:-1] if "=" in part]
    named = {word.lower() for text in expressions for word in re.findall(r"\w+", text)} if folders else set()
    told = [part for part in folders if part.partition("=")[0].lower() in named]
    return hashlib.blake2b("/".join([mark, *told]).encode(), digest_size=16).hexdigest() if told else mark


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)


def known_files(path: str | Path, stream: str) -> list[KnownFile]:
    """The files of a stream that were read so far; an empty list where there is no store yet.

    A store of an older schema is brought up to date first, because whoever asks is about to write.
    """
    file = Path(path)
    if not file.exists():
        return []
    migrate(file, WAIT)
    with connected(file, write=False) as connection:
        check(connection, file)
        return files_in(connection, stream)


def files_in(connection: duckdb.DuckDBPyConnection, stream: str) -> list[KnownFile]:
    """The files of a stream in an open store, by run and path."""
    open_ledger(connection)
    rows = connection.execute(
        "SELECT run, path, size, fingerprint, modified, rows, oldest, newest FROM all_files WHERE stream = $1 "
        "ORDER BY run, path",
        [stream],
    ).fetchall()
    return [KnownFile(*row) for row in rows]


def write_ledger(
    connection: duckdb.DuckDBPyConnection,
    run: Run,
    generation: int,
    *,
    sketches: int,
    late: int,
    size: int,
    repeats: int,
) -> None:
    """Enter a run with its files and rejects; `AlreadyIngestedError` where it brings a known file.

    `repeats` are those inside the run and those of what was stored before, as far as they were seen.
    """
    name = run.stream.name
    _forget(connection, name, run.replaced_files)
    open_ledger(connection)
    _write_files(connection, name, run.files, generation)
    rejected = sum(reject.rows for reject in run.rejects)
    connection.execute(
        "INSERT INTO runs VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
        [
            *(generation, name, run.started, run.finished, run.rows, rejected, run.conflicts),
            *(sketches, late, size, repeats, run.ahead),
        ],
    )
    for reject in run.rejects:
        connection.execute(
            "INSERT INTO rejects VALUES ($1, $2, $3, $4, $5)",
            [generation, name, reject.reason, reject.rows, json.dumps(list(reject.examples), default=str)],
        )
    pack_ledger(connection, name)
    open_ledger(connection)


def _forget(connection: duckdb.DuckDBPyConnection, stream: str, paths: Sequence[str]) -> None:
    if paths:
        unpack_ledger(connection, stream)
        connection.execute("DELETE FROM files WHERE stream = $1 AND path IN (SELECT unnest($2))", [stream, list(paths)])


def _write_files(
    connection: duckdb.DuckDBPyConnection, stream: str, files: Sequence[InputFile], generation: int
) -> None:
    if not files:
        return
    columns = {
        "path": pa.array([file.path for file in files], pa.string()),
        "size": pa.array([file.size for file in files], pa.int64()),
        "fingerprint": pa.array([file.fingerprint for file in files], pa.string()),
        "rows": pa.array([file.rows for file in files], pa.int64()),
        "modified": pa.array([file.modified for file in files], pa.int64()),
        "oldest": pa.array([file.oldest for file in files], pa.int64()),
        "newest": pa.array([file.newest for file in files], pa.int64()),
    }
    _refuse_repeats(stream, files)
    connection.register("wane_files", pa.table(columns))
    _refuse_known(connection, stream)
    connection.execute("INSERT INTO files SELECT $1, $2, * FROM wane_files", [generation, stream])
    connection.unregister("wane_files")


def _refuse_repeats(stream: str, files: Sequence[InputFile]) -> None:
    """Refuse a run that brings a file twice."""
    paths = Counter(file.path for file in files)
    contents = Counter(file.fingerprint for file in files if file.rows > 0)
    for file in files:
        if paths[file.path] > 1 or (file.rows > 0 and contents[file.fingerprint] > 1):
            raise AlreadyIngestedError(
                f"{file.path} of stream {stream!r}, or its content, is in this run twice; nothing was written"
            )


def _refuse_known(connection: duckdb.DuckDBPyConnection, stream: str) -> None:
    known = connection.execute(
        "WITH old AS (FROM all_files WHERE stream = $1) "
        "SELECT new.path, old.path, old.run FROM wane_files AS new JOIN old ON new.path = old.path UNION ALL "
        "SELECT new.path, old.path, old.run FROM wane_files AS new JOIN old ON new.fingerprint = old.fingerprint "
        "WHERE new.rows > 0 AND old.rows > 0 ORDER BY ALL",
        [stream],
    ).fetchall()
    if known:
        path, as_path, run = known[0]
        content = "" if path == as_path else f"has the content of {as_path}, which "
        raise AlreadyIngestedError(
            f"{path} {content}was ingested by run {run} of stream {stream!r} already; nothing was written"
        )
