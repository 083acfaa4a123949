"""A table of KLL sketches that Spark made, taken in and asked under decays that nobody chose before.

    heavy python -m benchmarks.kll [--rows 10000000] [--sources 20] [--hours 720] [--publish]

Spark's own aggregate makes a sketch of each source and hour, `wane ingest` takes the table in, and quantiles are
held against exact answers of all rows. `sample` and `qdigest` are built from the same rows, at about the same bytes.
Rows are made and read a stretch of hours at a time; held for the exact answers are 16 bytes of each.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.report import publish, table
from ingest.driver.configuration.settings import read_settings
from ingest.driver.job import run
from ingest.driver.progress import Progress
from ingest.driver.run_options import RunOptions
from sketches import Events, QDigest, Question, Sample
from sketches.decay import parse_decay
from store import Store

HOUR = 3600
DECAYS = ("none", "exp:half_life=7d", "exp:half_life=12h", "poly:alpha=1,unit=1h", "window:24h")
PHIS = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
STRETCHES = 24  # in which rows are made and read
SETTINGS = """store = "wane.duckdb"
[streams.latency]
input = "table/*.parquet"
source = "site"
time = "hour"
sketch = "kll"
epoch = "1h"
epsilon = 0.0133
"""


def events(rows: int, sources: int, hours: int) -> Iterator[Rows]:
    """Latencies whose level changes from hour to hour and from site to site, in the order of hours."""
    rng = np.random.default_rng(22)
    level = rng.normal(0.0, 0.5, (sources, hours))
    edges = np.linspace(0, hours, min(STRETCHES, hours) + 1).astype(int)
    for begin, end in pairwise(edges.tolist()):
        size = rows * end // hours - rows * begin // hours
        times = rng.integers(begin * HOUR, end * HOUR, size).astype(np.int32)
        site = rng.integers(0, sources, size).astype(np.int32)
        values = 1000.0 * np.exp(level[site, times // HOUR] + rng.normal(0.0, 1.0, size))
        yield Rows(site, times, values)


class Rows(NamedTuple):
    """Columns of events."""

    site: np.ndarray
    t: np.ndarray
    v: np.ndarray

    def events(self, first: int, which: np.ndarray | slice = slice(None)) -> Events:
        """These rows, or some in an order of theirs; `first` is the number of the first row."""
        return Events.of(np.arange(first, first + len(self.t))[which], self.t[which].astype(np.int64), self.v[which])


def tabled(folder: Path, made: Iterator[Rows]) -> float:
    """Spark's aggregate of each site and hour as a Parquet table; the seconds that it took."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 - takes seconds

    os.environ["PYSPARK_PYTHON"] = sys.executable
    (folder / "events").mkdir()
    for number, rows in enumerate(made):
        columns = {"site": pa.array(rows.site).cast(pa.string()), "t": rows.t, "v": rows.v}
        pq.write_table(pa.table(columns), folder / f"events/{number:03d}.parquet")
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    begin = time.perf_counter()
    spark.read.parquet(str(folder / "events")).createOrReplaceTempView("raw_events")
    spark.sql(
        f"SELECT site, t - t % {HOUR} AS hour, kll_sketch_agg_double(v) AS kll FROM raw_events GROUP BY ALL"
    ).coalesce(2).write.parquet(str(folder / "table"))
    took = time.perf_counter() - begin
    spark.stop()
    return took


class Exact:
    """Exact quantiles and ranks of some rows under a decay."""

    def __init__(self, parts: Sequence[Rows], now: int) -> None:
        self.site, times, self.values = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        order = np.argsort(self.values)
        self.site, self.values, self.ages = self.site[order], self.values[order], now - times[order]

    def shares(self, decay: str, site: int | None) -> tuple[np.ndarray, np.ndarray]:
        mine = slice(None) if site is None else self.site == site
        ages, faded = self.ages[mine], parse_decay(decay)
        summed = np.empty(len(ages))
        for begin in range(0, len(ages), 1 << 20):
            part = slice(begin, begin + (1 << 20))
            summed[part] = np.cumsum(faded(ages[part].astype(float))) + (summed[begin - 1] if begin else 0.0)
        summed /= summed[-1]
        return self.values[mine], summed


def rank_off(values: np.ndarray, shares: np.ndarray, value: float, phi: float) -> float:
    """How far the rank of an estimate is from the one asked for."""
    below, until = np.searchsorted(values, value, side="left"), np.searchsorted(values, value, side="right")
    low, high = (float(shares[at - 1]) if at else 0.0 for at in (below, until))
    return max(low - phi, phi - high, 0.0)


def measured(folder: Path, made: Callable[[], Iterator[Rows]], sources: int, now: int) -> tuple[str, str]:
    """The answers of the taken-in table against exact ones, of all sites and of each; and beside other families."""
    store = Store(folder / "wane.duckdb")
    truth = Exact(list(made()), now)
    stored = sum(len(payload) for payload in payloads(folder / "wane.duckdb"))
    others = {
        "sample": sample_of(made, stored),
        "qdigest": digests_of(made, stored),
    }
    lines, peers = [], []
    for decay in DECAYS:
        missed, asked, widths, off = 0, 0, [], []
        for site in [None, *range(sources)]:
            values, shares = truth.shares(decay, site)
            for phi in PHIS:
                question = Question("quantile", decay, now, phi=phi)
                found = store.ask("latency", question, sources=[] if site is None else [str(site)]).estimate
                exact = values[min(np.searchsorted(shares, phi * (1 - 1e-12)), len(values) - 1)]
                missed += not found.lower <= exact <= found.upper
                asked += 1
                if site is None:
                    off.append(rank_off(values, shares, found.value, phi))
                    widths.append(np.interp(found.upper, values, shares) - np.interp(found.lower, values, shares))
        lines.append([f"`{decay}`", asked, missed, f"{100 * np.mean(widths):.2f}", f"{100 * max(off):.3f}"])
        values, shares = truth.shares(decay, None)
        cells = [f"{100 * max(off):.3f}"]
        for askable, _ in others.values():
            answers = [askable.answer(Question("quantile", decay, now, phi=phi)).value for phi in PHIS]
            cells.append(
                f"{100 * max(rank_off(values, shares, *pair) for pair in zip(answers, PHIS, strict=True)):.3f}"
            )
        peers.append([f"`{decay}`", *cells])
    coverage = table(["decay", "intervals", "missed", "mean width, % of ranks", "largest rank error, %"], lines)
    sizes = [f"`kll` {stored / 1e6:.1f}", *(f"`{name}` {size / 1e6:.1f}" for name, (_, size) in others.items())]
    return coverage, f"MB: {', '.join(sizes)}.\n\n" + table(["largest rank error, %", "kll", *others], peers)


def payloads(path: Path) -> list[bytes]:
    from tests.support.stores import payloads as stored  # noqa: PLC0415 - for measuring only

    return [data for (*_, family), data in stored(path, "latency").items() if family == "kll"]


def sample_of(made: Callable[[], Iterator[Rows]], most: int) -> tuple[Sample, int]:
    """The sample of all rows with the least error that takes no more bytes."""
    for epsilon in (0.004, 0.008, 0.016, 0.03, 0.06, 0.1):
        found, first = Sample.build(Events.of([], []), epsilon=epsilon, detail=16), 0
        for rows in made():
            found = found.merge(Sample.build(rows.events(first), epsilon=epsilon, detail=16))
            first += len(rows.t)
        if (size := found.nbytes) <= most:
            break
    return found, size


def digests_of(made: Callable[[], Iterator[Rows]], most: int) -> tuple[object, int]:
    """A q-digest of each site and hour, with the least error that takes no more bytes, or the greatest there is."""
    for epsilon in (0.1, 0.2, 0.4, 0.9):
        found, first = [], 0
        for rows in made():
            hours = rows.t // HOUR
            group = rows.site * (int(hours.max()) + 1) + hours
            order = np.argsort(group, kind="stable")
            bounds = np.concatenate(([0], np.flatnonzero(np.diff(group[order])) + 1, [len(order)]))
            found += QDigest.payloads(rows.events(first, order), bounds, epsilon=epsilon, span=HOUR)
            first += len(rows.t)
        if sum(map(len, found)) <= most:
            break
    return QDigest.askable([QDigest.from_bytes(one) for one in found]), sum(map(len, found))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--sources", type=int, default=20)
    parser.add_argument("--hours", type=int, default=720)
    parser.add_argument("--publish", action="store_true", help="write the section of docs/benchmarks.md")
    options = parser.parse_args()

    def rows() -> Iterator[Rows]:
        return events(options.rows, options.sources, options.hours)

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        made = tabled(folder, rows())
        (folder / "wane.toml").write_text(SETTINGS)
        begin = time.perf_counter()
        summary = run(read_settings(folder / "wane.toml"), RunOptions(engine="local"), Progress(quiet=True))
        took = time.perf_counter() - begin
        assert summary.exit_code == 0, summary
        begin = time.process_time()
        Store(folder / "wane.duckdb").ask("latency", Question("median", DECAYS[1]))
        cold = time.process_time() - begin
        coverage, peers = measured(folder, rows, options.sources, options.hours * HOUR - 1)
    made_of = f"{options.rows:,} rows, {options.sources} sources, {options.hours} hours"
    text = (
        f"{made_of}: Spark's `kll_sketch_agg_double` took {made:.0f} s for {summary.outcomes[0].rows:,} sketches, "
        f"`wane ingest` {took:.0f} s without Spark, a first median of all of them {cold:.2f} s of CPU. "
        f"Quantiles at {json.dumps(PHIS)[1:-1]} of all sources together and of each; an interval may miss in 5 of 100. "
        "Widths and errors are of all sources together.\n\n"
        f"{coverage}\n\nThe same rows by other families, built from the events. {peers}"
    )
    command = f"python -m benchmarks.kll --rows {options.rows} --sources {options.sources} --hours {options.hours}"
    if options.publish:
        publish("benchmarks.md", "Sketches that others made", command, text)
    else:
        print(text)


if __name__ == "__main__":
    main()
