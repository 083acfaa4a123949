"""Stores in which `sample` had a sketch for each source and epoch answer at once, and the next commit moves them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sketches import Question, Sample
from sketches.sampling.epoch_sample import EpochSample
from store import EpochSketches, Store, commit
from store.database import create
from store.schema import migrate
from tests.support.old_stores import VERSION_1, fill_by_epoch, migrate_as_it_was
from tests.support.oracle import Oracle
from tests.support.stores import (
    EPOCH,
    STREAM,
    content,
    events,
    flipped,
    overlapping,
    part,
    parts,
    payloads,
    replace_payload,
    run_of,
    stored,
    stream_parts,
)
from tests.support.streams import STREAMS, joined
from tests.support.streams import Stream as Rows

EPSILON = 0.3  # an epoch keeps about 85 events a level
EVERY = STREAMS["late"](3_000, 1).distinct()
FIRST = int(EVERY.t.min() - EVERY.t.min() % EPOCH)
BUSY = FIRST + 3 * EPOCH  # until then epochs are thinned; later ones have few events and are complete
ROWS = EVERY.take((EVERY.t < BUSY) | (EVERY.ids % 9 == 0))
SOURCES = overlapping(ROWS, ("east", "west"), 3)
NEWEST = int(ROWS.t.max())
LATE = Rows.of("late", [10**6, 10**6 + 1], [NEWEST - 5, NEWEST + 7], [3, 4], [5, 6])


@pytest.fixture
def third(tmp_path: Path) -> Path:
    """A store as version 3 wrote it, with epochs that are complete and epochs that were thinned."""
    path = tmp_path / "wane.duckdb"
    create(path, list(VERSION_1))
    fill_by_epoch(path, SOURCES, epsilon=EPSILON)
    migrate_as_it_was(path, 3)
    return path


def inside(rows: Rows, begin: int, end: int) -> Rows:
    return rows.take((rows.t >= begin) & (rows.t < end))


def parts_of(by_source: Mapping[str, Rows]) -> tuple[bytes, list[tuple[int, int, bytes]]]:
    """The parts of a sample that is built anew from rows."""
    built = [Sample.build(events(rows)).named(name) for name, rows in by_source.items()]
    found = Sample.union(built).parts(EPOCH)
    return found.head, [(one.oldest, one.newest, one.payload) for one in found.segments]


def complete_rows() -> dict[str, Rows]:
    return {name: rows.take(rows.t >= BUSY) for name, rows in SOURCES.items()}


def check_answers(path: Path, by_source: Mapping[str, Rows]) -> list[float]:
    """Every interval holds the truth, for all sources and for one; the estimates."""
    found = []
    for sources in ((), ("east",)):
        oracle = Oracle(joined([by_source[name] for name in sources or tuple(by_source)]))
        for aggregate in ("count", "sum"):
            for decay in ("none", "window:30m", "exp:half_life=20m"):
                question = Question(aggregate, decay, as_of=NEWEST, counting="weight", confidence=0.9999)
                answer = Store(path).ask(STREAM, question, sources=sources)
                assert answer.provenance.complete
                assert answer.estimate.lower <= oracle.answer(question) <= answer.estimate.upper
                found.append(answer.estimate.value)
    return found


def before_the_form_changed(rows: Rows, source: str, start: int) -> EpochSketches:
    """Rows of an epoch as ingest sends them while the store has a sketch of it in the earlier form."""
    sketch = EpochSample.build(events(rows), epsilon=EPSILON)
    return replace(part(rows, source, start), sketches=[sketch, Sample.build(events(rows.take(rows.ids < 0)))])


def test_the_store_answers_right_after_the_migration(third: Path) -> None:
    """Nothing is moved yet; what was thinned is estimated, what is complete exact."""
    migrate(third, 1)
    assert content(third)["heads"] == []
    check_answers(third, SOURCES)
    asked = Store(third)
    assert not asked.ask(STREAM, Question("count")).estimate.exact
    recent = asked.ask(STREAM, Question("count", f"window:{NEWEST - BUSY}s", as_of=NEWEST))
    assert recent.estimate.value == len(inside(ROWS, BUSY + 1, NEWEST + 1))


def test_the_next_commit_moves_complete_epochs_exactly(third: Path) -> None:
    """Head and segments are those of a sample that is built anew; thinned epochs stay as they are, and answers too."""
    migrate(third, 1)
    before, thinned = check_answers(third, SOURCES), {key for key in payloads(third) if key[1] < BUSY}
    kept = {key: payloads(third)[key] for key in thinned}
    assert 0 < len(thinned) < len(payloads(third))
    stored(third, {"east": LATE})
    assert payloads(third) == kept
    assert stream_parts(third) == parts_of(
        {"east": joined([complete_rows()["east"], LATE]), "west": complete_rows()["west"]}
    )
    both = {"east": joined([SOURCES["east"], LATE]), "west": SOURCES["west"]}
    after = check_answers(third, both)
    assert np.array(after) == pytest.approx(np.array(before), rel=0.02)
    again = stream_parts(third), payloads(third)
    stored(third, {"east": LATE})
    assert (stream_parts(third), payloads(third)) == again, "there is nothing left to move"
    held = Store(third).catalogue().streams[STREAM]
    assert held.earlier_keys("sample") == {(source, start) for source, start, _ in thinned}


@pytest.mark.parametrize("moved", [False, True], ids=["first run", "later run"])
def test_late_rows_of_an_epoch_in_the_earlier_form(third: Path, moved: bool) -> None:
    """Of a thinned epoch they merge into it; of a complete one, which the same run moves, none is lost."""
    if moved:
        stored(third, {"east": LATE})
    early = Rows.of("early", np.arange(50) + 10**7, FIRST + np.arange(50), np.arange(50))
    recent = Rows.of("recent", np.arange(20) + 10**8, BUSY + EPOCH + np.arange(20), np.arange(20))
    found = [before_the_form_changed(early, "east", FIRST)]
    found += parts({"east": recent}) if moved else [before_the_form_changed(recent, "east", BUSY + EPOCH)]
    commit(third, run_of(found))
    epoch = joined([inside(SOURCES["east"], FIRST, FIRST + EPOCH), early])
    assert payloads(third)["east", FIRST, "sample"] == EpochSample.build(events(epoch), epsilon=EPSILON).to_bytes()
    assert all(start < BUSY for _, start, _ in payloads(third))
    east = joined([complete_rows()["east"], recent, *([LATE] if moved else [])])
    assert stream_parts(third) == parts_of({"east": east, "west": complete_rows()["west"]})
    every = [SOURCES["east"], early, recent, *([LATE] if moved else [])]
    check_answers(third, {"east": joined(every), "west": SOURCES["west"]})


def test_an_epoch_is_moved_with_all_its_sources_or_not_at_all(tmp_path: Path) -> None:
    """An event that a thinned sample and a complete one both hold goes on to count once, as do late rows of it."""
    path = tmp_path / "wane.duckdb"
    create(path, list(VERSION_1))
    busy = inside(EVERY, 0, BUSY)
    quiet = busy.take(np.arange(0, len(busy), 20))
    fill_by_epoch(path, {"east": busy, "west": quiet}, epsilon=EPSILON)
    migrate_as_it_was(path, 3)
    migrate(path, 1)
    keys = set(payloads(path))
    question = Question("count", as_of=NEWEST, confidence=0.9999)
    before = Store(path).ask(STREAM, question).estimate
    stored(path, {"east": LATE})
    assert set(payloads(path)) == keys, "complete ones stay beside those that were thinned"
    fresh = [before_the_form_changed(quiet.take(quiet.t < FIRST + EPOCH), "new", FIRST)]
    commit(path, run_of(fresh))
    assert set(payloads(path)) == {*keys, ("new", FIRST, "sample")}
    after = Store(path).ask(STREAM, question).estimate
    assert after.value == pytest.approx(before.value + 1, rel=1e-12), "of the late rows one is older than the question"
    own = Store(path).ask(STREAM, question, sources=["west", "new"]).estimate
    assert own.value == len(quiet)


def test_a_backfill_does_not_bring_old_rows_back(third: Path) -> None:
    """Epochs in the earlier form that it replaces are gone, thinned or complete; the others are moved."""
    begin, end = FIRST + EPOCH, BUSY + EPOCH
    again = Rows.of("again", np.arange(30) + 10**7, begin + 60 * np.arange(30), np.arange(30))
    commit(third, run_of(parts({"east": again}), replacing=(begin, end)))
    left = {name: joined([inside(rows, 0, begin), inside(rows, end, 2**62)]) for name, rows in SOURCES.items()}
    assert {start for _, start, _ in payloads(third)} == {FIRST}
    check_answers(third, left | {"east": joined([left["east"], again])})
    recent = {name: inside(rows, end, 2**62) for name, rows in SOURCES.items()}
    assert stream_parts(third) == parts_of(recent | {"east": joined([recent["east"], again])})


def test_a_damaged_sketch_in_the_earlier_form_stays_a_gap(third: Path) -> None:
    """It is neither moved nor lost from sight."""
    damaged = flipped(payloads(third)["west", BUSY, "sample"], -1)
    replace_payload(third, "west", BUSY, damaged, "sample")
    stored(third, {"east": LATE})
    assert payloads(third)["west", BUSY, "sample"] == damaged
    (gap,) = Store(third).ask(STREAM, Question("count")).provenance.missing
    assert (gap.source, gap.start, gap.length, gap.family) == ("west", BUSY, EPOCH, "sample")
    assert Store(third).ask(STREAM, Question("count"), sources=["east"]).provenance.complete
