"""Bars have whiskers from bound to bound."""

from __future__ import annotations

import numpy as np
import pytest

from dashboard.figures.bars import bars, group_bars, ranking
from sketches.estimate import Item
from store.serving.split_answer import Place
from tests.dashboard.unit.figures.examples import AXIS, ITEMS


def test_a_ranking_has_whiskers_from_bound_to_bound() -> None:
    """And the labels beside the bars, the largest at the top."""
    figure = ranking(ITEMS)
    (drawn,) = figure.data
    assert list(drawn.x) == [0.5, 0.2, 0.1]
    assert np.add(drawn.x, drawn.error_x.array).tolist() == pytest.approx([0.65, 0.25, 0.1])
    assert np.subtract(drawn.x, drawn.error_x.arrayminus).tolist() == pytest.approx([0.4, 0.2, 0.0])
    assert list(figure.layout.yaxis.ticktext) == ["a", "12.5", "3"]
    assert figure.layout.yaxis.autorange == "reversed"


def test_the_pointer_reads_limits_that_are_rounded_outward() -> None:
    """Beside the share."""
    (drawn,) = ranking([Item("a", 1 / 3, 1 / 3 - 0.01, 1 / 3 + 0.01)]).data
    assert list(drawn.customdata[0]) == ["a", "33.3%", "32.3%", "34.4%"]
    assert "%{customdata[1]}</b> (%{customdata[2]} to %{customdata[3]})" in drawn.hovertemplate


def test_plain_bars_stand_beside_their_names() -> None:
    """In the order given, with what the pointer shows."""
    figure = bars(["a", "b"], [2.0, 1.0], "lag, h", "%{x} h")
    (drawn,) = figure.data
    assert (list(drawn.x), list(drawn.customdata)) == ([2.0, 1.0], ["a", "b"])
    assert drawn.hovertemplate == "%{customdata}: %{x} h<extra></extra>"
    assert list(figure.layout.yaxis.ticktext) == ["a", "b"]
    assert figure.layout.xaxis.title.text == "lag, h"


def test_bars_of_groups_follow_the_estimates() -> None:
    """A long whisker leaves the picture, a long name is cut beside its bar, a tie is hatched; hover has it all."""
    few = [Place("a", 10.0, 9.0, 11.0, False), Place("b" * 50, 5.0, 1.0, 900.0, True)]
    figure = group_bars(few, AXIS)
    assert figure.layout.xaxis.range == (0.0, 15.0)
    assert list(figure.data[0].marker.pattern.shape) == ["", "/"]
    assert figure.layout.yaxis.ticktext[1] == "b" * 11 + "…" + "b" * 10
    assert "900" in figure.data[0].customdata[1]
    assert figure.data[0].customdata[1][5] == ", a tie"
    assert group_bars(few[:1], AXIS).layout.xaxis.range is None
