"""From masses in ranges of time and value to answers that are never outside their bounds.

Shares, ranks, quantiles and heavy hitters follow from the limits of decayed sums (`sketches.digests.mass_bounds`) by
monotonicity. The estimate is the middle of the interval, which halves the worst error.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, Literal

import numpy as np
from numpy.typing import ArrayLike

from sketches.arrays import Floats, Ints, Limits, apart
from sketches.decay import parse_decay
from sketches.decay.functions import LastEvents
from sketches.digests.code_ranges import EVERYTHING, NOTHING, from_number, measured, restriction
from sketches.digests.heavy_hitters import heavy_hitters
from sketches.digests.mass_bounds import ROUNDING, Bounds, MassBounds, View, Weighing
from sketches.digests.stated import COUNTS, MEANS, QUANTILES, SUMS, stated, stated_of_list
from sketches.digests.sweeps import ABOUT, POSSIBLY, SURELY, Swept
from sketches.errors import QuestionError, UnanswerableError
from sketches.estimate import Curve, Estimate, Item, Series
from sketches.events import Kind
from sketches.family import Askable
from sketches.question import NEEDS_ORDER, Question
from sketches.records import dataclass
from sketches.refusals import refuse, refuse_other_mass
from sketches.threshold import Threshold

_WHOLE: Final = 2.0**53  # whole numbers from here on have more digits than floats
_DIGITS: Final = 1e12  # so many times what can hardly be told from nothing, for each unit of mass, has all its digits
_NO_DECAY: Final = parse_decay("none")
_CURVES: Final = {  # of which aggregate over v ≥ τ a curve is, by the aggregate that was asked for
    "count": "correlated-count",
    "correlated-count": "correlated-count",
    "mean": "correlated-mean",
    "correlated-mean": "correlated-mean",
}


@dataclass(frozen=True)
class RangedMasses(MassBounds, Askable):
    """Masses of one or many sketches, ready to be asked."""

    def answer(self, question: Question, *, other: None = None) -> Estimate:
        """The answer at one as-of time, the newest event's where the question names none."""
        moments = self._moment(question)
        as_of = int(moments[0])
        self._check(question)
        used = int(self.used(question, moments)[0])
        if question.aggregate == "heavy-hitters":
            return self._listed(question, as_of, used)
        limits = self._limits(question, moments)
        value, lower, upper = (float(limit[0]) for limit in limits)
        said = stated(self, question, moments, limits, self._rank_errors(question, moments, limits))
        return Estimate(value, lower, upper, 1.0, said, self.family, as_of, used)

    def _listed(self, question: Question, as_of: int, used: int) -> Estimate:
        """A list; as a number it is the largest share."""
        items, unlisted = heavy_hitters(self, question, as_of)
        first = items[0] if items else Item(0.0, 0.0 if used else math.nan, 0.0, unlisted if used else 1.0)
        exact = bool(items) and all(item.lower == item.upper for item in items)
        return Estimate(
            first.estimate,
            first.lower,
            first.upper,
            1.0,
            stated_of_list(exact, unlisted, self.has_faded),
            self.family,
            as_of,
            used,
            items,
            unlisted,
        )

    def series(self, question: Question, as_of: ArrayLike, *, other: None = None) -> Series:
        """The same question at many as-of times."""
        moments = np.asarray(as_of, np.int64)
        if moments.ndim != 1:
            raise QuestionError(f"as_of has {moments.ndim} dimensions; a series takes a flat array of times")
        if question.aggregate == "heavy-hitters":
            raise UnanswerableError("heavy-hitters is a list: ask for it at one as-of time")
        self._check(question)
        limits = self._limits(question, moments)
        said = stated(self, question, moments, limits, self._rank_errors(question, moments, limits))
        return Series(moments, *limits, 1.0, said, self.family, self.used(question, moments))

    # Curves: what an aggregate measures itself gives way to the axis, what restricts it stays. All limits are certain,
    # so those of a curve hold together.

    def threshold_curve(self, question: Question, thresholds: ArrayLike, *, together: bool = False) -> Curve:
        """The sum over v ≥ τ, or the count or the mean if one of these was asked for, for many τ at one as-of time."""
        taus = np.asarray(thresholds, np.float64)
        aggregate = _CURVES.get(question.aggregate, "correlated-sum")
        of = question.of if question.sums and aggregate != "correlated-count" else None
        asked = self._along(replace(_unmeasured(question), aggregate=aggregate, of=of, tau=0.0), taus, "thresholds")
        sums = [self._above_each(asked, mass, taus) for mass in self._added(asked)]
        moments = np.repeat(self._moment(asked), len(taus))
        return Curve(taus, *self._combined(asked, moments, sums), 1.0, together=True)

    def _above_each(self, question: Question, mass: Floats, taus: Floats) -> Bounds:
        """What masses that satisfy a restriction have at or above each threshold: sums from the greatest code down."""
        where = restriction(question.where, self.kind)
        decayed = self.decayed(question, int(self._moment(question)[0]), self.part(mass, where))
        codes = [from_number(tau, self.kind).within(where) for tau in taus.tolist()]
        least = np.array([0 if each.empty else each.least for each in codes], np.uint64)
        nothing = np.array([each.empty for each in codes], bool)
        sides = []
        for amount, ends, order in ((decayed.lower, self.low, self.by_low), (decayed.upper, self.high, self.by_high)):
            at_least = np.append(np.cumsum(amount[order[::-1]])[::-1], 0.0)
            sides.append(np.where(nothing, 0.0, at_least[np.searchsorted(ends[order], least, side="left")]))
        return Bounds(*sides)

    def quantile_curve(self, question: Question, shares: ArrayLike, *, together: bool = False) -> Curve:
        """The value at each share φ at one as-of time."""
        phis = np.asarray(shares, np.float64)
        asked = replace(_unmeasured(question), aggregate="quantile", of=None, phi=0.5)
        asked = self._along(asked, phis, "shares")
        if ((phis <= 0) | (phis >= 1)).any():
            raise QuestionError("shares must lie strictly between 0 and 1")
        [weighing] = self.weighed(asked, self._moment(asked))
        found = _joined(self._quantiles_at(asked, weighing, self.view(asked), phis.tolist()))
        return Curve(phis, *found, 1.0, together=True)

    def _along(self, question: Question, axis: Floats, name: str) -> Question:
        if axis.ndim != 1 or np.isnan(axis).any():
            raise QuestionError(f"{name} must be a flat array of numbers")
        self._check(question)
        return question

    # What is asked.

    def _moment(self, question: Question) -> Ints:
        as_of = question.as_of if question.as_of is not None else self.extremes.newest or 0
        return np.array([as_of], np.int64)

    def _check(self, question: Question) -> None:
        refuse(self.family, self.abilities, question)
        if self.extremes.newest is None:
            return
        if self.kept is not None:
            refuse_other_mass(self.family, question, self.kept, self.extremes)
            if question.threshold is not None:  # its quantile counts as the question does, whatever is summed
                shares = Question("median", question.decay, counting=question.counting)
                refuse_other_mass(self.family, shares, self.kept, self.extremes)
        keys = self.kind is Kind.KEY
        if keys and question.aggregate in NEEDS_ORDER:
            raise UnanswerableError(f"{question.aggregate} needs ordered values, but this stream's values are text")
        if keys and question.where.range_of("value"):
            raise UnanswerableError(f"{question.where.words()}: this stream's values are text, which has no order")
        if not keys and question.where.key is not None:
            raise UnanswerableError(f"{question.where.words()}: this stream's values are numbers")

    # Answers.

    def _limits(self, question: Question, moments: Ints) -> Limits:
        """Value, lower and upper limit at every moment."""
        if question.aggregate in QUANTILES:
            assert question.phi is not None
            view = self.view(question)
            parts = self.weighed(question, moments)
            return _joined([self._quantiles_at(question, part, view, [question.phi])[0] for part in parts])
        if (threshold := question.threshold) is not None:
            parts = self.weighed(question, moments)
            return _joined([self._over_threshold(question, part, threshold) for part in parts])
        if self.extremes.newest is None:
            return self._combined(question, moments, [Bounds(np.zeros(len(moments)), np.zeros(len(moments)))] * 2)
        where = restriction(question.where, self.kind)
        codes = measured(question, self.kind).within(where)
        masses = [self.part(mass, codes) for mass in self._added(question)]
        if len(masses) == 1 and question.aggregate not in (*SUMS, *COUNTS):
            masses.append(self.rest(self.counted(question), masses[0], codes, where))
        found = self.totals(question, moments, masses)
        if isinstance(question.decay, LastEvents) and codes == EVERYTHING and self._rows_alone(question):
            found = [self._so_many(question.decay, moments, found[0])]
        return self._combined(question, moments, found)

    def _added(self, question: Question) -> list[Floats]:
        """The masses that a question adds up: both for a mean."""
        if question.aggregate in MEANS:
            return [self.weight, self.count]
        return [self.weight if question.aggregate in SUMS else self.counted(question)]

    def _combined(self, question: Question, moments: Ints, sums: Sequence[Bounds]) -> Limits:
        """The answer from the limits of a sum, of weight and count for a mean, of a part and the rest for a share."""
        if question.aggregate in (*SUMS, *COUNTS):
            return self.sums(sums[0], moments)
        combine = self.means if question.aggregate in MEANS else self.shares
        return combine(sums[0], sums[1], self.slack(question.decay))

    def _rows_alone(self, question: Question) -> bool:
        """Whether the question adds up rows, each of them once."""
        counts = question.aggregate in COUNTS and not question.by_weight
        return counts or (self.extremes.unit_weights and question.aggregate in (*SUMS, *COUNTS))

    def _so_many(self, decay: LastEvents, moments: Ints, count: Bounds) -> Bounds:
        """The newest N rows are N at the least, if there are so many."""
        [everything] = self.totals(Question("count", _NO_DECAY), moments, [self.part(self.count, EVERYTHING)])
        return Bounds(np.maximum(count.lower, np.minimum(everything.lower, decay.count)), count.upper)

    def _over_threshold(self, question: Question, weighing: Weighing, threshold: Threshold) -> Limits:
        """The answer over v ≥ τ, with τ a multiple of a quantile of all masses, which is known between limits.

        What lies above a threshold shrinks as the threshold rises, so the ends of its interval enclose the answer.
        Where no mass counts there is no quantile: then it may be anything.
        """
        assert threshold.phi is not None
        everything = Question("quantile", question.decay, phi=threshold.phi, counting=question.counting)
        middle, least, most = (
            threshold.factor * limit  # a factor is never negative, so the limits stay in order
            for limit in self._quantiles_at(everything, weighing, self.view(everything), [threshold.phi])[0]
        )
        least, most = apart(np.where(np.isnan(least), -np.inf, least), np.where(np.isnan(most), np.inf, most))
        if self.kind is Kind.INTEGER:  # rounded up it would leave out its own events
            middle, _ = apart(middle, middle)
        view = self.view(question)
        swept = [self._swept(weighing, view, mass) for mass in self._added(question)]
        between, lower, upper = self._above(question, weighing, swept, least, most)
        value, _, _ = self._above(question, weighing, swept, middle, middle)
        value = np.where(np.isnan(value), between, value)  # above another threshold that it may be, something counts
        return np.clip(value, lower, upper), lower, upper

    def _swept(self, weighing: Weighing, view: View, mass: Floats) -> tuple[Swept, Swept]:
        """The masses of a view in the order of their least and of their greatest values."""
        node, held = self.node[view.rows], mass[view.rows]
        by_low, by_high = (
            Swept.of(ends, order, node, held * view.sure, held, weighing.least, weighing.most)
            for ends, order in ((view.low, view.by_low), (view.high, view.by_high))
        )
        return by_low, by_high

    def _above(
        self, question: Question, weighing: Weighing, swept: Sequence[tuple[Swept, Swept]], least: Floats, most: Floats
    ) -> Limits:
        """The answer over v ≥ τ, with a τ of its own at every moment, between two limits."""
        found: list[Bounds] = []
        for by_low, by_high in swept:
            surely, may = self._places(by_low, most), self._places(by_high, least)
            upper_rest, lower_part = by_low.greatest_split(surely)[0], by_low.least_split(surely)[1]
            lower_rest, upper_part = by_high.least_split(may)[0], by_high.greatest_split(may)[1]
            slack = self.slack(question.decay)
            found += [self.outward(lower_part, upper_part, slack), self.outward(lower_rest, upper_rest, slack)]
        return self._combined(question, weighing.moments, found[::2] if question.aggregate in MEANS else found)

    def _places(self, swept: Swept, taus: Floats, side: Literal["left", "right"] = "left") -> Ints:
        """How many of the masses come before each threshold; all of them where it is beyond all codes, or is none.

        On the right side those at a threshold, which is the value of an event, too.
        """
        codes = [NOTHING if math.isnan(tau) else from_number(tau, self.kind) for tau in taus.tolist()]
        least = np.array([0 if each.empty else each.least for each in codes], np.uint64)
        found = np.searchsorted(swept.ends, least, side=side)
        return np.where([each.empty for each in codes], len(swept.ends), found).astype(np.int64)

    def _quantiles_at(self, question: Question, weighing: Weighing, view: View, phis: Sequence[float]) -> list[Limits]:
        """φ-quantiles, each between the first value whose share may reach φ and the first whose share surely does."""
        slack = self.slack(question.decay)
        by_low, by_high = self._swept(weighing, view, self.counted(question))
        found = []
        for phi in phis:
            least = phi * (1.0 - ROUNDING)  # φ itself may be a rounded number
            first = self._values(by_low, by_low.reaches(POSSIBLY, least - 4.0 * slack, slack, self.lost))
            last = self._values(by_high, by_high.reaches(SURELY, phi + 4.0 * slack, slack, self.lost))
            middle = self._values(by_high, by_high.reaches(ABOUT, least, slack, self.lost))
            middle = np.clip(middle, first, last)
            found.append((middle, *(apart(first, last) if self.kind is Kind.INTEGER else (first, last))))
        return found

    def _rank_errors(self, question: Question, moments: Ints, limits: Limits) -> Floats | None:
        """How far off the rank of each quantile may be, where that is not known before.

        Of what lies below it the most must not exceed φ, of what lies up to it the least must reach φ.
        """
        if question.aggregate not in QUANTILES or question.where or question.phi is None:
            return None
        rounded = self.kind is Kind.INTEGER and bool((np.abs(limits[0]) >= _WHOLE).any())
        if (
            len(moments)
            and self.current(moments)
            and self.width(question.at(int(moments.max()))) is not None
            and not rounded
            and not self._faint(question, moments)
        ):
            return None
        found, at, slack, view = [np.zeros(0)], 0, self.slack(question.decay), self.view(question)
        for weighing in self.weighed(question, moments):
            quantiles = limits[0][at : at + len(weighing.moments)]
            by_low, by_high = self._swept(weighing, view, self.counted(question))
            before, up_to = self._places(by_low, quantiles), self._places(by_high, quantiles, side="right")
            less = Bounds(by_low.least_split(before)[0], by_low.greatest_split(before)[0])
            more = Bounds(by_low.least_split(before)[1], by_low.greatest_split(before)[1])
            reach = Bounds(by_high.least_split(up_to)[0], by_high.greatest_split(up_to)[0])
            rest = Bounds(by_high.least_split(up_to)[1], by_high.greatest_split(up_to)[1])
            most, least = self.shares(less, more, 4.0 * slack)[2], self.shares(reach, rest, 4.0 * slack)[1]
            found.append(np.maximum(np.maximum(most - question.phi, question.phi - least), 0.0))
            at += len(weighing.moments)
        return np.concatenate(found)

    def _faint(self, question: Question, moments: Ints) -> bool:
        """Whether by the last of some moments so little is left that numbers lack digits for what was known before."""
        if len(moments) == 0 or len(self.weight) == 0:
            return False
        mass = self.counted(question)
        [total] = self.totals(question, moments.max(keepdims=True), [Bounds(mass, mass)])
        return bool(total.upper[0] < _DIGITS * self.faded * max(self.largest, 1.0))

    def _values(self, swept: Swept, places: Ints) -> Floats:
        found = np.full(len(places), np.nan)
        known = places >= 0
        if known.any():
            found[known] = self.values_at(swept.ends[places[known]])
        return found


def _unmeasured(question: Question) -> Question:
    """The question without what its aggregate measures: a count over the same events."""
    return Question(
        "count",
        question.decay,
        question.as_of,
        confidence=question.confidence,
        where=question.where,
        counting=question.counting,
    )


def _joined(parts: Sequence[Limits]) -> Limits:
    value, lower, upper = (np.concatenate([np.zeros(0), *(part[column] for part in parts)]) for column in range(3))
    return value, lower, upper
