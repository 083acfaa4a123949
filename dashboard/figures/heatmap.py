"""Rows over time as a heatmap in even steps of colour; what may as well have another colour is faded and hatched."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import plotly.graph_objects as go

from dashboard.figures.frame import GREY, MARGIN_WITHOUT_LEGEND, Axis, Trace, faint, figure, shortened
from dashboard.wording import in_figure, measured
from sketches.arrays import Flags, Floats
from sketches.axis_classes import in_steps

STEPS: Final = ("#440154", "#46327e", "#365c8d", "#277f8e", "#1fa187", "#4ac16d", "#a0da39", "#fde725")
FADED: Final = 0.45
TOP: Final = 62  # pixels above: the buttons, and below them what hatches mean
LONGEST: Final = 22  # characters of the name of a row
MOST_NAMED: Final = 45  # rows whose names have room


def heatmap(
    names: Sequence[str], at: Sequence[Any], value: Floats, lower: Floats, upper: Floats, axis: Axis, zone: str
) -> go.Figure:
    """One row of cells for each name, the first at the top, a column for each time."""
    ends, step, uncertain = in_steps(value, lower, upper, len(STEPS))
    rows = list(range(len(names)))
    texts = [in_figure(name) for name in names]
    hover = [
        [[text, *axis.hover_texts(*numbers), ", hatched" if unsure else ""] for *numbers, unsure in row]
        for text, row in zip(texts, _cells(value, lower, upper, uncertain), strict=True)
    ]
    cells: Trace = {
        "type": "heatmap",
        "x": list(at),
        "y": rows,
        "z": np.where(uncertain, step + len(STEPS), step),
        "zmin": -0.5,
        "zmax": 2 * len(STEPS) - 0.5,
        "colorscale": _scale([*STEPS, *(faint(colour, FADED) for colour in STEPS)]),
        "showscale": False,
        "customdata": hover,
        "hovertemplate": "%{customdata[0]}, %{x}: <b>%{customdata[1]}</b> (%{customdata[2]} to %{customdata[3]})"
        "%{customdata[4]}<extra></extra>",
        "hoverongaps": False,
        "showlegend": False,
    }
    traces = [cells, *_hatches(at, uncertain), _legend(ends, axis)]
    named = [shortened(name, LONGEST) for name in names]
    every = max(1, -(-len(names) // MOST_NAMED))
    return figure(
        traces,
        TOP + max(200, 70 + min(22, max(12, 900 // max(len(names), 1))) * len(names)),
        x={"title": {"text": f"as of, {in_figure(zone)}"}, "showgrid": False},
        y={
            "tickmode": "array",
            "tickvals": rows[::every],
            "ticktext": named[::every],
            "range": [len(rows) - 0.5, -0.5],
            "showgrid": False,
        },
        hovermode="closest",
        showlegend=bool(uncertain.any()),
        margin={**MARGIN_WITHOUT_LEGEND, "t": TOP},
    )


def _cells(
    value: Floats, lower: Floats, upper: Floats, uncertain: Flags
) -> list[list[tuple[float, float, float, bool]]]:
    columns = (value.tolist(), lower.tolist(), upper.tolist(), uncertain.tolist())
    return [list(zip(*row, strict=True)) for row in zip(*columns, strict=True)]


def _scale(colours: Sequence[str]) -> list[list[Any]]:
    """A scale of plain steps."""
    return [[(at + end) / len(colours), colour] for at, colour in enumerate(colours) for end in (0, 1)]


def _hatches(at: Sequence[Any], uncertain: Flags) -> list[Trace]:
    """One stroke through each uncertain cell, all of them one line with gaps."""
    row, column = np.nonzero(uncertain)
    if not len(row) or len(at) < 2:
        return []
    before, after = _edges(at)
    x: list[Any] = []
    y: list[float | None] = []
    for line, place in zip(row.tolist(), column.tolist(), strict=True):
        x += [before[place], after[place], None]
        y += [line + 0.4, line - 0.4, None]
    return [
        {
            "type": "scatter",
            "x": x,
            "y": y,
            "mode": "lines",
            "line": {"color": GREY, "width": 1},
            "hoverinfo": "skip",
            "name": "hatched: its interval is wider than a step of colour",
        }
    ]


def _edges(at: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Where the cell of each time begins and ends: half way to its neighbours."""
    half = (at[1] - at[0]) / 2
    return [one - half for one in at], [one + half for one in at]


def _legend(ends: Floats, axis: Axis) -> Trace:
    """The steps of colour with their numbers, beside the chart: a point that nobody sees has the scale."""
    measure = "share" if axis.share else ""
    return {
        "type": "scatter",
        "x": [None],
        "y": [None],
        "mode": "markers",
        "showlegend": False,
        "hoverinfo": "skip",
        "marker": {
            "color": [0.0],
            "cmin": 0.0,
            "cmax": float(len(ends) - 1),
            "showscale": True,
            "colorscale": _scale(STEPS),
            "colorbar": {
                "tickmode": "array",
                "tickvals": list(range(len(ends))),
                "ticktext": [measured(float(f"{end:.3g}"), measure) for end in ends.tolist()],
                "title": {"text": in_figure(axis.title), "side": "right"},
                "thickness": 14,
                "outlinewidth": 0,
            },
        },
    }
