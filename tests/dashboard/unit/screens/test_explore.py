"""The page Explore: the chart ends at the number, and shows what the view asks for."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from sketches.question import Question
from tests.support.dashboard_stores import CALLS, START
from tests.support.pages import address, charts, column, fine, opened, store_of, text_of, widget
from tests.support.polygons import bands_of


def test_the_chart_ends_at_the_number(small: Path) -> None:
    """The last point of the big chart, with its band around it."""
    test = fine(opened(small, aggregate="sum", decay="window:10m"))
    chart = max(charts(test), key=lambda one: len(one["data"]))
    ((_, lower, upper),) = bands_of(chart)[0]
    value = column(chart["data"][1]["y"])
    answer = store_of(small).ask(CALLS, Question("sum", "window:10m")).estimate
    assert value[-1] == pytest.approx(answer.value, rel=1e-3)
    assert all(low <= at <= high for low, at, high in zip(lower, value, upper, strict=True))


def big(test: Any) -> dict[str, Any]:
    """The chart over time."""
    (found,) = [one for one in charts(test) if "as of" in str(one["layout"]["xaxis"]["title"])]
    return dict(found)


def test_the_rise_while_the_decay_fills_up_is_marked(small: Path) -> None:
    """In the chart, below it, and in the card if the number lies there; means and running totals have none."""
    test = fine(opened(small, aggregate="sum", decay="window:10m"))
    assert [one["text"] for one in big(test)["layout"]["annotations"]] == ["filling up"]
    (stripe,) = big(test)["layout"]["shapes"]
    seconds = [datetime.fromisoformat(stripe[end]).timestamp() for end in ("x0", "x1")]
    assert seconds[1] - seconds[0] == 570  # 95% of ten minutes
    assert text_of(test).count("still fills up") == 1
    early = fine(opened(small, aggregate="sum", decay="window:10m", as_of=str(START + 300)))
    assert text_of(early).count("still fills up") == 2
    for other in ({"aggregate": "mean", "decay": "window:10m"}, {"decay": "none"}, {"aggregate": "rate"}):
        assert "still fills up" not in text_of(fine(opened(small, **({"aggregate": "sum"} | other))))


def test_the_limits_in_percent_of_the_estimate(small: Path) -> None:
    """A switch above the chart, and in the address; the band lies around 0."""
    test = fine(opened(small, aggregate="sum", decay="window:10m"))
    ((_, lower, upper),) = bands_of(big(test))[0]
    value = column(big(test)["data"][1]["y"])
    widget(test, "button_group", "Chart").set_value("error").run()
    assert address(fine(test))["chart"] == ["error"]
    ((_, below, above),) = bands_of(big(test))[0]
    known = [at for at, number in enumerate(value) if number]
    assert below == pytest.approx([100 * (lower[at] / value[at] - 1) for at in known])
    assert above == pytest.approx([100 * (upper[at] / value[at] - 1) for at in known])
    low, high = big(test)["layout"]["yaxis"].get("range", (-1, 1))
    assert low < 0 < high
    assert "% of the estimate" in big(test)["layout"]["yaxis"]["title"]["text"]


def test_a_window_is_not_said_to_fade(small: Path) -> None:
    """All that is younger counts whole, so there is no age at which an event counts half."""
    window = text_of(fine(opened(small, decay="window:10m")))
    assert "Only the last 10 min counts." in window
    assert "counts half" not in window
    assert "An event counts half after 10 min." in text_of(fine(opened(small, decay="exp:half_life=10m")))
