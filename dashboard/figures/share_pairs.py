"""Two shares of each group beside each other with their intervals: in a marked time and in another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import plotly.graph_objects as go

from dashboard.figures.frame import COLOURS, GREY, SHARE, Trace, figure, name_axis, shortened
from dashboard.wording import in_figure
from sketches.changes import Change, Verdict

LONGEST: Final = 30  # characters beside a pair
SIDES: Final = (("inside", COLOURS[1], -0.16), ("outside", COLOURS[0], 0.16))


def share_pairs(names: Sequence[str], changes: Sequence[Change], told: tuple[str, str]) -> go.Figure:
    """Two dots with whiskers for each change, the first at the top; hollow where chance may have moved it. `told` is
    what the two sides are called."""
    texts = [in_figure(name) for name in names]
    traces = [
        _side(changes, texts, side, colour, off, title) for (side, colour, off), title in zip(SIDES, told, strict=True)
    ]
    short = [shortened(name, LONGEST) for name in names]
    return figure(
        traces,
        max(200, 110 + 34 * len(changes)),
        x={**SHARE.settings, "title": {"text": "share"}, "rangemode": "tozero", "nticks": 6},
        y={**name_axis(short), "range": [len(short) - 0.5, -0.5], "autorange": False},
        hovermode="closest",
        margin={"l": 10, "r": 10, "t": 84, "b": 10},
    )


def _side(changes: Sequence[Change], texts: Sequence[str], side: str, colour: str, off: float, title: str) -> Trace:
    limits = [getattr(one, side) for one in changes]
    changed = [one.verdict is Verdict.CHANGED for one in changes]
    return {
        "type": "scatter",
        "x": [value for value, _, _ in limits],
        "y": [at + off for at in range(len(changes))],
        "mode": "markers",
        "name": in_figure(title),
        "marker": {
            "color": colour,
            "size": 10,
            "symbol": [("circle" if side == "inside" else "diamond") + ("" if sure else "-open") for sure in changed],
        },
        "error_x": {
            "type": "data",
            "symmetric": False,
            "array": [max(0.0, upper - value) for value, _, upper in limits],
            "arrayminus": [max(0.0, value - lower) for value, lower, _ in limits],
            "color": GREY,
            "thickness": 1.6,
            "width": 4,
        },
        "customdata": [
            [text, in_figure(title), *SHARE.hover_texts(*three), one.verdict.value]
            for text, three, one in zip(texts, limits, changes, strict=True)
        ],
        "hovertemplate": "%{customdata[0]}, %{customdata[1]}: <b>%{customdata[2]}</b> (%{customdata[3]} to "
        "%{customdata[4]}), %{customdata[5]}<extra></extra>",
    }
