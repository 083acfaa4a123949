"""Classes of numbers for an axis, and steps of a scale of colours: even, or even in the logarithm, at round numbers."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from sketches.arrays import Flags, Floats

_OFF: Final = 0.08  # of a class: how far its end is moved to a round number
_WIDE: Final = 50.0  # times the least number: beyond that, steps are even in the logarithm


def even_edges(low: float, high: float, classes: int) -> Floats:
    """Round numbers that cut the numbers between two ends into about so many classes of even height.

    >>> even_edges(0.0, 100.0, 4).tolist(), even_edges(1.0, 1000.0, 3).tolist()
    ([25.0, 50.0, 75.0], [10.0, 100.0])
    """
    if not (math.isfinite(low) and math.isfinite(high) and high > low):
        return np.empty(0)
    logarithmic = low > 0.0 and high / low > _WIDE
    cuts = np.geomspace(low, high, classes + 1) if logarithmic else np.linspace(low, high, classes + 1)
    for digits in range(1, 17):
        edges = np.array([float(f"{cut:.{digits}g}") for cut in cuts[1:-1].tolist()])
        if (np.abs(edges - cuts[1:-1]) <= _OFF * np.diff(cuts)[:-1]).all():
            break
    return edges


def in_steps(value: Floats, lower: Floats, upper: Floats, steps: int) -> tuple[Floats, Floats, Flags]:
    """The ends of even steps between the least and the greatest number, the step of each, and which of them have an
    interval that is wider than a step: they may as well be in another one."""
    known = np.isfinite(value)
    if not known.any():
        return np.array([0.0, 1.0]), np.full(value.shape, np.nan), np.zeros(value.shape, bool)
    least, most = float(value[known].min()), float(value[known].max())
    if least == most:
        return np.array([least, most]), np.where(known, 0.0, np.nan), known & (upper > lower)
    positive = value[known & (value > 0.0)]
    logarithmic = least >= 0.0 and len(positive) > 0 and most / float(positive.min()) > _WIDE
    if not logarithmic:
        ends = np.linspace(least, most, steps + 1)
        wide = upper - lower > ends[1] - ends[0]
    else:
        ends = np.geomspace(float(positive.min()), most, steps + 1)
        with np.errstate(divide="ignore", invalid="ignore"):
            wide = np.where(lower > 0.0, upper / lower, np.where(upper > 0.0, np.inf, 1.0)) > ends[1] / ends[0]
    step = np.clip(np.searchsorted(ends, value, side="right") - 1, 0, steps - 1).astype(np.float64)
    return ends, np.where(known, step, np.nan), known & wide
