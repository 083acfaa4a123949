"""From a command to what it is for: `wane ingest` to the first row that it reads, and `make demo` to the first page.

    python -m benchmarks.first_row [--runs 5] [--rows 1000000] [--master 'local[2]'] [--demo] [--engine local]

Ingest is measured as cron runs it: each time a process of its own, with a new store, over one Parquet file of so many
rows (`benchmarks.ingest`'s); it tells itself how long each part of its start took. With --demo it also clones this
checkout into a new folder and types the two commands that a newcomer types, `make setup` and `make demo`, until the
page answers; packages come from wherever pip is told to look. --engine is the demo's: spark, or local without Java.
Writes a section of docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.ingest import generate
from benchmarks.report import publish, table
from tests.support.browser import free_port

ROOT = Path(__file__).resolve().parent.parent
SETTINGS = """store = "bench.duckdb"
[streams.bench]
input = "arrived/*.parquet"
source = "source"
id = "id"
time = "ts"
value = "value"
weight = "weight"
epoch = "1h"
"""
LIMIT = 1800.0  # seconds in which the demo's page must be there
LOOK = 0.1


def starts(folder: Path, runs: int, master: str) -> list[tuple[Mapping[str, float], float]]:
    """The parts of each run's start, and the seconds of the whole run; the first run, which may compile, is left
    out."""
    (folder / "wane.toml").write_text(SETTINGS)
    command = [sys.executable, "-c", "import wane; wane.run()", "ingest", "--config", str(folder / "wane.toml")]
    found = []
    for _ in range(runs + 1):
        for file in folder.glob("bench.duckdb*"):
            file.unlink()
        begun = time.perf_counter()
        done = subprocess.run(
            [*command, "--master", master, "--json"], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True
        )
        found.append((json.loads(done.stdout)["start"], time.perf_counter() - begun))
    return found[1:]


def start_text(found: Sequence[tuple[Mapping[str, float], float]], rows: int, master: str) -> str:
    """Medians of the parts, of their sum, and of the whole run."""
    parts = {part: statistics.median(one.get(part, 0.0) for one, _ in found) for part in found[0][0]}
    first = [sum(one.values()) for one, _ in found]
    lines = [(part, f"{seconds:.2f}") for part, seconds in parts.items()]
    lines += [
        ("**to the first row**, asked: 6", f"{statistics.median(first):.2f}"),
        ("least and most of these", f"{min(first):.2f} and {max(first):.2f}"),
        (f"to the end of the run, {rows:,} rows", f"{statistics.median(whole for _, whole in found):.2f}"),
    ]
    about = f"`wane ingest --master {master}`, medians of {len(found)} processes, each with a new store."
    return f"{about}\n\n{table(('part', 's'), lines)}"


def demo_text(engine: str) -> str:
    """The seconds of a newcomer's two commands, in a clone of this checkout."""
    with tempfile.TemporaryDirectory(prefix="wane-demo-") as name:
        clone = Path(name) / "wane"
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        begun = time.perf_counter()
        with (Path(name) / "log").open("wb") as log:
            subprocess.run(["make", "setup", f"ENGINE={engine}"], cwd=clone, check=True, stdout=log, stderr=log)
            prepared = time.perf_counter()
            port = free_port()
            command = ["make", "demo", f"ENGINE={engine}", f"DEMO_ARGS=--port {port}"]
            demo = subprocess.Popen(command, cwd=clone, stdout=log, stderr=log, start_new_session=True)
            try:
                wait_for_page(f"http://127.0.0.1:{port}/", demo)
                shown = time.perf_counter()
            finally:
                os.killpg(demo.pid, signal.SIGINT)
                demo.wait(timeout=60)
    lines = [
        ("`make setup`", f"{prepared - begun:.0f}"),
        ("`make demo`, to the first page", f"{shown - prepared:.0f}"),
        ("both", f"{shown - begun:.0f}"),
    ]
    return f"A newcomer's two commands in a new clone, engine {engine}.\n\n{table(('command', 's'), lines)}"


def wait_for_page(address: str, process: subprocess.Popen[bytes]) -> None:
    """Until the server answers with its page; refuses a process that ends before, or takes too long."""
    until = time.monotonic() + LIMIT
    while time.monotonic() < until:
        if process.poll() is not None:
            raise SystemExit(f"the demo ended with exit code {process.returncode} before its page was there")
        try:
            with urllib.request.urlopen(address, timeout=10.0) as answer:
                if answer.status == 200:
                    return
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            time.sleep(LOOK)
    raise SystemExit(f"the demo's page was not there after {LIMIT:.0f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5, help="processes of ingest (default 5)")
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows that they read (default 1,000,000)")
    parser.add_argument("--master", default="local[2]", help="Spark master (default local[2])")
    parser.add_argument("--demo", action="store_true", help="also time make setup and make demo in a new clone")
    parser.add_argument("--engine", choices=("spark", "local"), default="spark", help="of the demo (default spark)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="wane-bench-") as name:
        generate(Path(name) / "arrived", options.rows, shuffled=False)
        text = start_text(starts(Path(name), options.runs, options.master), options.rows, options.master)
    if options.demo:
        text += "\n\n" + demo_text(options.engine)
    command = f"python -m benchmarks.first_row --runs {options.runs}{' --demo' if options.demo else ''}"
    publish("benchmarks.md", "The first row and the first page", command, text)


if __name__ == "__main__":
    main()
