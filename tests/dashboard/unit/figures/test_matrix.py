"""A square of shares has a number in each field, and none where nothing is known."""

from __future__ import annotations

import numpy as np

from dashboard.figures.matrix import matrix


def test_each_field_has_its_share_and_its_text() -> None:
    """Rounded in the field, whole for the pointer; the first name is at the top and at the left."""
    values = np.array([[1.0, 0.256], [0.256, np.nan]])
    figure = matrix(["a", "b"], values, [["a and a", "a and b"], ["b and a", "b and b"]])
    (square,) = figure.data
    assert [list(row) for row in square.text] == [["100%", "26%"], ["26%", ""]]
    assert [list(row) for row in square.customdata] == [["a and a", "a and b"], ["b and a", "b and b"]]
    assert (square.zmin, square.zmax) == (0.0, 1.0)
    assert list(figure.layout.yaxis.ticktext) == list(figure.layout.xaxis.ticktext) == ["a", "b"]
    assert (figure.layout.yaxis.autorange, figure.layout.xaxis.autorange) == ("reversed", True)
