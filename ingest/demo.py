"""The demo: a generated day of calls, stored by region and hour, asked under several decays, beside exact answers."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from ingest.calls import REGIONS, Calls, generate
from sketches import Events, Question, Sample, parse_decay
from store import Part, Run, Store, Stream, commit

HOUR = 3600
DECAYS = ("none", "window:1h", "exp:half_life=30m", "poly:alpha=1.5,unit=10m")


def run(calls: int, seed: int, path: Path, say: Callable[[str], None]) -> None:
    """Generate, sketch, commit, ask; every step says what it does."""
    say(f"Generating a day of {calls:,} calls in {len(REGIONS)} regions, some records sent twice …")
    rows = generate(calls, seed)
    raw = sum(column.nbytes for column in (rows.call, rows.started, rows.duration, rows.loss))
    say(f"Sketching {len(rows.call):,} records by region and hour (value: duration, weight: packet loss) …")
    start = time.perf_counter()
    begun = datetime.now(UTC).replace(tzinfo=None)
    parts = _parts(rows)
    run = Run(Stream("calls", HOUR), parts, begun, datetime.now(UTC).replace(tzinfo=None), rows=len(rows.call))
    commit(path, run)
    size = sum(sketch.nbytes for part in parts for sketch in part.sketches)
    took = time.perf_counter() - start
    say(
        f"  {took:.1f} s; {raw / 1e6:.1f} MB of events became {len(parts)} sketches of {size / 1e6:.2f} MB in {path}.\n"
    )
    _ask(rows, Store(path), say)


def _parts(rows: Calls) -> list[Part]:
    hours = rows.started // HOUR
    parts = []
    for region in REGIONS:
        here = np.flatnonzero(rows.region == region)
        order = here[np.argsort(hours[here], kind="stable")]
        for group in np.split(order, np.flatnonzero(np.diff(hours[order])) + 1):
            if len(group) == 0:
                continue
            events = Events.of(rows.call[group], rows.started[group], rows.duration[group], rows.loss[group])
            first = np.unique(rows.call[group], return_index=True)[1]
            parts.append(
                Part(
                    source=region,
                    start=int(hours[group[0]]) * HOUR,
                    length=HOUR,
                    events=len(first),
                    weight=float(rows.loss[group][first].sum()),
                    oldest=int(rows.started[group].min()),
                    newest=int(rows.started[group].max()),
                    sketches=[Sample.build(events)],
                )
            )
    return parts


def _ask(rows: Calls, store: Store, say: Callable[[str], None]) -> None:
    first = np.unique(rows.call, return_index=True)[1]
    age = rows.started.max() - rows.started[first]
    duration, loss = rows.duration[first], rows.loss[first]
    long = duration >= 600
    say("The same sketches under different decays, with 95% intervals, and the exact answer for comparison:\n")
    say(f"  {'decay':24} {'question':42} {'estimate':>12} {'lower':>12} {'upper':>12} {'exact':>12}")
    for spec in DECAYS:
        fading = parse_decay(spec)(age)
        asked = (
            ("calls", Question("count", spec), float(fading.sum())),
            ("average loss (per ten thousand)", Question("mean", spec), float(loss @ fading / fading.sum())),
            (
                "average loss of calls of 10 min or more",
                Question("correlated-mean", spec, tau=600),
                float(loss[long] @ fading[long] / fading[long].sum()) if fading[long].sum() else float("nan"),
            ),
        )
        for name, question, exact in asked:
            found = store.ask("calls", question).estimate
            numbers = (found.value, found.lower, found.upper, exact)
            say(f"  {spec:24} {name:42} " + " ".join(f"{number:12,.2f}" for number in numbers))
    incident = int(rows.started.min()) // 86_400 * 86_400 + int(0.86 * 86_400)
    say("\nAverage loss with a half-life of 10 minutes, by region, as of the end of the evening's incident:\n")
    for region in REGIONS:
        found = store.ask("calls", Question("mean", "exp:half_life=10m", as_of=incident), sources=[region]).estimate
        bounds = "exactly" if found.exact else f"between {found.lower:,.2f} and {found.upper:,.2f}"
        say(f"  {region:24} {found.value:12,.2f}   {bounds}")
