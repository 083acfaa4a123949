"""The `qdigest` family: quantiles, ranges and heavy hitters under any decay, never outside their bounds."""

from __future__ import annotations

from typing import ClassVar, Final

from sketches.decay.functions import LastEvents
from sketches.digests.digest import Digest, DigestParameters
from sketches.digests.dyadic_forest import Shape
from sketches.digests.dyadic_tree import compression_factor
from sketches.digests.expected_widths import qdigest_width
from sketches.family import Abilities
from sketches.promise import Built, Promise
from sketches.question import NEEDS_ORDER, Question

_SUMS: Final = ("sum", "count", "range-sum", "correlated-sum", "correlated-count")


class QDigest(Digest):
    """Mergeable q-digest of times whose nodes hold q-digests of values.

    Question: decayed count, sum and mean; rank, quantiles and median; heavy hitters and the frequency of a value; sums,
    counts, means and shares over v ≥ tau or a range of values; each of all events or of those whose value satisfies a
    predicate; under any decay function or over the newest N rows, at any as-of time. It keeps both masses of an event,
    1 and its weight, so shares and ranks are of events or of weight, as asked.

    Guarantee: deterministic. The exact answer is never outside the interval. As of the newest event or later, under any
    decay, the interval of a sum over v ≤ x or v ≥ x is at most ε of the whole decayed sum wide (1.5·ε for a range with
    two ends), a quantile's rank is within ε of the one asked for, and a value without a range of its own, which cannot
    be listed among the heavy hitters, has a share of at most ε: for counts and for weights alike. Merging keeps all of
    this (C §7.1). As of an earlier time, events newer than that which share a range with older ones widen the
    interval. A list says at any time which share no unlisted value exceeds.

    Not bounded: the relative error of sums over few matching events; means over v ≥ tau, and shares of what satisfies a
    predicate, whose intervals are quotients; what the few rows weigh that may or may not be among the newest N. Rows
    that come twice count twice. Joins are not answered.

    Memory: O(log span · log N / ε²) ranges an epoch at the most, and of one batch never more than it has distinct pairs
    of time and value. ε = 0.1 keeps about 20,000 of 100,000 events in a day with a thousand values, 2 to 4 bytes each
    on the wire.

    >>> from sketches import Events, Question
    >>> events = Events.of(ids=range(5000), times=range(5000), values=[i % 100 for i in range(5000)])
    >>> estimate = QDigest.build(events, epsilon=0.1).answer(Question("median", "exp:half_life=10m"))
    >>> estimate.lower <= 51 <= estimate.upper
    True

    Reference: Cormode, Korn, Tirthapura, Time-decaying aggregates in out-of-order streams (paper C) §3, §5.1 and §7.1,
    in the variant that defers merging; its levels are folded into one tree, see `docs/families.md`.
    """

    family: ClassVar[str] = "qdigest"
    abilities: ClassVar[Abilities] = Abilities(
        ("sum", "count", "mean", "frequency", "heavy-hitters", *sorted(NEEDS_ORDER)),
        columns=frozenset({"value"}),
        last_events=True,
        curves=True,
    )
    valued: ClassVar[bool] = True
    fades: ClassVar[bool] = True

    @classmethod
    def _shape(cls, parameters: DigestParameters) -> Shape:
        """Half of ε for each axis: the ranges of time that a window cuts carry at most ε/2 of the lower bound L of the
        decayed sum, the ranges of values that a threshold cuts at most (ε/2)/(1 + ε/2) of its upper bound (1 + ε/2)·L.
        """
        half = parameters.epsilon / 2.0
        return Shape(parameters.span, compression_factor(half), 2.0 * (1.0 + half) / half)

    @classmethod
    def _promise(cls, question: Question, built: Built, *, past: bool) -> Promise:
        return Promise.certainly(qdigest_width(question, built))

    def _width(self, question: Question) -> float | None:
        epsilon = self.parameters.epsilon
        if isinstance(question.decay, LastEvents) or question.threshold is not None:
            return None
        if question.where:
            return 1.5 * epsilon if question.aggregate in _SUMS else None
        match question.aggregate:
            case "sum" | "count":
                return epsilon / 2.0
            case "mean":
                return epsilon / 2.0 * (2.0 + epsilon / 2.0)
            case "correlated-mean":
                return None
        return 1.5 * epsilon if question.two_ended else epsilon
