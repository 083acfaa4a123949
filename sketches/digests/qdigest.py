"""The `qdigest` family: quantiles, ranges and heavy hitters under any decay, never outside their bounds."""

from __future__ import annotations

from typing import ClassVar

from sketches.digests.digest import Digest, DigestParameters
from sketches.digests.dyadic_forest import Shape
from sketches.digests.dyadic_tree import compression_factor
from sketches.family import Abilities, Built, Promise
from sketches.papers import OUT_OF_ORDER_STREAMS
from sketches.question import NEEDS_ORDER, Question


class QDigest(Digest):
    """Mergeable q-digest of times whose nodes hold q-digests of values.

    Question: decayed count, sum and mean; rank, quantiles and median; heavy hitters and the frequency of a value; sums,
    counts, means and shares over v ≥ tau or a range of values; under any decay function, at any as-of time.

    Guarantee: deterministic. The exact answer is never outside the interval. As of the newest event or later, under any
    decay, the interval of a sum over v ≤ x or v ≥ x is at most ε of the whole decayed sum wide (1.5·ε for a range with
    two ends), a quantile's rank is within ε of the one asked for, and a value that is not listed among the heavy
    hitters has a share of less than φ, or of at most ε. Merging keeps all of this (C §7.1). As of an earlier time,
    events newer than that which share a range with older ones widen the interval.

    Not bounded: the relative error of sums over few matching events; means over v ≥ tau, whose interval is a quotient.
    Rows that come twice count twice. Joins are not answered.

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
        ("sum", "count", "mean", "frequency", "heavy-hitters", *sorted(NEEDS_ORDER)), curves=True
    )
    valued: ClassVar[bool] = True

    @classmethod
    def _shape(cls, parameters: DigestParameters) -> Shape:
        """Half of ε for each axis: the ranges of time that a window cuts carry at most ε/2 of the lower bound L of the
        decayed sum, the ranges of values that a threshold cuts at most (ε/2)/(1 + ε/2) of its upper bound (1 + ε/2)·L.
        """
        half = parameters.epsilon / 2.0
        return Shape(parameters.span, compression_factor(half), 2.0 * (1.0 + half) / half)

    @classmethod
    def _promise(cls, question: Question, built: Built, *, past: bool) -> Promise:
        factor = 0.5 if question.aggregate in ("sum", "count") else 1.0
        if question.tau_quantile is not None or question.aggregate == "correlated-mean":
            factor = 2.0
        elif question.two_ended:
            factor = 1.5
        return Promise.certainly(built.epsilon * factor * (built.past_factor(question.decay) if past else 1.0))

    def _bound(self, question: Question) -> str:
        text, theorem = self._stated(question)
        return f"{text} ({OUT_OF_ORDER_STREAMS}, {theorem})"

    def _stated(self, question: Question) -> tuple[str, str]:
        """What is promised of an answer, and by which theorem."""
        epsilon, both = self.parameters.epsilon, "Theorems 2 and 5"
        match question.aggregate:
            case "sum" | "count":
                return f"the interval is at most {epsilon / 2:.3g} of the {question.aggregate} wide", "Theorem 1"
            case "mean":
                return f"sum and count each within {epsilon / 2:.3g} of themselves", "Theorem 1"
            case "quantile" | "median":
                return f"rank within {epsilon:.3g} of the one asked for", both
            case "heavy-hitters":
                return f"no unlisted value has more than a share of {epsilon:.3g}, or the one asked for", "Theorem 5"
            case "correlated-mean":
                return f"sum and count each within {epsilon:.3g} of all that counts", both
            case "range-sum" | "range-frequency":
                return f"the interval is at most {1.5 * epsilon:.3g} of the whole decayed sum wide", both
        if question.tau_quantile is not None:
            return f"threshold and answer each within {epsilon:.3g} of all that counts", both
        return f"the interval is at most {epsilon:.3g} of the whole decayed sum wide", both
