"""How everything is committed: read what is stored, merge with no connection open, then one transaction writes all of
it or nothing. Where another commit comes in between, that starts over from what the other one left."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

import duckdb

from store.database import StoreBusyError, abandon, bytes_used, connected, remove_unfinished, vacuum
from store.packed_sources import close_sources, open_sources
from store.schema import check, mark_of, name_of_commit, next_commit
from store.writing.settling import live_bytes, settle

_ROOM: Final = 1.5  # blocks in use over payloads, above which rows are packed anew: in the end the file takes 1 more

Held = TypeVar("Held")
Merged = TypeVar("Merged")


def commit_in_turn(
    file: Path,
    wait: float,
    read: Callable[[duckdb.DuckDBPyConnection], Held],
    merge: Callable[[Held], Merged | None],
    write: Callable[[duckdb.DuckDBPyConnection, Merged, int, int], int],
    before: Callable[[], None] = lambda: None,
) -> int:
    """Commit, and return the new generation; the old one where `merge` finds nothing to write.

    `write` gets what was merged, the new generation and its mark, and returns how many bytes of payload it wrote.
    `before` is called last of all, before the transaction is committed.
    """
    deadline = time.monotonic() + wait
    while True:
        with connected(file, write=False, wait=wait) as connection:
            generation, name = check(connection, file), name_of_commit(connection)
            held = read(connection)
        merged = merge(held)
        if merged is None:
            return generation
        with connected(file, write=True, wait=wait) as connection:
            remove_unfinished(file.resolve())
            check(connection, file)
            if name_of_commit(connection) == name:
                _write(connection, merged, generation + 1, write, before)
                settle(connection, file)
                return generation + 1
        if time.monotonic() >= deadline:
            raise StoreBusyError(f"{file} was changed by others each time this run was merged; waited {wait:.0f} s")


def _write(
    connection: duckdb.DuckDBPyConnection,
    merged: Merged,
    generation: int,
    write: Callable[[duckdb.DuckDBPyConnection, Merged, int, int], int],
    before: Callable[[], None],
) -> None:
    used = bytes_used(connection)
    connection.begin()
    try:
        open_sources(connection)
        used += write(connection, merged, generation, mark_of(generation))
        close_sources(connection)
        next_commit(connection)
        vacuum(connection, wanted=used > _ROOM * live_bytes(connection))
        before()
        connection.commit()
    except BaseException:
        abandon(connection)
        raise
    connection.execute("CHECKPOINT")  # a write-ahead log that is cut short loses commits without a word
