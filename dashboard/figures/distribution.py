"""The quantile function: the value at every share, with its band."""

from __future__ import annotations

import math

import numpy as np
import plotly.graph_objects as go

from dashboard.figures.frame import Axis
from dashboard.figures.lines import Line, along
from sketches.estimate import Curve


def quantile_figure(curve: Curve, unit: str) -> go.Figure | None:
    """The value at every share; None where nothing counts."""
    if not np.isfinite(curve.value).any():
        return None
    line = Line.of("value", curve.at, curve)
    return along(line, Axis("share at or below", share=True), Axis(unit), log_y=wide(curve), height=400)


def wide(curve: Curve) -> bool:
    """Whether the values differ so much that only a logarithmic axis shows them all."""
    known = curve.value[np.isfinite(curve.value)]
    return len(known) > 0 and known[0] > 0 and math.log10(known[-1] / known[0]) > 2
