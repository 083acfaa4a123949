"""The parts of events in rows that must be evaluated: what stands for a part as it is, is taken as it is; expressions
are evaluated by DuckDB, batch by batch. What only Spark can do is refused by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Protocol

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from ingest.driver.configuration.settings import SettingsError, StreamSettings
from ingest.driver.local.expressions import columns_of, translated
from ingest.driver.local.values import NeedsSparkError
from sketches.event_rules import PlainColumn

FILE: Final = ("_metadata.file_path", "_metadata.file_name")  # columns that every batch has besides those of its file


UNEVALUATED: Final = "an expression cannot be evaluated for this row without Spark"  # a reason, stored with the rows


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


# What an expression does where only Spark knows the answer: it fails. DuckDB tries nothing that calls error(), so where
# single rows are tried, a cast fails instead.
_FAILING: Final = "CREATE OR REPLACE TEMP MACRO wane_fails(sentence, text) AS error(sentence)"
_FAILING_IN_TRY: Final = (
    "CREATE OR REPLACE TEMP MACRO wane_fails(sentence, text) AS "
    "CAST(CAST(concat(sentence, text) AS BOOLEAN) AS VARCHAR)"
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
        return self.parts_as_they_are(batch) | self._evaluated(batch)

    def _evaluated(self, batch: pa.RecordBatch) -> dict[str, pa.Array]:
        parts = [part for part, plain in self._plain.items() if plain is None]
        if not parts:
            return {}
        if self._connection is None:
            self._connection = connected()
        if batch.schema not in self._queries:
            made = self._made(parts, batch.schema)
            self._queries[batch.schema] = (
                f"SELECT {', '.join(f'{sql} AS p{at}' for at, sql in enumerate(made))} FROM rows"
            )
        return dict(zip(parts, self._run(self._queries[batch.schema], batch), strict=True))

    def parts_as_they_are(self, batch: pa.RecordBatch) -> dict[str, pa.Array]:
        """Those that are columns or constants, and the name of the file."""
        found = {"file": batch.column(FILE[0])}
        for part, plain in self._plain.items():
            if plain is None:
                continue
            constant = plain.column is None
            found[part] = (
                pa.repeat(pa.scalar(plain.constant), batch.num_rows) if constant else batch.column(plain.column)
            )
        return found

    def parts_apart(self, batch: pa.RecordBatch) -> tuple[dict[str, pa.Array], dict[str, pa.Array] | None]:
        """The parts of the rows that can be evaluated, and of the others what is known; None where there are none."""
        try:
            return self.parts(batch), None
        except duckdb.Error:
            failed = self._failing(batch)
            if not pc.any(failed).as_py():
                raise
            known = self.parts_as_they_are(batch.filter(failed))
            unknown = {part: pa.nulls(len(known["file"])) for part in self._plain if part not in known}
            return self.parts(batch.filter(pc.invert(failed))), known | unknown

    def _failing(self, batch: pa.RecordBatch) -> pa.Array:
        """In which rows an expression fails."""
        parts = [part for part, plain in self._plain.items() if plain is None]
        self._connection.execute(_FAILING_IN_TRY)
        try:
            tried = [f"TRY(struct_pack(x := {made})) IS NULL" for made in self._made(parts, batch.schema)]
            return self._run(f"SELECT {' OR '.join(tried)} FROM rows", batch)[0]
        finally:
            self._connection.execute(_FAILING)

    def _run(self, query: str, batch: pa.RecordBatch) -> list[pa.Array]:
        rows = pa.Table.from_arrays(batch.columns, [f"c{at}" for at in range(batch.num_columns)])
        self._connection.register("rows", rows)
        try:
            made = self._connection.sql(query).to_arrow_table().combine_chunks()
        finally:
            self._connection.unregister("rows")
        empty = [pa.array([], column.type) for column in made.schema]
        return [
            column.chunk(0) if column.num_chunks else none for column, none in zip(made.columns, empty, strict=True)
        ]

    def _made(self, parts: Sequence[str], schema: pa.Schema) -> list[str]:
        """SQL of these parts."""
        known = {name: (f"c{at}", schema.field(at).type) for at, name in enumerate(schema.names)}
        made = []
        for part in parts:
            try:
                made.append(translated(self._settings.parts[part], known).sql)
            except NeedsSparkError as error:
                raise refused(self._settings, part, error) from None
        return made


def connected() -> Any:
    """A database in memory that reads no settings, loads nothing and keeps rows in their order."""
    connection = duckdb.connect(
        config={"autoinstall_known_extensions": "false", "autoload_known_extensions": "false", "threads": "1"}
    )
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute(_FAILING)
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
