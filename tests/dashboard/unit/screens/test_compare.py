"""The page Compare: decays, sources and times on the same axes, each with its number."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dashboard import wording
from sketches.formatting import moment_text, number_text
from sketches.question import Question
from sketches.units import SECOND
from store import Store, commit
from store.serving.split_change import Answered, changes_from
from store.serving.timeline import extent
from tests.support import dashboard_stores
from tests.support.dashboard_stores import CALLS, SITES
from tests.support.pages import NEWEST, address, asked, charts, column, fine, opened, store_of, text_of, widget


def compared(test: Any) -> list[str]:
    """The names of the lines of the chart."""
    traces = charts(test)[0]["data"]
    return [one["name"] for one in traces if one.get("showlegend") is not False and "hovertemplate" in one]


def test_decays_sources_and_times_are_compared(small: Path) -> None:
    """Two to four lines over the same axis, each with its number."""
    test = fine(opened(small, "compare", decay="exp:half_life=5m"))
    names = compared(test)
    assert names == ["half-life 5 min", "no fading"]
    widget(test, "text_input", "Against decay 2").set_value("window:10m").run()
    assert address(test)["against"] == ["none", "window:10m"]
    widget(test, "segmented_control", "Compare").set_value("sources").run()
    names = compared(fine(test))
    assert names == list(SITES)
    widget(test, "segmented_control", "Compare").set_value("times").run()
    widget(test, "pills", "Against so long before").set_value(["1h"]).run()
    names = compared(fine(test))
    assert names == ["now", "1 h before"]
    assert address(test)["shift"] == ["1h"]
    newest, before = test.dataframe[0].value["as of"]
    assert (newest, before) == (moment_text(NEWEST, SECOND), moment_text(NEWEST - 3600, SECOND))


def test_more_sources_than_are_drawn_can_be_chosen(tmp_path: Path) -> None:
    """Here or on another page: the first four are drawn, which the page says."""
    path = tmp_path / "many.duckdb"
    rows = dashboard_stores.calls(300)["north"]
    sites = {f"site {number}": rows.take(np.arange(len(rows)) % 6 == number) for number in range(6)}
    commit(path, dashboard_stores.run(CALLS, sites, dashboard_stores.settings("integer")))
    test = fine(opened(path, "compare", aggregate="sum", decay="none", compare="sources", source=list(sites)))
    names = compared(test)
    assert names == list(sites)[:4]
    assert "The first 4 of the 6 chosen sources are drawn; the table has all." in text_of(test)
    table = test.dataframe[0].value
    assert table["compared"].tolist() == list(sites)
    alone = [asked(path, sources=(site,)) for site in sites]
    assert table["estimate"].tolist() == alone
    assert table["beyond chance"].tolist()[0] == ""
    widget(test, "multiselect", "Sources").set_value(list(sites)[:2]).run()
    assert "sources are drawn" not in text_of(fine(test))


def test_compared_sources_are_asked_as_of_the_same_moment(own: Path) -> None:
    """The end of the chart, also where a source has no event so late."""
    dashboard_stores.more(own)
    test = fine(
        opened(own, "compare", aggregate="sum", decay="exp:half_life=5m", compare="sources", source=["north", "-south"])
    )
    table = test.dataframe[0].value
    newest = extent(Store(own).catalogue().streams[CALLS], ["north"])
    assert newest is not None
    assert set(table["as of"]) == {moment_text(newest[1], SECOND)}
    expected = asked(own, "sum", "exp:half_life=5m", as_of=newest[1], sources=("-south",))
    assert table["estimate"].tolist()[1] == expected
    chart = charts(test)[0]
    last = next(column(one["y"])[-1] for one in chart["data"] if one.get("name") == "-south" and "hovertemplate" in one)
    assert float(expected.replace(",", "")) == pytest.approx(last, rel=5e-2)


def test_compared_numbers_are_the_answers(small: Path) -> None:
    fading = "exp:half_life=7m"
    test = fine(opened(small, "compare", aggregate="sum", decay=fading, against=["none"]))
    table = test.dataframe[0].value
    assert table["estimate"].tolist() == [asked(small, "sum", fading), asked(small)]
    assert table["beyond chance"].tolist() == ["", "yes"]
    found = [store_of(small).ask(CALLS, Question("sum", decay)).estimate for decay in (fading, "none")]
    limits = [wording.limits(one.lower, one.upper, "weight") for one in found]
    assert list(zip(table["from"], table["to"], strict=True)) == limits
    assert limits != [(number_text(one.lower), number_text(one.upper)) for one in found]


def test_differences_have_limits_that_know_what_both_answers_share(small: Path) -> None:
    """Two decays weigh the same events: what is chance in both alike is left out."""
    decays = ("exp:half_life=7m", "exp:half_life=9m")
    test = fine(opened(small, "compare", aggregate="sum", decay=decays[0], against=[decays[1]]))
    store = store_of(small)
    stream = store.catalogue().streams[CALLS]
    sides = [
        Answered(question, (), store.ask(CALLS, question)) for question in (Question("sum", one) for one in decays)
    ]
    found = changes_from(store, CALLS, sides[0], sides[1:])
    first, other = (side.answer.estimate for side in sides)
    assert found.change.value[0] == pytest.approx(other.value - first.value)
    assert found.change.upper[0] - found.change.lower[0] < 0.7 * np.hypot(
        first.upper - first.lower, other.upper - other.lower
    )
    table = test.dataframe[0].value
    numbers = (float(column[0]) for column in (found.change.value, found.change.lower, found.change.upper))
    assert table["difference"].tolist() == ["", wording.change(*numbers, "weight")]
    assert stream.as_of() == first.as_of


def test_a_logarithmic_axis_and_marks_are_there_too(own: Path) -> None:
    boards = own.parent / "boards"
    boards.mkdir()
    (boards / "annotations.toml").write_text(f'[[annotation]]\ntime = {NEWEST - 600}\ntext = "a release"\n')
    test = fine(opened(own, "compare", decay="exp:half_life=7m", chart="log"))
    (chart,) = charts(test)
    assert chart["layout"]["yaxis"]["type"] == "log"
    assert "a release" in str(chart["layout"]["annotations"])
