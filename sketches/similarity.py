"""How two answers with error bounds compare: which is higher, and how alike two sources are."""

from __future__ import annotations

import math
from enum import StrEnum
from typing import NamedTuple

from sketches.estimate import Estimate


class Difference(StrEnum):
    """How one answer differs from another, as far as both intervals allow to say."""

    HIGHER = "higher"
    LOWER = "lower"
    EQUAL = "equal"
    UNCLEAR = "no clear difference"  # the intervals overlap
    NOTHING = "nothing to compare"  # one of the answers has no value


def difference(other: Estimate, first: Estimate) -> Difference:
    """How `other` differs from `first`: higher or lower only where the intervals do not overlap."""
    if math.isnan(first.value) or math.isnan(other.value):
        return Difference.NOTHING
    if other.lower > first.upper:
        return Difference.HIGHER
    if other.upper < first.lower:
        return Difference.LOWER
    return Difference.EQUAL if first.exact and other.exact else Difference.UNCLEAR


class Cosine(NamedTuple):
    """A cosine similarity with its bounds, all between 0 and 1; `value` is NaN where a source has no weight."""

    value: float
    lower: float
    upper: float


def cosine(product: Estimate, one: Estimate, two: Estimate) -> Cosine:
    """The cosine similarity of two sources: their inner product over the root of both self-join sizes.

    The bounds hold where those of the three estimates hold.
    """
    return Cosine(
        _ratio(product.value, one.value, two.value, unknown=math.nan),
        _ratio(product.lower, one.upper, two.upper, unknown=0.0),
        _ratio(product.upper, one.lower, two.lower, unknown=1.0),
    )


def _ratio(product: float, one: float, two: float, *, unknown: float) -> float:
    return min(product / math.sqrt(one * two), 1.0) if one > 0.0 and two > 0.0 else unknown
