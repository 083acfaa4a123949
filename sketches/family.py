"""The contract of every family of sketches. Whatever the rest of wane must know of a family, it asks here.

A family is one class that extends `Sketch`, one line in `sketches.registry` and one line in the conformance suite;
`docs/add-a-family.md` walks through a small one. A family says of itself:

- how its sketches are built from events, merged to be stored, and written as bytes; what one covers (`scope`);
- how the sketches of many sources and epochs stand side by side to be asked (`gather`, `side_by_side`);
- what it answers (`abilities`), and how wide an interval to expect for a question before anybody looks at the answer
  (`promise`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sketches.arrays import Floats, Ints
from sketches.changes import Changes, Stretch
from sketches.decay.functions import LastEvents
from sketches.differences import UNKNOWN
from sketches.encoding.envelope import Envelope, load
from sketches.errors import CorruptError, EventError, UnanswerableError
from sketches.estimate import Curve, Estimate, Series, SplitSeries
from sketches.event_rules import Repeats
from sketches.events import Events, Extremes, Kind
from sketches.fading import Fades
from sketches.fields import KnownField
from sketches.monitoring.readings import Readings, Shape
from sketches.parts import FieldGap, HourTotals, Parts, Piece, SliceLengths
from sketches.predicate import ColumnType
from sketches.promise import Built, Promise
from sketches.question import Question
from sketches.records import dataclass
from sketches.retraction import TakesBack
from sketches.site_parts import SitePart
from sketches.sketches_of_others import TakenIn
from sketches.splittable import Splittable
from sketches.vocabulary import NO_RATES, ONE_SHARE


class Scope(StrEnum):
    """What one stored sketch of a family covers."""

    EPOCH = "epoch"  # one source in one epoch
    SOURCE = "source"  # one source over all epochs
    STREAM = "stream"  # all sources over all epochs


@dataclass(frozen=True, slots=True)
class Abilities:
    """What a family answers, before its settings are known."""

    aggregates: tuple[str, ...]
    kinds: tuple[Kind, ...] = tuple(Kind)  # of values that it can be built from
    of_value: bool = False  # sums and means of the value, not only of the weight
    columns: frozenset[str] = frozenset()  # of events, by which a predicate can restrict an answer
    fields: bool = False  # further columns of events: restricts, compares and sums by them
    any_predicate: bool = False  # not only ranges of these columns and one text
    any_threshold: bool = False  # a threshold τ that is the mean of the values, and quantiles above any τ
    last_events: bool = False  # windows of the newest events by number
    past: bool = True  # as of times before the newest event
    fixed_decay: bool = False  # answers only under the decay that it was built for
    curves: bool = False  # whole curves over thresholds and shares
    forgives_repeats: bool = False  # an event counts once however often it comes
    tells_repeats: bool = False  # knows how often events came, and counts them once or each time, as is asked
    by_source: bool = False  # all sources at once, each with its answer
    tells_tails: bool = False  # certain of the share beyond any threshold, by which other families are compared
    joint_lists: bool = False  # the intervals of a list hold all together, not only each by itself
    watched: bool = False  # has counters by window whose sums over many sites can be watched

    @property
    def joins(self) -> bool:
        """Whether two sources can be joined."""
        return "inner-product" in self.aggregates

    def refusal(self, question: Question) -> str | None:
        """Why no sketch of the family answers the question, whatever its settings; None where one may."""
        if question.aggregate not in self.aggregates:
            return f"does not answer {question.aggregate}; it answers {', '.join(self.aggregates)}"
        if question.phis or question.per_second:
            return ONE_SHARE if question.phis else NO_RATES
        if question.of_value and not self.of_value:
            return f"does not answer {question.aggregate} of the value, only of the weight"
        if (question.compared != "value" or (question.ranks_above and question.ranked != "value")) and not self.fields:
            return f"knows values and weights by themselves, and does not answer {question.aggregate} of {question.of}"
        if question.fields and not self.fields:
            return f"keeps no fields, and so knows nothing of {' and '.join(sorted(question.fields))}"
        if unknown := sorted((question.where.columns | question.share.columns) - self.columns - question.fields):
            known = f"only by {' and '.join(sorted(self.columns))}" if self.columns else "by nothing"
            return f"cannot restrict an answer by {' and '.join(unknown)}: it selects events {known}"
        if not self.any_predicate and not question.where.is_simple:
            return f"selects events only by ranges of numbers and by one text, not where {question.where.words()}"
        if not self.any_predicate and question.share:
            return f"has the share of a closed range of values, not of events where {question.share.words()}"
        unusual = question.threshold is not None and (question.threshold.phi is None or question.ranks_above)
        if unusual and not self.any_threshold:
            return "has no mean of the values to set a threshold by, and no quantile above a threshold"
        if question.threshold is not None and question.threshold.own and not self.by_source:
            return f"answers for no groups, of which {question.tau} would be"
        if isinstance(question.decay, LastEvents) and not self.last_events:
            return f"does not answer over a number of newest events ({question.decay.spec})"
        return None

    def include(self, question: Question) -> bool:
        """Whether some sketch of the family answers the question."""
        return self.refusal(question) is None


class Askable(ABC):
    """What answers questions: one sketch, or the sketches of many sources and epochs side by side."""

    kind: Kind  # of the values

    def type_of(self, column: str) -> ColumnType:
        """What a column holds that takes the place of the value."""
        return ColumnType.TEXT if column == "value" and self.kind is Kind.KEY else ColumnType.NUMBER

    def unknown_fields(self, names: Collection[str], as_of: int) -> Mapping[str, FieldGap]:
        """Of these fields those that some events came without, as of a time."""
        return {}

    @abstractmethod
    def answer(self, question: Question, *, other: Any = None) -> Estimate:
        """The answer with its bound; `other` is the second side of an inner product.

        `UnanswerableError` where the family has no answer.
        """

    @abstractmethod
    def series(self, question: Question, as_of: ArrayLike, *, other: Any = None) -> Series:
        """The same question at many as-of times, in one pass; `other` as in `answer`."""

    def threshold_curve(self, question: Question, thresholds: ArrayLike, *, together: bool = False) -> Curve:
        """The sum over the events with v ≥ τ for many thresholds τ, at one as-of time.

        Its limits hold at each point by itself or, if asked `together`, at all points at once.
        """
        raise UnanswerableError("this family has no curves")

    def quantile_curve(self, question: Question, shares: ArrayLike, *, together: bool = False) -> Curve:
        """The value at each share φ, at one as-of time; its limits hold as those of `threshold_curve`."""
        raise UnanswerableError("this family has no curves")

    def changes(
        self,
        question: Question,
        columns: Sequence[str],
        inside: Stretch,
        outside: Sequence[Stretch],
        sources: Any = None,
    ) -> Changes:
        """How the shares of values in these columns differ between a stretch of time and others, without decay, of the
        events of a question; `sources` also those of the sources."""
        raise UnanswerableError("this family cannot say what changed")


@dataclass(frozen=True, slots=True)
class Gathered:
    """One epoch of the chosen sources in a family's own form."""

    content: Any


class Sketch(Askable, Fades, SitePart, TakenIn, TakesBack):
    """A sketch of one family: a value that nothing changes once it is built; `merge` returns a new one.

    What is abstract here a family must say. All else has a default, for merged sketches that answer as well as parts.
    """

    family: ClassVar[str]
    abilities: ClassVar[Abilities]
    scope: ClassVar[Scope] = Scope.EPOCH
    first_format: ClassVar[Mapping[str, object]] = {}  # settings of sketches of format 1, which had no choice
    one_mass: ClassVar[bool] = False  # keeps of each event 1 or its weight, by the setting `counting`, not both
    merged_to_answer: ClassVar[bool] = True  # False where sketches side by side answer better than merged ones
    in_parts: ClassVar[bool] = False  # a sketch of a stream is stored in segments, and answers for some sources too
    earlier: ClassVar[type[Sketch] | None] = None  # kept by epoch what sketches of this family now keep by stream
    changeable: ClassVar[frozenset[str]] = frozenset()  # settings with which sketches merge although they differ

    parameters: Any  # what must agree before sketches merge
    kind: Kind
    extremes: Extremes

    # Building and merging.

    @classmethod
    @abstractmethod
    def build(cls, events: Events, *args: Any, **settings: Any) -> Self:
        """The sketch of a batch of events; a family takes settings of its own, all of them by name."""

    @classmethod
    @abstractmethod
    def _of(cls, events: Events, parameters: Any) -> Self:
        """The sketch of a batch of events, with parameters that were checked before."""

    @classmethod
    def payloads(cls, events: Events, bounds: ArrayLike, **settings: Any) -> list[bytes]:
        """The bytes of a sketch for each group of rows: group i is the rows `bounds[i]` to `bounds[i + 1]`.

        The same bytes as building the groups one by one; the settings are those of `build`.
        """
        edges = np.asarray(bounds, np.int64)
        if len(edges) and (edges[0] < 0 or edges[-1] > len(events) or (edges[1:] < edges[:-1]).any()):
            raise EventError(f"bounds are {edges}; they must rise, from 0 at least to {len(events)} rows at most")
        return cls._payloads(events, edges, **settings)

    @classmethod
    def _payloads(cls, events: Events, bounds: Ints, **settings: Any) -> list[bytes]:
        return [cls.build(events.rows(*group), **settings).to_bytes() for group in pairwise(bounds.tolist())]

    @classmethod
    def partial(cls, events: Events, sources: NDArray[np.int32], names: Sequence[str], **settings: Any) -> Self:
        """The sketch of rows of many sources, for a family of which one sketch covers a stream.

        A source is its number among the names. A family that keeps the sources of its events answers for some of them.
        """
        return cls.build(events, **settings)

    @classmethod
    @abstractmethod
    def union(cls, sketches: Sequence[Self]) -> Self:
        """The sketch of all the sketches' events; refuses unequal parameters or seeds and names both."""

    def merge(self, other: Self) -> Self:
        """The sketch of both sketches' events."""
        return self.union([self, other])

    def insert(self, events: Events) -> Self:
        """The sketch with a further batch of events: the same as merging it with a sketch built from them."""
        return self.merge(self._of(events, self.parameters))

    # Bytes.

    @abstractmethod
    def to_bytes(self) -> bytes:
        """The wire format of `sketches.encoding.envelope`; equal sketches have equal bytes."""

    @classmethod
    @abstractmethod
    def _opened(cls, envelope: Envelope) -> Self:
        """The sketch in an envelope of its own family."""

    @classmethod
    def from_envelope(cls, envelope: Envelope) -> Self:
        """The sketch in an opened envelope; `CorruptError` where it holds anything else."""
        if envelope.family != cls.family:
            raise CorruptError(f"the bytes hold a sketch of family {envelope.family!r}, not {cls.family!r}")
        return cls._opened(envelope)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        return load(data, {cls.family: cls.from_envelope})

    @property
    def nbytes(self) -> int:
        """The size of `to_bytes`."""
        return len(self.to_bytes())

    # A sketch of a stream in parts.

    def parts(self, epoch: int) -> Parts:
        """The sketch as it is stored, in segments that end where epochs of this length end."""
        raise NotImplementedError(f"the {self.family} family is not stored in parts")

    @classmethod
    def from_parts(cls, head: bytes, segments: Sequence[Piece], before: Any = None) -> tuple[Self, dict[int, str]]:
        """What `parts` gave, and for each segment that cannot be read its number and why; refuses a damaged head."""
        raise NotImplementedError(f"the {cls.family} family is not stored in parts")

    def of(self, names: Sequence[str] | None, repeats: Repeats = Repeats.FORGIVEN) -> Askable:
        """What answers for some of the sources, or for all, as the stream takes repeats."""
        raise NotImplementedError(f"the {self.family} family does not know its sources")

    def by_source(self, names: Sequence[str], repeats: Repeats = Repeats.FORGIVEN) -> Splittable:
        """What answers for each of these sources at once."""
        raise UnanswerableError(f"the {self.family} family does not answer for all sources at once")

    @classmethod
    def by_field(cls, askable: Any, name: str) -> Splittable:
        """What answers for each value of a field at once."""
        raise UnanswerableError(f"the {cls.family} family keeps no fields to split an answer by")

    @classmethod
    def correlation(cls, askable: Any, question: Question, other: Any, asked: Question) -> float:
        """That of the errors of two answers, the second by `other`; -1 where nothing is known of it."""
        return UNKNOWN

    @classmethod
    def classes_over_time(cls, askable: Any, question: Question, as_of: ArrayLike, edges: Floats) -> SplitSeries:
        """The share of values in each class between two edges, and beyond them, at many times."""
        raise UnanswerableError(f"the {cls.family} family has no shares of classes of values over time")

    def readings(self, askable: Any, window: Question, value: Any = None) -> Readings:
        """What counters like this sketch's hold over a window, or those of one value, for sites to send."""
        raise UnanswerableError(f"the {self.family} family has no counters to be watched")

    @property
    def shape(self) -> Shape:
        """Of the counters that sites send; refuses settings with which they cannot be watched."""
        raise UnanswerableError(f"the {self.family} family has no counters to be watched")

    def moved(self, sketches: Sequence[tuple[str, Sketch]]) -> tuple[Self, list[int]]:
        """The sketch with what `earlier` ones hold, each with its source, and the numbers of those that lack events.

        The latter stay as they are, and are asked side by side with it.
        """
        raise NotImplementedError(f"the {self.family} family has no earlier form")

    @classmethod
    def is_earlier(cls, payload: bytes) -> bool:
        """Whether these bytes are of a sketch of the `earlier` form, by what their beginning says."""
        return False

    def kept_share(self, times: Ints) -> Floats:
        """Which share of the events of each time is kept."""
        raise NotImplementedError(f"the {self.family} family keeps no events")

    def hour_totals(self) -> HourTotals | None:
        """Exact totals of the rows of every hour; None where they were not counted."""
        return None

    def known_fields(self) -> Mapping[str, KnownField]:
        """What is known of the fields of all events."""
        return {}

    def slice_lengths(self, time: int) -> SliceLengths:
        """Of exact totals, around a time."""
        return SliceLengths()

    def smaller(self, than: Self | None = None) -> Self:
        """The sketch with half of its capacity, or with no more capacity than another one has."""
        raise NotImplementedError(f"the {self.family} family has no capacity")

    def named(self, source: str) -> Self:
        """The sketch of the same events, which come from this source where they came from one without a name."""
        return self

    def without(self, begin: int, end: int, sources: Sequence[str] | None = None, *, for_good: bool = False) -> Self:
        """The sketch without the events from `begin` to before `end`, of all sources or of some.

        `for_good`: it must not tell either what their values, weights and times were.
        """
        raise NotImplementedError(f"the {self.family} family cannot take events out")

    @property
    @abstractmethod
    def kept(self) -> int:
        """How many rows, ranges or counters the sketch keeps."""

    # Standing side by side to be asked.

    @classmethod
    def gather(cls, sketches: Sequence[Self]) -> Gathered:
        """One epoch of several sources, as it is held in memory until the store changes."""
        return Gathered((cls.union(sketches),) if cls.merged_to_answer else tuple(sketches))

    @classmethod
    def side_by_side(cls, epochs: Sequence[Gathered]) -> Askable:
        """All gathered epochs, ready to be asked."""
        return cls.askable([sketch for epoch in epochs for sketch in epoch.content])

    @classmethod
    def askable(cls, sketches: Sequence[Self]) -> Askable:
        """These sketches of any sources and epochs as one that can be asked."""
        return cls.union(sketches)

    # What is promised.

    @classmethod
    def promise(cls, question: Question, built: Built, *, past: bool) -> Promise | None:
        """What to expect of the family for a question, from its settings and what is stored, never from an answer; None
        where it does not answer it. `past` says that the answer is as of times before the newest event.
        """
        if not cls.abilities.include(question) or (past and not cls.abilities.past):
            return None
        if cls.abilities.fixed_decay and built.decay != question.decay:
            return None
        if cls.one_mass and not built.keeps(question):
            return None
        return cls._promise(question, built, past=past)

    @classmethod
    @abstractmethod
    def _promise(cls, question: Question, built: Built, *, past: bool) -> Promise | None:
        """The promise for a question that `abilities` allow; None where the settings rule it out.

        `built.stored.faded(question)` is what the store holds as the question's decay weighs it; `sketches.holdings`
        has what all families assume of values and thresholds.
        """
