"""Lines with error bands: over time, and along other axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import plotly.graph_objects as go

from dashboard.figures.frame import COLOURS, EXACT, GREY, Axis, Trace, faint, figure, vertical_line
from dashboard.wording import in_figure
from sketches.arrays import Flags, Floats
from sketches.estimate import Curve, Series
from sketches.formatting import percent_text


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a chart with its band, and where missing epochs affect it."""

    name: str
    at: Sequence[Any] | Floats
    value: Floats
    lower: Floats
    upper: Floats
    confidence: float
    inside: Flags | None = None  # in a missing epoch: nothing is drawn there
    reached: Flags | None = None  # a missing epoch would count there: the line is dotted and has no band

    @classmethod
    def of(cls, name: str, at: Sequence[Any] | Floats, found: Series | Curve, **gaps: Any) -> Line:
        return cls(name, at, found.value, found.lower, found.upper, found.confidence, **gaps)

    @property
    def band(self) -> tuple[Floats, Floats]:
        """Both limits; NaN where a missing epoch would count, because there they do not hold."""
        lower, upper = (_without(_without(column, self.inside), self.reached) for column in (self.lower, self.upper))
        return lower, upper


def over_time(
    lines: Sequence[Line],
    axis: Axis,
    zone: str,
    *,
    silent: Sequence[tuple[Any, Any]] = (),
    missing: Sequence[tuple[Any, Any]] = (),
    exact: tuple[Sequence[Any], Floats] | None = None,
    height: int = 500,
) -> go.Figure:
    """Lines with their bands over time. Missing epochs are gaps, stretches without events are grey, exact answers are
    dots."""
    several = len(lines) > 1
    traces = [
        trace
        for number, line in enumerate(lines)
        for trace in _traces(line, COLOURS[number % len(COLOURS)], axis, several=several)
    ]
    if exact is not None:
        traces.append(
            {
                "type": "scatter",
                "x": list(exact[0]),
                "y": exact[1],
                "mode": "markers",
                "name": "exact answers",
                "marker": {"color": EXACT, "size": 8, "line": {"width": 1, "color": "white"}},
                "hovertemplate": f"exact %{{y:{axis.hover_format}}}<extra></extra>",
            }
        )
    shapes = [_stripe(*stretch, GREY, 0.10) for stretch in silent] + [_stripe(*gap, EXACT, 0.12) for gap in missing]
    notes = [
        {"x": start, "y": 1, "yref": "y domain", "text": "missing", "showarrow": False, "xanchor": "left"}
        for start, _ in missing
    ]
    clipped = _clipped_range(lines)
    return figure(
        traces,
        height,
        x={"title": {"text": f"as of, {in_figure(zone)}"}},
        y={
            **axis.settings,
            "rangemode": "tozero" if _near_zero(lines) else "normal",
            **({} if clipped is None else {"range": clipped}),
        },
        shapes=shapes,
        annotations=notes,
        hovermode="x unified" if several else "x",
    )


def _clipped_range(lines: Sequence[Line]) -> list[float] | None:
    """The range of the y-axis where a few very wide intervals would flatten everything else; these are then cut off at
    the edge. None where everything fits."""
    columns = [line.value for line in lines], *zip(*(line.band for line in lines), strict=True)
    values, lower, upper = (_finite(np.concatenate(column)) for column in columns)
    if not (len(values) and len(lower) and len(upper)):
        return None
    low = float(min(values.min(), np.quantile(lower, 0.05)))
    high = float(max(values.max(), np.quantile(upper, 0.95)))
    if upper.max() - lower.min() <= 2 * (high - low):
        return None
    margin = 0.15 * (high - low)
    return [0.0 if 0 <= low < 0.6 * high else low - margin, high + margin]


def _near_zero(lines: Sequence[Line]) -> bool:
    """Whether the axis may begin at zero without flattening the lines much."""
    lows = [low.min() for line in lines if len(low := _finite(np.fmin(line.band[0], line.value)))]
    highs = [high.max() for line in lines if len(high := _finite(line.value))]
    return bool(lows and highs and min(lows) >= 0 and min(lows) < 0.6 * max(highs))


def _traces(line: Line, colour: str, axis: Axis, *, several: bool, lowest: float = -math.inf) -> list[Trace]:
    """A line over its band. Bounds that always hold have a solid edge, probable ones a dotted edge.

    The band is one closed polygon for each stretch without a gap: filled up to another line, Plotly would draw it
    through the gaps as well. A stretch of a single point is an upright line, and its estimate a dot.
    """
    value = _without(line.value, line.inside)
    lower, upper = line.band
    certain = line.confidence >= 1
    known = np.isfinite(lower) & np.isfinite(upper)
    exact = known.any() and np.array_equal(lower, upper, equal_nan=True)
    shared: Trace = {"type": "scatter", "x": _times_as_text(line.at), **({"legendgroup": colour} if several else {})}
    traces = []
    if known.any() and not exact:
        edge = {"width": 1.2, "color": colour} if certain else {"width": 0.8, "color": colour, "dash": "dot"}
        traces.append(
            {
                **shared,
                **_polygons(shared["x"], np.maximum(lower, lowest), upper, known),
                "mode": "lines",
                "line": edge,
                "opacity": 0.7,
                "hoverinfo": "skip",
                "fill": "toself",
                "fillcolor": faint(colour, 0.28 if certain else 0.16),
                "name": "certain bounds" if certain else f"{percent_text(line.confidence)} interval",
                "showlegend": not several,
            }
        )
    label = f"{in_figure(line.name)} " if several else ""
    affected = line.reached if line.reached is not None and line.reached.any() else None
    hover = [axis.hover_texts(*numbers) for numbers in zip(value.tolist(), lower.tolist(), upper.tolist(), strict=True)]
    drawn = {**shared, "customdata": hover}
    firm = value if affected is None else _without(value, affected)
    number = f"{label}<b>%{{customdata[0]}}</b>"
    traces.append(
        {
            **drawn,
            "y": firm,
            **_dots(firm),
            "name": in_figure(line.name) if several else ("exact" if exact else "estimate"),
            "line": {"color": colour, "width": 2.2},
            "hovertemplate": number + " (%{customdata[1]} to %{customdata[2]})<extra></extra>",
        }
    )
    if affected is not None:
        traces.append(
            {
                **drawn,
                "y": (dotted := np.where(affected, value, np.nan)),
                **_dots(dotted),
                "name": "without the missing epochs",
                "line": {"color": colour, "width": 1.6, "dash": "dot"},
                "hovertemplate": number + " incomplete<extra></extra>",
            }
        )
    return traces


def _polygons(at: Sequence[Any] | Floats, lower: Floats, upper: Floats, known: Flags) -> Trace:
    """The corners of one closed polygon for each stretch of known limits, with a gap after each."""
    x: list[Any] = []
    y: list[float | None] = []
    for first, stop in _stretches(known):
        there = list(at[first:stop])
        x += [*there, *reversed(there), there[0], None]
        y += [*upper[first:stop].tolist(), *reversed(lower[first:stop].tolist()), float(upper[first]), None]
    return {"x": x[:-1], "y": y[:-1]}


def _dots(value: Floats) -> Trace:
    """How a line is drawn whose single points, between two gaps, would not show without a dot."""
    alone = np.zeros(len(value), bool)
    alone[[first for first, stop in _stretches(np.isfinite(value)) if stop == first + 1]] = True
    return {"mode": "lines+markers", "marker": {"size": np.where(alone, 6, 0)}} if alone.any() else {"mode": "lines"}


def _stretches(known: Flags) -> list[tuple[int, int]]:
    """Where each stretch begins and where it has ended."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], known, [False]]).astype(np.int8)))
    return [(int(first), int(stop)) for first, stop in edges.reshape(-1, 2)]


def along(
    line: Line,
    x: Axis,
    y: Axis,
    *,
    mark: tuple[float, float, str] | None = None,
    log_x: bool = False,
    log_y: bool = False,
    clickable: bool = False,
    height: int = 360,
) -> go.Figure:
    """A curve with its band along an axis other than time, and one marked point."""
    lowest, logarithmic = _log_axis(line) if log_y else (-math.inf, {"rangemode": "tozero"})
    traces = _traces(line, COLOURS[0], y, several=False, lowest=lowest)
    shapes = []
    if clickable:
        traces[-1] |= {"mode": "lines+markers", "marker": {"size": 5}}
    if mark is not None:
        at, value, text = mark
        shapes.append(vertical_line(at, COLOURS[1], 2, "solid"))
        traces.append(
            {
                "type": "scatter",
                "x": [at],
                "y": [value],
                "mode": "markers",
                "marker": {"color": COLOURS[1], "size": 11},
                "name": in_figure(text),
                "hovertemplate": f"{in_figure(text)}: %{{y:{y.hover_format}}}<extra></extra>",
            }
        )
    return figure(
        traces,
        height,
        x={**({"type": "log", "dtick": 1} if log_x else {}), **x.settings},
        y={**logarithmic, **y.settings},
        shapes=shapes,
        hovermode="closest" if clickable else "x",
    )


def _log_axis(line: Line) -> tuple[float, Trace]:
    """A logarithmic axis for a line above 0. A limit at or below 0 has no place there: the band goes on below."""
    lower, upper = line.band
    drawn = np.concatenate([line.value, lower, upper])
    drawn = drawn[np.isfinite(drawn) & (drawn > 0)]
    axis: Trace = {"type": "log", "dtick": 1}
    if len(drawn) == 0 or not (lower <= 0).any():
        return -math.inf, axis
    least, most = float(np.log10(drawn.min())), float(np.log10(drawn.max()))
    margin = 0.05 * (most - least + 1)
    return 10 ** (least - 1 - 10 * margin), {**axis, "range": [least - margin, most + margin]}


def _times_as_text(at: Sequence[Any] | Floats) -> Sequence[Any] | Floats:
    """Times as text: Plotly writes them in a third of the time."""
    return [one.isoformat() if isinstance(one, datetime) else one for one in at] if isinstance(at, list) else at


def _finite(column: Floats) -> Floats:
    return column[np.isfinite(column)]


def _without(column: Floats, where: Flags | None) -> Floats:
    return column if where is None else np.where(where, np.nan, column)


def _stripe(start: Any, stop: Any, colour: str, opacity: float) -> dict[str, Any]:
    shape = {"type": "rect", "x0": start, "x1": stop, "y0": 0, "y1": 1, "yref": "y domain", "layer": "below"}
    return {**shape, "fillcolor": colour, "opacity": opacity, "line": {"width": 0}}
