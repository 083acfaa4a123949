"""Old epochs fade in a store: fewer sketches, no gap that was not there, nothing lost, and what is missing stays so."""

from __future__ import annotations

from pathlib import Path

import duckdb
import numpy as np
import pytest

from sketches import Question
from sketches.decay import parse_decay
from sketches.promise import Built
from sketches.registry import FAMILIES as KINDS
from store import Run, SketchTables, Store, StoreError, Stream, commit, compact, forget, merge
from store.serving.epoch_holdings import as_faded, holdings_of
from store.serving.report import report
from tests.support.fading import DECAY, EPSILON, FAMILIES, HOUR, Hours, committed
from tests.support.stores import NOON

HOURS = 130


@pytest.fixture(scope="module")
def hours() -> Hours:
    return Hours.of(HOURS, 30, 1)


def keys(path: Path) -> dict[str, list[tuple[int, int]]]:
    """The stretches of each family, in hours."""
    with duckdb.connect(str(path), read_only=True) as connection:
        rows = connection.execute(
            f"SELECT family, start // {HOUR}, length // {HOUR} FROM sketches ORDER BY family, start, length"
        ).fetchall()
    found: dict[str, list[tuple[int, int]]] = {}
    for family, start, length in rows:
        found.setdefault(family, []).append((start, length))
    return found


def exact(hours: Hours, decay: str, as_of: int) -> float:
    seen = hours.t <= as_of
    return float(parse_decay(decay)((as_of - hours.t[seen]).astype(float)).sum())


def test_old_epochs_stand_together_and_answer_as_all_of_them(tmp_path: Path, hours: Hours) -> None:
    """All at once in the second run; late hours join in the third; every count is right, and no epoch is missing."""
    path = tmp_path / "wane.duckdb"
    parts = hours.epochs(FAMILIES, "north")
    late = {3, 40, 41, 100}
    rest = [one for number, one in enumerate(parts[:-2]) if number not in late]
    committed(path, [rest, parts[-2:-1]])
    once = keys(path)
    committed(path, [[parts[number] for number in sorted(late)], parts[-1:]])
    for family in FAMILIES:
        covered = [hour for start, length in keys(path)[family] for hour in range(start, start + length)]
        assert sorted(covered) == list(range(HOURS)), family
        assert len(once[family]) < HOURS / 3
        assert max(length for _, length in keys(path)[family]) == 16
    store, newest = Store(path), int(hours.t.max())
    for family in FAMILIES:
        for as_of in (newest, 100 * HOUR - 1, 64 * HOUR - 1):
            answer = store.ask("calls", Question("count", DECAY, as_of=as_of), family=family)
            true = exact(hours, DECAY, as_of)
            assert answer.provenance.complete
            assert answer.estimate.lower <= true * (1 + 1e-9)
            assert true <= answer.estimate.upper * (1 + 1e-9)
    found = report(path)["streams"][0]
    assert found["gaps"] == []
    assert {one["family"]: one["faded"] > 10 for one in found["families"]} == dict.fromkeys(FAMILIES, True)


def test_many_small_runs_keep_the_stretches_of_one_large_one(tmp_path: Path, hours: Hours) -> None:
    """However epochs came, stretches are those of the clock, or shorter where a run has left them for the next."""
    parts = hours.epochs(("histogram",), "north")
    committed(tmp_path / "few", [parts[:-1], parts[-1:]])
    committed(tmp_path / "many", [parts[:-1][at : at + 5] for at in range(0, HOURS, 5)] + [parts[-1:]])
    few, many = (keys(tmp_path / name)["histogram"] for name in ("few", "many"))
    assert len(few) <= len(many) <= 1.25 * len(few)
    for start, length in many:
        assert any(first <= start and start + length <= first + long for first, long in few)
    answers = [Store(tmp_path / name).ask("calls", Question("count")).estimate for name in ("few", "many")]
    assert answers[0].value == answers[1].value == len(hours.t)


def test_late_events_of_an_epoch_that_would_fade_count_once(tmp_path: Path, hours: Hours) -> None:
    """A run that adds to a stored epoch leaves it alone, and the next one takes it along."""
    path = tmp_path / "wane.duckdb"
    late = (hours.t // HOUR == 10) & (np.arange(len(hours.t)) % 2 == 0)
    newer = hours.t // HOUR >= HOURS - 2
    for rows in (~late & ~newer, late | (newer & (hours.t // HOUR < HOURS - 1)), hours.t // HOUR == HOURS - 1):
        committed(path, [hours.epochs(FAMILIES, "north", np.flatnonzero(rows))])
    assert Store(path).ask("calls", Question("count"), family="histogram").estimate.value == len(hours.t)
    covered = [hour for start, length in keys(path)["ecm"] for hour in range(start, start + length)]
    assert sorted(covered) == list(range(HOURS))


@pytest.mark.parametrize("settings", [{"detail": "all"}, {"detail": 4, "fine": "30d"}])
def test_settings_keep_epochs_as_they_are(tmp_path: Path, hours: Hours, settings: dict[str, object]) -> None:
    parts = hours.epochs(("histogram",), "north")
    committed(tmp_path / "wane.duckdb", [parts[:-1], parts[-1:]], **settings)
    assert keys(tmp_path / "wane.duckdb")["histogram"] == [(hour, 1) for hour in range(HOURS)]


def test_what_is_missing_stays_missing(tmp_path: Path, hours: Hours) -> None:
    """A family that was added later, a damaged sketch and one that another family has: each is a gap as before."""
    path = tmp_path / "wane.duckdb"
    both = hours.epochs(("histogram", "exponential"), "north")
    one = hours.epochs(("histogram",), "north")
    committed(path, [one[:10] + both[10:-1]])
    with duckdb.connect(str(path)) as connection:
        connection.execute(f"DELETE FROM sketches WHERE family = 'exponential' AND start = {20 * HOUR}")
        connection.execute(
            f"UPDATE sketches SET payload = payload[:30] WHERE family = 'histogram' AND start = {50 * HOUR}"
        )
    committed(path, [both[-1:]])
    assert max(length for _, length in keys(path)["histogram"]) == 16
    store = Store(path)
    for family, missing in (("exponential", [*range(10), 20]), ("histogram", [50])):
        answer = store.ask("calls", Question("count", DECAY), family=family)
        assert [gap.start // HOUR for gap in answer.provenance.missing] == missing
        gaps = [gap for gap in report(path)["streams"][0]["gaps"] if gap["family"] == family]
        assert sorted({gap["start"] // HOUR for gap in gaps}) == missing


def test_a_backfill_takes_stretches_whole_or_says_which(tmp_path: Path, hours: Hours) -> None:
    path = tmp_path / "wane.duckdb"
    parts = hours.epochs(("histogram",), "north")
    committed(path, [parts[:-1], parts[-1:]])
    begin, length = next((start, length) for start, length in keys(path)["histogram"] if length > 4)
    stream = Stream("calls", HOUR, settings={"detail": 4, "unique": True})
    again = parts[begin : begin + length]

    def backfill(first: int, end: int) -> None:
        tables = SketchTables.of([one for one in again if first * HOUR <= one.start < end * HOUR])
        commit(path, Run(stream, tables, NOON, NOON, replacing=(first * HOUR, end * HOUR)))

    with pytest.raises(StoreError, match="stand together"):
        backfill(begin + 1, begin + 2)
    backfill(begin, begin + length)
    assert (begin, 1) in keys(path)["histogram"]
    assert Store(path).ask("calls", Question("count")).estimate.value == len(hours.t)


def test_forgetting_a_part_of_a_stretch_leaves_a_gap(tmp_path: Path, hours: Hours) -> None:
    """Nobody can take an hour out of a sketch of many: it goes, and answers say so."""
    path = tmp_path / "wane.duckdb"
    parts = hours.epochs(("histogram",), "north") + hours.epochs(("histogram",), "south")
    committed(path, [parts[: HOURS - 1] + parts[HOURS:-1], [parts[HOURS - 1], parts[-1]]])
    begin, length = next((start, length) for start, length in keys(path)["histogram"] if length > 4)
    forget(path, "calls", sources=["north"], begin=(begin + 1) * HOUR, end=(begin + 2) * HOUR)
    answer = Store(path).ask("calls", Question("count"), sources=["north"])
    gaps = [(gap.start // HOUR, gap.end // HOUR) for gap in answer.provenance.missing]
    assert gaps == [(begin, begin + 1), (begin + 2, begin + length)]
    assert Store(path).ask("calls", Question("count"), sources=["south"]).provenance.complete


def test_a_store_with_faded_epochs_is_compacted_and_merged(tmp_path: Path, hours: Hours) -> None:
    """What a site holds, the centre holds: also after the site's epochs have faded between two merges."""
    site, centre = tmp_path / "site.duckdb", tmp_path / "centre.duckdb"
    parts = hours.epochs(("histogram", "qdigest"), "north")
    committed(site, [parts[:60]])
    merge(centre, [str(site)])
    committed(site, [parts[60:-1], parts[-1:]])
    merge(centre, [str(site)])
    compact(site)
    assert keys(site) == keys(centre)
    rng = np.random.default_rng(1)
    for as_of in rng.integers(50 * HOUR, HOURS * HOUR, 5).tolist():
        question = Question("count", "exp:half_life=6h", as_of=as_of)
        answers = [Store(path).ask("calls", question).estimate for path in (site, centre)]
        assert answers[0] == answers[1]


@pytest.mark.parametrize("family", ["histogram", "qdigest"])
def test_widths_are_expected_as_they_are(tmp_path: Path, family: str) -> None:
    """The planner knows what has faded: as of the past it expects widths that are measured, not those of before."""
    hours = Hours.of(HOURS, 150, 1)
    parts = hours.epochs((family,), "north")
    committed(tmp_path / "wane.duckdb", [parts[:-1], parts[-1:]], 8)
    store = Store(tmp_path / "wane.duckdb")
    held = store.catalogue().stream("calls")
    before = holdings_of(held, ["north"])
    rates = []
    for as_of in (95 * HOUR - 1, 81 * HOUR + 55, 60 * HOUR - 1):
        question = Question("count", "exp:half_life=10h", as_of=as_of)
        expected = []
        for one in (before, as_faded(held, family, before)):
            built = Built({"epsilon": EPSILON[family]}, {}, HOUR, holdings=one)
            promise = KINDS[family].promise(question, built, past=True)
            assert promise is not None
            expected.append(promise.width)
        found = store.ask("calls", question, family=family).estimate
        rates.append((found.upper - found.lower) / found.value / expected[1])
        assert expected[1] > 3.0 * expected[0]
    assert 0.5 <= float(np.median(rates)) <= 2.0
