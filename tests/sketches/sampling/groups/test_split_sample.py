"""Many groups at many times at once, against the answer of each time alone and against exact shares."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

from sketches import Question, Sample
from sketches.errors import QuestionError, UnanswerableError
from sketches.estimate import SplitSeries
from tests.sketches.sampling.groups.test_share_changes import DAY, DELTA, NAMES, sampled, stream


def classes(sample: Sample, question: Question, as_of: NDArray[np.int64], edges: NDArray[np.float64]) -> SplitSeries:
    return Sample.classes_over_time(sample.of(None), question, as_of, edges)


MOMENTS = np.array([DAY, 2 * DAY, 4 * DAY])


@pytest.mark.parametrize("aggregate", ["mean", "count", "median", "sum"])
@pytest.mark.parametrize("by", ["source", "place"])
def test_every_cell_is_the_answer_of_its_group_and_time(aggregate: str, by: str) -> None:
    """The numbers and limits are those of a split of that time, whichever groups are drawn and in whatever order."""
    sample = sampled(stream(1, 6_000, weights=True), 1)
    groups = sample.by_source(NAMES) if by == "source" else sample.by_field(sample.of(None), by)
    question, listed = Question(aggregate, "exp:half_life=6h"), np.array([3, 0, 5])
    found = groups.over_time(question, MOMENTS, listed)
    assert found.names == tuple(groups.names[at] for at in listed)
    for column, moment in enumerate(MOMENTS.tolist()):
        one = groups.answer(question.at(moment))
        for name in ("value", "lower", "upper"):
            np.testing.assert_allclose(getattr(found, name)[:, column], getattr(one, name)[listed], rtol=1e-9)
    assert found.confidence == 1 - DELTA


@pytest.mark.parametrize("aggregate", ["sum", "mean", "correlated-sum"])
def test_the_rows_of_a_group_are_added_a_few_after_the_other(aggregate: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever the rows are cut, inside a group or between two, with groups of one row or none among some."""
    groups = sampled(stream(1, 3_000, weights=True), 1).by_source(NAMES)
    question = Question(aggregate, "exp:half_life=6h", tau=300 if aggregate == "correlated-sum" else None)
    at_once = groups.answer(question)
    for few in (1, 7, 1_000):
        monkeypatch.setattr("sketches.sampling.groups.grouped_inquiry._AT_ONCE", few)
        found = groups.answer(question)
        for name in ("value", "lower", "upper", "used"):
            np.testing.assert_allclose(getattr(found, name), getattr(at_once, name), rtol=1e-9)


def test_a_grid_needs_times_and_no_window_by_number() -> None:
    groups = sampled(stream(1, 500), 1).by_source(NAMES)
    with pytest.raises(QuestionError, match="at least one time"):
        groups.over_time(Question("count"), np.array([], np.int64), np.array([0]))
    with pytest.raises(UnanswerableError, match="ask for a window of time"):
        groups.over_time(Question("count", "last:100"), MOMENTS, np.array([0]))


def test_the_shares_of_classes_hold_together_at_each_time() -> None:
    edges, trials, misses = np.array([50.0, 100.0, 200.0, 400.0]), 60, np.zeros(len(MOMENTS))
    question = Question("median", "window:12h")
    for seed in range(trials):
        columns = stream(seed, 5_000)
        found = classes(sampled(columns, seed), question, MOMENTS, edges)
        for at, moment in enumerate(MOMENTS.tolist()):
            counts = (columns["times"] <= moment) & (columns["times"] > moment - DAY // 2)
            exact = np.histogram(columns["value"][counts], np.concatenate([[-np.inf], edges, [np.inf]]))[0]
            exact = exact / counts.sum()
            misses[at] += not ((found.lower[:, at] <= exact) & (exact <= found.upper[:, at])).all()
        np.testing.assert_allclose(found.value.sum(axis=0), 1.0)
    assert misses.max() <= binom.ppf(1 - 1e-4, trials, DELTA)


def test_classes_are_exact_where_everything_is_kept_and_unknown_where_nothing_counts() -> None:
    columns = stream(2, 900)
    found = classes(sampled(columns, 2, detail=10_000), Question("median"), np.array([-5, 4 * DAY]), np.array([100.0]))
    assert np.isnan(found.value[:, 0]).all()
    assert found.lower[:, 1] == pytest.approx([(columns["value"] < 100).mean(), (columns["value"] >= 100).mean()])
    np.testing.assert_array_equal(found.lower[:, 1], found.upper[:, 1])
