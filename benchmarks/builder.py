"""How many rows a second `ingest.Builder` takes in small batches, on one core, and what memory it holds.

python -m benchmarks.builder [--rows 300000]
"""

from __future__ import annotations

import argparse
import tempfile
import time
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.report import publish, table
from ingest import Builder

SETTINGS = """store = "store.duckdb"
[streams.readings]
input = "none/*.parquet"
source = "sensor"
id = "id"
time = "at"
value = "celsius"
weight = "load"
epoch = "1h"
"""


def batches(rows: int, size: int, form: str) -> list[dict[str, Any]]:
    rng = np.random.default_rng(24)
    columns = {
        "id": np.arange(rows),
        "at": rng.integers(1_700_000_000, 1_700_086_400, rows),
        "celsius": rng.integers(0, 400, rows),
        "load": rng.integers(0, 5, rows),
    }
    found = []
    for at in range(0, rows, size):
        batch: dict[str, Any] = {name: column[at : at + size] for name, column in columns.items()}
        if form == "lists":
            batch = {name: column.tolist() for name, column in batch.items()}
        found.append(batch | {"sensor": [f"s{at % 7}"] * len(batch["id"])})
    return found


def measured(folder: Path, rows: int, size: int, form: str) -> tuple[float, float]:
    """Rows a second until all are taken and sketched or wait, and the greatest memory held meanwhile, in MB."""
    (folder / "wane.toml").write_text(SETTINGS)
    some = batches(rows, size, form)
    spent = []
    for _ in range(3):
        builder = Builder(folder / "wane.toml", "readings")
        begun = time.process_time()
        for batch in some:
            builder.add(batch)
        spent.append(time.process_time() - begun)
    builder = Builder(folder / "wane.toml", "readings")
    tracemalloc.start()
    before, arrow = pa.total_allocated_bytes(), 0
    for batch in some[: 150_000 // size]:
        builder.add(batch)
        arrow = max(arrow, pa.total_allocated_bytes() - before)
    peak = tracemalloc.get_traced_memory()[1] + arrow
    tracemalloc.stop()
    return rows / min(spent), peak / 1e6


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rows", type=int, default=300_000)
    rows = options.parse_args().rows
    lines = []
    for size in (1, 10, 100, 1_000):
        found = {}
        for form in ("lists", "numpy"):
            with tempfile.TemporaryDirectory() as name:
                found[form] = measured(Path(name), rows, size, form)
        speeds = (f"{found[form][0]:,.0f}" for form in ("lists", "numpy"))
        lines.append((f"{size:,}", *speeds, f"{max(peak for _, peak in found.values()):.0f}"))
        print(lines[-1], flush=True)
    header = ("rows in a batch", "lists, rows/s of CPU", "numpy, rows/s of CPU", "most memory, MB")
    publish("benchmarks.md", "Events of a process", "python -m benchmarks.builder", table(header, lines))


if __name__ == "__main__":
    main()
