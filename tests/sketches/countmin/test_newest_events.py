"""`last:N` of `ecm` sketches: the newest N events as of a time, and those that came with the oldest of them."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
import pytest

from sketches import Ecm, Events, Question, Retractable
from sketches.arrays import Ints
from sketches.errors import UnanswerableError
from sketches.promise import Built
from tests.sketches.countmin.test_ecm import Tally
from tests.support.conformance import events_of
from tests.support.oracle import Oracle, random_question
from tests.support.streams import HOUR, START, Stream

NUMBERS: Final = (1, 2, 7, 60, 250, 700, 5000)
EPSILON = DELTA = 0.1


def bursty(seed: int, n: int = 800, ticks: int | None = None) -> Stream:
    """Values below 64 with weights, 0 among them; half of the events come in a few ticks of many each."""
    rng = np.random.default_rng([seed, 30])
    t = np.where(rng.random(n) < 0.5, rng.choice(rng.integers(0, HOUR, 12), n), rng.integers(0, ticks or HOUR, n))
    v = np.where(rng.random(n) < 0.6, rng.choice([1, 5, 63], n), rng.integers(0, 64, n))
    return Stream.of("bursty", np.arange(n), START + t, v, rng.integers(0, 4, n))


def moments_of(stream: Stream) -> list[int | None]:
    """Now, several times of the past that are times of events or not, before all events and long after them."""
    within = np.quantile(stream.t, (0.05, 0.3, 0.77)).astype(int).tolist()
    return [None, *within, int(stream.t[5]), int(stream.t.min()) - 1, int(stream.t.max()) + 9999]


@pytest.mark.parametrize("keeping", ["eh", "dw"])
@pytest.mark.parametrize("together", ["one", "side by side", "merged"])
def test_the_number_of_the_newest_is_never_outside_its_bounds(keeping: Any, together: str) -> None:
    """With ties and in the past, of one sketch, of many side by side, of an aggregated one: N or all, and ties."""
    for seed in range(4):
        stream = bursty(seed, ticks=(HOUR, 40)[seed % 2])
        settings: dict[str, Any] = {"epsilon": EPSILON, "keeping": keeping, "seed": seed}
        parts = [stream] if together == "one" else stream.split(5, seed)
        sketches = [Ecm.build(events_of(part), **settings) for part in parts]
        asked = Ecm.union(sketches).counters if together == "merged" else Ecm.askable(sketches)
        oracle = Oracle(stream)
        for number in NUMBERS:
            for as_of in moments_of(stream):
                question = Question("count", f"last:{number}", as_of)
                found, exact = asked.answer(question), oracle.answer(question)
                assert found.lower <= exact * (1 + 1e-9), (number, as_of)
                assert exact <= found.upper * (1 + 1e-9), (number, as_of)
                assert found.lower <= found.value <= found.upper
                assert found.confidence == 1.0


@pytest.mark.parametrize("keeping", ["eh", "dw"])
def test_the_newest_begin_where_the_log_says(keeping: Any) -> None:
    """One event a tick: the count is at least N and at most N and what the cut entries of the log hold, 2ε of it."""
    sketch = Ecm.build(Events.of(range(20_000), range(20_000), ["a"] * 20_000), epsilon=0.05, keeping=keeping)
    for number in (1, 10, 500, 3000, 15_000, 20_000, 10**9):
        found = sketch.answer(Question("count", f"last:{number}"))
        exact = min(number, 20_000)
        assert found.lower == exact
        assert exact <= found.value <= exact * 1.05
        assert found.upper <= exact * (1 + 4 * 0.05)
    assert sketch.answer(Question("count", "last:10")).upper == pytest.approx(10)


@pytest.mark.parametrize("past", [False, True])
def test_every_aggregate_over_the_newest(past: bool) -> None:
    """Shares, ranks, quantiles, counts over ranges, joins and thresholds hold the exact answer but for chance."""
    tallies: dict[str, Tally] = {}
    names = [name for name in Ecm.abilities.aggregates if name != "heavy-hitters" and not name.endswith("sum")]
    for seed in range(16):
        stream, another = bursty(seed), bursty(seed + 500)
        oracle, rng = Oracle(stream), np.random.default_rng([seed, 31])
        settings: dict[str, Any] = {"epsilon": EPSILON, "delta": DELTA, "bits": 6, "seed": seed}
        sketch, other = (Ecm.build(events_of(one), **settings) for one in (stream, another))
        for aggregate in names:
            question = random_question(rng, stream, aggregate, [f"last:{rng.choice(NUMBERS)}"])
            question = question.at(int(np.quantile(stream.t, rng.uniform(0.2, 0.95)) if past else stream.t.max()))
            joined = aggregate == "inner-product"
            found = sketch.answer(question, other=other if joined else None)
            exact = oracle.answer(question, Oracle(another) if joined else None)
            tallies.setdefault(aggregate, Tally()).answer(found, exact, math.inf)
    assert {"count", "frequency", "self-join", "median", "correlated-count"} <= tallies.keys()
    for tally in tallies.values():
        tally.check(DELTA)


@pytest.mark.parametrize("bits", [0, 6])
def test_no_heavy_value_of_the_newest_is_missing(bits: int) -> None:
    """Every value with a share of φ is listed, whatever N; their shares lie within their bounds but for chance."""
    asked = missed = heavy = 0
    for seed in range(8):
        stream = bursty(seed)
        sketch = Ecm.build(events_of(stream), epsilon=EPSILON, delta=DELTA, bits=bits, seed=seed)
        for number in NUMBERS:
            question = Question("heavy-hitters", f"last:{number}", phi=0.15)
            shares = Oracle(stream).shares(question)
            answer = sketch.answer(question)
            expected = {value for value, share in shares.items() if share >= 0.15}
            assert expected <= {item.value for item in answer.items}
            assert answer.unlisted is not None
            listed = {item.value for item in answer.items}
            others = max((share for value, share in shares.items() if value not in listed), default=0.0)
            assert others <= answer.unlisted * (1 + 1e-9) + 1e-12
            assert "where the newest events begin" in answer.guarantee
            heavy += len(expected)
            for item in answer.items:
                asked += 1
                exact = shares.get(item.value, 0.0)
                assert exact <= item.upper * (1 + 1e-9)
                missed += exact < item.lower
    assert heavy > 0
    assert missed <= DELTA * asked


def test_randomised_waves_over_the_newest() -> None:
    """Sampled arrivals tell where the newest begin but for chance."""
    rng = np.random.default_rng(3)
    t: Ints = np.sort(rng.integers(0, 50_000, 6000))
    stream = Stream.of("waves", np.arange(6000), t, rng.integers(0, 9, 6000))
    tally = Tally()
    for seed in range(12):
        sketch = Ecm.build(events_of(stream), epsilon=0.4, delta=0.2, keeping="rw", seed=seed)
        for number in (5, 400, 3000):
            for question in (
                Question("count", f"last:{number}"),
                Question("frequency", f"last:{number}", value=3),
                Question("count", f"last:{number}", as_of=30_000),
            ):
                tally.answer(sketch.answer(question), Oracle(stream).answer(question), math.inf)
    tally.check(0.2)


def test_a_series_over_the_newest_is_its_answers() -> None:
    """At every moment the newest as of then."""
    stream = bursty(1)
    sketch = Ecm.build(events_of(stream), epsilon=EPSILON)
    moments = np.arange(START - 5, START + HOUR + 300, 450)
    for question in (Question("count", "last:100"), Question("frequency", "last:100", value=5)):
        series = sketch.series(question, moments)
        for at, moment in enumerate(moments.tolist()):
            single = sketch.answer(question.at(moment))
            found = (series.value[at], series.lower[at], series.upper[at])
            assert np.allclose(found, (single.value, single.lower, single.upper), rtol=1e-12, equal_nan=True)


def test_a_log_of_weight_cannot_tell_the_newest_events() -> None:
    """Refused by name where weights are counted, unless all are 1; the planner is told beforehand."""
    question = Question("count", "last:2", counting="weight")
    weighted = Ecm.build(Events.of([1, 2, 3], [1, 2, 3], ["a"] * 3, [1, 0, 1]), counting="weight")
    with pytest.raises(UnanswerableError, match="its log is of weight, not of events"):
        weighted.answer(question)
    with pytest.raises(UnanswerableError, match="its log is of weight, not of events"):
        weighted.counters.frequencies(["a"], "last:2")
    unit = Ecm.build(Events.of([1, 2, 3], [1, 2, 3], ["a"] * 3), counting="weight")
    assert unit.answer(question).value == 2.0
    with pytest.raises(UnanswerableError, match="its log is of weight, not of events"):
        unit.answer(Question("inner-product", "last:2", counting="weight"), other=weighted)
    for weight, counting, answered in (("w", "weight", False), ("1", "weight", True), ("w", "events", True)):
        asked = Question("count", "last:2", counting=counting)  # type: ignore[arg-type]
        built = Built({}, {"counting": counting}, 3600, weighted=weight != "1")
        promise = Ecm.promise(asked, built, past=True)
        assert (promise is not None) == answered


def test_nothing_has_no_newest() -> None:
    """Counts of nothing are 0, shares unknown."""
    empty = Ecm.build(Events.of([], []))
    found = empty.answer(Question("count", "last:5"))
    assert (found.value, found.lower, found.upper) == (0.0, 0.0, 0.0)
    assert math.isnan(empty.answer(Question("frequency", "last:5", value="a")).value)
    with pytest.raises(UnanswerableError, match="last:5"):
        Retractable.build(Events.of([], []), decay="exp:half_life=10m").answer(Question("count", "last:5"))


@pytest.mark.parametrize("counting", ["events", "weight"])
def test_positions_tell_the_newest_exactly(counting: Any) -> None:
    """basis="count": the last N arrivals and no ties; weightless events take their place among them."""
    tally = Tally()
    for seed in range(10):
        stream = bursty(seed)
        order = np.argsort(stream.t, kind="stable")
        positions = Stream.of("positions", stream.ids, np.arange(1, len(stream) + 1), stream.v[order], stream.w[order])
        oracle = Oracle(positions)
        settings: dict[str, Any] = {"epsilon": EPSILON, "delta": DELTA, "basis": "count", "seed": seed}
        sketch = Ecm.from_bytes(Ecm.build(events_of(stream), counting=counting, **settings).to_bytes())
        for number in NUMBERS:
            for as_of in (None, 300, 100_000):
                question = Question("count", f"last:{number}", as_of, counting=counting)
                found, exact = sketch.answer(question), oracle.answer(question)
                assert found.lower <= exact * (1 + 1e-9)
                assert exact <= found.upper * (1 + 1e-9)
                question = Question("frequency", f"last:{number}", as_of, value=5, counting=counting)
                if not math.isnan(exact := oracle.answer(question)):
                    tally.answer(sketch.answer(question), exact, math.inf)
    tally.check(DELTA)
