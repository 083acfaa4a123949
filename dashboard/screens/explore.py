"""The page Explore: an aggregate over time with its error band, the current answer in words, the decay as a picture."""

from __future__ import annotations

from typing import Any

import numpy as np
import streamlit as st

from dashboard import components, notices, session, sidebar, wording
from dashboard.answer_cache import AnswerCache
from dashboard.components import Table
from dashboard.series_chart import series_chart
from dashboard.view import View
from sketches.arrays import Floats
from sketches.estimate import Series
from sketches.formatting import moment_text
from store.serving.catalogue import Catalogue, StoredStream


def page(answers: AnswerCache, catalogue: Catalogue) -> None:
    stream, span = sidebar.question(answers, catalogue, aggregate=True, span=True)
    view = session.view()
    if not stream.epochs:
        notices.no_events(stream)
        return
    asked = components.subject(answers, view, stream)
    title = st.empty()
    with title.container():
        components.heading(asked, view)
    left, right = st.columns([7, 3], gap="medium")
    with right, components.guarded():
        answer = answers.ask(view, stream, charted=True)
        measure = components.measure_of(answers.question(view, stream))
        with title.container():
            number = wording.measured(answer.estimate.value, measure)
            components.heading(wording.capitalised(answer.provenance.asked), view, number)
        components.answer_card(answer, measure, view, stream)
    with right, components.guarded():
        components.decay_card(view.fading)
    with left, components.guarded():
        as_of = answers.moments(view, stream, span)
        series, provenance = answers.series(view, stream, as_of)
        notices.beside(provenance, stream)
        figure = series_chart(answers, view, stream, series, provenance)
        components.show(figure, "explore", f"{asked} over time with its error band")
        components.footer(provenance, answers)
        components.exports(
            "explore", lambda: table(series, view, stream), lambda: as_json(answers, view, stream, series)
        )
        components.same_on_the_command_line(view, answers.path, family_besides(answers, view, stream))


def family_besides(answers: AnswerCache, view: View, stream: StoredStream) -> str:
    """The family that draws the chart and so gives the number, where another one would answer without a chart."""
    question = view.question(stream.unit)
    drawn = answers.family(view, question, charted=True)
    return "" if answers.family(view, question) == drawn else drawn


def table(series: Series, view: View, stream: StoredStream) -> Table:
    """The numbers of the chart."""
    zone = wording.zone(view.zone)
    rows = [
        [at, moment_text(at, stream.unit, zone), *numbers] for at, *numbers in components.points(series.as_of, series)
    ]
    return ["as_of", "time", "estimate", "lower", "upper"], rows


def as_json(answers: AnswerCache, view: View, stream: StoredStream, series: Series) -> dict[str, Any]:
    """The current answer and the series, with guarantee and provenance."""

    def numbers(column: Floats) -> list[float | None]:
        return [number if np.isfinite(number) else None for number in column.tolist()]

    return {
        **components.answer_json(answers.ask(view, stream, charted=True), view),
        "series": {
            "as_of": series.as_of.tolist(),
            "estimate": numbers(series.value),
            "lower": numbers(series.lower),
            "upper": numbers(series.upper),
            "confidence": series.confidence,
            "guarantee": series.guarantee,
        },
    }
