"""Long after the newest event: what is left is tiny, and its interval is as wide beside it as ever."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from sketches import Events, Question, Sample
from tests.support.oracle import Oracle
from tests.support.streams import STREAMS

DECAYS = ("exp:half_life=1s", "poly:alpha=30,unit=1s", "superexp:beta=1.2,scale=4s")


@pytest.mark.parametrize("decay", DECAYS)
@pytest.mark.parametrize("aggregate", ["sum", "count", "mean", "self-join", "median", "correlated-mean"])
def test_intervals_cover_where_next_to_nothing_is_left(decay: str, aggregate: str) -> None:
    """Sums of 1e-200, and means of what counts 1e-200, lie in their intervals as often as any other."""
    stream = STREAMS["heavy-weights"](4_000, 1)
    newest = int(stream.t.max())
    late = {"exp:half_life=1s": 600, "poly:alpha=30,unit=1s": 20_000_000, "superexp:beta=1.2,scale=4s": 460}[decay]
    tau = 300.0 if aggregate == "correlated-mean" else None
    question = Question(aggregate, decay, newest + late, tau=tau)
    exact = Oracle(stream).answer(question)
    missed, spread = 0, set()
    for seed in range(40):
        found = Sample.build(
            Events.of(stream.ids, stream.t, stream.v, stream.w), epsilon=0.3, detail=1, seed=seed
        ).answer(question)
        missed += not found.lower * (1.0 - 1e-9) <= exact <= found.upper * (1.0 + 1e-9)
        spread.add(found.value)
    assert missed <= binom.ppf(1.0 - 1e-3, 40, 0.05)
    if decay.startswith("poly") and aggregate != "self-join":
        assert len(spread) > 10  # the sample decides it, so nothing may look exact


def test_a_series_passes_over_into_what_is_faint() -> None:
    """A series that runs from the newest event to long after it has the single answers at every time."""
    sample = Sample.build(Events.of(range(3_000), range(3_000), range(3_000)), epsilon=0.2, detail=1)
    moments = np.array([3_000, 3_500, 4_000, 9_000])
    question = Question("count", "exp:half_life=5s")
    series = sample.series(question, moments)
    for at, moment in enumerate(moments.tolist()):
        single = sample.answer(question.at(moment))
        assert series.value[at] == pytest.approx(single.value)
        assert series.lower[at] < series.value[at] < series.upper[at] or single.exact


def test_in_a_lull_nothing_faint_looks_exact() -> None:
    """As of a moment before newer events came, when next to nothing is left of the older ones, shares are not known."""
    times = np.concatenate([np.arange(2_000), 9_000 + np.arange(2_000)])
    values = np.arange(4_000) % 2
    question = Question("frequency", "exp:half_life=2s", 4_000, value=1)
    found = [
        Sample.build(
            Events.of(np.arange(4_000) + 10_000 * seed, times, values), epsilon=0.6, detail=1, seed=seed
        ).answer(question)
        for seed in range(10)
    ]
    exact = 2.0 / 3.0  # the newest of them is odd, and each is half as old as the next
    assert sum(not one.lower <= exact * (1 + 1e-3) and exact * (1 - 1e-3) <= one.upper for one in found) <= 2
    assert all(one.lower < one.upper for one in found)


def test_a_mean_beside_a_far_outlier_is_not_called_exact() -> None:
    """An outlier that no longer counts leaves the digits of the mean in doubt, and the interval says so."""
    sample = Sample.build(Events.of(range(11), [0, *range(1_000, 1_010)], [-1e15] + [1.1] * 10))
    mean = sample.answer(Question("mean", "window:100s", of="value"))
    assert mean.lower <= 1.1 <= mean.upper
    assert not mean.exact
    above = sample.answer(Question("correlated-count", "window:100s", tau="mean"))
    assert above.lower <= 10.0 <= above.upper
