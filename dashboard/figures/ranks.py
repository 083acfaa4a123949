"""How the ranks of the most frequent values change from one decay to another."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from dashboard.figures.frame import COLOURS, GREY, figure, value_label
from dashboard.wording import in_figure
from sketches.estimate import Item


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
        traces.append(
            {
                "type": "scatter",
                "x": [0, 1],
                "y": [left, right],
                "mode": "lines+markers",
                "showlegend": False,
                "line": {"color": colour, "width": 2 if listed else 1, "dash": "solid" if listed else "dot"},
                "marker": {"size": 8, "color": colour},
                "opacity": 1 if listed else 0.45,
                "hovertemplate": f"{text}: {_rank(left, out)} → {_rank(right, out)}<extra></extra>",
            }
        )
        notes += [
            {"x": x, "y": rank, "text": text, "showarrow": False, "xanchor": anchor, "xshift": shift}
            for x, rank, anchor, shift in ((0, left, "right", -10), (1, right, "left", 10))
            if rank < out
        ]
    still = {"showgrid": False, "tickmode": "array"}
    return figure(
        traces,
        max(240, 70 + 30 * out),
        x={
            **still,
            "range": [-0.55, 1.55],
            "tickvals": [0, 1],
            "ticktext": [in_figure(name) for name in names],
            "side": "top",
        },
        y={
            **still,
            "range": [out + 0.5, 0.5],
            "tickvals": list(range(1, out + 1)),
            "ticktext": [*map(str, range(1, out)), "not listed"],
        },
        annotations=notes,
        hovermode="closest",
    )


def _rank(rank: int, out: int) -> str:
    return f"rank {rank}" if rank < out else "not listed"
