"""The `sample` family: one sketch that answers every aggregate under any decay, chosen after the fact."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sketches import windows
from sketches.bulk import whole_bodies
from sketches.codec import read_cuts, read_head, read_rows, write_cuts, write_head, write_rows
from sketches.drawn import SECOND, Extremes, TimeUnit, draw
from sketches.estimate import Estimate, Series
from sketches.events import Events, Kind, Labels
from sketches.hashing import salt
from sketches.merging import mergeable
from sketches.nested_sample import NO_CUT, NestedSample
from sketches.parameters import SampleParameters
from sketches.question import Question
from sketches.sampled import FAMILY, Sampled
from sketches.stored import Stored
from sketches.wire import FORMAT_VERSION, Envelope, Reader, Writer, seal, sealer

Estimator = Literal["stratified", "windows"]


@dataclass(frozen=True)
class Sample(Stored):
    """Duplicate-insensitive, mergeable sample of a stream that answers every aggregate under any decay.

    Question: any aggregate of `sketches.question`, under any decay function, at any as-of time, chosen at query time.

    Guarantee: for decayed sums |estimate - exact| ≤ ε·exact, for shares, ranks and τ-sums |estimate - exact| ≤ ε (of
    the whole decayed weight), each with probability at least 1 - δ over the seed (paper A, Theorems 4.1 to 4.3; paper
    B, Theorem 3.2). Besides, every answer carries its own interval, computed from the sample, that covers the exact
    answer with the confidence it states, also where only a few sampled events match.

    Not bounded: the relative error of a sum over few matching events (B §4 proves that no small sketch can do so under
    windows or exponential decay); the interval says how far off it may be.

    Memory: ε = δ = 0.05 keeps 3,074 events a level, about 16,000 of a million, 8 to 12 bytes each on the wire.

    >>> events = Events.of(ids=range(1000), times=range(1000), values=[i % 7 for i in range(1000)])
    >>> sketch = Sample.build(events)
    >>> estimate = sketch.answer(Question("count", "window:100s"))
    >>> estimate.lower <= 100 <= estimate.upper
    True

    Reference: Cormode, Tirthapura, Xu, Time-decaying sketches for sensor data aggregation (paper A) §4; Cormode,
    Tirthapura, Xu, Time-decayed correlated aggregates over data streams (paper B) §3.1.
    """

    family: ClassVar[str] = FAMILY

    parameters: SampleParameters
    copies: tuple[NestedSample, ...] = field(repr=False)
    kind: Kind
    labels: Labels = field(repr=False)
    extremes: Extremes

    @classmethod
    def build(
        cls, events: Events, *, epsilon: float = 0.05, delta: float = 0.05, seed: int = 0, unit: TimeUnit = SECOND
    ) -> Sample:
        """Sample a batch of events to an accuracy; `unit` is the length of one step of their times."""
        return cls._of(events, SampleParameters.derive(epsilon, delta, unit, seed))

    @classmethod
    def build_payloads(cls, events: Events, bounds: NDArray[np.int64], **settings: Any) -> list[bytes]:
        """For `sketches.bulk.payloads`: where nothing would be discarded, many groups are written at once."""
        nothing = cls.build(Events.of([], []), **settings)
        parameters = nothing.parameters
        found = [nothing.to_bytes()] * (len(bounds) - 1)
        sizes = np.diff(bounds)
        fits = sizes <= parameters.capacity
        whole, left = np.flatnonzero(fits & (sizes > 0)), np.flatnonzero(~fits).tolist()
        if len(whole):
            salts = [salt(parameters.seed, copy) for copy in range(parameters.copies)]
            sealed = sealer(cls.family, FORMAT_VERSION, parameters.to_bytes(), parameters.seed)
            bodies = whole_bodies(events, bounds[whole], bounds[whole + 1], salts)
            for group, body in zip(whole.tolist(), bodies, strict=True):
                if body:
                    found[group] = sealed(body)
                else:
                    left.append(group)
        for group in left:
            found[group] = cls._of(events.rows(*bounds[group : group + 2].tolist()), parameters).to_bytes()
        return found

    @classmethod
    def _of(cls, events: Events, parameters: SampleParameters) -> Sample:
        copies = tuple(
            NestedSample.build(events, parameters.capacity, salt(parameters.seed, copy))
            for copy in range(parameters.copies)
        )
        labels = Labels.kept([events.labels], events.kind, [copy.values for copy in copies])
        return cls(parameters, copies, events.kind, labels, Extremes.of(events))

    @classmethod
    def union(cls, sketches: Sequence[Sample], *, trim: bool = True, room: int = 1) -> Sample:
        """The sketch of all the sketches' events.

        To answer rather than to store, `trim=False` keeps every row above the aligned thresholds: more than one
        sketch's capacity, hence more accurate. `room` trims to that many capacities, where all rows are too many.
        """
        seen = mergeable(sketches)
        if not seen:
            return sketches[0]
        first = seen[0]
        capacity = room * first.parameters.capacity if trim else None
        copies = tuple(
            NestedSample.union([sketch.copies[copy] for sketch in seen], capacity)
            for copy in range(first.parameters.copies)
        )
        labels = Labels.kept([sketch.labels for sketch in seen], first.kind, [copy.values for copy in copies])
        return cls(first.parameters, copies, first.kind, labels, Extremes.merged([one.extremes for one in seen]))

    @cached_property
    def sampled(self) -> Sampled:
        """The kept rows with their design weights: computed once, then every decay costs a dot product."""
        drawn = draw(self.copies, self.parameters.unit, self.kind, self.labels, self.extremes)
        return Sampled(drawn, self.parameters)

    def answer(
        self, question: Question, *, other: Sample | None = None, estimator: Estimator = "stratified"
    ) -> Estimate:
        """The answer with its interval.

        `estimator="windows"` is paper A's reduction to sliding windows, with the median over copies and its a-priori
        interval; the default weighs every kept event by its own sampling probability, which has lower variance.
        `other` is the second sketch of an inner product.
        """
        if estimator == "windows":
            return windows.answer(self, question, self.sampled.moment(question))
        return self.sampled.answer(question, other=None if other is None else other.sampled)

    def series(self, question: Question, as_of: ArrayLike) -> Series:
        """The same question at many as-of times: one pass, not one answer after the other."""
        return self.sampled.series(question, as_of)

    def to_bytes(self) -> bytes:
        writer = Writer()
        write_head(writer, self.kind, self.extremes, self.labels)
        for copy in self.copies:
            write_cuts(writer, copy.weight_cuts, NO_CUT)
            same = bool((copy.weight_cuts == copy.count_cuts).all())
            writer.u8(int(same))
            if not same:
                write_cuts(writer, copy.count_cuts, NO_CUT)
            write_rows(writer, copy.times, copy.hashes, copy.values, copy.weights, self.kind, self.labels)
        return seal(self.family, FORMAT_VERSION, self.parameters.to_bytes(), self.parameters.seed, writer.to_bytes())

    @classmethod
    def _opened(cls, envelope: Envelope) -> Sample:
        parameters = SampleParameters.from_bytes(envelope.parameters, envelope.seed)
        reader = Reader(envelope.body)
        kind, extremes, labels = read_head(reader)
        copies = []
        for _ in range(parameters.copies):
            weight_cuts = read_cuts(reader, NO_CUT)
            count_cuts = weight_cuts if reader.u8() else read_cuts(reader, NO_CUT)
            copies.append(NestedSample(*read_rows(reader, kind, labels), weight_cuts, count_cuts))
        reader.done()
        return cls(parameters, tuple(copies), kind, labels, extremes)

    @property
    def kept(self) -> int:
        """Rows in the sketch, over all copies."""
        return sum(len(copy) for copy in self.copies)
