"""The `wbmh` family: sums and counts of rare tails with a relative error, under slow decays."""

from __future__ import annotations

import math
from typing import ClassVar

from sketches.digests.divided import DividedDigest, DividedParameters
from sketches.digests.dyadic_forest import Shape
from sketches.digests.dyadic_tree import EITHER, compression_factor
from sketches.digests.expected_tails import tail_width
from sketches.events import Kind
from sketches.family import Abilities
from sketches.promise import Built, Promise
from sketches.question import NEEDS_ORDER, Question

_SHARES = ("selectivity", "rank")


class Wbmh(DividedDigest):
    """Mergeable weight-based merging histogram: blocks of time that grow as they age, each with a digest of its values.

    Question: decayed sum, count and mean over v ≥ tau, or over v < tau by a predicate; the share of such a tail and its
    rank; sum, count and mean of all events; quantiles. It keeps both masses of an event, 1 and its weight. Any decay,
    at any as-of time; promised is the width for the decay that it is built for and for slower ones.

    Guarantee: deterministic. The exact answer is never outside the interval. As of the newest event or later, under the
    decay that it is built for, the interval of a sum or count over v ≥ tau (or v < tau) is at most ε of *that answer*
    wide, however few events match; of their mean and their share at most ε(2 + ε). Under another decay f it is
    θ·√(1 + ε) - 1, with θ the greatest f(a)/f(b) of an age a at which a block may stand and the age b of its oldest
    time: less than ε where f is slower. Merging keeps all of this, in any order, and late events do not widen it.

    Not bounded: ranges with two ends, such as low ≤ v < high, and thresholds that are quantiles, whose intervals are
    measured on the answer; decays that fall faster, or may do so beyond `history`; times before the newest event, where
    long blocks are in doubt. Rows that come twice count twice. Text values are refused.

    Memory: with β = ln(f(0)/f(T))/ln √(1 + ε) for a time T, at most 2β blocks of O(log(n)/ε) ranges of values: ε = 0.1
    and poly:alpha=1,unit=1m keep 323 blocks of 30 days. Decays with β above 4,096 over the history are refused.

    >>> from sketches import Events, Question
    >>> events = Events.of(ids=range(5000), times=range(5000), values=[i % 1000 for i in range(5000)])
    >>> sketch = Wbmh.build(events, decay="poly:alpha=1,unit=1m")
    >>> estimate = sketch.answer(Question("correlated-count", "poly:alpha=1,unit=1m", tau=998))
    >>> exact = sum(1 / (1 + (4999 - i) / 60) for i in range(5000) if i % 1000 >= 998)
    >>> estimate.lower <= exact <= estimate.upper and estimate.upper - estimate.lower <= 0.05 * exact
    True

    Reference: Cormode, Tirthapura, Xu, Time-decayed correlated aggregates over data streams (paper B) §3.2, Theorem
    3.3, and Cormode, Korn, Tirthapura, Time-decaying aggregates in out-of-order streams (paper C) §5.2, Lemma 1.
    """

    family: ClassVar[str] = "wbmh"
    of_itself: ClassVar[bool] = True
    abilities: ClassVar[Abilities] = Abilities(
        ("sum", "count", "mean", *sorted(NEEDS_ORDER - {"range-frequency"})),
        kinds=(Kind.INTEGER, Kind.FLOAT),
        columns=frozenset({"value"}),
        curves=True,
        tells_tails=True,
    )

    @classmethod
    def _shape(cls, parameters: DividedParameters) -> Shape:
        share = compression_factor(parameters.error)
        return Shape(parameters.span, share, share, EITHER, blocks=True)

    @classmethod
    def _promise(cls, question: Question, built: Built, *, past: bool) -> Promise | None:
        parameters = cls.built_by(built)
        if parameters is None:
            return None
        return Promise.certainly(tail_width(question, built, parameters.grid, ends(question)))

    def _width(self, question: Question) -> float | None:
        if question.threshold is not None or ends(question) > 1 or question.aggregate in ("quantile", "median"):
            return None
        width = self.parameters.width(question.decay, self._oldest_age(question))
        if question.aggregate in _SHARES or question.averages:
            width = width * (2.0 + width)
        return width if math.isfinite(width) else None


def ends(question: Question) -> int:
    """How many ends the ranges of values have that a question is about."""
    limits = question.where.range_of("value")
    own = 2 if question.two_ended else 0 if question.aggregate in ("sum", "count", "mean") else 1
    return own + sum(math.isfinite(end) for end in ((limits.low, limits.high) if question.where else ()))
