"""What the digests say of lists, of the past and of tiny masses, where they said what is not so: issue 14."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

import numpy as np
import pytest

from sketches import Events, Exponential, Question
from sketches.digests.digest import Digest
from sketches.digests.histogram import Histogram
from sketches.digests.qdigest import QDigest
from sketches.errors import WaneError
from sketches.guarantees import NO_OTHER, none_unlisted
from sketches.predicate import Predicate, Range
from sketches.vocabulary import COUNTINGS
from tests.sketches.digests.test_deterministic import Truth, check, check_unlisted, check_words, contains, events_of
from tests.support.oracle import Oracle
from tests.support.streams import STREAMS, Stream

DECAY: Final = "exp:half_life=1m"


def lull(seed: int) -> Stream:
    """A few old events of large values; a lull; then many of small values, so that a range holds both ends of it."""
    rng = np.random.default_rng([seed, 14])
    old, late = int(rng.integers(1, 20)), int(rng.integers(20, 200))
    t = np.concatenate((rng.integers(0, 40, old), 3600 + rng.integers(0, 400, late)))
    v = np.concatenate((rng.integers(100, 200, old), rng.integers(0, 102, late)))
    w = np.where(rng.random(old + late) < 0.1, 1 << rng.integers(0, 41, old + late), 1)
    return Stream.of("lull", np.arange(old + late), t, v, w)


# Lists.


@pytest.mark.parametrize("family", ["qdigest", "exponential", "keys"])
def test_what_top_cuts_off_is_unlisted(family: str) -> None:
    """Ten of fifteen values that have the same share: each of the other five has it too, and no more."""
    values = np.arange(1500) % 15
    names = np.array([f"k{value}" for value in values], object) if family == "keys" else values
    events = Events.of(np.arange(1500), np.zeros(1500, np.int64), names)
    sketch = QDigest.build(events) if family == "qdigest" else Exponential.build(events, decay=DECAY)
    for asked in (Question("heavy-hitters", DECAY), Question("heavy-hitters", DECAY, top=10, phi=0.01)):
        answer = sketch.answer(asked)
        assert len(answer.items) == 10
        assert answer.unlisted == pytest.approx(1 / 15)
        assert none_unlisted(1 / 15) in answer.guarantee
    rarer = sketch.answer(Question("heavy-hitters", DECAY, phi=0.07))
    assert (rarer.items, rarer.unlisted) == ((), pytest.approx(1 / 15))
    everything = sketch.answer(Question("heavy-hitters", DECAY, top=15))
    assert everything.unlisted is not None
    assert everything.unlisted < 1e-9


def test_a_value_that_cannot_be_named_is_unlisted() -> None:
    """As of the past: all that had come by then lies in ranges with others, so nobody knows which value it has."""
    missed = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        t = np.concatenate((rng.integers(0, 64, 100), rng.integers(64, 8192, 3000)))
        stream = Stream.of("shared", np.arange(3100), t, rng.integers(0, 1000, 3100))
        sketch, truth = QDigest.build(events_of(stream), epsilon=0.9, span=8192), Truth.of(stream)
        for as_of in (*np.sort(t)[:5].tolist(), 100):
            asked = Question("heavy-hitters", "none", as_of, phi=0.1)
            answer, shares = sketch.answer(asked), truth.shares(asked)
            check_unlisted(shares, answer)
            heavy = {value for value, share in shares.items() if share >= 0.5}
            missed += not heavy <= {item.value for item in answer.items}
    assert missed > 0, "else there is nothing to say"


@pytest.mark.parametrize("kind", ["numbers", "keys"])
def test_unlisted_after_many_merges(kind: str) -> None:
    """Also of Space-Saving, and side by side: what the counters dropped may be any key's; and it is not said of all."""
    rng = np.random.default_rng(5)
    for seed in range(25):
        numbers = np.minimum(rng.zipf(1.3, 500), 400)
        values = np.array([f"k{number}" for number in numbers], object) if kind == "keys" else numbers
        stream = Stream.of("skewed", np.arange(500), rng.integers(0, 400, 500), values)
        parts = [Exponential.build(events_of(each), epsilon=0.1, decay=DECAY) for each in stream.split(30, seed)]
        asked = Question("heavy-hitters", DECAY, 400 + seed, top=int(rng.integers(1, 6)))
        shares = Oracle(stream).shares(asked)
        for sketch in (Exponential.union(parts), Exponential.askable(parts)):
            answer = sketch.answer(asked)
            check_unlisted(shares, answer)
            left_out = max(share for value, share in shares.items() if value not in {i.value for i in answer.items})
            assert answer.unlisted is not None
            assert answer.unlisted <= left_out + 0.1 + 1e-9


@pytest.mark.parametrize("value", [1000, 1001])
def test_a_list_is_exact_where_all_of_it_is(value: int) -> None:
    """The share of the first value is known to the point, that of the second is not: a range holds it and another."""
    first, second = ([7] * 90 + [value] * 9, [7] * 90 + [1000, 1001])
    parts = [QDigest.build(Events.of(range(len(v)), [0] * len(v), v), epsilon=0.9) for v in (first, second)]
    sketch = QDigest.askable(parts)
    one, two = (sketch.answer(Question("heavy-hitters", top=top)) for top in (1, 2))
    assert one.exact
    assert one.guarantee.startswith(NO_OTHER)
    assert [(item.lower, item.upper) for item in two.items] == [(180 / 191, 180 / 191), (9 / 191, 11 / 191)]
    assert not two.exact
    assert NO_OTHER not in two.guarantee
    assert (one.unlisted, two.unlisted) == (11 / 191, 2 / 191)


# The past, and series.


@pytest.mark.parametrize("family", [Histogram, QDigest])
def test_a_series_says_what_holds_at_every_point(family: type[Digest]) -> None:
    """Windows much shorter than an epoch, as of the past: the interval is many times the count wide, and says so."""
    rng = np.random.default_rng(3)
    stream = Stream.of("day", np.arange(4000), np.sort(rng.integers(0, 86_400, 4000)), rng.integers(0, 500, 4000))
    sketch, truth = family.build(events_of(stream), epsilon=0.3), Truth.of(stream)
    moments = np.arange(40_000, 90_000, 6000)
    asked = [Question("count", "window:5m"), Question("mean", "window:5h"), Question("sum", "exp:half_life=5h")]
    if family is QDigest:
        asked += [Question("median", "window:2h"), Question("correlated-count", "window:5h", tau="median")]
        asked += [Question("rank", "window:5h", value=100), Question("range-sum", "exp:half_life=5h", low=9, high=99)]
    said = []
    for question in asked:
        series = sketch.series(question, moments)
        for at, moment in enumerate(moments.tolist()):
            limits = (float(series.value[at]), float(series.lower[at]), float(series.upper[at]))
            exact = truth.answer(question.at(moment))
            if not math.isnan(exact):
                assert contains(limits[1], limits[2], exact)
                check_words(series.guarantee, truth, question.at(moment), limits)
        now = sketch.series(question, [int(stream.t.max())]).guarantee
        said.append((series.guarantee, now))
    assert sum(past != now for past, now in said) >= len(said) // 2, "else the past is no wider"
    assert sum(any(words in past for words in ("wide", "rank within")) for past, _ in said) >= 1


def test_what_is_known_before_is_said_as_of_now() -> None:
    """By family and aggregate: the constants that `dyadic_tree` proves, and none where there is none."""
    stream = STREAMS["uniform"](2500, 1).distinct()
    histogram, digest = (family.build(events_of(stream), epsilon=0.2) for family in (Histogram, QDigest))
    one = Exponential.build(events_of(stream), epsilon=0.2, decay=DECAY)
    some = Predicate.of(None, value=Range(low=5))
    expected: list[tuple[Digest | Exponential, Question, float | None]] = [
        (histogram, Question("count", DECAY), 0.2),
        (histogram, Question("mean", DECAY), 0.44),
        (histogram, Question("count", "last:7"), None),
        (digest, Question("sum", DECAY), 0.1),
        (digest, Question("mean", DECAY), 0.21),
        (digest, Question("rank", DECAY, value=3), 0.2),
        (digest, Question("range-sum", DECAY, low=1, high=2), 0.3),
        (digest, Question("count", DECAY, where=some), 0.3),
        (digest, Question("rank", DECAY, value=9, where=some), None),
        (digest, Question("count", DECAY, tau="median"), None),
        (digest, Question("correlated-mean", DECAY, tau=3), None),
        (digest, Question("median", DECAY), 0.2),
        (one, Question("count", DECAY), None),
        (one, Question("count", DECAY, tau=5), 0.2),
        (one, Question("count", DECAY, where=some), 0.4),
        (one, Question("range-frequency", DECAY, low=1, high=2), 0.4),
        (one, Question("median", DECAY, where=some), None),
    ]
    for sketch, question, width in expected:
        found = sketch._width(question)
        assert found == (None if width is None else pytest.approx(width)), question
    rng = np.random.default_rng(1)
    events = Events.of(np.arange(9000), rng.integers(0, 600, 9000), rng.integers(0, 10**6, 9000))
    for sketch in (QDigest.build(events, epsilon=0.9), Exponential.build(events, epsilon=0.9, decay=DECAY)):
        assert "at most 0.9 of the whole" in sketch.answer(Question("count", DECAY, tau=4321)).guarantee
        assert "rank within 0.9 of the one" in sketch.answer(Question("median", DECAY)).guarantee


# Numbers.


def test_what_is_small_beside_what_may_come_later_is_not_lost() -> None:
    """Inside a lull old events have faded to 2^-60, and a range may hold one that just came: none of it is lost.

    A difference of sums did lose them: the answer was [16, 101] where 111 is right.
    """
    for seed in range(10):
        stream = lull(seed)
        sketch, oracle = QDigest.build(events_of(stream), epsilon=0.9, span=8192), Oracle(stream)
        for as_of in (3500, 3599, 3620):
            for phi in (0.1, 0.5, 0.99):
                question = Question("quantile", DECAY, as_of, phi=phi)
                answer = sketch.answer(question)
                assert answer.lower <= oracle.answer(question) <= answer.upper, (seed, as_of, phi)


def test_what_is_newer_than_the_moment_bounds_no_quantile() -> None:
    """Nothing is sure of a range that the moment cuts; later ranges are surely newer, so their values are none."""
    rng = np.random.default_rng(2)
    t = np.concatenate((rng.integers(0, 64, 100), rng.integers(4096, 8192, 3000)))
    values = np.concatenate((rng.integers(0, 100, 100), np.full(3000, 10**6)))
    sketch = QDigest.build(Events.of(np.arange(3100), t, values), epsilon=0.9, span=8192)
    for as_of in (int(t.min()), 20):
        answer = sketch.answer(Question("median", as_of=as_of))
        assert answer.lower <= np.quantile(values[t <= as_of], 0.5, method="inverted_cdf") <= answer.upper < 10**6


def test_all_that_is_asked_inside_a_lull() -> None:
    """Ranks, lists, thresholds that are quantiles, by events and by weight, with their sentences."""
    for seed in range(20):
        rng, stream = np.random.default_rng(seed), lull(seed)
        sketch, truth = QDigest.build(events_of(stream), epsilon=0.9, span=8192), Truth.of(stream)
        for as_of in (3500, 3599, 3620, 3800):
            for counting in COUNTINGS:
                question = Question("quantile", DECAY, as_of, phi=float(rng.uniform(0.02, 0.98)), counting=counting)
                check(sketch, truth, question)
                check(sketch, truth, replace(question, aggregate="rank", phi=None, value=int(rng.choice(stream.v))))
                check(sketch, truth, replace(question, aggregate="heavy-hitters", phi=0.1))
                check(sketch, truth, replace(question, aggregate="selectivity", phi=None, tau="2*median"))


@pytest.mark.parametrize("family", [Histogram, QDigest])
@pytest.mark.parametrize("decay", ["poly:alpha=30,unit=1s", "exp:half_life=1s", "superexp:beta=3,scale=9m"])
def test_what_is_too_small_to_be_a_number(family: type[Digest], decay: str) -> None:
    """Long after the newest event: what is left is above 0, and a share of it is a share of something."""
    events = Events.of([1, 2, 3], [0, 40, 60], [5, 6, 7], [1, 1, 1])
    sketch = family.build(events, span=64)
    for later in (0, 900, 1030, 1060, 1075, 1100, 10**5, 10**12):
        count = sketch.answer(Question("count", decay, 60 + later))
        assert 0.0 <= count.lower <= count.value <= count.upper
        assert count.upper > 0.0, "an event never weighs nothing"
        assert count.lower == 0.0 or count.upper > 1e-305, "numbers so small have few digits"
        mean = sketch.answer(Question("mean", decay, 60 + later))
        assert mean.lower <= 1.0 <= mean.upper
        if family is QDigest:
            above = sketch.answer(Question("count", decay, 60 + later, tau="median"))
            assert 0.0 <= above.lower <= above.upper
            assert above.upper > 0.0, "the median itself is above it"
            share = sketch.answer(Question("frequency", decay, 60 + later, value=6))
            exact = (np.exp2(-20.0) / (1 + np.exp2(-20.0) + np.exp2(-60.0))) if decay.startswith("exp") else None
            assert exact is None or contains(share.lower - 1e-15, share.upper + 1e-15, exact), (later, share)
            listed = sketch.answer(Question("heavy-hitters", decay, 60 + later, phi=0.5))
            assert {item.value for item in listed.items} == {7} or (listed.unlisted or 0.0) > 0.9 or exact is None
    assert sketch.answer(Question("count", "window:1h", 10**6)).upper == 0.0
    assert sketch.answer(Question("count", "exp:half_life=1s,window=2h", 10**5)).upper == 0.0


@pytest.mark.parametrize("values", [[5, 7], ["a", "b"]])
def test_scaled_to_nothing_or_beyond_all_numbers(values: list[int] | list[str]) -> None:
    """Bytes of any scaling can be read; scaled to nothing, nothing is known; beyond all numbers it is refused."""
    sketch = Exponential.build(Events.of([1, 2], [0, 10], values), decay=DECAY)
    for factor in (0.0, 1e-320, 1e-290):
        one = sketch.scaled(factor)
        for each in (one, one.merge(sketch), one.scaled(factor)):
            assert Exponential.from_bytes(each.to_bytes()).to_bytes() == each.to_bytes()
        assert one.answer(Question("count", DECAY)).value == 0.0
        share = one.answer(Question("frequency", DECAY, value=values[0]))
        assert (math.isnan(share.value), share.lower, share.upper) == (True, 0.0, 1.0)
    large = sketch.scaled(1e100).scaled(1e100)
    assert Exponential.from_bytes(large.to_bytes()).masses.total == large.masses.total
    with pytest.raises(WaneError, match="would weigh 1e"):
        large.scaled(1e100)
    nearly = large.scaled(4e89)
    with pytest.raises(WaneError, match="would weigh 1e"):
        nearly.merge(nearly).merge(nearly)


@pytest.mark.parametrize("family", [Histogram, QDigest])
def test_more_than_can_be_counted_is_refused(family: type[Digest]) -> None:
    """Weights are added up to 2^62, not beyond: there sums were negative, and the bytes could not be read."""
    sketch = family.build(Events.of([1, 2], [0, 50], [1, 2], [1 << 40, 1 << 40]))
    for doubled in range(1, 22):
        sketch = sketch.merge(sketch)
        answer = family.from_bytes(sketch.to_bytes()).answer(Question("sum"))
        assert answer.lower <= 2.0 ** (41 + doubled) <= answer.upper
    with pytest.raises(WaneError, match="more than 2"):
        sketch.merge(sketch)


def test_quantiles_of_whole_numbers_beyond_floats() -> None:
    """A float next to 2^60 stands for many whole numbers: the bounds hold the exact one, and say they are no point."""
    exact = (1 << 60) + 77
    answer = QDigest.build(Events.of([1, 2, 3], [0, 0, 0], [0, exact, 1 << 61])).answer(Question("median"))
    assert int(answer.lower) < exact < int(answer.upper)
    assert not answer.exact


def test_parts_that_have_faded_beside_others_count() -> None:
    """Side by side, and long after the older part: its value still has a share, and may be unlisted."""
    parts = [Exponential.build(Events.of([1], [t], [v]), decay="exp:half_life=1s") for t, v in ((0, 5), (10**6, 6))]
    sketch = Exponential.askable(parts)
    assert 0.0 < sketch.answer(Question("frequency", "exp:half_life=1s", value=5)).upper < 1e-200
    unlisted = sketch.answer(Question("heavy-hitters", "exp:half_life=1s", top=1)).unlisted
    assert unlisted is not None
    assert 0.0 < unlisted < 1e-200


@pytest.mark.parametrize("family", [QDigest, Exponential])
@pytest.mark.parametrize("half_lives", [900, 1016, 1100, 10_000])
def test_a_quantile_of_what_has_nearly_vanished(family: type[Digest], half_lives: int) -> None:
    """However long ago, events that count a little have a quantile, and what is said of its rank is no promise."""
    settings = {"decay": "exp:half_life=1m"} if family is Exponential else {}
    sketch = family.build(Events.of(range(3), [0, 60, 120], [10, 20, 30]), epsilon=0.1, **settings)
    median = sketch.answer(Question("median", "exp:half_life=1m", as_of=120 + 60 * half_lives))
    assert 10 <= median.lower <= median.value <= 30
    assert median.lower <= 30 <= median.upper  # 4 of 7
    assert median.lower == median.upper or "rank within 0.1 " not in median.guarantee


def test_a_quantile_by_weight_where_only_weights_of_0_are_new() -> None:
    """What weighs something is hundreds of half-lives old, and still all that is counted."""
    events = Events.of(range(3), [0, 0, 65_000], [10, 20, 30], [1, 4, 0])
    for family, settings in ((QDigest, {}), (Exponential, {"decay": "exp:half_life=1m", "counting": "weight"})):
        sketch = family.build(events, epsilon=0.1, **settings)  # type: ignore[attr-defined]
        median = sketch.answer(Question("median", "exp:half_life=1m", counting="weight"))
        assert median.lower <= 20 <= median.upper


def test_behind_a_window_there_is_no_quantile() -> None:
    """Where nothing counts any more, the answer is that of an empty sketch."""
    sketch = QDigest.build(Events.of(range(3), [0, 60, 120], [10, 20, 30]))
    assert math.isnan(sketch.answer(Question("median", "window:1h", as_of=10_000)).value)


def test_the_mean_above_a_quantile_of_whole_numbers_beyond_floats() -> None:
    """The quantile as a float may be above the number itself, whose event is meant too."""
    sketch = QDigest.build(Events.of(range(2), [0, 1], [5, 2**60 + 200], [0, 0]))
    answer = sketch.answer(Question("correlated-mean", "none", tau="q0.9"))
    assert (answer.lower, answer.value, answer.upper) == (0.0, 0.0, 0.0)
