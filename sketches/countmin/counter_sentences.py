"""What an answer of `ecm` states in words: every number in it is measured on the answer's own interval.

So a sentence is as true as the interval, at every as-of time, after merges and for every point of a series. Bounds that
are known before the answer (paper E, Theorems 1 and 2) hold as of the newest event only, and are wider.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from sketches import guarantees
from sketches.arrays import Floats, Limits
from sketches.countmin.counter_contents import CounterContents
from sketches.countmin.heavy_values import HeavyValues
from sketches.decay.functions import LastEvents
from sketches.question import Question

SHARES: Final = frozenset({"frequency", "selectivity", "rank", "range-frequency"})
_MAY_MISS: Final = "values that were heavy at that time may be missing, whatever their share"
_COPIES: Final = "if no row came in two of the sketches that were merged"
_NEWEST: Final = "where the newest events begin is known but for an entry of the log of all arrivals"


def of_number(
    contents: CounterContents, question: Question, limits: Limits, whole: Floats | None, confidence: float
) -> str:
    """The guarantee of an answer, or of all points of a series; `whole` is what its error is relative to, at least."""
    value, lower, upper = limits
    held = guarantees.NEVER_OUTSIDE if confidence == 1.0 else guarantees.inside(confidence)
    near = ""
    if whole is not None and len(value):
        distance = np.nan_to_num(np.maximum(value - lower, upper - value))  # of nothing there is no share
        with np.errstate(over="ignore"):  # all that is certain may be long ago, and the square of next to nothing
            shares = np.divide(distance, whole, out=np.where(distance > 0.0, np.inf, 0.0), where=whole > 0.0)
        error = float(np.max(shares))
        near = guarantees.within(error, _whole(contents, question)) if error < 1.0 else ""
    return guarantees.clauses(held, near, *_besides(contents, question))


def of_list(contents: CounterContents, question: Question, found: HeavyValues, confidence: float) -> str:
    """The guarantee of a list: all its intervals, what is listed and what is not hold together."""
    least = float(found.lower.min(initial=1.0))
    return guarantees.clauses(
        guarantees.lists_hold(confidence, together=True),
        guarantees.none_listed(least) if 0.0 < least < 1.0 else "",
        ""
        if found.unlisted is None
        else _MAY_MISS
        if found.unlisted >= 1.0
        else guarantees.none_unlisted(found.unlisted),
        *_besides(contents, question),
    )


def _whole(contents: CounterContents, question: Question) -> str:
    counted = "decayed count" if contents.parameters.counting == "events" else "decayed sum"
    joins = question.aggregate in ("self-join", "inner-product")
    if joins:
        return f"the product of the {counted}s"
    return f"the whole {counted}" if question.where else f"the {counted}"


def _besides(contents: CounterContents, question: Question) -> tuple[str, ...]:
    """What else widens the bounds, and what counts."""
    newest = isinstance(question.decay, LastEvents) and contents.parameters.basis == "time"
    depth = contents.depth
    merged = "" if not depth else guarantees.aggregated(depth) if contents.certain else _COPIES
    return (merged, _NEWEST if newest else "", guarantees.ROWS)
