"""Decayed sums at many times in one pass, against plain evaluation."""

from __future__ import annotations

import numpy as np
import pytest

from sketches import Events, Question, Sample, parse_decay
from sketches.drawn import SECOND, TimeUnit
from sketches.totals import NEGLIGIBLE, TOLERANCE, Pieces, pieces
from tests.coverage import build
from tests.oracle import DECAYS
from tests.streams import STREAMS


def read_off(table: Pieces, ages: np.ndarray) -> np.ndarray:
    piece = np.searchsorted(table.first, ages, side="right") - 1
    inside = piece < len(table.height)
    piece = np.minimum(piece, len(table.height) - 1)
    return np.where(inside, table.height[piece] + table.slope[piece] * (ages - table.first[piece]), 0.0)


@pytest.mark.parametrize("spec", [*DECAYS, "window:1s", "window:3599s", "expr:(age<100)+(age>=100)*0.25*(age<2000)"])
def test_straight_pieces_stay_close_to_the_decay_at_every_whole_age(spec: str) -> None:
    """At every second of two hours the table is within its tolerance of the decay, jumps included."""
    decay = parse_decay(spec)
    ages = np.arange(8192)
    exact = decay(ages.astype(np.float64))
    error = np.abs(read_off(pieces(decay, SECOND, 8191), ages) - exact)
    assert (error <= 2.0 * TOLERANCE * np.maximum(exact, NEGLIGIBLE)).all()


@pytest.mark.parametrize("spec", ["none", "window:10m", "chordal:40m", "table:0=1,10m=0.5,1h=0"])
def test_straight_decays_are_laid_out_exactly(spec: str) -> None:
    """Decays made of straight lines lose nothing."""
    decay = parse_decay(spec)
    ages = np.arange(8192)
    assert np.allclose(read_off(pieces(decay, SECOND, 8191), ages), decay(ages.astype(np.float64)), rtol=0, atol=1e-12)


def test_few_pieces_reach_far() -> None:
    """A year of seconds under a smooth decay takes hundreds of pieces, not millions."""
    assert len(pieces(parse_decay("poly:alpha=1.5,unit=1m"), SECOND, (1 << 25) - 1).height) < 2000


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
        single = [sketch.answer(question.at(int(time))) for time in times]
        for part in ("value", "lower", "upper"):
            expected = np.array([getattr(one, part) for one in single])
            tolerance = 2.0 * TOLERANCE if part == "value" else 3e-3
            assert np.allclose(getattr(series, part), expected, tolerance, 1e-6, equal_nan=True), (aggregate, part)
        if np.isfinite(parse_decay(spec).horizon):
            assert np.abs(series.used - [one.used for one in single]).max() <= 1


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
