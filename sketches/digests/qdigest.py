"""The `qdigest` family: quantiles, ranges and heavy hitters under any decay, never outside their bounds."""

from __future__ import annotations

import math
from typing import ClassVar, Final

from sketches.decay.functions import LastEvents
from sketches.digests.digest import LAST_EVENTS_FACTOR, Digest, DigestParameters, last_events_words, mass_name
from sketches.digests.dyadic_forest import Shape
from sketches.digests.dyadic_tree import compression_factor
from sketches.family import Abilities, Built, Promise
from sketches.papers import OUT_OF_ORDER_STREAMS
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
    two ends), a quantile's rank is within ε of the one asked for, and a value that is not listed among the heavy
    hitters has a share of less than φ, or of at most ε: for counts and for weights alike. Merging keeps all of this (C
    §7.1). As of an earlier time, events newer than that which share a range with older ones widen the interval.

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

    @classmethod
    def _shape(cls, parameters: DigestParameters) -> Shape:
        """Half of ε for each axis: the ranges of time that a window cuts carry at most ε/2 of the lower bound L of the
        decayed sum, the ranges of values that a threshold cuts at most (ε/2)/(1 + ε/2) of its upper bound (1 + ε/2)·L.
        """
        half = parameters.epsilon / 2.0
        return Shape(parameters.span, compression_factor(half), 2.0 * (1.0 + half) / half)

    @classmethod
    def _promise(cls, question: Question, built: Built, *, past: bool) -> Promise:
        limits = question.where.range_of("value")
        two_ended = question.two_ended or (math.isfinite(limits.low) and math.isfinite(limits.high))
        factor = 0.5 if question.aggregate in ("sum", "count") and not question.where else 1.0
        if question.threshold is not None or question.aggregate == "correlated-mean":
            factor = 2.0
        elif two_ended:
            factor = 1.5
        if question.where and question.aggregate not in _SUMS:
            factor *= 2.0  # a quotient of two sums, each with its own error
        if isinstance(question.decay, LastEvents):
            factor += LAST_EVENTS_FACTOR / 2.0
        return Promise.certainly(built.epsilon * factor * (built.past_factor(question.decay) if past else 1.0))

    def _bound(self, question: Question) -> str:
        text, theorem = self._restricted(question) if question.where else self._stated(question)
        if isinstance(question.decay, LastEvents):
            text = f"{text}; {last_events_words(self.parameters.epsilon / 2.0, question.decay)}"
        return f"{text} ({OUT_OF_ORDER_STREAMS}, {theorem})"

    def _restricted(self, question: Question) -> tuple[str, str]:
        """What is promised of an answer over the events that satisfy a predicate."""
        width, both = 1.5 * self.parameters.epsilon, "Theorems 2 and 5"
        if question.threshold is not None:
            width *= 2.0
        if question.aggregate in _SUMS:
            return f"the interval is at most {width:.3g} of the whole decayed {mass_name(question)} wide", both
        if question.aggregate.endswith("mean"):
            return f"decayed weight and decayed count each within {width:.3g} of those of all events", both
        return f"a quotient of two sums, each within {width:.3g} of the whole decayed {mass_name(question)}", both

    def _stated(self, question: Question) -> tuple[str, str]:
        """What is promised of an answer, and by which theorem."""
        epsilon, both, name = self.parameters.epsilon, "Theorems 2 and 5", mass_name(question)
        match question.aggregate:
            case "sum" | "count":
                return f"the interval is at most {epsilon / 2:.3g} of the decayed {name} wide", "Theorem 1"
            case "mean":
                return f"decayed weight and decayed count each within {epsilon / 2:.3g} of themselves", "Theorem 1"
            case "quantile" | "median":
                return f"rank within {epsilon:.3g} of the one asked for, of the decayed {name}", both
            case "heavy-hitters":
                least = f"a share of {epsilon:.3g} of the decayed {name}, or the one asked for"
                return f"no unlisted value has more than {least}", "Theorem 5"
            case "correlated-mean":
                return f"decayed weight and decayed count each within {epsilon:.3g} of those of all events", both
            case "range-sum" | "range-frequency":
                return f"the interval is at most {1.5 * epsilon:.3g} of the whole decayed {name} wide", both
        if question.threshold is not None:
            counted = "weight" if question.by_weight else "count"
            threshold = f"the threshold within {epsilon:.3g} of the whole decayed {counted}"
            return f"{threshold}, the answer within {epsilon:.3g} of the whole decayed {name}", both
        return f"the interval is at most {epsilon:.3g} of the whole decayed {name} wide", both
