"""RangeSample counts what a loop over units counts, and its probabilities and variances are exact."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sketches.event_rules import MAX_WEIGHT
from sketches.sampling.inclusion.range_sample import (
    LEVEL_PROBABILITY,
    LEVELS,
    PRIME,
    STEP,
    deepest_level,
    inclusion_probability,
    level_of,
    range_sample,
    smallest_unit,
)
from sketches.sampling.inclusion.strata import _CROWDED, _SINGLE_UNIT

starts = st.one_of(st.integers(0, PRIME - 1), st.integers(0, 300), st.integers(PRIME - 300, PRIME - 1))
small_weights = st.integers(1, 600)
large_weights = st.one_of(st.integers(1, MAX_WEIGHT), st.integers(MAX_WEIGHT - 5, MAX_WEIGHT))
levels = st.integers(0, LEVELS - 1)


def units(start: int, weight: int) -> list[int]:
    """The hashes of an event's units, one by one."""
    return [(start + j * STEP) % PRIME for j in range(weight)]


def floor_sum(count: int, modulus: int, factor: int, offset: int) -> int:
    """Σ_{j < count} floor((factor·j + offset) / modulus) in whole numbers of any size; offset may be negative."""
    total = 0
    while count > 0:
        total += (count - 1) * count // 2 * (factor // modulus) + count * (offset // modulus)
        factor, offset = factor % modulus, offset % modulus
        top = factor * count + offset
        count, offset = top // modulus, top % modulus
        factor, modulus = modulus, factor
    return total


def counted(start: int, weight: int, level: int) -> int:
    """How many units lie below the threshold: each one that does wraps once more when it is moved up by the rest."""
    threshold = PRIME >> level
    return floor_sum(weight, PRIME, STEP, start) - floor_sum(weight, PRIME, STEP, start - threshold)


def arcs(weight: int, threshold: int) -> list[tuple[int, int]]:
    """The starts for which some unit is below the threshold, as sorted pieces of the circle that may overlap."""
    pieces = []
    for j in range(weight):
        left = -j * STEP % PRIME
        right = left + threshold
        pieces += [(left, right)] if right <= PRIME else [(left, PRIME), (0, right - PRIME)]
    return sorted(pieces)


def measure(pieces: list[tuple[int, int]]) -> int:
    """The length of the union of sorted pieces."""
    total = reach = 0
    for left, right in pieces:
        total += max(0, right - max(left, reach))
        reach = max(reach, right)
    return total


def test_the_big_number_count_is_right() -> None:
    """`counted`, with which the tests below compare large weights, counts as a loop does."""
    rng = np.random.default_rng(1)
    for start in rng.integers(0, PRIME, 50).tolist():
        weight, level = int(rng.integers(1, 400)), int(rng.integers(0, 9))
        assert counted(start, weight, level) == sum(unit < PRIME >> level for unit in units(start, weight))


def test_the_step_is_nearly_golden() -> None:
    """The first partial quotients are all 1, and none is large up to the greatest weight."""
    top, bottom, before, index = PRIME, STEP, 0, 1
    quotients = []
    while index <= MAX_WEIGHT:
        quotient, rest = divmod(top, bottom)
        quotients.append(quotient)
        top, bottom, before, index = bottom, rest, index, before + quotient * index
    assert set(quotients[:30]) == {1}
    assert max(quotients) <= 3


@given(starts, small_weights, levels)
@example(0, 1, 0)
@example(0, 1, LEVELS - 1)
@example(PRIME - 1, 600, LEVELS - 1)
def test_small_weights_against_a_loop(start: int, weight: int, level: int) -> None:
    """Units at a level, the deepest level and the smallest unit are those that a loop over units finds."""
    hashed = units(start, weight)
    assert int(range_sample(np.uint64(start), weight, level)) == sum(unit < PRIME >> level for unit in hashed)
    assert int(smallest_unit(np.uint64(start), weight)) == min(hashed)
    deepest = max(level for level in range(LEVELS) if min(hashed) < PRIME >> level)
    assert int(deepest_level(np.uint64(start), weight)) == deepest


@given(starts, large_weights, levels)
@example(0, MAX_WEIGHT, 1)
@example(PRIME - 1, MAX_WEIGHT, 40)
def test_large_weights_against_whole_numbers(start: int, weight: int, level: int) -> None:
    """Up to the largest weight nothing overflows: counts equal those of unbounded whole numbers."""
    assert int(range_sample(np.uint64(start), weight, level)) == counted(start, weight, level)
    deepest = int(deepest_level(np.uint64(start), weight))
    assert counted(start, weight, deepest) > 0
    assert deepest == LEVELS - 1 or counted(start, weight, deepest + 1) == 0


def test_arrays_broadcast() -> None:
    """Arrays of starts, weights and levels broadcast; each entry is as if computed alone."""
    rng = np.random.default_rng(2)
    start, weight = rng.integers(0, PRIME, 200).astype(np.uint64), rng.integers(1, 10**6, 200)
    table = range_sample(start[:, None], weight[:, None], np.arange(20))
    assert table.shape == (200, 20)
    assert int(table[17, 5]) == counted(int(start[17]), int(weight[17]), 5)
    assert (np.diff(table, axis=1) <= 0).all(), "levels nest"
    assert (table[:, 0] == weight).all()


def test_levels_of_single_units() -> None:
    """A hash is in exactly the levels whose threshold lies above it, also next to every threshold."""
    for level in range(LEVELS):
        threshold = PRIME >> level
        assert level_of(np.uint64(threshold - 1)) >= level
        assert level_of(np.uint64(threshold)) == level - 1 or level == 0
    assert int(deepest_level(np.uint64(5), 0)) == -1


def test_mean_and_variance_over_all_starts() -> None:
    """Over every possible start the sampled units add up to weight·p exactly, and vary no more than a binomial."""
    for weight in (1, 2, 3, 5, 8, 13, 40, 77):
        for level in (1, 2, 3, 5, 7):
            threshold = PRIME >> level
            edges = sorted(
                {0, PRIME}
                | {-j * STEP % PRIME for j in range(weight)}
                | {(threshold - j * STEP) % PRIME for j in range(weight)}
            )
            lengths = [right - left for left, right in pairwise(edges)]
            found = range_sample(np.array(edges[:-1], np.uint64), weight, level).tolist()
            assert sum(length * n for length, n in zip(lengths, found, strict=True)) == weight * threshold
            chance = threshold / PRIME
            square = sum(length * n * n for length, n in zip(lengths, found, strict=True)) / PRIME
            variance = square - (weight * chance) ** 2
            assert variance <= weight * chance * (1 - chance) * (1 + 1e-9)
            assert variance == pytest.approx(variances(level, 80)[weight - 1], abs=1e-9)


def variances(level: int, most: int) -> np.ndarray:
    """The variance of the sampled units for weights 1 to `most`, from how the arcs of two units overlap."""
    chance = (PRIME >> level) / PRIME
    around = [d * STEP % PRIME for d in range(1, most)]
    apart = np.array([min(x, PRIME - x) / PRIME for x in around])
    overlap = np.maximum(0, chance - apart) + np.maximum(0, chance - (1 - apart))
    excess = overlap - chance**2
    pairs = np.concatenate(([0.0], np.cumsum(np.cumsum(excess))))  # Σ_{d<w} (w-d)·excess_d for w = 1, 2, …
    return np.arange(1, most + 1) * chance * (1 - chance) + 2 * pairs


@pytest.mark.parametrize("level", range(11))
def test_variance_is_at_most_binomial(level: int) -> None:
    """For every weight up to 256 the units of one event vary together less than if each were drawn alone."""
    chance = (PRIME >> level) / PRIME
    binomial = np.arange(1, 257) * chance * (1 - chance)
    assert (variances(level, 256) <= binomial * (1 + 1e-9) + 1e-12).all()


@pytest.mark.parametrize("weight", [1, 2, 3, 4, 5, 7, 8, 9, 12, 13, 14, 20, 21, 22, 55, 100, 233, 256, 1000, 1597])
def test_the_inclusion_probability_is_the_measure_of_the_arcs(weight: int) -> None:
    """The probability of being kept is the exact share of starts with a unit, or the first one, below its threshold."""
    for level in (0, 1, 2, 3, 4, 6, 8, 11, 16, 30, 60):
        reached = arcs(weight, PRIME >> level)
        for first in {level, 0, level // 2, max(level - 1, 0), max(level - 3, 0)}:
            pieces = sorted([*reached, (0, PRIME >> first)])
            share = measure(pieces) / PRIME
            assert float(inclusion_probability(weight, level, first)) == pytest.approx(share, rel=1e-12), (level, first)


@given(small_weights, levels, levels)
def test_the_inclusion_probability_for_any_pair_of_levels(weight: int, one: int, other: int) -> None:
    """The same for weights and levels that Hypothesis picks."""
    level, first = max(one, other), min(one, other)
    share = measure(sorted([*arcs(weight, PRIME >> level), (0, PRIME >> first)])) / PRIME
    assert float(inclusion_probability(weight, level, first)) == pytest.approx(share, rel=1e-12)


@pytest.mark.parametrize(
    ("weight", "level", "first"),
    [
        (1, 3, 3),
        (7, 3, 3),
        (7, 5, 2),
        (1500, 10, 10),
        (1500, 11, 3),
        (4_000_000, 21, 21),
        (4_000_000, 23, 2),
        (MAX_WEIGHT, 39, 39),
        (MAX_WEIGHT, 40, 40),
        (MAX_WEIGHT - 12345, 41, 3),
    ],
)
def test_the_inclusion_probability_is_the_frequency(weight: int, level: int, first: int) -> None:
    """Of random starts as many are kept as `inclusion_probability` says, also for weights too large for a loop."""
    trials = 200_000
    start = np.random.default_rng([weight, level]).integers(0, PRIME, trials).astype(np.uint64)
    kept = (deepest_level(start, weight) >= level) | (deepest_level(start, 1) >= first)
    chance = float(inclusion_probability(weight, level, first))
    assert abs(kept.mean() - chance) <= 5 * np.sqrt(chance * (1 - chance) / trials)


def interesting_weights() -> np.ndarray:
    """All small weights; random large ones; and Fibonacci numbers with their neighbours, where gaps change."""
    fibonacci = [1, 2]
    while fibonacci[-1] < MAX_WEIGHT:
        fibonacci.append(fibonacci[-1] + fibonacci[-2])
    near = [number + d for number in fibonacci for d in (-2, -1, 0, 1, 2)]
    between = [(a + b) // 2 for a, b in pairwise(fibonacci)]
    scattered = np.exp(np.random.default_rng(3).uniform(0, np.log(MAX_WEIGHT), 5000)).astype(np.int64)
    weights = np.concatenate([np.arange(1, 4097), near, between, scattered, [MAX_WEIGHT]])
    return np.unique(weights[(weights >= 1) & (weights <= MAX_WEIGHT)])


def test_few_expected_units_are_one_or_none() -> None:
    """Below 0.29 expected units no two units of an event are sampled together, so weight/π is exactly 1/p."""
    weight = interesting_weights()
    for level in range(LEVELS):
        few = weight[weight * LEVEL_PROBABILITY[level] < _SINGLE_UNIT]
        np.testing.assert_allclose(inclusion_probability(few, level, level), few * LEVEL_PROBABILITY[level], rtol=1e-12)


def test_crowding_is_bounded() -> None:
    """Wherever an event may be missed, weight·p/π is at most the factor that unseen events are charged with."""
    weight = interesting_weights()
    worst = 1.0
    for level in range(LEVELS):
        chance = inclusion_probability(weight, level, level)
        missed = chance < 1.0
        if missed.any():
            worst = max(worst, float((weight[missed] * LEVEL_PROBABILITY[level] / chance[missed]).max()))
    assert 1.5 < worst <= _CROWDED, "the factor holds, and is not needlessly large"
