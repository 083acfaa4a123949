"""What changed: shares on both sides against exact ones, how often a change is called where there is none, power."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

from sketches import Events, Question, Sample
from sketches.changes import Between, Changes, Mass, ShareChanges, Shares, Verdict, edges_of

DAY = 86_400
INSIDE, OUTSIDE = (2 * DAY, 3 * DAY), ((0, 2 * DAY), (3 * DAY, 4 * DAY))
DELTA = 0.1
NAMES = tuple(f"site {number:02d}" for number in range(8))
MASS = Mass(100.0, 90.0, 110.0, 100)
EVENTS_OF_ALL = Question("count", as_of=4 * DAY)

Columns = Mapping[str, NDArray[Any]]


def ids_of(seed: int, size: int) -> NDArray[np.int64]:
    return seed * 1_000_000 + np.arange(size)


def stream(seed: int, size: int, *, busier: float = 1.0, weights: bool = False) -> Columns:
    """Events of four days with a code, a place and a value; `busier` is how often place p1 comes on the marked day, in
    times of the other days."""
    rng = np.random.default_rng(seed)
    times = np.sort(rng.integers(0, 4 * DAY, size))
    marked = (times >= INSIDE[0]) & (times < INSIDE[1])
    odds = np.array([0.4, 0.1, 0.2, 0.2, 0.07, 0.03])
    place = np.where(
        marked,
        rng.choice(6, size, p=(busy := odds * np.array([1, busier, 1, 1, 1, 1])) / busy.sum()),
        rng.choice(6, size, p=odds),
    )
    code = np.minimum(rng.zipf(1.6, size), 30)
    return {
        "ids": ids_of(seed, size),
        "times": times,
        "place": np.array([f"p{number}" for number in range(6)], object)[place],
        "code": code,
        "value": rng.gamma(2.0, 100.0, size).round(1),
        "weight": 1 + rng.geometric(0.3, size) if weights else np.ones(size, np.int64),
        "site": rng.choice(len(NAMES), size, p=np.array([30, 20, 20, 10, 10, 5, 4, 1]) / 100),
    }


def sampled(columns: Columns, seed: int, **settings: Any) -> Sample:
    fields = {"place": columns["place"], "code": columns["code"]}
    events = Events.of(columns["ids"], columns["times"], columns["value"], columns["weight"], fields)
    sites = columns["site"].astype(np.int32)
    return Sample.partial(
        events, sites, list(NAMES), seed=seed, **({"epsilon": 0.05, "delta": DELTA, "detail": 1} | settings)
    )


def asked(sample: Sample, question: Question = EVENTS_OF_ALL) -> Changes:
    return sample.of(None).changes(question, ("place", "value"), INSIDE, OUTSIDE, sample.by_source(NAMES))


class Exact:
    """The exact shares of groups on both sides, of the rows themselves."""

    def __init__(self, columns: Columns, *, by_weight: bool = False) -> None:
        self.columns = columns
        marked = (columns["times"] >= INSIDE[0]) & (columns["times"] < INSIDE[1])
        self.sides = marked, ~marked
        self.counted = columns["weight"] if by_weight else np.ones(len(marked), np.int64)
        self.totals: dict[str, list[dict[Any, float]]] = {}

    def share(self, column: str, name: Any, *, inside: bool) -> float:
        side = self.sides[not inside]
        if isinstance(name, Between):
            values = self.columns[column][side]
            there = (values >= name.low) & (values < name.high)
            return float(self.counted[side][there].sum() / self.counted[side].sum())
        if column not in self.totals:
            self.totals[column] = [self._totals(column, one) for one in self.sides]
        name = NAMES.index(name) if column == "source" else name
        return self.totals[column][not inside].get(name, 0.0)

    def _totals(self, column: str, side: NDArray[np.bool_]) -> dict[Any, float]:
        key = {"source": "site"}.get(column, column)
        values, codes = np.unique(self.columns[key][side], return_inverse=True)
        masses = np.bincount(codes, self.counted[side])
        return dict(zip(values.tolist(), (masses / masses.sum()).tolist(), strict=True))


def missed(columns: Columns, found: Changes, *, by_weight: bool = False) -> bool:
    """Whether some interval of some group on some side does not hold its exact share."""
    exact = Exact(columns, by_weight=by_weight)
    for one in found.ranked:
        for inside, (_, lower, upper) in ((True, one.inside), (False, one.outside)):
            if not lower - 1e-12 <= exact.share(one.column, one.name, inside=inside) <= upper + 1e-12:
                return True
    return False


def test_where_everything_is_kept_all_shares_are_exact() -> None:
    columns = stream(1, 2_000)
    found = asked(sampled(columns, 1, detail=10_000))
    assert found.exact
    assert {one.column for one in found.ranked} == {"place", "value", "source"}
    for one in found.ranked[:60]:
        for inside, side in ((True, one.inside), (False, one.outside)):
            exact = Exact(columns).share(one.column, one.name, inside=inside)
            np.testing.assert_allclose(side, exact, rtol=1e-12, atol=0)
    marked = (columns["times"] >= INSIDE[0]) & (columns["times"] < INSIDE[1])
    assert found.inside[:3] == (marked.sum(),) * 3
    assert found.outside[:3] == ((~marked).sum(),) * 3


@pytest.mark.parametrize("by_weight", [False, True])
def test_the_intervals_of_a_thinned_sample_hold_all_together(by_weight: bool) -> None:
    """In at most δ of all samples any interval of any group misses its exact share (more in `benchmarks.changes`)."""
    trials, question = 10, Question("count", as_of=4 * DAY, counting="weight" if by_weight else "events")
    misses, wide = 0, []
    for seed in range(trials):
        columns = stream(seed, 12_000, busier=1.5, weights=by_weight)
        found = asked(sampled(columns, seed), question)
        assert not found.exact
        misses += missed(columns, found, by_weight=by_weight)
        wide += [one.inside[2] - one.inside[1] for one in found.ranked if one.column == "place"]
    assert misses <= binom.ppf(1 - 1e-4, trials, DELTA)
    assert np.median(wide) < 0.1  # else it would hold by being wide


@pytest.mark.parametrize("kept", ["all", "some"])
def test_a_stream_that_goes_on_as_before_has_not_changed(kept: str) -> None:
    """In at most δ of all streams of independent events is any group called changed, sampled or not."""
    trials = 12
    settings: dict[str, Any] = {"detail": 10_000} if kept == "all" else {}
    calls = differs = 0
    for seed in range(trials):
        found = asked(sampled(stream(1_000 + seed, 1_500 if kept == "all" else 9_000), seed, **settings))
        calls += found.counted(Verdict.CHANGED) > 0
        differs += found.counted(Verdict.DIFFERS) > 0
    assert calls <= binom.ppf(1 - 1e-4, trials, DELTA)
    if kept == "all":
        assert differs == trials  # exact shares differ nearly always: that alone is no change


def test_the_same_shares_of_the_events_that_came_are_never_a_change() -> None:
    """Every event of the marked day has one of the same kind on each other day: what is sampled of them differs."""
    trials, calls, apart = 12, 0, 0
    for seed in range(trials):
        one = stream(seed, 2_500)
        size = len(one["ids"])
        times = np.concatenate([one["times"] % DAY + day * DAY for day in range(4)])
        columns = {name: np.tile(column, 4) for name, column in one.items()}
        columns |= {"ids": ids_of(seed, 4 * size), "times": times}
        found = asked(sampled(columns, seed))
        calls += found.counted(Verdict.CHANGED) > 0
        apart += any(change.verdict is not Verdict.UNCLEAR for change in found.ranked)
    assert calls <= binom.ppf(1 - 1e-4, trials, DELTA)
    assert apart <= binom.ppf(1 - 1e-4, trials, DELTA)


def test_sources_that_report_the_same_events_come_and_go_together() -> None:
    """Most events are of one source; each other one is reported by all the other seven, so that few decide."""
    trials, size, misses = 20, 8_000, 0
    for seed in range(trials):
        rng = np.random.default_rng(seed)
        times, alone = rng.integers(0, 4 * DAY, size), rng.random(size) < 0.9
        by_one, by_seven = np.flatnonzero(alone), np.flatnonzero(~alone)
        event = np.concatenate([by_one, np.repeat(by_seven, 7)])
        site = np.concatenate([0 * by_one, np.tile(np.arange(1, 8), len(by_seven))]).astype(np.int32)
        events = Events.of(ids_of(seed, size)[event], times[event], np.zeros(len(event)))
        sample = Sample.partial(events, site, list(NAMES), seed=seed, epsilon=0.08, delta=DELTA, detail=1)
        found = sample.of(None).changes(EVENTS_OF_ALL, (), INSIDE, OUTSIDE, sample.by_source(NAMES))
        columns = {"times": times[event], "site": site, "weight": np.ones(len(event), np.int64)}
        misses += missed(columns, found)
    assert misses <= binom.ppf(1 - 1e-4, trials, DELTA)


def test_a_real_change_is_found_and_comes_first() -> None:
    found = [asked(sampled(stream(seed, 20_000, busier=3.0), seed)) for seed in range(6)]
    first = [one.ranked[0] for one in found]
    assert sum((one.column, one.name) == ("place", "p1") for one in first) >= 5
    assert all(one.verdict is Verdict.CHANGED for one in first)
    assert all(one.inside[1] > one.outside[2] for one in first)


def test_no_group_that_was_not_sampled_is_larger_than_is_said() -> None:
    trials, misses = 10, 0
    for seed in range(trials):
        columns = {**stream(seed, 6_000), "code": np.random.default_rng(seed).zipf(1.5, 6_000) % 3_000}
        sample = sampled(columns, seed)
        (code,) = sample.of(None).changes(EVENTS_OF_ALL, ("code",), INSIDE, OUTSIDE).columns
        kept = set(sample.rows.fields["code"].to_list())
        marked = (columns["times"] >= INSIDE[0]) & (columns["times"] < INSIDE[1])
        largest = 0.0
        for side in (marked, ~marked):
            values, counts = np.unique(columns["code"][side], return_counts=True)
            largest = max([largest, *(counts[[value not in kept for value in values]] / side.sum())])
        misses += largest > code.unseen
    assert misses <= binom.ppf(1 - 1e-4, trials, DELTA)


def test_a_side_without_events_is_nothing_to_compare_with() -> None:
    sample = sampled(stream(3, 500), 3, detail=10_000)
    found = sample.of(None).changes(EVENTS_OF_ALL, ("place",), (10 * DAY, 11 * DAY), OUTSIDE)
    assert found.inside.value == 0
    assert found.counted(Verdict.UNCLEAR) == len(found.ranked)
    assert all(math.isnan(one.inside[0]) and one.inside[1:] == (0.0, 1.0) for one in found.ranked)


def test_missing_values_are_a_group_and_a_filter_holds_for_both_sides() -> None:
    columns = stream(5, 800)
    place = columns["place"].copy()
    place[::4] = None
    sample = sampled({**columns, "place": place}, 5, detail=10_000)
    found = sample.of(None).changes(EVENTS_OF_ALL, ("place",), INSIDE, OUTSIDE)
    missing = next(one for one in found.ranked if one.name is None)
    marked = (columns["times"] >= INSIDE[0]) & (columns["times"] < INSIDE[1])
    gone = np.array([one is None for one in place])
    assert missing.inside[0] == pytest.approx(gone[marked].mean(), rel=1e-12)
    high = sample.of(None).changes(Question("count", as_of=4 * DAY, low=200.0), ("place",), INSIDE, OUTSIDE)
    assert high.inside.value == (marked & (columns["value"] >= 200.0)).sum()


def test_numbers_are_cut_into_classes_at_round_numbers() -> None:
    found = asked(sampled(stream(6, 3_000), 6, detail=10_000))
    classes = [one.name for one in found.ranked if one.column == "value"]
    assert all(isinstance(one, Between) for one in classes)
    ends = sorted({one.low for one in classes if isinstance(one, Between)})
    assert ends[0] == -math.inf
    assert all(float(f"{end:.2g}") == end for end in ends[1:])
    assert edges_of(np.zeros(0), np.zeros(0), 5).tolist() == []
    assert edges_of(np.full(50, 7.5), np.ones(50), 5).tolist() == [7.5]


def test_two_shares_may_have_changed_although_their_intervals_touch() -> None:
    """Both would have to be off at once, each to its very limit and towards the other: what their difference may be is
    known better than that."""

    def verdict(inside: tuple[float, float, float]) -> Verdict:
        sides = (inside, (0.05, 0.045, 0.062))
        shares = [Shares(*(np.array([number]) for number in (*side, *side[1:]))) for side in sides]
        column = ShareChanges("place", ("p1",), *shares, groups=1, unseen=0.0)
        (found,) = Changes((column,), MASS, MASS, 0.9, "", "sample").ranked
        assert (found.apart > 0.0) == (found.verdict is Verdict.CHANGED)
        return found.verdict

    assert verdict((0.10, 0.06, 0.15)) is Verdict.CHANGED
    assert verdict((0.10, 0.05, 0.15)) is Verdict.UNCLEAR
