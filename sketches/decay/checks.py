"""The check that a formula, or a table of points, is a decay function, and of which class.

A dense grid of ages (`GRID`) finds what is wrong at once and gives the class. What the grid cannot see, between its
ages, is proved by interval arithmetic (`sketches.decay.falling`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sketches.arrays import distinct_sorted
from sketches.decay import falling
from sketches.decay.falling import CANCELLATION, ROUNDING
from sketches.decay.formula import Formula
from sketches.durations import shorten
from sketches.errors import DecayError

GRID = distinct_sorted(np.concatenate([np.arange(4097.0), np.geomspace(1e-6, 1e10, 6401)]))
_SCALES = np.concatenate([[0.0], np.geomspace(1e-6, 1e10, 6401)])  # even in ln(age), so that bends show at every scale
LARGEST_WEIGHT = 1e30  # of f(0): variances of ratios take fourth powers of f, which must stay in the range of floats
LEAST_START = 1e-30  # of f(0), likewise
_STEADY = 0.997  # exp(-age) and its sums stay this steep from half of the last age on, exp(-age^0.99) does not
_UNDERFLOW = 1e-300  # of f(0), or of 1 if that is more; a value that turns 0 below this may only have run out of digits


def check_range(
    spec: str, ages: NDArray[np.float64], values: NDArray[np.float64], most: float, shown_until: float
) -> None:
    """Raise at the first age where the value is NaN, negative or above `most`, which is f(0), or not shown to fall."""
    if (wrong := _outside(values, most, _slack(most))).any():
        first = int(np.argmax(wrong))
        raise _failure(spec, float(ages[first]), _complaint(float(values[first]), most))
    if (late := ages > shown_until).any():
        age = float(f"{ages[np.argmax(late)]:.6g}")
        raise DecayError(f"{shorten(spec)} cannot be shown to be a decay function as far as age {age} s: it may rise")


@lru_cache(maxsize=256)
def check_formula(spec: str, formula: Formula) -> tuple[str, float, float]:
    """Refuse a formula that is not shown to be a decay function.

    Gives its class, the age from which it is 0, and the age up to which it is shown never to rise.
    """
    check_points(spec, GRID, formula(GRID), formula)
    start = float(formula(0.0))
    if (unsure := falling.noisy(formula, start, GRID[::8])).any():
        age = float(GRID[::8][np.argmax(unsure)])
        raise DecayError(
            f"{shorten(spec)} cannot be computed well enough: at age {age:.6g} s rounding may make it rise"
        )
    if (found := falling.doubt(formula, start)) is not None:
        if len(found.ages):
            check_points(spec, np.append(0.0, found.ages), formula(np.append(0.0, found.ages)), formula)
        digits = 6 if f"{found.first:.6g}" != f"{found.last:.6g}" else 17
        ages = f"between the ages {found.first:.{digits}g} s and {found.last:.{digits}g} s"
        raise DecayError(f"{shorten(spec)} cannot be shown to be a decay function: {ages} it may rise")
    return *_numeric_class(formula), falling.shown_until(formula, start)


def check_points(
    spec: str, ages: NDArray[np.float64], values: NDArray[np.float64], formula: Formula | None = None
) -> None:
    """Raise at the first age where the values turn negative, NaN or infinite, or rise; a `formula` tells where."""
    lowest = np.fmin.accumulate(values)
    slack = _slack(float(values[0]))
    wrong = _outside(values, LARGEST_WEIGHT, slack)
    with np.errstate(all="ignore"):
        bad = wrong | (values > np.append(np.inf, lowest[:-1]) * (1 + ROUNDING) + slack)
    if not bad.any():
        if values[0] <= 0:
            raise DecayError(f"{shorten(spec)} is 0 at every age, so nothing would count; it must start above 0")
        if values[0] < LEAST_START:
            raise DecayError(f"{shorten(spec)} starts at {values[0]:.6g}; it must start at {LEAST_START:g} or above")
        return
    first = int(np.argmax(bad))
    if wrong[first] and not (first and values[first] > 0):  # what passes the limit on its way is rising
        age, value = float(ages[first]), float(values[first])
        if formula and first:
            age = edge(float(ages[first - 1]), age, lambda x: bool(_outside(formula(x), LARGEST_WEIGHT, slack)))[1]
        raise _failure(spec, age, _complaint(value, LARGEST_WEIGHT))
    start = first - 1 - int(np.argmin(values[:first][::-1]))
    top = first + int(np.argmin(np.append(values[first + 1 :] > values[first:-1], False)))
    age, low, high = float(ages[start]), float(values[start]), float(values[top])
    if formula:  # a jump is named by its own age and height
        middle, rise = (low + values[first]) / 2, values[first] - low
        before, after = edge(age, float(ages[first]), lambda x: bool(formula(x) >= middle))
        if formula(after) - formula(before) > rise / 2:
            age, low, high = after, float(formula(before)), float(formula(after))
    digits = 6 if f"{low:.6g}" != f"{high:.6g}" else 17
    raise _failure(spec, age, f"rises from {low:.{digits}g} to {high:.{digits}g}")


def _numeric_class(formula: Formula) -> tuple[str, float]:
    """The class of a decay function as far as the grid shows it, and the age from which it is 0.

    Where the slope of ln f never falls, f(x+1)/f(x) never falls either, for any unit of time: f is converging. Where
    the slope never rises again once f has halved, or tends to one below 0, f(x)/f(x+1) stays above a constant: f is
    super-exponential, also where it is converging as well, like a sum of two exponential decays.
    """
    values = formula(GRID)
    values = np.clip(values, 0.0, values[0])
    if (values == 1).all():
        return "none", math.inf
    underflow = _UNDERFLOW * max(1.0, float(values[0]))
    last = int(np.flatnonzero(values)[-1])
    if last + 1 < len(GRID):
        before, after = edge(float(GRID[last]), float(GRID[last + 1]), lambda x: bool(formula(x) <= 0))
        if formula(before) > underflow:
            return "finite", after
    values = formula(_SCALES)
    ages, logs = _SCALES[values > underflow], np.log(values[values > underflow])
    if len(ages) < 8:
        return "general", math.inf
    drop = logs[0] - logs[-1]
    line = logs[0] - drop * (ages / ages[-1])
    if drop > 1e-4 and (np.abs(logs - line) <= ROUNDING * (1 + np.abs(logs))).all():
        return "exponential", math.inf
    steps = np.diff(ages)
    noise = 16 * np.finfo(np.float64).eps * (1 + np.abs(logs))
    slack = (noise[1:] + noise[:-1]) / steps
    slack = slack[1:] + slack[:-1]
    slopes = np.diff(logs) / steps
    bends = np.diff(slopes)
    if (bends >= -slack).all():
        return "super-exponential" if _ends_exponentially(ages, slopes, drop) else "converging", math.inf
    halved = logs[1:-1] < logs[0] - math.log(2)
    if drop > math.log(1e6) and halved.sum() >= 4 and (bends <= slack)[halved].all():
        return "super-exponential", math.inf
    return "general", math.inf


def _ends_exponentially(ages: NDArray[np.float64], slopes: NDArray[np.float64], drop: float) -> bool:
    """Whether ln f falls as steeply at the end of what can be computed as at half that age."""
    half = int(np.searchsorted(ages, ages[-1] / 2)) - 1
    return bool(drop > math.log(1e6) and slopes[-1] <= _STEADY * slopes[half] < 0)


def edge(low: float, high: float, beyond: Callable[[float], bool]) -> tuple[float, float]:
    """Two neighbouring floats between `low` and `high`, the first before an edge and the second beyond it."""
    while low < (middle := (low + high) / 2) < high:
        low, high = (low, middle) if beyond(middle) else (middle, high)
    return low, high


def _slack(newest: float) -> float:
    return CANCELLATION * newest if newest <= LARGEST_WEIGHT else CANCELLATION


def _outside(values: NDArray[np.float64], most: float, slack: float) -> NDArray[np.bool_]:
    return ~((values >= -slack) & (values <= most * (1 + ROUNDING)))  # NaN is outside too


def _complaint(value: float, most: float) -> str:
    if math.isnan(value):
        return "is not a number"
    if value < 0:
        return f"turns negative ({value:.6g})"
    return "is infinite" if math.isinf(value) else f"is above {most:.6g} ({value:.6g})"


def _failure(spec: str, age: float, problem: str) -> DecayError:
    return DecayError(f"{shorten(spec)} is not a decay function: at age {float(f'{age:.6g}')} s it {problem}")
