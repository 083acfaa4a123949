"""The page Health: it counts, and finds damage."""

from __future__ import annotations

from pathlib import Path

from tests.support import dashboard_stores
from tests.support.pages import charts, fine, opened, text_of, widget


def test_health_counts_and_checks(small: Path, own: Path) -> None:
    """Damage behind the store's back is found when every sketch is read, and the charts say what is missing."""
    test = fine(opened(small, "health"))
    assert {one.label: one.value for one in test.metric}["Sources"] == "3"
    widget(test, "button", "Check every sketch").click().run()
    assert any("sketches are whole" in one.value for one in test.success)
    assert dashboard_stores.damage(own, dashboard_stores.START + 700) == 1
    test = fine(opened(own, "health"))
    widget(test, "button", "Check every sketch").click().run()
    assert any("1 epoch cannot answer" in one.value for one in test.error)
    test = fine(opened(own, "explore", decay="none", span=""))
    assert any("Incomplete: 1 epoch is missing" in one.value for one in test.warning)
    told = text_of(test)
    assert "of the readable epochs only]" in told
    assert "counting only the epochs that can be read" in told
    assert "green-badge" not in told
    assert "blue-badge" not in told
    chart = max(charts(test), key=lambda one: len(one["data"]))
    assert "without the missing epochs" in [trace.get("name") for trace in chart["data"]]
