"""Whether the intervals of a series hold exact answers."""

from __future__ import annotations

import numpy as np

from sketches.estimate import Series

LOWER = np.array([0.0, 10.0, -5.0, 1e9])
UPPER = np.array([1.0, 10.0, -4.0, 1e9])


def series() -> Series:
    return Series(np.arange(4), LOWER, LOWER, UPPER, 0.9, "", "sample", np.ones(4, np.int64))


def test_an_interval_covers_its_ends_and_nothing_beyond() -> None:
    """Each exact answer is held against the interval at its own place."""
    which = np.array([0, 0, 0, 0, 2, 2, 2])
    truth = np.array([0.0, 1.0, -0.001, 1.001, -5.0, -4.0, -3.999])
    assert series().covers(truth, which).tolist() == [True, True, False, False, True, True, False]


def test_two_exact_sums_may_differ_by_rounding_only() -> None:
    """A point that is an exact answer need not have the other's last digits."""
    which = np.array([3, 3, 3, 3])
    truth = 1e9 * (1 + np.array([5e-10, -5e-10, 5e-9, -5e-9]))
    assert series().covers(truth, which).tolist() == [True, True, False, False]
    assert series().covers(truth, which, rounding=0.0).tolist() == [False] * 4


def test_what_is_no_number_is_not_covered_and_order_follows_which() -> None:
    found = series().covers(np.array([np.nan, -4.5, 0.5]), np.array([0, 2, 0]))
    assert found.tolist() == [False, True, True]
    assert series().covers(np.array([]), np.array([], int)).tolist() == []
