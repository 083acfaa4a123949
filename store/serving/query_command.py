"""What `wane query` asks: from its options to the answer, single or split."""

from __future__ import annotations

import argparse
from datetime import datetime

from sketches.errors import QuestionError
from sketches.question import DEFAULT_TOP
from sketches.question_options import question_of
from sketches.units import SECOND, TimeUnit
from store.serving.provenance import Answer
from store.serving.split_answer import SplitAnswer
from store.serving.store import Store
from store.serving.timeline import read_moment


def ask(store: Store, options: argparse.Namespace, now: datetime) -> tuple[Answer | SplitAnswer, TimeUnit]:
    """The answer, and the stream's unit of time."""
    with store.held_open():
        stored = store.catalogue(options.stream).streams.get(options.stream)
        unit = SECOND if stored is None else stored.unit
        moment = None if options.as_of is None else read_moment(options.as_of, unit, now)
        return (_asked if options.by is None else _split)(store, options, moment), unit


def _asked(store: Store, options: argparse.Namespace, moment: int | None) -> Answer:
    if options.smallest:
        raise QuestionError("--smallest goes with --by, which ranks many answers")
    question = question_of(options, moment, store.columns(options.stream))
    return store.ask(options.stream, question, sources=options.source, family=options.family, other=options.other)


def _split(store: Store, options: argparse.Namespace, moment: int | None) -> SplitAnswer:
    if options.other is not None:
        raise QuestionError("--by and --other do not go together: an inner product is of two sources")
    if options.top is not None and options.top < 1:
        raise QuestionError(f"--top is {options.top}; at least 1 group must be listed")
    top, options.top = options.top or DEFAULT_TOP, None  # else it would be that of a list of values
    question = question_of(options, moment, store.columns(options.stream))
    asked = {"by": options.by, "sources": options.source, "family": options.family, "smallest": options.smallest}
    return store.split(options.stream, question, **asked, top=top, others=True)
