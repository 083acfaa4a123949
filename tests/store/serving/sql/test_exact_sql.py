"""300 generated statements beside exact SQL over the raw rows: the exact answers lie within the intervals.

Each statement has its counterpart for DuckDB, written by hand for each word of the language: nothing of wane reads it.
Fifteen streams hold samples of the same rows under seeds of their own, so that misses do not come together.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from sketches import Events, Sample
from sketches.units import SECOND
from store import EpochSketches, Run, SketchTables, Store, Stream, commit
from tests.support import wide_stores
from tests.support.stores import NOON
from tests.support.streams import START
from tests.support.wide import Wide

STREAMS, STATEMENTS = 15, 300
HOUR = 3_600
CONFIDENCE = 0.9
AGE = "(AT - t)::DOUBLE"
DECAYS = {
    "": "1::DOUBLE",
    "DECAY BY window(INTERVAL 20 MINUTES)": f"CASE WHEN {AGE} < 1200 THEN 1::DOUBLE ELSE 0::DOUBLE END",
    "DECAY BY exp(half_life => INTERVAL 10 MINUTES)": f"exp(-ln(2) * {AGE} / 600)",
    "DECAY BY exp(half_life => INTERVAL 10 MINUTES) WINDOW INTERVAL 30 MINUTES": (
        f"CASE WHEN {AGE} < 1800 THEN exp(-ln(2) * {AGE} / 600) ELSE 0::DOUBLE END"
    ),
    "DECAY BY poly(alpha => 1.5, unit => INTERVAL 1 MINUTE)": f"pow(1 + {AGE} / 60, -1.5)",
    "DECAY BY finite_exp(half_life => INTERVAL 10 MINUTES, floor => 0.05)": (
        f"CASE WHEN exp(-ln(2) * {AGE} / 600) >= 0.05 THEN exp(-ln(2) * {AGE} / 600) ELSE 0::DOUBLE END"
    ),
}
WHERES = ("", "status = 500", "bytes > 2000 AND cached = true", "path IN ('/', '/it''s') OR latency_ms < 40")
THRESHOLDS = {"quantile(latency_ms, 0.6)": ("latency_ms", 0.6), "median(bytes)": ("bytes", 0.5)}
MOMENTS = "sum(f * {0} * {0}) / sum(f) - pow(sum(f * {0}) / sum(f), 2)"
SUMS = {  # in both languages; f is how much an event counts
    "count(*)": "coalesce(sum(f), 0)",
    "sum(bytes)": "coalesce(sum(f * bytes), 0)",
    "mean(latency_ms)": "sum(f * latency_ms) / nullif(sum(f), 0)",
    "avg(bytes)": "sum(f * bytes) / nullif(sum(f), 0)",
    "ratio(bytes, latency_ms)": "sum(f * bytes) / nullif(sum(f * latency_ms), 0)",
    "ratio(bytes, *)": "sum(f * bytes) / nullif(sum(f), 0)",
}
SHARES = {
    "rank(latency_ms, 60)": "latency_ms <= 60",
    "share(status = 500 OR bytes < 800)": "status = 500 OR bytes < 800",
    "frequency(path, '/cart')": "path = '/cart'",
}
SPREADS = {
    "variance(latency_ms)": MOMENTS.format("latency_ms"),
    "stddev(bytes)": f"sqrt({MOMENTS.format('bytes')})",
}
RANKED = {
    "median(latency_ms)": ("latency_ms", 0.5),
    "quantile(bytes, 0.9)": ("bytes", 0.9),
    "quantile(latency_ms, 0.2)": ("latency_ms", 0.2),
}
ADDED = ("count", "sum", "self_join", "inner_product")  # 0 where there is nothing
SQL = SUMS | {name: f"sum(f) FILTER ({held}) / nullif(sum(f), 0)" for name, held in SHARES.items()} | SPREADS


@pytest.fixture(scope="module")
def rows() -> Wide:
    """An hour of requests; every tenth arrived twice."""
    found = wide_stores.requests(3_000, seed=5)
    again = np.concatenate([np.arange(3_000), np.arange(0, 3_000, 10)])
    fields = {name: column[again] for name, column in found.fields.items()}
    return Wide(
        found.ids[again], found.times[again], found.values[again], found.weights[again], found.sources[again], fields
    )


@pytest.fixture(scope="module")
def store(rows: Wide, tmp_path_factory: pytest.TempPathFactory) -> Store:
    path = tmp_path_factory.mktemp("exact") / "wane.duckdb"
    start = START - START % HOUR
    runs = []
    for number in range(STREAMS):
        found = []
        for source in wide_stores.SERVICES:
            for epoch in (start, start + HOUR):
                inside = (rows.sources == source) & (rows.times - rows.times % HOUR == epoch)
                if not inside.any():
                    continue
                fields = {name: column[inside] for name, column in rows.fields.items()}
                events = Events.of(rows.ids[inside], rows.times[inside], rows.values[inside], fields=fields)
                sketch = Sample.build(events, epsilon=0.25, delta=0.1, detail=1, seed=number)
                times = rows.times[inside]
                counted = int(inside.sum())
                found.append(
                    EpochSketches(
                        source, epoch, HOUR, counted, float(counted), int(times.min()), int(times.max()), [sketch]
                    )
                )
        described = wide_stores.SETTINGS | {"epoch": "1h", "epsilon": 0.25, "seed": number}
        stream = Stream(f"requests{number}", HOUR, SECOND, described)
        runs.append(Run(stream, SketchTables.of(found), NOON, NOON, rows=len(rows.ids)))
    commit(path, runs)
    return Store(path)


@pytest.fixture(scope="module")
def raw(rows: Wide) -> Iterator[duckdb.DuckDBPyConnection]:
    """The raw rows; `requests` has each event once."""
    table = pa.table(
        {
            "id": rows.ids,
            "t": rows.times,
            "latency_ms": rows.values,
            "source": rows.sources.tolist(),
            **{name: column.tolist() for name, column in rows.fields.items()},
        }
    )
    with duckdb.connect() as connection:
        connection.register("arrived", table)
        connection.execute("CREATE TABLE requests AS SELECT DISTINCT * FROM arrived")
        yield connection


def quantile_sql(column: str, share: float, table: str, by: str = "1") -> str:
    """The smallest value of each group whose cumulated f reaches its share."""
    return (
        f"SELECT g, min(x) FROM (SELECT {by} AS g, {column} AS x, "
        f"sum(sum(f)) OVER (PARTITION BY {by} ORDER BY {column}) AS so_far, "
        f"sum(sum(f)) OVER (PARTITION BY {by}) AS whole FROM {table} GROUP BY {by}, {column}) "
        f"WHERE whole > 0 AND so_far >= {share} * whole * (1 - 1e-12) GROUP BY g"
    )


FORMS = {
    "single": 0.3,
    "group": 0.2,
    "every": 0.1,
    "above": 0.16,
    "sources": 0.1,
    "list": 0.06,
    "self_join": 0.04,
    "inner_product": 0.04,
}


class Generated:
    """A statement, and the rows that exact SQL has for it: group or None, exact number."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.decay = str(rng.choice(list(DECAYS)))
        self.where = str(rng.choice(WHERES))
        self.as_of = START + int(rng.integers(1_800, HOUR))
        self.form = str(rng.choice(list(FORMS), p=list(FORMS.values())))
        self.by = str(rng.choice(["source", "path", "status"])) if self.form == "group" else None
        known = [*SUMS, *SHARES, *RANKED] + ([] if self.by else [*SPREADS])
        if self.form == "above":
            known = ["count(*)", "sum(bytes)", "mean(latency_ms)", "avg(bytes)", *RANKED]
            self.by = "source" if rng.random() < 0.4 else None
        self.asked = {
            "list": "top(path, 3)",
            "self_join": "self_join()",
            "inner_product": "inner_product('api', 'web')",
        }.get(self.form) or str(rng.choice(known))
        self.threshold = str(rng.choice(list(THRESHOLDS))) if self.form == "above" else ""
        self.sources = "SOURCES 'api', 'web'" if self.form == "sources" else ""

    def statement(self, stream: str) -> str:
        terms = [f"({self.where})"] if self.where else []
        if self.threshold:
            terms.append(f"{THRESHOLDS[self.threshold][0]} >= {self.threshold}")
        where = f"WHERE {' AND '.join(terms)}" if terms else ""
        group = f"GROUP BY {self.by}" if self.by else ""
        name = "" if self.form == "list" else " AS found"
        when = f"AS OF {self.as_of}"
        if self.form == "every":
            when = f"EVERY INTERVAL 10 MINUTES FROM {self.as_of} TO {self.as_of}"
        select = f"SELECT {self.asked}{name} FROM {stream} {where} {group} {self.decay} {when} {self.sources}"
        return f"{select} WITH CONFIDENCE {CONFIDENCE}"

    def exact(self, raw: duckdb.DuckDBPyConnection) -> dict[Any, float]:
        faded = DECAYS[self.decay].replace("AT", str(self.as_of))
        every = f"(SELECT *, {faded} AS f FROM requests WHERE t <= {self.as_of})"
        if self.sources:
            every = f"(SELECT * FROM {every} WHERE source IN ('api', 'web'))"
        table = f"(SELECT * FROM {every} WHERE {self.where})" if self.where else every
        if self.threshold:
            [(_, tau)] = raw.execute(quantile_sql(*THRESHOLDS[self.threshold], every)).fetchall()
            table = f"(SELECT * FROM {table} WHERE {THRESHOLDS[self.threshold][0]} >= {tau})"
        by = self.by or "1"
        mass = f"SELECT latency_ms, source, sum(f) AS mass FROM {table} GROUP BY ALL"
        if self.asked in RANKED:
            query = quantile_sql(*RANKED[self.asked], table, by)
        elif self.form == "list":
            query = f"SELECT path, sum(f) / (SELECT sum(f) FROM {table}) FROM {table} GROUP BY path"
        elif self.form == "self_join":
            query = f"SELECT 1, sum(mass * mass) FROM (SELECT sum(f) AS mass FROM {table} GROUP BY latency_ms)"
        elif self.form == "inner_product":
            query = (
                f"SELECT 1, sum(a.mass * b.mass) FROM ({mass}) a JOIN ({mass}) b USING (latency_ms) "
                "WHERE a.source = 'api' AND b.source = 'web'"
            )
        else:
            query = f"SELECT {by}, {SQL[self.asked]} FROM {table} GROUP BY 1"
        return {key: float(number) for key, number in raw.execute(query).fetchall() if number is not None}


def held(one: Generated, row: dict[str, Any], exact: dict[Any, float]) -> bool:
    """Whether the exact number lies within the limits of a row."""
    name = "top_path_3" if one.form == "list" else "found"
    key = one.by or ("path" if one.form == "list" else None)
    truth = exact.get(row[key] if key else 1, 0.0 if one.asked.startswith(ADDED) else None)
    lower, upper = row[f"{name}_lower"], row[f"{name}_upper"]
    if truth is None or lower is None:
        return True
    return bool(lower - 1e-9 * abs(truth) <= truth <= upper + 1e-9 * abs(truth))


def test_exact_answers_lie_within_the_intervals_of_300_statements(store: Store, raw: duckdb.DuckDBPyConnection) -> None:
    """Each statement is one trial; of a GROUP BY or a list all rows must hold. Many intervals say something."""
    rng, missed, narrow = np.random.default_rng(1), 0, 0
    with store.held_open():
        for number in range(STATEMENTS):
            one = Generated(rng)
            rows, exact = store.sql(one.statement(f"requests{number % STREAMS}")).rows(), one.exact(raw)
            missed += not all(held(one, row, exact) for row in rows)
            ends = [(row["found_lower"], row["found_upper"]) for row in rows if row.get("found_upper") is not None]
            narrow += any(upper < 1.5 * lower for lower, upper in ends)
    assert missed <= STATEMENTS * (1 - CONFIDENCE)
    assert narrow >= STATEMENTS / 10
