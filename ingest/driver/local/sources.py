"""Files read to batches of the columns that streams name: Parquet by Arrow, CSV and JSON by DuckDB as Spark reads them.

The rules for text are those of `store.audit.text_rows`, by which Audit reads the same files.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ingest.driver.configuration.settings import SettingsError, StreamSettings
from ingest.driver.files.file_faults import parquet_heads
from ingest.driver.local.rows import FILE, Source, connected, named_columns
from ingest.driver.parquet_reading import elsewhere
from ingest.executor.worker import UnreadableError
from sketches.event_rules import PlainColumn
from sketches.formatting import listed
from store.audit.raw_events import link
from store.audit.raw_files import RawFiles, field_column
from store.audit.text_rows import FILE as LINK
from store.audit.text_rows import TextRows, found_types, text_rows, typed, typed_alone
from store.database import StoreError
from store.file_formats import CHECKABLE_COMPRESSIONS, COMPRESSIONS
from store.writing.ledger import KnownFile

_BATCH_ROWS: Final = 1 << 17
_TYPES: Final = {  # of a schema, as Spark and DuckDB call them
    "STRING": "VARCHAR",
    "BIGINT": "BIGINT",
    "LONG": "BIGINT",
    "INT": "INTEGER",
    "INTEGER": "INTEGER",
    "DOUBLE": "DOUBLE",
    "BOOLEAN": "BOOLEAN",
    "DATE": "DATE",
    "TIMESTAMP": "TIMESTAMPTZ",
}
_COLUMN: Final = re.compile(r"\s*(?:`([^`]+)`|(\w+))(?:\s+|\s*:\s*)(\w+)\s*", re.ASCII)


def source_of(
    streams: Sequence[StreamSettings], paths: Sequence[str], links_in: Callable[[], Path]
) -> tuple[Source, dict[str, str]]:
    """What reads these files once for all these streams, which read them alike; and which files are not whole.

    `links_in` makes a folder for links to files of text whose paths DuckDB would take for globs.
    """
    names = list(dict.fromkeys(name for settings in streams for name in named_columns(settings)))
    first = streams[0]
    if first.options:
        raise _refused(first, f"options = {{ {listed(list(first.options))} }}")
    if first.format == "parquet":
        if first.schema:
            raise _refused(first, "a schema of Parquet files")
        heads = dict(zip(paths, parquet_heads(paths), strict=True))
        broken = {path: head for path, head in heads.items() if isinstance(head, str)}
        return ParquetSource(first, {p: h[0] for p, h in heads.items() if not isinstance(h, str)}, names), broken
    packed = [path for path in paths if path.endswith(COMPRESSIONS) and not path.endswith(CHECKABLE_COMPRESSIONS)]
    if packed:
        raise _refused(first, f"how {packed[0]} is packed")
    return TextSource(first, paths, names, links_in), {}


def _refused(settings: StreamSettings, what: str) -> SettingsError:
    return SettingsError(f"stream {settings.name!r}: {what}: this needs Spark, so run it without --engine local")


def schema_columns(schema: str) -> dict[str, str] | None:
    """The columns of a schema such as "id STRING, t BIGINT" with their types; None where it has others."""
    found = {}
    for text in schema.split(","):
        match = _COLUMN.fullmatch(text)
        kind = _TYPES.get(match[3].upper()) if match else None
        if match is None or kind is None:
            return None
        found[match[1] or match[2]] = kind
    return found


def _with_file(columns: Sequence[pa.Array], names: Sequence[str], path: str) -> pa.RecordBatch:
    """The columns and, in each row, which file it is from, as Spark says it."""
    rows = np.zeros(len(columns[0]) if columns else 0, np.int32)
    address = "file:" + quote(path, safe="/~!$&'()*+,;=:@")
    file = [pa.DictionaryArray.from_arrays(pa.array(rows), pa.array([text])) for text in (address, Path(path).name)]
    return pa.RecordBatch.from_arrays([*columns, *file], [*names, *FILE])


def _as_spark_reads(kind: pa.DataType) -> pa.DataType:
    """Whole numbers of 64 bits without a sign are decimals to Spark; their ids are hashed as such."""
    return pa.decimal128(20, 0) if pa.types.is_uint64(kind) else kind


def _decimals(column: pa.Array) -> pa.Array:
    return column.cast(_as_spark_reads(column.type)) if pa.types.is_uint64(column.type) else column


class ParquetSource:
    """Parquet files, read by Arrow. A column that only other files have is null in a file, as Spark reads it."""

    def __init__(self, settings: StreamSettings, schemas: Mapping[str, pa.Schema], names: Sequence[str]) -> None:
        self._names = names
        self._spelled = {path: self._spelling(settings, path, schema) for path, schema in schemas.items()}
        self._types = {
            name: _as_spark_reads(schemas[path].field(spelling).type)
            for path, spelled in self._spelled.items()
            for name, spelling in spelled.items()
        }
        for path, spelled in self._spelled.items():
            for name in set(names) - set(spelled):
                if elsewhere(name, path, schemas[path]):
                    raise _refused(settings, f"`{name}` is no column of {path}, but a folder is named for it")
                if name not in self._types:
                    has = listed(schemas[path].names)
                    raise SettingsError(f"stream {settings.name!r}: {path} has no column `{name}`; it has: {has}")
        self.schemas: Sequence[pa.Schema] = list(
            dict.fromkeys(self._batch(path, schemas[path].empty_table()).schema for path in schemas)
        )

    def _spelling(self, settings: StreamSettings, path: str, schema: pa.Schema) -> dict[str, str]:
        """The names that the file has, as it writes them."""
        found: dict[str, str] = {}
        for name in self._names:
            alike = [other for other in schema.names if other.lower() == name.lower()]
            if len(alike) > 1:
                raise SettingsError(f"stream {settings.name!r}: {path} has several `{name}`")
            if alike:
                found[name] = alike[0]
        return found

    def _batch(self, path: str, rows: Any) -> pa.RecordBatch:
        table = pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows
        if not self._names:
            return _with_file([pa.nulls(table.num_rows)], ["nothing"], path)
        spelled = self._spelled[path]
        columns = [
            _decimals(table.column(spelled[name]).combine_chunks())
            if name in spelled
            else pa.nulls(table.num_rows, self._types[name])
            for name in self._names
        ]
        return _with_file(columns, self._names, path)

    def batches(self) -> Iterator[pa.RecordBatch]:
        for path, spelled in self._spelled.items():
            try:
                with pq.ParquetFile(path) as file:
                    wanted = sorted(set(spelled.values())) or file.schema_arrow.names[:1]
                    for batch in file.iter_batches(_BATCH_ROWS, columns=wanted, use_threads=False):
                        yield self._batch(path, batch)
            except (OSError, pa.ArrowException) as error:
                raise UnreadableError(f"{path} cannot be read: {error}") from error


class TextSource:
    """CSV or JSON files, read by DuckDB, whose columns get the types that Spark would find."""

    def __init__(
        self, settings: StreamSettings, paths: Sequence[str], names: Sequence[str], links_in: Callable[[], Path]
    ) -> None:
        self._names = names
        self._connection = connected()
        known = [KnownFile(0, path, 0, "", 0, 0, None, None) for path in paths]
        fields = {f"{at}": PlainColumn(name) for at, name in enumerate(names)}
        raw = RawFiles(settings.name, tuple(known), format=settings.format, fields=fields)
        plain = not any(set(path) & set("*?[") for path in paths)
        links = {one.path: one for one in known} if plain else link(known, links_in())
        self._links = {text: one.path for text, one in links.items()}
        try:
            rows = text_rows(self._connection, raw, links)
            columns = self._columns(settings, rows)
        except (StoreError, duckdb.Error) as error:
            raise _refused(settings, str(error).splitlines()[0]) from error
        picked = ", ".join([*(f"{sql} AS {field_column(str(at))}" for at, sql in enumerate(columns)), LINK])
        self._query, self._values = f"SELECT {picked} FROM ({rows.query})", dict(rows.values)
        empty = self._read(limit=" LIMIT 0")
        self.schemas: Sequence[pa.Schema] = [self._batch(one, "").schema for one in empty]

    def _columns(self, settings: StreamSettings, rows: TextRows) -> list[str]:
        """SQL of each column in its type."""
        stated = None
        if settings.schema is not None:
            stated = schema_columns(settings.schema) if settings.format == "csv" else None
            if stated is None:
                raise StoreError(f"the schema {settings.schema!r}")
            stated = {name.lower(): kind for name, kind in stated.items()}
        types = {} if stated is not None else found_types(self._connection, settings.format, rows)
        made = []
        for at, name in enumerate(self._names):
            part = field_column(str(at))
            if part not in rows.parts or (stated is not None and name.lower() not in stated):
                raise SettingsError(f"stream {settings.name!r}: its files have no column `{name}`")
            if stated is not None:
                made.append(typed_alone(part, stated[name.lower()]))
                continue
            kind, odd = types[part]
            if odd and (kind == "VARCHAR" and settings.format == "json"):
                raise StoreError(f"`{name}` has texts and fractions")
            if kind == "texts and objects":
                raise StoreError(f"`{name}` has objects or lists")
            if odd and settings.format == "csv" and kind == "VARCHAR":
                raise StoreError(f"`{name}` has numbers that only Java reads, like 5d")
            made.append(f"CAST({part} AS VARCHAR)" if kind is None else typed(part, settings.format, kind))
        return made

    def _read(self, limit: str = "") -> Iterator[pa.RecordBatch]:
        reader = self._connection.sql(self._query + limit, params=self._values).to_arrow_reader(_BATCH_ROWS)
        none = True
        for batch in reader:
            none = False
            yield batch
        if none:
            yield pa.RecordBatch.from_arrays([pa.array([], one.type) for one in reader.schema], schema=reader.schema)

    def _batch(self, rows: pa.RecordBatch, link_of_all: str) -> pa.RecordBatch:
        return _with_file(rows.columns[:-1], self._names, self._links.get(link_of_all, link_of_all))

    def batches(self) -> Iterator[pa.RecordBatch]:
        for rows in self._read():
            links = rows.column(rows.num_columns - 1).dictionary_encode()
            codes = links.indices.to_numpy()
            for code, name in enumerate(links.dictionary.to_pylist()):
                whole = len(links.dictionary) == 1
                yield self._batch(rows if whole else rows.filter(pa.array(codes == code)), name)
