"""What `histogram` and `qdigest` share: parameters, building, merging, bytes, and the masses that answer."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import field, replace
from functools import cached_property
from typing import Any, ClassVar, Final, Self

import numpy as np
from numpy.typing import ArrayLike

from sketches.arrays import Flags, Ints
from sketches.digests.dyadic_forest import Forest, Shape
from sketches.digests.dyadic_tree import PATHS_FORMAT
from sketches.digests.forest_bytes import FADED_FORMAT, read_forest, write_forest
from sketches.digests.ranged_masses import RangedMasses
from sketches.encoding.bodies import read_head, write_head
from sketches.encoding.envelope import Envelope, Reader, Writer, seal
from sketches.encoding.value_codes import codes_of
from sketches.errors import CorruptError, WaneError
from sketches.estimate import Estimate, Series
from sketches.events import Events, Extremes, Kind, Labels
from sketches.family import Sketch
from sketches.hashing import refuse_seed
from sketches.question import Question
from sketches.records import dataclass
from sketches.refusals import mergeable
from sketches.time_ranges import TimeRanges
from sketches.units import SECOND, TimeUnit

DAY: Final = 86_400
LAST_EVENTS_FACTOR: Final = 3.0  # times ε in time: the share of the newest N rows that may be in or out
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
        refuse_seed(seed)
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
        if not unit.possible:
            raise CorruptError("the time unit of a sketch is not a number of seconds")
        try:
            return cls.of(epsilon, span, unit, seed)
        except WaneError as error:
            raise CorruptError(f"the parameters of a sketch are out of range: {error}") from error


@dataclass(frozen=True)
class Digest(Sketch):
    """A forest of an accuracy; a family says what it keeps of values, what it answers and what it promises."""

    merged_to_answer: ClassVar[bool] = False
    valued: ClassVar[bool]  # whether values are kept, or times alone
    of_itself: ClassVar[bool] = False  # whether widths are relative to the answer, also where it is of a part
    settings: ClassVar[type[DigestParameters]] = DigestParameters

    parameters: DigestParameters
    forest: Forest = field(repr=False)
    kind: Kind
    labels: Labels = field(repr=False)
    extremes: Extremes
    has_faded: bool = False  # whether ranges of time are wider than what came in their interval allows

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
    def _of(cls, events: Events, parameters: Any) -> Self:
        codes = codes_of(events.values, events.kind) if cls.valued else None
        forest = Forest.build(events, codes, cls._shape(parameters))
        kind = events.kind if cls.valued else Kind.INTEGER
        return cls(parameters, forest, kind, cls._labels([events.labels], kind, forest), Extremes.of(events))

    @property
    def rows(self) -> Forest:
        """All masses, first those that are certain."""
        return self.forest

    @property
    def doubtful(self) -> Flags | None:
        """Which of them may be less than they say, or nothing; None: none."""
        return None

    @classmethod
    @abstractmethod
    def _shape(cls, parameters: Any) -> Shape:
        """How much the ranges of the family's trees may carry."""

    @classmethod
    def _labels(cls, parts: Sequence[Labels], kind: Kind, forest: Forest) -> Labels:
        """Only a key that has a range of its own can be named."""
        return Labels.kept(parts, kind, [forest.code[forest.code_height == 0]])

    @abstractmethod
    def _width(self, question: Question) -> float | None:
        """How wide an answer is at the most, of what, as of the newest event or later; None: that is not known before.

        Of a sum or count relative to that of all events, of a mean to itself; of a quantile how far off its rank is.
        """

    @classmethod
    def union(cls, sketches: Sequence[Self]) -> Self:
        """The sketch of all the sketches' events, with the accuracy of each."""
        seen = mergeable(sketches)
        if len(seen) < 2:
            return seen[0] if seen else sketches[0]
        first = seen[0]
        forest = Forest.merged([sketch.forest for sketch in seen], cls._shape(first.parameters))
        labels = cls._labels([sketch.labels for sketch in seen], first.kind, forest)
        extremes = Extremes.merged([one.extremes for one in seen])
        faded = any(one.has_faded for one in seen)
        return cls(first.parameters, forest, first.kind, labels, extremes, faded)

    @property
    def mass(self) -> Ints:
        """How many events there are, and what they weigh."""
        return np.array([self.forest.count.sum(), self.forest.weight.sum()], np.int64)

    @classmethod
    def faded(cls, sketches: Sequence[Self], later: Ints) -> Self:
        """The sketch of neighbouring epochs as one tree of time, that counts `later` as what came after it."""
        seen = mergeable(sketches) or sketches[:1]
        first = seen[0]
        forest = Forest.faded([sketch.forest for sketch in seen], cls._shape(first.parameters), *later.tolist())
        labels = cls._labels([sketch.labels for sketch in seen], first.kind, forest)
        extremes = Extremes.merged([one.extremes for one in seen])
        return cls(first.parameters, forest, first.kind, labels, extremes, True)

    @classmethod
    def askable(cls, sketches: Sequence[Self]) -> RangedMasses:
        """The masses of all the sketches with their ranges, ready to be asked: nothing is merged, nothing widened."""
        seen = mergeable(sketches) or sketches[:1]
        first, parameters = seen[0], seen[0].parameters
        forest = Forest.joined([sketch.rows for sketch in seen])
        unsure = [np.zeros(len(one.rows), bool) if one.doubtful is None else one.doubtful for one in seen]
        doubtful = np.concatenate(unsure) if any(one.doubtful is not None for one in seen) else None
        faded = any(one.has_faded for one in seen)
        begin, end = (np.concatenate(ends) for ends in zip(*(sketch._times() for sketch in seen), strict=True))
        order = np.lexsort((end, begin))
        fresh = np.ones(len(order), bool)
        fresh[1:] = (np.diff(begin[order]) != 0) | (np.diff(end[order]) != 0)
        node = np.empty(len(order), np.intp)
        node[order] = np.cumsum(fresh) - 1
        ranges = order[fresh]
        extremes = Extremes.merged([sketch.extremes for sketch in seen])
        count = forest.count.astype(np.float64)
        rows = np.bincount(node, weights=count, minlength=len(ranges)).astype(np.float64)
        return RangedMasses(
            family=cls.family,
            abilities=cls.abilities,
            kind=first.kind,
            labels=cls._labels([sketch.labels for sketch in seen], first.kind, forest),
            extremes=extremes,
            ranges=TimeRanges(begin[ranges], end[ranges], parameters.unit, rows),
            node=node,
            low=forest.code,
            high=forest.code | forest.code_mask(),
            count=count,
            weight=forest.weight.astype(np.float64),
            width=_unknown if faded or doubtful is not None else replace(first, extremes=extremes)._width,
            of_itself=cls.of_itself,
            doubtful=doubtful,
            has_faded=faded,
        )

    def _times(self) -> tuple[Ints, Ints]:
        """Between which times each mass came."""
        return self.rows.times(self.parameters.span)

    @cached_property
    def masses(self) -> RangedMasses:
        return self.askable([self])

    def answer(self, question: Question, *, other: None = None) -> Estimate:
        """The answer, with bounds that the exact one is never outside of."""
        return self.masses.answer(question)

    def series(self, question: Question, as_of: ArrayLike, *, other: None = None) -> Series:
        """The same question at many as-of times."""
        return self.masses.series(question, as_of)

    def to_bytes(self) -> bytes:
        writer = Writer()
        write_head(writer, self.kind, self.extremes, self.labels)
        write_forest(writer, self.forest, self.valued)
        version = self._write_more(writer)
        return seal(self.family, version, self.parameters.to_bytes(), self.parameters.seed, writer.to_bytes())

    def _write_more(self, writer: Writer) -> int:
        """What a family keeps besides, and the format version that this takes."""
        return FADED_FORMAT if self.has_faded else PATHS_FORMAT

    @classmethod
    def _read_more(cls, reader: Reader, parameters: Any) -> dict[str, Any]:
        """What `_write_more` wrote, as further fields of the sketch."""
        return {"has_faded": reader.version >= FADED_FORMAT}

    @classmethod
    def _opened(cls, envelope: Envelope) -> Self:
        parameters = cls.settings.from_bytes(envelope.parameters, envelope.seed)
        reader = envelope.reader()
        kind, extremes, labels = read_head(reader)
        forest = read_forest(reader, cls._shape(parameters))
        sketch = cls(parameters, forest, kind, labels, extremes, **cls._read_more(reader, parameters))
        reader.done()
        rows = sketch.rows
        if (extremes.newest is None) != (len(rows) == 0):
            raise CorruptError("the sketch has events but no masses, or masses but no events")
        single = rows.code[rows.code_height == 0]
        if kind is Kind.KEY and not np.isin(single, labels.hashes).all():
            raise CorruptError("a key has no label")
        return sketch

    @property
    def kept(self) -> int:
        """Ranges in the sketch."""
        return len(self.rows)


def _unknown(question: Question) -> None:
    """The width before an answer where masses are in doubt."""
