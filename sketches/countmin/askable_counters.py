"""From the counters of `ecm` sketches to answers: frequencies, joins, ranges, quantiles, heavy hitters.

Paper E §4 and §6.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sketches.arrays import Floats, Ints, Limits
from sketches.countmin.counter_contents import CounterContents
from sketches.countmin.counter_places import ZERO_CODE, clamped, dyadic_parts, level_code
from sketches.countmin.counter_reading import Bounds, CounterReading
from sketches.countmin.counter_sentences import SHARES, of_list, of_number
from sketches.countmin.heavy_values import heavy_values
from sketches.decay import Decay
from sketches.decay.functions import LastEvents, NoDecay
from sketches.encoding.value_codes import codes_of, greatest_code, least_code, values_of
from sketches.errors import IncompatibleError, QuestionError, UnanswerableError
from sketches.estimate import Estimate, Item, Series
from sketches.events import Extremes, Kind
from sketches.family import Abilities, Askable
from sketches.hashing import hash_one
from sketches.papers import ECM_SKETCHES
from sketches.question import NEEDS_ORDER, Question
from sketches.records import dataclass
from sketches.refusals import refuse, refuse_other_mass
from sketches.threshold import Threshold

FAMILY: Final = "ecm"
ABILITIES: Final = Abilities(
    (
        "sum",
        "count",
        "frequency",
        "heavy-hitters",
        "self-join",
        "inner-product",
        *sorted(NEEDS_ORDER - {"correlated-mean"}),
    ),
    columns=frozenset({"value"}),
    last_events=True,
    joint_lists=True,
    watched=True,
)
RESTRICTED: Final = frozenset(
    {"sum", "count", "range-sum", "correlated-sum", "correlated-count"}
)  # by a range of values
_EVERY: Final = 1 << 24  # entries at moments: up to so many, every counter is read, which narrows the bounds


@dataclass(frozen=True)
class AskableCounters(CounterContents, Askable):
    """The counters of one or many sketches, ready to be asked."""

    family: ClassVar[str] = FAMILY

    def answer(self, question: Question, *, other: AskableCounters | None = None) -> Estimate:
        """The answer at one as-of time, the newest event's where the question names none."""
        newest = [one.extremes.newest for one in (self, other) if one is not None and one.extremes.newest is not None]
        as_of = question.as_of if question.as_of is not None else max(newest, default=0)
        self._check(question, other)
        confidence = self._confidence(question)
        if question.aggregate == "heavy-hitters":
            return self._list(question, as_of, confidence)
        moments = np.array([as_of], np.int64)
        limits = self._limits(question, moments, other)
        said = of_number(self, question, limits, self._whole(question, moments, limits, other), confidence)
        value, lower, upper = (float(limit[0]) for limit in limits)
        return Estimate(value, lower, upper, confidence, said, self.family, as_of, len(self.size))

    def series(self, question: Question, as_of: ArrayLike, *, other: AskableCounters | None = None) -> Series:
        """The same question at many as-of times."""
        moments = np.asarray(as_of, np.int64)
        if moments.ndim != 1:
            raise QuestionError(f"as_of has {moments.ndim} dimensions; a series takes a flat array of times")
        if question.aggregate == "heavy-hitters":
            raise UnanswerableError(f"{question.aggregate} has no series in the {self.family} family: ask at one time")
        self._check(question, other)
        confidence = self._confidence(question)
        limits = self._limits(question, moments, other)
        said = of_number(self, question, limits, self._whole(question, moments, limits, other), confidence)
        used = np.full(len(moments), len(self.size), np.int64)
        return Series(moments, *limits, confidence, said, self.family, used)

    def _list(self, question: Question, as_of: int, confidence: float) -> Estimate:
        """The heavy hitters; the first of them is the answer's own number."""
        found = heavy_values(CounterReading(self, question, as_of))
        names = (
            [self.labels.text_of(code) for code in found.codes.tolist()]
            if self.kind is Kind.KEY
            else values_of(found.codes, self.kind).tolist()
        )
        columns = (column.tolist() for column in (found.value, found.lower, found.upper))
        items = tuple(Item(*each) for each in zip(names, *columns, strict=True))
        if items:
            value, lower, upper = items[0].estimate, items[0].lower, items[0].upper
        else:
            value, lower, upper = (math.nan, 0.0, 1.0) if found.unlisted is None else (0.0, 0.0, found.unlisted)
        said = of_list(self, question, found, confidence)
        return Estimate(
            value, lower, upper, confidence, said, self.family, as_of, len(self.size), items, found.unlisted
        )

    def frequencies(self, values: ArrayLike, decay: Decay | str = "none", as_of: int | None = None) -> Limits:
        """The shares of many values at once, each by itself: the counters are read once for all of them."""
        question = Question("frequency", decay, as_of, value=0, counting=self.parameters.counting)
        self._check(question, None)
        moment = question.as_of if question.as_of is not None else self.extremes.newest or 0
        reading = CounterReading(self, question, moment)
        return self.shares_of(self._values(reading, np.asarray(values)), reading.total)

    def _check(self, question: Question, other: AskableCounters | None) -> None:
        refuse(self.family, ABILITIES, question)
        sides = [one for one in (self, other) if one is not None]
        seen = Extremes.merged([one.extremes for one in sides])
        refuse_other_mass(self.family, question, self.parameters.counting, seen)
        for one in sides:
            one._check_decay(question.decay)
        if question.where and (question.where.key is not None or question.aggregate not in RESTRICTED):
            raise UnanswerableError(
                f"the ecm family cannot restrict {question.aggregate} to events where {question.where.words()}; a "
                f"range of whole numbers restricts {', '.join(sorted(RESTRICTED))}"
            )
        if (question.aggregate in NEEDS_ORDER or question.where) and len(self.size):
            asked = question.aggregate if question.aggregate in NEEDS_ORDER else f"{question.aggregate} over a range"
            if self.kind is Kind.KEY:
                raise UnanswerableError(f"{asked} needs ordered values, but this stream's values are text")
            if not self.has_ranges:
                raise UnanswerableError(
                    f"{asked} needs an ecm sketch of whole numbers built with bits, their domain's size"
                )
        if question.aggregate in ("self-join", "inner-product") and self.parameters.keeping == "rw":
            raise UnanswerableError(
                f"randomised waves give no guarantee for joins ({ECM_SKETCHES} §7.2); keeping = 'eh' or 'dw' does"
            )
        if question.aggregate == "inner-product":
            if other is None:
                raise QuestionError("an inner product needs a second sketch")
            if other.parameters != self.parameters or (
                other.kind is not self.kind and len(other.size) and len(self.size)
            ):
                raise IncompatibleError(
                    f"sketches with different parameters have no inner product: {self.parameters} and "
                    f"{other.parameters}"
                )

    def _check_decay(self, decay: Decay) -> None:
        last = isinstance(decay, LastEvents)
        if self.parameters.basis == "count" and not (last or isinstance(decay, NoDecay)):
            raise UnanswerableError(
                f"this ecm sketch knows the order of its arrivals and not their times (basis = 'count'), so it cannot "
                f"answer under {decay.spec}: ask for the newest arrivals, such as last:10000, or build it with basis = "
                "'time'"
            )
        if last and self.parameters.basis == "time" and not self.counts_events:
            raise UnanswerableError(
                f"this ecm sketch cannot tell where the newest events of {decay.spec} begin: its log is of weight, not "
                "of events (counting = 'weight')"
            )

    def _confidence(self, question: Question) -> float:
        """1 where the last counter alone answers, which is certain; else what the sketch was built for."""
        if _of_all(question) and self.certain:
            return 1.0
        confidence = 1.0 - self.parameters.delta
        if question.confidence is not None and question.confidence > confidence:
            raise UnanswerableError(
                f"confidence is {question.confidence}; this sketch's bound holds with probability {confidence:.6g}: "
                "build it with a smaller delta"
            )
        return confidence

    def _whole(self, question: Question, moments: Ints, limits: Limits, other: AskableCounters | None) -> Floats | None:
        """What the error that an answer states is relative to, at least; None where it states none."""
        if question.aggregate in ("quantile", "median"):
            return None
        if question.aggregate in SHARES:
            return np.ones(len(moments))
        if _of_all(question):
            return limits[1]
        least = self.total(question, moments)[1]
        if question.aggregate in ("self-join", "inner-product"):
            return least * (least if other is None else other.total(question, moments)[1])
        return least

    # Answers.

    def _limits(self, question: Question, moments: Ints, other: AskableCounters | None) -> Limits:
        match question.aggregate:
            case "sum" | "count" if _of_all(question):
                return self.total(question, moments)
            case "self-join":
                return self._product(question, moments, self)
            case "inner-product":
                assert other is not None
                return self._product(question, moments, other)
        every = len(moments) * len(self.size) <= _EVERY
        readings = (CounterReading(self, question, moment, every) for moment in moments.tolist())
        if question.aggregate in ("quantile", "median"):
            assert question.phi is not None
            return _stacked([self._quantile(reading, question.phi) for reading in readings])
        return _stacked([self._over(reading) for reading in readings])

    def _product(self, question: Question, moments: Ints, other: AskableCounters) -> Limits:
        """Σ of the products of the counters in a row, least over the rows (E §4.1), as limits.

        What collides adds D·D'/w to it in the mean. Without that a row is as often too small as too large, and the
        middle one of the rows is the estimate: w/(w - 1)·Σ (a - mean a)·(b - mean b) = (w·Σ ab - Σ a·Σ b)/(w - 1).
        """
        parameters = self.parameters
        cells = np.arange(parameters.rows * parameters.width)
        mine = self.contents_of(question, moments, cells)
        theirs = mine if other is self else other.contents_of(question, moments, cells)
        shape = (len(moments), parameters.rows, parameters.width)
        lower, upper = ((mine[at].reshape(shape) * theirs[at].reshape(shape)).sum(axis=2).min(axis=1) for at in (1, 2))
        excess = parameters.excess(1) * self.total(question, moments)[2] * other.total(question, moments)[2]
        lower = np.maximum(lower - excess, 0.0) * (not (self.beyond or other.beyond))
        one, two = (side[0].reshape(shape) for side in (mine, theirs))
        rows = parameters.width * (one * two).sum(axis=2) - one.sum(axis=2) * two.sum(axis=2)
        rows /= parameters.width - 1.0
        return np.clip(np.median(rows, axis=1), lower, upper), lower, upper

    def _over(self, reading: CounterReading) -> Bounds:
        """A frequency, or a sum or share over a range of values."""
        question = reading.question
        if question.aggregate == "frequency":
            mass = self._values(reading, np.array([question.value]))
        elif question.threshold is not None:
            mass = self._above(reading, question.threshold)
        else:
            mass = self._range(reading, *self._ends(question))
        if self.beyond and question.aggregate != "frequency":
            spilled = reading.masses(self.beyond_codes, together=2 * self.parameters.bits)[2].sum()
            mass = mass[0], np.maximum(mass[1] - spilled, 0.0), np.minimum(mass[2] + spilled, reading.total[2])
        if question.aggregate in RESTRICTED:
            return float(np.clip(mass[0][0], mass[1][0], mass[2][0])), float(mass[1][0]), float(mass[2][0])
        value, lower, upper = self.shares_of(mass, reading.total)
        return float(value[0]), float(lower[0]), float(upper[0])

    def _above(self, reading: CounterReading, threshold: Threshold) -> Limits:
        """What the values weigh from a multiple of a quantile on: the less, the greater the quantile may be."""
        assert threshold.phi is not None  # a mean was refused
        bits = self.parameters.bits
        quantiles = self._quantile(reading, threshold.phi, besides=2 * bits)
        if math.isnan(quantiles[0]):
            return np.zeros(1), np.zeros(1), np.zeros(1)
        low, high = self._ends(reading.question)
        lows = (least_code(threshold.factor * tau, Kind.INTEGER) - ZERO_CODE for tau in quantiles)
        middle, most, least = (self._range(reading, max(low, begin), high, besides=bits) for begin in lows)
        return middle[0], least[1], most[2]

    def _values(self, reading: CounterReading, values: NDArray[Any]) -> Limits:
        """The decayed weight of each value; 0 for a value that no event can have."""
        if self.kind is Kind.KEY or len(self.size) == 0:
            return reading.masses(np.array([hash_one(str(value)) for value in values.tolist()], np.uint64))
        if values.dtype.kind not in "iufb":
            raise UnanswerableError(f"value is {values.tolist()[0]!r}, but this stream's values are numbers")
        if self.kind is Kind.FLOAT:
            return reading.masses(codes_of(values.astype(np.float64) + 0.0, self.kind))
        whole = (values == np.rint(values)) & (np.abs(values.astype(np.float64)) < 2.0**63)
        whole &= (values >= self.extremes.least_value) & (values <= self.extremes.greatest_value)
        codes = clamped(codes_of(np.where(whole, values, 0).astype(np.int64), self.kind), self.parameters.bits)
        value, lower, upper = reading.masses(codes)
        surely = whole & ~np.isin(codes, self.beyond_codes)
        return value * whole, lower * surely, upper * whole

    # Ranges of whole numbers, from 0 to the last of the domain.

    @property
    def _last(self) -> int:
        return (1 << self.parameters.bits) - 1

    def _ends(self, question: Question) -> tuple[int, int]:
        """The least and the greatest number that a question is about, within the domain."""
        low, high = 0, self._last
        if question.aggregate == "rank":
            value = question.value
            if isinstance(value, str) or value is None:
                raise UnanswerableError(f"value is {value!r}, but this stream's values are numbers")
            return 0, min(greatest_code(value, Kind.INTEGER) - ZERO_CODE, self._last)
        if question.low is not None:
            low = max(low, least_code(question.low, Kind.INTEGER) - ZERO_CODE)
        if question.high is not None:
            high = min(high, greatest_code(question.high, Kind.INTEGER) - ZERO_CODE)
        if question.tau is not None and not isinstance(question.tau, str):
            low = max(low, least_code(question.tau, Kind.INTEGER) - ZERO_CODE)
        where = question.where.range_of("value").closed(whole=True)
        low = max(low, least_code(where.low, Kind.INTEGER) - ZERO_CODE)
        return low, min(high, greatest_code(where.high, Kind.INTEGER) - ZERO_CODE)

    def _range(self, reading: CounterReading, low: int, high: int, besides: int = 0) -> Limits:
        """The weight of a range: the sum over the dyadic ranges that make it up (E §6.1), up to 2·bits - 2 of them.

        Their limits hold all together, and beside so many others.
        """
        total = tuple(np.array([limit]) for limit in reading.total)
        if low > high or low > self._last or high < 0:
            return np.zeros(1), np.zeros(1), np.zeros(1)
        if low <= 0 and high >= self._last:
            return total  # type: ignore[return-value]
        parts = dyadic_parts(max(low, 0), min(high, self._last), self.parameters.bits)
        # where only the sums of rows are known, Markov's inequality is of the sum over the parts: no union is needed
        together = len(parts) + besides if reading.every else 1 + besides
        sums = np.zeros(3)
        for level in sorted({level for level, _ in parts}):
            codes = [level_code(prefix, level) for at, prefix in parts if at == level]
            found = reading.masses(np.array(codes, np.uint64), level, together=together)
            sums += [limit.sum() for limit in found]
        value, lower, upper = (np.minimum(limit, total[at]) for at, limit in zip((0, 2, 2), sums, strict=True))
        return value, lower, upper

    def _quantile(self, reading: CounterReading, phi: float, besides: int = 0) -> Bounds:
        """The φ-quantile by descending the dyadic ranges; its limits where the rank surely, or possibly, reaches φ.

        On the way to the exact one there are as many ranges as bits, of which all limits hold together.
        """
        if reading.total[2] == 0.0:
            return math.nan, math.nan, math.nan
        bits, total = self.parameters.bits, reading.total
        places = []
        for which, goal in ((0, phi * total[0]), (2, phi * total[1]), (1, phi * total[2])):
            prefix, before = 0, 0.0
            for level in range(bits - 1, -1, -1):
                left = prefix << 1
                code = np.array([level_code(left, level)], np.uint64)
                mass = float(reading.masses(code, level, together=bits + besides)[which][0])
                if before + mass >= goal:
                    prefix = left
                else:
                    prefix, before = left + 1, before + mass
            places.append(float(prefix))
        value, lower, upper = places
        least, greatest = (
            min(max(end, 0.0), float(self._last)) for end in (self.extremes.least_value, self.extremes.greatest_value)
        )
        lower, upper = max(min(lower, value), least), min(max(upper, value), greatest)
        for code in self.beyond_codes.tolist():  # an end of the domain may stand for any value beyond it
            if code == ZERO_CODE and lower <= 0.0:
                lower = self.extremes.least_value
            elif code != ZERO_CODE and upper >= self._last:
                upper = self.extremes.greatest_value
        return min(max(value, lower), max(upper, lower)), lower, max(upper, lower)


def _stacked(found: Sequence[tuple[float, float, float]]) -> Limits:
    value, lower, upper = (np.array([each[part] for each in found]) for part in range(3))
    return value, lower, upper


def _of_all(question: Question) -> bool:
    """Whether it asks what all arrivals weigh together: the last counter alone answers."""
    return question.aggregate in ("sum", "count") and not question.where
