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
outwards by `ROUNDING` of itself, more than the rounding of f and of the longest sum can amount to.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from sketches.arrays import Flags, Floats, Ints, Limits, Rows, Words
from sketches.decay import Decay
from sketches.decay.functions import NoDecay, Window
from sketches.encoding.value_codes import CODES, greatest_code, least_code, values_of
from sketches.events import Extremes, Kind, Labels
from sketches.question import Question
from sketches.time_ranges import Ranges

ROUNDING: Final = 1e-12
_LOST: Final = 1e-250  # more than all masses that were too small to be numbers, where the newest event weighs 1
_TINY: Final = 1e-290  # numbers below this have few digits
_CHUNK: Final = 1 << 21  # evaluations of f at a time


@dataclass(frozen=True)
class MassBounds:
    """Masses by range of time (`node`) and range of codes (`low` to `high`); no codes: nothing is known of values.

    `bound` says in words what the family promises of an aggregate, `rounding` what its masses may be off by.
    """

    family: str
    aggregates: tuple[str, ...]
    kind: Kind
    labels: Labels
    extremes: Extremes
    ranges: Ranges
    node: Rows
    low: Words
    high: Words
    count: Floats | None  # None: only weights are known
    weight: Floats
    bound: Callable[[Question], str]
    single: Floats | None = None  # how much of a box one value can have; None: all of it
    rounding: float = 0.0

    def share_within(self, question: Question, moments: Ints, least: Floats, most: Floats) -> Limits:
        """The share of what masses surely (`least`) and at the most have of something in all that they weigh."""
        columns = [self.per_time_range(mass) for mass in (least, self.weight - least, most, self.weight - most)]
        lower, upper = self.totals(question, moments, columns)
        with np.errstate(invalid="ignore", divide="ignore"):
            least_share = lower[:, 0] / (lower[:, 0] + upper[:, 1])
            most_share = upper[:, 2] / (upper[:, 2] + lower[:, 3])
        nothing = upper[:, 2] + upper[:, 3] == 0.0
        slack = self.slack(question.decay)
        least_share = np.where(nothing | np.isnan(least_share), 0.0, least_share * (1.0 - slack))
        most_share = np.where(nothing | np.isnan(most_share), 1.0, np.minimum(most_share * (1.0 + slack), 1.0))
        return np.where(nothing, np.nan, (least_share + most_share) / 2.0), least_share, most_share

    def mean_within(self, question: Question, moments: Ints, inside: Flags, touched: Flags) -> Limits:
        """Σ w·f / Σ f: the least weight over the greatest count and the other way round, within what weights can be."""
        columns = [
            self.per_time_range(mass * which)
            for mass in (self.mass_of("sum"), self.mass_of("count"))
            for which in (inside, touched)
        ]
        lower, upper = self.totals(question, moments, columns)
        slack = self.slack(question.decay)
        lightest, heaviest = 1.0 - slack, float(self.extremes.greatest_weight) * (1.0 + slack)
        with np.errstate(invalid="ignore", divide="ignore"):
            least = lower[:, 0] / upper[:, 3]
            most = upper[:, 1] / lower[:, 2]
            value = (lower[:, 0] + upper[:, 1]) / (lower[:, 2] + upper[:, 3])
        nothing = upper[:, 3] == 0.0
        least = np.clip(np.where(np.isnan(least), lightest, least), lightest, heaviest)
        most = np.clip(np.where(np.isnan(most), heaviest, most), lightest, heaviest)
        return np.where(nothing, np.nan, np.clip(value, least, most)), least, most

    def totals(
        self, question: Question, moments: Ints, below: list[Floats], above: list[Floats] | None = None
    ) -> tuple[Floats, Floats]:
        """Lower decayed totals of some masses by range of time and upper ones of others (by default the same), moved
        outwards by what rounding may have done."""
        least_masses = np.column_stack(below)
        most_masses = least_masses if above is None else np.column_stack(above)
        lower, upper = (np.empty((len(moments), len(below))) for _ in range(2))
        decay = question.decay
        step = max(1, _CHUNK // max(1, len(self.ranges)))
        for begin in range(0, len(moments), step):
            least, most = self.ranges.factors(decay, moments[begin : begin + step])
            lower[begin : begin + step] = least @ least_masses
            upper[begin : begin + step] = most @ most_masses
        slack = self.slack(decay)
        return self.outward(lower, upper, slack)

    def outward(self, lower: Floats, upper: Floats, slack: float) -> tuple[Floats, Floats]:
        """Bounds moved apart by what rounding may have done, and by masses that were too small to be numbers."""
        lower, upper = lower * (1.0 - slack), upper * (1.0 + slack)
        if self.rounding == 0.0:
            return lower, upper
        return np.maximum(lower - _LOST, 0.0), upper + _LOST * (upper > 0.0)

    def sums(self, lower: Floats, upper: Floats, moments: Ints) -> Limits:
        """Bounds of sums with the estimate in their middle."""
        scale = self.ranges.scale(moments)
        if scale is not None:
            lower, upper = np.maximum(lower * scale - _TINY, 0.0), upper * scale + _TINY * (upper > 0.0)
        return (lower + upper) / 2.0, lower, upper

    def slack(self, decay: Decay) -> float:
        whole = isinstance(decay, NoDecay | Window) and self.rounding == 0.0 and float(self.weight.sum()) < 2.0**53
        return 0.0 if whole else ROUNDING + self.rounding + len(self.weight) * 2.0**-52  # a sum of so many, at worst

    def used(self, question: Question, moments: Ints) -> Ints:
        """How many masses may carry weight at every moment."""
        rows = np.bincount(self.node, minlength=len(self.ranges))
        return self.ranges.alive(question.decay, moments, rows)

    def holds_something(self, question: Question, moments: Ints) -> bool:
        return bool(self.used(question, moments)[0])

    def mass_of(self, aggregate: str) -> Floats:
        if aggregate != "count":
            return self.weight
        assert self.count is not None
        return self.count

    @property
    def single_value_masses(self) -> Floats:
        return self.weight if self.single is None else self.single

    def per_time_range(self, mass: Floats) -> Floats:
        """Masses of masses, added up by range of time."""
        return np.bincount(self.node, weights=mass, minlength=len(self.ranges)).astype(np.float64)

    def within(self, least: int, most: int) -> tuple[Flags, Flags]:
        """Which masses lie wholly within a range of codes, and which touch it."""
        if least > most or least >= CODES or most < 0:
            nothing = np.zeros(len(self.weight), bool)
            return nothing, nothing
        first, last = np.uint64(max(least, 0)), np.uint64(min(most, CODES - 1))
        return (self.low >= first) & (self.high <= last), (self.low <= last) & (self.high >= first)

    @cached_property
    def by_low(self) -> Rows:
        return np.argsort(self.low, kind="stable")

    @cached_property
    def by_high(self) -> Rows:
        return np.argsort(self.high, kind="stable")

    def decayed(self, question: Question, moment: int, mass: Floats) -> tuple[Floats, Floats]:
        """The least and the greatest decayed mass of every mass."""
        decay = question.decay
        least, most = self.ranges.factors(decay, np.array([moment], np.int64))
        slack = self.slack(decay)
        return self.outward(mass * least[0][self.node], mass * most[0][self.node], slack)

    def value_of(self, code: np.uint64) -> float:
        """The value of a code, or the nearest one that an event can have: not every code is that of a number."""
        least, greatest = (
            least_code(self.extremes.least_value, self.kind),
            greatest_code(self.extremes.greatest_value, self.kind),
        )
        known = np.uint64(min(max(int(code), least), greatest))
        return float(values_of(np.array([known]), self.kind)[0])

    def covering(self, codes: Words, which: Flags, mass: Floats) -> Floats:
        """For each code the mass of those masses that hold it."""
        low, high, some = self.low[which], self.high[which], mass[which]
        begun, ended = np.argsort(low, kind="stable"), np.argsort(high, kind="stable")
        started = np.concatenate(([0.0], np.cumsum(some[begun])))[np.searchsorted(low[begun], codes, side="right")]
        gone = np.concatenate(([0.0], np.cumsum(some[ended])))[np.searchsorted(high[ended], codes, side="left")]
        return np.asarray(np.maximum(started - gone, 0.0))
