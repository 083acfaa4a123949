"""How alike two sources are, from answers with error bounds."""

from __future__ import annotations

import math
from typing import NamedTuple

from sketches.estimate import Estimate


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
