"""How long a stream is kept: epochs that ended longer ago than its setting `retention` are dropped by the next run."""

from __future__ import annotations

import duckdb

from store.writing.clock import clock_of, stated_duration
from store.writing.run import Run, Stream


def retained_since(connection: duckdb.DuckDBPyConnection, run: Run) -> int | None:
    """The start of the oldest epoch that stays, counted from the newest event; None where all stay.

    Events that are ahead of the clock of the run do not count: they would drop what is recent.
    """
    length, now = retention_of(run.stream), clock_of(connection, run).now
    if length is None or now is None:
        return None
    return (now - length) // run.stream.epoch * run.stream.epoch


def retention_of(stream: Stream) -> int | None:
    """The stream's setting in units of its time."""
    return stated_duration(stream, "retention")


def drop_before(connection: duckdb.DuckDBPyConnection, stream: str, since: int) -> None:
    """Drop what is known of epochs that ended by then, and of sources that were not heard of since.

    Sketches of many epochs have lost their old events by then (`store.writing.late_merge`).
    """
    gone = "stream = $1 AND start + length <= $2"
    before, after = connection.execute(
        f"SELECT coalesce(sum(events), 0), coalesce(sum(events) FILTER (NOT ({gone})), 0) "
        "FROM epochs WHERE stream = $1",
        [stream, since],
    ).fetchall()[0]
    if before == after:
        return
    connection.execute(f"DELETE FROM epochs WHERE {gone}", [stream, since])
    connection.execute(f"DELETE FROM sketches WHERE {gone} AND length > 0", [stream, since])
    connection.execute(f"DELETE FROM set_aside WHERE {gone} AND length > 0", [stream, since])
    connection.execute("DELETE FROM sources WHERE stream = $1 AND newest < $2", [stream, since])
    for table in ("sketches", "set_aside"):
        connection.execute(
            f"DELETE FROM {table} WHERE stream = $1 AND length = 0 AND source <> '' "
            "AND source NOT IN (SELECT source FROM sources WHERE stream = $1)",
            [stream],
        )
    # How many events of a source are gone is not kept: each loses the share that all lose by then.
    kept = connection.execute("SELECT sum(events) FROM sources WHERE stream = $1", [stream]).fetchall()[0][0]
    if kept:
        connection.execute(
            "UPDATE sources SET events = round(events * $2)::BIGINT, weight = weight * $2, "
            "oldest = greatest(oldest, $3) WHERE stream = $1",
            [stream, min(1.0, float(after) / float(kept)), since],
        )
