"""The `integral` family: paper A's own sketch for one decay that is known when it is built."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final

import numpy as np
from numpy.typing import ArrayLike

from sketches.answers import DEFAULT_TOP
from sketches.codec import read_cuts, read_head, read_rows, write_cuts, write_head, write_rows
from sketches.decay import Decay, parse_decay
from sketches.drawn import SECOND, Extremes, TimeUnit
from sketches.errors import CorruptError, DecayError, QuestionError, UnanswerableError
from sketches.estimate import Estimate, Item, Series
from sketches.events import Events, Kind, Labels
from sketches.expiry import ExpirySample, Fading, Mask, Survivors
from sketches.hashing import hash_one, salt
from sketches.merging import mergeable
from sketches.nested_sample import NO_CUT
from sketches.parameters import SampleParameters
from sketches.question import Question
from sketches.stored import Stored
from sketches.wire import FORMAT_VERSION, Envelope, Reader, Writer, seal

_ORDERED: Final = ("selectivity", "rank", "quantile", "median", "range-sum", "range-frequency", "correlated-sum")

_Limits = tuple[float, float, float]  # value, lower, upper


@dataclass(frozen=True, slots=True)
class IntegralParameters:
    """The decay, the accuracy asked for and the size it takes; sketches merge only where all of this agrees."""

    accuracy: SampleParameters
    decay: Decay

    @property
    def fading(self) -> Fading:
        return Fading(self.decay, self.accuracy.unit)

    def to_bytes(self) -> bytes:
        writer = Writer()
        writer.blob(self.accuracy.to_bytes())
        writer.blob(self.decay.spec.encode())
        return writer.to_bytes()

    @classmethod
    def from_bytes(cls, data: bytes, seed: int) -> IntegralParameters:
        reader = Reader(data)
        accuracy = SampleParameters.from_bytes(reader.blob(), seed)
        try:
            decay = parse_decay(reader.blob().decode())
        except (UnicodeDecodeError, DecayError) as error:
            raise CorruptError(f"the decay of an integral sketch cannot be read: {error}") from error
        reader.done()
        return cls(accuracy, decay)


@dataclass(frozen=True)
class Integral(Stored):
    """Duplicate-insensitive, mergeable sample of a stream under one decay that is fixed when it is built.

    Question: decayed sum, selectivity, rank, quantiles and median, frequency of a value, sum and frequency of a range,
    heavy hitters and the sum over v ≥ tau, where an event counts floor(w·f(age)) whole units. The floor makes any decay
    integral (the paper's example floor(w/age) is ``expr:1/max(age,1)``). As-of times are those of the newest event or
    later.

    Guarantee: for the sum |estimate - exact| ≤ ε·exact; for shares and ranks |estimate - exact| ≤ ε; for sums over a
    range or v ≥ tau |estimate - exact| ≤ ε of the whole decayed sum; each with probability at least 1 - δ over the seed
    (where tau is itself a quantile: 1 - 2δ). Exact, with certainty, while no more than `capacity` events still count.

    Not bounded: what the floor takes away, up to one unit an event: an event of weight 1 counts only while f is 1, so
    weights under a smooth decay should be large (bytes rather than packets). The relative error over few matching
    events. Counts, means and joins are not answered at all.

    Memory: ε = δ = 0.05 keeps up to 3,074 events a level: of a million events about 16,000 where each weighs 1 and
    about 20,000 where they weigh thousands (0.15 and 0.25 MB on the wire); without decay 2,000.

    >>> events = Events.of(ids=range(1000), times=range(1000), weights=[60] * 1000)
    >>> sketch = Integral.build(events, decay="expr:1/max(age,1)")
    >>> estimate = sketch.answer(Question("sum", "expr:1/max(age,1)", as_of=999))
    >>> exact = sum(60 // max(999 - t, 1) for t in range(1000))
    >>> estimate.lower <= exact <= estimate.upper
    True

    Reference: Cormode, Tirthapura, Xu, Time-decaying sketches for sensor data aggregation (paper A) §3, Figures 1 to 4,
    Theorems 3.1 to 3.3.
    """

    family: ClassVar[str] = "integral"
    answered: ClassVar[tuple[str, ...]] = ("sum", "frequency", "heavy-hitters", *_ORDERED)

    parameters: IntegralParameters
    copies: tuple[ExpirySample, ...] = field(repr=False)
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
        delta: float = 0.05,
        seed: int = 0,
        unit: TimeUnit = SECOND,
    ) -> Integral:
        """Sample a batch of events for a decay, to an accuracy; `unit` is the length of one step of their times."""
        known = parse_decay(decay) if isinstance(decay, str) else decay
        return cls._of(events, IntegralParameters(SampleParameters.derive(epsilon, delta, unit, seed), known))

    @classmethod
    def _of(cls, events: Events, parameters: IntegralParameters) -> Integral:
        accuracy = parameters.accuracy
        copies = tuple(
            ExpirySample.build(events, accuracy.capacity, salt(accuracy.seed, copy), parameters.fading)
            for copy in range(accuracy.copies)
        )
        labels = Labels.kept([events.labels], events.kind, [copy.values for copy in copies])
        return cls(parameters, copies, events.kind, labels, Extremes.of(events))

    @classmethod
    def union(cls, sketches: Sequence[Integral], *, trim: bool = True) -> Integral:
        """The sketch of all the sketches' events.

        To answer rather than to store, `trim=False` keeps every row above the aligned thresholds: more than one
        sketch's capacity, hence more accurate.
        """
        seen = mergeable(sketches)
        if not seen:
            return sketches[0]
        first = seen[0]
        accuracy = first.parameters.accuracy
        copies = tuple(
            ExpirySample.union([sketch.copies[copy] for sketch in seen], accuracy.capacity if trim else None)
            for copy in range(accuracy.copies)
        )
        labels = Labels.kept([sketch.labels for sketch in seen], first.kind, [copy.values for copy in copies])
        return cls(first.parameters, copies, first.kind, labels, Extremes.merged([one.extremes for one in seen]))

    def answer(self, question: Question) -> Estimate:
        """The answer with its a-priori interval (Figures 3 and 4), the median over the copies where δ needs them."""
        as_of = self._as_of(question)
        self._check(question, as_of)
        levels = []
        for copy in self.copies:
            survivors = copy.at(as_of)
            if survivors is None:
                raise UnanswerableError(
                    f"the stream is too heavy for this sketch: at time {as_of} every level has discarded events that "
                    "still count"
                )
            levels.append(survivors)
        exact = all(survivors.level == 0 for survivors in levels)
        accuracy = self.parameters.accuracy
        failures = 1.0 if question.tau_quantile is None else 2.0
        confidence = 1.0 if exact else max(0.0, 1.0 - failures * accuracy.delta)
        if question.confidence is not None and question.confidence > confidence:
            raise UnanswerableError(
                f"confidence is {question.confidence}; this sketch's bound holds with probability {confidence:.6g}: "
                "build it with a smaller delta"
            )
        (value, lower, upper), items = self._evaluate(question, levels, 0.0 if exact else accuracy.epsilon)
        return Estimate(
            value=value,
            lower=lower,
            upper=upper,
            confidence=confidence,
            guarantee=self._guarantee(question, exact, confidence),
            family=self.family,
            as_of=as_of,
            used=sum(int(np.count_nonzero(survivors.units)) for survivors in levels),
            items=items,
        )

    def _evaluate(
        self, question: Question, levels: Sequence[Survivors], epsilon: float
    ) -> tuple[_Limits, tuple[Item, ...]]:
        """The answer from one level of each copy; `epsilon` is 0 where they hold all that counts."""
        held = [level for level in levels if level.units.any()]
        whole = float(np.median([level.total() for level in levels]))
        match question.aggregate:
            case "sum":
                return (whole, whole / (1.0 + epsilon), whole / (1.0 - epsilon)), ()
            case "quantile" | "median":
                assert question.phi is not None
                return _quantile(held, question.phi, epsilon, self.extremes), ()
            case "heavy-hitters":
                items = _heavy_hitters(held, question, epsilon, self.labels if self.kind is Kind.KEY else None)
                if items:
                    return (items[0].estimate, items[0].lower, items[0].upper), items
                return (0.0 if held else np.nan, 0.0, 1.0), ()
            case "range-sum" | "correlated-sum":
                slack, most = epsilon * whole / (1.0 - epsilon), np.inf
            case _:
                slack, most = epsilon, 1.0
                if not held:
                    return (np.nan, 0.0, 1.0), ()
        # what lies above a threshold shrinks as the threshold rises, so the ends of its interval enclose the answer
        if question.tau_quantile is not None:
            tau, least_tau, greatest_tau = _quantile(held, question.tau_quantile, epsilon, self.extremes)
        else:
            tau = least_tau = greatest_tau = -np.inf if question.tau is None else float(question.tau)

        def measured(threshold: float) -> float:
            if most == 1.0:
                return float(np.median([level.share(self._matching(question, level, threshold)) for level in held]))
            return float(np.median([level.total(self._matching(question, level, threshold)) for level in levels]))

        return (measured(tau), max(0.0, measured(greatest_tau) - slack), min(most, measured(least_tau) + slack)), ()

    def _matching(self, question: Question, level: Survivors, threshold: float) -> Mask:
        values, value = level.values, question.value
        match question.aggregate:
            case "frequency" if self.kind is Kind.KEY:
                return np.asarray(values == np.uint64(hash_one(str(value))))
            case "frequency" | "rank":
                if isinstance(value, str):
                    raise UnanswerableError(f"value is {value!r}, but this stream's values are numbers")
                return np.asarray(values == value if question.aggregate == "frequency" else values <= value)
        inside: Mask = values >= threshold
        if question.low is not None:
            inside &= values >= question.low
        if question.high is not None:
            inside &= values <= question.high
        return inside

    def series(self, question: Question, as_of: ArrayLike) -> Series:
        """The same question at many as-of times; where some answers are exact, the series claims what all can claim."""
        moments = np.asarray(as_of, np.int64)
        if moments.ndim != 1:
            raise QuestionError(f"as_of has {moments.ndim} dimensions; a series takes a flat array of times")
        if question.aggregate == "heavy-hitters":
            raise UnanswerableError("heavy-hitters is a list: ask for it at one as-of time")
        answers = [self.answer(question.at(moment)) for moment in moments.tolist()]
        least = min(answers, key=lambda each: each.confidence) if answers else self.answer(question)
        return Series(
            as_of=moments,
            value=np.array([each.value for each in answers]),
            lower=np.array([each.lower for each in answers]),
            upper=np.array([each.upper for each in answers]),
            confidence=least.confidence,
            guarantee=least.guarantee,
            family=self.family,
            used=np.array([each.used for each in answers], np.int64),
        )

    def _as_of(self, question: Question) -> int:
        if question.as_of is not None:
            return question.as_of
        return self.extremes.newest if self.extremes.newest is not None else 0

    def _check(self, question: Question, as_of: int) -> None:
        """Refuse what the sketch was not built for."""
        assert isinstance(question.decay, Decay)
        if question.aggregate not in self.answered or question.of == "value":
            asked = question.aggregate + (" of the value" if question.of == "value" else "")
            raise UnanswerableError(
                f"the integral family does not answer {asked}; it answers {', '.join(self.answered)}"
            )
        if question.decay != self.parameters.decay:
            raise UnanswerableError(
                f"the sketch was built for the decay {self.parameters.decay.spec}; the question asks for "
                f"{question.decay.spec}, which only families that take any decay can answer"
            )
        newest = self.extremes.newest
        if newest is not None and as_of < newest:
            raise UnanswerableError(
                f"as_of is {as_of}, but the newest event is at {newest}: this family answers for that time or later"
            )
        if newest is not None and self.kind is Kind.KEY and question.aggregate in _ORDERED:
            raise UnanswerableError(
                f"{question.aggregate} needs values with an order, but this stream's values are text"
            )

    def _guarantee(self, question: Question, exact: bool, confidence: float) -> str:
        if exact:
            return "exact: every event that still counts was kept, each with its weight rounded down"
        epsilon = self.parameters.accuracy.epsilon
        match question.aggregate:
            case "sum":
                bound = f"relative error of at most {epsilon:.3g} (A, Theorem 3.1)"
            case "range-sum" | "correlated-sum":
                bound = f"additive error of at most {epsilon:.3g} of the whole decayed sum (A, Theorems 3.1 and 3.2)"
            case "quantile" | "median":
                bound = f"rank within {epsilon:.3g} of the one asked for (A, Theorem 3.3)"
            case "heavy-hitters":
                bound = f"share of each value within {epsilon:.3g}, each for itself (A, Theorem 3.3)"
            case _:
                bound = f"additive error of at most {epsilon:.3g} (A, Theorem 3.2)"
        if question.tau_quantile is not None:
            bound += f", the threshold's rank being within {epsilon:.3g}"
        return f"a priori: {bound} with probability {confidence:.3g}, of weights rounded down"

    def to_bytes(self) -> bytes:
        writer = Writer()
        write_head(writer, self.kind, self.extremes, self.labels)
        for copy in self.copies:
            write_cuts(writer, copy.cuts, NO_CUT)
            write_rows(writer, *copy.rows, self.kind, self.labels)
        seed = self.parameters.accuracy.seed
        return seal(self.family, FORMAT_VERSION, self.parameters.to_bytes(), seed, writer.to_bytes())

    @classmethod
    def _opened(cls, envelope: Envelope) -> Integral:
        parameters = IntegralParameters.from_bytes(envelope.parameters, envelope.seed)
        reader = Reader(envelope.body)
        kind, extremes, labels = read_head(reader)
        copies = []
        for _ in range(parameters.accuracy.copies):
            cuts = read_cuts(reader, NO_CUT)
            copies.append(ExpirySample(*read_rows(reader, kind, labels), cuts, parameters.fading))
        reader.done()
        return cls(parameters, tuple(copies), kind, labels, extremes)

    @property
    def kept(self) -> int:
        """Rows in the sketch, over all copies."""
        return sum(len(copy) for copy in self.copies)


def _quantile(held: Sequence[Survivors], phi: float, epsilon: float, extremes: Extremes) -> _Limits:
    """The median over the copies of their φ-quantiles, and those at φ ± ε around it."""
    if not held:
        return (np.nan, extremes.least_value, extremes.greatest_value) if epsilon else (np.nan, np.nan, np.nan)

    def at(share: float) -> float:
        return float(np.median([level.quantile(share) for level in held]))

    value = at(phi)
    lower = at(phi - epsilon) if phi > epsilon else extremes.least_value
    upper = at(phi + epsilon) if phi + epsilon < 1.0 else extremes.greatest_value
    return value, lower, upper


def _heavy_hitters(
    held: Sequence[Survivors], question: Question, epsilon: float, labels: Labels | None
) -> tuple[Item, ...]:
    """The values of the sample by their shares; those asked for by a least share φ may be estimated at φ - ε/2."""
    if not held:
        return ()
    distinct = np.unique(np.concatenate([level.values for level in held]))
    shares = np.median([level.shares(distinct) for level in held], axis=0)
    order = np.argsort(-shares, kind="stable")
    order = order[shares[order] > 0.0]
    if question.phi is not None:
        order = order[shares[order] >= question.phi - epsilon / 2.0]
    if question.top is not None or question.phi is None:
        order = order[: question.top or DEFAULT_TOP]
    found = zip(distinct[order].tolist(), shares[order].tolist(), strict=True)
    return tuple(
        Item(labels.text_of(value) if labels else value, share, max(0.0, share - epsilon), min(1.0, share + epsilon))
        for value, share in found
    )
