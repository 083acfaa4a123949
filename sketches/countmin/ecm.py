"""The `ecm` family: Count-Min sketches whose counters are windows (paper E), for keys from a huge domain.

Every counter keeps a log of times (`sketches.countmin.window_logs`). So it can be read over any window, and hence under
any decay: each entry of a log is a mass with the range of times in which its arrivals came. The logs of several epochs
and sources are read side by side, and those that are stored together are put side by side and made smaller
(`sketches.countmin.coalescing`): neither costs accuracy. Paper E §5 aggregates instead, with an error that grows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sketches.arrays import Floats, Ints, Words, frozen
from sketches.countmin.askable_counters import ABILITIES, FAMILY, RESTRICTED, AskableCounters
from sketches.countmin.coalescing import coalesced
from sketches.countmin.counter_places import clamped
from sketches.countmin.counting import count_logs, count_waves, heavy_rows
from sketches.countmin.ecm_parameters import EcmParameters, Keeping, Purpose
from sketches.countmin.expected_widths import ecm_width
from sketches.countmin.log_bytes import ENTRIES_FORMAT, Aggregate, read_counters, write_laid_out, write_logs
from sketches.countmin.randomised_waves import Waves, capacity
from sketches.countmin.window_logs import Basis, Logs, refuse_more, room
from sketches.countmin.window_readings import readings_of, shape_of
from sketches.decay.functions import LastEvents
from sketches.encoding.bodies import read_head, write_head
from sketches.encoding.envelope import FORMAT_VERSION, Envelope, Writer, seal
from sketches.encoding.value_codes import codes_of
from sketches.errors import CorruptError, IncompatibleError, UnanswerableError
from sketches.estimate import Estimate, Series
from sketches.events import Events, Extremes, Kind, Labels
from sketches.family import Abilities, Sketch
from sketches.monitoring.readings import Readings, Shape
from sketches.papers import ECM_SKETCHES
from sketches.promise import Built, Promise
from sketches.question import NEEDS_ORDER, Counting, Question
from sketches.records import dataclass
from sketches.refusals import mergeable
from sketches.units import SECOND, TimeUnit


@dataclass(frozen=True)
class Ecm(Sketch):
    """Mergeable Count-Min sketch over sliding windows: how often keys came, in any window, under any decay.

    Question: decayed count of the events or, where built with `counting="weight"`, decayed sum of the weights; of that,
    frequency of a value; heavy hitters; self-join size and inner product of two sources; for whole numbers, where built
    with `bits`, rank, quantiles, and counts (or sums) and shares over v ≥ tau or a range. Under any decay, or over the
    newest N events.

    Guarantee: D, the decayed count (or sum), is never outside its bounds. With probability 1 - δ over the seed a
    frequency, a sum over a range, a quantile or an inner product is inside its bounds, and all intervals of a list of
    heavy hitters together with the share that no value exceeds that it leaves out. As of the newest event a frequency
    errs by at most ε·D (E, Theorems 1 and 3), an inner product by at most ε·D·D' where built for `purpose="inner"`
    (Theorem 2), and a list of φ has every value with a share of φ + ε. All of this holds however often sketches were
    merged. Those that were aggregated h times by an earlier wane have counters that err by (1 + ε)^(h + 1) - 1 instead
    of ε (E §5.1), and answers say so.

    Not bounded: values below ε·D, of which the estimate is only an upper bound; which values a list leaves out as of a
    time before the newest event, unless built with `bits`; randomised waves whose merged sketches held copies of a row.
    A sum over a range has up to 2·bits - 2 dyadic parts that each err. Rows that come twice count twice. Over the
    newest N events, where these begin is known but for an entry of the log of all arrivals, which widens the intervals.
    With `basis="count"` it is known exactly, ties cut; but only the newest N arrivals or all of them can be asked for,
    as-of times are numbers of arrivals, and such sketches cannot be merged (E §5.1, Figure 2).

    Memory: (e/ε_cm)·ln(1/δ) counters of O(log N/ε_sw) times each: ε = δ = 0.1 keeps 168 counters, 22,000 times of a
    million arrivals, 45 kB on the wire; with `bits` as many more for each bit.

    >>> events = Events.of(ids=range(5000), times=range(5000), values=[f"k{i % 9}" for i in range(5000)])
    >>> sketch = Ecm.build(events, epsilon=0.1)
    >>> estimate = sketch.answer(Question("frequency", "window:1000s", value="k3"))
    >>> estimate.lower <= 1 / 9 <= estimate.upper
    True

    Reference: Papapetrou, Garofalakis, Deligiannakis, Sketch-based querying of distributed sliding-window data streams
    (paper E).
    """

    family: ClassVar[str] = FAMILY
    one_mass: ClassVar[bool] = True
    fades: ClassVar[bool] = True
    merged_to_answer: ClassVar[bool] = False
    abilities: ClassVar[Abilities] = ABILITIES

    parameters: EcmParameters
    logs: Logs | Waves = field(repr=False)
    aggregates: tuple[Aggregate, ...]  # logs that an earlier wane aggregated; they stand beside for ever
    overlaps: int  # how often waves of the same times were merged: there may be copies of rows in them
    candidates: Words = field(repr=False)  # codes of every value that was heavy in some suffix
    kind: Kind
    labels: Labels = field(repr=False)
    extremes: Extremes

    @classmethod
    def build(
        cls,
        events: Events,
        *,
        epsilon: float = 0.05,
        delta: float = 0.05,
        keeping: Keeping = "eh",
        purpose: Purpose = "point",
        basis: Basis = "time",
        bits: int = 0,
        seed: int = 0,
        unit: TimeUnit = SECOND,
        counting: Counting = "events",
    ) -> Ecm:
        """Count a batch of events.

        `keeping` is how counters remember: exponential histograms ("eh"), deterministic or randomised waves ("dw",
        "rw"); `purpose` is the question that ε is for, "point" or "inner"; `bits` the size of the domain for ranges of
        whole numbers; with `counting="weight"` an event counts as often as its weight says, not once.
        """
        return cls._of(events, EcmParameters(epsilon, delta, keeping, purpose, basis, bits, unit, seed, counting))

    @classmethod
    def _of(cls, events: Events, parameters: EcmParameters) -> Ecm:
        extremes = Extremes.of(events)
        if parameters.basis == "count" and len(events):
            extremes = replace(extremes, oldest=1, newest=len(events))
        events, times = _counted(events, parameters)
        kind = events.kind
        codes = codes_of(events.values, kind)
        if kind is Kind.INTEGER:
            codes = clamped(codes, parameters.bits)
        weights = events.weights if events.weights is not None else np.empty(0, np.int64)
        columns = (frozen(np.ascontiguousarray(codes)), frozen(np.ascontiguousarray(weights)))
        clock = frozen(np.ascontiguousarray(times))
        logs: Logs | Waves
        if parameters.keeping == "rw":
            logs = count_waves(events, clock, columns[0], parameters)
        else:
            logs = count_logs(clock, *columns, kind, parameters)
        candidates = np.unique(codes[heavy_rows(*columns, parameters.epsilon)])
        labels = Labels.kept([events.labels], kind, [candidates])
        return cls(parameters, logs, (), 0, candidates, kind, labels, extremes)

    @classmethod
    def union(cls, sketches: Sequence[Ecm]) -> Ecm:
        """The sketch of all the sketches' events in the order of their times, however many, and as accurate as they."""
        return cls._merged(sketches)

    @property
    def mass(self) -> Ints:
        """How many arrivals each counter has; of randomised waves, whose samples know nothing of each other, none."""
        return np.zeros(0, np.int64) if isinstance(self.logs, Waves) else self.logs.totals()

    @classmethod
    def faded(cls, sketches: Sequence[Ecm], later: Ints) -> Ecm:
        """The sketch of neighbouring epochs, each of whose counters takes some arrivals as come after them."""
        return cls._merged(sketches, later)

    @classmethod
    def _merged(cls, sketches: Sequence[Ecm], later: Ints | None = None) -> Ecm:
        seen = mergeable(sketches)
        if len(seen) < (2 if later is None else 1):
            return seen[0] if seen else sketches[0]
        first = seen[0]
        if first.parameters.basis == "count":
            raise IncompatibleError(
                "windows of the last arrivals cannot be merged: the counters know in which order the counted arrivals "
                f"came, but not how many others came between them ({ECM_SKETCHES} §5.1, Figure 2); use basis='time'"
            )
        logs, overlaps = _merged_logs(seen, first.parameters, later)
        aggregates = tuple(sorted((one for sketch in seen for one in sketch.aggregates), key=Aggregate.order))
        candidates = np.unique(np.concatenate([sketch.candidates for sketch in seen]))
        labels = Labels.kept([sketch.labels for sketch in seen], first.kind, [candidates])
        extremes = Extremes.merged([sketch.extremes for sketch in seen])
        return cls(first.parameters, logs, aggregates, overlaps, candidates, first.kind, labels, extremes)

    @classmethod
    def askable(cls, sketches: Sequence[Ecm]) -> AskableCounters:
        """The counters of all the sketches, side by side, ready to be asked."""
        seen = mergeable(sketches) or sketches[:1]
        first = seen[0]
        if first.parameters.basis == "count" and len(seen) > 1:
            raise UnanswerableError(
                f"windows of the last arrivals cannot be asked of several sketches together ({ECM_SKETCHES} §5.1)"
            )
        columns = [entries for sketch in seen for entries in _entries(sketch)]
        owner, start, end, size, error = (np.concatenate(parts) for parts in zip(*columns, strict=True))
        order = np.argsort(owner, kind="stable")
        cells = first.parameters.cells(first.kind)
        return AskableCounters(
            parameters=first.parameters,
            kind=first.kind,
            labels=Labels.kept([o.labels for o in seen], first.kind, [o.candidates for o in seen]),
            candidates=np.unique(np.concatenate([sketch.candidates for sketch in seen])),
            extremes=Extremes.merged([sketch.extremes for sketch in seen]),
            depth=max(sketch.depth for sketch in seen),
            bounds=np.searchsorted(owner[order], np.arange(cells + 1)),
            start=start[order],
            end=end[order],
            size=size[order],
            error=error[order],
        )

    @classmethod
    def _promise(cls, question: Question, built: Built, *, past: bool) -> Promise | None:
        bits, joins = built.own.get("bits"), question.aggregate in ("self-join", "inner-product")
        if question.aggregate in NEEDS_ORDER and not bits:
            return None
        if question.aggregate == "heavy-hitters" and past and not bits:
            return None  # names are kept of values that were heavy up to the newest event
        if built.own.get("basis", "time") != "time" or (built.own.get("keeping") == "rw" and joins):
            return None
        if question.where and (not bits or question.where.key is not None or question.aggregate not in RESTRICTED):
            return None
        if isinstance(question.decay, LastEvents) and built.weighted and built.counting == "weight":
            return None
        of_all = question.aggregate in ("sum", "count") and not question.where
        return Promise(ecm_width(question, built), certain=of_all and built.own.get("keeping") != "rw")

    @property
    def depth(self) -> int:
        """How often its logs were aggregated by an earlier wane, or its waves merged with others of the same times."""
        return max((one.depth for one in self.aggregates), default=self.overlaps)

    @cached_property
    def counters(self) -> AskableCounters:
        return self.askable([self])

    def answer(self, question: Question, *, other: Ecm | None = None) -> Estimate:
        """The answer with its interval; `other` is the second sketch of an inner product."""
        return self.counters.answer(question, other=None if other is None else other.counters)

    def series(self, question: Question, as_of: ArrayLike, *, other: Ecm | None = None) -> Series:
        """The same question at many as-of times."""
        return self.counters.series(question, as_of, other=None if other is None else other.counters)

    def readings(self, askable: AskableCounters, window: Question, value: Any = None) -> Readings:
        return readings_of(self.parameters, askable, window, value)

    @property
    def shape(self) -> Shape:
        return shape_of(self.parameters)

    def to_bytes(self) -> bytes:
        writer = Writer()
        write_head(writer, self.kind, self.extremes, self.labels)
        parameters, begin = self.parameters, self.extremes.oldest or 0
        writer.varint(self.overlaps if isinstance(self.logs, Waves) else len(self.aggregates))
        writer.varint(len(self.candidates))
        writer.column(np.diff(self.candidates, prepend=np.uint64(0)))
        if isinstance(self.logs, Waves):
            self.logs.write(writer)
        else:
            write_logs(writer, self.logs, parameters, begin)
            for one in self.aggregates:
                writer.varint(one.depth)
                write_laid_out(writer, one.logs, begin)
        version = FORMAT_VERSION if isinstance(self.logs, Waves) else ENTRIES_FORMAT
        return seal(self.family, version, parameters.to_bytes(), parameters.seed, writer.to_bytes())

    @classmethod
    def _opened(cls, envelope: Envelope) -> Ecm:
        parameters = EcmParameters.from_bytes(envelope.parameters, envelope.seed, envelope.version)
        reader = envelope.reader()
        kind, extremes, labels = read_head(reader)
        beside, count = reader.varint(), reader.varint()
        if count > reader.remaining or beside > 1 << 20:
            raise CorruptError(f"{count} candidates are announced, but only {reader.remaining} bytes are left")
        candidates = np.cumsum(reader.column(count), dtype=np.uint64)
        if (candidates[1:] <= candidates[:-1]).any():
            raise CorruptError("the candidates are not in order")
        logs: Logs | Waves
        aggregates: tuple[Aggregate, ...] = ()
        if parameters.keeping == "rw":
            oldest, newest = (extremes.oldest or 0, extremes.newest or 0)
            logs = Waves.read(reader, parameters.cells(kind), oldest, newest)
        else:
            logs, aggregates = read_counters(reader, beside, parameters, kind, extremes)
        reader.done()
        if kind is Kind.KEY and not np.isin(candidates, labels.hashes).all():
            raise CorruptError("a key has no label")
        overlaps = beside if parameters.keeping == "rw" else 0
        return cls(parameters, logs, aggregates, overlaps, candidates, kind, labels, extremes)

    @property
    def kept(self) -> int:
        """Times in the sketch."""
        if isinstance(self.logs, Waves):
            return len(self.logs.time)
        return len(self.logs.end) + sum(len(one.logs.end) for one in self.aggregates)


def _counted(events: Events, parameters: EcmParameters) -> tuple[Events, Ints]:
    """The events that add to counters, in the order of their times, and these times (or the numbers of the arrivals).

    An event of weight 0 is an arrival, but adds nothing where weights are counted.
    """
    weights = None if parameters.counting == "events" else events.weights
    times = events.times
    order = np.argsort(times, kind="stable") if (times[1:] < times[:-1]).any() else None
    if order is not None:
        times, weights = times[order], None if weights is None else weights[order]
    clock = np.arange(1, len(times) + 1) if parameters.basis == "count" else times
    if weights is not None and not weights.all():
        adding = np.flatnonzero(weights)
        order = adding if order is None else order[adding]
        times, clock, weights = times[adding], clock[adding], weights[adding]
        if (weights == 1).all():
            weights = None
    ids, values = (events.ids, events.values) if order is None else (events.ids[order], events.values[order])
    return Events(ids, times, values, weights, events.labels, events.kind), clock


def _merged_logs(sketches: Sequence[Ecm], parameters: EcmParameters, later: Ints | None) -> tuple[Logs | Waves, int]:
    """The counters of all the sketches as one, and of waves how often some of the same times were merged."""
    waves = [sketch.logs for sketch in sketches if isinstance(sketch.logs, Waves)]
    if waves:
        spans = sorted((one.extremes.oldest or 0, one.extremes.newest or 0) for one in sketches)
        shared = any(begin <= end for (_, end), (begin, _) in pairwise(spans))  # there may be copies of rows
        overlaps = max(sketch.overlaps for sketch in sketches) + shared
        return Waves.merged(waves, capacity(parameters.window_error, parameters.delta / 2.0)), overlaps
    logs = [sketch.logs for sketch in sketches if isinstance(sketch.logs, Logs)]
    beside = [one.logs for sketch in sketches for one in sketch.aggregates]
    refuse_more(float(sum(float(one.totals()[-1]) for one in (*logs, *beside))))
    return coalesced(logs, room(parameters.window_error), later), 0


def _entries(sketch: Ecm) -> Iterator[tuple[NDArray[np.intp], Ints, Ints, Floats, Floats]]:
    """Counter, first and last time, arrivals and relative error (0: the times are certain) of every entry."""
    logs, parameters = sketch.logs, sketch.parameters
    if isinstance(logs, Waves):
        yield logs.owner, logs.time, logs.time, logs.sizes(), np.full(len(logs.time), parameters.window_error)
        return
    for one in (Aggregate(0, logs), *sketch.aggregates):
        error = parameters.counter_error(one.depth) if one.depth else 0.0
        columns = one.logs
        sizes, errors = columns.size.astype(np.float64), np.full(len(columns.end), error)
        yield columns.owners(), columns.start, columns.end, sizes, errors
