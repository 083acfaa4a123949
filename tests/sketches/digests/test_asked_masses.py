"""What people ask of the digests: weights of 0, events or weight, some values alone, the newest N rows, curves."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

import numpy as np
import pytest

from sketches import Events, Question
from sketches.digests.digest import Digest
from sketches.digests.exponential import Exponential, OneMassParameters
from sketches.digests.histogram import Histogram
from sketches.digests.qdigest import QDigest
from sketches.errors import CorruptError, UnanswerableError, WaneError
from sketches.exponential_parameters import ExponentialParameters
from sketches.guarantees import NO_OTHER
from sketches.predicate import Predicate, Range
from sketches.question import Counting
from sketches.units import SECOND
from sketches.vocabulary import COUNTINGS
from tests.sketches.digests.test_deterministic import Truth, check, contains, events_of, merged, with_zeros
from tests.support.oracle import Oracle
from tests.support.streams import START, STREAMS, Stream

FAMILIES: Final[tuple[type[Digest], ...]] = (Histogram, QDigest)
CALLS: Final = Events.of(range(5), range(5), [60, 120, 180, 600, 3600], [1, 1, 1, 1, 96])
DECAY: Final = "exp:half_life=10m"


def stream_of(rows: int, seed: int, times: int) -> Stream:
    """Rows at few times, so that many are tied; half of them weigh nothing."""
    rng = np.random.default_rng(seed)
    weights = np.where(rng.random(rows) < 0.5, 0, rng.integers(1, 50, rows))
    values = np.minimum(rng.geometric(0.05, rows), 100)
    return Stream.of("tied", np.arange(rows), START + rng.integers(0, times, rows), values, weights)


def in_parts(family: type[Digest], stream: Stream, epsilon: float, parts: int, seed: int) -> Digest:
    """The sketch of many small parts, merged in some tree."""
    pieces = [family.build(events_of(piece), epsilon=epsilon, span=512) for piece in stream.split(parts, seed)]
    return merged(pieces, np.random.default_rng(seed))


@pytest.mark.parametrize("family", FAMILIES)
def test_an_event_of_weight_0_is_an_event(family: type[Digest]) -> None:
    """It counts 1 in counts and means and adds nothing to sums, also once it is written and read."""
    sketch = family.build(Events.of(range(4), [1, 2, 3, 3], [5, 6, 7, 8], [0, 0, 3, 0]))
    for one in (sketch, family.from_bytes(sketch.to_bytes())):
        assert one.answer(Question("count")).value == 4
        assert one.answer(Question("sum")).value == 3
        mean = one.answer(Question("mean"))
        assert (mean.value, mean.lower, mean.upper) == (0.75, 0.75, 0.75)
        assert one.answer(Question("count", counting="weight")).value == 3


def test_a_mean_of_few_events_is_within_what_weights_can_be() -> None:
    """Where nothing is sure of a range, the mean lies between the least and the greatest weight: 0 is one."""
    stream = with_zeros(STREAMS["uniform"](2000, 1).distinct(), np.random.default_rng(3))
    sketch, truth = in_parts(QDigest, stream, 0.9, 20, 1), Truth.of(stream)
    for tau in np.quantile(stream.v, [0.5, 0.9, 0.99, 0.999]).tolist():
        for decay in ("none", "window:1m", "last:5"):
            check(sketch, truth, Question("correlated-mean", decay, tau=tau))


def test_the_median_call_is_not_weighted_by_its_loss() -> None:
    """Five calls: the median of the calls is 180 s, that of the loss 3,600 s; a threshold follows the counting."""
    sketch = QDigest.build(CALLS)
    assert sketch.answer(Question("median")).value == 180
    assert sketch.answer(Question("median", counting="weight")).value == 3600
    assert sketch.answer(Question("count", tau="median")).value == 3
    assert sketch.answer(Question("count", tau="median", counting="weight")).value == 96
    assert sketch.answer(Question("sum", tau="median")).value == 98
    assert sketch.answer(Question("sum", tau="2*median")).value == 97
    assert sketch.answer(Question("rank", value=180)).value == pytest.approx(0.6)
    assert sketch.answer(Question("heavy-hitters", top=1, counting="weight")).items[0].value == 3600


def test_a_predicate_restricts_both_sides() -> None:
    """The mean loss of calls shorter than ten minutes, and shares among them; ends are strict or closed."""
    sketch = QDigest.build(CALLS)
    short = Predicate.of(None, value=Range(high=600, open_high=True))
    assert sketch.answer(Question("mean", where=short)).value == 1
    assert sketch.answer(Question("count", where=short)).value == 3
    assert sketch.answer(Question("count", high=600)).value == 4
    assert sketch.answer(Question("median", where=short)).value == 120
    assert sketch.answer(Question("rank", value=120, where=short)).value == pytest.approx(2 / 3)
    assert sketch.answer(Question("sum", where=Predicate.of(None, value=Range(3600, 3600)))).value == 96
    listed = sketch.answer(Question("heavy-hitters", top=9, where=short)).items
    assert [item.value for item in listed] == [60, 120, 180]
    assert sketch.answer(Question("sum", tau=120, where=short)).value == 2
    assert math.isnan(sketch.answer(Question("median", where=Predicate.of(None, value=Range(low=4000)))).value)


def test_what_cannot_be_selected_is_refused_by_name() -> None:
    """Weights, values of a histogram, text among numbers and ranges of text: never ignored."""
    heavy, some = Predicate.of(None, weight=Range(low=5)), Predicate.of(None, value=Range(low=5))
    exponential = Exponential.build(CALLS, decay=DECAY)
    for sketch in (Histogram.build(CALLS), QDigest.build(CALLS), exponential):
        with pytest.raises(UnanswerableError, match="by weight"):
            sketch.answer(Question("count", DECAY, where=heavy))
    with pytest.raises(UnanswerableError, match="by value"):
        Histogram.build(CALLS).answer(Question("count", where=some))
    with pytest.raises(UnanswerableError, match="numbers"):
        QDigest.build(CALLS).answer(Question("count", where=Predicate.of("GET")))
    keys = QDigest.build(Events.of(range(3), range(3), ["a", "b", "b"]))
    with pytest.raises(UnanswerableError, match="text"):
        keys.answer(Question("count", where=some))
    assert keys.answer(Question("count", where=Predicate.of("b"))).value == 2
    with pytest.raises(UnanswerableError, match="mean of the values"):
        QDigest.build(CALLS).answer(Question("count", tau="mean"))
    with pytest.raises(UnanswerableError, match="newest events"):
        exponential.answer(Question("count", "last:3"))


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("times", [40, 3000])
def test_the_newest_rows_by_number(family: type[Digest], times: int) -> None:
    """Of any number, tied or not, as of now and the past, after merging many small parts: never outside."""
    rng = np.random.default_rng(times)
    aggregates = [each for each in family.abilities.aggregates if each in ("sum", "count", "mean", "median")]
    for seed in range(4):
        stream = stream_of(1500, seed, times)
        epsilon = float(rng.choice([0.05, 0.5]))
        sketch, truth = in_parts(family, stream, epsilon, 25, seed), Truth.of(stream)
        for number in (1, 2, 10, 100, 700, 1499, 1500, 1501, 10**9):
            for as_of in (None, *rng.choice(stream.t, 2).tolist(), int(stream.t.max()) + 50, START - 1):
                for aggregate in aggregates:
                    check(sketch, truth, Question(aggregate, f"last:{number}", as_of))
                check(sketch, truth, Question("count", f"last:{number}", as_of, counting="weight"))


@pytest.mark.parametrize("family", FAMILIES)
def test_how_many_the_newest_rows_are(family: type[Digest]) -> None:
    """They are N, and those tied with the oldest; where they begin is known to within 3ε of N."""
    stream = Stream.of("steady", np.arange(6000), START + np.arange(6000), np.arange(6000) % 7)
    for epsilon in (0.05, 0.2):
        sketch = in_parts(family, stream, epsilon, 12, 1)
        in_time = epsilon if family is Histogram else epsilon / 2
        for number in (1, 50, 999, 4321):
            answer = sketch.answer(Question("count", f"last:{number}"))
            assert answer.lower == number
            assert answer.upper <= number * (1 + 3 * in_time) + 1
            assert "of the whole decayed count wide" in answer.guarantee or answer.exact
    assert sketch.answer(Question("count", "last:100000")).exact
    tied = family.build(Events.of(range(4), [1, 2, 2, 3]))
    assert tied.answer(Question("count", "last:2")).value == 3
    assert tied.answer(Question("count", "last:2", as_of=2)).value == 2


def test_a_series_of_the_newest_rows_is_its_single_answers() -> None:
    """At every time the newest rows by then."""
    stream = stream_of(900, 5, 900)
    sketch, oracle = in_parts(QDigest, stream, 0.3, 9, 2), Oracle(stream)
    moments = START + np.arange(-50, 1000, 70)
    for aggregate in ("sum", "count", "median"):
        question = Question(aggregate, "last:77")
        series = sketch.series(question, moments)
        for at, moment in enumerate(moments.tolist()):
            single, exact = sketch.answer(question.at(moment)), oracle.answer(question.at(moment))
            assert series.used[at] == single.used
            assert repr(float(series.value[at])) == repr(single.value)
            assert math.isnan(exact) or contains(series.lower[at], series.upper[at], exact)


@pytest.mark.parametrize("decay", ["none", "window:10m", "last:300", DECAY])
@pytest.mark.parametrize("where", [Predicate(), Predicate.of(None, value=Range(10, 60, open_low=True))])
def test_a_curve_over_thresholds_is_its_single_answers(decay: str, where: Predicate) -> None:
    """Of sums, counts and means, restricted or not: each point is the answer for its τ and holds the exact one."""
    stream = stream_of(1500, 7, 2000)
    oracle, taus = Oracle(stream), np.array([-5.0, 0.0, 0.5, 3.0, 10.0, 10.5, 40.0, 60.0, 61.0, 99.0, 1e30])
    digest = in_parts(QDigest, stream, 0.3, 9, 2)
    for counting in COUNTINGS:
        for aggregate in ("sum", "count", "mean"):
            question = Question(aggregate, decay, int(stream.t.max()), where=where, counting=counting)
            curve = digest.masses.threshold_curve(question, taus)
            for at, tau in enumerate(taus.tolist()):
                single = replace(question, tau=tau)
                exact, answer = oracle.answer(single), digest.answer(single)
                assert math.isnan(exact) or contains(curve.lower[at], curve.upper[at], exact)
                for column in ("value", "lower", "upper"):
                    np.testing.assert_allclose(getattr(curve, column)[at], getattr(answer, column), rtol=1e-9)
        medians = digest.masses.quantile_curve(Question("sum", decay, where=where, counting=counting), [0.1, 0.5])
        half = digest.answer(Question("median", decay, where=where, counting=counting))
        assert medians.value[1] == half.value


def test_a_curve_of_one_mass() -> None:
    """An exponential sketch that counts events has curves of counts, and none of sums."""
    stream = stream_of(1500, 8, 2000)
    sketch, oracle = Exponential.build(events_of(stream), decay=DECAY), Oracle(stream)
    curve = sketch.ranged.threshold_curve(Question("count", DECAY), [5.0, 50.0])
    for at, tau in enumerate((5.0, 50.0)):
        exact = oracle.answer(Question("count", DECAY, tau=tau))
        assert curve.lower[at] <= exact <= curve.upper[at]
    with pytest.raises(UnanswerableError, match="needs weight"):
        sketch.ranged.threshold_curve(Question("sum", DECAY), [5.0])


@pytest.mark.parametrize("counting", COUNTINGS)
def test_one_mass_is_said_in_the_parameters(counting: Counting) -> None:
    """It is written and read, the other mass is refused, and sketches of both do not merge."""
    sketch = Exponential.build(CALLS, decay=DECAY, counting=counting)
    assert sketch.parameters.counting == counting
    back = Exponential.from_bytes(sketch.to_bytes())
    assert back.parameters == sketch.parameters
    assert back.to_bytes() == sketch.to_bytes()
    other: Counting = "weight" if counting == "events" else "events"
    with pytest.raises(UnanswerableError, match="counts each event"):
        sketch.answer(Question("count", DECAY, counting=other))
    with pytest.raises(UnanswerableError, match="counts each event"):
        sketch.answer(Question("selectivity", DECAY, tau="median", counting=other))
    with pytest.raises(WaneError, match="different parameters"):
        sketch.merge(Exponential.build(CALLS, decay=DECAY, counting=other))
    assert sketch.insert(CALLS).answer(Question("count", DECAY, counting=counting)).value > 0


def test_a_threshold_counts_as_the_question_does() -> None:
    """The sum of the weights over the median of the events needs both masses; over the median of weight, one."""
    sketch = Exponential.build(CALLS, decay=DECAY, counting="weight")
    with pytest.raises(UnanswerableError, match="counts each event"):
        sketch.answer(Question("sum", DECAY, tau="median"))
    assert sketch.answer(Question("sum", DECAY, tau="median", counting="weight")).value == pytest.approx(96)


def test_before_there_was_a_choice_weight_was_kept() -> None:
    """Parameters of version 1 do not say it; those of version 2 are refused where they say nothing known."""
    old = ExponentialParameters.of(0.1, DECAY, SECOND, 7)
    assert OneMassParameters.from_bytes(old.to_bytes(), 7, 1).counting == "weight"
    new = OneMassParameters.of(0.1, DECAY, SECOND, 7)
    assert new.counting == "events"
    assert OneMassParameters.from_bytes(new.to_bytes(), 7) == new
    for damaged in (new.to_bytes()[:-1] + b"\x02", b""):
        with pytest.raises(CorruptError):
            OneMassParameters.from_bytes(damaged, 7)
    with pytest.raises(WaneError, match="counting is 'rows'"):
        Exponential.build(CALLS, decay=DECAY, counting="rows")  # type: ignore[arg-type]


def test_weights_alone_can_be_nothing() -> None:
    """Where no event weighs anything, a sketch of weights has no mass, but it has seen events."""
    events = Events.of(range(3), range(3), ["a", "b", "b"], [0, 0, 0])
    sketch = Exponential.build(events, decay=DECAY, counting="weight")
    sketch = Exponential.from_bytes(sketch.merge(sketch).to_bytes())
    assert sketch.answer(Question("sum", DECAY)).value == 0
    assert math.isnan(sketch.answer(Question("frequency", DECAY, value="a", counting="weight")).value)
    assert sketch.answer(Question("heavy-hitters", DECAY, counting="weight")).items == ()
    counted = Exponential.build(events, decay=DECAY)
    assert counted.answer(Question("heavy-hitters", DECAY)).items[0].value == "b"


def test_events_of_weight_0_long_after_all_others() -> None:
    """What weighs something has faded to nothing by the newest event: its bytes can be read, its bounds hold."""
    parts = [Events.of([1], [0], [5], [9]), Events.of([2], [10**6], [6], [0])]
    one, two = (Exponential.build(part, decay="exp:half_life=1s", counting="weight") for part in parts)
    answer = Exponential.from_bytes(one.merge(two).to_bytes()).answer(Question("sum", "exp:half_life=1s"))
    assert 0.0 == answer.lower <= answer.upper < 1e-200


@pytest.mark.parametrize(("counting", "word"), [("events", "count"), ("weight", "weight")])
def test_the_guarantee_says_what_is_counted(counting: Counting, word: str) -> None:
    """Of the decayed count or of the decayed weight; sums are of the weight whatever is counted."""
    stream = stream_of(5000, 9, 3000)
    now, stated = [int(stream.t.max())], 0
    digest = QDigest.build(events_of(stream), epsilon=0.9)
    one_mass = Exponential.build(events_of(stream), decay=DECAY, counting=counting, epsilon=0.5)
    for sketch in (digest, one_mass):
        for question in (Question("median", DECAY), Question("count", DECAY, tau=20), Question("rank", DECAY, value=9)):
            said = sketch.series(replace(question, counting=counting), now).guarantee
            assert f"of the whole decayed {word}" in said or said.startswith(NO_OTHER), said
            assert said.endswith("rows count as often as they came")
            stated += NO_OTHER not in said
    assert stated >= 5
    assert "decayed weight" in digest.series(Question("sum", DECAY, tau=20), now).guarantee
    histogram = Histogram.build(events_of(stream))
    assert f"decayed {word}" in histogram.series(Question("count", DECAY, counting=counting), now).guarantee


def test_weights_below_counts_are_written() -> None:
    """Weights that are 1 or more are written as they always were, others as they are; both come back."""
    for weights in ([1, 1], [2, 5], [0, 5], [0, 0]):
        sketch = Histogram.build(Events.of([1, 2], [1, 2], weights=weights))
        assert Histogram.from_bytes(sketch.to_bytes()).forest.weight.tolist() == weights


@pytest.mark.parametrize("where", [Predicate(), Predicate.of(None, value=Range(300, 4000))])
def test_a_share_counts_what_a_threshold_cuts_once(where: Predicate) -> None:
    """Ranges that a threshold cuts, with 9 of 10 events above it: they may be in the part, so not in the rest too."""
    values = (16 * np.arange(300)[:, None] + np.array([7, *[8] * 9])).reshape(-1)
    stream = Stream.of("cut", np.arange(len(values)), np.full(len(values), START), values)
    sketch, truth = QDigest.build(events_of(stream), epsilon=0.9), Truth.of(stream)
    assert sketch.kept < 300, "else no range is cut"
    for tau in range(8, 4800, 16):
        check(sketch, truth, Question("selectivity", tau=tau, where=where))
        check(sketch, truth, Question("rank", value=tau - 1, where=where))
