"""A dry run: what a run would do, and the first events as it would read them. Changes nothing."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any, Final

import numpy as np
import pyarrow as pa

from ingest.driver.configuration.settings import Settings, StreamSettings
from ingest.driver.configuration.stream_kinds import checked_kinds
from ingest.driver.engine import Engine
from ingest.driver.engine_choice import engine_for
from ingest.driver.files.file_faults import looked_at
from ingest.driver.job import chosen_streams
from ingest.driver.progress import Progress
from ingest.driver.run_options import RunOptions
from ingest.driver.sketching import worker_settings
from ingest.driver.stream_work import StreamWork, find_work
from ingest.executor.chunk import sorted_labels
from ingest.executor.columns import CheckedRows, check
from ingest.executor.field_columns import fields_of
from ingest.executor.tally import Tally, example_as_dict
from ingest.executor.worker_settings import WorkerSettings
from sketches.decay import parse_decay
from sketches.errors import WaneError
from sketches.events import Events, Kind
from sketches.family import Sketch
from sketches.formatting import counted, numbered_moment_text, row_text, size_text
from sketches.units import TimeUnit

EVENTS: Final = 10
_SHOWN_FILES: Final = 20
_LOOKED_AT: Final = 1_000  # rows of which a family is built to see whether it can be


@dataclass
class Preview:
    """What a run would do for one stream. An event has a source, id, time, value, weight, epoch, time in
    seconds, and fields."""

    stream: str
    new: list[str] = field(default_factory=list)
    known: int = 0
    copies: dict[str, str] = field(default_factory=dict)
    changed: list[str] = field(default_factory=list)
    unreadable: dict[str, str] = field(default_factory=dict)
    events: list[dict[str, Any]] = field(default_factory=list)
    rejected: dict[str, dict[str, str | None]] = field(default_factory=dict)  # reason → an example
    field_faults: dict[str, dict[str, int]] = field(default_factory=dict)  # of the first rows
    unserved: dict[str, list[str]] = field(default_factory=dict)  # family → what it cannot serve
    keeps: dict[str, object] = field(default_factory=dict)  # the settings that say how much is kept
    replaced: tuple[int, int] | None = None
    error: str | None = None

    def lines(self, unit: TimeUnit) -> Iterator[str]:
        """For people; `unit` is that of the stream's times."""
        files = f"{counted(len(self.new), 'new file')}, {self.known:,} known"
        yield f"{self.stream}: {files}; nothing is changed by a dry run"
        for path in self.new[:_SHOWN_FILES]:
            yield f"  would read   {path}"
        if len(self.new) > _SHOWN_FILES:
            yield f"  …            and {len(self.new) - _SHOWN_FILES:,} more"
        if self.replaced:
            start, end = (numbered_moment_text(moment, unit) for moment in self.replaced)
            yield f"  would replace the epochs from {start} to {end}"
        yield "  would keep   " + ", ".join(f"{name} = {value}" for name, value in self.keeps.items())
        for path, original in self.copies.items():
            yield f"  would skip   {path}: it has the content of {original}"
        for path in self.changed:
            yield f"  would report {path}: it has changed since it was read"
        for path, reason in self.unreadable.items():
            yield f"  would leave  {path}: {reason}"
        for event in self.events:
            yield (
                f"  event        {event['source']}, id {event['id']}, at {numbered_moment_text(event['time'], unit)}, "
                f"value {event['value']}, weight {event['weight']}"
                + "".join(f", {name} {'missing' if held is None else held}" for name, held in event["fields"].items())
            )
        for reason, example in self.rejected.items():
            yield f"  would reject {reason}, such as {row_text(example)}"
        for name, reasons in self.field_faults.items():
            for reason, rows in reasons.items():
                yield f"  would miss   field {name} in {counted(rows, 'row')} of the first: {reason}"
        for family, sentences in self.unserved.items():
            for sentence in sentences:
                yield f"  {family:12} {sentence}"
        if self.error:
            yield f"  error        {self.error}"


def preview(settings: Settings, options: RunOptions, progress: Progress) -> list[Preview]:
    """What a run would do for every chosen stream. Spark starts only where it must read the files."""
    with engine_for(options, progress, None, lambda: True) as engine:
        return [
            _preview(find_work(stream, settings.store, options), engine) for stream in chosen_streams(settings, options)
        ]


def _preview(work: StreamWork, engine: Engine) -> Preview:
    outcome = work.outcome
    found = Preview(
        outcome.stream,
        [file.path for file in work.inputs.new],
        outcome.known,
        outcome.copies,
        outcome.changed,
        outcome.unreadable,
        keeps=_keeps(work.settings),
        replaced=outcome.replaced,
        error=outcome.error,
    )
    files = [*work.inputs.new, *work.reread]
    if found.error is not None or not files:
        return found
    unreadable, empty = looked_at(work.settings, files, engine.schema_names, work.kinds.value)
    found.unreadable |= unreadable
    files = [file for file in files if file.path not in unreadable and file not in empty]
    if not files:
        return found
    try:
        reading, broken = engine.choose(work.settings, [file.path for file in files])
        found.unreadable |= broken
        kinds = checked_kinds(work.settings, reading.types, work.kinds)
        how = worker_settings(work.settings, kinds, datetime.now(UTC), work.replacing)
        columns = engine.first_rows(reading)
    except WaneError as error:
        found.error = str(error)
        return found
    if columns is not None:
        checked = check(columns, how.conversion)
        found.events = _events(columns, checked, how)
        found.field_faults = checked.field_faults
        found.unserved = _unserved(work, checked, how)
        if checked.fault is not None:
            tally = Tally()
            tally.reject(columns, checked.fault, checked.reasons)
            found.rejected = {
                reason: example_as_dict(rejects.examples[0]) for reason, rejects in sorted(tally.rejects.items())
            }
    return found


def _keeps(settings: StreamSettings) -> dict[str, object]:
    """The settings that say how much is kept, the budget as people write it."""
    return settings.kept() | ({} if settings.budget is None else {"budget": size_text(settings.budget)})


def _events(columns: Mapping[str, pa.Array], checked: CheckedRows, how: WorkerSettings) -> list[dict[str, Any]]:
    """The first events, with the ids and values that the file has."""
    fine = range(len(columns["id"])) if checked.fault is None else (checked.fault == 0).nonzero()[0].tolist()
    unit, length = how.conversion.unit, how.epoch
    fields = _first_fields(checked, how)
    found = []
    for number, row in enumerate(itertools.islice(fine, EVENTS)):
        moment = int(checked.times[number])
        found.append(
            {
                "source": checked.source_names[int(checked.sources[number])],
                "id": columns["id"][row].as_py(),
                "time": moment,
                "value": _value(checked, number, how),
                "weight": _in_unit(int(checked.weights[number]) * how.conversion.weight_step),
                "epoch": moment // length * length,
                "seconds": moment * unit.numerator / unit.denominator,
                "fields": {name: column[number] for name, column in fields.items()},
            }
        )
    return found


def _value(checked: CheckedRows, number: int, how: WorkerSettings) -> object:
    """A value as people write it; of a sketch its size, for its weight is how many rows it is of."""
    if how.conversion.sketches:
        return f"a sketch of {size_text(len(checked.values[number]))}"
    value = checked.values[number]
    return checked.labels[int(value)] if how.conversion.kind is Kind.KEY else value.item()


def _first_fields(checked: CheckedRows, how: WorkerSettings) -> dict[str, list[Any]]:
    """The fields of the first events; None where one is missing."""
    parts = {name: [rows] for name, rows in checked.fields.items()}
    fields = fields_of(len(checked), how.conversion.fields, parts).take(slice(0, EVENTS), min(EVENTS, len(checked)))
    return {name: fields[name].to_list() for name in fields}


def _in_unit(weight: Fraction) -> int | float:
    return int(weight) if weight.denominator == 1 else float(weight)


def _unserved(work: StreamWork, checked: CheckedRows, how: WorkerSettings) -> dict[str, list[str]]:
    """For each family the rows, among the first ones and those stored, that it would not serve, and why."""
    found = {
        family.family: [
            *_unstored(work, family.family),
            *_unbuilt(checked, how, family, keywords),
            *_expired(work, checked, how, keywords),
            *_counting_otherwise(work, family),
        ]
        for family, keywords in how.families
    }
    return {family: sentences for family, sentences in found.items() if sentences}


def _unstored(work: StreamWork, family: str) -> Iterator[str]:
    """Epochs that were read before the family was added."""
    if work.stored is None or work.replacing is not None:
        return
    epochs = work.stored.epochs
    lacking = [totals.events for epoch, totals in epochs.items() if not work.stored.is_sketched(family, epoch)]
    if lacking:
        yield (
            f"it has no sketches of {len(lacking):,} of {counted(len(epochs), 'stored epoch')} by source "
            f"({counted(sum(lacking), 'row')}); --backfill builds them"
        )


def _unbuilt(
    checked: CheckedRows, how: WorkerSettings, family: type[Sketch], keywords: Mapping[str, Any]
) -> Iterator[str]:
    """Events that the family refuses: with them a run would fail."""
    if how.conversion.sketches:  # which were checked one by one
        return
    labels = sorted_labels(checked.labels)
    events = Events(checked.ids, checked.times, checked.values, checked.weights, labels, how.conversion.kind)
    try:
        family.build(events.rows(0, min(len(events), _LOOKED_AT)), **keywords)
    except WaneError as error:
        yield f"it cannot be built from the first rows: {error}"


def _expired(work: StreamWork, checked: CheckedRows, how: WorkerSettings, keywords: Mapping[str, Any]) -> Iterator[str]:
    """Rows that are too old for the one decay that the family is built for."""
    if "decay" not in keywords or len(checked) == 0:
        return
    decay = parse_decay(str(keywords["decay"]))
    seen = work.stored.as_of() if work.stored is not None else None
    newest = max(int(checked.times.max()), int(checked.times.min()) if seen is None else seen)
    gone = int(np.count_nonzero(decay(how.conversion.unit.seconds(newest - checked.times)) == 0))
    if gone:
        yield (
            f"{gone:,} of the first {counted(len(checked), 'event')} are older than its decay {decay.spec} looks back, "
            "and count for nothing in it"
        )


def _counting_otherwise(work: StreamWork, family: type[Sketch]) -> Iterator[str]:
    """Families that count repeated rows where the stream forgives them, or the other way round."""
    revoked = work.stored is not None and "unique_revoked" in work.stored.described
    if (work.settings.unique and not revoked) or family.abilities.tells_repeats:
        return
    forgives = family.abilities.forgives_repeats
    if work.settings.repeats == "forgive" and not forgives:
        yield (
            "it counts repeated rows again, which this stream forgives: it answers only when it is asked by name, "
            "unless the stream says unique = true"
        )
    if work.settings.repeats == "count" and forgives:
        yield (
            "it counts a repeated event once, but this stream counts repeats: it answers only when it is asked by name"
        )


def lines_of(previews: Sequence[Preview], settings: Settings, *, as_json: bool) -> list[str]:
    """What `preview` found, to be printed."""
    if as_json:
        return [json.dumps([vars(preview) for preview in previews], ensure_ascii=False, default=str)]
    return [line for preview in previews for line in preview.lines(settings.streams[preview.stream].unit)]
