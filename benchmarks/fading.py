"""A year of hourly epochs that fade: bytes by month and widths by age, beside a store where they stay as they are.

    python -m benchmarks.fading [--hours 8760] [--events 1000] [--each 24] [--families ...] [--publish]

One source with a daily rhythm; runs of `--each` hours, real commits to a real store with `detail = 16`. The other store
takes all epochs in one run, with `detail = "all"`. Widths are of answers about the stretch of a day and of a
week that ended so long ago, over the exact answer; "as of now" the windows end with the newest event. Every interval is
compared with the exact answer, and those are counted that do not hold it.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import duckdb
import numpy as np

from benchmarks.report import publish, table
from sketches import Events, Question
from sketches.decay import parse_decay
from sketches.registry import FAMILIES
from store import EpochSketches, Run, SketchTables, Store, Stream, commit

HOUR: Final = 3_600
MONTH: Final = 730  # hours
BEGIN: Final = datetime(2026, 1, 1)  # noqa: DTZ001 - DuckDB's TIMESTAMP has no zone
DECAY: Final = "exp:half_life=7d"
BUILT: Final[dict[str, dict[str, Any]]] = {
    "histogram": {"epsilon": 0.05, "span": HOUR},
    "qdigest": {"epsilon": 0.1, "span": HOUR},
    "exponential": {"epsilon": 0.05, "decay": DECAY},
    "ecm": {"epsilon": 0.1, "delta": 0.1},
}
BETWEEN: Final = 5 * HOUR + 1_020  # windows end and begin between hours: nothing there is exact by luck
WINDOWS: Final = ("window:1450m", "window:10030m")  # about a day and a week
AGES: Final = {"as of now": 0, "a day ago": 1, "a week ago": 7, "30 days ago": 30, "180 days ago": 180, "300 days": 300}
ASKED: Final = (
    ("histogram", {"aggregate": "count"}),
    ("qdigest", {"aggregate": "count"}),
    ("qdigest", {"aggregate": "selectivity", "tau": 100}),
    ("ecm", {"aggregate": "count"}),
    ("ecm", {"aggregate": "frequency", "value": 20}),
)


@dataclass(frozen=True)
class Year:
    """Events by hour: more by day than by night, lognormal values."""

    events: int
    hours: int

    def hour(self, number: int) -> tuple[Any, Any]:
        """The times and values of an hour."""
        rng = np.random.default_rng([7, number])
        many = rng.poisson(self.events * (1.0 + 0.6 * np.sin(2.0 * np.pi * number / 24)))
        times = number * HOUR + np.sort(rng.integers(0, HOUR, many))
        return times, np.ceil(np.exp(3.0 + 1.2 * rng.standard_normal(many))).astype(np.int64)

    def columns(self) -> tuple[Any, Any]:
        parts = [self.hour(number) for number in range(self.hours)]
        return np.concatenate([one for one, _ in parts]), np.concatenate([one for _, one in parts])

    def epochs(self, begin: int, end: int, families: Sequence[str]) -> Iterator[EpochSketches]:
        for number in range(begin, min(end, self.hours)):
            times, values = self.hour(number)
            events = Events.of(np.arange(len(times)) + (number << 32), times, values)
            sketches = [FAMILIES[name].build(events, **BUILT[name]) for name in families]
            ends = int(times[0]), int(times[-1])
            yield EpochSketches("north", number * HOUR, HOUR, len(times), float(len(times)), *ends, sketches)


def filled(path: Path, year: Year, each: int, families: Sequence[str], detail: object) -> Iterator[int]:
    """Commits runs of so many hours; after each of them the hours so far."""
    stream = Stream("calls", HOUR, settings={"detail": detail, "unique": True})
    for begin in range(0, year.hours, each):
        commit(path, Run(stream, SketchTables.of(list(year.epochs(begin, begin + each, families))), BEGIN, BEGIN))
        yield min(begin + each, year.hours)


def sizes(path: Path) -> dict[str, tuple[int, int]]:
    with duckdb.connect(str(path), read_only=True) as connection:
        rows = connection.execute(
            "SELECT family, count(*), sum(bytes)::BIGINT FROM sketches GROUP BY family"
        ).fetchall()
    return {family: (number, size) for family, number, size in rows}


def grown(kept: dict[int, dict[str, tuple[int, int]]], whole: dict[str, tuple[int, int]]) -> str:
    """Sketches and bytes by month, and what they would be."""
    rows = []
    for name, (number, size) in whole.items():
        months = [kept[month][name] for month in kept]
        cells = [f"{count:,} / {held / 1e3:,.0f} kB" for count, held in months]
        ratio = f"{months[-1][1] / months[0][1]:.2f}"
        rows.append((name, *cells, ratio, f"{number:,} / {size / 1e3:,.0f} kB"))
    head = ("family", *(f"{month} months" for month in kept), "last over first", "without fading, at the end")
    return table(head, rows)


def widths(stores: Sequence[Store], year: Year) -> tuple[str, int, int]:
    """How wide answers are by age, with and without fading; how many were asked, and how many did not hold."""
    times, values = year.columns()
    newest, rows, asked, missed = int(times[-1]), [], 0, 0
    for family, question in ASKED:
        if family not in stores[0].catalogue().stream("calls").sketches:
            continue
        for decay in WINDOWS:
            for which, store in zip(("faded", "not faded"), stores, strict=True):
                cells = []
                for days in AGES.values():
                    as_of = newest - days * 24 * HOUR - (BETWEEN if days else 0)
                    if as_of < 8 * 24 * HOUR:
                        cells.append("")
                        continue
                    weight = parse_decay(decay)((as_of - times[times <= as_of]).astype(float))
                    chosen = values[times <= as_of]
                    exact = float(weight.sum())
                    if "tau" in question:
                        exact = float(weight[chosen >= question["tau"]].sum()) / exact
                    elif "value" in question:
                        exact = float(weight[chosen == question["value"]].sum()) / exact
                    found = store.ask("calls", Question(decay=decay, as_of=as_of, **question), family=family).estimate
                    asked += 1
                    missed += not found.lower * (1 - 1e-9) <= exact <= found.upper * (1 + 1e-9)
                    wide = (found.upper - found.lower) / (exact if question["aggregate"] == "count" else 1.0)
                    cells.append(f"{100 * wide:.2g}")
                rows.append((family, question["aggregate"], decay, which, *cells))
    return table(("family", "answer", "decay", "store", *AGES), rows), asked, missed


def ended(stores: Sequence[Store], year: Year) -> str:
    """At how many of 200 times of the year `exponential` has an answer, being asked for the end of what it keeps."""
    moments = np.linspace(24 * HOUR, year.hours * HOUR - 1, 200).astype(np.int64)
    charts = [store.series("calls", Question("count", DECAY), moments, family="exponential")[0] for store in stores]
    shares = [len(np.unique(chart.as_of)) for chart in charts]
    return f"A chart of `exponential` over the whole year has {shares[0]} points of 200, {shares[1]} without fading."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hours", type=int, default=8_760)
    parser.add_argument("--events", type=int, default=1_000, help="an hour")
    parser.add_argument("--each", type=int, default=24, help="hours that a run brings")
    parser.add_argument("--families", nargs="+", default=list(BUILT), choices=list(BUILT))
    parser.add_argument("--publish", action="store_true")
    options = parser.parse_args()
    year, families = Year(options.events, options.hours), options.families
    marks = [month for month in (1, 2, 3, 6, 12) if month * MONTH <= options.hours]
    kept: dict[int, dict[str, tuple[int, int]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        path, other = Path(folder, "faded.duckdb"), Path(folder, "whole.duckdb")
        for hours in filled(path, year, options.each, families, 16):
            if len(kept) < len(marks) and hours >= marks[len(kept)] * MONTH:
                kept[marks[len(kept)]] = sizes(path)
                print(hours, sizes(path), flush=True)
        list(filled(other, year, options.hours, families, "all"))
        stores = Store(path), Store(other)
        shown, asked, missed = widths(stores, year)
        text = (
            f"{options.events:,} events an hour of one source, runs of {options.each} hours, `detail = 16`; ε is 0.05 "
            "for `histogram` and `exponential`, 0.1 for `qdigest` and `ecm`.\n\n"
            f"{grown(kept, sizes(other))}\n\n"
            "Widths of intervals in %: of a count over the count itself, of a share as it is. The windows end at the "
            f"time that the column names. {missed} of {asked} intervals did not hold the exact answer.\n\n{shown}\n"
        )
        if "exponential" in families:
            text += f"\n{ended(stores, year)}\n"
    if options.publish:
        command = (
            f"python -m benchmarks.fading --hours {options.hours} --events {options.events} --each {options.each} "
        )
        publish("benchmarks.md", "A year that fades", f"{command}--publish", text)
    else:
        print(text)


if __name__ == "__main__":
    main()
