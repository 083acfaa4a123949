"""Answers over very many rows use a table of the decay; the intervals hold the difference to the decay itself."""

from __future__ import annotations

import numpy as np
import pytest

from sketches import Events, Question, Sample
from sketches.sampling.answers import quantiles
from sketches.sampling.estimation import horvitz_thompson, inquiry

ROWS = 250_000
DECAYS = ("window:6h", "exp:half_life=2h", "poly:alpha=1.5,unit=1m", "log:unit=1m", "table:0=1,1h=0.5,20h=0")


@pytest.fixture(scope="module")
def sketch() -> Sample:
    """A sketch that keeps all of a quarter of a million events."""
    rng = np.random.default_rng(5)
    times, values = rng.integers(0, 86_400, ROWS), rng.zipf(1.4, ROWS).clip(max=10**6)
    built = Sample.build(Events.of(np.arange(ROWS), times, values, rng.integers(1, 50, ROWS)), epsilon=0.003)
    assert built.kept == ROWS
    return built


def questions(spec: str) -> list[Question]:
    return [
        Question("sum", spec),
        Question("count", spec),
        Question("mean", spec),
        Question("correlated-sum", spec, tau=20),
        Question("correlated-mean", spec, tau=20),
        Question("selectivity", spec, low=3, high=9),
        Question("frequency", spec, value=7),
        Question("median", spec),
        Question("quantile", spec, phi=0.99),
        Question("heavy-hitters", spec, top=5),
        Question("self-join", spec),
        Question("sum", spec, of="value"),
        Question("mean", spec, of="value"),
    ]


@pytest.mark.parametrize("spec", DECAYS)
def test_the_table_is_close_and_its_error_is_in_the_interval(
    sketch: Sample, spec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each answer from the table is within 0.01% of the exact one, and its interval contains the exact one."""
    found = [sketch.answer(question) for question in questions(spec)]
    for module in (horvitz_thompson, quantiles, inquiry):
        monkeypatch.setattr(module, "MANY_ROWS", 1 << 40)
    for question, answer in zip(questions(spec), found, strict=True):
        plain = sketch.answer(question)
        assert plain.exact, question
        assert answer.value == pytest.approx(plain.value, rel=1e-4), question
        assert answer.lower <= plain.value * (1 + 1e-12), question
        assert plain.value * (1 - 1e-12) <= answer.upper, question


@pytest.mark.parametrize("spec", DECAYS)
def test_a_series_contains_the_exact_answers(sketch: Sample, spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where everything is kept, the only error of a series is its table's, and its intervals allow for it."""
    times = np.linspace(10_000, 90_000, 40).astype(np.int64)
    for question in questions(spec):
        if question.aggregate in ("heavy-hitters", "self-join"):
            continue
        series = sketch.series(question, times)
        for at in (0, 17, 39):
            with monkeypatch.context() as patch:
                for module in (horvitz_thompson, quantiles, inquiry):
                    patch.setattr(module, "MANY_ROWS", 1 << 40)
                exact = sketch.answer(question.at(int(times[at]))).value
            slack = 1e-12 * abs(exact)
            assert series.lower[at] - slack <= exact <= series.upper[at] + slack, (question, at)
