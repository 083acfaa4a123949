"""Horizontal bars: shares of the most frequent values with whiskers, and plain numbers by name."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from dashboard.figures.frame import (
    COLOURS,
    GREY,
    MARGIN_WITHOUT_LEGEND,
    SHARE,
    faint,
    figure,
    name_axis,
    value_label,
)
from dashboard.wording import in_figure
from sketches.estimate import Item


def ranking(items: Sequence[Item], height: int = 0) -> go.Figure:
    """The shares of the most frequent values with whiskers, the largest at the top."""
    names = [in_figure(value_label(item.value)) for item in items]
    bar = {
        "type": "bar",
        "x": [item.estimate for item in items],
        "y": list(range(len(items))),
        "orientation": "h",
        "marker": {"color": faint(COLOURS[0], 0.75)},
        "error_x": {
            "type": "data",
            "symmetric": False,
            "array": [item.upper - item.estimate for item in items],
            "arrayminus": [item.estimate - item.lower for item in items],
            "color": GREY,
            "thickness": 1.6,
            "width": 5,
        },
        "customdata": [
            [name, *SHARE.hover_texts(item.estimate, item.lower, item.upper)]
            for item, name in zip(items, names, strict=True)
        ],
        "hovertemplate": "%{customdata[0]}: <b>%{customdata[1]}</b> (%{customdata[2]} to %{customdata[3]})"
        "<extra></extra>",
        "showlegend": False,
    }
    return figure(
        [bar],
        height or max(220, 60 + 30 * len(items)),
        x={**SHARE.settings, "rangemode": "tozero"},
        y=name_axis(names),
        hovermode="closest",
        bargap=0.35,
        margin=MARGIN_WITHOUT_LEGEND,
    )


def bars(names: Sequence[str], values: Sequence[float], title: str, hover: str, height: int = 0) -> go.Figure:
    """One bar for each name; `hover` is what the pointer shows."""
    texts = [in_figure(name) for name in names]
    bar = {
        "type": "bar",
        "x": list(values),
        "y": list(range(len(names))),
        "orientation": "h",
        "marker": {"color": faint(COLOURS[0], 0.75)},
        "customdata": texts,
        "hovertemplate": f"%{{customdata}}: {hover}<extra></extra>",
    }
    return figure(
        [bar],
        height or max(160, 70 + 26 * len(names)),
        x={"title": {"text": in_figure(title)}, "rangemode": "tozero"},
        y=name_axis(texts),
        showlegend=False,
        hovermode="closest",
        margin=MARGIN_WITHOUT_LEGEND,
    )
