"""The results found last, each under its key: for what is asked again and again, by several threads at once."""

from __future__ import annotations

import math
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

    def __init__(self, kept: int, *, most: float = math.inf, size: Callable[[Found], int] = lambda _: 0) -> None:
        """At most `kept` results, of `most` together by their `size`; one that is larger than a quarter is not kept."""
        self._kept, self._most, self._size = kept, most, size
        self._held = 0
        self._found: dict[Hashable, Found] = {}
        self._lock = threading.Lock()

    def get(self, key: Hashable, find: Callable[[], Found], lasts: Callable[[Found], bool] | None = None) -> Found:
        """What is kept under a key, or else what `find` gives; that is kept if it `lasts`, asked once it is found."""
        with self._lock:
            if key in self._found:
                return self._found[key]
        found = find()
        if (lasts is not None and not lasts(found)) or self._size(found) > self._most / 4:
            return found
        with self._lock:
            if key in self._found:
                self._held -= self._size(self._found.pop(key))
            self._found[key] = found
            self._held += self._size(found)
            while len(self._found) > self._kept or self._held > self._most:
                self._held -= self._size(self._found.pop(next(iter(self._found))))
        return found
