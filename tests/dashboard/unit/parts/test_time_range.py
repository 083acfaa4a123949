"""The stretch of time that a chart shows: chosen, drawn, typed, in the address, and back."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import streamlit as st

from dashboard import wording
from dashboard.asking import session
from dashboard.asking.address import from_parameters
from dashboard.asking.answer_cache import AnswerCache
from dashboard.asking.view import View
from dashboard.parts import time_range
from sketches.units import SECOND, TimeUnit
from tests.support.dashboard_stores import CALLS, START
from tests.support.pages import address, charts, column, fine, metric, opened, text_of, widget

RANGE = {"start": "2023-11-14T22:20:00Z", "end": "2023-11-14T22:30:00Z"}


def times(test: Any) -> list[str]:
    """The times of the chart's line."""
    (chart,) = [one for one in charts(test) if "as of" in str(one["layout"]["xaxis"]["title"])]
    return list(column(chart["data"][-1]["x"]))


def test_a_range_has_as_many_points_of_its_own(small: Path) -> None:
    """All of them lie inside; the number stays that of the as-of time; the chart takes a box for the next range."""
    whole, test = fine(opened(small, decay="window:10m")), fine(opened(small, decay="window:10m", **RANGE))
    assert (times(test)[0], times(test)[-1]) == ("2023-11-14T22:20:00", "2023-11-14T22:30:00")
    assert len(times(test)) == len(times(whole)) == 200
    assert metric(test) == metric(whole)
    (chart,) = [one for one in charts(test) if "as of" in str(one["layout"]["xaxis"]["title"])]
    assert (chart["layout"]["dragmode"], chart["layout"]["selectdirection"]) == ("select", "h")
    assert address(test)["start"] == [RANGE["start"]]


def test_quick_ranges_and_the_way_back(small: Path) -> None:
    """The active one is shown; a range of one's own leaves none active; back leads to the range before."""
    test = fine(opened(small, decay="none"))
    assert widget(test, "button_group", "Chart shows").value == ""
    widget(test, "button_group", "Chart shows").set_value("15m").run()
    assert address(fine(test))["span"] == ["15m"]
    first, last = (datetime.fromisoformat(times(test)[at]) for at in (0, -1))
    assert (last - first).total_seconds() == 900
    widget(test, "datetime_input", "From (UTC)").set_value(datetime(2023, 11, 14, 22, 20)).run()  # noqa: DTZ001
    assert address(fine(test))["start"] == [RANGE["start"]]
    assert widget(test, "button_group", "Chart shows").value is None
    widget(test, "button", "Back").click().run()
    assert address(fine(test))["span"] == ["15m"]
    assert not {"start", "end"} & set(address(test))
    assert "Back" not in [one.label for one in test.button]


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kathmandu"])
def test_a_box_in_the_chart_is_the_next_range(small: Path, zone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its ends are wall-clock times of the zone shown; a sliver is not a range."""
    stream = AnswerCache(small).catalogue().streams[CALLS]
    state = {"view": View(stream=CALLS, zone=zone), "drafts": {}}
    monkeypatch.setattr(st, "session_state", state)
    drawn = wording.axis_times([START + 9, START + 99], SECOND, wording.zone(zone))
    ends = [time_range._at(str(place), SECOND, zone) for place in drawn]
    time_range.go_to(ends[0], ends[1], stream)
    assert (session.view().start, session.view().end) == ("2023-11-14T22:13:29Z", "2023-11-14T22:14:59Z")
    time_range.go_to(START, START + 1, stream)
    assert session.view().start == "2023-11-14T22:13:29Z"
    assert time_range.code(5, TimeUnit(1, 1000)) == "5"
    assert time_range.code(10**17, SECOND) == str(10**17)


def test_a_range_that_makes_no_sense_is_left_out(small: Path) -> None:
    catalogue = AnswerCache(small).catalogue()
    for start, end in (("7", "5"), ("soon", "9")):
        view, problems = from_parameters({"stream": [CALLS], "start": [start], "end": [end]}, catalogue)
        assert not view.ranged or view.start == ""
        assert len(problems) == 1
    test = fine(opened(small, start="9", end="5"))
    assert "The range of the chart is left out" in text_of(test)
