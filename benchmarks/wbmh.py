"""Rare tails with a relative error: `wbmh` counted against exact answers, beside `sample` and the KLL of datasketches.

python -m benchmarks.wbmh [--events 1000000] [--only promised|beside|blocks|speed] [--publish]

Real data (../shared/data) where they are at hand, generated events elsewhere; a table says which.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import datasketches
import numpy as np
import pyarrow.parquet as pq

from benchmarks.report import publish, table
from sketches import Events, Question, Sample
from sketches.blocks.grid import Grid
from sketches.blocks.reach import regions
from sketches.decay import parse_decay
from sketches.digests.wbmh import Wbmh
from sketches.units import SECOND
from tests.support.paths import DATA

DAY: Final = 86_400
NOW: Final = 1_700_000_000
EPSILON: Final = 0.1
HISTORY: Final = "3650d"
TAILS: Final = (0.05, 0.5, 0.95, 0.99, 0.999, 0.9999)
DECAYS: Final = (
    "poly:alpha=0.5,unit=1m",
    "poly:alpha=1,unit=1m",
    "poly:alpha=1.5,unit=1h",
    "poly:alpha=3,unit=1h",
    "log:unit=1m",
    "expr:0.7/(1+age/60)+0.3/(1+age/86400)^0.5",
)
FADING: Final = DECAYS[1]


class Rows:
    """Times, values and weights, in the order of time, and the order in which they arrive where a fifth is late."""

    def __init__(self, times: Any, values: Any, weights: Any) -> None:
        order = np.argsort(times, kind="stable")
        self.t, self.v, self.w = (np.asarray(column)[order] for column in (times, values, weights))
        rng = np.random.default_rng(2)
        length = int(self.t[-1] - self.t[0])
        late = np.where(rng.random(len(self.t)) < 0.2, rng.integers(0, max(length // 6, 1), len(self.t)), 0)
        self.late = np.argsort(self.t + late, kind="stable")

    def events(self, which: Any = slice(None)) -> Events:
        return Events.of(np.arange(len(self.t))[which], self.t[which], self.v[which], self.w[which])

    def commits(self, way: str) -> Iterator[Any]:
        """Which rows each commit brings."""
        if way == "one batch":
            yield np.arange(len(self.t))
        elif way == "100 parts, a fifth late":
            yield from np.array_split(self.late, 100)
        else:
            edges = np.searchsorted(self.t, np.linspace(self.t[0], self.t[-1], 2_401)[1:-1])
            yield from np.split(np.arange(len(self.t)), edges)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=1_000_000, help="of generated streams (default 1,000,000)")
    parser.add_argument("--only", choices=("promised", "beside", "blocks", "speed"), help="one of the tables")
    parser.add_argument("--publish", action="store_true", help="write the tables to docs/benchmarks.md")
    options = parser.parse_args()
    parts: dict[str, Callable[[], str]] = {
        "promised": lambda: promised(dict(streams(options.events // 5))),
        "beside": lambda: beside(dict(streams(options.events))),
        "blocks": blocks,
        "speed": lambda: speed(options.events),
    }
    made = [make() for name, make in parts.items() if options.only in (None, name)]
    if options.publish and options.only is None:
        command = f"python -m benchmarks.wbmh --events {options.events} --publish"
        publish("benchmarks.md", "Rare tails", command, "\n\n".join(made))
    else:
        print("\n\n".join(made))


def streams(rows: int) -> Iterator[tuple[str, Rows]]:
    rng = np.random.default_rng(1)
    times = NOW - np.sort(rng.integers(0, 30 * DAY, rows))
    values, weights = np.exp(rng.normal(3.0, 1.5, rows)), rng.integers(1, 50, rows)
    yield "heavy tail", Rows(times, values, weights)
    incident = np.abs(times - (NOW - 21 * DAY)) < 1800
    yield "incident 3 weeks ago", Rows(times, np.where(incident, 1000.0 + values, np.minimum(values, 900.0)), weights)
    for name in ("bikeshare14", "azure_vm_noise"):
        path = DATA / f"{name}.parquet"
        if path.exists():
            columns = pq.read_table(path, columns=["ts", "value", "weight"])
            step = max(1, len(columns) // rows)
            yield name, Rows(*(columns[one].to_numpy()[::step] for one in ("ts", "value", "weight")))


def built(rows: Rows, decay: str, way: str = "one batch", epsilon: float = EPSILON) -> Wbmh:
    found: Wbmh | None = None
    for which in rows.commits(way):
        new = Wbmh.build(rows.events(which), decay=decay, epsilon=epsilon, span=3600, history=HISTORY)
        found = new if found is None else found.merge(new)
    assert found is not None
    return found


def promised(held: dict[str, Rows]) -> str:
    """Theorem 3.3, counted: how wide the widest interval is, of the exact answer, and how often it is outside."""
    found = []
    for name, rows in held.items():
        for decay in DECAYS if name == "heavy tail" else DECAYS[1:4:2]:
            often = ("2,400 commits",) if decay == FADING and name == "heavy tail" else ()
            for way in ("one batch", "100 parts, a fifth late", *often):
                sketch = built(rows, decay, way)
                widths, off, outside = judged(rows, sketch, decay)
                shown = f"{100 * max(widths):.1f}%", f"{100 * max(off):.1f}%", f"{outside} of {len(widths)}"
                found.append((name, decay, way, *shown, sketch.blocks, f"{sketch.nbytes / 1e3:,.0f}"))
    header = ("stream", "decay", "commits", "widest interval", "largest error", "outside", "blocks", "kB")
    said = f"Sums and counts over v ≥ τ at six quantiles τ from 5% to 99.99%, ε = {EPSILON}, of a fifth of the events"
    said += f" ({len(held['heavy tail'].t):,} of the generated streams)."
    return f"{said}\n\n" + table(header, found)


def judged(rows: Rows, sketch: Wbmh, decay: str) -> tuple[list[float], list[float], int]:
    faded = parse_decay(decay)((rows.t[-1] - rows.t).astype(float))
    widths, off, outside = [0.0], [0.0], 0
    for share in TAILS:
        tau = float(np.quantile(rows.v, share))
        curve = {one: sketch.masses.threshold_curve(Question(one, decay), [tau]) for one in ("sum", "count")}
        for one, masses in (("sum", rows.w * faded), ("count", faded)):
            exact = float(masses[rows.v >= tau].sum())
            lower, upper, value = (float(getattr(curve[one], end)[0]) for end in ("lower", "upper", "value"))
            if exact == 0.0:
                continue
            outside += not lower <= exact * (1 + 1e-9) or not exact <= upper * (1 + 1e-9)
            widths.append((upper - lower) / exact)
            off.append(abs(value - exact) / exact)
    return widths[1:], off[1:], outside


def beside(held: dict[str, Rows]) -> str:
    """Half-widths of both, `sample` made as large as `wbmh` or larger."""
    found = []
    for name, rows in held.items():
        for decay in (DECAYS[0], FADING, DECAYS[3]) if name == "heavy tail" else (FADING,):
            ours = built(rows, decay)
            epsilon, theirs = 0.2, Sample.build(rows.events(), epsilon=0.2, detail=16)
            while theirs.nbytes < ours.nbytes and epsilon > 0.005:
                epsilon *= 0.8
                theirs = Sample.build(rows.events(), epsilon=epsilon, detail=16)
            for family, sketch in (("wbmh", ours), ("sample", theirs)):
                row: list[str] = []
                for share in TAILS:
                    tau = float(np.quantile(rows.v, share))
                    answer = sketch.answer(Question("correlated-sum", decay, tau=tau))
                    row.append(f"{50 * (answer.upper - answer.lower) / answer.value:.1f}" if answer.value else "none")
                found.append((name, decay, family, f"{sketch.nbytes / 1e3:,.0f}", *row))
    header = ("stream", "decay", "family", "kB", *(f"{100 * share:g}%" for share in TAILS))
    return "Half-widths in % of the answer, of the sum over v ≥ τ at a quantile τ.\n\n" + table(header, found)


def blocks() -> str:
    """How many blocks there are after so many days of hourly commits, beside twice the number of regions."""
    found = []
    for decay in DECAYS[:5]:
        grid = Grid(parse_decay(decay), SECOND, 3600, float(np.sqrt(1 + EPSILON)) - 1, 3650.0 * DAY)
        row: list[object] = [decay]
        for days in (1, 10, 100, 1000):
            count, at = 0, NOW
            while at > NOW - days * DAY:
                at, count = int(grid.holding(np.array([at], np.int64), NOW).first[0]) - 1, count + 1
            row.append(f"{count} of {2 * (int(regions(grid.decay, grid.error, days * DAY)) + 1)}")
        found.append(row)
    header = ("decay", *(f"{days:,} days" for days in (1, 10, 100, 1000)))
    return f"Blocks, of twice the number of regions, ε = {EPSILON}.\n\n" + table(header, found)


def speed(events: int) -> str:
    """CPU seconds of one core for the same values, in one run; answers of a loaded sketch."""
    rows = dict(streams(events))["heavy tail"]
    batch = rows.events()

    def kll() -> None:
        sketch = datasketches.kll_doubles_sketch(200)
        sketch.update(rows.v)

    ours, theirs = built(rows, FADING), Sample.build(batch, epsilon=0.05)
    question = Question("correlated-sum", FADING, tau=float(np.quantile(rows.v, 0.99)))
    made = {
        "wbmh": lambda: Wbmh.build(batch, decay=FADING, epsilon=EPSILON, span=3600),
        "sample": lambda: Sample.build(batch, epsilon=0.05),
        "KLL of datasketches": kll,
    }
    rates = {name: events / seconds(make) / 1e6 for name, make in made.items()}
    answers = {
        name: 1e3 * seconds(lambda one=one: one.answer(question)) for name, one in (("wbmh", ours), ("sample", theirs))
    }  # type: ignore[misc]
    found = [
        (
            name,
            f"{rate:.1f}",
            f"{rate / rates['KLL of datasketches']:.2f}",
            f"{answers.get(name, 0):.1f}" if name in answers else "",
        )
        for name, rate in rates.items()
    ]
    return table(("family", "million events a second", "of KLL's rate", "ms an answer"), found)


def seconds(make: Callable[[], object], repeats: int = 5) -> float:
    """The least CPU time of some runs, after one that compiles and caches."""
    make()
    found = []
    for _ in range(repeats):
        start = time.process_time()
        make()
        found.append(time.process_time() - start)
    return min(found)


if __name__ == "__main__":
    main()
