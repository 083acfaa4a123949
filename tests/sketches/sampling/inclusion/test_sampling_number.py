"""The number by which an event is sampled: its kept bits, its levels, and probabilities that are exact."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sketches.event_rules import MAX_WEIGHT
from sketches.sampling.inclusion.ladder import LEVELS
from sketches.sampling.inclusion.sampling_number import (
    DEFAULT_BITS,
    FEWEST_BITS,
    MOST_BITS,
    exponents,
    mantissa_bits,
    probability_below,
    shortened,
    weight_levels,
)
from tests.support.ladder_oracle import number, probability

HASHES = st.one_of(
    st.integers(0, 2**56 - 1),
    st.integers(0, 55).flatmap(lambda e: st.integers(0, 2**e)),
    st.integers(0, 9).map(lambda less: 2**56 - 1 - less),
)
BITS = st.sampled_from((8, DEFAULT_BITS, MOST_BITS))
ALL_SHORT = np.arange(1 << 16, dtype=np.uint64) << np.uint64(48)  # every beginning of a hash, once


def agreeing(bits: int, deepest: int = 55) -> Fraction:
    """The probability that two numbers drawn at random agree in all kept bits."""
    found = Fraction(0)
    for exponent in range(deepest + 1):
        share = Fraction(1, 2 << exponent) if exponent < deepest else Fraction(1, 1 << exponent)
        found += share**2 / 2 ** int(mantissa_bits(np.array(exponent), bits))
    return found


@given(HASHES, st.sampled_from((8, 12, 35, 48, MOST_BITS)))
def test_kept_bits_are_those_of_the_definition(word: int, bits: int) -> None:
    """The leading 1 and so many bits behind it as its place says; what was shortened stays as it is."""
    hashes = np.array([word << 8], np.uint64)
    short = shortened(hashes, bits)
    assert int(short[0]) == number(word << 8, bits)
    assert (shortened(short, bits) == short).all()


@given(HASHES, st.one_of(st.sampled_from((0, 1, 2, 3, MAX_WEIGHT)), st.integers(0, MAX_WEIGHT)), BITS)
@example(2**56 - 1, 1, MOST_BITS)
def test_levels_are_those_of_the_definition(word: int, weight: int, bits: int) -> None:
    """u < 2^-i up to the exponent, u < w·2^-i up to the weight's level, and no further."""
    short = shortened(np.array([word << 8], np.uint64), bits)
    u = Fraction(int(short[0]), 1 << 64)
    exponent = int(exponents(short)[0])
    assert u < Fraction(1, 2**exponent)
    assert u >= Fraction(1, 2 ** (exponent + 1))
    level = int(weight_levels(short, np.array([weight]))[0])
    assert level < LEVELS
    if weight == 0:
        assert level == -1
    else:
        assert u < Fraction(weight, 2**level)
        assert u >= Fraction(weight, 2 ** (level + 1))


@pytest.mark.parametrize("bits", [8, 9, 11])
def test_probabilities_are_frequencies(bits: int) -> None:
    """Counted over every beginning of a hash: exactly the stated share of shortened numbers lies below a limit."""
    short = np.sort(shortened(ALL_SHORT, bits))
    rng = np.random.default_rng(bits)
    weights, levels = rng.integers(1, 3000, 400), rng.integers(0, 16, 400)
    limits = np.concatenate([np.ldexp(weights.astype(float), -levels), rng.uniform(1 / 64, 1, 400), [1 / 64, 0.5, 1.0]])
    limits = limits[limits >= 1 / 64]  # finer ones would need more of the hash
    below = np.searchsorted(short.astype(np.float64), np.minimum(limits, 1.0) * 2.0**64)
    assert len(limits) > 500
    assert (below / len(short) == probability_below(limits, bits)).all()


@given(st.integers(1, MAX_WEIGHT), st.integers(0, 94), BITS)
def test_probabilities_are_rounded_up_to_the_grid(weight: int, level: int, bits: int) -> None:
    """The stated probability is the next number on the grid of kept bits, in exact fractions."""
    limit = Fraction(weight, 2**level)
    if limit >= Fraction(1, 2**54):
        found = probability_below(np.array([float(limit)]), bits)[0]
        assert Fraction(float(found)) == probability(limit, bits)


def test_few_numbers_keep_few_bits() -> None:
    """Two bits fewer with each level, but never fewer than eight as long as the hash has them."""
    exponent = np.arange(56)
    bits = mantissa_bits(exponent, DEFAULT_BITS)
    assert bits[:21].tolist() == list(range(48, 7, -2))
    assert (bits[21:48] == FEWEST_BITS).all()
    assert bits[48:].tolist() == [7, 6, 5, 4, 3, 2, 1, 0]


def test_pairs_that_agree_are_as_rare_as_stated() -> None:
    """The formula behind docs/sample.md, counted over all pairs of short numbers."""
    short = shortened(ALL_SHORT, 8)
    inside = short >= 1 << 57  # of the others the beginning does not tell all kept bits
    _, counts = np.unique(short[inside], return_counts=True)
    shares = [Fraction(1, 2 << exponent) ** 2 / 2**8 for exponent in range(7)]
    assert Fraction(int((counts.astype(np.int64) ** 2).sum()), len(short) ** 2) == sum(shares)


def test_false_duplicates_of_constant_values() -> None:
    """13 events a second with one value: 48 bits take 5e-9 pairs an hour for one another, 51 bits less than 1e-9."""
    pairs = 3600 * 13 * 12 // 2
    assert 5.2e-9 < float(pairs * agreeing(DEFAULT_BITS)) < 5.4e-9
    assert float(pairs * agreeing(50)) > 1e-9 > float(pairs * agreeing(51))


def test_false_duplicates_of_a_stream_like_flights() -> None:
    """8,200 a day that seldom agree in minute and delay: 48 bits are far more than enough."""
    rng = np.random.default_rng(1)
    minutes = rng.integers(5 * 60, 23 * 60, 8_200)
    delays = np.round(rng.gamma(1.0, 25.0, 8_200) - 15).astype(np.int64)
    _, counts = np.unique(minutes * 10_000 + delays, return_counts=True)
    pairs = int((counts * (counts - 1) // 2).sum())
    assert 300 < pairs < 1_500
    assert float(pairs * agreeing(DEFAULT_BITS)) < 3e-11
    assert float(pairs * agreeing(42)) < 1e-9 < float(pairs * agreeing(39))
