"""The columns that the events of one stream have, under all names that people may use for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from sketches.fields import FieldKind
from sketches.predicate.columns import EVENT_COLUMNS, ColumnType, columns_with
from sketches.predicate.predicate import Predicate
from sketches.records import dataclass


@dataclass(frozen=True)
class StreamColumns:
    """Value, weight, time, source and fields; `names` are what the stream calls the first four.

    >>> columns = StreamColumns.of({"status": FieldKind.INTEGER}, value="latency_ms")
    >>> str(columns.parse("latency_ms >= 100 and status = 500")), columns.column("latency_ms")
    ('status = 500 and value >= 100', 'value')
    """

    types: Mapping[str, ColumnType] = field(default_factory=lambda: EVENT_COLUMNS)
    names: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls, fields: Mapping[str, FieldKind], *, value: str = "", weight: str = "", time: str = "", source: str = ""
    ) -> StreamColumns:
        """A field has its own name, also where another part of an event comes from a column of the same name; of such
        parts the value comes first, then the weight."""
        types = columns_with(fields)
        called = {"source": source, "time": time, "weight": weight, "value": value}
        return cls(types, {name: column for column, name in called.items() if name and name not in types})

    def parse(self, text: str) -> Predicate:
        return Predicate.parse(text, self.types, self.names)

    def column(self, name: str) -> str:
        """The column of this name; a name that is none stays as it is."""
        return name if name in self.types else self.names.get(name, name)
