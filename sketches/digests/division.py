"""The `division` family: quantiles and heavy hitters under slow decays, in a logarithmic number of digests."""

from __future__ import annotations

import math
from typing import ClassVar, Final

from sketches.digests.divided import DividedDigest, DividedParameters
from sketches.digests.dyadic_forest import Shape
from sketches.digests.expected_tails import part_width
from sketches.digests.stated import COUNTS, SUMS
from sketches.family import Abilities
from sketches.promise import Built, Promise
from sketches.question import NEEDS_ORDER, Question

_ALL: Final = ("sum", "count", "mean")


class Division(DividedDigest):
    """Mergeable value division: blocks of time that grow as they age, each with a q-digest of its values.

    Question: decayed count, sum and mean; rank, quantiles and median; heavy hitters and the frequency of a value; sums,
    counts, means and shares over v ≥ tau or a range of values; each of all events or of those whose value satisfies a
    predicate. It keeps both masses of an event, 1 and its weight. Any decay, at any as-of time; promised are widths for
    the decay that it is built for and for slower ones.

    Guarantee: deterministic. The exact answer is never outside the interval. As of the newest event or later, under the
    decay that it is built for, the interval of a sum over v ≤ x or v ≥ x is at most ε of the whole decayed sum wide
    (1.5·ε + ε²/8 for a range with two ends), a quantile's rank is within ε of the one asked for, and a value that is
    not listed among the heavy hitters has a share of at most ε. Under another decay ε gives way to θ·√(1 + ε) - 1, with
    θ the greatest f(a)/f(b) of an age a at which a block may stand and the age b of its oldest time. Merging keeps all
    of this, in any order.

    Not bounded: the relative error of sums over few matching events; decays that fall faster, or may do so for events
    older than `history`; times before the newest event, where long blocks are in doubt; quotients, which are means over
    v ≥ tau and shares of what satisfies a predicate. Rows that come twice count twice.

    Memory: 2·ln(f(0)/f(T))/ln √(1 + ε) blocks of O(log U/ε) ranges at the most, for a time T. Decays that would take
    more than 8,192 blocks over the history are refused.

    >>> from sketches import Events, Question
    >>> events = Events.of(ids=range(5000), times=range(5000), values=[i % 100 for i in range(5000)])
    >>> sketch = Division.build(events, decay="poly:alpha=1,unit=1m")
    >>> estimate = sketch.answer(Question("median", "poly:alpha=1,unit=1m"))
    >>> estimate.lower <= 54 <= estimate.upper
    True

    Reference: Cormode, Korn, Tirthapura, Time-decaying aggregates in out-of-order streams (paper C) §5.2, Theorem 6.
    """

    family: ClassVar[str] = "division"
    abilities: ClassVar[Abilities] = Abilities(
        (*_ALL, "frequency", "heavy-hitters", *sorted(NEEDS_ORDER)),
        columns=frozenset({"value"}),
        curves=True,
    )

    @classmethod
    def _shape(cls, parameters: DividedParameters) -> Shape:
        """A path of values carries at most `error` of its block, whose newest event weighs 1 + `error` times its
        oldest: error·(1 + error) + error = ε."""
        share = 2.0 / parameters.error
        return Shape(parameters.span, share, share, blocks=True)

    @classmethod
    def _promise(cls, question: Question, built: Built, *, past: bool) -> Promise | None:
        parameters = cls.built_by(built)
        return None if parameters is None else Promise.certainly(part_width(question, built, parameters.grid))

    def _width(self, question: Question) -> float | None:
        one = self.parameters.width(question.decay, self._oldest_age(question))  # of a part with one end
        if question.threshold is not None or not math.isfinite(one):
            return None
        error = self.parameters.error
        blurred = (1.0 + one) / (1.0 + error) - 1.0  # by times alone
        two = blurred + 2.0 * error * (1.0 + blurred)
        if question.where:
            return two if question.aggregate in (*SUMS, *COUNTS) and not question.two_ended else None
        match question.aggregate:
            case "sum" | "count":
                return blurred
            case "mean":
                return blurred * (2.0 + blurred)
            case "correlated-mean":
                return None
        return two if question.two_ended else one
