"""From masses in ranges of time and value to answers that are never outside their bounds.

Shares, ranks, quantiles and heavy hitters follow from the limits of decayed sums (`sketches.digests.mass_bounds`) by
monotonicity. The estimate is the middle of the interval, which halves the worst error.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from sketches.arrays import Flags, Floats, Ints, Limits
from sketches.digests.mass_bounds import ROUNDING, MassBounds
from sketches.encoding.value_codes import CODES, greatest_code, least_code, values_of
from sketches.errors import QuestionError, UnanswerableError
from sketches.estimate import Curve, Estimate, Item, Series
from sketches.events import Kind
from sketches.family import Askable
from sketches.hashing import hash_one
from sketches.question import DEFAULT_TOP, NEEDS_ORDER, Question

_ROWS: Final = "; rows count as often as they came"


@dataclass(frozen=True)
class RangedMasses(MassBounds, Askable):
    """Masses of one or many sketches, ready to be asked."""

    def answer(self, question: Question, *, other: None = None) -> Estimate:
        """The answer at one as-of time, the newest event's where the question names none."""
        moments = self._moment(question)
        as_of = int(moments[0])
        self._check(question)
        items: tuple[Item, ...] = ()
        if question.aggregate == "heavy-hitters":
            items = self._heavy_hitters(question, as_of)
            top = (
                items[0] if items else Item(0.0, 0.0 if self.holds_something(question, moments) else math.nan, 0.0, 1.0)
            )
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
            used=int(self.used(question, moments)[0]),
            items=items,
        )

    def series(self, question: Question, as_of: ArrayLike) -> Series:
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
            used=self.used(question, moments),
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
        if question.aggregate not in self.aggregates or question.of == "value":
            asked = question.aggregate + (" of the value" if question.of == "value" else "")
            raise UnanswerableError(
                f"the {self.family} family does not answer {asked}; it answers {', '.join(self.aggregates)}"
            )
        if self.kind is Kind.KEY and len(self.weight) and question.aggregate in NEEDS_ORDER:
            raise UnanswerableError(f"{question.aggregate} needs ordered values, but this stream's values are text")

    def _guarantee(self, question: Question, as_of: int, value: float, lower: float, upper: float) -> str:
        if lower == value == upper:
            return f"exact: the bounds leave no other answer{_ROWS}"
        newest = self.extremes.newest
        note = ""
        if newest is not None and as_of < newest:
            note = "; events newer than the as-of time that share a range with older ones widen it"
        return f"never outside its bounds: {self.bound(question)}{note}{_ROWS}"

    def _limits(self, question: Question, moments: Ints) -> Limits:
        """Value, lower and upper limit at every moment."""
        match question.aggregate:
            case "sum" | "count":
                lower, upper = self.totals(question, moments, [self.per_time_range(self.mass_of(question.aggregate))])
                return self.sums(lower[:, 0], upper[:, 0], moments)
            case "mean":
                everything = np.ones(len(self.weight), bool)
                return self.mean_within(question, moments, everything, everything)
            case "quantile" | "median":
                assert question.phi is not None
                return self._quantiles(question, moments, question.phi)
        if question.aggregate == "frequency":
            return self._frequency(question, moments)
        if question.tau_quantile is None:
            return self._over(question, moments, *self.within(*self._ends(question)))
        # what lies above a threshold shrinks as the threshold rises, so the ends of its interval enclose the answer
        found: list[Limits] = []
        for at, taus in enumerate(zip(*self._quantiles(question, moments, question.tau_quantile), strict=True)):
            one = moments[at : at + 1]
            ends = [CODES if math.isnan(tau) else least_code(tau, self.kind) for tau in _apart(*taus)]
            middle, least, most = (self.within(end, CODES - 1) for end in ends)
            _, lower, upper = self._over(question, one, most[0], least[1])
            found.append((np.clip(self._over(question, one, *middle)[0], lower, upper), lower, upper))
        value, lower, upper = (np.concatenate([np.zeros(0), *(each[part] for each in found)]) for part in range(3))
        return value, lower, upper

    def _over(self, question: Question, moments: Ints, inside: Flags, touched: Flags) -> Limits:
        """A sum, count, mean or share over masses that match a predicate surely (`inside`) or possibly (`touched`)."""
        match question.aggregate:
            case "correlated-mean":
                return self.mean_within(question, moments, inside, touched)
            case "range-sum" | "correlated-sum" | "correlated-count":
                mass = self.mass_of("count" if question.aggregate == "correlated-count" else "sum")
                below, above = ([self.per_time_range(mass * which)] for which in (inside, touched))
                lower, upper = self.totals(question, moments, below, above)
                return self.sums(lower[:, 0], upper[:, 0], moments)
        return self.share_within(question, moments, self.weight * inside, self.weight * touched)

    def _frequency(self, question: Question, moments: Ints) -> Limits:
        """The share of one value: of a mass that holds others as well it has at most `single`."""
        inside, touched = self.within(*self._ends(question))
        return self.share_within(question, moments, self.weight * inside, self.single_value_masses * touched)

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

    def _quantiles(self, question: Question, moments: Ints, phi: float) -> Limits:
        """The φ-quantile between the first value whose share may reach φ and the first whose share surely does."""
        found = [self._quantile(question, moment, phi) for moment in moments.tolist()]
        value, lower, upper = (np.array([each[part] for each in found]) for part in range(3))
        return value, lower, upper

    def _quantile(self, question: Question, moment: int, phi: float) -> tuple[float, float, float]:
        if len(self.weight) == 0:
            return math.nan, math.nan, math.nan
        least, most = self.decayed(question, moment, self.weight)
        if not most.any():
            return math.nan, math.nan, math.nan
        low_order, high_order = self.by_low, self.by_high
        least_total, most_total = float(least.sum()), float(most.sum())
        # shares of what is at or below a code: they rise where masses begin (may) and where they end (surely)
        may = np.cumsum(most[low_order])
        surely_above = np.maximum(least_total - np.cumsum(least[low_order]), 0.0)
        surely = np.cumsum(least[high_order])
        may_above = np.maximum(most_total - np.cumsum(most[high_order]), 0.0)
        slack = 4.0 * self.slack(question.decay)
        first = _first(may, surely_above, phi * (1.0 - ROUNDING) - slack)  # φ itself may be a rounded number
        last = _first(surely, may_above, phi + slack)
        both = np.cumsum((least + most)[high_order])
        middle = min(int(np.searchsorted(both, phi * both[-1])), len(both) - 1)
        lower = self.extremes.least_value if first is None else self.value_of(self.low[low_order[first]])
        upper = self.extremes.greatest_value if last is None else self.value_of(self.high[high_order[last]])
        return min(max(self.value_of(self.high[high_order[middle]]), lower), upper), lower, upper

    def _heavy_hitters(self, question: Question, moment: int) -> tuple[Item, ...]:
        """The values that a mass of their own speaks for, by their shares; any other has at most a share of ε.

        With φ asked for, those whose share may reach it: so none is left out that has it.
        """
        if len(self.weight) == 0:
            return ()
        least, most = self.decayed(question, moment, self.weight)
        least_total, most_total = float(least.sum()), float(most.sum())
        single = self.low == self.high
        codes, which = np.unique(self.low[single], return_inverse=True)
        if len(codes) == 0 or most_total == 0.0:
            return ()
        own_least = np.bincount(which, weights=least[single], minlength=len(codes))
        own_most = np.bincount(which, weights=most[single], minlength=len(codes))
        of_others = self.decayed(question, moment, self.single_value_masses)
        shared_least, shared_most = (self.covering(codes, ~single, mass) for mass in of_others)
        slack = 4.0 * self.slack(question.decay)
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
