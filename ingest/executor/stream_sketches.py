"""The sketches of families that keep one for a whole stream: of the rows of a task, and of many tasks together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ingest.executor.worker_settings import NO_START, WorkerSettings, record
from sketches.events import Events
from sketches.family import Sketch
from sketches.registry import union

_SIDE_BY_SIDE: Final = 8  # sketches that wait to be merged: one union of many is cheaper than many of two
_MOST_BYTES: Final = 256 << 20  # payloads that are merged to one; beyond it might not fit in a column of Arrow


class StreamSketches:
    """One running sketch for each such family, however many chunks or payloads it is made of."""

    def __init__(self, settings: WorkerSettings) -> None:
        self._schema = settings.schema
        self._keywords = dict(settings.of_stream)
        self._clear()

    def _clear(self) -> None:
        self._parts: dict[type[Sketch], list[Sketch]] = {family: [] for family in self._keywords}
        self._bytes = 0

    def add(self, family: type[Sketch], events: Events, sources: NDArray[np.int32], names: Sequence[str]) -> None:
        """Sketch further rows; a source is its number among the names."""
        if len(events):
            self._join(family, family.partial(events, sources, names, **self._keywords[family]))

    def add_payloads(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Merge the payloads of rows without a source; yields what is too large to grow further."""
        for family in self._keywords:
            # sorted: Spark's order differs from run to run
            for payload in sorted(rows.column(family.family).drop_null().to_pylist()):
                self._join(family, family.from_bytes(payload))
                self._bytes += len(payload)
                if self._bytes >= _MOST_BYTES:
                    yield from self.records()

    def _join(self, family: type[Sketch], sketch: Sketch) -> None:
        parts = self._parts[family]
        parts.append(sketch)
        if len(parts) >= _SIDE_BY_SIDE:
            self._parts[family] = [union(parts)]

    def records(self) -> Iterator[pa.RecordBatch]:
        """One row without a source that holds the sketches so far, if there are any; then it begins anew."""
        found: Mapping[str, Any] = {
            family.family: [union(parts).to_bytes()] for family, parts in self._parts.items() if parts
        }
        self._clear()
        if found:
            yield record(self._schema, 1, {"start": [NO_START], **found})
