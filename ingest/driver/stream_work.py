"""The work of a run on one stream, found before any row is read: new files, and what a backfill replaces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from ingest.driver.configuration.settings import SettingsError, StreamSettings
from ingest.driver.configuration.stream_kinds import StreamKinds
from ingest.driver.configuration.stream_settings import fixed_part
from ingest.driver.files.input_files import FoundFile, Inputs, Marks, compare, find_files
from ingest.driver.run_options import RunOptions
from ingest.driver.summary import StreamOutcome
from ingest.executor.worker_settings import EarlierEpochs
from sketches.errors import WaneError
from sketches.event_rules import MOST_FIELDS
from sketches.formatting import listed
from sketches.registry import FAMILIES
from store.keys import scope_fault, spans_epochs
from store.serving.catalogue import StoredStream, read_catalogue
from store.writing.ledger import KnownFile, known_files

_DEFAULTS: Final[dict[str, object]] = {"weight_step": 1}  # of stores that were written before there was the setting


@dataclass(frozen=True, slots=True)
class StreamWork:
    """The files of a stream, what is to be done with them, and what the store knows of the stream."""

    settings: StreamSettings
    inputs: Inputs
    outcome: StreamOutcome
    stored: StoredStream | None
    reread: Sequence[FoundFile] = ()  # files that a backfill reads again
    replacing: tuple[int, int] | None = None
    ledger: Mapping[str, KnownFile] = field(default_factory=dict)

    @property
    def is_needed(self) -> bool:
        return bool(self.inputs.new or self.inputs.copies or self.replacing)

    @property
    def earlier(self) -> dict[str, EarlierEpochs]:
        """By family the epochs of which the store goes on to hold sketches in the family's earlier form.

        Epochs that a backfill replaces are not among them: they are read anew.
        """
        if self.stored is None:
            return {}
        begin, end = self.replacing or (0, 0)
        found = {}
        for name in self.settings.families:
            starts = frozenset(start for _, start in self.stored.earlier_keys(name) if not begin <= start < end)
            if starts and (family := FAMILIES[name].earlier) is not None:
                keywords = self.settings.build_keywords(family) | _earlier_settings(self.stored, name)
                found[name] = EarlierEpochs(starts, keywords)
        return found

    def described(self, kinds: StreamKinds) -> dict[str, object]:
        """The settings that the store keeps of the stream from now on."""
        known = kinds.described()
        if self.stored is not None:
            names = [name for name in self.settings.families if self.stored.earlier_keys(name)]
            known |= {"earlier": {name: _earlier_settings(self.stored, name) for name in names}} if names else {}
        return self.settings.described() | known

    @property
    def kinds(self) -> StreamKinds:
        """The kinds of values and fields of the stream, once it has events."""
        return StreamKinds.stored({} if self.stored is None else self.stored.described)


def find_work(stream: StreamSettings, store: Path, options: RunOptions, marks: Marks | None = None) -> StreamWork:
    """Compare the files of a stream with the ledger; reads no rows and changes nothing.

    `marks` are shared by the streams of a run: a file is fingerprinted once.
    """
    ledger = known_files(store, stream.name)
    stored = read_catalogue(store).streams.get(stream.name) if store.exists() else None
    inputs = compare(find_files(stream), ledger, stream.parts.values(), marks)
    outcome = StreamOutcome(
        stream.name,
        known=len(inputs.known),
        changed=[file.path for file in inputs.changed],
        unreadable=dict(inputs.unreadable),
        copies={file.path: original for file, original in inputs.copies},
    )
    work = StreamWork(stream, inputs, outcome, stored, ledger={known.path: known for known in ledger})
    try:
        _check(work)
        wanted = work if options.backfill is None else _with_backfill(work, options, options.backfill)
        _check_scopes(wanted)
        return wanted
    except WaneError as error:
        outcome.error = str(error)
        return work


def work_without_files(stream: StreamSettings, store: Path) -> StreamWork:
    """The work on events that come from no file. Refuses settings that do not go with what is stored."""
    stored = read_catalogue(store).streams.get(stream.name) if store.exists() else None
    work = StreamWork(stream, Inputs(), StreamOutcome(stream.name), stored)
    _check(work)
    _check_scopes(work)
    return work


def _check(work: StreamWork) -> None:
    _check_fixed(work.settings, work.stored)
    _check_fields(work)


def _check_fixed(stream: StreamSettings, stored: StoredStream | None) -> None:
    before = {} if stored is None else {**_DEFAULTS, **_before_choices(stored), **stored.described}
    if stored is not None and "counting" not in stored.described:
        before |= _own_before_choices(stored)
    for name, value in stream.fixed().items():
        if name not in before:
            continue
        built = fixed_part(name, before[name]) if name in FAMILIES else before[name]
        if built != value:
            raise SettingsError(
                f"{name} of stream {stream.name!r} is {value!r}, but its stored sketches were built with "
                f"{built!r} and do not merge with others; set it to that, or give the stream another name"
            )


def _check_fields(work: StreamWork) -> None:
    """Fields that were removed stay in the store, and count."""
    before = work.kinds.fields
    if len({*before, *work.settings.fields}) > MOST_FIELDS:
        gone = sorted(set(before) - set(work.settings.fields))
        raise SettingsError(
            f"stream {work.settings.name!r} has {len(work.settings.fields)} fields and had {listed(gone)}; "
            f"at most {MOST_FIELDS} are kept, those included that were removed"
        )


def _before_choices(stored: StoredStream) -> dict[str, object]:
    """What families that count events or weight counted before there was a choice."""
    chosen = any(FAMILIES[name].one_mass for name in stored.sketches if name in FAMILIES)
    return {"counting": "weight"} if chosen else {}


def _own_before_choices(stored: StoredStream) -> dict[str, object]:
    """The families' own settings in a store that has sketches of format 1, with what was not a choice then."""
    return {
        name: {**FAMILIES[name].first_format, **stored.described.get(name, {})}
        for name in stored.sketches
        if name in FAMILIES and FAMILIES[name].first_format
    }


def _check_scopes(work: StreamWork) -> None:
    """Refuse now what the commit would refuse after all the work."""
    stream, stored, replacing = work.settings, work.stored, work.replacing
    if stored is None or not stored.epochs:
        return
    brought = set(filter(spans_epochs, stream.families))
    fault = scope_fault(
        stored.spanning_families,
        brought,
        replacing=replacing is not None,
        everything=replacing is not None
        and all(span.end > replacing[0] and span.start < replacing[1] for span in stored.epochs),
        losing=stream.retention is not None,
    )
    if fault is not None:
        raise SettingsError(f"stream {stream.name!r}: {fault}")


def _earlier_settings(stored: StoredStream, family: str) -> dict[str, Any]:
    """The accuracy for which sketches of a family's earlier form were built: it was fixed, and is remembered since."""
    described = stored.described
    if (remembered := described.get("earlier", {}).get(family)) is not None:
        return dict(remembered)
    stated = {**described, **described.get(family, {})}
    return {name: stated[name] for name in ("epsilon", "delta") if name in stated}


def _with_backfill(work: StreamWork, options: RunOptions, wanted: tuple[int, int]) -> StreamWork:
    """Widen the wanted range to whole epochs, and find the files that hold events in it."""
    start, end = _whole_epochs(wanted, work)
    present = [*work.inputs.known, *work.inputs.changed, *(file for file, _ in work.inputs.copies)]
    spans = {entry.fingerprint: entry for entry in work.ledger.values() if entry.rows}
    new = {file.fingerprint for file in work.inputs.new}
    reread: dict[str, FoundFile] = {}
    for file in present:
        entry = work.ledger.get(file.path)
        content = file.fingerprint or (entry.fingerprint if entry is not None else "")
        if content not in new and (content not in spans or _overlaps(spans[content], start, end)):
            reread.setdefault(content, file)
    missing = [
        entry.path
        for entry in work.inputs.gone
        if entry.rows and _overlaps(entry, start, end) and entry.fingerprint not in reread
    ]
    if missing and not options.allow_missing:
        raise SettingsError(
            f"the backfill of stream {work.settings.name!r} would lose events of files that are gone: "
            f"{listed(missing)}; bring them back, or say --allow-missing"
        )
    work.outcome.replaced = (start, end)
    return replace(work, reread=sorted(reread.values(), key=lambda file: file.path), replacing=(start, end))


def _whole_epochs(wanted: tuple[int, int], work: StreamWork) -> tuple[int, int]:
    length = work.settings.epoch
    start, end = wanted[0] // length * length, -(-wanted[1] // length) * length
    if end <= start:
        raise SettingsError(f"the backfill from {wanted[0]} to {wanted[1]} is empty; the end must lie after the start")
    while True:  # epochs that were joined to longer ones may reach beyond the edges
        cut = [
            epoch
            for epoch in (work.stored.epochs if work.stored else ())
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
