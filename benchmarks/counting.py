"""What counting rows for exact totals costs ingest: CPU time of its tasks with totals and without.

    python -m benchmarks.counting [--rows 4000000] [--turns 5] [--publish]

The functions that Spark's workers run read Parquet files, check, sample, write payloads and merge them, in one process
that does nothing else, so that what others do on the machine matters least. Turns with totals and without follow one
another; the least of each counts. Spark, the commit and the start are left out: they only make the share smaller.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.report import publish, table
from benchmarks.streams import Generated
from ingest.driver.configuration.settings import read_settings
from ingest.driver.configuration.stream_kinds import StreamKinds
from ingest.driver.reading import read_parquet
from ingest.driver.sketching import worker_settings
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
    reading, _ = read_parquet(settings, paths)
    assert reading is not None
    groups = [
        worker.RowGroup(path, number, 0) for path in paths for number in range(pq.read_metadata(path).num_row_groups)
    ]
    split = [groups[at * len(groups) // TASKS : (at + 1) * len(groups) // TASKS] for at in range(TASKS)]
    return split, reading.columns, worker_settings(settings, StreamKinds(Kind.INTEGER, {}), NOW)


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


def compared(stream: Generated, order: str, turns: int) -> tuple[str, ...]:
    """A line: CPU seconds with totals and without, and the difference in %."""
    plain = Sample.of_sources.__func__  # type: ignore[attr-defined]

    def uncounted(cls: type[Sample], /, *arguments: Any, counting_rows: bool = False, **named: Any) -> Sample:
        found: Sample = plain(cls, *arguments, counting_rows=False, **named)
        return found

    with tempfile.TemporaryDirectory(prefix="wane-bench-") as name:
        folder = Path(name)
        prepared = tasks_of(folder, write(stream, order, folder))
        took: dict[bool, list[float]] = {True: [], False: []}
        for turn in range(turns + 1):
            for counting in (True, False):
                with patch.object(Sample, "of_sources", Sample.of_sources if counting else classmethod(uncounted)):
                    seconds = cpu_seconds(*prepared)
                if turn:  # the first turn loads kernels
                    took[counting].append(seconds)
    counted, uncounted_ = min(took[True]), min(took[False])
    medians = np.median(took[True]) / np.median(took[False])
    return (
        f"{stream.name}, {order}",
        f"{counted:.3f}",
        f"{uncounted_:.3f}",
        f"{100.0 * (counted / uncounted_ - 1.0):.1f}",
        f"{100.0 * (medians - 1.0):.1f}",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--publish", action="store_true")
    options = parser.parse_args()
    header = ("stream", "CPU s with totals", "without", "more, %", "more by medians, %")
    lines = []
    for stream, order in streams(options.rows):
        lines.append(compared(stream, order, options.turns))
        print(lines[-1], file=sys.stderr, flush=True)
    text = (
        f"{options.rows:,} rows in Parquet files, {TASKS} tasks and their merge, one process, least of {options.turns} "
        f"turns each. Asked: at most 5% of ingest's time.\n\n" + table(header, lines)
    )
    if options.publish:
        command = shlex.join(["python", "-m", "benchmarks.counting", *sys.argv[1:]])
        publish("benchmarks.md", "What totals cost ingest", command, text)
    else:
        print(text)


if __name__ == "__main__":
    main()
