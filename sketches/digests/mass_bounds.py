"""Between which limits decayed sums, shares and means lie, from masses whose events are known to lie within ranges.

Each mass has the range of times and the range of values that hold its events. Under any decay each of its events
counts at least as much as at the oldest time of its range and at most as much as at the newest. It satisfies a
predicate surely, possibly, or not at all. So every decayed sum lies between two dot products:

    lower = Σ over masses wholly inside the predicate:  mass·f(as_of - first)   (0 where the mass reaches beyond as_of)
    upper = Σ over masses that touch the predicate:     mass·f(as_of - last)    (f(0) there, 0 where all of it is newer)

This is the reduction of any decay to windows (paper C §5.1), evaluated at stored boundaries only: between them neither
bound of a window's count changes. Everything else (shares, ranks, quantiles, means, heavy hitters) follows from such
bounds by monotonicity, and the estimate is the middle of the interval, which halves the worst error.

Floating point: counts are whole numbers, and where f is 0 or 1 sums of them are exact. Elsewhere each bound is moved
outwards by `ROUNDING` of itself, more than the rounding of f and of the longest sum can amount to. Sums are never
subtracted from each other: what is small beside a large mass would be lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from sketches.arrays import Flags, Floats, Ints, Limits, Rows, Words
from sketches.decay import Decay
from sketches.decay.functions import LastEvents, NoDecay, Window
from sketches.digests.code_ranges import EVERYTHING, Codes, restriction
from sketches.encoding.value_codes import greatest_code, least_code, values_of
from sketches.events import Extremes, Kind, Labels
from sketches.family import Abilities
from sketches.question import Counting, Question
from sketches.records import dataclass
from sketches.time_ranges import FAINT, Ranges

ROUNDING: Final = 1e-12
LOST: Final = 1e-250  # more than all masses that were too small to be numbers, where the newest event weighs 1
_TINY: Final = 1e-290  # numbers below this have few digits
_LONG: Final = 8  # masses to a run, from which on adding up runs first is faster
_CHUNK: Final = 1 << 21  # evaluations of f at a time


class Bounds(NamedTuple):
    """A lower and an upper limit, of the masses of a predicate or of decayed sums at many moments."""

    lower: Floats
    upper: Floats


class Weighing(NamedTuple):
    """What an event of each range of time counts at the least and at the most, one line for each of some moments."""

    moments: Ints
    least: Floats
    most: Floats


class View(NamedTuple):
    """The masses that touch a restriction, with the part of their ranges that lies in it."""

    rows: Rows
    sure: Flags  # whether a mass lies wholly in it
    low: Words
    high: Words
    by_low: Rows  # the order of the beginnings
    by_high: Rows


@dataclass(frozen=True)
class MassBounds:
    """Masses by range of time (`node`) and range of codes (`low` to `high`); no codes: nothing is known of values.

    `width` is how wide an answer is at the most, of what, as of the newest event or later; None: nobody knows
    before. It is relative to the whole decayed sum or, `of_itself`, to the answer. `rounding` is what masses may be off
    by.
    """

    family: str
    abilities: Abilities
    kind: Kind
    labels: Labels
    extremes: Extremes
    ranges: Ranges
    node: Rows
    low: Words
    high: Words
    count: Floats
    weight: Floats
    width: Callable[[Question], float | None]
    of_itself: bool = False
    has_faded: bool = False  # `width` would hold only while all is there that came later, and so is not known
    kept: Counting | None = None  # which of the two is kept, where count and weight are the same; None: both
    single: Floats | None = None  # how much of a box one value can have; None: all of it
    rounding: float = 0.0
    doubtful: Flags | None = None  # masses that may be less than they say, or nothing; None: none

    # Masses and predicates.

    def counted(self, question: Question) -> Floats:
        """What masses count in shares, ranks and counts: their events, or these by their weights."""
        return self.weight if question.by_weight else self.count

    def within(self, codes: Codes) -> tuple[Flags, Flags]:
        """Which masses lie wholly within a range of codes for sure, and which touch it."""
        if codes.empty:
            nothing = np.zeros(len(self.weight), bool)
            return nothing, nothing
        first, last = np.uint64(codes.least), np.uint64(codes.most)
        inside, touched = (self.low >= first) & (self.high <= last), (self.low <= last) & (self.high >= first)
        return inside if self.doubtful is None else inside & ~self.doubtful, touched

    def part(self, mass: Floats, codes: Codes) -> Bounds:
        """What each mass has of a range of codes, at the least and at the most."""
        if codes == EVERYTHING and self.doubtful is None:
            return Bounds(mass, mass)
        inside, touched = self.within(codes)
        most = mass * touched
        if codes.single and self.single is not None:
            most = np.where(inside, most, self.single * touched)
        return Bounds(mass * inside, most)

    def rest(self, mass: Floats, part: Bounds, codes: Codes, where: Codes) -> Bounds:
        """What each mass has of a restriction outside of a range of codes, of which it has `part`."""
        inside, _ = self.within(where)
        sides = [side for side in where.without(codes) if not side.empty]
        most = self.part(mass, sides[0]).upper if len(sides) == 1 else mass * self._touching(sides)
        return Bounds((mass - part.upper) * inside, np.minimum(most, mass - part.lower))

    def _touching(self, sides: Sequence[Codes]) -> Flags:
        touched = np.zeros(len(self.weight), bool)
        for side in sides:
            touched |= self.within(side)[1]
        return touched

    def view(self, question: Question) -> View:
        """The masses that a question's restriction leaves."""
        codes = restriction(question.where, self.kind)
        inside, touched = self.within(codes)
        rows = np.flatnonzero(touched)
        if codes == EVERYTHING:
            return View(rows, inside, self.low, self.high, self.by_low, self.by_high)
        low, high = (
            np.clip(ends[rows], np.uint64(codes.least), np.uint64(codes.most)) if len(rows) else ends[:0]
            for ends in (self.low, self.high)
        )
        orders = (np.argsort(ends, kind="stable") for ends in (low, high))
        return View(rows, inside[rows], low, high, *orders)

    # Decayed sums.

    def weighed(self, question: Question, moments: Ints) -> Iterator[Weighing]:
        """The moments in parts, each with what events count by then."""
        step = max(1, _CHUNK // max(1, len(self.ranges)))
        for begin in range(0, len(moments), step):
            some = moments[begin : begin + step]
            yield Weighing(some, *self.ranges.limits(question.decay, some))

    def totals(self, question: Question, moments: Ints, masses: Sequence[Bounds]) -> list[Bounds]:
        """The decayed sums of masses, moved outwards by what rounding may have done."""
        least_masses, most_masses = (
            np.column_stack([self.per_time_range(one[end]) for one in masses]) for end in (0, 1)
        )
        lower, upper = (np.empty((len(moments), len(masses))) for _ in range(2))
        at = 0
        for _, least, most in self.weighed(question, moments):
            lower[at : at + len(least)], upper[at : at + len(most)] = least @ least_masses, most @ most_masses
            at += len(least)
        found = self.outward(lower, upper, self.slack(question.decay))
        return [Bounds(found.lower[:, column], found.upper[:, column]) for column in range(len(masses))]

    def outward(self, lower: Floats, upper: Floats, slack: float) -> Bounds:
        """Bounds moved apart by what rounding may have done, and by masses that were too small to be numbers."""
        lower, upper = lower * (1.0 - slack), upper * (1.0 + slack)
        if self.rounding == 0.0:
            return Bounds(lower, upper)
        return Bounds(np.maximum(lower - LOST, 0.0), upper + LOST * (upper > 0.0))

    def decayed(self, question: Question, moment: int, masses: Bounds) -> Bounds:
        """The least and the greatest decayed mass of every mass."""
        least, most = self.ranges.limits(question.decay, np.array([moment], np.int64))
        slack = self.slack(question.decay)
        return self.outward(masses.lower * least[0][self.node], masses.upper * most[0][self.node], slack)

    # From sums to answers.

    def sums(self, bounds: Bounds, moments: Ints) -> Limits:
        """Bounds of sums with the estimate in their middle; what can hardly be told from nothing is the least of it."""
        lower, upper = bounds
        scale = self.ranges.scale(moments)
        if scale is not None:
            lower, upper = np.maximum(lower * scale - _TINY, 0.0), upper * scale + _TINY * (upper > 0.0)
        return np.where(upper < self.faded, lower, (lower + upper) / 2.0), lower, upper

    def shares(self, part: Bounds, rest: Bounds, slack: float) -> Limits:
        """The share of a part in itself and the rest."""
        with np.errstate(invalid="ignore", divide="ignore"):
            least = part.lower / (part.lower + rest.upper)
            most = part.upper / (part.upper + rest.lower)
        nothing = part.upper + rest.upper < self.faded
        least = np.where(nothing | np.isnan(least), 0.0, least * (1.0 - slack))
        most = np.where(nothing | np.isnan(most), 1.0, np.minimum(most * (1.0 + slack), 1.0))
        return np.where(nothing, np.nan, (least + most) / 2.0), least, most

    def means(self, weight: Bounds, count: Bounds, slack: float) -> Limits:
        """Σ w·f / Σ f: the least weight over the greatest count and the other way round, within what weights can be."""
        lightest = float(self.extremes.least_weight) * (1.0 - slack)
        heaviest = float(self.extremes.greatest_weight) * (1.0 + slack)
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            least = weight.lower / count.upper
            most = weight.upper / count.lower
            value = (weight.lower + weight.upper) / (count.lower + count.upper)
        nothing = count.upper < self.faded
        least = np.clip(np.where(np.isnan(least), lightest, least), lightest, heaviest)
        most = np.clip(np.where(np.isnan(most), heaviest, most), lightest, heaviest)
        return np.where(nothing, np.nan, np.clip(value, least, most)), least, most

    @property
    def faded(self) -> float:
        """A sum that is less than this at the most can hardly be told from nothing."""
        return 1e10 * LOST if self.rounding else 10.0 * FAINT

    def current(self, moments: Ints) -> bool:
        """Whether moments are as of the newest event or later, where widths are known before."""
        newest = self.extremes.newest
        return newest is None or bool((moments >= newest).all())

    def slack(self, decay: Decay) -> float:
        """What rounding can do to a sum, of itself: nothing where it is one of whole numbers."""
        whole = isinstance(decay, NoDecay | Window | LastEvents) and self.rounding == 0.0 and self.largest < 2.0**53
        return 0.0 if whole else ROUNDING + self.rounding + len(self.weight) * 2.0**-52  # a sum of so many, at worst

    @cached_property
    def largest(self) -> float:
        """What all masses are together, undecayed."""
        return max(float(self.weight.sum()), float(self.count.sum()))

    @property
    def lost(self) -> float:
        return LOST if self.rounding else 0.0

    def used(self, question: Question, moments: Ints) -> Ints:
        """How many masses may carry weight at every moment."""
        codes = restriction(question.where, self.kind)
        rows = self._rows_of_ranges
        if codes != EVERYTHING:
            rows = np.bincount(self.node[self.within(codes)[1]], minlength=len(self.ranges))
        return self.ranges.alive(question.decay, moments, rows)

    @cached_property
    def _rows_of_ranges(self) -> Ints:
        """How many masses each range of time has."""
        return np.bincount(self.node, minlength=len(self.ranges)).astype(np.int64)

    def per_time_range(self, mass: Floats) -> Floats:
        """Masses of masses, added up by range of time."""
        first = self._runs
        if 0 < _LONG * len(first) <= len(mass):
            mass = np.add.reduceat(mass, first)
        node = self.node[first] if len(first) == len(mass) else self.node
        return np.bincount(node, weights=mass, minlength=len(self.ranges)).astype(np.float64)

    @cached_property
    def _runs(self) -> Rows:
        """Where masses of another range of time begin: those of a range are neighbours in a sketch."""
        return np.flatnonzero(np.diff(self.node, prepend=-1))

    @cached_property
    def by_low(self) -> Rows:
        return np.argsort(self.low, kind="stable")

    @cached_property
    def by_high(self) -> Rows:
        return np.argsort(self.high, kind="stable")

    def values_at(self, codes: Words) -> Floats:
        """The values of codes, or the nearest ones that an event can have: not every code is that of a number."""
        least = min(least_code(self.extremes.least_value, self.kind), EVERYTHING.most)
        greatest = max(greatest_code(self.extremes.greatest_value, self.kind), 0)
        known = np.clip(codes, np.uint64(least), np.uint64(greatest))
        return np.asarray(values_of(known, self.kind), np.float64)
