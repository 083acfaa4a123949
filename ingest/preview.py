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

from ingest.columns import Checked, check
from ingest.job import chosen_streams, start_spark
from ingest.planning import Order, Plan, plan_stream
from ingest.progress import Progress
from ingest.reading import ParquetReading
from ingest.settings import Settings
from ingest.sketching import Reading, make_recipe, read
from ingest.tally import Tally, example_as_dict
from ingest.worker import Recipe, read_piece
from sketches.errors import WaneError
from sketches.events import Kind

EVENTS: Final = 10
_LOOKED_AT: Final = 1_000  # rows that Spark reads for a preview


@dataclass
class Preview:
    """What a run would do for one stream; events have the columns source, id, time, value, weight, epoch."""

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


def preview(settings: Settings, order: Order, progress: Progress) -> list[Preview]:
    """Look at every stream; Spark starts only where it must read the files."""
    with ExitStack() as stack:

        @cache
        def spark() -> SparkSession:
            return start_spark(stack, order, progress)

        return [
            _preview(plan_stream(stream, settings.store, order), spark) for stream in chosen_streams(settings, order)
        ]


def _preview(plan: Plan, spark: Callable[[], SparkSession]) -> Preview:
    outcome = plan.outcome
    found = Preview(
        outcome.stream,
        [file.path for file in plan.inputs.new],
        outcome.known,
        outcome.copies,
        outcome.changed,
        outcome.unreadable,
        replaced=outcome.replaced,
        error=outcome.error,
    )
    files = [*plan.inputs.new, *plan.again]
    if found.error is not None or not files:
        return found
    try:
        reading, broken = read(plan.settings, files, spark)
        found.unreadable |= broken
        recipe = make_recipe(plan.settings, reading, plan.kind, datetime.now(UTC), plan.replacing)
        columns = _first_rows(reading)
    except WaneError as error:
        found.error = str(error)
        return found
    if columns is not None:
        checked = check(columns, recipe.limits)
        found.events = _events(columns, checked, recipe)
        if checked.fault is not None:
            tally = Tally()
            tally.reject(columns, checked.fault, checked.reasons)
            found.rejected = {
                reason: example_as_dict(rejects.examples[0]) for reason, rejects in sorted(tally.rejects.items())
            }
    return found


def _first_rows(reading: Reading) -> Mapping[str, pa.Array] | None:
    if isinstance(reading, ParquetReading):
        batches = (batch for piece in reading.pieces for batch in read_piece(piece, reading.columns))
        return next(itertools.islice(batches, 1), None)
    table = reading.frame.limit(_LOOKED_AT).toArrow().combine_chunks()
    if table.num_rows == 0:
        return None
    return {name: table.column(name).chunk(0) for name in table.column_names}


def _events(columns: Mapping[str, pa.Array], checked: Checked, recipe: Recipe) -> list[dict[str, Any]]:
    """The first events with their ids and values as they stand in the file."""
    fine = range(len(columns["id"])) if checked.fault is None else (checked.fault == 0).nonzero()[0].tolist()
    unit, length = recipe.limits.unit, recipe.epoch
    found = []
    for number, row in enumerate(itertools.islice(fine, EVENTS)):
        moment = int(checked.times[number])
        key = recipe.limits.kind is Kind.KEY
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
