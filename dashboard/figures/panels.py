"""Small multiples: one small chart for each group, all on the same axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import plotly.graph_objects as go

from dashboard.figures.frame import COLOURS, GRID, Axis, Trace, faint, shortened
from dashboard.figures.lines import edges_of, polygons
from dashboard.wording import in_figure
from sketches.arrays import Floats
from sketches.estimate import SplitSeries

HEIGHT: Final = 132  # pixels of a panel with its title
GAP: Final = 26  # pixels between rows, for titles
TOP: Final = 34  # pixels for the buttons
LONGEST: Final = 26  # characters of a title


def panels(names: Sequence[str], at: Sequence[Any], series: SplitSeries, axis: Axis, columns: int) -> go.Figure:
    """A panel for each group with its line and its band, the first at the top left."""
    columns = max(1, min(columns, len(names)))
    rows = -(-len(names) // columns)
    height = rows * HEIGHT + 40 + TOP
    times = [one.isoformat() if hasattr(one, "isoformat") else one for one in at]
    ends = edges_of(series.value, series.lower, series.upper)
    traces: list[Trace] = []
    axes: dict[str, Any] = {}
    notes = []
    for number, name in enumerate(names):
        row, column = divmod(number, columns)
        key = "" if number == 0 else str(number + 1)
        text = in_figure(name)
        traces += _panel(text, times, (series.value[number], series.lower[number], series.upper[number]), axis, key)
        left, right = column / columns, (column + 1) / columns - (0.02 if columns > 1 else 0.0)
        top = 1.0 - row / rows
        bottom = top - 1 / rows + GAP / (2 * height)
        axes |= _axes(key, (left, right), (bottom, top - GAP / height), ends, axis)
        axes[f"xaxis{key}"]["showticklabels"] = number + columns >= len(names)
        axes[f"yaxis{key}"]["showticklabels"] = column == 0
        title = shortened(name, LONGEST)
        place = {"x": left, "y": top - GAP / height, "xref": "paper", "yref": "paper", "xanchor": "left"}
        shown = {"text": f"<b>{title}</b>", "showarrow": False, "yanchor": "bottom", "font": {"size": 12}}
        notes.append(place | shown)
    margin = {"l": 64, "r": 8, "t": TOP, "b": 40}
    still = {"showlegend": False, "hovermode": "x", "dragmode": False}
    return go.Figure(
        {"data": traces, "layout": {"height": height, "margin": margin, "annotations": notes} | still | axes}
    )


def _axes(
    key: str, across: tuple[float, float], down: tuple[float, float], ends: tuple[float, float], axis: Axis
) -> dict[str, Any]:
    """Both axes of a panel: times go together with those of the first one, answers have the same ends everywhere."""
    quiet = {"gridcolor": GRID, "zeroline": False}
    form = {"tickformat": ".3~%"} if axis.share else {}
    return {
        f"xaxis{key}": {"domain": across, "anchor": f"y{key}", "matches": "x" if key else None, "nticks": 3, **quiet},
        f"yaxis{key}": {"domain": down, "anchor": f"x{key}", "range": ends, "nticks": 4, **quiet, **form},
    }


def _panel(text: str, times: Sequence[Any], limits: tuple[Floats, Floats, Floats], axis: Axis, key: str) -> list[Trace]:
    value, lower, upper = limits
    shared: Trace = {"type": "scatter", "x": list(times), "xaxis": f"x{key}", "yaxis": f"y{key}"}
    known = np.isfinite(value) & np.isfinite(lower) & np.isfinite(upper)
    band: list[Trace] = []
    if known.any() and not np.array_equal(lower, upper, equal_nan=True):
        band = [
            {
                **shared,
                **polygons(times, lower, upper, known),
                "mode": "lines",
                "line": {"width": 0},
                "fill": "toself",
                "fillcolor": faint(COLOURS[0], 0.14),
                "hoverinfo": "skip",
            }
        ]
    rows = zip(value.tolist(), lower.tolist(), upper.tolist(), strict=True)
    line = {
        **shared,
        "y": value,
        "mode": "lines",
        "line": {"color": COLOURS[0], "width": 1.6},
        "customdata": [[text, *axis.hover_texts(*numbers)] for numbers in rows],
        "hovertemplate": "%{customdata[0]}: <b>%{customdata[1]}</b> (%{customdata[2]} to %{customdata[3]})"
        "<extra></extra>",
    }
    return [*band, line]
