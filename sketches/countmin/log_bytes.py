"""The logs of counters as bytes: how many arrivals each counter had, and the times of its entries."""

from __future__ import annotations

import numpy as np

from sketches.arrays import Ints
from sketches.compiled import njit
from sketches.countmin.ecm_parameters import EcmParameters
from sketches.countmin.window_logs import MOST_ARRIVALS, Logs, laid_out, room, sizes_of
from sketches.encoding.envelope import Reader, Writer
from sketches.errors import CorruptError
from sketches.event_rules import MAX_TIME
from sketches.events import Extremes, Kind


def write_logs(writer: Writer, logs: Logs, begin: int) -> None:
    """How many arrivals each counter had, which says what the entries stand for, and their times."""
    writer.column(logs.totals().view(np.uint64))
    used = np.diff(logs.bounds) > 0
    writer.column((logs.oldest[used] - begin).view(np.uint64))
    writer.column((logs.end - logs.starts()).view(np.uint64))


def read_logs(reader: Reader, parameters: EcmParameters, kind: Kind, extremes: Extremes) -> Logs:
    cells = parameters.cells(kind)
    totals = reader.column(cells)
    if int(totals.max()) > MOST_ARRIVALS:
        raise CorruptError("there are more arrivals than can be counted")
    counts = totals.view(np.int64)
    weightless = parameters.counting == "weight" and extremes.greatest_weight == 0
    if (extremes.newest is None or weightless) != (counts[-1] == 0) or counts.max() != counts[-1]:
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
    if len(steps) and int(steps.max()) > 2 * MAX_TIME:
        raise CorruptError("times lie outside the range of times")
    ends = _cumulated(bounds, oldest, steps.view(np.int64))
    if len(ends) and (ends.max() > end or ends.min() < begin):
        raise CorruptError("times lie outside the range of times")
    return Logs(bounds, ends, sizes_of(bounds, ranks), oldest)


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
