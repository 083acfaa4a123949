"""The groups of a split beside their exact answers from the raw files."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import streamlit as st

from dashboard import wording
from dashboard.asking.answer_cache import AnswerCache
from dashboard.asking.view import View
from dashboard.parts import components
from sketches.formatting import counted, percent_text
from sketches.predicate import Predicate
from store.audit.exact import Exact
from store.serving.catalogue import StoredStream
from store.serving.split_answer import SOURCE, is_in_group

_ROUNDING: Final = 1e-9  # sums of floats depend on their order


def audited(answers: AnswerCache, view: View, stream: StoredStream, exact: Exact) -> None:
    """The listed groups as a table: each with its interval and its exact answer, and how many are inside."""
    split, asked = answers.split(view, stream), view.question(stream)
    measure = components.measure_of(answers.question(view, stream))
    question = replace(answers.question(view, stream), where=asked.where, share=asked.share, as_of=split.split.as_of)
    columns: dict[str, list[Any]] = {name: [] for name in (view.by, "exact", "estimate", "from", "to", "inside")}
    held = 0
    for place in split.places:
        if view.by == SOURCE:
            truth = answers.exact_answer(replace(view, source=(str(place.value),)), exact, question)
        else:
            group = Predicate.all_of([is_in_group(view.by, place.value)])
            truth = answers.exact_answer(view, exact, replace(question, where=question.where.and_also(group)))
        slack = _ROUNDING * abs(truth)
        inside = place.lower - slack <= truth <= place.upper + slack
        held += inside
        low, high = wording.limits(place.lower, place.upper, measure)
        row = (
            place.name,
            wording.estimated(truth, truth, truth, measure),
            wording.estimated(*place[1:4], measure),
            low,
            high,
            "yes" if inside else "no",
        )
        for column, cell in zip(columns.values(), row, strict=True):
            column.append(cell)
    places = len(split.places)
    if not places:
        return
    promised = percent_text(split.split.confidence)
    st.markdown(
        f"**By {wording.safe(view.by)}**: {held} of {counted(places, 'exact answer')} inside. All intervals hold "
        f"together with {promised}."
    )
    st.dataframe(columns, hide_index=True, key="audited groups", alt=f"The exact answer of each {view.by}")
