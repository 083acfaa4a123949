"""Classes of numbers by their sign and by powers of two: 0; from 1 to below 2; from 2 to below 4; and so on.

A class is a whole number that grows with the values in it. Numbers next to 0, below 2^-40 in size, are in one class.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from sketches.arrays import Column, Floats, Ints
from sketches.predicate import Range

LEAST_EXPONENT: Final = -40
_LEAST_PART: Final = 1e-9  # of a class that a range cuts
SHIFT: Final = 1 - LEAST_EXPONENT  # what is added to an exponent, so that the least is 1


def classes_of(values: Column) -> Ints:
    """The class of each value.

    >>> (classes_of(np.array([-3.0, 0.0, 1.0, 2.0, 3.5, 4.0])) - SHIFT).tolist()
    [-84, -41, 1, 2, 2, 3]
    """
    numbers = np.asarray(values, np.float64)
    exponents = np.maximum(np.frexp(numbers)[1].astype(np.int64), LEAST_EXPONENT) + SHIFT
    return np.where(numbers == 0.0, 0, np.where(numbers < 0.0, -exponents, exponents))


def end_of(value_class: int) -> float:
    """What every number of a class above 0 is below.

    >>> end_of(int(classes_of(np.array([5]))[0]))
    8.0
    """
    return math.ldexp(1.0, min(value_class - SHIFT, 1023))


def shares_inside(classes: Ints, inside: Range, *, whole: bool) -> Floats:
    """For each class how much of it may lie in a range, fixed beforehand: 1, 0, or a guess where the range cuts it.

    The guess takes numbers to be spread evenly over their logarithms. `whole`: they are whole numbers.

    >>> shares_inside(classes_of(np.array([1, 2, 4, 8])), Range(3, 7), whole=True).round(2).tolist()
    [0.0, 0.42, 1.0, 0.0]
    """
    ends = inside.closed(whole=whole)
    exponents = np.abs(classes) - SHIFT
    positive = _part(exponents, ends.low, ends.high, whole=whole)
    negative = _part(exponents, -ends.high, -ends.low, whole=whole)
    zero = 1.0 if ends.low <= 0.0 <= ends.high else 0.0
    return np.where(classes == 0, zero, np.where(classes > 0, positive, negative))


def _part(exponents: Ints, low: float, high: float, *, whole: bool) -> Floats:
    """How much of the numbers from 2^(exponent - 1) to below 2^exponent lies from low to high: 1 only where all do, and
    0 only where none does."""
    with np.errstate(over="ignore"):
        first, beyond = np.ldexp(1.0, exponents - 1), np.ldexp(1.0, exponents)
    first = np.where(exponents <= LEAST_EXPONENT, np.nextafter(0.0, 1.0), first)
    upto = high + 1.0 if whole else high  # up to 7 is below 8
    begin, end = (math.log2(limit) if limit > 0.0 else -math.inf for limit in (low, upto))
    guess = np.minimum(exponents, end) - np.maximum(exponents - 1.0, begin)
    all_inside = (low <= first) & (upto >= (beyond if whole else np.nextafter(beyond, 0.0)))
    some_inside = (low < beyond) & (high >= first) & (low <= high)
    return np.where(all_inside, 1.0, np.where(some_inside, np.clip(guess, _LEAST_PART, 1.0 - _LEAST_PART), 0.0))
