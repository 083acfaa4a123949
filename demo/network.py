"""Gateways of a sensor network, each with a store of its own, and a centre to which they send small files.

    python -m demo.network [--folder wane-network] [--readings 150000]

Neither Java nor Spark is needed. Every gateway sketches the reports that it hears (`ingest.Builder`), and sends what
has changed: at noon of the last day, and at its end. One of the files is sent twice.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from demo import sensors
from demo.sensors import Readings
from ingest import Builder
from sketches import Question
from sketches.errors import WaneError
from sketches.formatting import size_text
from store import Store, export, merge

END: Final = 1_767_225_600
SETTINGS: Final = """\
store = "{name}.duckdb"

[streams.readings]                   # the source is the gateway that has heard the reading
input     = "none/*.parquet"         # there are no files: the gateway's process has the reports
source    = "reporter"
id        = "reading_id"
time      = "at"
time_unit = "1ms"
value     = "tenths"
epoch     = "6h"

[streams.readings.fields]
sensor    = "sensor"
"""

Say = Callable[[str], object]


def run(folder: Path, number: int, say: Say, *, posts: int = 12) -> Path:
    """Generate reports to so many gateways, sketch them there, merge, and ask. Returns the centre's store."""
    if folder.exists() and any(folder.iterdir()):
        raise WaneError(f"{folder} exists already; remove it, or name another --folder")
    data = sensors.generate(number, gateways=posts, seed=1, end=END)
    gateways = sorted(set(data.reporter.tolist()))
    say(f"1. {len(gateways)} gateways hear {number:,} readings {len(data.at):,} times, each in a store of its own …")
    noon = data.end - (data.end - data.begin) // 6
    for gateway in gateways:
        _hear(folder, gateway, data, (data.reporter == gateway) & (data.arrived < noon), "until noon")
    say("2. Each sends a file with all that it has; the centre merges the files …")
    centre, box = folder / "centre.duckdb", folder / "box"
    box.mkdir()
    first = {one: export(folder / one / f"{one}.duckdb", box / f"{one}-1.changes") for one in gateways}
    merge(centre, [str(one.path) for one in first.values()])
    say(f"   {size_text(sum(one.bytes for one in first.values()))} were sent.")
    _count(centre, data, data.arrived < noon, say)
    say("3. By the evening each sends what has changed since. One file is sent twice …")
    for gateway in gateways:
        _hear(folder, gateway, data, (data.reporter == gateway) & (data.arrived >= noon), "until the evening")
    last = [
        export(folder / one / f"{one}.duckdb", box / f"{one}-2.changes", since=sent.commit)
        for one, sent in first.items()
    ]
    for line in merge(centre, [str(one.path) for one in [*last, last[0]]]).lines():
        say(f"   {line}")
    say(f"   {size_text(sum(one.bytes for one in last))} were sent.")
    _count(centre, data, np.ones(len(data.at), np.bool_), say)
    return centre


def _hear(folder: Path, gateway: str, data: Readings, heard: NDArray[np.bool_], until: str) -> None:
    """What a gateway's process does with the reports that it hears: in small batches, and a commit."""
    place = folder / gateway
    place.mkdir(parents=True, exist_ok=True)
    (place / "wane.toml").write_text(SETTINGS.format(name=gateway), encoding="utf-8")
    builder = Builder(place / "wane.toml", "readings")
    rows = np.flatnonzero(heard)
    for part in np.array_split(rows, max(1, len(rows) // 100)):
        builder.add({name: getattr(data, name)[part].tolist() for name in sensors.SCHEMA.names})
    builder.commit(until)


def _count(centre: Path, data: Readings, among: NDArray[np.bool_], say: Say) -> None:
    store = Store(centre)
    found = store.ask("readings", Question("count", "none")).estimate
    exact = len(np.unique(data.reading_id[among]))
    say(
        f"   Readings, each counted once: {found.value:,.0f} ({found.lower:,.0f} to {found.upper:,.0f}), exactly "
        f"{exact:,}, in {int(among.sum()):,} reports."
    )
    median = store.ask("readings", Question("median", "window:6h")).estimate
    say(f"   Half of those of the last 6 hours are below {median.value / 10:.1f} °C.")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--folder", type=Path, default=Path("wane-network"))
    options.add_argument("--readings", type=int, default=150_000)
    chosen = options.parse_args()
    store = run(chosen.folder, chosen.readings, print)
    print(f"Ask more: wane query --store {store} --stream readings --aggregate count --decay window:1h")  # noqa: T201


if __name__ == "__main__":
    main()
