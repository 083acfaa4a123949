"""What the catalogue knows of some sources, epoch by epoch, as the planner needs it: columns of totals.

How often a sketch was merged into is not written down. A run can only have added to an epoch if the files that it read
have events from that time; so the number of such runs, less the one that made the sketch, is the most that it can be.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from sketches.arrays import Floats, Ints
from sketches.holdings import Holdings
from store.serving.catalogue import StoredStream

_KEPT: Final = 64  # selections of sources whose holdings are remembered


def holdings_of(held: StoredStream, sources: Sequence[str]) -> Holdings:
    """The epochs of these sources with their totals. Worked out once for a catalogue and a selection."""
    key = tuple(sources)
    known: dict[tuple[str, ...], Holdings] = held.holdings
    if key not in known:
        if len(known) >= _KEPT:
            known.pop(next(iter(known)))
        known[key] = _holdings(held, set(sources))
    return known[key]


def _holdings(held: StoredStream, sources: set[str]) -> Holdings:
    table = held.totals_by_column
    wanted = np.fromiter((source in sources for source in held.sources), bool, len(held.sources))
    chosen = np.flatnonzero(wanted[table.source] & (table.events > 0)) if len(table.source) else table.source
    if len(chosen) == 0:
        return Holdings.none()
    oldest, newest, events = table.oldest[chosen], table.newest[chosen], table.events[chosen]
    starts, place = np.unique(table.start[chosen], return_inverse=True)
    first = np.full(len(starts), np.iinfo(np.int64).max)
    last = np.full(len(starts), np.iinfo(np.int64).min)
    largest = np.zeros(len(starts))
    np.minimum.at(first, place, oldest)
    np.maximum.at(last, place, newest)
    np.maximum.at(largest, place, events)
    together: Floats = np.bincount(place, weights=events).astype(np.float64)
    parts: Floats = np.bincount(place).astype(np.float64)
    return Holdings(first, last, together, largest, parts, *_runs(held, first, last), held.unit)


def _runs(held: StoredStream, first: Ints, last: Ints) -> tuple[Floats, Floats]:
    """Of each epoch, how many runs read events of its time, less one, and how much of its time one of them brings."""
    if not held.spans:
        return np.zeros(len(first)), np.ones(len(first))
    begins, ends = (np.sort(np.array(column)) for column in zip(*held.spans, strict=True))
    runs = np.searchsorted(begins, last, side="right") - np.searchsorted(ends, first, side="left")
    # overlap of all runs with [first, last]: what began by its end, less what ended before, each from its own end on
    brought = _after(ends, last + 1) - _after(begins, last + 1) - _after(ends, first) + _after(begins, first)
    length = (last - first + 1).astype(np.float64)
    stretch = (brought + runs) / np.maximum(runs, 1) / length
    return np.maximum(runs - 1.0, 0.0), np.clip(stretch, 1.0 / np.maximum(runs, 1), 1.0)


def _after(points: Ints, times: Ints) -> Floats:
    """For each time the sum of the distances from it to the points before it, negated."""
    before = np.searchsorted(points, times, side="left")
    sums = np.concatenate(([0.0], np.cumsum(points - points[0], dtype=np.float64)))
    return np.asarray(sums[before] - before * (times - points[0]), np.float64)
