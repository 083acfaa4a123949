"""A run that is told to stop, by Ctrl-C or SIGTERM, commits nothing, and clears away what it had put on the disk.

Without it SIGTERM ends the process on the spot. And pyspark's own handler of SIGINT first cancels the jobs: where its
KeyboardInterrupt is lost, as in a destructor, a stream has failed and the others are committed without it.
"""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class Stopped(KeyboardInterrupt):
    """A signal told this process to stop."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.exit_code = 128 + number  # as a shell reports it


@contextmanager
def stoppable() -> Iterator[Callable[[], None]]:
    """Raise `Stopped` where one of the signals comes inside the block. What is yielded raises it again, if one came.

    A signal that is ignored stays so: a shell has processes in the background ignore Ctrl-C.
    """
    came: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        came.append(number)
        raise Stopped(number)

    def check() -> None:
        if came:
            raise Stopped(came[0])

    root = logging.getLogger()
    root.addFilter(_is_news)
    try:
        with kept_handlers():
            if _settable():
                for number in SIGNALS:
                    if signal.getsignal(number) is not signal.SIG_IGN:
                        signal.signal(number, stop)
            yield check
    finally:
        root.removeFilter(_is_news)


@contextmanager
def kept_handlers() -> Iterator[None]:
    """Have the handlers of these signals afterwards as they are now, whoever sets others inside the block."""
    if not _settable():
        yield
        return
    before: dict[signal.Signals, Any] = {number: signal.getsignal(number) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _settable() -> bool:
    """Python lets only the main thread set handlers."""
    return threading.current_thread() is threading.main_thread()


def _is_news(record: logging.LogRecord) -> bool:
    """Whether a line is not py4j's own of the signal, with a stack trace."""
    return not record.getMessage().startswith("KeyboardInterrupt while")
