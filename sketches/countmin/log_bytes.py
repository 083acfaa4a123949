"""The logs of counters as bytes: what each counter had, and the times of its entries.

Where the entries follow from the numbers of arrivals, as in every sketch of one batch, only these and the ends are
written. Merged logs are written entry by entry.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from sketches.arrays import Ints, Rows
from sketches.compiled import njit
from sketches.countmin.ecm_parameters import EcmParameters
from sketches.countmin.window_logs import MOST_ARRIVALS, Logs, laid_out, room, sizes_of
from sketches.encoding.envelope import Reader, Writer
from sketches.encoding.packing import unzigzag, zigzag
from sketches.errors import CorruptError
from sketches.event_rules import MAX_TIME
from sketches.events import Extremes, Kind

ENTRIES_FORMAT: Final = 7  # the first in which merged logs are written entry by entry
_IN_ORDER, _ENTRIES = 0, 1
_OUTSIDE: Final = "times lie outside the range of times"


class Aggregate(NamedTuple):
    """Logs that an earlier wane made of several by aggregating them h times (E §5.1): their times are not certain."""

    depth: int
    logs: Logs

    def order(self) -> tuple[int, bytes]:
        """Something to sort by that tells any two apart."""
        return self.depth, self.logs.bounds.tobytes() + self.logs.end.tobytes()


def write_logs(writer: Writer, logs: Logs, parameters: EcmParameters, begin: int) -> None:
    """The form that the logs have, and the logs in it."""
    if _is_laid_out(logs, parameters):
        writer.u8(_IN_ORDER)
        write_laid_out(writer, logs, begin)
        return
    writer.u8(_ENTRIES)
    writer.column(np.diff(logs.bounds).astype(np.uint64))
    before, newest_first = _ends_before(logs.bounds, logs.end, begin), _newest_first(logs.bounds)
    writer.column((logs.size - 1)[newest_first].view(np.uint64))
    writer.column((logs.end - before)[newest_first].view(np.uint64))
    # an entry starts where the one before it ends but for few, and the start of a lone arrival means nothing
    apart = np.flatnonzero((logs.start != before) & (logs.size > 1))
    writer.varint(len(apart))
    writer.column(np.diff(apart, prepend=0).astype(np.uint64))
    writer.column(zigzag((logs.start - before)[apart]))


def write_laid_out(writer: Writer, logs: Logs, begin: int) -> None:
    """How many arrivals each counter had, which says what the entries stand for, and their times."""
    writer.column(logs.totals().view(np.uint64))
    used = np.diff(logs.bounds) > 0
    writer.column((logs.oldest()[used] - begin).view(np.uint64))
    writer.column((logs.end - logs.start).view(np.uint64))


def read_counters(
    reader: Reader, beside: int, parameters: EcmParameters, kind: Kind, extremes: Extremes
) -> tuple[Logs, tuple[Aggregate, ...]]:
    """The logs of a sketch, and those that were aggregated: so many, or before format 7 all of them, so many times."""
    if reader.version >= ENTRIES_FORMAT:
        logs = read_logs(reader, parameters, kind, extremes)
        aggregates = tuple(
            Aggregate(reader.varint(), read_laid_out(reader, parameters, kind, extremes)) for _ in range(beside)
        )
    else:
        logs = read_laid_out(reader, parameters, kind, extremes)
        aggregates = (Aggregate(beside, logs),) if beside else ()
        logs = Logs.none(logs.counters) if beside else logs
    if any(not 0 < one.depth <= 1 << 20 for one in aggregates):
        raise CorruptError("logs were aggregated no time, or more often than they can have been")
    refuse_wrong_totals([logs, *(one.logs for one in aggregates)], parameters, extremes)
    return logs, aggregates


def read_logs(reader: Reader, parameters: EcmParameters, kind: Kind, extremes: Extremes) -> Logs:
    """What `write_logs` wrote, every time within those of the sketch."""
    form = reader.u8()
    if form == _IN_ORDER:
        return read_laid_out(reader, parameters, kind, extremes)
    if form != _ENTRIES:
        raise CorruptError(f"the logs of counters are of form {form}, which is unknown")
    lengths = reader.column(parameters.cells(kind))
    entries = lengths.sum(dtype=np.float64)
    if entries > 128 * (reader.remaining + 1):
        raise CorruptError(f"{entries:.0f} entries are announced, but only {reader.remaining} bytes are left")
    bounds = np.concatenate(([0], np.cumsum(lengths.view(np.int64))))
    sizes, steps = np.zeros(int(bounds[-1]), np.uint64), np.zeros(int(bounds[-1]), np.uint64)
    newest_first = _newest_first(bounds)
    sizes[newest_first], steps[newest_first] = reader.column(len(sizes)), reader.column(len(steps))
    if len(sizes) and (sizes.max() >= np.uint64(MOST_ARRIVALS) or steps.max() > np.uint64(2 * MAX_TIME)):
        raise CorruptError("an entry of a log has more arrivals, or comes later, than any can")
    size = sizes.view(np.int64) + 1
    owners = np.repeat(np.arange(len(lengths)), np.diff(bounds))
    if np.bincount(owners, size).max(initial=0.0) > MOST_ARRIVALS:
        raise CorruptError("there are more arrivals than can be counted")
    begin, newest = extremes.oldest or 0, extremes.newest or 0
    end = _cumulated(bounds, np.full(len(bounds) - 1, begin), steps.view(np.int64))
    before = _ends_before(bounds, end, begin)
    leads = np.zeros(len(end), bool)
    leads[bounds[:-1][np.diff(bounds) > 0]] = True
    start = np.where((size == 1) & leads, end, before)
    count = reader.varint()
    if count > len(end):
        raise CorruptError(f"{count} starts are announced of {len(end)} entries")
    apart = np.cumsum(reader.column(count).view(np.int64))
    moved = unzigzag(reader.column(count))
    if count and (apart.min() < 0 or apart.max() >= len(end) or (apart[1:] <= apart[:-1]).any() or not moved.all()):
        raise CorruptError("starts are not in the order of their entries")
    start[apart] = before[apart] + moved
    if len(end) and (end.min() < begin or end.max() > newest or start.min() < begin or (start > end).any()):
        raise CorruptError(_OUTSIDE)
    return Logs(bounds, start, end, size)


def read_laid_out(reader: Reader, parameters: EcmParameters, kind: Kind, extremes: Extremes) -> Logs:
    """What `write_laid_out` wrote, every time within those of the sketch."""
    cells = parameters.cells(kind)
    totals = reader.column(cells)
    if int(totals.max()) > MOST_ARRIVALS:
        raise CorruptError("there are more arrivals than can be counted")
    counts = totals.view(np.int64)
    used = counts > 0
    oldest = np.zeros(cells, np.int64)
    begin, end = extremes.oldest or 0, extremes.newest or 0
    entries = int(np.count_nonzero(used))
    delays = reader.column(entries)
    if entries and delays.max() > np.uint64(end - begin):
        raise CorruptError(_OUTSIDE)
    oldest[used] = begin + delays.view(np.int64)
    # every entry takes a bit at least, and there are few for each arrival: no count can be absurd
    most = 128 * (reader.remaining + 1)
    k = room(parameters.window_error)
    if np.minimum(counts, (k + 2.0) * (2.0 + np.log2(counts + 1.0))).sum() / 4 > most:
        raise CorruptError("more times are announced than there are bytes left")
    bounds, ranks = laid_out(counts, k, parameters.keeping == "eh")
    steps = reader.column(len(ranks))
    if len(steps) and int(steps.max()) > 2 * MAX_TIME:
        raise CorruptError(_OUTSIDE)
    ends = _cumulated(bounds, oldest, steps.view(np.int64))
    if len(ends) and (ends.max() > end or ends.min() < begin):
        raise CorruptError(_OUTSIDE)
    return Logs.in_order(bounds, ends, sizes_of(bounds, ranks), oldest)


def refuse_wrong_totals(parts: list[Logs], parameters: EcmParameters, extremes: Extremes) -> None:
    """`CorruptError` where the counters of a sketch hold more than came, or anything although nothing came."""
    counts = np.sum([logs.totals().astype(np.float64) for logs in parts], axis=0)
    weightless = parameters.counting == "weight" and extremes.greatest_weight == 0
    if counts[-1] > MOST_ARRIVALS:
        raise CorruptError("there are more arrivals than can be counted")
    if (extremes.newest is None or weightless) != (counts[-1] == 0) or counts.max() != counts[-1]:
        raise CorruptError("the counters do not add up")


def _is_laid_out(logs: Logs, parameters: EcmParameters) -> bool:
    """Whether the entries of every counter are those of so many arrivals in order."""
    bounds, ranks = laid_out(logs.totals(), room(parameters.window_error), parameters.keeping == "eh")
    if not (np.array_equal(bounds, logs.bounds) and np.array_equal(sizes_of(bounds, ranks), logs.size)):
        return False
    return np.array_equal(Logs.in_order(bounds, logs.end, logs.size, logs.oldest()).start, logs.start)


def _ends_before(bounds: Ints, end: Ints, begin: int) -> Ints:
    """Where the entry before each entry of its counter ends; `begin` where there is none."""
    before = np.empty_like(end)
    before[1:] = end[:-1]
    before[bounds[:-1][np.diff(bounds) > 0]] = begin
    return before


def _newest_first(bounds: Ints) -> Rows:
    """The newest entries of all counters, then those before them, and so on: neighbours are alike, and pack well."""
    lengths = np.diff(bounds)
    return np.argsort(np.repeat(bounds[1:], lengths) - np.arange(bounds[-1]), kind="stable")


@njit(cache=True, nogil=True)
def _cumulated(bounds: Ints, oldest: Ints, steps: Ints) -> Ints:
    """The ends of entries from the steps to them."""
    ends = np.empty_like(steps)
    for counter in range(len(bounds) - 1):
        time = oldest[counter]
        for at in range(bounds[counter], bounds[counter + 1]):
            time += steps[at]
            ends[at] = time
    return ends
