"""What an event counts in Count-Min sketches: 1 or its weight, of which 0 adds nothing; against exact counting."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from sketches import Ecm, Events, Question, Retractable
from sketches.countmin.ecm_parameters import EcmParameters
from sketches.countmin.retractable import CountMinParameters
from sketches.errors import CorruptError, IncompatibleError, UnanswerableError, WaneError
from sketches.events import Extremes
from sketches.predicate import Predicate
from sketches.promise import Built
from sketches.question import Counting
from sketches.units import SECOND
from tests.sketches.countmin.test_ecm import Tally
from tests.support.conformance import events_of
from tests.support.oracle import Oracle, random_question
from tests.support.streams import HOUR, START, Stream

GOLDEN: Final = Path(__file__).resolve().parents[2] / "golden"
DECAY: Final = "exp:half_life=10m"
EPSILON = DELTA = 0.1
either = pytest.mark.parametrize("counting", ["events", "weight"])
families = pytest.mark.parametrize("family", [Ecm, Retractable])


def stream_with_nothings(seed: int, n: int = 900) -> Stream:
    """Values below 64; two events in five weigh 0, all of value 63 and the newest among them."""
    rng = np.random.default_rng([seed, 20])
    v, t = rng.choice([1, 5, 20, 40, 62, 63], n), rng.integers(0, HOUR, n)
    w = np.where(rng.random(n) < 0.4, 0, rng.integers(1, 6, n))
    w[(v == 63) | (t >= np.sort(t)[-20])] = 0
    return Stream.of("nothings", np.arange(n), START + t, v, w)


def built(family: Any, events: Events, **settings: Any) -> Any:
    return family.build(events, **({"decay": DECAY} if family is Retractable else {}), **settings)


def mine(aggregate: str, counting: Counting) -> bool:
    """Whether a sketch of this counting keeps what the aggregate adds up: sums are of weight."""
    return counting == "weight" or not aggregate.endswith("sum")


# Against exact counting.


@either
@pytest.mark.parametrize("keeping", ["eh", "dw"])
def test_ecm_agrees_with_exact_counting(counting: Counting, keeping: Any) -> None:
    """Every aggregate that is answered, now and in the past, thresholds that are quantiles or multiples of them."""
    missed: dict[str, Tally] = {}
    for seed in range(12):
        stream = stream_with_nothings(seed)
        oracle, rng = Oracle(stream), np.random.default_rng([seed, 21])
        settings: dict[str, Any] = {"epsilon": EPSILON, "delta": DELTA, "bits": 6, "seed": seed}
        sketch = Ecm.build(events_of(stream), keeping=keeping, counting=counting, **settings)
        sketch = Ecm.from_bytes(sketch.to_bytes())
        names = [name for name in Ecm.abilities.aggregates if name not in ("heavy-hitters", "inner-product")]
        for aggregate in (name for name in names if mine(name, counting)):
            question = random_question(rng, stream, aggregate, counting=counting)
            tally = missed.setdefault(aggregate, Tally())
            found, exact = sketch.answer(question), oracle.answer(question)
            if math.isnan(exact):
                assert math.isnan(found.value) or found.lower <= found.upper
                continue
            tally.answer(found, exact, math.inf)
            if aggregate in ("sum", "count"):
                assert found.confidence == 1.0
                assert tally.missed == 0
    assert {"count", "correlated-count", "self-join", "frequency"} <= missed.keys()
    assert ("sum" in missed) == (counting == "weight")
    for tally in missed.values():
        tally.check(DELTA)


@either
def test_retractable_agrees_with_exact_counting(counting: Counting) -> None:
    """Counts, sums and frequencies, of all events and after some were taken back."""
    failures = asked = 0
    for seed in range(20):
        stream = stream_with_nothings(seed)
        gone, stays = stream.split(2, 3)
        sketch = built(Retractable, events_of(stream), counting=counting, seed=seed)
        as_of = int(stream.t.max())
        for left, oracle in ((sketch, Oracle(stream)), (sketch.delete(events_of(gone)), Oracle(stays))):
            for aggregate in ("sum", "count"):
                question = Question(aggregate, DECAY, as_of, counting=counting)
                if mine(aggregate, counting):
                    found = Retractable.from_bytes(left.to_bytes()).answer(question)
                    assert found.lower <= oracle.answer(question) <= found.upper
            for value in (1, 5, 63):
                question = Question("frequency", DECAY, as_of, value=value, counting=counting)
                found, exact = left.answer(question), oracle.answer(question)
                assert exact <= found.upper
                failures += found.lower > exact
                asked += 1
    assert failures <= 0.05 * asked


@either
def test_joins_are_of_what_is_counted(counting: Counting) -> None:
    """The inner product of two sources and their own joins, within the bounds but for chance."""
    tally = Tally()
    for seed in range(10):
        streams = [stream_with_nothings(seed), stream_with_nothings(seed + 100)]
        settings: dict[str, Any] = {"purpose": "inner", "counting": counting, "seed": seed}
        here, there = (Ecm.build(events_of(stream), **settings) for stream in streams)
        one, two = (Oracle(stream) for stream in streams)
        for decay in ("none", "window:10m", DECAY):
            question = Question("inner-product", decay, counting=counting)
            tally.answer(here.answer(question, other=there), one.answer(question, two), math.inf)
            question = Question("self-join", decay, counting=counting)
            tally.answer(here.answer(question), one.answer(question), math.inf)
    tally.check(0.05)


@either
def test_heavy_hitters_are_of_what_is_counted(counting: Counting) -> None:
    """A value that only weightless events have is heavy among events, and nobody among weight."""
    for seed in range(5):
        stream = stream_with_nothings(seed)
        sketch = Ecm.build(events_of(stream), epsilon=0.02, delta=0.01, counting=counting, seed=seed)
        question = Question("heavy-hitters", "window:30m", phi=0.1, counting=counting)
        items = {item.value: item for item in sketch.answer(question).items}
        assert (63 in items) == (counting == "events")
        shares = Oracle(stream).shares(question)
        assert {value for value, share in shares.items() if share >= 0.12} <= items.keys()
        for value, item in items.items():
            assert item.lower <= shares[value] <= item.upper


# Thresholds that are aggregates.


@either
@pytest.mark.parametrize("tau", ["median", "2*median", "0.5*q0.9", "1.3*q0.3", "0*median", "40*median"])
def test_multiples_of_quantiles_as_thresholds(counting: Counting, tau: str) -> None:
    """The limits of the quantile, multiplied, go into the interval; nothing lies above the whole domain."""
    tally = Tally()
    for seed in range(4):
        stream = stream_with_nothings(seed)
        oracle = Oracle(stream)
        sketch = Ecm.build(events_of(stream), delta=DELTA, bits=6, counting=counting, seed=seed)
        for aggregate in ("correlated-count", "selectivity", "correlated-sum"):
            if mine(aggregate, counting):
                for decay in ("none", DECAY):
                    question = Question(aggregate, decay, tau=tau, counting=counting)
                    tally.answer(sketch.answer(question), oracle.answer(question), math.inf)
    tally.check(DELTA)


def test_a_mean_as_threshold_is_refused() -> None:
    """The counters hold no mean of the values."""
    sketch = Ecm.build(Events.of([1, 2], [1, 2], [3, 4]), bits=4)
    with pytest.raises(UnanswerableError, match="no mean"):
        sketch.answer(Question("correlated-count", tau="1.5*mean"))


# Predicates.


@either
def test_ranges_of_values_restrict_sums_and_counts(counting: Counting) -> None:
    """Open and closed ends, also beside a threshold, which is of all events; within the bounds but for chance."""
    tally = Tally()
    wheres = ("value < 40", "value > 5 and value <= 62", "value >= 20.5", "value = 63", "value > 700")
    for seed in range(8):
        stream = stream_with_nothings(seed)
        oracle = Oracle(stream)
        sketch = Ecm.build(events_of(stream), delta=DELTA, bits=6, counting=counting, seed=seed)
        for text in wheres:
            where = Predicate.parse(text)
            for question in (
                Question("sum", DECAY, where=where, counting=counting),
                Question("count", "window:20m", where=where, counting=counting),
                Question("range-sum", low=4, high=45, where=where, counting=counting),
                Question("correlated-count", tau=20, where=where, counting=counting),
                Question("correlated-count", tau="median", where=where, counting=counting),
            ):
                if mine(question.aggregate, counting):
                    found = sketch.answer(question)
                    tally.answer(found, oracle.answer(question), math.inf)
                    assert found.confidence == pytest.approx(1 - DELTA)
    tally.check(DELTA)


@families
@pytest.mark.parametrize(
    ("aggregate", "where"),
    [
        ("count", "weight < 3"),
        ("count", "value = 'a'"),
        ("frequency", "value < 3"),
        ("count", "value < 3"),  # without bits
    ],
)
def test_other_predicates_are_refused_by_name(family: Any, aggregate: str, where: str) -> None:
    """None is ignored: not one of weights, of text, of shares, nor of values without a domain."""
    sketch = built(family, Events.of([1, 2], [1, 2], [3, 4]))
    needs = {"value": 3} if aggregate == "frequency" else {}
    question = Question(aggregate, DECAY, where=Predicate.parse(where), **needs)  # type: ignore[arg-type]
    with pytest.raises(UnanswerableError, match=r"restrict|bits"):
        sketch.answer(question)
    if family is Ecm:
        with pytest.raises(UnanswerableError, match=r"restrict|bits"):
            sketch.series(question, [5])
        assert Ecm.promise(question, Built({}, {"counting": "events"}, 3600), past=False) is None


# Which of the two is kept.


@families
@either
def test_the_other_mass_is_refused(family: Any, counting: Counting) -> None:
    """A sketch of events has no weights and one of weights no events, unless all weigh 1: then both are the same."""
    other: Counting = "weight" if counting == "events" else "events"
    sketch = built(family, Events.of([1, 2], [1, 2], [3, 4], [1, 0]), counting=counting)
    for question in (Question("count", DECAY, counting=other), Question("frequency", DECAY, value=3, counting=other)):
        with pytest.raises(UnanswerableError, match=f"counting = '{counting}'"):
            sketch.answer(question)
        with pytest.raises(UnanswerableError, match=f"counting = '{counting}'"):
            sketch.series(question, [5])
        assert sketch.answer(replace(question, counting=counting)).value > 0.0
    if counting == "events":
        with pytest.raises(UnanswerableError, match="needs weight"):
            sketch.answer(Question("sum", DECAY))
    unit = built(family, Events.of([1, 2], [2, 2], [3, 4], [1, 1]), counting=counting)
    for asked in ("events", "weight"):
        assert unit.answer(Question("count", DECAY, counting=asked)).value == 2.0
    assert unit.answer(Question("sum", DECAY)).value == 2.0


def test_joins_of_events_with_weights_elsewhere_are_refused() -> None:
    """One side of unit weights is not enough for both masses to be the same."""
    here = Ecm.build(Events.of([1], [1], ["a"]))
    there = Ecm.build(Events.of([1], [1], ["a"], [5]))
    assert here.answer(Question("inner-product"), other=there).value == 1.0
    with pytest.raises(UnanswerableError, match="counting = 'events'"):
        here.answer(Question("inner-product", counting="weight"), other=there)


@families
def test_sketches_of_events_and_of_weight_do_not_merge(family: Any) -> None:
    """The parameters differ, and the message says in what."""
    one, two = (built(family, Events.of([1], [1], [1]), counting=counting) for counting in ("events", "weight"))
    assert one.parameters != two.parameters
    with pytest.raises(IncompatibleError, match=r"counting='events'.*counting='weight'"):
        one.merge(two)
    with pytest.raises(WaneError, match="counting is 'rows'"):
        built(family, Events.of([1], [1], [1]), counting="rows")


@families
def test_counting_goes_over_the_wire(family: Any) -> None:
    """Loaded again, the sketch says what it counts, keeps the extremes of all events, and gives the same answer."""
    events = Events.of([1, 2, 3], [1, 2, 3], [3, 4, 4], [0, 7, 2])
    for counting, exact in (("events", 3), ("weight", 9)):
        sketch = built(family, events, counting=counting)
        again = family.from_bytes(sketch.to_bytes())
        assert again.parameters == sketch.parameters
        assert again.extremes == Extremes.of(events)
        question = Question("count", DECAY, counting=sketch.parameters.counting)
        assert again.answer(question) == sketch.answer(question)
        assert again.answer(question).value == pytest.approx(exact, rel=0.01)
        assert again.to_bytes() == sketch.to_bytes()


# Weight 0.


@pytest.mark.parametrize("keeping", ["eh", "dw", "rw"])
@pytest.mark.parametrize("basis", ["time", "count"])
def test_events_of_weight_0_leave_no_trace_among_weights(keeping: Any, basis: Any) -> None:
    """The logs, the waves and the candidates are those of the other events; the times and weights of all are known."""
    heavy = 1 if keeping == "rw" else 3
    t, v, w = np.array([9, 1, 4, 4, 6]), np.array(["a", "b", "c", "a", "d"]), np.array([0, 0, heavy, 1, 0])
    events = Events.of(range(5), t, v, w)
    sketch = Ecm.build(events, keeping=keeping, basis=basis, counting="weight")
    some = np.flatnonzero(w)
    place = t if basis == "time" else np.array([5, 1, 2, 3, 4])
    without = Ecm.build(Events.of(some, place[some], v[some], w[some]), keeping=keeping, counting="weight")
    for column in ("owner", "time", "level", "cuts") if keeping == "rw" else ("bounds", "start", "end", "size"):
        if (column, basis) != ("level", "count"):  # levels are by the hash of the event itself
            assert np.array_equal(getattr(sketch.logs, column), getattr(without.logs, column)), column
    assert sorted(sketch.labels.texts) == ["a", "c"]
    assert (sketch.extremes.least_weight, sketch.extremes.greatest_weight) == (0, heavy)
    assert (sketch.extremes.oldest, sketch.extremes.newest) == ((1, 9) if basis == "time" else (1, 5))


@families
def test_nothing_but_weightless_events(family: Any) -> None:
    """A sum of 0 and shares of nothing among weights, ordinary counts among events; alone, merged and over the wire."""
    weightless = Events.of([1, 2], [10, 20], ["a", "b"], [0, 0])
    sketch = built(family, weightless, counting="weight")
    for one in (sketch, family.from_bytes(sketch.to_bytes()), sketch.merge(sketch)):
        found = one.answer(Question("sum", DECAY))
        assert (found.value, found.lower, found.upper) == (0.0, 0.0, 0.0)
        assert math.isnan(one.answer(Question("frequency", DECAY, value="a", counting="weight")).value)
        assert one.extremes.newest == 20
    other = built(family, Events.of([3], [20], ["a"], [4]), counting="weight")
    assert sketch.merge(other).answer(Question("sum", DECAY)).value == pytest.approx(4.0)
    events = built(family, weightless)
    assert events.answer(Question("count", DECAY, as_of=20)).value == pytest.approx(2.0, abs=0.02)


def test_counters_without_events_that_should_have_some_are_corrupt() -> None:
    """A sketch of events, or of weights above 0, whose log is empty does not load."""
    full = Ecm.build(Events.of([1], [1], [1], [2]), counting="weight")
    empty = Ecm.build(Events.of([], []), counting="weight")
    with pytest.raises(CorruptError, match="add up"):
        Ecm.from_bytes(replace(full, logs=empty.logs).to_bytes())
    weightless = replace(full.extremes, least_weight=0, greatest_weight=0)
    assert Ecm.from_bytes(replace(full, logs=empty.logs, extremes=weightless).to_bytes()).kept == 0
    with pytest.raises(CorruptError, match="add up"):
        Ecm.from_bytes(replace(full, extremes=weightless).to_bytes())


# Bytes of before.


@pytest.mark.parametrize("name", ["ecm-aggregated", "ecm-randomised", "ecm-ranges", "retractable-numbers"])
def test_payloads_of_format_1_count_weight(name: str) -> None:
    """They load, say that they count weight, mean what they meant, and keep doing so once they are written anew."""
    family: Any = Ecm if name.startswith("ecm") else Retractable
    old = family.from_bytes((GOLDEN / f"{name}-v1.bin").read_bytes())
    assert old.parameters.counting == "weight"
    again = family.from_bytes(old.to_bytes())
    assert again.parameters == old.parameters
    for line in json.loads((GOLDEN / f"{name}-v1.json").read_text(encoding="utf-8")):
        found = again.answer(Question(**line["question"], counting="weight"))
        if family is Ecm:  # whose estimates have become better, within the same bounds
            assert found.lower <= line["estimate"] <= found.upper
        else:
            assert found.value == pytest.approx(line["estimate"], rel=1e-9)
        assert [item.value for item in found.items] == [value for value, _ in line["items"]]
    question = Question("sum", DECAY)
    assert again.answer(question) == old.answer(question)
    assert old.answer(Question("count", DECAY, counting="weight")).value == old.answer(question).value
    if not old.extremes.unit_weights:
        with pytest.raises(UnanswerableError, match="counting = 'weight'"):
            old.answer(Question("count", DECAY))


def test_parameters_as_bytes() -> None:
    """Version 1 has no byte for what is counted, version 2 has one that must be known."""
    ecm = EcmParameters(0.1, 0.1, "eh", "point", "time", 0, SECOND, 7)
    fading = CountMinParameters.of(0.1, 0.1, DECAY, SECOND, 7)
    for parameters in (ecm, fading):
        data = parameters.to_bytes()
        read: Any = type(parameters).from_bytes
        assert read(data, 7) == parameters
        assert read(data[:-1], 7, 1).counting == "weight"
        for wrong in (data[:-1], data[:-1] + b"\x02", data + b"\x00"):
            with pytest.raises(CorruptError):
                read(wrong, 7)


# More weight than a float counts one by one.


@pytest.mark.parametrize("weight", [1, (1 << 40) - 1])
def test_weights_beyond_2_to_the_53(weight: int) -> None:
    """Every unit is kept: the bytes hold the same sketch again, merged too, and answers hold the exact sums."""
    n = 9000 if weight > 1 else 50
    weights = np.full(n, weight)
    weights[::70] = 3
    v = np.arange(n) % 5
    parts = [Events.of(range(n), np.arange(n) * at, v, weights) for at in (1, 2)]
    sketches = [Ecm.build(events, epsilon=0.3, bits=3, counting="weight") for events in parts]
    whole = int(weights.sum())
    assert (whole > 1 << 53) == (weight > 1)
    for sketch, exact in ((sketches[0], whole), (Ecm.union(sketches), 2 * whole)):
        again = Ecm.from_bytes(sketch.to_bytes())
        for column in ("bounds", "start", "end", "size"):
            assert np.array_equal(getattr(again.logs, column), getattr(sketch.logs, column)), column
        assert int(again.logs.totals()[-1]) == exact
        found = again.answer(Question("sum"))
        assert found == sketch.answer(Question("sum"))
        assert int(found.lower) <= exact <= int(found.upper)


def test_more_weight_than_can_be_counted_is_refused() -> None:
    """Above 2^62 in one sketch, or in the union of two."""
    n = 1 << 17
    events = Events.of(range(n), range(n), np.zeros(n, np.int64), np.full(n, 1 << 40))
    sketch = Ecm.build(events, epsilon=0.5, delta=0.5, counting="weight")
    assert Ecm.from_bytes(sketch.to_bytes()).kept == sketch.kept
    with pytest.raises(WaneError, match=r"2\^62"):
        Ecm.union([sketch] * 33)
