"""The `exponential` family: quantiles and heavy hitters under one exponential decay, in the space that no decay takes.

Under exponential decay all masses of a sketch shrink alike, so they are kept as they are at one time, the newest
event's, and scaled when they are asked, inserted to or merged: the lazy scaling of paper C §4.1 with one timestamp for
all. An event that arrives late weighs what it would weigh by now.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar, Final

import numba
import numpy as np
from numpy.typing import NDArray

from sketches.answers import ORDERED
from sketches.boxes import Boxes, elapsed
from sketches.codec import read_head, write_head
from sketches.decay import Decay, parse_decay
from sketches.decay import Exponential as ExponentialDecay
from sketches.drawn import SECOND, Extremes, TimeUnit
from sketches.dyadic import Heights, Words, cover, fold
from sketches.errors import CorruptError, DecayError, UnanswerableError, WaneError
from sketches.estimate import Estimate, Series
from sketches.events import MAX_TIME, Events, Kind, Labels
from sketches.forest import CODE_BITS, changes, mask_of, steps_of, unsteps
from sketches.merging import mergeable
from sketches.order import codes_of
from sketches.packing import frozen, unzigzag, zigzag
from sketches.question import Question
from sketches.stored import Stored
from sketches.wire import FORMAT_VERSION, Envelope, Reader, Writer, seal

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_DENSE: Final = 4  # a table over all values pays while it has at most so many entries an event
_BUCKETS: Final = 1 << 16  # a table of so many masses stays in the cache
_FEW: Final = 10_000
_LEAST: Final = 1e-280  # what an event weighs at the least: 0 would forget that it was there


@dataclass(frozen=True, slots=True)
class ExponentialParameters:
    """The decay, the accuracy and the length of a step of time; sketches merge only where all of this agrees."""

    epsilon: float
    decay: ExponentialDecay
    unit: TimeUnit
    seed: int

    @classmethod
    def of(cls, epsilon: float, decay: Decay | str, unit: TimeUnit, seed: int) -> ExponentialParameters:
        known = parse_decay(decay) if isinstance(decay, str) else decay
        if not isinstance(known, ExponentialDecay):
            raise WaneError(f"decay is {known.spec}; the exponential family is built for one like exp:half_life=30m")
        if not 0.0001 <= epsilon < 1:
            raise WaneError(f"epsilon is {epsilon!r}; it must be at least 0.0001 and below 1")
        if not 0 <= seed < 1 << 64:
            raise WaneError(f"seed is {seed}; it must be at least 0 and below 2^64")
        return cls(float(epsilon), known, unit, seed)

    @property
    def counters(self) -> int:
        """How many keys Space-Saving keeps: a key that is not kept weighs less than 1/(counters + 1) of all."""
        return math.ceil(1.0 / self.epsilon)

    @property
    def share(self) -> float:
        """K of `sketches.dyadic`: the ranges that a value cuts carry at most 2/K of all."""
        return 2.0 / self.epsilon

    def worth(self, later: Ints | int, earlier: Ints | int) -> Floats:
        """What is left at a later time, or at the same, of a mass as of an earlier one."""
        return np.asarray(self.decay(self.unit.seconds(elapsed(np.asarray(later), np.asarray(earlier)))))

    def to_bytes(self) -> bytes:
        writer = Writer()
        writer.f64(self.epsilon)
        writer.u64(self.unit.numerator)
        writer.u64(self.unit.denominator)
        writer.blob(self.decay.spec.encode())
        return writer.to_bytes()

    @classmethod
    def from_bytes(cls, data: bytes, seed: int) -> ExponentialParameters:
        reader = Reader(data)
        epsilon, unit = reader.f64(), TimeUnit(reader.u64(), reader.u64())
        spec = reader.blob()
        reader.done()
        if not (unit.numerator and unit.denominator):
            raise CorruptError("the time unit of a sketch is not a number of seconds")
        try:
            return cls.of(epsilon, spec.decode(), unit, seed)
        except (UnicodeDecodeError, DecayError, WaneError) as error:
            raise CorruptError(f"the parameters of a sketch are out of range: {error}") from error


@dataclass(frozen=True, slots=True)
class Masses:
    """Decayed masses by range of codes, as of one time, in the order of code and height.

    Of numbers a q-digest: a mass's events lie in its range. Of keys Space-Saving: a range is one key, and `astray` is
    the most that any key, kept or not, may weigh besides. `total` is what all events weigh; nothing is lost of it.
    """

    code: Words
    height: Heights
    folded: NDArray[np.uint8]
    mass: Floats
    total: float
    astray: float
    events: int

    @classmethod
    def none(cls) -> Masses:
        small = np.empty(0, np.uint8)
        return cls(np.empty(0, np.uint64), small, small, np.empty(0), 0.0, 0.0, 0)

    def scaled(self, factor: float) -> Masses:
        """The summary of the same events, each weighing so many times what it did (C §7.3)."""
        if factor == 1.0:
            return self
        mass = np.maximum(self.mass * factor, _LEAST)
        return replace(self, mass=mass, total=self.total * factor, astray=self.astray * factor)

    @classmethod
    def merged(cls, parts: Sequence[Masses]) -> Masses:
        """All parts' masses, which are as of the same time; not yet compressed."""
        code, height, folded, mass = (
            np.concatenate([getattr(part, name) for part in parts]) for name in ("code", "height", "folded", "mass")
        )
        order = np.lexsort((folded, height, code))
        first = changes((code[order], height[order], folded[order]))
        summed = np.add.reduceat(mass[order], first) if len(first) else mass
        kept = order[first]
        return cls(
            code[kept],
            height[kept],
            folded[kept],
            summed,
            sum(part.total for part in parts),
            sum(part.astray for part in parts),
            sum(part.events for part in parts),
        )

    def digested(self, share: float) -> Masses:
        """A q-digest compressed as far as its accuracy allows (`sketches.dyadic.fold`)."""
        if len(self.mass) < 2:
            return self
        order = np.lexsort((self.code, self.height))
        first = changes((self.height[order], self.code[order]))
        mass = np.add.reduceat(self.mass[order], first)
        old = np.add.reduceat((self.mass * self.folded)[order], first)
        places = order[first]
        bounds = np.array([0, len(first)], np.int64)
        to_code, to_height = fold(
            bounds, self.code[places], self.height[places], mass, mass, old, old, CODE_BITS, share, False
        )
        lengths = np.diff(np.append(first, len(order)))
        rose = np.repeat((to_height != self.height[places]).astype(np.uint8), lengths)
        code, height, folded = self.code.copy(), self.height.copy(), self.folded.copy()
        code[order], height[order] = np.repeat(to_code, lengths), np.repeat(to_height, lengths)
        folded[order] |= rose
        return Masses.merged([replace(self, code=code, height=height, folded=folded)])

    def saved(self, counters: int) -> Masses:
        """The heaviest keys, each lighter by the heaviest that is left out; that much more may any key be astray.

        Of `counters + 1` keys or more each loses the same, so `astray` stays below total/(counters + 1): the argument
        of Misra and Gries, whose counters are those of Space-Saving less the smallest one (Agarwal et al. 2012).
        """
        if len(self.mass) <= counters:
            return self
        least = float(np.partition(self.mass, len(self.mass) - counters - 1)[len(self.mass) - counters - 1])
        kept = self.mass > least
        return replace(
            self,
            code=self.code[kept],
            height=self.height[kept],
            folded=self.folded[kept],
            mass=self.mass[kept] - least,
            astray=self.astray + least,
        )


@dataclass(frozen=True)
class Exponential(Stored):
    """Mergeable summary of the values of a stream under one exponential decay, fixed when it is built.

    Question: decayed sum; for numbers rank, quantiles and median, sums and shares over v ≥ tau or a range; for numbers
    and keys heavy hitters and the frequency of a value. As of the newest event or later.

    Guarantee: deterministic. The exact answer is never outside the interval. With D the decayed sum, which is known
    exactly, a sum over v ≤ x or v ≥ x has an interval at most ε·D wide, a quantile's rank is within ε of the one asked
    for, and the frequency of a value errs by at most ε; so every value with a share of φ > ε is among the heavy hitters
    of φ, and none with less than φ - ε is. Late events weigh what they weigh by now; merging and scaling keep it all.

    Not bounded: other decays and counts are not answered. Rows that come twice count twice.

    Memory: O(log U / ε) ranges for numbers (C, Theorem 3), 1/ε keys (C, Theorem 4): ε = 0.05 keeps about 60 of a
    million, 10 bytes each on the wire.

    >>> from sketches import Events, Question
    >>> events = Events.of(ids=range(5000), times=range(5000), values=[i % 100 for i in range(5000)])
    >>> sketch = Exponential.build(events, decay="exp:half_life=10m")
    >>> estimate = sketch.answer(Question("median", "exp:half_life=10m"))
    >>> estimate.lower <= 51 <= estimate.upper
    True

    Reference: Cormode, Korn, Tirthapura, Time-decaying aggregates in out-of-order streams (paper C) §4.
    """

    family: ClassVar[str] = "exponential"
    answered: ClassVar[tuple[str, ...]] = (
        "sum",
        "frequency",
        "heavy-hitters",
        *sorted(ORDERED - {"correlated-count", "correlated-mean"}),
    )

    parameters: ExponentialParameters
    masses: Masses = field(repr=False)
    kind: Kind
    labels: Labels = field(repr=False)
    extremes: Extremes

    @classmethod
    def build(
        cls,
        events: Events,
        *,
        decay: Decay | str,
        epsilon: float = 0.05,
        seed: int = 0,
        unit: TimeUnit = SECOND,
    ) -> Exponential:
        """Summarise a batch of events for an exponential decay; `unit` is the length of one step of their times."""
        return cls._of(events, ExponentialParameters.of(epsilon, decay, unit, seed))

    @classmethod
    def _of(cls, events: Events, parameters: ExponentialParameters) -> Exponential:
        extremes = Extremes.of(events)
        if extremes.newest is None:
            return cls(parameters, Masses.none(), Kind.INTEGER, Labels.none(), extremes)
        decayed = np.maximum(parameters.worth(extremes.newest, events.times), _LEAST)
        if events.weights is not None:
            decayed *= events.weights
        keys = events.kind is Kind.KEY
        share = 0.0 if keys else parameters.share
        code, mass, coarse, least = _by_code(codes_of(events.values, events.kind), decayed, share)
        total = float(mass.sum())
        none = np.zeros(len(code), np.uint8)
        if keys:
            masses = Masses(code, none, none, mass, total, 0.0, len(events)).saved(parameters.counters)
        else:
            bounds = np.array([0, len(code)], np.int64)
            start, height, belongs = cover(bounds, code, mass, mass, CODE_BITS, parameters.share, False)
            if least:
                whole = belongs[coarse]
                height[whole] = np.maximum(height[whole], least)
            laid: Floats = np.bincount(belongs, weights=mass, minlength=len(start)).astype(np.float64)
            kept = Masses(start, height, np.zeros(len(start), np.uint8), laid, total, 0.0, len(events))
            masses = Masses.merged([kept]).digested(parameters.share)
        return cls(parameters, masses, events.kind, _labels([events.labels], events.kind, masses), extremes)

    @classmethod
    def union(cls, sketches: Sequence[Exponential]) -> Exponential:
        """The sketch of all the sketches' events: scaled to the newest of them, added up, compressed."""
        seen = mergeable(sketches)
        if len(seen) < 2:
            return seen[0] if seen else sketches[0]
        first, extremes = seen[0], Extremes.merged([sketch.extremes for sketch in seen])
        parts = [sketch._as_of(extremes.newest or 0) for sketch in seen]
        masses = Masses.merged(parts)
        keys = first.kind is Kind.KEY
        masses = masses.saved(first.parameters.counters) if keys else masses.digested(first.parameters.share)
        labels = _labels([sketch.labels for sketch in seen], first.kind, masses)
        return cls(first.parameters, masses, first.kind, labels, extremes)

    def scaled(self, factor: float) -> Exponential:
        """The sketch of the same events, each weighing so many times what it did: what C §7.3 calls Scale."""
        if not 0.0 <= factor <= 1e100:
            raise WaneError(f"factor is {factor!r}; it must be a number from 0 to 1e100")
        return replace(self, masses=self.masses.scaled(factor))

    def _as_of(self, time: int) -> Masses:
        return self.masses.scaled(float(self.parameters.worth(time, self.extremes.newest or 0)))

    @classmethod
    def side_by_side(cls, sketches: Sequence[Exponential]) -> Boxes:
        """The masses of all the sketches, ready to be asked: each still as of its own newest event."""
        seen = mergeable(sketches) or sketches[:1]
        first = seen[0]
        keys = first.kind is Kind.KEY
        columns: list[tuple[Words, Words, Floats, Floats]] = []
        for sketch in seen:
            held = sketch.masses
            low, high, mass, single = held.code, held.code | mask_of(held.height), held.mass, held.mass
            if keys:  # what the counters do not hold is of unknown keys, but of none more than `astray`
                rest = max(held.total - float(held.mass.sum()), held.astray) if held.astray else 0.0
                low, high = np.append(low, np.uint64(0)), np.append(high, ~np.uint64(0))
                mass, single = np.append(mass, rest), np.append(single, held.astray)
            columns.append((low, high, mass, single))
        low, high, mass, single = (np.concatenate(parts) for parts in zip(*columns, strict=True))
        oldest, newest = (
            np.array([getattr(sketch.extremes, end) or 0 for sketch in seen], np.int64) for end in ("oldest", "newest")
        )
        events = sum(sketch.masses.events for sketch in seen)
        return Boxes(
            family=cls.family,
            answered=cls.answered,
            kind=first.kind,
            labels=_labels([sketch.labels for sketch in seen], first.kind, *(sketch.masses for sketch in seen)),
            extremes=Extremes.merged([sketch.extremes for sketch in seen]),
            ranges=_Parts(oldest, newest, first.parameters),
            node=np.repeat(np.arange(len(seen)), [len(part[0]) for part in columns]),
            low=low,
            high=high,
            count=None,
            weight=mass,
            bound=first._bound,
            single=single,
            rounding=(4096 + 3 * events) * 2.0**-53,  # of an exponential, and of each addition and scaling since
        )

    @cached_property
    def boxes(self) -> Boxes:
        return self.side_by_side([self])

    def answer(self, question: Question) -> Estimate:
        """The answer, with bounds that the exact one is never outside of."""
        return self.boxes.answer(question)

    def series(self, question: Question, as_of: NDArray[np.int64]) -> Series:
        """The same question at many as-of times."""
        return self.boxes.series(question, as_of)

    def _bound(self, question: Question) -> str:
        epsilon = self.parameters.epsilon
        match question.aggregate:
            case "sum":
                return "the decayed sum is kept as it is; what rounding may have done is in the interval (C §4.1)"
            case "quantile" | "median":
                return f"rank within {epsilon:.3g} of the one asked for (C, Theorem 3)"
            case "heavy-hitters" | "frequency":
                return f"the share of a value within {epsilon:.3g} (C, Theorem {4 if self.kind is Kind.KEY else 3})"
            case "range-sum" | "range-frequency":
                return f"the interval is at most {2 * epsilon:.3g} of the decayed sum wide (C, Theorem 3)"
        if question.tau_quantile is not None:
            return f"threshold and answer each within {epsilon:.3g} of the decayed sum (C, Theorem 3)"
        return f"the interval is at most {epsilon:.3g} of the decayed sum wide (C, Theorem 3)"

    def to_bytes(self) -> bytes:
        writer = Writer()
        write_head(writer, self.kind, self.extremes, self.labels)
        held = self.masses
        writer.varint(len(held.mass))
        writer.varint(held.events)
        writer.f64(held.total)
        writer.f64(held.astray)
        writer.column(zigzag(steps_of(held.code)))
        writer.column(held.height.astype(np.uint64))
        writer.column(held.folded.astype(np.uint64))
        writer.column(held.mass.view(np.uint64))
        parameters = self.parameters
        return seal(self.family, FORMAT_VERSION, parameters.to_bytes(), parameters.seed, writer.to_bytes())

    @classmethod
    def _opened(cls, envelope: Envelope) -> Exponential:
        parameters = ExponentialParameters.from_bytes(envelope.parameters, envelope.seed)
        reader = Reader(envelope.body)
        kind, extremes, labels = read_head(reader)
        masses = _read_masses(reader)
        reader.done()
        if (extremes.newest is None) != (masses.events == 0):
            raise CorruptError("a sketch of events has no masses, or one of none has")
        if kind is Kind.KEY and (masses.height.any() or not np.isin(masses.code, labels.hashes).all()):
            raise CorruptError("a key has no label")
        return cls(parameters, masses, kind, labels, extremes)

    @property
    def kept(self) -> int:
        """Ranges or keys in the sketch."""
        return len(self.masses.mass)


def _read_masses(reader: Reader) -> Masses:
    rows = reader.varint()
    if rows > reader.remaining:  # every mass takes some bits
        raise CorruptError(f"{rows} masses are announced, but only {reader.remaining} bytes are left")
    events, total, astray = reader.varint(), reader.f64(), reader.f64()
    code = unsteps(unzigzag(reader.column(rows)))
    height, folded = reader.column(rows), reader.column(rows)
    mass = reader.column(rows).view(np.float64)
    if rows and (height.max() > CODE_BITS or (code & mask_of(height)).any() or folded.max() > 1):
        raise CorruptError("a range of values is not one of the domain")
    if not (np.isfinite(mass).all() and (mass >= 0.0).all() and math.isfinite(total) and math.isfinite(astray)):
        raise CorruptError("a mass is not a number")
    if not (0.0 <= total < 1e290 and 0.0 <= astray <= total and mass.sum() <= total * (1.0 + 1e-6)):
        raise CorruptError("the masses do not add up")
    if len(changes((code, height, folded))) != rows:
        raise CorruptError("a range is named twice")
    return Masses(code, height.astype(np.uint8), folded.astype(np.uint8), mass, total, astray, events)


def _labels(parts: Sequence[Labels], kind: Kind, *masses: Masses) -> Labels:
    return Labels.kept(parts, kind, [held.code for held in masses])


@dataclass(frozen=True, slots=True)
class _Parts:
    """Masses as of the newest event of each sketch: what they are worth later; nothing before the oldest."""

    oldest: Ints
    newest: Ints
    parameters: ExponentialParameters

    def __len__(self) -> int:
        return len(self.newest)

    def factors(self, decay: Decay, moments: Ints) -> tuple[Floats, Floats]:
        parameters = self.parameters
        if decay != parameters.decay:
            raise UnanswerableError(
                f"the sketch was built for the decay {parameters.decay.spec}; the question asks for {decay.spec}, "
                "which only families that take any decay can answer"
            )
        begun, within = moments[:, None] >= self.oldest, moments[:, None] < self.newest
        if (begun & within).any():
            part = int(np.flatnonzero((begun & within).any(axis=0))[0])
            raise UnanswerableError(
                f"the sketch of the events from {self.oldest[part]} to {self.newest[part]} has no answer as of a time "
                "between: this family knows what events weigh by the newest of them or later"
            )
        worth = parameters.worth(
            self._latest(moments)[:, None], np.minimum(self.newest, self._latest(moments)[:, None])
        )
        worth = np.where(begun, worth, 0.0)
        return worth, worth

    def scale(self, moments: Ints) -> Floats:
        """Masses are compared as of the newest event that had come: long after it they are too small to be numbers."""
        latest = self._latest(moments)
        return self.parameters.worth(np.maximum(moments, latest), latest)

    def _latest(self, moments: Ints) -> Ints:
        come = np.where(moments[:, None] >= self.oldest, self.newest, -MAX_TIME)
        return np.asarray(come.max(axis=1, initial=-MAX_TIME))

    def alive(self, decay: Decay, moments: Ints, rows: Ints) -> Ints:
        return np.asarray((moments[:, None] >= self.oldest) @ rows, np.int64)


def _by_code(codes: Words, masses: Floats, most: float) -> tuple[Words, Floats, NDArray[np.bool_], int]:
    """The distinct codes in order and what the events of each weigh; of wide domains only as far as it matters.

    Where a table over all values would be large, one over the dyadic ranges of a height is made first, and only ranges
    above 1/most of all are looked into; the codes of the others stand for their ranges (the third column, the height).
    """
    least, greatest = int(codes.min()), int(codes.max())
    wide = max(_DENSE * len(codes), _BUCKETS)
    if greatest - least < wide:
        return *_tally(frozen(codes), frozen(masses), np.uint64(least), greatest - least + 1, 0), _none(), 0
    height = 0
    if len(codes) >= _FEW and most > 0.0:
        while (greatest >> height) - (least >> height) >= _BUCKETS:
            height += 1
    if height == 0:
        order = np.argsort(codes, kind="stable")
        return *_runs(frozen(codes), frozen(masses), order), _none(), 0
    begin = least >> height
    ranges, sums = _tally(frozen(codes), frozen(masses), np.uint64(begin), (greatest >> height) - begin + 1, height)
    light = sums <= sums.sum() / most
    heavy = np.zeros((greatest >> height) - begin + 1, bool)
    heavy[(ranges[~light] - np.uint64(begin)).astype(np.intp)] = True
    inside = np.flatnonzero(heavy[((codes >> np.uint64(height)) - np.uint64(begin)).astype(np.intp)])
    order = inside[np.argsort(codes[inside], kind="stable")]
    exact, exact_sums = _runs(frozen(codes), frozen(masses), order)
    points = np.concatenate((ranges[light] << np.uint64(height), exact))
    coarse = np.arange(len(points)) < np.count_nonzero(light)
    sorted_points = np.argsort(points, kind="stable")
    both = np.concatenate((sums[light], exact_sums))
    return points[sorted_points], both[sorted_points], coarse[sorted_points], height


def _none() -> NDArray[np.bool_]:
    return np.zeros(0, bool)


@numba.njit(cache=True, nogil=True)
def _tally(codes: Words, masses: Floats, least: np.uint64, span: int, height: int) -> tuple[Words, Floats]:
    """The distinct codes, or ranges of a height, in order, and what their events weigh: by a table over all of them."""
    sums, seen = np.zeros(span), np.zeros(span, np.uint8)
    for row in range(len(codes)):
        place = (codes[row] >> np.uint64(height)) - least
        sums[place] += masses[row]
        seen[place] = 1
    found = np.flatnonzero(seen)
    return found.astype(np.uint64) + least, sums[found]


@numba.njit(cache=True, nogil=True)
def _runs(codes: Words, masses: Floats, order: NDArray[np.intp]) -> tuple[Words, Floats]:
    """The same of codes in an order that sorts them."""
    distinct, sums = np.empty(len(order), np.uint64), np.empty(len(order))
    made = 0
    for row in order:
        if made and distinct[made - 1] == codes[row]:
            sums[made - 1] += masses[row]
        else:
            distinct[made], sums[made] = codes[row], masses[row]
            made += 1
    return distinct[:made], sums[:made]
