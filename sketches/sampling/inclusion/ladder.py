"""One ladder of nested samples for a whole stream: which events are kept, and with which probability (paper A §4.1).

Every event has one number u in (0, 1), from a hash of the event without its source (see `sampling_number`). Level i
of the count's ladder holds the newest C events with u < 2^-i, level i of the weight's ladder the newest C with
u < w·2^-i; an event of weight 0 is in no level of the latter. The *cut* of a level is the time of its (C + 1)-th newest
event: the level holds every event after it and none at or before it, so a cut depends on the set of events alone. With
lc and lw the finest levels that are complete at an event's time, the event is kept iff

    u < π = max(2^-lc, min(1, w·2^-lw)).

An event that is kept by its count alone has w·2^-lw ≤ u < 2^-lc, so its own presence never changes π: Σ y/π over the
kept events is unbiased, however many levels and epochs there are. Levels nest and cuts fall with i, so an event is
stored once. Two sources that report one event are two rows of it; it counts once.

Besides, all events of a source that are newer than the source's own cut (its newest `per_source`) may be kept, and all
that are newer than one time for the whole stream (`fine`): there π is 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sketches.arrays import Column, Flags, Floats, Ints, Rows, Words
from sketches.fields import Fields
from sketches.records import dataclass
from sketches.sampling.inclusion.sampling_number import exponents, probability_below, weight_levels

LEVELS: Final = 96  # an event of weight 2^40 and the least u is in level 95
_MOST_COUNT: Final = np.iinfo(np.int32).max
NO_CUT: Final = int(np.iinfo(np.int64).min)  # of a level that has discarded nothing

Codes = NDArray[np.int32]
Counts = NDArray[np.int32]


def seen_once(rows: int) -> Counts:
    """The counts of so many rows of which each was seen once: one number that is read over and over."""
    return np.broadcast_to(np.int32(1), rows)


def _all_once(counts: Counts) -> bool:
    """Whether these are counts of rows seen once, by how they are held."""
    return counts.strides == (0,)


@dataclass(frozen=True, slots=True)
class LadderRows:
    """Rows sorted by (time, u, value, weight, source), each once; a source is its number in a list of names.

    `counts` is how often each row was seen, where that is counted: kept rows were kept from their first time on. Rows
    of one event have the same `fields`.
    """

    times: Ints
    hashes: Words  # shortened: u·2^64
    values: Column
    weights: Ints
    sources: Codes
    counts: Counts | None = None
    fields: Fields = field(default_factory=Fields.none)

    def __len__(self) -> int:
        return len(self.times)

    @classmethod
    def empty(cls, dtype: type[np.generic] = np.int64) -> LadderRows:
        none = np.empty(0, np.int64)
        return cls(none, np.empty(0, np.uint64), np.empty(0, dtype), none, np.empty(0, np.int32))

    @classmethod
    def sorted(
        cls,
        times: Ints,
        hashes: Words,
        values: Column,
        weights: Ints,
        sources: Codes,
        counts: Counts | None = None,
        fields: Fields | None = None,
    ) -> LadderRows:
        """Rows in any order, with repeats, put in order, each once; what is counted of repeats adds up."""
        keys = _keys(times, hashes)
        order = np.argsort(keys, kind="stable")
        keys = keys[order]
        rows = cls(times, hashes, values, weights, sources, counts, fields or Fields.none()).take(order)
        tied = keys[1:] == keys[:-1]
        if not tied.any():
            return rows
        # Few rows share a key: only these are compared in full.
        like_before = np.concatenate(([False], tied))
        among = np.flatnonzero(like_before | np.append(tied, False))
        some = rows.take(among)
        group = np.cumsum(~like_before)[among]
        inside = np.lexsort((some.sources, some.weights, some.values, some.hashes, group))
        order = np.arange(len(rows))
        order[among] = among[inside]
        rows = rows.take(order)._with_fields_of_events()
        repeated = np.concatenate(([False], rows.same_event & (rows.sources[1:] == rows.sources[:-1])))
        if not repeated.any():
            return rows
        if rows.counts is not None:
            rows = replace(rows, counts=rows._added_up(repeated))
        return rows.take(~repeated)

    def _with_fields_of_events(self) -> LadderRows:
        """The rows, in order, those of one event with the fields of one of them: of the least."""
        same = self.same_event if self.fields else np.zeros(0, bool)
        if not same.any():
            return self
        like_before = np.concatenate(([False], same))
        among = np.flatnonzero(like_before | np.append(same, False))
        group = np.cumsum(~like_before)[among]
        ordered = self.fields.least_first(group, among)
        begins = np.flatnonzero(np.diff(group[ordered], prepend=-1))
        taken = among[ordered[begins]][np.cumsum(np.diff(group, prepend=group[0]) != 0)]
        return replace(self, fields=self.fields.one_of_copies(among, taken))

    def _added_up(self, repeated: Flags) -> Counts:
        """The counts, in the first row of each run of repeats those of all of it."""
        assert self.counts is not None
        first = np.flatnonzero(~repeated)
        found = np.zeros(len(self), np.int32)
        found[first] = np.minimum(np.add.reduceat(self.counts.astype(np.int64), first), _MOST_COUNT)
        return found

    @classmethod
    def together(cls, parts: Sequence[LadderRows]) -> LadderRows:
        """The rows of all parts, whose sources have the same numbers."""
        filled = [part for part in parts if len(part)]
        if len(filled) < 2:
            return filled[0] if filled else parts[0]
        times, hashes, values, weights, sources = (
            np.concatenate(column) for column in zip(*(one.columns for one in filled), strict=True)
        )
        counting = any(one.counts is not None for one in filled)
        counts = _counts_together([one.counted for one in filled]) if counting else None
        fields = Fields.together([one.fields or Fields.none(len(one)) for one in filled])
        return cls.sorted(times, hashes, values, weights, sources, counts, fields)

    @property
    def counted(self) -> Counts:
        """How often each row was seen; once, where it was not counted."""
        return seen_once(len(self)) if self.counts is None else self.counts

    @property
    def columns(self) -> tuple[Ints, Words, Column, Ints, Codes]:
        return self.times, self.hashes, self.values, self.weights, self.sources

    @property
    def same_event(self) -> Flags:
        """For each row but the first, whether it is the same event as the row before, from another source."""
        alike = (self.times[1:] == self.times[:-1]) & (self.hashes[1:] == self.hashes[:-1])
        if alike.any():
            alike &= (self.values[1:] == self.values[:-1]) & (self.weights[1:] == self.weights[:-1])
        return np.asarray(alike)

    @property
    def first_of_event(self) -> Flags:
        """Whether a row is the first one of its event."""
        return np.concatenate((np.ones(min(len(self), 1), bool), ~self.same_event))

    def take(self, which: Rows | Flags | slice) -> LadderRows:
        times, counts = self.times[which], self.counts
        if counts is not None:
            counts = seen_once(len(times)) if _all_once(counts) else counts[which]
        fields = self.fields.take(which, len(times))
        return LadderRows(
            times, self.hashes[which], self.values[which], self.weights[which], self.sources[which], counts, fields
        )


def _counts_together(parts: Sequence[Counts]) -> Counts:
    return seen_once(sum(map(len, parts))) if all(map(_all_once, parts)) else np.concatenate(parts)


def _keys(times: Ints, hashes: Words) -> Words:
    """The time and, behind it, as many leading bits of the hash as fit: one number to sort by."""
    if len(times) == 0:
        return np.empty(0, np.uint64)
    oldest = int(times.min())
    since = (times - oldest).view(np.uint64)  # wraps around where the span is beyond 63 bits, and is right even so
    bits = 64 - (int(times.max()) - oldest).bit_length()
    return since << np.uint64(bits) | hashes >> np.uint64(64 - bits) if 0 < bits < 64 else hashes if bits else since


@dataclass(frozen=True, slots=True)
class Cuts:
    """What may be gone: for each level, each source and the whole stream the time up to which it may.

    `of_sources` has an entry for each source, or none where no source keeps more than the levels do. Every event that
    is newer than the entry of its source is kept, and every event that is newer than `fine`.
    """

    of_weight: Ints
    of_count: Ints
    of_sources: Ints
    fine: int

    @classmethod
    def none(cls, sources: int = 0) -> Cuts:
        """Nothing is gone; `sources` is how many have a cut of their own."""
        levels = np.full(LEVELS, NO_CUT, np.int64)
        return cls(levels, levels, np.full(sources, NO_CUT, np.int64), NO_CUT)

    @classmethod
    def highest(cls, parts: Sequence[Cuts]) -> Cuts:
        """Of the union of parts, whose sources have the same numbers, that is gone which is gone from one of them."""
        return cls(
            np.max([part.of_weight for part in parts], axis=0),
            np.max([part.of_count for part in parts], axis=0),
            np.max([part.of_sources for part in parts], axis=0),
            max(part.fine for part in parts),
        )

    def levels_at(self, times: Ints) -> tuple[Ints, Ints]:
        """The finest complete level at each time, of the weight and of the count."""
        return _complete_level(self.of_weight, times), _complete_level(self.of_count, times)

    def complete_since(self, sources: Rows | None) -> int:
        """The time after which every event of these sources is kept, whatever its u; None: of all sources."""
        if len(self.of_sources) == 0 or (sources is not None and len(sources) == 0):
            return self.fine
        cuts = self.of_sources if sources is None else self.of_sources[sources]
        return min(self.fine, int(cuts.max()))


def trimmed(rows: LadderRows, cuts: Cuts, capacity: int, per_source: int) -> tuple[LadderRows, Cuts]:
    """The rows that stay, and the cuts raised to what the capacities require; they never fall."""
    first = np.flatnonzero(rows.first_of_event)
    raised = Cuts(
        _raised(cuts.of_weight, rows.times, weight_levels(rows.hashes, rows.weights), first, capacity),
        _raised(cuts.of_count, rows.times, exponents(rows.hashes).astype(np.int64), first, capacity),
        _raised_by_source(cuts.of_sources, rows, per_source) if len(cuts.of_sources) else cuts.of_sources,
        cuts.fine,
    )
    keep = worth_keeping(rows, raised)
    return (rows if keep.all() else rows.take(keep)), raised


def worth_keeping(rows: LadderRows, cuts: Cuts) -> Flags:
    """Which rows are above the cut of one of their levels, of their source, or of the stream; in any order."""
    keep = rows.times > cuts.fine
    keep |= rows.times > cuts.of_count[exponents(rows.hashes)]
    levels = weight_levels(rows.hashes, rows.weights)
    keep |= (levels >= 0) & (rows.times > cuts.of_weight[levels])
    if len(cuts.of_sources):
        keep |= rows.times > cuts.of_sources[rows.sources]
    return keep


def inclusion_probabilities(rows: LadderRows, cuts: Cuts, bits: int, *, each_row: bool = False) -> Floats:
    """For each row the probability π with which its event was kept: the largest that a row of the event has.

    `each_row`: that with which the row itself was kept, where rows of one event are asked apart, by source.
    """
    weight_levels_at, count_levels_at = cuts.levels_at(rows.times)
    of_level: Floats = np.exp2(-np.arange(LEVELS + 1.0))
    found = of_level[count_levels_at]
    if len(rows) and rows.weights.max() > 1:
        limits = np.ldexp(rows.weights.astype(np.float64), -weight_levels_at)
        found = np.maximum(found, probability_below(limits, bits))
    else:
        found = np.maximum(found, np.where(rows.weights > 0, of_level[weight_levels_at], 0.0))
    found[rows.times > cuts.fine] = 1.0
    if len(cuts.of_sources):
        found[rows.times > cuts.of_sources[rows.sources]] = 1.0
    if len(cuts.of_sources) and not each_row:
        first = np.flatnonzero(rows.first_of_event)
        if len(first) < len(rows):
            of_event = np.repeat(np.arange(len(first)), np.diff(np.append(first, len(rows))))
            found = np.maximum.reduceat(found, first)[of_event]
    return found


def _complete_level(cuts: Ints, times: Ints) -> Ints:
    ascending = cuts[::-1]
    if len(times) <= len(cuts) or (times[1:] < times[:-1]).any():
        return LEVELS - np.searchsorted(ascending, times, side="left")
    ends = np.searchsorted(times, ascending, side="right")  # times in order: few searches instead of many
    return np.repeat(LEVELS - np.arange(len(cuts) + 1), np.diff(ends, prepend=0, append=len(times)))


def _raised(cuts: Ints, times: Ints, levels: Ints, which: Rows, capacity: int) -> Ints:
    """Each level's cut raised to the time of its (capacity + 1)-th newest event; `which` are the rows of events."""
    found = cuts.copy()
    inside = which[levels[which] >= 0]
    for level in range(LEVELS):
        if len(inside) <= capacity:
            return found
        found[level] = max(int(found[level]), int(times[inside[-capacity - 1]]))
        inside = inside[levels[inside] > level]
    return found


def _raised_by_source(cuts: Ints, rows: LadderRows, per_source: int) -> Ints:
    """Each source's cut raised to the time of its (per_source + 1)-th newest event."""
    order = np.argsort(rows.sources, kind="stable")
    counts = np.bincount(rows.sources, minlength=len(cuts))
    full = np.flatnonzero(counts > per_source)
    found = cuts.copy()
    found[full] = np.maximum(found[full], rows.times[order[np.cumsum(counts)[full] - 1 - per_source]])
    return found
