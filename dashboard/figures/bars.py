"""Horizontal bars: shares of the most frequent values with whiskers, and plain numbers by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import plotly.graph_objects as go

from dashboard.figures.frame import (
    COLOURS,
    GREY,
    MARGIN_WITHOUT_LEGEND,
    SHARE,
    Axis,
    faint,
    figure,
    name_axis,
    shortened,
    value_label,
)
from dashboard.wording import in_figure
from sketches.estimate import Item
from store.serving.split_answer import Place

LONGEST_NAME: Final = 22  # characters beside a bar
NARROW_NAME: Final = 14


def ranking(items: Sequence[Item], height: int = 0, *, narrow: bool = False) -> go.Figure:
    """The shares of the most frequent values with whiskers, the largest at the top; `narrow`: beside something else."""
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
        x={**SHARE.settings, "rangemode": "tozero", **({"nticks": 3, "tickangle": 0} if narrow else {})},
        y=name_axis([shortened(value_label(item.value), NARROW_NAME) for item in items] if narrow else names),
        hovermode="closest",
        bargap=0.35,
        margin=MARGIN_WITHOUT_LEGEND,
    )


def group_bars(places: Sequence[Place], axis: Axis, *, alike: bool = False) -> go.Figure:
    """The answers of groups with whiskers, in the colours of their lines or all `alike`; ties are hatched."""
    names = [in_figure(place.name) for place in places]
    colours = [COLOURS[0 if alike else at % len(COLOURS)] for at in range(len(places))]
    bar = {
        "type": "bar",
        "x": [place.estimate for place in places],
        "y": list(range(len(places))),
        "orientation": "h",
        "marker": {
            "color": [faint(colour, 0.7) for colour in colours],
            "pattern": {
                "shape": ["/" if place.tie else "" for place in places],
                "fillmode": "overlay",
                "fgcolor": GREY,
                "fgopacity": 0.7,
                "size": 5,
                "solidity": 0.15,
            },
        },
        "error_x": {
            "type": "data",
            "symmetric": False,
            "array": [max(0.0, place.upper - place.estimate) for place in places],
            "arrayminus": [max(0.0, place.estimate - place.lower) for place in places],
            "color": GREY,
            "thickness": 1.6,
            "width": 5,
        },
        "customdata": [
            [name, *axis.hover_texts(*place[1:4]), axis.half_width(*place[1:4]), ", a tie" if place.tie else ""]
            for place, name in zip(places, names, strict=True)
        ],
        "hovertemplate": "%{customdata[0]}: <b>%{customdata[1]}</b> %{customdata[4]} (%{customdata[2]} to "
        "%{customdata[3]})%{customdata[5]}<extra></extra>",
        "showlegend": False,
    }
    return figure(
        [bar],
        max(170, 70 + 30 * len(places)),
        x={**axis.settings, "rangemode": "tozero", **_range(places), "nticks": 5},
        y=name_axis([shortened(place.name, LONGEST_NAME) for place in places]),
        hovermode="closest",
        bargap=0.35,
        margin=MARGIN_WITHOUT_LEGEND,
    )


def _range(places: Sequence[Place]) -> dict[str, Any]:
    """The ends of the axis, which follow the estimates: a few very long whiskers go on beyond the edge."""
    ends = [0.0, *(place.estimate for place in places)]
    room = 0.5 * (max(ends) - min(ends))
    low, high = min(ends) - (room if min(ends) < 0 else 0.0), max(ends) + room
    reach = [place.upper for place in places], [place.lower for place in places]
    if room <= 0.0 or (max(reach[0]) <= high and (min(ends) >= 0 or min(reach[1]) >= low)):
        return {}
    return {"range": [low, high]}


def bars(
    names: Sequence[str], values: Sequence[float], title: str, hover: str, height: int = 0, marked: Sequence[bool] = ()
) -> go.Figure:
    """One bar for each name; `hover` is what the pointer shows. Those that are `marked` have another colour."""
    colours = [COLOURS[1] if there else COLOURS[0] for there in marked] or [COLOURS[0]] * len(names)
    texts = [in_figure(name) for name in names]
    bar = {
        "type": "bar",
        "x": list(values),
        "y": list(range(len(names))),
        "orientation": "h",
        "marker": {"color": [faint(colour, 0.75) for colour in colours]},
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
