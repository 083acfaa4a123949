"""The locks beside a store's file. The operating system drops a lock when its process ends, however it ends.

`NAME.lock` lets a writer in although readers come one after the other. `NAME.ingest` makes sure that only one run of
ingest works at a time. DuckDB has a third lock, on the file itself; `store.database` waits for it.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from sketches.errors import WaneError

_SHORT_PAUSE: Final = 0.005  # seconds between two attempts of a reader or writer
_RUN_PAUSE: Final = 0.2  # seconds between two attempts of an ingest run


@contextmanager
def closed_to_readers(path: Path, deadline: float) -> Iterator[None]:
    """Keep out readers that have not opened the store yet, so that a writer gets its turn."""
    try:
        handle = os.open(_lock_of(path), os.O_RDONLY | os.O_CREAT, 0o666)
    except OSError:  # the lock cannot be created: then there is only DuckDB's own
        yield
        return
    try:
        _take(handle, fcntl.LOCK_EX, deadline)
        yield
    finally:
        os.close(handle)


def wait_for_writer(path: Path, deadline: float) -> None:
    """Wait while a writer keeps readers out."""
    with suppress(OSError):  # nobody has written yet, or the lock cannot be read
        handle = os.open(_lock_of(path), os.O_RDONLY)
        try:
            _take(handle, fcntl.LOCK_SH, deadline)
        finally:
            os.close(handle)


def _lock_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.lock")


def _take(handle: int, kind: int, deadline: float) -> None:
    """Take the lock, or go on without it at the deadline: DuckDB then says who has the file."""
    while True:
        with suppress(BlockingIOError):
            return fcntl.flock(handle, kind | fcntl.LOCK_NB)
        if time.monotonic() >= deadline:
            return None
        time.sleep(_SHORT_PAUSE)


class RunningError(WaneError):
    """Another run of ingest is at work on the same store."""


@contextmanager
def run_lock(store: Path, wait: float = 0.0) -> Iterator[None]:
    """Hold the store's ingest lock, waiting for another run for at most so many seconds.

    The file stays when the lock is dropped, and says who had it last.
    """
    path = store.with_name(f"{store.name}.ingest")

    def taken(handle: int) -> WaneError:
        holder = os.pread(handle, 200, 0).decode(errors="replace").strip() or "no longer known"
        return RunningError(f"another run of ingest is at work on {store} ({holder}); --wait 10m waits for it")

    with locked(path, wait, _RUN_PAUSE, taken) as handle:
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"process {os.getpid()}, since {datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC\n".encode(), 0)
        yield


@contextmanager
def locked(path: Path, wait: float, pause: float, taken: Callable[[int], WaneError]) -> Iterator[int]:
    """Hold the lock of a file of its own, trying for so many seconds, with a pause between two attempts; `taken` tells
    from the open file what is said when somebody else keeps it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise WaneError(f"{path} cannot be written: {error.strerror}") from None
    try:
        deadline = time.monotonic() + wait
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise taken(handle) from None
            time.sleep(pause)
        yield handle
    finally:
        os.close(handle)
