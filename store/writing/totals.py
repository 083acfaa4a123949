"""The totals of a stream: of each epoch over all sources, and of each source over all epochs."""

from __future__ import annotations

from typing import Final

import duckdb

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
    much of them as it has of the new ones or, where nothing comes back, as it has of all.
    """
    inside = "stream = $1 AND start + length > $2 AND start < $3"
    gone, gone_weight = connection.execute(
        f"SELECT coalesce(sum(events), 0), coalesce(sum(weight), 0) FROM epochs WHERE {inside}", [stream, begin, end]
    ).fetchall()[0]
    (fresh,) = connection.execute("SELECT count(*) FROM wane_epochs").fetchall()[0]
    like = "wane_epochs" if fresh else "sources WHERE stream = $1"
    connection.execute(
        "UPDATE sources SET events = greatest(0, round(events - $2 * share))::BIGINT, "
        "weight = greatest(0, weight - $3 * weight_share) FROM (SELECT source AS name, sum(events) / "
        "nullif(sum(sum(events)) OVER (), 0) AS share, coalesce(sum(weight) / nullif(sum(sum(weight)) OVER (), 0), 0) "
        f"AS weight_share FROM {like} GROUP BY source) WHERE stream = $1 AND source = name",
        [stream, float(gone), float(gone_weight)],
    )
    for table in ("epochs", "sketches", "set_aside"):
        connection.execute(f"DELETE FROM {table} WHERE {inside}", [stream, begin, end])
