"""Merging with what is stored happens while the store is free, and starts over where another commit came between."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sketches import Sample
from store import Store, StoreBusyError, commit
from store.database import connected
from store.merging import Merged, Overlap, merged
from store.run import SKETCHES
from tests.store.helpers import EPOCH, STREAM, content, events, part, payloads, run_of
from tests.streams import STREAMS

MODULE = importlib.import_module("store.commit")  # `store.commit` itself is the function
ROWS = STREAMS["late"](400, 1)
FIRST = int(ROWS.t.min() - ROWS.t.min() % EPOCH)
EPOCH_ROWS = ROWS.take(ROWS.t < FIRST + EPOCH)
EARLY, MIDDLE, LATE = EPOCH_ROWS.split(3, 3)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "wane.duckdb"
    commit(path, run_of([part(EARLY, "north", FIRST)]))
    return path


def while_merging(patch: pytest.MonkeyPatch, act: Callable[[], object], times: int = 1) -> list[Overlap]:
    """Do something each time a commit merges, a few times; what it was given to merge."""
    seen: list[Overlap] = []

    def acting(stream: str, found: Overlap) -> Merged:
        seen.append(found)
        if len(seen) <= times:
            patch.setattr(MODULE, "merged", merged)
            act()
            patch.setattr(MODULE, "merged", acting)
        return merged(stream, found)

    patch.setattr(MODULE, "merged", acting)
    return seen


def test_the_store_is_free_while_a_commit_merges(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is shut out: both a reader and a writer open the file at once."""
    opened: list[bool] = []

    def open_both() -> None:
        for write in (False, True):
            with connected(path, write=write, wait=0):
                opened.append(write)

    while_merging(monkeypatch, open_both)
    commit(path, run_of([part(LATE, "north", FIRST)]))
    assert opened == [False, True]


def test_a_commit_in_between_is_not_lost(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the store changed after it was read, the merging starts over and holds the events of both."""
    seen = while_merging(monkeypatch, lambda: commit(path, run_of([part(MIDDLE, "north", FIRST)])))
    assert commit(path, run_of([part(LATE, "north", FIRST)])) == 3
    assert len(seen) == 2
    assert payloads(path) == {("north", FIRST, "sample"): Sample.build(events(EPOCH_ROWS)).to_bytes()}
    ((*_, known, _, _, _),) = content(path)["epochs"]
    assert known == len(EPOCH_ROWS)
    assert len(content(path)["sketches"]) == 1


def test_starting_over_is_bounded_by_the_wait(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that others change all the time is a busy store; nothing of the run is written."""
    seen = while_merging(monkeypatch, lambda: commit(path, run_of([])), times=100)
    with pytest.raises(StoreBusyError, match="changed by others each time"):
        commit(path, run_of([part(LATE, "north", FIRST)]), wait=0.5)
    assert len(seen) < 100
    assert payloads(path) == {("north", FIRST, "sample"): Sample.build(events(EARLY)).to_bytes()}


def test_only_what_meets_something_is_merged(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that meet nothing stored, or only what the run replaces, are not even read."""
    seen = while_merging(monkeypatch, lambda: None)
    commit(path, run_of([part(LATE, "south", FIRST), part(LATE, "north", FIRST + EPOCH)]))
    commit(path, run_of([part(LATE, "north", FIRST)], stream="other"))
    assert [(len(found.new), len(found.stored)) for found in seen] == [(0, 0), (0, 0)]
    commit(path, run_of([part(LATE, "north", FIRST), part(LATE, "south", FIRST)], replacing=(FIRST, FIRST + EPOCH)))
    assert [(len(found.new), len(found.stored)) for found in seen[2:]] == [(0, 0)]
    commit(path, run_of([part(one, "north", FIRST) for one in (EARLY, MIDDLE)]))
    assert [(len(found.new), len(found.stored)) for found in seen[3:]] == [(2, 1)]
    held: dict[Any, Any] = dict(Store(path).catalogue().streams[STREAM].epochs)
    assert held[("north", FIRST, EPOCH)].events == len(EPOCH_ROWS)


class Listed(bytes):
    """A sketch that remembers the order in which it was merged, as a sum of floating-point numbers does."""

    def merge(self, other: bytes) -> Listed:
        return Listed(self + other)

    def to_bytes(self) -> bytes:
        return bytes(self)


def test_the_order_of_a_runs_pieces_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    """However Spark hands the pieces over, they merge in one order, after what is stored."""
    monkeypatch.setattr("store.merging.load", Listed)
    stored = pa.table([["north"], [0], [EPOCH], ["sum"], [b"z"]], schema=SKETCHES)
    for pieces in ([b"a", b"b", b"c"], [b"c", b"a", b"b"]):
        new = pa.table([["north"] * 3, [0] * 3, [EPOCH] * 3, ["sum"] * 3, pieces], schema=SKETCHES)
        found = merged(STREAM, Overlap(new, stored)).sketches
        assert found.to_pylist() == [
            {"source": "north", "start": 0, "length": EPOCH, "family": "sum", "payload": b"zabc"}
        ]
