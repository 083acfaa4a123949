"""Variance and standard deviation against the exact ones, over samples that keep some of the events."""

from __future__ import annotations

import numpy as np
import pytest

from sketches import Events, Question, Sample
from tests.support.oracle import Oracle
from tests.support.streams import STREAMS

QUESTIONS = (
    Question("variance", "exp:half_life=10m", of="value"),
    Question("stddev", "window:30m", of="value"),
    Question("variance", "exp:half_life=10m", of="weight"),
    Question("variance", "exp:half_life=20m", of="value", counting="weight", low=100),
)


@pytest.mark.parametrize("name", ["late", "heavy-weights", "floats"])
def test_intervals_hold(name: str) -> None:
    """Of 60 samples at most 8 may miss: 3 are expected at 95%. They are not so wide that they say nothing."""
    for question in QUESTIONS:
        missed, widths = 0, []
        for seed in range(60):
            stream = STREAMS[name](3_000, seed)
            sample = Sample.build(Events.of(stream.ids, stream.t, stream.v, stream.w), epsilon=0.2, detail=1, seed=seed)
            asked = question.at(int(stream.t.max()) - 400 * (seed % 3))
            exact, found = Oracle(stream).answer(asked), sample.answer(asked)
            missed += not found.lower * (1 - 1e-9) <= exact <= found.upper * (1 + 1e-9)
            widths.append((found.upper - found.lower) / max(exact, 1e-300))
        assert missed <= 8, (question, missed)
        assert name != "late" or np.median(widths) < 0.5, (question, np.median(widths))


def test_a_series_is_its_single_answers() -> None:
    stream = STREAMS["late"](4_000, 3)
    sample = Sample.build(Events.of(stream.ids, stream.t, stream.v, stream.w), epsilon=0.2, detail=1)
    times = np.linspace(stream.t.min(), stream.t.max(), 9).astype(np.int64)
    series = sample.series(QUESTIONS[1], times)
    for at, moment in enumerate(times.tolist()):
        alone = sample.answer(QUESTIONS[1].at(moment))
        got = series.value[at], series.lower[at], series.upper[at]
        assert got == pytest.approx((alone.value, alone.lower, alone.upper), nan_ok=True)


def test_nothing_counts() -> None:
    """Before the first event there is no variance, and its limits are what all values allow."""
    events = Events.of([1, 2], [100, 200], [10, 30])
    found = Sample.build(events).answer(Question("variance", as_of=50, of="value"))
    assert np.isnan(found.value)
    exact = Sample.build(events).answer(Question("stddev", of="value"))
    assert (exact.value, exact.lower, exact.upper) == (10.0, 10.0, 10.0)
