"""The page Explore: an aggregate over time with its error band, the current answer in words, the decay as a picture.

Split by the source or by a field, it has a line for each group, and the groups ranked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

import numpy as np
import streamlit as st

from dashboard import wording
from dashboard.asking import filling, session
from dashboard.asking.answer_cache import AnswerCache, is_dear
from dashboard.asking.measures import is_keyed, splits
from dashboard.asking.view import View
from dashboard.boards.marking import shown_marks
from dashboard.figures.bars import ranking
from dashboard.parts import components, filters, groups, notices, sidebar, time_range, tour
from dashboard.parts.components import Table
from dashboard.parts.series_chart import Mark, series_chart
from sketches.arrays import Floats, Ints
from sketches.errors import WaneError
from sketches.estimate import Series
from sketches.formatting import moment_text
from sketches.vocabulary import RATE
from store import Answer
from store.serving.catalogue import Catalogue, StoredStream
from store.serving.resolving import names_of

TAIL: Final = 0.95  # the quantile beside a mean
CHARTS: Final = {"line": "Estimate", "error": "± % of it", "log": "Log scale"}
TOP_KEYS: Final = 5  # beside a rate of texts


def page(answers: AnswerCache, catalogue: Catalogue) -> None:
    """The chart is drawn before the controls: it is what somebody waits for who moved one of them."""
    if st.session_state.pop(time_range.ASKED, False) and (changes := st.session_state.get("pages", {}).get("changes")):
        st.switch_page(changes)
    stream = sidebar.shown(catalogue)
    tour.show()
    st.session_state["refined to"] = None
    with components.guarded():
        if stream.epochs:
            _answered(answers, session.view(), stream)
        else:
            notices.no_events(stream)
    sidebar.question(answers, catalogue, aggregate=True, split=True)


def refine(answers: AnswerCache, catalogue: Catalogue) -> None:
    """Where few points were drawn first, find all of them while somebody looks, and draw the page again."""
    fine = st.session_state.pop("refined to", None)
    if fine is None:
        return
    view = session.view()
    with suppress(WaneError):  # said where the few points are
        with components.working(f"Answering at {len(fine)} times"):
            answers.series(view, catalogue.streams[view.stream], fine)
        st.rerun()


def _answered(answers: AnswerCache, view: View, stream: StoredStream) -> None:
    """Number and chart side by side, under what is asked; the chart comes first."""
    asked = components.subject(answers, view, stream)
    title = st.container()
    filters.chips(stream)
    is_split = view.by in splits(stream, view.aggregate)
    with time_range.row():
        span = time_range.picker(answers, stream, asks_what_changed=not is_split)
        offered = {name: text for name, text in CHARTS.items() if not is_split or name != "error"}
        session.segments("Chart", offered, "chart", width="content")
    left, right = st.columns([7, 3], gap="medium")
    answer = None
    with right, components.guarded():
        answer = answers.ask(view, stream, charted=True)
    with title:
        _heading(answers, view, stream, asked, answer)
    with left, components.guarded():
        fine = answers.moments(view, stream, span, fine=True)
        refines = not is_split and is_dear(view) and not answers.has_series(view, stream, fine)
        as_of = answers.moments(view, stream, span) if refines or is_split else fine
        with components.working(f"Answering at {len(as_of)} times"):
            (_split if is_split else _whole)(answers, view, stream, as_of, asked, shown_marks(answers, view, stream))
        if refines:
            st.session_state["refined to"] = fine
    with right, components.guarded():
        if answer is not None:
            at, rising = answer.estimate.as_of, filling.stretch(answers, view, stream)
            note = filling.sentence(rising, view, stream, at, at)
            components.answer_card(answer, _measure(answers, view, stream), view, stream, note)
            _beside(answers, view, stream)
    with right, components.guarded():
        components.decay_card(view.fading)


def _measure(answers: AnswerCache, view: View, stream: StoredStream) -> str:
    return components.measure_of(answers.question(view, stream))


def _heading(answers: AnswerCache, view: View, stream: StoredStream, asked: str, answer: Answer | None) -> None:
    """What is asked, and the number where there is one."""
    if answer is None:
        components.heading(asked, view)
        return
    early = components.is_early(answer, stream)
    measure = _measure(answers, view, stream)
    number = "" if early else components.number_of(answer, measure)
    if number and not measure.endswith(wording.PER_SECOND):  # the title says that
        number = components.units_of(stream).with_number(number, measure)
    components.heading(wording.capitalised(answer.provenance.in_own_words), view, number)


def _whole(
    answers: AnswerCache, view: View, stream: StoredStream, as_of: Ints, asked: str, marks: Sequence[Mark]
) -> None:
    """One line for all that is asked about."""
    series, provenance = answers.series(view, stream, as_of)
    notices.beside(provenance, stream)
    figure = series_chart(answers, view, stream, series, provenance, marks=marks)

    def pin(point: Mapping[str, Any]) -> None:
        time_range.pin(point, view, stream, series.as_of)

    def mark(begin: int, end: int) -> None:
        if end > begin:
            time_range.ask_what_changed(*(time_range.code(at, stream.unit) for at in (begin, end)))

    shows = "how far its limits lie from it" if view.chart == "error" else "its error band"
    time_range.zoomable(figure, "explore", f"{asked} over time with {shows}", view, stream, pin, mark)
    rising = filling.stretch(answers, view, stream) if view.chart != "error" else None
    if said := filling.sentence(rising, view, stream, int(series.as_of[0]), int(series.as_of[-1])):
        st.caption(f":material/trending_up: {wording.safe(said)}")
    components.footer(provenance, answers)
    components.exports("explore", lambda: table(series, view, stream), lambda: as_json(answers, view, stream, series))
    components.same_on_the_command_line(view, answers.path, family_besides(answers, view, stream))


def _split(
    answers: AnswerCache, view: View, stream: StoredStream, as_of: Ints, asked: str, marks: Sequence[Mark]
) -> None:
    """One line and one bar for each group."""
    provenance = answers.split(view, stream).provenance
    notices.beside(provenance, stream)
    found = groups.lines(answers, view, stream, as_of, marks)
    split = groups.ranked(answers, view, stream)
    components.footer(provenance, answers)
    components.exports("explore", lambda: groups.table(found, view, stream), split.as_dict)
    components.same_on_the_command_line(view, answers.path, split=True)


def beside(answers: AnswerCache, view: View, stream: StoredStream) -> View | None:
    """What people want to see with a mean, or with the rate of texts: the slow end, or the most frequent of them."""
    if view.aggregate == "mean":
        return replace(view, aggregate="quantile", phi=TAIL, of=answers.question(view, stream).measured)
    if view.aggregate == RATE and is_keyed(stream):
        return replace(view, aggregate="heavy-hitters", of="", top=TOP_KEYS, share=0.0)
    return None


def _beside(answers: AnswerCache, view: View, stream: StoredStream) -> None:
    try:
        other = beside(answers, view, stream)
        if other is not None:
            (_tail if view.aggregate == "mean" else _top_keys)(answers, other, stream)
    except WaneError:  # another family would have to answer: the number stands alone
        return


def _tail(answers: AnswerCache, view: View, stream: StoredStream) -> None:
    answer = answers.ask(view, stream)
    measure = components.measure_of(answers.question(view, stream))
    with st.container(border=True):
        name = replace(names_of(stream), alone=True).of(view.of)
        st.metric(f"p95 of {wording.safe(name)}", components.number_of(answer, measure), help="95% are at most this.")
        st.markdown(components.interval(answer, measure))


def _top_keys(answers: AnswerCache, view: View, stream: StoredStream) -> None:
    answer = answers.ask(view, stream)
    if answer.estimate.items:
        st.markdown("**The most frequent**")
        figure = ranking(answer.estimate.items, narrow=True)
        components.show(figure, "top-keys", "Shares of the most frequent values", bare=True)


def family_besides(answers: AnswerCache, view: View, stream: StoredStream) -> str:
    """The family that draws the chart and so gives the number, where another one would answer without a chart."""
    question = view.question(stream)
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
