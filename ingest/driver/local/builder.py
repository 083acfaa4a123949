"""`Builder`: events of a process that has them in memory, one by one or in small batches, brought to a store."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from ingest.driver.configuration.settings import Settings, SettingsError, read_settings
from ingest.driver.configuration.stream_kinds import StreamKinds, checked_kinds
from ingest.driver.local.engine import merged
from ingest.driver.local.rows import FILE, UNEVALUATED, Evaluator, named_columns
from ingest.driver.local.waiting_rows import Column, WaitingRows
from ingest.driver.run_parts import check_rejected, note_rows, note_sketches, rejects_of, sketch_tables
from ingest.driver.sketching import clock_of, split_tallies, worker_settings
from ingest.driver.stream_work import StreamWork, work_without_files
from ingest.driver.summary import StreamOutcome
from ingest.executor.worker import Sketching
from sketches.errors import WaneError
from sketches.formatting import listed
from store import InputFile, Run, Stream, commit
from store.database import WAIT
from store.locks import run_lock

_BLOCK: Final = 1 << 16  # rows that are checked together
_CHUNK: Final = 32 << 20  # bytes of checked columns that are sketched together
_MOST_BYTES: Final = 64 << 20  # of partial sketches, which are merged then
_AT_ONCE: Final = 60.0  # seconds for which the clock is taken to stand: it says which times lie ahead
_BROKEN_OFF: Final = (
    "sketching rows that were added before was broken off, so nothing that was added since the last commit can be "
    "committed; after commit() has said so, add all of it again"
)


class Builder:
    """Takes batches of a stream's rows, and commits their sketches as a run of ingest would.

    A batch has the columns that the stream's settings name, as a file would: expressions, checks, rejects and limits
    are the same, and so are the events and cuts. The kinds of values and fields are those of the store, or of the first
    rows of a new stream.

    A batch that cannot be taken is refused whole, where it is added. Rows of it that cannot be events, or of which an
    expression needs Spark, are rejected and counted as a file's would be.

    Memory: at most 65,536 rows as they came, or one larger batch, 32 MB of checked columns, and the sketches of what
    was added since the last commit. Not safe for threads without a lock of your own.

        builder = Builder("wane.toml", "readings")
        builder.add({"sensor": ["s17"], "id": [4711], "at": [1_700_000_000], "celsius": [21.5]})
        builder.commit("2026-01-31T12:00")

    A commit has a name, which the ledger keeps like a file's: one that is there already is refused. So a process that
    does not know whether its last commit was done asks for it again, with the same rows under the same name.
    """

    def __init__(self, settings: Settings | str | Path, stream: str) -> None:
        self._all = settings if isinstance(settings, Settings) else read_settings(settings)
        if stream not in self._all.streams:
            raise SettingsError(f"{self._all.path} has no stream {stream!r}; it has: {listed(list(self._all.streams))}")
        self._stream = self._all.streams[stream]
        self._names = named_columns(self._stream)
        self._evaluator = Evaluator(self._stream)
        self._clear()

    def _clear(self) -> None:
        self._waiting = WaitingRows(self._names, self._accept)
        self._work: StreamWork | None = None
        self._types: dict[str, list[pa.DataType]] = {}
        self._kinds: StreamKinds | None = None
        self._sketching: Sketching | None = None
        self._parts: list[pa.RecordBatch] = []
        self._bytes = 0
        self._started, self._until = _now(), 0.0
        self._broken_off = False

    def add(self, batch: Mapping[str, Column] | pa.RecordBatch | pa.Table) -> None:
        """Take further rows. Columns that no setting names are left out; nothing of the batch is kept or changed.

        After an error nothing of this batch is taken, and what was taken before it stays and can be committed.
        """
        if self._broken_off:
            raise WaneError(_BROKEN_OFF)
        columns = self._picked(batch)
        try:
            lengths = set(map(len, columns))
        except TypeError:
            raise WaneError("a column of a batch is neither a list, nor an array of numpy or Arrow") from None
        if len(lengths) > 1:
            found = listed(sorted(map(str, lengths)))
            raise WaneError(f"the columns of a batch are of {found} rows; they must be alike")
        number = lengths.pop() if lengths else 0
        if self._waiting.rows + number > _BLOCK and self._waiting.rows:
            self._flush()
        if number:
            self._waiting.take(columns, number)

    def _picked(self, batch: Mapping[str, Column] | pa.RecordBatch | pa.Table) -> list[Any]:
        try:
            return [batch[name] for name in self._names]
        except KeyError:
            there = list(batch) if isinstance(batch, Mapping) else batch.schema.names
            lacking = [name for name in self._names if name not in there]
            raise WaneError(
                f"a batch of stream {self._stream.name!r} has no column {listed(lacking)}; it has: {listed(there)}"
            ) from None

    def _accept(self, empty: pa.RecordBatch) -> None:
        """Refuse columns of types that make no events of this stream, or none that its families take."""
        parts = self._evaluator.parts(_with_file(empty))
        types = {part: [column.type] for part, column in parts.items() if part != "file"}
        if self._kinds is not None:
            checked_kinds(self._stream, types, self._kinds)
            return
        if self._work is None:
            self._work, self._until = work_without_files(self._stream, self._all.store), time.monotonic() + _AT_ONCE
        types = {part: [*self._types.get(part, ()), *found] for part, found in types.items()}
        worker_settings(self._stream, checked_kinds(self._stream, types, self._work.kinds), self._started)
        self._types = types

    def _flush(self) -> None:
        """Check and sketch what waits."""
        sketching = self._begun()
        for rows in self._waiting.leave():
            parts, refused = self._evaluator.parts_apart(_with_file(rows))
            self._broken_off = True
            if refused is not None:
                sketching.reject(refused, UNEVALUATED)
            self._hold(sketching.add(parts))
            self._broken_off = False

    def _begun(self) -> Sketching:
        """What sketches the next rows, by a clock that is not too old."""
        if self._sketching is not None and time.monotonic() > self._until:
            self._broken_off = True
            self._hold(self._sketching.done())
            self._sketching, self._work = None, None
            self._broken_off = False
        if self._sketching is None:
            if self._work is None or time.monotonic() > self._until:
                self._work = work_without_files(self._stream, self._all.store)
            self._kinds = self._kinds or checked_kinds(self._stream, self._types, self._work.kinds)
            self._started, self._until = _now(), time.monotonic() + _AT_ONCE
            how = worker_settings(self._stream, self._kinds, self._started)
            self._how = replace(how, earlier=self._work.earlier)
            self._sketching = Sketching(self._how, _CHUNK)
        return self._sketching

    def _hold(self, sketched: Iterable[pa.RecordBatch]) -> None:
        for batch in sketched:
            self._parts.append(batch)
            self._bytes += batch.nbytes
        if self._bytes > _MOST_BYTES:
            self._parts, self._bytes = merged(self._parts, self._how).to_batches(), 0

    def commit(self, name: str | None = None, *, wait: float = WAIT) -> StreamOutcome:
        """Commit what was added; the store has all of it afterwards, or nothing.

        `AlreadyIngestedError` where the ledger has the name. After any error the rows are gone from here: add them
        again, or know that they are there.
        """
        try:
            if self._broken_off:
                raise WaneError(_BROKEN_OFF)
            if self._waiting.rows:
                self._flush()
            sketching, kinds, parts = self._sketching, self._kinds, self._parts
            started = self._started
        finally:
            self._clear()
        outcome = StreamOutcome(self._stream.name)
        if sketching is None or kinds is None:
            return outcome
        tally, rows = split_tallies(merged([*parts, *sketching.done()], self._how))
        check_rejected(tally, self._stream)
        with run_lock(self._all.store, wait):
            work = work_without_files(self._stream, self._all.store)
            if work.kinds.value not in (None, kinds.value):
                raise WaneError(
                    f"stream {self._stream.name!r} has got values of kind {work.kinds.value} meanwhile, and these are "
                    f"of kind {kinds.value}; nothing was committed, add them again"
                )
            clock = clock_of(started, self._stream.unit)
            sketched = sketch_tables([rows], self._stream)
            note_rows(outcome, tally, clock, self._stream)
            note_sketches(outcome, sketched)
            named = name or f"{started:%Y-%m-%dT%H:%M:%S} {uuid.uuid4().hex}"
            seen = next(iter(tally.files.values()))
            file = InputFile(f"Builder: {named}", 0, named, seen.rows, time.time_ns(), seen.oldest, seen.newest)
            run = Run(
                Stream(self._stream.name, self._stream.epoch, self._stream.unit, work.described(kinds)),
                sketched,
                started,
                _now(),
                files=[file],
                rejects=rejects_of(tally),
                rows=tally.rows,
                conflicts=outcome.conflicts,
                clock=clock,
                repeats=outcome.repeats,
                ahead=tally.ahead.rows,
            )
            commit(self._all.store, [run])
        return outcome


def _now() -> datetime:
    return datetime.now(UTC).replace(tzinfo=None)


def _with_file(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The rows with the name that stands for their file."""
    names = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows.num_rows, np.int32)), pa.array(["Builder"]))
    return pa.RecordBatch.from_arrays([*rows.columns, names, names], [*rows.schema.names, *FILE])
