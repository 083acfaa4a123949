"""A Poisson sample that answers questions: that of one `Sample`, or those of many epochs side by side."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Final, Literal

import numpy as np
from numpy.typing import ArrayLike

from sketches import guarantees
from sketches.arrays import Ints
from sketches.changes import Changes, Stretch
from sketches.decay import DecayClass
from sketches.decay.functions import LastEvents, NoDecay
from sketches.errors import IncompatibleError, QuestionError, UnanswerableError
from sketches.estimate import Curve, Estimate, RowsSeen, Series
from sketches.events import Kind
from sketches.family import Askable
from sketches.papers import CORRELATED_AGGREGATES
from sketches.parts import FieldGap
from sketches.predicate.columns import EVENT_COLUMNS, OF_FIELDS, ColumnType
from sketches.question import Question
from sketches.records import dataclass
from sketches.sampling.answers.curves import all_at_once, quantile_curve, threshold_curve
from sketches.sampling.answers.estimators import answer
from sketches.sampling.answers.faint import magnified
from sketches.sampling.answers.joins import inner_product
from sketches.sampling.answers.last_events import over_last_events
from sketches.sampling.answers.rows_seen import rows_seen
from sketches.sampling.comparison.groupings import grouping_of
from sketches.sampling.comparison.share_changes import Compared, Side, share_changes
from sketches.sampling.estimation.field_gaps import field_gap
from sketches.sampling.estimation.field_values import field_of, of_which_known, with_measures
from sketches.sampling.estimation.horvitz_thompson import largest_unseen
from sketches.sampling.estimation.inquiry import Estimates, Inquiry
from sketches.sampling.estimation.poisson_sample import PoissonSample
from sketches.sampling.estimation.quotients import divide
from sketches.sampling.estimation.side_by_side import side_by_side
from sketches.sampling.inclusion.ladder_parameters import LadderParameters
from sketches.sampling.inclusion.nested_sample import NO_CUT
from sketches.sampling.sample_parameters import SampleParameters
from sketches.splittable import Splittable
from sketches.vocabulary import ONE_SHARE

FAMILY = "sample"
_MOST_TIMES: Final = 1000  # of a series that are answered at once: what is held in memory then has an end


@dataclass(frozen=True)
class AskableSample(Askable):
    """A Poisson sample, and the accuracy that was planned when it was taken."""

    sample: PoissonSample
    parameters: SampleParameters | LadderParameters
    some_sources: bool = False  # of a sample that was planned for all of them

    @classmethod
    def side_by_side(cls, parts: list[AskableSample]) -> AskableSample:
        """The samples of different times (the epochs of a stream) as one."""
        first = parts[0]
        kinds = {part.kind for part in parts if part.sample.newest is not None}
        if len(kinds) > 1:
            raise IncompatibleError(
                f"samples of different kinds of values cannot be asked together: {', '.join(sorted(kinds))}"
            )
        units = {part.parameters.unit for part in parts}
        if len(units) > 1:
            raise IncompatibleError(f"samples with different units of time cannot be asked together: {units}")
        some = any(part.some_sources for part in parts)
        return cls(side_by_side([part.sample for part in parts]), first.parameters, some)

    @property
    def kind(self) -> Kind:  # type: ignore[override]
        return self.sample.kind

    def type_of(self, column: str) -> ColumnType:
        if column in EVENT_COLUMNS:
            return super().type_of(column)
        return OF_FIELDS[field_of(self.sample, column).kind]

    def unknown_fields(self, names: Collection[str], as_of: int) -> dict[str, FieldGap]:
        found = {name: field_gap(self.sample, name, as_of) for name in sorted(names)}
        return {name: gap for name, gap in found.items() if gap.since is not None or gap.gone}

    def answer(self, question: Question, *, other: AskableSample | None = None) -> Estimate:
        """The answer with its interval; `other` is the second side of an inner product."""
        as_of = self.as_of(question)
        confidence = self.confidence(question)
        other = self._second_side(question, other)
        if other is not None and question.as_of is None and other.sample.newest is not None:
            as_of = max(as_of, other.sample.newest)
        moments = np.array([as_of])
        inquiry, found = self._inquiry(question, moments), self._estimates(question, moments, other)
        exact = _is_point(found) and self._complete(question, moments)
        return Estimate(
            value=float(found.value[0]),
            lower=float(found.lower[0]),
            upper=float(found.upper[0]),
            confidence=1.0 if exact else confidence,
            guarantee=guarantees.KEPT_ALL if exact else self.guarantee(question, as_of, found),
            family=FAMILY,
            as_of=as_of,
            used=int(found.used[0]),
            items=found.items,
            unlisted=found.unlisted,
            seen=self._seen(inquiry, found) if self._knows_rows(question) else None,
        )

    def _knows_rows(self, question: Question) -> bool:
        """Whether it counts events, and in how many rows all of them came is known."""
        sample = self.sample
        plain = question.aggregate == "count" and not question.by_weight and not isinstance(question.decay, LastEvents)
        known = sample.totals is not None and sample.totals.hourly.unknown_up_to == NO_CUT
        return plain and known and sample.counts is not None and not sample.counts_rows and len(sample) > 0

    def _seen(self, inquiry: Inquiry, events: Estimates) -> RowsSeen:
        by_row = replace(self, sample=self.sample.each_row)
        return rows_seen(inquiry, events, answer(by_row._inquiry(inquiry.question, inquiry.as_of)))

    def series(self, question: Question, as_of: ArrayLike, *, other: AskableSample | None = None) -> Series:
        """The same question at many as-of times, in one pass."""
        moments = np.asarray(as_of, np.int64)
        if moments.ndim != 1:
            raise QuestionError(f"as_of has {moments.ndim} dimensions; a series takes a flat array of times")
        other = self._second_side(question, other)
        blocks = np.array_split(moments, max(1, -(-len(moments) // _MOST_TIMES)))
        found = Estimates.joined([self._estimates(question, block, other) for block in blocks])
        exact = len(moments) > 0 and _is_point(found) and self._complete(question, moments)
        least = int(moments.min(initial=self.as_of(question)))
        return Series(
            as_of=moments,
            value=found.value,
            lower=found.lower,
            upper=found.upper,
            confidence=1.0 if exact else self.confidence(question),
            guarantee=guarantees.KEPT_ALL if exact else self.guarantee(question, least),
            family=FAMILY,
            used=found.used,
        )

    def _estimates(self, question: Question, as_of: Ints, other: AskableSample | None) -> Estimates:
        """The answers at some as-of times."""
        if isinstance(question.decay, LastEvents):
            return self._over_last(question, as_of, other)
        if len(as_of):
            self.refuse_lost(question, int(as_of.min()))
        inquiry = self._inquiry(question, as_of)
        if other is None:
            return answer(inquiry)
        second = other.asked(question)
        return magnified(inquiry, lambda one: inner_product(one, second))

    def threshold_curve(self, question: Question, thresholds: ArrayLike, *, together: bool = False) -> Curve:
        """The correlated sum, count or mean against its threshold τ, at the question's decay and as-of time."""
        return all_at_once(threshold_curve, self._at(question), thresholds, together)

    def quantile_curve(self, question: Question, shares: ArrayLike, *, together: bool = False) -> Curve:
        """The whole quantile function, at the question's decay and as-of time."""
        return all_at_once(quantile_curve, self._at(question), shares, together)

    def changes(
        self,
        question: Question,
        columns: Sequence[str],
        inside: Stretch,
        outside: Sequence[Stretch],
        sources: Splittable | None = None,
    ) -> Changes:
        sample, confidence = self.asked(question), self.confidence(question)
        sides = Side(sample, (inside,)), Side(sample, outside)
        weights = sum(divide(side.expanded, side.expanded.sum(keepdims=True), 0.0) for side in sides)
        compared = [Compared(grouping_of(sample, column, np.asarray(weights)), *sides) for column in columns]
        if sources is not None:
            compared.append(sources.compared(question, inside, outside))
        found = share_changes(compared, confidence)
        inside_mass, outside_mass = (side.mass((1.0 + confidence) / 2.0) for side in sides)
        changes = Changes(found, inside_mass, outside_mass, confidence, guarantees.FROM_SAMPLE, FAMILY)
        if changes.exact:
            return replace(changes, guarantee=guarantees.KEPT_ALL)
        together = guarantees.lists_hold(confidence, together=True)
        return replace(changes, guarantee=guarantees.clauses(guarantees.FROM_SAMPLE, together))

    def _at(self, question: Question) -> Inquiry:
        if isinstance(question.decay, LastEvents):
            raise UnanswerableError("curves over the newest events by number are not drawn: ask for a window of time")
        return self._inquiry(question, np.array([self.as_of(question)]))

    def asked(self, question: Question) -> PoissonSample:
        """The sample of the events that a question is about, with what it compares and sums, and the weights by which
        events count in it."""
        if question.phis:
            raise UnanswerableError(f"the {FAMILY} family {ONE_SHARE}")
        return _counted(_measured(self.sample.where(question.where), question), question)

    def _over_last(self, question: Question, as_of: Ints, other: AskableSample | None) -> Estimates:
        """The answer over the newest events by number: from the time at which they begin, without decay."""
        if other is not None:
            raise UnanswerableError("an inner product over the newest events by number is not defined")
        assert isinstance(question.decay, LastEvents)
        plain = replace(question, decay=NoDecay())

        def since(begin: int, moment: int, confidence: float) -> Estimates:
            askable = replace(self, sample=self.sample.between_times(begin, moment))
            self.refuse_lost(plain.at(moment), moment)
            return answer(replace(askable._inquiry(plain, np.array([moment])), confidence=confidence))

        return over_last_events(
            self.sample.each_once, question, int(question.decay.count), as_of, self.confidence(question), since
        )

    def _complete(self, question: Question, as_of: Ints) -> bool:
        """Whether no event that may count at some of these times was discarded."""
        if isinstance(question.decay, LastEvents):
            return True  # the limits are equal only where every event since the beginning was kept
        counted: dict[str, Literal["unit", "event"]] = {"weight": "unit", "events": "event"}
        per = {counted[mass] for mass in question.masses if mass in counted}
        sample = _measured(self.sample.where(question.where), question)
        unseen = (largest_unseen(sample, question.decay, as_of, one) for one in sorted(per))
        return not any(one.contribution.any() for one in unseen)

    def as_of(self, question: Question) -> int:
        """The question's as-of time; by default that of the newest event, 0 where there is none."""
        if question.as_of is not None:
            return question.as_of
        return self.sample.newest if self.sample.newest is not None else 0

    def confidence(self, question: Question) -> float:
        return question.confidence or 1.0 - self.parameters.delta

    def _inquiry(self, question: Question, as_of: Ints) -> Inquiry:
        unrestricted = _counted(_measured(self.sample, question), question)
        return Inquiry(
            self.asked(question),
            question,
            as_of,
            self.confidence(question),
            self.parameters.epsilon,
            self.counted(question),
            unrestricted,
        )

    def counted(self, question: Question) -> PoissonSample:
        """All events, with what a question compares and the weights by which they count in a threshold."""
        compared = self.sample.compared_by(question.compared)
        return compared if question.by_weight else compared.each_once

    def _second_side(self, question: Question, other: AskableSample | None) -> AskableSample | None:
        """The second side of an inner product, which no other question has."""
        if question.aggregate != "inner-product":
            if other is not None:
                raise QuestionError(f"other= goes with inner-product, not with {question.aggregate!r}")
            return None
        if other is None:
            raise QuestionError("aggregate 'inner-product' needs a second sketch: other=")
        if other.parameters != self.parameters:
            raise IncompatibleError(f"inner products need equal parameters: {self.parameters} and {other.parameters}")
        return other

    def refuse_lost(self, question: Question, as_of: int) -> None:
        """Refuse answers that need events which every level has discarded.

        That takes a stream whose weight is some 2^53 times the capacity.
        """
        lost = self.sample.lost_before
        if lost == NO_CUT or lost > as_of:
            needed = lost != NO_CUT
        else:
            needed = bool(question.decay(self.parameters.unit.seconds(np.array([as_of - lost])))[0] > 0)
        if needed:
            raise UnanswerableError(
                f"the stream is too heavy for this sketch: events up to time {lost} were discarded at every level"
            )

    def guarantee(self, question: Question, as_of: int, found: Estimates | None = None) -> str:
        """In words: which bound holds, and why not a stronger one; `found` is the list that was asked for."""
        interval = guarantees.FROM_SAMPLE
        if found is not None and found.unlisted is not None:
            together = guarantees.lists_hold(self.confidence(question), together=True)
            return guarantees.clauses(interval, guarantees.none_unlisted(found.unlisted), together)
        if self.sample.newest is not None and as_of < self.sample.newest:
            kept = guarantees.kept(self.sample.strata.kept_at(as_of))
            return guarantees.clauses(interval, guarantees.unplanned("times before the newest event"), kept)
        if self.some_sources:
            return guarantees.clauses(interval, guarantees.unplanned("some of the sources"))
        if self.parameters.reduced:
            return guarantees.clauses(interval, guarantees.unplanned("a sample that was cut to a budget"))
        if question.of_value or question.aggregate == "ratio":
            return guarantees.clauses(interval, guarantees.unplanned(because="it depends on how far values spread"))
        restricted = question.where or question.fields or question.threshold is not None
        if restricted or isinstance(question.decay, LastEvents):
            reason = "it depends on how many events it is about"
            return guarantees.clauses(interval, guarantees.unplanned(because=reason))
        if question.aggregate in ("self-join", "inner-product"):
            return guarantees.clauses(interval, guarantees.unplanned(because="it depends on how often keys repeat"))
        planned = f"{self._planned(question)} {guarantees.likely(1.0 - self.parameters.delta)}"
        return guarantees.clauses(interval, planned, _limit(question))

    def _planned(self, question: Question) -> str:
        """In words: the error that the size of the sample was planned for."""
        epsilon = guarantees.at_most(self.parameters.epsilon)
        match question.aggregate:
            case "sum" | "count":
                return f"planned for a relative error of at most {epsilon}"
            case "mean":
                return f"sum and count each planned for a relative error of at most {epsilon}"
            case "quantile" | "median":
                return f"planned for a rank within {epsilon} of the one asked for"
            case "range-sum" | "correlated-sum" | "correlated-count" | "correlated-mean":
                each = "sum and count each " if question.aggregate == "correlated-mean" else ""
                whole = "weight" if question.masses == {"weight"} else "count"
                return f"{each}planned for an additive error of at most {epsilon} of the whole decayed {whole}"
            case _:
                return f"planned for an additive error of at most {epsilon}"


def _measured(sample: PoissonSample, question: Question) -> PoissonSample:
    """The sample with the column that a question compares in the place of the value, and what it sums beside it."""
    found = sample.compared_by(question.compared)
    beside = question.measured if question.of_value else question.ranked if question.ranks_above else question.compared
    if beside != question.compared:
        found = with_measures(found, beside, of_which_known(sample, question.compared))
    return found


def _counted(sample: PoissonSample, question: Question) -> PoissonSample:
    """The sample with the weights by which events count in a question."""
    of_weight = question.aggregate == "ratio" or (question.sums and not question.of_value)
    return sample if of_weight or question.by_weight else sample.each_once


def _is_point(found: Estimates) -> bool:
    """Whether nothing is left open, at no time and in no line of a list."""
    settled = (found.lower == found.value) & (found.value == found.upper)
    return bool(settled.all()) and all(item.lower == item.estimate == item.upper for item in found.items)


def _limit(question: Question) -> str:
    """In words: why sums over few events have no bound on their relative error; empty where that does not apply."""
    decay_class = question.decay.decay_class
    partial = question.aggregate in ("range-sum", "correlated-sum", "correlated-count", "correlated-mean")
    if not partial or decay_class in (DecayClass.NONE, DecayClass.CONVERGING, DecayClass.GENERAL):
        return ""
    return (
        f"under {decay_class} decay no small sketch can bound the relative error when values are many "
        f"({CORRELATED_AGGREGATES}, Section 4)"
    )
