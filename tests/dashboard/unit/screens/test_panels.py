"""The page Panels: what it draws is what the store answers for each group and time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sketches.question import Question
from store import Store
from tests.support.dashboard_stores import CALLS, LATENCIES, PAGES, SITES
from tests.support.pages import address, charts, column, fine, labelled, opened, text_of, widget


def test_every_source_has_a_panel_with_its_own_answers(small: Path) -> None:
    test = fine(opened(small, "panels", stream=CALLS, aggregate="count", decay="exp:half_life=10m"))
    (figure,) = charts(test)
    titles = [note["text"] for note in figure["layout"]["annotations"]]
    split = Store(small).split(CALLS, Question("count", "exp:half_life=10m"))
    assert [title.removeprefix("<b>").removesuffix("</b>") for title in titles] == [one.name for one in split.places]
    lines = [trace for trace in figure["data"] if "customdata" in trace]
    assert [column(line["y"])[-1] for line in lines] == pytest.approx([one.estimate for one in split.places])
    assert "All 3, by their answers as of the end" in text_of(test)
    table = test.dataframe[0].value
    assert table["source"].tolist() == [one.name for one in split.places]


def test_the_heatmap_has_the_same_groups_and_tells_what_is_uncertain(small: Path) -> None:
    test = fine(opened(small, "panels", stream=CALLS, aggregate="mean", decay="window:10m", layout="heatmap"))
    (figure,) = charts(test)
    cells = figure["data"][0]
    assert cells["type"] == "heatmap"
    assert len(figure["layout"]["yaxis"]["ticktext"]) == len(SITES)
    assert np.array(cells["customdata"]).shape[:2] == (len(SITES), len(cells["x"]))
    widget(test, "toggle", "Smallest first").set_value(True).run()
    turned = charts(fine(test))[0]["layout"]["yaxis"]["ticktext"]
    assert turned[0] == figure["layout"]["yaxis"]["ticktext"][-1]
    assert address(test)["smallest"] == ["on"]


def test_values_are_drawn_over_time_where_they_are_numbers(small: Path) -> None:
    test = fine(opened(small, "panels", stream=LATENCIES, layout="values", decay="none"))
    (figure,) = charts(test)
    shares = np.array([[cell[1] for cell in row] for row in figure["data"][0]["customdata"]])
    last = [float(text.removesuffix("%")) for text in shares[:, -1]]
    assert sum(last) == pytest.approx(100.0, abs=0.1)
    assert "each column is its own events" in text_of(test)
    texts = fine(opened(small, "panels", stream=PAGES, layout="values"))
    assert "Values over time" not in str(texts.segmented_control) or texts.query_params["layout"] == ["values"]
    assert charts(texts)[0]["data"][0]["type"] == "scatter"  # texts have panels instead


def test_one_source_without_fields_says_what_to_do(small: Path) -> None:
    assert "There is nothing to set side by side" in text_of(fine(opened(small, "panels", stream=LATENCIES)))


def test_a_chosen_group_narrows_the_view(small: Path) -> None:
    test = fine(opened(small, "panels", stream=CALLS, aggregate="count", decay="none"))
    widget(test, "selectbox", "See one on Explore").set_value("north").run()
    assert address(test)["source"] == ["north"]
    assert "See one on Explore" in labelled(test, "selectbox") or not test.exception
