"""From the start of a process to its printed answer: help, and questions to a store that nothing has read before.

    python -m benchmarks.start [--runs 9] [--rows 3000000 34000000] [--before DIR] [--kept DIR]

Help is measured beside Python itself, and a question to a store as large as the demo's beside a process that only
imports numpy and DuckDB. With --rows it also generates so many rows (`benchmarks/streams.py`), stores them, and asks
the same of DuckDB over the Parquet file, in a Python process of its own with 2 threads. --before names a checkout of
another version, which is then asked the same of the same stores. All processes take turns, so that a busy machine
disturbs all alike; medians count. What is generated in --kept stays there, and is used again. Writes a section of
docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.report import publish, table
from benchmarks.size import parquet_bytes, store_of
from benchmarks.streams import DAY, Generated

ROOT = Path(__file__).resolve().parent.parent
DEMO = Generated("demo", 400_000, 3, 5, heavy=1.0)
EPOCH = 3600
WANE = "import wane; wane.run()"  # what the command `wane` runs
BEFORE = "import sys, wane; getattr(wane, 'run', lambda: sys.exit(wane.main()))()"  # and in checkouts of before `run`
PEER = (
    "import sys, duckdb\n"
    "connection = duckdb.connect(config={'threads': 2})\n"
    "connection.execute(f\"CREATE VIEW events AS SELECT ts AS t, value AS v, weight AS w FROM '{sys.argv[1]}'\")\n"
    "print(connection.execute(sys.argv[2]).fetchall())"
)
BARE = "import numpy, duckdb"


@dataclass(frozen=True, slots=True)
class Asked:
    """A question as options of `wane query`, and the same in SQL."""

    name: str
    options: tuple[str, ...]
    sql: str


_FADED = f"pow(0.5, ((SELECT max(t) FROM events) - t) / {DAY}e0)"
QUESTIONS = (
    Asked(
        "decayed sum",
        ("--aggregate", "sum", "--decay", "exp:half_life=1d"),
        f"SELECT sum(w * {_FADED}) FROM events",
    ),
    Asked(
        "median of the last day",
        ("--aggregate", "median", "--decay", "window:1d"),
        f"SELECT quantile_disc(v, 0.5) FROM events WHERE t > (SELECT max(t) FROM events) - {DAY}",
    ),
    Asked(
        "ten most frequent values, decayed",
        ("--aggregate", "heavy-hitters", "--decay", "exp:half_life=1d"),
        f"SELECT v, sum({_FADED}) AS mass FROM events GROUP BY v ORDER BY mass DESC LIMIT 10",
    ),
)


@dataclass(frozen=True, slots=True)
class Command:
    """A Python process: its program, its arguments, and the checkout that it runs."""

    program: str
    arguments: tuple[str, ...] = ()
    folder: Path = ROOT

    def seconds(self) -> float:
        """From start to end; refuses a process that fails."""
        start = time.perf_counter()
        subprocess.run(
            [sys.executable, "-c", self.program, *self.arguments],
            cwd=self.folder,
            check=True,
            stdout=subprocess.DEVNULL,
        )
        return time.perf_counter() - start


def race(commands: Mapping[str, Command], runs: int) -> dict[str, float]:
    """The median seconds of each command; the first turn, which may compile and read from disk, does not count."""
    times: dict[str, list[float]] = {name: [] for name in commands}
    for turn in range(runs + 1):
        for name, command in commands.items():
            seconds = command.seconds()
            if turn:
                times[name].append(seconds)
    return {name: statistics.median(found) for name, found in times.items()}


def start_rows(store: Path, runs: int, before: Path | None) -> list[tuple[str, ...]]:
    """Help and a question to the small store, each beside what Python takes for nothing, or for importing."""
    ask = ("query", "--store", str(store), "--stream", "stream", *QUESTIONS[0].options)
    helps = {"wane --help": ("--help",), "wane query --help": ("query", "--help"), "wane query": ask}
    commands = {"python -c pass": Command("pass"), f'python -c "{BARE}"': Command(BARE)}
    for name, arguments in helps.items():
        commands[name] = Command(WANE, arguments)
        if before is not None:
            commands[f"{name}, before"] = Command(BEFORE, arguments, before)
    found = race(commands, runs)
    least = found["python -c pass"]
    rows = []
    for name in [name for name in found if not name.endswith(", before")]:
        old = found.get(f"{name}, before")
        rows.append(
            (f"`{name}`", f"{found[name]:.2f}", f"{found[name] - least:.2f}", "" if old is None else f"{old:.2f}")
        )
    return rows


def question_rows(stream: Generated, folder: Path, runs: int, before: Path | None) -> list[tuple[str, ...]]:
    """Each question, cold, to the store and to DuckDB over the Parquet file."""
    store, parquet = build(stream, folder)
    rows = []
    for asked in QUESTIONS:
        ask = ("query", "--store", str(store), "--stream", "stream", *asked.options)
        commands = {"wane": Command(WANE, ask), "peer": Command(PEER, (str(parquet), asked.sql))}
        if before is not None:
            commands["before"] = Command(BEFORE, ask, before)
        found = race(commands, runs)
        old = f"{found['before']:.2f}" if before is not None else ""
        ratio = f"{found['wane'] / found['peer']:.2f}"
        rows.append((f"{stream.rows:,}", asked.name, f"{found['wane']:.2f}", f"{found['peer']:.2f}", ratio, old))
    return rows


def build(stream: Generated, folder: Path) -> tuple[Path, Path]:
    """The store and the Parquet file of a generated stream, in a folder of its own; those that are there already."""
    folder /= str(stream.rows)
    store, raw, done = folder / "store.duckdb", folder / "raw.parquet", folder / "done"
    if not done.exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        parquet_bytes(stream, folder)
        names = [f"site-{number}" for number in range(stream.sources)]
        store_of(((batch, names) for batch in stream.batches()), EPOCH, store)
        done.touch()
    return store, raw


def report(runs: int, sizes: Sequence[int], before: Path | None, kept: Path | None) -> str:
    with tempfile.TemporaryDirectory() as name:
        folder = kept or Path(name)
        store, _ = build(DEMO, folder)
        header = ("process", "s", "more than Python alone, s", "before, s")
        about = (
            f"Medians of {runs} processes, from start to end. The store has {DEMO.rows:,} events of {DEMO.sources} "
            "sources. Asked: `wane --help` at most 0.15 s more than Python alone, `wane query` at most 0.8 s."
        )
        text = [about, table(header, start_rows(store, runs, before))]
        if sizes:
            streams = [Generated(f"{rows}", rows, 30, 229 if rows < 10_000_000 else 20, heavy=1.0) for rows in sizes]
            rows = [row for stream in streams for row in question_rows(stream, folder, runs, before)]
            header = ("events", "question", "wane query, s", "DuckDB over Parquet, s", "ratio", "before, s")
            about = (
                "The same events as one zstd Parquet file, asked by a Python process that imports DuckDB (2 threads). "
                "Asked: a ratio of at most 1.5 for 3 million events, 0.7 for 34 million."
            )
            text += [about, table(header, rows)]
    return "\n\n".join(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=9, help="processes of each kind (default 9)")
    parser.add_argument("--rows", type=int, nargs="*", default=[], help="sizes to compare with DuckDB over Parquet")
    parser.add_argument("--before", type=Path, help="a checkout of another version, to be measured beside this one")
    parser.add_argument("--kept", type=Path, metavar="DIR", help="where what is generated stays, for the next run")
    options = parser.parse_args()
    text = report(options.runs, options.rows, options.before, options.kept)
    rows = f" --rows {' '.join(map(str, options.rows))}" if options.rows else ""
    command = f"python -m benchmarks.start --runs {options.runs}{rows}"
    publish("benchmarks.md", "Start", command, text)


if __name__ == "__main__":
    main()
