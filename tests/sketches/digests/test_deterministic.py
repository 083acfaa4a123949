"""`histogram` and `qdigest` against exact answers: not one is outside its bounds, and none is wider than promised."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sketches import Estimate, Events, Question, TimeUnit
from sketches.arrays import Flags, Floats
from sketches.decay.functions import LastEvents, NoDecay, Window
from sketches.digests.digest import Digest, DigestParameters
from sketches.digests.histogram import Histogram
from sketches.digests.qdigest import QDigest
from sketches.digests.ranged_masses import RangedMasses
from sketches.guarantees import NEVER_OUTSIDE, NO_OTHER, ROWS
from sketches.predicate import EVERY_EVENT, Predicate, Range
from tests.support.oracle import DECAYS, Oracle, aggregates_for, random_question
from tests.support.splittable import Splittable
from tests.support.streams import HOUR, START, STREAMS, Stream

DataSet = Callable[[str], Path]

ULPS: Final = 1e-15  # of a correctly rounded sum of products that are rounded once each
ROUNDING: Final = 4e-12  # what bounds of sums that are no whole numbers are moved outwards by, both together
FADED: Final = 1e-240  # what all that counts is less than, where its parts may be too small to be numbers
STATED: Final = 1e-9  # what a number that is known before may be too small by, where bounds are moved outwards
SPANS: Final = (1, 7, 60, 1000, 4096, 86_400, 1 << 48)
TICKS: Final = (
    "window:1s",
    "window:2s",
    "window:17s",
    "window:1000000d",
    "exp:half_life=1s",
    "superexp:beta=3,scale=9m",
    "last:1",
    "last:17",
    "last:300",
    "last:100000",
)
PER_STREAM: Final = 6  # sketches of each family
FAMILIES: Final[tuple[type[Digest], ...]] = (Histogram, QDigest)


def bucket_edges(n: int, seed: int) -> Stream:
    """Times that alternate between 2^k - 1 and 2^k, counted from the start of an interval: each pair in two halves."""
    rng = np.random.default_rng([seed, 1])
    power = np.int64(1) << rng.integers(0, 12, n)
    begin = START // 4096 * 4096
    t = begin + power - np.arange(n) % 2
    return Stream.of("bucket-edges", np.arange(n), t, (np.int64(1) << rng.integers(0, 30, n)) - np.arange(n) % 2)


def wide_domain(n: int, seed: int) -> Stream:
    """Values anywhere below 2^40, a tenth of them equal; weights as large."""
    rng = np.random.default_rng([seed, 2])
    v = np.where(rng.random(n) < 0.1, 1 << 39, rng.integers(0, 1 << 40, n))
    w = 1 + (rng.random(n) ** 12 * ((1 << 40) - 1)).astype(np.int64)
    return Stream.of("wide-domain", np.arange(n), rng.integers(START, START + HOUR, n), v, w)


def fading(n: int, seed: int) -> Stream:
    """Dense at the newest end and ever thinner before it, from long before the epoch on."""
    rng = np.random.default_rng([seed, 3])
    t = -(rng.pareto(0.4, n) * 10).clip(0, 1e12).astype(np.int64)
    return Stream.of("fading", np.arange(n), t, rng.integers(-50, 50, n), rng.integers(1, 4, n))


def few_values(n: int, seed: int) -> Stream:
    """Values with steep shares, so that there are heavy hitters; each has its own stretch of time."""
    rng = np.random.default_rng([seed, 4])
    v = np.minimum(rng.geometric(0.3, n), 40) * 1000
    t = START + (v // 10 + rng.integers(0, 1000, n)) % HOUR
    return Stream.of("few-values", np.arange(n), t, v, rng.integers(1, 11, n))


ALL_STREAMS: Final = STREAMS | {
    "bucket-edges": bucket_edges,
    "wide-domain": wide_domain,
    "fading": fading,
    "few-values": few_values,
}


def events_of(stream: Stream) -> Events:
    return Events.of(stream.ids, stream.t, stream.v, stream.w)


def merged(sketches: Sequence[Digest], rng: np.random.Generator) -> Digest:
    """Merge two or three random ones until one is left, now and then by way of their bytes."""
    left = list(sketches)
    while len(left) > 1:
        some = [left.pop(int(rng.integers(len(left)))) for _ in range(min(len(left), int(rng.integers(2, 4))))]
        if rng.random() < 0.3:
            some = [type(one).from_bytes(one.to_bytes()) for one in some]
        left.append(type(some[0]).union(some))
    return left[0]


def sketch_of(family: type[Digest], stream: Stream, rng: np.random.Generator, **settings: Any) -> Digest:
    """A sketch of a random accuracy and span, of the stream in one piece or of its parts in some tree of merges."""
    return merged(parts_of(family, stream, rng, **settings), rng)


def parts_of(family: type[Digest], stream: Stream, rng: np.random.Generator, **settings: Any) -> list[Digest]:
    """Sketches of a random accuracy and span of the parts of a stream, often of the whole of it."""
    settings = {"epsilon": float(rng.uniform(0.01, 0.9)), "span": int(rng.choice(SPANS)), **settings}
    parts = int(rng.choice([1, 1, 2, 5, 12]))
    pieces = stream.split(parts, int(rng.integers(1 << 30))) if parts > 1 else [stream]
    return [family.build(events_of(piece), **settings) for piece in pieces]


@dataclass(frozen=True)
class Truth:
    """Exact answers about a stream, its sums rounded once: what is left to allow for is `ULPS`."""

    oracle: Oracle

    @classmethod
    def of(cls, stream: Stream) -> Truth:
        return cls(Oracle(stream))

    def answer(self, question: Question) -> float:
        match question.aggregate:
            case "sum":
                return self.total(question, weighed=True)
            case "count":
                return self.total(question)
            case "mean" | "correlated-mean":
                where = self.where(question)
                alike = replace(question, counting="events")
                return ratio(self.total(question, where, weighed=True), self.total(alike, where))
            case "range-sum" | "correlated-sum":
                return self.total(question, self.where(question), weighed=True)
            case "correlated-count":
                return self.total(question, self.where(question))
            case "rank" | "frequency" | "range-frequency" | "selectivity":
                return ratio(self.total(question, self.where(question)), self.total(question))
        return self.oracle.answer(question)

    def masses(self, question: Question, *, weighed: bool = False) -> Floats:
        """What the events that a question is about count by their age: 1 each, or their weights."""
        decayed = self.oracle.decayed(question)
        return self.oracle.events.w * decayed if weighed or question.counting == "weight" else decayed

    def total(self, question: Question, where: Flags | None = None, *, weighed: bool = False) -> float:
        """Σ c·f, or Σ w·f, of all events or of some."""
        masses = self.masses(question, weighed=weighed)
        return math.fsum((masses if where is None else masses[where]).tolist())

    def whole(self, question: Question) -> float:
        """The sum that the width of a sum over some events is promised by: that of all events."""
        everything = replace(question, where=EVERY_EVENT)
        return self.total(everything, weighed=question.aggregate in ("sum", "range-sum", "correlated-sum"))

    def stated_whole(self, question: Question, words: str) -> float:
        """What a width is said to be relative to: 1 for a share, whose whole is in the words."""
        summed = question.aggregate in ("sum", "range-sum", "correlated-sum")
        if words == "mean":
            assert question.aggregate.endswith("mean")
            return self.answer(question)
        assert words == f"whole decayed {'weight' if summed or question.counting == 'weight' else 'count'}", question
        return self.whole(question) if question.aggregate.endswith(("sum", "count")) else 1.0

    def where(self, question: Question) -> Flags:
        """The events that an aggregate measures."""
        values = self.oracle.events.v
        match question.aggregate:
            case "rank":
                return np.asarray(values <= question.value)
            case "frequency":
                return np.asarray(values == question.value)
        chosen = np.ones(len(values), bool)
        if question.low is not None:
            chosen &= values >= question.low
        if question.high is not None:
            chosen &= values <= question.high
        if question.tau is not None:
            chosen &= values >= self.oracle.threshold(question)
        return chosen

    def shares(self, question: Question) -> dict[Any, float]:
        parts: defaultdict[Any, list[float]] = defaultdict(list)
        masses = self.masses(question)
        for value, mass in zip(self.oracle.events.v.tolist(), masses.tolist(), strict=True):
            parts[value].append(mass)
        whole = math.fsum(masses.tolist())
        return {value: math.fsum(part) / whole for value, part in parts.items()} if whole else {}

    def is_current(self, question: Question) -> bool:
        """As of the newest event or later, where widths are promised."""
        newest = self.oracle.newest
        return question.as_of is None or newest is None or question.as_of >= newest


def ratio(part: float, whole: float) -> float:
    return part / whole if whole else math.nan


def contains(lower: float, upper: float, exact: float) -> bool:
    allowed = ULPS * abs(exact)
    return lower - allowed <= exact <= upper + allowed


def check(sketch: Digest, truth: Truth, question: Question, boxes: RangedMasses | None = None) -> None:
    """No violation of what is promised of this answer, by the sketch or by other boxes of the same events."""
    estimate = (boxes or sketch).answer(question)
    about = (question, sketch.parameters, estimate)
    assert estimate.confidence == 1.0, about
    if question.aggregate == "heavy-hitters":
        check_heavy_hitters(sketch, truth, question, estimate)
        return
    exact = truth.answer(question)
    if math.isnan(exact):
        return
    if math.isnan(estimate.value):
        assert truth.total(question) < FADED, about
        return
    assert estimate.lower <= estimate.value <= estimate.upper, about
    assert contains(estimate.lower, estimate.upper, exact), (exact, *about)
    check_words(estimate.guarantee, truth, question, (estimate.value, estimate.lower, estimate.upper))
    if truth.is_current(question) and not isinstance(question.decay, LastEvents):
        check_width(sketch, truth, question, estimate)


def check_words(guarantee: str, truth: Truth, question: Question, limits: tuple[float, float, float]) -> None:
    """Every number of the sentence that a user reads, against the exact answer: now, in the past, of a series too."""
    value, lower, upper = limits
    for clause in guarantee.split("; "):
        if said := re.fullmatch(
            r"the interval is at most (\S+) of the (mean|whole decayed (?:count|weight)) wide", clause
        ):
            whole = truth.stated_whole(question, said[2])
            assert math.isnan(whole) or upper - lower <= float(said[1]) * whole * (1.0 + STATED), (
                clause,
                whole,
                limits,
            )
        elif said := re.fullmatch(
            r"rank within (\S+) of the one asked for, of the whole decayed (count|weight)", clause
        ):
            assert said[2] == ("weight" if question.counting == "weight" else "count")
            check_rank(truth, question, value, float(said[1]))
        else:
            assert clause in (NEVER_OUTSIDE, NO_OTHER, ROWS), clause
            assert clause != NO_OTHER or lower == upper


def check_width(sketch: Digest, truth: Truth, question: Question, estimate: Estimate) -> None:
    epsilon = sketch.parameters.epsilon
    about = (question, sketch.parameters, estimate)
    width = estimate.upper - estimate.lower - FADED
    rounding = 0.0 if isinstance(question.decay, NoDecay | Window) else ROUNDING
    if question.where:
        if question.aggregate.endswith(("sum", "count")) and question.threshold is None:
            assert width <= (1.5 * epsilon + rounding) * truth.whole(question), about
        return
    match question.aggregate:
        case "sum" | "count":
            part = epsilon if isinstance(sketch, Histogram) else epsilon / 2.0
            assert width <= (part + rounding) * truth.answer(question), about
        case "correlated-sum" | "correlated-count" if question.threshold is None:
            assert width <= (epsilon + rounding) * truth.whole(question), about
        case "range-sum":
            assert width <= (1.5 * epsilon + rounding) * truth.whole(question), about
        case "rank":
            assert width <= epsilon + rounding, about
        case "frequency" | "range-frequency":
            assert width <= 1.5 * epsilon + rounding, about
        case "quantile" | "median":
            check_rank(truth, question, estimate.value, epsilon)


def check_rank(truth: Truth, question: Question, value: float, epsilon: float) -> None:
    """Shares below and up to a quantile: φ lies between them, or within ε of one of them."""
    assert question.phi is not None
    whole = truth.total(question)
    values = truth.oracle.events.v
    below, up_to = truth.total(question, values < value), truth.total(question, values <= value)
    assert below <= (question.phi + epsilon + ROUNDING) * whole, (question, value, below / whole)
    assert up_to >= (question.phi - epsilon - ROUNDING) * whole, (question, value, up_to / whole)


def check_heavy_hitters(sketch: Digest, truth: Truth, question: Question, estimate: Estimate) -> None:
    """Listed shares lie within their bounds, and no value that is not listed has more than is said, whenever asked.

    As of the newest event no more is said than 1.5·ε beyond the largest share that is left out.
    """
    epsilon, shares = sketch.parameters.epsilon, truth.shares(question)
    about = (question, sketch.parameters, estimate.items)
    listed = [item.value for item in estimate.items]
    assert len(set(listed)) == len(listed), about
    assert [item.estimate for item in estimate.items] == sorted((i.estimate for i in estimate.items), reverse=True)
    if not shares:
        return
    for item in estimate.items:
        assert item.lower <= item.estimate <= item.upper, about
        assert contains(item.lower, item.upper, shares.get(item.value, 0.0)), (shares.get(item.value), item, *about)
    check_unlisted(shares, estimate)
    top = question.top or (10 if question.phi is None else None)
    assert top is None or len(listed) <= top, about
    if question.phi is not None and (top is None or len(listed) < top):
        assert all(item.upper >= question.phi for item in estimate.items), about
    if question.where or isinstance(question.decay, LastEvents) or not truth.is_current(question):
        return
    assert estimate.unlisted is not None
    left_out = max((part for value, part in shares.items() if value not in listed), default=0.0)
    assert estimate.unlisted <= left_out + 1.5 * epsilon + ROUNDING, (left_out, *about)
    for value, part in shares.items():
        if value in listed or part <= epsilon + ROUNDING:
            continue
        assert (question.phi is not None and part < question.phi) or len(listed) == top, (value, part, *about)


def check_unlisted(shares: dict[Any, float], estimate: Estimate) -> None:
    """No value that a list leaves out has more than its number and its sentence say."""
    listed = {item.value for item in estimate.items}
    left_out = max((part for value, part in shares.items() if value not in listed), default=0.0)
    said = re.search(r"; no unlisted value has a share above (\S+);", estimate.guarantee)
    assert said, estimate.guarantee
    assert estimate.unlisted is not None
    assert left_out * (1.0 - ULPS) <= estimate.unlisted <= float(said[1]) * (1.0 + STATED), (left_out, estimate)
    points = all(item.lower == item.upper for item in estimate.items)
    assert (NO_OTHER in estimate.guarantee) == (points and bool(listed)), estimate


def any_moment(rng: np.random.Generator, stream: Stream, question: Question) -> Question:
    """Sometimes as of another time: of an event or next to it, long after all or before all of them."""
    if not len(stream) or rng.random() < 0.5:
        return question
    event, newest, oldest = int(rng.choice(stream.t)), int(stream.t.max()), int(stream.t.min())
    moments = [event, event - 1, event + 1, newest + 1, newest + 1000, newest + 10**7, oldest - 1]
    return question.at(moments[int(rng.integers(len(moments)))])


def restricted(rng: np.random.Generator, stream: Stream, question: Question) -> Question:
    """The question about the events whose value satisfies a predicate: strict or closed ends, or one value."""
    if not len(stream):
        return question
    ends = sorted(rng.choice(stream.v, 2).tolist())
    if stream.is_text:
        return replace(question, where=Predicate.of(str(ends[0])))
    if rng.random() < 0.2:
        return replace(question, where=Predicate.of(None, value=Range(ends[0], ends[0])))
    low, high = ends
    if low == high or rng.random() < 0.3:
        low = -math.inf
    if rng.random() < 0.3:
        high = math.inf
    strict = (rng.random(2) < 0.5).tolist()
    limits = Range(low, high, strict[0], strict[1])
    return question if limits.empty else replace(question, where=Predicate.of(None, value=limits))


def asked(rng: np.random.Generator, stream: Stream, sketch: Digest, per_aggregate: int) -> list[Question]:
    """Questions of every aggregate that the family answers and that the stream makes sense of.

    By events or by weight, and of a q-digest as often about some values alone.
    """
    known = [each for each in sketch.abilities.aggregates if each in aggregates_for(stream)]
    found = [
        any_moment(rng, stream, random_question(rng, stream, each, (*DECAYS, *TICKS), counting=counting))
        for each in known
        for counting in ("events", "weight")
        for _ in range(per_aggregate)
    ]
    found = [multiple(rng, question) for question in found]
    if isinstance(sketch, QDigest):
        place = known.index("heavy-hitters") * 2 * per_aggregate
        heavy = replace(found[place], top=None, phi=rng.uniform(0.05, 0.6))
        found += [restricted(rng, stream, question) for question in found]
        found += [heavy.at(sketch.extremes.newest or 0), replace(heavy, top=3)]
    return found


def multiple(rng: np.random.Generator, question: Question) -> Question:
    """Sometimes another multiple of a threshold that is a quantile."""
    if question.threshold is None or rng.random() < 0.5:
        return question
    return replace(question, tau=f"{rng.choice(['0.5', '2', '1.25'])}*{question.tau}")


def with_zeros(stream: Stream, rng: np.random.Generator) -> Stream:
    """The stream with a share of its weights at 0: none, some, most or all."""
    nothing = rng.random(len(stream)) < rng.choice([0.0, 0.3, 0.9, 1.0])
    return Stream(stream.name, stream.ids, stream.t, stream.v, np.where(nothing, 0, stream.w))


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL_STREAMS)
def test_not_one_violation(name: str) -> None:
    """Every aggregate of both families on every stream, merged in any tree or asked in parts: 2,000 cases and more."""
    rng = np.random.default_rng(len(name) * 1000 + sum(map(ord, name)))
    cases = 0
    for number in range(PER_STREAM):
        stream = with_zeros(ALL_STREAMS[name](int(rng.choice([3, 40, 600, 2500])), number).distinct(), rng)
        truth = Truth.of(stream)
        for family in FAMILIES:
            parts = parts_of(family, stream, rng)
            sketch = merged(parts, rng)
            boxes = family.askable(parts) if number % 4 == 0 else None
            for question in asked(rng, stream, sketch, 3 if family is Histogram else 1):
                check(sketch, truth, question, boxes)
                cases += 1
    assert cases >= 2000 / len(ALL_STREAMS)


def test_shares_add_up_to_what_is_promised() -> None:
    """A path of time carries (2/K)·(L + cut), so cut ≤ 2/(K - 2)·L; values add 2/K of the (1 + cut/L)·L above it."""
    for epsilon in np.linspace(0.001, 0.999, 500).tolist():
        parameters = DigestParameters.of(epsilon, 3600, TimeUnit(), 0)
        alone, both = Histogram._shape(parameters), QDigest._shape(parameters)
        assert both.value_share is not None
        assert alone.span == both.span == 3600
        assert 2.0 / (alone.time_share - 2.0) <= epsilon * (1.0 + ULPS)
        in_time = 2.0 / (both.time_share - 2.0)
        assert in_time <= epsilon / 2.0 * (1.0 + ULPS)
        assert in_time + 2.0 / both.value_share * (1.0 + in_time) <= epsilon * (1.0 + ULPS)


@st.composite
def small_streams(draw: st.DrawFn) -> Stream:
    """Up to 60 rows at few times and values, or at the ends of their ranges."""
    time = st.one_of(st.integers(-3, 3), st.sampled_from((-(1 << 50), (1 << 50) - 1, 255, 256)), st.integers(0, 5000))
    value = st.one_of(st.integers(-2, 2), st.sampled_from((-(1 << 50), 1 << 50, (1 << 20) - 1, 1 << 20)))
    row = st.tuples(time, value, st.sampled_from((0, 1, 1, 2, 7, 1 << 40)))
    rows = draw(st.lists(row, min_size=1, max_size=60))
    t, v, w = (list(column) for column in zip(*rows, strict=True))
    return Stream.of("drawn", np.arange(len(rows)), t, v, w)


@pytest.mark.slow
@given(small_streams(), st.sampled_from(FAMILIES), st.integers(0, 2**32))
@settings(max_examples=150)
def test_no_violation_found_by_search(stream: Stream, family: type[Digest], seed: int) -> None:
    """The same of streams that Hypothesis makes up."""
    rng = np.random.default_rng(seed)
    sketch, truth = sketch_of(family, stream, rng), Truth.of(stream)
    for question in asked(rng, stream, sketch, 1):
        check(sketch, truth, question)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", ["uniform", "bursty", "late", "fading", "bucket-edges", "heavy-weights"])
def test_every_window_is_within_its_width(family: type[Digest], name: str) -> None:
    """Windows up to the newest event, of 150 lengths at which something changes: sum and count, merged or not."""
    rng = np.random.default_rng(5)
    stream = ALL_STREAMS[name](4000, 9)
    newest = int(stream.t.max())
    ages = np.unique(newest - stream.t)
    lengths = np.unique(np.concatenate((ages, ages + 1)))
    lengths = lengths[(lengths > 0) & (lengths <= 10**11)][:: max(1, len(lengths) // 150)]
    for epsilon in (0.02, 0.3, 0.9):
        sketch = sketch_of(family, stream, rng, epsilon=epsilon, span=86_400)
        part = epsilon if family is Histogram else epsilon / 2.0
        for aggregate, load in (("sum", stream.w), ("count", np.ones(len(stream), np.int64))):
            for length in lengths.tolist():
                estimate = sketch.answer(Question(aggregate, f"window:{length}s"))
                exact = int(load[newest - stream.t < length].sum())
                assert estimate.lower <= exact <= estimate.upper
                assert estimate.upper - estimate.lower <= part * exact


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", ["uniform", "fading", "bucket-edges", "heavy-weights"])
def test_windows_of_the_past_are_widened_by_what_came_since(family: type[Digest], name: str) -> None:
    """As of an earlier time both ends of a window cut ranges, each of ε of what its epoch holds beyond it at most."""
    rng = np.random.default_rng(8)
    stream = ALL_STREAMS[name](3000, 3)
    for span in (64, 4096, 86_400):
        sketch = sketch_of(family, stream, rng, span=span)
        part = sketch.parameters.epsilon / (1.0 if family is Histogram else 2.0)
        for _ in range(100):
            as_of, length = int(rng.choice(stream.t)), 1 + int(rng.exponential(span))
            epoch_ends = (as_of // span + 1) * span
            exact = int(stream.w[(stream.t <= as_of) & (as_of - stream.t < length)].sum())
            since = int(stream.w[(stream.t > as_of) & (stream.t < epoch_ends)].sum())
            estimate = sketch.answer(Question("sum", f"window:{length}s", as_of=as_of))
            assert estimate.lower <= exact <= estimate.upper
            assert estimate.upper - estimate.lower <= part * exact + 2.0 * part * since


@pytest.mark.parametrize("family", FAMILIES)
def test_times_at_the_ends_of_their_range(family: type[Digest]) -> None:
    """From -2^62 to 2^62, whatever the span: an age is right even where that of its range's start leaves 63 bits."""
    far = 1 << 62
    times = [1 - far, 3 - far, *([1000 - far] * 100), 0, far - 1]
    stream = Stream.of("far", np.arange(len(times)), times, np.arange(len(times)) % 5)
    for span in SPANS:
        sketch = family.build(events_of(stream), epsilon=0.5, span=span)
        for as_of, exact in ((far, len(times)), (far - 1, len(times)), (0, len(times) - 1), (1001 - far, 102)):
            estimate = sketch.answer(Question("count", "none", as_of=as_of))
            assert estimate.lower <= exact <= estimate.upper


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("span", SPANS)
def test_bytes_hold_times_far_apart(family: type[Digest], span: int) -> None:
    """Intervals that are further apart than a float counts come back as they were."""
    sketch = family.build(Events.of(np.arange(3), [-(1 << 62), 0, (1 << 62) - 1]), span=span)
    back = family.from_bytes(sketch.to_bytes())
    assert back.forest.interval.tolist() == sketch.forest.interval.tolist()
    assert back.to_bytes() == sketch.to_bytes()


def test_shares_close_to_one_have_their_bounds_in_order() -> None:
    """Where rounding the quotient moves a bound more than rounding its sums: the lower bound is not above the upper."""
    times, values, weights = [0] * 8 + [1], [0] * 8 + [5], [1] * 8 + [1 << 40]
    stream = Stream.of("close", np.arange(9), times, values, weights)
    sketch, truth = QDigest.build(events_of(stream)), Truth.of(stream)
    for minutes in range(1, 200):
        for aggregate in ("frequency", "rank", "range-frequency", "selectivity"):
            about = {"value": 5} if aggregate in ("frequency", "rank") else {"low": 3, "high": 8}
            check(sketch, truth, Question(aggregate, f"superexp:beta=3,scale={minutes}m", **about))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["uniform", "floats"])
def test_predicates_between_and_beyond_all_values(name: str) -> None:
    """Thresholds that no value has: fractions, minus zero, far beyond the domain, infinite."""
    stream = ALL_STREAMS[name](800, 2)
    sketch, truth = QDigest.build(events_of(stream), epsilon=0.3, span=512), Truth.of(stream)
    numbers = (-math.inf, -1e300, -1.5, -0.0, 0.0, 0.5, 499.5, 500.0, 1e19, 1e300, math.inf)
    for decay in ("none", "window:10m", "exp:half_life=10m"):
        for number in numbers:
            if math.isfinite(number):
                check(sketch, truth, Question("rank", decay, value=number))
                check(sketch, truth, Question("frequency", decay, value=number))
            check(sketch, truth, Question("correlated-sum", decay, tau=number))
            check(sketch, truth, Question("selectivity", decay, low=number))
            check(sketch, truth, Question("selectivity", decay, high=number))
            for high in numbers:
                if number <= high:
                    check(sketch, truth, Question("range-sum", decay, low=number, high=high))


@pytest.mark.parametrize("family", FAMILIES)
def test_a_series_is_its_single_answers(family: type[Digest]) -> None:
    """Every entry of a series is the answer at its time, up to the order of a sum, and holds the exact answer."""
    rng = np.random.default_rng(6)
    for name in ("late", "heavy-weights", "floats", "empty", "keys"):
        stream = ALL_STREAMS[name](1500, 4)
        sketch, truth = sketch_of(family, stream, rng, epsilon=0.3), Truth.of(stream)
        moments = START + np.sort(rng.integers(-100, HOUR + 1000, 12))
        for question in asked(rng, stream, sketch, 1):
            if question.aggregate == "heavy-hitters":
                continue
            series = sketch.series(question, moments)
            single = [sketch.answer(question.at(moment)) for moment in moments.tolist()]
            for column in ("value", "lower", "upper"):
                expected = [getattr(one, column) for one in single]
                np.testing.assert_allclose(getattr(series, column), expected, rtol=1e-13, atol=0)
            assert series.used.tolist() == [one.used for one in single]
            for at, moment in enumerate(moments.tolist()):
                exact = truth.answer(question.at(moment))
                if math.isnan(exact):
                    continue
                assert contains(series.lower[at], series.upper[at], exact)
                limits = (float(series.value[at]), float(series.lower[at]), float(series.upper[at]))
                check_words(series.guarantee, truth, question.at(moment), limits)


def test_worked_example() -> None:
    """C §2.3: x at time 3, y at 2 and 1. Under 1/(1 + age) the 1/2-heavy hitter is x at time 3 and y at time 4."""
    sketch = QDigest.build(Events.of([1, 2, 3], [3, 2, 1], ["x", "y", "y"]))
    question = Question("heavy-hitters", "poly:alpha=1,unit=1s", phi=0.5)
    x_first = 1 / (1 + 5 / 6)
    y_then = (7 / 12) / (1 / 2 + 7 / 12)
    for as_of, name, part in ((3, "x", x_first), (4, "y", y_then)):
        [item] = sketch.answer(question.at(as_of)).items
        assert item.value == name
        assert item.lower <= part <= item.upper
        assert item.upper - item.lower <= 4 * ROUNDING
    everything = sketch.answer(replace(question, phi=None, top=5, as_of=3)).items
    assert [item.value for item in everything] == ["x", "y"]


REAL_DECAYS: Final = (
    "none",
    "window:1h",
    "window:1d",
    "window:1m",
    "exp:half_life=6h",
    "poly:alpha=1,unit=1h",
    "chordal:3d",
    "superexp:beta=2,scale=1d",
    "log:unit=1m",
)


@pytest.mark.slow
@pytest.mark.parametrize("column", ["value", "key"])
@pytest.mark.parametrize("name", ["bikeshare14", "nginx_wikibase_minutes", "azure_vm_noise"])
def test_real_data(data: DataSet, name: str, column: str) -> None:
    """A stretch of arrivals from the middle of each, in parts as they arrived: 30 questions, no violation."""
    file = pq.ParquetFile(data(name))
    table = file.read_row_group(file.num_row_groups // 2, columns=["id", "ts", column, "weight"])
    rows = table.slice(min(5000, table.num_rows // 2), 12_000)
    stream = Stream.of(name, *(rows[each].to_numpy() for each in ("id", "ts", column, "weight"))).distinct()
    rng = np.random.default_rng(7)
    truth = Truth.of(stream)
    asked_of = 0
    for family, epsilon in ((Histogram, 0.05), (QDigest, 0.1)):
        pieces = np.array_split(np.arange(len(stream)), 4)
        sketch = merged([family.build(events_of(stream.take(piece)), epsilon=epsilon) for piece in pieces], rng)
        known = [each for each in family.abilities.aggregates if each in aggregates_for(stream)]
        for number in range(30):
            question = random_question(rng, stream, known[number % len(known)], REAL_DECAYS)
            check(sketch, truth, any_moment(rng, stream, question))
            asked_of += 1
    assert asked_of == 60


WIDTH: Final = 64
Weighted = list[tuple[int, int]]


@st.composite
def arrivals(draw: st.DrawFn) -> Weighted:
    """Weights and timestamps out of order, up to 500 at a few places or anywhere below `WIDTH`."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    rows = draw(st.integers(1, 500))
    pattern = draw(st.sampled_from(("any", "late", "edges", "newest")))
    if pattern == "any":
        t = rng.integers(0, WIDTH, rows)
    elif pattern == "late":
        t = np.maximum(np.arange(rows) * WIDTH // rows - rng.geometric(0.1, rows), 0)
    elif pattern == "edges":
        t = (1 << rng.integers(0, 6, rows)) - np.arange(rows) % 2
    else:
        t = WIDTH - np.minimum(rng.geometric(0.2, rows), WIDTH)
    heaviest = draw(st.sampled_from((1, 1, 4, 60)))
    return [(int(w), int(x)) for w, x in zip(rng.integers(1, heaviest + 1, rows), t, strict=True)]


def peer_of(rows: Weighted, epsilon: float) -> Splittable:
    peer = Splittable(epsilon, WIDTH, max(2, sum(weight for weight, _ in rows)))
    for weight, t in rows:
        peer.arrive_weighted(weight, t)
    return peer


@given(arrivals(), st.sampled_from((0.95, 0.5)))
@settings(max_examples=25)
def test_batches_are_single_arrivals(rows: Weighted, epsilon: float) -> None:
    """D, Theorem 3: Algorithm 4 leaves the state that Algorithm 2 leaves after as many single elements."""
    rows = rows[:150]
    peer, one_by_one = peer_of(rows, epsilon), Splittable(epsilon, WIDTH, max(2, sum(w for w, _ in rows)))
    for weight, t in rows:
        for _ in range(weight):
            one_by_one.arrive(t)
    assert [sorted(level) for level in peer.levels] == [sorted(level) for level in one_by_one.levels]
    assert peer.discarded == one_by_one.discarded


@pytest.mark.parametrize("pattern", ["any", "late", "newest"])
def test_the_peer_keeps_its_theorems_and_we_keep_less(pattern: str) -> None:
    """D, Lemma 1 and Theorem 1, where its levels have discarded buckets and err; a peer of too few buckets fails.

    On the same events a histogram has fewer ranges than the peer has buckets, and intervals at most ε wide.
    """
    rng, width, rows, epsilon = np.random.default_rng(1), 1024, 1500, 0.2
    weights = rng.integers(1, 5, rows)
    times = {
        "any": rng.integers(0, width, rows),
        "late": np.maximum(np.arange(rows) * width // rows - rng.geometric(0.02, rows), 0),
        "newest": width - np.minimum(rng.geometric(0.01, rows), width),
    }[pattern]
    peer, poor = (Splittable(epsilon, width, int(weights.sum())) for _ in range(2))
    poor.alpha = 4
    for weight, t in zip(weights.tolist(), times.tolist(), strict=True):
        peer.arrive_weighted(weight, t)
        poor.arrive_weighted(weight, t)
    sketch = Histogram.build(Events.of(np.arange(rows), times, weights=weights), epsilon=epsilon, span=width)
    assert sketch.kept < sum(len(level) for level in peer.levels)
    newest, off, off_poor, widest = int(times.max()), 0.0, 0.0, 0.0
    for start in range(0, newest + 1, 7):
        exact = int(weights[times >= start].sum())
        for level, lost in enumerate(peer.discarded):
            if lost < start:
                assert abs(exact - peer.estimate(level, start)) <= (1 << level) * peer.path
        off = max(off, abs(exact - peer.since(start)) / exact)
        off_poor = max(off_poor, abs(exact - poor.since(start)) / exact)
        estimate = sketch.answer(Question("sum", f"window:{newest - start + 1}s"))
        assert estimate.lower <= exact <= estimate.upper
        widest = max(widest, (estimate.upper - estimate.lower) / exact)
    assert 0.0 < off <= epsilon < off_poor
    assert epsilon / 20 < widest <= epsilon


def test_the_printed_overflow_loses_what_is_late() -> None:
    """D's overflow rule as printed lets T_0 fall back when a late element is discarded, and Theorem 1 fails."""
    printed, mended = (Splittable(0.95, WIDTH, 1000, literal=literal) for literal in (True, False))
    for peer in (printed, mended):
        for t in (*range(WIDTH), 0):
            peer.arrive(t)
    assert printed.discarded[0] == 0 < mended.discarded[0]
    assert abs(printed.since(1) - (WIDTH - 1)) > 0.6 * (WIDTH - 1)
    assert abs(mended.since(1) - (WIDTH - 1)) <= 0.95 * (WIDTH - 1)
