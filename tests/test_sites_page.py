"""docs/sites.md as printed: every command of the page runs, in the order of the page, and does what it says."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest

import wane
from ingest import Builder
from store import Store
from store.merging.site_ids import ids_of
from tests.support.paths import ROOT

PAGE = (ROOT / "docs" / "sites.md").read_text()
SETTINGS = """store = "{name}.duckdb"
[streams.readings]
input = "none/*.parquet"
source = "source"
id = "id"
time = "t"
value = "v"
epoch = "1h"
"""
ELSEWHERE = (
    "wane ingest",
    "rsync",
    ".venv/bin/python -m demo.network",
)  # need Spark, another host; and a test of demo's


def commands(section: str) -> list[str]:
    """The lines of code of a section, without their comments."""
    text = PAGE if not section else PAGE[PAGE.index(f"## {section}\n") :]
    text = re.split(r"^## ", text.removeprefix("## "), maxsplit=1, flags=re.MULTILINE)[0]
    lines = [line.partition("  #")[0].strip() for line in re.findall(r"^ {4}(.*)$", text, re.MULTILINE)]
    assert lines, section
    return lines


class Site:
    """A site that ingests a hundred rows at a time, in the folder where the commands run."""

    def __init__(self, name: str, source: str) -> None:
        Path(f"{name}.toml").write_text(SETTINGS.format(name=name))
        self.source, self.rows = source, 0
        self.builder = Builder(f"{name}.toml", "readings")
        self.goes_on()

    def goes_on(self, ids: int = 0) -> None:
        numbers = np.arange(self.rows, self.rows + 100) + ids
        self.builder.add({"source": [self.source] * 100, "id": numbers, "t": numbers + 1_700_000_000, "v": numbers % 7})
        self.builder.commit()
        self.rows += 100


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(line: str, capsys: pytest.CaptureFixture[str]) -> str:
    """What a line prints; a shell would put in what a file holds, and the names of files."""
    line = re.sub(r"\$\(cat (\w+)\)", lambda match: Path(match[1]).read_text().strip(), line)
    program, *words = shlex.split(line)
    assert program == "wane", line
    arguments = [found for word in words for found in (sorted(map(str, Path().glob(word))) if "*" in word else [word])]
    capsys.readouterr()
    assert wane.main(arguments) == 0, capsys.readouterr().err
    return capsys.readouterr().out


def rows_at(path: str) -> int:
    return sum(totals.events for totals in Store(path).catalogue().streams["readings"].by_source.values())


def test_every_command_of_the_page_is_run_here() -> None:
    """Or in a test of its own."""
    sections = ["", "Files of changes", "Two data centres", "Fifty shops with a modem"]
    sections.append("Sensors with duplicates on several paths")
    shown = [line for section in sections for line in commands(section)]
    assert sorted(shown) == sorted(line.partition("  #")[0].strip() for line in re.findall(r"^ {4}(.*)$", PAGE, re.M))
    assert sum(line.startswith(ELSEWHERE) for line in shown) == 3


def test_sites_and_files_of_changes(capsys: pytest.CaptureFixture[str]) -> None:
    """A merge of stores; a store as a file of changes, then what came after."""
    for name in ("north", "south"):
        Site(name, name)
    shop = Site("shop17", "till")
    (merge,) = commands("")
    assert "100 rows more" in run(merge, capsys)
    export, merge, again = commands("Files of changes")
    (commit,) = re.findall(r"--since (\S+?)`", run(export, capsys))
    assert "100 rows more" in run(merge, capsys)
    assert rows_at("centre.duckdb") == 300
    assert commit == ids_of(Path("shop17.duckdb"), 1.0).token
    shop.goes_on()
    run(re.sub(r"--since \S+", f"--since {commit}", again), capsys)
    assert Path("shop17-42.changes").stat().st_size > 0


def test_two_data_centres(capsys: pytest.CaptureFixture[str]) -> None:
    """What runs behind the copying of a store from another host."""
    for name in ("north", "south"):
        Site(name, name)
    _, copied = commands("Two data centres")
    run(copied.partition("&& ")[2], capsys)
    assert rows_at("all.duckdb") == 200


def test_fifty_shops(capsys: pytest.CaptureFixture[str]) -> None:
    """Two of them, two nights; at the centre their tills have their shops' names."""
    first, merge, later = commands("Fifty shops with a modem")
    shops = {name: Site(name, "till") for name in ("shop17", "shop18")}
    Path("inbox").mkdir()
    held: dict[str, str] = {}
    for export in (first, later):
        for name in shops:
            if export is later:
                Path("merged").write_text(held[name])
            run(export.replace("shop17", name), capsys)
            shutil.move(f"{name}.changes", f"inbox/{name}.changes")
        held = {one["name"]: one["since"] for one in json.loads(run(merge, capsys))["sites"]}
        assert set(held) == set(shops)
        for shop in shops.values():
            shop.goes_on()
    assert sorted(Store("centre.duckdb").catalogue().streams["readings"].by_source) == ["shop17/till", "shop18/till"]
    assert rows_at("centre.duckdb") == 400


def test_sensors_on_several_paths(capsys: pytest.CaptureFixture[str]) -> None:
    """An event that both gateways have counts once."""
    Site("west", "s17")
    Site("east", "s17").goes_on()
    merge, ask, _ = commands("Sensors with duplicates on several paths")
    run(merge, capsys)
    found = json.loads(run(f"{ask} --json", capsys))
    assert found["estimate"] == found["lower"] == found["upper"] == 200
    assert json.loads(run(f"{ask} --source west/s17 --json", capsys))["estimate"] == 100
