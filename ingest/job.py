"""One run of ingest: find what is new, let Spark sketch it, commit all of it at once.

    wane ingest --config wane.toml --master spark://host:7077

A run that dies leaves nothing behind: the store's one transaction holds the sketches and the ledger of what was read.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import cache

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from ingest.inputs import FoundFile
from ingest.lock import run_lock
from ingest.planning import Order, Plan, plan_stream
from ingest.progress import Progress
from ingest.session import SparkError, spark_session
from ingest.settings import Settings, SettingsError, StreamSettings
from ingest.sketching import empty_table, sketch_files
from ingest.summary import Summary
from ingest.tally import Tally, example_as_dict
from sketches.errors import WaneError
from store import InputFile, Reject, Run, Sketched, Stream, commit
from store.run import EPOCHS


def run(settings: Settings, order: Order, progress: Progress, session: SparkSession | None = None) -> Summary:
    """Carry out a run. A stream that fails does not keep the others from being committed; its outcome says why."""
    begun = time.perf_counter()
    with run_lock(settings.store, order.wait), ExitStack() as stack:

        @cache
        def spark() -> SparkSession:
            return session or start_spark(stack, order, progress)

        started = _now()
        plans = [plan_stream(stream, settings.store, order) for stream in chosen_streams(settings, order)]
        runs = []
        for plan in plans:
            _say_found(plan, progress)
            if plan.outcome.error is None and plan.has_work:
                try:
                    runs.append(_ingest(plan, spark, started, progress))
                except SparkError:
                    raise
                except WaneError as error:
                    plan.outcome.error = str(error)
        committed = [run for run in runs if run is not None]
        generation = commit(settings.store, committed) if committed else None
    return Summary([plan.outcome for plan in plans], generation, time.perf_counter() - begun)


def chosen_streams(settings: Settings, order: Order) -> list[StreamSettings]:
    for name in order.streams:
        if name not in settings.streams:
            raise SettingsError(f"{settings.path} has no stream {name!r}; it has: {', '.join(settings.streams)}")
    return [stream for name, stream in settings.streams.items() if not order.streams or name in order.streams]


def start_spark(stack: ExitStack, order: Order, progress: Progress) -> SparkSession:
    progress.say(f"Starting Spark on {order.master or 'the default master'} …")
    return stack.enter_context(spark_session(order.master, configuration=order.configuration, verbose=order.verbose))


def _say_found(plan: Plan, progress: Progress) -> None:
    outcome, inputs = plan.outcome, plan.inputs
    size = sum(file.size for file in inputs.new)
    progress.say(
        f"{outcome.stream}: {len(inputs.new):,} new ({size / 1e6:,.1f} MB) and {len(inputs.known):,} known files"
        + (f", {len(inputs.copies)} known under another name" if inputs.copies else "")
    )
    for path in outcome.changed if plan.replacing is None else ():
        progress.say(f"{outcome.stream}: {path} has changed since it was read; it is not read again (see --backfill)")
    if outcome.error is not None:
        progress.say(f"{outcome.stream}: {outcome.error}")


def _now() -> datetime:
    return datetime.now(UTC).replace(tzinfo=None)


def _ingest(plan: Plan, spark: Callable[[], SparkSession], started: datetime, progress: Progress) -> Run | None:
    """Sketch the files of a stream with Spark and make the store's run of them; None where none could be read."""
    outcome = plan.outcome
    kind = plan.kind
    tables: list[pa.Table] = []
    tally, read, replaced = Tally(), list[FoundFile](), list[InputFile]()
    if plan.inputs.new:
        new = sketch_files(plan.settings, plan.inputs.new, kind, spark(), started, progress)
        kind, tally, read = new.kind, new.tally, list(new.files)
        tables.append(new.table)
        outcome.unreadable |= new.unreadable
    if plan.again:
        old = sketch_files(plan.settings, plan.again, kind, spark(), started, progress, plan.replacing)
        if old.unreadable:
            path, reason = next(iter(old.unreadable.items()))
            raise WaneError(f"the backfill must read {path} again, and cannot: {reason}")
        kind = old.kind
        tables.append(old.table)
        replaced = _settled(plan, old.files, old.tally)
        outcome.changed = [path for path in outcome.changed if path not in {file.path for file in replaced}]
    there = {*plan.ledger, *(file.path for file in read)}
    copies = [file for file, original in plan.inputs.copies if original in there]  # else it is its turn the next time
    if not (read or copies or plan.replacing):
        return None
    sketched = _sketched(tables, plan.settings)
    files = [_input_file(file, tally) for file in [*read, *copies]]
    rejects = [
        Reject(reason, found.rows, [example_as_dict(example) for example in found.examples])
        for reason, found in sorted(tally.rejects.items())
    ]
    outcome.files = len(read)
    outcome.rows = tally.rows
    outcome.rejected = {reject.reason: reject.rows for reject in rejects}
    outcome.conflicts, outcome.conflicts_exact = tally.identities.conflicts, tally.identities.exact
    outcome.sources = len(pc.unique(sketched.epochs["source"]))
    outcome.epochs = len(pc.unique(sketched.epochs["start"]))
    outcome.sketches = sketched.sketches.num_rows
    outcome.bytes = int(pc.sum(pc.binary_length(sketched.sketches["payload"])).as_py() or 0)
    settings = plan.settings.described() | ({"kind": str(kind)} if kind is not None else {})
    return Run(
        Stream(plan.settings.name, plan.settings.epoch, plan.settings.unit, settings),
        sketched,
        started,
        _now(),
        files=[*files, *replaced],
        rejects=rejects,
        rows=tally.rows,
        conflicts=outcome.conflicts,
        replacing=plan.replacing,
        replaced_files=[file.path for file in replaced],
    )


def _settled(plan: Plan, files: Sequence[FoundFile], tally: Tally) -> list[InputFile]:
    """Changed files whose old and new events all lie in the replaced range: they are now in the store as they are."""
    assert plan.replacing is not None
    start, end = plan.replacing
    changed = {file.path for file in plan.inputs.changed}
    found = []
    for file in files:
        before, now = plan.ledger.get(file.path), tally.files.get(file.path)
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


def _sketched(tables: Sequence[pa.Table], settings: StreamSettings) -> Sketched:
    rows = pa.concat_tables([table.drop_columns("tally") for table in tables] or [empty_table(settings)])
    rows = rows.append_column("length", pa.repeat(pa.scalar(settings.epoch, pa.int64()), rows.num_rows))
    sketches = [
        rows.select(["source", "start", "length", family])
        .rename_columns(["source", "start", "length", "payload"])
        .append_column("family", pa.repeat(pa.scalar(family), rows.num_rows))
        for family in settings.families
    ]
    return Sketched(rows.select(EPOCHS.names), pa.concat_tables(sketches))
