"""Parquet files of which a stream takes plain columns: whoever sketches them reads their row groups by itself.

Moving rows from Java to Python takes most of the time of a stream with expressions. Here no row is moved.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa

from ingest.driver.configuration.settings import StreamSettings
from ingest.driver.files.file_faults import parquet_heads
from ingest.executor.worker import RowGroup
from sketches.event_rules import RETRACT, ROLES, PlainColumn

_TASK_ROWS: Final = 8_000_000  # a worker sketches a chunk of them at a time; more in a task cost nothing


@dataclass(frozen=True, slots=True)
class ParquetReading:
    """Row groups of Parquet files, and the columns that are taken."""

    columns: Mapping[str, PlainColumn]
    row_groups: Sequence[RowGroup]
    types: Mapping[str, Sequence[pa.DataType]]

    @property
    def rows(self) -> int:
        return sum(group.rows for group in self.row_groups)

    def tasks(self, cores: int) -> list[list[RowGroup]]:
        """The row groups in order, dealt evenly to a multiple of the cores. Few tasks leave little to merge."""
        cores = max(1, cores)
        rounds = -(-self.rows // (_TASK_ROWS * cores))
        share = max(1, -(-self.rows // max(1, rounds * cores)))
        tasks: list[list[RowGroup]] = []
        passed = 0
        for group in self.row_groups:
            number = (passed + group.rows // 2) // share
            while len(tasks) <= number:
                tasks.append([])
            tasks[number].append(group)
            passed += group.rows
        return [task for task in tasks if task]


def plain_columns(settings: StreamSettings) -> dict[str, PlainColumn] | None:
    """The parts of an event as columns and constants; None where one is an expression, which must be evaluated."""
    if settings.format != "parquet" or settings.schema or settings.options:
        return None
    found = {part: PlainColumn.read(expression) for part, expression in settings.parts.items()}
    plain = {part: column for part, column in found.items() if column is not None}
    return plain if len(plain) == len(found) else None


def read_parquet(settings: StreamSettings, paths: Sequence[str]) -> tuple[ParquetReading | None, dict[str, str]]:
    """How tasks read these files, and which files are not whole; None where tasks cannot read them by themselves."""
    columns = plain_columns(settings)
    if columns is None or not paths:
        return None, {}
    heads = parquet_heads(paths)
    broken = {path: head for path, head in zip(paths, heads, strict=True) if isinstance(head, str)}
    row_groups: list[RowGroup] = []
    types: dict[str, list[pa.DataType]] = {part: [] for part in columns}
    for path, head in zip(paths, heads, strict=True):
        if isinstance(head, str):
            continue
        schema, groups = head
        for part, plain in columns.items():
            if plain.column is not None and plain.column not in schema.names:
                if part in (*ROLES, RETRACT) or elsewhere(plain.column, path, schema):
                    return None, {}  # in other letters, in the name of a folder, or nowhere: the other way will tell
                continue  # of a field: the file was written before there was such a column
            found = pa.scalar(plain.constant).type if plain.column is None else schema.field(plain.column).type
            if part == "source" and pa.types.is_dictionary(found):
                found = found.value_type
            if found not in types[part]:
                types[part].append(found)
        row_groups += [RowGroup(path, number, rows) for number, rows in enumerate(groups)]
    if row_groups and not all(types.values()):
        return None, {}  # no file has the column of a field
    return ParquetReading(columns, row_groups, types), broken


def elsewhere(column: str, path: str, schema: pa.Schema) -> bool:
    """Whether a file has a column in other letters, or one of its folders is named for it."""
    name = column.lower()
    return any(other.lower() == name for other in schema.names) or any(
        part.lower().startswith(f"{name}=") for part in Path(path).parts
    )
