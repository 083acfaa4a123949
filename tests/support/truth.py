"""Exact answers for the fuzz: from all rows, by brute force, as the words of a question say (`sketches.sentences`).

`tests.support.oracle` answers one question at a time. Here many questions are asked of the same rows, so the decayed
weights of each (decay, as-of time) are kept; whole numbers beyond 2^53 are compared exactly; a quantile or a threshold
whose share is reached but for rounding has two answers, either of which is right.

It shares no code with the sketches: only the decay function, the unit of time and the shape of a question.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sketches.arrays import Flags, Floats
from sketches.decay import Decay
from sketches.predicate import Predicate
from sketches.question import Question
from sketches.units import SECOND, TimeUnit
from tests.support.streams import Stream

ROUNDING = 1e-9  # of a share, within which it is not said on which side of φ it lies
FAINT = 1e-280  # of a decay factor: below it floats have few digits, and nothing is said
SHARES = frozenset({"selectivity", "rank", "frequency", "range-frequency", "heavy-hitters"})
_LEAST, _GREATEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


class Exact(NamedTuple):
    """What is right: the least and the greatest answer that rounding allows (equal but for ties), and its scale.

    NaN where there is nothing to answer. `scale` is the sum of the absolute terms: an exact sum errs by a few digits
    of that.
    """

    least: float
    greatest: float
    scale: float = 0.0
    faint: bool = False  # floats cannot tell: not to be judged

    @property
    def nothing(self) -> bool:
        return math.isnan(self.least)

    def slack(self, rounding: float = 1e-9) -> float:
        size = max(abs(self.least), abs(self.greatest))
        return rounding * size + 1e-13 * self.scale + 1e-290 if math.isfinite(size) else 0.0

    def within(self, lower: float, upper: float) -> bool:
        """Whether one of the right answers lies between the limits, but for rounding."""
        slack = self.slack()
        return bool(lower - slack <= self.greatest and self.least <= upper + slack and lower <= upper + slack)

    def distance(self, value: float) -> float:
        """How far a number is from the nearest right answer."""
        return max(self.least - value, value - self.greatest, 0.0)


class Mass(NamedTuple):
    """What is counted: decayed events and decayed weight, of the chosen events and of all."""

    count: float
    weight: float
    all_count: float
    all_weight: float


@dataclass(eq=False)
class Truth:
    """Exact answers about the rows of one stream, each row once or, for families that forgive repeats, each event.

    `now` is the as-of time of questions that give none: the newest row ever put in.
    """

    stream: Stream
    unit: TimeUnit = SECOND
    now: int = 0
    once: bool = True  # an event counts once however often it came

    def __post_init__(self) -> None:
        self.rows = self.stream.distinct() if self.once else self.stream
        self.t, self.v, self.w = self.rows.t, self.rows.v, self.rows.w
        self._factors: dict[tuple[str, int], Floats] = {}
        self._wheres: dict[Predicate, Flags] = {}
        self._answers: dict[Question, Exact] = {}
        self._masses: dict[Question, Mass] = {}
        self._shares: dict[Question, Floats] = {}

    # What an event counts.

    def as_of(self, question: Question) -> int:
        return self.now if question.as_of is None else question.as_of

    def factors(self, decay: Decay, as_of: int) -> Floats:
        """f of every event; 0 for those newer than the as-of time."""
        if (decay.spec, as_of) not in self._factors:
            if len(self._factors) > 400:
                self._factors.clear()
            self._factors[decay.spec, as_of] = self._computed(decay, as_of)
        return self._factors[decay.spec, as_of]

    def _computed(self, decay: Decay, as_of: int) -> Floats:
        come = self.t <= as_of
        if decay.spec.startswith("last:"):
            count = int(decay.spec.removeprefix("last:"))
            times = np.sort(self.t[come])[::-1]
            first = times[min(count, len(times)) - 1] if len(times) else as_of
            return (come & (self.t >= first)).astype(np.float64)
        ages = np.where(come, as_of - self.t, 0).astype(np.float64)
        ages = ages * float(self.unit.numerator) / float(self.unit.denominator)
        return np.where(come, decay(ages), 0.0)

    def where(self, predicate: Predicate) -> Flags:
        if predicate not in self._wheres:
            self._wheres[predicate] = self._chosen(predicate)
        return self._wheres[predicate]

    def _chosen(self, predicate: Predicate) -> Flags:
        about = np.ones(len(self.rows), bool)
        for column, limits in predicate.ranges:
            numbers = {"value": self.v, "weight": self.w, "time": self.t}[column]
            about &= _above(numbers, limits.low, strict=limits.open_low)
            about &= _below(numbers, limits.high, strict=limits.open_high)
        if predicate.key is not None:
            about &= self.v == predicate.key
        return about

    def times(self, question: Question) -> Floats:
        """How often each event counts: once, or as often as its weight says."""
        return self.weights if question.counting == "weight" else np.ones(len(self.rows))

    @cached_property
    def weights(self) -> Floats:
        return self.w.astype(np.float64)

    def decayed(self, question: Question) -> Floats:
        return self.factors(question.decay, self.as_of(question)) * self.where(question.where)

    def mass(self, question: Question) -> Floats:
        return self.times(question) * self.decayed(question)

    def masses(self, question: Question) -> Mass:
        """The decayed count and weight of the events that the question is about, and of all."""
        if question not in self._masses:
            self._masses[question] = self._weighed(question)
        return self._masses[question]

    def _weighed(self, question: Question) -> Mass:
        everything = self.factors(question.decay, self.as_of(question))
        chosen = everything * self.where(question.where)
        return Mass(
            float(chosen.sum()),
            float(chosen @ self.weights),
            float(everything.sum()),
            float(everything @ self.weights),
        )

    def faint(self, question: Question) -> bool:
        """Whether all that counts, or all that is asked about, is so old that floats have no digits left for it."""
        factors = self.factors(question.decay, self.as_of(question))
        chosen = float((factors * self.where(question.where)).max(initial=0.0))
        largest = float(factors.max(initial=0.0))
        return 0.0 < chosen < FAINT or (
            largest == 0.0
            and not math.isfinite(question.decay.horizon)
            and not question.decay.spec.startswith(("last:", "table:"))
            and bool((self.t <= self.as_of(question)).any())
        )

    # Answers.

    def answer(self, question: Question, other: Truth | None = None) -> Exact:
        """The exact answer; `other` is the second side of an inner product."""
        if question not in self._answers:
            self._answers[question] = self._answer(question, other)
        return self._answers[question]

    def _answer(self, question: Question, other: Truth | None) -> Exact:
        if self.faint(question):
            return Exact(math.nan, math.nan, faint=True)
        if question.aggregate == "inner-product":
            assert other is not None
            return _point(self._product(question, other))
        if question.aggregate == "self-join":
            return _point(float(np.square(self.by_value(question)).sum()))
        if question.aggregate in ("quantile", "median"):
            assert question.phi is not None
            return Exact(*(float(end) for end in self.quantile(self.mass(question), question.phi)))
        if isinstance(question.tau, str):
            return either([self._measured(question, tau) for tau in self.thresholds(question)])
        return self._measured(question, question.tau)

    def _measured(self, question: Question, tau: float | None) -> Exact:
        """The answer with the threshold as a number, or without one."""
        inside = self._inside(question, tau)
        mass = self.mass(question)
        match question.aggregate.removeprefix("correlated-").removeprefix("range-"):
            case "count":
                return _point(float(mass[inside].sum()))
            case "sum":
                return _grown(_summed((self._summed(question, mass))[inside]), self._shrunk(question))
            case "mean":
                over = mass if question.of == "value" else self.decayed(question)
                total = _summed(self._summed(question, mass)[inside])
                return _grown(_quotient(total, float(over[inside].sum())), self._shrunk(question))
            case "variance" | "stddev":
                return _grown(
                    self._spread(question, mass),
                    self._shrunk(question) ** (2 if question.aggregate == "variance" else 1),
                )
            case _:
                return _quotient(_point(float(mass[inside].sum())), float(mass.sum()))

    def _spread(self, question: Question, mass: Floats) -> Exact:
        """The mean of squared distances from the mean, or its root; values may be shrunk."""
        over = mass if question.of == "value" else self.decayed(question)
        whole = float(over.sum())
        if whole <= 0.0:
            return _point(math.nan)
        numbers = self.weights.astype(np.float64)
        if question.of == "value":
            numbers = np.where(over > 0, self.v, 0).astype(np.float64) / self._shrunk(question)
        mean = math.fsum((numbers * over).tolist()) / whole
        found = math.fsum((np.square(numbers - mean) * over).tolist()) / whole
        rounded = 1e-13 * float(np.abs(numbers).max(initial=0.0)) ** 2 * 1e-3
        ends = max(found - rounded, 0.0), found + rounded
        return Exact(*(math.sqrt(end) for end in ends)) if question.aggregate == "stddev" else Exact(*ends)

    def _summed(self, question: Question, mass: Floats) -> Floats:
        if question.of == "value":
            return np.where(mass > 0, self.v, 0).astype(np.float64) / self._shrunk(question) * mass
        return self.weights * self.decayed(question)

    def _shrunk(self, question: Question) -> float:
        """By what values are divided before they are summed, where a sum of them would leave the range of floats."""
        huge = question.of == "value" and self.v.dtype.kind == "f" and np.abs(self.v).max(initial=0.0) > 1e200
        return 2.0**200 if huge else 1.0

    def _inside(self, question: Question, tau: float | None) -> Flags:
        """Which events the aggregate measures."""
        inside = np.ones(len(self.rows), bool)
        if question.aggregate == "rank":
            return _below(self.v, question.value)
        if question.aggregate == "frequency":
            return self.equal(question.value)
        if tau is not None:
            inside &= _above(self.v, tau)
        if question.low is not None:
            inside &= _above(self.v, question.low)
        if question.high is not None:
            inside &= _below(self.v, question.high)
        return inside

    def equal(self, value: Any) -> Flags:
        if self.rows.is_text or isinstance(value, str):
            return np.asarray(self.v == value, bool) & np.ones(len(self.rows), bool)
        return _above(self.v, value) & _below(self.v, value)

    @cached_property
    def by_order(self) -> NDArray[np.intp]:
        return np.argsort(self.v, kind="stable")

    def quantile(self, mass: Floats, phi: float) -> tuple[Any, Any]:
        """The smallest value whose cumulated share reaches φ, and where it may be a rounding less or more."""
        cumulated = np.cumsum(mass[self.by_order], dtype=np.longdouble)
        if not len(cumulated) or cumulated[-1] <= 0:
            return math.nan, math.nan
        goals = [phi * cumulated[-1] * (1 - ROUNDING), phi * cumulated[-1] * (1 + ROUNDING)]
        places = np.minimum(np.searchsorted(cumulated, goals, side="left"), len(cumulated) - 1)
        counted = np.flatnonzero(mass[self.by_order] > 0)
        places = counted[np.minimum(np.searchsorted(counted, places, side="left"), len(counted) - 1)]
        least, greatest = (self.v[self.by_order[place]].item() for place in places)
        return least, greatest  # whole numbers with all their digits

    def rank_distance(self, question: Question, value: float, phi: float) -> float:
        """How far φ is from the ranks that a value has: from the share below it to the share up to it."""
        mass = self.mass(question)
        whole = float(mass.sum())
        least, most = value, value
        if abs(value) >= 2.0**53 and self.v.dtype.kind == "i":  # an answer is a float, which has fewer digits
            least, most = math.nextafter(value, -math.inf), math.nextafter(value, math.inf)
        below = float(mass[_below(self.v, least, strict=True)].sum()) / whole
        upto = float(mass[_below(self.v, most)].sum()) / whole
        return max(below - phi, phi - upto, 0.0)

    def thresholds(self, question: Question) -> list[float]:
        """τ as a number, of all events under the question's decay and counting: itself and what rounding makes of it.

        A multiple of a whole number may be rounded once, a mean several times.
        """
        threshold = question.threshold
        assert threshold is not None
        mass = self.times(question) * self.factors(question.decay, self.as_of(question))
        if not mass.sum() > 0:
            return [math.nan]
        if threshold.phi is not None:
            least, greatest = self.quantile(mass, threshold.phi)
            values = set(self.v[(self.v >= least) & (self.v <= greatest) & (mass > 0)].tolist())
            found = values if threshold.factor == 1.0 else {threshold.factor * number for number in values}
            if threshold.factor != 1.0:
                found |= {math.nextafter(tau, end) for tau in found for end in (-math.inf, math.inf)}
            return sorted(found)
        terms = self.v[mass > 0].astype(np.float64) * mass[mass > 0]
        mean = threshold.factor * math.fsum(terms.tolist()) / math.fsum(mass.tolist())
        error = 1e-12 * threshold.factor * float(np.abs(terms).sum()) / float(mass.sum())
        return [mean - error, mean, mean + error]

    # Values.

    @cached_property
    def groups(self) -> tuple[NDArray[Any], NDArray[np.intp]]:
        values, codes = np.unique(self.v, return_inverse=True)
        return values, codes.reshape(-1)

    @cached_property
    def place_of(self) -> dict[Any, int]:
        return {value: place for place, value in enumerate(self.groups[0].tolist())}

    def by_value(self, question: Question) -> Floats:
        """The decayed mass of each distinct value."""
        return np.bincount(self.groups[1], self.mass(question), minlength=len(self.groups[0]))

    def shares(self, question: Question) -> Floats:
        """The share of each distinct value; NaN where nothing counts."""
        if question not in self._shares:
            masses = self.by_value(question)
            whole = masses.sum()
            self._shares[question] = masses / whole if whole > 0 else np.full(len(masses), np.nan)
        return self._shares[question]

    def _product(self, question: Question, other: Truth) -> float:
        mine, theirs = self.by_value(question), other.by_value(question)
        return float(sum(theirs[at] * mine[self.place_of[v]] for v, at in other.place_of.items() if v in self.place_of))


def _point(number: float) -> Exact:
    return Exact(number, number, abs(number))


def _summed(terms: Floats) -> Exact:
    if not len(terms):
        return Exact(0.0, 0.0)
    total = math.fsum(terms.tolist()) if terms.min() < 0 else float(terms.sum())
    return Exact(total, total, float(np.abs(terms).sum()))


def _quotient(part: Exact, whole: float) -> Exact:
    if not whole > 0:
        return Exact(math.nan, math.nan)
    return Exact(part.least / whole, part.greatest / whole, max(part.scale / whole, 1e-90))


def _grown(exact: Exact, factor: float) -> Exact:
    """An answer about values that were divided; beyond all floats it is not to be judged."""
    if factor == 1.0 or exact.nothing:
        return exact
    least, greatest, scale = (number * factor for number in exact[:3])
    return Exact(least, greatest, scale, faint=not math.isfinite(scale))


def either(found: list[Exact]) -> Exact:
    """One of several answers is right, of which rounding leaves open which."""
    known = [one for one in found if not one.nothing]
    if len(known) < len(found):
        return found[0] if not known else Exact(math.nan, math.nan, faint=True)
    return Exact(min(one.least for one in known), max(one.greatest for one in known), max(one.scale for one in known))


def _above(numbers: NDArray[Any], bound: Any, *, strict: bool = False) -> Flags:
    """Which numbers are at least (or above) a bound; whole numbers are compared exactly."""
    if isinstance(bound, float) and math.isnan(bound):
        return np.zeros(len(numbers), bool)
    if numbers.dtype.kind == "f":
        return numbers > float(bound) if strict else numbers >= float(bound)
    if math.isinf(bound):
        return np.full(len(numbers), bound < 0)
    least = math.floor(bound) + 1 if strict else math.ceil(bound)
    if least > _GREATEST:
        return np.zeros(len(numbers), bool)
    return numbers >= max(least, _LEAST)


def _below(numbers: NDArray[Any], bound: Any, *, strict: bool = False) -> Flags:
    """Which numbers are at most (or below) a bound."""
    if isinstance(bound, float) and math.isnan(bound):
        return np.zeros(len(numbers), bool)
    return ~_above(numbers, bound, strict=not strict)
