"""Sites whose store is not what it was: restored, replaced, cut short. Through the command line, as cron meets them.

The streams have nothing but a `sample`, whose few rows each commit writes anew: no row tells of the commit before.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wane
from ingest import Builder
from store.database import connected
from store.schema import short_name
from tests.support.stores import content, execute

SETTINGS = """store = "{name}.duckdb"
[streams.calls]
input = "none/*.parquet"
source = "source"
id = "id"
time = "t"
value = "v"
epoch = "1h"
"""


class Site:
    """A store that takes a hundred events at a time."""

    def __init__(self, folder: Path, name: str = "site") -> None:
        self.path = folder / f"{name}.duckdb"
        self.backup = folder / f"{name}.backup"
        (folder / f"{name}.toml").write_text(SETTINGS.format(name=name))
        self.builder = Builder(folder / f"{name}.toml", "calls")

    def goes_on(self, first: int, commits: int = 1) -> None:
        for at in range(commits):
            ids = np.arange(100) + first + 100 * at
            self.builder.add({"source": ["door"] * 100, "id": ids, "t": 1_700_000_000 + ids, "v": ids})
            self.builder.commit(f"{first} {at}")

    def saves(self) -> None:
        shutil.copyfile(self.path, self.backup)

    def is_restored(self) -> None:
        self.path.unlink()
        shutil.copyfile(self.backup, self.path)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    found = Site(tmp_path)
    found.goes_on(0)
    return found


class Command:
    """The command line, with what it said."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.centre = folder / "centre.duckdb"
        self._folder, self._capsys = folder, capsys

    def merges(self, *more: object) -> str:
        code = wane.main(["merge", str(self.centre), *map(str, more)])
        said = self._capsys.readouterr()
        assert code == 0, said.err
        return said.out

    def is_refused(self, *arguments: object) -> str:
        before = self.centre.read_bytes()
        assert wane.main([str(one) for one in arguments]) != 0
        assert self.centre.read_bytes() == before
        said = self._capsys.readouterr().err
        assert said.count("\n") == 1, said
        return said

    def exports(self, site: Site, name: str, *more: object) -> tuple[Path, str]:
        path = self._folder / f"{name}.changes"
        assert wane.main(["export", "--store", str(site.path), "--to", str(path), *map(str, more)]) == 0
        said = self._capsys.readouterr().out
        return path, said.split("--since ")[-1].split("`")[0]


@pytest.fixture
def command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(tmp_path, capsys)


@pytest.mark.parametrize("commits", [2, 5])
def test_a_restored_store_that_went_on_is_noticed(site: Site, command: Command, commits: int) -> None:
    """A backup is put back, and other events are ingested: as many commits as were lost, or more."""
    site.saves()
    site.goes_on(1_000, 2)
    command.merges(site.path)
    site.is_restored()
    site.goes_on(5_000, commits)
    said = command.is_refused("merge", command.centre, site.path)
    assert "restored from a backup" in said
    assert "--replace takes it as it is now" in said
    command.merges(site.path, "--replace")
    alone = Command(site.path.parent / "..", command._capsys)
    alone.centre = site.path.with_name("alone.duckdb")
    alone.merges(site.path)
    assert rows(command.centre) == rows(alone.centre) == (1 + commits) * 100
    assert "Nothing new" in command.merges(site.path)
    site.goes_on(9_000)
    assert "100 rows more" in command.merges(site.path)


def rows(path: Path) -> int:
    return sum(int(row[3]) for row in content(path)["epochs"])


def test_a_store_that_lost_its_last_commit_is_noticed(site: Site, command: Command) -> None:
    """Before it goes on, and afterwards at the same generation."""
    site.saves()
    site.goes_on(1_000)
    command.merges(site.path)
    site.is_restored()
    assert "restored" in command.is_refused("merge", command.centre, site.path)
    site.goes_on(5_000)
    assert "restored" in command.is_refused("merge", command.centre, site.path)


def test_a_store_that_was_replaced_is_noticed(site: Site, command: Command, tmp_path: Path) -> None:
    """One that was made anew has another name and the same sources."""
    command.merges(site.path)
    site.path.unlink()
    anew = Site(tmp_path)
    anew.goes_on(5_000, 3)
    assert "made anew" in command.is_refused("merge", command.centre, anew.path)
    assert "300 rows more" in command.merges(anew.path, "--replace")
    assert rows(command.centre) == 300


@pytest.mark.parametrize("left", [0.1, 0.5, 0.9])
def test_a_store_that_was_cut_short_is_noticed(site: Site, command: Command, left: float) -> None:
    """Its file ends amid of it."""
    command.merges(site.path)
    site.goes_on(1_000, 3)
    data = site.path.read_bytes()
    site.path.write_bytes(data[: int(left * len(data))])
    command.is_refused("merge", command.centre, site.path)


def test_changes_of_a_restored_store_are_noticed(site: Site, command: Command) -> None:
    """Where they are written, if they are to begin at a lost commit; where they are merged, if all is written."""
    site.saves()
    site.goes_on(1_000, 2)
    first, commit = command.exports(site, "first")
    command.merges(first)
    site.is_restored()
    site.goes_on(5_000, 4)
    changes = site.path.with_name("second.changes")
    assert "restored" in command.is_refused("export", "--store", site.path, "--since", commit, "--to", changes)
    assert not changes.exists()
    whole, after = command.exports(site, "whole")
    said = command.is_refused("merge", command.centre, whole)
    assert "restored from a backup" in said
    assert "--replace" in said
    command.merges(whole, "--replace")
    assert rows(command.centre) == 500
    site.goes_on(8_000)
    later, _ = command.exports(site, "later", "--since", after)
    assert "100 rows more" in command.merges(later)


def test_changes_at_the_same_generation_are_noticed(site: Site, command: Command) -> None:
    """A store that lost one commit and made another is no older one."""
    site.saves()
    site.goes_on(1_000)
    command.merges(command.exports(site, "first")[0])
    site.is_restored()
    site.goes_on(5_000)
    whole, _ = command.exports(site, "whole")
    assert "restored from a backup" in command.is_refused("merge", command.centre, whole)


def test_a_store_that_goes_on_is_not_refused(site: Site, command: Command) -> None:
    """Compacted, forgotten in part, exported from any commit that it had; also where its older commits are unknown, as
    in a store of an earlier wane."""
    commits: list[str] = []
    for at in range(3):
        site.goes_on(1_000 * at + 1_000)
        commits.append(command.exports(site, f"{at}")[1])
    command.merges(site.path)
    assert wane.main(["compact", "--store", str(site.path)]) == 0
    command.merges(site.path)
    forget = ["forget", "--store", site.path, "--stream", "calls", "--to", "1700001050"]
    assert wane.main([str(one) for one in forget]) == 0
    command.merges(site.path)
    for commit in commits:
        command.exports(site, "again", "--since", commit)
    execute(site.path, "DELETE FROM commits")
    site.goes_on(7_000)
    command.merges(site.path)
    command.exports(site, "again", "--since", commits[0])
    assert rows(command.centre) == rows(site.path)


def test_commits_are_kept_by_name(site: Site) -> None:
    """All but the last are in the table, in the order of their generations."""
    found: list[Any] = []
    for at in range(4):
        with connected(site.path, write=False) as connection:
            found += connection.execute("SELECT generation, commit FROM wane").fetchall()
        site.goes_on(1_000 * at + 1_000)
    with connected(site.path, write=False) as connection:
        kept = connection.execute("FROM commits WHERE generation > 0").fetchall()
    assert kept == [(generation, short_name(commit)) for generation, commit in found]
