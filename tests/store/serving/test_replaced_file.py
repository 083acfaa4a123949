"""A store whose file is replaced while it is being asked: made anew, restored from a backup, or another link."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sketches import Question
from store import Store
from tests.support.stores import EPOCH, STREAM, named, stored
from tests.support.streams import START
from tests.support.streams import Stream as Rows

FAMILIES = ("sample", "by-epoch")


def rows(count: int, *, at: int = 0, first: int = 0, weight: int = 1) -> Rows:
    """So many events of one epoch, the `at`-th."""
    ids = first + np.arange(count)
    return Rows.of("rows", ids, START - START % EPOCH + at * EPOCH + np.arange(count), ids % 7, np.full(count, weight))


def made_anew(path: Path, family: str) -> float:
    """As many commits of as many bytes as before, but other events."""
    path.unlink()
    stored(path, {"east": rows(30, weight=5)}, families=(family,))
    stored(path, {"east": rows(40, at=1, first=100, weight=5)}, families=(family,))
    return 350.0


def restored(path: Path, family: str) -> float:
    """A backup of before the last commit, then another commit in its place: of the same store and generation."""
    shutil.copy2(path.with_name("backup"), path)
    stored(path, {"east": rows(40, at=1, first=500, weight=3)}, families=(family,))
    return 30.0 + 120.0


def restored_and_further(path: Path, family: str) -> float:
    """The same with one commit more, of another epoch."""
    restored(path, family)
    stored(path, {"east": rows(10, at=2, first=900)}, families=(family,))
    return 30.0 + 120.0 + 10.0


def only_restored(path: Path, family: str) -> float:
    del family
    shutil.copy2(path.with_name("backup"), path)
    return 30.0


def another_link(path: Path, family: str) -> float:
    """The path is a link, which now leads to another store."""
    other = path.with_name("other")
    stored(other, {"east": rows(50, weight=2)}, families=(family,))
    stored(other, {"east": rows(40, at=1, first=100)}, families=(family,))
    path.unlink()
    path.symlink_to(other)
    return 140.0


REPLACED = (made_anew, restored, restored_and_further, only_restored, another_link)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("replaced", REPLACED, ids=lambda replaced: replaced.__name__)
def test_answers_are_of_the_file_that_is_there_now(
    tmp_path: Path, family: str, replaced: Callable[[Path, str], float]
) -> None:
    """For all sources and for one, at one time and at many: nothing of the file before, and no mixture of both."""
    path = tmp_path / "wane.duckdb"
    stored(path, {"east": rows(30)}, families=(family,))
    shutil.copy2(path, path.with_name("backup"))
    stored(path, {"east": rows(40, at=1, first=100)}, families=(family,))
    asked, question = Store(path), Question("sum", of="weight")
    assert asked.ask(STREAM, question).estimate.value == 70.0
    assert asked.ask(STREAM, question, sources=["east"]).estimate.value == 70.0
    truth = replaced(path, family)
    assert asked.catalogue().name == named(path)
    assert asked.ask(STREAM, question, sources=["east"]).estimate.value == truth
    answer = asked.ask(STREAM, question)
    assert answer.estimate.value == truth
    series, _ = asked.series(STREAM, question, np.array([answer.estimate.as_of]))
    assert series.value.tolist() == [truth]


def test_the_kind_of_values_is_of_the_file_that_is_there_now(tmp_path: Path) -> None:
    """Numbers in one store, texts in the next one, of the same stream and epoch: a sum is of the value, then of events.

    What is summed is decided before any sketch is loaded."""
    path = tmp_path / "wane.duckdb"
    times = START + np.arange(3)
    stored(path, {"east": Rows.of("numbers", [1, 2, 3], times, [10, 20, 30])})
    asked = Store(path)
    assert asked.ask(STREAM, Question("sum")).estimate.value == 60.0
    path.unlink()
    stored(path, {"east": Rows.of("texts", [1, 2, 3], times, ["a", "b", "c"])})
    assert asked.ask(STREAM, Question("sum")).estimate.value == 3.0
