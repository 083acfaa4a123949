"""Count-Min over windows: the bounds of paper E counted over seeds, on Zipf streams and on real data."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import bdtrc

from sketches import Events, Question, TimeUnit
from sketches.arrays import Floats, Ints
from sketches.countmin.ecm import Ecm
from sketches.countmin.ecm_parameters import EcmParameters, Purpose, split
from sketches.countmin.window_logs import Logs
from sketches.decay import parse_decay
from sketches.encoding.value_codes import codes_of, values_of
from sketches.errors import IncompatibleError, QuestionError, UnanswerableError, WaneError
from sketches.events import Kind
from sketches.question import Counting
from tests.support.conformance import events_of
from tests.support.oracle import DECAYS, Oracle, random_question
from tests.support.streams import HOUR, START, STREAMS, Stream

DataSet = Callable[[str], Path]

SEEDS: Final = 40
EPSILON: Final = 0.1
DELTA: Final = 0.1
DOUBT: Final = 1e-6
ROUNDING: Final = 1e-9
WINDOWS: Final = ("window:3s", "window:40s", "window:10m", "window:45m", "none")
KEEPINGS: Final = ("eh", "dw")

both = pytest.mark.parametrize("keeping", KEEPINGS)
either = pytest.mark.parametrize("counting", ["events", "weight"])


def too_many(failures: int, asked: int, allowed: float) -> bool:
    """More failures than a chance of `allowed` each would give but once in a million times."""
    assert asked > 0
    return failures > 0 and bdtrc(failures - 1, asked, allowed) <= DOUBT


def zipf_stream(exponent: float, seed: int, n: int = 3000) -> Stream:
    """Values from 0 to 4999 with Zipf odds, in an hour of which a third comes in twenty ticks."""
    rng = np.random.default_rng([seed, int(10 * exponent)])
    odds = 1.0 / np.arange(1, 5001) ** exponent
    v = rng.choice(5000, n, p=odds / odds.sum())
    t = np.where(rng.random(n) < 1 / 3, rng.choice(rng.integers(0, HOUR, 20), n), rng.integers(0, HOUR, n))
    return Stream.of("zipf", np.arange(n), START + np.sort(t), v)


@dataclass
class Masses:
    """What every value of a stream weighs under a decay, counted from all events."""

    values: NDArray[Any]
    codes: NDArray[np.intp]
    t: Ints
    w: Ints

    @classmethod
    def of(cls, stream: Stream) -> Masses:
        values, codes = np.unique(stream.v, return_inverse=True)
        return cls(values, codes.reshape(-1), stream.t, stream.w)

    def at(self, decay: str, as_of: int | None = None) -> Floats:
        now = int(self.t.max()) if as_of is None else as_of
        ages = now - self.t
        fading = np.where(ages >= 0, parse_decay(decay)(np.maximum(ages, 0).astype(np.float64)), 0.0)
        return np.bincount(self.codes, self.w * fading, minlength=len(self.values)).astype(np.float64)


@dataclass
class Tally:
    """Answers that were counted: how many were asked, how many erred by more than ε, how many intervals missed."""

    asked: int = 0
    beyond: int = 0
    missed: int = 0
    worst: float = field(default=0.0)

    def shares(self, sketch: Any, masses: Masses, decay: str, epsilon: float, as_of: int | None = None) -> None:
        """Every value of a stream, of a sketch or of sketches side by side."""
        window = decay.replace("last:", "window:") + "s" if decay.startswith("last:") else decay  # times are positions
        exact = masses.at(window, as_of)
        exact = exact / exact.sum()
        value, lower, upper = getattr(sketch, "counters", sketch).frequencies(masses.values, decay, as_of)
        if sketch.depth == 0:
            assert (exact <= upper * (1 + ROUNDING) + 1e-15).all()
        assert (lower <= value).all()
        assert (value <= upper).all()
        self.asked += len(exact)
        self.beyond += int(np.count_nonzero(np.abs(value - exact) > epsilon))
        self.missed += int(np.count_nonzero((exact < lower - ROUNDING) | (exact > upper + ROUNDING)))
        self.worst = max(self.worst, float(np.abs(value - exact).max()))

    def answer(self, estimate: Any, exact: float, allowed: float) -> None:
        slack = ROUNDING * abs(exact)
        self.asked += 1
        self.beyond += abs(estimate.value - exact) > allowed + slack
        self.missed += not estimate.lower - slack <= exact <= estimate.upper + slack

    def check(self, delta: float) -> None:
        assert not too_many(self.beyond, self.asked, delta), self
        assert not too_many(self.missed, self.asked, delta), self


# Theorems 1 and 2.


@both
@pytest.mark.parametrize("exponent", [1.1, 1.5])
def test_point_queries_keep_theorem_1(exponent: float, keeping: Any) -> None:
    """Over seeds, values and windows no more than δ of the shares err by more than ε; none is above its bound."""
    tally = {window: Tally() for window in WINDOWS}
    for seed in range(SEEDS):
        stream = zipf_stream(exponent, seed)
        masses = Masses.of(stream)
        sketch = Ecm.build(events_of(stream), epsilon=EPSILON, delta=DELTA, keeping=keeping, seed=seed)
        for window in WINDOWS:
            tally[window].shares(sketch, masses, window, EPSILON)
    for counted in tally.values():
        counted.check(DELTA)


@both
def test_a_value_that_is_alone_errs_by_no_more_than_its_counters(keeping: Any) -> None:
    """Nothing collides with it: its share is off by what windows are off by, in every window of an hour."""
    rng = np.random.default_rng(3)
    t = np.sort(rng.choice(rng.integers(0, 400, 60), 900))
    sketch = Ecm.build(Events.of(range(900), t, np.zeros(900, np.int64)), epsilon=0.2, keeping=keeping)
    error = sketch.parameters.window_error
    for window in range(1, 402):
        exact = int(np.count_nonzero(t > t[-1] - window))
        found = sketch.answer(Question("sum", f"window:{window}s"))
        assert found.lower <= exact <= found.upper, window
        assert abs(found.value - exact) <= error * exact * (1 + ROUNDING), window
        assert found.confidence == 1.0


@pytest.mark.slow
@both
@pytest.mark.parametrize("exponent", [1.1, 1.5])
def test_products_keep_theorem_2(exponent: float, keeping: Any) -> None:
    """Inner products of two streams and self-joins err by more than ε·D·D' no more often than δ allows."""
    self_joins, products = Tally(), Tally()
    for seed in range(SEEDS):
        streams = [zipf_stream(exponent, 2 * seed + which, 1500) for which in range(2)]
        build: dict[str, Any] = {"epsilon": EPSILON, "delta": DELTA, "keeping": keeping, "seed": seed}
        here, there = (Ecm.build(events_of(stream), purpose="inner", **build) for stream in streams)
        now = int(max(stream.t.max() for stream in streams))
        for window in WINDOWS:
            one, two = (np.zeros(5000) for _ in range(2))
            for stream, dense in zip(streams, (one, two), strict=True):
                masses = Masses.of(stream)
                dense[masses.values] = masses.at(window, now)
            found = here.answer(Question("self-join", window, as_of=now))
            self_joins.answer(found, float(one @ one), EPSILON * one.sum() ** 2)
            assert one @ one <= found.upper * (1 + ROUNDING)
            found = here.answer(Question("inner-product", window), other=there)
            assert found.as_of == now
            products.answer(found, float(one @ two), EPSILON * one.sum() * two.sum())
            assert one @ two <= found.upper * (1 + ROUNDING)
    self_joins.check(DELTA)
    products.check(DELTA)


# Real data.


@cache
def real(path: Path, weighted: bool) -> tuple[Stream, Masses, Events]:
    """Time, key and, where they matter, weight of every row."""
    table = pq.read_table(path, columns=["ts", "key", "weight"])
    weights = table["weight"].to_numpy() if weighted else None
    coded = table["key"].combine_chunks().dictionary_encode()
    keys, codes = coded.dictionary.to_numpy(zero_copy_only=False), coded.indices.to_numpy().astype(np.intp)
    stream = Stream.of(path.stem, np.arange(len(codes)), table["ts"].to_numpy(), keys[codes], weights)
    return stream, Masses(keys, codes, stream.t, stream.w), events_of(stream)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "weighted"), [("online_retail", True), ("bikeshare14", False), ("zeek_wrccdc", False)]
)
def test_real_keys(data: DataSet, name: str, weighted: bool) -> None:
    """Five windows: points within ε, every share of φ + ε in the list by its name, nothing below φ but by chance."""
    stream, masses, events = real(data(name), weighted)
    epsilon, delta = 0.02, 0.05
    now, span = int(stream.t.max()), int(stream.t.max() - stream.t.min())
    windows = [f"window:{max(1, span // parts + 1)}s" for parts in (1, 8, 50, 400, 3000)]
    points = Tally()
    lists = wrong = heavy = 0
    for seed in range(2):
        sketch = Ecm.build(events, epsilon=epsilon, delta=delta, seed=seed, counting="weight")
        for window in windows:
            points.shares(sketch, masses, window, epsilon)
            shares = masses.at(window, now)
            exact = dict(zip(masses.values.tolist(), (shares / shares.sum()).tolist(), strict=True))
            for phi in (0.01, 0.05):
                items = sketch.answer(Question("heavy-hitters", window, phi=phi, counting="weight")).items
                listed = {str(item.value) for item in items}
                expected = {key for key, share in exact.items() if share >= phi + epsilon}
                assert expected <= listed
                heavy += len(expected)
                lists += 1
                wrong += any(exact[key] < phi for key in listed)
                assert [item.estimate for item in items] == sorted((item.estimate for item in items), reverse=True)
    points.check(delta)
    assert heavy > 0, "no value was heavy: nothing was tested"
    assert not too_many(wrong, lists, delta)


# Decays, by reduction to windows.


@pytest.mark.slow
@both
@pytest.mark.parametrize("name", ["keys", "zipf", "late", "heavy-weights", "bursty", "one-second"])
def test_any_decay(name: str, keeping: Any) -> None:
    """Sums are never outside their bounds and within ε_sw of the exact one; shares within ε but for chance."""
    stream = STREAMS[name](1500, 3).distinct()
    masses, oracle = Masses.of(stream), Oracle(stream)
    past = int(np.quantile(stream.t, 0.7))
    now, then = Tally(), Tally()
    build: dict[str, Any] = {"epsilon": EPSILON, "delta": DELTA, "keeping": keeping, "counting": "weight"}
    for seed in range(3):
        sketch = Ecm.build(events_of(stream), seed=seed, **build)
        for decay in DECAYS:
            found = sketch.answer(Question("sum", decay))
            exact = oracle.answer(Question("sum", decay))
            assert found.lower <= exact * (1 + ROUNDING)
            assert exact <= found.upper * (1 + ROUNDING)
            assert abs(found.value - exact) <= sketch.parameters.window_error * exact * (1 + ROUNDING)
            found = sketch.answer(Question("sum", decay, as_of=past))
            exact = oracle.answer(Question("sum", decay, as_of=past))
            assert found.lower <= exact * (1 + ROUNDING)
            assert exact <= found.upper * (1 + ROUNDING)
            now.shares(sketch, masses, decay, EPSILON)
            if exact:
                then.shares(sketch, masses, decay, math.inf, past)
    now.check(DELTA)
    then.check(DELTA)


def test_the_answer_agrees_with_the_oracle() -> None:
    """The same by way of questions, one value at a time, under exponential, polynomial and chordal decay."""
    stream = STREAMS["keys"](2000, 8).distinct()
    oracle = Oracle(stream)
    tally = Tally()
    for seed in range(SEEDS):
        sketch = Ecm.build(events_of(stream), epsilon=EPSILON, delta=DELTA, seed=seed)
        rng = np.random.default_rng([seed, 4])
        for decay in ("exp:half_life=10m", "poly:alpha=1.5,unit=1m", "chordal:40m"):
            question = random_question(rng, stream, "frequency", (decay,))
            allowed = EPSILON if question.as_of is None else math.inf
            tally.answer(sketch.answer(question), oracle.answer(question), allowed)
    tally.check(DELTA)


def test_a_series_is_its_answers() -> None:
    """Sums, shares and self-joins at many times are those asked one by one."""
    stream = STREAMS["keys"](800, 2).distinct()
    sketch = Ecm.build(events_of(stream), epsilon=EPSILON, counting="weight")
    moments = np.arange(START - 5, START + HOUR + 300, 450)
    for question in (
        Question("sum", "exp:half_life=5m"),
        Question("frequency", "window:10m", value=stream.v[0], counting="weight"),
        Question("self-join", "chordal:40m", counting="weight"),
    ):
        series = sketch.series(question, moments)
        one_by_one = [sketch.answer(question.at(moment)) for moment in moments.tolist()]
        for column in ("value", "lower", "upper"):
            expected = [getattr(each, column) for each in one_by_one]
            assert np.allclose(getattr(series, column), expected, rtol=1e-12, equal_nan=True)
    with_itself = sketch.series(Question("inner-product", "chordal:40m", counting="weight"), moments, other=sketch)
    assert with_itself.value == pytest.approx(series.value)


# Merges.


def tree(sketches: Sequence[Ecm]) -> Ecm:
    left = list(sketches)
    while len(left) > 1:
        left = [Ecm.union(left[at : at + 2]) for at in range(0, len(left), 2)]
    return left[0]


@pytest.mark.slow
@both
@pytest.mark.parametrize("by_time", [False, True])
def test_merged_parts_keep_the_error_of_one_batch(keeping: Any, by_time: bool) -> None:
    """16 sources (or epochs) at once and in a tree: sums are certain, shares within ε, as of now and of the past."""
    tally = Tally()
    for seed in range(8):
        stream = zipf_stream(1.1, seed, 4000)
        masses, oracle = Masses.of(stream), Oracle(stream)
        build: dict[str, Any] = {"epsilon": EPSILON, "delta": DELTA, "keeping": keeping, "seed": seed}
        rows = [stream.take(part) for part in np.array_split(np.arange(len(stream)), 16)]
        parts = rows if by_time else stream.split(16, seed)
        sketches = [Ecm.build(events_of(part), **build) for part in parts]
        past = int(np.quantile(stream.t, 0.8))
        for merged in (Ecm.union(sketches), tree(sketches)):
            error = merged.parameters.window_error
            for decay in (*WINDOWS, "exp:half_life=10m", "chordal:40m"):
                found = merged.answer(Question("sum", decay))
                exact = oracle.answer(Question("sum", decay))
                assert found.confidence == 1.0
                assert "aggregated" not in found.guarantee
                assert found.lower <= exact * (1 + ROUNDING), decay
                assert exact <= found.upper * (1 + ROUNDING), decay
                assert abs(found.value - exact) <= error * exact * (1 + ROUNDING), decay
                found = merged.answer(Question("sum", decay, as_of=past))
                exact = oracle.answer(Question("sum", decay, as_of=past))
                assert found.lower - ROUNDING <= exact <= found.upper + ROUNDING, decay
                tally.shares(merged, masses, decay, EPSILON)
                if exact:
                    tally.shares(merged, masses, decay, math.inf, past)
    tally.check(DELTA)


def test_the_order_of_a_union_does_not_matter_and_nothing_is_lost() -> None:
    """However the parts are handed over, the logs are the same, and hold every arrival."""
    stream = STREAMS["keys"](2000, 4)
    sketches = [Ecm.build(events_of(part), epsilon=0.1) for part in stream.split(9, 1)]
    union = Ecm.union(sketches)
    assert Ecm.union(sketches[::-1]).to_bytes() == union.to_bytes()
    whole = Ecm.build(events_of(stream), epsilon=0.1)
    assert isinstance(union.logs, Logs)
    assert isinstance(whole.logs, Logs)
    assert np.array_equal(union.logs.totals(), whole.logs.totals())
    assert set(whole.labels.texts) <= set(union.labels.texts)
    assert sketches[0].insert(events_of(stream)).depth == 0
    question = Question("count", "window:10m")
    assert Ecm.from_bytes(union.to_bytes()).answer(question) == union.answer(question)


def test_nothing_is_lost_to_the_empty() -> None:
    """A union with sketches of no events is the sketch itself."""
    stream = STREAMS["keys"](300, 4)
    sketch, empty = Ecm.build(events_of(stream)), Ecm.build(Events.of([], []))
    for union in (Ecm.union([sketch]), Ecm.union([empty, sketch, empty]), sketch.merge(empty), empty.merge(sketch)):
        assert union.to_bytes() == sketch.to_bytes()
    assert Ecm.union([empty, empty]).depth == 0


@both
def test_side_by_side_nothing_is_lost(keeping: Any) -> None:
    """Sources and epochs that are asked together stay at depth 0: sums certain, shares within ε as of one sketch."""
    tally = Tally()
    for seed in range(8):
        stream = zipf_stream(1.1, seed, 4000)
        masses, oracle = Masses.of(stream), Oracle(stream)
        epochs = [stream.take(part) for part in np.array_split(np.arange(len(stream)), 4)]
        parts = [part for epoch in epochs for part in epoch.split(4, seed)]
        build: dict[str, Any] = {"epsilon": EPSILON, "delta": DELTA, "keeping": keeping, "seed": seed}
        together = Ecm.askable([Ecm.build(events_of(part), **build) for part in parts])
        assert together.depth == 0
        for decay in WINDOWS:
            found, exact = together.answer(Question("sum", decay)), oracle.answer(Question("sum", decay))
            assert found.confidence == 1.0
            assert "aggregated" not in found.guarantee
            assert found.lower <= exact * (1 + ROUNDING)
            assert exact <= found.upper * (1 + ROUNDING)
            assert abs(found.value - exact) <= together.parameters.window_error * exact * (1 + ROUNDING)
            tally.shares(together, masses, decay, EPSILON)
    tally.check(DELTA)


# Ranges of whole numbers.

RANGED: Final = (
    "rank",
    "range-sum",
    "range-frequency",
    "selectivity",
    "correlated-sum",
    "correlated-count",
    "quantile",
    "median",
)
SUMS: Final = ("range-sum", "correlated-sum")  # of weight, whatever is counted


def ranged_stream(seed: int, n: int = 1200) -> Stream:
    """Values below 2^10, half of them among eight, with weights."""
    rng = np.random.default_rng([seed, 9])
    v = np.where(rng.random(n) < 0.5, rng.choice([0, 3, 255, 256, 500, 777, 1022, 1023], n), rng.integers(0, 1024, n))
    return Stream.of("ranged", np.arange(n), START + rng.integers(0, HOUR, n), v, rng.integers(1, 5, n))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("aggregate", "counting"),
    [
        (name, counting)
        for name in RANGED
        for counting in ("events", "weight")
        if counting == "weight" or name not in SUMS
    ],
)
def test_intervals_over_ranges_hold_the_exact_answer(aggregate: str, counting: Counting) -> None:
    """Counted over seeds, also at earlier times, with thresholds that are themselves quantiles."""
    tally = Tally()
    for seed in range(SEEDS):
        stream = ranged_stream(seed % 4)
        oracle = Oracle(stream)
        build: dict[str, Any] = {"epsilon": EPSILON, "delta": DELTA, "bits": 10, "seed": seed, "counting": counting}
        sketch = Ecm.build(events_of(stream), **build)
        rng = np.random.default_rng([seed, 10])
        for _ in range(1 if aggregate in ("quantile", "median") else 2):
            question = random_question(rng, stream, aggregate, counting=counting)
            tally.answer(sketch.answer(question), oracle.answer(question), math.inf)
    tally.check(DELTA)


def test_ranges_are_near() -> None:
    """A rank errs by no more than ε for each of its dyadic parts, a quantile's rank likewise; most are far nearer."""
    errors = []
    for seed in range(5):
        stream = ranged_stream(seed)
        oracle = Oracle(stream)
        sketch = Ecm.build(events_of(stream), epsilon=0.05, delta=0.05, bits=10, seed=seed)
        for window in ("none", "window:10m"):
            for value in (0, 100, 511, 1000):
                question = Question("rank", window, value=value)
                errors.append(abs(sketch.answer(question).value - oracle.answer(question)))
            for phi in (0.1, 0.5, 0.9):
                found = sketch.answer(Question("quantile", window, phi=phi)).value
                low, high = (oracle.answer(Question("rank", window, value=found + by)) for by in (-1, 0))
                errors.append(max(low - phi, phi - high, 0.0))
    assert max(errors) <= 10 * 0.05
    assert np.quantile(errors, 0.9) <= 0.05


def test_ranges_hold_after_merges() -> None:
    """Aggregated counters widen the intervals, which still hold the exact answers."""
    tally = Tally()
    for seed in range(12):
        stream = ranged_stream(seed % 4)
        oracle = Oracle(stream)
        build: dict[str, Any] = {"epsilon": EPSILON, "delta": DELTA, "bits": 10, "seed": seed, "counting": "weight"}
        merged = tree([Ecm.build(events_of(part), **build) for part in stream.split(4, seed)])
        rng = np.random.default_rng([seed, 11])
        for aggregate in RANGED:
            question = random_question(rng, stream, aggregate, counting="weight")
            tally.answer(merged.answer(question), oracle.answer(question), math.inf)
    tally.check(DELTA)


@pytest.mark.slow
@pytest.mark.parametrize("aggregate", RANGED)
def test_values_beyond_the_domain_count_as_its_ends(aggregate: str) -> None:
    """Below 0 as 0, above the greatest as the greatest, whatever the range."""
    rng = np.random.default_rng(12)
    v = rng.integers(-60, 120, 1500)
    stream = Stream.of("beyond", np.arange(1500), START + rng.integers(0, HOUR, 1500), v)
    inside = Stream.of("inside", stream.ids, stream.t, v.clip(0, 63))
    oracle = Oracle(inside)
    if aggregate == "rank":
        questions = [Question("rank", value=value) for value in (0, 1, 31, 62, 63, 64, 500)]
    elif aggregate in ("quantile", "median"):
        questions = [Question("quantile", phi=phi) for phi in (0.1, 0.3, 0.5, 0.6, 0.9)]
    elif aggregate.startswith("correlated-"):
        questions = [Question(aggregate, tau=tau) for tau in (-100, -1, 0, 1, 32, 62, 63)]
    else:
        ranges = [(0, 0), (0, 31), (-50, 0), (1, 63), (63, 63), (60, 1000), (-1000, 1000), (40, 62)]
        questions = [Question(aggregate, low=low, high=high) for low, high in ranges]
    tallies = [Tally() for _ in questions]
    for seed in range(12):
        sketch = Ecm.build(events_of(stream), epsilon=EPSILON, delta=DELTA, bits=6, seed=seed)
        for question, tally in zip(questions, tallies, strict=True):
            tally.answer(sketch.answer(question), oracle.answer(question), math.inf)
    for question, tally in zip(questions, tallies, strict=True):
        assert not too_many(tally.missed, tally.asked, DELTA), (question, tally)


def test_group_testing_finds_the_heavy_numbers() -> None:
    """Over seeds and windows: every number with a share of φ + ε, none below φ but by chance."""
    epsilon, lists, wrong, heavy = 0.05, 0, 0, 0
    for seed in range(10):
        stream = ranged_stream(seed)
        masses = Masses.of(stream)
        build: dict[str, Any] = {"epsilon": epsilon, "delta": DELTA, "bits": 10, "seed": seed, "counting": "weight"}
        sketch = Ecm.build(events_of(stream), **build)
        for window in WINDOWS[1:]:
            shares = masses.at(window)
            exact = dict(zip(masses.values.tolist(), (shares / shares.sum()).tolist(), strict=True))
            for phi in (0.01, 0.03):
                question = Question("heavy-hitters", window, phi=phi, counting="weight")
                listed = {item.value for item in sketch.answer(question).items}
                expected = {value for value, share in exact.items() if share >= phi + epsilon}
                assert expected <= listed
                heavy += len(expected)
                lists += 1
                wrong += any(exact.get(int(value), 0.0) < phi for value in listed)
    assert heavy > 0
    assert not too_many(wrong, lists, DELTA)


def test_numbers_beyond_the_domain_are_heavy_all_the_same() -> None:
    """Group testing over a domain that is too small still names who is heavy, be it by its own name or an end's."""
    values = [-5] * 40 + [300] * 40 + list(range(20))
    sketch = Ecm.build(Events.of(range(100), range(100), values), bits=8)
    listed = {item.value for item in sketch.answer(Question("heavy-hitters", phi=0.2)).items}
    assert listed in ({-5, 300}, {0, 255})


# Parameters.


@pytest.mark.parametrize("purpose", ["point", "inner"])
@pytest.mark.parametrize("epsilon", [0.001, 0.01, 0.05, 0.1, 0.3, 0.9])
def test_no_other_split_takes_less_memory(epsilon: float, purpose: Purpose) -> None:
    """The error is ε and no more, and of a fine grid of splits with that error none has a greater ε_sw·ε_cm."""
    window, sketch = split(epsilon, purpose)
    most = epsilon if purpose == "point" else math.sqrt(1 + epsilon) - 1
    grid = np.linspace(0, most, 200_001)[1:-1]
    if purpose == "point":
        assert window + sketch + window * sketch == pytest.approx(epsilon, rel=1e-9)
        others = (epsilon - grid) / (1 + grid)
    else:
        assert window**2 + 2 * window + sketch * (1 + window) ** 2 == pytest.approx(epsilon, rel=1e-9)
        others = (epsilon - grid**2 - 2 * grid) / (1 + grid) ** 2
    assert window > 0
    assert sketch > 0
    best = int(np.argmax(grid * others))
    assert window * sketch >= grid[best] * others[best] * (1 - 1e-9)
    assert window == pytest.approx(grid[best], rel=1e-3)


@pytest.mark.parametrize("purpose", ["point", "inner"])
def test_sketches_are_as_large_as_the_bounds_need(purpose: Purpose) -> None:
    """At least e/ε_cm counters a row and ln 1/δ rows, and no more than the next whole numbers."""
    for epsilon in (0.01, 0.1, 0.5):
        for delta in (1e-6, 0.05, 0.1, 0.5, 0.9):
            parameters = EcmParameters(epsilon, delta, "eh", purpose, "time", 0, TimeUnit(), 0)
            needed = math.e / split(epsilon, purpose)[1]
            assert needed <= parameters.width < needed + 1
            assert math.log(1 / delta) <= parameters.rows < math.log(1 / delta) + 1
            assert parameters.cells(Kind.KEY) == parameters.rows * parameters.width + 1
            sketch = Ecm.build(Events.of([1], [1], ["a"]), epsilon=epsilon, delta=delta, purpose=purpose)
            assert isinstance(sketch.logs, Logs)
            assert sketch.logs.counters == parameters.cells(Kind.KEY)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": 1.0}, "epsilon"),
        ({"epsilon": math.nan}, "epsilon"),
        ({"epsilon": 1e-5}, "epsilon"),
        ({"delta": 0.0}, "delta"),
        ({"delta": -0.5}, "delta"),
        ({"delta": 1e-12}, "delta"),
        ({"keeping": "log"}, "keeping"),
        ({"purpose": "range"}, "purpose"),
        ({"basis": "rows"}, "basis"),
        ({"counting": "rows"}, "counting"),
        ({"bits": -1}, "bits"),
        ({"bits": 63}, "bits"),
        ({"seed": -1}, "seed"),
        ({"seed": 1 << 64}, "seed"),
    ],
)
def test_hostile_parameters_are_refused(settings: dict[str, Any], message: str) -> None:
    """Before anything is built, with the name of what is wrong."""
    with pytest.raises(WaneError, match=message):
        Ecm.build(Events.of([1], [1]), **settings)


# Candidates.


def heavy_in_some_suffix(stream: Stream, epsilon: float) -> set[Any]:
    """By brute force: in the order of time, the values with a share of ε or more of what comes from some row on."""
    order = np.argsort(stream.t, kind="stable")
    values, weights = stream.v[order], stream.w[order]
    found: set[Any] = set()
    for begin in range(len(values)):
        here, codes = np.unique(values[begin:], return_inverse=True)
        masses = np.bincount(codes.reshape(-1), weights[begin:])
        found.update(here[(masses > 0) & (masses >= epsilon * weights[begin:].sum())].tolist())
    return found


@given(
    st.lists(st.tuples(st.integers(0, 20), st.integers(0, 12), st.sampled_from((0, 1, 1, 2, 9))), max_size=60),
    st.sampled_from((0.03, 0.1, 0.3, 0.6)),
)
@settings(max_examples=60)
def test_the_candidates_are_the_values_that_are_heavy_in_a_suffix(
    rows: list[tuple[int, int, int]], epsilon: float
) -> None:
    """All of them and no other, whatever the order, the ticks and the weights; of events or of weight."""
    t, v, w = (np.array(column, np.int64) for column in zip(*rows, strict=True)) if rows else (np.zeros(0, int),) * 3
    stream = Stream.of("few", np.arange(len(rows)), t, v, w)
    sketch = Ecm.build(events_of(stream), epsilon=epsilon, counting="weight")
    assert set(values_of(sketch.candidates, Kind.INTEGER).tolist()) == heavy_in_some_suffix(stream, epsilon)
    sketch, once = Ecm.build(events_of(stream), epsilon=epsilon), Stream.of("once", stream.ids, t, v)
    assert set(values_of(sketch.candidates, Kind.INTEGER).tolist()) == heavy_in_some_suffix(once, epsilon)


@pytest.mark.parametrize("name", ["keys", "late", "bursty"])
def test_the_candidates_of_streams(name: str) -> None:
    """Long enough for candidates that were heavy long ago; of text, their names."""
    stream = STREAMS[name](600, 5)
    sketch = Ecm.build(events_of(stream), epsilon=0.02, counting="weight")
    expected = heavy_in_some_suffix(stream, 0.02)
    if stream.is_text:
        assert set(sketch.labels.texts) == expected
    else:
        assert np.array_equal(sketch.candidates, np.unique(codes_of(np.array(sorted(expected)), Kind.INTEGER)))


def test_heavy_hitters_are_named() -> None:
    """Text comes back as text, whatever script it is in, with its share."""
    stream = STREAMS["keys"](3000, 6).distinct()
    shares = Oracle(stream).shares(Question("heavy-hitters", "exp:half_life=10m"))
    found = Ecm.build(events_of(stream), epsilon=0.01, delta=0.01).answer(
        Question("heavy-hitters", "exp:half_life=10m", top=5)
    )
    assert [item.value for item in found.items] == list(shares)[:5]
    for item in found.items:
        assert item.lower <= shares[item.value] <= item.upper
        assert item.estimate == pytest.approx(shares[item.value], abs=0.01)
    assert (found.value, found.lower, found.upper) == (
        found.items[0].estimate,
        found.items[0].lower,
        found.items[0].upper,
    )


def bursts(seed: int) -> tuple[Ints, Ints]:
    """Times and values where most of value 0 comes in one tick and many of the others just before it."""
    rng = np.random.default_rng([seed, 13])
    n, ticks = int(rng.integers(50, 1500)), int(rng.integers(20, 60))
    heavy = int(n * rng.uniform(0.6, 0.95))
    tick = int(rng.integers(5, ticks))
    mine = np.where(rng.random(heavy) < 0.9, tick, rng.integers(0, ticks, heavy))
    others = np.where(rng.random(n - heavy) < 0.6, tick - 1, rng.integers(0, ticks, n - heavy))
    return np.concatenate((mine, others)), np.concatenate((np.zeros(heavy, int), 1 + np.arange(n - heavy) % 50))


@pytest.mark.slow
@pytest.mark.parametrize("parts", [1, 4])
def test_no_share_of_phi_and_epsilon_is_ever_missing(parts: int) -> None:
    """Not by chance: where windows cut the buckets of its counter and of all at their worst, a value is listed."""
    epsilon, asked = 0.2, 0
    for seed in range(160 // parts):
        t, v = bursts(seed)
        part = np.random.default_rng(seed).integers(0, parts, len(t))
        sketch = Ecm.union(
            [Ecm.build(Events.of(range(n), t[part == p], v[part == p]), epsilon=epsilon) for p in range(parts)
             if (n := int(np.count_nonzero(part == p)))]
        )  # fmt: skip
        for window in range(1, int(t.max() - t.min()) + 2, 5):
            inside = t > t.max() - window
            phi = float(np.mean(v[inside] == 0)) - epsilon - ROUNDING
            if phi > 0.05:
                found = sketch.answer(Question("heavy-hitters", f"window:{window}s", phi=phi))
                assert 0 in [item.value for item in found.items], (seed, window, phi)
                asked += 1
    assert asked > 40


@pytest.mark.parametrize("bits", [0, 8])
def test_heavy_hitters_of_the_past(bits: int) -> None:
    """What was heavy then and is nothing now: group testing finds it, else the answer says that some may be missing."""
    values = np.concatenate((np.full(1000, 7), np.arange(19_000) % 199 + 10))
    sketch = Ecm.build(Events.of(range(20_000), range(20_000), values), epsilon=0.1, bits=bits)
    assert sketch.answer(Question("frequency", "window:500s", as_of=999, value=7)).value > 0.9
    answer = sketch.answer(Question("heavy-hitters", "window:500s", as_of=999, phi=0.5))
    assert (7 in [item.value for item in answer.items]) == (bits > 0)
    assert ("heavy at that time may be missing" in answer.guarantee) == (bits == 0)
    assert bits > 0 or answer.unlisted == 1.0


# Corners.


@both
def test_several_arrivals_in_one_tick_and_weights(keeping: Any) -> None:
    """All in one second count all or nothing; a row of weight w is w rows."""
    stream = STREAMS["one-second"](500, 1).distinct()
    sketch = Ecm.build(events_of(stream), keeping=keeping, counting="weight")
    whole = float(stream.w.sum())
    for window in ("window:1s", "window:10m", "none"):
        found = sketch.answer(Question("sum", window))
        assert found.lower == pytest.approx(whole)
        assert found.value == pytest.approx(whole)
    assert sketch.answer(Question("sum", "window:10s", as_of=int(stream.t[0]) + 10)).upper == 0.0
    events = Events.of([1, 2, 3], [5, 6, 8], ["a", "b", "a"], [3, 1, 2])
    weighted = Ecm.build(events, keeping=keeping, counting="weight")
    repeated = Ecm.build(Events.of(range(6), [5, 5, 5, 6, 8, 8], list("aaabaa")), keeping=keeping)
    for column in ("bounds", "start", "end", "size"):
        assert np.array_equal(getattr(weighted.logs, column), getattr(repeated.logs, column))
    assert weighted.answer(Question("frequency", value="a", counting="weight")).value == pytest.approx(5 / 6)
    once = Ecm.build(events, keeping=keeping)
    assert once.answer(Question("frequency", value="a")).value == pytest.approx(2 / 3)


def test_keys_that_were_never_seen() -> None:
    """Their share is at most what collides with them, and 0 lies within the bounds but for chance."""
    stream = STREAMS["keys"](2000, 7)
    missed = above = 0
    for seed in range(SEEDS):
        sketch = Ecm.build(events_of(stream), epsilon=EPSILON, delta=DELTA, seed=seed)
        value, lower, upper = sketch.counters.frequencies([f"never {number}" for number in range(50)], "window:10m")
        assert (value >= 0).all()
        assert (value <= upper).all()
        missed += int(np.count_nonzero(lower > 0))
        above += int(np.count_nonzero(value > EPSILON))
    assert not too_many(missed, 50 * SEEDS, DELTA)
    assert not too_many(above, 50 * SEEDS, DELTA)


def test_one_source_never_saw_the_key() -> None:
    """Of two sources the key is the one's alone: together its share halves, there it is nothing, and so the product."""
    here = Ecm.build(Events.of(range(100), range(100), ["rare"] * 100), purpose="inner")
    there = Ecm.build(Events.of(range(100), range(100), [f"k{i}" for i in range(100)]), purpose="inner")
    for together in (Ecm.askable([here, there]), Ecm.union([here, there]).counters):
        found = together.answer(Question("frequency", value="rare"))
        assert found.lower <= 0.5 <= found.upper
        assert found.value == pytest.approx(0.5, abs=0.05)
        assert [item.value for item in together.answer(Question("heavy-hitters", phi=0.3)).items] == ["rare"]
    assert there.answer(Question("frequency", value="rare")).lower == 0.0
    assert here.answer(Question("inner-product"), other=there).lower == 0.0
    assert here.answer(Question("inner-product"), other=there).value <= 0.05 * 100 * 100


@pytest.mark.parametrize("bits", [0, 8])
def test_empty_sketches(bits: int) -> None:
    """Sums of nothing are 0 and shares of nothing unknown, alone, side by side and after a trip over the wire."""
    empty = Ecm.build(Events.of([], []), bits=bits)
    again = Ecm.from_bytes(empty.to_bytes())
    for sketch in (empty.counters, again.counters, Ecm.askable([empty, again])):
        found = sketch.answer(Question("sum", "window:10m", as_of=5))
        assert (found.value, found.lower, found.upper) == (0.0, 0.0, 0.0)
        assert sketch.answer(Question("self-join")).value == 0.0
        assert sketch.answer(Question("inner-product"), other=empty.counters).value == 0.0
        for question in (Question("frequency", value="a"), Question("frequency", value=1), Question("rank", value=3)):
            found = sketch.answer(question)
            assert math.isnan(found.value)
            assert (found.lower, found.upper) == (0.0, 1.0)
        assert math.isnan(sketch.answer(Question("median")).value)
        assert math.isnan(sketch.answer(Question("heavy-hitters", phi=0.1)).value)
        assert sketch.answer(Question("heavy-hitters")).items == ()
        assert sketch.answer(Question("range-sum", low=1, high=2)).upper == 0.0
        assert np.isnan(sketch.frequencies([1, 2])[0]).all()
    full = Ecm.build(Events.of(range(9), range(9), list("aabbcccaa")), bits=bits)
    assert full.answer(Question("inner-product"), other=empty).upper == 0.0
    assert empty.answer(Question("inner-product"), other=full).upper == 0.0


def test_many_keys_asked_of_nothing_are_unknown() -> None:
    """No events are of no kind: text may be asked of an empty sketch, in a list as alone."""
    value, lower, upper = Ecm.build(Events.of([], [])).counters.frequencies(["a", "b"])
    assert np.isnan(value).all()
    assert lower.tolist() == [0.0, 0.0]
    assert upper.tolist() == [1.0, 1.0]


def test_another_unit_of_time() -> None:
    """Times in milliseconds: a window of ten seconds holds ten thousand of them."""
    t = np.sort(np.random.default_rng(1).integers(0, 60_000, 2000))
    for keeping in KEEPINGS:
        sketch = Ecm.build(
            Events.of(range(2000), t, ["a"] * 2000), epsilon=EPSILON, keeping=keeping, unit=TimeUnit(1, 1000)
        )
        exact = int(np.count_nonzero(t > t[-1] - 10_000))
        found = sketch.answer(Question("sum", "window:10s"))
        assert found.lower <= exact <= found.upper
        assert found.value == pytest.approx(exact, rel=EPSILON)


def test_before_all_and_long_after() -> None:
    """As of a time before the first event, or when a window is over, nothing counts."""
    sketch = Ecm.build(Events.of(range(50), range(100, 150), ["a"] * 50))
    for question in (Question("sum", as_of=99), Question("sum", "window:10s", as_of=160)):
        found = sketch.answer(question)
        assert (found.value, found.lower, found.upper) == (0.0, 0.0, 0.0)
    assert math.isnan(sketch.answer(Question("frequency", as_of=99, value="a")).value)


@pytest.mark.filterwarnings("error")
def test_what_is_certain_may_be_next_to_nothing() -> None:
    """As of a time within an entry, all that surely came is long ago: no error relative to it is stated."""
    times = np.concatenate([np.zeros(4000, np.int64), np.arange(1000, 1300)])
    sketch = Ecm.build(Events.of(np.arange(len(times)), times, times % 3), epsilon=0.5)
    estimate = sketch.answer(Question("self-join", "exp:half_life=1.9s", as_of=1002))
    exact = sum(0.5 ** (2 * age / 1.9) for age in range(3))  # three keys, each a single time since 1000
    assert estimate.lower <= exact <= estimate.upper
    assert "the decayed" not in estimate.guarantee


def test_what_is_not_answered_says_why() -> None:
    """Other aggregates, order of text or without a domain, text among numbers, more confidence than there is."""
    keys = Ecm.build(Events.of([1, 2], [1, 2], ["a", "b"]), bits=4)
    numbers, floats = Ecm.build(Events.of([1, 2], [1, 2], [3, 4])), Ecm.build(Events.of([1], [1], [0.5]), bits=4)
    for sketch, question, message in (
        (keys, Question("mean"), "does not answer mean"),
        (keys, Question("sum", of="value"), "of the value"),
        (keys, Question("median"), "text"),
        (numbers, Question("median"), "bits"),
        (floats, Question("rank", value=1), "bits"),
        (numbers, Question("frequency", value="a"), "numbers"),
        (numbers, Question("frequency", value=3, confidence=0.999), "smaller delta"),
    ):
        with pytest.raises(UnanswerableError, match=message):
            sketch.answer(question)
    with pytest.raises(QuestionError, match="second sketch"):
        keys.answer(Question("inner-product"))
    for other in (Ecm.build(Events.of([1], [1], ["a"]), bits=4, seed=1), Ecm.build(Events.of([1], [1], [1]), bits=4)):
        with pytest.raises(IncompatibleError):
            keys.answer(Question("inner-product"), other=other)
        with pytest.raises(IncompatibleError):
            keys.merge(other)


@both
def test_windows_of_the_last_arrivals(keeping: Any) -> None:
    """basis="count": exactly the last N arrivals, whenever they came; no other decay, and no two sketches merge."""
    tally = Tally()
    for seed in range(8):
        stream = zipf_stream(1.1, seed)
        position = np.arange(1, len(stream) + 1)
        masses = Masses.of(Stream.of("positions", stream.ids, position, stream.v))
        build: dict[str, Any] = {"epsilon": EPSILON, "delta": DELTA, "keeping": keeping, "basis": "count", "seed": seed}
        sketch = Ecm.build(events_of(stream), **build)
        for exact in (1, 17, 200, 2999, 3000):
            window = f"last:{exact}" if exact < 3000 else "none"
            tally.shares(sketch, masses, window, EPSILON)
            found = sketch.answer(Question("count", window))
            assert found.lower <= exact <= found.upper
            assert abs(found.value - exact) <= sketch.parameters.window_error * exact
    tally.check(DELTA)
    for decay in ("window:10m", "exp:half_life=10m"):
        with pytest.raises(UnanswerableError, match="last:10000"):
            sketch.answer(Question("count", decay))
    for refused in (Ecm.union, Ecm.askable):
        with pytest.raises(WaneError, match=r"last arrivals cannot be .*2012 §5\.1"):
            refused([sketch, sketch])
    empty = Ecm.build(Events.of([], []), **build)
    assert sketch.merge(empty).to_bytes() == sketch.to_bytes()


def test_the_last_arrivals_are_the_same_whatever_the_unit() -> None:
    """basis="count": the last 17 arrivals are 17, also where times are milliseconds."""
    events = Events.of(range(1000), range(1000), ["a"] * 1000)
    sketch = Ecm.build(events, basis="count", unit=TimeUnit(1, 1000))
    assert sketch.answer(Question("count", "last:17")).value == pytest.approx(17)


# Many at once, and how much it takes.


@pytest.mark.parametrize("name", ["keys", "zipf", "floats"])
def test_many_frequencies_at_once_are_the_single_answers(name: str) -> None:
    """Of text, whole numbers and floats, of values that are there and of some that are not, now and in the past."""
    stream = STREAMS[name](1000, 9).distinct()
    sketch = Ecm.build(events_of(stream), epsilon=EPSILON)
    values = [*dict.fromkeys(stream.v.tolist())][:40] + (["never"] if stream.is_text else [-77, 12_345_678])
    for decay, as_of in (("window:10m", None), ("exp:half_life=5m", START + HOUR // 2), ("none", START - 1)):
        columns = sketch.counters.frequencies(values, decay, as_of)
        for value, *found in zip(values, *(column.tolist() for column in columns), strict=True):
            single = sketch.answer(Question("frequency", decay, as_of, value=value))
            assert np.allclose(found, (single.value, single.lower, single.upper), rtol=1e-12, equal_nan=True)


def test_a_number_that_no_value_is_has_no_share_in_a_list_either() -> None:
    """2.5 among whole numbers is not 2; minus zero is zero; text among numbers is refused as it is alone."""
    whole = Ecm.build(Events.of(range(4), range(4), [2, 2, 3, 3]))
    try:
        assert whole.counters.frequencies([2.5])[0].tolist() == [0.0]
    except UnanswerableError:
        with pytest.raises(UnanswerableError):
            whole.answer(Question("frequency", value=2.5))
    with pytest.raises(WaneError, match="numbers"):
        whole.counters.frequencies(["a"])
    floats = Ecm.build(Events.of(range(4), range(4), [0.0, 0.0, 1.0, 2.0]))
    assert floats.counters.frequencies([-0.0])[0].tolist() == floats.counters.frequencies([0.0])[0].tolist()


def test_a_million_arrivals_take_less_than_a_megabyte() -> None:
    """ε = δ = 0.1 as in the paper, with every keeping; the bytes give the same answers again."""
    rng = np.random.default_rng(0)
    n = 1_000_000
    odds = np.cumsum(1.0 / np.arange(1, 100_001))
    values = np.searchsorted(odds, rng.random(n) * odds[-1])
    events = Events.of(np.arange(n), np.arange(n) // 12, values)
    for keeping in KEEPINGS:
        sketch = Ecm.build(events, epsilon=0.1, delta=0.1, keeping=keeping)
        assert sketch.nbytes < 1_000_000
        assert sketch.kept * 8 < 1_000_000
        again = Ecm.from_bytes(sketch.to_bytes())
        question = Question("frequency", "window:1h", value=0)
        assert again.answer(question) == sketch.answer(question)
        exact = float(np.mean(values[n - 12 * 3600 :] == 0))
        assert abs(again.answer(question).value - exact) <= 0.1
