"""From the counters of `ecm` sketches to answers: frequencies, joins, ranges, quantiles, heavy hitters.

Paper E §4 and §6.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sketches.arrays import Floats, Ints, Words
from sketches.countmin.counter_contents import CounterContents
from sketches.countmin.counter_places import ZERO_CODE, clamped, dyadic_parts, level_code
from sketches.decay import Decay
from sketches.decay.functions import LastEvents, NoDecay
from sketches.encoding.value_codes import codes_of, greatest_code, least_code, values_of
from sketches.errors import IncompatibleError, QuestionError, UnanswerableError
from sketches.estimate import Estimate, Item, Series
from sketches.events import Extremes, Kind
from sketches.family import Abilities, Askable, refuse, refuse_other_mass
from sketches.hashing import hash_one
from sketches.papers import ECM_SKETCHES
from sketches.question import DEFAULT_TOP, NEEDS_ORDER, Question, Threshold

Limits = tuple[Floats, Floats, Floats]  # value, lower, upper

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
)
RESTRICTED: Final = frozenset(
    {"sum", "count", "range-sum", "correlated-sum", "correlated-count"}
)  # by a range of values
_ROWS: Final = "; rows count as often as they came"


@dataclass(frozen=True)
class AskableCounters(CounterContents, Askable):
    """The counters of one or many sketches, ready to be asked."""

    family: ClassVar[str] = FAMILY

    def answer(self, question: Question, *, other: AskableCounters | None = None) -> Estimate:
        """The answer at one as-of time, the newest event's where the question names none."""
        newest = [one.extremes.newest for one in (self, other) if one is not None and one.extremes.newest is not None]
        as_of = question.as_of if question.as_of is not None else max(newest, default=0)
        moments = np.array([as_of], np.int64)
        self._check(question, other)
        items: tuple[Item, ...] = ()
        if question.aggregate == "heavy-hitters":
            items = self._heavy_hitters(question, as_of)
            nothing = math.nan if self.total(question, moments)[2][0] == 0.0 else 0.0
            value, lower, upper = (items[0].estimate, items[0].lower, items[0].upper) if items else (nothing, 0.0, 1.0)
        else:
            value, lower, upper = (float(limit[0]) for limit in self._limits(question, moments, other))
        confidence = 1.0 if _of_all(question) and self.certain else self._confidence(question)
        return Estimate(
            value, lower, upper, confidence, self._guarantee(question, as_of), self.family, as_of, len(self.size), items
        )

    def series(self, question: Question, as_of: ArrayLike) -> Series:
        """The same question at many as-of times."""
        moments = np.asarray(as_of, np.int64)
        if moments.ndim != 1:
            raise QuestionError(f"as_of has {moments.ndim} dimensions; a series takes a flat array of times")
        if question.aggregate in ("heavy-hitters", "inner-product"):
            raise UnanswerableError(f"{question.aggregate} has no series in the {self.family} family: ask at one time")
        self._check(question, None)
        value, lower, upper = self._limits(question, moments, None)
        confidence = 1.0 if _of_all(question) and self.certain else self._confidence(question)
        used = np.full(len(moments), len(self.size), np.int64)
        return Series(
            moments,
            value,
            lower,
            upper,
            confidence,
            self._guarantee(question, int(moments.min(initial=0))),
            self.family,
            used,
        )

    def frequencies(self, values: ArrayLike, decay: Decay | str = "none", as_of: int | None = None) -> Limits:
        """The shares of many values at once: the counters are read once for all of them."""
        question = Question("frequency", decay, as_of, value=0, counting=self.parameters.counting)
        self._check(question, None)
        moment = question.as_of if question.as_of is not None else self.extremes.newest or 0
        masses = self._values(question, moment, np.asarray(values))
        total = self.total(question, np.array([moment], np.int64))
        return self.shares_of(masses, (float(total[0][0]), float(total[1][0]), float(total[2][0])))

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
        confidence = 1.0 - self.parameters.delta
        if question.confidence is not None and question.confidence > confidence:
            raise UnanswerableError(
                f"confidence is {question.confidence}; this sketch's bound holds with probability {confidence:.6g}: "
                "build it with a smaller delta"
            )
        return confidence

    def _guarantee(self, question: Question, as_of: int) -> str:
        parameters, depth = self.parameters, self.depth
        chance = f"with probability {1.0 - parameters.delta:.3g}"
        point, join = f"{parameters.point_error(depth):.3g}", f"{parameters.join_error(depth):.3g}"
        lost = f"; counters, aggregated {depth} times, err by {parameters.counter_error(depth):.3g}" if depth else ""
        whole = "decayed count" if parameters.counting == "events" else "decayed sum"
        last = isinstance(question.decay, LastEvents)
        if last and parameters.basis == "time":
            lost += "; where the newest events begin is known but for an entry of the log of all arrivals"
        match question.aggregate:
            case "sum" | "count" if _of_all(question) and parameters.keeping == "rw":
                bound = f"within {parameters.window_error:.3g} of itself {chance} ({ECM_SKETCHES} §4.2.2)"
            case "sum" | "count" if _of_all(question):
                bucket = f"the oldest bucket of each log sets them ({ECM_SKETCHES} §3)"
                return f"never outside its bounds: {bucket}{lost}{_ROWS}"
            case "self-join" | "inner-product":
                bound = f"within {join} of the product of the {whole}s {chance} ({ECM_SKETCHES}, Theorem 2)"
            case "heavy-hitters" if not self.has_ranges and as_of < (self.extremes.newest or as_of):
                bound = f"shares within {point} {chance}; values that were heavy only at earlier times may be missing"
            case "heavy-hitters" if last:
                bound = f"no value with a share of φ is missing; {chance} the shares are within their bounds"
            case "heavy-hitters":
                bound = (
                    f"no value with a share of φ + {parameters.epsilon:.3g} is missing; {chance} none below φ listed "
                    f"({ECM_SKETCHES}, Theorem 5)"
                )
            case "frequency":
                bound = f"within {point} of the {whole} {chance} ({ECM_SKETCHES}, Theorem 1)"
            case _:
                bound = f"within {point} of the {whole}, for each dyadic part, {chance} ({ECM_SKETCHES}, Theorem 1)"
        return f"a priori: {bound}{lost}{_ROWS}"

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
            case "quantile" | "median":
                assert question.phi is not None
                return _stacked([self._quantile(question, moment, question.phi) for moment in moments.tolist()])
        return _stacked([self._over(question, moment) for moment in moments.tolist()])

    def _product(self, question: Question, moments: Ints, other: AskableCounters) -> Limits:
        """Σ of the products of the counters in a row, least over the rows (E §4.1)."""
        parameters = self.parameters
        cells = np.arange(parameters.rows * parameters.width)
        mine = self.contents_of(question, moments, cells)
        theirs = mine if other is self else other.contents_of(question, moments, cells)
        shape = (len(moments), parameters.rows, parameters.width)
        value, lower, upper = (
            (one.reshape(shape) * two.reshape(shape)).sum(axis=2).min(axis=1)
            for one, two in zip(mine, theirs, strict=True)
        )
        excess = parameters.sketch_error * self.total(question, moments)[2] * other.total(question, moments)[2]
        return value, np.maximum(lower - excess, 0.0), upper

    def _over(self, question: Question, moment: int) -> tuple[float, float, float]:
        """A frequency, or a sum or share over a range of values."""
        moments = np.array([moment], np.int64)
        total = tuple(float(limit[0]) for limit in self.total(question, moments))
        if question.aggregate == "frequency":
            mass = self._values(question, moment, np.array([question.value]))
        elif question.threshold is not None:
            mass = self._above(question, moment, question.threshold)
        else:
            mass = self._range(question, moment, *self._ends(question))
        if question.aggregate in RESTRICTED:
            return float(np.clip(mass[0][0], mass[1][0], mass[2][0])), float(mass[1][0]), float(mass[2][0])
        value, lower, upper = self.shares_of(mass, total)  # type: ignore[arg-type]
        return float(value[0]), float(lower[0]), float(upper[0])

    def _above(self, question: Question, moment: int, threshold: Threshold) -> Limits:
        """What the values weigh from a multiple of a quantile on: the less, the greater the quantile may be."""
        assert threshold.phi is not None  # a mean was refused
        quantiles = self._quantile(question, moment, threshold.phi)
        if math.isnan(quantiles[0]):
            return np.zeros(1), np.zeros(1), np.zeros(1)
        low, high = self._ends(question)
        lows = (least_code(threshold.factor * tau, Kind.INTEGER) - ZERO_CODE for tau in quantiles)
        middle, most, least = (self._range(question, moment, max(low, begin), high) for begin in lows)
        return middle[0], least[1], most[2]

    def _values(self, question: Question, moment: int, values: NDArray[Any]) -> Limits:
        """The decayed weight of each value; 0 for a value that no event can have."""
        if self.kind is Kind.KEY or len(self.size) == 0:
            hashes = np.array([hash_one(str(value)) for value in values.tolist()], np.uint64)
            return self.point_masses(question, moment, hashes)
        if values.dtype.kind not in "iufb":
            raise UnanswerableError(f"value is {values.tolist()[0]!r}, but this stream's values are numbers")
        if self.kind is Kind.FLOAT:
            return self.point_masses(question, moment, codes_of(values.astype(np.float64) + 0.0, self.kind))
        whole = (values == np.rint(values)) & (np.abs(values.astype(np.float64)) < 2.0**63)
        codes = codes_of(np.where(whole, values, 0).astype(np.int64), self.kind)
        value, lower, upper = self.point_masses(question, moment, clamped(codes, self.parameters.bits))
        return value * whole, lower * whole, upper * whole

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

    def _range(self, question: Question, moment: int, low: int, high: int) -> Limits:
        """The weight of a range: the sum over the dyadic ranges that make it up (E §6.1)."""
        moments = np.array([moment], np.int64)
        total = self.total(question, moments)
        if low > high or low > self._last or high < 0:
            return np.zeros(1), np.zeros(1), np.zeros(1)
        if low <= 0 and high >= self._last:
            return total
        parts = [np.zeros(1), np.zeros(1), np.zeros(1)]
        for level, prefix in dyadic_parts(max(low, 0), min(high, self._last), self.parameters.bits):
            found = self.point_masses(question, moment, np.array([level_code(prefix, level)], np.uint64), level)
            for at in range(3):
                parts[at] = parts[at] + found[at]
        value, lower, upper = parts
        return np.minimum(value, total[0]), np.minimum(lower, total[2]), np.minimum(upper, total[2])

    def _quantile(self, question: Question, moment: int, phi: float) -> tuple[float, float, float]:
        """The φ-quantile by descending the dyadic ranges; its limits where the rank surely, or possibly, reaches φ."""
        total = tuple(float(limit[0]) for limit in self.total(question, np.array([moment], np.int64)))
        if total[2] == 0.0:
            return math.nan, math.nan, math.nan
        bits = self.parameters.bits
        places = []
        for which, goal in ((0, phi * total[0]), (2, phi * total[1]), (1, phi * total[2])):
            prefix, before = 0, 0.0
            for level in range(bits - 1, -1, -1):
                left = prefix << 1
                found = self.point_masses(question, moment, np.array([level_code(left, level)], np.uint64), level)
                mass = float(found[which][0])
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
        return min(max(value, lower), max(upper, lower)), lower, max(upper, lower)

    # Heavy hitters.

    def _heavy_hitters(self, question: Question, moment: int) -> tuple[Item, ...]:
        """The heavy values among the candidates: those that were heavy in some suffix of an epoch.

        A decay is a mixture of windows, and the whole is the sum over epochs. So a value with a share of φ of the whole
        has that share in a suffix of some epoch, where it was kept as a candidate if φ ≥ ε.
        """
        total = tuple(float(limit[0]) for limit in self.total(question, np.array([moment], np.int64)))
        codes, last = self.candidates, isinstance(question.decay, LastEvents)
        if question.phi is not None and self.has_ranges:
            codes = self._tested(question, moment, question.phi * total[1 if last else 0])
        if len(codes) == 0 or total[2] == 0.0:
            return ()
        value, lower, upper = self.shares_of(self.point_masses(question, moment, codes), total)  # type: ignore[arg-type]
        order = np.lexsort((codes, -value))
        order = order[value[order] > 0.0]
        if question.phi is not None and last:
            order = order[upper[order] >= question.phi]  # where the window begins is uncertain: whoever may be heavy
        elif question.phi is not None:
            order = order[value[order] >= self._threshold(question.phi)]
        if question.top is not None or question.phi is None:
            order = order[: question.top or DEFAULT_TOP]
        chosen = codes[order]
        names = (
            [self.labels.text_of(code) for code in chosen.tolist()]
            if self.kind is Kind.KEY
            else values_of(chosen, self.kind).tolist()
        )
        columns = (column[order].tolist() for column in (value, lower, upper))
        return tuple(Item(*each) for each in zip(names, *columns, strict=True))

    def _threshold(self, phi: float) -> float:
        """The estimate from which a value is listed: every one with a share of φ + ε reaches it, and of those below φ,
        where there is room between the two, none but by chance. Value and total both err by a counter's share."""
        counter, sketch = self.parameters.counter_error(self.depth), self.parameters.sketch_error
        surely = (1.0 - counter) / (1.0 + counter) * (phi + self.parameters.epsilon)
        return max(min((1.0 + counter) * (phi + sketch), surely), 0.0)

    def _tested(self, question: Question, moment: int, goal: float) -> Words:
        """Group testing: the numbers of the domain whose dyadic ranges are all heavy (E §6.1)."""
        prefixes = np.zeros(1, np.uint64)
        for level in range(self.parameters.bits - 1, -1, -1):
            halves = np.concatenate((prefixes << np.uint64(1), prefixes << np.uint64(1) | np.uint64(1)))
            codes = halves + np.uint64(ZERO_CODE) if level == 0 else halves
            prefixes = halves[self.point_masses(question, moment, codes, level)[2] >= goal]
            if len(prefixes) == 0:
                break
        return prefixes + np.uint64(ZERO_CODE)


def _stacked(found: Sequence[tuple[float, float, float]]) -> Limits:
    value, lower, upper = (np.array([each[part] for each in found]) for part in range(3))
    return value, lower, upper


def _of_all(question: Question) -> bool:
    """Whether it asks what all arrivals weigh together: the last counter alone answers."""
    return question.aggregate in ("sum", "count") and not question.where
