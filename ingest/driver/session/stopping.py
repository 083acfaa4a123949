"""A run that is told to stop, by Ctrl-C or SIGTERM, commits nothing, and clears away what it had put on the disk.
What comes when it is about to commit comes too late: the run ends well a moment later.

Without it SIGTERM ends the process on the spot. And pyspark's own handler of SIGINT first cancels the jobs: where its
KeyboardInterrupt is lost, as in a destructor, a stream has failed and the others are committed without it.
"""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class Stopped(KeyboardInterrupt):
    """A signal told this process to stop."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.exit_code = 128 + number  # as a shell reports it


class Stopping:
    """The signals that told a run to stop."""

    def __init__(self) -> None:
        self._came: list[int] = []
        self._too_late = False

    def check(self) -> None:
        """Raise `Stopped` again, if a signal came: who caught the first may not have known it."""
        if self._came:
            raise Stopped(self._came[0])

    def last_call(self) -> None:
        """Raise it for the last time: from now on signals come too late."""
        self._too_late = True
        self.check()

    def stop(self, number: int, frame: FrameType | None) -> None:
        """What a signal calls."""
        if not self._too_late:
            self._came.append(number)
            raise Stopped(number)


@contextmanager
def stoppable() -> Iterator[Stopping]:
    """Raise `Stopped` where one of the signals comes inside the block.

    A signal that is ignored stays so: a shell has processes in the background ignore Ctrl-C.
    """
    stopping = Stopping()
    root = logging.getLogger()
    root.addFilter(_is_news)
    try:
        with kept_handlers():
            if _settable():
                for number in SIGNALS:
                    if signal.getsignal(number) is not signal.SIG_IGN:
                        signal.signal(number, stopping.stop)
            yield stopping
    except Exception:
        stopping.check()  # DuckDB makes another error of what is raised while it works
        raise
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
