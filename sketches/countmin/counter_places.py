"""Where a value is counted: its counter in each row of a Count-Min sketch, and the dyadic ranges above it."""

from __future__ import annotations

from typing import Final

import numpy as np

from sketches.arrays import Ints, Words
from sketches.compiled import njit
from sketches.hashing import finalise_one

ZERO_CODE: Final = 1 << 63  # of the whole number 0


def level_code(prefix: int, level: int) -> int:
    """What is hashed for a dyadic range: the code of a number itself at level 0, the prefix above."""
    return prefix + ZERO_CODE if level == 0 else prefix


def dyadic_parts(low: int, high: int, bits: int) -> list[tuple[int, int]]:
    """The dyadic ranges, as level and prefix, that make up a range of the domain."""
    found = []
    for level in range(bits):
        if low > high:
            break
        if low & 1:
            found.append((level, low))
            low += 1
        if not high & 1:
            found.append((level, high))
            high -= 1
        low, high = low >> 1, high >> 1
    if low <= high:
        found.extend((bits, prefix) for prefix in range(low, high + 1))
    return found


def clamped(codes: Words, bits: int) -> Words:
    """Codes of whole numbers within the domain, whose ends stand for all beyond; as they are where there is none."""
    if bits == 0:
        return codes
    zero = np.uint64(ZERO_CODE)
    return np.clip(codes, zero, zero + np.uint64((1 << bits) - 1))


@njit(cache=True, nogil=True, inline="always")
def place_of(code: np.uint64, salt: np.uint64, width: int) -> np.int64:
    """The counter of a code in a row."""
    return np.int64(((finalise_one(code ^ salt) >> np.uint64(32)) * np.uint64(width)) >> np.uint64(32))


@njit(cache=True, nogil=True)
def places_of(codes: Words, salts: Words, width: int, first_row: int) -> Ints:
    places = np.empty((len(codes), len(salts)), np.int64)
    for at in range(len(codes)):
        for row in range(len(salts)):
            places[at, row] = (first_row + row) * width + place_of(codes[at], salts[row], width)
    return places
