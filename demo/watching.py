"""A fire alarm of gateways that keep quiet: each has a store of its own, and a centre hears of them by small files.

    python -m demo.watching try-fire

generates a day of readings of a sensor network, ingests what each gateway heard into a store of that gateway
(without Java), and plays the checks of `wane site` hour by hour. The folder then has a settings file for each gateway
and for the centre, so that `wane site status --config try-fire/centre/wane.toml --now T` can be asked again.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from demo import sensors
from demo.sensors import Readings
from ingest.driver.configuration.settings import read_settings
from ingest.driver.job import run as ingest
from ingest.driver.progress import Progress
from ingest.driver.run_options import RunOptions
from sketches.errors import WaneError
from sketches.formatting import moment_text
from sketches.units import SECOND
from store.monitoring.centre_sync import sync
from store.monitoring.site_check import check
from store.monitoring.standing import Standing

Say = Callable[[str], object]

HOUR: Final = 3600
NEW_YEAR: Final = 1_767_225_600  # 2026
HOT: Final = 280  # tenths of a degree
SHARE: Final = 0.03  # of the reports of an hour
SETTINGS: Final = """\
[streams.reports]                    # what one gateway heard
input     = "reports.parquet"
source    = "reporter"
id        = "reading_id"
time      = "at"
time_unit = "1ms"
value     = "CASE WHEN tenths >= {hot} THEN 'hot' ELSE 'usual' END"
epoch     = "1h"
families  = ["ecm"]

[monitor.fire]                       # the same at all gateways and at the centre
stream    = "reports"
function  = "share"
value     = "hot"
window    = "1h"
threshold = {share}
lease     = "8h"
sites     = {sites}
folder    = "../files"               # all share a folder here; elsewhere something copies the files
"""


def run(folder: Path, readings: int, seed: int, end: int, say: Say, hours: int = 23) -> list[tuple[int, str, float]]:
    """Generate, ingest, and play the last hours; of each the time, the centre's state, and the exact share."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise WaneError(f"{folder} exists already; remove it, or name another folder")
    data = sensors.generate(readings, gateways=6, days=1, seed=seed, end=end)
    gateways = np.unique(data.reporter).tolist()
    say(f"1. {len(data.at):,} reports of {readings:,} readings, at {len(gateways)} gateways with stores of their own …")
    text = SETTINGS.format(hot=HOT, share=SHARE, sites=json.dumps(gateways))
    for name in (*gateways, "centre"):
        (folder / name).mkdir(parents=True)
        (folder / name / "wane.toml").write_text(text, encoding="utf-8")
    for name in gateways:
        _write(folder / name / "reports.parquet", data, data.reporter == name)
        ingest(read_settings(folder / name / "wane.toml"), RunOptions(engine="local"), Progress(quiet=True))
    say("2. Every hour the gateways check, and the centre takes what they have sent:\n")
    return _play(folder, data, gateways, hours, say)


def _write(path: Path, data: Readings, rows: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> None:
    columns = [pa.array(getattr(data, field.name)[rows], field.type) for field in sensors.SCHEMA]
    pq.write_table(pa.table(columns, schema=sensors.SCHEMA), path)


def _play(folder: Path, data: Readings, gateways: list[str], hours: int, say: Say) -> list[tuple[int, str, float]]:
    settings = {name: read_settings(folder / name / "wane.toml") for name in (*gateways, "centre")}
    found: list[tuple[int, str, float]] = []
    standing: Standing | None = None
    for now in range(data.end // 1000 - hours * HOUR, data.end // 1000 + 1, HOUR):
        for _ in range(6):  # as often as files come and go within a minute
            for name in gateways:
                own = settings[name]
                check(own.monitors["fire"].rule, name, own.store, own.monitors["fire"].folder, now)
            centre = settings["centre"]
            monitor = centre.monitors["fire"]
            standing = sync(monitor.rule, centre.store, monitor.folder, now).standing
            if not standing.reason:
                break
        assert standing is not None
        inside = (data.at > (now - HOUR) * 1000) & (data.at <= now * 1000)
        share = float((data.tenths[inside] >= HOT).mean()) if inside.any() else 0.0
        if not found or found[-1][1] != standing.state:
            why = f": {standing.reason}" if standing.reason else ""
            say(f"   {moment_text(now, SECOND)}  {standing.state:8}  exactly {share:6.2%} hot{why}")
        found.append((now, standing.state, share))
    if standing is not None:
        say("\n" + "\n".join(standing.lines()))
    return found


if __name__ == "__main__":
    run(
        Path(sys.argv[1] if len(sys.argv) > 1 else "wane-fire"),
        20_000,
        1,
        NEW_YEAR,
        lambda it: sys.stdout.write(it + "\n"),
    )
