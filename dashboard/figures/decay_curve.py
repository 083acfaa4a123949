"""A decay over age, small enough for the side of a page."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import plotly.graph_objects as go

from dashboard.figures.frame import COLOURS, GREY, faint, figure, vertical_line
from sketches.arrays import Floats
from sketches.decay import Decay

ROOM: Final = 44, 42  # pixels, for shares and for ages with a title


def decay_points(decay: Decay) -> tuple[Floats, Floats]:
    """Ages and weights that show a decay until little is left of the weight, with jumps and corners exactly."""
    window = decay.split()[1]
    faded = min(decay.fades_by(0.01), 8 * decay.half_age, window)
    last = 86_400.0 if math.isinf(faded) else faded * (1.12 if faded == decay.horizon else 1.0)
    corners = [age for age in decay.breaks() if age <= last]
    ages = np.unique(np.concatenate([np.linspace(0.0, last, 161), corners, np.nextafter(corners, 0.0)]))
    return ages, decay(ages)


def decay_picture(ages: Floats, weights: Floats, half: float, unit: tuple[str, float], height: int = 150) -> go.Figure:
    """The chosen decay over age, with the age at which half the weight is gone."""
    name, seconds = unit
    most = float(weights.max()) or 1.0  # a table or a formula may begin elsewhere than at 1
    shown = np.isfinite(half) and half <= ages[-1]
    curve = {
        "type": "scatter",
        "x": ages / seconds,
        "y": weights,
        "mode": "lines",
        "fill": "tozeroy",
        "fillcolor": faint(COLOURS[0], 0.16),
        "line": {"color": COLOURS[0], "width": 2},
        "hovertemplate": f"after %{{x:.4~g}} {name}: %{{y:.3~%}}<extra></extra>",
    }
    note = {"x": half / seconds, "y": most, "text": "half gone", "showarrow": False, "xanchor": "left", "xshift": 4}
    return figure(
        [curve],
        height,
        x={"title": {"text": f"age, {name}", "standoff": 4}, "rangemode": "tozero", "nticks": 6},
        y={"range": [0, 1.06 * most], "tickformat": ".0%", "tickvals": [0, 0.5 * most, most]},
        shapes=[vertical_line(half / seconds, GREY, 1, "dot")] if shown else [],
        annotations=[{**note, "font": {"size": 11}}] if shown else [],
        room=ROOM,
        margin={"l": ROOM[0], "r": 8, "t": 6, "b": ROOM[1]},
        showlegend=False,
    )
