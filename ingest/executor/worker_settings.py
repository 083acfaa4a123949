"""What every worker is told, and the shape of the rows that come back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from ingest.executor.columns import Conversion
from sketches.family import Scope, Sketch

NO_START: Final = 0  # of rows that have no source


@dataclass(frozen=True, slots=True)
class EarlierEpochs:
    """Where epochs begin of which a store still holds sketches in a family's earlier form, and the keywords of their
    `build`. What is new there, of any source, must come in the same form: an event in both forms would count twice."""

    starts: frozenset[int]
    keywords: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """How a worker makes sketches of rows; the same for every worker."""

    conversion: Conversion
    epoch: int
    families: tuple[tuple[type[Sketch], Mapping[str, Any]], ...]  # with the keywords of its `build`
    within: tuple[int, int] | None = None  # a backfill takes only events of these times from files that it reads again
    earlier: Mapping[str, EarlierEpochs] = field(default_factory=dict)  # by family; most streams have none

    @property
    def schema(self) -> pa.Schema:
        return pa.schema(
            [
                ("source", pa.string()),
                ("start", pa.int64()),
                ("events", pa.int64()),
                ("weight", pa.float64()),
                ("oldest", pa.int64()),
                ("newest", pa.int64()),
                ("tally", pa.binary()),
                *((family.family, pa.binary()) for family, _ in self.families),
            ]
        )

    @property
    def of_stream(self) -> tuple[tuple[type[Sketch], Mapping[str, Any]], ...]:
        """The families of which one sketch covers all sources and epochs."""
        return tuple(one for one in self.families if one[0].scope is Scope.STREAM)


def record(schema: pa.Schema, rows: int, columns: Mapping[str, Any]) -> pa.RecordBatch:
    """A batch of the output; columns that are not given are empty."""
    arrays = [
        pa.array(columns[field.name], field.type) if field.name in columns else pa.nulls(rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
