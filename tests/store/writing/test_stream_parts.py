"""A sketch of a whole stream, stored in parts: the same bytes however events come, and damage in one stretch only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sketches import Question, Sample
from store import Store, commit
from store.serving.report import report
from tests.support.oracle import Oracle
from tests.support.stores import (
    EPOCH,
    STREAM,
    content,
    events,
    flipped,
    named,
    overlapping,
    parts,
    replace_head,
    replace_segment,
    run_of,
    stored,
    stream_parts,
)
from tests.support.streams import STREAMS, joined
from tests.support.streams import Stream as Rows

ROWS = STREAMS["late"](3_000, 1)
NAMES = ("east", "north", "west")
SOURCES = overlapping(ROWS, NAMES, 3)
FIRST = int(ROWS.t.min() - ROWS.t.min() % EPOCH)
NEWEST = int(ROWS.t.max())
COARSE: dict[str, Any] = {"epsilon": 0.3, "detail": 1}  # so few that most events are thinned out
COUNT = Question("count")


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a store goes whose segments have a few hundred rows."""
    monkeypatch.setattr("sketches.sampling.layout.segments.SEGMENT_ROWS", 400)
    return tmp_path / "wane.duckdb"


def at_once(sources: Mapping[str, Rows], **settings: Any) -> tuple[bytes, list[tuple[int, int, bytes]]]:
    """The parts that one machine makes of all rows."""
    built = [Sample.build(events(own), **settings).named(name) for name, own in sources.items()]
    found = Sample.union(built).parts(EPOCH)
    return found.head, [(one.oldest, one.newest, one.payload) for one in found.segments]


def inside(rows: Rows, begin: int, end: int) -> Rows:
    return rows.take((rows.t >= begin) & (rows.t < end))


def totals(path: Path) -> dict[str, tuple[int, float]]:
    """Rows and weight, added up over epochs and over sources."""
    whole = content(path)
    return {
        name: (sum(row[at] for row in whole[name]), sum(row[at + 1] for row in whole[name]))
        for name, at in (("epochs", 3), ("sources", 2))
    }


@pytest.mark.parametrize("settings", [{}, COARSE, COARSE | {"per_source": 40, "fine": 900}], ids=["all", "few", "more"])
def test_any_order_of_commits_gives_the_same_bytes(path: Path, settings: dict[str, Any]) -> None:
    """Shuffled, late and repeated rows of sources that report the same events: the parts are those of one run."""
    expected = at_once(SOURCES, **settings)
    assert len(expected[1]) > 1
    split = {name: rows.shuffled(5).split(3, 11) for name, rows in SOURCES.items()}
    for number, order in enumerate(((0, 1, 2), (2, 0, 1))):
        spread = path.with_name(f"{number}.duckdb")
        for piece in order:
            stored(spread, {name: pieces[piece] for name, pieces in split.items()}, **settings)
            stored(spread, {"north": split["north"][order[0]]}, **settings)  # once more
        assert stream_parts(spread) == expected
    kept = sum(row[4] for row in content(spread)["segments"])
    assert (kept < len(ROWS) / 2) == bool(settings)


def test_a_second_of_many_events_keeps_its_order(path: Path) -> None:
    """Segments of one moment have the same times; written in several commits they still hold each event once."""
    rows = STREAMS["one-second"](1_500, 2)
    both = {"east": rows, "west": rows}
    for piece in range(3):
        stored(path, {name: one.split(3, 4)[piece] for name, one in both.items()})
    assert len(stream_parts(path)[1]) > 2
    assert Store(path).ask(STREAM, COUNT).estimate.value == len(rows.distinct())
    for source in both:
        assert Store(path).ask(STREAM, COUNT, sources=[source]).estimate.value == len(rows.distinct())


def test_segments_that_did_not_change_are_not_written_again(path: Path) -> None:
    """A run writes the stretches that it adds to, and their generation tells."""
    stored(path, SOURCES)
    before = stream_parts(path)[1]
    late = Rows.of("late", [10**6], [NEWEST], [7])
    stored(path, {"north": late})
    changed = [row for row in content(path)["segments"] if row[6] == 2]
    assert len(before) > 2
    assert [row[3] for row in changed] == [NEWEST]


@pytest.mark.parametrize("bring", [True, False])
def test_a_backfill_takes_rows_out_by_time_and_brings_new_ones(path: Path, bring: bool) -> None:
    """Inside the range only what it brings counts, for all sources and for each; totals add up to the rows."""
    begin, end = FIRST + EPOCH, FIRST + 3 * EPOCH
    stored(path, SOURCES)
    again = {"north": inside(STREAMS["late"](900, 9), begin, end)} if bring else {}
    commit(path, run_of(parts(again), replacing=(begin, end)))
    left = {
        name: joined(
            [inside(rows, -(2**62), begin), inside(rows, end, 2**62), *([again[name]] if name in again else [])]
        )
        for name, rows in SOURCES.items()
    }
    assert len(joined(list(left.values())).distinct()) < len(ROWS.distinct())
    question = Question("sum", "exp:half_life=20m", counting="weight")
    for sources in ((), ("north",), ("east", "west")):
        answer = Store(path).ask(STREAM, question, sources=sources)
        exact = Oracle(joined([left[name] for name in sources or NAMES])).answer(question.at(answer.estimate.as_of))
        assert answer.estimate.value == pytest.approx(exact)
        assert answer.provenance.complete
    rows = sum(map(len, left.values()))
    assert totals(path)["epochs"][0] == rows
    assert totals(path)["sources"] == (rows, pytest.approx(totals(path)["epochs"][1]))


def test_totals_by_epoch_and_by_source_add_up_to_the_rows(path: Path) -> None:
    """Rows count as often as they come; an epoch has those of all sources, a source those of all epochs."""
    for piece in range(2):
        stored(path, {name: rows.split(2, 5)[piece] for name, rows in SOURCES.items()})
    stored(path, {"north": SOURCES["north"]})
    every = [*SOURCES.values(), SOURCES["north"]]
    expected = sum(map(len, every)), float(sum(rows.w.sum() for rows in every))
    assert totals(path) == {"epochs": expected, "sources": expected}
    held = Store(path).catalogue().streams[STREAM]
    for span, one in held.epochs.items():
        assert one.events == sum(len(inside(rows, span.start, span.end)) for rows in every)
    assert {name: one.events for name, one in held.by_source.items()} == {
        name: len(rows) * (1 + (name == "north")) for name, rows in SOURCES.items()
    }


def broken(path: Path) -> tuple[int, int]:
    """Break a segment in the middle of a new store of all rows; its oldest and newest time."""
    stored(path, SOURCES)
    segments = stream_parts(path)[1]
    oldest, newest, payload = segments[len(segments) // 2]
    replace_segment(path, oldest, flipped(payload, len(payload) // 2))
    return oldest, newest


def test_a_damaged_segment_is_a_gap_of_its_stretch(path: Path) -> None:
    """The rest answers and is exact; the gap is named where a question reaches it, and in the report."""
    oldest, newest = broken(path)
    asked = Store(path)
    for sources in ((), ("north",)):
        answer = asked.ask(STREAM, COUNT, sources=sources)
        rows = joined([SOURCES[name] for name in sources or NAMES])
        rest = joined([inside(rows, -(2**62), oldest), inside(rows, newest + 1, 2**62)])
        assert answer.estimate.value == len(rest.distinct())
        (gap,) = answer.provenance.missing
        assert (gap.source, gap.start, gap.end, gap.family) == ("", oldest, newest + 1, "sample")
        assert "checksum" in gap.reason
        assert answer.estimate.guarantee.startswith(f"INCOMPLETE: 1 epoch is missing (all sources at {oldest}); ")
    assert asked.ask(STREAM, Question("count", as_of=oldest - EPOCH)).provenance.complete
    assert asked.ask(STREAM, Question("count", f"window:{NEWEST - newest - EPOCH}s")).provenance.complete
    assert not asked.threshold_curve(STREAM, Question("sum"), [10.0])[1].complete
    (shown,) = report(path)["streams"][0]["gaps"]
    assert (shown["source"], shown["start"], shown["length"]) == ("", oldest, newest - oldest + 1)


def test_a_later_commit_sets_a_damaged_segment_aside(path: Path) -> None:
    """Its bytes are kept, the stretch stays named, and what comes later for it answers; a backfill mends it."""
    oldest, newest = broken(path)
    damaged = [payload for start, _, payload in stream_parts(path)[1] if start == oldest]
    late = Rows.of("late", [10**6], [oldest], [7])
    stored(path, {"north": late})
    ((*key, generation, reason, payload),) = content(path)["set_aside"]
    assert key == [STREAM, "", oldest, newest - oldest + 1, "sample"]
    assert (generation, payload) == (2, damaged[0])
    answer = Store(path).ask(STREAM, COUNT)
    rest = joined([inside(ROWS, -(2**62), oldest), inside(ROWS, newest + 1, 2**62)])
    assert answer.estimate.value == len(rest.distinct()) + 1
    assert [(gap.start, gap.end) for gap in answer.provenance.missing] == [(oldest, newest + 1)]
    assert [gap["reason"] for gap in report(path)["streams"][0]["gaps"]] == [reason]
    begin, end = oldest - oldest % EPOCH, newest - newest % EPOCH + EPOCH
    commit(
        path, run_of(parts({name: inside(rows, begin, end) for name, rows in SOURCES.items()}), replacing=(begin, end))
    )
    answer = Store(path).ask(STREAM, COUNT)
    assert answer.provenance.complete
    assert answer.estimate.value == len(ROWS.distinct())


def test_a_damaged_head_is_a_gap_everywhere(path: Path) -> None:
    """Without it no row has a source or a probability: nothing answers until a run begins anew, which says the loss."""
    stored(path, SOURCES)
    head = flipped(stream_parts(path)[0], -1)
    replace_head(path, head)
    with pytest.raises(ValueError, match="no readable sample sketch"):
        Store(path).ask(STREAM, COUNT)
    (gap,) = report(path)["streams"][0]["gaps"]
    assert (gap["source"], gap["family"], gap["start_text"]) == ("", "sample", "every epoch")
    late = Rows.of("late", [10**6], [NEWEST], [7])
    stored(path, {"north": late})
    assert {(row[1:5], row[-1] == head) for row in content(path)["set_aside"]} == {(("", 0, 0, "sample"), True)}
    answer = Store(path).ask(STREAM, COUNT)
    assert answer.estimate.value == 1
    held = Store(path).catalogue().streams[STREAM]
    assert {gap.start for gap in answer.provenance.missing} == {span.start for span in held.epochs}


def kept_of(path: Path) -> Sample:
    head, segments = stream_parts(path)
    sketch, damaged = Sample.from_parts(head, [payload for *_, payload in segments])
    assert not damaged
    return sketch


@pytest.mark.parametrize(
    "steps",
    [
        [{"epsilon": 0.3, "detail": 2}, COARSE],
        [COARSE, {"epsilon": 0.3, "detail": 2}],
        [COARSE, COARSE | {"per_source": 50}],
        [COARSE, COARSE | {"fine": 2_000}],
        [COARSE | {"per_source": 50, "fine": 2_000}, COARSE],
    ],
    ids=["smaller", "larger", "per source", "fine", "no more"],
)
def test_settings_may_change(path: Path, steps: Sequence[dict[str, Any]]) -> None:
    """Cuts only rise; every interval holds the truth, for all sources and for one."""
    early, late = (
        {name: rows.take((rows.t < FIRST + 3 * EPOCH) == first) for name, rows in SOURCES.items()}
        for first in (True, False)
    )
    stored(path, early, **steps[0])
    before = kept_of(path).cuts
    stored(path, late, **steps[1])
    after = kept_of(path).cuts
    for was, now in ((before.of_count, after.of_count), (before.of_weight, after.of_weight)):
        assert (np.asarray(now) >= np.asarray(was)).all()
    for sources in ((), ("north",), ("east", "west")):
        rows = joined([SOURCES[name] for name in sources or NAMES])
        for question in (Question("count", confidence=0.9999), Question("count", "window:20m", confidence=0.9999)):
            estimate = Store(path).ask(STREAM, question, sources=sources).estimate
            assert estimate.lower <= Oracle(rows).answer(question.at(NEWEST)) <= estimate.upper
    if steps[1].get("per_source"):
        newest = np.sort(late["north"].t)[-40:]  # of those that came since all of them are kept
        question = Question("count", f"window:{NEWEST - int(newest[0])}s", as_of=NEWEST)
        assert Store(path).ask(STREAM, question, sources=["north"]).estimate.exact
    if steps[1].get("fine"):
        assert Store(path).ask(STREAM, Question("count", "window:1900s")).estimate.exact


def test_settings_of_what_tells_events_apart_may_not_change(path: Path) -> None:
    """Another seed draws other events: the run is refused whole."""
    stored(path, SOURCES)
    before = content(path)
    with pytest.raises(ValueError, match="was sketched with other settings before, at all sources over all epochs"):
        stored(path, SOURCES, seed=7)
    assert content(path) == before


def test_stores_and_commits_have_names_of_their_own(path: Path) -> None:
    """The store keeps its name, every commit has another one; a second store of the same rows has others."""
    stored(path, SOURCES)
    names = [named(path)]
    for run in (run_of([]), run_of(parts({"north": ROWS})), run_of([], replacing=(FIRST, FIRST + EPOCH))):
        commit(path, run)
        names.append(named(path))
    assert len({store for store, _ in names}) == 1
    assert len({last for _, last in names}) == len(names)
    assert Store(path).catalogue().name == names[-1]
    other = path.with_name("other.duckdb")
    stored(other, SOURCES)
    assert set(named(other)).isdisjoint(name for pair in names for name in pair)


def test_a_store_that_took_the_place_of_another_is_read_anew(path: Path) -> None:
    """Of the same generation, and so of the same size: its name tells."""
    other = path.with_name("other.duckdb")
    stored(path, {"north": ROWS.take(ROWS.t < FIRST + 2 * EPOCH)})
    stored(other, {"north": ROWS})
    asked = Store(path)
    assert asked.ask(STREAM, COUNT).estimate.value < len(ROWS.distinct())
    other.replace(path)
    assert asked.ask(STREAM, COUNT).estimate.value == len(ROWS.distinct())
