"""The polygons of a figure's bands, read back as the limits that they show."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tests.support.pages import column

Corners = list[tuple[Any, float]]
Band = tuple[list[Any], list[float], list[float]]  # places, lower and upper limits of one stretch


def corners_of(x: Sequence[Any], y: Sequence[Any]) -> list[Corners]:
    """The corners of each polygon; a gap in x or y ends one."""
    found: list[Corners] = [[]]
    for place, height in zip(x, y, strict=True):
        if place is None or height is None or math.isnan(height):
            found.append([])
        else:
            found[-1].append((place, float(height)))
    return [corners for corners in found if corners]


def as_band(corners: Corners) -> Band:
    """A closed polygon that goes along the upper limits and back along the lower ones."""
    assert corners[0] == corners[-1], "the polygon is not closed"
    half = len(corners) // 2
    there, back = corners[:half], corners[half:-1][::-1]
    assert [x for x, _ in there] == [x for x, _ in back]
    return [x for x, _ in there], [y for _, y in back], [y for _, y in there]


def bands_of(figure: dict[str, Any]) -> list[list[Band]]:
    """The polygons of each band of a figure that a page shows; no band is filled in another way."""
    filled = [trace for trace in figure["data"] if trace.get("fill", "none") != "none"]
    assert all(trace["fill"] == "toself" and trace["hoverinfo"] == "skip" for trace in filled), filled
    return [[as_band(each) for each in corners_of(column(trace["x"]), column(trace["y"]))] for trace in filled]
