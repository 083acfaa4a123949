"""The page Explore: the chart ends at the number."""

from __future__ import annotations

from pathlib import Path

import pytest

from sketches.question import Question
from tests.support.dashboard_stores import CALLS
from tests.support.pages import charts, column, fine, opened, store_of
from tests.support.polygons import bands_of


def test_the_chart_ends_at_the_number(small: Path) -> None:
    """The last point of the big chart, with its band around it."""
    test = fine(opened(small, decay="window:10m"))
    chart = max(charts(test), key=lambda one: len(one["data"]))
    ((_, lower, upper),) = bands_of(chart)[0]
    value = column(chart["data"][1]["y"])
    answer = store_of(small).ask(CALLS, Question("sum", "window:10m")).estimate
    assert value[-1] == pytest.approx(answer.value, rel=1e-3)
    assert all(low <= at <= high for low, at, high in zip(lower, value, upper, strict=True))
