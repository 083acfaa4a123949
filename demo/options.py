"""The options of `wane demo`."""

from __future__ import annotations

import argparse

from dashboard import PORT

DEMO = (
    "demo",
    "generate calls and sensor readings, ingest them, ask, and open the dashboard",
    "wane demo --folder try",
)


def add_demo_options(demo: argparse.ArgumentParser) -> None:
    add = demo.add_argument
    add("--folder", default="wane-demo", metavar="DIR", help="a new folder for data and store (default wane-demo)")
    add("--calls", type=_positive, default=400_000, help="number of calls (default 400000)")
    add("--seed", type=int, default=1, help="seed of the generated data (default 1)")
    add("--end", metavar="T", help="when the data ends, like 2026-01-31T12:00 (default: now)")
    add("--master", metavar="URL", help="Spark master (default local[*])")
    add("--engine", choices=("spark", "local"), default="spark", help="what ingests: Spark, or local, without Java")
    add("--no-dashboard", action="store_true", help="do not open the dashboard at the end")
    add("--port", type=int, default=PORT, metavar="N", help=f"the dashboard's port (default {PORT})")


def _positive(text: str) -> int:
    number = int(text)
    if not 1 <= number <= 50_000_000:
        raise argparse.ArgumentTypeError(f"{text} is not between 1 and 50,000,000")
    return number
