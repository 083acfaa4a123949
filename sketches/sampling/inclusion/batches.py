"""From a batch of events to the rows that a ladder keeps of it, and to the cuts that they leave."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from sketches.arrays import Ints, frozen
from sketches.events import Events, Extremes
from sketches.hashing import salt
from sketches.sampling.inclusion.ladder import Codes, Cuts, LadderRows, seen_once, trimmed
from sketches.sampling.inclusion.ladder_parameters import LadderParameters
from sketches.sampling.inclusion.sampled_rows import sampled_rows
from sketches.sampling.inclusion.sampling_number import MASKS

_FIRST_ROWS: Final = 4  # times the capacity: rows that are sorted before there are cuts to pass the others by


def in_order(names: Sequence[str], sources: Codes) -> tuple[tuple[str, ...], Codes]:
    """The names that occur, in order, and the sources numbered by them."""
    used = np.flatnonzero(np.bincount(sources, minlength=len(names))) if len(sources) else np.empty(0, np.intp)
    ordered = sorted(used.tolist(), key=lambda at: names[at])
    number = np.zeros(len(names), np.int32)
    number[ordered] = np.arange(len(ordered), dtype=np.int32)
    return tuple(names[at] for at in ordered), number[sources]


def newest_first(times: Ints, capacity: int) -> list[tuple[int, int]]:
    """Stretches of time, the newest first: its rows give the cuts by which most of the others are passed by."""
    first = _FIRST_ROWS * capacity
    oldest, after = int(times.min()), int(times.max()) + 1
    if len(times) <= 2 * first:
        return [(oldest, after)]
    edge = int(np.partition(times, len(times) - first)[len(times) - first])
    return [(edge, after), (oldest, edge)]


def rows_worth_keeping(
    events: Events,
    sources: Codes,
    span: tuple[int, int],
    parameters: LadderParameters,
    cuts: Cuts,
    *,
    counting_rows: bool,
) -> LadderRows:
    """The rows of a stretch of time that the cuts leave."""
    rows, hashes = sampled_rows(
        events.columns(),
        frozen(sources),
        np.uint64(salt(parameters.seed, 0)),
        MASKS[parameters.bits],
        (cuts.of_weight, cuts.of_count, cuts.of_sources, cuts.fine),
        *span,
    )
    weights = events.weights[rows] if events.weights is not None else np.ones(len(rows), np.int64)
    values = events.values[rows].astype(events.kind.dtype, copy=False)
    counts = seen_once(len(rows)) if counting_rows else None
    fields = events.fields.take(rows, len(rows))
    return LadderRows.sorted(events.times[rows], hashes, values, weights, sources[rows], counts, fields)


def with_fine(cuts: Cuts, extremes: Extremes, parameters: LadderParameters) -> Cuts:
    """The cuts where all is kept besides that came within `fine` of the newest event."""
    assert extremes.newest is not None
    return replace(cuts, fine=max(cuts.fine, extremes.newest - parameters.fine))


def trim(rows: LadderRows, cuts: Cuts, parameters: LadderParameters) -> tuple[LadderRows, Cuts]:
    return trimmed(rows, cuts, parameters.capacity, parameters.per_source)
