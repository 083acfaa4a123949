"""What counting rows for exact totals costs ingest: its time, and CPU time of its tasks, with totals and without.

    python -m benchmarks.counting [--rows 4000000] [--turns 5] [--publish]

The time is of whole runs of ingest on local[2] in one warm session, from files to the committed store. For CPU time the
functions that Spark's workers run read Parquet files, check, sample, write payloads and merge them, in one process that
does nothing else. Turns with totals and without follow one another.
"""

from __future__ import annotations

import argparse
import shlex
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from benchmarks.ingest import MASTER, ingested
from benchmarks.report import publish, table
from benchmarks.streams import Generated
from ingest.driver.configuration.settings import read_settings
from ingest.driver.configuration.stream_kinds import StreamKinds
from ingest.driver.parquet_reading import read_parquet
from ingest.driver.session.spark import spark_session
from ingest.driver.sketching import worker_settings
from ingest.driver.spark import engine
from ingest.executor import worker
from ingest.executor.worker_settings import WorkerSettings
from sketches import Sample
from sketches.event_rules import PlainColumn
from sketches.events import Kind

NOW = datetime(2026, 1, 31)  # noqa: DTZ001 - as Spark's workers are told the time
TASKS = 4
FILE_ROWS = 500_000
SETTINGS = """store = "bench.duckdb"
[streams.bench]
input = "*.parquet"
source = "source"
id = "id"
time = "ts"
value = "value"
weight = "weight"
epoch = "1h"
"""


def streams(rows: int) -> Sequence[tuple[Generated, str]]:
    """Streams in the order of time and in none, from few cells of the tables to very many."""
    return (
        (Generated("a day, 20 sources", rows, 1, 20), "in order"),
        (Generated("a day, 20 sources", rows, 1, 20), "in no order"),
        (Generated("30 days, 20 sources, heavy weights", rows, 30, 20, heavy=1.0), "in order"),
        (Generated("180 days, 200 sources, heavy weights", rows, 180, 200, heavy=1.0), "in order"),
    )


def write(stream: Generated, order: str, folder: Path) -> list[str]:
    """The stream as files; the paths."""
    whole = pa.concat_tables([batch.table() for batch in stream.batches(FILE_ROWS)])
    if order == "in no order":
        whole = whole.take(np.random.default_rng(2).permutation(whole.num_rows))
    paths = []
    for number in range(-(-whole.num_rows // FILE_ROWS)):
        path = folder / f"part-{number:02}.parquet"
        pq.write_table(whole.slice(number * FILE_ROWS, FILE_ROWS), path, compression="zstd")
        paths.append(str(path))
    return paths


def tasks_of(folder: Path, paths: list[str]) -> tuple[list[list[worker.RowGroup]], Any, WorkerSettings]:
    """Row groups by task, the columns to read, and what workers are told."""
    (folder / "wane.toml").write_text(SETTINGS)
    settings = read_settings(folder / "wane.toml").streams["bench"]
    found, _ = read_parquet(settings, paths)
    assert found is not None
    groups = [
        worker.RowGroup(path, number, 0) for path in paths for number in range(pq.read_metadata(path).num_row_groups)
    ]
    split = [groups[at * len(groups) // TASKS : (at + 1) * len(groups) // TASKS] for at in range(TASKS)]
    return split, found.columns, worker_settings(settings, StreamKinds(Kind.INTEGER, {}), NOW)


def cpu_seconds(tasks: list[list[worker.RowGroup]], columns: dict[str, PlainColumn], settings: WorkerSettings) -> float:
    """Of all tasks and the merge of what they give."""
    begin = time.process_time()
    found: list[pa.RecordBatch] = []
    for number in range(len(tasks)):
        arrived = [pa.record_batch({"task": pa.array([number])})]
        found += worker.sketch_row_groups(arrived, tasks, columns, settings)
    rows = pa.Table.from_batches(found).sort_by([("source", "ascending"), ("start", "ascending")])
    assert sum(batch.num_rows for batch in worker.merge(rows.combine_chunks().to_batches(), settings))
    return time.process_time() - begin


def uncounted(*arguments: Any, counting_rows: bool = False, plain: Any = Sample.of_sources, **named: Any) -> Sample:
    """`Sample.of_sources` that counts no rows."""
    found: Sample = plain(*arguments, **named)
    return found


def sketch_uncounted(*arguments: Any, **named: Any) -> Iterator[pa.RecordBatch]:
    """What workers run, but without totals; of this module, so that Spark sends its code."""
    with patch.object(Sample, "of_sources", uncounted):
        yield from worker.sketch_row_groups(*arguments, **named)


def compared(folder: Path, paths: list[str], turns: int) -> tuple[str, ...]:
    """CPU seconds with totals and without, and the difference in %."""
    prepared = tasks_of(folder, paths)
    took: dict[bool, list[float]] = {True: [], False: []}
    for turn in range(turns + 1):
        for counting in (True, False):
            with patch.object(Sample, "of_sources", Sample.of_sources if counting else uncounted):
                seconds = cpu_seconds(*prepared)
            if turn:  # the first turn loads kernels
                took[counting].append(seconds)
    return _columns(took)


def timed(folder: Path, turns: int, spark: SparkSession) -> tuple[str, ...]:
    """Seconds of whole runs with totals and without, and the difference in %."""
    took: dict[bool, list[float]] = {True: [], False: []}
    for turn in range(turns + 1):
        for counting in (True, False) if turn % 2 else (False, True):
            with patch.object(engine, "sketch_row_groups", worker.sketch_row_groups if counting else sketch_uncounted):
                seconds = ingested(spark, folder, "*.parquet")
            if turn:  # the first turn warms up the workers
                took[counting].append(seconds)
    return _columns(took)


def _columns(took: dict[bool, list[float]]) -> tuple[str, ...]:
    counted, plain = statistics.median(took[True]), statistics.median(took[False])
    least = min(took[True]) / min(took[False])
    return f"{counted:.3f}", f"{plain:.3f}", f"{100.0 * (counted / plain - 1.0):.1f}", f"{100.0 * (least - 1.0):.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--publish", action="store_true")
    options = parser.parse_args()
    header = ("stream", "seconds with totals", "without", "more by medians, %", "more by the least, %")
    runs, tasks = [], []
    with spark_session(MASTER) as spark:
        for stream, order in streams(options.rows):
            with tempfile.TemporaryDirectory(prefix="wane-bench-") as name:
                folder = Path(name)
                paths = write(stream, order, folder)
                runs.append((f"{stream.name}, {order}", *timed(folder, options.turns, spark)))
                tasks.append((f"{stream.name}, {order}", *compared(folder, paths, options.turns)))
            print(runs[-1], tasks[-1][1:], file=sys.stderr, flush=True)
    text = (
        f"{options.rows:,} rows in {-(-options.rows // FILE_ROWS)} Parquet files, {options.turns} turns each. Asked: "
        f"at most 5% of ingest's time.\n\n"
        f"Whole runs on {MASTER} in one warm session, from files to the committed store:\n\n"
        f"{table(header, runs)}\n\nCPU time of {TASKS} tasks and their merge alone, in one process:\n\n"
        + table(header, tasks)
    )
    if options.publish:
        command = shlex.join(["python", "-m", "benchmarks.counting", *sys.argv[1:]])
        publish("benchmarks.md", "What totals cost ingest", command, text)
    else:
        print(text)


if __name__ == "__main__":
    main()
