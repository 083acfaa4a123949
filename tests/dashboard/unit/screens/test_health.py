"""The page Health: it counts, and finds damage."""

from __future__ import annotations

from pathlib import Path

import pytest

from dashboard.screens import health
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


def test_health_is_not_green_while_a_source_is_silent(small: Path, own: Path) -> None:
    """It says how many of how many, and since when; the chart says how many of all it shows."""
    told = [one.value for one in fine(opened(small, "health")).success]
    assert any("no source is silent" in one for one in told)
    dashboard_stores.more(own)  # another hour, of one source only
    test = fine(opened(own, "health"))
    assert not test.success
    (said,) = [one.value for one in test.warning if "silent" in one.value]
    assert "2 of 3 sources are silent for longer than usual" in said
    table = next(one.value for one in test.dataframe if "state" in one.value)
    assert sorted(table["state"].tolist()) == ["silent", "silent", "well"]


def test_health_says_how_many_sources_it_shows(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "MOST_SOURCES", 2)
    assert "shows the 2 of 3 sources that are furthest behind" in text_of(fine(opened(small, "health")))
