"""The door of a store for those who may see some of its streams: the others are not there, whatever is asked.

It stands before all that a `Store` reads, so no page and no question can forget it. It tells of no stream behind it,
not by a name in a message either.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import field

from sketches.events import Kind
from sketches.records import dataclass
from store.serving.catalogue import Catalogue
from store.serving.reads.cached_reads import CachedReads, Key
from store.serving.selection import Selection

_NO_STREAM = ""  # no stream is called so: of one that may not be seen, nothing is read


@dataclass(frozen=True)
class OpenedCatalogue(Catalogue):
    """A catalogue with some of its streams."""

    whole: Catalogue = field(kw_only=True)  # what it was made from, of the same commit

    @classmethod
    def of(cls, whole: Catalogue, streams: Set[str]) -> OpenedCatalogue:
        shown = {name: stream for name, stream in whole.streams.items() if name in streams}
        return cls(whole.generation, shown, whole.name, whole.unread & streams, whole=whole)


class OpenedReads:
    """What was read of a store, as far as it belongs to some streams; the reads themselves are shared with others."""

    def __init__(self, reads: CachedReads | OpenedReads, streams: Set[str]) -> None:
        self._reads = reads
        self._streams = frozenset(streams)

    def catalogue(self, stream: str | None = None) -> Catalogue:
        """What the store holds now of a stream, or of all that may be seen."""
        asked = stream if stream is None or stream in self._streams else _NO_STREAM
        return OpenedCatalogue.of(self._reads.catalogue(asked), self._streams)

    def selection(self, key: Key, catalogue: Catalogue) -> tuple[Selection, Catalogue]:
        """The sketches of some sources in one family, up to date, and the catalogue of their commit."""
        whole = self._whole(catalogue, key[0])
        selection, now = self._reads.selection(key, whole)
        return selection, catalogue if now is whole else OpenedCatalogue.of(now, self._streams)

    def kind(self, catalogue: Catalogue, stream: str) -> tuple[Kind | None, Catalogue]:
        """What the values of a stream are, None where no sketch knows, and the catalogue of the commit that says so."""
        whole = self._whole(catalogue, stream)
        kind, now = self._reads.kind(whole, stream)
        return kind, catalogue if now is whole else OpenedCatalogue.of(now, self._streams)

    def _whole(self, catalogue: Catalogue, stream: str) -> Catalogue:
        """What the catalogue was made from; refuses a stream that may not be seen, like one that is not there."""
        assert isinstance(catalogue, OpenedCatalogue), "a catalogue that was not had through this door"
        catalogue.stream(stream)
        return catalogue.whole
