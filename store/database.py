"""Opening the store's file: one writer or many readers, each waits for its turn, and errors are one clear sentence.

DuckDB admits either one writing process or any number of reading ones. It refuses the others at once and does not
wait. So connections here are short, and both readers and writers try again until a deadline. Readers that come one
after the other could keep a writer out for ever. So a writer holds a lock of its own (`store.locks`) meanwhile.
"""

from __future__ import annotations

import errno
import glob
import os
import re
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Final

from sketches.errors import CorruptError, WaneError
from sketches.formatting import size_text
from store.engine import duckdb
from store.locks import closed_to_readers, wait_for_writer

# Readable by every DuckDB from 1.4 on, whichever newer one wrote it.
STORAGE_VERSION: Final = "v1.4.0"
BLOCK_SIZE: Final = 16 << 10  # bytes, the least there is: a store is small, and has several tables
WAIT: Final = 30.0  # seconds a reader or writer waits for its turn before it gives up

_SAFE: Final[dict[str, str | bool | int | float | list[str]]] = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}
_HOLDER: Final = re.compile(r"held in (.+?) \(PID (\d+)\)")
_DAMAGED: Final = (
    duckdb.IOException,
    duckdb.InternalException,
    duckdb.FatalException,
    duckdb.SerializationException,
)
_FIRST_PAUSE, _LONGEST_PAUSE = 0.005, 0.05
_VACUUM_TASKS: Final = 100  # DuckDB's own default
_LEAST_ROOM: Final = 1 << 20  # bytes that a small store needs for its log and a copy
_NEW, _COPY = ".new-", ".settled"  # ends of the names of what is not finished yet
_IN_THIS_PROCESS = threading.RLock()
_READ_NOW: Final[list[Path]] = []  # files that this process has open for reading; guarded by the lock


class StoreError(WaneError):
    """The file cannot be used as a store; the message says why and what to do."""


class StoreBusyError(StoreError):
    """Another process kept the file for longer than the wait."""


@contextmanager
def connected(path: Path, *, write: bool, wait: float = WAIT) -> Iterator[duckdb.DuckDBPyConnection]:
    """A short-lived connection. Those of one process take turns: DuckDB wants all for reading, or all for writing.

    Inside one for reading, another for reading opens at once.
    """
    if not path.exists():
        raise StoreError(f"{path} does not exist; `wane ingest` creates it")
    if not path.is_file():
        raise StoreError(f"{path} is not a file")
    with _IN_THIS_PROCESS, closed_to_readers(path, time.monotonic() + wait) if write else nullcontext():
        connection = _open(path, write=write, wait=wait)
        if not write:
            _READ_NOW.append(path)
        try:
            yield connection
        except (duckdb.Error, OSError) as error:
            if _is_full(error):
                raise StoreError(_full(path)) from error
            if isinstance(error, OSError):
                raise
            raise StoreError(_unusable(path, error)) from error
        except CorruptError as error:
            raise StoreError(f"{path} is damaged: {error}; restore it from a backup") from error
        finally:
            if not write:
                _READ_NOW.remove(path)
            connection.close()


def _open(path: Path, *, write: bool, wait: float) -> duckdb.DuckDBPyConnection:
    deadline = time.monotonic() + wait
    pause = _FIRST_PAUSE
    while True:
        if not write and path not in _READ_NOW:  # a writer that waits for us would be waited for
            wait_for_writer(path, deadline)
        try:
            return duckdb.connect(str(path), read_only=not write, config=dict(_SAFE))
        except (duckdb.IOException, duckdb.ConnectionException) as error:
            if not _is_locked(error):
                raise StoreError(_unreadable(path, error)) from error
            if time.monotonic() >= deadline:
                raise StoreBusyError(f"{path} is in use by {_holder(error)}; waited {wait:.0f} s") from error
        except duckdb.Error as error:
            raise StoreError(_unreadable(path, error)) from error
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)


def abandon(connection: duckdb.DuckDBPyConnection) -> None:
    """Take back what was begun. After some errors, such as a full disk, DuckDB has done so by itself; the error that
    led here is the one to tell."""
    with suppress(duckdb.Error):
        connection.rollback()


def create(path: Path, statements: list[str]) -> None:
    """Create a file and execute these statements in it. The file gets its name only when it is complete.

    Another process may create it at the same time, in a folder of its own. The file of the first to finish is kept, and
    its first commit removes the folders of the others.
    """
    try:
        with tempfile.TemporaryDirectory(prefix=f".{path.name}{_NEW}", dir=path.parent) as folder:
            unfinished = Path(folder, path.name)
            write_new(unfinished, statements)
            with suppress(FileExistsError):
                path.hardlink_to(unfinished)  # unlike a rename, this never takes the place of another file
    except (OSError, duckdb.Error) as error:
        if path.exists():
            return
        if _is_full(error):
            raise StoreError(_full(path)) from error
        reason = error.strerror if isinstance(error, OSError) else _first_line(error)
        raise StoreError(f"{path} cannot be created: {reason}") from error


def write_new(path: Path, statements: list[str]) -> None:
    """Write a new file under its name and execute these statements in it."""
    settings = _SAFE | {"storage_compatibility_version": STORAGE_VERSION, "default_block_size": str(BLOCK_SIZE)}
    with duckdb.connect(str(path), config=settings) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.execute("CHECKPOINT")


def copy_of(path: Path) -> Path:
    """Where a store is written anew, before that takes the place of its file."""
    return path.with_name(f".{path.name}{_COPY}")


def remove_unfinished(path: Path) -> None:
    """Remove what killed processes left beside a store; only whoever has it open for writing may."""
    unfinished = copy_of(path)
    for left in (unfinished, unfinished.with_name(f"{unfinished.name}.wal")):
        left.unlink(missing_ok=True)
    for folder in path.parent.glob(f".{glob.escape(path.name)}{_NEW}*"):
        shutil.rmtree(folder, ignore_errors=True)


def bytes_used(connection: duckdb.DuckDBPyConnection) -> int:
    """The bytes of the file's blocks that are in use. Later commits use the free ones again."""
    rows = connection.execute("SELECT block_size * used_blocks FROM pragma_database_size()").fetchall()
    return int(rows[0][0])


def file_bytes(connection: duckdb.DuckDBPyConnection) -> int:
    """The bytes of all blocks of the file, the free ones among them."""
    rows = connection.execute("SELECT block_size * total_blocks FROM pragma_database_size()").fetchall()
    return int(rows[0][0])


def vacuum(connection: duckdb.DuckDBPyConnection, *, wanted: bool) -> None:
    """Set whether the next checkpoint packs the rows of tables again.

    By default DuckDB does so at every commit: for each new payload it writes up to 122,880 others again. Without it,
    deleted rows keep their room, and blocks stay almost empty.
    """
    connection.execute(f"SET max_vacuum_tasks = {_VACUUM_TASKS if wanted else 0}")


def _is_locked(error: duckdb.Error) -> bool:
    text = str(error)
    return "Could not set lock" in text or "different configuration" in text


def _holder(error: duckdb.Error) -> str:
    found = _HOLDER.search(str(error))
    return f"process {found[2]} ({Path(found[1]).name})" if found else "another process"


def _unreadable(path: Path, error: duckdb.Error) -> str:
    text = str(error)
    if _is_full(error):
        return _full(path)
    if path.stat().st_size == 0:
        return f"{path} is empty, not a wane store; remove it to let `wane ingest` create one"
    if "not a valid DuckDB" in text:
        return f"{path} is not a DuckDB database, hence not a wane store"
    if "newer version" in text or "version number" in text or "Storage Version" in text:
        return f"{path} was written by a newer DuckDB than {duckdb.__version__}; update wane's packages to read it"
    return f"{path} cannot be opened: {_first_line(error)}"


def _unusable(path: Path, error: duckdb.Error) -> str:
    text = _first_line(error)
    if isinstance(error, duckdb.CatalogException | duckdb.BinderException):
        return f"{path} is a DuckDB database, but not a whole wane store: {text}"
    if isinstance(error, _DAMAGED) or "Corrupt database" in text:
        return f"{path} is damaged and cannot be read: {text}"
    return f"{path} cannot be used: {text}"


def _is_full(error: BaseException) -> bool:
    full = os.strerror(errno.ENOSPC)
    return getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT) or full in str(error)


def _full(path: Path) -> str:
    """What to say where a disk is full. A commit writes to the log, then to the file, and may write the file anew."""
    files = (path, path.with_name(f"{path.name}.wal"))
    needed = max(_LEAST_ROOM, 2 * sum(file.stat().st_size for file in files if file.exists()))
    free = size_text(shutil.disk_usage(path.parent).free)
    return (
        f"the disk of {path} is full: {free} are free, and a commit needs up to {size_text(needed)} besides what it "
        "brings; make room, and run it again"
    )


def _first_line(error: duckdb.Error) -> str:
    return str(error).splitlines()[0][:300]
