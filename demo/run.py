"""The demo: three generated days of calls, sensor readings and web requests, ingested, then asked."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from demo import calls, sensors, visits
from demo.calls import Calls
from ingest.driver.configuration.settings import read_settings
from ingest.driver.engine_choice import shared_session
from ingest.driver.job import run as ingest
from ingest.driver.progress import Progress
from ingest.driver.run_options import RunOptions
from sketches import Question, parse_decay
from sketches.errors import WaneError
from store import Store

FILES: Final = 12
DECAYS: Final = ("none", "window:6h", "exp:half_life=2h", "poly:alpha=1.5,unit=10m")
SETTINGS: Final = """\
# How raw files become events; see the README. `wane ingest --config wane.toml` takes what is new.
store = "wane.duckdb"

[streams.calls]                      # one row a call, some of them sent twice
input       = "calls/*.parquet"
source      = "region"
id          = "call_id"
time        = "started_at"
value       = "duration_s"
weight      = "loss"                 # 0 for a call that lost nothing
epoch       = "6h"
epsilon     = 0.1                    # coarse, so that there are error bands to look at
value_unit  = "s"                    # what the dashboard writes beside values
weight_unit = "lost packets per 10,000"

[streams.calls.fields]               # further columns, to sum, filter and split by
region      = "region"
device      = "device"
codec       = "codec"
error_code  = "error_code"           # 0 for a call that ended well

[streams.sensors]                    # one row a report: several gateways hear the same reading
input      = "sensors/*.parquet"
source     = "reporter"
id         = "reading_id"
time       = "at"
time_unit  = "1ms"
value      = "tenths"
epoch      = "1h"
value_unit = "0.1 °C"

[streams.visits]                     # one row a request for a page: the value is a text, so it is a key
input      = "visits/*.parquet"
source     = "site"
id         = "request_id"
time       = "at"
value      = "page"
epoch      = "6h"
epsilon    = 0.1
unique     = true                    # no request has two rows, so families that count rows may answer, too
families   = ["sample", "histogram", "ecm"]

[streams.visits.fields]
method     = "method"
status     = "status"
latency_ms = "latency_ms"

[streams.visits.ecm]
epsilon    = 0.05

[streams.latency]                    # the same files once more: how long the answers took
input      = "visits/*.parquet"
source     = "site"
id         = "request_id"
time       = "at"
value      = "latency_ms"
epoch      = "6h"
epsilon    = 0.1
unique     = true
families   = ["sample", "qdigest", "histogram", "exponential", "wbmh"]
value_unit = "ms"

[streams.latency.exponential]        # for one half-life that is known beforehand
decay      = "exp:half_life=1h"
epsilon    = 0.02

[streams.latency.wbmh]               # for the slowest answers, which are rare
decay      = "poly:alpha=1,unit=1m"
"""

Say = Callable[[str], None]


def run(folder: Path, number: int, seed: int, end: int, options: RunOptions, say: Say) -> Path:
    """Generate files, ingest twice as they arrive, and ask. Every step says what it does. Returns the store's path."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise WaneError(f"{folder} exists already; remove it, or give the demo another --folder")
    begun = time.perf_counter()
    say(f"1. Generating three days of {number:,} calls, of sensors and of a website, as files in {folder} …")
    data = calls.generate(number, seed=seed, end=end)
    readings = sensors.generate(max(1000, number * 3 // 8), seed=seed, end=end)
    requests = visits.generate(max(1000, number // 2), seed=seed, end=end)
    arriving = {
        "calls": calls.files(data, FILES),
        "sensors": sensors.files(readings, FILES),
        "visits": visits.files(requests, FILES),
    }
    _write(folder, arriving, slice(None, -1))
    (folder / "wane.toml").write_text(SETTINGS, encoding="utf-8")
    settings = read_settings(folder / "wane.toml")
    local = options.engine == "local"
    say("2. No Spark is started: this process reads …" if local else "2. Starting Spark, which takes some seconds …")
    with shared_session(options, reads_rows=False) as session:
        say("3. Ingesting: reading, checking and sampling the files, all sources together, and one commit …")
        _tell(ingest(settings, options, Progress(quiet=True), session).lines(), say)
        say("4. More files arrive, with late and repeated records. The next run takes only these …")
        _write(folder, arriving, slice(-1, None))
        _tell(ingest(settings, options, Progress(quiet=True), session).lines(), say)
    raw = sum(file.stat().st_size for file in folder.rglob("*.parquet"))
    say(f"   {raw / 1e6:.1f} MB of Parquet files became a store of {settings.store.stat().st_size / 1e6:.1f} MB.\n")
    say("5. The same sketches under different decays, with 95% intervals, and the exact answer for comparison:\n")
    _ask(data, Store(settings.store), say)
    say(f"\nDone in {time.perf_counter() - begun:.0f} s.")
    return settings.store


def _write(folder: Path, arriving: dict[str, list[tuple[str, pa.Table]]], which: slice) -> None:
    for stream, files in arriving.items():
        (folder / stream).mkdir(parents=True, exist_ok=True)
        for name, table in files[which]:
            pq.write_table(table, folder / stream / name, compression="zstd")


def _tell(lines: Iterable[str], say: Say) -> None:
    for line in lines:
        say(f"   {line}")


def _ask(data: Calls, store: Store, say: Say) -> None:
    first = np.unique(data.call_id, return_index=True)[1]
    first = first[data.fault[first] == ""]
    age = data.started_at[first].max() - data.started_at[first]
    duration, loss = data.duration_s[first], data.loss[first]
    long = duration >= 600
    say(f"   {'decay':24} {'question':40} {'estimate':>12} {'lower':>12} {'upper':>12} {'exact':>12}")
    for spec in DECAYS:
        fading = parse_decay(spec)(age)
        asked = (
            ("calls", Question("count", spec), fading.sum()),
            ("average loss (per ten thousand)", Question("mean", spec), loss @ fading / fading.sum()),
            (
                "average loss of calls of 10 min or more",
                Question("correlated-mean", spec, tau=600),
                loss[long] @ fading[long] / fading[long].sum(),
            ),
        )
        for name, question, exact in asked:
            found = store.ask("calls", question).estimate
            numbers = (found.value, found.lower, found.upper, float(exact))
            say(f"   {spec:24} {name:40} " + " ".join(f"{number:12,.2f}" for number in numbers))
    incident = max(data.incidents, key=lambda one: one.end)
    say(f"\n   Average loss with a half-life of 10 minutes as of the end of an incident in {incident.region}:\n")
    for region in calls.REGIONS:
        question = Question("mean", "exp:half_life=10m", as_of=int(incident.end))
        found = store.ask("calls", question, sources=[region]).estimate
        bounds = "exactly" if found.exact else f"between {found.lower:,.2f} and {found.upper:,.2f}"
        say(f"   {region:24} {found.value:12,.2f}   {bounds}")
    reports = store.ask("sensors", Question("count", "none"))
    say(
        f"\n   Sensor readings, each reported by several gateways and counted once: {reports.estimate.value:,.0f} "
        f"({reports.estimate.lower:,.0f} to {reports.estimate.upper:,.0f})"
    )
    say("\n   The pages most asked for lately (half-life 2 hours), and the share of each:\n")
    pages = store.ask("visits", Question("heavy-hitters", "exp:half_life=2h", top=3)).estimate
    for item in pages.items:
        say(f"   {item.value:60} {item.estimate:7.2%}   between {item.lower:.2%} and {item.upper:.2%}")
