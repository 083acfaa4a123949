"""A slice of benchmarks/thinned.py: intervals of thinned samples of several sources, counted by cells."""

from __future__ import annotations

import numpy as np
import pytest

from sketches.sampling.estimation.intervals import Total
from tests.support.oracle import Oracle
from tests.support.reported import KINDS, NAMES, Truth, reported
from tests.support.thinned import SECOND, SELECTIONS, Cell, cells_of, count, holm, question_of

SEEDS = range(40)
SLICE = [
    Cell("migrated", "count", "none", "all", "past"),
    Cell("migrated", "sum", "exp:half_life=10m", "two that overlap", "now"),
    Cell("repeated rows", "sum", "exp:half_life=10m", "a twentieth", "past"),
    Cell("repeated rows", "selectivity", "window:20m", "two that overlap", "past"),
    Cell("zero weights", "correlated-sum", "exp:half_life=10m", "a twentieth", "now"),
    Cell("zero weights", "count", "none", "two that overlap", "now"),
]


def too_often(seeds: range) -> list[Cell]:
    """The cells of the slice that miss more often than 5% by more than chance explains."""
    found = {}
    for kind in sorted({cell.kind for cell in SLICE}):
        counts = count([cell for cell in SLICE if cell.kind == kind], seeds, events=4_000)
        found |= {cell: one.chance for cell, one in counts.items()}
        assert all(one.trials == len(seeds) and one.exact == 0 for one in counts.values())
    return holm(found)


def test_intervals_of_thinned_samples_cover() -> None:
    """Sources that overlap, one small source, epochs in the earlier form: no cell misses too often."""
    assert too_often(SEEDS) == []


def test_the_count_goes_red_where_the_variance_is_too_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Intervals by a quarter of the variance miss too often in several cells."""
    honest = Total.bounds

    def short(self: Total, confidence: float) -> tuple[np.ndarray, np.ndarray]:
        lower, upper = honest(self, confidence)
        return (self.value + lower) / 2.0, (self.value + upper) / 2.0

    monkeypatch.setattr(Total, "bounds", short)
    assert len(too_often(SEEDS)) >= 2


@pytest.mark.parametrize("kind", KINDS)
def test_the_exact_answers_are_those_of_the_other_oracle(kind: str) -> None:
    """About the rows of the chosen sources, for every question that is counted."""
    told = reported(kind, 600, 5)
    truth = Truth(told)

    def other(sources: tuple[str, ...]) -> Oracle:
        return Oracle(told.rows.take(np.isin(told.sources, [NAMES.index(name) for name in sources])))

    oracles, second = {name: other(sources) for name, sources in SELECTIONS.items()}, other(SECOND)
    for cell in cells_of(kind, every=True):
        question, sources, oracle = question_of(cell), SELECTIONS[cell.selection], oracles[cell.selection]
        if question.aggregate == "heavy-hitters":
            shares = truth.shares(question, sources)
            assert {value: shares[value] for value in oracle.shares(question)} == pytest.approx(oracle.shares(question))
        else:
            exact = oracle.answer(question, second if question.aggregate == "inner-product" else None)
            assert truth.answer(question, sources, SECOND) == pytest.approx(exact, nan_ok=True), cell


def test_holm_rejects_in_turn() -> None:
    """The least chance is held against the strictest limit, the next against the next, until one passes."""
    assert holm({"a": 0.0004, "b": 0.9, "c": 0.0001, "d": 0.0002}, 0.001) == ["c", "d", "a"]
    assert holm({"a": 0.0006, "b": 0.0006}, 0.001) == []
