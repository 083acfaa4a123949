"""The clock of a stream, and durations of its settings in its own unit of time."""

from __future__ import annotations

from typing import NamedTuple

import duckdb
import pyarrow.compute as pc

from sketches.durations import parse_duration
from sketches.errors import WaneError
from store.writing.run import Run, Stream


class Clock(NamedTuple):
    """The newest event before a run, and with it; None where there is none.

    Events that are ahead of the clock of their run do not count.
    """

    before: int | None
    now: int | None


def clock_of(connection: duckdb.DuckDBPyConnection, run: Run) -> Clock:
    (stored,) = connection.execute("SELECT max(latest) FROM epochs WHERE stream = $1", [run.stream.name]).fetchall()[0]
    brought = pc.max(run.tables.epochs["newest"]).as_py()
    if brought is not None and run.clock is not None:
        brought = min(brought, run.clock)
    known = [moment for moment in (stored, brought) if moment is not None]
    return Clock(stored, max(known, default=None))


def stated_duration(stream: Stream, name: str) -> int | None:
    """A setting of the stream in units of its time; None where it is not stated, or is no duration."""
    stated = stream.settings.get(name)
    if not isinstance(stated, str):
        return None
    try:
        seconds = parse_duration(stated)
    except WaneError:
        return None
    return round(seconds * stream.unit.denominator / stream.unit.numerator)
