"""Count-Min under exponential decay: its bounds, counted over seeds, also after events were taken back."""

from __future__ import annotations

import re

import numpy as np
import pytest
from scipy.special import bdtrc

from sketches import Events, Question, Retractable
from sketches.errors import EventError, UnanswerableError
from tests.support.conformance import events_of
from tests.support.oracle import Oracle
from tests.support.streams import STREAMS, Stream

DECAY = "exp:half_life=10m"
EPSILON = DELTA = 0.05
SEEDS = 60


def stream_of(name: str) -> tuple[Stream, Stream, Stream]:
    """A stream, and which of it is taken back and which stays."""
    stream = STREAMS[name](3000, 5).distinct()
    gone, stays = stream.split(2, 7)
    return stream, gone, stays


@pytest.mark.slow
@pytest.mark.parametrize("name", ["uniform", "keys", "heavy-weights", "floats"])
def test_the_bound_holds_after_deletions(name: str) -> None:
    """Over seeds and values: outside no more often than δ allows, and seldom too small."""
    stream, gone, stays = stream_of(name)
    oracle = Oracle(stays)
    as_of = int(stream.t.max())
    values = list(dict.fromkeys(stays.v.tolist()))[:40]
    exact = [oracle.answer(Question("frequency", DECAY, as_of=as_of, value=value)) for value in values]
    failures = asked = 0
    for seed in range(SEEDS):
        sketch = Retractable.build(events_of(stream), decay=DECAY, epsilon=EPSILON, delta=DELTA, seed=seed)
        sketch = sketch.delete(events_of(gone))
        for value, truth in zip(values, exact, strict=True):
            found = sketch.answer(Question("frequency", DECAY, as_of=as_of, value=value))
            failures += not found.lower <= truth <= found.upper
            asked += 1
    assert bdtrc(failures - 1, asked, DELTA) > 1e-6 or failures == 0


def test_a_sketch_from_which_all_was_taken_back_weighs_nothing() -> None:
    """Deleting every event leaves rounding and no more; late merging in between does not matter."""
    stream = STREAMS["late"](2000, 3).distinct()
    first, second = stream.split(2, 1)
    sketch = Retractable.build(events_of(first), decay=DECAY).insert(events_of(second))
    left = sketch.delete(events_of(second)).delete(events_of(first))
    assert left.total <= 1e-9 * sketch.total
    assert left.counters.max() <= 1e-9 * sketch.total


def test_the_sum_is_that_of_what_is_left() -> None:
    """The decayed sum follows insertions, deletions and the passing of time."""
    stream, gone, stays = stream_of("heavy-weights")
    later = int(stream.t.max()) + 1234
    sketch = Retractable.build(events_of(stream), decay=DECAY, counting="weight").delete(events_of(gone))
    found = sketch.answer(Question("sum", DECAY, as_of=later))
    exact = Oracle(stays).answer(Question("sum", DECAY, as_of=later))
    assert found.lower <= exact <= found.upper
    assert found.upper - found.lower <= 1e-8 * exact


def test_scaling_scales() -> None:
    """Scaled by γ, all masses are γ times what they were: shares stay."""
    stream = STREAMS["uniform"](500, 1)
    sketch = Retractable.build(events_of(stream), decay=DECAY)
    question = Question("frequency", DECAY, value=stream.v[0])
    assert sketch.scaled(0.25).total == 0.25 * sketch.total
    assert sketch.scaled(0.25).answer(question).value == pytest.approx(sketch.answer(question).value)


def test_what_it_cannot_do_is_refused() -> None:
    """Events of another kind are refused; so are other decays, earlier times."""
    sketch = Retractable.build(Events.of([1], [10], [5]), decay=DECAY)
    with pytest.raises(EventError, match="kind"):
        sketch.delete(Events.of([1], [10], ["five"]))
    with pytest.raises(UnanswerableError, match="built for"):
        sketch.answer(Question("sum", "exp:half_life=11m"))
    with pytest.raises(UnanswerableError, match="newest"):
        sketch.answer(Question("sum", DECAY, as_of=9))
    with pytest.raises(UnanswerableError, match="does not answer median"):
        sketch.answer(Question("median", DECAY))


def test_a_value_that_no_whole_number_is_has_no_share() -> None:
    """2.5 among whole numbers."""
    sketch = Retractable.build(Events.of([1, 2], [1, 2], [2, 3]), decay=DECAY)
    assert sketch.answer(Question("frequency", DECAY, value=2.5)).value == 0.0
    assert np.isnan(
        Retractable.build(Events.of([], []), decay=DECAY).answer(Question("frequency", DECAY, value=1)).value
    )


@pytest.mark.parametrize("halvings", [1, 20, 45, 60])
def test_what_is_left_of_much_is_within_its_bounds(halvings: int) -> None:
    """An old event that stays when all newer ones are taken back: rounding of the whole is more than it weighs."""
    newer = Events.of(range(1, 1001), [600 * halvings] * 1000, [7] * 1000)
    old = Events.of([0], [0], [3])
    sketch = Retractable.build(old, decay=DECAY).merge(Retractable.build(newer, decay=DECAY)).delete(newer)
    exact = 2.0**-halvings
    for left in (sketch, Retractable.from_bytes(sketch.to_bytes())):
        found = left.answer(Question("count", DECAY, as_of=600 * halvings))
        assert found.lower <= exact <= found.upper
        assert found.upper <= exact + 1e-8
        later = left.answer(Question("count", DECAY, as_of=600 * (halvings + 5)))
        assert later.lower <= exact / 32 <= later.upper
        for value, share in ((3, 1.0), (7, 0.0)):
            found = left.answer(Question("frequency", DECAY, value=value))
            assert found.lower <= share <= found.upper
    # what came after deletions is as sharp as ever
    again = sketch.merge(Retractable.build(newer, decay=DECAY)).answer(Question("count", DECAY))
    assert again.lower <= 1000 + exact <= again.upper
    assert again.upper - again.lower < 1e-6


def test_the_share_stated_holds() -> None:
    """The number in the sentence is that of the interval, the same at every as-of time."""
    stream = STREAMS["zipf"](3000, 5).distinct()
    oracle, values = Oracle(stream), np.unique(stream.v)[:60].tolist()
    failures = 0
    for seed in range(10):
        sketch = Retractable.build(events_of(stream), decay=DECAY, epsilon=0.1, delta=DELTA, seed=seed)
        for value in values:
            question = Question("frequency", DECAY, value=value)
            found, exact = sketch.answer(question), oracle.answer(question)
            said = re.search(r"the estimate is within ([\d.e-]+) of the decayed count", found.guarantee)
            assert said is not None
            assert exact <= found.upper * (1 + 1e-9)
            failures += not found.lower <= exact or abs(found.value - exact) > float(said[1])
        series = sketch.series(question, [found.as_of, found.as_of + 5000])
        assert series.guarantee == found.guarantee
    assert failures == 0 or bdtrc(failures - 1, 10 * len(values), DELTA) > 1e-6


def sites_of(stream: Stream, gone: Stream, seed: int, sites: int = 3) -> list[Retractable]:
    """Insertions and deletions dealt to sites in any order: some sites take back what came at another one."""
    rng = np.random.default_rng(seed)
    found = []
    for put, taken in zip(stream.split(sites, seed), gone.split(sites, seed + 1), strict=True):
        sketch = Retractable.build(Events.of([], []), decay=DECAY)
        moves = [(False, one) for one in put.split(3, seed)] + [(True, one) for one in taken.split(3, seed)]
        for at in rng.permutation(len(moves)).tolist():
            back, rows = moves[at]
            sketch = sketch.delete(events_of(rows)) if back else sketch.insert(events_of(rows))
            again = Retractable.from_bytes(sketch.to_bytes())  # bytes come back in every state
            assert again.to_bytes() == sketch.to_bytes()
        found.append(again)
    return found


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", ["uniform", "keys", "late"])
def test_any_interleaving_is_what_stays_put_in_alone(name: str, seed: int) -> None:
    """Over sites, batches and commits: the same counters, but for rounding, and the same answers."""
    stream, gone, stays = stream_of(name)
    merged = Retractable.union(sites_of(stream, gone, seed))
    alone = Retractable.build(events_of(stays), decay=DECAY)
    as_of = int(stream.t.max())
    scaled = alone.scaled(float(alone.parameters.decayed.worth(as_of, alone.extremes.newest or 0)))
    np.testing.assert_allclose(merged.counters, scaled.counters, atol=merged.slack)
    assert merged.total == pytest.approx(scaled.total, abs=merged.slack)
    oracle = Oracle(stays)
    for value in list(dict.fromkeys(stays.v.tolist()))[:10]:
        question = Question("frequency", DECAY, as_of=as_of, value=value)
        assert merged.answer(question).value == pytest.approx(scaled.answer(question).value, abs=1e-6)
        assert merged.answer(question).upper >= oracle.answer(question)


def test_what_came_elsewhere_can_be_taken_back_here() -> None:
    """A site that has taken back more than it put in says so, and says what it lacks to the one it merges with."""
    events = Events.of(range(100), range(100), [at % 5 for at in range(100)])
    here = Retractable.build(events, decay=DECAY)
    there = Retractable.build(Events.of([500], [50], [1]), decay=DECAY).delete(events.rows(0, 80))
    assert there.answer(Question("count", DECAY)).value < -10
    with pytest.raises(UnanswerableError, match="more was taken back than"):
        there.answer(Question("frequency", DECAY, value=1))
    both = here.merge(Retractable.from_bytes(there.to_bytes()))
    expected = Retractable.build(events.rows(80, 100), decay=DECAY).insert(Events.of([500], [50], [1]))
    for value in range(5):
        question = Question("frequency", DECAY, value=value)
        assert both.answer(question).value == pytest.approx(expected.answer(question).value)


@pytest.mark.parametrize("delta", [0.05, 0.3])
@pytest.mark.parametrize("away", [0.1, 0.5, 0.9])
def test_where_what_was_taken_back_came_elsewhere_the_bound_holds(away: float, delta: float) -> None:
    """Some keys were taken back here that came at another site: their share is 0, and they pull down those of others.

    Counted over seeds at one of two sites, in epochs that are merged, and at both together, where nothing is lacking.
    """
    failures = np.zeros(2, int)
    too_low = asked = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        keys, times = rng.integers(0, 60, 2000), np.sort(rng.integers(0, 3600, 2000))
        elsewhere = rng.random(60) < away
        back = rng.random(2000) < 0.3
        put_here = ~(elsewhere[keys] & back)
        here, there = (
            Events.of(range(2000), times, keys).take(put_here),
            Events.of(range(2000), times, keys).take(~put_here),
        )
        gone = Events.of(range(2000), times, keys).take(back)
        settings = {"decay": DECAY, "epsilon": 0.1, "delta": delta, "seed": seed}
        parts = [
            Retractable.build(here.take(here.times // 600 == epoch), **settings).delete(
                gone.take(gone.times // 600 == epoch)
            )
            for epoch in range(6)
        ]
        site = Retractable.union(parts)
        both = site.merge(Retractable.build(there, **settings))
        worth = np.exp2(-(times.max() - times) / 600.0)
        sums = [
            np.bincount(keys, weights=worth * (put * 1.0 - back), minlength=60) for put in (put_here, np.ones(2000))
        ]
        for which, (sketch, left) in enumerate(zip((site, both), sums, strict=True)):
            if left.sum() <= 0.0:
                continue
            for key in range(60):
                found = sketch.answer(Question("frequency", DECAY, int(times.max()), value=key))
                exact = min(max(left[key] / left.sum(), 0.0), 1.0)
                failures[which] += not found.lower <= exact <= found.upper
                too_low += sketch._own_counters(Question("frequency", DECAY, value=key)).min() < left[key] - 1e-9
                asked += which == 0
    assert asked > 1000
    assert too_low > 0, "else the least counter would do"
    for wrong in failures.tolist():
        assert wrong == 0 or bdtrc(wrong - 1, asked, delta) > 1e-6, failures
