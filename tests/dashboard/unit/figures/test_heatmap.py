"""A heatmap tells how sure it is: a cell whose interval is wider than a step of colour is faded and hatched."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np

from dashboard.figures.frame import Axis
from dashboard.figures.heatmap import STEPS, heatmap

AT = [datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=hour) for hour in range(3)]
VALUE = np.array([[0.0, 40.0, 80.0], [np.nan, 20.0, 60.0]])


def test_uncertain_cells_have_the_faded_colour_and_one_stroke_each() -> None:
    sure = heatmap(["a", "b"], AT, VALUE, VALUE, VALUE, Axis("calls"), "UTC")
    assert [trace.type for trace in sure.data] == ["heatmap", "scatter"]
    np.testing.assert_array_equal(sure.data[0].z, [[0, 4, 7], [np.nan, 2, 6]])
    off = np.array([[0.0, 20.0, 1.0], [5.0, 1.0, 1.0]])
    cells, strokes, _ = heatmap(["a", "b"], AT, VALUE, VALUE - off, VALUE + off, Axis("calls"), "UTC").data
    np.testing.assert_array_equal(cells.z, [[0, 4 + len(STEPS), 7], [np.nan, 2, 6]])
    half = timedelta(minutes=30)
    assert list(strokes.x) == [AT[1] - half, AT[1] + half, None]
    assert list(strokes.y) == [0.4, -0.4, None]
    assert cells.customdata[0][1][1:] == ("40", "20", "60", ", hatched") or list(cells.customdata[0][1][1:]) == [
        *("40", "20", "60", ", hatched")
    ]


def test_the_first_row_is_at_the_top_and_colours_have_their_numbers() -> None:
    figure = heatmap(["a <b>", "c"], AT, VALUE, VALUE, VALUE, Axis("calls"), "UTC")
    assert list(figure.layout.yaxis.ticktext) == ["a &lt;b&gt;", "c"]
    assert list(figure.layout.yaxis.range) == [1.5, -0.5]
    bar = figure.data[-1].marker.colorbar
    assert (bar.title.text, bar.ticktext[0], bar.ticktext[-1]) == ("calls", "0", "80")
    assert len(bar.ticktext) == len(STEPS) + 1
