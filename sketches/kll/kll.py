"""The `kll` family: quantiles and shares under any decay from KLL sketches, also from those that others have made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from functools import cached_property
from typing import ClassVar, Final, Self

from numpy.typing import ArrayLike

from sketches.encoding.bodies import read_head, write_head
from sketches.encoding.envelope import FORMAT_VERSION, Envelope, Reader, Writer, seal
from sketches.errors import CorruptError, UnanswerableError, WaneError
from sketches.estimate import Curve, Estimate, Series
from sketches.event_rules import MAX_TIME
from sketches.events import Events, Extremes, Kind, Labels
from sketches.family import Abilities, Sketch
from sketches.hashing import refuse_seed
from sketches.kll import library
from sketches.kll.decayed_ranks import DecayedRanks, Part
from sketches.kll.expected_widths import kll_width
from sketches.kll.kll_answers import COUNTS, KllAnswers
from sketches.kll.kll_bytes import ITEMS, KllBytes, k_for
from sketches.promise import DEFAULT_DELTA, Built, Promise
from sketches.question import Question
from sketches.records import dataclass
from sketches.refusals import mergeable
from sketches.units import SECOND, TimeUnit

SIDE_BY_SIDE: Final = 16  # parts of an epoch; beyond them the library merges all into one
_LEAST_ERROR, _MOST_ERROR = 0.0005, 0.3  # what k may be from 8 to 65,535
_KINDS: Final = tuple(ITEMS)


@dataclass(frozen=True, slots=True)
class KllParameters:
    """The error of ranks, the probability that an interval misses, and what kind of values sketches of others hold.

    The seed decides nothing: the library's generator takes none. Every sketch of a stream has one.
    """

    epsilon: float
    delta: float
    items: str
    unit: TimeUnit
    seed: int

    @classmethod
    def of(cls, epsilon: float, delta: float, items: str, unit: TimeUnit, seed: int) -> KllParameters:
        if not _LEAST_ERROR <= epsilon <= _MOST_ERROR:
            raise WaneError(f"epsilon is {epsilon!r}; a KLL sketch takes {_LEAST_ERROR} to {_MOST_ERROR}")
        if not 0 < delta < 1:
            raise WaneError(f"delta is {delta!r}; it must lie strictly between 0 and 1")
        if items not in ITEMS:
            raise WaneError(f"items is {items!r}; it must be {', '.join(map(repr, ITEMS))}")
        refuse_seed(seed)
        return cls(float(epsilon), float(delta), items, unit, seed)

    def to_bytes(self) -> bytes:
        writer = Writer()
        writer.f64(self.epsilon)
        writer.f64(self.delta)
        writer.u8(_KINDS.index(self.items))
        writer.u64(self.unit.numerator)
        writer.u64(self.unit.denominator)
        return writer.to_bytes()

    @classmethod
    def from_bytes(cls, data: bytes, seed: int) -> KllParameters:
        reader = Reader(data)
        epsilon, delta, items = reader.f64(), reader.f64(), reader.u8()
        unit = TimeUnit(reader.u64(), reader.u64())
        reader.done()
        if not unit.possible or items >= len(_KINDS):
            raise CorruptError("the parameters of a sketch name no unit of time, or no kind of values")
        try:
            return cls.of(epsilon, delta, _KINDS[items], unit, seed)
        except WaneError as error:
            raise CorruptError(f"the parameters of a sketch are out of range: {error}") from error

    def items_of(self, kind: Kind) -> str:
        """The kind of the library's values where the stream's are of a kind."""
        return "bigint" if kind is Kind.INTEGER else "float" if self.items == "float" else "double"


@dataclass(frozen=True)
class Kll(Sketch):
    """KLL sketches of Apache DataSketches, each with the times between which its rows came.

    Question: decayed counts of all rows or of a range of values; selectivity, rank, quantiles and median; under any
    decay function, at any as-of time. Each row counts once: by weight it answers where every weight is 1.

    Guarantee: inside the interval with probability 1 - δ. Ranks of a sketch are off by at most
    2.296/k^0.9723 of its rows in 99% of all sketches, as the library has measured (between two ends 2.446/k^0.9433);
    wane takes these errors for independent and normal, so over many sketches their squares add up. To that comes what
    the decay varies within the times of a sketch, which holds always. Each answer tells both. A sketch that keeps all
    of its rows adds no error of ranks.

    Not bounded: the relative error of counts over few rows; single values, and lists of them. Rows that come twice
    count twice. The library's compaction is random and takes no seed: equal rows give other bytes.

    Memory: about 3·k values a sketch, 2.6 kB for k = 200 (ε = 0.0133); up to 16 sketches stand side by side in an
    epoch of a source, then the library merges them.

    >>> from sketches import Events, Question
    >>> events = Events.of(ids=range(5000), times=range(5000), values=[i % 100 for i in range(5000)])
    >>> estimate = Kll.build(events, epsilon=0.01).answer(Question("median", "none"))
    >>> estimate.lower <= 49 <= estimate.upper
    True

    Reference: Karnin, Lang, Liberty, Optimal quantile approximation in streams (2016), in the implementation of Apache
    DataSketches.
    """

    family: ClassVar[str] = "kll"
    abilities: ClassVar[Abilities] = Abilities(
        (*COUNTS, "selectivity", "rank", "quantile", "median", "range-frequency"),
        kinds=(Kind.INTEGER, Kind.FLOAT),
        columns=frozenset({"value"}),
        curves=True,
    )
    merged_to_answer: ClassVar[bool] = False
    takes_sketches: ClassVar[bool] = True

    parameters: KllParameters
    held: tuple[Part, ...] = field(repr=False)
    kind: Kind
    extremes: Extremes

    @classmethod
    def build(
        cls,
        events: Events,
        *,
        epsilon: float = 0.05,
        delta: float = DEFAULT_DELTA,
        items: str = "double",
        seed: int = 0,
        unit: TimeUnit = SECOND,
    ) -> Self:
        """Summarise a batch of events to an error of ranks; `items` is what sketches that others have made hold."""
        return cls._of(events, KllParameters.of(epsilon, delta, items, unit, seed))

    @classmethod
    def _of(cls, events: Events, parameters: KllParameters) -> Self:
        if len(events) == 0:
            return cls(parameters, (), Kind.INTEGER, Extremes())
        if events.kind not in cls.abilities.kinds:
            raise UnanswerableError("the kll family ranks numbers; these values are text")
        extremes = Extremes.of(events)
        sketch = library.built(events.values, k_for(parameters.epsilon), parameters.items_of(events.kind))
        return cls(parameters, (_part(sketch, extremes),), events.kind, extremes)

    @classmethod
    def taken_in(cls, sketches: Sequence[bytes], begin: int, end: int, **settings: object) -> tuple[bytes, int]:
        parameters = cls.build(Events.of([], []), **settings).parameters  # type: ignore[arg-type]
        kind = cls.kind_taken_in(**settings)
        found = [KllBytes.read(data, parameters.items) for data in sketches]
        parts = [Part(one, begin, end - 1) for one in found if one.rows]
        rows = sum(one.rows for one in found)
        ends = [float(end) for part in parts for end in (part.sketch.least, part.sketch.greatest)]
        seen = Extremes(begin, end - 1, min(ends), max(ends)) if parts else Extremes()
        whole = cls(parameters, _few(parts, parameters.items), kind, seen)
        return whole.to_bytes(), rows

    @classmethod
    def kind_taken_in(cls, **settings: object) -> Kind:
        return Kind.INTEGER if settings.get("items") == "bigint" else Kind.FLOAT

    @classmethod
    def rows_taken_in(cls, data: bytes, **settings: object) -> int:
        return KllBytes.read(data, str(settings.get("items", "double"))).rows

    @classmethod
    def union(cls, sketches: Sequence[Self]) -> Self:
        """The sketch of all the sketches' events: their parts side by side while they are few."""
        seen = mergeable(sketches)
        if len(seen) < 2:
            return seen[0] if seen else sketches[0]
        first = seen[0]
        parts = _few([part for sketch in seen for part in sketch.held], first.parameters.items_of(first.kind))
        return cls(first.parameters, parts, first.kind, Extremes.merged([one.extremes for one in seen]))

    @classmethod
    def askable(cls, sketches: Sequence[Self]) -> KllAnswers:
        """The parts of all the sketches side by side: nothing is merged."""
        seen = mergeable(sketches) or sketches[:1]
        first = seen[0]
        parts = [part for sketch in seen for part in sketch.held]
        return KllAnswers(
            cls.family,
            cls.abilities,
            first.kind,
            Extremes.merged([sketch.extremes for sketch in seen]),
            first.parameters.delta,
            DecayedRanks.of_parts(parts, first.kind.dtype, first.parameters.unit),
        )

    @cached_property
    def answers(self) -> KllAnswers:
        return self.askable([self])

    def answer(self, question: Question, *, other: None = None) -> Estimate:
        """The answer with its interval."""
        return self.answers.answer(question)

    def series(self, question: Question, as_of: ArrayLike, *, other: None = None) -> Series:
        """The same question at many as-of times."""
        return self.answers.series(question, as_of)

    def threshold_curve(self, question: Question, thresholds: ArrayLike, *, together: bool = False) -> Curve:
        return self.answers.threshold_curve(question, thresholds, together=together)

    def quantile_curve(self, question: Question, shares: ArrayLike, *, together: bool = False) -> Curve:
        return self.answers.quantile_curve(question, shares, together=together)

    def to_bytes(self) -> bytes:
        writer = Writer()
        write_head(writer, self.kind, self.extremes, Labels.none())
        writer.u8(len(self.held))
        for part in self.held:
            writer.i64(part.oldest)
            writer.i64(part.newest)
            writer.blob(part.sketch.to_bytes())
        parameters = self.parameters
        return seal(self.family, FORMAT_VERSION, parameters.to_bytes(), parameters.seed, writer.to_bytes())

    @classmethod
    def _opened(cls, envelope: Envelope) -> Self:
        parameters = KllParameters.from_bytes(envelope.parameters, envelope.seed)
        reader = envelope.reader()
        kind, extremes, labels = read_head(reader)
        if kind not in cls.abilities.kinds or labels.texts:
            raise CorruptError("a KLL sketch ranks numbers, and these are keys")
        parts = []
        for _ in range(reader.u8()):
            oldest, newest = reader.i64(), reader.i64()
            parts.append(Part(KllBytes.read(reader.blob(), parameters.items_of(kind)), oldest, newest))
        reader.done()
        if len(parts) > SIDE_BY_SIDE or any(part.sketch.rows == 0 for part in parts):
            raise CorruptError(f"{len(parts)} parts stand side by side, at most {SIDE_BY_SIDE} do, none of them empty")
        if (extremes.newest is None) != (not parts):
            raise CorruptError("the sketch has events but no parts, or parts but no events")
        for part in parts:
            if not (extremes.oldest or 0) <= part.oldest <= part.newest <= (extremes.newest or 0) <= MAX_TIME:
                raise CorruptError("a part of a sketch lies outside the times of its events")
        return cls(parameters, tuple(parts), kind, extremes)

    @property
    def kept(self) -> int:
        """Values in the sketch."""
        return sum(len(part.sketch.values) for part in self.held)

    @classmethod
    def _promise(cls, question: Question, built: Built, *, past: bool) -> Promise | None:
        restricted = bool(question.where) and question.aggregate not in COUNTS
        if restricted or question.threshold is not None or (built.weighted and question.masses != {"events"}):
            return None
        return Promise(kll_width(question, built), certain=False)


def _part(sketch: KllBytes, extremes: Extremes) -> Part:
    return Part(sketch, extremes.oldest or 0, extremes.newest or 0)


def _few(parts: Sequence[Part], items: str) -> tuple[Part, ...]:
    """The parts in an order of their own, so that merging commutes; all of them as one where they are many."""
    placed = sorted(parts, key=lambda part: (part.oldest, part.newest, part.sketch.to_bytes()))
    if len(placed) <= SIDE_BY_SIDE:
        return tuple(placed)
    whole = library.merged([part.sketch for part in placed], items)
    return (Part(whole, min(part.oldest for part in placed), max(part.newest for part in placed)),)
