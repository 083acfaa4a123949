"""Commits: whole or not at all, and a store that does not depend on how its events were spread over runs."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from sketches import Question, Sample
from sketches.encoding.envelope import FORMAT_VERSION
from sketches.sampling.integral import Integral
from sketches.units import TimeUnit
from store import (
    AlreadyIngestedError,
    EpochSketches,
    InputFile,
    Reject,
    Run,
    SketchTables,
    Store,
    StoreError,
    Stream,
    commit,
)
from store.schema import RANDOM_BITS, VERSION
from store.serving.catalogue import Rejected
from tests.support.by_epoch_family import ByEpoch
from tests.support.oracle import Oracle
from tests.support.stores import (
    BY_EPOCH,
    EPOCH,
    NOON,
    STREAM,
    beside,
    content,
    events,
    flipped,
    named,
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

ROWS = STREAMS["late"](3_000, 1)
FIRST = int(ROWS.t.min() - ROWS.t.min() % EPOCH)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "wane.duckdb"


def test_a_run_is_stored_with_all_that_belongs_to_it(path: Path) -> None:
    """Sketches by epoch and in parts, totals, ledger, files, rejects, settings and the generation of one commit."""
    rows = STREAMS["keys"](40, 1).take(np.arange(3))
    unit = TimeUnit(1, 1000)
    sketch, whole = ByEpoch.build(events(rows), unit=unit), Sample.build(events(rows), unit=unit).named("north")
    payload = sketch.to_bytes()
    head, (segment,) = whole.parts(EPOCH).head, whole.parts(EPOCH).segments
    size = len(payload) + len(head) + len(segment.payload)
    run = Run(
        Stream(STREAM, EPOCH, unit, {"epsilon": 0.05}),
        SketchTables.of([EpochSketches("north", 0, EPOCH, 3, 7.0, 5, 99, [sketch, whole])]),
        NOON,
        NOON + timedelta(seconds=2),
        files=[InputFile("a.parquet", 123, "f00", 4, 10**18, 5, 99)],
        rejects=[Reject("no time", 1, [{"id": 4, "time": None}])],
        rows=4,
        conflicts=2,
        clock=70,
        repeats=1,
        ahead=2,
    )
    assert commit(path, run) == 1
    found = content(path)
    assert found["wane"] == [(VERSION, 1, *named(path))]
    assert found["streams"] == [(STREAM, 1, 1000, EPOCH, '{"epsilon": 0.05}')]
    assert found["epochs"] == [(STREAM, 0, EPOCH, 3, 7.0, 5, 99, 70)]
    assert found["sources"] == [(STREAM, "north", 3, 7.0, 5, 99, 70)]
    assert found["sketches"] == [(STREAM, "north", 0, EPOCH, "by-epoch", FORMAT_VERSION, len(payload), 1, payload)]
    assert found["heads"] == [(STREAM, "sample", len(head), 1, head)]
    times = int(rows.t.min()), int(rows.t.max())
    assert found["segments"] == [(STREAM, "sample", *times, 3, len(segment.payload), 1, segment.payload)]
    assert found["runs"] == [(1, STREAM, NOON, NOON + timedelta(seconds=2), 4, 1, 2, 2, 0, size, 1, 2)]
    assert found["files"] == [(1, STREAM, "a.parquet", 123, "f00", 4, 10**18, 5, 99)]
    assert found["rejects"] == [(1, STREAM, "no time", 1, '[{"id": 4, "time": null}]')]
    assert found["set_aside"] == []


def test_late_events_merge_into_the_stored_epoch(path: Path) -> None:
    """Two commits into the same epochs hold the bytes of one sketch built from all events at once."""
    early, late = ROWS.split(2, 7)
    for rows in (early, late):
        stored(path, {"north": rows}, epsilon=0.2, families=BY_EPOCH)
    at_once = parts({"north": ROWS}, epsilon=0.2, families=BY_EPOCH)
    assert payloads(path) == {(one.source, one.start, "by-epoch"): one.sketches[0].to_bytes() for one in at_once}
    held = Store(path).catalogue().streams[STREAM].epochs
    assert sum(epoch.events for epoch in held.values()) == len(ROWS)
    assert sum(epoch.weight for epoch in held.values()) == ROWS.w.sum()
    for epoch, known in held.items():
        inside = ROWS.t[(ROWS.t >= epoch.start) & (ROWS.t < epoch.start + epoch.length)]
        assert (known.oldest, known.newest) == (inside.min(), inside.max())


@pytest.mark.slow
@pytest.mark.parametrize("runs", [2, 5])
def test_several_commits_equal_one(path: Path, runs: int) -> None:
    """However the rows of overlapping sources are spread over runs, in any order, the sketches are the same."""
    sources = overlapping(ROWS, ["east", "north", "west"], 3)
    both = ("by-epoch", "sample")
    stored(path, sources, epsilon=0.2, families=both)
    spread = path.with_name("spread.duckdb")
    split = {name: rows.shuffled(5).split(runs, 11) for name, rows in sources.items()}
    for number in range(runs):
        stored(spread, {name: pieces[number] for name, pieces in split.items()}, epsilon=0.2, families=both)
    assert payloads(spread) == payloads(path)
    assert stream_parts(spread) == stream_parts(path)
    for totals in ("epochs", "sources"):
        assert content(spread)[totals] == content(path)[totals]
    assert content(spread)["wane"] == [(VERSION, runs, *named(spread))]


def test_committing_the_same_rows_again_changes_no_sample(path: Path) -> None:
    """The sample forgives what the ledger did not catch."""
    both = ("by-epoch", "sample")
    stored(path, {"north": ROWS}, epsilon=0.2, families=both)
    before = payloads(path), stream_parts(path)
    stored(path, {"north": ROWS}, epsilon=0.2, families=both)
    assert (payloads(path), stream_parts(path)) == before


def test_parts_of_one_run_in_one_epoch_merge(path: Path) -> None:
    """A run may hand over an epoch in pieces; one row is stored, and late events do not lose a piece."""
    rows = ROWS.take(ROWS.t < FIRST + EPOCH)
    pieces = rows.split(3, 1)
    commit(path, run_of([part(piece, "north", FIRST, families=BY_EPOCH) for piece in pieces[:2]]))
    commit(path, run_of([part(pieces[2], "north", FIRST, families=BY_EPOCH)]))
    assert payloads(path) == {("north", FIRST, "by-epoch"): ByEpoch.build(events(rows)).to_bytes()}
    assert len(content(path)["sketches"]) == len(content(path)["epochs"]) == 1


def test_families_merge_each_for_itself(path: Path) -> None:
    """An epoch with two families keeps both through late events."""
    rows = ROWS.take(ROWS.t < FIRST + EPOCH)
    early, late = rows.split(2, 3)
    for piece in (early, late):
        commit(path, run_of([part(piece, "north", FIRST, families=("by-epoch", "integral"))]))
    assert payloads(path) == {
        ("north", FIRST, "by-epoch"): ByEpoch.build(events(rows)).to_bytes(),
        ("north", FIRST, "integral"): Integral.build(events(rows), decay="window:20m", counting="weight").to_bytes(),
    }


def test_only_the_rows_that_a_commit_touches_get_its_generation(path: Path) -> None:
    """What readers need to know to re-read no more than what changed."""
    stored(path, {"north": ROWS, "south": ROWS}, families=BY_EPOCH)
    commit(path, run_of([part(ROWS.take(ROWS.t < FIRST + EPOCH), "south", FIRST, families=BY_EPOCH)]))
    held = Store(path).catalogue().streams[STREAM].sketches["by-epoch"]
    changed = [(epoch.source, epoch.start) for epoch, (mark, _) in held.items() if mark >> RANDOM_BITS == 2]
    assert changed == [("south", FIRST)]
    assert len(held) == 14


def test_streams_do_not_touch_each_other(path: Path) -> None:
    """Same source, same epochs, another stream: other rows."""
    stored(path, {"north": ROWS}, stream="calls")
    before = stream_parts(path, "calls")
    stored(path, {"north": STREAMS["uniform"](500, 2)}, stream="requests")
    assert stream_parts(path, "calls") == before != stream_parts(path, "requests")
    assert Store(path).ask("requests", Question("count")).estimate.value == 500
    assert Store(path).ask("calls", Question("count")).estimate.value == len(ROWS)


def test_replacing_drops_the_epochs_of_a_range_first(path: Path) -> None:
    """A backfill: inside the range only the new events count, outside the old ones stay; its edges are epochs' own."""
    stored(path, {"north": ROWS, "south": ROWS})
    again = STREAMS["late"](500, 9)
    middle = again.take((again.t >= FIRST + EPOCH) & (again.t < FIRST + 3 * EPOCH))
    run = run_of(parts({"north": middle}), replacing=(FIRST + EPOCH, FIRST + 3 * EPOCH))
    assert commit(path, run) == 2
    outside = ROWS.take((ROWS.t < FIRST + EPOCH) | (ROWS.t >= FIRST + 3 * EPOCH))
    question = Question("sum", "exp:half_life=20m")
    answer = Store(path).ask(STREAM, question, sources=["north"])
    assert answer.provenance.complete
    assert answer.estimate.value == pytest.approx(Oracle(joined([outside, middle])).answer(question))
    south = Store(path).ask(STREAM, question, sources=["south"])
    assert south.estimate.value == pytest.approx(Oracle(outside).answer(question))


def test_replacing_forgets_what_was_set_aside(path: Path) -> None:
    """Events that were read again are no gap any more."""
    stored(path, {"north": ROWS}, families=BY_EPOCH)
    replace_payload(path, "north", FIRST, b"damaged")
    stored(path, {"north": ROWS}, families=BY_EPOCH)
    assert not Store(path).ask(STREAM, Question("count")).provenance.complete
    commit(path, run_of(parts({"north": ROWS}, families=BY_EPOCH), replacing=(FIRST, FIRST + EPOCH)))
    answer = Store(path).ask(STREAM, Question("count"))
    assert answer.provenance.complete
    assert answer.estimate.value == len(ROWS)


@pytest.mark.parametrize("unit", [TimeUnit(1, 1000), TimeUnit(60, 1)])
def test_another_unit_of_time_is_refused(path: Path, unit: TimeUnit) -> None:
    """A stream's clock is part of what it is; both units are named and nothing is written."""
    stored(path, {"north": ROWS})
    before = content(path)
    named = f"{unit.numerator}/{unit.denominator} s"
    with pytest.raises(StoreError, match=rf"'calls' counts time in 1/1 s, not {named}; another unit needs another"):
        commit(path, run_of(parts({"north": ROWS}, unit=unit), unit=unit))
    assert content(path) == before


def test_events_sampled_to_another_accuracy_are_refused_whole(path: Path) -> None:
    """A run whose late events cannot merge names both accuracies and leaves nothing behind, not even what could."""
    stored(path, {"north": ROWS}, families=BY_EPOCH)
    before = content(path)
    fine = part(STREAMS["uniform"](10, 1), "south", FIRST, families=BY_EPOCH)
    both = r"stream 'calls' .* at north from .*epsilon=0\.05.* and .*epsilon=0\.3.*\(stored and new\)"
    with pytest.raises(StoreError, match=both):
        commit(path, run_of([fine, *parts({"north": ROWS}, epsilon=0.3, families=BY_EPOCH)]))
    assert content(path) == before


@pytest.mark.parametrize("failing", ["runs", "rejects", "files", "packed_sources", "heads"])
def test_a_commit_that_fails_late_leaves_no_trace(path: Path, failing: str) -> None:
    """Where some table cannot be written, what was written just before it is gone as well."""
    stored(path, {"north": ROWS})
    with duckdb.connect(str(path)) as connection:
        connection.execute(f"ALTER TABLE {failing} ADD COLUMN surprise INTEGER")
    before = content(path)
    everything = {
        "rejects": [Reject("no time", 1)],
        "files": [InputFile("a.parquet", 1, "f00", 1, 1)],
    }
    with pytest.raises(StoreError):
        commit(path, run_of(parts({"south": ROWS}), **everything))
    assert content(path) == before


def test_nothing_is_left_in_the_write_ahead_log(path: Path) -> None:
    """A log that was cut short would lose commits silently, so each commit ends in the file itself."""
    for seed in range(3):
        stored(path, {"north": STREAMS["uniform"](50, seed)})
        assert beside(path) == []
    copied = path.with_name("copy.duckdb")
    copied.write_bytes(path.read_bytes())
    assert Store(copied).catalogue().generation == 3


def test_a_run_without_events_still_counts(path: Path) -> None:
    """A file of rejects only: the ledger knows it, no epoch appears."""
    rejects = [Reject("no time", 4, ["a", "b"])]
    assert commit(path, run_of([], rejects=rejects, rows=4, files=[InputFile("a.csv", 9, "f00", 4, 1)])) == 1
    found = content(path)
    assert len(found["runs"]) == len(found["files"]) == len(found["rejects"]) == 1
    assert found["epochs"] == found["sketches"] == []


def test_late_events_of_a_damaged_epoch_are_kept_and_the_gap_is_known(path: Path) -> None:
    """The damaged bytes move aside with their reason; the late events answer, and the epoch stays named as a gap."""
    rows = ROWS.take(ROWS.t < FIRST + EPOCH)
    early, late = rows.split(2, 3)
    commit(path, run_of([part(early, "north", FIRST, families=BY_EPOCH)]))
    damaged = flipped(payloads(path)["north", FIRST, "by-epoch"], -1)
    replace_payload(path, "north", FIRST, damaged)
    commit(path, run_of([part(late, "north", FIRST, families=BY_EPOCH)]))
    ((stream, source, start, length, family, generation, reason, payload),) = content(path)["set_aside"]
    assert (stream, source, start, length, family, generation) == (STREAM, "north", FIRST, EPOCH, "by-epoch", 2)
    assert "checksum" in reason
    assert payload == damaged
    answer = Store(path).ask(STREAM, Question("count"))
    assert answer.estimate.value == len(late)
    assert answer.estimate.guarantee.startswith(f"INCOMPLETE: 1 epoch is missing (north at {FIRST})")
    commit(path, run_of([part(late, "north", FIRST, families=BY_EPOCH)]))
    assert not Store(path).ask(STREAM, Question("count")).provenance.complete


def test_streams_of_one_commit_share_a_generation(path: Path) -> None:
    """One transaction for all streams: one generation, and where one run fails the others leave no trace."""
    calls, requests = run_of(parts({"north": ROWS})), run_of(parts({"west": ROWS}), stream="requests")
    assert commit(path, [calls, requests]) == 1
    found = content(path)
    assert [row[:2] for row in found["runs"]] == [(1, STREAM), (1, "requests")]
    assert {row[0] for row in found["heads"]} == {row[0] for row in found["segments"]} == {STREAM, "requests"}
    known = InputFile("a.csv", 1, "f00", 1, 1)
    commit(path, replace(requests, files=[known]))
    before = content(path)
    with pytest.raises(AlreadyIngestedError):
        commit(path, [calls, replace(requests, files=[known])])
    assert content(path) == before


def test_a_commit_takes_one_run_a_stream(path: Path) -> None:
    """Two runs of a stream would merge past each other; none at all is a mistake too."""
    with pytest.raises(StoreError, match="one run a stream, not 2 of calls"):
        commit(path, [run_of([]), run_of([])])
    with pytest.raises(StoreError, match="one run a stream, not 0 of none"):
        commit(path, [])
    assert not path.exists()


def test_late_rows_are_counted(path: Path) -> None:
    """Late are the events of an epoch that was over when the newest event came that their source had before."""

    def brought(source: str, start: int, count: int) -> EpochSketches:
        times = start + np.arange(count)
        return part(Rows.of("late", 10_000 * start + np.arange(count), times, np.ones(count, int)), source, start)

    commit(path, run_of([brought("north", 0, 3), brought("north", 2 * EPOCH, 1), brought("south", 0, 2)]))
    late = [
        brought("north", 0, 5),  # over long since
        brought("north", EPOCH, 7),  # over at the very moment of the newest event
        brought("north", 2 * EPOCH, 11),  # the newest event is of this epoch
        brought("north", 3 * EPOCH, 13),
        brought("south", 0, 17),  # south has seen nothing newer
        brought("west", 0, 19),  # a new source has nothing to be late for
    ]
    commit(path, run_of(late))
    commit(path, run_of([brought("north", 0, 2)], stream="other"))
    commit(path, run_of([brought("north", 0, 23)], replacing=(0, 4 * EPOCH)))
    assert [(*row[:2], row[8]) for row in content(path)["runs"]] == [
        (1, STREAM, 0),
        (2, STREAM, 5 + 7),
        (3, "other", 0),
        (4, STREAM, 23),
    ]


def test_new_rows_are_written_as_they_came(path: Path) -> None:
    """Payloads that meet no other are not opened: 200,000 of them take two seconds at most, not minutes."""
    count = 200_000
    numbers = np.arange(count)
    epochs = {
        "source": pa.array(numbers % 50).cast(pa.string()),
        "start": numbers // 50 * EPOCH,
        "length": np.full(count, EPOCH),
        "events": np.ones(count, int),
        "weight": np.ones(count),
        "oldest": numbers // 50 * EPOCH,
        "newest": numbers // 50 * EPOCH,
    }
    packed = np.random.default_rng(1).bytes(100 * count)
    sketches = {name: epochs[name] for name in ("source", "start", "length")} | {
        "family": pa.array(["by-epoch"]).take(pa.array(np.zeros(count, int))),
        "payload": pa.array([packed[at : at + 100] for at in range(0, 100 * count, 100)], pa.binary()),
    }
    run = Run(Stream(STREAM, EPOCH), SketchTables(pa.table(epochs), pa.table(sketches)), NOON, NOON)
    start = time.process_time()
    commit(path, run)
    assert time.process_time() - start < 4  # of two cores
    with duckdb.connect(str(path), read_only=True) as connection:
        kept = connection.execute("SELECT count(*), sum(octet_length(payload)) FROM sketches").fetchall()
        assert kept == [(count, 100 * count)]
        assert connection.execute("SELECT sketches, bytes FROM runs").fetchall() == kept
        assert connection.execute("SELECT payload FROM sketches WHERE source = '7' AND start = 0").fetchall() == [
            (packed[700:800],)
        ]


def test_columns_must_be_the_agreed_ones(path: Path) -> None:
    """A missing column and a wrong type are named at once; more columns and narrower numbers are welcome."""
    good = SketchTables.of(parts({"north": ROWS}))
    with pytest.raises(StoreError, match="epochs lack the columns weight; they need source, start, length, events"):
        SketchTables(good.epochs.drop(["weight"]), good.sketches)
    with pytest.raises(StoreError, match="sketches do not have the types"):
        SketchTables(good.epochs, good.sketches.set_column(1, "start", [["noon"] * len(good.sketches)]))
    narrow = good.epochs.set_column(3, "events", good.epochs["events"].cast(pa.int32())).append_column(
        "more", good.epochs["start"]
    )
    assert SketchTables(narrow, good.sketches).epochs == good.epochs


@pytest.mark.parametrize(("family", "where"), [("by-epoch", "north from"), ("sample", "all sources over all epochs")])
def test_a_damaged_sketch_in_a_run_is_refused(path: Path, family: str, where: str) -> None:
    """Bytes that a run brings and that must be merged are checked; those of the store are not blamed for it."""
    stored(path, {"north": ROWS}, families=[family])
    before = content(path)
    good = SketchTables.of(parts({"north": ROWS}, families=[family]))
    bad = good.sketches.set_column(4, "payload", [[b"damaged"] * len(good.sketches)])
    with pytest.raises(StoreError, match=f"the run brings a damaged {family} sketch of stream 'calls', {where}"):
        commit(path, replace(run_of([]), tables=SketchTables(good.epochs, bad)))
    assert content(path) == before


def clocked(path: Path, rows: Rows, clock: int | None) -> None:
    """A run of one epoch whose clock shows this time."""
    commit(path, run_of([part(rows, "north", 0)], clock=clock))


def at(*times: int) -> Rows:
    """Events at these times, with ids of their own."""
    return Rows.of("at", [1000 + time for time in times], list(times), [1] * len(times))


def test_as_of_is_never_later_than_the_clock_of_the_run(path: Path) -> None:
    """One sensor whose clock is ahead does not move the as-of time; the newest event is told all the same."""
    clocked(path, at(10, 20, 590), 30)
    held = Store(path).catalogue().streams[STREAM]
    assert (held.as_of(), held.newest(["north"])) == (30, 590)
    clocked(path, at(35), 40)
    assert Store(path).catalogue().streams[STREAM].as_of() == 35
    clocked(path, at(5), 100)
    assert Store(path).catalogue().streams[STREAM].as_of() == 35, "an earlier run saw no later event in its time"


def test_times_that_are_of_no_clock_count_as_they_are(path: Path) -> None:
    """Where every event is ahead of the clock, or the clock is not known, the as-of time is the newest event."""
    clocked(path, at(300, 400), 30)
    assert Store(path).catalogue().streams[STREAM].as_of() == 400
    other = path.with_name("other.duckdb")
    clocked(other, at(10, 20), None)
    assert Store(other).catalogue().streams[STREAM].as_of() == 20
    empty = path.with_name("empty.duckdb")
    commit(empty, run_of([]))
    assert Store(empty).catalogue().streams[STREAM].as_of() is None


def test_a_backfill_forgets_the_clock_of_what_it_replaces(path: Path) -> None:
    """An epoch that is built anew has the clock of the run that built it."""
    clocked(path, at(10, 20, 590), 30)
    commit(path, run_of([part(at(10, 20), "north", 0)], clock=700, replacing=(0, EPOCH)))
    assert Store(path).catalogue().streams[STREAM].as_of() == 20


def test_the_catalogue_says_how_many_rows_were_rejected_and_mostly_why(path: Path) -> None:
    """Over all runs: rows read, rows rejected, and the reason with the most rows."""
    clocked(path, at(10), None)
    assert Store(path).catalogue().streams[STREAM].rejected is None
    commit(path, run_of([], rows=10, rejects=[Reject("no time", 3), Reject("no id", 2)]))
    commit(path, run_of([], rows=30, rejects=[Reject("no id", 5)]))
    found = Store(path).catalogue().streams[STREAM].rejected
    assert found == Rejected(read=40, rows=10, reason="no id")
    assert found.share == 0.25


def said_unique(path: Path, found: list[EpochSketches], unique: bool = True, **more: Any) -> dict[str, Any]:
    """Commit a run of a stream that says whether an event may come twice; the settings that the store then has."""
    run = Run(Stream(STREAM, EPOCH, settings={"unique": unique}), SketchTables.of(found), NOON, NOON, **more)
    commit(path, run)
    return Store(path).catalogue().streams[STREAM].described


def test_a_repeat_revokes_that_a_stream_has_none(path: Path) -> None:
    """The store says when it was seen; a stream that says so again stays revoked, and so does one that was warned."""
    assert said_unique(path, [part(at(10), "north", 0)]) == {"unique": True}
    revoked = {"unique": False, "unique_revoked": "2 repeated rows were seen in the run of 2026-01-31 12:00:00 UTC"}
    assert said_unique(path, [part(at(20), "north", 0)], repeats=2) == revoked
    assert said_unique(path, [part(at(30), "north", 0)]) == revoked
    assert said_unique(path, [part(at(40), "north", 0)], unique=False) == revoked
    assert said_unique(path, [part(at(50), "north", 0)]) == revoked
    other = path.with_name("other.duckdb")
    assert said_unique(other, [part(at(10), "north", 0)], unique=False, repeats=1) == {"unique": False}
    assert said_unique(other, [part(at(20), "north", 0)])["unique_revoked"].startswith("1 repeated row was seen")


def test_events_that_come_again_in_a_later_run_are_repeats(path: Path) -> None:
    """A stored event that a later run brings again is seen where the sketches forgive it, and revokes likewise."""
    assert said_unique(path, [part(at(10, 20, 30), "north", 0)]) == {"unique": True}
    assert said_unique(path, [part(at(15, 25), "north", 0)]) == {"unique": True}
    assert said_unique(path, [part(at(20, 30, 40), "north", 0)])["unique_revoked"].startswith("2 repeated rows")
    assert [row[10] for row in content(path)["runs"]] == [0, 0, 2]
