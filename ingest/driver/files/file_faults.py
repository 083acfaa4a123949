"""Files that cannot be read, found here by looking at each of them: an engine fails at the first that it meets."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from ingest.driver.configuration.settings import StreamSettings
from ingest.driver.files.input_files import FoundFile
from ingest.driver.files.needed_columns import lacked, lacking_faults, needed_columns
from ingest.driver.files.parquet_types import type_faults
from ingest.driver.files.text_files import header_faults, text_look
from ingest.executor.columns import kind_of
from sketches.event_rules import PlainColumn
from sketches.events import Kind

Found = TypeVar("Found")

ParquetHead = tuple[pa.Schema, list[int]]


def parquet_heads(paths: Sequence[str]) -> list[ParquetHead | str]:
    """The columns of each Parquet file and the rows of its row groups, or why it cannot be read."""
    return _each(_head, paths)


def looked_at(
    settings: StreamSettings,
    files: Sequence[FoundFile],
    schema_names: Callable[[str], list[str] | None],
    kind: Kind | None,
    needed: Mapping[str, str] | None = None,
) -> tuple[dict[str, str], list[FoundFile]]:
    """Which files cannot be read as the settings say, and why, and which have no rows.

    Reads text files, and the footers of Parquet files. `schema_names` reads a schema; `kind` is that of the stream's
    values, once it has some; `needed` are the columns that a file must have, if not those of the settings.
    """
    paths = [file.path for file in files]
    needed = needed_columns(settings) if needed is None else needed
    if settings.format == "parquet":
        heads = dict(zip(paths, parquet_heads(paths), strict=True))
        broken = {path: head for path, head in heads.items() if isinstance(head, str)}
        schemas = {path: head[0] for path, head in heads.items() if not isinstance(head, str)}
        names = {path: schema.names for path, schema in schemas.items()}
        lacking = {path: lacked(needed, names[path], path) for path in schemas}
        broken |= lacking_faults(lacking, needed, names, is_known=kind is not None)
        schemas = {path: schema for path, schema in schemas.items() if path not in broken}
        broken |= type_faults(settings, schemas)
        schemas = {path: schema for path, schema in schemas.items() if path not in broken}
        return broken | _text_among_numbers(settings, schemas, kind), []
    looks = dict(zip(paths, _each(partial(text_look, settings=settings, keys=list(needed)), paths), strict=True))
    faults = {path: look.fault for path, look in looks.items() if look.fault is not None}
    headers = {path: look.header for path, look in looks.items() if look.header}
    stated = schema_names(settings.schema) if headers and settings.schema is not None else None
    if stated is None:  # or else the header is told to be another than that of the schema
        lacking = {path: lacked(needed, header, path) for path, header in headers.items()}
        lacking |= {path: lacked(needed, look.keys, path) for path, look in looks.items() if look.keys is not None}
        faults |= lacking_faults(lacking, needed, headers, is_known=kind is not None)
        headers = {path: header for path, header in headers.items() if path not in faults}
    return faults | header_faults(headers, stated), [file for file in files if looks[file.path].is_empty]


def _text_among_numbers(
    settings: StreamSettings, schemas: Mapping[str, pa.Schema], kind: Kind | None
) -> dict[str, str]:
    """The files whose values are text, where those of the stream, or of at least half of the files, are numbers.

    With them the values of a new stream would all be text.
    """
    plain = PlainColumn.read(settings.expressions["value"])
    name = None if plain is None else plain.column
    kinds = {path: kind_of(schema.field(name).type) for path, schema in schemas.items() if name in schema.names}
    text = [path for path, one in kinds.items() if one is Kind.KEY]
    if kind is Kind.KEY or (kind is None and 2 * len(text) > len(kinds)):
        return {}
    whose = "other files" if kind is None else "the stream"
    return dict.fromkeys(text, f"its column {name!r} is text, and the values of {whose} are numbers")


def damaged_files(settings: StreamSettings, files: Sequence[FoundFile]) -> dict[str, str]:
    """After an engine has failed to read one of them: which Parquet files have rows that cannot be read."""
    paths = [file.path for file in files] if settings.format == "parquet" else []
    found = zip(paths, _each(_parquet_fault, paths), strict=True)
    return {path: fault for path, fault in found if fault is not None}


def _each(look: Callable[[str], Found], paths: Sequence[str]) -> list[Found]:
    with ThreadPoolExecutor(min(16, 4 * (os.cpu_count() or 1))) as threads:
        return list(threads.map(look, paths))


def _head(path: str) -> ParquetHead | str:
    try:
        with pq.ParquetFile(path) as file:
            groups = [file.metadata.row_group(number).num_rows for number in range(file.num_row_groups)]
            return file.schema_arrow, groups
    except (OSError, pa.ArrowException) as error:
        return f"not a whole Parquet file ({_first_line(error)})"


def _parquet_fault(path: str) -> str | None:
    try:
        with pq.ParquetFile(path) as file:
            for _ in file.iter_batches(1 << 17, use_threads=False):
                pass
    except (OSError, pa.ArrowException) as error:
        return f"not a whole Parquet file ({_first_line(error)})"
    return None


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
