"""The number u in (0, 1) by which an event is sampled, as few bits as are stored of it, and what follows from them.

u is the event's hash over 2^64. Of the hash its leading 1 is kept, and so many bits behind it as `mantissa_bits` says:
two fewer with each further zero in front, because half as many events have it and a quarter as many pairs could be
taken for one another. Every decision is made from the kept bits alone, and probabilities are those of the kept bits. So
what was decided on a worker can be decided again from the file, and no estimate is biased by the bits that are gone.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from sketches.arrays import Floats, Ints, Levels, Words

DEFAULT_BITS: Final = 48  # behind the leading 1 of a u in (1/2, 1)
FEWEST_BITS: Final = 8
MOST_BITS: Final = 52  # with the leading 1 as many as a float holds
MOST_EXPONENT: Final = 55  # a hash has 56 bits; one that is 0 counts as the least one that is not
_LEAST: Final = np.uint64(1 << (63 - MOST_EXPONENT))
_ONE: Final = np.uint64(1)


def mantissa_bits(exponent: Ints, bits: int) -> Ints:
    """How many bits behind the leading 1 are kept of a u in [2^-(exponent + 1), 2^-exponent)."""
    return np.minimum(np.maximum(bits - 2 * exponent, FEWEST_BITS), MOST_EXPONENT - exponent)


def exponents(hashes: Words) -> Levels:
    """How many zeros stand before the leading 1: u < 2^-i exactly where that is i or more.

    >>> exponents(np.array([1 << 63, (1 << 63) - 1, 1 << 60], np.uint64)).tolist()
    [0, 1, 3]
    """
    high = (hashes >> np.uint64(32)).astype(np.uint32)
    low = hashes.astype(np.uint32)
    leading = np.frexp(np.where(high, high, low).astype(np.float64))[1]  # a float holds 32 bits exactly
    return np.asarray(np.minimum(np.where(high, 32, 64) - leading, MOST_EXPONENT), np.uint8)


def shortened(hashes: Words, bits: int) -> Words:
    """The hashes with the bits that are kept, the others 0; shortening again changes nothing."""
    found = np.maximum(hashes, _LEAST)
    exponent = exponents(found).astype(np.int64)
    return found & MASKS[bits][exponent]


class _Masks(dict[int, Words]):
    """For each number of bits the mask of every exponent, made when it is first asked for."""

    def __missing__(self, bits: int) -> Words:
        exponent = np.arange(MOST_EXPONENT + 1)
        dropped = 63 - exponent - mantissa_bits(exponent, bits)
        self[bits] = ~((_ONE << dropped.astype(np.uint64)) - _ONE)
        return self[bits]


MASKS: Final = _Masks()


def weight_levels(hashes: Words, weights: Ints) -> Ints:
    """The deepest level i with u < w·2^-i; -1 for a weight of 0, which is in none.

    >>> weight_levels(np.array([1 << 63, 1 << 63, 1 << 61], np.uint64), np.array([1, 3, 0])).tolist()
    [0, 2, -1]
    """
    fraction, exponent = np.frexp(hashes.astype(np.float64))  # exact: at most 53 bits are not 0
    weight_fraction, weight_exponent = np.frexp(weights.astype(np.float64))
    levels = weight_exponent - (exponent - 64) - (fraction >= weight_fraction)
    return np.where(weights > 0, levels, -1).astype(np.int64)


def probability_below(limits: Floats, bits: int) -> Floats:
    """The probability that a shortened u lies below a limit: the limit rounded up to the grid of kept bits, at most 1.

    A power of two lies on the grid, so it is its own probability.

    >>> probability_below(np.array([0.25, 7.0]), 48).tolist()
    [0.25, 1.0]
    """
    fraction, power = np.frexp(np.minimum(limits, 1.0))  # fraction in [1/2, 1)
    exponent = np.clip(-power.astype(np.int64), 0, MOST_EXPONENT)
    steps = np.exp2(mantissa_bits(np.arange(MOST_EXPONENT + 1), bits) + 1.0)[exponent]
    return np.asarray(np.minimum(np.ldexp(np.ceil(fraction * steps) / steps, power), 1.0), np.float64)
