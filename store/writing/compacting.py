"""Writing a store anew, so that its file holds what is stored and nothing else: no free room, and no byte of what was
deleted."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import duckdb

from sketches.formatting import size_text
from sketches.records import dataclass
from store.database import WAIT, StoreError, connected, copy_of, remove_unfinished, write_new
from store.schema import NEXT_COMMIT, TABLES, check, migrate

TABLE_NAMES: Final = (
    "wane",
    "streams",
    "epochs",
    "packed_sources",
    "heads",
    "segments",
    "sketches",
    "set_aside",
    "runs",
    "files",
    "rejects",
    "packed_ledger",
    "sites",
    "commits",
)
OF_STREAMS: Final = tuple(name for name in TABLE_NAMES if name not in ("wane", "commits"))


@dataclass(frozen=True, slots=True)
class Compacted:
    """The bytes of the file before and after; `dry_run` where nothing was changed."""

    path: Path
    before: int
    after: int
    dry_run: bool

    def as_dict(self) -> dict[str, object]:
        return {"before": self.before, "after": self.after, "dry_run": self.dry_run}

    def sentence(self) -> str:
        verb = "would take" if self.dry_run else "takes"
        return f"{self.path} {verb} {size_text(self.after)}; before, {size_text(self.before)}"


def compact(path: str | Path, *, wait: float = WAIT, dry_run: bool = False) -> Compacted:
    """Write the store anew and put it in the place of the old file, all of it or nothing.

    Readers see the old file or the new one. With `dry_run` the new file is only measured.
    """
    file = Path(path).resolve()  # a link stays one
    if not file.exists():
        raise StoreError(f"{file} does not exist; `wane ingest` creates it")
    migrate(file, wait)
    before = file.stat().st_size
    with connected(file, write=True, wait=wait) as connection:
        check(connection, file)
        connection.execute("CHECKPOINT")  # so that no write-ahead log is left behind
        with written_anew(connection, file, *NEXT_COMMIT) as copy:
            after = copy.stat().st_size
            if dry_run:
                copy.unlink()
            else:
                copy.replace(file)
    return Compacted(file, before, after, dry_run)


@contextmanager
def written_anew(connection: duckdb.DuckDBPyConnection, file: Path, *statements: str) -> Iterator[Path]:
    """A whole copy of a store beside its file, to be put in the file's place or removed.

    That must happen while the old file is locked by this connection: nobody can commit to it in between. It holds what
    the connection sees, an open transaction included, and what the statements do to it. Whoever is killed meanwhile
    leaves the file as it is, and the next one who writes removes the copy.
    """
    remove_unfinished(file)
    copy = copy_of(file)
    try:
        write_new(copy, list(TABLES))
        _copy_rows(connection, copy, *statements)
        shutil.copymode(file, copy)
        yield copy
    except BaseException:
        remove_unfinished(file)
        raise


def _copy_rows(connection: duckdb.DuckDBPyConnection, to: Path, *statements: str) -> None:
    """Write every row of every table to a new store, and execute these statements there."""
    with duckdb.connect(str(to)) as other:
        other.begin()
        for name in TABLE_NAMES:
            other.execute(f"DELETE FROM {name}")
            other.register("rows_of_table", connection.sql(f"FROM {name}").to_arrow_table())
            other.execute(f"INSERT INTO {name} FROM rows_of_table")
            other.unregister("rows_of_table")
        for statement in statements:
            other.execute(statement)
        other.commit()
        other.execute("CHECKPOINT")
