"""The nested samples S_0 ⊇ S_1 ⊇ … of paper A §4.1 as one time-sorted table and two rows of thresholds.

Level i samples each unit of weight with probability 2^-i and keeps its most recent events, down to a time t_i (the
*cut*): the time of the (capacity + 1)-th newest event of the level, so that no two ways of seeing the same events
disagree (Lemmas 3.1, 3.2). Levels nest and cuts only fall with i, so an event is stored once and kept iff it is newer
than the cut of its deepest level.

The weighted sum samples every unit of weight, the count only the first unit of each event. Both use the same hash, so
the count's samples lie inside the sum's; each has its own cuts, and where all weights are 1 they are the same.

Kept rows are a Poisson sample: at time t the finest complete level is the number of cuts at or above t, and the event
was kept with the probability `covered(weight, that level, that level of the count)`. For weight 1 that is exact; a
heavier event that only one of the two ladders holds may find the other complete because it is not in it, which makes
estimates low by about 0.3 / capacity (0.01% at ε = 0.05; measured in `tests/sketches/test_nested_sample.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numba import njit, uint64
from numpy.typing import NDArray

from sketches.events import Column, Events
from sketches.hashing import event_hash
from sketches.ordering import drop_repeats, time_order
from sketches.range_sample import LEVELS, PRIME, PROBABILITY, covered, level_of, smallest_unit

NO_CUT: Final = np.iinfo(np.int64).min

Ints = NDArray[np.int64]
Words = NDArray[np.uint64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class NestedSample:
    """One sampled table: rows sorted by (time, hash, value, weight), all distinct, and the cuts per level.

    `hashes` are of whole events under the copy's salt: identity and randomness in one column.
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
        """Sample a batch: one pass over the rows, newest end first, with cuts that only rise on the way.

        The result is a function of the set of events alone; the direction of the pass only saves time.
        """
        sample = cls.empty()
        rows = len(events)
        if rows == 0:
            return sample
        columns = events.columns()
        backward = bool(events.times[-1] >= events.times[0])
        room = min(rows, max(1 << 16, 6 * capacity))
        picked, hashes = np.empty(room, np.int64), np.empty(room, np.uint64)
        done = 0
        while done < rows:
            done, found = _scan(
                *columns, np.uint64(salt), sample.weight_cuts, sample.count_cuts, backward, done, picked, hashes
            )
            part = slice(room - found, room) if backward else slice(0, found)
            which = picked[part] if found < rows else slice(None)
            units = events.weights[which] if events.weights is not None else np.ones(found, np.int64)
            values = events.values[which].astype(events.kind.dtype, copy=False)
            fresh = cls(events.times[which], hashes[part], values, units, sample.weight_cuts, sample.count_cuts)
            sample = cls.union([sample, fresh] if len(sample) else [fresh], capacity)
        return sample

    @classmethod
    def union(cls, parts: Sequence[NestedSample], capacity: int | None) -> NestedSample:
        """Union of rows, duplicates dropped, the larger cut per level; trimmed to the capacity unless it is None.

        Without trimming (to answer, not to store) every row stays that is above the aligned cuts.
        """
        weight_cuts = np.max([part.weight_cuts for part in parts], axis=0)
        count_cuts = np.max([part.count_cuts for part in parts], axis=0)
        filled = [part for part in parts if len(part)]
        if not filled:
            return cls(*_rows(parts[0]), weight_cuts, count_cuts)
        times, hashes, values, weights = (
            np.concatenate(columns) for columns in zip(*(_rows(part) for part in filled), strict=True)
        )
        order = distinct_order(times, hashes, values, weights)
        most = capacity if capacity is not None else len(order)
        order = order[_trim(order, times, hashes, weights, weight_cuts, count_cuts, most)]
        return cls(times[order], hashes[order], values[order], weights[order], weight_cuts, count_cuts)

    def levels_at(self, times: Ints) -> tuple[Ints, Ints]:
        """The finest level that is complete at each time, of the weighted sum and of the count (LEVELS: none is)."""
        return _complete_level(self.weight_cuts, times), _complete_level(self.count_cuts, times)

    def probabilities(self) -> Floats:
        """For each row the probability with which it was kept."""
        weight_levels, count_levels = self.levels_at(self.times)
        if len(self) == 0 or self.weights.max() == 1:
            return PROBABILITY[count_levels]
        return np.asarray(covered(self.weights, weight_levels, count_levels), np.float64)


def starts_of(hashes: Words) -> Words:
    """Where an event's units begin on the circle of hashes: its 64-bit hash scaled down to 61 bits."""
    return np.asarray(np.minimum(hashes >> np.uint64(3), np.uint64(PRIME - 1)))


def _rows(sample: NestedSample) -> tuple[Ints, Words, Column, Ints]:
    return sample.times, sample.hashes, sample.values, sample.weights


def _complete_level(cuts: Ints, times: Ints) -> Ints:
    return LEVELS - np.searchsorted(cuts[::-1], times, side="left")


def distinct_order(times: Ints, hashes: Words, values: Column, weights: Ints) -> Ints:
    """Row numbers in canonical order without repeats. Equal hashes at one time are rare but for true duplicates."""
    order = time_order(times, hashes)
    kept, conflict = drop_repeats(order, times, hashes, values, weights)
    if conflict:
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
    """Pick the rows above their level's cut, after the `done` rows already seen, until `picked` is full.

    A backward scan fills it from its end: the rows picked are in the order of the rows either way.
    """
    rows, room = len(times), len(picked)
    unit = len(weights) == 0
    uncut = count_cuts[0] == NO_CUT and weight_cuts[0] == NO_CUT
    found = 0
    while done < rows and found < room:
        row = rows - 1 - done if backward else done
        done += 1
        time = times[row]
        weight = 1 if unit else weights[row]
        mixed = event_hash(ids[row], uint64(time), uint64(values[row]), uint64(weight), salt)
        above = uncut
        if not uncut:
            start = _start_of(mixed)
            above = time > count_cuts[level_of(start)]
            if not above and not unit:
                above = time > weight_cuts[level_of(smallest_unit(start, weight))]
        if above:
            at = room - 1 - found if backward else found
            picked[at] = row
            hashes[at] = mixed
            found += 1
    return done, found


@njit(cache=True, nogil=True)
def _trim(
    order: Ints, times: Ints, hashes: Words, weights: Ints, weight_cuts: Ints, count_cuts: Ints, capacity: int
) -> NDArray[np.bool_]:
    """Raise both rows of cuts, in place, to what the capacity asks for; true for the rows that are above them."""
    rows = len(order)
    weight_levels, count_levels = np.empty(rows, np.uint8), np.empty(rows, np.uint8)
    for place, row in enumerate(order):
        start = _start_of(hashes[row])
        count_levels[place] = level_of(start)
        weight = weights[row]
        weight_levels[place] = count_levels[place] if weight == 1 else level_of(smallest_unit(start, weight))
    _raise_cuts(order, times, weight_levels, weight_cuts, capacity)
    _raise_cuts(order, times, count_levels, count_cuts, capacity)
    keep = np.empty(rows, np.bool_)
    for place, row in enumerate(order):
        time = times[row]
        keep[place] = time > weight_cuts[weight_levels[place]] or time > count_cuts[count_levels[place]]
    return keep


@njit(cache=True, nogil=True)
def _raise_cuts(order: Ints, times: Ints, levels: NDArray[np.uint8], cuts: Ints, capacity: int) -> None:
    """Per level the time of its (capacity + 1)-th newest row, where it has so many; `order` is that of times.

    Levels nest, so none overflows before the one above it: `inside` are the rows of the first that has not yet.
    """
    if len(order) <= capacity:
        return
    deepest_in = np.zeros(LEVELS, np.int64)
    level, inside = 0, 0
    for place in range(len(order) - 1, -1, -1):
        deepest = levels[place]
        deepest_in[deepest] += 1
        inside += deepest >= level
        while inside > capacity:
            cuts[level] = max(cuts[level], times[order[place]])
            inside -= deepest_in[level]
            level += 1


@njit(cache=True, inline="always")
def _start_of(mixed: np.uint64) -> np.uint64:
    """`starts_of` one hash."""
    return min(mixed >> uint64(3), uint64(PRIME - 1))
