"""Telling how far a run is: one rewritten line on a terminal, a line now and then elsewhere, none when quiet."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from ingest.driver.session.start_times import StartTimes

_LOOK: Final = 0.5  # seconds between two looks at the tasks
_LINE: Final = 30.0  # seconds between two lines where lines cannot be rewritten


class Progress:
    """Writes to standard error, so that standard output holds only the result."""

    def __init__(self, *, quiet: bool = False, start: StartTimes | None = None) -> None:
        self.start = start or StartTimes()
        self._out = sys.stderr
        self._quiet = quiet
        self._rewriting = not quiet and self._out.isatty()

    def say(self, text: str) -> None:
        if not self._quiet:
            self._out.write(f"{text}\n")
            self._out.flush()

    @contextmanager
    def watching(self, name: str, tasks: Callable[[], tuple[int, int]]) -> Iterator[None]:
        """Tell how far the work inside the block is: how many of its tasks are finished, and how many there are."""
        if self._quiet:
            yield
            return
        done = threading.Event()
        watcher = threading.Thread(target=self._watch, args=(tasks, name, done), daemon=True)
        watcher.start()
        try:
            yield
        finally:
            done.set()
            watcher.join(timeout=5.0)
            if self._rewriting:
                self._out.write("\r\x1b[K")
                self._out.flush()

    def _watch(self, tasks: Callable[[], tuple[int, int]], name: str, done: threading.Event) -> None:
        start = told = time.monotonic()
        shown = ""
        while not done.wait(_LOOK):
            try:
                finished, total = tasks()
            except Exception:  # noqa: BLE001 - the JVM may be gone, and then the job itself says so
                return
            now = time.monotonic()
            text = f"  {name}: {finished} of {total} tasks, {now - start:.0f} s"
            if self._rewriting:
                self._out.write(f"\r\x1b[K{text}")
                self._out.flush()
            elif now - told >= _LINE and text != shown:
                self.say(text)
                told, shown = now, text
