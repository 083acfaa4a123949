"""The `ecm` family: Count-Min sketches whose counters are windows (paper E), for keys from a huge domain.

Every counter keeps a log of times (`sketches.waves`), so a counter can be read over any window, hence under any decay
by reduction to windows: each entry of a log is a mass with the range of times in which its arrivals came. The logs of
sketches of other epochs and sources are read side by side, which costs no accuracy; only what is *stored* together is
aggregated as in E §5, with the error that it states.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar

import numba
import numpy as np
from numpy.typing import NDArray

from sketches.codec import read_head, write_head
from sketches.counters import ANSWERED, FAMILY, Counters, clamped, place_of, places_of
from sketches.drawn import SECOND, Extremes, TimeUnit
from sketches.ecm_parameters import EcmParameters, Keeping, Purpose
from sketches.errors import CorruptError, EventError, IncompatibleError, UnanswerableError
from sketches.estimate import Estimate, Series
from sketches.events import MAX_TIME, Events, Kind, Labels
from sketches.hashing import event_hashes, finalise_one, salt
from sketches.merging import mergeable
from sketches.order import codes_of
from sketches.packing import frozen
from sketches.question import Question
from sketches.random_waves import LEVELS, Waves, capacity, levels_of
from sketches.stored import Stored
from sketches.waves import Basis, Logs, aggregated, laid_out, room, sizes_of
from sketches.wire import FORMAT_VERSION, Envelope, Reader, Writer, seal

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Words = NDArray[np.uint64]


@dataclass(frozen=True)
class Ecm(Stored):
    """Mergeable Count-Min sketch over sliding windows: how often keys came, in any window, under any decay.

    Question: decayed sum of the weights; frequency of a value; heavy hitters; self-join size and inner product of two
    sources; for whole numbers, where built with `bits`, rank, quantiles, and sums and shares over v ≥ tau or a range.

    Guarantee: with D the decayed sum, a frequency errs by at most ε·D with probability 1 - δ over the seed (E, Theorems
    1 and 3), an inner product by at most ε·D·D' where built for `purpose="inner"` (Theorem 2). Heavy hitters of φ:
    every value with a share of φ + ε is listed, and with probability 1 - δ none with less than φ (Theorem 5). The sum
    itself is never outside its bounds. The logs of epochs and sources that are asked together lose nothing; what is
    merged to be stored h times has counters that err by (1 + ε)^(h + 1) - 1 instead of ε (E §5.1), and answers say so.

    Not bounded: heavy hitters as of a time before the newest event, of which some may be missing unless built with
    `bits`; values below ε·D, of which the estimate is only an upper bound; sums over ranges err by ε_cm·D for each of
    up to `bits` dyadic parts. Rows that come twice count twice. With `basis="count"` windows are of the last arrivals,
    in steps of one second each, and such sketches cannot be merged (E §5.1, Figure 2).

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
    answered: ClassVar[tuple[str, ...]] = ANSWERED

    parameters: EcmParameters
    logs: Logs | Waves = field(repr=False)
    depth: int  # aggregations between the arrivals and these logs: h
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
    ) -> Ecm:
        """Count a batch of events.

        `keeping` is how counters remember: exponential histograms ("eh"), deterministic or randomised waves ("dw",
        "rw"); `purpose` is the question that ε is for, "point" or "inner"; `bits` the size of the domain for ranges of
        whole numbers.
        """
        return cls._of(events, EcmParameters(epsilon, delta, keeping, purpose, basis, bits, unit, seed))

    @classmethod
    def _of(cls, events: Events, parameters: EcmParameters) -> Ecm:
        extremes = Extremes.of(events)
        kind = events.kind
        codes = codes_of(events.values, kind)
        if kind is Kind.INTEGER:
            codes = clamped(codes, parameters.bits)
        weights = events.weights if events.weights is not None else np.empty(0, np.int64)
        times = events.times
        if (times[1:] < times[:-1]).any():
            order = np.argsort(times, kind="stable")
            times, codes = times[order], codes[order]
            weights = weights[order] if len(weights) else weights
            events = Events(events.ids[order], times, events.values[order], events.weights, events.labels, kind)
        if parameters.basis == "count":
            times = np.arange(1, len(times) + 1)
            if len(times):
                extremes = replace(extremes, oldest=1, newest=len(times))
        columns = (frozen(np.ascontiguousarray(codes)), frozen(np.ascontiguousarray(weights)))
        clock = frozen(np.ascontiguousarray(times))
        logs: Logs | Waves
        if parameters.keeping == "rw":
            logs = _waves(events, clock, columns[0], parameters)
        else:
            logs = _logs(clock, *columns, kind, parameters)
        candidates = np.unique(codes[_heavy(*columns, parameters.epsilon)])
        labels = Labels.kept([events.labels], kind, [candidates])
        return cls(parameters, logs, 0, candidates, kind, labels, extremes)

    @classmethod
    def union(cls, sketches: Sequence[Ecm]) -> Ecm:
        """The sketch of all the sketches' events in the order of their times, however many: one aggregation (E §5)."""
        seen = mergeable(sketches)
        if len(seen) < 2:
            return seen[0] if seen else sketches[0]
        first = seen[0]
        if first.parameters.basis == "count":
            raise IncompatibleError(
                "windows of the last arrivals cannot be merged: the counters know in which order the counted arrivals "
                "came, but not how many others came between them (E §5.1, Figure 2); use basis='time'"
            )
        logs, depth = _merged_logs(seen, first.parameters)
        candidates = np.unique(np.concatenate([sketch.candidates for sketch in seen]))
        labels = Labels.kept([sketch.labels for sketch in seen], first.kind, [candidates])
        extremes = Extremes.merged([sketch.extremes for sketch in seen])
        return cls(first.parameters, logs, depth, candidates, first.kind, labels, extremes)

    @classmethod
    def side_by_side(cls, sketches: Sequence[Ecm]) -> Counters:
        """The counters of all the sketches, ready to be asked: nothing is aggregated."""
        seen = mergeable(sketches) or sketches[:1]
        first = seen[0]
        if first.parameters.basis == "count" and len(seen) > 1:
            raise UnanswerableError(
                "windows of the last arrivals cannot be asked of several sketches together (E §5.1)"
            )
        columns = [_entries(sketch) for sketch in seen]
        owner, start, end, size, error = (np.concatenate(parts) for parts in zip(*columns, strict=True))
        order = np.argsort(owner, kind="stable")
        cells = first.parameters.cells(first.kind)
        return Counters(
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

    @cached_property
    def counters(self) -> Counters:
        return self.side_by_side([self])

    def answer(self, question: Question, *, other: Ecm | None = None) -> Estimate:
        """The answer with its interval; `other` is the second sketch of an inner product."""
        return self.counters.answer(question, other=None if other is None else other.counters)

    def series(self, question: Question, as_of: NDArray[np.int64]) -> Series:
        """The same question at many as-of times."""
        return self.counters.series(question, as_of)

    def to_bytes(self) -> bytes:
        writer = Writer()
        write_head(writer, self.kind, self.extremes, self.labels)
        writer.varint(self.depth)
        writer.varint(len(self.candidates))
        writer.column(np.diff(self.candidates, prepend=np.uint64(0)))
        if isinstance(self.logs, Waves):
            self.logs.write(writer)
        else:
            _write_logs(writer, self.logs, self.extremes.oldest or 0)
        parameters = self.parameters
        return seal(self.family, FORMAT_VERSION, parameters.to_bytes(), parameters.seed, writer.to_bytes())

    @classmethod
    def _opened(cls, envelope: Envelope) -> Ecm:
        parameters = EcmParameters.from_bytes(envelope.parameters, envelope.seed)
        reader = Reader(envelope.body)
        kind, extremes, labels = read_head(reader)
        depth, count = reader.varint(), reader.varint()
        if count > reader.remaining or depth > 1 << 20:
            raise CorruptError(f"{count} candidates are announced, but only {reader.remaining} bytes are left")
        candidates = np.cumsum(reader.column(count), dtype=np.uint64)
        if (candidates[1:] <= candidates[:-1]).any():
            raise CorruptError("the candidates are not in order")
        logs: Logs | Waves
        if parameters.keeping == "rw":
            oldest, newest = (extremes.oldest or 0, extremes.newest or 0)
            logs = Waves.read(reader, parameters.cells(kind), oldest, newest)
        else:
            logs = _read_logs(reader, parameters, kind, extremes)
        reader.done()
        if kind is Kind.KEY and not np.isin(candidates, labels.hashes).all():
            raise CorruptError("a key has no label")
        return cls(parameters, logs, depth, candidates, kind, labels, extremes)

    @property
    def kept(self) -> int:
        """Times in the sketch."""
        return len(self.logs.time if isinstance(self.logs, Waves) else self.logs.end)


def _logs(times: Ints, codes: Words, weights: Ints, kind: Kind, parameters: EcmParameters) -> Logs:
    """Exponential histograms or deterministic waves of events in the order of their times."""
    cells = parameters.cells(kind)
    if len(times) == 0:
        nothing = np.zeros(0, np.int64)
        return Logs(np.zeros(cells + 1, np.int64), nothing, nothing, np.zeros(cells, np.int64))
    shape = (parameters.levels(kind), parameters.rows, parameters.width)
    totals = _totals(codes, weights, parameters.salts, *shape)
    bounds, ranks = laid_out(totals, room(parameters.window_error), parameters.keeping == "eh")
    ends, oldest = _ends(times, codes, weights, parameters.salts, *shape, bounds, ranks)
    return Logs(bounds, ends, sizes_of(bounds, ranks), oldest)


def _waves(events: Events, times: Ints, codes: Words, parameters: EcmParameters) -> Waves:
    """Randomised waves: which arrivals are at which level depends on the event's hash alone."""
    if events.weights is not None:
        raise EventError("randomised waves count arrivals, so weights must be 1; keep 'eh' or 'dw' counts weights")
    cells, kind = parameters.cells(events.kind), events.kind
    if len(times) == 0:
        return Waves.none(cells)
    ids, clock, values, _ = events.columns()
    words = values.astype(np.int64).view(np.uint64) if values.dtype == np.int32 else values
    ones = np.ones(len(ids), np.uint64)
    hashes = event_hashes(ids, clock.view(np.uint64), words, ones, np.uint64(salt(parameters.seed, LEVELS)))
    level = levels_of(hashes)
    most = capacity(parameters.window_error, parameters.delta / 2.0)
    parts = [Waves.of(np.full(len(times), cells - 1), times, level, cells, most)]
    for dyadic in range(parameters.levels(kind)):
        salts = parameters.salts[dyadic * parameters.rows : (dyadic + 1) * parameters.rows]
        places = places_of(_prefixes(codes, dyadic), salts, parameters.width, dyadic * parameters.rows)
        parts.extend(Waves.of(places[:, row], times, level, cells, most) for row in range(parameters.rows))
    return Waves.merged(parts, most)


def _merged_logs(sketches: Sequence[Ecm], parameters: EcmParameters) -> tuple[Logs | Waves, int]:
    """The counters of all the sketches as one, and through how many aggregations they have gone."""
    waves = [sketch.logs for sketch in sketches if isinstance(sketch.logs, Waves)]
    if waves:
        return Waves.merged(waves, capacity(parameters.window_error, parameters.delta / 2.0)), 0  # nothing is lost
    logs = [sketch.logs for sketch in sketches if isinstance(sketch.logs, Logs)]
    cells = logs[0].counters
    columns = ((one.owners(), one.starts(), one.end, one.size) for one in logs)
    owner, start, end, size = (np.concatenate(parts) for parts in zip(*columns, strict=True))
    order = np.argsort(owner, kind="stable")
    k, exponential = room(parameters.window_error), parameters.keeping == "eh"
    bounds, ends, sizes = aggregated(owner[order], start[order], end[order], size[order], cells, k, exponential)
    oldest = np.full(cells, MAX_TIME, np.int64)
    for one in logs:
        used = np.diff(one.bounds) > 0
        oldest[used] = np.minimum(oldest[used], one.oldest[used])
    oldest[np.diff(bounds) == 0] = 0
    return Logs(bounds, ends, sizes, oldest), 1 + max(sketch.depth for sketch in sketches)


def _entries(sketch: Ecm) -> tuple[NDArray[np.intp], Ints, Ints, Floats, Floats]:
    """Counter, first and last time, arrivals and relative error (0: the times are certain) of every entry."""
    logs, parameters = sketch.logs, sketch.parameters
    if isinstance(logs, Waves):
        errors = np.full(len(logs.time), parameters.window_error)
        return logs.owner, logs.time, logs.time, logs.sizes(), errors
    errors = np.full(len(logs.end), parameters.counter_error(sketch.depth) if sketch.depth else 0.0)
    return logs.owners(), logs.starts(), logs.end, logs.size.astype(np.float64), errors


def _write_logs(writer: Writer, logs: Logs, begin: int) -> None:
    """How many arrivals each counter had, which says what the entries stand for, and their times."""
    writer.column(logs.totals().view(np.uint64))
    used = np.diff(logs.bounds) > 0
    writer.column((logs.oldest[used] - begin).view(np.uint64))
    writer.column((logs.end - logs.starts()).view(np.uint64))


def _read_logs(reader: Reader, parameters: EcmParameters, kind: Kind, extremes: Extremes) -> Logs:
    cells = parameters.cells(kind)
    totals = reader.column(cells)
    if totals.astype(np.float64).max() > MAX_TIME:
        raise CorruptError("there are more arrivals than can be counted")
    counts = totals.view(np.int64)
    if (extremes.newest is None) != (counts[-1] == 0) or counts.max() != counts[-1]:
        raise CorruptError("the counters do not add up")
    used = counts > 0
    oldest = np.zeros(cells, np.int64)
    begin, end = extremes.oldest or 0, extremes.newest or 0
    entries = int(np.count_nonzero(used))
    delays = reader.column(entries)
    if entries and delays.max() > np.uint64(end - begin):
        raise CorruptError("times lie outside the range of times")
    oldest[used] = begin + delays.view(np.int64)
    # every entry takes a bit at least, and there are few for each arrival: no count can be absurd
    most = 128 * (reader.remaining + 1)
    k = room(parameters.window_error)
    if np.minimum(counts, (k + 2.0) * (2.0 + np.log2(counts + 1.0))).sum() / 4 > most:
        raise CorruptError("more times are announced than there are bytes left")
    bounds, ranks = laid_out(counts, k, parameters.keeping == "eh")
    steps = reader.column(len(ranks))
    if len(steps) and steps.astype(np.float64).max() > 2.0 * MAX_TIME:
        raise CorruptError("times lie outside the range of times")
    ends = _cumulated(bounds, oldest, steps.view(np.int64))
    if len(ends) and (ends.max() > end or ends.min() < begin):
        raise CorruptError("times lie outside the range of times")
    return Logs(bounds, ends, sizes_of(bounds, ranks), oldest)


@numba.njit(cache=True, nogil=True, inline="always")
def _at_level(code: np.uint64, level: int) -> np.uint64:
    """The code itself at level 0; above, the prefix of a number of the domain."""
    if level == 0:
        return code
    return (code - (np.uint64(1) << np.uint64(63))) >> np.uint64(level)


@numba.njit(cache=True, nogil=True)
def _prefixes(codes: Words, level: int) -> Words:
    """`_at_level` of many codes."""
    found = np.empty_like(codes)
    for at in range(len(codes)):
        found[at] = _at_level(codes[at], level)
    return found


@numba.njit(cache=True, nogil=True)
def _totals(codes: Words, weights: Ints, salts: Words, levels: int, rows: int, width: int) -> Ints:
    """How many arrivals each counter gets; the last one gets all."""
    totals = np.zeros(levels * rows * width + 1, np.int64)
    for at in range(len(codes)):
        weight = weights[at] if len(weights) else 1
        totals[-1] += weight
        for level in range(levels):
            code = _at_level(codes[at], level)
            for row in range(level * rows, (level + 1) * rows):
                totals[row * width + place_of(code, salts[row], width)] += weight
    return totals


@numba.njit(cache=True, nogil=True)
def _ends(
    times: Ints,
    codes: Words,
    weights: Ints,
    salts: Words,
    levels: int,
    rows: int,
    width: int,
    bounds: Ints,
    ranks: Ints,
) -> tuple[Ints, Ints]:
    """The times of the kept ranks, and of the first arrival, of each counter; events come in order of time."""
    cells = len(bounds) - 1
    ends, oldest = np.empty(len(ranks), np.int64), np.zeros(cells, np.int64)
    seen, entry = np.zeros(cells, np.int64), bounds[:-1].copy()
    for at in range(len(codes)):
        weight = weights[at] if len(weights) else 1
        for level in range(levels + 1):
            code = codes[at] if level == levels else _at_level(codes[at], level)
            for row in range(level * rows, (level + 1) * rows if level < levels else level * rows + 1):
                cell = cells - 1 if level == levels else row * width + place_of(code, salts[row], width)
                if seen[cell] == 0:
                    oldest[cell] = times[at]
                seen[cell] += weight
                while entry[cell] < bounds[cell + 1] and ranks[entry[cell]] <= seen[cell]:
                    ends[entry[cell]] = times[at]
                    entry[cell] += 1
    return ends, oldest


@numba.njit(cache=True, nogil=True)
def _heavy(codes: Words, weights: Ints, epsilon: float) -> Ints:
    """One row of each value whose share of some suffix is at least ε: counted from the newest event on."""
    bits = 4
    while (1 << bits) < 2 * len(codes):
        bits += 1
    mask = np.uint64((1 << bits) - 1)
    rows, sums = np.full(1 << bits, -1, np.int64), np.zeros(1 << bits, np.int64)
    found, made = np.empty(len(codes), np.int64), 0
    total = 0
    for at in range(len(codes) - 1, -1, -1):
        weight = weights[at] if len(weights) else 1
        total += weight
        place = finalise_one(codes[at]) & mask
        while rows[place] >= 0 and codes[rows[place]] != codes[at]:
            place = (place + np.uint64(1)) & mask
        if rows[place] < 0:
            rows[place] = at
        before = sums[place]
        if before < 0:
            continue  # known to be heavy
        sums[place] = before + weight
        if sums[place] >= epsilon * total:
            found[made] = rows[place]
            made += 1
            sums[place] = -1
    return found[:made]


@numba.njit(cache=True, nogil=True)
def _cumulated(bounds: Ints, oldest: Ints, steps: Ints) -> Ints:
    """The ends of entries from the steps to them."""
    ends = np.empty_like(steps)
    for counter in range(len(bounds) - 1):
        time = oldest[counter]
        for at in range(bounds[counter], bounds[counter + 1]):
            time += steps[at]
            ends[at] = time
    return ends
