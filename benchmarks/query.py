"""What an answer from a store costs, against exact SQL in DuckDB over the same events as a native table.

    python -m benchmarks.query [--events 34000000] [--epochs 1d 1h]

Generates the events day by day (30 days, 20 sources, paper B's size), commits each day to one store for each length of
epoch and inserts it into a DuckDB table that is sorted by time; does the same with a tenth of the events, to show
growth. The peer runs with 2 threads on warm data, in the same process; each side's best of some runs counts. Needs some
5 GB of disk for the temporary files and writes a section of docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import math
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest import mock

import duckdb
import numpy as np
import pyarrow as pa

from benchmarks.report import best, publish, table
from sketches import Events, Question, Sample, Series
from store import EpochSketches, Run, SketchTables, Store, Stream, commit

DAYS = 30
SOURCES = 20
DAY = 86_400
START = 19_676 * DAY  # 2023-11-15
EPOCHS = {"1d": DAY, "1h": 3600}
STREAM = "calls"
POINTS = 200
FEW_POINTS = 10  # of the series, where exact SQL would take minutes for all of them
TAU = 1000
STEPS = itertools.count(1)
ROUNDING = 1e-9  # relative; two exact sums over millions of rows differ by this much at most


Fading = tuple[str, str]  # a decay as a spec and as SQL; `AT` in SQL is the as-of time


def exponential(step: int) -> Fading:
    half_life = 21_600 + 60 * step
    return f"exp:half_life={half_life}s", f"exp((t - AT) * {math.log(2) / half_life!r})"


def polynomial(step: int) -> Fading:
    """The square root is the peer's fastest way to write this power: pow takes 1.6 to 2.7 times as long."""
    age = f"(1 + (AT - t) / {600 + step}e0)"
    return f"poly:alpha=1.5,unit={600 + step}s", f"1 / ({age} * sqrt({age}))"


def window(step: int) -> Fading:
    return f"window:{DAY + 60 * step}s", f"t > AT - {DAY + 60 * step}"


@dataclass(frozen=True)
class Asked:
    """A question to the store and the same in SQL. The decay comes in steps, all alike and none equal: what a store
    keeps of a decay asked before must not make it look faster than it is."""

    name: str
    decay: Callable[[int], Fading]
    settings: dict[str, Any]
    template: str  # `FADED` in it is the decay
    times_faster: int  # what issue 3 asks for

    def question(self, step: int = 0) -> Question:
        return Question(decay=self.decay(step)[0], **self.settings)

    @property
    def sql(self) -> str:
        return self.template.replace("FADED", self.decay(0)[1])


SUM = "SELECT sum(w * FADED) FROM events WHERE t <= AT"
MASSES = "WITH masses AS (SELECT v, sum(w * FADED) AS mass FROM events WHERE t <= AT GROUP BY v)"
MEDIAN = f"""{MASSES},
running AS (SELECT v, sum(mass) OVER (ORDER BY v) AS below, sum(mass) OVER () AS whole FROM masses)
SELECT min(v) FROM running WHERE below >= 0.5 * whole"""
TOP = f"{MASSES} SELECT mass / sum(mass) OVER () AS share, v FROM masses ORDER BY share DESC LIMIT 10"
ANSWERS = (
    Asked("exponential sum", exponential, {"aggregate": "sum"}, SUM, 10),
    Asked(
        f"polynomial sum, v ≥ {TAU}",
        polynomial,
        {"aggregate": "correlated-sum", "tau": TAU},
        f"{SUM} AND v >= {TAU}",
        10,
    ),
    Asked("median, exponential", exponential, {"aggregate": "median"}, MEDIAN, 10),
    Asked("top 10, exponential", exponential, {"aggregate": "heavy-hitters", "top": 10}, TOP, 10),
)
SERIES = (
    Asked("window of 1 day", window, {"aggregate": "sum"}, "SELECT sum(w) FROM events WHERE t <= AT AND FADED", 100),
    Asked("exponential", exponential, {"aggregate": "sum"}, SUM, 100),
    Asked("polynomial", polynomial, {"aggregate": "sum"}, SUM, 30),
)


@dataclass
class Built:
    """The same events three times: stores by length of epoch, a DuckDB table, and Parquet."""

    events: int
    stores: dict[str, Path]
    database: Path
    parquet: int
    newest: int
    seconds: dict[str, float] = field(default_factory=dict)  # sampling and commits, by length of epoch


def say(text: str) -> None:
    print(f"{datetime.now(UTC):%H:%M:%S} {text}", file=sys.stderr, flush=True)


def days(events: int) -> Iterator[dict[str, np.ndarray]]:
    """The events of one day after the other, sorted by time: busy by day, sources of unequal size, values log-uniform
    from 1 to 100,000 (a few are common, most rare), weights from 1 to about 60."""
    sizes = np.diff(np.linspace(0, events, DAYS + 1).astype(np.int64))
    shares = 1.0 / np.arange(2, SOURCES + 2)
    for day, rows in enumerate(sizes.tolist()):
        rng = np.random.default_rng([7, day])
        hours = rng.triangular(0, 15, 24, rows)
        quiet = rng.random(rows) < 0.3
        hours[quiet] = rng.uniform(0, 24, int(quiet.sum()))
        yield {
            "id": np.arange(rows) + (day << 32),
            "t": np.sort((hours * 3600).astype(np.int64)) + START + day * DAY,
            "v": np.exp(rng.uniform(0, math.log(100_000), rows)).astype(np.int32),
            "w": rng.geometric(0.25, rows).astype(np.int32),
            "source": rng.choice(SOURCES, rows, p=shares / shares.sum()).astype(np.int8),
        }


def parts_of(columns: dict[str, np.ndarray], length: int) -> list[EpochSketches]:
    """The sketches of a chunk by source and epoch; one sort brings each group's rows together."""
    epochs = columns["t"] // length
    order = np.lexsort((columns["t"], epochs, columns["source"]))
    ids, times, values, weights, source, epochs = (
        column[order] for column in (*(columns[name] for name in ("id", "t", "v", "w", "source")), epochs)
    )
    edges = np.flatnonzero(np.diff(source) | np.diff(epochs)) + 1
    parts = []
    for start, stop in zip(np.append(0, edges), np.append(edges, len(times)), strict=True):
        rows = slice(int(start), int(stop))
        parts.append(
            EpochSketches(
                f"source {source[start]:02d}",
                int(epochs[start]) * length,
                length,
                int(stop - start),
                float(weights[rows].sum()),
                int(times[start]),
                int(times[stop - 1]),
                [Sample.build(Events.of(ids[rows], times[rows], values[rows], weights[rows]))],
            )
        )
    return parts


def build(folder: Path, events: int, epochs: Sequence[str]) -> Built:
    stores = {name: folder / f"store-{name}.duckdb" for name in epochs}
    seconds = dict.fromkeys(epochs, 0.0)
    database = folder / "events.duckdb"
    newest = 0
    with duckdb.connect(str(database), config={"threads": 2, "memory_limit": "3GB"}) as peer:
        peer.execute("CREATE TABLE events (source TINYINT, id BIGINT, t BIGINT, v INTEGER, w INTEGER)")
        for day, columns in enumerate(days(events)):
            peer.register("day", pa.table(columns))
            peer.execute("INSERT INTO events SELECT source, id, t, v, w FROM day")
            peer.unregister("day")
            newest = int(columns["t"][-1])
            for name in epochs:
                begun, clock = datetime.now(UTC), time.perf_counter()
                found = SketchTables.of(parts_of(columns, EPOCHS[name]))
                run = Run(Stream(STREAM, EPOCHS[name]), found, begun, datetime.now(UTC), rows=len(columns["t"]))
                commit(stores[name], run)
                seconds[name] += time.perf_counter() - clock
            if day % 5 == 4:
                say(f"{events:,} events: day {day + 1} of {DAYS} stored")
        parquet = folder / "events.parquet"
        peer.execute(f"COPY events TO '{parquet}' (FORMAT parquet, COMPRESSION zstd)")
        size = parquet.stat().st_size
        parquet.unlink()
        peer.execute("CHECKPOINT")
    gc.collect()
    return Built(events, stores, database, size, newest, seconds)


def peer_of(built: Built) -> duckdb.DuckDBPyConnection:
    return duckdb.connect(str(built.database), read_only=True, config={"threads": 2, "memory_limit": "4GB"})


def exact(peer: duckdb.DuckDBPyConnection, sql: str, as_of: int) -> list[tuple[float, ...]]:
    return peer.execute(sql.replace("AT", str(as_of))).fetchall()


def holds(lower: np.ndarray, truth: np.ndarray, upper: np.ndarray) -> np.ndarray:
    return (lower * (1 - ROUNDING) <= truth) & (truth <= upper * (1 + ROUNDING))


def answer_rows(built: Built, store: Store, peer: duckdb.DuckDBPyConnection) -> list[tuple[object, ...]]:
    """Each question to both sides: time, ratio, and whether the interval holds the exact answer."""
    rows: list[tuple[object, ...]] = []
    for asked in ANSWERS:
        answer = store.ask(STREAM, asked.question()).estimate
        truth = exact(peer, asked.sql, built.newest)
        ours, theirs = race(
            lambda step, asked=asked: store.ask(STREAM, asked.question(step)),
            lambda asked=asked: exact(peer, asked.sql, built.newest),
            15,
        )
        again = best(lambda asked=asked: store.ask(STREAM, asked.question()), 9)
        inside = holds(answer.lower, truth[0][0], answer.upper)
        shown = f"{truth[0][0]:.6g}"
        if answer.items:
            shares = {value: share for share, value in truth}
            found = [item for item in answer.items if item.value in shares]
            inside = all(holds(item.lower, shares[item.value], item.upper) for item in found)
            shown = f"{shown} (first of 10; {len(found)} of the exact ten found)"
        rows.append(
            (
                asked.name,
                f"{theirs * 1e3:.0f}",
                f"{ours * 1e3:.1f}",
                f"{theirs / ours:.1f}",
                asked.times_faster,
                f"{again * 1e3:.1f}",
                f"{answer.value:.6g}",
                f"{answer.lower:.6g} … {answer.upper:.6g}",
                shown,
                "yes" if inside else "NO",
            )
        )
        say(f"{asked.name}: exact {theirs * 1e3:.0f} ms, wane {ours * 1e3:.1f} ms, {theirs / ours:.1f} ×")
    return rows


def exact_series(peer: duckdb.DuckDBPyConnection, sql: str, moments: Sequence[int]) -> list[float]:
    return [exact(peer, sql, moment)[0][0] for moment in moments]


def series_rows(built: Built, store: Store, peer: duckdb.DuckDBPyConnection) -> list[tuple[object, ...]]:
    moments = np.linspace(START + DAY, built.newest, POINTS).astype(np.int64)
    rows: list[tuple[object, ...]] = []
    for asked in SERIES:
        points = np.arange(POINTS) if asked.decay is window else np.linspace(0, POINTS - 1, FEW_POINTS).astype(np.int64)
        chosen = moments[points].tolist()
        truth = np.array(exact_series(peer, asked.sql, chosen))
        found: Series = store.series(STREAM, asked.question(), moments)[0]
        ours, theirs = race(
            lambda step, asked=asked: store.series(STREAM, asked.question(step), moments),
            lambda asked=asked, chosen=chosen: exact_series(peer, asked.sql, chosen),
            6,
        )
        again = best(lambda asked=asked: store.series(STREAM, asked.question(), moments), 7)
        scaled = theirs * POINTS / len(points)
        inside = int(np.sum(holds(found.lower[points], truth, found.upper[points])))
        width = float(np.mean((found.upper[points] - found.lower[points]) / truth))
        rows.append(
            (
                asked.name,
                len(points),
                f"{scaled:.2f}",
                f"{ours * 1e3:.1f}",
                f"{scaled / ours:.0f}",
                asked.times_faster,
                f"{again * 1e3:.1f}",
                f"{inside} of {len(points)}",
                f"{100 * width:.1f}",
            )
        )
        say(f"series, {asked.name}: exact {scaled:.2f} s, wane {ours * 1e3:.1f} ms, {scaled / ours:.0f} ×")
    return rows


def race(ours: Callable[[int], object], theirs: Callable[[], object], repeats: int) -> tuple[float, float]:
    """Seconds of the fastest run on either side, turn by turn, so that a busy machine disturbs both alike. Each of our
    runs has a decay that nothing in this process was asked before."""
    times = [(timed(lambda: ours(next(STEPS))), timed(theirs)) for _ in range(repeats)]
    return min(own for own, _ in times), min(peer for _, peer in times)


def timed(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def size_row(built: Built, name: str, peer: duckdb.DuckDBPyConnection) -> tuple[object, ...]:
    """One store: bytes, building, first answer of a new Store (and what of it is the catalogue), the next answer."""
    path = built.stores[name]
    first = []
    for _ in range(2):
        store = Store(path)
        catalogue = timed(store.serving.catalogue)
        first.append((timed(lambda store=store: store.ask(STREAM, ANSWERS[0].question())) + catalogue, catalogue))
    loading, catalogue = min(first)
    again, theirs = race(
        lambda step: store.ask(STREAM, ANSWERS[0].question(step)),
        lambda: exact(peer, ANSWERS[0].sql, built.newest),
        7,
    )
    held = store.catalogue().streams[STREAM]
    rows = len(store._selections[STREAM, tuple(held.sources), "sample"].askable.sample)  # type: ignore[union-attr]
    size = path.stat().st_size
    say(f"{built.events:,} events, epochs of {name}: store {size / 1e6:.0f} MB, first answer {loading:.2f} s")
    return (
        f"{built.events:,}",
        name,
        f"{len(held.sketches['sample']):,}",
        f"{size / 1e6:.1f}",
        f"{held.bytes_of('sample') / 1e6:.1f}",
        f"{built.parquet / 1e6:.1f}",
        f"{size / built.parquet:.2f}",
        f"{built.events / built.seconds[name] / 1e6:.1f}",
        f"{catalogue * 1e3:.0f}",
        f"{loading:.2f}",
        f"{rows:,}",
        f"{again * 1e3:.1f}",
        f"{theirs * 1e3:.0f}",
        f"{theirs / again:.1f}",
    )


def report(events: int, epochs: Sequence[str], folder: Path) -> str:
    sizes = []
    text = ""
    for count in (events // 10, events):
        place = folder / str(count)
        place.mkdir()
        built = build(place, count, epochs)
        with peer_of(built) as peer:
            if count == events:
                store = Store(built.stores[epochs[0]])
                store.ask(STREAM, ANSWERS[0].question())
                with mock.patch("duckdb.connect", side_effect=AssertionError("the store was read again")):
                    text += answers_text(built, store, peer)
                del store
                gc.collect()
            for name in epochs:
                sizes.append(size_row(built, name, peer))
                gc.collect()
    head = ("events", "epochs", "sketches", "store MB", "payloads MB", "Parquet MB", "store / Parquet", "built M/s")
    head += ("catalogue ms", "first answer s", "rows in memory", "next answer ms", "exact ms", "ratio")
    text += (
        "\n\nSize, first load and growth: zstd Parquet of the same events; *built* is sampling and one commit a day; "
        "the first answer of a new `Store` reads, checks and merges all sources (exponential sum; the file is in the "
        "system's cache), the next one, under another decay, is the arithmetic only. Old epochs are not compacted "
        "yet.\n\n"
    )
    return text + table(head, sizes)


def answers_text(built: Built, store: Store, peer: duckdb.DuckDBPyConnection) -> str:
    first = (
        f"One answer for all {SOURCES} sources once loaded, as of the newest event, each time under a decay never "
        "asked before; *again* is the same decay once more. From here to the end of the series the store's file was "
        "not opened once: a changed decay re-reads and re-merges nothing.\n\n"
    )
    head = ("answer", "exact ms", "wane ms", "ratio", "asked", "again ms", "estimate", "interval", "exact", "inside")
    first += table(head, answer_rows(built, store, peer))
    head = ("series of sums", "points measured", "exact s", "wane ms", "ratio", "asked", "again ms")
    head += ("exact inside", "width %")
    second = (
        f"\n\nA series of {POINTS} points with bounds. Exact SQL is a query a point (one query with a filtered sum for "
        f"each of ten points took longer); but for the window, {FEW_POINTS} points spread over the whole time were "
        "measured and the time scaled up to all.\n\n"
    )
    return first + second + table(head, series_rows(built, store, peer))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--events", type=int, default=34_000_000, help="default 34,000,000")
    options.add_argument("--epochs", nargs="+", choices=list(EPOCHS), default=list(EPOCHS), help="the first is timed")
    options.add_argument("--folder", help="where the temporary files go (default: the system's)")
    chosen = options.parse_args()
    command = "python -m benchmarks.query"
    if chosen.events != options.get_default("events"):
        command += f" --events {chosen.events}"
    if chosen.epochs != options.get_default("epochs"):
        command += f" --epochs {' '.join(chosen.epochs)}"
    with tempfile.TemporaryDirectory(prefix="wane-query-", dir=chosen.folder) as folder:
        text = (
            f"{chosen.events:,} generated events over {DAYS} days and {SOURCES} sources, epochs of {chosen.epochs[0]}, "
            f"ε = δ = 0.05, against DuckDB {duckdb.__version__} over the same events as a native table sorted by time, "
            "2 threads, warm. No event occurs twice, so exact SQL is spared the search for duplicates.\n\n"
        ) + report(chosen.events, chosen.epochs, Path(folder))
    publish("benchmarks.md", "Questions to a store", command, text)


if __name__ == "__main__":
    main()
