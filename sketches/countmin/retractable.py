"""The `retractable` family: a Count-Min sketch under exponential decay, which can take events back.

Counters are sums over events, so the weight that an event has by now can be subtracted again (paper C §7.2). The price:
bounds hold only with a probability, and only sums and the frequency of a value are answered.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import field, replace
from itertools import pairwise
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import ArrayLike

from sketches import guarantees
from sketches.arrays import Flags, Floats, Ints, Words, frozen
from sketches.compiled import njit
from sketches.countmin.counter_reading import collided
from sketches.countmin.expected_widths import retractable_width
from sketches.countmin.signed_counters import most_of
from sketches.decay import Decay
from sketches.encoding.bodies import read_head, write_head
from sketches.encoding.envelope import FORMAT_VERSION, Envelope, Reader, Writer, seal
from sketches.encoding.value_codes import codes_of, greatest_code, least_code
from sketches.errors import CorruptError, EventError, QuestionError, UnanswerableError, WaneError
from sketches.estimate import Estimate, Series
from sketches.events import Events, Extremes, Kind, Labels
from sketches.exponential_parameters import ExponentialParameters
from sketches.family import Abilities, Sketch
from sketches.hashing import finalise_one, hash_one, salt
from sketches.promise import Built, Promise
from sketches.question import Counting, Question
from sketches.records import dataclass
from sketches.refusals import mergeable, refuse, refuse_other_mass
from sketches.units import SECOND, TimeUnit
from sketches.vocabulary import COUNTINGS

SIGNED_FORMAT: Final = 11  # counters may be below 0, and what came and went is told besides
_ROUNDING: Final = 1e-12  # of f
_TERMS: Final = 4096  # additions that a total takes besides one an event


@dataclass(frozen=True, slots=True)
class CountMinParameters:
    """The decay, ε and δ, and what an event counts: sketches merge only where all of this, and the seed, agrees."""

    decayed: ExponentialParameters
    delta: float
    counting: Counting = "events"

    @classmethod
    def of(
        cls,
        epsilon: float,
        delta: float,
        decay: Decay | str,
        unit: TimeUnit,
        seed: int,
        counting: Counting = "events",
    ) -> CountMinParameters:
        if not 1e-9 <= delta < 1:
            raise WaneError(f"delta is {delta!r}; it must be at least 1e-9 and below 1")
        if counting not in COUNTINGS:
            raise WaneError(f"counting is {counting!r}; it must be one of {', '.join(COUNTINGS)}")
        return cls(ExponentialParameters.of(epsilon, decay, unit, seed), float(delta), counting)

    @property
    def rows(self) -> int:
        return max(1, math.ceil(math.log(1.0 / self.delta)))

    @property
    def bits(self) -> int:
        """The width of a row is a power of two, at least e/ε."""
        return math.ceil(math.log2(math.e / self.decayed.epsilon))

    @property
    def salts(self) -> Words:
        return np.array([salt(self.decayed.seed, row) for row in range(self.rows)], np.uint64)

    def to_bytes(self) -> bytes:
        writer = Writer()
        writer.f64(self.delta)
        writer.blob(self.decayed.to_bytes())
        writer.u8(COUNTINGS.index(self.counting))
        return writer.to_bytes()

    @classmethod
    def from_bytes(cls, data: bytes, seed: int, version: int = FORMAT_VERSION) -> CountMinParameters:
        reader = Reader(data, version)
        delta, decayed = reader.f64(), ExponentialParameters.from_bytes(reader.blob(), seed)
        counting = reader.u8() if version > 1 else COUNTINGS.index("weight")  # before there was a choice
        reader.done()
        if counting >= len(COUNTINGS):
            raise CorruptError("what the counters of a sketch count is unknown")
        if not 1e-9 <= delta < 1:
            raise CorruptError(f"delta is {delta!r}; it must be at least 1e-9 and below 1")
        return cls(decayed, delta, COUNTINGS[counting])


@dataclass(frozen=True)
class Retractable(Sketch):
    """Mergeable Count-Min sketch of a stream under one exponential decay, from which events can be taken back.

    Question: decayed count of the events or, where built with `counting="weight"`, decayed sum of the weights; of that,
    the frequency of a value, a number or a key. As of the newest event or later.

    Guarantee: the count or sum is exact but for rounding. The frequency of a value is at most the estimate and, with
    probability at least 1 - δ over the seed, at least the estimate less ε. Once something was taken back it lies within
    its interval with probability at least 1 - δ, in whatever order events came and were taken back, at whichever site,
    also where what came is not among what is asked; of a value of which then more was taken back than came the share is
    0, and none is above 1. What is left is rounded as all that came and went.

    Not bounded: shares where all that is asked weighs nothing or less. Nothing else is answered.

    Memory: e/ε counters, rounded up to a power of two, times ln 1/δ: ε = δ = 0.05 keeps 3 rows of 64 counters, 1.6 kB.

    >>> events = Events.of(ids=range(100), times=range(100), values=[i % 10 for i in range(100)])
    >>> sketch = Retractable.build(events, decay="exp:half_life=10m")
    >>> sketch.delete(events.rows(50, 100)).answer(Question("frequency", "exp:half_life=10m", value=3)).upper < 0.2
    True

    Reference: Cormode, Korn, Tirthapura, Time-decaying aggregates in out-of-order streams (paper C) §7.2; Cormode,
    Muthukrishnan, An improved data stream summary: the Count-Min sketch and its applications.
    """

    family: ClassVar[str] = "retractable"
    one_mass: ClassVar[bool] = True
    takes_back: ClassVar[bool] = True
    abilities: ClassVar[Abilities] = Abilities(("sum", "count", "frequency"), past=False, fixed_decay=True)

    parameters: CountMinParameters
    counters: Floats = field(repr=False)  # rows by columns, as of the newest event
    total: float  # and it may be below 0, like a counter, where what was taken back came elsewhere
    turnover: float  # all that was put in and all that was taken back, as of the newest event
    events: int  # of which adding up the masses rounds as much as all additions and deletions have
    kind: Kind
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
    ) -> Retractable:
        """Count a batch of events for an exponential decay; `unit` is the length of one step of their times.

        With `counting="weight"` an event counts as often as its weight says, not once.
        """
        return cls._of(events, CountMinParameters.of(epsilon, delta, decay, unit, seed, counting))

    @classmethod
    def _of(cls, events: Events, parameters: CountMinParameters) -> Retractable:
        extremes = Extremes.of(events)
        counters = np.zeros((parameters.rows, 1 << parameters.bits))
        if extremes.newest is None:
            return cls(parameters, counters, 0.0, 0.0, 0, Kind.INTEGER, extremes)
        decayed = parameters.decayed.worth(extremes.newest, events.times)
        if events.weights is not None and parameters.counting == "weight":
            decayed *= events.weights
        codes = codes_of(events.values, events.kind)
        _count(counters, frozen(codes), frozen(decayed), parameters.salts, parameters.bits)
        total = float(decayed.sum())
        return cls(parameters, counters, total, total, len(events), events.kind, extremes)

    def delete(self, events: Events) -> Retractable:
        """The sketch without these events, which were or will be put in, here or elsewhere, with the same times, values
        and weights."""
        gone = Retractable._of(events, self.parameters)
        if gone.extremes.newest is not None and self.extremes.newest is not None and gone.kind is not self.kind:
            raise EventError(f"events of kind {gone.kind} are to be deleted, but those put in are of kind {self.kind}")
        return self.merge(replace(gone, counters=-gone.counters, total=-gone.total))

    @classmethod
    def payloads_less(cls, events: Events, bounds: Ints, gone: Flags, **settings: Any) -> list[bytes]:
        found = []
        for begin, end in pairwise(bounds.tolist()):
            rows, back = events.rows(begin, end), gone[begin:end]
            found.append(cls.build(rows.take(~back), **settings).delete(rows.take(back)).to_bytes())
        return found

    @property
    def slack(self) -> float:
        """How far the total, or a counter, may be off by rounding."""
        return self.turnover * (_ROUNDING + (_TERMS + 3 * self.events) * 2.0**-53)

    @property
    def lacks(self) -> bool:
        """Whether more was taken back of something than was put in."""
        return bool(self.total < -self.slack or self.counters.min(initial=0.0) < -self.slack)

    @property
    def took_back(self) -> bool:
        """Whether anything was taken back: then some of it may have come elsewhere."""
        return self.turnover - self.total > self.slack

    def scaled(self, factor: float) -> Retractable:
        """The summary of the same events, each weighing so many times what it did (C §7.3)."""
        return replace(
            self, counters=self.counters * factor, total=self.total * factor, turnover=self.turnover * factor
        )

    @classmethod
    def union(cls, sketches: Sequence[Retractable]) -> Retractable:
        """The sketch of all the sketches' events: scaled to the newest of them and added up."""
        seen = mergeable(sketches)
        if len(seen) < 2:
            return seen[0] if seen else sketches[0]
        first, extremes = seen[0], Extremes.merged([sketch.extremes for sketch in seen])
        worth = first.parameters.decayed.worth
        parts = [sketch.scaled(float(worth(extremes.newest or 0, sketch.extremes.newest or 0))) for sketch in seen]
        total, turnover = (math.fsum(getattr(part, name) for part in parts) for name in ("total", "turnover"))
        # each part was rounded as its own masses were: together as so many events of the same mass would be
        slack, events = math.fsum(part.slack for part in parts), 0
        if turnover > 0.0:
            events = math.ceil(((slack / turnover - _ROUNDING) * 2.0**53 - _TERMS) / 3.0)
        counters = np.sum([part.counters for part in parts], axis=0)
        events = max(events, 0) + len(parts)
        return replace(first, counters=counters, total=total, turnover=turnover, events=events, extremes=extremes)

    @classmethod
    def _promise(cls, question: Question, built: Built, *, past: bool) -> Promise:
        return Promise(retractable_width(question, built), certain=question.aggregate in ("sum", "count"))

    def answer(self, question: Question, *, other: None = None) -> Estimate:
        """The sum, or the share of a value with its interval."""
        decayed = self.parameters.decayed
        as_of = question.as_of if question.as_of is not None else self.extremes.newest or 0
        refuse(self.family, self.abilities, question)
        refuse_other_mass(self.family, question, self.parameters.counting, self.extremes)
        if question.decay != decayed.decay:
            raise UnanswerableError(f"the sketch was built for the decay {decayed.decay.spec} only")
        newest = self.extremes.newest
        if newest is not None and as_of < newest:
            raise UnanswerableError(
                f"as_of is {as_of}, but the newest event is at {newest}: ask for that time or later"
            )
        if question.confidence is not None and question.confidence > 1.0 - self.parameters.delta:
            raise UnanswerableError(
                f"confidence is {question.confidence}; this sketch's bound holds with probability "
                f"{1.0 - self.parameters.delta:.6g}: build it with a smaller delta"
            )
        now = 1.0 if newest is None else float(decayed.worth(as_of, newest))
        confidence, said = 1.0, guarantees.NEVER_OUTSIDE
        if question.aggregate in ("sum", "count"):
            total, least = self.total, -math.inf if self.lacks else 0.0
            value, lower, upper = (max(mass, least) * now for mass in (total, total - self.slack, total + self.slack))
            value = min(max(value, lower), upper)
        elif self.total < -self.slack:
            raise UnanswerableError(
                "more was taken back than was put in: where it came is not among what is asked, so no share is known"
            )
        elif max(self.total, self.slack) * now <= 0.0:
            value, lower, upper = math.nan, 0.0, 1.0
        else:
            value, lower, upper = self._share(question)
            confidence = 1.0 - self.parameters.delta
            said = guarantees.clauses(
                guarantees.inside(confidence),
                guarantees.within(
                    max(value - lower, upper - value), "the decayed " + _counted(self.parameters.counting)
                ),
            )
            said = guarantees.clauses(said, guarantees.TAKEN_BACK if self.took_back else "")
        said = guarantees.clauses(said, guarantees.ROWS)
        return Estimate(value, lower, upper, confidence, said, self.family, as_of, int(self.total > 0.0))

    def _share(self, question: Question) -> tuple[float, float, float]:
        """The share of a value with its limits: the least of its counters, and that less what collides with it."""
        own, slack, chance = self._own_counters(question), self.slack, self.parameters.delta / 2.0
        counter = max(float(own.min(initial=np.inf)), 0.0) if len(own) else 0.0
        most = counter
        if self.took_back and len(own):
            most = max(most_of(own, self.counters, chance, slack), counter)
        total = max(self.total, slack)  # what is left of it may be rounding alone
        excess = collided(np.maximum(self.counters, 0.0), chance) + slack
        lower = min(max(counter - slack - excess, 0.0) / (total + slack), 1.0)
        upper = min((most + slack) / (total - slack), 1.0) if total > slack else 1.0
        return min(max(counter / total, lower), upper), lower, upper

    def series(self, question: Question, as_of: ArrayLike, *, other: None = None) -> Series:
        """The same question at many as-of times."""
        moments = np.asarray(as_of, np.int64)
        if moments.ndim != 1:
            raise QuestionError(f"as_of has {moments.ndim} dimensions; a series takes a flat array of times")
        answers = [self.answer(question.at(moment)) for moment in moments.tolist()]
        least = min(answers, key=lambda each: each.confidence) if answers else self.answer(question)
        value, lower, upper = (
            np.array([getattr(each, name) for each in answers]) for name in ("value", "lower", "upper")
        )
        used = np.array([each.used for each in answers], np.int64)
        return Series(moments, value, lower, upper, least.confidence, least.guarantee, self.family, used)

    def _own_counters(self, question: Question) -> Floats:
        """The counters of a value, one a row; none of a number that no event can have."""
        value = question.value
        if self.kind is Kind.KEY:
            code = int(hash_one(str(value)))
        else:
            if isinstance(value, str) or value is None:
                raise UnanswerableError(f"value is {value!r}, but this stream's values are numbers")
            code = least_code(value, self.kind)
            if code != greatest_code(value, self.kind):
                return np.empty(0)  # no whole number
        return _own(self.counters, np.uint64(code), self.parameters.salts, self.parameters.bits)

    @property
    def kept(self) -> int:
        """Counters in the sketch."""
        return int(self.counters.size)

    def to_bytes(self) -> bytes:
        writer = Writer()
        write_head(writer, self.kind, self.extremes, Labels.none())
        writer.varint(self.events)
        writer.f64(self.total)
        writer.f64(self.turnover)
        writer.column(np.ascontiguousarray(self.counters).reshape(-1).view(np.uint64))
        parameters = self.parameters
        return seal(self.family, SIGNED_FORMAT, parameters.to_bytes(), parameters.decayed.seed, writer.to_bytes())

    @classmethod
    def _opened(cls, envelope: Envelope) -> Retractable:
        parameters = CountMinParameters.from_bytes(envelope.parameters, envelope.seed, envelope.version)
        reader = envelope.reader()
        kind, extremes, _ = read_head(reader)
        events, total = reader.varint(), reader.f64()
        turnover = reader.f64() if reader.version >= SIGNED_FORMAT else total
        counters = reader.column(parameters.rows << parameters.bits).view(np.float64)
        reader.done()
        if (extremes.newest is None) != (events == 0):
            raise CorruptError("the sketch has events but no counts, or counts but no events")
        if not (np.isfinite(counters).all() and abs(total) < 1e290 and 0.0 <= turnover < 1e290):
            raise CorruptError("a counter is not a finite number")
        if reader.version < SIGNED_FORMAT:
            if counters.min() < 0.0:
                raise CorruptError("a counter is below 0, as before format 11 none was")
            turnover = max(turnover, float(counters.max()))  # they were cut off at 0, and then held more than was left
        if turnover >= 1e290:
            raise CorruptError("a counter is too large for sums of counters")
        if max(abs(total), float(np.abs(counters).max())) > turnover * (1.0 + 1e-6):
            raise CorruptError("a counter is larger than all that came and went")
        table = counters.reshape(parameters.rows, -1).copy()
        return cls(parameters, table, total, turnover, events, kind, extremes)


def _counted(counting: Counting) -> str:
    return "count" if counting == "events" else "sum"


@njit(cache=True, nogil=True)
def _count(counters: Floats, codes: Words, masses: Floats, salts: Words, bits: int) -> None:
    shift = np.uint64(64 - bits)
    for at in range(len(codes)):
        for row in range(len(salts)):
            counters[row, finalise_one(codes[at] ^ salts[row]) >> shift] += masses[at]


@njit(cache=True, nogil=True)
def _own(counters: Floats, code: np.uint64, salts: Words, bits: int) -> Floats:
    shift = np.uint64(64 - bits)
    own = np.empty(len(salts))
    for row in range(len(salts)):
        own[row] = counters[row, finalise_one(code ^ salts[row]) >> shift]
    return own
