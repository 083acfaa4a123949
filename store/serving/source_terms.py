"""Which sources a predicate leaves: a condition on the source is one on rows, of which the distinct events are taken.

An event that two sources report has two rows. So a term on the source chooses sources, before anything else is asked;
it cannot stand in a term together with other columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import compress

import numpy as np

from sketches.decay.functions import LastEvents
from sketches.errors import QuestionError, UnanswerableError
from sketches.formatting import listed
from sketches.predicate import Predicate, Texts
from sketches.question import Question


def by_source_terms(
    question: Question, sources: Sequence[str], *, joined: bool = False
) -> tuple[tuple[str, ...], Question]:
    """Those of the sources that the terms on the source leave, and the question without these terms.

    `joined`: it is asked of two sides, each with its sources.
    """
    if "source" in question.share.columns:
        raise UnanswerableError(
            f"{question.share}: a share of sources is not answered, because sources may have events in common; ask for "
            "the count of each"
        )
    terms = [term for term in question.where.terms if "source" in term.columns]
    if not terms:
        return tuple(sources), question
    for term in terms:
        if term.columns != {"source"}:
            raise UnanswerableError(f"{term}: a condition on the source must be joined to all others by and")
    about = Predicate.all_of(terms)
    if joined or question.threshold is not None or isinstance(question.decay, LastEvents):
        what = "an inner product" if joined else "a threshold that is an aggregate" if question.threshold else "last:N"
        raise UnanswerableError(
            f"{about}: with {what}, choose sources by --source (in SQL: SOURCES 'a', 'b'), not by a condition"
        )
    held = about.holds(lambda _: Texts(np.arange(len(sources)), sources))
    found = tuple(compress(sources, held.tolist()))
    if not found:
        raise QuestionError(f"no source is left where {about.words()}; the sources are {listed(list(sources), 20)}")
    return found, replace(question, where=question.where.without(*terms))
