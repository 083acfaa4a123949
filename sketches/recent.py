"""The results found last, each under its key: for what is asked again and again, by several threads at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Found = TypeVar("Found")


class Recent(Generic[Found]):
    """Keeps as many results as told; the oldest goes first. Threads that ask for the same at once may both find it.

    >>> squares = Recent[int](kept=2)
    >>> squares.get(3, lambda: 9), squares.get(3, lambda: 0)
    (9, 9)
    """

    def __init__(self, kept: int) -> None:
        self._kept = kept
        self._found: dict[Hashable, Found] = {}
        self._lock = threading.Lock()

    def get(self, key: Hashable, find: Callable[[], Found], is_current: Callable[[], bool] | None = None) -> Found:
        """What is kept under a key, or else what `find` gives; that is kept if it `is_current` once it is found."""
        with self._lock:
            if key in self._found:
                return self._found[key]
        found = find()
        if is_current is not None and not is_current():
            return found
        with self._lock:
            self._found[key] = found
            while len(self._found) > self._kept:
                del self._found[next(iter(self._found))]
        return found
