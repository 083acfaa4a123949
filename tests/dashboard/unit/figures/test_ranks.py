"""Ranks under two decays are lines from left to right."""

from __future__ import annotations

from dashboard.figures.ranks import slopes
from sketches.estimate import Item
from tests.dashboard.unit.figures.examples import ITEMS


def test_slopes_go_from_rank_to_rank() -> None:
    """What is not listed on one side comes from below the list, faint, and has no label there."""
    before, after = ITEMS, (ITEMS[1], ITEMS[0], Item("new", 0.1, 0.0, 0.2))
    figure = slopes(before, after, ("then", "now"))
    assert [list(trace.y) for trace in figure.data] == [[1, 2], [2, 1], [3, 4], [4, 3]]
    assert [trace.line.dash for trace in figure.data] == ["solid", "solid", "dot", "dot"]
    labels = [(note.x, note.y, note.text) for note in figure.layout.annotations]
    assert labels == [(0, 1, "a"), (1, 2, "a"), (0, 2, "12.5"), (1, 1, "12.5"), (0, 3, "3"), (1, 3, "new")]
    assert list(figure.layout.xaxis.ticktext) == ["then", "now"]
    assert "rank 1 → rank 2" in figure.data[0].hovertemplate
    assert "not listed" in figure.data[2].hovertemplate
