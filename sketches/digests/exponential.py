"""The `exponential` family: quantiles and heavy hitters under one exponential decay, in the space that no decay takes.

Under exponential decay all masses of a sketch shrink alike, so they are kept as they are at one time, the newest
event's, and scaled when they are asked, inserted to or merged: the lazy scaling of paper C §4.1 with one timestamp for
all. An event that arrives late weighs what it would weigh by now.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from functools import cached_property
from typing import ClassVar, Final

import numpy as np
from numpy.typing import ArrayLike

from sketches.arrays import Floats, Ints, Words
from sketches.decay import Decay
from sketches.digests.decayed_masses import LEAST_MASS, MOST_MASS, Masses, by_code, read_masses, write_masses
from sketches.digests.dyadic_forest import CODE_BITS
from sketches.digests.dyadic_tree import ALL, PATHS_FORMAT, cover_points
from sketches.digests.expected_widths import exponential_width
from sketches.digests.ranged_masses import RangedMasses
from sketches.digests.tallies import mask_of
from sketches.encoding.bodies import read_head, write_head
from sketches.encoding.envelope import FORMAT_VERSION, Envelope, Writer, seal
from sketches.encoding.value_codes import codes_of
from sketches.errors import CorruptError, UnanswerableError, WaneError
from sketches.estimate import Estimate, Series
from sketches.event_rules import MAX_TIME
from sketches.events import Events, Extremes, Kind, Labels
from sketches.exponential_parameters import ExponentialParameters
from sketches.family import Abilities, Sketch
from sketches.promise import Built, Promise
from sketches.question import NEEDS_ORDER, Counting, Question
from sketches.records import dataclass
from sketches.refusals import mergeable
from sketches.units import SECOND, TimeUnit
from sketches.vocabulary import COUNTINGS

_SUMS: Final = ("sum", "count", "range-sum", "correlated-sum", "correlated-count")


@dataclass(frozen=True, slots=True)
class OneMassParameters(ExponentialParameters):
    """The parameters of one exponential decay, and which mass of each event is kept: 1 ("events") or its weight."""

    counting: Counting

    @classmethod
    def of(
        cls, epsilon: float, decay: Decay | str, unit: TimeUnit, seed: int, counting: Counting = "events"
    ) -> OneMassParameters:
        if counting not in COUNTINGS:
            raise WaneError(f"counting is {counting!r}; it must be {' or '.join(map(repr, COUNTINGS))}")
        checked = ExponentialParameters.of(epsilon, decay, unit, seed)
        return cls(checked.epsilon, checked.decay, checked.unit, checked.seed, counting)

    def to_bytes(self) -> bytes:
        return ExponentialParameters.to_bytes(self) + bytes([COUNTINGS.index(self.counting)])

    @classmethod
    def from_bytes(cls, data: bytes, seed: int, version: int = FORMAT_VERSION) -> OneMassParameters:
        """What `to_bytes` wrote; in version 1 only weight was kept, and it was not said."""
        code, own = (COUNTINGS.index("weight"), data) if version == 1 else (data[-1] if data else 0, data[:-1])
        if code >= len(COUNTINGS):
            raise CorruptError(f"what a sketch counts is written as {code}, which is unknown")
        known = ExponentialParameters.from_bytes(own, seed)
        return cls(known.epsilon, known.decay, known.unit, known.seed, COUNTINGS[code])


@dataclass(frozen=True)
class Exponential(Sketch):
    """Mergeable summary of the values of a stream under one exponential decay, fixed when it is built.

    Question: decayed count or sum; for numbers rank, quantiles and median, sums, counts and shares over v ≥ tau or a
    range; for numbers and keys heavy hitters and the frequency of a value; each of all events or of those whose value
    satisfies a predicate. As of the newest event or later. It keeps one mass of each event: 1, or its weight where it
    is built with counting="weight". Counts and shares are of that mass, and the other is refused.

    Guarantee: deterministic. The exact answer is never outside the interval. With D the decayed mass, which is known
    exactly, a sum over v ≤ x or v ≥ x has an interval at most ε·D wide, a quantile's rank is within ε of the one asked
    for, and the frequency of a value errs by at most ε; so every value with a share of φ > ε is among the heavy hitters
    of φ, and none with less than φ - ε is. A list says which share no unlisted value exceeds. Late events weigh what
    they weigh by now; merging and scaling keep it all.

    Not bounded: shares of what satisfies a predicate, whose intervals are quotients. Other decays and means are not
    answered. Rows that come twice count twice.

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
    one_mass: ClassVar[bool] = True
    fades: ClassVar[bool] = True
    merged_to_answer: ClassVar[bool] = False
    abilities: ClassVar[Abilities] = Abilities(
        ("sum", "count", "frequency", "heavy-hitters", *sorted(NEEDS_ORDER - {"correlated-mean"})),
        columns=frozenset({"value"}),
        past=False,
        fixed_decay=True,
        curves=True,
    )

    parameters: OneMassParameters
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
        counting: Counting = "events",
    ) -> Exponential:
        """Summarise a batch of events for an exponential decay; `unit` is the length of one step of their times.

        `counting` says which mass of an event is kept: "events" keeps 1, "weight" its weight.
        """
        return cls._of(events, OneMassParameters.of(epsilon, decay, unit, seed, counting))

    @classmethod
    def _of(cls, events: Events, parameters: OneMassParameters) -> Exponential:
        extremes = Extremes.of(events)
        if extremes.newest is None:
            return cls(parameters, Masses.none(), Kind.INTEGER, Labels.none(), extremes)
        decayed = np.maximum(parameters.worth(extremes.newest, events.times), LEAST_MASS)
        codes = codes_of(events.values, events.kind)
        if events.weights is not None and parameters.counting == "weight":
            decayed *= events.weights
            codes, decayed = codes[decayed > 0.0], decayed[decayed > 0.0]  # weight 0 adds nothing to a mass of weight
        if len(codes) == 0:
            return cls(parameters, replace(Masses.none(), events=len(events)), events.kind, Labels.none(), extremes)
        keys = events.kind is Kind.KEY
        share = 0.0 if keys else parameters.share
        code, mass, coarse, least = by_code(codes, decayed, share)
        total = float(mass.sum())
        if keys:
            single = np.zeros(len(code), np.uint8)
            masses = Masses(code, single, mass, total, 0.0, len(events)).saved(parameters.counters)
        else:
            bounds = np.array([0, len(code)], np.int64)
            start, height, belongs = cover_points(bounds, code, mass, mass, CODE_BITS, parameters.share, ALL)
            if least:
                whole = belongs[coarse]
                height[whole] = np.maximum(height[whole], least)
            laid: Floats = np.bincount(belongs, weights=mass, minlength=len(start)).astype(np.float64)
            masses = Masses.merged([Masses(start, height, laid, total, 0.0, len(events))])
        return cls(parameters, masses, events.kind, _labels([events.labels], events.kind, masses), extremes)

    @classmethod
    def union(cls, sketches: Sequence[Exponential]) -> Exponential:
        """The sketch of all the sketches' events: scaled to the newest of them, added up, folded."""
        seen = mergeable(sketches)
        if len(seen) < 2:
            return seen[0] if seen else sketches[0]
        first, extremes = seen[0], Extremes.merged([sketch.extremes for sketch in seen])
        parts = [sketch._as_of(extremes.newest or 0) for sketch in seen]
        masses = Masses.merged(parts)
        if masses.total >= MOST_MASS:
            raise WaneError(f"all events together would weigh {MOST_MASS:g} or more")
        keys = first.kind is Kind.KEY
        masses = masses.saved(first.parameters.counters) if keys else masses.digested(first.parameters.share)
        labels = _labels([sketch.labels for sketch in seen], first.kind, masses)
        return cls(first.parameters, masses, first.kind, labels, extremes)

    @classmethod
    def faded(cls, sketches: Sequence[Exponential], later: Ints) -> Exponential:
        """The sketch of neighbouring epochs: what came later has its own masses, and changes nothing."""
        return cls.union(sketches)

    def scaled(self, factor: float) -> Exponential:
        """The sketch of the same events, each weighing so many times what it did: what C §7.3 calls Scale."""
        if not 0.0 <= factor <= 1e100:
            raise WaneError(f"factor is {factor!r}; it must be a number from 0 to 1e100")
        if self.masses.total * factor >= MOST_MASS:
            raise WaneError(f"factor is {factor!r}; all events together would weigh {MOST_MASS:g} or more")
        return replace(self, masses=self.masses.scaled(factor))

    def _as_of(self, time: int) -> Masses:
        return self.masses.scaled(float(self.parameters.worth(time, self.extremes.newest or 0)))

    @classmethod
    def askable(cls, sketches: Sequence[Exponential]) -> RangedMasses:
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
        return RangedMasses(
            family=cls.family,
            abilities=cls.abilities,
            kind=first.kind,
            labels=_labels([sketch.labels for sketch in seen], first.kind, *(sketch.masses for sketch in seen)),
            extremes=Extremes.merged([sketch.extremes for sketch in seen]),
            ranges=_Parts(oldest, newest, first.parameters),
            node=np.repeat(np.arange(len(seen)), [len(part[0]) for part in columns]),
            low=low,
            high=high,
            count=mass,
            weight=mass,
            width=first._width,
            kept=first.parameters.counting,
            single=single,
            rounding=(4096 + 3 * events) * 2.0**-53,  # of an exponential, and of each addition and scaling since
        )

    @cached_property
    def ranged(self) -> RangedMasses:
        return self.askable([self])

    def answer(self, question: Question, *, other: None = None) -> Estimate:
        """The answer, with bounds that the exact one is never outside of."""
        return self.ranged.answer(question)

    def series(self, question: Question, as_of: ArrayLike, *, other: None = None) -> Series:
        """The same question at many as-of times."""
        return self.ranged.series(question, as_of)

    @classmethod
    def _promise(cls, question: Question, built: Built, *, past: bool) -> Promise | None:
        if question.threshold is not None and built.weighted and question.by_weight != (built.counting == "weight"):
            return None  # the quantile that it is a multiple of counts as the question does
        return Promise.certainly(exponential_width(question, built))

    def _width(self, question: Question) -> float | None:
        """As `Digest` has it: ε for each end of a range of values."""
        epsilon = self.parameters.epsilon
        if question.threshold is not None or (question.aggregate in ("sum", "count") and not question.where):
            return None  # of all events only rounding makes an interval
        if question.where:
            return 2.0 * epsilon if question.aggregate in _SUMS else None
        return 2.0 * epsilon if question.two_ended else epsilon

    def to_bytes(self) -> bytes:
        writer = Writer()
        write_head(writer, self.kind, self.extremes, self.labels)
        write_masses(writer, self.masses)
        parameters = self.parameters
        return seal(self.family, PATHS_FORMAT, parameters.to_bytes(), parameters.seed, writer.to_bytes())

    @classmethod
    def _opened(cls, envelope: Envelope) -> Exponential:
        parameters = OneMassParameters.from_bytes(envelope.parameters, envelope.seed, envelope.version)
        reader = envelope.reader()
        kind, extremes, labels = read_head(reader)
        masses = read_masses(reader)
        reader.done()
        if (extremes.newest is None) != (masses.events == 0):
            raise CorruptError("the sketch has events but no masses, or masses but no events")
        if kind is Kind.KEY and (masses.height.any() or not np.isin(masses.code, labels.hashes).all()):
            raise CorruptError("a key has no label")
        return cls(parameters, masses, kind, labels, extremes)

    @property
    def kept(self) -> int:
        """Ranges or keys in the sketch."""
        return len(self.masses.mass)


def _labels(parts: Sequence[Labels], kind: Kind, *masses: Masses) -> Labels:
    return Labels.kept(parts, kind, [held.code for held in masses])


@dataclass(frozen=True, slots=True)
class _Parts:
    """Masses as of the newest event of each sketch: what they are worth later; nothing before the oldest."""

    oldest: Ints
    newest: Ints
    parameters: OneMassParameters

    def __len__(self) -> int:
        return len(self.newest)

    def limits(self, decay: Decay, moments: Ints) -> tuple[Floats, Floats]:
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
        worth = np.where(begun, np.maximum(worth, LEAST_MASS), 0.0)
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
