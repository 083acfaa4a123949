"""The `integral` family: the sketch of paper A §3, for one decay that is known when the sketch is built."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from sketches import guarantees
from sketches.decay import Decay, parse_decay
from sketches.encoding.bodies import read_cuts, read_head, read_rows, write_cuts, write_head, write_rows
from sketches.encoding.envelope import FORMAT_VERSION, Envelope, Writer, seal
from sketches.errors import CorruptError, EventError, QuestionError, UnanswerableError
from sketches.estimate import Curve, Estimate, Series
from sketches.events import Events, Extremes, Kind, Labels
from sketches.family import Abilities, Sketch
from sketches.hashing import salt
from sketches.promise import Built, Promise
from sketches.question import NEEDS_ORDER, Counting, Question
from sketches.records import dataclass
from sketches.refusals import mergeable, refuse, refuse_other_mass
from sketches.sampling.expected_widths import integral_width
from sketches.sampling.expiry.expiry_sample import NOTHING_SEEN, ExpirySample
from sketches.sampling.expiry.integral_answers import Asked, flat, refuse_kind
from sketches.sampling.expiry.integral_decay import ages_at, zero_or_one
from sketches.sampling.expiry.integral_parameters import IntegralParameters
from sketches.sampling.expiry.survivors import Copies, Survivors
from sketches.sampling.inclusion.nested_sample import NO_CUT
from sketches.sampling.inclusion.range_sample import LEVELS
from sketches.sampling.sample_parameters import SampleParameters
from sketches.units import SECOND, TimeUnit

_AGGREGATES = (
    "sum",
    "count",
    "frequency",
    "heavy-hitters",
    "selectivity",
    "rank",
    "quantile",
    "median",
    "range-sum",
    "range-frequency",
    "correlated-sum",
    "correlated-count",
)


@dataclass(frozen=True)
class Integral(Sketch):
    """Duplicate-insensitive, mergeable sample of a stream under one decay that is fixed when it is built.

    Question: decayed sum or count, selectivity, rank, quantiles and median, frequency of a value, sum and frequency of
    a range, heavy hitters, and the sum or count over v ≥ tau, each also over the events that a predicate leaves. It
    keeps one mass of each event: 1 (counting = "events") or its weight. The as-of time is that of the newest event or
    later. What has expired by the newest event is dropped.

    Guarantee: for the sum |estimate - exact| ≤ ε·exact; for shares and ranks |estimate - exact| ≤ ε; for sums over a
    range, v ≥ tau or a predicate |estimate - exact| ≤ ε of the whole decayed sum; each with probability at least 1 - δ
    over the seed (1 - 2δ where tau is itself a quantile, or where a share is among the events of a predicate). An event
    counts in whole units of 1/scale, rounded up or down by chance so that no bias is left. Exact, with certainty, under
    `none` and windows while no more than `capacity` events count.

    Not bounded by ε: shares among few events, and the sum once it has decayed below 1/scale·(capacity/2), which with
    the derived scale is the mass of one new event; the interval is then wider and says so. With scale = 1 weights are
    rounded down, as in the paper: sums may be any larger once events count less than 1, shares are unknown. An event
    may have at most 2^40 units: at ε = 0.05 (scale 2,048) it may weigh 2^29. Means and joins are not answered at all.

    Memory: ε = δ = 0.05 keeps up to 3,074 events a level that still count (docs/families.md has figures).

    >>> events = Events.of(ids=range(1000), times=range(1000), weights=[60] * 1000)
    >>> sketch = Integral.build(events, decay="expr:1/max(age,1)", counting="weight")
    >>> estimate = sketch.answer(Question("sum", "expr:1/max(age,1)", as_of=999))
    >>> exact = sum(60 / max(999 - t, 1) for t in range(1000))
    >>> estimate.lower <= exact <= estimate.upper
    True

    Reference: Cormode, Tirthapura and Xu, Time-decaying sketches for sensor data aggregation, 2007, Section 3, Figures
    1 to 4, Theorems 3.1 to 3.3.
    """

    family: ClassVar[str] = "integral"
    one_mass: ClassVar[bool] = True
    first_format: ClassVar[Mapping[str, object]] = {"scale": 1}
    abilities: ClassVar[Abilities] = Abilities(
        _AGGREGATES,
        columns=frozenset({"value", "weight"}),
        past=False,
        fixed_decay=True,
        curves=True,
        forgives_repeats=True,
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
        counting: Counting = "events",
        scale: int | None = None,
    ) -> Integral:
        """Sample a batch of events for a decay, to an accuracy; `unit` is the length of one step of their times.

        `scale` is how many units a weight of 1 has; by default as many as the accuracy takes.
        """
        fixed = parse_decay(decay) if isinstance(decay, str) else decay
        accuracy = SampleParameters.derive(epsilon, delta, unit, seed)
        return cls._of(events, IntegralParameters.derive(accuracy, fixed, counting, scale))

    @classmethod
    def _of(cls, events: Events, parameters: IntegralParameters) -> Integral:
        accuracy, once = parameters.accuracy, parameters.counting == "events"
        extremes = Extremes.of(events)
        if not once and extremes.greatest_weight > parameters.most_weight:
            raise EventError(
                f"an event weighs {extremes.greatest_weight}; with scale {parameters.scale} this sketch takes at most "
                f"{parameters.most_weight:.0f} (2^40 units an event): set a smaller scale"
            )
        copies = tuple(
            ExpirySample.build(
                events, accuracy.capacity, salt(accuracy.seed, copy), parameters.integral_decay, once=once
            )
            for copy in range(accuracy.copies)
        )
        labels = Labels.kept([events.labels], events.kind, [copy.values for copy in copies])
        return cls(parameters, copies, events.kind, labels, extremes)

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
    def _promise(cls, question: Question, built: Built, *, past: bool) -> Promise | None:
        """None where weights are rounded down: that is another quantity, and never competes."""
        if built.own.get("scale") == 1 and not zero_or_one(question.decay):
            return None
        if "weight" in question.where.columns and built.weighted and built.counting == "events":
            return None
        width = integral_width(question, built)
        return Promise(width, certain=width == 0.0)

    def answer(self, question: Question, *, other: None = None) -> Estimate:
        """The answer with its interval (Figures 3 and 4): the median over the copies."""
        asked, as_of = self._asked(question)
        confidence = self._confidence(asked)
        (value, lower, upper), items, unlisted = asked.evaluate()
        return Estimate(
            value=float(value[0]),
            lower=float(lower[0]),
            upper=float(upper[0]),
            confidence=confidence,
            guarantee=self._guarantee(asked, confidence, unlisted, open_ended=bool(lower[0] < upper[0])),
            family=self.family,
            as_of=as_of,
            used=sum(int(np.count_nonzero(copy.units)) for copy in asked.copies.all),
            items=items,
            unlisted=unlisted,
        )

    def series(self, question: Question, as_of: ArrayLike, *, other: None = None) -> Series:
        """The same question at many as-of times; the guarantee is one that holds at all of them."""
        moments = np.asarray(as_of, np.int64)
        if moments.ndim != 1:
            raise QuestionError(f"as_of has {moments.ndim} dimensions; a series takes a flat array of times")
        if question.aggregate == "heavy-hitters":
            raise UnanswerableError("heavy-hitters is a list: ask for it at one as-of time")
        answers = [self.answer(question.at(moment)) for moment in moments.tolist()]
        least = min(answers, key=lambda each: each.confidence) if answers else self.answer(question)
        alike = all(each.guarantee == least.guarantee for each in answers)
        return Series(
            as_of=moments,
            value=np.array([each.value for each in answers]),
            lower=np.array([each.lower for each in answers]),
            upper=np.array([each.upper for each in answers]),
            confidence=least.confidence,
            guarantee=least.guarantee if alike else self._at_many(least.confidence),
            family=self.family,
            used=np.array([each.used for each in answers], np.int64),
        )

    def _at_many(self, confidence: float) -> str:
        floors = self.parameters.integral_decay.floors
        held = guarantees.NEVER_OUTSIDE if confidence == 1 else guarantees.inside(confidence)
        return guarantees.clauses("of floored weights" if floors else "", held)

    def threshold_curve(self, question: Question, thresholds: ArrayLike, *, together: bool = False) -> Curve:
        """The sum (or count: the mass that is kept) over v ≥ τ for many thresholds τ, at one as-of time."""
        asked, _ = self._asked(question, curve=True)
        taus = flat("thresholds", np.asarray(thresholds, np.float64))
        return Curve(taus, *asked.above(taus), self._confidence(asked))

    def quantile_curve(self, question: Question, shares: ArrayLike, *, together: bool = False) -> Curve:
        """The value at each share φ, at one as-of time."""
        asked, _ = self._asked(question, curve=True)
        phis = flat("shares", np.asarray(shares, np.float64))
        if ((phis <= 0) | (phis >= 1)).any():
            raise QuestionError("shares must lie strictly between 0 and 1")
        return Curve(phis, *asked.quantile_curve(phis), self._confidence(asked))

    def _asked(self, question: Question, *, curve: bool = False) -> tuple[Asked, int]:
        """The question to what survives at its as-of time, by default that of the newest event."""
        newest = self.extremes.newest
        as_of = question.as_of if question.as_of is not None else newest if newest is not None else 0
        self._check(question, as_of, curve)
        heavy = self._all_heavy(as_of)
        survivors = [self._survivors(copy, as_of, heavy) for copy in self.copies]
        copies = Copies(survivors, self.parameters.accuracy.epsilon, self.parameters.copy_delta)
        floors = self.parameters.integral_decay.floors and newest is not None
        return Asked(question, copies, self.kind, self.labels, self.extremes, floors, heavy), as_of

    def _all_heavy(self, as_of: int) -> bool:
        """Whether every event ever seen counts a unit or more, so that level 0 keeps none by chance."""
        if self.extremes.oldest is None:
            return True
        lightest = 1 if self.parameters.counting == "events" else self.extremes.least_weight
        age = ages_at(as_of, np.array([self.extremes.oldest]))
        return bool(self.parameters.integral_decay.masses(np.array([lightest]), age)[0] >= 1.0)

    @staticmethod
    def _survivors(copy: ExpirySample, as_of: int, heavy: bool) -> Survivors:
        survivors = copy.at(as_of, heavy=heavy)
        if survivors is None:
            raise UnanswerableError(
                f"the stream is too heavy for this sketch: at time {as_of} every level has discarded events that still "
                "count"
            )
        return survivors

    def _confidence(self, asked: Asked) -> float:
        """The probability with which the bound holds; refuses a question that wants more."""
        held = 1.0 if asked.copies.exact else max(0.0, 1.0 - asked.failures * self.parameters.accuracy.delta)
        wanted = asked.question.confidence
        if wanted is not None and wanted > held:
            raise UnanswerableError(
                f"confidence is {wanted}; this sketch's bound holds with probability {held:.6g}: build it with a "
                "smaller delta"
            )
        return held

    def _check(self, question: Question, as_of: int, curve: bool) -> None:
        """Refuse what the sketch was not built for."""
        refuse(self.family, self.abilities, question)
        if question.decay != self.parameters.decay:
            raise UnanswerableError(
                f"the sketch was built for the decay {self.parameters.decay.spec}; the question asks for "
                f"{question.decay.spec}, which only families that take any decay can answer"
            )
        counting, newest = self.parameters.counting, self.extremes.newest
        refuse_other_mass(self.family, question, counting, self.extremes)
        if "weight" in question.where.columns and counting == "events" and not self.extremes.unit_weights:
            raise UnanswerableError(
                "this integral sketch counts each event once, without its weight (counting = 'events'), so it cannot "
                "restrict an answer by weight"
            )
        if newest is None:
            return
        if as_of < newest:
            raise UnanswerableError(
                f"as_of is {as_of}, but the newest event is at {newest}: this family answers for that time or later"
            )
        if self.kind is Kind.KEY and (curve or question.aggregate in NEEDS_ORDER):
            asked = "a curve" if curve else question.aggregate
            raise UnanswerableError(f"{asked} needs values with an order, but this stream's values are text")
        refuse_kind(question, self.kind)

    def _guarantee(self, asked: Asked, confidence: float, unlisted: float | None, *, open_ended: bool) -> str:
        """In words: which bound holds, of what, and how surely."""
        copies = asked.copies
        if asked.floors:
            rounded = "of floored weights: each event counts up to 1 more than it adds"
            lost = "" if asked.complete else "those that count less than 1 add nothing"
            return guarantees.clauses(rounded, lost, "" if copies.exact else guarantees.inside(confidence))
        if copies.exact:
            rounded_threshold = open_ended and asked.question.threshold is not None and bool(copies.held)
            return guarantees.NEVER_OUTSIDE if rounded_threshold else guarantees.KEPT_ALL
        if any(copy.level for copy in copies.all):
            return asked.bound(confidence, unlisted)
        kept = f"every event that counts 1/{self.parameters.scale} or more was kept, lighter ones by chance"
        bound = asked.bound(confidence, unlisted) if copies.held else "none is left"
        return guarantees.clauses(kept, bound)

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
        parameters = IntegralParameters.from_bytes(envelope.parameters, envelope.seed, envelope.version)
        reader = envelope.reader()
        kind, extremes, labels = read_head(reader)
        newest = extremes.newest if extremes.newest is not None else NOTHING_SEEN
        copies = []
        for _ in range(parameters.accuracy.copies):
            cuts = read_cuts(reader, NO_CUT, LEVELS)
            rows = read_rows(reader, kind, labels)
            if rows[3].max(initial=0) > parameters.most_weight:
                raise CorruptError(f"an event weighs {rows[3].max()}, more than the scale {parameters.scale} allows")
            copies.append(ExpirySample(*rows, cuts, newest, parameters.integral_decay))
        reader.done()
        if envelope.version == 1:  # it kept what had expired
            copies = [ExpirySample.union([copy], parameters.accuracy.capacity) for copy in copies]
            labels = Labels.kept([labels], kind, [copy.values for copy in copies])
        return cls(parameters, tuple(copies), kind, labels, extremes)

    @property
    def kept(self) -> int:
        """Rows in the sketch, over all copies."""
        return sum(len(copy) for copy in self.copies)
