"""The page Distribution: a threshold is marked, and the share above it is the store's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from streamlit.testing.v1 import AppTest

from sketches.question import Question
from store import Store
from tests.support.dashboard_stores import CALLS, LATENCIES
from tests.support.pages import address, charts, column, fine, opened, store_of, text_of, widget, written


def test_a_distribution_marks_its_threshold_and_says_the_share_above(small: Path) -> None:
    test = fine(opened(small, "distribution", decay="none"))
    assert not test.metric
    widget(test, "text_input", "Threshold τ").set_value("500").run()
    share = store_of(small).ask(CALLS, Question("selectivity", tau=500.0)).estimate
    assert fine(test).metric[0].value == written(share, "share")
    assert address(test)["tau"] == ["500"]
    widget(test, "text_input", "Threshold τ").set_value("q0.9").run()
    assert fine(test).metric[0].value != written(share, "share")


def test_a_stream_without_weights_opens_on_a_curve_that_can_be_drawn(small: Path) -> None:
    """Its sums would be of the value, of which no curve is drawn."""
    test = fine(opened(small, "distribution", stream=LATENCIES, decay="none"))
    assert not test.warning
    assert len(charts(test)) == 2
    assert "**The mean of latency**" in text_of(test)


def test_curves_are_drawn_by_a_family_that_has_them(with_ecm: Path) -> None:
    """Also where another one is planned for single quantiles."""
    single = Store(with_ecm).ask(CALLS, Question("median", "window:10m"))
    assert single.estimate.family == "ecm"
    curve, provenance = Store(with_ecm).quantile_curve(CALLS, Question("median", "window:10m"), [0.25, 0.5, 0.75])
    assert (len(curve.value), provenance.family) == (3, "sample")
    test = fine(opened(with_ecm, "distribution", decay="window:10m"))
    assert not test.warning
    assert not test.error
    assert len(charts(test)) == 2
    assert len(column(charts(test)[0]["data"][-1]["y"])) > 50


def test_the_band_says_whether_it_holds_everywhere_at_once(with_ecm: Path) -> None:
    """For all points at once it is wider, and the page says which of the two it draws."""
    test = fine(opened(with_ecm, "distribution", decay="none"))
    assert any("by itself at 90%" in one.value for one in test.caption)
    each = widths(test)
    test = fine(opened(with_ecm, "distribution", decay="none", band="all"))
    assert any("whole exact curve is inside the band at 90%" in one.value for one in test.caption)
    assert widths(test) > 1.2 * each


def widths(test: AppTest) -> float:
    """What the band of the first figure encloses, as the area of its polygons."""
    area = 0.0
    for trace in charts(test)[0]["data"]:
        if trace.get("fill") == "toself":
            x, y = np.array(column(trace["x"]), float), np.array(column(trace["y"]), float)
            area += 0.5 * abs(float(np.dot(x, np.roll(y, 1)) - np.dot(y, np.roll(x, 1))))
    return area
