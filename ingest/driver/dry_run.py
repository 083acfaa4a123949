"""A dry run: what a run would do, and the first events as it would read them. Changes nothing."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import SparkSession

from ingest.driver.job import chosen_streams, start_spark
from ingest.driver.progress import Progress
from ingest.driver.reading import ParquetReading
from ingest.driver.run_options import RunOptions
from ingest.driver.settings import Settings
from ingest.driver.sketching import Reading, choose_reading, worker_settings
from ingest.driver.stream_work import StreamWork, find_work
from ingest.executor.columns import CheckedRows, check
from ingest.executor.tally import Tally, example_as_dict
from ingest.executor.worker import WorkerSettings, read_row_group
from sketches.errors import WaneError
from sketches.events import Kind

EVENTS: Final = 10
_LOOKED_AT: Final = 1_000  # rows that Spark reads for a preview


@dataclass
class Preview:
    """What a run would do for one stream. An event has a source, id, time, value, weight, epoch and time in seconds."""

    stream: str
    new: list[str] = field(default_factory=list)
    known: int = 0
    copies: dict[str, str] = field(default_factory=dict)
    changed: list[str] = field(default_factory=list)
    unreadable: dict[str, str] = field(default_factory=dict)
    events: list[dict[str, Any]] = field(default_factory=list)
    rejected: dict[str, dict[str, str | None]] = field(default_factory=dict)  # reason → an example
    replaced: tuple[int, int] | None = None
    error: str | None = None


def preview(settings: Settings, options: RunOptions, progress: Progress) -> list[Preview]:
    """What a run would do for every chosen stream. Spark starts only where it must read the files."""
    with ExitStack() as stack:

        @cache
        def spark() -> SparkSession:
            return start_spark(stack, options, progress)

        return [
            _preview(find_work(stream, settings.store, options), spark) for stream in chosen_streams(settings, options)
        ]


def _preview(work: StreamWork, spark: Callable[[], SparkSession]) -> Preview:
    outcome = work.outcome
    found = Preview(
        outcome.stream,
        [file.path for file in work.inputs.new],
        outcome.known,
        outcome.copies,
        outcome.changed,
        outcome.unreadable,
        replaced=outcome.replaced,
        error=outcome.error,
    )
    files = [*work.inputs.new, *work.reread]
    if found.error is not None or not files:
        return found
    try:
        reading, broken = choose_reading(work.settings, files, spark)
        found.unreadable |= broken
        how = worker_settings(work.settings, reading, work.kind, datetime.now(UTC), work.replacing)
        columns = _first_rows(reading)
    except WaneError as error:
        found.error = str(error)
        return found
    if columns is not None:
        checked = check(columns, how.conversion)
        found.events = _events(columns, checked, how)
        if checked.fault is not None:
            tally = Tally()
            tally.reject(columns, checked.fault, checked.reasons)
            found.rejected = {
                reason: example_as_dict(rejects.examples[0]) for reason, rejects in sorted(tally.rejects.items())
            }
    return found


def _first_rows(reading: Reading) -> Mapping[str, pa.Array] | None:
    if isinstance(reading, ParquetReading):
        batches = (batch for group in reading.row_groups for batch in read_row_group(group, reading.columns))
        return next(itertools.islice(batches, 1), None)
    table = reading.frame.limit(_LOOKED_AT).toArrow().combine_chunks()
    if table.num_rows == 0:
        return None
    return {name: table.column(name).chunk(0) for name in table.column_names}


def _events(columns: Mapping[str, pa.Array], checked: CheckedRows, how: WorkerSettings) -> list[dict[str, Any]]:
    """The first events, with the ids and values that the file has."""
    fine = range(len(columns["id"])) if checked.fault is None else (checked.fault == 0).nonzero()[0].tolist()
    unit, length = how.conversion.unit, how.epoch
    found = []
    for number, row in enumerate(itertools.islice(fine, EVENTS)):
        moment = int(checked.times[number])
        key = how.conversion.kind is Kind.KEY
        found.append(
            {
                "source": checked.source_names[int(checked.sources[number])],
                "id": columns["id"][row].as_py(),
                "time": moment,
                "value": checked.labels[int(checked.values[number])] if key else checked.values[number].item(),
                "weight": int(checked.weights[number]),
                "epoch": moment // length * length,
                "seconds": moment * unit.numerator / unit.denominator,
            }
        )
    return found
