"""Predicates, counting, thresholds, lists with a least share, and curves of the `integral` family."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom

from sketches import Events, Question
from sketches.errors import QuestionError, UnanswerableError
from sketches.predicate import Predicate, Range
from sketches.promise import Built
from sketches.question import Counting
from sketches.sampling.integral import Integral
from tests.support.oracle import Oracle
from tests.support.streams import Stream
from tests.support.truth import Truth

FADING = "exp:half_life=1h"
SHORT = Predicate.of(None, value=Range(high=300, open_high=True))
LOSSY = Predicate.of(None, weight=Range(low=5))


def calls(rows: int, seed: int = 1) -> Stream:
    """Values below 1,000, and weights from 0 to 9."""
    rng = np.random.default_rng(seed)
    return Stream.of(
        "calls", np.arange(rows), rng.integers(0, 20_000, rows), rng.integers(0, 1000, rows), rng.integers(0, 10, rows)
    )


def events(stream: Stream) -> Events:
    return Events.of(stream.ids, stream.t, stream.v, stream.w)


def asked(counting: Counting, spec: str) -> list[Question]:
    found = [
        Question("count", spec),
        Question("count", spec, where=SHORT),
        Question("correlated-count", spec, tau=100, where=SHORT),
        Question("correlated-count", spec, tau="2*median", high=900),
        Question("selectivity", spec, tau=100, where=SHORT),
        Question("selectivity", spec, tau="median", low=None, where=Predicate.of(None, value=Range(low=200))),
        Question("rank", spec, value=200, where=SHORT),
        Question("range-frequency", spec, low=50, high=250, where=SHORT),
        Question("median", spec, where=SHORT),
        Question("quantile", spec, phi=0.9, high=500),
    ]
    if counting == "weight":
        found += [
            Question("sum", spec, where=LOSSY),
            Question("range-sum", spec, low=50, high=250, where=LOSSY),
            Question("correlated-sum", spec, tau=500, where=LOSSY.and_also(SHORT.of(None, value=Range(high=900)))),
            Question("selectivity", spec, tau=500, where=LOSSY),
            Question("median", spec, where=LOSSY),
        ]
    return [replace(question, counting=counting) for question in found]


@pytest.mark.parametrize("spec", ["window:2h", FADING])
@pytest.mark.parametrize("counting", ["events", "weight"])
def test_predicates_restrict_answers_within_their_intervals(counting: Counting, spec: str) -> None:
    """By value and weight, both sides of a share alike: over 25 seeds no interval misses more often than it says."""
    stream = calls(4000)
    oracle, seeds = Oracle(stream), 25
    missed = dict.fromkeys(asked(counting, spec), 0)
    for seed in range(seeds):
        sketch = Integral.build(events(stream), decay=spec, epsilon=0.15, seed=seed, counting=counting)
        for question in missed:
            found = sketch.answer(question)
            truth = oracle.answer(question)
            missed[question] += not found.lower - 1e-9 * truth <= truth <= found.upper + 1e-9 * truth
            assert found.lower <= found.value <= found.upper
    allowed = binom.ppf(1 - 1e-4, seeds, 0.05)
    assert {question: n for question, n in missed.items() if n > allowed} == {}


@pytest.mark.parametrize("counting", ["events", "weight"])
def test_predicates_over_a_small_stream_are_exact(counting: Counting) -> None:
    """Nothing was discarded: the restricted answer is the oracle's, zero weights and all."""
    stream = calls(400)
    sketch = Integral.build(events(stream), decay="window:2h", counting=counting)
    for question in asked(counting, "window:2h"):
        found = sketch.answer(question)
        assert found.exact
        assert found.value == pytest.approx(Oracle(stream).answer(question), rel=1e-12)


def test_a_predicate_that_leaves_nothing_has_an_answer() -> None:
    """No event is so long: a sum of 0, no share, no quantile, no list."""
    sketch = Integral.build(events(calls(400)), decay="window:2h")
    none = Predicate.of(None, value=Range(low=5000))
    assert sketch.answer(Question("count", "window:2h", where=none)).value == 0
    share = sketch.answer(Question("rank", "window:2h", value=7, where=none))
    assert np.isnan(share.value)
    assert (share.lower, share.upper) == (0, 1)
    assert np.isnan(sketch.answer(Question("median", "window:2h", where=none)).value)
    assert sketch.answer(Question("heavy-hitters", "window:2h", where=none)).items == ()


def test_events_that_differ_in_weight_alone_are_two_events() -> None:
    """Counting events leaves the weights out of the rows, not out of what tells events apart."""
    stream = Events.of([1, 1, 1], [5, 5, 5], [7, 7, 7], [2, 3, 3])
    assert Integral.build(stream, decay="none").answer(Question("count")).value == 2


def test_weight_zero_is_an_event_and_adds_nothing() -> None:
    """It counts 1 where events are counted, and 0 where weight is."""
    stream = Events.of([1, 2, 3], [5, 6, 7], [7, 8, 9], [0, 4, 0])
    assert Integral.build(stream, decay="none").answer(Question("count")).value == 3
    weighed = Integral.build(stream, decay="none", counting="weight")
    assert weighed.answer(Question("sum")).value == weighed.answer(Question("count", counting="weight")).value == 4


def test_the_other_mass_is_refused_by_name() -> None:
    """A sketch that counts events knows no weights, nor the other way round; where all weigh 1 they are the same."""
    stream = events(calls(100))
    once, weighed = (Integral.build(stream, decay="none", counting=each) for each in ("events", "weight"))
    with pytest.raises(UnanswerableError, match=r"counting = 'events'\); sum here needs weight"):
        once.answer(Question("sum"))
    with pytest.raises(UnanswerableError, match=r"counting = 'weight'\); median here needs events"):
        weighed.answer(Question("median"))
    with pytest.raises(UnanswerableError, match="cannot restrict an answer by weight"):
        once.answer(Question("count", where=LOSSY))
    units = Integral.build(Events.of(range(9), range(9)), decay="none")
    assert units.answer(Question("sum")).value == units.answer(Question("count", counting="weight")).value == 9
    assert units.answer(Question("count", where=LOSSY)).value == 0
    weighted = Built({"decay": "none"}, {"counting": "events", "weight": "loss"}, 3600.0)
    assert Integral.promise(Question("count", where=LOSSY), weighted, past=False) is None
    assert Integral.promise(Question("count", where=SHORT), weighted, past=False) is not None
    assert Integral.promise(Question("sum"), weighted, past=False) is None


def test_text_values_are_selected_by_their_text_alone() -> None:
    """A key restricts; a range of values needs an order."""
    stream = Events.of(range(6), range(6), ["a", "b", "a", "c", "a", "b"])
    sketch = Integral.build(stream, decay="none")
    assert sketch.answer(Question("count", value="a")).value == 3
    assert sketch.answer(Question("frequency", value="a", where=Predicate.of("a"))).value == 1
    with pytest.raises(UnanswerableError, match="a range of values needs values with an order"):
        sketch.answer(Question("count", where=SHORT))
    with pytest.raises(UnanswerableError, match="a curve needs values with an order"):
        sketch.threshold_curve(Question("count"), [1.0])


def test_a_least_share_lists_no_crowd_that_does_not_qualify() -> None:
    """φ = 0.01 with ε = 0.05 listed every value that was sampled, as φ - ε/2 is below 0; half of φ is the least."""
    rng = np.random.default_rng(2)
    rows = 60_000
    stream = Events.of(np.arange(rows), rng.integers(0, 3000, rows), rng.integers(0, 5000, rows))
    sketch = Integral.build(stream, decay="window:1h")
    assert sketch.copies[0].level_at(3000) > 0
    found = sketch.answer(Question("heavy-hitters", "window:1h", phi=0.01))
    assert (found.items, found.value) == ((), 0.0)


@pytest.mark.parametrize(("spec", "rows"), [("window:2h", 4000), (FADING, 4000), (FADING, 300)])
def test_curves_are_the_answers_at_each_point(spec: str, rows: int) -> None:
    """Every τ and every φ has the value and the limits that it would get alone, also under a predicate."""
    sketch = Integral.build(events(calls(rows)), decay=spec, epsilon=0.15)
    for where in (Predicate(), SHORT):
        taus, phis = np.arange(-10.0, 1010.0, 60.0), np.arange(0.05, 1.0, 0.1)
        above = sketch.threshold_curve(Question("correlated-count", spec, tau=0.0, where=where), taus)
        alone = [sketch.answer(Question("correlated-count", spec, tau=float(tau), where=where)) for tau in taus]
        value = sketch.quantile_curve(Question("quantile", spec, phi=0.5, where=where), phis)
        asked = [sketch.answer(Question("quantile", spec, phi=float(phi), where=where)) for phi in phis]
        for curve, answers in ((above, alone), (value, asked)):
            assert curve.value.tolist() == [each.value for each in answers]
            assert curve.lower.tolist() == [each.lower for each in answers]
            assert curve.upper.tolist() == [each.upper for each in answers]
            assert {curve.confidence} == {each.confidence for each in answers}
    with pytest.raises(QuestionError, match="strictly between 0 and 1"):
        sketch.quantile_curve(Question("median", spec), [0.5, 1.0])
    with pytest.raises(QuestionError, match="flat array"):
        sketch.threshold_curve(Question("count", spec), [[1.0]])


@pytest.mark.parametrize("tau", ["median", "q0.9", "q0.1", "2*median", 2.0**60])
def test_thresholds_among_whole_numbers_beyond_all_floats_keep_their_digits(tau: float | str) -> None:
    """Beyond 2^53 one float is many whole numbers: what is called exact is so."""
    values = 2**60 + np.array([5, -300, 90, 91, 260, 700, -1, 3, 3])
    stream = Stream.of("huge", np.arange(9), np.arange(9), values)
    sketch = Integral.build(events(stream), decay="none", delta=0.2)
    for aggregate in ("selectivity", "correlated-count"):
        question = Question(aggregate, "none", tau=tau)
        estimate, exact = sketch.answer(question), Truth(stream, now=8).answer(question)
        assert exact.within(estimate.lower, estimate.upper)
        assert exact.within(estimate.value, estimate.value) or not estimate.guarantee.startswith("exact")


def test_equal_and_smaller_values_are_told_apart_beyond_all_floats() -> None:
    """A value that is asked for as a float is no other whole number."""
    stream = Stream.of("huge", np.arange(3), np.arange(3), 2**60 + np.array([0, 1, 100]))
    sketch = Integral.build(events(stream), decay="none", delta=0.2)
    for aggregate in ("frequency", "rank"):
        assert sketch.answer(Question(aggregate, "none", value=2.0**60)).value == pytest.approx(1 / 3)


def test_counts_by_weight_say_that_they_are_parts_of_the_weight() -> None:
    """The number of a guarantee is a part of what the answer counts."""
    sketch = Integral.build(events(calls(5000)), decay=FADING, epsilon=0.5, delta=0.2, counting="weight")
    guarantee = sketch.answer(Question("count", FADING, counting="weight")).guarantee
    assert "of the decayed weight" in guarantee
