"""What `histogram` and `qdigest` share: parameters, building, merging, bytes, and the boxes that answer."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, Final, Self

import numpy as np
from numpy.typing import NDArray

from sketches.boxes import Boxes, TimeRanges
from sketches.codec import read_head, write_head
from sketches.drawn import SECOND, Extremes, TimeUnit
from sketches.errors import CorruptError, WaneError
from sketches.estimate import Estimate, Series
from sketches.events import Events, Kind, Labels
from sketches.forest import Forest, Shape
from sketches.merging import mergeable
from sketches.order import codes_of
from sketches.question import Question
from sketches.stored import Stored
from sketches.wire import FORMAT_VERSION, Envelope, Reader, Writer, seal

DAY: Final = 86_400
_LONGEST: Final = 1 << 48


@dataclass(frozen=True, slots=True)
class DigestParameters:
    """Accuracy, the interval that has a tree of its own (an epoch), and the length of a step of time.

    The seed decides nothing, for nothing here is random; it is kept because all sketches of a stream have one.
    """

    epsilon: float
    span: int
    unit: TimeUnit
    seed: int

    @classmethod
    def of(cls, epsilon: float, span: int, unit: TimeUnit, seed: int) -> DigestParameters:
        if not 0.001 <= epsilon < 1:
            raise WaneError(f"epsilon is {epsilon!r}; it must be at least 0.001 and below 1")
        if not 1 <= span <= _LONGEST:
            raise WaneError(f"span is {span!r}; an interval has at least 1 and at most 2^48 times")
        if not 0 <= seed < 1 << 64:
            raise WaneError(f"seed is {seed}; it must be at least 0 and below 2^64")
        return cls(float(epsilon), int(span), unit, seed)

    def to_bytes(self) -> bytes:
        writer = Writer()
        writer.f64(self.epsilon)
        writer.u64(self.span)
        writer.u64(self.unit.numerator)
        writer.u64(self.unit.denominator)
        return writer.to_bytes()

    @classmethod
    def from_bytes(cls, data: bytes, seed: int) -> DigestParameters:
        reader = Reader(data)
        epsilon, span, unit = reader.f64(), reader.u64(), TimeUnit(reader.u64(), reader.u64())
        reader.done()
        if not (unit.numerator and unit.denominator):
            raise CorruptError("the time unit of a sketch is not a number of seconds")
        try:
            return cls.of(epsilon, span, unit, seed)
        except WaneError as error:
            raise CorruptError(f"the parameters of a sketch are out of range: {error}") from error


@dataclass(frozen=True)
class Digest(Stored):
    """A forest of an accuracy; a family says what it keeps of values, what it answers and what it promises."""

    family: ClassVar[str]
    answered: ClassVar[tuple[str, ...]]
    valued: ClassVar[bool]

    parameters: DigestParameters
    forest: Forest = field(repr=False)
    kind: Kind
    labels: Labels = field(repr=False)
    extremes: Extremes

    @classmethod
    def build(
        cls, events: Events, *, epsilon: float = 0.05, span: int = DAY, seed: int = 0, unit: TimeUnit = SECOND
    ) -> Self:
        """Summarise a batch of events to an accuracy.

        `span` is the number of times in an interval that has a tree of its own, an epoch; `unit` is the length of one
        step of time.
        """
        return cls._of(events, DigestParameters.of(epsilon, span, unit, seed))

    @classmethod
    def _of(cls, events: Events, parameters: DigestParameters) -> Self:
        codes = codes_of(events.values, events.kind) if cls.valued else None
        forest = Forest.build(events, codes, cls._shape(parameters))
        kind = events.kind if cls.valued else Kind.INTEGER
        return cls(parameters, forest, kind, cls._labels([events.labels], kind, forest), Extremes.of(events))

    @classmethod
    @abstractmethod
    def _shape(cls, parameters: DigestParameters) -> Shape:
        """How much the ranges of the family's trees may carry."""

    @classmethod
    def _labels(cls, parts: Sequence[Labels], kind: Kind, forest: Forest) -> Labels:
        """Only a key that has a range of its own can be named."""
        return Labels.kept(parts, kind, [forest.code[forest.code_height == 0]])

    @abstractmethod
    def _bound(self, question: Question) -> str:
        """What is promised of an answer, in words."""

    @classmethod
    def union(cls, sketches: Sequence[Self]) -> Self:
        """The sketch of all the sketches' events, with the accuracy of each."""
        seen = mergeable(sketches)
        if len(seen) < 2:
            return seen[0] if seen else sketches[0]
        first = seen[0]
        forest = Forest.merged([sketch.forest for sketch in seen], cls._shape(first.parameters))
        labels = cls._labels([sketch.labels for sketch in seen], first.kind, forest)
        return cls(first.parameters, forest, first.kind, labels, Extremes.merged([one.extremes for one in seen]))

    @classmethod
    def side_by_side(cls, sketches: Sequence[Self]) -> Boxes:
        """The masses of all the sketches with their ranges, ready to be asked: nothing is merged, nothing widened."""
        seen = mergeable(sketches) or sketches[:1]
        first, parameters = seen[0], seen[0].parameters
        forest = Forest.joined([sketch.forest for sketch in seen])
        begin, end = forest.times(parameters.span)
        order = np.lexsort((end, begin))
        fresh = np.ones(len(order), bool)
        fresh[1:] = (np.diff(begin[order]) != 0) | (np.diff(end[order]) != 0)
        node = np.empty(len(order), np.intp)
        node[order] = np.cumsum(fresh) - 1
        ranges = order[fresh]
        return Boxes(
            family=cls.family,
            answered=cls.answered,
            kind=first.kind,
            labels=cls._labels([sketch.labels for sketch in seen], first.kind, forest),
            extremes=Extremes.merged([sketch.extremes for sketch in seen]),
            ranges=TimeRanges(begin[ranges], end[ranges], parameters.unit),
            node=node,
            low=forest.code,
            high=forest.code | forest.code_mask(),
            count=forest.count.astype(np.float64),
            weight=forest.weight.astype(np.float64),
            bound=first._bound,
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

    def to_bytes(self) -> bytes:
        writer = Writer()
        write_head(writer, self.kind, self.extremes, self.labels)
        self.forest.write(writer, self.valued)
        parameters = self.parameters
        return seal(self.family, FORMAT_VERSION, parameters.to_bytes(), parameters.seed, writer.to_bytes())

    @classmethod
    def _opened(cls, envelope: Envelope) -> Self:
        parameters = DigestParameters.from_bytes(envelope.parameters, envelope.seed)
        reader = Reader(envelope.body)
        kind, extremes, labels = read_head(reader)
        forest = Forest.read(reader, cls._shape(parameters))
        reader.done()
        if (extremes.newest is None) != (len(forest) == 0):
            raise CorruptError("a sketch of events has no masses, or one of none has")
        single = forest.code[forest.code_height == 0]
        if kind is Kind.KEY and not np.isin(single, labels.hashes).all():
            raise CorruptError("a key has no label")
        return cls(parameters, forest, kind, labels, extremes)

    @property
    def kept(self) -> int:
        """Ranges in the sketch."""
        return len(self.forest)
