"""The nested samples S_0 ⊇ S_1 ⊇ … of paper A §4.1, stored as one table sorted by time and two arrays of cuts.

Level i samples each unit of weight with probability 2^-i and keeps its most recent events. The *cut* t_i is the time
of the level's (capacity + 1)-th newest event; the level keeps every event after it and none at or before it. A cut
depends on the set of events alone, not on their order or repeats (Lemmas 3.1, 3.2). Levels nest and cuts only fall with
i, so an event is stored once, and it is kept iff it is newer than the cut of its deepest level.

The weighted sum samples every unit of weight, the count only the first unit of each event. Both use the same hash. Each
has its own cuts; where all weights are 1, they are the same. An event of weight 0 has no units: it lives in the count's
samples alone, at the place where its first unit would be.

The kept rows are a Poisson sample. At time t the finest complete level is the number of cuts at or above t, and an
event of that time is kept with `inclusion_probability(weight, that level, that level of the count)`. For weight 1 that
is exact. A heavier event may be in the samples of the sum but not of the count, or the other way round; its absence
from one can make a level there complete. That makes estimates low by about 0.3 / capacity (0.01% at ε = 0.05; measured
in `tests/sketches/sampling/inclusion/test_nested_sample.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sketches.arrays import Column, Floats, Ints, Words
from sketches.compiled import njit
from sketches.events import Events
from sketches.hashing import event_hash
from sketches.records import dataclass
from sketches.sampling.inclusion.range_sample import (
    LEVEL_PROBABILITY,
    LEVELS,
    PRIME,
    inclusion_probability,
    level_of,
    smallest_unit,
)
from sketches.sampling.inclusion.time_order import drop_repeats, time_order

NO_CUT: Final = np.iinfo(np.int64).min  # the cut of a level that has discarded nothing
_IN_NO_LEVEL: Final = 255  # the deepest level of an event without units
_BUFFER_ROWS: Final = 1 << 16  # picked in one scan, at least


@dataclass(frozen=True, slots=True)
class NestedSample:
    """Distinct rows sorted by (time, hash, value, weight), and the cut of each level.

    A hash is of the whole event and of a salt. It says which event the row is, and it decides the row's levels.
    """

    times: Ints
    hashes: Words
    values: Column
    weights: Ints
    weight_cuts: Ints
    count_cuts: Ints

    def __len__(self) -> int:
        return len(self.times)

    @classmethod
    def empty(cls) -> NestedSample:
        cuts = np.full(LEVELS, NO_CUT, np.int64)
        none = np.empty(0, np.int64)
        return cls(none, np.empty(0, np.uint64), none, none, cuts, cuts)

    @classmethod
    def build(cls, events: Events, capacity: int, salt: int) -> NestedSample:
        """Sample a batch in one pass over its rows, from the end that is newer, with cuts that rise on the way.

        The result depends on the set of events alone. Starting at the newer end only saves time.
        """
        sample = cls.empty()
        rows = len(events)
        if rows == 0:
            return sample
        columns = events.columns()
        backward = bool(events.times[-1] >= events.times[0])
        buffer = min(rows, max(_BUFFER_ROWS, 6 * capacity))
        picked, hashes = np.empty(buffer, np.int64), np.empty(buffer, np.uint64)
        done = 0
        while done < rows:
            done, found = _scan(
                *columns, np.uint64(salt), sample.weight_cuts, sample.count_cuts, backward, done, picked, hashes
            )
            part = slice(buffer - found, buffer) if backward else slice(0, found)
            which = picked[part] if found < rows else slice(None)
            weights = events.weights[which] if events.weights is not None else np.ones(found, np.int64)
            values = events.values[which].astype(events.kind.dtype, copy=False)
            fresh = cls(events.times[which], hashes[part], values, weights, sample.weight_cuts, sample.count_cuts)
            sample = cls.union([sample, fresh] if len(sample) else [fresh], capacity)
        return sample

    @classmethod
    def union(cls, parts: Sequence[NestedSample], capacity: int | None) -> NestedSample:
        """The distinct rows of all parts that are above the largest cut of their level.

        The union is trimmed to the capacity, as a stored sketch must be. With capacity None it keeps all of these rows,
        which makes answers more accurate.
        """
        weight_cuts = np.max([part.weight_cuts for part in parts], axis=0)
        count_cuts = np.max([part.count_cuts for part in parts], axis=0)
        filled = [part for part in parts if len(part)]
        if not filled:
            return cls(*parts[0].rows, weight_cuts, count_cuts)
        times, hashes, values, weights = (
            np.concatenate(columns) for columns in zip(*(part.rows for part in filled), strict=True)
        )
        order = distinct_order(times, hashes, values, weights)
        most = capacity if capacity is not None else len(order)
        order = order[_trim(order, times, hashes, weights, weight_cuts, count_cuts, most)]
        return cls(times[order], hashes[order], values[order], weights[order], weight_cuts, count_cuts)

    @property
    def rows(self) -> tuple[Ints, Words, Column, Ints]:
        return self.times, self.hashes, self.values, self.weights

    def levels_at(self, times: Ints) -> tuple[Ints, Ints]:
        """The finest complete level at each time, of the weighted sum and of the count; LEVELS where there is none."""
        return _complete_level(self.weight_cuts, times), _complete_level(self.count_cuts, times)

    def inclusion_probabilities(self) -> Floats:
        """For each row the probability π with which it was kept."""
        weight_levels, count_levels = self.levels_at(self.times)
        if len(self) == 0 or (
            self.weights.min() == self.weights.max() == 1 and not (weight_levels < count_levels).any()
        ):
            return LEVEL_PROBABILITY[count_levels]
        return np.asarray(inclusion_probability(self.weights, weight_levels, count_levels), np.float64)


def starts_of(hashes: Words) -> Words:
    """Where each event's units start in [0, PRIME): its 64-bit hash scaled down to 61 bits."""
    return np.asarray(np.minimum(hashes >> np.uint64(3), np.uint64(PRIME - 1)))


def _complete_level(cuts: Ints, times: Ints) -> Ints:
    return LEVELS - np.searchsorted(cuts[::-1], times, side="left")


def distinct_order(times: Ints, hashes: Words, values: Column, weights: Ints) -> Ints:
    """The numbers of the distinct rows in canonical order: by time, hash, value and weight."""
    order = time_order(times, hashes)
    kept, conflict = drop_repeats(order, times, hashes, values, weights)
    if conflict:  # two events share a hash at one time, which hardly ever happens
        order = np.lexsort((weights, values, hashes, times))
        kept, _ = drop_repeats(order, times, hashes, values, weights)
    return np.asarray(order[:kept])


@njit(cache=True, nogil=True)
def _scan(
    ids: Words,
    times: Ints,
    values: Column,
    weights: Ints,
    salt: np.uint64,
    weight_cuts: Ints,
    count_cuts: Ints,
    backward: bool,
    done: int,
    picked: Ints,
    hashes: Words,
) -> tuple[int, int]:
    """Pick the rows above their level's cut, after the `done` rows already scanned, until `picked` is full.

    A backward scan fills `picked` from its end, so the picked rows always keep their order.
    """
    rows, buffer = len(times), len(picked)
    unit = len(weights) == 0
    uncut = count_cuts[0] == NO_CUT and weight_cuts[0] == NO_CUT
    found = 0
    while done < rows and found < buffer:
        row = rows - 1 - done if backward else done
        done += 1
        time = times[row]
        weight = 1 if unit else weights[row]
        hashed = event_hash(ids[row], np.uint64(time), np.uint64(values[row]), np.uint64(weight), salt)
        above = uncut
        if not uncut:
            start = _start_in_61_bits(hashed)
            above = time > count_cuts[level_of(start)]
            if not above and not unit and weight > 0:
                above = time > weight_cuts[level_of(smallest_unit(start, weight))]
        if above:
            at = buffer - 1 - found if backward else found
            picked[at] = row
            hashes[at] = hashed
            found += 1
    return done, found


@njit(cache=True, nogil=True)
def _trim(
    order: Ints, times: Ints, hashes: Words, weights: Ints, weight_cuts: Ints, count_cuts: Ints, capacity: int
) -> NDArray[np.bool_]:
    """Raise both arrays of cuts, in place, to what the capacity requires; true for the rows above them."""
    rows = len(order)
    weight_levels, count_levels = np.empty(rows, np.uint8), np.empty(rows, np.uint8)
    for place, row in enumerate(order):
        start = _start_in_61_bits(hashes[row])
        count_levels[place] = level_of(start)
        weight = weights[row]
        if weight == 0:
            weight_levels[place] = _IN_NO_LEVEL
        else:
            weight_levels[place] = count_levels[place] if weight == 1 else level_of(smallest_unit(start, weight))
    _raise_cuts(order, times, weight_levels, weight_cuts, capacity)
    _raise_cuts(order, times, count_levels, count_cuts, capacity)
    keep = np.empty(rows, np.bool_)
    for place, row in enumerate(order):
        time = times[row]
        keep[place] = time > count_cuts[count_levels[place]]
        if not keep[place] and weight_levels[place] != _IN_NO_LEVEL:
            keep[place] = time > weight_cuts[weight_levels[place]]
    return keep


@njit(cache=True, nogil=True)
def _raise_cuts(order: Ints, times: Ints, levels: NDArray[np.uint8], cuts: Ints, capacity: int) -> None:
    """Raise each level's cut, in place, to the time of its (capacity + 1)-th newest row; `order` is by time.

    The pass goes from the newest row to the oldest. Levels nest, so level i overflows before level i + 1: `inside`
    counts the rows of the first level that has not overflowed yet.
    """
    if len(order) <= capacity:
        return
    deepest_in = np.zeros(LEVELS, np.int64)
    level, inside = 0, 0
    for place in range(len(order) - 1, -1, -1):
        deepest = levels[place]
        if deepest == _IN_NO_LEVEL:
            continue
        deepest_in[deepest] += 1
        inside += deepest >= level
        while inside > capacity:
            cuts[level] = max(cuts[level], times[order[place]])
            inside -= deepest_in[level]
            level += 1


@njit(cache=True, inline="always")
def _start_in_61_bits(hashed: np.uint64) -> np.uint64:
    """What `starts_of` computes, for one hash inside a kernel."""
    return min(hashed >> np.uint64(3), np.uint64(PRIME - 1))
