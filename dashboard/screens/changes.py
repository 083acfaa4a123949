"""The page Changes: which sources and values have other shares in a marked time than in the rest, or before."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any, Final

import numpy as np
import streamlit as st

from dashboard import wording
from dashboard.asking import session
from dashboard.asking.answer_cache import AnswerCache
from dashboard.asking.filling import GROWING
from dashboard.asking.many_groups import changes_of, sides_of
from dashboard.asking.view import REST, View, marked_time, other_time
from dashboard.figures.frame import CUT, GREY, faint
from dashboard.figures.share_pairs import share_pairs
from dashboard.parts import components, filters, notices, sidebar, time_range
from dashboard.parts.components import Table
from dashboard.parts.series_chart import series_chart
from dashboard.screens.compare import Side, last_answers
from sketches.arrays import Ints
from sketches.changes import Change, Verdict
from sketches.decay import parse_decay
from sketches.durations import format_duration, human_duration, parse_duration
from sketches.errors import WaneError
from sketches.estimate import Series
from sketches.formatting import calendar_time, moment_text
from sketches.predicate import Predicate
from store.serving.catalogue import Catalogue, StoredStream
from store.serving.changes_answer import ChangesAnswer, Sides, is_named, name_text
from store.serving.split_answer import SOURCE

VERSUS: Final = (REST, "1h", "1d", "7d", "28d")
DRAWN: Final = 12  # changes as dots
WORDS: Final = {Verdict.CHANGED: "changed", Verdict.DIFFERS: "maybe chance", Verdict.UNCLEAR: "cannot tell"}


def page(answers: AnswerCache, catalogue: Catalogue) -> None:
    stream = sidebar.question(answers, catalogue, aggregate=True)
    if not stream.epochs:
        notices.no_events(stream)
        return
    view = session.view()
    title = st.empty()
    filters.chips(stream)
    with time_range.row():
        span = time_range.picker(answers, stream)
    with components.guarded():
        as_of = answers.moments(view, stream, span)
        with components.working(f"Answering at {len(as_of)} times"):
            series, provenance = answers.series(view, stream, as_of)
        _marking(view, stream, as_of, series)
        figure = series_chart(answers, replace(view, chart="line"), stream, series, provenance)
        _show(figure, view, stream, components.subject(answers, view, stream))
    with title.container():
        components.heading(_title(view, stream), view)
    if marked_time(view, stream.unit) is None:
        notices.empty(
            "Which part of the chart shall be explained?",
            "Drag over it in the chart, choose *Mark* above it, or mark the highest point with one click. Then this "
            "page lists the sources and values whose share of the events is another one there than elsewhere. A second "
            "stretch, dragged over with the shift key, is what the first is compared with.",
        )
        return
    with components.guarded():
        sides = sides_of(view, stream, (int(as_of[0]), int(as_of[-1]) + 1))
        assert sides is not None
        with components.working("Comparing every source and every value"):
            found = changes_of(answers, view, stream, sides)
        _both_times(answers, view, stream, sides)
        _compared(answers, view, stream, found)


def _title(view: View, stream: StoredStream) -> str:
    marked = marked_time(view, stream.unit)
    if marked is None:
        return "What changed?"
    begin, end = (moment_text(at, stream.unit, wording.zone(view.zone)) for at in marked)
    return f"What is different between {begin} and {end}, against {against(view)}?"


def against(view: View) -> str:
    """What a marked time is compared with, in words."""
    if view.versus == REST:
        return "the rest of the chart"
    if "/" in view.versus:
        begin, end = (text.removesuffix("Z").replace("T", " ") for text in view.versus.split("/", 1))
        return f"{begin} to {end}"
    return f"the same time {human_duration(parse_duration(view.versus))} before"


def _marking(view: View, stream: StoredStream, as_of: Ints, series: Series) -> None:
    """Controls to mark a time without a pointer, and what it is compared with."""
    with time_range.row():
        _from_to(view, stream, as_of)
        st.button(
            "Mark the highest point",
            icon=":material/vertical_align_top:",
            key="mark the highest",
            on_click=_mark,
            args=(*around_highest(series), stream),
            help="The stretch of the chart around its highest point",
        )
        if marked_time(view, stream.unit) is not None:
            st.button("Clear", icon=":material/close:", key="clear the mark", on_click=_clear)
        key = "versus@"
        session.show(
            st.selectbox,
            "Compared with",
            [*VERSUS, *([view.versus] if view.versus not in VERSUS else [])],
            format_func=lambda text: f"against {against(replace(view, versus=text))}",
            label_visibility="collapsed",
            shown=view.versus,
            key=key,
            on_change=_take_versus,
            args=(key,),
            width=280,
        )


def around_highest(series: Series) -> tuple[int, int]:
    """The stretch around the highest point in which the line stays above half of its rise over the median."""
    value = np.where(np.isfinite(series.value), series.value, -np.inf)
    top, last = int(value.argmax()), len(value) - 1
    known = value[np.isfinite(value)]
    half = (float(value[top]) + float(np.median(known))) / 2 if len(known) else 0.0
    low = np.flatnonzero(value < half)
    before, behind = low[low < top], low[low > top]
    first = int(before[-1]) if len(before) else max(top - 1, 0)
    after = int(behind[0]) if len(behind) else min(top + 1, last)
    return int(series.as_of[min(first, last)]), int(series.as_of[after]) + (after == first)


def _from_to(view: View, stream: StoredStream, as_of: Ints) -> None:
    """Both ends of the mark as boxes, behind a button."""
    zone = wording.zone(view.zone)
    marked = marked_time(view, stream.unit) or (int(as_of[0]), int(as_of[-1]))
    ends = [calendar_time(at, stream.unit, zone) for at in marked]
    with st.popover("Mark", icon=":material/select_all:", key="mark from to"):
        for label, number in (("From", 0), ("To", 1)):
            end = ends[number]
            if end is None:  # outside the calendar
                choice = ("mark_start", "mark_end")[number]
                session.text(label, choice, str.strip, placeholder="a time in the stream's unit")
                continue
            key = f"mark {number}@box"
            session.show(
                st.datetime_input,
                f"{label} ({end.tzname()})",
                step=60,
                min_value=datetime(1, 1, 1),  # noqa: DTZ001  the wall-clock time of a zone
                max_value=datetime(9999, 12, 31),  # noqa: DTZ001
                shown=end.replace(tzinfo=None, second=0, microsecond=0),
                key=key,
                on_change=_take_end,
                args=(key, number, marked, view.zone, stream),
            )


def _take_end(key: str, number: int, marked: tuple[int, int], zone: str, stream: StoredStream) -> None:
    typed: datetime | None = st.session_state[key]
    if typed is not None:
        ends = list(marked)
        ends[number] = time_range.moment_of(typed, stream.unit, zone)
        _mark(min(ends), max(ends), stream)


def _take_versus(key: str) -> None:
    session.change(versus=st.session_state[key])


def _clear() -> None:
    session.change(mark_start="", mark_end="")


def _mark(begin: int, end: int, stream: StoredStream) -> None:
    if end > begin:
        session.change(mark_start=time_range.code(begin, stream.unit), mark_end=time_range.code(end, stream.unit))


def _mark_other(begin: int, end: int, stream: StoredStream) -> None:
    """Compare with another stretch of time; before anything is marked, it is the marked one."""
    if marked_time(session.view(), stream.unit) is None:
        _mark(begin, end, stream)
    elif end > begin:
        session.change(versus=f"{time_range.code(begin, stream.unit)}/{time_range.code(end, stream.unit)}")


def _show(figure: Any, view: View, stream: StoredStream, asked: str) -> None:
    """The chart, in which a box that is drawn is the marked time."""
    marked = marked_time(view, stream.unit)
    if marked is not None:
        zone = wording.zone(view.zone)
        for stretch, colour in ((marked, CUT), (other_time(view, stream.unit), GREY)):
            if stretch is not None:
                begin, end = wording.axis_times(stretch, stream.unit, zone)
                figure.add_shape(
                    type="rect", x0=begin, x1=end, y0=0, y1=1, yref="y domain", fillcolor=faint(colour, 0.25),
                    line={"color": colour, "width": 1.5},
                )  # fmt: skip
    figure.update_layout(height=320)
    told = "; drag over a part of it to ask what is different there, with the shift key over what it is compared with"
    time_range.selectable(
        figure,
        "changes",
        f"{asked} over time{told}",
        view,
        stream,
        lambda begin, end: _mark(begin, end, stream),
        shifted=lambda begin, end: _mark_other(begin, end, stream),
    )


def _compared(answers: AnswerCache, view: View, stream: StoredStream, found: ChangesAnswer) -> None:
    notices.beside(found.provenance, stream)
    st.markdown(f"**{wording.safe(found.told())}**")
    if not found.changes.inside.used or not found.changes.outside.used:
        st.caption("Mark a longer time, or compare with another one.")
        return
    st.caption(wording.safe(amounts(found, view, stream)))
    names = [label(one, stream) for one in found.listed]
    drawn = found.listed[:DRAWN]
    figure = share_pairs(names[:DRAWN], drawn, ("marked time", against(view)))
    components.show(figure, "changed shares", f"The shares of the {len(drawn)} that differ most, on both sides")
    head, rows = table(found, stream)
    _table(found, names, view, stream)
    st.caption(
        "A filled mark has changed beyond chance, a hollow one cannot be told from chance. The shares are of "
        f"{'the weight of ' if _by_weight(view, stream) else ''}the events of the time itself, whatever the decay is: "
        "the intervals hold what the raw events would say, and *changed* also allows for how few events there are, as "
        "if each came independently of the others. An event that several sources report counts for each of them."
    )
    components.footer(found.provenance, answers)
    components.exports("changes", lambda: (head, rows), found.as_dict)


def _both_times(answers: AnswerCache, view: View, stream: StoredStream, sides: Sides) -> None:
    """The number that the page asks for, of both times and how they differ, where these are two stretches."""
    if len(sides.outside) != 1:
        return
    both = [sides.outside[0], sides.inside]
    if view.aggregate in GROWING and both[0][1] - both[0][0] != both[1][1] - both[1][0]:
        st.caption("These two times differ in length, so sums and numbers do, too; ask for the rate to compare them.")
        return
    with components.guarded():
        named = [against(view), "marked time"]
        asked = [Side(name, of_stretch(view, stream, *times)) for name, times in zip(named, both, strict=True)]
        with components.working("Answering for both times"):
            found = [answers.ask(side.view, stream) for side in asked]
        st.markdown(f"**{wording.safe(components.subject(answers, view, stream))}, in both times**")
        last_answers(answers, stream, asked, found)


def of_stretch(view: View, stream: StoredStream, begin: int, end: int) -> View:
    """The view of a stretch of time alone, in which every event counts alike."""
    seconds = (end - begin) * stream.unit.numerator / stream.unit.denominator
    window = parse_decay(f"window:{format_duration(seconds)}")
    return replace(view, as_of=str(end - 1), start="", end="").with_fading(window)


def _by_weight(view: View, stream: StoredStream) -> bool:
    return (view.counting or str(stream.described.get("counting", ""))) == "weight"


def amounts(found: ChangesAnswer, view: View, stream: StoredStream) -> str:
    """How much came on both sides, and how busy they were."""
    inside, outside = found.rate(inside=True), found.rate(inside=False)
    of = "weight" if _by_weight(view, stream) else "events"
    masses = (found.changes.inside, found.changes.outside)
    numbers = [wording.estimated(*mass[:3], "events") for mass in masses]
    rates = [wording.estimated(*rate, "events") for rate in (inside, outside)]
    told = f"About {numbers[0]} {of} in the marked time ({rates[0]} a second), {numbers[1]} in {against(view)} "
    told += f"({rates[1]} a second)"
    if inside[1] > outside[2] or inside[2] < outside[1]:
        more, less = max(inside[0], outside[0]), min(inside[0], outside[0])
        times = more / less if less else np.inf
        told += f": {times:.3g} times {'as busy' if inside[0] == more else 'quieter'}"
    return told + "."


def label(one: Change, stream: StoredStream) -> str:
    """A group with its column, in the stream's own words."""
    return f"{own_name(one.column, stream)} = {name_text(one.name)}"


def own_name(column: str, stream: StoredStream) -> str:
    """What the stream calls a column."""
    names = components.units_of(stream).names
    return {"value": names.value, "weight": names.weight}.get(column) or column


def table(found: ChangesAnswer, stream: StoredStream) -> Table:
    """All listed groups with both shares, from the one that changed most."""
    head = ["rank", "column", "value", "inside", "from", "to", "outside", "from", "to", "apart by", "verdict", "tie"]
    rows = [
        [
            *(rank, own_name(one.column, stream), name_text(one.name), *one.inside, *one.outside),
            *(max(one.apart, 0.0), one.verdict.value, "tie" if one.tie else ""),
        ]
        for rank, one in enumerate(found.listed, 1)
    ]
    return head, rows


def _table(found: ChangesAnswer, names: list[str], view: View, stream: StoredStream) -> None:
    """The same with shares as people read them; a click on a row shows the events of that group on Explore."""
    sides = [[getattr(one, side) for one in found.listed] for side in ("inside", "outside")]

    def cells(limits: list[tuple[float, float, float]]) -> list[str]:
        ends = [wording.limits(low, high, "share") for _, low, high in limits]
        exact = [low == high for _, low, high in limits]
        return [
            wording.estimated(*three, "share") + ("" if point else f" ({low} to {high})")
            for three, (low, high), point in zip(limits, ends, exact, strict=True)
        ]

    columns = {
        "": names,
        "verdict": [WORDS[one.verdict] + (", tie" if one.tie else "") for one in found.listed],
        "in the marked time": cells(sides[0]),
        against(view): cells(sides[1]),
    }
    st.dataframe(
        columns,
        hide_index=True,
        height=min(560, 38 + 35 * max(4, len(names))),
        key="rows of changes",
        on_select=lambda: _open(view, stream, found.listed),
        selection_mode="single-row",
        column_config={
            "verdict": st.column_config.TextColumn(
                help="changed: the shares lie apart, also if chance is allowed for. maybe chance: the events that "
                "came do differ, but so few may by chance. cannot tell: they may be equal. tie: another one may "
                "have changed as much."
            )
        },
        alt="Every listed source and value with its share on both sides",
    )
    st.caption("Click the left end of a row to see only these events; a chip above the chart removes that again.")


def _open(view: View, stream: StoredStream, listed: tuple[Change, ...]) -> None:
    rows = st.session_state["rows of changes"]["selection"]["rows"]
    if not rows or rows[0] >= len(listed):
        return
    one = listed[rows[0]]
    if one.column == SOURCE:
        session.change(source=(str(one.name),))
        return
    try:
        also = Predicate.all_of(list(is_named(one.column, one.name)))
        session.change(where=str(view.predicate(stream).and_also(also)))
    except WaneError as error:
        st.session_state["problems"] = [str(error)]
