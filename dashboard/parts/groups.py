"""The answers of a split: a line for each group over time, and all groups ranked, as bars and as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import plotly.graph_objects as go
import streamlit as st

from dashboard import wording
from dashboard.asking.answer_cache import AnswerCache
from dashboard.asking.view import View
from dashboard.figures.bars import group_bars
from dashboard.figures.frame import COLOURS
from dashboard.figures.lines import Line, over_time
from dashboard.figures.marks import AXIS
from dashboard.parts import components, filters, time_range
from dashboard.parts.chart import selected
from dashboard.parts.components import Table
from dashboard.parts.series_chart import Mark, drawn_marks
from sketches.arrays import Ints
from sketches.estimate import Group, Series
from sketches.formatting import counted, moment_text, percent_text
from store.serving.catalogue import StoredStream
from store.serving.split_answer import SOURCE, SplitAnswer, group_text

MOST_BANDS: Final = 3  # lines with bands: more would hide each other
HINT: Final = "Click a line, a bar or a row to see only that group."


def lines(
    answers: AnswerCache, view: View, stream: StoredStream, as_of: Ints, marks: Sequence[Mark] = ()
) -> dict[Group, Series]:
    """The chart: one line for each listed group."""
    found = answers.series_by(view, stream, as_of)
    if not found:
        st.info("No group has an answer here.", icon=":material/hourglass_empty:")
        return found
    figure = chart(answers, view, stream, found, marks)
    owners = [COLOURS.index(trace.legendgroup) if trace.legendgroup else 0 for trace in figure.data]
    marked = [trace.yaxis == AXIS for trace in figure.data]

    def narrow(point: Mapping[str, Any]) -> None:
        if marked[int(point["curve_number"])]:
            return
        filters.narrow(stream, list(found)[owners[int(point["curve_number"])]])

    time_range.zoomable(figure, "explore", f"One line for each {view.by} over time", view, stream, narrow)
    return found


def chart(
    answers: AnswerCache, view: View, stream: StoredStream, found: Mapping[Group, Series], marks: Sequence[Mark] = ()
) -> go.Figure:
    """One line for each group over time."""
    zone = wording.zone(view.zone)
    drawn = [
        Line.of(group_text(group), wording.axis_times(series.as_of.tolist(), stream.unit, zone), series)
        for group, series in found.items()
    ]
    axis = components.axis_of(answers.question(view, stream), stream)
    ends = [int(series.as_of[at]) for series in found.values() for at in (0, -1)]
    marked = drawn_marks(marks, view, stream, min(ends, default=0), max(ends, default=0))
    return over_time(drawn, axis, view.zone, bands=MOST_BANDS, marks=marked, log=view.chart == "log")


def ranked(answers: AnswerCache, view: View, stream: StoredStream) -> SplitAnswer:
    """All listed groups as bars and as a table, what is left, and what may be unseen."""
    split = answers.split(view, stream)
    measure = components.measure_of(answers.question(view, stream))
    places = split.places
    if not places:
        return split
    order = "smallest" if view.smallest else "largest"
    st.markdown(f"**{counted(len(split.split), 'group')}** of {wording.safe(view.by)}, the {order} first. {HINT}")
    left, right = st.columns([5, 6], gap="medium")
    with left:
        key = "figure groups"
        components.show(
            group_bars(places, components.axis_of(answers.question(view, stream), stream)),
            "groups",
            f"The answer of each {view.by} with its interval",
            on_select=lambda: _take_bar(key, stream, [place.value for place in places]),
            selection_mode="points",
        )
    with right:
        _table(split, measure, stream)
    st.caption(wording.safe(_told(split, view, measure)))
    return split


def _take_bar(key: str, stream: StoredStream, groups: Sequence[Group]) -> None:
    points = selected(key)["points"]
    if points and 0 <= (at := int(points[0]["point_index"])) < len(groups):
        filters.narrow(stream, groups[at])


def _table(split: SplitAnswer, measure: str, stream: StoredStream) -> None:
    places = split.places
    limits = [wording.limits(place.lower, place.upper, measure) for place in places]
    columns: dict[str, list[Any]] = {
        split.by: [place.name for place in places],
        "estimate": [wording.estimated(*place[1:4], measure) for place in places],
        "from": [low for low, _ in limits],
        "to": [high for _, high in limits],
    }
    if any(place.tie for place in places):
        columns["tie"] = ["tie" if place.tie else "" for place in places]
    if split.others is not None:
        others = split.others
        low, high = wording.limits(others.lower, others.upper, measure)
        rest = f"{counted(len(split.left_out), 'other')} together"
        number = wording.estimated(others.value, others.lower, others.upper, measure)
        for name, cell in zip(columns, (rest, number, low, high, ""), strict=False):
            columns[name].append(cell)
    key = "rows of groups"
    st.dataframe(
        columns,
        hide_index=True,
        key=key,
        on_select=lambda: _take_row(key, stream, [place.value for place in places]),
        selection_mode="single-row",
        alt=f"The answer of each {split.by} with its interval",
    )


def _take_row(key: str, stream: StoredStream, groups: Sequence[Group]) -> None:
    rows = st.session_state[key]["selection"]["rows"]
    if rows and rows[0] < len(groups):
        filters.narrow(stream, groups[rows[0]])


def _told(split: SplitAnswer, view: View, measure: str) -> str:
    """How sure the ranking is, and what it cannot see."""
    found = split.split
    told = "All numbers are exact." if found.exact else ""
    if not told:
        told = f"All intervals hold together at {percent_text(found.confidence)} confidence."
    if any(place.tie for place in split.places):
        told += " Groups that the intervals cannot tell apart are hatched and marked as ties."
    if found.unseen_share:
        share = wording.limits(0.0, found.unseen_share, "share")[1]
        told += f" A {split.by} of which no event was sampled has a share of at most {share}."
    if split.by == SOURCE and measure in ("events", "weight", "value"):
        told += " Sources may report the same event, so groups need not add up."
    return told


def table(found: dict[Group, Series], view: View, stream: StoredStream) -> Table:
    """The numbers of all lines of the chart."""
    zone = wording.zone(view.zone)
    rows = [
        [group_text(group), at, moment_text(at, stream.unit, zone), *numbers]
        for group, series in found.items()
        for at, *numbers in components.points(series.as_of, series)
    ]
    return [view.by, "as_of", "time", "estimate", "lower", "upper"], rows
