"""Rows, events and repeats of real data, each with its interval, against exact SQL.

    python -m benchmarks.repeats [--publish]

The last ten minutes of zeek_wrccdc in ../shared/data, which came in rows that repeat. Smaller samples than the default
are asked too: that keeps every row of so short a time, and its answers are exact.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

import duckdb
import numpy as np

from benchmarks.report import publish, table
from sketches import Events, Question, Sample
from sketches.estimate import Item

SETTINGS: Mapping[str, Mapping[str, float]] = {
    "defaults": {},
    "ε = 0.05, detail 1": {"epsilon": 0.05, "detail": 1},
    "ε = 0.1, detail 1": {"epsilon": 0.1, "detail": 1},
    "ε = 0.2, detail 1": {"epsilon": 0.2, "detail": 1},
}
ZEEK = Path(__file__).resolve().parents[2] / "shared" / "data" / "zeek_wrccdc.parquet"


def real_repeats() -> str:
    """Events, rows and repeats of the last ten minutes of zeek_wrccdc, with their intervals, against exact SQL."""
    raw = duckdb.read_parquet(str(ZEEK))
    ids, times, values, weights = (raw.select(name).fetchnumpy()[name] for name in ("id", "ts", "value", "weight"))
    sources, codes = np.unique(raw.select("source").fetchnumpy()["source"].astype(str), return_inverse=True)
    since = int(times.max()) - 600
    sql = "SELECT count(*), count(DISTINCT (id, ts, value, weight)) FROM raw WHERE ts > $since"
    rows_exactly, exactly = duckdb.execute(sql, {"since": since}).fetchall()[0]
    lines: list[tuple[str | float | int, ...]] = []
    for words, settings in SETTINGS.items():
        events = Events.of(ids, times, values, weights)
        sample = Sample.partial(events, codes.astype(np.int32), sources.tolist(), **settings)
        found = sample.askable_sample.answer(Question("count", "window:10m", counting="events"))
        assert found.seen is not None
        own = Item("events", found.value, found.lower, found.upper)
        for one, truth in (
            (own, exactly),
            (found.seen.rows, rows_exactly),
            (found.seen.repeated, 1.0 - exactly / rows_exactly),
        ):
            inside = "yes" if one.lower <= truth <= one.upper else "NO"
            limits = (f"{number:,.5g}" for number in (truth, one.estimate, one.lower, one.upper))
            lines.append((words, f"{sample.kept:,}", one.value, *limits, inside))
    return table(("sample", "kept", "of the last ten minutes", "exact", "estimate", "from", "to", "inside"), lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--publish", action="store_true")
    options = parser.parse_args()
    if not ZEEK.exists():
        raise SystemExit(f"{ZEEK.name} is not in ../shared/data: nothing can be asked")
    text = real_repeats()
    if options.publish:
        publish("benchmarks.md", "Rows that repeat", "python -m benchmarks.repeats --publish", text)
    else:
        print(text)


if __name__ == "__main__":
    main()
