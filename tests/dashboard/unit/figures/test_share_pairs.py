"""Two shares beside each other: filled where they have changed beyond chance, hollow where that is open."""

from __future__ import annotations

from dashboard.figures.share_pairs import share_pairs
from sketches.changes import Change, Verdict


def test_each_side_has_its_share_and_its_whiskers() -> None:
    changes = [
        Change("place", "a", (0.5, 0.4, 0.6), (0.1, 0.05, 0.2), 0.2, Verdict.CHANGED, tie=False),
        Change("place", "b", (0.2, 0.1, 0.3), (0.15, 0.05, 0.2), -0.1, Verdict.UNCLEAR, tie=False),
    ]
    figure = share_pairs(["place = a", "place = b"], changes, ("marked time", "the rest"))
    inside, outside = figure.data
    assert (list(inside.x), list(outside.x)) == ([0.5, 0.2], [0.1, 0.15])
    assert [round(one, 12) for one in outside.error_x.array] == [0.1, 0.05]
    assert [round(one, 12) for one in inside.error_x.arrayminus] == [0.1, 0.1]
    assert list(inside.marker.symbol) == ["circle", "circle-open"]
    assert list(outside.marker.symbol) == ["diamond", "diamond-open"]
    assert list(figure.layout.yaxis.ticktext) == ["place = a", "place = b"]
    assert inside.customdata[0][-1] == "changed"
