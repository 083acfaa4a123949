"""Numbers that dwarf all others take no digits from answers that are not about them, and limits hold what floats lose.

Exact answers are `math.fsum` over all rows. Limits are asked for with so much confidence that none may miss.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any, Final

import numpy as np
import pytest

from sketches import Events, Question, Sample
from sketches.arrays import Floats, Ints
from sketches.estimate import Series
from sketches.family import Repeats
from sketches.sampling.difference_estimator.range_sums import RangeSums

DAY: Final = 86_400
SOURCES: Final = ("north", "south")
EARLY: Final = slice(40, 45)  # rows of the first hour
TIMES: Final = {
    "few": np.array([10 * DAY - 1, 5 * DAY + 77, 3 * DAY]),
    "many": np.linspace(2 * DAY, 10 * DAY - 1, 30).astype(np.int64),
}
DECAYS: Final = ("window:1d", "window:40m", "window:5m", "none", "exp:half_life=6h", "poly:alpha=1.5,unit=6h")
OF_VALUES: Final[list[dict[str, Any]]] = [
    {"aggregate": "sum", "of": "value"},
    {"aggregate": "mean", "of": "value"},
    {"aggregate": "correlated-sum", "of": "value", "tau": 30},
    {"aggregate": "correlated-sum", "of": "value", "tau": "median"},
]
OF_WEIGHTS: Final[list[dict[str, Any]]] = [
    {"aggregate": "sum"},
    {"aggregate": "mean"},
    {"aggregate": "count"},
    {"aggregate": "count", "counting": "weight"},
    {"aggregate": "correlated-count", "tau": 30},
]
KINDS: Final = (
    "plain",
    "1e10",
    "1e20",
    "-1e20",
    "both 1e20",
    "both signs",
    "whole, both signs",
    "heavy",
    "weighted",
    "fractions",
)
WEIGHTS: Final = ("plain", "heavy", "weighted")  # of which sums of weights are asked for
SURE: Final = 1.0 - 1e-9
LAST_DIGITS: Final = 1e-12  # of an answer: those of one that is exact may differ from those of `math.fsum`


class Stream:
    """Rows, and the sample that was made of them in three parts."""

    def __init__(self, kind: str, seed: int) -> None:
        rng = np.random.default_rng(seed)
        events = 9_000
        self.times = np.sort(rng.integers(0, 10 * DAY, events))
        self.ids = rng.integers(0, 1 << 60, events)
        self.sources = rng.integers(0, 2, events).astype(np.int32)
        self.weights = np.ones(events, np.int64)
        values: Any = rng.integers(1, 100, events)
        match kind:
            case "floats":
                values = values.astype(np.float64)
            case "1e10" | "1e20" | "-1e20":
                values = values.astype(np.float64)
                values[EARLY] = float(kind)
            case "both 1e20":
                values = values.astype(np.float64)
                values[EARLY] = (1e20, -1e20, 1e20, -1e20, 50.0)
            case "both signs":
                values = rng.normal(0.0, 50.0, events)
            case "whole, both signs":
                values = rng.integers(-50, 51, events)
            case "heavy":
                self.weights[EARLY] = 1 << 27
            case "weighted":
                self.weights = np.ceil(rng.lognormal(2.0, 1.5, events)).astype(np.int64)
            case "fractions":
                values = rng.random(events) * 100.0
        self.values = values
        batch = rng.integers(0, 3, events)
        parts = [self._part(np.flatnonzero(batch == number), seed) for number in range(3)]
        self.sample = Sample.union(parts)

    def _part(self, rows: Ints, seed: int) -> Sample:
        columns = (self.ids[rows], self.times[rows], self.values[rows], self.weights[rows])
        fields = {"half": np.array(["first", "second"], object)[self.ids[rows] % 2]}
        sources = self.sources[rows]
        events = Events.of(*columns, fields=fields)
        return Sample.partial(events, sources, SOURCES, epsilon=0.15, detail=1, seed=seed)

    def exact(self, question: Question, as_of: int, rows: Any = slice(None)) -> float:
        """The exact answer over some of the rows."""
        ages = as_of - self.times[rows]
        f = np.where(ages >= 0, question.decay(np.maximum(ages, 0).astype(np.float64)), 0.0)
        values, weights = self.values[rows].astype(np.float64), self.weights[rows].astype(np.float64)
        if question.tau == "median":
            order = np.argsort(values, kind="stable")
            reached = np.cumsum(f[order])
            f = f * (values >= values[order][np.searchsorted(reached, 0.5 * reached[-1])])
        elif question.tau is not None:
            f = f * (values >= question.tau)
        if question.aggregate.endswith("count"):
            return added(f * weights if question.counting == "weight" else f)
        total = added(f * (values if question.of_value else weights))
        if question.aggregate.endswith("sum"):
            return total
        return total / added(f) if f.any() else math.nan


def added(column: Floats) -> float:
    return math.fsum(column.tolist())


@cache
def stream_of(kind: str, seed: int) -> Stream:
    return Stream(kind, seed)


def look(found: Series, at: int, truth: float) -> str:
    """What is wrong with an answer; nothing as a rule."""
    if math.isnan(truth):
        return ""
    value, lower, upper = (float(column[at]) for column in (found.value, found.lower, found.upper))
    slack = LAST_DIGITS * abs(truth) if lower == upper else 0.0
    return "" if lower - slack <= truth <= upper + slack else f"{value!r} [{lower!r}, {upper!r}] for {truth!r}"


@pytest.mark.parametrize("repeats", [Repeats.FORGIVEN, Repeats.NONE])
@pytest.mark.parametrize("kind", KINDS)
def test_all_limits_hold_the_exact_answer(kind: str, repeats: Repeats) -> None:
    """Under windows, other decays and thresholds, of all sources and of one, alone and in series."""
    stream, wrong, points = stream_of(kind, 1), [], 0
    for sources in (SOURCES, SOURCES[1:]):
        askable = stream.sample.of(sources, repeats)
        rows = np.flatnonzero(np.isin(stream.sources, [SOURCES.index(name) for name in sources]))
        for asked in OF_WEIGHTS if kind in WEIGHTS else OF_VALUES:
            for decay in DECAYS:
                question = Question(decay=decay, confidence=SURE, **asked)
                for times in TIMES.values():
                    found = askable.series(question, times)
                    for at in range(0, len(times), 1 + len(times) // 6):
                        told = look(found, at, stream.exact(question, int(times[at]), rows))
                        wrong += [f"{asked} {decay} {sources}: {told}"] if told else []
                        points += found.lower[at] == found.upper[at]
    assert not wrong
    assert points > 0


@pytest.mark.parametrize("by", ["source", "half"])
@pytest.mark.parametrize("kind", KINDS)
def test_all_limits_of_splits_hold_the_exact_answer(kind: str, by: str) -> None:
    """Of each source, or of each value of a field."""
    stream, wrong = stream_of(kind, 1), []
    sample, of_rows = stream.sample, stream.sources if by == "source" else stream.ids % 2
    groups = sample.by_source(SOURCES) if by == "source" else sample.by_field(sample.of(None), by)
    numbers = {"north": 0, "south": 1, "first": 0, "second": 1}
    for asked in OF_WEIGHTS if kind in WEIGHTS else OF_VALUES[:3]:
        for decay in DECAYS:
            question = Question(decay=decay, confidence=SURE, **asked)
            found = groups.over_time(question, TIMES["few"], np.arange(len(SOURCES)))
            for group, name in enumerate(found.names):
                rows = np.flatnonzero(of_rows == numbers[name])
                of_group = Series(
                    *(TIMES["few"], found.value[group], found.lower[group], found.upper[group]),
                    confidence=SURE,
                    guarantee="",
                    family="",
                    used=TIMES["few"],
                )
                for at, as_of in enumerate(TIMES["few"].tolist()):
                    told = look(of_group, at, stream.exact(question, as_of, rows))
                    wrong += [f"{asked} {decay} {name}: {told}"] if told else []
    assert not wrong


@pytest.mark.parametrize("kind", ["1e10", "1e20", "-1e20", "both 1e20"])
def test_windows_are_as_narrow_after_what_is_far_greater(kind: str) -> None:
    """As those of the same events without it, which was sampled alike."""
    plain, stream = (stream_of(one, 1).sample.of(SOURCES) for one in ("floats", kind))
    for decay in ("window:1d", "window:3d"):
        question = Question("sum", decay, of="value", confidence=0.95)
        beside, alone = (one.series(question, np.arange(4, 11) * DAY - 1) for one in (stream, plain))
        assert (beside.upper - beside.lower <= 2.0 * (alone.upper - alone.lower) + 1e-6).all()


@pytest.mark.parametrize("kind", ["plain", "whole, both signs", "heavy", "weighted"])
def test_whole_sums_that_are_known_are_whole(kind: str) -> None:
    """Where rows and totals tell all that counts, sums of whole numbers under windows have no width and are right."""
    stream, points = stream_of(kind, 1), 0
    askable = stream.sample.of(SOURCES, Repeats.NONE)
    days = np.arange(2, 11) * DAY - 1  # whole hours: no slice is cut
    for asked in (*OF_WEIGHTS[:1], *OF_WEIGHTS[2:4], *OF_VALUES[: kind in ("plain", "whole, both signs")]):
        for decay in ("window:1d", "none", "window:3h"):
            question = Question(decay=decay, confidence=SURE, **asked)
            found = askable.series(question, days)
            for at, as_of in enumerate(days.tolist()):
                if found.lower[at] == found.upper[at]:
                    points += 1
                    assert found.value[at] == found.lower[at] == stream.exact(question, as_of)
    assert points > 40


@pytest.mark.parametrize("decay", ["window:1d", "exp:half_life=6h"])
def test_hours_are_not_taken_from_what_dwarfs_them(decay: str) -> None:
    """A source is forgotten that had sent 1e20 in hours in which others sent little."""
    rng = np.random.default_rng(5)
    events = 9_000
    ids, times = rng.integers(0, 1 << 60, events), np.sort(rng.integers(0, 10 * DAY, events))
    values, sources = rng.random(events) * 100.0, rng.integers(0, 2, events).astype(np.int32)
    tall = (sources == 0) & (times >= 6 * DAY) & (times < 7 * DAY)
    values[tall] = 1e20
    rows = Events.of(ids, times, values)
    sample = Sample.partial(rows, sources, SOURCES, epsilon=0.15, detail=1, seed=5)
    left = sample.without(6 * DAY, 8 * DAY, [SOURCES[0]])
    there = (sources == 1) | (times < 6 * DAY) | (times >= 8 * DAY)
    moments = np.array([7 * DAY - 1, 7 * DAY - 900, 8 * DAY - 1])
    for repeats in (Repeats.FORGIVEN, Repeats.NONE):
        question = Question("sum", decay, of="value", confidence=SURE)
        found = left.of(SOURCES, repeats).series(question, moments)
        for at, as_of in enumerate(moments.tolist()):
            ages = as_of - times[there]
            f = np.where(ages >= 0, question.decay(np.maximum(ages, 0).astype(np.float64)), 0.0)
            assert not look(found, at, added(f * values[there]))


def test_ranges_are_added_up_without_what_lies_outside() -> None:
    rng = np.random.default_rng(3)
    for rows in (0, 1, 15, 16, 17, 256, 257, 5_000):
        columns = rng.normal(size=(2, rows))
        columns[:, ::7] *= 1e20
        first = rng.integers(0, rows + 1, (3, 40))
        last = rng.integers(0, rows + 1, (3, 40))
        found = RangeSums(columns).between(first, last)
        for place in np.ndindex(found.shape):
            inside = columns[place[0], first[place[1:]] : last[place[1:]]]
            assert abs(found[place] - added(inside)) <= 1e-14 * added(np.abs(inside))
