"""A line to draw, and the numbers of a figure to compare with it."""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from typing import Any

import numpy as np

from dashboard.figures.frame import Axis
from dashboard.figures.lines import Line
from sketches.estimate import Item

AT = [datetime(2026, 1, 1) + timedelta(hours=number) for number in range(6)]  # noqa: DTZ001 - as on an axis
VALUE = np.array([10.0, 12.0, 11.0, 13.0, 12.5, 12.0])
LOWER, UPPER = VALUE - 2.5, VALUE + 1.25
AXIS = Axis("loss")
ITEMS = (Item("a", 0.5, 0.4, 0.65), Item(12.5, 0.2, 0.2, 0.25), Item(3, 0.1, 0.0, 0.1))


def line(confidence: float = 0.9, name: str = "a", **changes: Any) -> Line:
    return Line(name, AT, changes.pop("value", VALUE), changes.pop("lower", LOWER), changes.pop("upper", UPPER),
                confidence, **changes)  # fmt: skip


def numbers(column: Any) -> list[float | None]:
    return [None if number is None or math.isnan(number) else float(number) for number in column]
