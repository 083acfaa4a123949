"""What kinds the values and fields of a stream have: decided once for a run, from the types in all its files.

What the store knows already stays: later columns are converted to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from ingest.driver.configuration.settings import SettingsError, StreamSettings
from ingest.executor.columns import kind_of, type_fault
from ingest.executor.field_columns import column_name, field_kind_of, field_type_fault
from sketches.event_rules import RETRACT, ROLES
from sketches.events import Kind
from sketches.fields import FieldKind
from sketches.registry import FAMILIES

_WIDEST: Final = (Kind.INTEGER, Kind.FLOAT, Kind.KEY)

Types = Mapping[str, Sequence[pa.DataType]]  # of each part of an event and each field, in all files


@dataclass(frozen=True, slots=True)
class StreamKinds:
    """The kinds as far as they are known, also of fields that the settings no longer name."""

    value: Kind | None = None
    fields: Mapping[str, FieldKind] = field(default_factory=dict)

    @classmethod
    def stored(cls, settings: Mapping[str, Any]) -> StreamKinds:
        """Those in the settings that the store keeps of a stream."""
        kind, fields = settings.get("kind"), settings.get("field_kinds", {})
        known = {name: FieldKind(one) for name, one in fields.items() if one in list(FieldKind)}
        return cls(Kind(kind) if kind in list(Kind) else None, known)

    def described(self) -> dict[str, object]:
        """For the settings that the store keeps, as JSON."""
        value = {} if self.value is None else {"kind": str(self.value)}
        return value | ({"field_kinds": {name: str(one) for name, one in self.fields.items()}} if self.fields else {})


def checked_kinds(settings: StreamSettings, types: Types, stored: StreamKinds) -> StreamKinds:
    """The kinds of the stream's values and fields, after a look at the types of all columns."""
    for part, expression in settings.parts.items():
        for found in types[part]:
            if part == RETRACT:
                if not pa.types.is_boolean(found):
                    where = f"{part} of stream {settings.name!r} is {expression!r}"
                    raise SettingsError(f"{where}, of type {found}; it must be true or false")
                continue
            of_sketches = settings.of_sketches and part == "value"
            fault = type_fault(part, found, of_sketches) if part in ROLES else field_type_fault(found)
            if fault is not None:
                raise SettingsError(f"{part} of stream {settings.name!r} is {expression!r}, of type {found}; {fault}")
    value = stored.value
    if value is None and settings.of_sketches:
        family = FAMILIES[settings.families[0]]
        value = family.kind_taken_in(**settings.build_keywords(family))
    if value is None:
        kinds = [kind for found in types["value"] if (kind := kind_of(found)) is not None]
        value = max(kinds, key=_WIDEST.index, default=Kind.INTEGER)
    return StreamKinds(value, field_kinds(settings, types, stored.fields))


def field_kinds(settings: StreamSettings, types: Types, stored: Mapping[str, FieldKind]) -> dict[str, FieldKind]:
    """The kinds of all fields that the stream has or had. A field of which only nulls were seen has none yet."""
    seen = {name: field_kind_of(types[column_name(name)]) for name in settings.fields}
    return {name: kind for name, kind in seen.items() if kind is not None} | dict(stored)
