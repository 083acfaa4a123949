"""One run of ingest: find what is new, sketch it, commit all of it at once.

    wane ingest --config wane.toml --master spark://host:7077

A run that fails leaves nothing behind: sketches and ledger are written in one transaction.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow as pa

from ingest.driver.configuration.settings import Settings, SettingsError, StreamSettings
from ingest.driver.engine import Engine, EngineError
from ingest.driver.engine_choice import engine_for
from ingest.driver.files.input_files import FoundFile, Marks
from ingest.driver.one_pass import sketched_together
from ingest.driver.parquet_reading import plain_columns
from ingest.driver.progress import Progress
from ingest.driver.run_options import RunOptions
from ingest.driver.run_parts import check_rejected, note_rows, note_sketches, rejects_of, sketch_tables
from ingest.driver.session.stopping import stoppable
from ingest.driver.sketching import SketchedFiles, clock_of, sketch_files
from ingest.driver.stream_work import StreamWork, find_work
from ingest.driver.summary import Summary
from ingest.executor.tally import Tally
from sketches.errors import WaneError
from store import InputFile, Run, Stream, commit
from store.locks import run_lock
from store.serving.catalogue import read_catalogue
from store.serving.staleness import source_states

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run(settings: Settings, options: RunOptions, progress: Progress, session: SparkSession | None = None) -> Summary:
    """Carry out a run. Where one stream fails, the others are committed all the same; its outcome says why."""
    begun = time.perf_counter()
    works: list[StreamWork] = []
    with (
        stoppable() as stopping,
        run_lock(settings.store, options.wait),
        engine_for(options, progress, session, lambda: _reads_rows(works)) as engine,
    ):
        started = _now()
        progress.start.ended("Python")
        marks: Marks = {}
        works += [find_work(stream, settings.store, options, marks) for stream in chosen_streams(settings, options)]
        progress.start.ended("files")
        runs = []
        for work in works:
            _say_found(work, progress)
        ready = sketched_together(works, engine, started, progress)
        stopping.check()
        for work in works:
            if work.outcome.error is None and work.is_needed:
                try:
                    runs.append(_ingest(work, engine, started, progress, ready.get(work.settings.name)))
                except EngineError:
                    raise
                except WaneError as error:
                    work.outcome.error = str(error)
                stopping.check()
        committed = [run for run in runs if run is not None]
        generation = commit(settings.store, committed, before=stopping.last_call) if committed else None
        if committed:
            _note_revoked(works, settings)
            _note_silent(works, settings)
    size = settings.store.stat().st_size if committed else 0
    seconds = time.perf_counter() - begun
    return Summary([work.outcome for work in works], generation, seconds, size, progress.start.parts)


def chosen_streams(settings: Settings, options: RunOptions) -> list[StreamSettings]:
    for name in options.streams:
        if name not in settings.streams:
            raise SettingsError(f"{settings.path} has no stream {name!r}; it has: {', '.join(settings.streams)}")
    return [stream for name, stream in settings.streams.items() if not options.streams or name in options.streams]


def _reads_rows(works: Sequence[StreamWork]) -> bool:
    """Whether the rows of a stream must be read for its tasks, because they cannot do so by themselves."""
    return any(plain_columns(work.settings) is None for work in works if work.is_needed)


def _say_found(work: StreamWork, progress: Progress) -> None:
    outcome, inputs = work.outcome, work.inputs
    size = sum(file.size for file in inputs.new)
    progress.say(
        f"{outcome.stream}: {len(inputs.new):,} new ({size / 1e6:,.1f} MB) and {len(inputs.known):,} known files"
        + (f", {len(inputs.copies)} known under another name" if inputs.copies else "")
    )
    for path in outcome.changed if work.replacing is None else ():
        progress.say(f"{outcome.stream}: {path} has changed since it was read; it is not read again (see --backfill)")
    if outcome.error is not None:
        progress.say(f"{outcome.stream}: {outcome.error}")


def _now() -> datetime:
    return datetime.now(UTC).replace(tzinfo=None)


def _ingest(
    work: StreamWork,
    engine: Engine,
    started: datetime,
    progress: Progress,
    ready: SketchedFiles | None,
) -> Run | None:
    """Sketch the files of a stream, as a run for the store; None where no file could be read.

    `ready` are its new files where they have been sketched with those of other streams.
    """
    outcome = work.outcome
    kinds, earlier = work.kinds, work.earlier
    tables: list[pa.Table] = []
    tally, read, replaced = Tally(), list[FoundFile](), list[InputFile]()
    if work.inputs.new:
        new = ready or sketch_files(work.settings, work.inputs.new, kinds, engine, started, progress, earlier)
        kinds, tally, read = new.kinds, new.tally, list(new.files)
        tables.append(new.table)
        outcome.unreadable |= new.unreadable
        check_rejected(tally, work.settings)
    if work.reread:
        old = sketch_files(work.settings, work.reread, kinds, engine, started, progress, earlier, work.replacing)
        if old.unreadable:
            path, reason = next(iter(old.unreadable.items()))
            raise WaneError(f"the backfill must read {path} again, and cannot: {reason}")
        kinds = old.kinds
        tables.append(old.table)
        replaced = _settled(work, old.files, old.tally)
        outcome.changed = [path for path in outcome.changed if path not in {file.path for file in replaced}]
    there = {*work.ledger, *(file.path for file in read)}
    copies = [file for file, original in work.inputs.copies if original in there]  # the others wait for the next run
    if not (read or copies or work.replacing):
        return None
    sketched = sketch_tables(tables, work.settings)
    files = [_input_file(file, tally) for file in [*read, *copies]]
    clock = clock_of(started, work.settings.unit)
    outcome.files = len(read)
    note_rows(outcome, tally, clock, work.settings, () if work.stored is None else work.stored.fields)
    note_sketches(outcome, sketched)
    return Run(
        Stream(work.settings.name, work.settings.epoch, work.settings.unit, work.described(kinds)),
        sketched,
        started,
        _now(),
        files=[*files, *replaced],
        rejects=rejects_of(tally),
        rows=tally.rows,
        conflicts=outcome.conflicts,
        replacing=work.replacing,
        replaced_files=[file.path for file in replaced],
        clock=clock,
        repeats=outcome.repeats,
        ahead=tally.ahead.rows,
    )


def _note_revoked(works: Sequence[StreamWork], settings: Settings) -> None:
    """Tell of every stream that is said to have no repeats, and has some."""
    said = [work for work in works if work.settings.unique]
    streams = read_catalogue(settings.store).streams if said else {}
    for work in said:
        stored = streams.get(work.settings.name)
        if stored is not None and (why := stored.described.get("unique_revoked")) is not None:
            work.outcome.unique_revoked = str(why)
            work.outcome.revoked_now = work.stored is None or "unique_revoked" not in work.stored.described


def _note_silent(works: Sequence[StreamWork], settings: Settings) -> None:
    """Tell of every source that fell silent: it was well before this run, and is too far behind its stream now.

    One that the run brought is history. One that was silent before has been told of.
    """
    read = [work for work in works if work.stored is not None and work.outcome.rows]
    streams = read_catalogue(settings.store).streams if read else {}
    for work in read:
        if (stored := streams.get(work.settings.name)) is None or work.stored is None:
            continue
        well = {state.source for state in source_states(work.stored) if not state.stale}
        silent = [state for state in source_states(stored) if state.stale]
        work.outcome.silent = {state.source: state.lag for state in silent if state.source in well}
        work.outcome.silent_before = len(silent) - len(work.outcome.silent)


def _settled(work: StreamWork, files: Sequence[FoundFile], tally: Tally) -> list[InputFile]:
    """The changed files whose old and new events all lie in the replaced range: the store has them now as they are."""
    assert work.replacing is not None
    start, end = work.replacing
    changed = {file.path for file in work.inputs.changed}
    found = []
    for file in files:
        before, now = work.ledger.get(file.path), tally.files.get(file.path)
        inside = [
            span.oldest is None or span.newest is None or (span.oldest >= start and span.newest < end)
            for span in (before, now)
            if span is not None
        ]
        if file.path in changed and all(inside):
            found.append(_input_file(file, tally))
    return found


def _input_file(file: FoundFile, tally: Tally) -> InputFile:
    seen = tally.files.get(file.path)
    if seen is None:
        return InputFile(file.path, file.size, file.fingerprint, 0, file.modified)
    return InputFile(file.path, file.size, file.fingerprint, seen.rows, file.modified, seen.oldest, seen.newest)
