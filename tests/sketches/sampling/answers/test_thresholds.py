"""Thresholds that are aggregates, over time: in one pass, with the bounds of single answers."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

from sketches import Events, Integral, Question, Sample
from sketches.predicate import EVERY_EVENT, Predicate, Range
from sketches.sampling.askable_sample import AskableSample
from sketches.vocabulary import COUNTINGS
from tests.support.oracle import Oracle
from tests.support.streams import STREAMS, Stream
from tests.support.truth import Truth

DAY = 20_000
AGGREGATES = ("correlated-sum", "correlated-count", "correlated-mean", "selectivity")


def epochs(rows: int, days: int, seed: int) -> tuple[list[Sample], Stream]:
    """Daily samples of a stream with weights of 0 and values of both signs."""
    rng = np.random.default_rng(seed)
    times = np.sort(rng.integers(0, days * DAY, rows))
    weights = np.where(rng.random(rows) < 0.3, 0, rng.geometric(0.1, rows))
    stream = Stream.of("days", np.arange(rows), times, np.round(rng.normal(20, 30, rows), 3), weights)
    parts = [stream.take(np.flatnonzero(times // DAY == day)) for day in range(days)]
    build = [Sample.build(Events.of(one.ids, one.t, one.v, one.w), epsilon=0.2, detail=1, seed=seed) for one in parts]
    return build, stream


@pytest.fixture(scope="module")
def large() -> tuple[AskableSample, Oracle]:
    """Enough rows that many of them share a block of values."""
    samples, stream = epochs(60_000, 30, 1)
    askable = AskableSample.side_by_side([sample.askable_sample for sample in samples])
    assert len(askable.sample) >= 2**14
    return askable, Oracle(stream)


@pytest.mark.parametrize("decay", ["exp:half_life=3h", "window:4h", "none", "poly:alpha=1,unit=1h", "exp:half_life=2m"])
@pytest.mark.parametrize("tau", ["median", "1.5*mean", "q0.95"])
def test_a_series_covers_what_single_answers_cover(large: tuple[AskableSample, Oracle], decay: str, tau: str) -> None:
    """At 40 times at once values equal those of single answers, and so do limits, nearly."""
    askable, _ = large
    moments = np.linspace(2 * DAY, 30 * DAY - 1, 40).astype(np.int64)
    for at, aggregate in enumerate(AGGREGATES):
        question = Question(aggregate, decay, tau=tau, counting=COUNTINGS[at % 2])
        series = askable.series(question, moments)
        for which in (0, 17, 39):
            single = askable.answer(question.at(int(moments[which])))
            assert series.value[which] == pytest.approx(single.value, rel=3e-3, nan_ok=True), question
            if decay.endswith(("2m", "4h")):
                continue  # few of the rows count: limits at one of 512 places among all rows are coarse
            width = single.upper - single.lower
            assert series.lower[which] <= single.lower + 0.15 * width
            assert series.upper[which] >= single.upper - 0.15 * width
            assert series.lower[which] >= single.lower - 0.5 * width - 2e-3 * abs(single.value)
            assert series.upper[which] <= single.upper + 0.5 * width + 2e-3 * abs(single.value)


STREAM_KINDS = ("many values", "ten values", "three of each", "half at one value", "weights rise with values")


def small_stream(kind: str) -> Stream:
    rng = np.random.default_rng(5)
    times, spread = np.sort(rng.integers(0, 3_600, 3_000)), rng.exponential(100.0, 3_000).round(2)
    values = {
        "many values": spread,
        "ten values": rng.integers(0, 10, 3_000),
        "three of each": np.arange(3_000) // 3,
        "half at one value": np.where(rng.random(3_000) < 0.5, 50.0, spread),
        "weights rise with values": spread,
    }[kind]
    weights = (spread / 10.0 + 1.0) if kind.startswith("weights") else rng.integers(0, 6, 3_000)
    return Stream.of(kind, np.arange(3_000), times, values, weights)


@pytest.mark.slow
@pytest.mark.parametrize("kind", STREAM_KINDS)
def test_what_lies_above_a_quantile_is_covered_over_seeds(kind: str) -> None:
    """Few values or many, ties, weights that go with values: sums, counts, means and shares are covered, and each.

    A quantile takes turns with the decays from kind to kind, and so all of their pairs are asked.
    """
    stream = small_stream(kind)
    fading = (("none", None), ("exp:half_life=10m", 2_500))
    oracle = Oracle(stream)
    questions = [
        Question(aggregate, decay, as_of, tau=tau, of=of, counting=counting)
        for aggregate, of in (
            *((name, None) for name in AGGREGATES),
            ("correlated-sum", "value"),
            ("correlated-mean", "value"),
        )
        for turn, (tau, counting) in enumerate((("median", "events"), ("q0.9", "weight")))
        for decay, as_of in (fading[(turn + STREAM_KINDS.index(kind)) % 2],)
    ]
    exact = np.array([oracle.answer(question) for question in questions])
    missed, seeds = np.zeros(len(questions)), 25
    for seed in range(seeds):
        sample = Sample.build(Events.of(stream.ids, stream.t, stream.v, stream.w), epsilon=0.25, detail=1, seed=seed)
        found = [sample.answer(question) for question in questions]
        lower, upper = (np.array([getattr(one, end) for one in found]) for end in ("lower", "upper"))
        missed += (exact < lower - 1e-9 * np.abs(exact)) | (exact > upper + 1e-9 * np.abs(exact))
    assert missed.max() <= binom.ppf(1.0 - 1e-4, seeds, 0.05), questions[int(missed.argmax())]
    assert missed.mean() <= 0.05 * seeds


def test_a_sum_that_jumps_at_its_threshold_is_covered() -> None:
    """Among heavy weights a quantile that is one event too low or too high lets a large part of the sum in or out."""
    stream = STREAMS["heavy-weights"](8_000, 1)
    oracle, moment = Oracle(stream), int(np.quantile(stream.t, 0.6))
    questions = [Question(aggregate, as_of=moment, tau="q0.9") for aggregate in ("correlated-sum", "correlated-mean")]
    exact = np.array([oracle.answer(question) for question in questions])
    missed, seeds = np.zeros(len(questions)), 60
    for seed in range(seeds):
        sample = Sample.build(
            Events.of(stream.ids, stream.t, stream.v, stream.w), epsilon=0.1, delta=0.05, detail=1, seed=seed
        )
        found = [sample.answer(question) for question in questions]
        missed += [not one.lower <= truth <= one.upper for one, truth in zip(found, exact, strict=True)]
    assert missed.max() <= binom.ppf(0.999, seeds, 0.05)


def test_a_share_above_a_quantile_is_known_by_definition() -> None:
    """At least half of all events lie at or above the median, and not many more where no value has many."""
    stream = small_stream("many values")
    found = Sample.build(Events.of(stream.ids, stream.t, stream.v), epsilon=0.25, detail=1).answer(
        Question("selectivity", tau="median")
    )
    assert found.lower == pytest.approx(0.5)
    assert found.upper < 0.53


def test_of_the_value_and_under_a_predicate(large: tuple[AskableSample, Oracle]) -> None:
    """τ is over all events, the predicate and `of` over what is summed; for sums of both signs too."""
    askable, oracle = large
    moments = np.linspace(2 * DAY, 30 * DAY - 1, 25).astype(np.int64)
    missed = 0
    for aggregate in ("correlated-sum", "correlated-mean"):
        for tau in ("median", "0.5*mean"):
            question = Question(aggregate, "exp:half_life=6h", tau=tau, of="value", high=60)
            series = askable.series(question, moments)
            exact = np.array([oracle.answer(question.at(moment)) for moment in moments.tolist()])
            missed += int(np.count_nonzero(~series.covers(exact, np.arange(len(moments)))))
    assert missed <= 5


@pytest.mark.parametrize("family", [Sample, Integral])
@pytest.mark.parametrize("tau", ["median", "q0.9", 2**60 + 37])
def test_neighbouring_values_of_many_digits_are_not_taken_for_one(family: type, tau: str | int) -> None:
    """A hundred whole numbers of which floats see a few: what lies above one of them is within the bounds."""
    values = np.arange(2**60, 2**60 + 100)
    settings = {"decay": "none"} if family is Integral else {}
    sketch = family.build(Events.of(np.arange(100), np.arange(100), values), **settings)
    first = {"median": 49, "q0.9": 89}.get(str(tau), 37)
    found = sketch.answer(Question("correlated-count", tau=tau))
    assert found.lower <= 100 - first <= found.upper
    share = sketch.answer(Question("selectivity", tau=tau))
    assert share.lower <= (100 - first) / 100 <= share.upper


HUGE = {
    "one float apart": 2**60 + np.array([5, -300, 90, 91, 260, 700, -1, 3, 3]),
    "beyond 2^62": 2**62 + np.array([700, 511, 513, -1, 0, 1, 2, 512, 512]),
    "far apart": np.array(
        [-(2**61) - 77, 2**61 + 129, 2**59 + 31, -5, 2**62 - 1, 2**60 + 65, -(2**60) - 1, 0, 2**55 + 3]
    ),
}


@pytest.mark.parametrize("values", HUGE.values(), ids=list(HUGE))
@pytest.mark.parametrize("tau", ["median", "q0.9", "q0.1", "0.5*q0.75"])
def test_quantiles_of_whole_numbers_beyond_all_floats_keep_their_digits(values: NDArray[np.int64], tau: str) -> None:
    """Beyond 2^53 one float is many whole numbers: where all events are kept, the events above are the right ones."""
    count = len(values)
    stream = Stream.of("huge", np.arange(count), np.arange(count), values, 1 + np.arange(count) % 4)
    sketch, truth = Sample.build(Events.of(stream.ids, stream.t, stream.v, stream.w)), Truth(stream, now=count - 1)
    for aggregate, of in (
        *((one, None) for one in AGGREGATES),
        ("correlated-mean", "value"),
        ("correlated-sum", "value"),
    ):
        for where in (EVERY_EVENT, Predicate.of(None, value=Range(high=int(values[2])))):
            question = Question(aggregate, "exp:half_life=5s", tau=tau, of=of, where=where)
            estimate, exact = sketch.answer(question), truth.answer(question)
            if exact.nothing:
                assert exact.faint or np.isnan(estimate.value), question
                continue
            assert exact.within(estimate.lower, estimate.upper), question
            assert estimate.confidence == 1.0 or "*" in tau, question
            assert estimate.confidence < 1.0 or exact.within(estimate.value, estimate.value), question
            series = sketch.series(question, np.arange(count))
            for moment in range(count):
                exact = truth.answer(question.at(moment))
                assert exact.nothing or exact.within(series.lower[moment], series.upper[moment]), (question, moment)
