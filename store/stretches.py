"""Stretches of several epochs for which one sketch stands, because they have faded: which epochs they cover."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Set
from operator import attrgetter

from store.keys import Epoch, Span


class Stretches:
    """The stretches of one family, by source; `epochs` are those of the stream that hold events."""

    def __init__(self, keys: Iterable[Epoch] = (), epochs: Set[Span] = frozenset()) -> None:
        self._by_source: defaultdict[str, list[Span]] = defaultdict(list)
        for key in sorted(keys, key=lambda one: (one.start, -one.length)):
            held = self._by_source[key.source]
            if key.length and key.span not in epochs and not (held and key.start < held[-1].end):
                held.append(key.span)  # one that begins in another lies in it
        self._epochs = epochs

    def covers(self, key: Epoch) -> bool:
        """Whether one sketch stands for this epoch of a source and others."""
        held = self._by_source.get(key.source, [])
        at = bisect_right(held, key.start, key=attrgetter("start")) - 1
        return at >= 0 and key.start + key.length <= held[at].end

    def spans(self) -> list[Span]:
        """The stretches of all sources in the order of time, without those that lie in another."""
        found: list[Span] = []
        every = {one for held in self._by_source.values() for one in held}
        for one in sorted(every, key=lambda one: (one.start, -one.length)):
            if not found or one.start >= found[-1].end:
                found.append(one)
        return found

    def epochs(self) -> Iterator[Span]:
        """The epochs with events, of whatever source, for which some sketch stands together with others."""
        starts = sorted(self._epochs)
        for stretch in {one for held in self._by_source.values() for one in held}:
            at = bisect_left(starts, stretch.start, key=attrgetter("start"))
            while at < len(starts) and starts[at].end <= stretch.end:
                yield starts[at]
                at += 1
