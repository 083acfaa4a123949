"""What `kll` answers: counts, shares and quantiles, each between limits that two errors make.

A sketch's ranks are off by chance, each by its own: over many sketches these errors add up like those of independent
measurements, so the squares of their standard deviations do. And a decay varies within a stretch of time of which
nobody knows when in it a row came: a row counts at least as its oldest time, at most as its newest. Both are told.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from sketches.arrays import Floats, Ints, Limits, apart
from sketches.errors import QuestionError, UnanswerableError
from sketches.estimate import Curve, Estimate, Series
from sketches.events import Extremes, Kind
from sketches.family import Abilities, Askable
from sketches.guarantees import NEVER_OUTSIDE, NO_OTHER, ROWS, clauses, inside, made_of, rank_within, within
from sketches.kll.decayed_ranks import DecayedRanks, Factors
from sketches.predicate import Range
from sketches.question import Question
from sketches.records import dataclass
from sketches.refusals import refuse, refuse_other_mass
from sketches.special_functions import ndtri

QUANTILES: Final = ("quantile", "median")
COUNTS: Final = ("sum", "count", "range-sum", "correlated-sum", "correlated-count")
_WHOLE: Final = "the whole decayed count"
_ROUNDING: Final = 1e-12


@dataclass(frozen=True)
class KllAnswers(Askable):
    """The sketches of any sources and epochs, ready to be asked."""

    family: str
    abilities: Abilities
    kind: Kind
    extremes: Extremes
    delta: float
    ranks: DecayedRanks

    def answer(self, question: Question, *, other: None = None) -> Estimate:
        """The answer at one as-of time."""
        as_of = question.as_of if question.as_of is not None else self.extremes.newest or 0
        series = self.series(question, [as_of])
        value, lower, upper = (float(column[0]) for column in (series.value, series.lower, series.upper))
        return Estimate(
            value, lower, upper, series.confidence, series.guarantee, self.family, as_of, int(series.used[0])
        )

    def series(self, question: Question, as_of: ArrayLike, *, other: None = None) -> Series:
        """The same question at many as-of times."""
        self._refuse(question)
        moments = np.asarray(as_of, np.int64)
        confidence = self._confidence(question)
        found = self._limits(question, moments, _deviations(1.0 - confidence))
        if not found.chance.any():
            confidence = 1.0
        counts = ~np.isnan(found.value)
        if counts.any() and (found.lower == found.upper)[counts].all():
            said = clauses(NO_OTHER, ROWS)
            confidence = 1.0
        else:
            said = self._said(question, found, confidence, counts)
        used = self.ranks.ranges.alive(question.decay, moments, self._kept)
        return Series(moments, found.value, found.lower, found.upper, confidence, said, self.family, used)

    def threshold_curve(self, question: Question, thresholds: ArrayLike, *, together: bool = False) -> Curve:
        """The count over v ≥ τ for many τ at one as-of time, or the sum of weights that are all 1."""
        taus = np.asarray(thresholds, np.float64)
        counted = question.aggregate.endswith("count")
        of = question.of if question.sums and not counted else None
        asked = replace(question, aggregate="correlated-count" if counted else "correlated-sum", of=of, tau=0.0)
        return self._curve(asked, taus, lambda tau: replace(asked, tau=tau), together)

    def quantile_curve(self, question: Question, shares: ArrayLike, *, together: bool = False) -> Curve:
        """The value at each share φ at one as-of time."""
        phis = np.asarray(shares, np.float64)
        if ((phis <= 0) | (phis >= 1)).any():
            raise QuestionError("shares must lie strictly between 0 and 1")
        asked = replace(question, aggregate="quantile", of=None, phi=0.5)
        return self._curve(asked, phis, lambda phi: replace(asked, phi=phi), together)

    def _curve(self, question: Question, at: Floats, asked: Callable[[float], Question], together: bool) -> Curve:
        self._refuse(question)
        confidence = self._confidence(question)
        deviations = _deviations((1.0 - confidence) / (max(1, len(at)) if together else 1))
        moment = np.array([question.as_of if question.as_of is not None else self.extremes.newest or 0], np.int64)
        [factors] = self.ranks.factors(question.decay, moment)
        points = [self._at(asked(point), factors, deviations) for point in at.tolist()]
        found = _Found.joined(points)
        return Curve(at, found.value, found.lower, found.upper, confidence, together)

    def _refuse(self, question: Question) -> None:
        refuse(self.family, self.abilities, question)
        refuse_other_mass(self.family, question, "events", self.extremes)
        if question.threshold is not None:
            raise UnanswerableError(f"the {self.family} family compares with numbers, not with {question.tau}")
        if question.where and question.aggregate not in COUNTS:
            raise UnanswerableError(
                f"the {self.family} family restricts sums and counts to ranges of values, not {question.aggregate}"
            )

    def _confidence(self, question: Question) -> float:
        return question.confidence if question.confidence is not None else 1.0 - self.delta

    @cached_property
    def _kept(self) -> Ints:
        """How many values of each stretch of time are kept."""
        return np.bincount(self.ranks.of, minlength=len(self.ranks.ranges)).astype(np.int64)

    # Limits, by the two errors.

    def _limits(self, question: Question, moments: Ints, deviations: float) -> _Found:
        parts = [self._at(question, each, deviations) for each in self.ranks.factors(question.decay, moments)]
        return _Found.joined(parts)

    def _at(self, question: Question, factors: Factors, deviations: float) -> _Found:
        if question.aggregate in QUANTILES:
            assert question.phi is not None
            return self._quantile(question.phi, factors, deviations)
        counted = question.aggregate in COUNTS
        measure = self._counted if counted else self._share
        rows, variance = self.ranks.within(_range(question))
        value, low, high = measure(rows, variance, factors, 0.0)
        _, lower, upper = measure(rows, variance, factors, deviations)
        whole = factors.least @ self.ranks.total if counted else np.ones(len(value))
        with np.errstate(invalid="ignore", divide="ignore"):
            blurred = np.where(high > low, np.maximum(value - low, high - value) / whole, 0.0)
            chance = np.where((low > lower) | (upper > high), np.maximum(low - lower, upper - high) / whole, 0.0)
        return _Found(value, lower, upper, chance, blurred)

    def _counted(self, rows: Floats, variance: Floats, factors: Factors, deviations: float) -> Limits:
        total = self.ranks.total
        lower = factors.least @ rows - deviations * np.sqrt(factors.least**2 @ variance)
        upper = factors.most @ rows + deviations * np.sqrt(factors.most**2 @ variance)
        lower, upper = np.maximum(lower, 0.0), np.minimum(upper, factors.most @ total)
        return np.clip(factors.middle @ rows, lower, upper), lower, upper

    def _share(self, rows: Floats, variance: Floats, factors: Factors, deviations: float) -> Limits:
        """The share of what is inside, when all of it counts least and the rest most, and the other way round."""
        rest = self.ranks.total - rows
        chance = deviations * np.sqrt(factors.most**2 @ variance)
        some, others = factors.middle @ rows, factors.middle @ rest
        with np.errstate(invalid="ignore", divide="ignore"):
            value = some / (some + others)
            lower = (factors.least @ rows - chance) / (factors.least @ rows + factors.most @ rest)
            upper = (factors.most @ rows + chance) / (factors.least @ rest + factors.most @ rows)
        lower, upper = np.clip(np.nan_to_num(lower, nan=0.0), 0, 1), np.clip(np.nan_to_num(upper, nan=1.0), 0, 1)
        upper = np.maximum(lower, upper)  # rounding
        return np.where(np.isnan(value), value, np.clip(value, lower, upper)), lower, upper

    def _quantile(self, phi: float, factors: Factors, deviations: float) -> _Found:
        """Between the first value whose share may reach φ and the first whose share surely does.

        A share surely reaches φ where (1-φ)·(what lies below, at the least) ≥ φ·(what lies above, at the most): that is
        a sum along the values, with a factor of its own for each stretch.
        """
        ranks, least, most = self.ranks, factors.least, factors.most
        surely, may = (1 - phi) * least + phi * most, (1 - phi) * most + phi * least
        chances = [deviations * np.sqrt(each**2 @ ranks.spread) for each in (surely, may)]
        greatest, smallest = phi * (most @ ranks.total), phi * (least @ ranks.total)
        last = ranks.reached(surely, greatest * (1 + _ROUNDING) + chances[0])
        first = ranks.reached(may, smallest * (1 - _ROUNDING) - chances[1])
        middle = np.where((factors.middle @ ranks.total > 0.0)[:, None], factors.middle, most)
        about = ranks.reached(middle, phi * (middle @ ranks.total) * (1 - _ROUNDING))
        low, high = self._extremes(most)
        lower = np.maximum(self._values(first, high), low)
        upper = np.minimum(self._values(last, high), high)
        upper = np.maximum(lower, upper)
        value = np.clip(self._values(about, high), lower, upper)
        chance, blurred = self._rank_errors(phi, value, factors, chances)
        if self.kind is Kind.INTEGER:
            lower, upper = apart(lower, upper)
        nothing = most @ ranks.total <= 0.0
        value, lower, upper = (np.where(nothing, np.nan, column) for column in (value, lower, upper))
        return _Found(value, lower, upper, chance, blurred)

    def _extremes(self, most: Floats) -> tuple[Floats, Floats]:
        """The least and the greatest value of what counts, at each moment."""
        stretches = len(self.ranks.ranges)
        low, high = np.full(stretches, np.inf), np.full(stretches, -np.inf)
        np.minimum.at(low, self.ranks.stretch, self.ranks.ends[0].astype(np.float64))
        np.maximum.at(high, self.ranks.stretch, self.ranks.ends[1].astype(np.float64))
        counts = most > 0.0
        return (
            np.where(counts, low, np.inf).min(axis=1, initial=np.inf),
            np.where(counts, high, -np.inf).max(axis=1, initial=-np.inf),
        )

    def _values(self, at: Ints, beyond: Floats) -> Floats:
        if len(self.ranks.values) == 0:
            return np.full(len(at), np.nan)
        found = self.ranks.values[np.minimum(at, len(self.ranks.values) - 1)].astype(np.float64)
        return np.where(at < len(self.ranks.values), found, beyond)

    def _rank_errors(
        self, phi: float, value: Floats, factors: Factors, chances: Sequence[Floats]
    ) -> tuple[Floats, Floats]:
        """How far off the rank of a quantile may be by chance, and by what the decay varies: shares of the whole.

        What lies up to it must reach φ, and what lies below it must not exceed it.
        """
        ranks, total = self.ranks, self.ranks.total
        values = np.nan_to_num(value)
        dtype = ranks.values.dtype
        kept = values.astype(dtype) if dtype.kind == "f" else np.clip(values, -(2.0**62), 2.0**62).astype(dtype)
        until = np.searchsorted(ranks.values, kept, side="right").astype(np.int64)
        before = np.searchsorted(ranks.values, kept, side="left").astype(np.int64)
        with np.errstate(invalid="ignore", divide="ignore"):
            reach, above = ranks.summed(factors.least, until), factors.most @ total - ranks.summed(factors.most, until)
            less, rest = ranks.summed(factors.most, before), factors.least @ total - ranks.summed(factors.least, before)
            short, over = phi - reach / (reach + above), less / (less + rest) - phi
            blurred = np.maximum(np.maximum(short, over), 0.0)
            chance = np.maximum(chances[0] / (reach + above), chances[1] / (less + rest))
        return np.where(factors.most @ total > 0.0, chance, 0.0), blurred

    def _said(self, question: Question, found: _Found, confidence: float, counts: np.ndarray) -> str:
        chance, blurred = (
            float(part[counts & ~np.isnan(part)].max(initial=0.0)) for part in (found.chance, found.blurred)
        )
        error = chance + blurred
        held = NEVER_OUTSIDE if confidence == 1.0 else inside(confidence)
        if not np.isfinite(error):
            return clauses(held, ROWS)
        off = rank_within if question.aggregate in QUANTILES else within
        return clauses(held, off(error, _WHOLE), made_of(chance, blurred), ROWS)


@dataclass(frozen=True, slots=True)
class _Found:
    """Answers with limits, and how much of them is chance, and what the decay varies: relative to the whole."""

    value: Floats
    lower: Floats
    upper: Floats
    chance: Floats
    blurred: Floats

    @classmethod
    def joined(cls, parts: Sequence[_Found]) -> _Found:
        names = ("value", "lower", "upper", "chance", "blurred")
        return cls(*(np.concatenate([np.zeros(0), *(getattr(part, name) for part in parts)]) for name in names))


def _deviations(missing: float) -> float:
    """How many standard deviations to both sides leave out so much."""
    return float(ndtri(1.0 - missing / 2.0))


def _range(question: Question) -> Range:
    """The values that a count or a share is about."""
    found = question.where.range_of("value")
    if question.aggregate == "rank":
        return found.within(Range(high=_number(question, question.value)))
    if question.tau is not None:
        found = found.within(Range(low=_number(question, question.tau)))
    if question.low is not None:
        found = found.within(Range(low=question.low))
    if question.high is not None:
        found = found.within(Range(high=question.high))
    return found


def _number(question: Question, given: float | str | None) -> float:
    if not isinstance(given, int | float | np.number):
        raise UnanswerableError(f"{question.aggregate} compares with a number, not with {given!r}")
    return given  # whole numbers with all their digits
