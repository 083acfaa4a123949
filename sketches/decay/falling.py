"""The proof that a formula never rises: ages are halved until the slope of every piece is shown not to be above 0.

A piece between two neighbouring floats needs no proof, because no age lies between them: there the values decide. What
cannot be shown within a bounded number of steps is refused. A formula may rise by as much as rounding lifts it,
`ROUNDING` of its value and `CANCELLATION` of f(0), at all ages together.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from sketches.arrays import Flags, Floats, Ints
from sketches.decay.formula import OPERATIONS, Formula
from sketches.decay.slopes import enclose
from sketches.durations import LONGEST
from sketches.records import dataclass

ROUNDING: Final = 1e-12
CANCELLATION: Final = 1e-15
_NOISE: Final = 1e-13  # of f(0): what rounding may add to a value or take from it, beside ROUNDING of the value
_MOST_STEPS: Final = 2_000_000  # of programs over pieces and their ends: about half a second
_MOST_STEPS_BEYOND: Final = 150_000
_FIRST: Final = np.concatenate([[0.0], np.exp2(np.arange(-40.0, 40.0)), [LONGEST]])
_BEYOND: Final = np.concatenate([[LONGEST], np.exp2(np.arange(40.0, 1024.0, 4.0)), [np.finfo(np.float64).max]])


@dataclass(frozen=True, slots=True)
class Doubt:
    """Two ages between which a formula may rise; `ages` are those at which it was found to rise, if it was."""

    first: float
    last: float
    ages: Floats


def doubt(formula: Formula, start: float) -> Doubt | None:
    """Where it is not shown that a formula never rises, at ages up to the longest duration; None where it is shown."""
    return _halve(formula, start, _FIRST, _MOST_STEPS)


def shown_until(formula: Formula, start: float) -> float:
    """The age up to which it is shown that the formula never rises, given that it is for the longest duration."""
    found = _halve(formula, start, _BEYOND, _MOST_STEPS_BEYOND)
    return math.inf if found is None else found.first


def noisy(formula: Formula, start: float, ages: Floats) -> Flags:
    """Ages at which rounding alone may move the computed value by more than a rise may be."""
    found = enclose(formula.program, OPERATIONS, ages, ages).value
    low, high = np.broadcast_to(found.low, ages.shape), np.broadcast_to(found.high, ages.shape)
    wrong: Flags = ~(high - low <= ROUNDING * np.maximum(low, 0.0) + _NOISE * start)
    return wrong


def _halve(formula: Formula, start: float, edges: Floats, most: int) -> Doubt | None:
    low, high = edges[:-1], edges[1:]
    steps = 0
    while True:
        steps += 3 * len(low) * len(formula.program)
        open_, cost = _undecided(formula, start, low, high)
        low, high, cost = low[open_], high[open_], cost[open_]
        if cost.sum() <= 1:
            return None
        rises = _rises(formula, start, low, high)
        if rises.any():
            at = int(np.argmax(rises))
            return Doubt(float(low[at]), float(high[at]), np.array([low[at], high[at]]))
        near = np.nextafter(low, np.inf) >= high  # the values have decided
        low, high = low[~near], high[~near]
        if steps + 6 * len(low) * len(formula.program) > most:
            worst = int(np.argmax(cost[~near]))
            return Doubt(float(low[worst]), float(high[worst]), np.empty(0))
        middle = _middle(low, high)
        low, high = np.stack([low, middle], 1).reshape(-1), np.stack([middle, high], 1).reshape(-1)


def _undecided(formula: Formula, start: float, low: Floats, high: Floats) -> tuple[Flags, Floats]:
    """Which pieces may rise, and by how many times what all together may."""
    found = enclose(formula.program, OPERATIONS, low, high)
    steep, least, most, down, up, sound = (
        np.broadcast_to(each, low.shape)
        for each in (found.slope.high, found.value.low, found.value.high, found.bend.low, found.bend.high, found.sound)
    )
    smooth = np.flatnonzero(sound & (steep > 0) & (np.isfinite(down) | np.isfinite(up)))
    with np.errstate(all="ignore"):
        if len(smooth):
            steep = steep.copy()
            steep[smooth] = np.fmin(steep[smooth], _bent(formula, low[smooth], high[smooth], down[smooth], up[smooth]))
        rise = np.fmin(np.maximum(steep, 0.0) * (high - low), most - least)
        cost = rise / (ROUNDING * np.maximum(least, 0.0) + CANCELLATION * start)
    cost = np.where(sound & ~np.isnan(cost), cost, np.inf)
    return ~(sound & (steep <= 0)), cost


def _bent(formula: Formula, low: Floats, high: Floats, down: Floats, up: Floats) -> Floats:
    """What the slope of a smooth piece is at the most: that at either end, and what its bends add on the way."""
    first, last = (enclose(formula.program, OPERATIONS, age, age).slope.high for age in (low, high))
    length = high - low
    most: Floats = np.fmin(first + np.maximum(up, 0.0) * length, last + np.maximum(-down, 0.0) * length)
    return most


def _rises(formula: Formula, start: float, low: Floats, high: Floats) -> Flags:
    before, after = formula(low), formula(high)
    with np.errstate(all="ignore"):
        return ~(after <= before * (1 + ROUNDING) + CANCELLATION * start)  # NaN too


def _middle(low: Floats, high: Floats) -> Floats:
    """Halfway among the floats, which are dense near 0: 63 halvings lead to neighbours from anywhere."""
    first, last = low.view(np.int64), high.view(np.int64)
    middle: Ints = first + (last - first) // 2
    return middle.view(np.float64)
