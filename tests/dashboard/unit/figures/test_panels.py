"""Small multiples: a panel for each group, all on the same axes."""

from __future__ import annotations

import numpy as np

from dashboard.figures.frame import Axis
from dashboard.figures.panels import panels
from sketches.estimate import SplitSeries


def series(value: list[list[float]], off: float) -> SplitSeries:
    column = np.array(value)
    names = tuple(f"g{number}" for number in range(len(column)))
    moments = np.arange(column.shape[1], dtype=np.int64)
    return SplitSeries(names, moments, column, column - off, column + off, 0.95, "", "sample")


def test_all_panels_have_one_scale_and_their_own_place() -> None:
    found = series([[0.0, 10.0], [100.0, 90.0], [50.0, np.nan]], 2.0)
    figure = panels(found.names, found.as_of.tolist(), found, Axis("calls"), 2)
    axes = [figure.layout[f"yaxis{key}"] for key in ("", "2", "3")]
    assert len({tuple(axis.range) for axis in axes}) == 1
    assert axes[0].range[0] == 0.0
    assert axes[0].range[1] >= 100.0
    assert axes[0].domain == axes[1].domain
    assert axes[2].domain[1] < axes[0].domain[0]  # in the next row
    assert [figure.layout[f"xaxis{key}"].matches for key in ("", "2", "3")] == [None, "x", "x"]
    assert [note.text for note in figure.layout.annotations] == ["<b>g0</b>", "<b>g1</b>", "<b>g2</b>"]
    assert [trace.xaxis for trace in figure.data] == ["x", "x", "x2", "x2", "x3", "x3"]


def test_a_few_wide_intervals_do_not_flatten_the_lines() -> None:
    found = series([[10.0, 20.0], [15.0, 12.0]], 1e6)
    low, high = panels(found.names, [0, 1], found, Axis("calls"), 4).layout.yaxis.range
    assert low >= 0.0
    assert high < 30.0


def test_exact_answers_have_no_band() -> None:
    found = series([[1.0, 2.0]], 0.0)
    assert len(panels(found.names, [0, 1], found, Axis("calls"), 4).data) == 1
