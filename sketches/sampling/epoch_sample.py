"""The `sample` family as it was before format 3: a sketch of one source's epoch, by paper A's RangeSample."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from functools import cached_property
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import ArrayLike

from sketches.arrays import Ints
from sketches.encoding.bodies import read_cuts, read_head, read_rows, write_cuts, write_head, write_rows
from sketches.encoding.envelope import FORMAT_VERSION, Envelope, Writer, seal, sealer
from sketches.estimate import Estimate, Series
from sketches.events import Events, Extremes, Kind, Labels
from sketches.family import Abilities, Gathered, Sketch
from sketches.hashing import salt
from sketches.promise import Built, Promise
from sketches.question import Question
from sketches.records import dataclass
from sketches.refusals import mergeable
from sketches.sampling.askable_sample import FAMILY, AskableSample
from sketches.sampling.estimation.restriction import COLUMNS
from sketches.sampling.estimation.side_by_side import sample_of_copies
from sketches.sampling.inclusion.nested_sample import NO_CUT, NestedSample
from sketches.sampling.inclusion.range_sample import LEVELS
from sketches.sampling.layout.whole_bodies import whole_bodies
from sketches.sampling.sample_parameters import SampleParameters
from sketches.units import SECOND, TimeUnit
from sketches.vocabulary import AGGREGATES

ANSWER_CAPACITIES: Final = 2  # times the capacity that a union may keep which is asked and not stored


@dataclass(frozen=True)
class EpochSample(Sketch):
    """Duplicate-insensitive, mergeable sample of an epoch of a source; `Sample` takes over what it holds.

    Question: any aggregate of `sketches.question`, under any decay function, at any as-of time, chosen at query time.

    Guarantee: planned for |estimate - exact| ≤ ε·exact for decayed sums and |estimate - exact| ≤ ε (of the whole
    decayed weight) for shares, ranks and τ-sums, each with probability about 1 - δ over the seed, as of the newest
    event; docs/sample.md derives the size for that (Cormode, Tirthapura and Xu 2007, Theorems 4.1 to 4.3, prove the
    same for eight times the size and more). Besides, every answer carries an interval computed from the sample. It
    covers the exact answer with the confidence it states, also as of the past and where only a few sampled events
    match. The intervals of a list hold all together, and with what the list leaves out.

    Not bounded: the relative error of a sum over few matching events. No small sketch can bound it under windows or
    exponential decay (Cormode, Tirthapura and Xu 2009, Section 4). The interval says how far off the answer may be.

    Memory: ε = δ = 0.05 keeps 3,074 events a level, about 16,000 of a million, 8 to 12 bytes each on the wire.

    >>> events = Events.of(ids=range(1000), times=range(1000), values=[i % 7 for i in range(1000)])
    >>> sketch = EpochSample.build(events)
    >>> estimate = sketch.answer(Question("count", "window:100s"))
    >>> estimate.lower <= 100 <= estimate.upper
    True

    Reference: Cormode, Tirthapura and Xu, Time-decaying sketches for sensor data aggregation, 2007, Section 4; Cormode,
    Tirthapura and Xu, Time-decayed correlated aggregates over data streams, 2009, Section 3.1.
    """

    family: ClassVar[str] = FAMILY
    abilities: ClassVar[Abilities] = Abilities(
        AGGREGATES,
        of_value=True,
        columns=COLUMNS,
        any_predicate=True,
        any_threshold=True,
        last_events=True,
        curves=True,
        forgives_repeats=True,
        joint_lists=True,
    )

    parameters: SampleParameters
    copies: tuple[NestedSample, ...] = field(repr=False)  # independent samples of the same events
    kind: Kind
    labels: Labels = field(repr=False)
    extremes: Extremes

    @classmethod
    def build(
        cls, events: Events, *, epsilon: float = 0.05, delta: float = 0.05, seed: int = 0, unit: TimeUnit = SECOND
    ) -> EpochSample:
        """Sample a batch of events to an accuracy; `unit` is the length of one step of their times."""
        return cls._of(events, SampleParameters.derive(epsilon, delta, unit, seed))

    @classmethod
    def _payloads(cls, events: Events, bounds: Ints, **settings: Any) -> list[bytes]:
        """Groups of which every row is kept are written all at once, the others one by one."""
        empty = cls.build(Events.of([], []), **settings)
        parameters = empty.parameters
        found = [empty.to_bytes()] * (len(bounds) - 1)
        sizes = np.diff(bounds)
        fits = sizes <= parameters.capacity
        whole, one_by_one = np.flatnonzero(fits & (sizes > 0)), np.flatnonzero(~fits).tolist()
        if len(whole):
            salts = [salt(parameters.seed, copy) for copy in range(parameters.copies)]
            sealed = sealer(cls.family, FORMAT_VERSION, parameters.to_bytes(), parameters.seed)
            bodies = whole_bodies(events, bounds[whole], bounds[whole + 1], salts)
            for group, body in zip(whole.tolist(), bodies, strict=True):
                if body:
                    found[group] = sealed(body)
                else:
                    one_by_one.append(group)
        for group in one_by_one:
            found[group] = cls._of(events.rows(*bounds[group : group + 2].tolist()), parameters).to_bytes()
        return found

    @classmethod
    def _of(cls, events: Events, parameters: SampleParameters) -> EpochSample:
        copies = tuple(
            NestedSample.build(events, parameters.capacity, salt(parameters.seed, copy))
            for copy in range(parameters.copies)
        )
        labels = Labels.kept([events.labels], events.kind, [copy.values for copy in copies])
        return cls(parameters, copies, events.kind, labels, Extremes.of(events))

    @classmethod
    def union(cls, sketches: Sequence[EpochSample], *, trim: bool = True, capacities: int = 1) -> EpochSample:
        """The sketch of all the sketches' events.

        A union that is asked and not stored may keep more rows, which makes it more accurate: up to so many
        `capacities` or, with `trim=False`, every row above the largest cut of its level.
        """
        seen = mergeable(sketches)
        if not seen:
            return sketches[0]
        first = seen[0]
        capacity = capacities * first.parameters.capacity if trim else None
        copies = tuple(
            NestedSample.union([sketch.copies[copy] for sketch in seen], capacity)
            for copy in range(first.parameters.copies)
        )
        labels = Labels.kept([sketch.labels for sketch in seen], first.kind, [copy.values for copy in copies])
        return cls(first.parameters, copies, first.kind, labels, Extremes.merged([one.extremes for one in seen]))

    @classmethod
    def gather(cls, sketches: Sequence[EpochSample]) -> Gathered:
        """The union of the sources. It keeps more rows than one sketch, to be accurate, but not all, to be fast."""
        merged = cls.union(sketches, capacities=ANSWER_CAPACITIES) if len(sketches) > 1 else sketches[0]
        return Gathered(merged.askable_sample)

    @classmethod
    def side_by_side(cls, epochs: Sequence[Gathered]) -> AskableSample:
        return AskableSample.side_by_side([epoch.content for epoch in epochs])

    @classmethod
    def _promise(cls, question: Question, built: Built, *, past: bool) -> Promise | None:
        return None  # the ladder of the stream promises

    @cached_property
    def askable_sample(self) -> AskableSample:
        """The kept rows with their design weights. They are computed once; then every decay costs one dot product."""
        sample = sample_of_copies(self.copies, self.parameters.unit, self.kind, self.labels, self.extremes)
        return AskableSample(sample, self.parameters)

    def answer(self, question: Question, *, other: EpochSample | None = None) -> Estimate:
        """The answer with its interval; `other` is the second sketch of an inner product."""
        return self.askable_sample.answer(question, other=None if other is None else other.askable_sample)

    def series(self, question: Question, as_of: ArrayLike, *, other: EpochSample | None = None) -> Series:
        """The same question at many as-of times, in one pass."""
        return self.askable_sample.series(question, as_of, other=None if other is None else other.askable_sample)

    def to_bytes(self) -> bytes:
        writer = Writer()
        write_head(writer, self.kind, self.extremes, self.labels)
        for copy in self.copies:
            write_cuts(writer, copy.weight_cuts, NO_CUT)
            same = bool((copy.weight_cuts == copy.count_cuts).all())
            writer.u8(int(same))
            if not same:
                write_cuts(writer, copy.count_cuts, NO_CUT)
            write_rows(writer, *copy.rows, self.kind, self.labels)
        return seal(self.family, FORMAT_VERSION, self.parameters.to_bytes(), self.parameters.seed, writer.to_bytes())

    @classmethod
    def _opened(cls, envelope: Envelope) -> EpochSample:
        parameters = SampleParameters.from_bytes(envelope.parameters, envelope.seed)
        reader = envelope.reader()
        kind, extremes, labels = read_head(reader)
        copies = []
        for _ in range(parameters.copies):
            weight_cuts = read_cuts(reader, NO_CUT, LEVELS)
            count_cuts = weight_cuts if reader.u8() else read_cuts(reader, NO_CUT, LEVELS)
            copies.append(NestedSample(*read_rows(reader, kind, labels), weight_cuts, count_cuts))
        reader.done()
        return cls(parameters, tuple(copies), kind, labels, extremes)

    @property
    def complete(self) -> bool:
        """Whether every event is kept: then each of the copies has all of them."""
        return bool((self.copies[0].count_cuts == NO_CUT).all())

    @property
    def kept(self) -> int:
        """Rows in the sketch, over all copies."""
        return sum(len(copy) for copy in self.copies)
