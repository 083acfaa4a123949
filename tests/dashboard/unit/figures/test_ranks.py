"""Ranks under two decays are lines from left to right."""

from __future__ import annotations

import re

from dashboard.figures.ranks import slopes
from sketches.estimate import Item
from tests.dashboard.unit.figures.examples import ITEMS


def test_slopes_go_from_rank_to_rank() -> None:
    """What is not listed on one side comes from below the list, faint, and has no label there."""
    before, after = ITEMS, (ITEMS[1], ITEMS[0], Item("new", 0.1, 0.0, 0.2))
    figure = slopes(before, after, ("then", "now"))
    assert [list(trace.y) for trace in figure.data] == [[1, 2], [2, 1], [3, 4], [4, 3]]
    assert [trace.line.dash for trace in figure.data] == ["solid", "solid", "dot", "dot"]
    labels = [(note.x, note.y, re.sub("</?b>", "", note.text).split()) for note in figure.layout.annotations]
    assert labels == [
        *((0, 1, ["a", "1"]), (1, 2, ["2", "a"]), (0, 2, ["12.5", "2"]), (1, 1, ["1", "12.5"])),
        *((0, 3, ["3", "3"]), (1, 3, ["3", "new"])),
    ]
    assert list(figure.layout.xaxis.ticktext) == ["then", "now"]
    assert "rank 1 → rank 2" in figure.data[0].hovertemplate
    assert "not listed" in figure.data[2].hovertemplate


def test_long_names_are_cut_and_the_margins_hold_them() -> None:
    """Of a long key its beginning is shown, the pointer has all of it; the rank stands beside it, not on it."""
    long = Item("/blog/2026/" + "x" * 200, 0.5, 0.4, 0.6)
    figure = slopes((long,), (ITEMS[0], long), ("then", "now"))
    shown = max((note.text for note in figure.layout.annotations), key=len)
    assert len(re.sub("</?b>", "", shown)) <= 22
    assert min(figure.layout.margin.l, figure.layout.margin.r) >= 18 * 6
    assert list(figure.layout.yaxis.ticktext) == ["not listed"]
    assert "/blog/2026/" + "x" * 20 in figure.data[0].hovertemplate
