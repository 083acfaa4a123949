"""Randomised waves: counts within ε as often as promised, merged without loss, alone and in ECM-sketches."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import bdtrc

from sketches import Ecm, Events, Question
from sketches.countmin.randomised_waves import RandomisedWave, capacity
from sketches.errors import EventError, IncompatibleError, QuestionError, UnanswerableError, WaneError

EPSILON, DELTA = 0.2, 0.1
SEEDS = 120


def times_of(rows: int, seed: int = 1) -> np.ndarray:
    return np.sort(np.random.default_rng(seed).integers(0, 50_000, rows))


def test_windows_are_within_epsilon_as_often_as_promised() -> None:
    """Over seeds, for windows of all lengths; of windows that every arrival is remembered of the count is exact."""
    times = times_of(20_000)
    windows = (1, 30, 500, 5_000, 20_000, 50_001)
    missed = np.zeros(len(windows), int)
    for seed in range(SEEDS):
        wave = RandomisedWave.of(EPSILON, DELTA, np.arange(len(times)), times, seed)
        for at, window in enumerate(windows):
            count, exact = wave.count(window), np.count_nonzero(times > times[-1] - window)
            missed[at] += abs(count.value - exact) > EPSILON * exact
            if exact <= capacity(EPSILON, DELTA) // 2:
                assert count.lower == count.value == count.upper == exact
    assert all(bdtrc(miss - 1, SEEDS, DELTA) > 1e-6 for miss in missed[missed > 0])
    assert missed[:2].sum() == 0


def test_merging_loses_nothing() -> None:
    """However arrivals are spread and in whatever tree the waves are merged, the result is that of one wave."""
    times, ids = times_of(9_000), np.arange(9_000)
    whole = RandomisedWave.of(EPSILON, DELTA, ids, times)
    parts = [RandomisedWave.of(EPSILON, DELTA, ids[ids % 8 == part], times[ids % 8 == part]) for part in range(8)]
    left = parts[0]
    for part in parts[1:]:
        left = left.merge(part)
    tree = parts
    while len(tree) > 1:
        tree = [one.merge(other) for one, other in zip(tree[::2], tree[1::2], strict=True)]
    for merged in (left, tree[0]):
        for name in ("owner", "time", "level", "cuts"):
            assert (getattr(merged.waves, name) == getattr(whole.waves, name)).all(), name


def test_many_arrivals_in_one_tick() -> None:
    """A level remembers all of a time or nothing: then a deeper one counts it."""
    times = np.repeat([5, 6, 7], 20_000)
    wave = RandomisedWave.of(EPSILON, DELTA, np.arange(len(times)), times, 3)
    for window, exact in ((1, 20_000), (2, 40_000), (3, 60_000)):
        assert wave.count(window).value == pytest.approx(exact, rel=2 * EPSILON)


def test_what_is_wrong_is_told() -> None:
    """Accuracy out of range, windows of nothing, the past, unlike waves."""
    with pytest.raises(WaneError, match="epsilon is 2"):
        RandomisedWave.of(2, DELTA, [1], [1])
    wave = RandomisedWave.of(EPSILON, DELTA, [1, 2], [1, 9])
    assert RandomisedWave.of(EPSILON, DELTA, [], []).count(5).value == 0.0
    with pytest.raises(QuestionError, match="window is 0"):
        wave.count(0)
    with pytest.raises(QuestionError, match="newest arrival is at 9"):
        wave.count(5, as_of=8)
    with pytest.raises(IncompatibleError, match="different"):
        wave.merge(RandomisedWave.of(EPSILON, DELTA, [1], [1], seed=1))


def test_counters_of_a_sketch() -> None:
    """Point queries hold as often as promised, merging is lossless, joins and weights are refused."""
    rng = np.random.default_rng(5)
    keys, times = np.minimum(rng.zipf(1.4, 6_000), 10_000), times_of(6_000)
    distinct, counts = np.unique(keys[times > times[-1] - 10_000], return_counts=True)
    exact = counts / counts.sum()
    failures = asked = 0
    for seed in range(12):
        sketch = Ecm.build(Events.of(np.arange(6_000), times, keys), epsilon=0.3, delta=0.2, keeping="rw", seed=seed)
        value, lower, upper = sketch.counters.frequencies(distinct, "window:10000s")
        failures += int(np.count_nonzero(np.abs(value - exact) > 0.3))
        asked += len(distinct)
        assert np.count_nonzero((lower <= exact) & (exact <= upper)) >= 0.8 * len(distinct)
    assert failures <= 0.2 * asked
    parts = [
        Ecm.build(Events.of(np.arange(6_000)[at::5], times[at::5], keys[at::5]), epsilon=0.3, delta=0.2, keeping="rw")
        for at in range(5)
    ]
    whole = Ecm.build(Events.of(np.arange(6_000), times, keys), epsilon=0.3, delta=0.2, keeping="rw")
    merged = Ecm.union(parts)
    question = Question("frequency", "exp:half_life=1h", value=1)
    assert "if no row came in two of the sketches that were merged" in merged.answer(question).guarantee
    assert "two of the sketches" not in whole.answer(question).guarantee
    assert merged.answer(question).value == whole.answer(question).value
    with pytest.raises(UnanswerableError, match="no guarantee for joins"):
        whole.answer(Question("self-join"))
    with pytest.raises(EventError, match="weights must be 1"):
        Ecm.build(Events.of([1], [1], [1], [2]), keeping="rw", counting="weight")
    assert Ecm.build(Events.of([1], [1], [1], [2]), keeping="rw").answer(Question("count")).value == 1.0
    with_nothing = Ecm.build(Events.of([1, 2], [1, 2], [1, 1], [0, 1]), keeping="rw", counting="weight")
    assert with_nothing.answer(Question("count", counting="weight")).value == 1.0


@pytest.mark.parametrize("copies", [1, 40])
def test_copies_of_rows_are_sampled_one_by_one(copies: int) -> None:
    """Counts and shares of rows that came forty times are within their bounds as often as of rows that came once."""
    rows = 12_000 // copies
    rng = np.random.default_rng(6)
    ids, times = np.tile(np.arange(rows), copies), np.tile(np.sort(rng.integers(0, 9_000, rows)), copies)
    values = np.tile(np.minimum(rng.zipf(1.5, rows), 50), copies)
    failures = {"count": 0, "window": 0, "share": 0}
    exact = np.count_nonzero(times > times.max() - 4_000), float(np.mean(values == 1))
    for seed in range(SEEDS // 3):
        sketch = Ecm.build(Events.of(ids, times, values), epsilon=0.4, delta=DELTA, keeping="rw", seed=seed)
        for name, question, truth in (
            ("count", Question("count"), 12_000),
            ("window", Question("count", "window:4000s"), exact[0]),
            ("share", Question("frequency", value=1), exact[1]),
        ):
            found = sketch.answer(question)
            failures[name] += not found.lower <= truth <= found.upper
    assert all(bdtrc(missed - 1, SEEDS // 3, DELTA) > 1e-6 for missed in failures.values() if missed), failures


def test_the_order_of_copies_does_not_matter() -> None:
    """The same rows in any order are sampled alike, however often each came."""
    rng = np.random.default_rng(8)
    ids, order = rng.integers(0, 300, 4_000), rng.permutation(4_000)
    build = {"epsilon": 0.9, "delta": 0.5, "keeping": "rw"}
    one, two = (Ecm.build(Events.of(ids[at], ids[at] // 3, ids[at] % 7), **build) for at in (slice(None), order))
    assert all(np.array_equal(getattr(one.logs, name), getattr(two.logs, name)) for name in ("owner", "time", "level"))
