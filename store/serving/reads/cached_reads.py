"""What was read of a store and is kept for the next question: the catalogue, merged sketches, the kinds of values.

Threads share it. Reading takes turns, so that nothing is read or held twice. Whoever finds what he needs waits for
nobody. All that is kept belongs to a commit and is used for that commit only, known by its random name and that of its
store: generations are counted anew by a store that was made anew, and again by one that was restored.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from sketches.events import Kind
from store.held_bytes import held_bytes
from store.serving.catalogue import Catalogue, read_catalogue
from store.serving.selection import Selection, StreamSketches, kind_of_values, refresh

_LOOK: Final = 1.0  # second at least between two looks at how much memory is held
_LOOKING: Final = 50.0  # as long as a look took, at least

Key = tuple[str, tuple[str, ...], str]  # stream, sources, family


class CachedReads:
    """The file is looked at before each use, and opened where it has changed or where something is not known yet."""

    def __init__(self, path: Path, memory: int, wait: float) -> None:
        self._path = path
        self._memory = memory  # bytes of merged sketches, and of what is made of them to answer questions
        self._next_look = 0.0  # when that is looked at next
        self._wait = wait
        # the file's signature when the catalogue was read, None where it may have changed meanwhile
        self._catalogue: tuple[tuple[object, ...] | None, Catalogue | None] = (None, None)
        self._kinds: tuple[tuple[str, str], dict[str, Kind | None]] = (("", ""), {})
        self.selections: OrderedDict[Key, Selection] = OrderedDict()
        self._stream_sketches = StreamSketches()
        self._reading = threading.RLock()
        self._lock = threading.Lock()  # of `selections` and of kinds, for moments

    def catalogue(self, stream: str | None = None) -> Catalogue:
        """What the store holds now of a stream, or of all of them."""
        found = self._known_catalogue(stream)
        if found is None:
            with self._reading:
                found = self._known_catalogue(stream)  # another thread may have read it meanwhile
                if found is None:
                    now = signature(self._path)
                    found = read_catalogue(self._path, self._wait, self._catalogue[1], stream)
                    self._catalogue = now, found
        return found

    def _known_catalogue(self, stream: str | None) -> Catalogue | None:
        seen, known = self._catalogue
        if known is None or seen is None or not known.knows(stream) or seen != signature(self._path):
            return None
        return known

    def selection(self, key: Key, catalogue: Catalogue) -> tuple[Selection, Catalogue]:
        """The sketches of some sources in one family, up to date, and the catalogue of their commit."""
        held = self._held(key)
        if held is not None and held.is_of(catalogue):
            if time.monotonic() >= self._next_look:
                self._make_room(key)
            return held, catalogue
        with self._reading:
            held = self._held(key) or Selection(*key)
            selection, now = refresh(held, self._path, catalogue, self._wait, self._stream_sketches)
            self._keep(key, selection)
            if now is not catalogue:
                self._catalogue = None, now
        return selection, now

    def _held(self, key: Key) -> Selection | None:
        with self._lock:
            if key in self.selections:
                self.selections.move_to_end(key)
            return self.selections.get(key)

    def _keep(self, key: Key, selection: Selection) -> None:
        with self._lock:
            self.selections[key] = selection
            self.selections.move_to_end(key)
        self._make_room(key)

    def _make_room(self, key: Key) -> None:
        """Give up, until the rest fits, what was made to answer questions, of the selections asked longest ago first,
        then these selections themselves. The one just asked is given up last, and never as it was read.

        To look takes a while where there are many sketches: it is done again after fifty times as long.
        """
        with self._lock:
            began = time.monotonic()
            steps: list[Callable[[], object]] = [
                *(partial(self._strip, one) for one in self.selections if one != key),
                *(partial(self.selections.pop, one) for one in self.selections if one != key),
                partial(self._strip, key),
            ]
            for step in steps:
                if held_bytes(one.parts for one in self.selections.values()) <= self._memory:
                    break
                step()
            self._stream_sketches.keep_only({(stream, family) for stream, _, family in self.selections})
            now = time.monotonic()
            self._next_look = now + max(_LOOK, _LOOKING * (now - began))

    def _strip(self, key: Key) -> None:
        self.selections[key] = self.selections[key].bare()

    def kind(self, catalogue: Catalogue, stream: str) -> tuple[Kind | None, Catalogue]:
        """What the values of a stream are, None where no sketch knows, and the catalogue of the commit that says so."""
        with self._lock:
            name, kinds = self._kinds
            if name == catalogue.name and stream in kinds:
                return kinds[stream], catalogue
        kind, now = kind_of_values(self._path, catalogue, stream, self._wait)
        with self._lock:
            kinds = self._kinds[1] if self._kinds[0] == now.name else {}
            self._kinds = now.name, kinds | {stream: kind}
        return kind, now


def signature(path: Path) -> tuple[object, ...]:
    """Identity, size and times of the file and of its write-ahead log: they change with every commit."""
    found: list[object] = []
    for one in (path, path.with_name(path.name + ".wal")):
        try:
            stat = one.stat()
            found += [stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns]
        except FileNotFoundError:
            found.append(None)
    return tuple(found)
