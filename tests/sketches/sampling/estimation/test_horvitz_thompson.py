"""Decayed sums at many times in one pass, against single answers with f of each row."""

from __future__ import annotations

import numpy as np
import pytest

from sketches import Events, Question, Sample, parse_decay
from sketches.sampling.estimation.piecewise_decay import TOLERANCE
from sketches.units import TimeUnit
from tests.support.coverage import build
from tests.support.oracle import DECAYS
from tests.support.streams import STREAMS


@pytest.mark.slow
@pytest.mark.parametrize("name", ["uniform", "heavy-weights", "bursty", "one-second", "unit-wide", "keys"])
@pytest.mark.parametrize("spec", DECAYS)
def test_series_agrees_with_single_answers(name: str, spec: str) -> None:
    """A series and the single answers at its times agree within the table's tolerance, limits too."""
    stream = STREAMS[name](6000, 3)
    sketch = build(stream, 1, 0.2, 0.05)
    times = np.linspace(stream.t.min() - 5, stream.t.max() + 900, 23).astype(np.int64)
    aggregates = ("sum", "count", "mean") if stream.is_text else ("sum", "mean", "selectivity", "correlated-count")
    for aggregate in aggregates:
        tau = None if aggregate in ("sum", "count", "mean") else float(np.quantile(stream.v, 0.8))
        question = Question(aggregate, spec, tau=tau)
        series = sketch.series(question, times)
        single = [sketch.answer(question.at(int(time))) for time in times[::3]]
        for part in ("value", "lower", "upper"):
            expected = np.array([getattr(one, part) for one in single])
            tolerance = 2.0 * TOLERANCE if part == "value" else 3e-3
            assert np.allclose(getattr(series, part)[::3], expected, tolerance, 1e-6, equal_nan=True), (aggregate, part)
        if np.isfinite(parse_decay(spec).horizon):
            assert np.abs(series.used[::3] - [one.used for one in single]).max() <= 1


@pytest.mark.parametrize("phi", [0.02, 0.5, 0.99])
def test_series_of_quantiles_finds_the_same_values_and_no_narrower_limits(phi: float) -> None:
    """Quantiles of a series equal the single ones; their limits may only move outwards."""
    stream = STREAMS["heavy-weights"](6000, 3)
    sketch = build(stream, 1, 0.1, 0.05)
    times = np.linspace(stream.t.min() + 60, stream.t.max() + 900, 40).astype(np.int64)
    question = Question("quantile", "exp:half_life=10m", phi=phi)
    series = sketch.series(question, times)
    single = [sketch.answer(question.at(int(time))) for time in times]
    assert series.value.tolist() == [one.value for one in single]
    assert all(
        low <= one.lower and one.upper <= high
        for low, high, one in zip(series.lower, series.upper, single, strict=True)
    )


def test_whole_seconds_stay_whole_in_finer_units() -> None:
    """A window of an hour over milliseconds keeps what is 3,599,999 ms old and drops what is 3,600,000 ms old."""
    events = Events.of([1, 2, 3], [0, 1, 3_600_000])
    sketch = Sample.build(events, unit=TimeUnit(1, 1000))
    assert sketch.answer(Question("count", "window:1h")).value == 2.0
    assert sketch.answer(Question("count", "window:1h", as_of=3_600_001)).value == 1.0


def test_series_of_no_times_is_empty() -> None:
    """No times give no values."""
    sketch = build(STREAMS["uniform"](100, 1), 1, 0.2, 0.05)
    assert len(sketch.series(Question("sum"), [])) == 0


def test_a_light_window_beside_a_heavy_past_keeps_its_digits() -> None:
    """A series over ten light events, after others that weigh 10^15 times as much, has their sum and no doubt of it."""
    times = np.concatenate([np.arange(2_000), 10_000 + np.arange(10)])
    weights = np.concatenate([np.full(2_000, 1 << 40), np.ones(10, np.int64)])
    sample = Sample.build(Events.of(np.arange(len(times)), times, None, weights))
    series = sample.series(Question("sum", "window:100s"), 10_000 + np.arange(10))
    for limit in (series.lower, series.value, series.upper):
        np.testing.assert_allclose(limit, np.arange(1, 11), rtol=2e-3)
