"""The tour: three steps at first sight, closed for good; never over somebody else's view."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dashboard.parts import tour
from tests.support.pages import fine, opened, text_of, widget


def step(test: Any) -> str:
    return next((line for line in text_of(test).splitlines() if " of 3: " in line), "")


def test_three_steps_forth_and_back_and_away(small: Path) -> None:
    test = fine(opened(small))
    assert "1 of 3" in step(test)
    widget(test, "button", "Next").click().run()
    widget(test, "button", "Next").click().run()
    assert "3 of 3" in step(test)
    assert "Next" not in [one.label for one in test.button]
    widget(test, "button", "Previous").click().run()
    assert "2 of 3" in step(test)
    widget(test, "button", "Close the tour").click().run()
    assert step(fine(test)) == ""
    assert len(tour.STEPS) == 3


def test_a_link_to_a_view_is_not_covered_by_it(small: Path) -> None:
    assert step(fine(opened(small, decay="none"))) == ""
