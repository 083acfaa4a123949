"""What all figures share: colours, axes, the frame, and how a figure behaves in the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import plotly.graph_objects as go

from dashboard.wording import estimated, half_width, in_figure, limits

COLOURS: Final = (  # readable on white and on black
    *("#4c6ef5", "#f76707", "#0ca678", "#ae3ec9", "#e03131"),
    *("#1098ad", "#d6336c", "#74b816", "#f59f00", "#845ef7"),
)
EXACT: Final = "#f03e3e"
CUT: Final = "#fab005"
GREY: Final = "#868e96"
GRID: Final = "rgba(134,142,150,0.22)"
MARGIN_WITHOUT_LEGEND: Final = {"l": 10, "r": 10, "t": 34, "b": 10}

Trace = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis: its title with the unit, whether its numbers are shares, and whether they lie around 0."""

    title: str
    share: bool = False
    around_zero: bool = False

    @property
    def settings(self) -> dict[str, Any]:
        return {"title": {"text": in_figure(self.title)}, **({"tickformat": ".3~%"} if self.share else {})}

    @property
    def hover_format(self) -> str:
        return ".4%" if self.share else ",.6~g"

    def hover_texts(self, value: float, lower: float, upper: float) -> tuple[str, str, str]:
        """A number and its limits for the pointer to show, as text: Plotly would round the limits inward."""
        measure = "share" if self.share else ""
        return estimated(value, lower, upper, measure), *limits(lower, upper, measure)

    def half_width(self, value: float, lower: float, upper: float) -> str:
        return half_width(value, lower, upper, "share" if self.share else "")


SHARE: Final = Axis("share of what counts", share=True)


def figure(
    traces: list[Trace], height: int, *, x: Trace, y: Trace, room: tuple[int, int] | None = None, **layout: Any
) -> go.Figure:
    """A figure in the same quiet frame: no box, faint lines, the legend above. It is made in one step, because Plotly
    checks and copies everything at each later change.

    `room` is how many pixels the texts of the axes take on the left and below. Without it the browser finds out, which
    takes it twice as long: it draws everything, measures, and draws again.
    """
    named = sum(trace.get("showlegend", True) for trace in traces)
    frame = {"gridcolor": GRID, "zeroline": False, "automargin": room is None}
    left, below = room or (10, 10)
    usual = {
        "height": height,
        "margin": {"l": left, "r": 10, "t": 62 if named <= 2 else 84, "b": below},  # above: buttons, and a legend
        "legend": {"orientation": "h", "yanchor": "bottom", "y": 1.0, "xanchor": "left", "x": 0},
        "dragmode": "zoom",
        "modebar": {"orientation": "h"},
    }
    return go.Figure({"data": traces, "layout": {**usual, "xaxis": {**frame, **x}, "yaxis": {**frame, **y}, **layout}})


def name_axis(texts: Sequence[str]) -> dict[str, Any]:
    """An axis of names, the first at the top."""
    return {
        "tickmode": "array",
        "tickvals": list(range(len(texts))),
        "ticktext": list(texts),
        "autorange": "reversed",
        "showgrid": False,
    }


def value_label(value: int | float | str) -> str:
    """A value of the stream as a label."""
    return value if isinstance(value, str) else f"{value:,.12g}"


def shortened(name: str, most: int) -> str:
    """A name from outside for use in a figure, without its middle where it is long: paths of one site differ at the
    end. The pointer shows more of it.

    >>> shortened("short/eastus/B8ms/11371", 16), shortened("north", 16)
    ('short/ea…s/11371', 'north')
    """
    head, tail = most // 2, most - 1 - most // 2
    return in_figure(name if len(name) <= most else f"{name[:head]}…{name[-tail:]}")


def vertical_line(at: Any, colour: str, width: float, dash: str) -> dict[str, Any]:
    shape = {"type": "line", "x0": at, "x1": at, "y0": 0, "y1": 1, "yref": "y domain"}
    return {**shape, "line": {"color": colour, "width": width, "dash": dash}}


def faint(colour: str, strength: float) -> str:
    """A colour that lets the background through."""
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return f"rgba({red},{green},{blue},{strength})"
