"""The page Distribution: a threshold is marked, and the share above it is the store's."""

from __future__ import annotations

from pathlib import Path

from sketches.question import Question
from tests.support.dashboard_stores import CALLS
from tests.support.pages import address, fine, opened, store_of, widget


def test_a_distribution_marks_its_threshold_and_says_the_share_above(small: Path) -> None:
    test = fine(opened(small, "distribution", decay="none"))
    assert not test.metric
    widget(test, "text_input", "Threshold τ").set_value("500").run()
    share = store_of(small).ask(CALLS, Question("selectivity", tau=500.0)).estimate.value
    assert fine(test).metric[0].value == f"{100 * share:.6g}%"
    assert address(test)["tau"] == ["500"]
    widget(test, "text_input", "Threshold τ").set_value("q0.9").run()
    assert fine(test).metric[0].value != f"{100 * share:.6g}%"
