"""Sites that are processes with stores of their own, and files that are lost, late, repeated and out of order.

Run by `python -m benchmarks.monitoring --processes 16`. Each site is told the time by a line on its standard input: it
commits its rows of the last minute, runs `wane site check` and answers with what its counters hold.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import numpy as np

import wane
from benchmarks.report import table
from ingest.driver.configuration.settings import read_settings
from sketches import Ecm, Events
from store import EpochSketches, Run, SketchTables, Stream, commit
from store.monitoring.centre_sync import sync
from store.monitoring.messages import SUFFIX
from store.monitoring.rule import Rule
from store.monitoring.site_check import TO_CENTRE, TO_SITES, readings_of_store
from store.monitoring.standing import standing_of, standings
from store.monitoring.state_files import read_state, state_folder
from tests.support.mover import Mover

ROOT: Final = Path(__file__).resolve().parent.parent
TICKS: Final = 26
STEP: Final = 60  # seconds
WINDOW: Final = 10  # ticks
LEASE: Final = 6  # ticks
SETTLING: Final = 8  # ticks at the end at which nothing is lost
ROWS: Final = 60  # of a site and tick
THRESHOLD: Final = 1.6e7
SETTINGS: Final = """
[streams.visits]
input = "visits/*.parquet"
id = "i"
time = "t"
value = "page"
families = ["ecm"]
epsilon = 0.1
delta = 0.1

[monitor.crowded]
stream = "visits"
window = "{window}m"
threshold = {threshold}
lease = "{lease}m"
sites = {sites}
"""


def experiment(processes: int) -> tuple[str, bool]:
    with tempfile.TemporaryDirectory() as folder:
        return _played(Path(folder), [f"s{at:02}" for at in range(processes)])


def keys_of(site: int, tick: int) -> np.ndarray[Any, Any]:
    """The keys of a site in a minute: Zipf's, and from the eighth to the fifteenth minute half of them are one."""
    rng = np.random.default_rng([site, tick])
    keys = np.minimum(rng.zipf(1.3, ROWS), 5000)
    hot = 8 <= tick < 16
    return np.where((rng.random(ROWS) < 0.5) & hot, 1, keys).astype(str)


def truth_at(processes: int, tick: int) -> float:
    """The exact self-join size of the last minutes at all sites."""
    first = max(tick - WINDOW + 1, 0)
    keys = np.concatenate([keys_of(site, at) for site in range(processes) for at in range(first, tick + 1)])
    return float((np.unique(keys, return_counts=True)[1].astype(np.float64) ** 2).sum())


def _played(root: Path, sites: list[str]) -> tuple[str, bool]:
    text = SETTINGS.format(window=WINDOW, threshold=THRESHOLD, lease=LEASE, sites=json.dumps(sites))
    for name in (*sites, "centre"):
        (root / name).mkdir()
        (root / name / "wane.toml").write_text(text)
    command = [sys.executable, "-m", "benchmarks.monitoring_processes"]
    piped: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "cwd": ROOT}
    running = [
        subprocess.Popen(
            [*command, str(root / site), site, str(at)], env=os.environ | {"NUMBA_NUM_THREADS": "1"}, **piped
        )
        for at, site in enumerate(sites)
    ]
    settings = read_settings(root / "centre" / "wane.toml")
    monitor = settings.monitors["crowded"]
    mover, held, seen, wrong = Mover(np.random.default_rng(7), 0.3, 0.2, 4), {}, Counter[str](), []
    right, last = 0, ""
    try:
        for tick in range(TICKS + SETTLING):
            now, whole = (tick + 1) * STEP - 1, tick >= TICKS
            if whole:
                mover.lost, mover.latest = 0.0, 0
            for site in sites:
                mover.move(monitor.folder / TO_SITES, root / site / "monitor" / TO_SITES, tick, again=whole, of=site)
            mover.deliver(tick)
            for one in running:
                assert one.stdin is not None
                one.stdin.write(f"{min(tick, TICKS - 1)} {now}\n")
                one.stdin.flush()
            for site, one in zip(sites, running, strict=True):
                assert one.stdout is not None
                held[site, now] = np.array(json.loads(one.stdout.readline()))
                mover.move(root / site / "monitor" / TO_CENTRE, monitor.folder / TO_CENTRE, tick, again=whole)
            mover.deliver(tick)
            sync(monitor.rule, settings.store, monitor.folder, now)
            for path in (monitor.folder / TO_CENTRE).glob(f"*{SUFFIX}"):
                path.unlink()
            (found,) = standings(settings.store, now)
            seen[found.state] += 1
            last = found.state
            if found.state != "unknown":
                claim = claimed(monitor.rule, settings.store, held)
                if (claim < THRESHOLD) != (found.state == "below") or (found.as_of or 0) < now - LEASE * 60:
                    wrong.append(tick)
                right += (truth_at(len(sites), min(tick, TICKS - 1)) < THRESHOLD) == (found.state == "below")
    finally:
        for one in running:
            assert one.stdin is not None
            one.stdin.close()
            one.wait()
    own = monitor.rule.watched.value(np.sum([held[site, now] for site in sites], axis=0))
    settled = last == ("below" if own < THRESHOLD else "above")
    known = seen["below"] + seen["above"]
    rows = [
        ("checks of each of the sites", TICKS + SETTLING),
        ("syncs with a known state (below, above)", f"{known} ({seen['below']}, {seen['above']})"),
        ("syncs with an unknown state, each with its reason", seen["unknown"]),
        ("known states that are wrong of the checks that they rest on, or older than a lease", len(wrong)),
        ("known states that are also right of the exact number at that very moment", f"{right} of {known}"),
        ("right once nothing is lost any longer", "yes" if settled else "NO"),
        ("messages that counted, of one for each site and check", f"{found.messages:,} of {found.checks:,}"),
    ]
    text = (
        f"{len(sites)} processes, each with its store: {ROWS} rows a minute are committed, then `wane site check`. Of "
        "all files 30% are lost, 20% come twice, and each takes up to four checks, in any order, but for the last "
        f"{SETTLING} checks. From the eighth to the fifteenth minute half of all rows are one key: the self-join size "
        f"over {WINDOW} minutes rises above the threshold and falls again.\n\n" + table(("", ""), rows)
    )
    return text, bool(wrong) or not settled


def claimed(rule: Rule, store: Path, held: dict[tuple[str, int], Any]) -> float:
    """The function of what the sites held at the checks that the centre's state rests on."""
    state = read_state(state_folder(store) / f"{rule.name}.centre")
    assert state is not None
    assert standing_of(state, 0).rule == rule.name
    return rule.watched.value(np.sum([held[site, one["confirmed"]] for site, one in state["sites"].items()], axis=0))


def site_process(folder: Path, site: str, number: int) -> None:
    settings = read_settings(folder / "wane.toml")
    monitor, stamp, done = settings.monitors["crowded"], datetime(2026, 1, 1, tzinfo=UTC), -1
    for line in sys.stdin:
        tick, now = (int(part) for part in line.split())
        if tick > done:
            keys, done = keys_of(number, tick), tick
            times = np.sort(np.random.default_rng([number, tick, 1]).integers(tick * STEP, (tick + 1) * STEP, ROWS))
            events = Events.of(np.arange(ROWS) + tick * ROWS, times, keys)
            facts = (ROWS, float(ROWS), int(times[0]), int(times[-1]))
            part = EpochSketches("all", tick * STEP, STEP, *facts, [Ecm.build(events, epsilon=0.1, delta=0.1)])
            commit(settings.store, Run(Stream("visits", STEP), SketchTables.of([part]), stamp, stamp))
        arguments = ["site", "check", "--config", str(folder / "wane.toml"), "--site", site, "--now", str(now)]
        with contextlib.redirect_stdout(io.StringIO()):
            assert wane.main(arguments) == 0
        print(json.dumps(readings_of_store(monitor.rule, settings.store, now).tolist()), flush=True)
        for path in (folder / "monitor" / TO_SITES).glob(f"*{SUFFIX}"):
            path.unlink()


if __name__ == "__main__":
    site_process(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
