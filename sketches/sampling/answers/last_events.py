"""Answers over the newest N events by number, `last:N`, whatever their ages.

They begin at the time of the N-th newest event, and those of that very time all belong to them. A sample knows that
time only within limits, where the number of events since then may be N. What is asked is answered from each time on at
which they may begin. A sum of something that is never negative is the larger, the earlier they begin, so the two ends
are enough for it. For the others the answers at times in between are looked at as well.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from sketches.arrays import Floats, Ints
from sketches.errors import UnanswerableError
from sketches.question import Question
from sketches.sampling.estimation.inquiry import Estimates
from sketches.sampling.estimation.intervals import Total
from sketches.sampling.estimation.poisson_sample import PoissonSample
from sketches.sampling.inclusion.strata import Strata

_ROUNDING: Final = 1e-12
_FEW_ROWS: Final = 4_096  # the newest ones, which are looked at first
_BETWEEN: Final = 33  # times looked at between the earliest and the latest beginning
_MONOTONE: Final = frozenset({"sum", "count", "range-sum", "correlated-sum", "correlated-count", "self-join"})

_Since = Callable[[int, int, float], Estimates]  # from a beginning to an as-of time, at a confidence


class _Beginnings(NamedTuple):
    """When the newest events begin: at the earliest, by the estimate, at the latest."""

    earliest: int
    estimate: int
    latest: int


def over_last_events(
    events: PoissonSample, question: Question, count: int, as_of: Ints, confidence: float, since: _Since
) -> Estimates:
    """The answer at each as-of time; `events` counts every event once, before any predicate."""
    careful = (1.0 + confidence) / 2.0
    parts = []
    for moment in as_of.tolist():
        begin = _beginnings(events, count, moment, careful)
        if begin.earliest == begin.latest:
            parts.append(since(begin.estimate, moment, confidence))
        else:
            parts.append(_enclosing(events, question, begin, moment, lambda at, now: since(at, now, careful)))
    return Estimates.joined(parts)


def _beginnings(events: PoissonSample, count: int, moment: int, confidence: float) -> _Beginnings:
    """Since when there surely are N events, since when by the estimate, and since when there may be."""
    stop = int(np.searchsorted(events.times, moment, side="right"))
    oldest = int(min(events.strata.oldest.min(initial=moment), events.times[:stop].min(initial=moment)))
    if stop == 0:
        return _Beginnings(oldest, moment, moment)
    rows = _FEW_ROWS
    while True:
        start = int(np.searchsorted(events.times, events.times[max(stop - rows, 0)], side="left"))
        found = _among_newest(events, count, moment, (start, stop), oldest, confidence)
        if found is not None:
            return found
        rows *= 4


def _among_newest(
    events: PoissonSample, count: int, moment: int, rows: tuple[int, int], oldest: int, confidence: float
) -> _Beginnings | None:
    """The same if some of the rows, up to the as-of time, tell; None if older ones have to be looked at."""
    start, stop = rows
    newest_first = slice(stop - 1, start - 1 if start else None, -1)
    times = events.times[newest_first]
    ends = np.append(np.flatnonzero(np.diff(times)), len(times) - 1)  # the last row of each time
    begins = times[ends]
    certain, sampled = (np.cumsum(one[newest_first])[ends] for one in events.count_coefficients.linear)
    variance = np.cumsum(events.count_coefficients.squared[0][newest_first])[ends]
    unseen, spread = _unseen_since(events.strata, begins, moment)
    total = Total(certain, sampled, variance, unseen, spread)
    lower, upper = total.bounds(confidence)
    goal = count * (1.0 - _ROUNDING)

    def reached(numbers: Floats) -> int | None:
        there = np.flatnonzero(numbers >= goal)
        return int(there[0]) if len(there) else None

    sure, likely, may = reached(lower), reached(total.value), reached(upper)
    if start and None in (sure, likely, may):
        return None
    latest = oldest
    if may is not None:  # an unseen event may lie anywhere between this sampled one and the next newer one
        latest = int(begins[may]) if unseen[may] == 0.0 else int(begins[may - 1]) if may else moment
    earliest = oldest if sure is None else int(begins[sure])
    estimate = oldest if likely is None else int(begins[likely])
    return _Beginnings(earliest, min(max(estimate, earliest), latest), latest)


def _unseen_since(strata: Strata, begins: Ints, moment: int) -> tuple[Floats, Floats]:
    """The most that one unsampled event since each time counts, and its variance."""
    order = np.argsort(-strata.newest, kind="stable")
    order = order[strata.oldest[order] <= moment]
    largest = np.maximum.accumulate(np.append(0.0, strata.event_design_weight[order]))
    exclusion = np.maximum.accumulate(
        np.append(0.0, np.where(strata.event_design_weight > 0, strata.event_exclusion_probability, 0.0)[order])
    )
    reached = np.searchsorted(-strata.newest[order], -begins, side="right")
    return largest[reached], np.square(largest[reached]) * exclusion[reached]


def _enclosing(
    events: PoissonSample, question: Question, begin: _Beginnings, moment: int, since: Callable[[int, int], Estimates]
) -> Estimates:
    """The answer wherever the newest events begin between the earliest and the latest time."""
    if question.aggregate == "heavy-hitters":
        raise UnanswerableError(
            f"where the newest events begin ({question.decay.spec}) is known only within limits here, and a list over "
            "them has no bound: ask for a window of time"
        )
    middle = since(begin.estimate, moment)
    ends = [begin.earliest, begin.latest]
    if question.aggregate not in _MONOTONE or question.of_value:
        between = events.times[slice(*np.searchsorted(events.times, [begin.earliest, begin.latest]))]
        ends += between[np.linspace(0, len(between) - 1, min(_BETWEEN, len(between))).astype(np.intp)].tolist()
    found = [middle, *(since(end, moment) for end in sorted(set(ends)))]
    lower, upper = np.fmin.reduce([one.lower for one in found]), np.fmax.reduce([one.upper for one in found])
    return Estimates(middle.value, lower, upper, middle.used)
