"""Before any row is read: which files a run takes, which it leaves, and what a backfill replaces."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ingest.inputs import FoundFile, Inputs, compare, find_files
from ingest.settings import SettingsError, StreamSettings
from ingest.summary import Outcome
from sketches.errors import WaneError
from sketches.events import Kind
from store.catalogue import StreamHeld, read_catalogue
from store.ledger import KnownFile, known_files


@dataclass(frozen=True, slots=True)
class Order:
    """What one run is asked to do."""

    master: str | None = None
    streams: Sequence[str] = ()  # none: all
    backfill: tuple[int, int] | None = None
    allow_missing: bool = False
    wait: float = 0.0
    verbose: bool = False
    configuration: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Plan:
    """What is known of a stream before any row is read."""

    settings: StreamSettings
    inputs: Inputs
    outcome: Outcome
    held: StreamHeld | None
    again: Sequence[FoundFile] = ()  # files that a backfill reads once more
    replacing: tuple[int, int] | None = None
    ledger: Mapping[str, KnownFile] = field(default_factory=dict)

    @property
    def has_work(self) -> bool:
        return bool(self.inputs.new or self.inputs.copies or self.replacing)

    @property
    def kind(self) -> Kind | None:
        """The kind of values of the stream, once it has events."""
        stored = _stored_settings(self.held).get("kind")
        return Kind(stored) if stored in list(Kind) else None


def plan_stream(stream: StreamSettings, store: Path, order: Order) -> Plan:
    """Hold the files of a stream against the ledger; reads no rows and changes nothing."""
    ledger = known_files(store, stream.name)
    held = read_catalogue(store).streams.get(stream.name) if store.exists() else None
    inputs = compare(find_files(stream), ledger)
    outcome = Outcome(
        stream.name,
        known=len(inputs.known),
        changed=[file.path for file in inputs.changed],
        unreadable=dict(inputs.unreadable),
        copies={file.path: original for file, original in inputs.copies},
    )
    plan = Plan(stream, inputs, outcome, held, ledger={known.path: known for known in ledger})
    try:
        _check_fixed(stream, held)
        return plan if order.backfill is None else _plan_backfill(plan, order)
    except WaneError as error:
        outcome.error = str(error)
        return plan


def _check_fixed(stream: StreamSettings, held: StreamHeld | None) -> None:
    stored = _stored_settings(held)
    for name, value in stream.fixed().items():
        if name in stored and stored[name] != value:
            raise SettingsError(
                f"{name} of stream {stream.name!r} is {value!r}, but its stored sketches were built with "
                f"{stored[name]!r} and do not merge with others; give it back, or the stream another name"
            )


def _stored_settings(held: StreamHeld | None) -> dict[str, Any]:
    if held is None:
        return {}
    found = json.loads(held.settings)
    return found if isinstance(found, dict) else {}


def _plan_backfill(plan: Plan, order: Order) -> Plan:
    """Widen the range to whole epochs, and find the files that hold events in it."""
    assert order.backfill is not None
    start, end = _whole_epochs(order.backfill, plan)
    present = [*plan.inputs.known, *plan.inputs.changed, *(file for file, _ in plan.inputs.copies)]
    spans = {entry.fingerprint: entry for entry in plan.ledger.values() if entry.rows}
    new = {file.fingerprint for file in plan.inputs.new}
    again: dict[str, FoundFile] = {}
    for file in present:
        entry = plan.ledger.get(file.path)
        content = file.fingerprint or (entry.fingerprint if entry is not None else "")
        if content not in new and (content not in spans or _overlaps(spans[content], start, end)):
            again.setdefault(content, file)
    missing = [
        entry.path
        for entry in plan.inputs.gone
        if entry.rows and _overlaps(entry, start, end) and entry.fingerprint not in again
    ]
    if missing and not order.allow_missing:
        shown = ", ".join(missing[:3]) + (f" and {len(missing) - 3} more" if len(missing) > 3 else "")
        raise SettingsError(
            f"the backfill of stream {plan.settings.name!r} would lose events of files that are gone: {shown}; bring "
            "them back, or say --allow-missing"
        )
    plan.outcome.replaced = (start, end)
    return replace(plan, again=sorted(again.values(), key=lambda file: file.path), replacing=(start, end))


def _whole_epochs(wanted: tuple[int, int], plan: Plan) -> tuple[int, int]:
    length = plan.settings.epoch
    start, end = wanted[0] // length * length, -(-wanted[1] // length) * length
    if end <= start:
        raise SettingsError(f"the backfill from {wanted[0]} to {wanted[1]} is empty; the end must lie after the start")
    while True:  # epochs that were joined to longer ones may reach beyond the edges
        cut = [
            epoch
            for epoch in (plan.held.epochs if plan.held else ())
            if epoch.start < end and epoch.start + epoch.length > start
        ]
        wider = (
            min([start, *(epoch.start for epoch in cut)]),
            max([end, *(epoch.start + epoch.length for epoch in cut)]),
        )
        if wider == (start, end):
            return wider
        start, end = wider


def _overlaps(entry: KnownFile, start: int, end: int) -> bool:
    if entry.oldest is None or entry.newest is None:
        return True
    return entry.oldest < end and entry.newest >= start
