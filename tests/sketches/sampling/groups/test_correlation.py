"""The change of each group between two decays or two times: how often its limits miss the exact change, and how wide
they are beside what chance really does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from sketches import Events, Question, Sample
from sketches.decay import parse_decay
from sketches.differences import Limited, differences
from sketches.splittable import Splittable
from tests.sketches.sampling.groups.test_share_changes import DAY, NAMES, Columns, sampled, stream

NEWEST = 4 * DAY
ALONE = 0.9  # of each interval by itself: the groups ask for as much less together
TOGETHER = 1.0 - (1.0 - ALONE) * len(NAMES)
HALF_LIVES = ("exp:half_life=6h", "exp:half_life=12h", 0)
NESTED = ("window:1d", "window:3d", 0)
SHIFTED = ("exp:half_life=1d", "exp:half_life=1d", DAY)
PAIRS = (HALF_LIVES, NESTED, SHIFTED)
GROUPS = 2  # the largest
TRIALS = 30
NORMAL = 1.645

Floats = NDArray[np.float64]


def mean(values: Floats, f: Floats) -> float:
    return float((values * f).sum() / f.sum())


def median(values: Floats, f: Floats) -> float:
    order = np.argsort(values)
    cumulated = np.cumsum(f[order])
    return float(values[order][np.searchsorted(cumulated, 0.5 * cumulated[-1])])


def share_of_tall(values: Floats, f: Floats) -> float:
    return float(f[values >= 200.0].sum() / f.sum())


EXACT: dict[str, Callable[[Floats, Floats], float]] = {"mean": mean, "median": median, "selectivity": share_of_tall}


def exact(columns: Columns, question: Question, group: int) -> float:
    inside = (columns["site"] == group) & (columns["times"] <= question.as_of)
    f = question.decay((question.as_of - columns["times"][inside]).astype(np.float64))
    if question.aggregate in ("sum", "count"):
        return float((f * (columns["weight"][inside] if question.aggregate == "sum" else 1.0)).sum())
    return EXACT[question.aggregate](columns["value"][inside], f)


def asked(aggregate: str, pair: tuple[str, str, int]) -> list[Question]:
    more = {"mean": {"of": "value"}, "selectivity": {"tau": 200.0}}.get(aggregate, {})
    one, other, shift = pair
    question = Question(aggregate, confidence=TOGETHER, counting="events", **more)
    return [
        replace(question, decay=parse_decay(decay), as_of=NEWEST - before)
        for decay, before in ((one, 0), (other, shift))
    ]


class Seen:
    """The misses of a question in all trials; how far off changes and answers were, and half the widths of limits."""

    def __init__(self) -> None:
        self.missed = 0
        self.errors: list[tuple[Floats, Floats]] = []
        self.halves: list[tuple[Floats, Floats]] = []

    def ask(self, groups: Splittable, columns: Columns, now: Question, before: Question) -> None:
        one, other = groups.answer(now), groups.answer(before)
        limited = (Limited(each.value, each.lower, each.upper) for each in (one, other))
        found = differences(*limited, groups.correlation(now, before)).change
        of_now, of_before = (np.array([exact(columns, each, at) for at in range(GROUPS)]) for each in (now, before))
        truth = of_now - of_before
        slack = 1e-9 * np.abs(one.value[:GROUPS])
        value, lower, upper = (column[:GROUPS] for column in (found.value, found.lower, found.upper))
        self.missed += int(((truth < lower - slack) | (truth > upper + slack)).sum())
        self.errors.append((value - truth, one.value[:GROUPS] - of_now))
        self.halves.append(((upper - lower) / 2.0, (one.upper - one.lower)[:GROUPS] / 2.0))

    @property
    def wide(self) -> Floats:
        """The limits of the changes in times of what normal theory would have, or of what those of the answers are in
        times of it: they allow for events that nobody has seen the like of."""
        halves, spread = np.median(self.halves, axis=0), NORMAL * np.sqrt(np.mean(np.square(self.errors), axis=0))
        changes, answers = np.divide(halves, spread, out=np.ones_like(halves), where=spread > 0.0)
        return np.asarray(changes / np.maximum(answers, 1.0))


def test_limits_hold_as_often_as_they_say_and_are_not_twice_too_wide() -> None:
    """Of the largest groups, of which enough events are sampled to tell how far off chance brings them. Sums lean on
    exact totals: chance leaves them nearly right, and their limits allow for events that came twice."""
    seen = {(aggregate, pair): Seen() for aggregate in (*EXACT, "sum") for pair in PAIRS}
    for seed in range(TRIALS):
        columns = stream(seed, 6_000, weights=True)
        groups = sampled(columns, seed, detail=1).by_source(NAMES)
        for (aggregate, pair), one in seen.items():
            one.ask(groups, columns, *asked(aggregate, pair))
    allowed = binom.ppf(1 - 1e-4, GROUPS * TRIALS, 1.0 - ALONE)
    assert {which: one.missed for which, one in seen.items() if one.missed > allowed} == {}
    assert {which: one.wide for which, one in seen.items() if which[0] != "sum" and (one.wide > 2.0).any()} == {}


def test_single_answers_differ_by_what_their_limits_say() -> None:
    """Also where they lean on exact totals, which leave chance another part than the plain sums would."""
    missed, halves, errors, single, off = 0, [], [], [], []
    for seed in range(TRIALS):
        columns = dict(stream(seed, 6_000)) | {"site": np.zeros(6_000, np.int64)}
        sample = sampled(columns, seed)
        whole = sample.of(None)
        for aggregate in ("mean", "sum"):
            now, before = (replace(one, confidence=ALONE) for one in asked(aggregate, HALF_LIVES))
            one, other = whole.answer(now), whole.answer(before)
            limited = [Limited.of(each.value, each.lower, each.upper) for each in (one, other)]
            shared = Sample.correlation(whole, now, whole, before)
            found = differences(*limited, shared).change
            truth = exact(columns, now, 0) - exact(columns, before, 0)
            slack = 1e-9 * abs(one.value)
            missed += not found.lower[0] - slack <= truth <= found.upper[0] + slack
            if aggregate == "mean":
                halves.append((found.upper[0] - found.lower[0]) / 2.0)
                errors.append(found.value[0] - truth)
                single.append((one.upper - one.lower) / 2.0)
                off.append(one.value - exact(columns, now, 0))
    assert missed <= binom.ppf(1 - 1e-4, 2 * TRIALS, 1.0 - ALONE)
    spread = NORMAL * np.sqrt(np.mean(np.square([errors, off]), axis=1))
    change, alone = np.median([halves, single], axis=1) / spread
    assert change <= 2.0 * alone  # which allow for events that came twice
    assert Sample.correlation(whole, now, sample.of(None), before) == -1.0  # of other rows nothing is known


def test_the_same_question_twice_has_not_changed() -> None:
    """And where no event counts in both answers, they share hardly any of their chance."""
    split = sampled(stream(3, 6_000, weights=True), 3).by_source(NAMES)
    question = Question("mean", "exp:half_life=12h", of="value")
    shared = split.correlation(question, question)
    np.testing.assert_allclose(shared, 1.0)
    apart = split.correlation(Question("mean", "window:6h", of="value"), question.at(DAY))
    assert (apart[:2] < 0.1).all()


def test_a_threshold_that_is_an_aggregate_has_no_known_correlation() -> None:
    split = sampled(stream(3, 2_000), 3).by_source(NAMES)
    question = Question("correlated-sum", "exp:half_life=12h", tau="median")
    np.testing.assert_array_equal(split.correlation(question, question), -1.0)


def test_groups_of_a_field_and_ratios_have_one_too() -> None:
    sample = sampled(stream(3, 6_000, weights=True), 3)
    groups = sample.by_field(sample.of(None), "place")
    for question in (
        Question("ratio", "exp:half_life=12h", of="value", per="code"),
        Question("range-sum", "exp:half_life=12h", low=0.0, high=300.0),
        Question("correlated-mean", "exp:half_life=12h", tau=100.0, of="value"),
        Question("quantile", "exp:half_life=12h", phi=0.9),
    ):
        shared = groups.correlation(question, replace(question, decay=parse_decay("exp:half_life=1d")))
        assert 0.6 < shared[0] < 1.0


def test_a_sample_without_totals_is_compared_as_well() -> None:
    columns = stream(5, 4_000)
    events = Events.of(columns["ids"], columns["times"], columns["value"], columns["weight"])
    sample = Sample.build(events, epsilon=0.1, delta=0.1, detail=1, seed=5)
    assert sample.by_source(sample.names).correlation(Question("count"), Question("count")).shape == (1,)
