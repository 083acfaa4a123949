"""RangeSample: which of an event's w units of weight are sampled at a level, in O(log w) time instead of O(w).

An event of weight w stands for w units. Unit j hashes to ``u_j = (start + j·STEP) mod PRIME``. It belongs to sampling
level i iff ``u_j < threshold(i) = floor(PRIME / 2^i)``: level 0 takes every unit, level i one in 2^i, and levels nest
(paper A §3.2). The start is a murmur hash of the event and the sketch's seed, so it is uniform, independent from event
to event, and the same on every machine.

The paper draws the step at random. That makes two units pairwise independent *on average over steps*, but a sketch
keeps one step for its whole life, and an unlucky one clusters the units of every event. Here the step is fixed, near
PRIME over the golden ratio, because multiples of the golden ratio are spread most evenly. (The integer closest to that
ratio has a partial quotient of 28 near 2^30, which shows at weights of that size. The one chosen stays even up to
2^40.) This keeps E[sampled units] = w·p and a variance of at most the binomial w·p·(1-p), so every Chebyshev argument
of the paper holds unchanged; its tests compute both. Below 0.29 expected units, one unit of an event is sampled or
none.

With the points ``x_j = -j·STEP mod PRIME``, a unit is sampled iff the start lies in an arc ``[x_j, x_j + threshold)``.
The three-distance theorem gives all gaps between the points in O(1), hence the exact probability that an event is in a
level (`inclusion_probability`). Unbiased estimates divide by it.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from sketches.compiled import njit, vectorize
from sketches.event_rules import MAX_WEIGHT

PRIME: Final = (1 << 61) - 1
STEP: Final = 1425089352415400033  # near PRIME / golden ratio, with small partial quotients up to 2^42
LEVELS: Final = 54  # event hashes carry 56 random bits


def _records() -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Indices j at which x_j comes closer to 0 than any earlier point, from the right (falls) or the left (rises).

    This is Euclid's algorithm by subtraction: the next record is always at the sum of the two latest record indices.
    """
    falls, rises = [(1, PRIME - STEP)], [(1, STEP)]
    while falls[-1][0] + rises[-1][0] <= 2 * MAX_WEIGHT:
        (fall_index, fall), (rise_index, rise) = falls[-1], rises[-1]
        if fall > rise:
            falls.append((fall_index + rise_index, fall - rise))
        else:
            rises.append((fall_index + rise_index, rise - fall))
    return falls, rises


_FALLS, _RISES = _records()
FALL_INDEX = np.array([index for index, _ in _FALLS], np.int64)
FALL = np.array([size for _, size in _FALLS], np.uint64)
_RISE_INDEX = np.array([index for index, _ in _RISES], np.int64)
_RISE = np.array([size for _, size in _RISES], np.uint64)

LEVEL_PROBABILITY: Final[NDArray[np.float64]] = np.array([(PRIME >> level) / PRIME for level in range(LEVELS)])


@njit(cache=True, inline="always")
def level_of(hashed: np.uint64) -> int:
    """The deepest level whose threshold is above this hash: leading zeros of hash + 1 in 61 bits."""
    rest = np.uint64(hashed + np.uint64(1))
    bits = 0
    for shift in (32, 16, 8, 4, 2, 1):
        if rest >> np.uint64(shift):
            rest >>= np.uint64(shift)
            bits += shift
    return min(60 - bits, LEVELS - 1)


@njit(cache=True)
def smallest_unit(start: np.uint64, weight: int) -> np.uint64:
    """min_j u_j over the event's units; it decides the event's deepest level.

    From any unit, the next smaller one lies a record fall ahead, so this walks the records in O(log w) steps.
    """
    value = start
    index = 0
    record = 0
    while value:
        while record < len(FALL) and FALL[record] > value:
            record += 1
        if record == len(FALL) or index + FALL_INDEX[record] >= weight:
            break
        index += FALL_INDEX[record]
        value -= FALL[record]
    return value


@njit(cache=True)
def _floor_sum(count: int, modulus: np.uint64, factor: np.uint64, offset: np.uint64) -> np.uint64:
    """Σ_{j < count} floor((factor·j + offset) / modulus), modulo 2^64, by Euclid's algorithm."""
    total = np.uint64(0)
    n = np.uint64(count)
    while True:
        if factor >= modulus:
            even = n % np.uint64(2) == np.uint64(0)
            pairs = n // np.uint64(2) * (n - np.uint64(1)) if even else n * ((n - np.uint64(1)) // np.uint64(2))
            total += pairs * (factor // modulus)
            factor %= modulus
        if offset >= modulus:
            total += n * (offset // modulus)
            offset %= modulus
        # factor·n may need 101 bits; a float quotient is off by at most one, and the remainder fits into 64 bits.
        wraps = np.int64((np.float64(factor) * np.float64(n) + np.float64(offset)) / np.float64(modulus))
        rest = np.int64(factor * n + offset - np.uint64(wraps) * modulus)
        if rest < 0:
            wraps -= 1
            rest += np.int64(modulus)
        elif rest >= np.int64(modulus):
            wraps += 1
            rest -= np.int64(modulus)
        if wraps <= 0:
            return total
        n = np.uint64(wraps)
        offset = np.uint64(rest)
        factor, modulus = modulus, factor


@njit(cache=True)
def _hits(step: np.uint64, start: np.uint64, count: int, threshold: np.uint64) -> int:
    """How many of (start + j·step) mod PRIME, j < count, lie below the threshold."""
    if count <= 0:
        return 0
    prime = np.uint64(PRIME)
    below = _floor_sum(count, prime, step, start + prime - threshold)
    return int(np.int64(np.uint64(count) + _floor_sum(count, prime, step, start) - below))


@vectorize(["int64(uint64, int64, int64)"], cache=True)
def range_sample(start: np.uint64, weight: int, level: int) -> int:
    """How many of the event's units the level holds (paper A's RangeSample(r, i)); broadcasts over arrays.

    >>> int(range_sample(np.uint64(12345), 1000, 0))
    1000
    """
    if level == 0:
        return weight
    return _hits(np.uint64(STEP), start, weight, np.uint64(PRIME) >> np.uint64(level))


@vectorize(["int64(uint64, int64)"], cache=True)
def deepest_level(start: np.uint64, weight: int) -> int:
    """The deepest level that holds at least one of the event's units; -1 for weight 0."""
    if weight <= 0:
        return -1
    if weight == 1:
        return level_of(start)
    return level_of(smallest_unit(start, weight))


@njit(cache=True)
def _gap_after(point: np.uint64, weight: int, small: np.uint64, large: np.uint64) -> np.uint64:
    """The distance from one of the points x_j to the next one: y is a point iff one of its units hashes to 0."""
    for gap in (small, large):
        if smallest_unit((point + gap) % np.uint64(PRIME), weight) == np.uint64(0):
            return gap
    return small + large


@njit(cache=True)
def _share_of_starts(weight: int, threshold: np.uint64, first_threshold: np.uint64) -> float:
    """The share of starts for which any unit is below `threshold` or the first unit is below `first_threshold`."""
    prime = np.uint64(PRIME)
    if weight == 0:  # no unit to be sampled: only the count can hold the event
        return np.float64(first_threshold) / np.float64(prime)
    if weight == 1:
        return np.float64(max(threshold, first_threshold)) / np.float64(prime)
    fall = np.searchsorted(FALL_INDEX, weight) - 1
    rise = np.searchsorted(_RISE_INDEX, weight) - 1
    ahead, behind = FALL_INDEX[fall], _RISE_INDEX[rise]
    small, large = FALL[fall], _RISE[rise]
    # The gap after point j is `small` while j + ahead is a point, `large` from j = behind on, and their sum in between.
    # An arc covers the first `threshold` of each gap and leaves the rest open.
    open_small = small - min(small, threshold)
    open_large = large - min(large, threshold)
    open_both = small + large - min(small + large, threshold)
    if open_both == 0 or (open_small == 0 and open_large == 0 and ahead + behind == weight):
        return 1.0
    share = (
        np.float64(weight - ahead) * np.float64(min(small, threshold))
        + np.float64(weight - behind) * np.float64(min(large, threshold))
        + np.float64(ahead + behind - weight) * np.float64(min(small + large, threshold))
    ) / np.float64(prime)
    if first_threshold <= threshold:
        return share
    back = prime - np.uint64(STEP)
    near = _hits(back, np.uint64(0), weight - ahead, first_threshold)
    middle = _hits(back, np.uint64(0), behind, first_threshold) - near
    far = _hits(back, np.uint64(0), weight, first_threshold) - near - middle
    inside = (
        np.float64(near) * np.float64(open_small)
        + np.float64(middle) * np.float64(open_both)
        + np.float64(far) * np.float64(open_large)
    )
    # Of the last gap that starts below `first_threshold`, only the part up to `first_threshold` counts.
    last = first_threshold - np.uint64(1) - smallest_unit(first_threshold - np.uint64(1), weight)
    part = first_threshold - last
    gap = _gap_after(last, weight, small, large)
    inside += np.float64(part - min(part, threshold)) - np.float64(gap - min(gap, threshold))
    return min(1.0, share + inside / np.float64(prime))


@vectorize(["float64(int64, int64, int64)"], cache=True)
def inclusion_probability(weight: int, level: int, first_level: int) -> float:
    """The exact probability that level `level` holds a unit of the event or `first_level` holds its first unit.

    The probability is over a uniform start. `first_level` is the level of the count. An event of weight 0 has no units:
    only the count's level can hold it, by the place where its first unit would be.

    >>> bool(inclusion_probability(1, 3, 3) == LEVEL_PROBABILITY[3])
    True
    """
    return _share_of_starts(weight, np.uint64(PRIME) >> np.uint64(level), np.uint64(PRIME) >> np.uint64(first_level))
