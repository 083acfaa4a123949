"""The totals of a stream: of each epoch over all sources, and of each source over all epochs."""

from __future__ import annotations

from typing import Final

import duckdb
import numpy as np

from sketches.arrays import Floats
from sketches.event_rules import MAX_TIME

_SUMMED: Final = (
    "sum(events)::BIGINT AS events, sum(weight) AS weight, min(oldest) AS oldest, max(newest) AS newest, "
    "max(latest) AS latest"
)
_KEYS: Final = {"epochs": "start, length", "sources": "source"}


def write_totals(connection: duckdb.DuckDBPyConnection, stream: str, clock: int | None) -> None:
    """Add what a run brings, in the table `wane_epochs`, to the totals; nothing of it is later than its clock."""
    for table, key in _KEYS.items():
        connection.execute(
            f"CREATE OR REPLACE TEMP TABLE summed AS SELECT {key}, {_SUMMED} FROM ("
            f"SELECT {key}, events, weight, oldest, newest, least(newest, $2) AS latest FROM wane_epochs UNION ALL "
            f"SELECT {key}, events, weight, oldest, newest, latest FROM {table} SEMI JOIN wane_epochs USING ({key}) "
            f"WHERE stream = $1) GROUP BY {key}",
            [stream, MAX_TIME if clock is None else clock],
        )
        alike = " AND ".join(f"{table}.{name} = summed.{name}" for name in key.split(", "))
        connection.execute(f"DELETE FROM {table} USING summed WHERE {table}.stream = $1 AND {alike}", [stream])
        connection.execute(f"INSERT INTO {table} SELECT $1, * FROM summed ORDER BY {key}", [stream])
        connection.execute("DROP TABLE summed")


def take_out(connection: duckdb.DuckDBPyConnection, stream: str, begin: int, end: int) -> None:
    """Take the epochs of a range of times out of the store, before a backfill brings them anew.

    How many of their events came from which source is not kept. What the backfill brings tells: each source loses so
    much of them as it has of the new ones, but no more than it has; the rest is lost by all, as much as each has.
    """
    inside = "stream = $1 AND start + length > $2 AND start < $3"
    gone, gone_weight = connection.execute(
        f"SELECT coalesce(sum(events), 0), coalesce(sum(weight), 0) FROM epochs WHERE {inside}", [stream, begin, end]
    ).fetchall()[0]
    rows = connection.execute(
        "SELECT source, events, weight, coalesce(new_events, 0), coalesce(new_weight, 0) FROM sources LEFT JOIN "
        "(SELECT source, sum(events) AS new_events, sum(weight) AS new_weight FROM wane_epochs GROUP BY source) "
        "USING (source) WHERE stream = $1 ORDER BY source",
        [stream],
    ).fetchall()
    if rows and gone:
        names, *columns = zip(*rows, strict=True)
        events, weight, new_events, new_weight = (np.array(column, np.float64) for column in columns)
        left = events - _whole(_shared(float(gone), new_events, events), events)
        left_weight = np.maximum(weight - _shared(float(gone_weight), new_weight, weight), 0.0)
        connection.execute(
            "UPDATE sources SET events = left_events::BIGINT, weight = left_weight FROM (SELECT unnest($2) AS name, "
            "unnest($3) AS left_events, unnest($4) AS left_weight) WHERE stream = $1 AND source = name",
            [stream, list(names), left.tolist(), left_weight.tolist()],
        )
    for table in ("epochs", "sketches", "set_aside"):
        connection.execute(f"DELETE FROM {table} WHERE {inside}", [stream, begin, end])
    connection.execute(
        "DELETE FROM set_aside WHERE stream = $1 AND length = 0 AND stream NOT IN (SELECT stream FROM epochs)", [stream]
    )


def _shared(amount: float, shares: Floats, most: Floats) -> Floats:
    """An amount spread by these shares, none getting more than its most; what is left over is spread by that."""
    found = np.zeros(len(most))
    for by in (shares, most):
        room = by if by is shares else most - found
        if room.sum() > 0.0:
            found = np.minimum(found + (amount - found.sum()) * room / room.sum(), most)
    return found


def _whole(parts: Floats, most: Floats) -> Floats:
    """Whole numbers near these parts, none above its most, that add up to the same."""
    found = np.floor(parts)
    short = round(float(parts.sum() - found.sum()))
    nearest = np.argsort(found - parts, kind="stable")
    found[nearest[found[nearest] < most[nearest]][:short]] += 1.0
    return found
