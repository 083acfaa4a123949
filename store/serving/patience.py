"""What a person at a terminal is told while a command takes long."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, TextIO

WAIT: Final = 1.0  # seconds before anything is said
_ERASED: Final = "\r\x1b[K"  # the line, on a terminal


@contextmanager
def saying(what: str, out: TextIO | None = None, wait: float = WAIT) -> Iterator[None]:
    """Say what is done meanwhile, where it takes longer than a second; the line is gone afterwards.

    Nothing is said where standard error is no terminal, such as to cron or a pipe.
    """
    to = out or sys.stderr
    if not to.isatty():
        yield
        return
    said = threading.Event()

    def say() -> None:
        said.set()
        to.write(f"{what} …")
        to.flush()

    timer = threading.Timer(wait, say)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        if said.is_set():
            to.write(_ERASED)
            to.flush()
