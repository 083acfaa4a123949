"""Moments marked in a chart over time: an upright line each, its text above, and all of it at the pointer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from dashboard.figures.frame import GREY, Trace, vertical_line
from dashboard.wording import in_figure

KINDS: Final = {  # with their names and their colours
    "notes": ("annotation", "#845ef7"),
    "runs": ("ingest run", GREY),
    "gaps": ("set aside", "#e03131"),
}
AXIS: Final = "y2"  # of their trace
_LABELLED: Final = 12  # more texts would hide each other
_LONGEST_LABEL: Final = 22  # characters beside a line
_HEIGHTS: Final = (1.0, 0.93, 0.86)  # neighbours stand below each other


@dataclass(frozen=True, slots=True)
class Marked:
    """A place on the axis, and what there was."""

    at: Any
    text: str
    kind: str = "notes"


def mark_lines(marks: Sequence[Marked]) -> list[dict[str, Any]]:
    """The upright lines."""
    return [vertical_line(mark.at, KINDS[mark.kind][1], 1.3, "dash") for mark in marks]


def mark_labels(marks: Sequence[Marked]) -> list[dict[str, Any]]:
    """The texts of annotations beside their lines; none where there are too many to be read."""
    named = [mark for mark in marks if mark.kind == "notes"]
    if len(named) > _LABELLED:
        return []
    return [
        {
            "x": mark.at,
            "y": _HEIGHTS[number % len(_HEIGHTS)],
            "yref": "y domain",
            "text": in_figure(_cut(mark.text)),
            "showarrow": False,
            "xanchor": "left",
            "yanchor": "top",
            "font": {"size": 11, "color": KINDS[mark.kind][1]},
        }
        for number, mark in enumerate(named)
    ]


def mark_trace(marks: Sequence[Marked]) -> Trace:
    """Small signs at the foot of the lines, whose whole texts the pointer shows; they have an axis of their own, so
    that they stand there whatever the chart shows."""
    return {
        "type": "scatter",
        "x": [mark.at for mark in marks],
        "y": [0.0] * len(marks),
        "yaxis": AXIS,
        "mode": "markers",
        "cliponaxis": False,
        "marker": {"symbol": "triangle-up", "size": 9, "color": [KINDS[mark.kind][1] for mark in marks]},
        "customdata": [f"{KINDS[mark.kind][0]}: {in_figure(mark.text, 120)}" for mark in marks],
        "hovertemplate": "%{customdata}<extra></extra>",
        "showlegend": False,
    }


MARK_AXIS: Final[Trace] = {"overlaying": "y", "range": [0, 1], "visible": False, "fixedrange": True}


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_LABEL else f"{text[: _LONGEST_LABEL - 1]}…"
