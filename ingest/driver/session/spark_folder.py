"""The folder in which a run keeps what Spark writes to the disk: its log, the code for workers, what it shuffles.

It goes with the run. Where a run was killed, the next one removes it, and ends the Java that the run had begun to
start: that would not find its folder, and stay. A lock tells whether a run still lives: the operating system drops it
when its process ends, however it ends. What ends with a run may write for a moment longer, so the lock goes last: as
long as it is there, a later run removes the rest.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

_PREFIX: Final = "wane-spark-"
_LOCK: Final = "lock"
_TOLD: Final = "_PYSPARK_DRIVER_CONN_INFO_PATH"
_ATTEMPTS: Final = 20
_PAUSE: Final = 0.1  # seconds between them
_BEGINNING: Final = 60.0  # seconds that a folder may be without a lock, which takes a run some microseconds


@contextmanager
def spark_folder() -> Iterator[Path]:
    """A new folder that ends with the block; those of runs that were killed are removed first."""
    _remove_left()
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
    handle = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield folder
    finally:
        _remove(folder)
        os.close(handle)


@contextmanager
def temporary_files_in(folder: Path) -> Iterator[None]:
    """Have Python's temporary files of this block in a folder: pyspark makes some that a kill would leave."""
    before, tempfile.tempdir = tempfile.tempdir, str(folder)
    try:
        yield
    finally:
        tempfile.tempdir = before


def _end_processes_of(folder: Path) -> None:
    """End Java and its workers of a run that is gone: pyspark told them of a file in its folder."""
    told = f"{_TOLD}={folder}/".encode()
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # somebody else's, or gone meanwhile
            if any(one.startswith(told) for one in (entry / "environ").read_bytes().split(b"\0")):
                os.kill(int(entry.name), signal.SIGKILL)


def _remove_left() -> None:
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):  # somebody else's, or gone meanwhile
            if folder.is_symlink() or folder.stat().st_uid != os.getuid():
                continue
            try:
                handle = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
            except FileNotFoundError:
                if time.time() - folder.stat().st_mtime > _BEGINNING:
                    _remove(folder)
                continue
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _end_processes_of(folder)
                _remove(folder)
            finally:
                os.close(handle)


def _remove(folder: Path) -> None:
    """Remove a folder, its lock last; where something goes on writing to it, the rest and the lock stay."""
    for attempt in range(_ATTEMPTS):
        if attempt:
            time.sleep(_PAUSE)
        with suppress(OSError):
            left = [entry for entry in folder.iterdir() if entry.name != _LOCK]
            for entry in left:
                if entry.is_dir() and not entry.is_symlink():
                    shutil.rmtree(entry, ignore_errors=True)
                else:
                    entry.unlink(missing_ok=True)
            if not any(entry.name != _LOCK for entry in folder.iterdir()):
                (folder / _LOCK).unlink(missing_ok=True)
                folder.rmdir()
                return
        if not folder.exists():
            return
