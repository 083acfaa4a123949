"""An answer of several parts is of one commit, while a writer commits, and replaces the file by another store."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from sketches import Question
from store import Store
from store.serving.changes_answer import Sides, changes
from tests.support.stores import EPOCH, STREAM, named, stored
from tests.support.streams import START
from tests.support.streams import Stream as Rows

FIRST = START - START % EPOCH
SECONDS = 1.5  # of questions, while the file changes some hundred times
SIZES = {"one": (30, 20), "other": (300, 900)}  # events of east and of west in each store


def built(path: Path, east: int, west: int) -> Path:
    """A store of the first generation: only its size and its random name tell it from another one."""
    found = {
        name: Rows.of("rows", first + np.arange(size), FIRST + np.arange(size) % EPOCH, np.arange(size) % 7)
        for name, first, size in (("east", 0, east), ("west", 10_000, west))
    }
    stored(path, found)
    return path


@contextmanager
def replaced_meanwhile(path: Path, stores: list[Path]) -> Iterator[Callable[[], int]]:
    """A writer that puts one store, then a commit to it, then the other one in the place of the file, again and again.

    How often it has done so, tells what is given.
    """
    done, over = [0], threading.Event()
    failures: list[BaseException] = []

    def write() -> None:
        try:
            while not over.is_set():
                for one in stores:
                    copied = path.with_name("copied")
                    shutil.copyfile(one, copied)
                    copied.replace(path)
                    done[0] += 1
                    time.sleep(0.003)
        except BaseException as error:  # noqa: BLE001 - a thread must hand over whatever happened in it
            failures.append(error)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield lambda: done[0]
    finally:
        over.set()
        thread.join()
    assert failures == []


def series_and_split(store: Store) -> dict[str, float]:
    """Each source's size as the split has it; fails where its series says otherwise."""
    found, split = store.series_by(STREAM, Question("count"), [FIRST + EPOCH], "source")
    sizes = {place.name: place.estimate for place in split.places}
    assert {str(name): one.value[-1] for name, one in found.items()} == sizes
    return sizes


def in_sql(store: Store) -> dict[str, float]:
    """Two aggregates, which say the same in each store."""
    statement = f"SELECT source, count(*) AS first, count(*) AS again FROM {STREAM} GROUP BY source"
    columns = store.sql(statement).columns
    assert columns["first"] == columns["again"]
    return dict(zip(columns["source"], columns["first"], strict=True))


def what_changed(store: Store) -> dict[str, float]:
    found = changes(store, STREAM, Sides((FIRST, FIRST + EPOCH), ((FIRST - EPOCH, FIRST),)), columns=["source"])
    total = found.changes.inside.value
    return {str(one.name): one.inside[0] * total for one in found.listed}


@pytest.mark.parametrize("asked", [series_and_split, in_sql, what_changed], ids=lambda asked: asked.__name__)
def test_all_parts_of_an_answer_are_of_one_store(tmp_path: Path, asked: Callable[[Store], dict[str, float]]) -> None:
    """Both stores are of generation 1: only their random names tell them apart."""
    path, stores = tmp_path / "wane.duckdb", []
    for name, sizes in SIZES.items():
        stores.append(built(tmp_path / name, *sizes))
    shutil.copyfile(stores[0], path)
    store, until = Store(path), time.monotonic() + SECONDS
    seen: set[tuple[int, int]] = set()
    with replaced_meanwhile(path, stores) as times:
        while time.monotonic() < until or len(seen) < 2:
            found = asked(store)
            seen.add((round(found["east"]), round(found["west"])))
            assert time.monotonic() < until + 60
    assert seen == set(SIZES.values())
    assert times() > 10


def test_an_answer_names_its_commit(tmp_path: Path) -> None:
    """Two stores of the same generation are told apart by it."""
    path, store = built(tmp_path / "wane.duckdb", 3, 4), Store(tmp_path / "wane.duckdb")
    first = store.ask(STREAM, Question("count")).provenance
    assert (first.generation, first.commit) == (1, named(path))
    path.unlink()
    built(path, 5, 6)
    again = store.ask(STREAM, Question("count")).provenance
    assert (again.generation, again.commit) == (1, named(path))
    assert again.commit != first.commit


def test_a_commit_that_lands_between_two_parts_is_in_none_or_in_all(tmp_path: Path) -> None:
    """A writer commits as soon as the first part has been answered."""
    path = built(tmp_path / "wane.duckdb", 30, 20)
    store = Store(path)
    landed: list[int] = []

    def parts(one: Store) -> list[float]:
        first = one.ask(STREAM, Question("count"), sources=["east"]).estimate.value
        if not landed:
            landed.append(stored(path, {"east": Rows.of("more", [50_000], [FIRST], [1])}))
        return [first, one.ask(STREAM, Question("count"), sources=["east"]).estimate.value]

    first, second = store.at_one_commit(parts)
    assert first == second
    assert store.ask(STREAM, Question("count"), sources=["east"]).estimate.value == 31.0
