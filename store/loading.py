"""From stored payloads to something that can be asked, re-reading only what a newer generation changed.

Per family: the sketches of an epoch's sources are merged without counting an event twice that several sources reported;
epochs then stand side by side.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import duckdb

from sketches.boxes import Boxes
from sketches.counters import Counters
from sketches.digest import Digest
from sketches.ecm import Ecm
from sketches.errors import CorruptError, IncompatibleError, UnanswerableError
from sketches.exponential import Exponential
from sketches.family import Sketch
from sketches.integral import Integral
from sketches.registry import load
from sketches.retractable import Retractable
from sketches.sample import Sample
from sketches.sampled import Sampled
from store.catalogue import Catalogue, Gap, StreamHeld, catalogue_in
from store.database import connected

Slot = tuple[int, int]  # start and length of an epoch, whatever the source
Askable = Sampled | Integral | Retractable | Boxes | Counters
Part = Sampled | Integral | Retractable | tuple[Digest | Exponential | Ecm, ...]  # of one epoch

# Merged to answer, the union of many sources may keep several sketches' worth of rows, for accuracy; not all of them,
# for speed.
ANSWER_ROOM: Final = 2


@dataclass
class Selection:
    """The sketches of some sources of a stream in one family, merged and kept until the store changes."""

    stream: str
    sources: tuple[str, ...]
    family: str
    generation: int = -1
    slots: dict[Slot, _Merged] = field(default_factory=dict)
    askable: Askable | None = None

    @property
    def nbytes(self) -> int:
        """About what is held in memory: rows with their design weights, once per epoch and once side by side."""
        return sum(merged.nbytes for merged in self.slots.values()) * 2

    @property
    def gaps(self) -> list[Gap]:
        return [gap for merged in self.slots.values() for gap in merged.gaps]

    @property
    def sketch_bytes(self) -> int:
        return sum(merged.stored for merged in self.slots.values())


@dataclass(frozen=True)
class _Merged:
    """One epoch of all selected sources."""

    written: Mapping[str, int]  # source → generation of its row
    sketch: Part | None
    gaps: tuple[Gap, ...]
    stored: int
    nbytes: int


def refresh(selection: Selection, path: Path, catalogue: Catalogue, wait: float) -> Catalogue:
    """Bring a selection up to date; the catalogue that comes back is of the generation that was read."""
    stream = catalogue.streams[selection.stream]
    if selection.askable is not None and selection.generation == catalogue.generation:
        return catalogue
    wanted = _written(stream, selection)
    changed = [slot for slot, written in wanted.items() if _stale(selection, slot, written)]
    if changed:
        selection.askable = None  # what follows may fail half way
        with connected(path, write=False, wait=wait) as connection:
            catalogue = catalogue_in(connection, path)  # what is read next belongs to this generation
            stream = catalogue.streams[selection.stream]
            wanted = _written(stream, selection)
            changed = [slot for slot, written in wanted.items() if _stale(selection, slot, written)]
            payloads = _fetch(connection, selection, changed)
        for slot in changed:
            selection.slots[slot] = _merge(selection, slot, wanted[slot], payloads.get(slot, []))
    gone = [slot for slot in selection.slots if slot not in wanted]
    for slot in gone:
        del selection.slots[slot]
    if changed or gone or selection.askable is None:
        selection.askable = _together(selection)
    selection.generation = catalogue.generation
    return catalogue


def _written(stream: StreamHeld, selection: Selection) -> dict[Slot, dict[str, int]]:
    wanted: dict[Slot, dict[str, int]] = defaultdict(dict)
    sources = set(selection.sources)
    for epoch, (generation, _) in stream.sketches.get(selection.family, {}).items():
        if epoch.source in sources:
            wanted[epoch.start, epoch.length][epoch.source] = generation
    return wanted


def _stale(selection: Selection, slot: Slot, written: Mapping[str, int]) -> bool:
    held = selection.slots.get(slot)
    return held is None or held.written != written


def _fetch(
    connection: duckdb.DuckDBPyConnection, selection: Selection, slots: Sequence[Slot]
) -> dict[Slot, list[tuple[str, memoryview]]]:
    """The payloads of these epochs, as views of what DuckDB handed over."""
    found: dict[Slot, list[tuple[str, memoryview]]] = defaultdict(list)
    if not slots:
        return found
    # lists as parameters, not as an Arrow table: to make one, pyarrow imports pandas, which takes seconds
    rows = connection.sql(
        "SELECT source, start, length, payload FROM sketches "
        "SEMI JOIN (SELECT unnest($starts) AS start, unnest($lengths) AS length) USING (start, length) "
        "SEMI JOIN (SELECT unnest($sources) AS source) USING (source) "
        "WHERE stream = $stream AND family = $family ORDER BY start, source",
        params={
            "starts": [start for start, _ in slots],
            "lengths": [length for _, length in slots],
            "sources": list(selection.sources),
            "stream": selection.stream,
            "family": selection.family,
        },
    ).to_arrow_table()
    for batch in rows.to_batches():
        sources, starts, lengths = (batch.column(at).to_pylist() for at in range(3))
        payloads = batch.column(3)
        for row, (source, start, length) in enumerate(zip(sources, starts, lengths, strict=True)):
            found[start, length].append((source, memoryview(payloads[row].as_buffer())))
    return found


def _merge(
    selection: Selection, slot: Slot, written: Mapping[str, int], payloads: Iterable[tuple[str, memoryview]]
) -> _Merged:
    sketches: list[Sketch] = []
    gaps = []
    stored = 0
    for source, payload in payloads:
        stored += len(payload)
        try:
            sketches.append(load(payload))
        except CorruptError as error:
            gaps.append(Gap(source, *slot, selection.family, f"set aside: {error}"))
    merged, size = _union(sketches)
    return _Merged(dict(written), merged, tuple(gaps), stored, size)


def _union(sketches: Sequence[Sketch]) -> tuple[Part | None, int]:
    """What an epoch's sources come to: what forgives repeats is merged, what counts them stays side by side."""
    if not sketches:
        return None, 0
    samples = [sketch for sketch in sketches if isinstance(sketch, Sample)]
    if samples:
        sample = Sample.union(samples, room=ANSWER_ROOM) if len(samples) > 1 else samples[0]
        return sample.sampled, 64 * sample.kept
    integrals = [sketch for sketch in sketches if isinstance(sketch, Integral)]
    if integrals:
        merged = integrals[0]
        for sketch in integrals[1:]:
            merged = merged.merge(sketch)
        return merged, merged.nbytes * 4
    tables = [sketch for sketch in sketches if isinstance(sketch, Retractable)]
    if tables:
        table = Retractable.union(tables)
        return table, table.counters.nbytes
    counted = tuple(sketch for sketch in sketches if isinstance(sketch, Digest | Exponential | Ecm))
    return counted, 64 * sum(sketch.kept for sketch in counted)


def _together(selection: Selection) -> Askable | None:
    parts = [merged.sketch for _, merged in sorted(selection.slots.items()) if merged.sketch is not None]
    if not parts:
        return None
    samples = [part for part in parts if isinstance(part, Sampled)]
    integrals = [part for part in parts if isinstance(part, Integral)]
    tables = [part for part in parts if isinstance(part, Retractable)]
    kinds = {part.drawn.kind for part in samples if part.drawn.newest is not None}
    try:
        if len(kinds) > 1:
            raise IncompatibleError("samples of different kinds of values: " + ", ".join(sorted(kinds)))
        if samples:
            return Sampled.side_by_side(samples)
        if integrals:
            return Integral.union(integrals)
        if tables:
            return Retractable.union(tables)
        counted: list[Any] = [sketch for part in parts if isinstance(part, tuple) for sketch in part]
        asked: Boxes | Counters = type(counted[0]).side_by_side(counted)
        return asked
    except IncompatibleError as error:
        raise UnanswerableError(f"the epochs of stream {selection.stream!r} were built differently: {error}") from error
