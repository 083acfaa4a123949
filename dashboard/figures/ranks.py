"""How the ranks of the most frequent values change from one decay to another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import plotly.graph_objects as go

from dashboard.figures.frame import COLOURS, GREY, figure, shortened, value_label
from dashboard.wording import in_figure
from sketches.estimate import Item

WIDTH: Final = 6  # pixels of a letter
LONGEST: Final = 18  # letters of a name


def slopes(before: Sequence[Item], after: Sequence[Item], names: tuple[str, str]) -> go.Figure:
    """One line for each value, from its rank under one decay to its rank under the other."""
    ranks = [{item.value: at + 1 for at, item in enumerate(items)} for items in (before, after)]
    every = list(dict.fromkeys([item.value for item in [*before, *after]]))
    out = max(len(before), len(after)) + 1
    traces, notes = [], []
    for value in every:
        left, right = (place.get(value, out) for place in ranks)
        listed = max(left, right) < out
        colour = GREY if left == right else (COLOURS[2] if right < left else COLOURS[1])
        text = in_figure(value_label(value))
        label = shortened(value_label(value), LONGEST)
        traces.append(
            {
                "type": "scatter",
                "x": [0, 1],
                "y": [left, right],
                "mode": "lines+markers",
                "cliponaxis": False,
                "showlegend": False,
                "line": {"color": colour, "width": 2 if listed else 1, "dash": "solid" if listed else "dot"},
                "marker": {"size": 8, "color": colour},
                "opacity": 1 if listed else 0.45,
                "hovertemplate": f"{text}: {_rank(left, out)} → {_rank(right, out)}<extra></extra>",
            }
        )
        notes += [
            {"x": x, "y": rank, "text": told, "showarrow": False, "xanchor": anchor, "xshift": shift}
            for x, rank, anchor, shift, told in (
                (0, left, "right", -10, f"{label}  <b>{left}</b>"),
                (1, right, "left", 10, f"<b>{right}</b>  {label}"),
            )
            if rank < out
        ]
    still = {"showgrid": False, "tickmode": "array"}
    shown = [shortened(value_label(item.value), LONGEST) for item in [*before, *after]]
    beside = 36 + max(map(len, shown), default=0) * WIDTH  # the margins hold the names
    return figure(
        traces,
        max(240, 70 + 30 * out),
        x={
            **still,
            "range": [-0.04, 1.04],
            "tickvals": [0, 1],
            "ticktext": [in_figure(name) for name in names],
            "side": "top",
            "tickangle": 0,
        },
        y={
            **still,
            "range": [out + 0.5, 0.5],
            "tickvals": [out],
            "ticktext": ["not listed"],
        },
        room=(beside, 10),
        margin={"l": beside, "r": beside, "t": 62, "b": 10},
        annotations=notes,
        hovermode="closest",
    )


def _rank(rank: int, out: int) -> str:
    return f"rank {rank}" if rank < out else "not listed"
