"""Answers that are never outside their bounds: from masses whose events are known to lie within ranges.

A box is a mass with the range of times and the range of values that hold its events. Under any decay each of its events
counts at least as much as at the oldest time of the box and at most as much as at the newest, and satisfies a predicate
surely, possibly, or not at all. So every decayed sum lies between two dot products:

    lower = Σ over boxes wholly inside the predicate:  mass·f(as_of - first)   (0 where the box reaches beyond as_of)
    upper = Σ over boxes that touch the predicate:     mass·f(as_of - last)    (f(0) there, 0 where all of it is newer)

This is the reduction of any decay to windows (paper C §5.1), evaluated at stored boundaries only: between them neither
bound of a window's count changes. Everything else (shares, ranks, quantiles, means, heavy hitters) follows from such
bounds by monotonicity, and the estimate is the middle of the interval, which halves the worst error.

Floating point: counts are whole numbers, and where f is 0 or 1 sums of them are exact. Elsewhere each bound is moved
outwards by `_ROUNDING` of itself, more than the rounding of f and of the longest sum can amount to.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, Protocol

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from sketches.answers import DEFAULT_TOP, ORDERED
from sketches.curves import Curve
from sketches.decay import Decay, NoDecay, Window
from sketches.drawn import Extremes, TimeUnit
from sketches.errors import QuestionError, UnanswerableError
from sketches.estimate import Estimate, Item, Series
from sketches.events import MAX_TIME, Kind, Labels
from sketches.hashing import hash_one
from sketches.order import CODES, greatest_code, least_code, values_of
from sketches.question import Question

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Words = NDArray[np.uint64]
Limits = tuple[Floats, Floats, Floats]  # value, lower, upper, one entry a moment

_ROUNDING: Final = 1e-12
_LOST: Final = 1e-250  # more than all masses that were too small to be numbers, where the newest event weighs 1
_TINY: Final = 1e-290  # numbers below this have few digits
_ROWS: Final = "; rows count as often as they came"
_CHUNK: Final = 1 << 21  # evaluations of f at a time


class Ranges(Protocol):
    """The ranges of time that boxes lie in."""

    def __len__(self) -> int: ...

    def factors(self, decay: Decay, moments: Ints) -> tuple[Floats, Floats]:
        """The least and the greatest f that an event of each range can have, a row a moment."""

    def alive(self, decay: Decay, moments: Ints, rows: Ints) -> Ints:
        """How many of the rows of each range may carry weight, summed up, at every moment."""

    def scale(self, moments: Ints) -> Floats | None:
        """What sums, but not shares, are to be multiplied with at every moment; None: nothing."""


@dataclass(frozen=True, slots=True)
class TimeRanges:
    """Ranges from a first to a last time: f at the oldest and at the newest one that a moment has seen."""

    first: Ints
    last: Ints
    unit: TimeUnit

    def __len__(self) -> int:
        return len(self.first)

    def factors(self, decay: Decay, moments: Ints) -> tuple[Floats, Floats]:
        unit = self.unit
        shape = (len(moments), len(self.first))
        oldest, newest = np.empty(shape), np.empty(shape)
        _ages(moments, self.first, self.last, np.float64(unit.numerator), np.float64(unit.denominator), oldest, newest)
        least, most = decay(oldest), decay(newest)
        return np.minimum(least, most, out=least), most

    def alive(self, decay: Decay, moments: Ints, rows: Ints) -> Ints:
        unit = self.unit
        reach = decay.horizon * unit.denominator / unit.numerator
        begun, faded = np.argsort(self.first, kind="stable"), np.argsort(self.last, kind="stable")
        come, gone = (np.concatenate(([0], np.cumsum(rows[order]))) for order in (begun, faded))
        here = come[np.searchsorted(self.first[begun], moments, side="right")]
        if reach > 2.0 * MAX_TIME:
            return np.asarray(here, np.int64)
        before = np.maximum(moments, math.ceil(reach) - MAX_TIME - 1) - math.ceil(reach)
        return np.asarray(here - gone[np.searchsorted(self.last[faded], before, side="right")], np.int64)

    def scale(self, moments: Ints) -> None:
        return None


@dataclass(frozen=True)
class Boxes:
    """Masses by range of time (`node`) and range of codes (`low` to `high`); no codes: nothing is known of values.

    `bound` says in words what the family promises of an aggregate, `rounding` what its masses may be off by.
    """

    family: str
    answered: tuple[str, ...]
    kind: Kind
    labels: Labels
    extremes: Extremes
    ranges: Ranges
    node: NDArray[np.intp]
    low: Words
    high: Words
    count: Floats | None  # None: only weights are known
    weight: Floats
    bound: Callable[[Question], str]
    single: Floats | None = None  # how much of a box one value can have; None: all of it
    rounding: float = 0.0

    def answer(self, question: Question) -> Estimate:
        """The answer at one as-of time, the newest event's where the question names none."""
        moments = self._moment(question)
        as_of = int(moments[0])
        self._check(question)
        items: tuple[Item, ...] = ()
        if question.aggregate == "heavy-hitters":
            items = self._heavy_hitters(question, as_of)
            top = items[0] if items else Item(0.0, 0.0 if self._something(question, moments) else math.nan, 0.0, 1.0)
            value, lower, upper = top.estimate, top.lower, top.upper
        else:
            limits = self._limits(question, moments)
            value, lower, upper = (float(limit[0]) for limit in limits)
        return Estimate(
            value=value,
            lower=lower,
            upper=upper,
            confidence=1.0,
            guarantee=self._guarantee(question, as_of, value, lower, upper),
            family=self.family,
            as_of=as_of,
            used=int(self._used(question, moments)[0]),
            items=items,
        )

    def series(self, question: Question, as_of: NDArray[np.int64]) -> Series:
        """The same question at many as-of times."""
        moments = np.asarray(as_of, np.int64)
        if moments.ndim != 1:
            raise QuestionError(f"as_of has {moments.ndim} dimensions; a series takes a flat array of times")
        if question.aggregate == "heavy-hitters":
            raise UnanswerableError("heavy-hitters is a list: ask for it at one as-of time")
        self._check(question)
        value, lower, upper = self._limits(question, moments)
        return Series(
            as_of=moments,
            value=value,
            lower=lower,
            upper=upper,
            confidence=1.0,
            guarantee=f"never outside its bounds: {self.bound(question)}{_ROWS}",
            family=self.family,
            used=self._used(question, moments),
        )

    def threshold_curve(self, question: Question, thresholds: ArrayLike) -> Curve:
        """Σ w·f over v ≥ τ for many τ at one as-of time."""
        taus = np.asarray(thresholds, np.float64)
        points = self._along(Question("correlated-sum", question.decay, tau=0.0), taus, "thresholds")
        found = [self._limits(replace(points, tau=tau), self._moment(question)) for tau in taus.tolist()]
        return self._drawn(taus, found)

    def quantile_curve(self, question: Question, shares: ArrayLike) -> Curve:
        """The value at each share φ at one as-of time."""
        phis = np.asarray(shares, np.float64)
        points = self._along(Question("quantile", question.decay, phi=0.5), phis, "shares")
        if ((phis <= 0) | (phis >= 1)).any():
            raise QuestionError("shares must lie strictly between 0 and 1")
        return self._drawn(phis, [self._quantiles(points, self._moment(question), phi) for phi in phis.tolist()])

    def _along(self, question: Question, axis: Floats, name: str) -> Question:
        if axis.ndim != 1 or np.isnan(axis).any():
            raise QuestionError(f"{name} must be a flat array of numbers")
        self._check(question)
        return question

    def _drawn(self, axis: Floats, points: Sequence[Limits]) -> Curve:
        value, lower, upper = (np.concatenate([np.zeros(0), *(point[part] for point in points)]) for part in range(3))
        return Curve(axis, value, lower, upper, 1.0)

    def _moment(self, question: Question) -> Ints:
        as_of = question.as_of if question.as_of is not None else self.extremes.newest or 0
        return np.array([as_of], np.int64)

    def _check(self, question: Question) -> None:
        if question.aggregate not in self.answered or question.of == "value":
            asked = question.aggregate + (" of the value" if question.of == "value" else "")
            raise UnanswerableError(
                f"the {self.family} family does not answer {asked}; it answers {', '.join(self.answered)}"
            )
        if self.kind is Kind.KEY and len(self.weight) and question.aggregate in ORDERED:
            raise UnanswerableError(f"{question.aggregate} needs ordered values, but this stream's values are text")

    def _guarantee(self, question: Question, as_of: int, value: float, lower: float, upper: float) -> str:
        if lower == value == upper:
            return f"exact: the bounds leave no other answer{_ROWS}"
        newest = self.extremes.newest
        note = ""
        if newest is not None and as_of < newest:
            note = "; events newer than the as-of time that share a range with older ones widen it"
        return f"never outside its bounds: {self.bound(question)}{note}{_ROWS}"

    # Sums: one row a moment, one column a mass.

    def _limits(self, question: Question, moments: Ints) -> Limits:
        """Value, lower and upper limit at every moment."""
        match question.aggregate:
            case "sum" | "count":
                lower, upper = self._totals(question, moments, [self._per_node(self._mass(question.aggregate))])
                return self._sums(lower[:, 0], upper[:, 0], moments)
            case "mean":
                everything = np.ones(len(self.weight), bool)
                return self._mean(question, moments, everything, everything)
            case "quantile" | "median":
                assert question.phi is not None
                return self._quantiles(question, moments, question.phi)
        if question.aggregate == "frequency":
            return self._frequency(question, moments)
        if question.tau_quantile is None:
            return self._over(question, moments, *self._within(*self._ends(question)))
        # what lies above a threshold shrinks as the threshold rises, so the ends of its interval enclose the answer
        found: list[Limits] = []
        for at, taus in enumerate(zip(*self._quantiles(question, moments, question.tau_quantile), strict=True)):
            one = moments[at : at + 1]
            ends = [CODES if math.isnan(tau) else least_code(tau, self.kind) for tau in _apart(*taus)]
            middle, least, most = (self._within(end, CODES - 1) for end in ends)
            _, lower, upper = self._over(question, one, most[0], least[1])
            found.append((np.clip(self._over(question, one, *middle)[0], lower, upper), lower, upper))
        value, lower, upper = (np.concatenate([np.zeros(0), *(each[part] for each in found)]) for part in range(3))
        return value, lower, upper

    def _over(self, question: Question, moments: Ints, inside: NDArray[np.bool_], touched: NDArray[np.bool_]) -> Limits:
        """A sum, count, mean or share over a predicate that boxes satisfy surely (`inside`) or possibly (`touched`)."""
        match question.aggregate:
            case "correlated-mean":
                return self._mean(question, moments, inside, touched)
            case "range-sum" | "correlated-sum" | "correlated-count":
                mass = self._mass("count" if question.aggregate == "correlated-count" else "sum")
                below, above = ([self._per_node(mass * which)] for which in (inside, touched))
                lower, upper = self._totals(question, moments, below, above)
                return self._sums(lower[:, 0], upper[:, 0], moments)
        return self._share(question, moments, self.weight * inside, self.weight * touched)

    def _share(self, question: Question, moments: Ints, least: Floats, most: Floats) -> Limits:
        """The share of what boxes surely (`least`) and at the most have of something in all that they weigh."""
        columns = [self._per_node(mass) for mass in (least, self.weight - least, most, self.weight - most)]
        lower, upper = self._totals(question, moments, columns)
        with np.errstate(invalid="ignore", divide="ignore"):
            least_share = lower[:, 0] / (lower[:, 0] + upper[:, 1])
            most_share = upper[:, 2] / (upper[:, 2] + lower[:, 3])
        nothing = upper[:, 2] + upper[:, 3] == 0.0
        slack = self._slack(_decay_of(question))
        least_share = np.where(nothing | np.isnan(least_share), 0.0, least_share * (1.0 - slack))
        most_share = np.where(nothing | np.isnan(most_share), 1.0, np.minimum(most_share * (1.0 + slack), 1.0))
        return np.where(nothing, np.nan, (least_share + most_share) / 2.0), least_share, most_share

    def _frequency(self, question: Question, moments: Ints) -> Limits:
        """The share of one value: of a box that holds others as well it has at most `single`."""
        inside, touched = self._within(*self._ends(question))
        return self._share(question, moments, self.weight * inside, self._single * touched)

    def _mean(self, question: Question, moments: Ints, inside: NDArray[np.bool_], touched: NDArray[np.bool_]) -> Limits:
        """Σ w·f / Σ f: the least weight over the greatest count and the other way round, within what weights can be."""
        columns = [
            self._per_node(mass * which)
            for mass in (self._mass("sum"), self._mass("count"))
            for which in (inside, touched)
        ]
        lower, upper = self._totals(question, moments, columns)
        slack = self._slack(_decay_of(question))
        lightest, heaviest = 1.0 - slack, float(self.extremes.greatest_weight) * (1.0 + slack)
        with np.errstate(invalid="ignore", divide="ignore"):
            least = lower[:, 0] / upper[:, 3]
            most = upper[:, 1] / lower[:, 2]
            value = (lower[:, 0] + upper[:, 1]) / (lower[:, 2] + upper[:, 3])
        nothing = upper[:, 3] == 0.0
        least = np.clip(np.where(np.isnan(least), lightest, least), lightest, heaviest)
        most = np.clip(np.where(np.isnan(most), heaviest, most), lightest, heaviest)
        return np.where(nothing, np.nan, np.clip(value, least, most)), least, most

    def _totals(
        self, question: Question, moments: Ints, below: list[Floats], above: list[Floats] | None = None
    ) -> tuple[Floats, Floats]:
        """Lower decayed totals of some masses by range of time and upper ones of others (by default the same), moved
        outwards by what rounding may have done."""
        least_masses = np.column_stack(below)
        most_masses = least_masses if above is None else np.column_stack(above)
        lower, upper = (np.empty((len(moments), len(below))) for _ in range(2))
        decay = _decay_of(question)
        step = max(1, _CHUNK // max(1, len(self.ranges)))
        for begin in range(0, len(moments), step):
            least, most = self.ranges.factors(decay, moments[begin : begin + step])
            lower[begin : begin + step] = least @ least_masses
            upper[begin : begin + step] = most @ most_masses
        slack = self._slack(decay)
        return self._outward(lower, upper, slack)

    def _outward(self, lower: Floats, upper: Floats, slack: float) -> tuple[Floats, Floats]:
        """Bounds moved apart by what rounding may have done, and by masses that were too small to be numbers."""
        lower, upper = lower * (1.0 - slack), upper * (1.0 + slack)
        if self.rounding == 0.0:
            return lower, upper
        return np.maximum(lower - _LOST, 0.0), upper + _LOST * (upper > 0.0)

    def _sums(self, lower: Floats, upper: Floats, moments: Ints) -> Limits:
        """Bounds of sums with the estimate in their middle."""
        scale = self.ranges.scale(moments)
        if scale is not None:
            lower, upper = np.maximum(lower * scale - _TINY, 0.0), upper * scale + _TINY * (upper > 0.0)
        return (lower + upper) / 2.0, lower, upper

    def _slack(self, decay: Decay) -> float:
        whole = isinstance(decay, NoDecay | Window) and self.rounding == 0.0 and float(self.weight.sum()) < 2.0**53
        return 0.0 if whole else _ROUNDING + self.rounding + len(self.weight) * 2.0**-52  # a sum of so many, at worst

    def _used(self, question: Question, moments: Ints) -> Ints:
        """How many boxes may carry weight at every moment."""
        rows = np.bincount(self.node, minlength=len(self.ranges))
        return self.ranges.alive(_decay_of(question), moments, rows)

    def _something(self, question: Question, moments: Ints) -> bool:
        return bool(self._used(question, moments)[0])

    def _mass(self, aggregate: str) -> Floats:
        if aggregate != "count":
            return self.weight
        assert self.count is not None
        return self.count

    @property
    def _single(self) -> Floats:
        return self.weight if self.single is None else self.single

    def _per_node(self, mass: Floats) -> Floats:
        """Masses of boxes, added up by range of time."""
        return np.bincount(self.node, weights=mass, minlength=len(self.ranges)).astype(np.float64)

    # Predicates are ranges of codes.

    def _ends(self, question: Question) -> tuple[int, int]:
        """The least and the greatest code that a question is about."""
        value = question.value
        match question.aggregate:
            case "frequency" if self.kind is Kind.KEY:
                code = int(hash_one(str(value)))
                return code, code
            case "frequency" | "rank":
                if isinstance(value, str) or value is None:
                    if len(self.weight) == 0:
                        return CODES, CODES - 1
                    raise UnanswerableError(f"value is {value!r}, but this stream's values are numbers")
                least = least_code(float(value) if self.kind is Kind.FLOAT else value, self.kind)
                most = greatest_code(float(value) if self.kind is Kind.FLOAT else value, self.kind)
                return (least, most) if question.aggregate == "frequency" else (0, most)
        least = 0 if question.low is None else least_code(question.low, self.kind)
        most = CODES - 1 if question.high is None else greatest_code(question.high, self.kind)
        if question.tau is not None:
            assert not isinstance(question.tau, str)
            least = max(least, least_code(question.tau, self.kind))
        return least, most

    def _within(self, least: int, most: int) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Which boxes lie wholly within a range of codes, and which touch it."""
        if least > most or least >= CODES or most < 0:
            nothing = np.zeros(len(self.weight), bool)
            return nothing, nothing
        first, last = np.uint64(max(least, 0)), np.uint64(min(most, CODES - 1))
        return (self.low >= first) & (self.high <= last), (self.low <= last) & (self.high >= first)

    # What needs every box at every moment.

    @cached_property
    def _by_low(self) -> NDArray[np.intp]:
        return np.argsort(self.low, kind="stable")

    @cached_property
    def _by_high(self) -> NDArray[np.intp]:
        return np.argsort(self.high, kind="stable")

    def _decayed(self, question: Question, moment: int, mass: Floats) -> tuple[Floats, Floats]:
        """The least and the greatest decayed mass of every box."""
        decay = _decay_of(question)
        least, most = self.ranges.factors(decay, np.array([moment], np.int64))
        slack = self._slack(decay)
        return self._outward(mass * least[0][self.node], mass * most[0][self.node], slack)

    def _quantiles(self, question: Question, moments: Ints, phi: float) -> Limits:
        """The φ-quantile between the first value whose share may reach φ and the first whose share surely does."""
        found = [self._quantile(question, moment, phi) for moment in moments.tolist()]
        value, lower, upper = (np.array([each[part] for each in found]) for part in range(3))
        return value, lower, upper

    def _quantile(self, question: Question, moment: int, phi: float) -> tuple[float, float, float]:
        if len(self.weight) == 0:
            return math.nan, math.nan, math.nan
        least, most = self._decayed(question, moment, self.weight)
        if not most.any():
            return math.nan, math.nan, math.nan
        low_order, high_order = self._by_low, self._by_high
        least_total, most_total = float(least.sum()), float(most.sum())
        # shares of what is at or below a code: they rise where boxes begin (may) and where they end (surely)
        may = np.cumsum(most[low_order])
        surely_above = np.maximum(least_total - np.cumsum(least[low_order]), 0.0)
        surely = np.cumsum(least[high_order])
        may_above = np.maximum(most_total - np.cumsum(most[high_order]), 0.0)
        slack = 4.0 * self._slack(_decay_of(question))
        first = _first(may, surely_above, phi * (1.0 - _ROUNDING) - slack)  # φ itself may be a rounded number
        last = _first(surely, may_above, phi + slack)
        both = np.cumsum((least + most)[high_order])
        middle = min(int(np.searchsorted(both, phi * both[-1])), len(both) - 1)
        lower = self.extremes.least_value if first is None else self._value(self.low[low_order[first]])
        upper = self.extremes.greatest_value if last is None else self._value(self.high[high_order[last]])
        return min(max(self._value(self.high[high_order[middle]]), lower), upper), lower, upper

    def _value(self, code: np.uint64) -> float:
        """The value of a code, or the nearest one that an event can have: not every code is that of a number."""
        least, greatest = (
            least_code(self.extremes.least_value, self.kind),
            greatest_code(self.extremes.greatest_value, self.kind),
        )
        known = np.uint64(min(max(int(code), least), greatest))
        return float(values_of(np.array([known]), self.kind)[0])

    def _heavy_hitters(self, question: Question, moment: int) -> tuple[Item, ...]:
        """The values that a box of their own speaks for, by their shares; any other has at most a share of ε.

        With φ asked for, those whose share may reach it: so none is left out that has it.
        """
        if len(self.weight) == 0:
            return ()
        least, most = self._decayed(question, moment, self.weight)
        least_total, most_total = float(least.sum()), float(most.sum())
        single = self.low == self.high
        codes, which = np.unique(self.low[single], return_inverse=True)
        if len(codes) == 0 or most_total == 0.0:
            return ()
        own_least = np.bincount(which, weights=least[single], minlength=len(codes))
        own_most = np.bincount(which, weights=most[single], minlength=len(codes))
        of_others = self._decayed(question, moment, self._single)
        shared_least, shared_most = (self._covering(codes, ~single, mass) for mass in of_others)
        slack = 4.0 * self._slack(_decay_of(question))
        lost = slack * most_total  # differences of sums are as exact as the sums
        with np.errstate(invalid="ignore", divide="ignore"):
            lower = own_least / (own_least + np.maximum(most_total - own_most, 0.0) + lost)
            reach = own_most + shared_most + lost
            upper = reach / (reach + np.maximum(least_total - own_least - shared_least - lost, 0.0))
        lower = np.nan_to_num(lower) * (1.0 - slack)
        upper = np.minimum(np.nan_to_num(upper, nan=1.0) * (1.0 + slack), 1.0)
        value = (lower + upper) / 2.0
        order = np.lexsort((codes, -value))
        order = order[own_most[order] > 0.0]
        if question.phi is not None:
            order = order[upper[order] >= question.phi]
        if question.top is not None or question.phi is None:
            order = order[: question.top or DEFAULT_TOP]
        names = codes[order].tolist() if self.kind is Kind.KEY else values_of(codes[order], self.kind).tolist()
        texts = [self.labels.text_of(name) for name in names] if self.kind is Kind.KEY else names
        columns = (column[order].tolist() for column in (value, lower, upper))
        return tuple(Item(*each) for each in zip(texts, *columns, strict=True))

    def _covering(self, codes: Words, which: NDArray[np.bool_], mass: Floats) -> Floats:
        """For each code the mass of those boxes that hold it."""
        low, high, some = self.low[which], self.high[which], mass[which]
        begun, ended = np.argsort(low, kind="stable"), np.argsort(high, kind="stable")
        started = np.concatenate(([0.0], np.cumsum(some[begun])))[np.searchsorted(low[begun], codes, side="right")]
        gone = np.concatenate(([0.0], np.cumsum(some[ended])))[np.searchsorted(high[ended], codes, side="left")]
        return np.asarray(np.maximum(started - gone, 0.0))


def elapsed(later: Ints, earlier: Ints) -> Floats:
    """The time from one moment to a later one: exact where it is a float, also across all of the range of times."""
    return np.asarray((later - earlier).view(np.uint64).astype(np.float64))


@njit(cache=True, nogil=True)
def _ages(
    moments: Ints, first: Ints, last: Ints, numerator: float, denominator: float, oldest: Floats, newest: Floats
) -> None:
    """The ages in seconds of the oldest and of the newest event that a range can hold by a moment; -1: of none.

    An event newer than the moment does not count: a range that reaches beyond it may hold nothing, or one just come.
    """
    for row in range(len(moments)):
        now = moments[row]
        for at in range(len(first)):
            oldest[row, at] = (
                -1.0 if now < last[at] else np.float64(np.uint64(now - first[at])) * numerator / denominator
            )
            if now < first[at]:
                newest[row, at] = -1.0
            elif now < last[at]:
                newest[row, at] = 0.0
            else:
                newest[row, at] = np.float64(np.uint64(now - last[at])) * numerator / denominator


def _decay_of(question: Question) -> Decay:
    assert isinstance(question.decay, Decay)
    return question.decay


def _apart(value: float, lower: float, upper: float) -> tuple[float, float, float]:
    """A number and its limits, these moved apart where whole numbers have more digits than floats."""
    wide = max(abs(lower), abs(upper)) >= 2.0**53
    return (value, math.nextafter(lower, -math.inf), math.nextafter(upper, math.inf)) if wide else (value, lower, upper)


def _first(below: Floats, above: Floats, phi: float) -> int | None:
    """The first row at which below/(below + above) reaches φ."""
    total = below + above
    with np.errstate(invalid="ignore", divide="ignore"):
        reached = np.flatnonzero((below / total >= phi) & (total > 0.0))
    return int(reached[0]) if len(reached) else None
