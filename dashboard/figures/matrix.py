"""A square of shares: how alike each two of several sources are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from dashboard.figures.frame import COLOURS, MARGIN_WITHOUT_LEGEND, faint, figure, name_axis
from dashboard.wording import in_figure
from sketches.arrays import Floats


def matrix(names: Sequence[str], values: Floats, hover: Sequence[Sequence[str]]) -> go.Figure:
    """Each name against each, coloured by its share; NaN where nothing is known. `hover` is what the pointer shows."""
    texts = [in_figure(name) for name in names]
    places = list(range(len(names)))
    square = {
        "type": "heatmap",
        "x": places,
        "y": places,
        "z": values,
        "zmin": 0.0,
        "zmax": 1.0,
        "colorscale": [[0.0, faint(COLOURS[0], 0.05)], [1.0, faint(COLOURS[0], 0.85)]],
        "text": [[f"{100 * value:.0f}%" if np.isfinite(value) else "" for value in row] for row in values.tolist()],
        "texttemplate": "%{text}",
        "customdata": [list(row) for row in hover],
        "hovertemplate": "%{customdata}<extra></extra>",
        "showscale": False,
        "xgap": 2,
        "ygap": 2,
        "showlegend": False,
    }
    return figure(
        [square],
        max(240, 90 + 44 * len(names)),
        x={**name_axis(texts), "autorange": True, "side": "bottom"},
        y=name_axis(texts),
        hovermode="closest",
        margin=MARGIN_WITHOUT_LEGEND,
    )
