"""One ingest run at a time for a store: a lock that ends with its process, however that ends."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from sketches.errors import WaneError

_PAUSE: Final = 0.2


class RunningError(WaneError):
    """Another run of ingest is at work on the same store."""


@contextmanager
def run_lock(store: Path, wait: float = 0.0) -> Iterator[None]:
    """Hold the store's ingest lock, waiting for another run for at most so many seconds.

    The operating system drops the lock with the process; the file stays, and says who had it last.
    """
    path = store.with_name(f"{store.name}.ingest")
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
                    holder = os.pread(handle, 200, 0).decode(errors="replace").strip() or "no longer known"
                    raise RunningError(
                        f"another run of ingest is at work on {store} ({holder}); --wait 10m waits for it"
                    ) from None
            time.sleep(_PAUSE)
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"process {os.getpid()}, since {datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC\n".encode(), 0)
        yield
    finally:
        os.close(handle)
