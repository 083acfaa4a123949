"""The rows of one group of a Spark query as one value: what a task of ingest makes of a file, in bytes.

It runs where Spark runs the user's query, and imports no Spark. The bytes are Arrow's stream of record batches, whose
schema carries what the driver said: so they may be kept anywhere, and be committed later.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from ingest.executor.columns import Conversion, kind_of, type_fault
from ingest.executor.field_columns import column_name, field_kind_of, field_type_fault
from ingest.executor.worker import sketch
from ingest.executor.worker_settings import WorkerSettings
from sketches.event_rules import ROLES
from sketches.events import Kind
from sketches.fields import FieldKind

ABOUT: Final = b"wane"  # the entry of the schema that says how the sketches were made


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """What the driver tells the workers; `about` is what the bytes shall tell whoever commits them."""

    worker: WorkerSettings  # but for the kinds of values and fields: those are of the columns
    fields: tuple[str, ...]
    about: Mapping[str, Any]

    @property
    def parts(self) -> tuple[str, ...]:
        """What the columns are that arrive, in their order."""
        return (*ROLES, *map(column_name, self.fields))


def group_bytes(batches: Iterable[tuple[pa.Array, ...]], settings: GroupSettings) -> Iterator[bytes]:
    """One value: the sketches of all rows of a group."""
    rows = iter(batches)
    first = next(rows, None)
    if first is None:
        return
    types = {part: column.type for part, column in zip(settings.parts, first, strict=True)}
    conversion = _conversion(settings, types)
    how = replace(settings.worker, conversion=conversion)

    def by_part() -> Iterator[dict[str, pa.Array]]:
        for columns in (first, *rows):
            name = pa.DictionaryArray.from_arrays(pa.array(np.zeros(len(columns[0]), np.int32)), pa.array([""]))
            yield dict(zip(settings.parts, columns, strict=True)) | {"file": name}

    fields = {name: str(kind) for name, kind in _field_kinds(settings, types).items() if kind is not None}
    about = json.dumps({**settings.about, "kind": str(conversion.kind), "field_kinds": fields}, sort_keys=True).encode()
    sink = pa.BufferOutputStream()
    schema = how.schema.with_metadata({ABOUT: about})
    with pa.ipc.new_stream(sink, schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as stream:
        for batch in sketch(by_part(), how):
            stream.write_batch(batch.replace_schema_metadata(schema.metadata))
    yield sink.getvalue().to_pybytes()


def _conversion(settings: GroupSettings, types: Mapping[str, pa.DataType]) -> Conversion:
    for part, found in types.items():
        fault = type_fault(part, found) if part in ROLES else field_type_fault(found)
        if fault is not None:
            raise TypeError(f"{part} is a column of type {found}; {fault}")
    kinds = {name: kind or FieldKind.INTEGER for name, kind in _field_kinds(settings, types).items()}
    return replace(settings.worker.conversion, kind=kind_of(types["value"]) or Kind.INTEGER, fields=kinds)


def _field_kinds(settings: GroupSettings, types: Mapping[str, pa.DataType]) -> dict[str, FieldKind | None]:
    """None of a field that is null everywhere: it has no kind yet."""
    return {name: field_kind_of([types[column_name(name)]]) for name in settings.fields}
