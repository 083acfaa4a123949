"""What `wane query` and the HTTP door ask: from options to the answer, single or split, at one time or at many."""

from __future__ import annotations

import argparse
from datetime import datetime
from typing import Any, NamedTuple

from sketches.arrays import Ints
from sketches.errors import QuestionError
from sketches.estimate import Series
from sketches.question import DEFAULT_TOP, Question
from sketches.question_options import question_of
from sketches.units import SECOND, TimeUnit
from store.serving.provenance import Answer, Provenance
from store.serving.reads.one_commit import of_one_commit
from store.serving.series_of_groups import series_of_groups
from store.serving.split_answer import SplitAnswer, group_text
from store.serving.store import Store
from store.serving.timeline import read_moment


class Line(NamedTuple):
    """One question at many times, of one group, or at one of several shares."""

    series: Series
    group: str | None = None
    phi: float | None = None


class OverTime(NamedTuple):
    """One question at many times: a series, or one for each group that a split lists and for each share."""

    lines: tuple[Line, ...]
    provenance: Provenance


@of_one_commit
def ask(store: Store, options: argparse.Namespace, now: datetime) -> Answer | SplitAnswer:
    """The answer; `now` is what that word means in the options."""
    moment = None if options.as_of is None else read_moment(options.as_of, unit_of(store, options.stream), now)
    return (_asked if options.by is None else _split)(store, options, moment)


@of_one_commit
def ask_over_time(store: Store, options: argparse.Namespace, moments: Ints) -> OverTime:
    """The answers at some times; whatever groups are listed are the largest as of the stream's newest event."""
    if options.by is None:
        question = _single(store, options, None)
        asked = {"sources": options.source, "family": options.family, "other": options.other}
        found = [store.series(options.stream, one, moments, **asked) for one in question.at_each_share]
        phis = question.phis or (None,)
        return OverTime(tuple(Line(one, phi=phi) for (one, _), phi in zip(found, phis, strict=True)), found[0][1])
    if options.family is not None:
        raise QuestionError("--by and --family do not go together over time: the family that can answer it answers")
    question, top = _of_each(store, options, None)
    asked = {"by": options.by, "sources": options.source, "top": top, "smallest": options.smallest}
    split = store.split(options.stream, question, **asked)
    at_shares = [
        (phi, series_of_groups(store, options.stream, one, moments, split, options.source))
        for phi, one in zip(question.phis or (None,), question.at_each_share, strict=True)
    ]
    groups = [place.value for place in split.places]
    lines = tuple(Line(found[group], group_text(group), phi) for group in groups for phi, found in at_shares)
    return OverTime(lines, split.provenance)


def unit_of(store: Store, stream: str) -> TimeUnit:
    """The unit of a stream's times."""
    stored = store.catalogue(stream).streams.get(stream)
    return SECOND if stored is None else stored.unit


def shape(answer: Answer | SplitAnswer, options: argparse.Namespace) -> dict[str, Any]:
    """The answer as JSON; a list has items, and be it none."""
    found = answer.as_dict()
    if options.aggregate == "heavy-hitters":
        found.setdefault("items", [])
    return found


def _asked(store: Store, options: argparse.Namespace, moment: int | None) -> Answer:
    question = _single(store, options, moment)
    return store.ask(options.stream, question, sources=options.source, family=options.family, other=options.other)


def _single(store: Store, options: argparse.Namespace, moment: int | None) -> Question:
    if options.smallest:
        raise QuestionError("--smallest goes with --by, which ranks many answers")
    return question_of(options, moment, store.columns(options.stream))


def _split(store: Store, options: argparse.Namespace, moment: int | None) -> SplitAnswer:
    question, top = _of_each(store, options, moment)
    asked = {"by": options.by, "sources": options.source, "family": options.family, "smallest": options.smallest}
    return store.split(options.stream, question, **asked, top=top, others=True)


def _of_each(store: Store, options: argparse.Namespace, moment: int | None) -> tuple[Question, int]:
    """The question that is asked of each group, and how many groups are listed."""
    if options.other is not None:
        raise QuestionError("--by and --other do not go together: an inner product is of two sources")
    if options.top is not None and options.top < 1:
        raise QuestionError(f"--top is {options.top}; at least 1 group must be listed")
    plain = argparse.Namespace(**vars(options) | {"top": None})  # else it would be that of a list of values
    return question_of(plain, moment, store.columns(options.stream)), options.top or DEFAULT_TOP
