"""Sketching files: one table of totals and sketches, and a tally of what was read.

A file that cannot be read, or that changes while it is read, is left out, and the others are read again: the table
never holds a part of a file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import unquote, urlparse

import pyarrow as pa
import pyarrow.compute as pc

from ingest.driver.configuration.settings import SettingsError, StreamSettings
from ingest.driver.configuration.stream_kinds import StreamKinds, checked_kinds
from ingest.driver.engine import Engine, JobError
from ingest.driver.files.file_faults import damaged_files, looked_at
from ingest.driver.files.input_files import FoundFile, unchanged
from ingest.driver.progress import Progress
from ingest.executor.columns import TOO_OLD, Conversion
from ingest.executor.tally import Tally
from ingest.executor.worker_settings import EarlierEpochs, WorkerSettings
from sketches.event_rules import MAX_TIME
from sketches.events import Kind
from sketches.family import Sketch
from sketches.fields import FieldKind
from sketches.registry import FAMILIES
from sketches.units import TimeUnit

_MOST_ATTEMPTS: Final = 20  # each leaves out one more file that cannot be read


@dataclass(frozen=True, slots=True)
class SketchedFiles:
    """The rows of `ingest.executor.worker` for some files, which files these are, and why others were left out."""

    kinds: StreamKinds
    table: pa.Table  # rows without a source hold sketches of the whole stream
    tally: Tally
    files: Sequence[FoundFile]
    unreadable: Mapping[str, str]


def sketch_files(
    settings: StreamSettings,
    files: Sequence[FoundFile],
    kinds: StreamKinds,
    engine: Engine,
    started: datetime,
    progress: Progress,
    earlier: Mapping[str, EarlierEpochs],
    within: tuple[int, int] | None = None,
) -> SketchedFiles:
    """Sketch whole files; of their events only those `within` a range of times, if one is given."""
    needed = None if within is None else dict[str, str]()  # what was read once is read again as it is
    unreadable, empty = looked_at(settings, files, engine.schema_names, kinds.value, needed)
    left = [file for file in files if file.path not in unreadable and file not in empty]
    for _ in range(_MOST_ATTEMPTS if left else 0):
        reading, broken = engine.choose(settings, [file.path for file in left])
        unreadable |= broken
        left = [file for file in left if file.path not in unreadable]
        if not left:
            break
        known = checked_kinds(settings, reading.types, kinds)
        how = replace(worker_settings(settings, known, started, within), earlier=earlier)
        try:
            table = engine.sketch(reading, how, f"sketching {settings.name}")
        except Exception as error:
            culprits = _named_in(error, left)
            if not culprits:
                raise JobError(engine.failure(error)) from error
            unreadable |= damaged_files(settings, left) | culprits
        else:
            moved = {file.path: "it changed while it was read" for file in left if not unchanged(file)}
            if not moved:
                tally, rows = split_tallies(table)
                useless = files_of_rejects(tally, settings) if within is None else {}
                if not useless:
                    progress.start.ended("workers", tally.first_row)
                    return SketchedFiles(known, rows, tally, [*left, *empty], unreadable)
                unreadable |= useless
            unreadable |= moved
        left = [file for file in left if file.path not in unreadable]
        if not left:
            break
    return SketchedFiles(
        kinds,
        empty_table(settings),
        Tally(),
        empty,
        unreadable | dict.fromkeys((f.path for f in left), "too many files failed before it"),
    )


def files_of_rejects(tally: Tally, settings: StreamSettings) -> dict[str, str]:
    """The files none of whose rows would be an event, and why not. Rows that are too old are meant to be lost."""
    if settings.max_rejected is None:
        return {}
    lost: dict[str, int] = {}
    most: dict[str, tuple[int, str]] = {}
    for reason, rejects in sorted(tally.rejects.items()):
        for name, rows in rejects.files.items() if reason != TOO_OLD else ():
            path = _path_of(name)
            lost[path] = lost.get(path, 0) + rows
            most[path] = max(most.get(path, (0, "")), (rows, reason))
    whole = [path for path, rows in lost.items() if rows == tally.files[path].rows]
    return {path: f"{_all_rows(lost[path])} would be rejected: {most[path][1]}" for path in whole}


def _all_rows(rows: int) -> str:
    return "its one row" if rows == 1 else f"all of its {rows:,} rows"


def clock_of(moment: datetime, unit: TimeUnit) -> int:
    """A moment of UTC in units of a stream."""
    return int(moment.replace(tzinfo=UTC).timestamp() * unit.denominator / unit.numerator)


def worker_settings(
    settings: StreamSettings, kinds: StreamKinds, started: datetime, within: tuple[int, int] | None = None
) -> WorkerSettings:
    """What the driver tells every worker. For the range of a backfill, `max_age` does not hold."""
    now = clock_of(started, settings.unit)
    latest = MAX_TIME if settings.max_future is None else min(MAX_TIME, now + settings.max_future)
    earliest = -MAX_TIME if settings.max_age is None or within is not None else max(-MAX_TIME, now - settings.max_age)
    kind = kinds.value or Kind.INTEGER
    fields = {name: kinds.fields.get(name, FieldKind.INTEGER) for name in settings.fields}  # or has only nulls
    families = _families(settings, kind)
    taking = families if settings.of_sketches else ()
    conversion = Conversion(kind, settings.unit, earliest, latest, now, settings.weight_step, fields)
    conversion = replace(conversion, retracts=settings.retract is not None, sketches=taking)
    return WorkerSettings(conversion, settings.epoch, families, within)


def _families(settings: StreamSettings, kind: Kind | None = None) -> tuple[tuple[type[Sketch], dict[str, Any]], ...]:
    """The families of a stream with the keywords of their `build`; each must take the kind of the stream's values."""
    chosen = [FAMILIES[name] for name in settings.families]
    for family in chosen:
        if kind is not None and kind not in family.abilities.kinds:
            raise SettingsError(
                f"family {family.family!r} takes values of kind {', '.join(family.abilities.kinds)}, but those of "
                f"stream {settings.name!r} are of kind {kind}"
            )
    return tuple((family, settings.build_keywords(family)) for family in chosen)


def empty_table(settings: StreamSettings) -> pa.Table:
    """No rows, in the schema of a worker's output but for tallies."""
    conversion = Conversion(Kind.INTEGER, settings.unit)
    schema = WorkerSettings(conversion, settings.epoch, _families(settings)).schema
    return schema.empty_table().drop_columns("tally")


def _named_in(error: BaseException, files: Sequence[FoundFile]) -> dict[str, str]:
    """The files that an error of the engine names, with the reason for each."""
    text = unquote(str(error))
    named = [file.path for file in files if file.path in text]
    longest = [path for path in named if not any(path != other and path in other for other in named)]
    return {path: _reason(text, path) for path in longest}


def _reason(text: str, path: str) -> str:
    lines = [line.strip() for line in text.splitlines() if path in line]
    return lines[0].removeprefix("ingest.executor.worker.UnreadableError: ")[:300] if lines else "it cannot be read"


def split_tallies(table: pa.Table) -> tuple[Tally, pa.Table]:
    """The tallies of all tasks as one, and the other rows."""
    tally = Tally()
    for data in table["tally"].drop_null().to_pylist():
        tally.merge_bytes(data)
    tally.files = {_path_of(name): file for name, file in tally.files.items()}
    tally.missing = {
        name: {_path_of(file): rows for file, rows in by_file.items()} for name, by_file in tally.missing.items()
    }
    return tally, table.filter(pc.is_null(table["tally"])).drop_columns("tally")


def _path_of(name: str) -> str:
    """The path of a file that Spark names by its address."""
    return unquote(urlparse(name).path) if name.startswith("file:") else name
