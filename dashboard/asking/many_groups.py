"""Answers about many groups at once: at many times, on both sides of a marked time, and against another view."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from dashboard.asking.answer_cache import AnswerCache
from dashboard.asking.view import REST, View, marked_time, other_time
from sketches.arrays import Floats, Ints
from sketches.axis_classes import even_edges
from sketches.durations import parse_duration
from sketches.estimate import SplitSeries
from sketches.question import Question
from store import Provenance
from store.serving.catalogue import StoredStream
from store.serving.changes_answer import ChangesAnswer, Sides, changes
from store.serving.selected import classes_over_time, over_time
from store.serving.split_answer import SplitAnswer
from store.serving.split_change import SplitChange, changed

POINTS: Final = 60  # of each group over time
POINTS_OF_QUANTILES: Final = 30
CLASSES: Final = 24  # of values
LISTED: Final = 60  # changes


class Grid(NamedTuple):
    """Some groups over time, and the ranking that they are the first of."""

    split: SplitAnswer
    series: SplitSeries


def times_of(view: View, as_of: Ints) -> Ints:
    """Some of the times of a chart, each of which costs an answer of every group."""
    points = POINTS_OF_QUANTILES if view.aggregate in ("median", "quantile") else POINTS
    chosen = np.unique(np.linspace(0, len(as_of) - 1, min(points, len(as_of))).astype(np.intp))
    return np.asarray(as_of[chosen])


def grid(answers: AnswerCache, view: View, stream: StoredStream, as_of: Ints, groups: int) -> Grid:
    """The groups with the largest answers, or the smallest, at many times."""
    split = answers.split(view, stream, groups)
    question, moments = view.question(stream), times_of(view, as_of)

    def find() -> SplitSeries:
        return over_time(answers.store.by_group(view.stream, question, view.source), view.by, moments, split.listed)

    key = ("grid", view.stream, view.source, view.by, view.smallest, groups, question, moments.tobytes())
    return Grid(split, answers.once(key, find))


def classes(answers: AnswerCache, view: View, stream: StoredStream, as_of: Ints) -> tuple[SplitSeries, Provenance]:
    """The share of the values in each class, at many times."""
    about = replace(view, aggregate="median", of="", by="")
    question, moments = about.question(stream), times_of(replace(view, aggregate="count"), as_of)
    edges = _edges(answers, about, stream)

    def find() -> tuple[SplitSeries, Provenance]:
        return classes_over_time(answers.store.by_group(view.stream, question, view.source), moments, edges)

    return answers.once(("classes", view.stream, view.source, question, moments.tobytes(), edges.tobytes()), find)


def _edges(answers: AnswerCache, view: View, stream: StoredStream) -> Floats:
    """Where classes of all values end, but for the rarest."""
    curve, _ = answers.quantiles(View(view.stream, view.source, decay="none", where=view.where), stream)
    known = curve.value[np.isfinite(curve.value)]
    return even_edges(float(known[1]), float(known[-2]), CLASSES) if len(known) > 3 else np.empty(0)


def changed_of(answers: AnswerCache, view: View, before: View, stream: StoredStream, top: int) -> SplitChange:
    """How the answers of groups differ from those of another view of the same groups."""
    (now, then), sides = (
        ((one.question(stream), answers.split(one, stream, top)) for one in (view, before)),
        view.source,
    )
    key = ("changed", view.stream, sides, view.family, view.by, view.smallest, now[0], then[0], top)
    return answers.once(key, lambda: changed(answers.store, view.stream, now, then, sides))


def sides_of(view: View, stream: StoredStream, shown: tuple[int, int]) -> Sides | None:
    """The marked time, and what it is compared with: the rest of the time that is shown, or the same so long before."""
    marked = marked_time(view, stream.unit)
    if marked is None:
        return None
    if (other := other_time(view, stream.unit)) is not None:
        return Sides.of_two(marked, other)
    if view.versus == REST:
        return Sides.of(*marked, within=shown)
    units = round(parse_duration(view.versus) * stream.unit.denominator / stream.unit.numerator)
    return Sides.of(*marked, before=units)


def changes_of(answers: AnswerCache, view: View, stream: StoredStream, sides: Sides) -> ChangesAnswer:
    """Which sources and values have other shares in the marked time."""
    question = Question(
        "count", counting=view.counted, where=view.predicate(stream), confidence=view.confidence or None
    )
    key = ("changes", view.stream, view.source, question, sides)
    return answers.once(
        key, lambda: changes(answers.store, view.stream, sides, question, sources=view.source, top=LISTED)
    )
