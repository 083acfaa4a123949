"""A year of hourly runs into one stream: how the store grows, what is kept, how long a run takes.

    python -m benchmarks.year [--hours 8760] [--events 10000] [--each 1] [--publish]

Each run is a real commit to a real store: its events as ingest's tasks sample them, one new file in the ledger, daily
epochs. *Everything else* is what the file takes beyond the bytes of the sample's parts, for each run and its file. In
the end late hours go into thinned stretches, and all hours of a shorter stream in the order of time into another store:
both must hold the same bytes. Two hours on one core; `--each 24` brings a day at a time, but for the hourly runs that
are timed, of the last day of the first month and of the year, and takes ten minutes.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from datetime import datetime, timedelta
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

from benchmarks.report import publish, table
from benchmarks.size import kept_by_formula, totals
from benchmarks.streams import START, Batch
from sketches import Events, Sample
from sketches.sampling.inclusion.ladder_parameters import LadderParameters
from sketches.units import SECOND
from store import InputFile, Run, SketchTables, Stream, commit
from store.writing.run import EPOCHS, SKETCHES

HOUR, DAY, SOURCES, MONTH = 3_600, 86_400, 20, 730
NAMES = [f"site-{number}" for number in range(SOURCES)]
BEGIN = datetime(2025, 1, 1)  # noqa: DTZ001 - DuckDB's TIMESTAMP has no zone
HEAD = ("hours", "runs", "events", "kept", "by formula", "parts", "file", "everything else, bytes a run", "a run, ms")


def hour_of(number: int, events: int) -> Batch:
    """The events of one hour: random ids, uniform times, lognormal values, unit weights, skewed sources."""
    rng = np.random.default_rng(number)
    edges = np.cumsum(1.0 / np.arange(1, SOURCES + 1))
    return Batch(
        rng.integers(0, 1 << 62, events),
        START // DAY * DAY + number * HOUR + np.sort(rng.integers(0, HOUR, events)),
        np.ceil(np.exp(4.0 + 1.2 * rng.standard_normal(events))).astype(np.int64),
        np.ones(events, np.int64),
        np.searchsorted(edges / edges[-1], rng.random(events)).astype(np.int32),
    )


def run_of(batch: Batch, number: int) -> Run:
    """What ingest hands to the store for one file of these events."""
    part = Sample.partial(Events.of(batch.ids, batch.times, batch.values, None), batch.sources, NAMES)
    payload = pa.table([[""], [0], [0], ["sample"], [part.to_bytes()]], schema=SKETCHES)
    tables = SketchTables(totals(batch, NAMES, DAY).cast(EPOCHS), payload)
    begin = BEGIN + timedelta(hours=number, seconds=7)
    rng = np.random.default_rng([number, 1])
    file = InputFile(
        f"/data/calls/{begin:%Y/%m/%d}/calls-{begin:%Y%m%d-%H}.parquet",
        int(rng.integers(150_000, 170_000)),
        rng.bytes(16).hex(),
        len(batch.ids),
        int(begin.timestamp() * 1e9) + int(rng.integers(0, 1_000_000_000)),
        int(batch.times[0]),
        int(batch.times[-1]),
    )
    finished = begin + timedelta(seconds=9, microseconds=int(rng.integers(0, 1_000_000)))
    return Run(Stream("calls", DAY), tables, begin, finished, files=[file], rows=len(batch.ids))


def state(path: Path) -> tuple[int, int, int]:
    """Kept events, bytes of the sample's parts, bytes of the file."""
    with duckdb.connect(str(path), read_only=True) as connection:
        rows, parts = connection.execute(
            "SELECT sum(rows)::BIGINT, sum(bytes)::BIGINT + (SELECT sum(bytes)::BIGINT FROM heads) FROM segments"
        ).fetchall()[0]
    return rows, parts, path.stat().st_size


def late_equals_in_order(folder: Path, runs: int, events: int) -> bool:
    """Whether late hours, committed after many others, leave the bytes that the same hours leave in order."""
    rng = np.random.default_rng(3)
    late = set(rng.choice(runs // 2, runs // 20 + 1, replace=False).tolist())
    orders = ([number for number in range(runs) if number not in late] + sorted(late, reverse=True), range(runs))
    found = []
    for place, order in enumerate(orders):
        path = folder / f"order-{place}.duckdb"
        for number in order:
            commit(path, run_of(hour_of(number, events), number))
        with duckdb.connect(str(path), read_only=True) as connection:
            found.append(connection.execute("SELECT payload FROM segments ORDER BY oldest, newest").fetchall())
    return found[0] == found[1]


def hours_of(begin: int, end: int, events: int) -> Batch:
    """The events of some hours."""
    parts = [hour_of(number, events) for number in range(begin, end)]
    columns = ("ids", "times", "values", "weights", "sources")
    return Batch(*(np.concatenate([getattr(part, name) for part in parts]) for name in columns))


def schedule(hours: int, each: int) -> list[tuple[int, int]]:
    """From which hour to which each run goes: the last days of the first month and of all are hourly."""
    timed = [range(min(MONTH, hours) - 24, min(MONTH, hours)), range(hours - 24, hours)]
    found, at = [], 0
    while at < hours:
        edges = [hourly.start for hourly in timed if at < hourly.start] + [hours]
        step = 1 if any(at in hourly for hourly in timed) else min(each, min(edges) - at)
        found.append((at, at + step))
        at += step
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hours", type=int, default=8_760)
    parser.add_argument("--events", type=int, default=10_000, help="an hour")
    parser.add_argument("--each", type=int, default=1, help="hours that a run brings where it is not timed")
    parser.add_argument("--publish", action="store_true")
    options = parser.parse_args()
    capacity = LadderParameters.derive(0.05, 0.05, SECOND, 0).capacity
    rows = []
    took: dict[int, float] = {}  # by the hour at which an hourly run began
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "year.duckdb")
        for number, (begin, end) in enumerate(schedule(options.hours, options.each), start=1):
            run = run_of(hours_of(begin, end, options.events), begin)
            start = time.perf_counter()
            commit(path, run)
            if end == begin + 1:
                took[begin] = time.perf_counter() - start
            if end // MONTH > begin // MONTH or end == options.hours:
                kept, parts, size = state(path)
                formula = kept_by_formula(end * options.events, capacity)
                recent = [seconds for hour, seconds in took.items() if hour >= end - MONTH]
                numbers = (end, number, end * options.events, kept, formula, parts, size)
                timed = f"{1000 * float(np.median(recent)):.0f}" if recent else ""
                rows.append((*(f"{one:,}" for one in numbers), f"{(size - parts) / number:.1f}", timed))
                print(rows[-1], flush=True)
        same = late_equals_in_order(Path(folder), 240 if options.each == 1 else 48, options.events)
    first, last = (
        float(np.median([seconds for hour, seconds in took.items() if end - MONTH <= hour < end]))
        for end in (min(MONTH, options.hours), options.hours)
    )
    text = (
        f"Daily epochs, {SOURCES} sources, unit weights, one file a run"
        f"{'' if options.each == 1 else f'; a run brings {options.each} hours, but for the hourly ones that are timed'}"
        f". An hourly run at the end takes {last / first:.2f} times the median of the first month's. Late hours into "
        f"thinned stretches leave {'the same bytes' if same else 'OTHER BYTES'} as all hours in order.\n\n"
        + table(HEAD, rows)
    )
    if options.publish:
        command = f"python -m benchmarks.year --each {options.each} --publish"
        publish("benchmarks.md", "A year of hourly runs", command, text)
    else:
        print(text)


if __name__ == "__main__":
    main()
