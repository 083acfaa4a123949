"""From stored payloads to something that can be asked, re-reading only what a newer generation changed.

The family says how: it gathers the sketches of an epoch's sources, and then stands the epochs side by side.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import field, replace
from pathlib import Path
from typing import NamedTuple

from sketches.errors import CorruptError, IncompatibleError, UnanswerableError
from sketches.event_rules import Repeats
from sketches.events import Kind
from sketches.family import Askable, Gathered, Scope, Sketch
from sketches.records import dataclass
from sketches.registry import FAMILIES, family_of, load
from store.database import connected
from store.engine import duckdb
from store.held_bytes import held_bytes
from store.keys import WHOLE_STREAM, Epoch, is_in_parts, scope_of
from store.serving.catalogue import Catalogue, Gap, StoredStream, catalogue_in
from store.serving.stream_sketches import StreamSketch, read_stream_sketch

Slot = tuple[int, int]  # start and length of an epoch, whatever the source


@dataclass(frozen=True)
class Selection:
    """The sketches of some sources of a stream in one family, merged, as one commit left them."""

    stream: str
    sources: tuple[str, ...]
    family: str
    generation: int = -1
    name: tuple[str, str] = ("", "")  # of the store and the commit that it was read from
    slots: Mapping[Slot, _Loaded] = field(default_factory=dict)
    whole: StreamSketch | None = None  # of a family that keeps one sketch of a stream, in parts
    repeats: Repeats = Repeats.FORGIVEN  # as the stream took them when it was read
    askable: Askable | None = None

    def is_of(self, catalogue: Catalogue) -> bool:
        """Whether it is what this commit left."""
        return self.askable is not None and self.name == catalogue.name

    @property
    def nbytes(self) -> int:
        """What it holds in memory now, with all that was kept for further questions."""
        return held_bytes(self.parts)

    @property
    def parts(self) -> tuple[object, ...]:
        return self.slots, self.whole, self.askable

    def bare(self) -> Selection:
        """The same without what was made of it to answer questions, which costs the next one some arithmetic."""
        if self.whole is None:
            return self
        self.whole.forget_split()
        return replace(self, askable=None)

    @property
    def gaps(self) -> list[Gap]:
        own = () if self.whole is None else self.whole.gaps
        return [gap for loaded in self.slots.values() for gap in loaded.gaps] + list(own)

    @property
    def sketch_bytes(self) -> int:
        whole = 0 if self.whole is None else self.whole.stored
        return sum(loaded.stored for loaded in self.slots.values()) + whole


@dataclass(frozen=True)
class _Loaded:
    """One epoch of all selected sources."""

    written: Mapping[str, int]  # source → commit that wrote its row last
    gathered: Gathered | None  # None: no sketch could be read
    gaps: tuple[Gap, ...]
    stored: int


def as_of_then(selection: Selection, moment: int) -> Askable:
    """The epochs that had begun by a moment, for a family that answers as of its newest event or later."""
    epochs = [
        held.gathered
        for (start, _), held in sorted(selection.slots.items())
        if start <= moment and held.gathered is not None
    ]
    if not epochs and selection.askable is not None:
        return selection.askable  # it says what it knows of a time before all of its events
    return family_of(selection.family).side_by_side(epochs)


class _Written(NamedTuple):
    """Which commits have written the sketches of a stream: as long as they are the same, so are the bytes."""

    store: str
    sketches: Mapping[Epoch, tuple[int, int]]

    @classmethod
    def of(cls, catalogue: Catalogue, stream: str, family: str) -> _Written:
        return cls(catalogue.name[0], catalogue.stream(stream).sketches.get(family, {}))


class StreamSketches:
    """The sketches of whole streams that were read last, shared by all selections of sources."""

    def __init__(self) -> None:
        self._held: dict[tuple[str, str], tuple[_Written, StreamSketch]] = {}

    def read(
        self, path: Path, catalogue: Catalogue, stream: str, family: str, wait: float
    ) -> tuple[StreamSketch, Catalogue]:
        """The sketch of a stream as it is now, and the catalogue of the commit that it was read from."""
        held = self._held.get((stream, family))
        if held is not None and held[0] == _Written.of(catalogue, stream, family):
            return held[1], catalogue
        with connected(path, write=False, wait=wait) as connection:
            catalogue = catalogue_in(connection, path, catalogue, stream)
            before = held[1] if held is not None and held[0].store == catalogue.name[0] else None
            sketch = read_stream_sketch(connection, catalogue.stream(stream), family, before)
        self._held[stream, family] = _Written.of(catalogue, stream, family), sketch
        return sketch, catalogue

    def keep_only(self, streams: Set[tuple[str, str]]) -> None:
        """Forget the sketches of other streams and families."""
        for key in self._held.keys() - streams:
            del self._held[key]


def refresh(
    selection: Selection, path: Path, catalogue: Catalogue, wait: float, sketches: StreamSketches
) -> tuple[Selection, Catalogue]:
    """The selection as it is now, and the catalogue of the commit that it was read from."""
    stream = catalogue.stream(selection.stream)
    if selection.is_of(catalogue):
        return selection, catalogue
    if is_in_parts(selection.family):
        whole, catalogue = sketches.read(path, catalogue, selection.stream, selection.family, wait)
        return _of_whole(selection, whole, catalogue), catalogue
    _refuse_some_sources(stream, selection)
    held = _held(selection, catalogue)
    wanted = _written(stream, selection)
    changed = [slot for slot, written in wanted.items() if _stale(held, slot, written)]
    if changed:
        with connected(path, write=False, wait=wait) as connection:
            # what is read next belongs to this generation
            catalogue = catalogue_in(connection, path, catalogue, selection.stream)
            held = _held(selection, catalogue)
            stream = catalogue.stream(selection.stream)
            wanted = _written(stream, selection)
            changed = [slot for slot, written in wanted.items() if _stale(held, slot, written)]
            payloads = _fetch(connection, selection, changed, wanted)
        for slot in changed:
            held[slot] = _load_epoch(selection, stream, slot, wanted[slot], payloads.get(slot, []))
    slots = {slot: held[slot] for slot in wanted}
    askable = selection.askable
    if changed or askable is None or len(slots) != len(selection.slots):
        askable = _together(selection, slots)
    now = replace(selection, generation=catalogue.generation, name=catalogue.name)
    return replace(now, slots=slots, askable=askable), catalogue


def _of_whole(selection: Selection, whole: StreamSketch, catalogue: Catalogue) -> Selection:
    """The selection of sources in the one sketch of a stream."""
    stream = catalogue.stream(selection.stream)
    now = replace(selection, generation=catalogue.generation, name=catalogue.name)
    if whole is selection.whole and stream.repeats is selection.repeats and selection.askable is not None:
        return now
    every = set(selection.sources) == set(stream.sources)
    askable = whole.of(selection.sources, every=every, repeats=stream.repeats)
    return replace(now, whole=whole, repeats=stream.repeats, askable=askable)


def _held(selection: Selection, catalogue: Catalogue) -> dict[Slot, _Loaded]:
    """What was read before, unless another store took the place of the file."""
    return dict(selection.slots) if selection.name[0] == catalogue.name[0] else {}


def _refuse_some_sources(stream: StoredStream, selection: Selection) -> None:
    """Refuse some of the sources where one sketch covers all; asked before the catalogue is read anew, which may have
    more of them."""
    if scope_of(selection.family) is Scope.STREAM and set(selection.sources) != set(stream.sources):
        raise UnanswerableError(
            f"family {selection.family!r} keeps one sketch for all sources of a stream: ask for all of them, or "
            "another family"
        )


def _written(stream: StoredStream, selection: Selection) -> dict[Slot, dict[str, int]]:
    wanted: dict[Slot, dict[str, int]] = defaultdict(dict)
    whole_stream = scope_of(selection.family) is Scope.STREAM
    sources = {WHOLE_STREAM.source} if whole_stream else set(selection.sources)
    for epoch, (commit, _) in stream.sketches.get(selection.family, {}).items():
        if epoch.source in sources:
            wanted[epoch.start, epoch.length][epoch.source] = commit
    return wanted


def _stale(held: Mapping[Slot, _Loaded], slot: Slot, written: Mapping[str, int]) -> bool:
    loaded = held.get(slot)
    return loaded is None or loaded.written != written


def _fetch(
    connection: duckdb.DuckDBPyConnection,
    selection: Selection,
    slots: Sequence[Slot],
    wanted: Mapping[Slot, Mapping[str, int]],
) -> dict[Slot, list[tuple[str, memoryview]]]:
    """The payloads of these epochs."""
    found: dict[Slot, list[tuple[str, memoryview]]] = defaultdict(list)
    if not slots:
        return found
    rows = connection.execute(
        "SELECT source, start, length, payload FROM sketches "
        "SEMI JOIN (SELECT unnest($starts) AS start, unnest($lengths) AS length) USING (start, length) "
        "SEMI JOIN (SELECT unnest($sources) AS source) USING (source) "
        "WHERE stream = $stream AND family = $family ORDER BY start, source",
        {
            "starts": [start for start, _ in slots],
            "lengths": [length for _, length in slots],
            "sources": sorted({source for slot in slots for source in wanted[slot]}),
            "stream": selection.stream,
            "family": selection.family,
        },
    ).fetchnumpy()
    columns = (rows[name].tolist() for name in ("source", "start", "length", "payload"))
    for source, start, length, payload in zip(*columns, strict=True):
        found[start, length].append((source, memoryview(payload).toreadonly()))
    return found


def _load_epoch(
    selection: Selection,
    stream: StoredStream,
    slot: Slot,
    written: Mapping[str, int],
    payloads: Iterable[tuple[str, memoryview]],
) -> _Loaded:
    sketches: list[Sketch] = []
    gaps: list[Gap] = []
    stored = 0
    for source, payload in payloads:
        stored += len(payload)
        try:
            sketches.append(load(payload))
        except CorruptError as error:
            gaps += stream.gaps_of(selection.family, Epoch(source, *slot), f"set aside: {error}")
    gathered = family_of(selection.family).gather(sketches) if sketches else None
    return _Loaded(dict(written), gathered, tuple(gaps), stored)


def _together(selection: Selection, slots: Mapping[Slot, _Loaded]) -> Askable | None:
    """All epochs of the selection side by side, as the family arranges them."""
    epochs = [held.gathered for _, held in sorted(slots.items()) if held.gathered is not None]
    if not epochs:
        return None
    try:
        return family_of(selection.family).side_by_side(epochs)
    except IncompatibleError as error:
        raise UnanswerableError(f"the epochs of stream {selection.stream!r} were built differently: {error}") from error


def kind_of_values(path: Path, catalogue: Catalogue, name: str, wait: float) -> tuple[Kind | None, Catalogue]:
    """What the values of a stream are, as one stored sketch of a family that keeps values says; and the catalogue of
    the commit that it was read from."""
    if not _valued(catalogue.stream(name)):
        return None, catalogue
    with connected(path, write=False, wait=wait) as connection:
        catalogue = catalogue_in(connection, path, catalogue, name)
        valued = _valued(catalogue.stream(name))
        rows = connection.execute(
            "SELECT payload FROM heads WHERE stream = $1 AND family = $2 UNION ALL "
            "(SELECT payload FROM sketches WHERE stream = $1 AND family = $2 LIMIT 5)",
            [name, valued[0] if valued else ""],
        ).fetchall()
    for (payload,) in rows:
        with suppress(CorruptError):
            return load(payload).kind, catalogue
    return None, catalogue


def _valued(stream: StoredStream) -> list[str]:
    """The stored families that keep values."""
    return [name for name in stream.sketches if name in FAMILIES and "frequency" in FAMILIES[name].abilities.aggregates]
