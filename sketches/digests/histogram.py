"""The `histogram` family: counts and sums over any window, hence under any decay, never outside their bounds."""

from __future__ import annotations

from typing import ClassVar

from sketches.decay.functions import LastEvents
from sketches.digests.digest import Digest, DigestParameters
from sketches.digests.dyadic_forest import Shape
from sketches.digests.dyadic_tree import compression_factor
from sketches.digests.expected_widths import histogram_width
from sketches.family import Abilities
from sketches.promise import Built, Promise
from sketches.question import Question


class Histogram(Digest):
    """Mergeable histogram of the times of a stream, each interval (epoch) a tree of its own.

    Question: decayed count (of events, or of these by their weights), sum and mean of the weights, under any decay
    function or over the newest N rows, at any as-of time. It keeps both masses of an event, 1 and its weight.

    Guarantee: deterministic. The exact answer is never outside the interval, and the interval of a count or a sum is at
    most ε of the answer wide, so the estimate in its middle errs by at most ε/2, for any decay and any window, as of
    the newest event or later. An interval that the window does not cut is counted exactly. Merging keeps all of this:
    `sketches.digests.dyadic_tree` proves it. As of an earlier time, newer events that share a range with older ones
    widen the interval (by at most 2ε of all events of their epoch since the window began).

    Not bounded: a mean's interval is the quotient of the two intervals, about 2ε wide. Where the newest N rows begin is
    known to within about 3ε of their number, what these few weigh is not bounded. Rows that come twice count twice:
    the store's ledger keeps whole files from that, not rows within them. Nothing is known of values.

    Memory: O(log span · log N / ε) ranges an epoch: ε = 0.05 keeps about 400 of a day of a million events in seconds,
    3 to 5 bytes each on the wire; fewer than ten or so at a time are kept exactly.

    >>> from sketches import Events, Question
    >>> events = Events.of(ids=range(5000), times=range(5000))
    >>> estimate = Histogram.build(events).answer(Question("count", "window:1000s"))
    >>> estimate.lower <= 1000 <= estimate.upper and estimate.upper - estimate.lower <= 0.05 * 1000
    True

    Reference: Busch, Tirthapura, A deterministic algorithm for summarizing asynchronous streams over a sliding window
    (paper D); its levels are folded into one tree, see `docs/families.md`.
    """

    family: ClassVar[str] = "histogram"
    abilities: ClassVar[Abilities] = Abilities(("sum", "count", "mean"), last_events=True)
    valued: ClassVar[bool] = False
    fades: ClassVar[bool] = True

    @classmethod
    def _shape(cls, parameters: DigestParameters) -> Shape:
        return Shape(parameters.span, compression_factor(parameters.epsilon), None)

    @classmethod
    def _promise(cls, question: Question, built: Built, *, past: bool) -> Promise:
        return Promise.certainly(histogram_width(question, built))

    def _width(self, question: Question) -> float | None:
        if isinstance(question.decay, LastEvents):
            return None
        epsilon = self.parameters.epsilon
        return epsilon * (2.0 + epsilon) if question.aggregate == "mean" else epsilon
