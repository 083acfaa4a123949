"""The parts of events in rows that must be evaluated: what stands for a part as it is, is taken as it is; expressions
are evaluated by DuckDB, batch by batch. What only Spark can do is refused by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Protocol

import duckdb
import pyarrow as pa

from ingest.driver.configuration.settings import SettingsError, StreamSettings
from ingest.driver.local.expressions import columns_of, translated
from ingest.driver.local.values import NeedsSparkError
from sketches.event_rules import PlainColumn

FILE: Final = ("_metadata.file_path", "_metadata.file_name")  # columns that every batch has besides those of its file


class Source(Protocol):
    """Files that are read once, to batches of the columns that are named."""

    @property
    def schemas(self) -> Sequence[pa.Schema]:
        """The columns that batches have, each shape once."""

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All rows. Columns are called as expressions write them."""


def named_columns(settings: StreamSettings) -> list[str]:
    """The columns of the input that a stream names. Refuses expressions that cannot be evaluated here."""
    found: dict[str, None] = {}
    for part, expression in settings.parts.items():
        plain = PlainColumn.read(expression)
        if plain is None:
            try:
                found |= dict.fromkeys(columns_of(expression))
            except NeedsSparkError as error:
                raise refused(settings, part, error) from None
        elif plain.column is not None:
            found[plain.column] = None
    return [name for name in found if name not in FILE]


def refused(settings: StreamSettings, part: str, why: object) -> SettingsError:
    return SettingsError(
        f"{part} of stream {settings.name!r} is {settings.parts[part]!r}: {why}; this needs Spark, so run it without "
        "--engine local"
    )


class Evaluator:
    """Makes the parts of a stream's events of batches of columns."""

    def __init__(self, settings: StreamSettings) -> None:
        self._settings = settings
        self._plain = {part: PlainColumn.read(text) for part, text in settings.parts.items()}
        self._queries: dict[pa.Schema, str] = {}
        self._connection: Any = None

    def parts(self, batch: pa.RecordBatch) -> dict[str, pa.Array]:
        """The parts of each row, and the name of its file."""
        found = {"file": batch.column(FILE[0])}
        for part, plain in self._plain.items():
            if plain is None:
                continue
            constant = plain.column is None
            found[part] = (
                pa.repeat(pa.scalar(plain.constant), batch.num_rows) if constant else batch.column(plain.column)
            )
        return found | self._evaluated(batch)

    def _evaluated(self, batch: pa.RecordBatch) -> dict[str, pa.Array]:
        parts = [part for part, plain in self._plain.items() if plain is None]
        if not parts:
            return {}
        if batch.schema not in self._queries:
            self._queries[batch.schema] = self._query(parts, batch.schema)
        if self._connection is None:
            self._connection = connected()
        rows = pa.Table.from_arrays(batch.columns, [f"c{at}" for at in range(batch.num_columns)])
        self._connection.register("rows", rows)
        made = self._connection.sql(self._queries[batch.schema]).to_arrow_table().combine_chunks()
        self._connection.unregister("rows")
        empty = [pa.array([], column.type) for column in made.schema]
        columns = [
            column.chunk(0) if column.num_chunks else none for column, none in zip(made.columns, empty, strict=True)
        ]
        return dict(zip(parts, columns, strict=True))

    def _query(self, parts: Sequence[str], schema: pa.Schema) -> str:
        known = {name: (f"c{at}", schema.field(at).type) for at, name in enumerate(schema.names)}
        made = []
        for part in parts:
            try:
                made.append(translated(self._settings.parts[part], known).sql)
            except NeedsSparkError as error:
                raise refused(self._settings, part, error) from None
        return f"SELECT {', '.join(f'{sql} AS p{at}' for at, sql in enumerate(made))} FROM rows"


def connected() -> Any:
    """A database in memory that reads no settings, loads nothing and keeps rows in their order."""
    connection = duckdb.connect(
        config={"autoinstall_known_extensions": "false", "autoload_known_extensions": "false", "threads": "1"}
    )
    connection.execute("SET TimeZone = 'UTC'")
    return connection


class RowReading:
    """How files are read for one stream."""

    def __init__(self, settings: StreamSettings, source: Source) -> None:
        """Refuses expressions that need Spark."""
        self.source = source
        self.evaluator = Evaluator(settings)
        found: dict[str, list[pa.DataType]] = {part: [] for part in settings.parts}
        for schema in source.schemas:
            columns = [pa.array([], field.type) for field in schema]
            for part, column in self.evaluator.parts(pa.RecordBatch.from_arrays(columns, schema=schema)).items():
                if part in found and column.type not in found[part]:
                    found[part].append(column.type)
        self.types: Mapping[str, Sequence[pa.DataType]] = found

    def batches(self) -> Iterator[dict[str, pa.Array]]:
        """The parts of all rows."""
        for batch in self.source.batches():
            yield self.evaluator.parts(batch)
