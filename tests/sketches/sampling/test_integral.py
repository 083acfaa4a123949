"""Answers of the `integral` family: Theorems 3.1 to 3.3 of paper A by counting, exact small streams, refusals."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from sketches import Events, Question, guarantees
from sketches.errors import DecayError, IncompatibleError, QuestionError, UnanswerableError, WaneError
from sketches.predicate import Predicate, Range
from sketches.question import Counting
from sketches.sampling.expiry.integral_decay import NEVER
from sketches.sampling.inclusion.range_sample import LEVELS
from sketches.sampling.integral import Integral
from sketches.units import TimeUnit
from tests.support.oracle import Oracle
from tests.support.streams import STREAMS, Stream


def events(stream: Stream) -> Events:
    return Events.of(stream.ids, stream.t, stream.v, stream.w)


SUMS = ("sum", "count", "range-sum", "correlated-sum", "correlated-count")
SUM_OR_SHARE = (*SUMS, "selectivity", "rank", "frequency", "range-frequency")


def questions(spec: str, stream: Stream, counting: Counting = "weight") -> list[Question]:
    low, middle, high, top = (float(x) for x in np.quantile(stream.v, [0.2, 0.5, 0.8, 0.97], method="inverted_cdf"))
    later = int(stream.t.max()) + 60
    asked = [
        Question("sum", spec),
        Question("sum", spec, as_of=later),
        Question("selectivity", spec, tau=high),
        Question("selectivity", spec, low=low, high=middle, as_of=later),
        Question("selectivity", spec, tau="q0.9"),
        Question("rank", spec, value=middle),
        Question("quantile", spec, phi=0.25),
        Question("quantile", spec, phi=0.97, as_of=later),
        Question("median", spec),
        Question("frequency", spec, value=middle),
        Question("range-sum", spec, low=low, high=high),
        Question("range-frequency", spec, low=middle, high=top),
        Question("correlated-sum", spec, tau=top),
        Question("correlated-sum", spec, tau="median"),
        Question("correlated-count", spec, tau="1.5*median"),
        Question("count", spec, low=low, high=high),
        Question("selectivity", spec, tau=middle, where=Predicate.of(None, value=Range(low, open_low=True))),
        Question("median", spec, high=high),
    ]
    return [replace(question, counting=counting) for question in asked if counting == "weight" or not question.sums]


def count_misses(
    stream: Stream, spec: str, seeds: int, epsilon: float, delta: float, counting: Counting = "weight"
) -> tuple[dict[Question, int], dict[Question, int]]:
    """Per question how often the interval missed, and how often the estimate was further off than ε allows."""
    oracle = Oracle(stream)
    asked = questions(spec, stream, counting)
    exact = [oracle.answer(question) for question in asked]
    whole = [oracle.answer(Question("count", spec, question.as_of, counting=counting)) for question in asked]
    missed, beyond = dict.fromkeys(asked, 0), dict.fromkeys(asked, 0)
    for seed in range(seeds):
        sketch = Integral.build(events(stream), decay=spec, epsilon=epsilon, delta=delta, seed=seed, counting=counting)
        for question, truth, total in zip(asked, exact, whole, strict=True):
            estimate = sketch.answer(question)
            among = bool(question.where) and question.aggregate not in SUMS
            failures = 1 + (question.threshold is not None) + among
            assert estimate.exact or estimate.confidence == 1 - failures * delta
            missed[question] += not estimate.lower <= truth <= estimate.upper
            if question.aggregate in SUM_OR_SHARE and question.threshold is None and not among:
                relative = question.aggregate in ("sum", "count") and not question.where
                scale = truth if relative else total if question.aggregate in SUMS else 1.0
                beyond[question] += abs(estimate.value - truth) > epsilon * scale
    return missed, beyond


ACCURACY_CASES = [
    ("uniform", "none"),
    ("uniform", "window:30m"),
    ("heavy-weights", "none"),
    ("heavy-weights", "window:30m"),
    ("heavy-weights", "exp:half_life=10m"),
    ("heavy-weights", "poly:alpha=1,unit=10m"),
    ("correlated", "exp:half_life=10m"),
    ("correlated", "expr:1/max(age/60,1)"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "spec"), ACCURACY_CASES)
def test_estimates_are_within_epsilon_with_probability_one_minus_delta(name: str, spec: str) -> None:
    """Theorems 3.1 to 3.3: over 20 seeds no question misses more often than δ = 0.05 explains (1 in 10,000 doubt)."""
    missed, beyond = count_misses(STREAMS[name](6000, 1), spec, seeds=20, epsilon=0.1, delta=0.05)
    allowed = binom.ppf(1 - 1e-4, 20, 0.05)
    assert {question: n for question, n in missed.items() if n > allowed} == {}
    assert {question: n for question, n in beyond.items() if n > allowed} == {}
    together = binom.ppf(1 - 1e-4, 20 * len(missed), 0.05)  # questions of one seed agree too often for a sharper count
    assert sum(missed.values()) <= together


@pytest.mark.slow
def test_copies_bring_the_failures_down_to_a_small_delta() -> None:
    """δ = 0.001 takes several copies, and their medians miss no more often than it says."""
    stream = STREAMS["heavy-weights"](6000, 1)
    sketch = Integral.build(events(stream), decay="window:30m", epsilon=0.1, delta=0.001)
    assert len(sketch.copies) == 7
    missed, beyond = count_misses(stream, "window:30m", seeds=20, epsilon=0.1, delta=0.001)
    assert max(missed.values()) <= binom.ppf(1 - 1e-4, 20, 0.001)
    assert max(beyond.values()) <= binom.ppf(1 - 1e-4, 20, 0.001)


def lists_missed(seeds: int, epsilon: float, **asked: float) -> tuple[int, int, int]:
    """Of lists of frequent values: how many miss a share, leave out more than they say, or list what is too rare."""
    stream, spec = STREAMS["keys"](20_000, 2), "window:30m"
    exact = Oracle(stream).shares(Question("heavy-hitters", spec))
    shares = missed = rare = 0
    for seed in range(seeds):
        sketch = Integral.build(events(stream), decay=spec, epsilon=epsilon, seed=seed)
        found = sketch.answer(Question("heavy-hitters", spec, **asked))
        listed = {item.value: item for item in found.items}
        assert listed
        assert found.unlisted is not None
        assert guarantees.none_unlisted(found.unlisted) in found.guarantee
        shares += not all(item.lower <= exact[value] <= item.upper for value, item in listed.items())
        missed += any(share > found.unlisted for value, share in exact.items() if value not in listed)
        least = asked.get("phi", 0.0) - 1.5 * epsilon
        assert least != 0
        rare += any(exact[value] < least for value in listed)
    return shares, missed, rare


def test_frequent_values_are_found_with_their_shares() -> None:
    """The list leaves out no share above `unlisted` and has none below φ - 3ε/2, in all but δ of the seeds."""
    most = binom.ppf(1 - 1e-4, 30, 0.05)
    assert max(lists_missed(30, 0.05, phi=0.1)) <= most


def test_what_the_top_cuts_off_is_counted_as_unlisted() -> None:
    """A list of the first two says that the third may be large."""
    most = binom.ppf(1 - 1e-4, 30, 0.05)
    assert max(lists_missed(30, 0.05, top=2)[:2]) <= most
    stream = STREAMS["keys"](400, 2)
    whole = Integral.build(events(stream), decay="none").answer(Question("heavy-hitters", top=3))
    assert whole.exact
    assert whole.unlisted == sorted(Oracle(stream).shares(Question("heavy-hitters")).values())[-4]


@pytest.mark.parametrize("name", ["single", "heavy-duplicates", "conflicts", "floats", "late", "one-second"])
@pytest.mark.parametrize("spec", ["none", "window:10m", "exp:half_life=1h"])
@pytest.mark.parametrize("counting", ["events", "weight"])
def test_answers_are_exact_while_everything_fits(name: str, spec: str, counting: Counting) -> None:
    """Level 0 holds every event that counts, each once: the answer is the exact one, and it says so.

    Under the exponential decay because no event of these streams has faded below a unit.
    """
    stream = STREAMS[name](700, 4)
    sketch = Integral.build(events(stream), decay=spec, counting=counting)
    oracle = Oracle(stream)
    for question in questions(spec, stream, counting):
        estimate = sketch.answer(question)
        assert estimate.confidence == 1.0
        assert estimate.guarantee.startswith("exact")
        truth = oracle.answer(question)
        if math.isnan(truth):
            assert math.isnan(estimate.value)
        else:
            assert estimate.value == estimate.lower == estimate.upper == pytest.approx(truth, rel=1e-12)


def test_heavy_hitters_of_a_small_stream_are_exact() -> None:
    """The list is the oracle's, in its order, with labels."""
    stream = STREAMS["keys"](900, 1)
    sketch = Integral.build(events(stream), decay="none")
    exact = Oracle(stream).shares(Question("heavy-hitters"))
    items = sketch.answer(Question("heavy-hitters", top=20)).items
    assert [item.estimate for item in items] == pytest.approx(list(exact.values())[:20])
    assert {item.value: item.estimate for item in items} == pytest.approx(
        {item.value: exact[item.value] for item in items}
    )
    above = sketch.answer(Question("heavy-hitters", phi=0.05)).items
    assert {item.value for item in above} == {value for value, share in exact.items() if share >= 0.05}
    label = max(exact, key=lambda value: exact[value])
    assert sketch.answer(Question("frequency", value=label)).value == pytest.approx(exact[label])
    with pytest.raises(UnanswerableError, match="rank needs values with an order"):
        sketch.answer(Question("rank", value=3))


def test_an_uncertain_threshold_widens_the_interval_to_both_its_ends() -> None:
    """Above the median: at least what lies above its upper limit, at most what lies above its lower one."""
    stream, spec = STREAMS["correlated"](6000, 1), "exp:half_life=10m"
    sketch = Integral.build(events(stream), decay=spec, epsilon=0.1)
    median = sketch.answer(Question("median", spec))
    assert median.lower < median.value < median.upper
    for aggregate in ("correlated-count", "selectivity"):
        found = sketch.answer(Question(aggregate, spec, tau="median"))
        doubled = sketch.answer(Question(aggregate, spec, tau="2*median"))
        assert doubled.lower == sketch.answer(Question(aggregate, spec, tau=2 * median.upper)).lower
        assert doubled.upper == sketch.answer(Question(aggregate, spec, tau=2 * median.lower)).upper
        assert found.value == sketch.answer(Question(aggregate, spec, tau=median.value)).value
        assert found.lower == sketch.answer(Question(aggregate, spec, tau=median.upper)).lower
        assert found.upper == sketch.answer(Question(aggregate, spec, tau=median.lower)).upper


def test_a_series_is_one_answer_after_the_other() -> None:
    """Each time has the answer it would get alone; the series claims the least confidence among them."""
    stream = STREAMS["correlated"](6000, 1)
    spec = "window:20m"
    sketch = Integral.build(events(stream), decay=spec, epsilon=0.1)
    moments = int(stream.t.max()) + np.arange(0, 1300, 100)
    series = sketch.series(Question("count", spec), moments)
    alone = [sketch.answer(Question("count", spec, as_of=int(moment))) for moment in moments]
    assert series.value.tolist() == [each.value for each in alone]
    assert series.upper.tolist() == [each.upper for each in alone]
    assert {each.confidence for each in alone} == {0.95, 1.0}  # near the end the window holds few events
    assert series.confidence == 0.95
    assert len(sketch.series(Question("count", spec), [])) == 0


def test_the_time_unit_is_that_of_the_times() -> None:
    """Times in milliseconds under a window of a second: a thousand of them count."""
    stream = Events.of(range(3000), range(3000))
    sketch = Integral.build(stream, decay="window:1s", unit=TimeUnit(1, 1000))
    assert sketch.answer(Question("sum", "window:1s")).value == 1000


def test_nothing_seen_and_nothing_left_have_answers() -> None:
    """No events: sums are 0, shares and quantiles NaN; the same once everything has expired."""
    spec = "window:10m"
    nothing = Integral.build(Events.of([], []), decay=spec)
    expired = Integral.build(Events.of([1, 2], [0, 5], [7, 8]), decay=spec)
    for sketch, as_of in ((nothing, 0), (expired, 5000)):
        assert sketch.answer(Question("sum", spec, as_of=as_of)).value == 0
        share = sketch.answer(Question("rank", spec, as_of=as_of, value=7))
        assert math.isnan(share.value)
        assert (share.lower, share.upper) == (0, 1)
        assert math.isnan(sketch.answer(Question("median", spec, as_of=as_of)).value)
        assert sketch.answer(Question("correlated-sum", spec, as_of=as_of, tau="median")).value == 0
        assert sketch.answer(Question("heavy-hitters", spec, as_of=as_of)).items == ()
    assert nothing.merge(expired).to_bytes() == expired.merge(nothing).to_bytes() == expired.to_bytes()


def test_answers_fail_where_every_level_has_discarded() -> None:
    """The paper's 'the algorithm fails': no level is complete, and the message says that the stream is too heavy."""
    sketch = Integral.build(Events.of([1], [0]), decay="none")
    full = replace(sketch.copies[0], cuts=np.full(LEVELS, NEVER))
    with pytest.raises(UnanswerableError, match="too heavy"):
        replace(sketch, copies=(full,)).answer(Question("sum"))


@pytest.mark.parametrize(
    ("question", "message"),
    [
        (Question("mean", "window:1h"), "does not answer mean; it answers sum, "),
        (Question("correlated-count", "window:1h", tau="mean"), "no mean of the values to set a threshold by"),
        (Question("count", "window:1h", where=Predicate.of("a")), "values are numbers"),
        (Question("sum", "window:1h", of="value"), "does not answer sum of the value"),
        (Question("self-join", "window:1h"), "does not answer self-join"),
        (Question("sum", "window:2h"), "built for the decay window:1h; the question asks for window:2h"),
        (Question("sum", "window:1h", as_of=9), "as_of is 9, but the newest event is at 10"),
        (Question("frequency", "window:1h", value="a"), "values are numbers"),
    ],
)
def test_questions_it_was_not_built_for_are_refused(question: Question, message: str) -> None:
    """Each refusal names what was asked and what would be answered."""
    sketch = Integral.build(Events.of([1, 2], [5, 10]), decay="window:1h")
    with pytest.raises((UnanswerableError, QuestionError), match=message):
        sketch.answer(question)


@pytest.mark.parametrize(
    ("question", "said"),
    [
        (Question("count"), "the estimate is within 0.2 of the decayed count with probability 0.95"),
        (Question("rank", value=3), "the estimate is within 0.2 of 1 with probability 0.95"),
        (Question("median"), "rank within 0.2 of the one asked for, of all that counts with probability 0.95"),
        (Question("heavy-hitters"), "each interval of the list holds by itself, with probability 0.95; no unlisted"),
        (Question("correlated-count", tau=3), "the estimate is within 0.2 of the whole decayed count with probability"),
        (Question("selectivity", tau="median"), "inside its bounds with probability 0.9"),
    ],
)
def test_guarantees_say_their_bound(question: Question, said: str) -> None:
    """Each from the numbers of its interval; where τ is a quantile no number but the interval holds."""
    sketch = Integral.build(events(STREAMS["uniform"](3000, 1)), decay="none", epsilon=0.2)
    assert sketch.answer(question).guarantee.startswith(said)


def test_a_confidence_beyond_the_plan_is_refused() -> None:
    """The bound is a priori: a question cannot have more confidence than 1 - δ, unless the answer is exact."""
    stream = STREAMS["uniform"](3000, 1)
    sketch = Integral.build(events(stream), decay="none", epsilon=0.2)
    with pytest.raises(UnanswerableError, match=r"confidence is 0\.99; .* probability 0\.95"):
        sketch.answer(Question("count", confidence=0.99))
    small = Integral.build(events(stream.take(np.arange(5))), decay="none")
    assert small.answer(Question("count", confidence=0.99)).confidence == 1.0


def test_a_series_refuses_lists_and_tables_of_times() -> None:
    """There is no series of lists, and as-of times must be a flat array."""
    sketch = Integral.build(Events.of([1], [10]), decay="none")
    with pytest.raises(UnanswerableError, match="heavy-hitters is a list"):
        sketch.series(Question("heavy-hitters"), [10])
    with pytest.raises(QuestionError, match="2 dimensions"):
        sketch.series(Question("sum"), [[10]])


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"decay": "windw:1h"}, DecayError),
        ({"decay": "none", "epsilon": 0.0}, WaneError),
        ({"decay": "none", "delta": 1.0}, WaneError),
        ({"decay": "none", "seed": -1}, WaneError),
        ({"decay": "last:10"}, DecayError),
        ({"decay": "window:1h", "scale": 7}, WaneError),
        ({"decay": "exp:half_life=1h", "scale": 0}, WaneError),
        ({"decay": "none", "counting": "rows"}, WaneError),
    ],
)
def test_bad_parameters_are_refused(settings: dict[str, Any], error: type[WaneError]) -> None:
    """A decay that cannot be parsed, an accuracy out of range, a negative seed."""
    with pytest.raises(error):
        Integral.build(Events.of([1], [10]), **settings)


def test_merging_refuses_other_parameters_and_names_both() -> None:
    """Another decay, accuracy or seed, or another kind of values, cannot be merged."""
    stream = Events.of([1], [10])
    sketch = Integral.build(stream, decay="window:1h")
    with pytest.raises(IncompatibleError, match=r"window:1h.*window:2h"):
        sketch.merge(Integral.build(stream, decay="window:2h"))
    with pytest.raises(IncompatibleError, match=r"seed=0.*seed=5"):
        sketch.merge(Integral.build(stream, decay="window:1h", seed=5))
    with pytest.raises(IncompatibleError, match=r"epsilon=0\.05.*epsilon=0\.1"):
        sketch.merge(Integral.build(stream, decay="window:1h", epsilon=0.1))
    with pytest.raises(IncompatibleError, match="integer, key"):
        sketch.merge(Integral.build(Events.of([2], [10], ["a"]), decay="window:1h"))
    with pytest.raises(WaneError, match="at least one"):
        Integral.union([])
