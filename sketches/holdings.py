"""What a store holds of some sources, and how a decay weighs it: all that is known before a sketch is opened.

The catalogue has the totals of every epoch. Within an epoch events are taken to come evenly between its oldest and its
newest one. Time is cut into cells, fine where the decay changes fast; every family works out from these cells how wide
an interval to expect. Nothing here looks at a sketch, so nothing here can look at an answer.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Final

import numpy as np

from sketches.arrays import Floats, Ints, distinct_sorted
from sketches.decay import Decay, parse_decay
from sketches.decay.functions import LastEvents, NoDecay
from sketches.durations import SHORTEST
from sketches.question import Question
from sketches.records import dataclass
from sketches.units import SECOND, TimeUnit

_AGES: Final = 96  # cells between the shortest and the longest age, each longer than the one before
_AROUND: Final = 20  # cells on each side of an age at which the decay jumps or bends
_IN_DOUBT: Final = 0.1  # of an event
NO_DECAY: Final = parse_decay("none")

# Nobody knows before asking how many events match. These are the same for all families, so that widths compare.
ONE_END: Final = 0.2  # share of the events beyond a threshold: mostly a tail is asked for
TWO_ENDS: Final = 0.2  # share of the events between two ends
ONE_VALUE: Final = 0.02  # share of one value
LISTED: Final = 0.1  # share of a value that is listed among the heavy hitters
DISTINCT: Final = 50.0  # distinct values, had they equal shares: a self-join is the squared sum over this
SPREAD: Final = 1.0  # standard deviation of weights and of values, over their mean


@dataclass(frozen=True, eq=False)
class Holdings:
    """The epochs of the chosen sources, oldest first: their ends, their events, and how often they were written.

    `largest` is the number of events of the source that has most of them in an epoch, `parts` how many sources there
    are, and `merges` how often a run may have added to the epoch's sketches after they were made.
    """

    oldest: Ints
    newest: Ints
    events: Floats
    largest: Floats
    parts: Floats
    merges: Floats
    unit: TimeUnit = SECOND
    later: Floats | None = None  # of epochs that have faded: so many events their ranges of time count as newer ones

    @classmethod
    def one_epoch(cls, seconds: float, events: float = 1e6) -> Holdings:
        """A source with one epoch, for a promise that is made before anything is stored."""
        count = np.array([events])
        ends = np.array([0]), np.array([max(int(seconds) - 1, 0)])
        return cls(*ends, count, count, np.ones(1), np.zeros(1))

    @classmethod
    def none(cls) -> Holdings:
        """Sources without an event."""
        ints, floats = np.empty(0, np.int64), np.empty(0)
        return cls(ints, ints, floats, floats, floats, floats)

    @property
    def end(self) -> int:
        """The time of the newest event."""
        return int(self.newest.max(initial=0))

    def spread_over(self, points: int) -> list[int]:
        """Times spread over the whole of it, each in the middle of an equal part."""
        first, last = int(self.oldest.min(initial=self.end)), self.end
        return [first + int((last - first) * (2 * at + 1) / (2 * points)) for at in range(points)]

    def newer_than(self, as_of: int, ages: Floats) -> Floats:
        """How many events are newer than these ages in seconds, as of a time; those after it have ages below 0."""
        begin, end = self.oldest.astype(np.float64), self.newest.astype(np.float64) + 1.0
        times = as_of + 1.0 - ages * self.unit.denominator / self.unit.numerator
        since = np.append(np.cumsum(self.events[::-1])[::-1], 0.0)
        epoch = np.searchsorted(begin, times, side="right") - 1
        inside = np.maximum(epoch, 0)
        part = np.clip((end[inside] - times) / (end - begin)[inside], 0.0, 1.0) * self.events[inside]
        return np.asarray(np.where(epoch >= 0, since[inside + 1] + part, since[0]), np.float64)

    def faded(self, question: Question) -> Faded:
        """The cells of time as the question's decay weighs them, as of the question's time."""
        return _faded(self, question.decay, self.end if question.as_of is None else question.as_of)


@dataclass(frozen=True, eq=False)
class Faded:
    """Cells of time, each within one epoch. Ages are in seconds, below 0 for what came after the as-of time.

    `newer` is the share of the epoch's events that are newer than the middle of the cell, whenever they came, `within`
    the share that is in the cell; `density` is events a second. `first` and `last` are the ages at which the cell's
    epoch begins and ends.
    """

    events: Floats
    age: Floats
    first: Floats
    last: Floats
    factor: Floats
    newer: Floats
    within: Floats
    density: Floats
    epoch: Ints
    held: Holdings
    decay: Decay
    as_of: int

    @property
    def total(self) -> float:
        """The decayed number of events."""
        return float(self.events @ self.factor)

    @property
    def times(self) -> Floats:
        """The middles of the cells, in the stream's unit."""
        return self.as_of + 1.0 - self.age * self.held.unit.denominator / self.held.unit.numerator

    @property
    def behind(self) -> Floats:
        """How many events the ranges of time in a cell count as newer: of its epoch, and later ones if it has faded."""
        own = self.newer * self.of_epoch(self.held.events)
        return own if self.held.later is None else own + self.of_epoch(self.held.later)

    @property
    def alive(self) -> float:
        """How many events have any weight left, above a thousandth of a new one's."""
        return float(self.events[self.factor > 1e-3 * self.factor.max(initial=0.0)].sum())

    @property
    def least(self) -> float:
        """What is in doubt even where nothing seems to be, over the decayed number: what is not kept whole is not
        exact, and must not tie with what is."""
        return _IN_DOUBT / max(self.total, 1.0)

    def of_epoch(self, column: Floats) -> Floats:
        """What is known of epochs, for each cell."""
        return column[self.epoch]

    def uncertain(self, seconds: Floats) -> float:
        """How far apart the limits of the decayed number are, over the number itself, where it is known of each event
        only that it came within so many seconds (of all within as many, around it)."""
        if self.total <= 0.0:
            return 0.0
        half = seconds / 2.0
        far, near = np.minimum(self.age + half, self.first), np.maximum(self.age - half, self.last)
        come = (near >= 0.0) | ((half == 0.0) & (self.age >= 0.0))  # the rest may be newer than the as-of time
        least = np.where(come, self.decay(np.maximum(far, 0.0)), 0.0)
        most = np.where(far >= 0.0, self.decay(np.maximum(near, 0.0)), 0.0)
        found = float(self.events @ np.maximum(most - least, 0.0)) / self.total
        return found if isinstance(self.decay, NoDecay) else max(found, self.least)


@lru_cache(maxsize=64)
def _faded(held: Holdings, decay: Decay, as_of: int) -> Faded:
    if isinstance(decay, LastEvents):
        return _faded(held, _as_window(held, decay, as_of), as_of)
    seconds = held.unit.numerator / held.unit.denominator
    begin, end = held.oldest.astype(np.float64), held.newest.astype(np.float64) + 1.0
    density = held.events / (end - begin)  # a step of time
    edges = _edges(begin, end, decay, float(as_of) + 1.0, seconds)
    middle, length = (edges[1:] + edges[:-1]) / 2.0, np.diff(edges)
    epoch = np.searchsorted(begin, middle, side="right") - 1
    inside = (epoch >= 0) & (length > 0.0)
    inside[inside] = middle[inside] < end[epoch[inside]]
    middle, length, epoch = middle[inside], length[inside], epoch[inside]
    age = (as_of + 1.0 - middle) * seconds
    first, last = ((as_of + 1.0 - edge[epoch]) * seconds for edge in (begin, end))
    newer, within = (end[epoch] - middle) / (end - begin)[epoch], length / (end - begin)[epoch]
    factor = np.where(age >= 0.0, decay(np.maximum(age, 0.0)), 0.0)
    events, density = density[epoch] * length, density[epoch] / seconds
    return Faded(events, age, first, last, factor, newer, within, density, epoch, held, decay, as_of)


def _as_window(held: Holdings, decay: LastEvents, as_of: int) -> Decay:
    """The newest events by number as a window: how long it is follows from the totals."""
    cells = _faded(held, NO_DECAY, as_of)
    order = np.argsort(cells.age, kind="stable")
    order = order[cells.age[order] >= 0.0]
    counted = np.cumsum(cells.events[order])
    reached = int(np.searchsorted(counted, decay.count))
    if reached >= len(order):
        return NO_DECAY
    beyond = (counted[reached] - decay.count) / max(cells.density[order[reached]], 1e-300)
    ages = float(
        cells.age[order[reached]] + cells.events[order[reached]] / cells.density[order[reached]] / 2.0 - beyond
    )
    return NO_DECAY.cut(max(ages, SHORTEST))


def _edges(begin: Floats, end: Floats, decay: Decay, now: float, seconds: float) -> Floats:
    """The ends of the cells: of the epochs, at growing distances from now, and around where the decay jumps."""
    longest = float(max(np.abs(np.concatenate((begin, end, [now - 1.0])) - now).max(), 2.0))
    near = np.geomspace(0.5, longest, _AGES)
    found = [begin, end, np.array([now]), now - near, now + near]
    for each in decay.breaks():
        if (at := each / seconds) < longest:
            around = np.geomspace(1e-4, 1.0, _AROUND) * at
            found += [now - at - around, now - at + around, np.array([now - at])]
    edges = distinct_sorted(np.concatenate(found))
    return np.asarray(edges[(edges >= begin.min(initial=now)) & (edges <= end.max(initial=now))])


def measured_share(question: Question, known: float | None = None) -> float:
    """The share of the events that a question's own threshold, range or value selects: the known one, or by the priors
    above."""
    if known is not None:
        return known
    if question.aggregate == "frequency":
        return ONE_VALUE
    if question.aggregate == "heavy-hitters":
        return max(question.phi or 0.0, LISTED)
    if question.phi is not None:
        return question.phi
    if question.threshold is not None and question.threshold.phi is not None and question.threshold.factor == 1.0:
        return max(1.0 - question.threshold.phi, 0.001)
    if question.two_ended:
        return TWO_ENDS
    ends = (question.tau, question.low, question.high, question.value)
    return ONE_END if question.share or any(one is not None for one in ends) else 1.0


def restricted_share(question: Question) -> float:
    """The share of the events that a question's predicate leaves, by the priors above."""
    share = ONE_END ** len(question.where.terms) * (1.0 if question.where.key is None else ONE_VALUE)
    for _, limits in question.where.ranges:
        two = math.isfinite(limits.low) and math.isfinite(limits.high)
        share *= ONE_VALUE if limits.low == limits.high else TWO_ENDS if two else ONE_END
    return share
