"""Figures: an answer goes in, a Plotly figure comes out. Nothing here asks, computes or knows a widget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from dashboard.words import in_figure, limits, measured
from sketches.curves import Curve
from sketches.estimate import Item, Series

COLOURS: Final = ("#4c6ef5", "#f76707", "#0ca678", "#ae3ec9")  # readable on white and on black
EXACT: Final = "#f03e3e"
GREY: Final = "#868e96"
LINES: Final = "rgba(134,142,150,0.22)"
NAMED: Final = {"toImageButtonOptions": {"format": "png", "scale": 2}, "displaylogo": False, "displayModeBar": True}

BARE_MARGIN: Final = {"l": 10, "r": 10, "t": 34, "b": 10}  # without a legend

Floats = NDArray[np.float64]
Trace = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a chart: where, how high, how sure; and what is wrong with it where."""

    name: str
    at: Sequence[Any] | Floats
    value: Floats
    lower: Floats
    upper: Floats
    confidence: float
    inside: NDArray[np.bool_] | None = None  # in a missing epoch: nothing is drawn
    reached: NDArray[np.bool_] | None = None  # a missing epoch would count: drawn dotted, without a band

    @classmethod
    def of(cls, name: str, at: Sequence[Any] | Floats, found: Series | Curve, **gaps: Any) -> Line:
        return cls(name, at, found.value, found.lower, found.upper, found.confidence, **gaps)

    @property
    def band(self) -> tuple[Floats, Floats]:
        """Both limits where they hold: the events of a missing epoch are in no interval."""
        lower, upper = (_without(_without(column, self.inside), self.reached) for column in (self.lower, self.upper))
        return lower, upper


@dataclass(frozen=True, slots=True)
class Axis:
    """A title with its unit, and how numbers on it are written."""

    title: str
    share: bool = False

    @property
    def settings(self) -> dict[str, Any]:
        return {"title": {"text": in_figure(self.title)}, **({"tickformat": ".3~%"} if self.share else {})}

    @property
    def hover(self) -> str:
        return ".4%" if self.share else ",.6~g"

    def told(self, value: float, lower: float, upper: float) -> tuple[str, str, str]:
        """A number and its limits as the pointer shows them: in words, since Plotly would round the limits inward."""
        measure = "share" if self.share else ""
        return measured(value, measure), *limits(lower, upper, measure)


SHARE: Final = Axis("share of the decayed weight", share=True)


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
    """The big chart: each line with its band, gaps where epochs are missing, exact answers as dots where known."""
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
                "hovertemplate": f"exact %{{y:{axis.hover}}}<extra></extra>",
            }
        )
    shapes = [_stripe(*stretch, GREY, 0.10) for stretch in silent] + [_stripe(*gap, EXACT, 0.12) for gap in missing]
    notes = [
        {"x": start, "y": 1, "yref": "y domain", "text": "missing", "showarrow": False, "xanchor": "left"}
        for start, _ in missing
    ]
    room = _room(lines)
    return _figure(
        traces,
        height,
        x={"title": {"text": f"as of, {in_figure(zone)}"}},
        y={
            **axis.settings,
            "rangemode": "tozero" if _near_zero(lines) else "normal",
            **({} if room is None else {"range": room}),
        },
        shapes=shapes,
        annotations=notes,
        hovermode="x unified" if several else "x",
    )


def _room(lines: Sequence[Line]) -> list[float] | None:
    """The height of the picture where a few very wide intervals would flatten all else: they then leave it at the edge.
    None where everything fits."""
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
    """Whether showing zero costs little of the picture."""
    lows = [low.min() for line in lines if len(low := _finite(np.fmin(line.band[0], line.value)))]
    highs = [high.max() for line in lines if len(high := _finite(line.value))]
    return bool(lows and highs and min(lows) >= 0 and min(lows) < 0.6 * max(highs))


def _traces(line: Line, colour: str, axis: Axis, *, several: bool) -> list[Trace]:
    """A band under a line. A bound that holds with certainty has a firm edge, a probable one a dotted edge."""
    value = _without(line.value, line.inside)
    lower, upper = line.band
    certain = line.confidence >= 1
    known = np.isfinite(lower) & np.isfinite(upper)
    exact = known.any() and np.array_equal(lower, upper, equal_nan=True)
    shared: Trace = {"type": "scatter", "x": _plain(line.at), **({"legendgroup": colour} if several else {})}
    traces = []
    if known.any() and not exact:
        whole = np.where(known, 1.0, np.nan)
        edge = {"width": 1.2, "color": colour} if certain else {"width": 0.8, "color": colour, "dash": "dot"}
        band = {**shared, "mode": "lines", "line": edge, "opacity": 0.7, "hoverinfo": "skip"}
        traces.append({**band, "y": upper * whole, "showlegend": False})
        traces.append(
            {
                **band,
                "y": lower * whole,
                "fill": "tonexty",
                "fillcolor": _faint(colour, 0.28 if certain else 0.16),
                "name": "certain bounds" if certain else f"{100 * line.confidence:g}% interval",
                "showlegend": not several,
            }
        )
    label = f"{in_figure(line.name)} " if several else ""
    affected = line.reached if line.reached is not None and line.reached.any() else None
    told = [axis.told(*numbers) for numbers in zip(value.tolist(), lower.tolist(), upper.tolist(), strict=True)]
    drawn = {**shared, "customdata": told}
    number = f"{label}<b>%{{customdata[0]}}</b>"
    traces.append(
        {
            **drawn,
            "y": value if affected is None else _without(value, affected),
            "mode": "lines+markers" if len(value) == 1 else "lines",
            "name": in_figure(line.name) if several else ("exact" if exact else "estimate"),
            "line": {"color": colour, "width": 2.2},
            "hovertemplate": number + " (%{customdata[1]} to %{customdata[2]})<extra></extra>",
        }
    )
    if affected is not None:
        traces.append(
            {
                **drawn,
                "y": np.where(affected, value, np.nan),
                "mode": "lines",
                "name": "without the missing epochs",
                "line": {"color": colour, "width": 1.6, "dash": "dot"},
                "hovertemplate": number + " incomplete<extra></extra>",
            }
        )
    return traces


def _plain(at: Sequence[Any] | Floats) -> Sequence[Any] | Floats:
    """Times as text, which Plotly writes in a third of the time."""
    return [one.isoformat() if isinstance(one, datetime) else one for one in at] if isinstance(at, list) else at


def _finite(column: Floats) -> Floats:
    return column[np.isfinite(column)]


def _without(column: Floats, where: NDArray[np.bool_] | None) -> Floats:
    return column if where is None else np.where(where, np.nan, column)


def decay_picture(ages: Floats, weights: Floats, half: float, unit: tuple[str, float], height: int = 150) -> go.Figure:
    """The chosen decay over age, with the age at which half the weight is gone."""
    name, seconds = unit
    shown = np.isfinite(half) and half <= ages[-1]
    curve = {
        "type": "scatter",
        "x": ages / seconds,
        "y": weights,
        "mode": "lines",
        "fill": "tozeroy",
        "fillcolor": _faint(COLOURS[0], 0.16),
        "line": {"color": COLOURS[0], "width": 2},
        "hovertemplate": f"after %{{x:.4~g}} {name}: %{{y:.3~%}}<extra></extra>",
    }
    note = {"x": half / seconds, "y": 1.0, "text": "half gone", "showarrow": False, "xanchor": "left", "xshift": 4}
    return _figure(
        [curve],
        height,
        x={"title": {"text": f"age, {name}", "standoff": 4}, "rangemode": "tozero", "nticks": 6},
        y={"range": [0, 1.06], "tickformat": ".0%", "tickvals": [0, 0.5, 1]},
        shapes=[_upright(half / seconds, GREY, 1, "dot")] if shown else [],
        annotations=[{**note, "font": {"size": 11}}] if shown else [],
        margin={"l": 8, "r": 8, "t": 6, "b": 8},
        showlegend=False,
    )


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
    """A curve with its band over something other than time, and a marked point."""
    traces = _traces(line, COLOURS[0], y, several=False)
    shapes = []
    if clickable:
        traces[-1] |= {"mode": "lines+markers", "marker": {"size": 5}}
    if mark is not None:
        at, value, text = mark
        shapes.append(_upright(at, COLOURS[1], 2, "solid"))
        traces.append(
            {
                "type": "scatter",
                "x": [at],
                "y": [value],
                "mode": "markers",
                "marker": {"color": COLOURS[1], "size": 11},
                "name": in_figure(text),
                "hovertemplate": f"{in_figure(text)}: %{{y:{y.hover}}}<extra></extra>",
            }
        )
    return _figure(
        traces,
        height,
        x={**({"type": "log", "dtick": 1} if log_x else {}), **x.settings},
        y={**({"type": "log", "dtick": 1} if log_y else {"rangemode": "tozero"}), **y.settings},
        shapes=shapes,
        hovermode="closest" if clickable else "x",
    )


def ranking(items: Sequence[Item], height: int = 0) -> go.Figure:
    """The most frequent values with whiskers, the largest at the top."""
    names = [in_figure(_label(item.value)) for item in items]
    bar = {
        "type": "bar",
        "x": [item.estimate for item in items],
        "y": list(range(len(items))),
        "orientation": "h",
        "marker": {"color": _faint(COLOURS[0], 0.75)},
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
            [name, *SHARE.told(item.estimate, item.lower, item.upper)] for item, name in zip(items, names, strict=True)
        ],
        "hovertemplate": "%{customdata[0]}: <b>%{customdata[1]}</b> (%{customdata[2]} to %{customdata[3]})"
        "<extra></extra>",
        "showlegend": False,
    }
    return _figure(
        [bar],
        height or max(220, 60 + 30 * len(items)),
        x={**SHARE.settings, "rangemode": "tozero"},
        y=_names(names),
        hovermode="closest",
        bargap=0.35,
        margin=BARE_MARGIN,
    )


def slopes(before: Sequence[Item], after: Sequence[Item], names: tuple[str, str]) -> go.Figure:
    """How the ranks of the most frequent values move from one decay to another."""
    ranks = [{item.value: at + 1 for at, item in enumerate(items)} for items in (before, after)]
    every = list(dict.fromkeys([item.value for item in [*before, *after]]))
    out = max(len(before), len(after)) + 1
    traces, notes = [], []
    for value in every:
        left, right = (place.get(value, out) for place in ranks)
        listed = max(left, right) < out
        colour = GREY if left == right else (COLOURS[2] if right < left else COLOURS[1])
        text = in_figure(_label(value))
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
    return _figure(
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


def bars(names: Sequence[str], values: Sequence[float], title: str, hover: str, height: int = 0) -> go.Figure:
    """Plain horizontal bars, one a name."""
    texts = [in_figure(name) for name in names]
    bar = {
        "type": "bar",
        "x": list(values),
        "y": list(range(len(names))),
        "orientation": "h",
        "marker": {"color": _faint(COLOURS[0], 0.75)},
        "customdata": texts,
        "hovertemplate": f"%{{customdata}}: {hover}<extra></extra>",
    }
    return _figure(
        [bar],
        height or max(160, 70 + 26 * len(names)),
        x={"title": {"text": in_figure(title)}, "rangemode": "tozero"},
        y=_names(texts),
        showlegend=False,
        hovermode="closest",
        margin=BARE_MARGIN,
    )


def matrix(names: Sequence[str], values: Floats, told: Sequence[Sequence[str]]) -> go.Figure:
    """A square of shares, one name against another, each with its number; NaN where nothing is known."""
    texts = [in_figure(name) for name in names]
    places = list(range(len(names)))
    square = {
        "type": "heatmap",
        "x": places,
        "y": places,
        "z": _plain(values),
        "zmin": 0.0,
        "zmax": 1.0,
        "colorscale": [[0.0, _faint(COLOURS[0], 0.05)], [1.0, _faint(COLOURS[0], 0.85)]],
        "text": [[f"{100 * value:.0f}%" if np.isfinite(value) else "" for value in row] for row in values.tolist()],
        "texttemplate": "%{text}",
        "customdata": [list(row) for row in told],
        "hovertemplate": "%{customdata}<extra></extra>",
        "showscale": False,
        "xgap": 2,
        "ygap": 2,
        "showlegend": False,
    }
    return _figure(
        [square],
        max(240, 90 + 44 * len(names)),
        x={**_names(texts), "autorange": True, "side": "bottom"},
        y=_names(texts),
        hovermode="closest",
        margin=BARE_MARGIN,
    )


def _rank(rank: int, out: int) -> str:
    return f"rank {rank}" if rank < out else "not listed"


def _label(value: int | float | str) -> str:
    return value if isinstance(value, str) else f"{value:,.12g}"


def _faint(colour: str, strength: float) -> str:
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return f"rgba({red},{green},{blue},{strength})"


def _names(texts: Sequence[str]) -> dict[str, Any]:
    """An axis of names, the first at the top."""
    return {
        "tickmode": "array",
        "tickvals": list(range(len(texts))),
        "ticktext": list(texts),
        "autorange": "reversed",
        "showgrid": False,
    }


def _stripe(start: Any, stop: Any, colour: str, opacity: float) -> dict[str, Any]:
    shape = {"type": "rect", "x0": start, "x1": stop, "y0": 0, "y1": 1, "yref": "y domain", "layer": "below"}
    return {**shape, "fillcolor": colour, "opacity": opacity, "line": {"width": 0}}


def _upright(at: float, colour: str, width: float, dash: str) -> dict[str, Any]:
    shape = {"type": "line", "x0": at, "x1": at, "y0": 0, "y1": 1, "yref": "y domain"}
    return {**shape, "line": {"color": colour, "width": width, "dash": dash}}


def _figure(traces: list[Trace], height: int, *, x: Trace, y: Trace, **layout: Any) -> go.Figure:
    """The same quiet frame for all: no box, faint lines, the legend above the picture. Made in one go, because Plotly
    checks and copies everything at each later change."""
    named = sum(trace.get("showlegend", True) for trace in traces)
    frame = {"gridcolor": LINES, "zeroline": False, "automargin": True}
    usual = {
        "height": height,
        "margin": {"l": 10, "r": 10, "t": 62 if named <= 2 else 84, "b": 10},  # buttons above a legend, also on a phone
        "legend": {"orientation": "h", "yanchor": "bottom", "y": 1.0, "xanchor": "left", "x": 0},
        "dragmode": "zoom",
        "modebar": {"orientation": "h"},
    }
    return go.Figure({"data": traces, "layout": {**usual, "xaxis": {**frame, **x}, "yaxis": {**frame, **y}, **layout}})


def shown_as(name: str) -> dict[str, Any]:
    """How a figure behaves in the page: its picture can be saved, under this name."""
    options = {"toImageButtonOptions": {**NAMED["toImageButtonOptions"], "filename": name}}  # type: ignore[dict-item]
    quiet = ["select2d", "lasso2d", "autoScale2d", "zoomIn2d", "zoomOut2d"]
    return {**NAMED, **options, "modeBarButtonsToRemove": quiet, "responsive": True}
