"""The `integral` family: the sketch of paper A §3, for one decay that is known when the sketch is built."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final

import numpy as np
from numpy.typing import ArrayLike

from sketches.arrays import Flags
from sketches.decay import Decay, parse_decay
from sketches.encoding.bodies import read_cuts, read_head, read_rows, write_cuts, write_head, write_rows
from sketches.encoding.envelope import FORMAT_VERSION, Envelope, Reader, Writer, seal
from sketches.errors import CorruptError, DecayError, QuestionError, UnanswerableError
from sketches.estimate import Estimate, Item, Series
from sketches.events import Events, Extremes, Kind, Labels
from sketches.family import Abilities, Built, Promise, Sketch, mergeable
from sketches.hashing import hash_one, salt
from sketches.papers import SENSOR_SKETCHES
from sketches.question import DEFAULT_TOP, Question
from sketches.sampling.expiry_sample import ExpirySample, IntegralDecay, Survivors
from sketches.sampling.nested_sample import NO_CUT
from sketches.sampling.range_sample import LEVELS
from sketches.sampling.sample_parameters import SampleParameters
from sketches.units import SECOND, TimeUnit

_ORDERED: Final = ("selectivity", "rank", "quantile", "median", "range-sum", "range-frequency", "correlated-sum")

_Limits = tuple[float, float, float]  # value, lower, upper


@dataclass(frozen=True, slots=True)
class IntegralParameters:
    """The accuracy asked for, the size that it takes, and the decay. Sketches merge only where all of this agrees."""

    accuracy: SampleParameters
    decay: Decay

    @property
    def integral_decay(self) -> IntegralDecay:
        return IntegralDecay(self.decay, self.accuracy.unit)

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
class Integral(Sketch):
    """Duplicate-insensitive, mergeable sample of a stream under one decay that is fixed when it is built.

    Question: decayed sum, selectivity, rank, quantiles and median, frequency of a value, sum and frequency of a range,
    heavy hitters, and the sum over v ≥ tau. An event counts floor(w·f(age)) whole units, which makes any decay integral
    (the paper's example floor(w/age) is ``expr:1/max(age,1)``). The as-of time is that of the newest event or later.

    Guarantee: for the sum |estimate - exact| ≤ ε·exact; for shares and ranks |estimate - exact| ≤ ε; for sums over a
    range or v ≥ tau |estimate - exact| ≤ ε of the whole decayed sum; each with probability at least 1 - δ over the seed
    (where tau is itself a quantile: 1 - 2δ). Exact, with certainty, while no more than `capacity` events still count.

    Not bounded: what the floor takes away, up to one unit an event. An event of weight 1 counts only while f is 1, so
    weights under a smooth decay should be large (bytes rather than packets). Nor is the relative error over few
    matching events bounded. Counts, means and joins are not answered at all.

    Memory: ε = δ = 0.05 keeps up to 3,074 events a level: of a million events about 16,000 where each weighs 1 and
    about 20,000 where they weigh thousands (0.15 and 0.25 MB on the wire); without decay 2,000.

    >>> events = Events.of(ids=range(1000), times=range(1000), weights=[60] * 1000)
    >>> sketch = Integral.build(events, decay="expr:1/max(age,1)")
    >>> estimate = sketch.answer(Question("sum", "expr:1/max(age,1)", as_of=999))
    >>> exact = sum(60 // max(999 - t, 1) for t in range(1000))
    >>> estimate.lower <= exact <= estimate.upper
    True

    Reference: Cormode, Tirthapura and Xu, Time-decaying sketches for sensor data aggregation, 2007, Section 3, Figures
    1 to 4, Theorems 3.1 to 3.3.
    """

    family: ClassVar[str] = "integral"
    abilities: ClassVar[Abilities] = Abilities(
        ("sum", "frequency", "heavy-hitters", *_ORDERED), past=False, fixed_decay=True, forgives_repeats=True
    )

    parameters: IntegralParameters
    copies: tuple[ExpirySample, ...] = field(repr=False)  # independent samples of the same events
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
        fixed = parse_decay(decay) if isinstance(decay, str) else decay
        return cls._of(events, IntegralParameters(SampleParameters.derive(epsilon, delta, unit, seed), fixed))

    @classmethod
    def _of(cls, events: Events, parameters: IntegralParameters) -> Integral:
        accuracy = parameters.accuracy
        copies = tuple(
            ExpirySample.build(events, accuracy.capacity, salt(accuracy.seed, copy), parameters.integral_decay)
            for copy in range(accuracy.copies)
        )
        labels = Labels.kept([events.labels], events.kind, [copy.values for copy in copies])
        return cls(parameters, copies, events.kind, labels, Extremes.of(events))

    @classmethod
    def union(cls, sketches: Sequence[Integral]) -> Integral:
        """The sketch of all the sketches' events."""
        seen = mergeable(sketches)
        if not seen:
            return sketches[0]
        first = seen[0]
        accuracy = first.parameters.accuracy
        copies = tuple(
            ExpirySample.union([sketch.copies[copy] for sketch in seen], accuracy.capacity)
            for copy in range(accuracy.copies)
        )
        labels = Labels.kept([sketch.labels for sketch in seen], first.kind, [copy.values for copy in copies])
        return cls(first.parameters, copies, first.kind, labels, Extremes.merged([one.extremes for one in seen]))

    @classmethod
    def _promise(cls, question: Question, built: Built, *, past: bool) -> Promise:
        words = f"within {built.epsilon:.3g} {built.likely}, of weights rounded down"
        width = math.nextafter(2.0 * built.epsilon, 1.0)  # families that round nothing down come first
        return Promise(width, False, words)

    def answer(self, question: Question, *, other: None = None) -> Estimate:
        """The answer with its a-priori interval (Figures 3 and 4): the median over the copies."""
        as_of = self._as_of(question)
        self._check(question, as_of)
        levels = [self._survivors(copy, as_of) for copy in self.copies]
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

    @staticmethod
    def _survivors(copy: ExpirySample, as_of: int) -> Survivors:
        survivors = copy.at(as_of)
        if survivors is None:
            raise UnanswerableError(
                f"the stream is too heavy for this sketch: at time {as_of} every level has discarded events that still "
                "count"
            )
        return survivors

    def _evaluate(
        self, question: Question, levels: Sequence[Survivors], epsilon: float
    ) -> tuple[_Limits, tuple[Item, ...]]:
        """The answer from one level of each copy; `epsilon` is 0 where they hold every event that counts."""
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
                additive_error, greatest = epsilon * whole / (1.0 - epsilon), np.inf
            case _:
                additive_error, greatest = epsilon, 1.0
                if not held:
                    return (np.nan, 0.0, 1.0), ()
        # The sum over v ≥ τ falls as τ rises, so the answers at both ends of the threshold's interval enclose it.
        if question.tau_quantile is not None:
            tau, least_tau, greatest_tau = _quantile(held, question.tau_quantile, epsilon, self.extremes)
        else:
            tau = least_tau = greatest_tau = -np.inf if question.tau is None else float(question.tau)

        def above(threshold: float) -> float:
            if greatest == 1.0:
                return float(np.median([level.share(self._matching(question, level, threshold)) for level in held]))
            return float(np.median([level.total(self._matching(question, level, threshold)) for level in levels]))

        lower, upper = above(greatest_tau) - additive_error, above(least_tau) + additive_error
        return (above(tau), max(0.0, lower), min(greatest, upper)), ()

    def _matching(self, question: Question, level: Survivors, threshold: float) -> Flags:
        values, value = level.values, question.value
        match question.aggregate:
            case "frequency" if self.kind is Kind.KEY:
                return np.asarray(values == np.uint64(hash_one(str(value))))
            case "frequency" | "rank":
                if isinstance(value, str):
                    raise UnanswerableError(f"value is {value!r}, but this stream's values are numbers")
                return np.asarray(values == value if question.aggregate == "frequency" else values <= value)
        inside: Flags = values >= threshold
        if question.low is not None:
            inside &= values >= question.low
        if question.high is not None:
            inside &= values <= question.high
        return inside

    def series(self, question: Question, as_of: ArrayLike) -> Series:
        """The same question at many as-of times; the guarantee is that of the answer with the least confidence."""
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
        if not self.abilities.include(question):
            aggregate = question.aggregate + (" of the value" if question.of == "value" else "")
            raise UnanswerableError(
                f"the integral family does not answer {aggregate}; it answers {', '.join(self.abilities.aggregates)}"
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
        """In words: which bound holds, and which theorem says so."""
        if exact:
            return "exact: every event that still counts was kept, each with its weight rounded down"
        epsilon = f"{self.parameters.accuracy.epsilon:.3g}"
        match question.aggregate:
            case "sum":
                bound, source = f"relative error of at most {epsilon}", "Theorem 3.1"
            case "range-sum" | "correlated-sum":
                bound = f"additive error of at most {epsilon} of the whole decayed sum"
                source = "Theorems 3.1 and 3.2"
            case "quantile" | "median":
                bound, source = f"rank within {epsilon} of the one asked for", "Theorem 3.3"
            case "heavy-hitters":
                bound, source = f"share of each value within {epsilon}, each for itself", "Theorem 3.3"
            case _:
                bound, source = f"additive error of at most {epsilon}", "Theorem 3.2"
        threshold = f", the threshold's rank being within {epsilon}" if question.tau_quantile is not None else ""
        cited = f"{bound} ({SENSOR_SKETCHES}, {source}){threshold}"
        return f"a priori: {cited} with probability {confidence:.3g}, of weights rounded down"

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
            cuts = read_cuts(reader, NO_CUT, LEVELS)
            copies.append(ExpirySample(*read_rows(reader, kind, labels), cuts, parameters.integral_decay))
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
    """The sampled values with the largest shares. With a least share φ, an estimate of φ - ε/2 is enough."""
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
