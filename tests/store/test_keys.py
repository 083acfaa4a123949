"""Families whose sketches cover many epochs: one stored row, all of its events, and gaps that name every epoch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest

import store.serving.selection
from sketches import Histogram, Question
from sketches.errors import UnanswerableError
from sketches.family import Scope
from sketches.registry import load, register
from store import EpochSketches, Store, StoreError, commit
from store.keys import (
    ALL_EPOCHS,
    WHOLE_STREAM,
    Epoch,
    Span,
    is_in_parts,
    scope_fault,
    scope_of,
    sketch_key,
    spans_epochs,
)
from store.serving.report import report
from tests.support.by_epoch_family import ByEpoch
from tests.support.stores import (
    BY_EPOCH,
    EPOCH,
    STREAM,
    content,
    events,
    execute,
    flipped,
    part,
    parts,
    payloads,
    run_of,
)
from tests.support.streams import STREAMS
from tests.support.streams import Stream as Rows


class PerSource(Histogram):
    """One sketch for each source."""

    family: ClassVar[str] = "per-source"
    scope: ClassVar[Scope] = Scope.SOURCE


class PerStream(Histogram):
    """One sketch for the whole stream."""

    family: ClassVar[str] = "per-stream"
    scope: ClassVar[Scope] = Scope.STREAM


register(PerSource)
register(PerStream)

WIDE = (PerSource, PerStream)
ROWS = STREAMS["late"](600, 2).distinct()
NORTH, SOUTH = ROWS.split(2, 1)
SOURCES = {"north": NORTH, "south": SOUTH}
FIRST = int(ROWS.t.min() - ROWS.t.min() % EPOCH)
LAST = int(ROWS.t.max() - ROWS.t.max() % EPOCH)
COUNT = Question("count")
HALVES = [{name: rows.split(2, 7)[half] for name, rows in SOURCES.items()} for half in (0, 1)]


def wide_parts(by_source: dict[str, Rows], families: Sequence[type[Histogram]] = WIDE) -> list[EpochSketches]:
    """The epochs of every source, with sketches of these families and of one that has a sketch for each epoch."""
    found = []
    for one in parts(by_source, families=BY_EPOCH):
        rows = by_source[one.source]
        inside = events(rows.take((rows.t >= one.start) & (rows.t < one.start + one.length)))
        wide = [family.build(inside) for family in families]
        found.append(replace(one, sketches=[*one.sketches, *wide]))
    return found


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Both wide families and one by epoch, in two commits of which the second has late events."""
    path = tmp_path / "wane.duckdb"
    for half in HALVES:
        commit(path, run_of(wide_parts(half)))
    return path


def wide_rows(path: Path) -> dict[tuple[str, int, int, str], bytes]:
    return {
        (source, start, length, family): payload
        for _, source, start, length, family, *_, payload in content(path)["sketches"]
        if family in {kind.family for kind in WIDE}
    }


def damage(path: Path, family: str, source: str) -> None:
    payload = payloads(path)[source, 0, family]
    execute(
        path,
        "UPDATE sketches SET payload = $1 WHERE family = $2 AND source = $3",
        [flipped(payload, len(payload) // 2), family, source],
    )


def test_the_key_of_a_sketch_follows_the_scope_of_its_family() -> None:
    """An epoch of a source, all epochs of a source, or all of the stream; an unknown family counts as the first."""
    epoch = Epoch("north", 1200, EPOCH)
    names = ("by-epoch", "never heard of", "per-source", "per-stream", "sample")
    wanted = [epoch, epoch, Epoch("north", *ALL_EPOCHS), WHOLE_STREAM, WHOLE_STREAM]
    assert [sketch_key(name, epoch) for name in names] == wanted
    assert [scope_of(name) for name in ("never heard of", "per-source")] == [Scope.EPOCH, Scope.SOURCE]
    assert [spans_epochs(name) for name in ("by-epoch", "per-source", "per-stream")] == [False, True, True]
    assert [is_in_parts(name) for name in ("sample", "per-stream", "never heard of")] == [True, False, False]


def test_one_row_holds_all_events_of_its_scope(path: Path) -> None:
    """However many epochs and commits brought them: the pieces of a run and the stored sketch are merged."""
    found = wide_rows(path)
    assert set(found) == {("north", 0, 0, "per-source"), ("south", 0, 0, "per-source"), ("", 0, 0, "per-stream")}
    counts = {key: load(payload).answer(COUNT) for key, payload in found.items()}
    exact = {"north": len(NORTH), "south": len(SOUTH), "": len(ROWS)}
    for (source, *_), estimate in counts.items():
        assert estimate.lower <= exact[source] <= estimate.upper
    epochs = Store(path).catalogue().streams[STREAM].epochs
    assert sum(totals.events for totals in epochs.values()) == len(ROWS)
    assert all(epoch.length == EPOCH for epoch in epochs)


def test_a_source_without_a_name_is_not_the_whole_stream(tmp_path: Path) -> None:
    """An empty source is a source; the families keep their rows apart."""
    path = tmp_path / "wane.duckdb"
    commit(path, run_of(wide_parts({"": NORTH, "south": SOUTH})))
    assert set(wide_rows(path)) == {("", 0, 0, "per-source"), ("south", 0, 0, "per-source"), ("", 0, 0, "per-stream")}
    asked = Store(path)
    answer = asked.ask(STREAM, COUNT, sources=[""], family="per-source")
    assert answer.estimate.lower <= len(NORTH) <= answer.estimate.upper
    answer = asked.ask(STREAM, COUNT, family="per-stream")
    assert answer.estimate.lower <= len(ROWS) <= answer.estimate.upper


@pytest.mark.parametrize(
    ("family", "sources", "exact"),
    [
        ("per-source", [], ROWS),
        ("per-source", ["north"], NORTH),
        ("per-source", ["north", "south"], ROWS),
        ("per-stream", [], ROWS),
        ("per-stream", ["south", "north"], ROWS),
    ],
)
def test_answers_of_all_and_of_some_sources(path: Path, family: str, sources: list[str], exact: Rows) -> None:
    """The bounds hold the exact count, nothing is missing, and the epochs are those that hold events."""
    answer = Store(path).ask(STREAM, COUNT, sources=sources, family=family)
    assert answer.estimate.lower <= len(exact) <= answer.estimate.upper
    assert answer.provenance.complete
    assert answer.provenance.epochs == len({int(time) // EPOCH for time in exact.t})


def test_a_sketch_of_the_whole_stream_does_not_answer_for_some_sources(path: Path) -> None:
    """The refusal says what to do."""
    with pytest.raises(UnanswerableError, match="one sketch for all sources of a stream: ask for all of them"):
        Store(path).ask(STREAM, COUNT, sources=["north"], family="per-stream")


def test_a_source_that_appears_meanwhile_does_not_make_all_sources_some(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit between the catalogue and the sketches brings a new source: the answer is of the newer generation."""
    new = Rows.of("new", [10**6], [int(ROWS.t.max())], [1])
    inner, waiting = store.serving.selection.connected, [True]

    def interrupted(*arguments: object, **settings: object) -> object:
        if waiting:
            waiting.clear()
            commit(path, run_of(wide_parts({"west": new})))
        return inner(*arguments, **settings)  # type: ignore[arg-type]

    asked = Store(path)
    asked.catalogue()
    monkeypatch.setattr(store.serving.selection, "connected", interrupted)
    answer = asked.ask(STREAM, COUNT, family="per-stream")
    assert answer.provenance.generation == 3
    assert answer.provenance.sources == ("north", "south", "west")
    assert answer.estimate.lower <= len(ROWS) + 1 <= answer.estimate.upper


@pytest.mark.parametrize(("family", "source"), [("per-source", "north"), ("per-stream", "")])
def test_a_damaged_sketch_is_a_gap_in_every_epoch_it_covers(path: Path, family: str, source: str) -> None:
    """The answer of the other sources is marked, and names the epochs; alone, there is no answer at all."""
    damage(path, family, source)
    covered = [rows for name, rows in SOURCES.items() if source in ("", name)]
    epochs = {int(time) // EPOCH * EPOCH for rows in covered for time in rows.t}
    if family == "per-stream":
        with pytest.raises(UnanswerableError, match="no readable per-stream sketch"):
            Store(path).ask(STREAM, COUNT, family=family)
        return
    answer = Store(path).ask(STREAM, COUNT, family=family)
    assert answer.estimate.guarantee.startswith("INCOMPLETE")
    assert {(gap.source, gap.start, gap.length) for gap in answer.provenance.missing} == {
        (source, start, EPOCH) for start in epochs
    }
    assert answer.estimate.lower <= len(SOUTH) <= answer.estimate.upper


@pytest.mark.parametrize(("family", "source"), [("per-source", "north"), ("per-stream", "")])
def test_what_was_set_aside_stays_a_gap_in_every_epoch(path: Path, family: str, source: str) -> None:
    """Late events meet damaged bytes: the bytes are kept, and answers say for good which epochs they belong to."""
    damage(path, family, source)
    late = Rows.of("late", [10**6], [int(NORTH.t.max())], [1])
    commit(path, run_of(wide_parts({"north": late})))
    assert [row[1:5] for row in content(path)["set_aside"]] == [(source, *ALL_EPOCHS, family)]
    stream = Store(path).catalogue().streams[STREAM]
    assert {(gap.source, Span(gap.start, gap.length)) for gap in stream.set_aside} == {
        (source, span) for span in stream.epochs
    }
    answer = Store(path).ask(STREAM, COUNT, family=family)
    assert not answer.provenance.complete
    assert {gap.family for gap in answer.provenance.missing} == {family}
    assert Store(path).ask(STREAM, COUNT, family="by-epoch").provenance.complete


def test_the_catalogue_knows_which_sources_lack_a_sketch(path: Path) -> None:
    """A row that is lost is missed in all epochs of its source, and in no other."""
    stream = Store(path).catalogue().streams[STREAM]
    assert stream.spanning_families == {"per-source", "per-stream"}
    assert [stream.lacks_epochs(family) for family in ("by-epoch", "per-source", "per-stream")] == [False] * 3
    execute(path, "DELETE FROM sketches WHERE family = 'per-source' AND source = 'north'")
    stream = Store(path).catalogue().streams[STREAM]
    assert [stream.lacks_epochs(family) for family in ("by-epoch", "per-source", "per-stream")] == [False, True, False]
    answer = Store(path).ask(STREAM, COUNT, family="per-source")
    assert {gap.source for gap in answer.provenance.missing} == {"north"}
    assert {gap.reason for gap in answer.provenance.missing} == {"no per-source sketch is stored"}


def test_the_report_counts_them_and_finds_no_gap(path: Path) -> None:
    """Epochs are not missing because one sketch covers many of them."""
    (calls,) = report(path)["streams"]
    assert {one["family"]: one["sketches"] for one in calls["families"]} == {
        "per-source": 2,
        "per-stream": 1,
        "by-epoch": sum(family == "by-epoch" for *_, family in payloads(path)),
    }
    assert calls["gaps"] == []
    damage(path, "per-source", "north")
    (calls,) = report(path)["streams"]
    assert {(gap["source"], gap["family"]) for gap in calls["gaps"]} == {("north", "per-source")}


@pytest.mark.parametrize("brought", [True, False], ids=["with them", "without any sketch"])
def test_a_backfill_is_refused(path: Path, brought: bool) -> None:
    """No epoch can be taken out of a sketch of many, whether or not the run brings new ones; nothing changes."""
    before = content(path)
    again = wide_parts({"north": NORTH.take(NORTH.t < FIRST + EPOCH)}) if brought else []
    with pytest.raises(StoreError, match=r"^stream 'calls': it cannot be backfilled: family 'per-source' keeps one"):
        commit(path, run_of(again, replacing=(FIRST, FIRST + EPOCH)))
    assert content(path) == before


def test_a_backfill_across_time_zero_is_refused_too(tmp_path: Path) -> None:
    """The key of such a sketch is 0, which lies in this range; the sketch is not taken for an epoch."""
    path = tmp_path / "wane.duckdb"
    rows = Rows.of("around zero", [1, 2], [-5, 5], [1, 1])
    commit(path, run_of(wide_parts({"north": rows})))
    before = content(path)
    with pytest.raises(StoreError, match="cannot be backfilled"):
        commit(path, run_of([], replacing=(-EPOCH, EPOCH)))
    assert content(path) == before


def test_a_family_cannot_be_added_to_a_stream_with_events(tmp_path: Path) -> None:
    """Its one sketch would lack the events before, and no gap would tell; a stream without events takes it."""
    path = tmp_path / "wane.duckdb"
    commit(path, run_of([]))
    commit(path, run_of(wide_parts({"north": NORTH}, [PerSource])))
    before = content(path)
    with pytest.raises(StoreError, match=r"family 'per-stream' cannot be added: .* lack the stored events"):
        commit(path, run_of(wide_parts({"south": SOUTH})))
    assert content(path) == before


def test_a_family_cannot_be_left_out(path: Path) -> None:
    """Its one sketch would lack the new events; a run that brings none is fine."""
    before = content(path)
    with pytest.raises(StoreError, match=r"family 'per-source' cannot be left out: .* lack the new events"):
        commit(path, run_of(parts({"west": SOUTH}, families=BY_EPOCH)))
    assert content(path) == before
    commit(path, run_of([]))


def test_families_by_epoch_come_and_go_as_before(tmp_path: Path) -> None:
    """Only sketches of many epochs are so strict."""
    path = tmp_path / "wane.duckdb"
    one = part(NORTH.take(NORTH.t < FIRST + EPOCH), "north", FIRST, families=BY_EPOCH)
    commit(path, run_of([replace(one, sketches=[Histogram.build(events(NORTH))])]))
    commit(path, run_of([replace(one, sketches=[ByEpoch.build(events(NORTH))])]))
    commit(path, run_of([one], replacing=(FIRST, LAST)))
    assert scope_fault(set(), set(), replacing=True) is None
