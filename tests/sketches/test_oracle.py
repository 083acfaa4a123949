"""The oracle against answers worked out by hand and against loops over exact fractions; the streams as advertised."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import replace
from fractions import Fraction
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sketches.decay import parse_decay
from sketches.predicate import Predicate
from sketches.question import Question
from sketches.vocabulary import AGGREGATES, COUNTINGS
from tests.support.oracle import DECAYS, KEY_AGGREGATES, Oracle, aggregates_for, exact, exact_shares, random_question
from tests.support.streams import HOUR, LABELS, MONTH, NUMERIC_STREAMS, START, STREAMS, Stream, joined

NAN = float("nan")
TOLERANCE = Fraction(1, 10**12)  # of a cumulated share, as the oracle's

# Ages 0, 60, 60, 120 and, newer than as_of=220, one that does not count; the last row repeats the first.
# Under exp:half_life=1m at 220, f is 1, 1/2, 1/2, 1/4 and w·f is 4, 3, 1, 2: in all 10, and Σ f = 9/4.
CALLS = Stream.of(
    "calls",
    ids=[1, 2, 3, 4, 5, 1],
    t=[220, 160, 160, 100, 280, 220],
    v=[10, 20, 30, 20, 40, 10],
    w=[4, 6, 2, 8, 100, 4],
)


def at_220(aggregate: str, **settings: Any) -> Question:
    """A question about `CALLS` as of 220, halving every minute; by weight, unless it says otherwise."""
    return Question(aggregate, "exp:half_life=1m", as_of=220, **({"counting": "weight"} | settings))


def each_once(aggregate: str, **settings: Any) -> Question:
    """The same, every event counted once."""
    return at_220(aggregate, counting="events", **settings)


BY_HAND = [
    (at_220("sum"), 10),
    (each_once("sum", of="value"), 10 + 10 + 15 + 5),
    (at_220("sum", of="value"), 10 * 4 + 20 * 3 + 30 * 1 + 20 * 2),
    (at_220("mean", of="value"), 170 / 10),
    (at_220("variance", of="value"), (4 * 49 + 3 * 9 + 1 * 169 + 2 * 9) / 10),
    (each_once("stddev"), 272**0.5 / 9),  # of the weights 4, 6, 2, 8 around 40/9
    (each_once("ratio", of="value", per="events"), 40 / (9 / 4)),
    (at_220("ratio", of="weight", per="events"), 1),
    (each_once("ratio", of="weight", per="events"), 10 / (9 / 4)),
    (each_once("count"), 9 / 4),
    (at_220("count"), 10),
    (each_once("median"), 20),
    (each_once("rank", value=10), 4 / 9),
    (each_once("frequency", value=20), 3 / 9),
    (each_once("selectivity", tau=20), 5 / 9),
    (each_once("selectivity", tau="mean"), 5 / 9),  # the mean is 40 / (9/4) = 17.8
    (each_once("selectivity", tau="1.5*mean"), 2 / 9),
    (each_once("correlated-mean", tau=20, of="value"), 30 / (5 / 4)),
    (each_once("mean", high=20), 9 / (7 / 4)),
    (each_once("mean", where=Predicate.parse("value > 10 and weight < 8")), 4 / 1),
    (each_once("median", where=Predicate.parse("value > 10")), 20),
    (each_once("self-join"), 1 + (3 / 4) ** 2 + (1 / 2) ** 2),
    (Question("count", "last:1", as_of=220), 1),
    (Question("count", "last:2", as_of=220), 3),  # two events share the time of the second newest
    (Question("sum", "last:4", as_of=220), 20),
    (Question("sum", "last:99", as_of=220), 20),
    (Question("sum", "last:2", as_of=220, low=11), 8),
    (at_220("mean"), 10 / (9 / 4)),
    (each_once("mean", of="value"), 40 / (9 / 4)),
    (at_220("selectivity", tau=20), 6 / 10),
    (at_220("selectivity", tau="median"), 6 / 10),
    (at_220("selectivity", low=20), 6 / 10),
    (at_220("selectivity", high=20), 9 / 10),
    (at_220("selectivity", low=11, high=29), 5 / 10),
    (at_220("rank", value=20), 9 / 10),
    (at_220("rank", value=19.5), 4 / 10),
    (at_220("rank", value=40), 1),
    (at_220("quantile", phi=0.4), 10),
    (at_220("quantile", phi=0.41), 20),
    (at_220("quantile", phi=0.9), 20),
    (at_220("quantile", phi=0.91), 30),
    (at_220("median"), 20),
    (at_220("frequency", value=20), 5 / 10),
    (at_220("frequency", value=40), 0),
    (at_220("range-sum", low=10, high=20), 9),
    (at_220("range-sum", low=21, high=29), 0),
    (at_220("range-frequency", low=20, high=30), 6 / 10),
    (at_220("correlated-sum", tau=20), 6),
    (each_once("correlated-count", tau=20), 5 / 4),
    (at_220("correlated-mean", tau=20), 6 / (5 / 4)),
    (at_220("correlated-sum", tau="q0.4"), 10),
    (at_220("correlated-sum", tau="median"), 6),
    (at_220("correlated-count", tau="q0.95"), 1),
    (each_once("correlated-count", tau="q0.95"), 1 / 2),
    (at_220("correlated-mean", tau=41), NAN),
    (at_220("self-join"), 4**2 + 5**2 + 1**2),
    (Question("sum", "none"), 120),
    (Question("count", "none", as_of=159), 1),
    (Question("sum", "none", as_of=99), 0),
    (Question("mean", "none", as_of=99), NAN),
    (Question("count", "window:1m", as_of=220), 1),  # an age of exactly the window is outside
    (Question("count", "window:61s", as_of=220), 3),
    (Question("count", "window:1m"), 1),  # as of the newest event, 280
]


@pytest.mark.parametrize(("question", "answer"), BY_HAND)
def test_by_hand(question: Question, answer: float) -> None:
    """Every aggregate gives what its definition gives on paper, duplicates and future events left out."""
    assert exact(CALLS, question) == pytest.approx(answer, rel=1e-12, nan_ok=True)


def test_every_aggregate_is_checked_by_hand() -> None:
    """No aggregate is missing from the examples above; the two that need more have tests of their own."""
    assert {question.aggregate for question, _ in BY_HAND} == set(AGGREGATES) - {"heavy-hitters", "inner-product"}


def test_shares_by_hand() -> None:
    """Shares come largest first, and values whose events all lie in the future not at all."""
    shares = exact_shares(CALLS, at_220("heavy-hitters", top=2))
    assert list(shares) == [20, 10, 30]
    assert list(shares.values()) == pytest.approx([0.5, 0.4, 0.1])


def test_inner_product_by_hand() -> None:
    """Only values in both streams count, each stream decayed to the same time."""
    there = Stream.of("there", ids=[1, 2, 3], t=[220, 160, 281], v=[20.0, 30.0, 20.0], w=[3, 4, 50])
    assert exact(CALLS, at_220("inner-product"), other=there) == pytest.approx(5 * 3 + 1 * 2)
    # As of 281, the newest of both, 40 and 10 count here and 20 and 10 there; as of 280 nothing would be in common.
    later = Stream.of("later", ids=[1, 2], t=[281, 281], v=[20, 10], w=[3, 5])
    newest_of_both = Question("inner-product", "window:62s", counting="weight")
    assert exact(CALLS, newest_of_both, other=later) == 4 * 5
    assert exact(later, newest_of_both, other=CALLS) == 4 * 5


def test_time_unit() -> None:
    """Times may be in other units than seconds; decays are of ages in seconds."""
    halved = Stream.of("minutes", ids=[1, 2], t=[7, 8], v=[1, 1], w=[4, 10])
    assert exact(halved, Question("sum", "exp:half_life=1m"), time_unit_seconds=60) == pytest.approx(12)


def test_keys() -> None:
    """Text values are keys: compared for equality, never ordered."""
    stream = Stream.of("keys", ids=[1, 2, 3], t=[5, 5, 5], v=["", "é", ""], w=[1, 2, 5])
    assert exact(stream, Question("frequency", value="")) == pytest.approx(2 / 3)
    assert exact(stream, Question("frequency", value="", counting="weight")) == pytest.approx(6 / 8)
    assert exact(stream, Question("sum", value="")) == 6
    assert exact(stream, Question("frequency", value="absent")) == 0
    assert exact(stream, Question("self-join")) == 5
    assert exact(stream, Question("self-join", counting="weight")) == 40
    assert exact(stream, Question("inner-product", counting="weight"), other=stream) == 40
    assert exact_shares(stream, Question("heavy-hitters", top=5, counting="weight")) == {"": 0.75, "é": 0.25}
    with pytest.raises(ValueError, match="needs numbers"):
        exact(stream, Question("median"))
    with pytest.raises(ValueError, match="needs numbers"):
        exact(stream, Question("sum", of="value"))
    with pytest.raises(ValueError, match="value is 3"):
        exact(stream, Question("frequency", value=3))


def test_nothing() -> None:
    """Of no events sums are 0, ratios and quantiles NaN, and shares empty."""
    sums = {"sum", "count", "range-sum", "correlated-sum", "correlated-count", "self-join", "inner-product"}
    stream = STREAMS["empty"](10, 1)
    rng = np.random.default_rng(1)
    for aggregate in set(AGGREGATES) - {"heavy-hitters"}:
        answer = exact(stream, random_question(rng, stream, aggregate), other=stream)
        if aggregate in sums:
            assert answer == 0, aggregate
        else:
            assert math.isnan(answer), aggregate
    assert exact_shares(stream, Question("heavy-hitters", top=3)) == {}
    assert math.isnan(exact(stream, Question("frequency", value="text")))


class BruteForce:
    """The definitions once more, in loops over a set of tuples and exact fractions."""

    def __init__(self, stream: Stream, question: Question, as_of: int | None = None) -> None:
        columns = (stream.ids.tolist(), stream.t.tolist(), stream.v.tolist(), stream.w.tolist())
        events = set(zip(*columns, strict=True))
        if as_of is None:
            as_of = question.as_of if question.as_of is not None else max((t for _, t, _, _ in events), default=0)
        self.question = question
        self.rows = []  # (v, c, f), where c is how often the event counts
        self.weights = []  # (v, w, f)
        for _, t, v, w in events:
            if t <= as_of:
                f = Fraction(float(question.decay(np.array([float(as_of - t)]))[0]))  # type: ignore[operator]
                self.rows.append((v, w if question.counting == "weight" else 1, f))
                self.weights.append((v, w, f))

    def masses(self) -> dict[Any, Fraction]:
        masses: dict[Any, Fraction] = defaultdict(Fraction)
        for v, w, f in self.rows:
            masses[v] += w * f
        return masses

    def quantile(self, phi: float) -> float:
        total = sum(self.masses().values())
        if total == 0:
            return NAN
        for candidate in sorted(self.masses()):
            cumulated = sum(w * f for v, w, f in self.rows if v <= candidate)
            if cumulated >= Fraction(phi) * total * (1 - TOLERANCE):
                return float(candidate)
        raise AssertionError("the largest value reaches every share")

    def holds(self, v: Any) -> bool:
        """Is v one of those that the aggregate is about?"""
        q = self.question
        if q.aggregate == "rank":
            return bool(v <= q.value)
        if q.aggregate == "frequency":
            return bool(v == q.value)
        if q.tau is not None:
            phi = {"median": 0.5, "q0.25": 0.25, "q0.9": 0.9, "q0.99": 0.99}
            return bool(v >= (self.quantile(phi[q.tau]) if isinstance(q.tau, str) else q.tau))
        return bool((q.low is None or q.low <= v) and (q.high is None or v <= q.high))

    def spread(self, q: Question) -> float:
        """Σ (x - mean)²·m / Σ m, with the masses that the mean has; or its root."""
        rows = [(Fraction(v), c * f) for v, c, f in self.rows] if q.of == "value" else self.weighed()
        whole = sum(m for _, m in rows)
        if not whole:
            return NAN
        mean = sum(x * m for x, m in rows) / whole
        found = float(sum((x - mean) ** 2 * m for x, m in rows) / whole)
        return math.sqrt(found) if q.aggregate == "stddev" else found

    def weighed(self) -> list[tuple[Fraction, Fraction]]:
        return [(Fraction(w), f) for _, w, f in self.weights]

    def answer(self, other: BruteForce) -> float:
        q = self.question
        picked = [(v, w, f) for v, w, f in self.rows if self.holds(v)]
        mass, all_mass = sum(w * f for _, w, f in picked), sum(w * f for _, w, f in self.rows)
        if q.of == "value":
            amount, over = sum(Fraction(v) * c * f for v, c, f in picked), mass
        else:
            amount = sum(w * f for v, w, f in self.weights if self.holds(v))
            over = sum(f for _, _, f in picked)
        match q.aggregate:
            case "sum" | "range-sum" | "correlated-sum":
                return float(amount)
            case "count" | "correlated-count":
                return float(mass)
            case "mean" | "correlated-mean":
                return float(amount / over) if over else NAN
            case "variance" | "stddev":
                return self.spread(q)
            case "ratio":
                return float(amount / mass) if mass else NAN
            case "selectivity" | "rank" | "frequency" | "range-frequency":
                return float(mass / all_mass) if all_mass else NAN
            case "quantile":
                return self.quantile(q.phi or NAN)
            case "median":
                return self.quantile(0.5)
            case "self-join":
                return float(sum(mass * mass for mass in self.masses().values()))
            case "inner-product":
                here, there = self.masses(), other.masses()
                return float(sum(here[k] * there[k] for k in set(here) & set(there)))
        raise AssertionError(q.aggregate)


def streams(values: st.SearchStrategy[Any], dtype: type) -> st.SearchStrategy[Stream]:
    """Tiny streams dense in ties: equal times, ids, values and whole rows."""
    row = st.tuples(st.integers(0, 5), st.integers(START, START + 30).map(lambda t: t * 60), values, st.integers(0, 4))

    def build(rows: list[Any]) -> Stream:
        ids, t, v, w = zip(*rows, strict=True) if rows else ((), (), (), ())
        return Stream.of("tiny", ids, t, np.array(v, dtype=dtype), w)

    return st.lists(row, max_size=25).map(build)


TINY = st.one_of(
    st.tuples(*[streams(st.integers(-3, 6), np.int64)] * 2),
    st.tuples(*[streams(st.integers(-6, 9).map(lambda number: number / 4), np.float64)] * 2),
    st.tuples(*[streams(st.sampled_from(["", "a", "é", "日本"]), object)] * 2),
)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(pair=TINY, seed=st.integers(0, 2**32))
def test_agrees_with_brute_force(pair: tuple[Stream, Stream], seed: int) -> None:
    """On tiny streams full of ties the oracle and exact fractions agree on every aggregate."""
    stream, other = pair
    rng = np.random.default_rng(seed)
    for aggregate in aggregates_for(stream):
        of: Literal["weight", "value"] = "value" if not stream.is_text and rng.random() < 0.5 else "weight"
        question = random_question(rng, stream, aggregate, of=of, counting=COUNTINGS[int(rng.integers(2))])
        if aggregate == "heavy-hitters":
            masses = {value: mass for value, mass in BruteForce(stream, question).masses().items() if mass}
            shares = {value: float(mass / sum(masses.values())) for value, mass in masses.items()}
            assert exact_shares(stream, question) == pytest.approx(shares, rel=1e-12)
            continue
        if aggregate == "quantile" and rng.random() < 0.5:
            question = replace(question, phi=float(rng.integers(1, 10)) / 10)
        as_of = None
        if aggregate == "inner-product" and question.as_of is None:
            as_of = max([*stream.t.tolist(), *other.t.tolist()], default=0)
        expected = BruteForce(stream, question, as_of).answer(BruteForce(other, question, as_of))
        assert exact(stream, question, other=other) == pytest.approx(expected, rel=1e-11, abs=1e-11, nan_ok=True)


@pytest.mark.parametrize("name", STREAMS)
def test_arrival_does_not_matter(name: str) -> None:
    """Shuffled, split and rejoined, or seen many times, a stream has the same exact answers."""
    stream = STREAMS[name](500, 3)
    again = joined(stream.duplicated(4, 5).shuffled(5).split(4, 6))
    assert len(again) >= len(stream)
    assert len(again.distinct()) == len(stream.distinct())
    rng = np.random.default_rng(7)
    for aggregate in aggregates_for(stream):
        question = random_question(rng, stream, aggregate)
        if aggregate == "heavy-hitters":
            assert exact_shares(again, question) == pytest.approx(exact_shares(stream, question))
        else:
            expected = exact(stream, question, other=stream)
            assert exact(again, question, other=stream) == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("n", [0, 1, 2, 1000])
def test_streams_keep_their_word(name: str, n: int) -> None:
    """Every stream has the rows asked for, the right types, times in its span and positive weights."""
    stream = STREAMS[name](n, 1)
    assert stream.name == name
    assert len(stream) == {"empty": 0, "single": 1}.get(name, n)
    assert {stream.ids.dtype, stream.t.dtype, stream.w.dtype} == {np.dtype(np.int64)}
    assert stream.v.dtype == {"floats": np.dtype(np.float64), "keys": np.dtype(object)}.get(name, np.dtype(np.int64))
    assert np.all((stream.t >= START) & (stream.t < START + (MONTH if name == "unit-wide" else HOUR)))
    assert np.all(stream.w >= 1)
    with pytest.raises(ValueError, match="read-only"):
        stream.w[:] = 2


@pytest.mark.parametrize("name", STREAMS)
def test_streams_depend_on_the_seed_alone(name: str) -> None:
    """The same seed gives the same rows; another seed shares not even an id."""
    first, same, other = STREAMS[name](300, 1), STREAMS[name](300, 1), STREAMS[name](300, 2)
    for column in ("ids", "t", "v", "w"):
        assert np.array_equal(getattr(first, column), getattr(same, column))
    assert not set(first.ids.tolist()) & set(other.ids.tolist())


def test_streams_are_what_they_are_called() -> None:
    """Each stream has the trait that it is there for."""
    made = {name: make(20_000, 1) for name, make in STREAMS.items()}
    assert np.all(np.diff(made["sorted"].t) >= 0)
    assert np.all(np.diff(made["reversed"].t) <= 0)
    assert np.mean(made["zipf"].v == 1) > 0.1
    assert made["zipf"].v.max() == 1_000_000
    assert np.bincount((made["bursty"].t - START) // 18).max() > 8_000
    assert len(np.unique(made["one-second"].t)) == 1
    assert made["heavy-weights"].w.max() > 1_000_000
    assert 1_500 < len(made["heavy-duplicates"].distinct()) < 2_500
    assert np.mean(np.diff(made["late"].t) < 0) > 0.2
    conflicts = made["conflicts"].distinct()
    assert len(np.unique(conflicts.ids)) < len(conflicts) / 2
    assert len(conflicts) < len(made["conflicts"])
    assert 0 < np.mean(made["floats"].v < 0) < 0.5
    assert not np.any(np.signbit(made["floats"].v) & (made["floats"].v == 0))
    assert set(made["keys"].v) <= set(LABELS)
    assert set(LABELS[:10]) <= set(made["keys"].v)
    assert len(set(LABELS)) == 500
    assert np.corrcoef(made["correlated"].v, made["correlated"].w)[0, 1] > 0.8
    assert np.ptp(made["unit-wide"].t) > 0.99 * MONTH


def test_distinct_needs_all_four_to_agree() -> None:
    """Rows that differ in any one column are separate events; the first of equal rows stays, in order of arrival."""
    stream = Stream.of(
        "rows",
        ids=[2, 1, 1, 1, 1, 1, 2],
        t=[5, 5, 6, 5, 5, 5, 5],
        v=["a", "a", "a", "b", "a", "a", "a"],
        w=[1, 1, 1, 1, 2, 1, 1],
    )
    distinct = stream.distinct()
    assert distinct.ids.tolist() == [2, 1, 1, 1, 1]
    assert distinct.t.tolist() == [5, 5, 6, 5, 5]
    assert distinct.v.tolist() == ["a", "a", "a", "b", "a"]
    assert distinct.w.tolist() == [1, 1, 1, 1, 2]


def test_split_is_a_partition() -> None:
    """The parts of a stream hold each of its rows once."""
    stream = STREAMS["keys"](1000, 1)
    parts = stream.split(3, seed=2)
    assert min(map(len, parts)) > 250
    assert sorted(joined(parts).ids) == sorted(stream.ids)


def test_unequal_columns_are_refused() -> None:
    """A stream's columns are equally long."""
    with pytest.raises(ValueError, match=r"unequal lengths.*'t': 1"):
        Stream.of("bad", [1, 2], [1], [1, 2])


@pytest.mark.parametrize("name", NUMERIC_STREAMS)
def test_random_questions(name: str) -> None:
    """Random questions look into the last half of the stream and ask for thresholds that leave something above."""
    stream = STREAMS[name](2000, 1)
    rng = np.random.default_rng(2)
    asked = [random_question(rng, stream, "correlated-sum", tau_as_quantile=0.3) for _ in range(200)]
    assert 20 < sum(isinstance(question.tau, str) for question in asked) < 100
    if len(stream) < 2:
        return
    times = [question.as_of for question in asked if question.as_of is not None]
    assert 50 < len(times) < 150
    assert all((stream.t.min() + stream.t.max()) / 2 <= as_of <= stream.t.max() for as_of in times)
    above = [np.mean(stream.v >= question.tau) for question in asked if not isinstance(question.tau, str)]
    assert min(above) > 0
    assert {str(question.decay) for question in asked} == {str(parse_decay(spec)) for spec in DECAYS}


def test_random_question_refuses_order_among_keys() -> None:
    """Aggregates that need numbers are not asked of keys."""
    stream = STREAMS["keys"](100, 1)
    rng = np.random.default_rng(1)
    for aggregate in AGGREGATES:
        if aggregate in KEY_AGGREGATES:
            assert random_question(rng, stream, aggregate).aggregate == aggregate
        else:
            with pytest.raises(ValueError, match="makes no sense"):
                random_question(rng, stream, aggregate)


@pytest.mark.parametrize("spec", DECAYS)
def test_decays_matter_within_an_hour(spec: str) -> None:
    """Every decay of the list starts at 1 for an event just seen and (but for none) has faded within the hour."""
    newest, oldest = parse_decay(spec)(np.array([0.0, HOUR - 1.0]))
    assert newest == 1
    assert oldest == 1 if spec == "none" else oldest < 0.5


def test_oracle_answers_many_questions() -> None:
    """One oracle answers question after question as fresh ones do."""
    stream = STREAMS["zipf"](1000, 1)
    oracle = Oracle(stream)
    rng = np.random.default_rng(1)
    for aggregate in set(AGGREGATES) - {"heavy-hitters"}:
        question = random_question(rng, stream, aggregate)
        assert oracle.answer(question, oracle) == pytest.approx(exact(stream, question, other=stream), nan_ok=True)
