"""One question at many times for each of the groups that a split lists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from numpy.typing import ArrayLike

from sketches.estimate import Group, Series
from sketches.predicate import Predicate
from sketches.question import Question
from store.serving.selected import over_time
from store.serving.split_answer import SOURCE, SplitAnswer, is_in_group

if TYPE_CHECKING:
    from store.serving.store import Store


def series_of_groups(
    store: Store,
    stream: str,
    question: Question,
    as_of: ArrayLike,
    split: SplitAnswer,
    sources: Sequence[str] = (),
    family: str | None = None,
) -> dict[Group, Series]:
    """The answers at one share of each listed group; at every time those of all groups, and of all shares, hold
    together.

    One group at all times is one pass. Where a threshold is of other events than those of the group, as that of all
    sources is, or that of each value of a field, all groups at one time are.
    """
    by, confidence = split.by, split.split.confidence
    threshold = question.threshold
    if threshold is not None and threshold.own != (by == SOURCE):
        if split.further and confidence < 1.0:
            question = replace(question, confidence=1.0 - (1.0 - confidence) / len(split.shares))
        found = over_time(store.by_group(stream, question, sources), by, as_of, split.listed)
        lines = [found.series(number) for number in range(len(found.names))]
        return {name: replace(line, confidence=confidence) for name, line in zip(found.names, lines, strict=True)}
    if threshold is not None and threshold.own:  # a source's own is that of all it has
        question = replace(question, tau=threshold.text(own=False))
    question = replace(question, confidence=split.split.each)
    series: dict[Group, Series] = {}
    for place in split.places:
        group = place.value
        if by == SOURCE:
            line, _ = store.series(stream, question, as_of, sources=[str(group)], family=family)
        else:
            where = question.where.and_also(Predicate.all_of([is_in_group(by, group)]))
            line, _ = store.series(stream, replace(question, where=where), as_of, sources=sources, family=family)
        series[group] = replace(line, confidence=confidence)
    return series
