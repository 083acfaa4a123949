"""The types of columns in Parquet files of which a stream evaluates expressions: what every engine reads alike.

Spark gives all files that it reads together one schema, and knows fewer types than Arrow. So files of other types are
read apart, and what Spark cannot read, or reads as something else, is told of the file, whichever engine works.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa

from ingest.driver.configuration.settings import StreamSettings
from ingest.executor.arrow_columns import is_text, plain_type
from sketches.event_rules import PlainColumn

_TOLD_APART: Final = ("id", "time")  # parts that are something else as text, or as a number, than as what others have


def alike_types(schemas: Mapping[str, pa.Schema]) -> list[list[str]]:
    """The files in groups: in each, columns of the same name have the same type."""
    groups: list[tuple[dict[str, pa.DataType], list[str]]] = []
    for path, schema in schemas.items():
        types = {field.name.lower(): _known_type(field.type) for field in schema}
        for known, paths in groups:
            if all(known.get(name, kind) == kind for name, kind in types.items()):
                known.update(types)
                paths.append(path)
                break
        else:
            groups.append((types, [path]))
    return [paths for _, paths in groups]


def _known_type(kind: pa.DataType) -> pa.DataType:
    kind = plain_type(kind)
    return pa.string() if is_text(kind) else kind


def type_faults(settings: StreamSettings, schemas: Mapping[str, pa.Schema]) -> dict[str, str]:
    """The files of a stream with expressions that not every engine reads, or not as the others, and why."""
    plain = {part: PlainColumn.read(text) for part, text in settings.parts.items()}
    if all(plain.values()) or settings.schema or settings.options:
        return {}
    taken = {one.column.lower() for one in plain.values() if one is not None and one.column is not None}
    found: dict[str, str] = {}
    for path, schema in schemas.items():
        for field in schema:
            nanoseconds = pa.types.is_timestamp(field.type) and field.type.unit == "ns"
            if pa.types.is_time(field.type) or (nanoseconds and field.name.lower() in taken):
                found[path] = (
                    f"its column {field.name!r} is of type {field.type}, which is not read beside expressions; write "
                    "times in microseconds" + ("" if nanoseconds else ", or as text")
                )
                break
    for part in _TOLD_APART:
        one = plain[part]
        if one is not None and one.column is not None:
            found |= _unlike(one.column, {path: schema for path, schema in schemas.items() if path not in found})
    return found


def _unlike(column: str, schemas: Mapping[str, pa.Schema]) -> dict[str, str]:
    """The files of which a column is something else than in most of them."""
    kinds = {path: kind for path, schema in schemas.items() if (kind := _kind(column, schema)) is not None}
    usual = Counter(kinds.values()).most_common(1)
    return {
        path: f"its column {column!r} holds {kind}, and that of other files {usual[0][0]}"
        for path, kind in kinds.items()
        if kind != usual[0][0]
    }


def _kind(column: str, schema: pa.Schema) -> str | None:
    """What a column holds, in words; None where there is no such column, or nothing in it."""
    found: Sequence[pa.DataType] = [plain_type(one.type) for one in schema if one.name.lower() == column.lower()]
    if len(found) != 1 or pa.types.is_null(found[0]):
        return None
    if pa.types.is_temporal(found[0]):
        return "times"
    if pa.types.is_decimal(found[0]) or pa.types.is_uint64(found[0]):
        return "decimals"  # as Spark reads whole numbers of 64 bits without a sign
    return "text" if is_text(found[0]) else "numbers" if pa.types.is_primitive(found[0]) else "bytes"
