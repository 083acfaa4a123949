"""What a store holds, without the payloads: read in one short connection, whole and of one generation."""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import numpy as np
import pyarrow as pa

from sketches.drawn import TimeUnit
from store.database import WAIT, connected
from store.schema import check


class Epoch(NamedTuple):
    """A stretch of event time of one source, in units of the stream."""

    source: str
    start: int
    length: int


class Held(NamedTuple):
    """What is known of the events of one epoch of one source."""

    events: int
    weight: float
    oldest: int
    newest: int


@dataclass(frozen=True, slots=True)
class Gap:
    """An epoch that holds events but cannot answer in a family, and why."""

    source: str
    start: int
    length: int
    family: str
    reason: str

    def as_dict(self) -> dict[str, Any]:
        return {
            "source": self.source,
            "start": self.start,
            "length": self.length,
            "family": self.family,
            "reason": self.reason,
        }


@dataclass(frozen=True)
class StreamHeld:
    """One stream: its epochs, and per family the generation in which each epoch's sketch was last written."""

    name: str
    unit: TimeUnit
    epoch: int
    settings: str
    epochs: dict[Epoch, Held] = field(default_factory=dict)
    sketches: dict[str, dict[Epoch, tuple[int, int]]] = field(
        default_factory=dict
    )  # family → epoch → generation, bytes
    set_aside: list[Gap] = field(default_factory=list)

    @cached_property
    def described(self) -> dict[str, Any]:
        """The stream's settings as ingest wrote them down."""
        settings = json.loads(self.settings)
        return settings if isinstance(settings, dict) else {}

    @cached_property
    def sources(self) -> list[str]:
        return sorted({epoch.source for epoch in self.epochs})

    def newest(self, sources: Sequence[str]) -> int | None:
        wanted = set(sources)
        return max((held.newest for epoch, held in self.epochs.items() if epoch.source in wanted), default=None)

    def unsketched(self) -> list[Gap]:
        """Epochs with events that have no sketch of a family which other epochs have (one added later, or lost)."""
        return [
            Gap(epoch.source, epoch.start, epoch.length, family, f"no {family} sketch is stored")
            for family, rows in sorted(self.sketches.items())
            for epoch in self.epochs
            if epoch not in rows
        ]

    def bytes_of(self, family: str) -> int:
        return sum(size for _, size in self.sketches.get(family, {}).values())


@dataclass(frozen=True)
class Catalogue:
    """All streams of a store at one generation."""

    generation: int
    streams: dict[str, StreamHeld]


def read_catalogue(path: Path, wait: float = WAIT) -> Catalogue:
    """The catalogue as of now."""
    with connected(path, write=False, wait=wait) as connection:
        return catalogue_in(connection, path)


def catalogue_in(connection: duckdb.DuckDBPyConnection, path: Path) -> Catalogue:
    """The catalogue in an open connection, which may go on to read the payloads of the same generation."""
    connection.begin()
    generation = check(connection, path)
    streams = {
        name: StreamHeld(name, TimeUnit(numerator, denominator), epoch, settings)
        for name, numerator, denominator, epoch, settings in connection.execute("FROM streams").fetchall()
    }
    with _no_collection():
        for stream in streams.values():
            _fill(connection, stream)
    rows = connection.execute("SELECT stream, source, start, length, family, reason FROM set_aside")
    for stream, *gap in rows.fetchall():
        streams[stream].set_aside.append(Gap(*gap))
    connection.commit()
    return Catalogue(generation, streams)


def _fill(connection: duckdb.DuckDBPyConnection, stream: StreamHeld) -> None:
    """The epochs and sketches of a stream, column by column: there may be hundreds of thousands."""
    *key, events, weight, oldest, newest = _columns(
        connection,
        "SELECT source, start, length, events, weight, oldest, newest FROM epochs WHERE stream = $stream",
        stream=stream.name,
    )
    held = map(Held._make, zip(events, weight, oldest, newest, strict=True))
    stream.epochs.update(zip(map(Epoch._make, zip(*key, strict=True)), held, strict=True))
    families = connection.execute("SELECT DISTINCT family FROM sketches WHERE stream = $1", [stream.name]).fetchall()
    for (family,) in sorted(families):
        *key, generation, size = _columns(
            connection,
            "SELECT source, start, length, generation, bytes FROM sketches WHERE stream = $stream AND family = $family",
            stream=stream.name,
            family=family,
        )
        written = zip(generation, size, strict=True)
        stream.sketches[family] = dict(zip(map(Epoch._make, zip(*key, strict=True)), written, strict=True))


def _columns(connection: duckdb.DuckDBPyConnection, query: str, **values: str) -> list[list[Any]]:
    """A query's columns as lists; of equal texts in a column there is one object.

    By way of DLPack, because pyarrow's `to_numpy` imports pandas, which takes seconds.
    """
    found: list[list[Any]] = []
    for column in connection.sql(query, params=values).to_arrow_table().columns:
        array = column.combine_chunks()
        if pa.types.is_string(array.type):
            encoded = array.dictionary_encode()
            texts = encoded.dictionary.to_pylist()
            found.append([texts[at] for at in np.from_dlpack(encoded.indices).tolist()])
        else:
            found.append(np.from_dlpack(array).tolist())
    return found


@contextmanager
def _no_collection() -> Iterator[None]:
    """Without Python's search for cycles, which would go through all these tuples again and again: half the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
