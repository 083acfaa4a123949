"""What a question is asked of, once its family is picked and loaded, and what that answers."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import NamedTuple

from numpy.typing import ArrayLike

from sketches.arrays import Floats, Ints, Rows
from sketches.errors import QuestionError, UnanswerableError
from sketches.estimate import Estimate, Item, Series, Split, SplitSeries
from sketches.family import Askable
from sketches.list_choices import confidence_left_out, widened
from sketches.predicate import Predicate
from sketches.question import Question
from sketches.registry import families_with, family_of
from sketches.splittable import Splittable
from store.serving.catalogue import StoredStream
from store.serving.epoch_ends import series_at_ends
from store.serving.planner import Picked
from store.serving.provenance import Provenance, provenance_of
from store.serving.resolving import Numbers, in_users_unit, per_second, weight_step, with_numbers
from store.serving.selection import Selection, as_of_then
from store.serving.split_answer import SOURCE, SplitAnswer, is_in_none


class Plan(NamedTuple):
    """Which sources and which family answer a question, and why that family; `question` leaves nothing open."""

    stream: StoredStream
    sources: tuple[str, ...]
    question: Question
    asked: Question  # as it was asked
    picked: Picked


class Selected(NamedTuple):
    """The loaded sketches that a question is asked of. An inner product has two selections, any other question one."""

    selections: tuple[Selection, ...]
    plan: Plan

    @property
    def question(self) -> Question:
        """The question as the first selection's sketches understand it."""
        return with_numbers(self.plan.question, askable_of(self.selections[0]).type_of)

    def told(self, answer: Numbers) -> Numbers:
        """An answer of sketches as it was asked for: in the user's unit, and per second where it is a rate."""
        found = in_users_unit(answer, self.question, weight_step(self.plan.stream))
        return per_second(found, self.question.decay, self.plan.stream) if self.plan.asked.per_second else found

    def provenance(self, moments: Ints, start: float, by: str | None = None) -> Provenance:
        """Where an answer as of these times comes from, split by a field; its question was taken up at `start`."""
        elapsed_ms = (time.perf_counter() - start) * 1e3
        plan = self.plan
        given = plan.asked
        asked = replace(plan.question, where=given.where, share=given.share, per_second=given.per_second)
        return provenance_of(plan.stream, self.selections, plan.picked.why, asked, moments, elapsed_ms, by)


def askable_of(selection: Selection) -> Askable:
    if selection.askable is None:
        sources = ", ".join(selection.sources[:5])
        raise UnanswerableError(f"stream {selection.stream!r} has no readable {selection.family} sketch of {sources}")
    return selection.askable


def splittable(selection: Selection, by: str) -> Splittable:
    if by != SOURCE:
        return family_of(selection.family).by_field(askable_of(selection), by)
    if selection.whole is None:
        known = families_with("by_source")
        raise UnanswerableError(f"family {selection.family!r} does not answer by source; {known}")
    return selection.whole.by_source(selection.sources, selection.repeats)


def over_time(selected: Selected, by: str, as_of: ArrayLike, listed: Rows) -> SplitSeries:
    """The answers of some groups, by number, at many times: at each time all intervals hold together."""
    (selection,) = selected.selections
    return selected.told(splittable(selection, by).over_time(selected.question, as_of, listed))


def classes_over_time(selected: Selected, as_of: Ints, edges: Floats) -> tuple[SplitSeries, Provenance]:
    """The share of the values in each class between two edges, and beyond them, at many times."""
    start = time.perf_counter()
    selection = selected.selections[0]
    found = family_of(selection.family).classes_over_time(askable_of(selection), selected.question, as_of, edges)
    return found, selected.provenance(as_of, start)


def with_others(selected: Selected, answer: SplitAnswer) -> SplitAnswer:
    """The split with the answer of all groups that are not listed, as one, at each share that the question names."""
    found = [_others_of(selected, one, answer) for one in selected.question.at_each_share]
    further = tuple(replace(one, others=others) for one, others in zip(answer.further, found[1:], strict=True))
    return replace(answer, others=found[0], further=further)


def _others_of(selected: Selected, asked: Question, answer: SplitAnswer) -> Estimate | None:
    """The answer of all groups that are not listed, as one: of the union of their events.

    They have none above a threshold that is an aggregate of each group, or of all sources, of which they are some; and
    no quantile where too many lists could have come of chance.
    """
    confidence, factor = confidence_left_out(answer.split, answer.listed, smallest=answer.smallest)
    (selection,), question = selected.selections, replace(asked, confidence=confidence)
    if question.threshold is not None and (question.threshold.own or answer.by == SOURCE):
        return None
    if answer.by != SOURCE:
        listed = [place.value for place in answer.places]
        about = replace(question, where=question.where.and_also(Predicate.all_of([is_in_none(answer.by, listed)])))
        found = askable_of(selection).answer(about)
    else:
        assert selection.whole is not None
        rest = [str(name) for name in answer.left_out]
        askable = selection.whole.of(rest, every=False, repeats=selection.repeats)
        if askable is None:
            return None
        found = askable.answer(question)
    careful = widened(found, factor, question)
    return None if careful is None else selected.told(careful)


def second_side(selected: Selected) -> Askable | None:
    """That of an inner product."""
    first, *second = selected.selections
    if not second:
        return None
    if not family_of(first.family).abilities.joins:
        raise UnanswerableError(f"family {first.family!r} has no inner products; {families_with('joins')}")
    return askable_of(second[0])


def series_of(selected: Selected, moments: Ints) -> Series:
    """The question at many times: at the ends of epochs where the family answers as of its newest event or later."""
    first, question, other = selected.selections[0], selected.question, second_side(selected)
    if other is not None and len(moments) == 0:
        raise QuestionError("an inner product over time needs at least one as-of time")
    if other is None and selected.plan.picked.at_ends:
        newest = selected.plan.stream.newest(first.sources)
        return series_at_ends(first, question, moments, 0 if newest is None else newest)
    return askable_of(first).series(question, moments, other=other)


def estimate_of(selected: Selected, question: Question) -> Estimate:
    first, askable, other = selected.selections[0], askable_of(selected.selections[0]), second_side(selected)
    if other is not None:
        return askable.answer(question, other=other)
    if selected.plan.picked.at_ends and question.as_of is not None:
        askable = as_of_then(first, question.as_of)
    return askable.answer(question) if not question.phis else _at_shares(askable, question)


def _at_shares(askable: Askable, question: Question) -> Estimate:
    """The quantiles at several shares as a list; the number beside it is the first of them."""
    found = [askable.answer(one) for one in question.at_each_share]
    if len(found) == 1:
        return found[0]
    items = tuple(Item(phi, each.value, each.lower, each.upper) for phi, each in zip(question.phis, found, strict=True))
    return replace(found[0], items=items, confidence=min(each.confidence for each in found))


def splits_of(selected: Selected, by: str) -> list[Split]:
    """The answers of all groups, at each share that the question names: all intervals of all shares hold together."""
    groups, shares = splittable(selected.selections[0], by), selected.question.at_each_share
    found = [groups.answer(one) for one in shares]
    confidence = min(one.confidence for one in found)
    if len(shares) > 1 and confidence < 1.0:
        careful = 1.0 - (1.0 - confidence) / len(shares)
        again = [groups.answer(replace(one, confidence=careful)) for one in shares]
        found = [
            replace(one, confidence=first.confidence, guarantee=first.guarantee)
            for one, first in zip(again, found, strict=True)
        ]
    return [selected.told(one) for one in found]
