"""The interval of all that a list of groups leaves out.

Which groups are listed is chance too: those that the sample shows too large come to the top, and what is left looks too
small. So its interval must hold for every list that another sample of the same events could have given.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

import numpy as np

from sketches.arrays import Rows
from sketches.estimate import Estimate, Split
from sketches.question import Question

_RAREST: Final = 1e-14  # a failure that a confidence below 1 can state
_SHARES: Final = frozenset({"selectivity", "rank", "frequency", "range-frequency"})


def confidence_left_out(split: Split, listed: Rows, *, smallest: bool = False) -> tuple[float, float]:
    """The confidence to ask at for all groups but the listed, and by what to multiply the width of that interval.

    The failure that one interval is allowed is shared by all lists that chance could have given. Where that is rarer
    than a confidence can state, the interval is widened: the logarithm of the failure falls at least as fast as the
    width grows.
    """
    failure = math.log(1.0 - split.each) - _possible_lists(split, listed, smallest)
    asked = max(failure, math.log(_RAREST))
    return 1.0 - math.exp(asked), failure / asked


def _possible_lists(split: Split, listed: Rows, smallest: bool) -> float:
    """The logarithm of how many lists of that length there are, where a group's place in or out of it is open.

    It is open unless the group's interval lies beyond those of all groups on the other side.
    """
    sign = -1.0 if smallest else 1.0
    known = ~np.isnan(split.value)
    limits = np.stack([np.where(known, limit, np.nan) for limit in (sign * split.lower, sign * split.upper)])
    lower = np.where(known, limits.min(axis=0), -np.inf)
    upper = np.where(known, limits.max(axis=0), np.inf)
    inside = np.zeros(len(split), bool)
    inside[listed] = True
    open_inside = int(np.count_nonzero(lower[inside] <= upper[~inside].max(initial=-np.inf)))
    open_outside = int(np.count_nonzero(upper[~inside] >= lower[inside].min(initial=np.inf)))
    together = open_inside + open_outside
    return math.lgamma(together + 1) - math.lgamma(open_inside + 1) - math.lgamma(open_outside + 1)


def widened(estimate: Estimate, factor: float, question: Question) -> Estimate | None:
    """An answer with an interval so many times as wide to both sides; None for quantiles, whose scale is not even."""
    if factor <= 1.0:
        return estimate
    if question.aggregate in ("quantile", "median"):
        return None
    lower = estimate.value - factor * (estimate.value - estimate.lower)
    upper = estimate.value + factor * (estimate.upper - estimate.value)
    counts = not question.of_value and question.aggregate != "ratio"
    return replace(
        estimate,
        lower=max(lower, 0.0) if counts else lower,
        upper=min(upper, 1.0) if question.aggregate in _SHARES else upper,
    )
