"""From which age on the events of a stretch of time may stand together, because a decay weighs them nearly alike.

A block of L times whose newest one is `a` old may stand while f(a) ≤ (1 + error)·f(a + L - 1). It is left alone as it
ages only if that never fails later: so what counts is the greatest quotient f(y)/f(y + L - 1) at any age y ≥ a. Where
the logarithm of f is convex (polynomial, logarithmic, exponential decay) that is the quotient at `a` itself. For other
decays it is bounded on a grid of ages between which f falls by a small part of the error.

The number of regions is what a decay costs: its weights, from the newest to the oldest that are to be told apart, fall
by 1 + error so often. A store has about twice as many blocks. So a decay is not good or bad by its class: exponential
decay takes λ·T/error regions over a time T, a polynomial one only α·ln(T/unit)/error (Cormode, Tirthapura, Xu 2009,
§3.2, and §4 for why no small sketch does better).
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Final

import numpy as np

from sketches.arrays import Floats, Ints
from sketches.decay import Decay
from sketches.units import TimeUnit

NEVER: Final = 1 << 62  # an age that no event has
_COARSE: Final = 0.01  # how much a decay falls from region to region where only a width is looked for
_MOST: Final = 10_000  # of those regions
_FINER: Final = 32  # levels of the grid to a region
_ROUNDING: Final = 1.0 - 1e-12


def regions(decay: Decay, error: float, history: float) -> float:
    """How often the weight falls by 1 + error within `history` seconds; infinite where nothing is left by then.

    >>> from sketches.decay import parse_decay
    >>> round(regions(parse_decay("poly:alpha=1,unit=1m"), 0.1, 86_400.0))
    76
    >>> regions(parse_decay("window:1h"), 0.1, 86_400.0)
    inf
    """
    last = float(decay(history))
    return math.log(decay.at_newest / last) / math.log1p(error) if last > 0.0 else math.inf


@lru_cache(maxsize=64)
def reach(decay: Decay, unit: TimeUnit, lengths: tuple[int, ...], error: float, history: float) -> Ints:
    """For each of some lengths, which rise, the age of its newest time from which on a block may be so long.

    Ages and lengths are counted in `unit`; `NEVER` where there is no such age. What is shown of a decay whose logarithm
    is not known to be convex holds for ages up to `history`, in seconds.
    """
    beyond = np.array(lengths, np.int64) - 1
    if decay.log_convex:
        found = _by_halving(decay, unit, beyond, error)
    else:
        found = _by_levels(decay, unit, beyond, error, history)
    found[beyond == 0] = 0
    found = np.maximum.accumulate(found)  # what holds of a block holds of its halves
    found.flags.writeable = False
    return found


def quotient(decay: Decay, unit: TimeUnit, ages: Ints, lengths: Ints, history: float) -> float:
    """The greatest f(y)/f(y + length - 1) of blocks of these lengths, each at this age or any later one; infinite where
    a decay leaves nothing, or next to nothing.

    This is the width that Cormode, Korn and Tirthapura 2008, Lemma 1, promise of a decay for which the blocks were not
    made: their condition, with the decay that is asked for on both sides.
    """
    if len(ages) == 0:
        return 1.0
    beyond = lengths - 1
    if decay.log_convex:
        return float(_quotients(_at(decay, unit, ages), _at(decay, unit, ages + beyond)).max())
    if regions(decay, _COARSE, history) > _MOST:
        return math.inf
    first, last = _levels(decay, unit, _COARSE, history)
    most = 1.0
    for age, more in zip(ages.tolist(), beyond.tolist(), strict=True):
        since = last >= age
        begin = np.maximum(first[since], age)
        most = max(
            most, float(_quotients(_at(decay, unit, begin), _at(decay, unit, last[since] + more)).max(initial=1))
        )
    return most


def _at(decay: Decay, unit: TimeUnit, ages: Ints) -> Floats:
    return decay(unit.seconds(ages))


def _quotients(newer: Floats, older: Floats) -> Floats:
    """1 where neither counts."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.where(newer > 0.0, newer / older, 1.0)


def _by_halving(decay: Decay, unit: TimeUnit, beyond: Ints, error: float) -> Ints:
    """Where quotients only fall with age, by halving the ages in which they reach 1 + error."""
    most = (1.0 + error) * _ROUNDING
    low, high = np.full(len(beyond), -1, np.int64), np.full(len(beyond), NEVER, np.int64)
    while (high - low > 1).any():
        middle = low + (high - low) // 2
        within = _quotients(_at(decay, unit, middle), _at(decay, unit, middle + beyond)) <= most
        low, high = np.where(within, low, middle), np.where(within, middle, high)
    return high


def _by_levels(decay: Decay, unit: TimeUnit, beyond: Ints, error: float, history: float) -> Ints:
    """Where they may rise again: after the last stretch of ages in which a quotient may exceed 1 + error."""
    most = (1.0 + error) * _ROUNDING
    first, last = _levels(decay, unit, error, history)
    newer = _at(decay, unit, first)
    found = np.full(len(beyond), NEVER, np.int64)
    for at, more in enumerate(beyond.tolist()):
        if more > last[-1]:
            break
        exceeding = np.flatnonzero(_quotients(newer, _at(decay, unit, last + more)) > most)
        if len(exceeding) == 0:
            found[at] = 0
        elif exceeding[-1] + 1 < len(first):
            found[at] = first[exceeding[-1] + 1]
    return found


@lru_cache(maxsize=16)
def _levels(decay: Decay, unit: TimeUnit, error: float, history: float) -> tuple[Ints, Ints]:
    """Stretches of ages, each from its first to its last, within which a decay falls by a small part of the error.

    A stretch is a single age where the decay falls by more from one to the next.
    """
    until = int(history * unit.denominator / unit.numerator)
    step = math.log1p(error) / _FINER
    count = math.ceil(regions(decay, math.expm1(step), history)) + 1
    levels = decay.at_newest * np.exp(-step * np.arange(1, count + 1))
    low, high = np.zeros(count, np.int64), np.full(count, until + 1, np.int64)  # f is at a level or above, and below it
    while (high - low > 1).any():
        middle = low + (high - low) // 2
        above = _at(decay, unit, middle) >= levels
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    last = np.unique(np.append(low, until))
    return np.append(0, last[:-1] + 1), last
