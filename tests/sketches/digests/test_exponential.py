"""The exponential family: not one answer outside its bounds, late events, merging, scaling, Space-Saving for keys."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sketches import Events, Exponential, Question
from sketches.errors import UnanswerableError, WaneError
from sketches.estimate import Item
from sketches.question import Counting
from sketches.vocabulary import COUNTINGS
from tests.sketches.digests.test_deterministic import check_unlisted, multiple, restricted, with_zeros
from tests.support.conformance import events_of
from tests.support.oracle import Oracle, aggregates_for, random_question
from tests.support.streams import STREAMS, Stream

HALF_LIVES = ("exp:half_life=2s", "exp:half_life=10m", "exp:half_life=30d")
CASES = 12  # for each stream and counting


def built(
    stream: Stream, epsilon: float, decay: str, rng: np.random.Generator, counting: Counting = "events"
) -> Exponential:
    """From some parts, merged in a random order, some of them by way of their bytes."""
    parts = stream.split(int(rng.integers(1, 6)), int(rng.integers(100))) if len(stream) else [stream]
    sketches = [Exponential.build(events_of(part), epsilon=epsilon, decay=decay, counting=counting) for part in parts]
    while len(sketches) > 1:
        one, other = (sketches.pop(int(rng.integers(len(sketches)))) for _ in range(2))
        sketches.append(Exponential.from_bytes(one.merge(other).to_bytes()))
    return sketches[0]


@pytest.mark.slow
@pytest.mark.parametrize("counting", COUNTINGS)
@pytest.mark.parametrize("name", STREAMS)
def test_not_one_violation(name: str, counting: Counting) -> None:
    """Whatever the accuracy, the half-life, the parts, the moment and the predicate: the exact answer is within."""
    asked = 0
    for seed in range(CASES):
        rng = np.random.default_rng(seed)
        stream = with_zeros(STREAMS[name](int(rng.integers(1, 700)), seed).distinct(), rng)
        epsilon, decay = float(rng.choice([0.01, 0.05, 0.2, 0.6])), str(rng.choice(HALF_LIVES))
        sketch, oracle = built(stream, epsilon, decay, rng, counting), Oracle(stream)
        later = (int(stream.t.max()) if len(stream) else 0) + int(rng.integers(0, 3000))
        for aggregate in aggregates_for(stream):
            if aggregate not in Exponential.abilities.aggregates:
                continue
            question = random_question(rng, stream, aggregate, [decay], counting=counting)
            question = question.at(later) if rng.random() < 0.5 else replace(question, as_of=None)
            by_weight = bool(stream.w.any()) and counting == "weight"
            counted = Question("count", decay, question.as_of, counting="weight" if by_weight else "events")
            if len(stream) and oracle.answer(counted) < 1e-240:
                continue  # the oracle's own numbers have faded away
            if question.masses != {counting}:
                if not sketch.extremes.unit_weights:
                    with pytest.raises(UnanswerableError, match="counts each event"):
                        sketch.answer(question)
                continue
            for each in (multiple(rng, question), restricted(rng, stream, question)):
                check(sketch, oracle, each)
                asked += 1
    assert asked >= 2 * CASES


def check(sketch: Exponential, oracle: Oracle, question: Question) -> None:
    answer = sketch.answer(question)
    assert answer.confidence == 1.0
    if question.aggregate == "heavy-hitters":
        epsilon = sketch.parameters.epsilon if not question.where else 1.0
        check_list(answer.items, oracle.shares(question), question, epsilon)
        if oracle.shares(question) and not (question.where and math.isnan(answer.value)):
            check_unlisted({value: share for value, share in oracle.shares(question).items() if share > 1e-200}, answer)
        return
    exact = oracle.answer(question)
    if np.isnan(exact):
        assert np.isnan(answer.value) or question.where, (question, answer)
        return
    if not question.aggregate.endswith(("sum", "count", "quantile", "median")):
        exact = min(exact, 1.0)  # a share: what is above 1 is the oracle's rounding
    assert answer.lower <= max(exact, 1e-200 if exact else 0.0), (question, exact, answer)
    assert exact <= answer.upper, (question, exact, answer)


def check_list(items: tuple[Item, ...], shares: dict[Any, float], question: Question, epsilon: float) -> None:
    for item in items:
        exact = shares.get(item.value, 0.0)  # 0 where the oracle's numbers have faded away
        assert item.lower <= max(exact, 1e-200), (item, exact)
        assert exact <= item.upper, (item, exact)
        assert item.upper - item.lower <= epsilon + 1e-6
    if question.phi is not None and question.phi > epsilon:
        listed = {item.value for item in items}
        assert {value for value, share in shares.items() if share >= question.phi} <= listed
        assert all(shares.get(value, 0.0) >= question.phi - epsilon - 1e-6 for value in listed)


@pytest.mark.parametrize("values", ["narrow", "wide", "floats", "heavy in a wide domain"])
def test_widths_keep_their_promise_on_large_batches(values: str) -> None:
    """Also where values are first counted by ranges: intervals of one-sided sums are at most ε of the sum wide."""
    rng = np.random.default_rng(3)
    rows = 30_000
    numbers = {
        "narrow": rng.lognormal(5, 1, rows).astype(np.int64),
        "wide": rng.integers(-(1 << 62), 1 << 62, rows),
        "floats": rng.standard_cauchy(rows),
        "heavy in a wide domain": np.where(rng.random(rows) < 0.6, 123_456_789_012, rng.integers(0, 1 << 60, rows)),
    }[values]
    times, weights = rng.integers(0, 5000, rows), rng.integers(1, 9, rows)
    stream = Stream.of(values, np.arange(rows), times, numbers, weights)
    oracle = Oracle(stream)
    for epsilon in (0.02, 0.1):
        sketch = Exponential.build(events_of(stream), epsilon=epsilon, decay=HALF_LIVES[1], counting="weight")
        total = oracle.answer(Question("sum", HALF_LIVES[1]))
        assert sketch.masses.total == pytest.approx(total, rel=1e-12)
        assert sketch.kept <= 3 * 64 / epsilon, "C, Theorem 3"
        for share in (0.001, 0.2, 0.5, 0.9, 0.999):
            tau = float(np.quantile(numbers, share))
            question = Question("correlated-sum", HALF_LIVES[1], tau=tau)
            answer = sketch.answer(question)
            assert answer.lower <= oracle.answer(question) <= answer.upper
            assert answer.upper - answer.lower <= epsilon * total * (1 + 1e-9)
            quantile = Question("quantile", HALF_LIVES[1], phi=share, counting="weight")
            found = sketch.answer(quantile)
            assert found.lower <= oracle.answer(quantile) <= found.upper
    if values.startswith("heavy"):
        top = sketch.answer(Question("heavy-hitters", HALF_LIVES[1], top=1, counting="weight")).items[0]
        assert top.value == 123_456_789_012


def test_no_key_is_astray_by_more_than_its_share() -> None:
    """Of k counters each loses the same, so what may be astray is at most 1/(k + 1) of all, after any merges."""
    rng = np.random.default_rng(1)
    for seed in range(30):
        keys = np.array([f"k{number}" for number in np.minimum(rng.zipf(1.3, 400), 300)], object)
        stream = Stream.of("keys", np.arange(400), rng.integers(0, 900, 400), keys, rng.integers(1, 5, 400))
        sketch = built(stream, 0.1, HALF_LIVES[1], np.random.default_rng(seed))
        assert sketch.kept <= sketch.parameters.counters == 10
        assert sketch.masses.astray <= sketch.masses.total / 11 * (1 + 1e-9)
        assert sketch.masses.mass.sum() + 11 * sketch.masses.astray <= sketch.masses.total * (1 + 1e-9)


class SpaceSaving:
    """Figure 3 of paper C, its update line derived: a counter fades to now and gains what the item weighs by now."""

    def __init__(self, counters: int, rate: float) -> None:
        self.counters, self.rate = counters, rate
        self.counts: dict[str, float] = {}
        self.now = 0.0

    def add(self, item: str, time: float, now: float) -> None:
        fade = np.exp(-self.rate * (now - self.now))
        self.counts = {known: count * fade for known, count in self.counts.items()}
        self.now = now
        gain = float(np.exp(-self.rate * (now - time)))
        if item in self.counts:
            self.counts[item] += gain
        elif len(self.counts) < self.counters:
            self.counts[item] = gain
        else:
            least = min(self.counts, key=lambda known: self.counts[known])
            self.counts[item] = self.counts.pop(least) + gain


def test_agrees_with_the_paper_item_by_item() -> None:
    """Out of order, one after the other: both stay within D/k of the truth, hence within twice that of each other."""
    rng = np.random.default_rng(2)
    rate = np.log(2) / 600
    arrivals = np.arange(600)
    times = np.maximum(arrivals - rng.integers(0, 200, 600), 0)
    keys = np.array([f"k{number}" for number in np.minimum(rng.zipf(1.2, 600), 99)], object)
    paper = SpaceSaving(10, rate)
    for key, time, now in zip(keys.tolist(), times.tolist(), arrivals.tolist(), strict=True):
        paper.add(key, time, now)
    sketch = Exponential.build(Events.of(arrivals, times, keys), epsilon=0.1, decay=HALF_LIVES[1])
    weights = np.exp(-rate * (599 - times))
    total = weights.sum()
    for key in set(keys.tolist()):
        exact = weights[keys == key].sum()
        estimate = sketch.answer(Question("frequency", HALF_LIVES[1], as_of=599, value=key))
        assert estimate.lower <= exact / total <= estimate.upper
        theirs = paper.counts.get(key, min(paper.counts.values()))
        assert exact - 1e-9 <= theirs <= exact + total / 10 + 1e-9 or key not in paper.counts
        assert abs(theirs / total - estimate.value) <= 0.2


def test_scaling_and_what_is_refused() -> None:
    """Scaled, everything weighs γ times as much; other decays, earlier times and factors of nothing are refused."""
    stream = STREAMS["late"](800, 4).distinct()
    sketch = Exponential.build(events_of(stream), epsilon=0.1, decay=HALF_LIVES[1])
    half, whole = sketch.scaled(0.5), sketch.answer(Question("count", HALF_LIVES[1])).value
    assert half.answer(Question("count", HALF_LIVES[1])).value == pytest.approx(whole / 2)
    median = Question("median", HALF_LIVES[1])
    assert half.answer(median).value == sketch.answer(median).value
    with pytest.raises(WaneError, match="factor is -1"):
        sketch.scaled(-1)
    with pytest.raises(UnanswerableError, match="built for the decay exp:half_life=10m"):
        sketch.answer(Question("median", "exp:half_life=11m"))
    with pytest.raises(UnanswerableError, match="no answer as of a time between"):
        sketch.answer(median.at(int(stream.t.max()) - 1))
    assert np.isnan(sketch.answer(median.at(int(stream.t.min()) - 1)).value)
    with pytest.raises(WaneError, match="exp:half_life=30m"):
        Exponential.build(events_of(stream), decay="window:1h")


def test_events_too_old_to_weigh_anything_are_within_the_bounds() -> None:
    """What is below the smallest number still has a share, which the upper bound allows for."""
    events = Events.of([1, 2], [0, 10**9], [5, 7])
    answer = Exponential.build(events, decay="exp:half_life=1s").answer(
        Question("frequency", "exp:half_life=1s", value=5)
    )
    assert 0.0 == answer.lower < answer.upper < 1e-200
