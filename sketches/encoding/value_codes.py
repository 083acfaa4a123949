"""Values as 64-bit codes in the values' own order: the domain in which ranges of values are dyadic."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from sketches.arrays import Column, Words
from sketches.events import Kind

CODES: Final = 1 << 64
_HALF: Final = 1 << 63
_SIGN: Final = np.uint64(_HALF)


def codes_of(values: Column, kind: Kind) -> Words:
    """The codes of values: whole numbers shifted, floats by their bits, keys by their hashes, in no order.

    >>> codes_of(np.array([-1, 0, 1]), Kind.INTEGER) - np.uint64(1 << 63)
    array([18446744073709551615,                    0,                    1],
          dtype=uint64)
    """
    if kind is Kind.INTEGER:
        return np.asarray(values.astype(np.int64).view(np.uint64) ^ _SIGN)
    if kind is Kind.KEY:
        return np.asarray(values.view(np.uint64))
    bits = np.asarray(values, np.float64).view(np.uint64)
    return np.where(bits & _SIGN, ~bits, bits | _SIGN)


def values_of(codes: Words, kind: Kind) -> Column:
    """The values with these codes."""
    if kind is Kind.INTEGER:
        return np.asarray((codes ^ _SIGN).view(np.int64))
    if kind is Kind.KEY:
        return codes
    return np.where(codes & _SIGN, codes ^ _SIGN, ~codes).view(np.float64)


def least_code(number: float, kind: Kind) -> int:
    """The code of the least value at or above a number; 2^64 where there is none."""
    if kind is Kind.FLOAT:
        return int(codes_of(np.array([number + 0.0]), kind)[0])
    if math.isinf(number):
        return CODES if number > 0 else 0
    return min(max(math.ceil(number) + _HALF, 0), CODES)


def greatest_code(number: float, kind: Kind) -> int:
    """The code of the greatest value at or below a number; -1 where there is none."""
    if kind is Kind.FLOAT:
        return int(codes_of(np.array([number + 0.0]), kind)[0])
    if math.isinf(number):
        return CODES - 1 if number > 0 else -1
    return min(max(math.floor(number) + _HALF, -1), CODES - 1)
