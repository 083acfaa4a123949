"""A cosine's bounds follow from those of its joins."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sketches.estimate import Estimate
from sketches.similarity import cosine


def estimate(value: float, lower: float | None = None, upper: float | None = None) -> Estimate:
    """An answer; exact where no limits are given."""
    low, high = value if lower is None else lower, value if upper is None else upper
    return Estimate(value, low, high, 0.9, "", "", 0, 1)


def test_a_source_is_wholly_like_itself_and_unlike_one_that_shares_nothing() -> None:
    """1 where product and self-joins agree, 0 where the product is 0; rounding never makes it more than 1."""
    assert cosine(estimate(9), estimate(9), estimate(9)) == (1.0, 1.0, 1.0)
    assert cosine(estimate(0), estimate(9), estimate(4)) == (0.0, 0.0, 0.0)
    assert cosine(estimate(6), estimate(9), estimate(4)) == (1.0, 1.0, 1.0)
    assert cosine(estimate(9.000001), estimate(9), estimate(9)).value == 1.0


def test_without_weight_nothing_is_known() -> None:
    """No value, and bounds that exclude nothing."""
    found = cosine(estimate(0), estimate(0), estimate(4))
    assert math.isnan(found.value)
    assert (found.lower, found.upper) == (0.0, 1.0)


@given(st.lists(st.floats(0.1, 10), min_size=3, max_size=3), st.lists(st.floats(0, 1), min_size=6, max_size=6))
def test_the_bounds_hold_whatever_the_joins_are_within_theirs(truth: list[float], slack: list[float]) -> None:
    """The cosine of any three numbers inside the three intervals lies inside the cosine's interval."""
    joins = [
        estimate(value, value * (1 - below), value * (1 + above))
        for value, below, above in zip(truth, slack[:3], slack[3:], strict=True)
    ]
    exact = min(1.0, truth[0] / math.sqrt(truth[1] * truth[2]))
    found = cosine(*joins)
    assert found.lower <= exact * (1 + 1e-12)
    assert exact <= found.upper * (1 + 1e-12)
    assert found.value == pytest.approx(exact)
