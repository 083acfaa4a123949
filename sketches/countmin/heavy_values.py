"""Heavy hitters of `ecm` sketches: which values are listed, with limits that hold all together, and what is left out.

Limits of a list are of values that were chosen for being large, so each must hold beside all that might have been
chosen. These are fixed before the rows of values are read: the candidates by the events alone, the numbers that pass
group testing by the rows of the dyadic ranges above them, which are hashed apart.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

import numpy as np

from sketches.arrays import Floats, Rows, Words
from sketches.countmin.counter_places import ZERO_CODE
from sketches.countmin.counter_reading import CounterReading
from sketches.decay.functions import LastEvents
from sketches.question import DEFAULT_TOP
from sketches.records import dataclass

_FEW: Final = 64  # dyadic ranges that are followed at least, at each level
_MANY: Final = 1024  # and at most


@dataclass(frozen=True, slots=True)
class HeavyValues:
    """The codes that are listed, greatest first, with their shares, and the share that no other value exceeds."""

    codes: Words
    value: Floats
    lower: Floats
    upper: Floats
    unlisted: float | None  # None where nothing counts


def heavy_values(reading: CounterReading) -> HeavyValues:
    """The heavy hitters of a question.

    Candidates are the values that were heavy in some suffix of an epoch. A decay is a mixture of windows, and the whole
    is the sum over epochs. So as of the newest event or later, a value with a share of ε of the whole has that share in
    a suffix of some epoch, where it was kept.
    """
    question, contents = reading.question, reading.contents
    parameters = contents.parameters
    if reading.total[2] == 0.0:
        nothing = np.zeros(0)
        return HeavyValues(np.zeros(0, np.uint64), nothing, nothing, nothing, None)
    follow = min(max(_FEW, 4 * (question.top or 0), math.ceil(2.0 / (question.phi or 1.0))), _MANY)
    ranged, several = contents.has_ranges, math.ceil(1.0 / parameters.epsilon)
    counters = parameters.rows * (2 * follow * parameters.bits if ranged else len(contents.candidates) + several)
    reading = replace(reading, contents=contents.widened(counters), _levels={})
    codes, dropped = _tested(reading, follow) if ranged else (contents.candidates, 0.0)
    masses = reading.masses(codes, together=max(len(codes), 1))
    value, lower, upper = contents.shares_of(masses, reading.total)
    spilled = np.isin(codes, contents.beyond_codes)  # they hold values beyond the domain too, which are not listed
    lower = np.where(spilled, 0.0, lower)
    order = _listed(reading, codes, value, upper)
    left = np.ones(len(codes), bool)
    left[order] = False
    left |= spilled
    least = reading.total[1]
    greatest = reading.greatest(codes[order], (masses[1] * ~spilled)[order])
    anyone, other = (mass / least if mass < least else 1.0 for mass in (greatest, dropped))
    if not ranged:
        other = 1.0 if reading.past else parameters.epsilon
    rest = max(1.0 - float(lower[order].sum()), 0.0)  # all shares together are 1
    unlisted = min(max(float(upper[left].max(initial=0.0)), other), anyone, rest)
    return HeavyValues(codes[order], value[order], lower[order], upper[order], unlisted)


def _listed(reading: CounterReading, codes: Words, value: Floats, upper: Floats) -> Rows:
    """Which codes are listed, greatest first: the `top` ones, or those that reach φ."""
    question = reading.question
    order = np.lexsort((codes, -value))
    order = order[value[order] > 0.0]
    if question.phi is not None:
        if reading.past or isinstance(question.decay, LastEvents):  # whoever may be heavy
            order = order[upper[order] >= question.phi]
        else:
            order = order[value[order] >= _threshold(reading, question.phi)]
        order = order[: math.ceil(2.0 / question.phi)]  # more than half of them cannot have such a share
    if question.top is not None or question.phi is None:
        order = order[: question.top or DEFAULT_TOP]
    return order


def _threshold(reading: CounterReading, phi: float) -> float:
    """The estimate from which a value is listed: every one with a share of φ + ε reaches it, and of those below φ,
    where there is room between the two, few. Value and total both err by a counter's share."""
    parameters = reading.contents.parameters
    counter = parameters.counter_error(reading.contents.depth if reading.contents.certain else 0)
    surely = (1.0 - counter) / (1.0 + counter) * (phi + parameters.epsilon)
    return max(min((1.0 + counter) * (phi + parameters.sketch_error), surely), 0.0)


def _tested(reading: CounterReading, follow: int) -> tuple[Words, float]:
    """Group testing (E §6.1): the numbers of the domain whose dyadic ranges are all heavy, and what a range that was
    not followed weighs at most. No more ranges are followed than that, the heaviest first."""
    goal = (reading.question.phi or 0.0) * reading.total[1]
    prefixes, dropped = np.zeros(1, np.uint64), 0.0
    for level in range(reading.contents.parameters.bits - 1, 0, -1):
        halves = _halves(prefixes)
        upper = reading.masses(halves, level)[2]
        order = np.argsort(-upper, kind="stable")
        kept = order[: min(follow, int(np.count_nonzero((upper >= goal) & (upper > 0.0))))]
        dropped = max(dropped, float(upper[order[len(kept) :]].max(initial=0.0)))
        prefixes = np.sort(halves[kept])
    return _halves(prefixes) + np.uint64(ZERO_CODE), dropped


def _halves(prefixes: Words) -> Words:
    """The two halves of each dyadic range."""
    return np.concatenate((prefixes << np.uint64(1), prefixes << np.uint64(1) | np.uint64(1)))
