"""Lists and sentences of Count-Min sketches: what they state is held against exact counting, over seeds."""

from __future__ import annotations

import math
import re
import tracemalloc
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pytest

from sketches import Ecm, Estimate, Events, Question
from sketches.countmin.counter_reading import collided
from sketches.estimate import Series
from tests.sketches.countmin.test_ecm import too_many, zipf_stream
from tests.support.conformance import events_of
from tests.support.oracle import Oracle
from tests.support.streams import HOUR, START, Stream

EPSILON = DELTA = 0.1
SLACK: Final = 1e-9
WITHIN: Final = re.compile(r"the estimate is within ([\d.e+-]+) of (the (?:product of the )?decayed (?:count|sum)s?)")
UNLISTED: Final = re.compile(r"no unlisted value has a share above ([\d.e+-]+)")
LISTED: Final = re.compile(r"no listed value has a share below ([\d.e+-]+)")


def wrong(answer: Estimate, shares: dict[Any, float]) -> bool:
    """Whether anything that a list states is false: an item's interval, what is left out, a number in its sentence."""
    assert answer.unlisted is not None
    listed = {item.value for item in answer.items}
    others = max((share for value, share in shares.items() if value not in listed), default=0.0)
    least = min((shares.get(value, 0.0) for value in listed), default=1.0)
    missed = any(not item.lower - SLACK <= shares.get(item.value, 0.0) <= item.upper + SLACK for item in answer.items)
    said = UNLISTED.search(answer.guarantee), LISTED.search(answer.guarantee)
    assert (said[0] is None) == (answer.unlisted >= 1.0)
    return (
        missed
        or others > answer.unlisted + SLACK
        or (said[0] is not None and others > float(said[0][1]) + SLACK)
        or (said[1] is not None and least < float(said[1][1]) - SLACK)
    )


def sketched(stream: Stream, parts: int, **settings: Any) -> Any:
    """The stream in one sketch, in many side by side, or (parts < 0) merged one by one to be stored."""
    if parts == 1:
        return Ecm.build(events_of(stream), **settings)
    sketches = [Ecm.build(events_of(part), **settings) for part in stream.split(abs(parts), 3)]
    if parts > 0:
        return Ecm.askable(sketches)
    merged = sketches[0]
    for sketch in sketches[1:]:
        merged = merged.merge(sketch)
    return merged


@pytest.mark.parametrize(
    ("bits", "parts", "keeping"), [(0, 1, "eh"), (13, 1, "eh"), (0, 4, "dw"), (0, -6, "eh"), (0, 1, "rw")]
)
def test_all_that_a_list_states_holds_together(bits: int, parts: int, keeping: Any) -> None:
    """As of now and of the past, with φ, φ above 1/3, φ below ε, top, and neither: a list is wrong as a whole, or not.

    Counted over seeds, for each kind of question by itself, so that none can hide behind the others.
    """
    failed: dict[str, int] = {}
    seeds = 25 if parts == 1 and not bits else 12
    for seed in range(seeds):
        stream = zipf_stream(1.1, seed, 1500)
        oracle = Oracle(stream)
        sketch = sketched(stream, parts, epsilon=EPSILON, delta=DELTA, bits=bits, keeping=keeping, seed=seed)
        past = int(np.quantile(stream.t, 0.6))
        for name, question in {
            "phi": Question("heavy-hitters", "window:10m", phi=0.05),
            "above a third": Question("heavy-hitters", "none", phi=0.35),
            "top": Question("heavy-hitters", "exp:half_life=10m", top=3),
            "neither": Question("heavy-hitters", "window:2m"),
            "small phi": Question("heavy-hitters", "window:30m", phi=0.002),
            "past phi": Question("heavy-hitters", "window:20m", past, phi=0.05),
            "past top": Question("heavy-hitters", "window:1m", past, top=4),
            "newest": Question("heavy-hitters", "last:300", phi=0.04),
        }.items():
            failed[name] = failed.get(name, 0) + wrong(sketch.answer(question), oracle.shares(question))
    assert not {name: count for name, count in failed.items() if too_many(count, seeds, DELTA)}


@pytest.mark.parametrize("bits", [0, 6])
def test_the_largest_of_equals_are_within_their_bounds(bits: int) -> None:
    """Of sixty values with the same share those are listed with which most collides: a third of the lists was wrong."""
    events = Events.of(range(120), range(120), np.arange(120) % 60)
    shares = dict.fromkeys(range(60), 1 / 60)
    failed = 0
    for seed in range(100):
        sketch = Ecm.build(events, epsilon=0.02, delta=DELTA, bits=bits, seed=seed)
        failed += wrong(sketch.answer(Question("heavy-hitters", top=5)), shares)
    assert not too_many(failed, 100, DELTA)


@pytest.mark.parametrize("bits", [0, 8])
def test_what_top_cuts_off_is_unlisted(bits: int) -> None:
    """Fifteen values of the same share, of which ten are listed: the others have 1/15 all the same."""
    events = Events.of(range(1500), range(1500), np.arange(1500) % 15)
    sketch = Ecm.build(events, epsilon=0.05, bits=bits)
    for question in (Question("heavy-hitters"), Question("heavy-hitters", phi=0.03, top=10)):
        answer = sketch.answer(question)
        assert len(answer.items) == 10
        assert answer.unlisted is not None
        assert 1 / 15 <= answer.unlisted <= 0.1
        assert f"above {float(UNLISTED.search(answer.guarantee)[1])}" in answer.guarantee  # type: ignore[index]
    assert sketch.answer(Question("heavy-hitters", top=15)).unlisted < 0.03  # type: ignore[operator]


@pytest.mark.parametrize("phi", [None, 0.5])
def test_what_was_alone_in_the_past_is_listed(phi: float | None) -> None:
    """Group testing finds a value of share 1 that is nothing now, whether φ is asked for or not."""
    values = np.concatenate((np.full(1000, 7), np.arange(19_000) % 199 + 10))
    sketch = Ecm.build(Events.of(range(20_000), range(20_000), values), epsilon=0.1, bits=8)
    answer = sketch.answer(Question("heavy-hitters", "window:500s", as_of=999, phi=phi))
    assert 7 in {item.value for item in answer.items}
    assert not wrong(answer, {7: 1.0})


def test_a_share_far_below_epsilon_takes_neither_memory_nor_time() -> None:
    """All numbers of a domain pass group testing at φ = 1e-6: no more than a thousand ranges are followed."""
    rng = np.random.default_rng(1)
    sketch = Ecm.build(Events.of(range(20_000), range(20_000), rng.integers(0, 1 << 20, 20_000)), epsilon=0.2, bits=20)
    tracemalloc.start()
    answer = sketch.answer(Question("heavy-hitters", phi=1e-6))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 50e6
    assert len(answer.items) <= 2048
    assert answer.unlisted is not None
    assert 1 / 20_000 <= answer.unlisted < 0.5


def test_what_collides_is_read_off_the_rows() -> None:
    """By brute force: the least t that so many counters exceed that all rows do by a chance too small."""
    rng = np.random.default_rng(4)
    for chance in (0.5, 0.1, 0.01, 1e-6):
        for _ in range(20):
            held = rng.pareto(1.0, (3, 17)) * (rng.random((3, 17)) < 0.6)
            possible = sorted({0.0, *held.reshape(-1).tolist()})
            found = next(t for t in possible if np.prod((held > t).sum(axis=1) / 17) <= chance)
            assert collided(held, chance) == found
    assert collided(np.zeros((2, 5)), 0.1) == 0.0


# Sentences of numbers.


def error_stated(answer: Estimate | Series) -> float:
    """How far off the estimate is at most, as its sentence says; infinite where it says nothing."""
    said = WITHIN.search(answer.guarantee)
    return math.inf if said is None else float(said[1])


def check_stated(answer: Estimate, question: Question, oracle: Oracle, exact: float) -> bool:
    """Whether the sentence is wrong about an answer, with what its error is relative to counted exactly."""
    said = WITHIN.search(answer.guarantee)
    if said is None or math.isnan(exact):
        return False
    whole = 1.0
    if question.aggregate not in ("frequency", "rank", "selectivity", "range-frequency"):
        whole = oracle.answer(Question("count", question.decay, question.as_of, counting=question.counting))
    if said[2].startswith("the product"):
        whole *= whole
    return abs(answer.value - exact) > float(said[1]) * whole * (1 + SLACK) + SLACK


QUESTIONS: Final[Sequence[tuple[str, dict[str, Any]]]] = (
    ("count", {}),
    ("frequency", {"value": 3}),
    ("self-join", {}),
    ("rank", {"value": 300}),
    ("correlated-count", {"tau": 200}),
    ("selectivity", {"low": 100, "high": 777}),
    ("correlated-count", {"tau": "median"}),
)


@pytest.mark.parametrize(("parts", "keeping"), [(1, "eh"), (-4, "eh"), (1, "rw")])
def test_what_a_number_states_holds_at_every_time(parts: int, keeping: Any) -> None:
    """Now and within entries of the past, alone and as points of a series: the error stated is never exceeded but by
    chance, and a number is stated as of the newest event."""
    failed: dict[str, int] = {}
    asked, now = 0, START + HOUR
    moments = np.array([START + 3, START + 900, now])
    for seed in range(3):
        rng = np.random.default_rng([seed, 51])
        v = np.where(rng.random(900) < 0.4, 3, rng.integers(0, 1024, 900))
        stream = Stream.of("stated", np.arange(900), np.append(START + rng.integers(0, HOUR, 899), now), v)
        oracle = Oracle(stream)
        sketch = sketched(stream, parts, epsilon=EPSILON, delta=DELTA, bits=10, keeping=keeping, seed=seed)
        asked += len(moments)
        for decay in ("window:90s", "exp:half_life=10m"):
            for aggregate, needs in QUESTIONS:
                if keeping == "rw" and aggregate == "self-join":
                    continue
                question = Question(aggregate, decay, **needs)
                series, stated = sketch.series(question, moments), []
                for at, moment in enumerate(moments.tolist()):
                    single = sketch.answer(question.at(moment))
                    exact = oracle.answer(question.at(moment))
                    stated.append(error_stated(single))
                    if aggregate == "frequency" and not math.isnan(exact):
                        sides = max(single.value - single.lower, single.upper - single.value)
                        assert stated[-1] >= min(sides, 1.0) - SLACK, "both sides of the interval are allowed for"
                    point = Estimate(
                        series.value[at], series.lower[at], series.upper[at], 0.9, series.guarantee, "ecm", moment, 0
                    )
                    for each in (single, point):
                        name = f"{aggregate} {decay} {'series' if each is point else 'single'}"
                        failed[name] = failed.get(name, 0) + check_stated(each, question.at(moment), oracle, exact)
                if aggregate in ("count", "frequency"):
                    assert stated[-1] < 0.5, question
                assert error_stated(series) >= max(
                    error_stated(sketch.answer(question.at(m))) for m in moments.tolist()
                )
    assert not {name: count for name, count in failed.items() if too_many(count, asked, DELTA)}


def test_no_theorem_is_cited_in_the_past() -> None:
    """Within an entry of the log an estimate may be off by half: the sentence says so, or names no number."""
    sketch = Ecm.build(Events.of(range(4000), np.repeat([0, 1000], 2000), ["a", "b"] * 2000), epsilon=0.05)
    for aggregate, needs in (("frequency", {"value": "a"}), ("self-join", {}), ("count", {})):
        for as_of in (0, 10, 999):
            question = Question(aggregate, "none", as_of, **needs)  # type: ignore[arg-type]
            answer = sketch.answer(question)
            exact = {"frequency": 0.5, "self-join": 2 * 1000.0**2, "count": 2000.0}[aggregate]
            whole = {"frequency": 1.0, "self-join": 2000.0**2, "count": 2000.0}[aggregate]
            assert answer.lower <= exact <= answer.upper
            assert abs(answer.value - exact) <= error_stated(answer) * whole
            assert "Theorem" not in answer.guarantee


def test_estimates_are_nearer_than_the_counters_they_are_made_of() -> None:
    """Totals of windows by the mean of the rows, self-joins without what collides: a quarter of the error of before."""
    totals, joins = [], []
    for seed in range(6):
        rng = np.random.default_rng([seed, 52])
        t, v = np.sort(rng.integers(0, 20_000, 20_000)), np.minimum(rng.zipf(1.2, 20_000), 1 << 30)
        counters = Ecm.build(Events.of(range(20_000), t, v), epsilon=EPSILON, delta=DELTA, seed=seed).counters
        rows, width = counters.parameters.rows, counters.parameters.width
        for window in (700, 5_000, 12_345):
            counts = np.unique(v[t > t[-1] - window], return_counts=True)[1].astype(np.float64)
            question = Question("count", f"window:{window}s")
            held = counters.contents_of(question, t[-1:], np.arange(rows * width + 1))[0][0]
            least = (held[:-1].reshape(rows, width) ** 2).sum(axis=1).min()
            for found, name, before, exact in (
                (totals, "count", held[-1], counts.sum()),
                (joins, "self-join", least, (counts**2).sum()),
            ):
                after = counters.answer(Question(name, question.decay)).value
                found.append((before / exact - 1.0, after / exact - 1.0))
    for found in (totals, joins):
        before, after = np.sqrt(np.mean(np.square(found), axis=0))
        assert after <= 0.4 * before
