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
from sketches.totals import FEW, FINE, LARGE, TOLERANCE, all_but_faded, fade, pieces_for

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_ROUNDING: Final = 1e-12  # a cumulated share this close below φ has reached it
_PLACES: Final = 512
_MANY_PLACES: Final = 4096  # for one time over very many rows


def quantiles(
    drawn: Drawn, decay: Decay, as_of: Ints, phi: float, confidence: float, unseen: tuple[Floats, Floats]
) -> tuple[Floats, Floats, Floats, Ints]:
    """Value, lower and upper limit, and number of rows that count, per as-of time; NaN where nothing counts."""
    rows, times = len(drawn), len(as_of)
    nothing = np.full(times, np.nan)
    if rows == 0:
        return nothing, nothing, nothing, np.zeros(times, np.int64)
    if times > FEW:
        found = _quantiles(drawn, decay, as_of, phi, confidence, unseen)
        for at in all_but_faded(drawn.times, drawn.unit, decay, as_of):
            one = slice(at, at + 1)
            exact = _quantiles(drawn, decay, as_of[one], phi, confidence, (unseen[0][one], unseen[1][one]))
            for column, number in zip(found, exact, strict=True):
                column[one] = number
        return found
    return _quantiles(drawn, decay, as_of, phi, confidence, unseen)


def _quantiles(
    drawn: Drawn, decay: Decay, as_of: Ints, phi: float, confidence: float, unseen: tuple[Floats, Floats]
) -> tuple[Floats, Floats, Floats, Ints]:
    rows, times = len(drawn), len(as_of)
    order = drawn.by_value
    plain = times <= FEW and rows < LARGE
    stride = 1 if plain else max(1, rows // (_PLACES if times > FEW else _MANY_PLACES))
    places = np.append(np.arange(stride, rows, stride), rows)  # rows counted up to each place
    sums = np.empty((3, times, len(places)))
    reached = np.empty(times, np.int64)
    used = np.empty(times, np.int64)
    slack = 0.0
    if plain:
        for at, moment in enumerate(as_of.tolist()):
            faded = fade(drawn.times, moment, decay, drawn.unit)
            fading = np.zeros(rows)
            fading[faded.rows] = faded.weights
            used[at] = np.count_nonzero(fading)
            reached[at] = _sweep_one(order, drawn.quantile_columns, fading, phi * (1.0 - _ROUNDING), sums[:, at])
    else:
        table = pieces_for(drawn.times, int(as_of.max()), drawn.unit, decay, TOLERANCE if times > FEW else FINE)
        slack = table.slack
        _sweep_all(
            drawn.times, drawn.time_columns, order, drawn.blocks(stride), as_of, table.first, table.height, table.slope,
            phi * (1.0 - _ROUNDING), stride, sums, reached, used,
        )  # fmt: skip
    values = drawn.sorted_values
    value = np.where(reached >= 0, values[np.maximum(reached, 0)], np.nan)
    whole = Total(sums[0, :, -1], sums[1, :, -1], sums[2, :, -1], *unseen, slack)
    lower, upper = _limits(drawn, values, places, sums, whole, phi, confidence)
    empty = reached < 0
    exact = whole.exact | (empty & (whole.unseen == 0))
    lower = np.where(exact, value, np.where(empty, drawn.least_value, np.fmin(lower, value)))
    upper = np.where(exact, value, np.where(empty, drawn.greatest_value, np.fmax(upper, value)))
    return value, lower, upper, used


def sweep(drawn: Drawn, decay: Decay, as_of: int) -> tuple[Floats, Floats, float]:
    """At one time the cumulated certain, sampled and variance sums along the values, the sorted values, the slack."""
    sums = np.zeros((3, len(drawn)))
    faded = fade(drawn.times, as_of, decay, drawn.unit)
    fading = np.zeros(len(drawn))
    fading[faded.rows] = faded.weights
    _sweep_one(drawn.by_value, drawn.quantile_columns, fading, 0.5, sums)
    return sums, drawn.sorted_values, faded.slack


def limits_of(
    drawn: Drawn,
    sums: Floats,
    values: Floats,
    phis: Floats,
    confidence: float,
    unseen: tuple[Floats, Floats],
    slack: float,
) -> tuple[Floats, Floats, Floats]:
    """Value, lower and upper limit at many shares of one sweep."""
    cumulated = sums[0] + sums[1]
    value = values[np.minimum(np.searchsorted(cumulated, phis * (1.0 - _ROUNDING) * cumulated[-1]), len(values) - 1)]
    one = np.ones(len(phis))
    whole = Total(sums[0, -1] * one, sums[1, -1] * one, sums[2, -1] * one, unseen[0] * one, unseen[1] * one, slack)
    if whole.exact.all():
        return value, value, value
    shared = np.broadcast_to(sums[:, None, :], (3, len(phis), sums.shape[1]))
    lower, upper = _limits(drawn, values, np.arange(1, len(values) + 1), shared, whole, phis, confidence)
    return value, np.fmin(lower, value), np.fmax(upper, value)


def _limits(
    drawn: Drawn,
    values: Floats,
    places: NDArray[np.intp],
    sums: Floats,
    whole: Total,
    phi: float | Floats,
    confidence: float,
) -> tuple[Floats, Floats]:
    times = len(whole.certain)
    row = np.arange(times)[:, None]
    most, most_variance = whole.unseen[:, None], whole.unseen_variance[:, None]
    everything = Total(
        whole.certain[:, None], whole.sampled[:, None], whole.variance[:, None], most, most_variance, whole.slack
    )

    def shares(index: NDArray[np.intp]) -> tuple[Floats, Floats]:
        certain, sampled, variance = sums[0][row, index], sums[1][row, index], sums[2][row, index]
        part = Total(certain, sampled, variance, most, most_variance, whole.slack)
        return share_bounds(part, everything.less(part), confidence)

    goal = np.broadcast_to(phi, times)[:, None]
    possible, sure = _first_two(lambda index: tuple(limit >= goal for limit in shares(index)[::-1]), times, len(places))
    zero = np.zeros(times)
    none = Total(zero, zero, zero, whole.unseen, whole.unseen_variance, whole.slack)
    below_all = share_bounds(none, whole, confidence)[1] >= goal[:, 0]
    before = np.concatenate([[0], places])[np.minimum(possible, len(places) - 1)]
    lower = np.where(below_all, drawn.least_value, values[before])
    found = sure < len(places)
    upper = np.where(found, values[places[np.minimum(sure, len(places) - 1)] - 1], drawn.greatest_value)
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
def _sweep_one(order: NDArray[np.intp], columns: Floats, fading: Floats, phi: float, sums: Floats) -> int:
    """Cumulate what is certain, what is sampled and the variance in the order of the values, at a single time.

    `columns` lie in that order already, `fading` in the order of time. The result is the first row at which the share
    reaches φ, -1 where there is no weight at all.
    """
    certain = sampled = variance = 0.0
    for at in range(len(order)):
        weight = fading[order[at]]
        certain += columns[at, 0] * weight
        sampled += columns[at, 1] * weight
        variance += columns[at, 2] * weight * weight
        sums[0, at], sums[1, at], sums[2, at] = certain, sampled, variance
    if certain + sampled <= 0.0:
        return -1
    return int(np.searchsorted(sums[0] + sums[1], phi * (certain + sampled)))


@njit(cache=True, nogil=True)
def _sweep_all(
    times: Ints,
    columns: Floats,
    order: NDArray[np.intp],
    block: NDArray[np.int32],
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
    """The sums at the places, for each as-of time, walking back in time along the decay's straight pieces.

    Rows are read in the order of time and added to the block of values they belong to: the blocks stay in the fastest
    cache, where a walk in the order of the values would fetch every row from afar.
    """
    blocks = np.zeros((sums.shape[2], 3))
    for at in range(len(as_of)):
        blocks[:] = 0.0
        moment = as_of[at]
        piece = 0
        newest = np.searchsorted(times, moment, side="right") - 1
        row = newest
        while row >= 0:
            age = moment - times[row]
            while piece < len(height) and age >= first[piece + 1]:
                piece += 1
            if piece == len(height):
                break
            weight = height[piece] + slope[piece] * (age - first[piece])
            group = block[row]
            blocks[group, 0] += columns[0, row] * weight
            blocks[group, 1] += columns[1, row] * weight
            blocks[group, 2] += columns[2, row] * weight * weight
            row -= 1
        used[at] = newest - row
        for column in range(3):
            mass = 0.0
            for place in range(len(blocks)):
                mass += blocks[place, column]
                sums[column, at, place] = mass
        goal = phi * (sums[0, at, -1] + sums[1, at, -1])
        if goal <= 0.0:
            reached[at] = -1
            continue
        place = np.searchsorted(sums[0, at] + sums[1, at], goal)
        start, stop = place * stride, min((place + 1) * stride, len(order))
        mass = sums[0, at, place - 1] + sums[1, at, place - 1] if place > 0 else 0.0
        reached[at] = start
        for rank in range(start, stop):
            age = moment - times[order[rank]]
            if age < 0 or age >= first[-1]:
                continue
            piece = np.searchsorted(first, age, side="right") - 1
            weight = height[piece] + slope[piece] * (age - first[piece])
            if weight > 0.0:
                reached[at] = rank
                mass += (columns[0, order[rank]] + columns[1, order[rank]]) * weight
                if mass >= goal:
                    break
