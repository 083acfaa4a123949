"""A stream's sampled rows, ready to be asked: what a `Sample`, or the samples of many epochs together, answer with."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from sketches.answers import answer
from sketches.asked import Asked, Ints
from sketches.curves import Curve, quantile_curve, threshold_curve
from sketches.decay import Decay, DecayClass
from sketches.drawn import Drawn, side_by_side
from sketches.errors import IncompatibleError, QuestionError, UnanswerableError
from sketches.estimate import Estimate, Series
from sketches.joins import inner_product
from sketches.nested_sample import NO_CUT
from sketches.parameters import SampleParameters
from sketches.question import Question

FAMILY = "sample"


@dataclass(frozen=True)
class Sampled:
    """Rows with design weights, and the accuracy that was planned when they were sampled."""

    drawn: Drawn
    parameters: SampleParameters

    @classmethod
    def side_by_side(cls, parts: list[Sampled]) -> Sampled:
        """The samples of different times (the epochs of a stream) as one."""
        first = parts[0]
        for part in parts[1:]:
            if part.parameters != first.parameters:
                raise IncompatibleError(
                    f"samples with different parameters stand apart: {first.parameters} and {part.parameters}"
                )
        return cls(side_by_side([part.drawn for part in parts]), first.parameters)

    def answer(self, question: Question, *, other: Sampled | None = None) -> Estimate:
        """The answer with its interval; `other` is the second side of an inner product."""
        as_of = self.moment(question)
        confidence = question.confidence or 1.0 - self.parameters.delta
        if question.aggregate == "inner-product":
            other = self._partner(other)
            if question.as_of is None and other.drawn.newest is not None:
                as_of = max(as_of, other.drawn.newest)
        elif other is not None:
            raise QuestionError(f"other= goes with inner-product, not with {question.aggregate!r}")
        asked = self._asked(question, np.array([as_of]), confidence)
        found = answer(asked) if other is None else inner_product(asked, other.drawn)
        self._refuse_lost(question, as_of)
        exact = bool(found.lower[0] == found.value[0] == found.upper[0] and asked.unseen_weight[0][0] == 0)
        return Estimate(
            value=float(found.value[0]),
            lower=float(found.lower[0]),
            upper=float(found.upper[0]),
            confidence=1.0 if exact else confidence,
            guarantee=self.guarantee(question, as_of, exact),
            family=FAMILY,
            as_of=as_of,
            used=int(found.used[0]),
            items=found.items,
        )

    def series(self, question: Question, as_of: ArrayLike) -> Series:
        """The same question at many as-of times: one pass, not one answer after the other."""
        moments = np.asarray(as_of, np.int64)
        if moments.ndim != 1:
            raise QuestionError(f"as_of has {moments.ndim} dimensions; a series takes a flat array of times")
        if question.aggregate == "inner-product":
            raise UnanswerableError("inner-product has no series: ask for it at one as-of time")
        confidence = question.confidence or 1.0 - self.parameters.delta
        found = answer(self._asked(question, moments, confidence))
        for moment in moments.tolist():
            self._refuse_lost(question, moment)
        return Series(
            as_of=moments,
            value=found.value,
            lower=found.lower,
            upper=found.upper,
            confidence=confidence,
            guarantee=self.guarantee(question, int(moments.min(initial=self.moment(question))), exact=False),
            family=FAMILY,
            used=found.used,
        )

    def threshold_curve(self, question: Question, thresholds: ArrayLike) -> Curve:
        """The correlated sum against its threshold τ, at the question's decay and as-of time."""
        return threshold_curve(self._at_once(question), thresholds)

    def quantile_curve(self, question: Question, shares: ArrayLike) -> Curve:
        """The whole quantile function, at the question's decay and as-of time."""
        return quantile_curve(self._at_once(question), shares)

    def _at_once(self, question: Question) -> Asked:
        confidence = question.confidence or 1.0 - self.parameters.delta
        return self._asked(question, np.array([self.moment(question)]), confidence)

    def moment(self, question: Question) -> int:
        """The question's as-of time; by default that of the newest event, 0 where there is none."""
        if question.as_of is not None:
            return question.as_of
        return self.drawn.newest if self.drawn.newest is not None else 0

    def _asked(self, question: Question, as_of: Ints, confidence: float) -> Asked:
        return Asked(self.drawn, question, as_of, confidence, self.parameters.epsilon)

    def _partner(self, other: Sampled | None) -> Sampled:
        if other is None:
            raise QuestionError("aggregate 'inner-product' needs a second sketch: other=")
        if other.parameters != self.parameters:
            raise IncompatibleError(f"inner products need equal parameters: {self.parameters} and {other.parameters}")
        return other

    def _refuse_lost(self, question: Question, as_of: int) -> None:
        """Only a stream of some 2^53 capacities of weight can get here: older events are beyond any level."""
        lost = self.drawn.lost_before
        assert isinstance(question.decay, Decay)
        if lost == NO_CUT or lost > as_of:
            reached = lost != NO_CUT
        else:
            reached = bool(question.decay(self.parameters.unit.seconds(np.array([as_of - lost])))[0] > 0)
        if reached:
            raise UnanswerableError(
                f"the stream is too heavy for this sketch: events up to time {lost} were discarded at every level"
            )

    def guarantee(self, question: Question, as_of: int, exact: bool) -> str:
        """In words: which bound holds, and why not a stronger one."""
        if exact:
            return "exact: every event that counts here was kept"
        if self.drawn.newest is not None and as_of < self.drawn.newest:
            return "interval from the sample itself; no error was planned for times before the newest event"
        epsilon, limit = f"{self.parameters.epsilon:.3g}", ""
        assert isinstance(question.decay, Decay)
        match question.aggregate:
            case "sum" | "mean" if question.of == "value":
                return (
                    "interval from the sample itself; no error was planned for, as it depends on how far values spread"
                )
            case "self-join" | "inner-product":
                return (
                    "interval from the sample itself; no error was planned for, as it depends on how often keys repeat"
                )
            case "sum" | "count":
                planned = f"planned for a relative error of at most {epsilon}"
            case "mean":
                planned = f"sum and count each planned for a relative error of at most {epsilon}"
            case "heavy-hitters":
                planned = f"planned for shares within {epsilon}; the intervals of the list hold together"
            case "quantile" | "median":
                planned = f"planned for a rank within {epsilon} of the one asked for"
            case "range-sum" | "correlated-sum" | "correlated-count" | "correlated-mean":
                each = "sum and count each " if question.aggregate == "correlated-mean" else ""
                planned = f"{each}planned for an additive error of at most {epsilon} of the whole decayed weight"
                if question.decay.decay_class not in (DecayClass.NONE, DecayClass.CONVERGING):
                    kind = question.decay.decay_class
                    limit = f"; under {kind} decay no small sketch can bound the relative error (B §4)"
            case _:
                planned = f"planned for an additive error of at most {epsilon}"
        likely = 1.0 - self.parameters.delta
        return f"interval from the sample itself; {planned} with probability {likely:.3g}{limit}"
