"""Changes as dots with their limits, below each other beside a line at 0; hollow where they may be chance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import plotly.graph_objects as go

from dashboard.figures.bars import LONGEST_NAME
from dashboard.figures.frame import (
    COLOURS,
    GREY,
    MARGIN_WITHOUT_LEGEND,
    Axis,
    figure,
    name_axis,
    shortened,
    vertical_line,
)
from dashboard.wording import in_figure


class Changed(NamedTuple):
    """By how much something has changed, with limits, and whether that is beyond chance."""

    name: str
    value: float
    lower: float
    upper: float
    beyond: bool


def change_dots(changes: Sequence[Changed], axis: Axis) -> go.Figure:
    """One dot for each, the first at the top. Limits that go far beyond all dots are cut at the edge."""
    names = [in_figure(change.name) for change in changes]
    low, high = _ends(changes)
    colours = [COLOURS[0] if change.value >= 0 else COLOURS[1] for change in changes]
    dots = {
        "type": "scatter",
        "mode": "markers",
        "x": [change.value for change in changes],
        "y": list(range(len(changes))),
        "marker": {
            "size": 10,
            "color": colours,
            "symbol": ["circle" if change.beyond else "circle-open" for change in changes],
            "line": {"width": 2, "color": colours},
        },
        "error_x": {
            "type": "data",
            "symmetric": False,
            "array": [max(0.0, min(change.upper, 2 * high - low) - change.value) for change in changes],
            "arrayminus": [max(0.0, change.value - max(change.lower, 2 * low - high)) for change in changes],
            "color": GREY,
            "thickness": 1.6,
            "width": 5,
        },
        "customdata": [
            [name, *axis.hover_texts(*change[1:4]), "beyond chance" if change.beyond else "may be chance"]
            for change, name in zip(changes, names, strict=True)
        ],
        "hovertemplate": "%{customdata[0]}: <b>%{customdata[1]}</b> (%{customdata[2]} to %{customdata[3]}), "
        "%{customdata[4]}<extra></extra>",
        "showlegend": False,
    }
    return figure(
        [dots],
        max(170, 70 + 30 * len(changes)),
        x={**replace(axis, title=f"change, {axis.title}").settings, "range": [low, high], "nticks": 5},
        y={
            **name_axis([shortened(change.name, LONGEST_NAME) for change in changes]),
            "range": [len(changes) - 0.5, -0.5],
            "autorange": False,
        },
        shapes=[vertical_line(0, GREY, 1.2, "solid")],
        hovermode="closest",
        margin=MARGIN_WITHOUT_LEGEND,
    )


def _ends(changes: Sequence[Changed]) -> tuple[float, float]:
    """The ends of the axis: all dots and 0, with as much room again for limits where they need it."""
    values = [0.0, *(change.value for change in changes if math.isfinite(change.value))]
    low, high = min(values), max(values)
    limits = [end for change in changes for end in (change.lower, change.upper) if math.isfinite(end)]
    room = (high - low) or max((abs(end) for end in limits), default=0.0) or 1.0
    return max(low - room, min([low, *limits])) - 0.04 * room, min(high + room, max([high, *limits])) + 0.04 * room
