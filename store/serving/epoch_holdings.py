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
    """What each epoch holds of these sources. How much of it is theirs follows from how fast each source brings events
    between its first and its last one."""
    epochs, lives = held.epoch_columns, held.source_columns
    if len(epochs.start) == 0 or not sources:
        return Holdings.none()
    wanted = np.fromiter((source in sources for source in held.sources), bool, len(held.sources))
    rates = lives.events / (lives.newest - lives.oldest + 1.0)
    first, last = epochs.oldest, epochs.newest
    mine = _alive(lives.oldest[wanted], lives.newest[wanted], rates[wanted], first, last)
    everyone = np.maximum(_alive(lives.oldest, lives.newest, rates, first, last), 1e-300)
    together: Floats = epochs.events.astype(np.float64) * np.minimum(mine / everyone, 1.0)
    parts = _alive(lives.oldest[wanted], lives.newest[wanted], np.ones(int(wanted.sum())), first, last)
    fastest = rates[wanted].max(initial=0.0)
    largest = np.minimum(together * fastest / np.maximum(mine, 1e-300), together)
    some = together > 0.0
    oldest, newest = first[some], last[some]
    if not wanted.all():
        oldest = np.clip(oldest, int(lives.oldest[wanted].min()), int(lives.newest[wanted].max()))
        newest = np.clip(newest, oldest, max(int(lives.newest[wanted].max()), int(oldest.max(initial=0))))
    return Holdings(
        oldest, newest, together[some], largest[some], parts[some], _merges(held, oldest, newest), held.unit
    )


def as_faded(held: StoredStream, family: str, holdings: Holdings) -> Holdings:
    """The holdings as a family knows them whose old epochs stand together."""
    spans = held.stretches[family].spans() if family in held.stretches else []
    if not spans or len(holdings.events) == 0:
        return holdings
    begin, end = (np.array([getattr(one, name) for one in spans]) for name in ("start", "end"))
    at = np.searchsorted(begin, holdings.oldest, side="right") - 1
    inside = (at >= 0) & (holdings.oldest < end[np.maximum(at, 0)])
    label = np.where(inside, at, len(spans) + np.arange(len(at)))
    first = np.flatnonzero(np.append(True, label[1:] != label[:-1]))
    events = np.add.reduceat(holdings.events, first)
    since = events.sum() - np.cumsum(events)
    return Holdings(
        np.minimum.reduceat(holdings.oldest, first),
        np.maximum.reduceat(holdings.newest, first),
        events,
        np.add.reduceat(holdings.largest, first),
        np.maximum.reduceat(holdings.parts, first),
        np.maximum.reduceat(holdings.merges, first),
        holdings.unit,
        np.where(inside[first], since / detail_of(held, family), 0.0),
    )


def detail_of(held: StoredStream, family: str) -> float:
    """The setting that says how old epochs are when they stand together; infinite where they do not."""
    own = held.described.get(family)
    stated = own["detail"] if isinstance(own, dict) and "detail" in own else held.described.get("detail")
    return float(stated) if isinstance(stated, int) and stated >= 1 else np.inf


def _alive(oldest: Ints, newest: Ints, amounts: Floats, first: Ints, last: Ints) -> Floats:
    """For each epoch the amounts of the sources that began by its last event and were heard of since its first one."""
    begun, ended = np.argsort(oldest), np.argsort(newest)
    begins, ends = (np.concatenate(([0.0], np.cumsum(amounts[order]))) for order in (begun, ended))
    return np.asarray(
        begins[np.searchsorted(oldest[begun], last, side="right")]
        - ends[np.searchsorted(newest[ended], first, side="left")],
        np.float64,
    )


def _merges(held: StoredStream, first: Ints, last: Ints) -> Floats:
    """Of each epoch, how many runs read events of its time, less one."""
    if not held.spans:
        return np.zeros(len(first))
    begins, ends = (np.sort(np.array(column)) for column in zip(*held.spans, strict=True))
    runs = np.searchsorted(begins, last, side="right") - np.searchsorted(ends, first, side="left")
    return np.asarray(np.maximum(runs - 1.0, 0.0), np.float64)
