"""Differences of two answers: against normal theory where that is exact, and as their limits must hang together."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sketches.differences import UNKNOWN, Differences, Limited, differences


def around(value: float, down: float, up: float | None = None) -> Limited:
    return Limited.of(value, value - down, value + (down if up is None else up))


def ends(found: Differences) -> tuple[float, float]:
    return float(found.change.lower[0]), float(found.change.upper[0])


@pytest.mark.parametrize(("shared", "half"), [(0.0, 5.0), (0.5, np.sqrt(13.0)), (UNKNOWN, 7.0), (1.0, 1.0)])
def test_even_intervals_give_the_interval_of_normal_theory(shared: float, half: float) -> None:
    """The variance of a difference is that of both less twice their covariance; of nothing known the limits add up."""
    found = differences(around(10.0, 3.0), around(8.0, 4.0), shared)
    assert ends(found) == pytest.approx((2.0 - half, 2.0 + half))
    assert found.relative.value[0] == pytest.approx(0.25)


def test_a_ratio_is_that_of_fieller() -> None:
    """r solves (now - r·before)² = a² + r²·b² - 2·shared·r·a·b."""
    now, before, a, b, shared = 10.0, 8.0, 1.0, 2.0, 0.4
    found = differences(around(now, a), around(before, b), shared).relative
    equation = [before**2 - b**2, -2.0 * (now * before - shared * a * b), now**2 - a**2]
    assert [found.lower[0] + 1, found.upper[0] + 1] == pytest.approx(sorted(np.roots(equation)), rel=1e-6)


def test_what_both_share_cancels_however_skewed() -> None:
    """The same events twice: nothing has changed, and that is certain, although each answer by itself is not."""
    found = differences(around(10.0, 1.0, 9.0), around(10.0, 1.0, 9.0), 1.0)
    assert ends(found) == (0.0, 0.0)
    assert not found.beyond[0]


def test_exact_answers_have_exact_differences() -> None:
    found = differences(around(12.0, 0.0), around(8.0, 0.0), 0.0)
    assert ends(found) == (4.0, 4.0)
    assert [float(one[0]) for one in (found.relative.lower, found.relative.upper)] == pytest.approx([0.5, 0.5])
    assert found.beyond[0]


def test_without_an_answer_nothing_is_beyond_chance() -> None:
    found = differences(around(np.nan, 1.0), around(8.0, 1.0), 0.0)
    assert np.isnan(found.change.value[0])
    assert not found.beyond[0]
    unbounded = differences(Limited.of(1.0, 0.0, np.inf), around(0.5, 0.6), 0.0)
    assert unbounded.change.upper[0] == unbounded.relative.upper[0] == np.inf


widths = st.floats(0.0, 50.0)


@given(st.floats(1.0, 100.0), st.floats(1.0, 100.0), widths, widths, widths, widths, st.floats(-1.0, 1.0))
def test_limits_hang_together(
    now: float, before: float, down: float, up: float, before_down: float, before_up: float, shared: float
) -> None:
    """The estimate is inside; no limit is beyond what both intervals allow; the percentage and the change agree on
    what is beyond chance; turned round, the change is the same with the other sign."""
    one, other = around(now, min(down, now), up), around(before, min(before_down, before), before_up)
    found = differences(one, other, shared)
    lower, upper = ends(found)
    slack = 1e-9 * (now + before + down + up + before_down + before_up)
    assert lower - slack <= now - before <= upper + slack
    assert lower >= one.lower[0] - other.upper[0] - slack
    assert upper <= one.upper[0] - other.lower[0] + slack
    back = differences(other, one, shared)
    assert ends(back) == pytest.approx((-upper, -lower), abs=1e-6)
    relative = found.relative
    if abs(lower) > 1e-6 and abs(upper) > 1e-6 and np.isfinite(relative.upper[0]):
        assert found.beyond[0] == bool(relative.lower[0] > 0.0 or relative.upper[0] < 0.0)
