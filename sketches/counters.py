"""The counters of `ecm` sketches, ready to be read under any decay: from logs of times to answers (paper E §4 and §6).

Each entry of a log is a mass with the range of times in which its arrivals came, as in `sketches.boxes`; a value's
weight is at most the least of its counters, and at least that less ε_cm of all, but for chance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

import numba
import numpy as np
from numpy.typing import ArrayLike, NDArray

from sketches.answers import DEFAULT_TOP, ORDERED
from sketches.boxes import TimeRanges
from sketches.decay import Decay
from sketches.drawn import Extremes
from sketches.ecm_parameters import EcmParameters
from sketches.errors import IncompatibleError, QuestionError, UnanswerableError
from sketches.estimate import Estimate, Item, Series
from sketches.events import Kind, Labels
from sketches.hashing import finalise_one, hash_one
from sketches.order import codes_of, greatest_code, least_code, values_of
from sketches.question import Question

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Words = NDArray[np.uint64]
Limits = tuple[Floats, Floats, Floats]  # value, lower, upper

FAMILY: Final = "ecm"
ANSWERED: Final = (
    "sum",
    "frequency",
    "heavy-hitters",
    "self-join",
    "inner-product",
    *sorted(ORDERED - {"correlated-count", "correlated-mean"}),
)
_ZERO_CODE: Final = 1 << 63  # of the whole number 0
_CHUNK: Final = 1 << 21
_ROWS: Final = "; rows count as often as they came"


@dataclass(frozen=True)
class Counters:
    """Logs of one or many sketches, by counter, ready to be read under any decay."""

    parameters: EcmParameters
    kind: Kind
    labels: Labels = field(repr=False)
    candidates: Words = field(repr=False)
    extremes: Extremes
    depth: int
    bounds: NDArray[np.intp] = field(repr=False)
    start: Ints = field(repr=False)
    end: Ints = field(repr=False)
    size: Floats = field(repr=False)
    error: Floats = field(repr=False)  # of an entry's counter, where it was aggregated; else its range is certain

    family: ClassVar[str] = FAMILY

    def answer(self, question: Question, *, other: Counters | None = None) -> Estimate:
        """The answer at one as-of time, the newest event's where the question names none."""
        newest = [one.extremes.newest for one in (self, other) if one is not None and one.extremes.newest is not None]
        as_of = question.as_of if question.as_of is not None else max(newest, default=0)
        moments = np.array([as_of], np.int64)
        self._check(question, other)
        items: tuple[Item, ...] = ()
        if question.aggregate == "heavy-hitters":
            items = self._heavy_hitters(question, as_of)
            nothing = math.nan if self._total(question, moments)[2][0] == 0.0 else 0.0
            value, lower, upper = (items[0].estimate, items[0].lower, items[0].upper) if items else (nothing, 0.0, 1.0)
        else:
            value, lower, upper = (float(limit[0]) for limit in self._limits(question, moments, other))
        confidence = 1.0 if question.aggregate == "sum" and self._sure else self._confidence(question)
        return Estimate(
            value, lower, upper, confidence, self._guarantee(question, as_of), self.family, as_of, len(self.size), items
        )

    def series(self, question: Question, as_of: NDArray[np.int64]) -> Series:
        """The same question at many as-of times."""
        moments = np.asarray(as_of, np.int64)
        if moments.ndim != 1:
            raise QuestionError(f"as_of has {moments.ndim} dimensions; a series takes a flat array of times")
        if question.aggregate in ("heavy-hitters", "inner-product"):
            raise UnanswerableError(f"{question.aggregate} has no series in the {self.family} family: ask at one time")
        self._check(question, None)
        value, lower, upper = self._limits(question, moments, None)
        confidence = 1.0 if question.aggregate == "sum" and self._sure else self._confidence(question)
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
        question = Question("frequency", decay, as_of, value=0)
        moment = question.as_of if question.as_of is not None else self.extremes.newest or 0
        masses = self._values(question, moment, np.asarray(values))
        total = self._total(question, np.array([moment], np.int64))
        return self._shares(masses, (float(total[0][0]), float(total[1][0]), float(total[2][0])))

    def _check(self, question: Question, other: Counters | None) -> None:
        if question.aggregate not in ANSWERED or question.of == "value":
            asked = question.aggregate + (" of the value" if question.of == "value" else "")
            raise UnanswerableError(f"the ecm family does not answer {asked}; it answers {', '.join(ANSWERED)}")
        if question.aggregate in ORDERED and len(self.size):
            if self.kind is Kind.KEY:
                raise UnanswerableError(f"{question.aggregate} needs ordered values, but this stream's values are text")
            if not self._ranged:
                raise UnanswerableError(
                    f"{question.aggregate} needs an ecm sketch of whole numbers built with bits, their domain's size"
                )
        if question.aggregate in ("self-join", "inner-product") and self.parameters.keeping == "rw":
            raise UnanswerableError("randomised waves give no guarantee for joins (E §7.2); keep 'eh' or 'dw' does")
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

    @property
    def _sure(self) -> bool:
        """Whether every counter's content is between its bounds with certainty."""
        return self.parameters.keeping != "rw"

    @property
    def _ranged(self) -> bool:
        """Whether there are sketches of dyadic ranges."""
        return self.kind is Kind.INTEGER and self.parameters.bits > 0

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
        match question.aggregate:
            case "sum" if parameters.keeping == "rw":
                bound = f"within {parameters.window_error:.3g} of itself {chance} (E §4.2.2)"
            case "sum":
                return f"never outside its bounds: the oldest bucket of each log sets them (E §3){lost}{_ROWS}"
            case "self-join" | "inner-product":
                bound = f"within {join} of the product of the decayed sums {chance} (E, Theorem 2)"
            case "heavy-hitters":
                bound = (
                    f"no share of φ + {parameters.epsilon:.3g} is missing, {chance} none below φ listed (E, Theorem 5)"
                )
                if self.extremes.newest is not None and as_of < self.extremes.newest and not self._ranged:
                    bound = (
                        f"shares within {point} {chance}; values that were heavy only at earlier times may be missing"
                    )
            case "frequency":
                bound = f"within {point} of the decayed sum {chance} (E, Theorem 1)"
            case _:
                bound = f"within {point} of the decayed sum, for each dyadic part, {chance} (E, Theorem 1)"
        return f"a priori: {bound}{lost}{_ROWS}"

    # Reading counters.

    def _read(self, question: Question, moments: Ints, cells: NDArray[np.intp]) -> Limits:
        """The decayed content of some counters: value, lower and upper limit, a row a moment, a column a counter."""
        lengths = self.bounds[cells + 1] - self.bounds[cells]
        which = np.repeat(self.bounds[cells] - np.concatenate(([0], np.cumsum(lengths)[:-1])), lengths)
        which = which + np.arange(len(which))
        ranges = TimeRanges(self.start[which], self.end[which], self.parameters.clock)
        size, error = self.size[which], self.error[which]
        sure = error == 0.0
        found = [np.zeros((len(moments), len(cells))) for _ in range(3)]
        used = np.flatnonzero(lengths)
        if len(which) == 0:
            return found[0], found[1], found[2]
        begins = np.concatenate(([0], np.cumsum(lengths[used])[:-1]))
        decay = question.decay
        assert isinstance(decay, Decay)
        newest = float(decay(0.0))
        step = max(1, _CHUNK // len(which))
        for begin in range(0, len(moments), step):
            here = moments[begin : begin + step]
            least, most = ranges.factors(decay, here)
            come = self.end[which] <= here[:, None]
            # the newest arrival of an entry came at its end, the others since the end of the entry before
            least, most = (size - 1.0) * least + most * come, (size - ~come) * most
            middle = (least + most) / 2.0
            if not sure.all():
                # an aggregated counter errs by a share of every window's count, of what came after the moment as well
                after = 2.0 * newest * error * size * ~come
                least = np.where(sure, least, (middle - after) / (1.0 + error))
                most = np.where(sure, most, (middle + after) / np.maximum(1.0 - error, 1e-9))
            for limit, content in zip(found, (middle, least, most), strict=True):
                limit[begin : begin + step, used] = np.add.reduceat(content, begins, axis=1)
        rounding = 1e-12 + len(which) * 2.0**-52  # of f, and of a sum of so many
        return found[0], np.maximum(found[1], 0.0) * (1.0 - rounding), found[2] * (1.0 + rounding)

    def _total(self, question: Question, moments: Ints) -> Limits:
        value, lower, upper = self._read(question, moments, np.array([len(self.bounds) - 2]))
        return value[:, 0], lower[:, 0], upper[:, 0]

    def _cells(self, codes: Words, level: int) -> NDArray[np.intp]:
        """The counters of codes (or of their dyadic ranges at a level), a row of counters each."""
        parameters = self.parameters
        salts = parameters.salts[level * parameters.rows : (level + 1) * parameters.rows]
        return places_of(codes, salts, parameters.width, level * parameters.rows).astype(np.intp)

    def _points(self, question: Question, moment: int, codes: Words, level: int = 0) -> Limits:
        """What codes weigh: at most the least of their counters, and at least that less ε_cm of all, but for chance."""
        moments = np.array([moment], np.int64)
        cells = self._cells(codes, level)
        distinct, places = np.unique(cells, return_inverse=True)
        shape = cells.shape
        value, lower, upper = (
            limit[0][places].reshape(shape).min(axis=1) for limit in self._read(question, moments, distinct)
        )
        excess = self.parameters.sketch_error * self._total(question, moments)[2][0]
        return value, np.maximum(lower - excess, 0.0), upper

    def _shares(self, mass: Limits, total: tuple[float, float, float]) -> Limits:
        value, lower, upper = mass
        whole, least, most = total
        if most == 0.0:
            return np.full(len(value), np.nan), np.zeros(len(value)), np.ones(len(value))
        with np.errstate(divide="ignore", invalid="ignore"):
            high = np.minimum(np.nan_to_num(upper / least, nan=1.0, posinf=1.0), 1.0) if least else np.ones(len(value))
        low = lower / most
        return np.clip(value / max(whole, 1e-300), low, high), low, high

    # Answers.

    def _limits(self, question: Question, moments: Ints, other: Counters | None) -> Limits:
        match question.aggregate:
            case "sum":
                return self._total(question, moments)
            case "self-join":
                return self._product(question, moments, self)
            case "inner-product":
                assert other is not None
                return self._product(question, moments, other)
            case "quantile" | "median":
                assert question.phi is not None
                return _stacked([self._quantile(question, moment, question.phi) for moment in moments.tolist()])
        return _stacked([self._over(question, moment) for moment in moments.tolist()])

    def _product(self, question: Question, moments: Ints, other: Counters) -> Limits:
        """Σ of the products of the counters in a row, least over the rows (E §4.1)."""
        parameters = self.parameters
        cells = np.arange(parameters.rows * parameters.width)
        mine = self._read(question, moments, cells)
        theirs = mine if other is self else other._read(question, moments, cells)
        shape = (len(moments), parameters.rows, parameters.width)
        value, lower, upper = (
            (one.reshape(shape) * two.reshape(shape)).sum(axis=2).min(axis=1)
            for one, two in zip(mine, theirs, strict=True)
        )
        excess = parameters.sketch_error * self._total(question, moments)[2] * other._total(question, moments)[2]
        return value, np.maximum(lower - excess, 0.0), upper

    def _over(self, question: Question, moment: int) -> tuple[float, float, float]:
        """A frequency, or a sum or share over a range of values."""
        moments = np.array([moment], np.int64)
        total = tuple(float(limit[0]) for limit in self._total(question, moments))
        if question.aggregate == "frequency":
            mass = self._values(question, moment, np.array([question.value]))
        elif question.tau_quantile is not None:
            middle, least, most = self._quantile(question, moment, question.tau_quantile)
            if math.isnan(middle):
                mass = (np.zeros(1), np.zeros(1), np.zeros(1))
            else:
                ends = [self._range(question, moment, int(tau), self._last) for tau in (middle, least, most)]
                mass = (ends[0][0], ends[2][1], ends[1][2])
        else:
            mass = self._range(question, moment, *self._ends(question))
        if question.aggregate in ("range-sum", "correlated-sum"):
            return float(np.clip(mass[0][0], mass[1][0], mass[2][0])), float(mass[1][0]), float(mass[2][0])
        value, lower, upper = self._shares(mass, total)  # type: ignore[arg-type]
        return float(value[0]), float(lower[0]), float(upper[0])

    def _values(self, question: Question, moment: int, values: NDArray[Any]) -> Limits:
        """What values weigh: nothing where no event can have one."""
        if self.kind is Kind.KEY or len(self.size) == 0:
            hashes = np.array([hash_one(str(value)) for value in values.tolist()], np.uint64)
            return self._points(question, moment, hashes)
        if values.dtype.kind not in "iufb":
            raise UnanswerableError(f"value is {values.tolist()[0]!r}, but this stream's values are numbers")
        if self.kind is Kind.FLOAT:
            return self._points(question, moment, codes_of(values.astype(np.float64) + 0.0, self.kind))
        whole = (values == np.rint(values)) & (np.abs(values.astype(np.float64)) < 2.0**63)
        codes = codes_of(np.where(whole, values, 0).astype(np.int64), self.kind)
        value, lower, upper = self._points(question, moment, clamped(codes, self.parameters.bits))
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
            return 0, min(greatest_code(value, Kind.INTEGER) - _ZERO_CODE, self._last)
        if question.low is not None:
            low = max(low, least_code(question.low, Kind.INTEGER) - _ZERO_CODE)
        if question.high is not None:
            high = min(high, greatest_code(question.high, Kind.INTEGER) - _ZERO_CODE)
        if question.tau is not None:
            assert not isinstance(question.tau, str)
            low = max(low, least_code(question.tau, Kind.INTEGER) - _ZERO_CODE)
        return low, high

    def _range(self, question: Question, moment: int, low: int, high: int) -> Limits:
        """The weight of a range: the sum over the dyadic ranges that make it up (E §6.1)."""
        moments = np.array([moment], np.int64)
        total = self._total(question, moments)
        if low > high or low > self._last or high < 0:
            return np.zeros(1), np.zeros(1), np.zeros(1)
        if low <= 0 and high >= self._last:
            return total
        parts = [np.zeros(1), np.zeros(1), np.zeros(1)]
        for level, prefix in _dyadic(max(low, 0), min(high, self._last), self.parameters.bits):
            found = self._points(question, moment, np.array([_level_code(prefix, level)], np.uint64), level)
            for at in range(3):
                parts[at] = parts[at] + found[at]
        value, lower, upper = parts
        return np.minimum(value, total[0]), np.minimum(lower, total[2]), np.minimum(upper, total[2])

    def _quantile(self, question: Question, moment: int, phi: float) -> tuple[float, float, float]:
        """The φ-quantile by descending the dyadic ranges; its limits where the rank surely, or possibly, reaches φ."""
        total = tuple(float(limit[0]) for limit in self._total(question, np.array([moment], np.int64)))
        if total[2] == 0.0:
            return math.nan, math.nan, math.nan
        bits = self.parameters.bits
        places = []
        for which, goal in ((0, phi * total[0]), (2, phi * total[1]), (1, phi * total[2])):
            prefix, before = 0, 0.0
            for level in range(bits - 1, -1, -1):
                left = prefix << 1
                found = self._points(question, moment, np.array([_level_code(left, level)], np.uint64), level)
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
        """Of all values that were heavy in some suffix of an epoch, and no other can be heavy under a decay, the heavy.

        A decay is a mixture of windows and a sum over epochs one of theirs, so whoever has a share of φ in all has it
        in a suffix of one of the epochs, and was kept there as a candidate if φ ≥ ε.
        """
        total = tuple(float(limit[0]) for limit in self._total(question, np.array([moment], np.int64)))
        codes = self.candidates
        if question.phi is not None and self._ranged:
            codes = self._tested(question, moment, question.phi * total[0])
        if len(codes) == 0 or total[2] == 0.0:
            return ()
        value, lower, upper = self._shares(self._points(question, moment, codes), total)  # type: ignore[arg-type]
        order = np.lexsort((codes, -value))
        order = order[value[order] > 0.0]
        if question.phi is not None:
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
            codes = halves + np.uint64(_ZERO_CODE) if level == 0 else halves
            prefixes = halves[self._points(question, moment, codes, level)[2] >= goal]
            if len(prefixes) == 0:
                break
        return prefixes + np.uint64(_ZERO_CODE)


def _level_code(prefix: int, level: int) -> int:
    """What is hashed for a dyadic range: the code of a number itself at level 0, the prefix above."""
    return prefix + _ZERO_CODE if level == 0 else prefix


def _dyadic(low: int, high: int, bits: int) -> list[tuple[int, int]]:
    """The dyadic ranges, as level and prefix, that make up a range of the domain."""
    found = []
    for level in range(bits):
        if low > high:
            break
        if low & 1:
            found.append((level, low))
            low += 1
        if not high & 1:
            found.append((level, high))
            high -= 1
        low, high = low >> 1, high >> 1
    if low <= high:
        found.extend((bits, prefix) for prefix in range(low, high + 1))
    return found


def _stacked(found: Sequence[tuple[float, float, float]]) -> Limits:
    value, lower, upper = (np.array([each[part] for each in found]) for part in range(3))
    return value, lower, upper


def clamped(codes: Words, bits: int) -> Words:
    """Codes of whole numbers within the domain, whose ends stand for all beyond; as they are where there is none."""
    if bits == 0:
        return codes
    zero = np.uint64(_ZERO_CODE)
    return np.clip(codes, zero, zero + np.uint64((1 << bits) - 1))


@numba.njit(cache=True, nogil=True, inline="always")
def place_of(code: np.uint64, salt: np.uint64, width: int) -> np.int64:
    """The counter of a code in a row."""
    return np.int64(((finalise_one(code ^ salt) >> np.uint64(32)) * np.uint64(width)) >> np.uint64(32))


@numba.njit(cache=True, nogil=True)
def places_of(codes: Words, salts: Words, width: int, first_row: int) -> Ints:
    places = np.empty((len(codes), len(salts)), np.int64)
    for at in range(len(codes)):
        for row in range(len(salts)):
            places[at, row] = (first_row + row) * width + place_of(codes[at], salts[row], width)
    return places
