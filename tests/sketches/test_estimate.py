"""Whether the intervals of a series hold exact answers, and still do as they are printed."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sketches.estimate import Series, outward

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


@given(st.floats(-1e308, 1e308), st.booleans())
@example(999_999.7, True)
@example(-1e15 - 0.5, False)
@example(5e-324, False)
def test_a_limit_is_rounded_outward_and_no_further_than_its_digits(limit: float, up: bool) -> None:
    """Never inward; by less than the last of six digits, or of the whole number; and again it stays where it is."""
    found = outward(limit, up=up)
    assert found >= limit if up else found <= limit
    assert abs(found - limit) <= (1 if 1e6 <= abs(limit) < 1e15 else max(1e-5 * abs(limit), 5e-324))
    assert outward(found, up=up) == found


@pytest.mark.parametrize(
    ("limit", "down", "up"),
    [
        (27.31414, 27.3141, 27.3142),
        (-27.31414, -27.3142, -27.3141),
        (1_234_567.5, 1_234_567.0, 1_234_568.0),
        (0.1, 0.1, 0.1),
        (12.1, 12.1, 12.1),
        (0.0, 0.0, 0.0),
        (1e22, 1e22, 1e22),
        (math.inf, math.inf, math.inf),
        (-math.inf, -math.inf, -math.inf),
    ],
)
def test_what_needs_no_rounding_stays(limit: float, down: float, up: float) -> None:
    """A number of few digits is not moved because its binary form is a hair off."""
    assert (outward(limit, up=False), outward(limit, up=True)) == (down, up)
    assert math.isnan(outward(math.nan, up=True))
