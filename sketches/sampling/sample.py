"""The `sample` family: one sketch of a stream that answers every aggregate under any decay, chosen after the fact."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from functools import cached_property
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import ArrayLike

from sketches.arrays import Floats, Ints, Rows
from sketches.encoding.envelope import Envelope, load, version_of
from sketches.errors import WaneError
from sketches.estimate import Estimate, Series
from sketches.event_rules import Repeats
from sketches.events import Events, Extremes, Kind, Labels
from sketches.family import Abilities, Scope, Sketch
from sketches.fields import Known, KnownField, known_together
from sketches.parts import HourTotals, Parts, Piece, Segment, SliceLengths
from sketches.promise import Built, Promise
from sketches.question import Question
from sketches.records import dataclass
from sketches.refusals import mergeable
from sketches.sampling.askable_sample import FAMILY, AskableSample
from sketches.sampling.epoch_sample import EpochSample
from sketches.sampling.estimation.restriction import COLUMNS
from sketches.sampling.expected_widths import sample_width
from sketches.sampling.groups.answer_correlation import correlation_of_answers
from sketches.sampling.groups.class_shares import classes_over_time
from sketches.sampling.groups.split_sample import SplitSample, split_by_field
from sketches.sampling.inclusion.batches import in_order, newest_first, rows_worth_keeping, trim, with_fine
from sketches.sampling.inclusion.ladder import NO_CUT, Codes, Cuts, LadderRows
from sketches.sampling.inclusion.ladder_parameters import DEFAULT_DETAIL, LEAST_CAPACITY, LadderParameters
from sketches.sampling.inclusion.sampling_number import DEFAULT_BITS
from sketches.sampling.inclusion.unremembered import unnamed, unremembered
from sketches.sampling.ladder_sample import Facts, rows_of_epochs, sample_by_source, sample_of_ladder, with_repeats
from sketches.sampling.layout.segments import joined, read_segment, read_segments, write_segments
from sketches.sampling.sample_bytes import SAMPLE_FORMAT, SampleHead, Seen, numbered, open_sample, seal_sample
from sketches.sampling.site_sample import SiteSample
from sketches.sampling.totals.row_totals import RowTotals
from sketches.units import SECOND, TimeUnit
from sketches.vocabulary import AGGREGATES

_ONE_EPOCH: Final = 1 << 62  # longer than a stream: segments then end where they are full


@dataclass(frozen=True)
class Sample(SiteSample, Sketch):
    """Duplicate-insensitive, mergeable sample of a stream that answers every aggregate under any decay.

    Question: any aggregate of `sketches.question`, under any decay, as of any time, of all sources or of some.

    Guarantee: a stretch of time that holds at least a sixteenth (`detail`) of the events (for sums: of the weight) that
    have come since it began is answered within ε for all sources together, with probability 1 - δ over the seed, and so
    is any decay as of the newest event: |estimate - exact| ≤ ε·exact for sums and counts, ≤ ε for shares and ranks, ≤ ε
    of the whole decayed weight for τ-sums. Besides, every answer carries an interval computed from the sample. It
    covers the exact answer with the confidence it states, also for one small source, far in the past and where only a
    few sampled events match. The intervals of a list hold all together, and with what the list leaves out.

    Not bounded: the relative error of a sum over few matching events. No small sketch can bound it under windows or
    exponential decay (Cormode, Tirthapura and Xu 2009, Section 4). The interval says how far off the answer may be.

    Memory: ε = δ = 0.05 keeps the newest 61,464 events and half as many again for each doubling of what has come:
    331,000 of three million, 600,000 of 340 million, about 7.5 bytes each in a store.

    >>> events = Events.of(ids=range(1000), times=range(1000), values=[i % 7 for i in range(1000)])
    >>> sketch = Sample.build(events, epsilon=0.2, detail=1)
    >>> estimate = sketch.answer(Question("count", "window:100s"))
    >>> estimate.lower <= 100 <= estimate.upper
    True

    Reference: Cormode, Tirthapura and Xu, Time-decaying sketches for sensor data aggregation, 2007, Section 4; Cormode,
    Tirthapura and Xu, Time-decayed correlated aggregates over data streams, 2009, Section 3.1.
    """

    family: ClassVar[str] = FAMILY
    scope: ClassVar[Scope] = Scope.STREAM
    in_parts: ClassVar[bool] = True
    earlier: ClassVar[type[Sketch] | None] = EpochSample
    changeable: ClassVar[frozenset[str]] = frozenset({"epsilon", "delta", "detail", "per_source", "fine"})
    abilities: ClassVar[Abilities] = Abilities(
        AGGREGATES,
        of_value=True,
        columns=COLUMNS,
        fields=True,
        any_predicate=True,
        any_threshold=True,
        last_events=True,
        curves=True,
        forgives_repeats=True,
        tells_repeats=True,
        by_source=True,
        joint_lists=True,
    )

    parameters: LadderParameters
    rows: LadderRows = field(repr=False)
    cuts: Cuts = field(repr=False)
    names: tuple[str, ...] = field(repr=False)  # of the sources, in order
    kind: Kind
    labels: Labels = field(repr=False)
    extremes: Extremes
    totals: RowTotals | None = field(default=None, repr=False)  # of all rows seen; None: they were not counted
    known: Known = field(default_factory=dict, repr=False)  # of the fields of all events, by name

    @classmethod
    def build(
        cls,
        events: Events,
        *,
        epsilon: float = 0.05,
        delta: float = 0.05,
        seed: int = 0,
        unit: TimeUnit = SECOND,
        detail: int = DEFAULT_DETAIL,
        per_source: int = 0,
        fine: int = 0,
        bits: int = DEFAULT_BITS,
        sources: ArrayLike | None = None,
    ) -> Sample:
        """Sample a batch of events to an accuracy; `unit` is the length of one step of their times.

        `sources` has the name of each event's source; without it all are of one that has no name.
        """
        parameters = LadderParameters.derive(
            epsilon, delta, unit, seed, detail=detail, per_source=per_source, fine=fine, bits=bits
        )
        if sources is None:
            return cls._of(events, parameters)
        names, codes = np.unique(np.asarray(sources, str), return_inverse=True)
        if len(codes) != len(events):
            raise WaneError(f"sources have {len(codes)} rows, but there are {len(events)} events")
        return cls.of_sources(events, codes.astype(np.int32), names.tolist(), parameters)

    @classmethod
    def _of(cls, events: Events, parameters: LadderParameters) -> Sample:
        return cls.of_sources(events, np.zeros(len(events), np.int32), [""] if len(events) else [], parameters)

    @classmethod
    def of_sources(
        cls,
        events: Events,
        sources: Codes,
        names: Sequence[str],
        parameters: LadderParameters,
        *,
        counting_rows: bool = False,
    ) -> Sample:
        """Sample a batch of events whose sources are numbers in a list of names, each name once, in any order.

        With `counting_rows` the rows of each event and of every hour are counted: each has come just now.
        """
        names, sources = in_order(names, sources)
        extremes = Extremes.of(events)
        rows, cuts = LadderRows.empty(events.kind.dtype), Cuts.none(len(names) if parameters.per_source else 0)
        if extremes.newest is not None:
            cuts = with_fine(cuts, extremes, parameters)
            for span in newest_first(events.times, parameters.capacity):
                fresh = rows_worth_keeping(events, sources, span, parameters, cuts, counting_rows=counting_rows)
                rows, cuts = trim(LadderRows.together([rows, fresh]), cuts, parameters)
        labels = Labels.kept([events.labels], events.kind, [rows.values])
        totals = RowTotals.of(events, sources, parameters.unit, len(rows), extremes) if counting_rows else None
        totals = None if totals is None else totals.giving_up(rows.fields.contested)
        rows = replace(rows, fields=rows.fields.settled())
        known = {name: KnownField.of(events.fields[name]) for name in events.fields} if len(events) else {}
        return cls(parameters, rows, cuts, names, events.kind, labels, extremes, totals, known)

    @classmethod
    def partial(cls, events: Events, sources: Codes, names: Sequence[str], **settings: Any) -> Sample:
        parameters = cls.build(Events.of([], []), **settings).parameters
        return cls.of_sources(events, sources, names, parameters, counting_rows=True)

    @classmethod
    def union(cls, sketches: Sequence[Sample]) -> Sample:
        """The sketch of all the sketches' events, by the settings of the last one; unit, seed and bits must agree."""
        seen = mergeable(sketches, lambda parameters: parameters.fixed)
        if not seen:
            return sketches[-1]
        parameters = sketches[-1].parameters
        names = tuple(sorted(set().union(*(sketch.names for sketch in seen))))
        extremes = Extremes.merged([one.extremes for one in seen])
        parts = [sketch._renumbered(names, parameters) for sketch in seen]
        cuts = with_fine(Cuts.highest([cut for _, cut in parts]), extremes, parameters)
        rows, cuts = trim(LadderRows.together([part for part, _ in parts]), cuts, parameters)
        rows = replace(rows, fields=rows.fields.settled())
        labels = Labels.kept([sketch.labels for sketch in seen], seen[0].kind, [rows.values])
        counted = [(one.totals, one._numbers(names), one.extremes.newest or 0) for one in seen]
        totals = RowTotals.union(counted, parameters.unit, len(rows), rows.fields.contested)
        known = known_together([(one.known, one.extremes.oldest, one.extremes.newest) for one in seen])
        return cls(parameters, rows, cuts, names, seen[0].kind, labels, extremes, totals, known)

    def _renumbered(self, names: tuple[str, ...], parameters: LadderParameters) -> tuple[LadderRows, Cuts]:
        """The rows with the numbers of sources in a longer list, and the cuts as settings from now on need them.

        Where sources or times were not kept besides the levels before, all of them may be gone up to the newest event.
        """
        newest = self.extremes.newest if self.extremes.newest is not None else NO_CUT
        numbers = self._numbers(names)
        rows = self.rows if names == self.names else replace(self.rows, sources=numbers[self.rows.sources])
        if not parameters.per_source:
            return rows, replace(self.cuts, of_sources=np.empty(0, np.int64))
        of_sources = np.full(len(names), NO_CUT, np.int64)
        of_sources[numbers] = self.cuts.of_sources if self.parameters.per_source else newest
        return rows, replace(self.cuts, of_sources=of_sources)

    def _numbers(self, names: tuple[str, ...]) -> Codes:
        """The number of each source in a longer list of names."""
        place = {name: at for at, name in enumerate(names)}
        return np.fromiter((place[name] for name in self.names), np.int32, len(self.names))

    @classmethod
    def askable(cls, sketches: Sequence[Sample]) -> AskableSample:
        return cls.union(sketches).askable_sample

    @classmethod
    def _promise(cls, question: Question, built: Built, *, past: bool) -> Promise:
        width = sample_width(question, built)
        return Promise(width, certain=width == 0.0)

    @cached_property
    def askable_sample(self) -> AskableSample:
        """The kept rows of all sources with their design weights: then every decay costs one dot product."""
        return self.of(None)

    def of(self, names: Sequence[str] | None, repeats: Repeats = Repeats.FORGIVEN) -> AskableSample:
        places = self._places(names)
        some = places is not None and len(places) < len(self.names)
        sample = sample_of_ladder(
            self.rows,
            self.cuts,
            places,
            self.parameters,
            self._facts,
            None if self.totals is None else self.totals.known(places if some else None),
        )
        return AskableSample(with_repeats(sample, repeats, self.totals), self.parameters, some_sources=some)

    def by_source(self, names: Sequence[str], repeats: Repeats = Repeats.FORGIVEN) -> SplitSample:
        places = self._places(names)
        assert places is not None
        sample, complete = sample_by_source(self.rows, self.cuts, places, self.parameters, self._facts, self.totals)
        askable = AskableSample(with_repeats(sample, repeats, self.totals), self.parameters, some_sources=True)
        return SplitSample(
            askable, tuple(self.names[at] for at in places), complete, undivided=lambda: self.of(names, repeats)
        )

    @classmethod
    def by_field(cls, askable: AskableSample, name: str) -> SplitSample:
        found: SplitSample = askable.sample.splits.get(name, lambda: split_by_field(askable, name))
        return found

    classes_over_time = staticmethod(classes_over_time)
    correlation = staticmethod(correlation_of_answers)

    @property
    def _facts(self) -> Facts:
        return Facts(self.kind, self.labels, self.extremes, self.known)

    def answer(self, question: Question, *, other: Sample | None = None) -> Estimate:
        """The answer with its interval; `other` is the second sketch of an inner product."""
        return self.askable_sample.answer(question, other=None if other is None else other.askable_sample)

    def series(self, question: Question, as_of: ArrayLike, *, other: Sample | None = None) -> Series:
        """The same question at many as-of times, in one pass."""
        return self.askable_sample.series(question, as_of, other=None if other is None else other.askable_sample)

    # Bytes.

    @property
    def _head(self) -> SampleHead:
        seen = None if self.totals is None else Seen.of(self.totals, self.rows)
        return SampleHead(self.kind, self.extremes, self.labels, self.names, self.cuts, seen, self.known)

    def to_bytes(self) -> bytes:
        head = self._head
        return seal_sample(self.parameters, head, [segment.payload for segment in self._segments(head, _ONE_EPOCH)])

    def parts(self, epoch: int) -> Parts:
        head = self._head
        return Parts(seal_sample(self.parameters, head, []), self._segments(head, epoch))

    def _segments(self, head: SampleHead, epoch: int) -> Sequence[Segment]:
        return write_segments(numbered(self.rows, head.kind, head.labels), self.kind, self.parameters.bits, epoch)

    @classmethod
    def from_envelope(cls, envelope: Envelope) -> Any:
        """The sketch in an opened envelope: one of a source's epoch where the bytes are of format 1 or 2."""
        if envelope.family == cls.family and envelope.version < SAMPLE_FORMAT:
            return EpochSample.from_envelope(envelope)
        return super().from_envelope(envelope)

    @classmethod
    def _opened(cls, envelope: Envelope) -> Sample:
        parameters, head, payloads = open_sample(envelope)
        rows = head.rows_of(*joined([read_segment(payload) for payload in payloads])) if payloads else None
        return cls._stored(parameters, head, rows)

    @classmethod
    def from_parts(
        cls, head: bytes, segments: Sequence[Piece], before: Sample | None = None
    ) -> tuple[Sample, dict[int, str]]:
        parameters, opened, _ = load(head, {cls.family: open_sample})
        held = None if before is None else (numbered(before.rows, before.kind, before.labels), before.kind)
        whole, damaged = read_segments(segments, held)
        if damaged:  # without the rows that are lost, what was counted is of no use
            opened = replace(opened, seen=None)
        return cls._stored(parameters, opened, opened.rows_of(*joined(whole)) if whole else None), damaged

    @classmethod
    def _stored(cls, parameters: LadderParameters, head: SampleHead, rows: LadderRows | None) -> Sample:
        columns = (head.cuts, head.names, head.kind, head.labels, head.extremes)
        totals = None if head.seen is None else head.seen.totals
        if rows is None:
            return cls(parameters, LadderRows.empty(head.kind.dtype), *columns, totals, head.known)
        if head.seen is not None:
            rows = replace(rows, counts=head.seen.counts(len(rows)))
        return cls(parameters, rows, *columns, totals, head.known)

    @classmethod
    def is_earlier(cls, payload: bytes) -> bool:
        return version_of(payload) < SAMPLE_FORMAT

    def kept_share(self, times: Ints) -> Floats:
        _, levels = self.cuts.levels_at(times)
        return np.where(times > self.cuts.fine, 1.0, np.exp2(-levels.astype(np.float64)))

    def known_fields(self) -> Known:
        return self.known

    def hour_totals(self) -> HourTotals | None:
        return None if self.totals is None else self.totals.hours()

    def slice_lengths(self, time: int) -> SliceLengths:
        return SliceLengths() if self.totals is None else self.totals.lengths_at(time)

    def smaller(self, than: Sample | None = None) -> Sample:
        own = self.parameters.capacity
        capacity = max(LEAST_CAPACITY, own // 2) if than is None else min(own, than.parameters.capacity)
        if capacity == own:
            return self
        parameters = replace(self.parameters, capacity=capacity)
        rows, cuts = trim(self.rows, self.cuts, parameters)
        labels = Labels.kept([self.labels], self.kind, [rows.values])
        totals = None if self.totals is None else self.totals.fitted(len(rows))
        return replace(self, parameters=parameters, rows=rows, cuts=cuts, labels=labels, totals=totals)

    def named(self, source: str) -> Sample:
        return replace(self, names=(source,)) if self.names == ("",) else self

    def moved(self, sketches: Sequence[tuple[str, Sketch]]) -> tuple[Sample, list[int]]:
        parameters = self.parameters
        whole, left = list[tuple[str, EpochSample]](), list[int]()
        for number, (source, sketch) in enumerate(sketches):
            if isinstance(sketch, EpochSample) and sketch.complete:
                whole.append((source, sketch))
            else:
                left.append(number)
        seen = [(source, sketch) for source, sketch in whole if sketch.extremes.newest is not None]
        if not seen:
            return self, left
        names, rows = rows_of_epochs(seen, parameters)
        extremes = Extremes.merged([sketch.extremes for _, sketch in seen])
        cuts = with_fine(Cuts.none(len(names) if parameters.per_source else 0), extremes, parameters)
        rows, cuts = trim(rows, cuts, parameters)
        kind = seen[0][1].kind
        labels = Labels.kept([sketch.labels for _, sketch in seen], kind, [rows.values])
        moved = Sample(parameters, rows, cuts, names, kind, labels, extremes)
        return Sample.union([moved, self]), left

    def without(self, begin: int, end: int, sources: Sequence[str] | None = None, *, for_good: bool = False) -> Sample:
        gone = (self.rows.times >= begin) & (self.rows.times < end)
        places = self._places(sources)
        if places is not None:
            gone &= np.isin(self.rows.sources, places)
        rows = self.rows.take(~gone)
        totals = None if self.totals is None else self.totals.without(begin, end, places)
        found = replace(self, rows=rows, labels=Labels.kept([self.labels], self.kind, [rows.values]), totals=totals)
        if for_good:
            found = unremembered(found, Sample._of(Events.of([], []), self.parameters))
        oldest, newest = self.extremes.oldest, self.extremes.newest
        if sources is None or oldest is None or newest is None or begin > oldest or end <= newest:
            return found
        return unnamed(found, set(sources))

    def _places(self, sources: Sequence[str] | None) -> Rows | None:
        """The numbers of some sources; None: of all of them."""
        wanted = set(sources or ())
        return None if sources is None else np.array([at for at, name in enumerate(self.names) if name in wanted], int)

    @property
    def kept(self) -> int:
        """Rows in the sketch."""
        return len(self.rows)
