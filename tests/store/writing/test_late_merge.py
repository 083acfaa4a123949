"""Merging with what is stored happens while the store is free, and starts over where another commit came between."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import store.writing.transaction as transaction_module
from sketches import Events
from sketches.registry import FAMILIES, load
from store import Store, StoreBusyError, commit
from store.database import connected
from store.keys import Span
from store.writing.late_merge import MergedOverlap, Overlap, merge_overlap
from store.writing.run import SKETCHES
from tests.support.by_epoch_family import ByEpoch
from tests.support.stores import BY_EPOCH, EPOCH, STREAM, content, events, payloads, run_of
from tests.support.stores import part as part_of
from tests.support.streams import STREAMS

ROWS = STREAMS["late"](400, 1)
FIRST = int(ROWS.t.min() - ROWS.t.min() % EPOCH)
EPOCH_ROWS = ROWS.take(ROWS.t < FIRST + EPOCH)
EARLY, MIDDLE, LATE = EPOCH_ROWS.split(3, 3)

part = partial(part_of, families=BY_EPOCH)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "wane.duckdb"
    commit(path, run_of([part(EARLY, "north", FIRST)]))
    return path


def while_merging(patch: pytest.MonkeyPatch, act: Callable[[], object], times: int = 1) -> list[Overlap]:
    """Do something each time a commit merges, a few times; what it was given to merge."""
    seen: list[Overlap] = []

    def acting(stream: str, found: Overlap, **more: bool) -> MergedOverlap:
        seen.append(found)
        if len(seen) <= times:
            patch.setattr(transaction_module, "merge_overlap", merge_overlap)
            act()
            patch.setattr(transaction_module, "merge_overlap", acting)
        return merge_overlap(stream, found, **more)

    patch.setattr(transaction_module, "merge_overlap", acting)
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
    assert payloads(path) == {("north", FIRST, "by-epoch"): ByEpoch.build(events(EPOCH_ROWS)).to_bytes()}
    ((*_, known, _, _, _, _),) = content(path)["epochs"]
    assert known == len(EPOCH_ROWS)
    assert len(content(path)["sketches"]) == 1


def test_starting_over_is_bounded_by_the_wait(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that others change all the time is a busy store; nothing of the run is written."""
    seen = while_merging(monkeypatch, lambda: commit(path, run_of([])), times=100)
    with pytest.raises(StoreBusyError, match="changed by others each time"):
        commit(path, run_of([part(LATE, "north", FIRST)]), wait=0.5)
    assert len(seen) < 100
    assert payloads(path) == {("north", FIRST, "by-epoch"): ByEpoch.build(events(EARLY)).to_bytes()}


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
    held = Store(path).catalogue().streams[STREAM]
    assert held.epochs[Span(FIRST, EPOCH)].events == len(LATE) + len(EPOCH_ROWS), "south has its own, replaced as well"


def sketches_table(family: str, payloads: Sequence[bytes]) -> pa.Table:
    rows = len(payloads)
    return pa.table([["north"] * rows, [0] * rows, [EPOCH] * rows, [family] * rows, payloads], schema=SKETCHES)


class Listed(bytes):
    """A sketch that remembers the order in which it was merged, as a sum of floating-point numbers does."""

    @classmethod
    def union(cls, sketches: Sequence[bytes]) -> Listed:
        return cls(b"".join(sketches))

    def to_bytes(self) -> bytes:
        return bytes(self)


def test_what_is_stored_comes_first_then_the_pieces_in_the_order_of_their_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However Spark hands the pieces over, all merge at once in one order."""
    monkeypatch.setattr("store.writing.late_merge.load", Listed)
    for pieces in ([b"a", b"b", b"c"], [b"c", b"a", b"b"]):
        found = merge_overlap(STREAM, Overlap(sketches_table("sum", pieces), sketches_table("sum", [b"z"]))).sketches
        assert found.to_pylist() == [
            {"source": "north", "start": 0, "length": EPOCH, "family": "sum", "payload": b"zabc"}
        ]


@pytest.mark.parametrize("family", FAMILIES)
def test_the_order_of_a_runs_pieces_does_not_matter(family: str) -> None:
    """Every family ends in the same bytes, those too that add up floating-point numbers."""
    kind = FAMILIES[family]
    needed = inspect.signature(kind.build).parameters
    settings: dict[str, Any] = {"decay": "exp:half_life=20m"} if "decay" in needed else {}
    settings |= {"history": 86_400.0} if "history" in needed else {}
    first, *others = (
        kind.build(Events.of(one.ids, one.t, one.v, one.w), **settings).to_bytes() for one in ROWS.split(4, 5)
    )
    stored = sketches_table(family, [first])
    found = {
        merge_overlap(STREAM, Overlap(sketches_table(family, pieces), stored)).sketches["payload"][0].as_py()
        for pieces in itertools.permutations(others)
    }
    assert len(found) == 1
    assert load(found.pop()).extremes.newest == ROWS.t.max()
