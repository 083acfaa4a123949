"""A sample that answers for each of its groups at once: for its sources, or for the values of a field."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from sketches import guarantees
from sketches.arrays import Floats, Ints, Rows, ranges, stable_order
from sketches.changes import Stretch
from sketches.decay.functions import LastEvents
from sketches.errors import QuestionError, UnanswerableError
from sketches.estimate import Group, Split, SplitSeries
from sketches.fields import FieldColumn
from sketches.question import Question
from sketches.records import dataclass
from sketches.sampling.askable_sample import FAMILY, AskableSample
from sketches.sampling.comparison.groupings import Grouping
from sketches.sampling.comparison.share_changes import Compared, Side
from sketches.sampling.estimation.field_values import field_of
from sketches.sampling.estimation.inquiry import Estimates, Inquiry
from sketches.sampling.groups.correlation import correlation
from sketches.sampling.groups.grouped_answers import grouped_answer
from sketches.sampling.groups.grouped_inquiry import GroupedInquiry
from sketches.sampling.groups.grouped_thresholds import groups_above, taus_of_all, taus_of_each
from sketches.splittable import Splittable
from sketches.threshold import Threshold

_MOST_GROUPS: Final = 100_000
_STEPS: Final = 30  # until the size of an unseen group has settled


@dataclass(frozen=True)
class SplitSample(Splittable):
    """The rows of some groups, each with the number of its group among `names`."""

    askable: AskableSample  # of rows: one of several sources is a row of each
    names: tuple[Group, ...]
    complete_since: Ints  # for each group
    undivided: Callable[[], AskableSample]  # all events, each once, for a threshold that is an aggregate of them
    all_named: bool = True  # groups are known by name; else there may be some of which no event was sampled

    def answer(self, question: Question) -> Split:
        """The answer of every group; all intervals hold together, and with how large a group may be unseen."""
        self._refuse_last(question)
        askable = self.askable
        as_of, confidence = askable.as_of(question), askable.confidence(question)
        askable.refuse_lost(question, as_of)
        each = self._each(question)
        inquiry = self._inquiry(question, as_of, each)
        found = self._found(inquiry)
        together = guarantees.lists_hold(confidence, together=True)
        unseen = 0.0 if self.all_named else _unseen_share(inquiry)
        exact = unseen == 0.0 and bool(((found.lower == found.upper) | np.isnan(found.value)).all())
        return Split(
            names=self.names,
            value=found.value,
            lower=found.lower,
            upper=found.upper,
            used=found.used,
            confidence=1.0 if exact else confidence,
            each=each,
            guarantee=guarantees.KEPT_ALL if exact else guarantees.clauses(guarantees.FROM_SAMPLE, together),
            family=FAMILY,
            as_of=as_of,
            unseen_share=unseen,
        )

    def over_time(self, question: Question, as_of: ArrayLike, listed: Rows) -> SplitSeries:
        self._refuse_last(question)
        moments, each, some = np.asarray(as_of, np.int64), self._each(question), self.of(listed)
        self.askable.refuse_lost(question, int(moments.min(initial=self.askable.as_of(question))))
        found = [some._found(some._inquiry(question, moment, each)) for moment in moments.tolist()]
        if not found:
            raise QuestionError("as_of is empty; a series needs at least one time")
        value, lower, upper = (
            np.stack([getattr(one, name) for one in found], axis=1) for name in ("value", "lower", "upper")
        )
        confidence = self.askable.confidence(question)
        together = guarantees.lists_hold(confidence, together=True)
        guarantee = guarantees.clauses(guarantees.FROM_SAMPLE, together)
        return SplitSeries(some.names, moments, value, lower, upper, confidence, guarantee, FAMILY)

    def of(self, listed: Rows) -> SplitSample:
        """Some of the groups, by number, in this order."""
        sample = self.askable.sample
        assert sample.codes is not None
        bounds = np.searchsorted(sample.codes, np.arange(len(self.names) + 1))
        rows, codes = ranges(bounds[listed], bounds[listed + 1])
        totals = sample.totals
        if totals is not None:
            place = np.full(len(self.names), -1, np.int64)
            place[listed] = np.arange(len(listed))
            totals = totals._replace(slices=totals.slices.renumbered(place))
        some = replace(sample.take(rows), codes=codes, totals=totals)
        names = tuple(self.names[at] for at in listed.tolist())
        return replace(
            self, askable=replace(self.askable, sample=some), names=names, complete_since=self.complete_since[listed]
        )

    def compared(self, question: Question, inside: Stretch, outside: Sequence[Stretch]) -> Compared:
        sample = self.askable.asked(question)
        assert sample.codes is not None
        grouping = Grouping("source", len(self.names), self.names.__getitem__, sample.codes, self.complete_since)
        return Compared(grouping, Side(sample, (inside,), shared=True), Side(sample, outside, shared=True))

    def correlation(self, question: Question, other: Question) -> Floats:
        self._refuse_last(question)
        self._refuse_last(other)
        one, two = (self._inquiry(each, self.askable.as_of(each), self._each(each)) for each in (question, other))
        return correlation(one, two)

    def _refuse_last(self, question: Question) -> None:
        if isinstance(question.decay, LastEvents):
            raise UnanswerableError(
                f"{question.decay.spec} reaches back to another time in every group: ask for a window of time"
            )

    def _each(self, question: Question) -> float:
        """The confidence of each interval by itself with which all hold together."""
        more = 1 if self.all_named else 2  # all that a list leaves out, and groups that nothing was seen of
        more += question.threshold is not None and not question.threshold.own
        return 1.0 - (1.0 - self.askable.confidence(question)) / (len(self.names) + more)

    def _inquiry(self, question: Question, as_of: int, each: float) -> GroupedInquiry:
        return GroupedInquiry(
            sample=self.askable.asked(question),
            question=question,
            as_of=np.array([as_of]),
            confidence=each,
            share_error=self.askable.parameters.epsilon,
            complete_since=self.complete_since,
        )

    def _found(self, inquiry: GroupedInquiry) -> Estimates:
        threshold = inquiry.question.threshold
        return grouped_answer(inquiry) if threshold is None else self._above(inquiry, threshold)

    def _above(self, inquiry: GroupedInquiry, threshold: Threshold) -> Estimates:
        """The answers above a threshold that is an aggregate: of all events, or of those of each group."""
        question = inquiry.question
        if not threshold.own:
            everything = Inquiry(
                self.undivided().counted(question), question, inquiry.as_of, inquiry.confidence, inquiry.share_error
            )
            return groups_above(inquiry, taus_of_all(everything, threshold, len(self.names)))
        careful = replace(inquiry, confidence=(1.0 + inquiry.confidence) / 2.0)
        counted = self.askable.counted(question)
        return groups_above(careful, taus_of_each(replace(careful, sample=counted), threshold))


def split_by_field(askable: AskableSample, name: str) -> SplitSample:
    """The events by the value of a field; those without it are a group of their own.

    Where all rows were counted by the field, groups are known by name, also those of which no event was sampled.
    """
    column = field_of(askable.sample, name)
    counted = None if askable.sample.totals is None else askable.sample.totals.fields.get(name)
    if counted is None or not len(counted.values):
        values, codes = column.grouped()
    else:  # also the values of which no event was sampled
        values, codes = FieldColumn.together([column, counted.values]).grouped()
        codes = codes[: len(column)]
    names = tuple(values.to_list())
    if len(names) > _MOST_GROUPS:
        raise UnanswerableError(
            f"{name} has {len(names):,} different values among the sampled events; at most {_MOST_GROUPS:,} groups are "
            "answered at once: restrict the question to some of them"
        )
    all_named = counted is not None and counted.slices.complete
    order = stable_order(codes)
    totals = None if askable.sample.totals is None else askable.sample.totals.by(name, values)
    sample = replace(askable.sample.take(order), codes=codes[order], totals=totals)
    complete = np.full(len(names), np.iinfo(np.int64).max)  # what is complete for all events is so for every group
    return SplitSample(replace(askable, sample=sample), names, complete, lambda: askable, all_named)


def _unseen_share(inquiry: GroupedInquiry) -> float:
    """The share of what is counted that a group may have of which no event was sampled.

    A group that counts x has none of its events among the sampled with probability at most exp(-x/c), where c is the
    most that one unsampled event can count, and no more than 1/x of all groups count that much.
    """
    most = float(inquiry.unseen_event.contribution.max(initial=0.0))
    sums = inquiry.sums(inquiry.sample.count_coefficients)
    total = float((sums.linear[:, 0] + sums.linear[:, 1]).sum())
    if most == 0.0:
        return 0.0
    if total <= 0.0:
        return 1.0
    size, missed = most, 1.0 - inquiry.confidence
    for _ in range(_STEPS):
        size = most * max(np.log(total / (size * missed)), 1.0)
    spread = float(np.sqrt(sums.squared[:, 0].sum()))
    return min(size / max(total - 4.0 * spread, size), 1.0)
