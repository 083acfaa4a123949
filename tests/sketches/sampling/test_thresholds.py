"""Thresholds that are aggregates, over time: in one pass, with the bounds of single answers."""

from __future__ import annotations

import numpy as np
import pytest

from sketches import Events, Question, Sample
from sketches.question import COUNTINGS
from sketches.sampling.askable_sample import AskableSample
from sketches.sampling.value_grid import WORTHWHILE
from tests.support.oracle import Oracle
from tests.support.streams import Stream

DAY = 20_000
AGGREGATES = ("correlated-sum", "correlated-count", "correlated-mean", "selectivity")


def epochs(rows: int, days: int, seed: int) -> tuple[list[Sample], Stream]:
    """Daily samples of a stream with weights of 0 and values of both signs."""
    rng = np.random.default_rng(seed)
    times = np.sort(rng.integers(0, days * DAY, rows))
    weights = np.where(rng.random(rows) < 0.3, 0, rng.geometric(0.1, rows))
    stream = Stream.of("days", np.arange(rows), times, np.round(rng.normal(20, 30, rows), 3), weights)
    parts = [stream.take(np.flatnonzero(times // DAY == day)) for day in range(days)]
    build = [Sample.build(Events.of(one.ids, one.t, one.v, one.w), epsilon=0.1, seed=seed) for one in parts]
    return build, stream


@pytest.fixture(scope="module")
def large() -> tuple[AskableSample, Oracle]:
    """Enough rows that the grid of values is used."""
    samples, stream = epochs(60_000, 30, 1)
    askable = AskableSample.side_by_side([sample.askable_sample for sample in samples])
    assert len(askable.sample) >= WORTHWHILE
    return askable, Oracle(stream)


@pytest.mark.parametrize("decay", ["exp:half_life=3h", "window:4h", "none", "poly:alpha=1,unit=1h", "exp:half_life=2m"])
@pytest.mark.parametrize("tau", ["median", "1.5*mean", "q0.95"])
def test_a_series_covers_what_single_answers_cover(large: tuple[AskableSample, Oracle], decay: str, tau: str) -> None:
    """At 40 times at once exact answers lie within as often as stated, and values equal those of single answers."""
    askable, oracle = large
    moments = np.linspace(2 * DAY, 30 * DAY - 1, 40).astype(np.int64)
    missed = 0
    for at, aggregate in enumerate(AGGREGATES):
        question = Question(aggregate, decay, tau=tau, counting=COUNTINGS[at % 2])
        series = askable.series(question, moments)
        exact = np.array([oracle.answer(question.at(moment)) for moment in moments.tolist()])
        missed += int(np.count_nonzero(~series.covers(exact, np.flatnonzero(~np.isnan(exact)))))
        for which in (0, 17, 39):
            single = askable.answer(question.at(int(moments[which])))
            assert series.value[which] == pytest.approx(single.value, rel=3e-3, nan_ok=True), question
            if decay.endswith(("2m", "4h")):
                continue  # few of the rows count: limits at one of 512 places among all rows are coarse
            width = single.upper - single.lower
            assert series.lower[which] >= single.lower - 0.5 * width - 2e-3 * abs(single.value)
            assert series.upper[which] <= single.upper + 0.5 * width + 2e-3 * abs(single.value)
    assert missed <= 0.05 * len(AGGREGATES) * len(moments)


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
