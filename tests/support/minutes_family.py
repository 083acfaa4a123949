"""A small family of the tests' own: what came in every minute, exactly. The last line is all that wane needs of it.

It answers sums, counts and means under any decay, between the weight of a minute's first and of its last second.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from sketches.arrays import Ints, Limits
from sketches.encoding.bodies import read_head, write_head
from sketches.encoding.envelope import FORMAT_VERSION, Envelope, Reader, Writer, seal
from sketches.encoding.packing import unzigzag, zigzag
from sketches.errors import CorruptError, WaneError
from sketches.estimate import Estimate, Series
from sketches.events import Events, Extremes, Kind, Labels
from sketches.family import Abilities, Sketch
from sketches.hashing import refuse_seed
from sketches.promise import Built, Promise
from sketches.question import Question
from sketches.refusals import mergeable, refuse
from sketches.registry import register
from sketches.time_ranges import TimeRanges
from sketches.units import SECOND, TimeUnit


@dataclass(frozen=True)
class MinutesParameters:
    step: int
    unit: TimeUnit
    seed: int


@dataclass(frozen=True)
class Minutes(Sketch):
    """Counts and weights by stretches of `step` units of time."""

    family: ClassVar[str] = "per-minute"
    abilities: ClassVar[Abilities] = Abilities(("sum", "count", "mean"))

    parameters: MinutesParameters
    minute: Ints
    count: Ints
    weight: Ints
    kind: Kind
    extremes: Extremes

    @classmethod
    def build(cls, events: Events, *, step: int = 60, seed: int = 0, unit: TimeUnit = SECOND) -> Minutes:
        if not 1 <= step <= 1 << 40:
            raise WaneError(f"step is {step!r}; it must be at least 1 and at most 2^40")
        refuse_seed(seed)
        return cls._of(events, MinutesParameters(step, unit, seed))

    @classmethod
    def _of(cls, events: Events, parameters: MinutesParameters) -> Minutes:
        weights = np.ones(len(events), np.int64) if events.weights is None else events.weights
        found = _summed(events.times // parameters.step, np.ones(len(events), np.int64), weights)
        return cls(parameters, *found, events.kind if len(events) else Kind.INTEGER, Extremes.of(events))

    @classmethod
    def union(cls, sketches: Sequence[Minutes]) -> Minutes:
        seen = mergeable(sketches)
        if not seen:
            return sketches[0]
        columns = (np.concatenate([getattr(one, name) for one in seen]) for name in ("minute", "count", "weight"))
        extremes = Extremes.merged([one.extremes for one in seen])
        return cls(seen[0].parameters, *_summed(*columns), seen[0].kind, extremes)

    @classmethod
    def _promise(cls, question: Question, built: Built, *, past: bool) -> Promise:
        step = float(built.own.get("step", 60))
        return Promise.certainly(min(1.0, step / max(question.decay.half_age, step)))

    def answer(self, question: Question, *, other: None = None) -> Estimate:
        as_of = question.as_of if question.as_of is not None else self.extremes.newest or 0
        value, lower, upper = (float(limit[0]) for limit in self._limits(question, np.array([as_of])))
        return Estimate(value, lower, upper, 1.0, self._guarantee, self.family, as_of, len(self.minute))

    def series(self, question: Question, as_of: ArrayLike, *, other: None = None) -> Series:
        moments = np.asarray(as_of, np.int64)
        used = np.full(len(moments), len(self.minute))
        return Series(moments, *self._limits(question, moments), 1.0, self._guarantee, self.family, used)

    @property
    def _guarantee(self) -> str:
        return f"never outside its bounds: every event is counted in its stretch of {self.parameters.step}"

    def _limits(self, question: Question, moments: Ints) -> Limits:
        refuse(self.family, self.abilities, question)
        first = self.minute * self.parameters.step
        ranges = TimeRanges(first, first + self.parameters.step - 1, self.parameters.unit)
        least, most = ranges.factors(question.decay, moments)
        bounds = [(least @ mass * (1.0 - 1e-12), most @ mass * (1.0 + 1e-12)) for mass in (self.weight, self.count)]
        (weight_low, weight_high), (count_low, count_high) = bounds
        if question.aggregate == "mean":
            with np.errstate(divide="ignore", invalid="ignore"):
                lower = np.where(count_high > 0.0, weight_low / count_high, 0.0)
                upper = np.where(count_low > 0.0, weight_high / count_low, float(self.extremes.greatest_weight))
            nothing = count_high == 0.0
            upper = np.maximum(np.minimum(upper, self.extremes.greatest_weight * (1.0 + 1e-12)), lower)
            return np.where(nothing, np.nan, (lower + upper) / 2.0), lower, upper
        lower, upper = bounds[question.masses == {"events"}]
        return (lower + upper) / 2.0, lower, upper

    def to_bytes(self) -> bytes:
        writer, parameters = Writer(), Writer()
        write_head(writer, self.kind, self.extremes, Labels.none())
        writer.varint(len(self.minute))
        writer.column(zigzag(self.minute))
        writer.column(self.count.view(np.uint64))
        writer.column(self.weight.view(np.uint64))
        for number in (self.parameters.step, self.parameters.unit.numerator, self.parameters.unit.denominator):
            parameters.u64(number)
        return seal(self.family, FORMAT_VERSION, parameters.to_bytes(), self.parameters.seed, writer.to_bytes())

    @classmethod
    def _opened(cls, envelope: Envelope) -> Minutes:
        reader = Reader(envelope.parameters)
        step, unit = reader.u64(), TimeUnit(reader.u64(), reader.u64())
        reader.done()
        if not (1 <= step <= 1 << 40 and unit.numerator and unit.denominator):
            raise CorruptError("the step or the time unit is out of range")
        reader = envelope.reader()
        kind, extremes, _ = read_head(reader)
        rows = reader.varint()
        if rows > reader.remaining * 128:
            raise CorruptError(f"{rows} stretches are announced, but only {reader.remaining} bytes are left")
        columns: list[Any] = [unzigzag(reader.column(rows)), *(reader.column(rows).view(np.int64) for _ in range(2))]
        reader.done()
        minute, count, weight = columns
        if (extremes.newest is None) != (rows == 0) or (np.diff(minute) <= 0).any():
            raise CorruptError("the stretches are not in order")
        if (count < 1).any() or (weight < count).any() or np.abs(minute.astype(np.float64)).max(initial=0.0) > 1 << 62:
            raise CorruptError("a stretch holds no events")
        return cls(MinutesParameters(step, unit, envelope.seed), minute, count, weight, kind, extremes)

    @property
    def kept(self) -> int:
        return len(self.minute)


def _summed(minute: Ints, count: Ints, weight: Ints) -> tuple[Ints, Ints, Ints]:
    distinct, where = np.unique(minute, return_inverse=True)
    totals = [np.zeros(len(distinct), np.int64) for _ in range(2)]
    for total, column in zip(totals, (count, weight), strict=True):
        np.add.at(total, where, column)
    return distinct.astype(np.int64), totals[0], totals[1]


register(Minutes)
