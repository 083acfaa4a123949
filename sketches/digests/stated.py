"""What is said of an answer: how wide its interval is, how far off a rank, what a list may leave out.

As of the newest event or later a family knows that before it answers. Elsewhere it is measured on the answer itself, in
the worst case that the limits allow: relative to the least that the whole can be. So it holds at every as-of time. Of a
series it is the largest of all points. Where the whole may be nothing, nothing is said.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from sketches.arrays import Flags, Floats, Ints, Limits
from sketches.digests.code_ranges import EVERYTHING
from sketches.digests.mass_bounds import MassBounds
from sketches.guarantees import FADED, NEVER_OUTSIDE, NO_OTHER, ROWS, clauses, none_unlisted, rank_within, wide
from sketches.question import Question

SUMS: Final = ("sum", "range-sum", "correlated-sum")
COUNTS: Final = ("count", "correlated-count")
MEANS: Final = ("mean", "correlated-mean")
QUANTILES: Final = ("quantile", "median")
_DOUBT: Final = 1.0 + 1e-9  # rounding may have moved limits apart by less


def stated(held: MassBounds, question: Question, moments: Ints, limits: Limits, rank_error: Floats | None) -> str:
    """The guarantee of an answer, or of a series; `rank_error` is how far off the rank of a quantile may be.

    None: no more than is known before.
    """
    value, lower, upper = limits
    counts = ~np.isnan(value) | ~np.isnan(lower)  # where the estimate is of nothing, the limits may still say something
    if counts.any() and (lower == upper)[counts].all():
        return clauses(NO_OTHER, ROWS)
    known = held.width(question.at(int(moments.max()))) if held.current(moments) and len(moments) else None
    if question.aggregate in QUANTILES:
        error = known if rank_error is None else _largest(rank_error, counts)
        said = "" if error is None else rank_within(error, _whole(question))
    else:
        whole, measured = "the answer", None
        if held.of_itself:
            measured = _largest(_relative(lower, upper, lower), counts)
        if measured is None:
            whole, measured = _whole(question), _largest(_widths(held, question, moments, lower, upper), counts)
        kept = known is not None and measured is not None and measured <= known * _DOUBT
        width = known if kept else measured
        said = "" if width is None else wide(width, whole)
    return clauses(NEVER_OUTSIDE, said, ROWS, FADED if held.has_faded else "")


def stated_of_list(exact: bool, unlisted: float, has_faded: bool) -> str:
    """The guarantee of a list."""
    return clauses(
        NO_OTHER if exact else NEVER_OUTSIDE, none_unlisted(unlisted), ROWS, FADED if has_faded and not exact else ""
    )


def _whole(question: Question) -> str:
    """What a width is relative to: of all events under the question's decay, whatever it is restricted to."""
    if question.aggregate in MEANS:
        return "the mean"
    return f"the whole decayed {'weight' if question.aggregate in SUMS or question.by_weight else 'count'}"


def _widths(held: MassBounds, question: Question, moments: Ints, lower: Floats, upper: Floats) -> Floats | None:
    """The widths of intervals, each relative to the least that the whole can be; 1 for a share."""
    if question.aggregate in MEANS:
        whole = lower
    elif question.aggregate in (*SUMS, *COUNTS):
        mass = held.weight if question.aggregate in SUMS else held.counted(question)
        [total] = held.totals(question, moments, [held.part(mass, EVERYTHING)])
        whole = held.sums(total, moments)[1]
    elif question.where:
        return None  # a share among the events that satisfy a predicate
    else:
        whole = np.ones(len(lower))
    return _relative(lower, upper, whole)


def _relative(lower: Floats, upper: Floats, whole: Floats) -> Floats:
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        return np.where(upper > lower, (upper - lower) / whole, 0.0)


def _largest(numbers: Floats | None, counts: Flags) -> float | None:
    if numbers is None:
        return None
    found = float(numbers[counts].max(initial=0.0)) if len(numbers) else 0.0
    return found if math.isfinite(found) else None
