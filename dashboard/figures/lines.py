"""Lines with error bands: over time, and along other axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

import numpy as np
import plotly.graph_objects as go

from dashboard.figures.frame import COLOURS, CUT, EXACT, GREY, Axis, Trace, faint, figure, vertical_line
from dashboard.figures.marks import MARK_AXIS, Marked, mark_labels, mark_lines, mark_trace
from dashboard.wording import in_figure
from sketches.arrays import Flags, Floats
from sketches.estimate import Curve, Series
from sketches.formatting import percent_text

_DECADES: Final = 2.0  # of a logarithmic axis, beyond which only powers of ten are written
ROOM: Final = 72, 58  # pixels: for numbers of at most seven digits and signs with a title, for dates of two lines


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

    def as_share(self) -> Line:
        """The line with its limits where shares can be."""
        return replace(self, lower=np.maximum(self.lower, 0.0), upper=np.minimum(self.upper, 1.0))

    def as_error(self) -> Line:
        """How far the limits lie from the estimate, in % of it; nowhere where the estimate is 0."""
        size = np.where(self.value == 0.0, np.nan, np.abs(self.value)) / 100.0
        lower, upper = ((limit - self.value) / size for limit in (self.lower, self.upper))
        return replace(self, value=np.where(np.isnan(size), np.nan, 0.0), lower=lower, upper=upper)

    @property
    def band(self) -> tuple[Floats, Floats]:
        """Both limits; NaN where a missing epoch would count, because there they do not hold, and where there is no
        estimate: limits of anything at all would fill the chart."""
        unknown = np.isnan(self.value)
        lower, upper = (
            _without(_without(_without(column, self.inside), self.reached), unknown)
            for column in (self.lower, self.upper)
        )
        return lower, upper


def over_time(
    lines: Sequence[Line],
    axis: Axis,
    zone: str,
    *,
    silent: Sequence[tuple[Any, Any]] = (),
    missing: Sequence[tuple[Any, Any]] = (),
    filling: Sequence[tuple[Any, Any]] = (),
    pinned: Any = None,
    exact: tuple[Sequence[Any], Floats] | None = None,
    marks: Sequence[Marked] = (),
    bands: int = 4,
    height: int = 500,
    log: bool = False,
) -> go.Figure:
    """Lines with their bands over time. Missing epochs are gaps, stretches without events are grey, those in which the
    decay still fills up are yellow, exact answers are dots, and `pinned`, the time of the number, has a line. The axis
    follows the estimates: bands that go far beyond are cut at the edge, and marked there. Of more lines than `bands`,
    only the pointer shows the intervals. A logarithmic axis has no place for 0."""
    several = len(lines) > 1
    lines = [line.as_share() for line in lines] if axis.share else lines
    banded = len(lines) <= bands
    edges = _edges(lines, around_zero=axis.around_zero) if banded and not log else None
    lowest, scale = _log_axis(lines) if log else (-math.inf, _scale(lines, edges))
    traces = [
        trace
        for number, line in enumerate(lines)
        for trace in _traces(line, COLOURS[number % len(COLOURS)], axis, several=several, banded=banded, lowest=lowest)
    ]
    traces += _cut_marks(lines, edges) if edges is not None else []
    traces += [_exact_dots(*exact, axis)] if exact is not None else []
    shapes, notes = _stretches_and_time(silent, missing, filling, pinned)
    shapes += mark_lines(marks)
    notes += mark_labels(marks)
    traces += [mark_trace(marks)] if marks else []
    return figure(
        traces,
        height,
        x={"title": {"text": f"as of, {in_figure(zone)}"}},
        y={**axis.settings, **scale},
        room=ROOM,
        shapes=shapes,
        annotations=notes,
        hovermode="x unified" if several else "x",
        yaxis2=MARK_AXIS if marks else None,
    )


def _scale(lines: Sequence[Line], edges: tuple[float, float] | None) -> Trace:
    """An even axis, from 0 on where that does not flatten the lines."""
    mode = {"rangemode": "tozero" if _near_zero(lines) else "normal"}
    return mode if edges is None else {**mode, "range": list(edges)}


def _exact_dots(at: Sequence[Any], value: Floats, axis: Axis) -> Trace:
    """Exact answers as dots."""
    return {
        "type": "scatter",
        "x": list(at),
        "y": value,
        "mode": "markers",
        "name": "exact answers",
        "marker": {"color": EXACT, "size": 8, "line": {"width": 1, "color": "white"}},
        "hovertemplate": f"exact %{{y:{axis.hover_format}}}<extra></extra>",
    }


def _stretches_and_time(
    silent: Sequence[tuple[Any, Any]],
    missing: Sequence[tuple[Any, Any]],
    filling: Sequence[tuple[Any, Any]],
    pinned: Any,
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Stripes and a line over the whole height, and what is written at them."""
    shapes = [_stripe(*stretch, GREY, 0.10) for stretch in silent] + [_stripe(*gap, EXACT, 0.12) for gap in missing]
    shapes += [_stripe(*stretch, CUT, 0.13) for stretch in filling]
    shapes += [] if pinned is None else [vertical_line(pinned, GREY, 1.5, "dash")]
    written = (
        ("missing", 1.0, [start for start, _ in missing]),
        ("filling up", 0.94, [start for start, _ in filling]),
        ("the number", 0.88, [] if pinned is None else [pinned]),
    )
    notes = [
        {"x": start, "y": height, "yref": "y domain", "text": text, "showarrow": False, "xanchor": "left"}
        for text, height, starts in written
        for start in starts
    ]
    return shapes, notes


def _edges(lines: Sequence[Line], *, around_zero: bool = False) -> tuple[float, float] | None:
    """The ends of the y-axis where bands would flatten the lines; None where everything fits.

    There is room for half of what the lines span on either side, and for a typical band.
    """
    columns = [line.value for line in lines], *zip(*(line.band for line in lines), strict=True)
    values, lower, upper = (np.concatenate(column) for column in columns)
    seen, ends = _finite(values), (_finite(lower), _finite(upper))
    widths = _finite(upper - lower)
    if not (len(seen) and len(ends[0]) and len(ends[1]) and len(widths)):
        return None
    least, most = float(seen.min()), float(seen.max())
    room = max(0.5 * (most - least), 1.2 * float(np.median(widths)))
    low, high = least - room, most + room
    if ends[0].min() >= low and ends[1].max() <= high:
        return None
    if around_zero:
        return max(low, float(ends[0].min()) - 0.05 * room), min(high, float(ends[1].max()) + 0.05 * room)
    if float(ends[0].min()) >= 0.0 or least >= 0.0 > low:
        low = 0.0 if least < 0.6 * most else max(low, 0.0)
    return low, min(high, float(max(ends[1].max(), most)) + 0.05 * room)


def edges_of(value: Floats, lower: Floats, upper: Floats) -> tuple[float, float]:
    """The ends of an axis that many lines share: it follows the estimates, and wide bands go on beyond it."""
    known = np.isfinite(value)
    if not known.any():
        return 0.0, 1.0
    least, most = float(value[known].min()), float(value[known].max())
    widths = (upper - lower)[known & np.isfinite(upper - lower)]
    typical = 0.6 * float(np.median(widths)) if len(widths) else 0.0
    room = min(max(0.08 * (most - least), typical), 0.4 * (most - least)) or typical or 0.05 * abs(most) or 1.0
    low = least - room
    return (0.0 if least >= 0.0 and least < 0.6 * most else low if least < 0.0 else max(low, 0.0)), most + room


def _cut_marks(lines: Sequence[Line], edges: tuple[float, float]) -> list[Trace]:
    """Thick strokes along the edge where an interval goes on beyond it."""
    low, high = edges
    x: list[Any] = []
    y: list[float | None] = []
    for line in lines:
        lower, upper = line.band
        at = _times_as_text(line.at)
        for edge, beyond in ((low, lower < low), (high, upper > high)):
            for first, stop in _stretches(beyond):
                there = list(at[first : max(stop, min(first + 2, len(at)))])
                x += [*there, None]
                y += [*[edge] * len(there), None]
    if not x:
        return []
    stroke = {"color": CUT, "width": 7}
    shown = {"name": "interval goes on beyond the edge", "hoverinfo": "skip", "cliponaxis": False}
    return [{"type": "scatter", "x": x[:-1], "y": y[:-1], "mode": "lines", "line": stroke, **shown}]


def _near_zero(lines: Sequence[Line]) -> bool:
    """Whether the axis may begin at zero without flattening the lines much."""
    lows = [low.min() for line in lines if len(low := _finite(np.fmin(line.band[0], line.value)))]
    highs = [high.max() for line in lines if len(high := _finite(line.value))]
    return bool(lows and highs and min(lows) >= 0 and min(lows) < 0.6 * max(highs))


def _traces(
    line: Line, colour: str, axis: Axis, *, several: bool, banded: bool = True, lowest: float = -math.inf
) -> list[Trace]:
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
    if banded and known.any() and not exact:
        edge = {"width": 1.2, "color": colour} if certain else {"width": 0.8, "color": colour, "dash": "dot"}
        traces.append(
            {
                **shared,
                **polygons(shared["x"], np.maximum(lower, lowest), upper, known),
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
    rows = zip(value.tolist(), lower.tolist(), upper.tolist(), strict=True)
    hover = [[*axis.hover_texts(*numbers), axis.half_width(*numbers)] for numbers in rows]
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
            "hovertemplate": number + " %{customdata[3]} (%{customdata[1]} to %{customdata[2]})<extra></extra>",
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


def polygons(at: Sequence[Any] | Floats, lower: Floats, upper: Floats, known: Flags) -> Trace:
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
    lowest, logarithmic = _log_axis([line]) if log_y else (-math.inf, {"rangemode": "tozero"})
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


def _log_axis(lines: Sequence[Line]) -> tuple[float, Trace]:
    """A logarithmic axis for lines above 0. A limit at or below 0 has no place there: its band goes on below."""
    columns = zip(*((line.value, *line.band) for line in lines), strict=True)
    value, lower, upper = (np.concatenate(column) for column in columns)
    drawn = np.concatenate([value, lower, upper])
    drawn = drawn[np.isfinite(drawn) & (drawn > 0)]
    axis: Trace = {"type": "log"}
    if len(drawn) == 0:
        return -math.inf, axis
    seen = value[np.isfinite(value) & (value > 0)]
    least, most = float(np.log10((seen if (lower <= 0).any() and len(seen) else drawn).min())), np.log10(drawn.max())
    if most - least > _DECADES:
        axis["dtick"] = 1
    if not (lower <= 0).any():
        return -math.inf, axis
    margin = 0.05 * (most - least + 1)
    return 10 ** (least - 1 - 10 * margin), {**axis, "range": [least - 4 * margin, float(most) + margin]}


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
