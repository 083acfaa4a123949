"""Even classes and steps of colour: round ends, and which intervals are wider than a step."""

from __future__ import annotations

import numpy as np
import pytest

from sketches.axis_classes import even_edges, in_steps


@pytest.mark.parametrize(("low", "high"), [(0.0, 97.0), (3.0, 4.5), (-20.0, 20.0), (1_000_001.0, 1_000_009.0)])
def test_even_edges_are_about_as_far_apart(low: float, high: float) -> None:
    edges = even_edges(low, high, 10)
    assert len(edges) == 9
    assert low < edges[0]
    assert edges[-1] < high
    np.testing.assert_allclose(np.diff(edges), (high - low) / 10, rtol=0.2)


def test_wide_ranges_are_cut_evenly_in_the_logarithm() -> None:
    edges = even_edges(0.01, 1e4, 12)
    np.testing.assert_allclose(np.diff(np.log(edges)), np.log(1e6) / 12, rtol=0.06)


@pytest.mark.parametrize(("low", "high"), [(5.0, 5.0), (np.nan, 1.0), (0.0, np.inf), (2.0, 1.0)])
def test_nothing_is_cut_where_there_is_no_range(low: float, high: float) -> None:
    assert even_edges(low, high, 5).tolist() == []


def test_a_step_is_told_from_the_next_only_by_an_interval_that_is_not_wider() -> None:
    """Eight steps of ten: an interval of ten is as wide as a step, one of eleven is wider."""
    value = np.array([[0.0, 10.0, 79.9, 80.0, np.nan]])
    lower = np.array([[0.0, 5.0, 74.0, 80.0, 0.0]])
    upper = np.array([[0.0, 15.0, 85.0, 80.0, 99.0]])
    ends, step, wide = in_steps(value, lower, upper, 8)
    np.testing.assert_allclose(ends, np.arange(9) * 10.0)
    np.testing.assert_array_equal(step, [[0, 1, 7, 7, np.nan]])
    assert wide.tolist() == [[False, False, True, False, False]]


def test_steps_of_a_wide_range_are_ratios() -> None:
    value = np.array([1.0, 10.0, 100.0, 0.0, 50.0])
    ends, step, wide = in_steps(value, value * 0.9, value * np.array([1.1, 1.1, 1.1, 1.0, 30.0]), 2)
    np.testing.assert_allclose(ends, [1.0, 10.0, 100.0])
    assert step.tolist() == [0, 1, 1, 0, 1]
    assert wide.tolist() == [False, False, False, False, True]


def test_one_number_alone_is_one_step() -> None:
    ends, step, wide = in_steps(np.array([3.0, 3.0]), np.array([3.0, 2.0]), np.array([3.0, 4.0]), 8)
    assert (ends.tolist(), step.tolist(), wide.tolist()) == ([3.0, 3.0], [0.0, 0.0], [False, True])
    _, none, _ = in_steps(np.array([np.nan]), np.array([0.0]), np.array([1.0]), 8)
    assert np.isnan(none).all()
