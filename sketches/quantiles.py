"""Decayed quantiles with intervals, at one as-of time or at many.

Rows lie in the order of their values; at each time one sweep adds up their decayed weight and finds the smallest value
whose share reaches φ. The interval inverts the interval of the rank: it holds the values at which the share of what
lies up to them may be φ. For many times the sums are kept only at some five hundred places along the sweep, and limits
are moved outwards to the next of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sketches.decay import Decay
from sketches.drawn import Drawn
from sketches.intervals import Total, share_bounds
from sketches.totals import FEW, pieces, span

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_ROUNDING: Final = 1e-12  # a cumulated share this close below φ has reached it
_PLACES: Final = 512
_TOGETHER: Final = 8


def quantiles(
    drawn: Drawn, decay: Decay, as_of: Ints, phi: float, confidence: float, unseen: tuple[Floats, Floats]
) -> tuple[Floats, Floats, Floats, Ints]:
    """Value, lower and upper limit, and number of rows that count, per as-of time; NaN where nothing counts."""
    rows, times = len(drawn), len(as_of)
    nothing = np.full(times, np.nan)
    if rows == 0:
        return nothing, nothing, nothing, np.zeros(times, np.int64)
    order = drawn.by_value
    stride = 1 if times <= FEW else max(1, rows // _PLACES)
    places = np.append(np.arange(stride, rows, stride), rows)  # rows counted at each place
    sums = np.empty((3, times, len(places)))
    reached = np.empty(times, np.int64)
    used = np.empty(times, np.int64)
    columns = drawn.quantile_columns
    if times <= FEW:
        for at, moment in enumerate(as_of.tolist()):
            inside = span(drawn.times, moment, decay, drawn.unit)
            fading = np.zeros(rows)
            fading[inside] = decay(drawn.unit.seconds(moment - drawn.times[inside]))
            used[at] = inside.stop - inside.start
            reached[at] = _sweep_one(order, columns, fading, phi * (1.0 - _ROUNDING), sums[:, at])
    else:
        oldest = max(0, int(as_of.max() - drawn.times[0]))
        table = pieces(decay, drawn.unit, (1 << oldest.bit_length()) - 1)
        _sweep_all(
            drawn.times, drawn.amounts, order, columns, as_of, table.first, table.height, table.slope,
            phi * (1.0 - _ROUNDING), stride, sums, reached, used,
        )  # fmt: skip
    values = drawn.sorted_values
    value = np.where(reached >= 0, values[np.maximum(reached, 0)], np.nan)
    whole = Total(*sums[:, :, -1], *unseen)
    lower, upper = _limits(drawn, values, places, sums, whole, phi, confidence)
    exact = (whole.variance == 0) & (whole.unseen == 0)
    empty = reached < 0
    lower = np.where(exact, value, np.where(empty, drawn.least_value, np.fmin(lower, value)))
    upper = np.where(exact, value, np.where(empty, drawn.greatest_value, np.fmax(upper, value)))
    return value, lower, upper, used


def _limits(
    drawn: Drawn, values: Floats, places: NDArray[np.intp], sums: Floats, whole: Total, phi: float, confidence: float
) -> tuple[Floats, Floats]:
    times = len(whole.certain)
    row = np.arange(times)[:, None]

    def shares(index: NDArray[np.intp]) -> tuple[Floats, Floats]:
        part = Total(*(column[row, index] for column in sums), whole.unseen[:, None], whole.unseen_variance[:, None])
        rest = Total(
            *(np.maximum(column[:, -1:] - column[row, index], 0.0) for column in sums), part.unseen, part.unseen_variance
        )
        return share_bounds(part, rest, confidence)

    possible, certain = _first_two(lambda index: tuple(limit >= phi for limit in shares(index)[::-1]), times, len(places))
    none = Total(*(np.zeros(times) for _ in range(3)), whole.unseen, whole.unseen_variance)
    below_all = share_bounds(none, whole, confidence)[1] >= phi
    before = np.concatenate([[0], places])[np.minimum(possible, len(places) - 1)]
    lower = np.where(below_all, drawn.least_value, values[before])
    found = certain < len(places)
    upper = np.where(found, values[places[np.minimum(certain, len(places) - 1)] - 1], drawn.greatest_value)
    return lower, upper


def _first_two(
    holds: Callable[[NDArray[np.intp]], tuple[NDArray[np.bool_], ...]], times: int, length: int
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Per time the first index at which each of two monotone conditions holds (length: nowhere).

    Both are searched at once with several probes a round, because a call costs more than its numbers.
    """
    probes = 48 if times == 1 else 8
    low, high = np.zeros((2, times), np.intp), np.full((2, times), length, np.intp)
    steps = np.arange(probes)
    side, row = np.ogrid[:2, :times]
    while (low < high).any():
        asked = np.minimum(low[..., None] + (high - low)[..., None] * steps // probes, length - 1)
        first, second = holds(np.concatenate(asked, axis=1))
        true = np.stack([first[:, :probes], second[:, probes:]])
        hit = np.where(true.any(axis=2), true.argmax(axis=2), probes)
        above = asked[side, row, np.minimum(hit, probes - 1)]
        below = asked[side, row, np.maximum(hit, 1) - 1] + 1
        searching = low < high
        low = np.where(searching & (hit > 0), below, low)
        high = np.where(searching & (hit < probes), above, high)
    return high[0], high[1]


@njit(cache=True, nogil=True)
def _reached(
    order: NDArray[np.intp], columns: Floats, fading: Floats, goal: float, stride: int, sums: Floats
) -> int:
    """The first row at which the cumulated weight reaches the goal, from the last place before it."""
    rows = len(order)
    low, high = 0, sums.shape[1] - 1
    while low < high:
        middle = (low + high) // 2
        if sums[0, middle] + sums[1, middle] >= goal:
            high = middle
        else:
            low = middle + 1
    mass = sums[0, low - 1] + sums[1, low - 1] if low > 0 else 0.0
    last = low * stride
    for at in range(low * stride, min((low + 1) * stride, rows)):
        weight = fading[order[at]]
        if weight > 0.0:
            mass += (columns[at, 0] + columns[at, 1]) * weight
            last = at
            if mass >= goal:
                break
    return last


@njit(cache=True, nogil=True)
def _sweep_one(order: NDArray[np.intp], columns: Floats, fading: Floats, phi: float, sums: Floats) -> int:
    """`_sweep` for a single time, with the sums at every row."""
    certain = sampled = variance = 0.0
    for at in range(len(order)):
        weight = fading[order[at]]
        certain += columns[at, 0] * weight
        sampled += columns[at, 1] * weight
        variance += columns[at, 2] * weight * weight
        sums[0, at], sums[1, at], sums[2, at] = certain, sampled, variance
    if certain + sampled <= 0.0:
        return -1
    return _reached(order, columns, fading, phi * (certain + sampled), 1, sums)


@njit(cache=True, nogil=True)
def _sweep(order: NDArray[np.intp], columns: Floats, fading: Floats, goals: Floats, stride: int, sums: Floats) -> Ints:
    """Cumulate what is certain, what is sampled and the variance in the order of the values, at _TOGETHER times.

    `columns` lie in that order already, `fading` in the order of time; `sums` takes the cumulated ones after every
    `stride` rows and at the end. The result is per time the first row at which their sum reaches the goal, -1 where
    there is no weight at all. Several times share a sweep because fetching a row costs more than its arithmetic.
    """
    rows = len(order)
    certain, sampled, variance = np.zeros(_TOGETHER), np.zeros(_TOGETHER), np.zeros(_TOGETHER)
    reached = np.full(_TOGETHER, -1)
    place = 0
    for at in range(rows):
        row = order[at]
        for lane in range(_TOGETHER):
            weight = fading[row, lane]
            certain[lane] += columns[at, 0] * weight
            sampled[lane] += columns[at, 1] * weight
            variance[lane] += columns[at, 2] * weight * weight
        if (at + 1) % stride == 0 or at + 1 == rows:
            for lane in range(sums.shape[1]):
                sums[0, lane, place], sums[1, lane, place], sums[2, lane, place] = (
                    certain[lane], sampled[lane], variance[lane],
                )  # fmt: skip
            place += 1
    for lane in range(sums.shape[1]):
        if goals[lane] > 0.0:
            reached[lane] = _reached(order, columns, fading[:, lane], goals[lane], stride, sums[:, lane])
    return reached


@njit(cache=True, nogil=True)
def _sweep_all(
    times: Ints,
    amounts: Floats,
    order: NDArray[np.intp],
    columns: Floats,
    as_of: Ints,
    first: Ints,
    height: Floats,
    slope: Floats,
    phi: float,
    stride: int,
    sums: Floats,
    reached: Ints,
    used: Ints,
) -> None:
    """`_sweep` at each as-of time, with the decay read off its straight pieces while walking back in time."""
    fading = np.zeros((len(times), _TOGETHER))
    goals = np.zeros(_TOGETHER)
    for start in range(0, len(as_of), _TOGETHER):
        stop = min(start + _TOGETHER, len(as_of))
        fading[:] = 0.0
        for lane in range(stop - start):
            moment = as_of[start + lane]
            piece = 0
            row = np.searchsorted(times, moment, side="right") - 1
            newest = row
            whole = 0.0
            while row >= 0:
                age = moment - times[row]
                while piece < len(height) and age >= first[piece + 1]:
                    piece += 1
                if piece == len(height):
                    break
                fading[row, lane] = height[piece] + slope[piece] * (age - first[piece])
                whole += fading[row, lane] * amounts[row]
                row -= 1
            used[start + lane] = newest - row
            goals[lane] = phi * whole
        reached[start:stop] = _sweep(order, columns, fading, goals, stride, sums[:, start:stop])[: stop - start]
