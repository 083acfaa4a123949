"""How answers differ between two decays or two times, of groups and single ones, and whether that is beyond chance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from sketches.arrays import Flags, Floats, Rows
from sketches.differences import UNKNOWN, Differences, Limited, differences
from sketches.estimate import Split
from sketches.question import Question
from sketches.records import dataclass
from store.serving.provenance import Answer
from store.serving.reads.one_commit import of_one_commit
from store.serving.selected import splittable
from store.serving.split_answer import SplitAnswer
from store.serving.store import Store


@dataclass(frozen=True, eq=False)
class SplitChange:
    """What the answers of the groups of a split were before, and how they have changed; arrays in the order of the
    split's names. NaN: no answer then.

    All limits of the changes hold together with probability `confidence`.
    """

    before: Limited
    differences: Differences
    confidence: float

    @classmethod
    def of(cls, now: Split, before: Split, correlation: Floats | float) -> SplitChange:
        """That of two answers about the same events, whose errors have this correlation in each group of now."""
        at = places_of(now, before)
        known = at >= 0

        def then(column: Floats) -> Floats:
            if not len(column):
                return np.full(len(at), np.nan)
            return np.where(known, column[at], np.nan)

        earlier = Limited(*map(then, (before.value, before.lower, before.upper)))
        found = differences(Limited(now.value, now.lower, now.upper), earlier, correlation)
        return cls(earlier, found, min(now.confidence, before.confidence))

    @property
    def change(self) -> Limited:
        return self.differences.change

    @property
    def relative(self) -> Limited:
        return self.differences.relative

    @property
    def exact(self) -> bool:
        """Whether chance has no part in any change."""
        known = np.isfinite(self.change.value)
        return bool((self.change.lower[known] == self.change.upper[known]).all())

    @property
    def certain(self) -> Flags:
        """Which changes are beyond chance."""
        return self.differences.beyond


@of_one_commit
def changed(
    store: Store,
    stream: str,
    now: tuple[Question, SplitAnswer],
    before: tuple[Question, SplitAnswer],
    sources: Sequence[str] = (),
) -> SplitChange:
    """How the answers of groups differ between two questions that `Store.split` answered: under another decay, or as of
    another time. Of the same events, so the limits know how much of their chance both answers share."""
    selected = [store.by_group(stream, question, sources) for question, _ in (now, before)]
    (selection,), (other,) = (one.selections for one in selected)
    one, two = (one.question for one in selected)
    splits = now[1].split, before[1].split
    shared: Floats | float = UNKNOWN
    commits = {one[1].provenance.commit for one in (now, before)}
    if commits == {selection.name, other.name} and replace(one, decay=two.decay, as_of=two.as_of) == two:
        groups = splittable(selection, now[1].by)
        if groups.names == splits[0].names:
            shared = groups.correlation(one, two)
    return SplitChange.of(*splits, shared)


def places_of(now: Split, before: Split) -> Rows:
    """Which group of before each group of now is; -1 where it is none."""
    if now.names == before.names:
        return np.arange(len(now))
    places = {name: at for at, name in enumerate(before.names)}
    return np.array([places.get(name, -1) for name in now.names], np.intp)


class Answered(NamedTuple):
    """A question that was answered, and of which sources; none: of all."""

    question: Question
    sources: Sequence[str]
    answer: Answer


@of_one_commit
def changes_from(store: Store, stream: str, first: Answered, others: Sequence[Answered]) -> Differences:
    """How each of the other answers differs from the first. Where one family has answered both about the same events,
    the limits know how much of their chance both share; else the limits of both add up."""
    return differences(
        _limited([other.answer for other in others]),
        _limited([first.answer] * len(others)),
        np.array([_shared(store, stream, first, other) for other in others], np.float64),
    )


def _limited(answers: Sequence[Answer]) -> Limited:
    estimates = [answer.estimate for answer in answers]
    return Limited(*(np.array([getattr(one, name) for one in estimates]) for name in ("value", "lower", "upper")))


def _shared(store: Store, stream: str, first: Answered, other: Answered) -> float:
    family = first.answer.estimate.family
    alike = first.answer.provenance.commit == other.answer.provenance.commit
    if not alike or family != other.answer.estimate.family or list(first.sources) != list(other.sources):
        return UNKNOWN
    return store.correlation(stream, (other.question, other.sources), (first.question, first.sources), family)
