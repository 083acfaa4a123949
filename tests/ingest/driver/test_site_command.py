"""`wane site` from the command line: real stores, real files, and the exact number over all events."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

import wane
from sketches import Events
from sketches.countmin.ecm import Ecm
from store import EpochSketches, Run, SketchTables, Stream, commit
from tests.support.stores import NOON

SITES: Final = ("north", "south", "west")
STREAM: Final = """
[streams.visits]
input = "visits/*.parquet"
id = "i"
time = "t"
value = "page"
families = ["ecm"]
epsilon = 0.1
delta = 0.1
"""
MONITOR: Final = """
[monitor.{name}]
{what}
window = "10m"
threshold = {threshold}
lease = "5m"
sites = ["north", "south", "west"]
folder = "../shared"
"""


def commit_rows(path: Path, times: Any, keys: Any, at: int, stream: str = "visits") -> None:
    """One epoch of rows through the store's own door, as ingest commits them."""
    events = Events.of(np.arange(len(times)) + 10_000 * at, times, keys)
    sketch = Ecm.build(events, epsilon=0.1, delta=0.1)
    facts = (len(times), float(len(times)), int(times.min()), int(times.max()))
    part = EpochSketches("all", at * 600, 600, *facts, [sketch])
    commit(path, Run(Stream(stream, 600), SketchTables.of([part]), NOON, NOON))


def write_settings(folder: Path, *monitors: tuple[str, str, float]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    tables = [MONITOR.format(name=name, what=what, threshold=threshold) for name, what, threshold in monitors]
    (folder / "wane.toml").write_text(STREAM + "".join(tables))
    return folder / "wane.toml"


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[dict[str, Any]], str]:
    code = wane.main(["site", *arguments, "--json"])
    out, err = capsys.readouterr()
    return code, [json.loads(line) for line in out.splitlines()], err


def test_sites_and_centre_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Epoch after epoch: below as long as the exact self-join size and share are, and above once they are."""
    rng = np.random.default_rng(1)
    rules = (
        ("crowded", 'stream = "visits"', 60_000.0),
        ("one", 'stream = "visits"\nfunction = "share"\nvalue = "7"', 0.3),
    )
    settings = {site: write_settings(tmp_path / site, *rules) for site in (*SITES, "centre")}
    states: list[dict[str, str]] = []
    exact: list[tuple[float, float]] = []
    for at in range(4):
        skew = 0.6 if at == 2 else 0.05
        seen = []
        for site in SITES:
            times = np.sort(rng.integers(at * 600, at * 600 + 600, 300))
            keys = np.where(rng.random(300) < skew, 7, rng.integers(0, 60, 300)).astype(str)
            commit_rows(tmp_path / site / "wane.duckdb", times, keys, at)
            seen.append(keys)
        counts = np.unique(np.concatenate(seen), return_counts=True)
        exact.append((float((counts[1] ** 2).sum()), float(counts[1][counts[0] == "7"][0] / 900)))
        now = str(at * 600 + 599)
        for _ in range(3):
            for site in SITES:
                code, found, err = run(capsys, "check", "--config", str(settings[site]), "--site", site, "--now", now)
                assert (code, len(found), err) == (0, 2, "")
            code, found, err = run(capsys, "sync", "--config", str(settings["centre"]), "--now", now)
            assert (code, err) == (0, "")
        code, found, _ = run(capsys, "status", "--config", str(settings["centre"]), "--now", now)
        states.append({one["rule"]: one["state"] for one in found})
    assert [(size > 60_000, share > 0.3) for size, share in exact] == [(at == 2, at == 2) for at in range(4)]
    sides = ["below", "below", "above", "below"]
    assert states == [{"crowded": side, "one": side} for side in sides]
    (path,) = (tmp_path / "centre").glob("*.monitor")
    assert len(list(path.glob("*.centre"))) == 2
    assert wane.main(["site", "status", "--config", str(settings["centre"]), "--now", "4000"]) == 0
    told = capsys.readouterr().out
    assert "crowded: unknown since" in told
    assert "was not heard of for" in told
    (tmp_path / "shared" / "to-centre" / "bad.wane-monitor").write_bytes(b"noise")
    code, _, err = run(capsys, "sync", "--config", str(settings["centre"]), "--now", now)
    assert code == 3
    assert "bad.wane-monitor was left out" in err


def test_stored_sketches_of_other_settings_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Numbers of other counters must never be added up with those of other sites."""
    config = write_settings(tmp_path / "north", ("crowded", 'stream = "visits"', 5.0))
    config.write_text(config.read_text().replace("delta = 0.1", "delta = 0.2"))
    commit_rows(tmp_path / "north" / "wane.duckdb", np.arange(9), np.arange(9).astype(str), 0)
    code, _, err = run(capsys, "check", "--config", str(config), "--site", "north", "--now", "500")
    assert code == 2
    assert "all sites must agree" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("check",), "which site is this?"),
        (("check", "--site", "nord"), "its sites are north, south, west"),
        (("sync", "--monitor", "crowd"), "known are: crowded"),
    ],
)
def test_refusals(tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str) -> None:
    config = write_settings(tmp_path, ("crowded", 'stream = "visits"', 5.0))
    code, _, err = run(capsys, *arguments, "--config", str(config))
    assert code == 2
    assert message in err
