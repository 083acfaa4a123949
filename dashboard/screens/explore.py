"""The first page: an aggregate over time with its error band, the current answer in words, the decay as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import streamlit as st

from dashboard import figures, parts, sidebar, state, words
from dashboard.desk import Desk
from dashboard.figures import Axis, Line
from dashboard.view import View
from sketches.estimate import Series
from store import Provenance
from store.catalogue import Catalogue, StreamHeld
from store.timeline import affected


def page(desk: Desk, catalogue: Catalogue) -> None:
    held, span = sidebar.question(desk, catalogue, aggregate=True, span=True)
    view = state.view()
    if not held.epochs:
        parts.empty("No events yet", f"The stream **{words.safe(held.name)}** is known, but it holds no events yet.")
        return
    title = st.empty()
    with title.container():
        parts.heading(parts.subject(view), view)
    left, right = st.columns([7, 3], gap="medium")
    with right, parts.guarded():
        answer = desk.ask(view, held)
        with title.container():
            parts.heading(parts.subject(view), view, words.measured(answer.estimate.value, parts.measure_of(view)))
        parts.answer_card(answer, view, held)
    with right, parts.guarded():
        parts.decay_card(view.fading)
    with left, parts.guarded():
        as_of = desk.moments(view, held, span)
        series, provenance = desk.series(view, held, as_of)
        parts.incomplete(provenance, held)
        figure = chart(desk, view, held, series, provenance)
        parts.show(figure, "explore", f"{parts.subject(view)} over time with its error band")
        parts.footer(provenance, desk)
        parts.exports("explore", lambda: rows(series, view, held), lambda: whole(desk, view, held, series))
        parts.same_on_the_command_line(view, desk.path)


def chart(
    desk: Desk,
    view: View,
    held: StreamHeld,
    series: Series,
    provenance: Provenance,
    exact: tuple[Sequence[int], Any] | None = None,
) -> Any:
    """The figure of a series: also what the audit puts its dots on."""
    measure = parts.measure_of(view)
    axis = Axis(parts.units_of(held).axis(measure), measure == "share")
    zone = words.zone(view.zone)
    first, last = int(series.as_of[0]), int(series.as_of[-1])

    def times(moments: Sequence[int]) -> Sequence[Any]:
        return words.axis_times(moments, held.unit, zone)

    def clipped(stretches: Sequence[tuple[int, int]]) -> list[tuple[Any, Any]]:
        seen = [(max(start, first), min(stop, last)) for start, stop in stretches if stop > first and start < last]
        return [(times([start])[0], times([stop])[0]) for start, stop in seen]

    touched = affected(provenance.missing, series.as_of, view.fading, held.unit)
    line = Line.of("estimate", times(series.as_of.tolist()), series, inside=touched.inside, reached=touched.reached)
    gaps = {(gap.start, gap.start + gap.length) for gap in provenance.missing}
    return figures.over_time(
        [line],
        axis,
        view.zone,
        silent=clipped(desk.silences(view, held)),
        missing=clipped(sorted(gaps)),
        exact=None if exact is None else (times(exact[0]), exact[1]),
    )


def rows(series: Series, view: View, held: StreamHeld) -> tuple[list[str], list[list[Any]]]:
    """The numbers of the chart as a table."""
    zone = words.zone(view.zone)
    head = ["as_of", "time", "estimate", "lower", "upper"]
    table = [[at, words.moment(at, held.unit, zone), *numbers] for at, *numbers in parts.points(series.as_of, series)]
    return head, table


def whole(desk: Desk, view: View, held: StreamHeld, series: Series) -> dict[str, Any]:
    """The current answer and the series, with guarantee and origin."""

    def numbers(column: Any) -> list[float | None]:
        return [number if np.isfinite(number) else None for number in column.tolist()]

    return {
        **parts.answer_json(desk.ask(view, held), view),
        "series": {
            "as_of": series.as_of.tolist(),
            "estimate": numbers(series.value),
            "lower": numbers(series.lower),
            "upper": numbers(series.upper),
            "confidence": series.confidence,
            "guarantee": series.guarantee,
        },
    }
