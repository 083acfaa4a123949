"""What all figures share: no label is HTML anywhere in any of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from dashboard.figures.bars import bars, ranking
from dashboard.figures.frame import Axis
from dashboard.figures.lines import along, over_time
from dashboard.figures.matrix import matrix
from dashboard.figures.ranks import slopes
from sketches.estimate import Item
from tests.dashboard.unit.figures.examples import AT, VALUE, line

BAD = '<b onmouseover="alert(1)">x</b>'


def texts(part: Any) -> Iterator[str]:
    """Every text in a figure's JSON, the names of keys too."""
    if isinstance(part, dict):
        for key, value in part.items():
            yield key
            yield from texts(value)
    elif isinstance(part, list):
        for value in part:
            yield from texts(value)
    elif isinstance(part, str):
        yield part


def test_no_label_is_html_anywhere_in_a_figure() -> None:
    """Titles, legends, ticks, notes and what the pointer shows: the only tags are our own."""
    gaps = np.array([False, True, False, False, False, False])
    items = [Item(BAD, 0.5, 0.4, 0.6), Item("b", 0.1, 0.0, 0.2)]
    found = [
        over_time([line(name=BAD, inside=gaps, reached=gaps), line(name="b")], Axis(BAD), BAD),
        over_time([line(name=BAD)], Axis(BAD), BAD, missing=[(AT[0], AT[1])], exact=(AT, VALUE)),
        along(line(name=BAD), Axis(BAD), Axis(BAD), mark=(1.0, 1.0, BAD)),
        ranking(items),
        slopes(items, items[::-1], (BAD, BAD)),
        bars([BAD, "b"], [1, 2], BAD, "%{x}"),
        matrix([BAD, "b"], np.eye(2), [["", ""], ["", ""]]),
    ]
    for figure in found:
        shape = json.loads(figure.to_json())
        shape["layout"].pop("template", None)
        seen = list(texts(shape))
        assert any("&lt;b onmouseover=" in text for text in seen)
        for text in seen:
            for ours in ("<extra></extra>", "<b>", "</b>"):
                text = text.replace(ours, "")  # noqa: PLW2901
            assert "<" not in text, text
