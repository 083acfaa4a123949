"""A length of time for people is short, and close to what it stands for."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sketches.durations import human_duration


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (-5, "-5 s"),
        (1e-300, "1e-300 s"),
        (0.9, "0.9 s"),
        (1, "1 s"),
        (1.5, "1.5 s"),
        (59.7, "59.7 s"),
        (59.96, "1 min"),
        (3599.9, "1 h"),
        (86_399, "1 d"),
        (604_799, "1 w"),
        (604_800 + 86_400, "1 w 1 d"),
        (90_061, "1 d 1 h"),
        (52 * 604_800, "52 w"),
        (math.nan, "never"),
        (math.inf, "never"),
        (100 * 365.25 * 86_400, "100 years"),
        (1e300, "3.17e+292 years"),
    ],
)
def test_durations_for_people(seconds: float, text: str) -> None:
    """From nothing to longer than anything lasts; what is rounded up to a larger unit is written in it."""
    assert human_duration(seconds) == text


@given(st.floats(0, 1e308))
def test_a_duration_is_short_and_near(seconds: float) -> None:
    """Two units at most, of which the second is smaller, and no more than half of it wrong."""
    text = human_duration(seconds)
    assert len(text) < 20
    sizes = {"w": 604_800, "d": 86_400, "h": 3600, "min": 60, "s": 1, "years": 365.25 * 86_400}
    found = re.findall(r"([\d.,e+-]+) (\w+)", text)
    assert 1 <= len(found) <= 2
    read = sum(float(number.replace(",", "")) * sizes[unit] for number, unit in found)
    assert math.isclose(read, seconds, rel_tol=0.05, abs_tol=1e-9)
