"""Which stretch of time a chart shows: quick ranges, from–to, a box drawn in the chart, and the way back."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import plotly.graph_objects as go
import streamlit as st

from dashboard import wording
from dashboard.asking import session
from dashboard.asking.answer_cache import AnswerCache
from dashboard.asking.view import REST, View
from dashboard.parts import chart, components
from dashboard.parts.time_controls import later, sooner, with_current
from sketches.arrays import Ints
from sketches.durations import human_duration, parse_duration
from sketches.formatting import calendar_time
from sketches.units import TimeUnit
from store.serving.catalogue import StoredStream
from store.serving.timeline import read_moment

SPANS: Final = ("15m", "1h", "6h", "1d", "3d", "7d", "28d", "182d", "364d", "")
LISTED: Final = 6  # quick ranges
MOST_STEPS: Final = 20  # that one can go back
ZOOM: Final[dict[str, Any]] = {"dragmode": "select", "selectdirection": "h"}  # a box over the whole height
CENTURY: Final = timedelta(days=36_525)
WHEN: Final = ("start", "end", "span", "as_of")  # the choices that going back restores
NARROWEST: Final = 2  # units of time

Clicked = Callable[[Mapping[str, Any]], None] | None
Drawn = Callable[[int, int], None] | None
ASKED: Final = "what changed is asked"  # in the session: the page Changes is wanted


def row() -> Any:
    """A row for controls above a chart."""
    return st.container(horizontal=True, vertical_alignment="center")


def picker(answers: AnswerCache, stream: StoredStream, *, asks_what_changed: bool = False) -> float:
    """Quick ranges, from–to, and the way back, for a row of controls. How many seconds a chart shows comes back."""
    view = session.view()
    known = answers.extent(view, stream)
    if known is None:
        return math.inf
    whole = (known[1] - known[0]) * stream.unit.numerator / stream.unit.denominator
    shorter = [text for text in SPANS if text and parse_duration(text) < whole]
    key = "span@"
    session.show(
        st.pills,
        "Chart shows",
        with_current([*shorter[-LISTED:], ""], view.span),
        format_func=lambda text: f"last {human_duration(parse_duration(text))}" if text else "all",
        label_visibility="collapsed",
        shown=None if view.ranged else view.span,
        key=key,
        on_change=_take_span,
        args=(key,),
    )
    _from_to(answers, view, stream)
    if view.ranged and asks_what_changed:
        shown = answers.moments(view, stream, math.inf)
        st.button(
            "What changed here?",
            icon=":material/difference:",
            on_click=ask_what_changed,
            args=(code(int(shown[0]), stream.unit), code(int(shown[-1]), stream.unit)),
            key="what changed",
            help="The sources and values that are different in this time",
        )
    if view.ranged:
        st.button("Back", icon=":material/zoom_out:", on_click=back, key="zoom out", help="Show the range before")
    return parse_duration(view.span) if view.span else math.inf


def _take_span(key: str) -> None:
    if (chosen := st.session_state[key]) is not None:
        _go(span=chosen, start="", end="")


def _from_to(answers: AnswerCache, view: View, stream: StoredStream) -> None:
    """Both ends as boxes, behind a button that names them."""
    zone = wording.zone(view.zone)
    shown = answers.moments(view, stream, parse_duration(view.span) if view.span else math.inf)
    ends = [calendar_time(int(at), stream.unit, zone) for at in (shown[0], shown[-1])]
    name = f"{_short(ends[0])} – {_short(ends[1])}" if view.ranged and all(ends) else "From – to"
    with st.popover(name, icon=":material/date_range:", key="from to"):
        for label, choice, at, other in (("From", "start", 0, -1), ("To", "end", -1, 0)):
            end, opposite = ends[at], int(shown[other])
            if end is None:  # outside the calendar
                session.text(label, choice, _checked(choice, stream), placeholder="a time in the stream's unit")
                continue
            box = f"{choice}@box"
            session.show(
                st.datetime_input,
                f"{label} ({end.tzname()})",
                min_value=sooner(end, CENTURY).replace(tzinfo=None, second=0, microsecond=0),
                max_value=later(end, CENTURY).replace(tzinfo=None, second=0, microsecond=0),
                step=60,
                shown=end.replace(tzinfo=None, second=0, microsecond=0),
                key=box,
                on_change=_take_end,
                args=(box, choice, view.zone, stream, opposite),
            )


def _short(stamp: datetime | None) -> str:
    return "" if stamp is None else f"{stamp:%b %d %H:%M}"


def _checked(choice: str, stream: StoredStream) -> Callable[[str], str]:
    def check(typed: str) -> str:
        if typed.strip():
            read_moment(typed.strip(), stream.unit)
        return typed.strip()

    return check


def _take_end(key: str, choice: str, zone: str, stream: StoredStream, opposite: int) -> None:
    """One end was typed; the other stays where it is shown."""
    typed: datetime | None = st.session_state[key]
    if typed is not None:
        at = moment_of(typed, stream.unit, zone)
        go_to(min(at, opposite), max(at, opposite), stream)


def zoomable(
    figure: go.Figure,
    name: str,
    alt: str,
    view: View,
    stream: StoredStream,
    clicked: Clicked = None,
    shifted: Drawn = None,
) -> None:
    """Put a chart over time into the page. A box drawn in it is the next range, a double click shows the range before,
    a click on a point is for `clicked`, a box drawn with the shift key for `shifted`."""
    selectable(figure, name, alt, view, stream, lambda begin, end: go_to(begin, end, stream), clicked, shifted)


def selectable(
    figure: go.Figure,
    name: str,
    alt: str,
    view: View,
    stream: StoredStream,
    taken: Callable[[int, int], None],
    clicked: Clicked = None,
    shifted: Drawn = None,
) -> None:
    """Put a chart over time into the page. The ends of a box drawn in it go to `taken`, with the shift key to
    `shifted`, a click on a point to `clicked`."""
    key = f"figure {name}"

    def take() -> None:
        selection = chart.selected(key)
        if selection["back"]:
            back()
            return
        for boxes, act in ((selection["box"], taken), (selection["shifted"], shifted)):
            if boxes and act is not None:
                act(*sorted(_at(place, stream.unit, view.zone) for place in boxes[0]["x"]))
                return
        if clicked is not None and selection["points"]:
            clicked(selection["points"][0])

    figure.update_layout(ZOOM)
    modes = ("box", "back", "points") if shifted is None else ("box", "back", "points", "shifted")
    components.show(figure, name, alt, on_select=take, selection_mode=modes)


def pin(point: Mapping[str, Any], view: View, stream: StoredStream, shown: Ints) -> None:
    """Take a clicked point as the as-of time. The chart goes on showing the time that it shows."""
    _go(
        as_of=code(_at(point["x"], stream.unit, view.zone), stream.unit),
        start=code(int(shown[0]), stream.unit),
        end=code(int(shown[-1]), stream.unit),
    )


def _at(place: Any, unit: TimeUnit, zone: str) -> int:
    """A place on the axis as a time of the stream."""
    return moment_of(datetime.fromisoformat(place), unit, zone) if isinstance(place, str) else round(place)


def moment_of(wall: datetime, unit: TimeUnit, zone: str) -> int:
    """The time of the stream that a clock of the zone shows."""
    stamp = wall.replace(tzinfo=wording.zone(zone)).astimezone(UTC)
    return read_moment(stamp.replace(tzinfo=None).isoformat() + "Z", unit)


def go_to(begin: int, end: int, stream: StoredStream) -> None:
    """Show the time from one moment to another."""
    if end - begin >= NARROWEST:
        _go(start=code(begin, stream.unit), end=code(end, stream.unit))


def code(moment: int, unit: TimeUnit) -> str:
    """A time as it stands in the address: readable, where whole seconds say it."""
    stamp = calendar_time(moment, unit)
    if stamp is None or stamp.microsecond or read_moment(text := f"{stamp:%Y-%m-%dT%H:%M:%S}Z", unit) != moment:
        return str(moment)
    return text


def _go(**choices: str) -> None:
    view = session.view()
    steps: list[dict[str, str]] = st.session_state.setdefault("ranges", [])
    steps.append({name: getattr(view, name) for name in WHEN})
    del steps[:-MOST_STEPS]
    session.change(**choices)


def ask_what_changed(start: str, end: str) -> None:
    """Mark a time, in a chart that shows what it showed before it was zoomed, and go to the page Changes."""
    if session.view().ranged:
        back()
    session.change(mark_start=start, mark_end=end, versus=REST)
    st.session_state[ASKED] = True


def back() -> None:
    """Show the range before, as of the time before; all, if the page was opened on this one."""
    steps: list[dict[str, str]] = st.session_state.setdefault("ranges", [])
    session.change(**(steps.pop() if steps else {"start": "", "end": "", "span": ""}))
