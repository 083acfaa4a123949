"""Value division: a digest of values for each block of time, of blocks that grow as they age.

Cohen and Strauss' division of time for one decay, as Cormode, Korn and Tirthapura 2008, §5.2, extend it to any summary
that merges. One sketch covers a source over all epochs, and its number of blocks grows with the logarithm of time
under polynomial decay. Which blocks there are follows from the clock alone, the newest event's (`sketches.blocks`); an
event that comes late joins its block.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import field, replace
from functools import lru_cache
from typing import Any, ClassVar, Final, Self

import numpy as np

from sketches.arrays import Flags, Ints, distinct_sorted
from sketches.blocks.grid import Blocks, Grid
from sketches.blocks.reach import regions
from sketches.decay import Decay, parse_decay
from sketches.decay.functions import LastEvents
from sketches.digests.digest import DAY, Digest, DigestParameters
from sketches.digests.dyadic_forest import CODE_BITS, Forest, refuse_too_much
from sketches.digests.forest_bytes import read_forest, write_forest
from sketches.digests.tallies import changes
from sketches.durations import human_duration, parse_duration
from sketches.encoding.envelope import Envelope, Reader, Writer
from sketches.encoding.value_codes import codes_of
from sketches.errors import CorruptError, WaneError
from sketches.events import Events, Extremes
from sketches.family import Scope
from sketches.promise import Built
from sketches.question import Question
from sketches.records import dataclass
from sketches.refusals import mergeable
from sketches.units import SECOND, TimeUnit

HISTORY: Final = "3650d"
DOUBT_FORMAT: Final = 12  # of a sketch that lost events, and does not know which of some blocks
MOST_REGIONS: Final = 4096  # a sketch has about twice as many blocks


@dataclass(frozen=True, slots=True)
class DividedParameters(DigestParameters):
    """Beside the accuracy, the decay that the blocks are made for and for how many seconds it is to be told apart."""

    decay: Decay
    history: float

    @classmethod
    def made(
        cls, epsilon: float, decay: Decay | str, span: int, unit: TimeUnit, seed: int, history: float
    ) -> DividedParameters:
        checked = DigestParameters.of(epsilon, span, unit, seed)
        known = parse_decay(decay) if isinstance(decay, str) else decay
        if isinstance(known, LastEvents):
            raise WaneError(f"decay is {known.spec}; blocks of time are made for a decay by age")
        made = cls(checked.epsilon, checked.span, unit, seed, known, float(history))
        found = regions(known, made.error, made.history)
        if found > MOST_REGIONS:
            parts = "endlessly many" if found == float("inf") else f"{found:,.0f}"
            raise WaneError(
                f"decay is {known.spec}: within {human_duration(made.history)} its weight falls by {made.error:.2g} "
                f"of itself {parts} times, and each time takes two blocks; at most {MOST_REGIONS:,} times are taken. "
                "Choose a slower decay, a shorter history or a larger epsilon"
            )
        return made

    @property
    def error(self) -> float:
        """What times may add to an interval, and what values may: both together ε, as (1 + error)² = 1 + ε."""
        return float(np.sqrt(1.0 + self.epsilon)) - 1.0

    @property
    def grid(self) -> Grid:
        return Grid(self.decay, self.unit, self.span, self.error, self.history)

    def width(self, decay: Decay, oldest_age: int) -> float:
        """How wide an interval is at the most, of the answer, under a decay that may be another one: Lemma 1.

        Infinite where events are older than blocks are made for: only of log-convex decays is then anything known.
        """
        if oldest_age > self.unit.whole(self.history) and not (decay.log_convex and self.decay.log_convex):
            return math.inf
        if decay == self.decay:
            return self.epsilon
        return _quotient(self, decay, oldest_age) * (1.0 + self.error) - 1.0

    def to_bytes(self) -> bytes:
        writer = Writer()
        writer.blob(DigestParameters.to_bytes(self))
        writer.blob(self.decay.spec.encode())
        writer.f64(self.history)
        return writer.to_bytes()

    @classmethod
    def from_bytes(cls, data: bytes, seed: int) -> DividedParameters:
        reader = Reader(data)
        common = DigestParameters.from_bytes(bytes(reader.blob()), seed)
        spec, history = reader.blob(), reader.f64()
        reader.done()
        try:
            return cls.made(common.epsilon, spec.decode(), common.span, common.unit, seed, checked(history))
        except (UnicodeDecodeError, WaneError) as error:
            raise CorruptError(f"the parameters of a sketch are out of range: {error}") from error


@lru_cache(maxsize=64)
def _quotient(parameters: DividedParameters, decay: Decay, oldest_age: int) -> float:
    return parameters.grid.quotient(decay, oldest_age)


def checked(history: float | str) -> float:
    """The seconds of a duration."""
    return parse_duration(history if isinstance(history, str) else repr(float(history)))


@dataclass(frozen=True)
class DividedDigest(Digest):
    """A digest of values for each block; a family says what it promises of values.

    Events can be taken out again by their time. Blocks that lie wholly in such a time go. Of one that it cuts nobody
    knows which of its events went: it is in `doubt`, and may be anything from nothing to what it says.
    """

    scope: ClassVar[Scope] = Scope.SOURCE
    loses_events: ClassVar[bool] = True
    valued: ClassVar[bool] = True
    settings: ClassVar[type[DigestParameters]] = DividedParameters

    parameters: DividedParameters
    doubt: Forest = field(default_factory=Forest.empty, repr=False)

    @classmethod
    def build(  # type: ignore[override]
        cls,
        events: Events,
        *,
        decay: Decay | str,
        epsilon: float = 0.05,
        span: int = DAY,
        seed: int = 0,
        unit: TimeUnit = SECOND,
        history: float | str = HISTORY,
    ) -> Self:
        """Summarise a batch of events for a decay, and those that it dominates.

        `span` is the length of an epoch, to which blocks are aligned, and `unit` that of a step of time. `history` is
        how long a past the sketch is made for, such as 365d: a decay that would take too many blocks is refused.
        """
        return cls._of(events, DividedParameters.made(epsilon, decay, span, unit, seed, checked(history)))

    @classmethod
    def _of(cls, events: Events, parameters: DividedParameters) -> Self:
        extremes = Extremes.of(events)
        if extremes.newest is None:
            forest, kind = Forest.empty(), events.kind
            return cls(parameters, forest, kind, cls._labels([events.labels], kind, forest), extremes)
        weights = events.weights if events.weights is not None else np.empty(0, np.int64)
        refuse_too_much(weights)
        blocks = parameters.grid.holding(events.times, extremes.newest)
        first = distinct_sorted(blocks.first)
        node = np.searchsorted(first, blocks.first)
        height = np.empty(len(first), np.uint8)
        height[node] = blocks.height
        interval = np.floor_divide(first, parameters.span)
        start = (first - interval * parameters.span).view(np.uint64)
        codes = codes_of(events.values, events.kind)
        forest = Forest.laid(interval, start, height, node, codes, weights, cls._shape(parameters))
        return cls(parameters, forest, events.kind, cls._labels([events.labels], events.kind, forest), extremes)

    @classmethod
    def union(cls, sketches: Sequence[Self]) -> Self:
        """The sketch of all the sketches' events: their blocks grown to the newest clock, their digests merged."""
        seen = mergeable(sketches)
        if len(seen) < 2:
            return seen[0] if seen else sketches[0]
        first, extremes = seen[0], Extremes.merged([one.extremes for one in seen])
        parameters, shape = first.parameters, cls._shape(first.parameters)
        rows = Forest.summed([sketch.forest for sketch in seen] + [sketch.doubt for sketch in seen])
        blocks = Blocks(rows.interval * parameters.span + rows.start.view(np.int64), rows.height)
        grown = parameters.grid.grown(blocks, extremes.newest or 0)
        interval = np.floor_divide(grown.first, parameters.span)
        start = (grown.first - interval * parameters.span).view(np.uint64)
        moved = replace(rows, interval=interval, start=start, height=grown.height)
        sure = np.arange(len(rows)) < sum(len(sketch.forest) for sketch in seen)
        assert shape.value_share is not None
        forest, doubt = (
            moved.taken(which).gathered().folded_in_value(shape.value_share, shape.value_of) for which in (sure, ~sure)
        )
        labels = cls._labels([sketch.labels for sketch in seen], first.kind, Forest.joined([forest, doubt]))
        return cls(parameters, forest, first.kind, labels, extremes, doubt=doubt)

    @property
    def rows(self) -> Forest:
        return Forest.joined([self.forest, self.doubt]) if len(self.doubt) else self.forest

    @property
    def doubtful(self) -> Flags | None:
        return np.arange(len(self.rows)) >= len(self.forest) if len(self.doubt) else None

    def without(self, begin: int, end: int, sources: Sequence[str] | None = None, *, for_good: bool = False) -> Self:
        """The sketch without the events from `begin` to before `end`; all of it is of one source.

        `for_good`: of blocks that the time cuts only how much they hold is left, and no value.
        """
        rows, (first, last) = self.rows, self._times()
        left, stays = (first < begin) | (last >= end), (last < begin) | (first >= end)
        if stays.all():
            return self
        known = _without_values(rows) if for_good else rows
        sure, cut = stays.copy(), left & ~stays
        sure[len(self.forest) :] = False
        forest = rows.taken(sure)
        doubt = Forest.joined([rows.taken(left & stays & ~sure), known.taken(cut)]).gathered()
        extremes = _extremes_left(self.extremes, first[left], last[left], begin, end)
        labels = self._labels([self.labels], self.kind, Forest.joined([forest, doubt]))
        return replace(
            self,
            forest=forest,
            doubt=doubt,
            labels=labels,
            extremes=extremes.roughly(self.kind) if for_good else extremes,
        )

    def _oldest_age(self, question: Question) -> int:
        """By the time of a question."""
        oldest, newest = self.extremes.oldest or 0, self.extremes.newest or 0
        return max(newest, newest if question.as_of is None else question.as_of) - oldest

    def _times(self) -> tuple[Ints, Ints]:
        """The newest block ends with the newest event, the oldest one begins with the oldest."""
        begin, end = super()._times()
        return np.maximum(begin, self.extremes.oldest or 0), np.minimum(end, self.extremes.newest or 0)

    @classmethod
    def _opened(cls, envelope: Envelope) -> Self:
        sketch = super()._opened(envelope)
        begin, end = sketch.rows.times(sketch.parameters.span)
        if len(sketch.doubt):
            order = np.lexsort((end, begin))
            begin, end = begin[order], end[order]
        first = changes((begin, end))
        if (begin[first][1:] <= end[first][:-1]).any():
            raise CorruptError("two blocks of time overlap")
        oldest, newest = sketch.extremes.oldest, sketch.extremes.newest
        if oldest is not None and newest is not None and not (begin[0] <= oldest <= end[0] and begin[-1] <= newest):
            raise CorruptError("the oldest or the newest event is in no block of time")
        return sketch

    @classmethod
    def built_by(cls, built: Built) -> DividedParameters | None:
        """The parameters of stored sketches; None where settings cannot be read or rule sketches out."""
        unit = built.stored.unit
        span = round(built.epoch_seconds * unit.denominator / unit.numerator)
        if built.decay is None:
            return None
        try:
            history = checked(built.own.get("history", HISTORY))
            return DividedParameters.made(built.epsilon, built.decay, span, unit, 0, history)
        except WaneError:
            return None

    @property
    def blocks(self) -> int:
        """How many blocks of time hold events."""
        return len(np.unique(np.column_stack(self._times()), axis=0))

    def _write_more(self, writer: Writer) -> int:
        if len(self.doubt) == 0:
            return super()._write_more(writer)
        write_forest(writer, self.doubt, valued=True)
        return DOUBT_FORMAT

    @classmethod
    def _read_more(cls, reader: Reader, parameters: Any) -> dict[str, Any]:
        if reader.version < DOUBT_FORMAT:
            return {}
        doubt = read_forest(reader, cls._shape(parameters))
        if len(doubt) == 0:
            raise CorruptError("blocks are said to be in doubt, but there is none")
        return {"doubt": doubt}


def _without_values(rows: Forest) -> Forest:
    """The masses without anything known of their values."""
    return replace(rows, code=np.zeros(len(rows), np.uint64), code_height=np.full(len(rows), CODE_BITS, np.uint8))


def _extremes_left(known: Extremes, first: Ints, last: Ints, begin: int, end: int) -> Extremes:
    """What is known of the events that are left, in stretches from their `first` to their `last` times."""
    if len(first) == 0 or known.oldest is None or known.newest is None:
        return Extremes()
    oldest = max(known.oldest if not begin <= known.oldest < end else end, int(first.min()))
    newest = min(known.newest if not begin <= known.newest < end else begin - 1, int(last.max()))
    return replace(known, oldest=oldest, newest=newest)
