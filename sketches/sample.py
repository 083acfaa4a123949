"""The `sample` family: one sketch that answers every aggregate under any decay, chosen after the fact."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import bdtrc, ndtri

from sketches import windows
from sketches.answers import answer
from sketches.asked import Answer, Asked
from sketches.codec import read_cuts, read_labels, read_rows, write_cuts, write_labels, write_rows
from sketches.decay import Decay, DecayClass
from sketches.drawn import SECOND, Drawn, Extremes, TimeUnit, draw
from sketches.errors import CorruptError, IncompatibleError, QuestionError, UnanswerableError, WaneError
from sketches.estimate import Estimate, Series
from sketches.events import Events, Kind, Labels
from sketches.hashing import salt
from sketches.joins import inner_product
from sketches.nested_sample import NO_CUT, NestedSample
from sketches.question import Question
from sketches.wire import FORMAT_VERSION, Envelope, Reader, Writer, load, seal

Ints = NDArray[np.int64]
Estimator = Literal["stratified", "windows"]

_PER_COPY_DELTA = 0.05


@dataclass(frozen=True, slots=True)
class SampleParameters:
    """Accuracy asked for, and the size it takes; sketches merge only where all of this agrees."""

    epsilon: float
    delta: float
    capacity: int  # events each level keeps; τ in paper A
    copies: int
    unit: TimeUnit
    seed: int

    @classmethod
    def derive(cls, epsilon: float, delta: float, unit: TimeUnit, seed: int) -> SampleParameters:
        """The size for an accuracy.

        The finest complete level of any window holds more than half of `capacity` sampled units (the level before it
        overflowed), so the relative standard error of any window, hence of any decay (a decay is a mixture of
        windows), is at most sqrt(2 / capacity). capacity = 2·(z/ε)² makes that ε at probability δ. Below δ = 0.05 the
        paper's way is taken: independent copies that each miss with probability 0.05, enough of them that the median
        misses with probability at most δ.
        """
        for name, number in (("epsilon", epsilon), ("delta", delta)):
            if not 0 < number < 1:
                raise WaneError(f"{name} is {number!r}; it must lie strictly between 0 and 1")
        if epsilon < 0.001:
            raise WaneError(f"epsilon is {epsilon}; below 0.001 a sketch is larger than most streams")
        if delta < 1e-9:
            raise WaneError(f"delta is {delta}; the least probability of failure is 1e-9")
        if not 0 <= seed < 1 << 64:
            raise WaneError(f"seed is {seed}; it must be at least 0 and below 2^64")
        capacity = math.ceil(2.0 * (float(ndtri(1.0 - max(delta, _PER_COPY_DELTA) / 2.0)) / epsilon) ** 2)
        copies = 1
        while copies > 1 or delta < _PER_COPY_DELTA:
            if bdtrc((copies - 1) // 2, copies, _PER_COPY_DELTA) <= delta:
                break
            copies += 2
        return cls(epsilon, delta, max(capacity, 16), copies, unit, seed)

    def to_bytes(self) -> bytes:
        writer = Writer()
        writer.f64(self.epsilon)
        writer.f64(self.delta)
        writer.u32(self.capacity)
        writer.u8(self.copies)
        writer.u64(self.unit.numerator)
        writer.u64(self.unit.denominator)
        return writer.to_bytes()

    @classmethod
    def from_bytes(cls, data: bytes, seed: int) -> SampleParameters:
        reader = Reader(data)
        epsilon, delta, capacity, copies = reader.f64(), reader.f64(), reader.u32(), reader.u8()
        unit = TimeUnit(reader.u64(), reader.u64())
        reader.done()
        if not (0 < epsilon < 1 and 0 < delta < 1 and capacity and copies and unit.numerator and unit.denominator):
            raise CorruptError("the parameters of a sample are out of range")
        return cls(epsilon, delta, capacity, copies, unit, seed)


def events_kept(events: float, epsilon: float, delta: float) -> int:
    """About how many events a sketch keeps of so many with weight 1: capacity·(1 + levels/2) for each copy."""
    parameters = SampleParameters.derive(epsilon, delta, SECOND, 0)
    if events <= parameters.capacity:
        return int(events) * parameters.copies
    return round(parameters.copies * parameters.capacity * (1.0 + math.log2(events / parameters.capacity) / 2.0))


@dataclass(frozen=True)
class Sample:
    """Duplicate-insensitive, mergeable sample of a stream that answers every aggregate under any decay.

    Question: any aggregate of `sketches.question`, under any decay function, at any as-of time, chosen at query time.

    Guarantee: for decayed sums |estimate - exact| ≤ ε·exact, for shares, ranks and τ-sums |estimate - exact| ≤ ε (of
    the whole decayed weight), each with probability at least 1 - δ over the seed (paper A, Theorems 4.1 to 4.3; paper
    B, Theorem 3.2). Besides, every answer carries its own interval, computed from the sample, that covers the exact
    answer with the confidence it states, also where only a few sampled events match.

    Not bounded: the relative error of a sum over few matching events (B §4 proves that no small sketch can do so under
    windows or exponential decay); the interval says how far off it may be.

    Memory: ε = δ = 0.05 keeps 3,074 events a level, about 16,000 of a million, 11 bytes each on the wire.

    >>> events = Events.of(ids=range(1000), times=range(1000), values=[i % 7 for i in range(1000)])
    >>> sketch = Sample.build(events)
    >>> estimate = sketch.answer(Question("count", "window:100s"))
    >>> estimate.lower <= 100 <= estimate.upper
    True

    Reference: Cormode, Tirthapura, Xu, Time-decaying sketches for sensor data aggregation (paper A) §4; Cormode,
    Tirthapura, Xu, Time-decayed correlated aggregates over data streams (paper B) §3.1.
    """

    family: ClassVar[str] = "sample"

    parameters: SampleParameters
    copies: tuple[NestedSample, ...] = field(repr=False)
    kind: Kind
    labels: Labels = field(repr=False)
    extremes: Extremes

    @classmethod
    def build(
        cls, events: Events, *, epsilon: float = 0.05, delta: float = 0.05, seed: int = 0, unit: TimeUnit = SECOND
    ) -> Sample:
        """Sample a batch of events to an accuracy; `unit` is the length of one step of their times."""
        return cls._of(events, SampleParameters.derive(epsilon, delta, unit, seed))

    @classmethod
    def _of(cls, events: Events, parameters: SampleParameters) -> Sample:
        copies = tuple(
            NestedSample.build(events, parameters.capacity, salt(parameters.seed, copy))
            for copy in range(parameters.copies)
        )
        extremes = _extremes(events)
        return cls(parameters, copies, events.kind, _labels(copies, events.kind, [events.labels]), extremes)

    def insert(self, events: Events) -> Sample:
        return self.merge(Sample._of(events, self.parameters))

    def merge(self, other: Sample) -> Sample:
        return Sample.union([self, other])

    @classmethod
    def union(cls, sketches: Sequence[Sample], *, trim: bool = True) -> Sample:
        """The sketch of all the sketches' events.

        To answer rather than to store, `trim=False` keeps every row above the aligned thresholds: more than one
        sketch's capacity, hence more accurate.
        """
        if not sketches:
            raise WaneError("a union needs at least one sketch")
        first = sketches[0]
        for other in sketches[1:]:
            if other.parameters != first.parameters:
                raise IncompatibleError(
                    f"samples with different parameters cannot be merged: {first.parameters} and {other.parameters}"
                )
        seen = [sketch for sketch in sketches if sketch.extremes.newest is not None]
        kinds = {sketch.kind for sketch in seen}
        if len(kinds) > 1:
            raise IncompatibleError(
                "samples of different kinds of values cannot be merged: " + ", ".join(sorted(kinds))
            )
        if not seen:
            return first
        capacity = first.parameters.capacity if trim else None
        copies = tuple(
            NestedSample.union([sketch.copies[copy] for sketch in seen], capacity)
            for copy in range(first.parameters.copies)
        )
        kind = kinds.pop()
        extremes = Extremes.merged([sketch.extremes for sketch in seen])
        return cls(first.parameters, copies, kind, _labels(copies, kind, [sketch.labels for sketch in seen]), extremes)

    @cached_property
    def drawn(self) -> Drawn:
        """The kept rows with their design weights: computed once, then every decay costs a dot product."""
        return draw(self.copies, self.parameters.unit, self.kind, self.labels, self.extremes)

    def answer(
        self, question: Question, *, other: Sample | None = None, estimator: Estimator = "stratified"
    ) -> Estimate:
        """The answer with its interval.

        `estimator="windows"` is paper A's reduction to sliding windows, with the median over copies and its a-priori
        interval; the default weighs every kept event by its own sampling probability, which has lower variance.
        `other` is the second sketch of an inner product.
        """
        if other is not None and question.aggregate != "inner-product":
            raise QuestionError(f"other= goes with inner-product, not with {question.aggregate!r}")
        as_of = self._as_of(question)
        confidence = question.confidence or 1.0 - self.parameters.delta
        if estimator == "windows" and question.aggregate != "inner-product":
            return windows.answer(self, question, as_of)
        if question.aggregate == "inner-product":
            other = self._partner(other)
            if question.as_of is None and other.extremes.newest is not None:
                as_of = max(as_of, other.extremes.newest)
        asked = self._asked(question, np.array([as_of]), confidence)
        found = answer(asked) if other is None else inner_product(asked, other.drawn)
        self._refuse_lost(question, as_of)
        exact = bool(found.lower[0] == found.value[0] == found.upper[0] and asked.unseen_weight[0][0] == 0)
        return Estimate(
            value=float(found.value[0]),
            lower=float(found.lower[0]),
            upper=float(found.upper[0]),
            confidence=1.0 if exact else confidence,
            guarantee=self.guarantee(question, as_of, exact),
            family=self.family,
            as_of=as_of,
            used=int(found.used[0]),
            items=found.items,
        )

    def series(self, question: Question, as_of: ArrayLike) -> Series:
        """The same question at many as-of times: one pass, not one answer after the other."""
        moments = np.asarray(as_of, np.int64)
        if moments.ndim != 1:
            raise QuestionError(f"as_of has {moments.ndim} dimensions; a series takes a flat array of times")
        if question.aggregate == "inner-product":
            raise UnanswerableError("inner-product has no series: ask for it at one as-of time")
        confidence = question.confidence or 1.0 - self.parameters.delta
        found: Answer = answer(self._asked(question, moments, confidence))
        for moment in moments.tolist():
            self._refuse_lost(question, moment)
        return Series(
            as_of=moments,
            value=found.value,
            lower=found.lower,
            upper=found.upper,
            confidence=confidence,
            guarantee=self.guarantee(question, int(moments.min(initial=self._as_of(question))), exact=False),
            family=self.family,
            used=found.used,
        )

    def _asked(self, question: Question, as_of: Ints, confidence: float) -> Asked:
        return Asked(self.drawn, question, as_of, confidence, self.parameters.epsilon)

    def _partner(self, other: Sample | None) -> Sample:
        if other is None:
            raise QuestionError("aggregate 'inner-product' needs a second sketch: other=")
        if other.parameters != self.parameters:
            raise IncompatibleError(f"inner products need equal parameters: {self.parameters} and {other.parameters}")
        return other

    def _as_of(self, question: Question) -> int:
        if question.as_of is not None:
            return question.as_of
        return self.extremes.newest if self.extremes.newest is not None else 0

    def _refuse_lost(self, question: Question, as_of: int) -> None:
        """Only a stream of more than 2^60 units of weight a level can get here: older events are beyond any level."""
        lost = self.drawn.lost_before
        assert isinstance(question.decay, Decay)
        if lost == NO_CUT or lost > as_of:
            reached = lost != NO_CUT
        else:
            reached = bool(question.decay(self.parameters.unit.seconds(np.array([as_of - lost])))[0] > 0)
        if reached:
            raise UnanswerableError(
                f"the stream is too heavy for this sketch: events up to time {lost} were discarded at every level"
            )

    def guarantee(self, question: Question, as_of: int, exact: bool) -> str:
        """In words: which bound holds, and why not a stronger one."""
        if exact:
            return "exact: every event that counts here was kept"
        if self.extremes.newest is not None and as_of < self.extremes.newest:
            return "interval from the sample itself; no error was planned for times before the newest event"
        epsilon, likely = self.parameters.epsilon, 1.0 - self.parameters.delta
        assert isinstance(question.decay, Decay)
        match question.aggregate:
            case "sum" | "count" | "mean" if question.of == "weight":
                planned = f"planned for a relative error of at most {epsilon:.3g}"
            case "sum" | "mean":
                planned = "no error is planned for: it depends on how far apart values lie"
            case "self-join" | "inner-product":
                planned = "no error is planned for: it depends on how often keys repeat"
            case "heavy-hitters":
                planned = f"planned for shares within {epsilon:.3g}; the intervals of the list hold together"
            case "quantile" | "median":
                planned = f"planned for a rank within {epsilon:.3g} of the one asked for"
            case "range-sum" | "correlated-sum" | "correlated-count" | "correlated-mean":
                planned = f"planned for an additive error of at most {epsilon:.3g} of the whole decayed weight"
                if question.decay.decay_class not in (DecayClass.NONE, DecayClass.CONVERGING):
                    kind = question.decay.decay_class
                    planned += f"; under {kind} decay no small sketch can bound the relative error (B §4)"
            case _:
                planned = f"planned for an additive error of at most {epsilon:.3g}"
        return f"interval from the sample itself; {planned} with probability {likely:.3g}"

    def to_bytes(self) -> bytes:
        writer = Writer()
        writer.u8(list(Kind).index(self.kind))
        seen = self.extremes.newest is not None
        writer.u8(int(seen))
        if seen:
            writer.i64(self.extremes.oldest or 0)
            writer.i64(self.extremes.newest or 0)
            writer.f64(self.extremes.least_value)
            writer.f64(self.extremes.greatest_value)
            writer.u64(self.extremes.greatest_weight)
        write_labels(writer, self.labels)
        for copy in self.copies:
            write_cuts(writer, copy.weight_cuts, NO_CUT)
            same = bool((copy.weight_cuts == copy.count_cuts).all())
            writer.u8(int(same))
            if not same:
                write_cuts(writer, copy.count_cuts, NO_CUT)
            write_rows(writer, copy.times, copy.hashes, copy.values, copy.weights, self.kind, self.labels)
        return seal(self.family, FORMAT_VERSION, self.parameters.to_bytes(), self.parameters.seed, writer.to_bytes())

    @classmethod
    def from_bytes(cls, data: bytes) -> Sample:
        return load(data, {cls.family: cls.from_envelope})

    @classmethod
    def from_envelope(cls, envelope: Envelope) -> Sample:
        if envelope.family != cls.family:
            raise CorruptError(f"the bytes hold a sketch of family {envelope.family!r}, not {cls.family!r}")
        parameters = SampleParameters.from_bytes(envelope.parameters, envelope.seed)
        reader = Reader(envelope.body)
        code = reader.u8()
        if code >= len(Kind):
            raise CorruptError(f"kind of values {code} is unknown")
        kind = list(Kind)[code]
        extremes = Extremes()
        if reader.u8():
            extremes = Extremes(reader.i64(), reader.i64(), reader.f64(), reader.f64(), reader.u64())
        labels = read_labels(reader)
        copies = []
        for _ in range(parameters.copies):
            weight_cuts = read_cuts(reader, NO_CUT)
            count_cuts = weight_cuts if reader.u8() else read_cuts(reader, NO_CUT)
            copies.append(NestedSample(*read_rows(reader, kind, labels), weight_cuts, count_cuts))
        reader.done()
        return cls(parameters, tuple(copies), kind, labels, extremes)

    @property
    def nbytes(self) -> int:
        return len(self.to_bytes())

    @property
    def kept(self) -> int:
        """Rows in the sketch, over all copies."""
        return sum(len(copy) for copy in self.copies)


def _extremes(events: Events) -> Extremes:
    if len(events) == 0:
        return Extremes()
    keys = events.kind is Kind.KEY
    return Extremes(
        int(events.times.min()),
        int(events.times.max()),
        0.0 if keys else float(events.values.min()),
        0.0 if keys else float(events.values.max()),
        1 if events.weights is None else int(events.weights.max()),
    )


def _labels(copies: Sequence[NestedSample], kind: Kind, known: Sequence[Labels]) -> Labels:
    if kind is not Kind.KEY:
        return Labels.none()
    return Labels.merged(known, np.concatenate([copy.values for copy in copies]).astype(np.uint64))
