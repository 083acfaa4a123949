"""The controls of time in the sidebar: the window and the as-of time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

import streamlit as st

from dashboard import wording, words
from dashboard.asking import session
from dashboard.asking.answer_cache import AnswerCache
from dashboard.asking.view import DURATIONS, NEWEST, by_number, check_span
from sketches.durations import format_duration, human_duration, parse_duration
from sketches.errors import WaneError
from sketches.formatting import calendar_time
from store.serving.catalogue import StoredStream
from store.serving.timeline import read_moment

WINDOWS: Final = ("", "5m", "15m", "1h", "6h", "12h", "1d", "3d", "7d", "28d")


def window() -> None:
    """The age from which on events count nothing; a number of newest events is a window by itself."""
    view = session.view()
    if by_number(view.fading):
        return
    options = with_current(WINDOWS, view.window)
    session.show(
        st.selectbox,
        "Window",
        options,
        format_func=lambda text: f"the last {human_duration(parse_duration(text))}" if text else "no limit",
        accept_new_options=True,
        help=words.explained("Window", "Without fading this is a sliding window. You may type one, such as 90m."),
        **_duration_bound("window"),
    )
    _complaint("window")


def _duration_bound(name: str) -> dict[str, Any]:
    bound = session.bound(name)
    return bound | {"on_change": _take_duration, "args": (name, bound["key"])}


def _take_duration(name: str, key: str) -> None:
    typed = st.session_state[key] or ""
    st.session_state["problems"] = []
    try:
        session.change(**{name: check_span(typed)})
    except WaneError as error:
        st.session_state["drafts"][name] = (typed, str(error))


def _complaint(name: str) -> None:
    """Why the last typed text was refused. It is shown once: the box shows the old choice again."""
    if found := st.session_state["drafts"].pop(name, None):
        st.error(wording.safe(found[1]), icon=":material/block:")


def as_of(answers: AnswerCache, stream: StoredStream) -> None:
    """The time from which ages are counted."""
    view = session.view()
    zone = wording.zone(view.zone)
    known = answers.extent(view, stream)
    if known is None:
        return
    pinned = view.as_of != NEWEST
    newest = calendar_time(known[1], stream.unit, zone)
    oldest = calendar_time(known[0], stream.unit, zone)
    chosen = view.moment(stream.unit)
    shown = newest if chosen is None else calendar_time(chosen, stream.unit, zone)
    if newest is None or oldest is None or shown is None:  # outside the calendar
        session.text("As of", "as_of", lambda typed: _checked_moment(typed, stream), placeholder="the newest event")
        return
    key = "as-of kind"
    session.show(
        st.segmented_control,
        "As of",
        ["newest event", "a time"],
        required=True,
        shown="a time" if pinned else "newest event",
        key=key,
        on_change=_take_pin,
        args=(key, shown.isoformat(timespec="minutes") if shown.microsecond or shown.second else shown.isoformat()),
        help=words.explained("As-of time"),
        width="stretch",
    )
    if pinned:
        key = "as-of time"
        now = datetime.now(zone)
        least = sooner(min(oldest, now), timedelta(days=1))
        most = later(max(newest, shown, now), timedelta(days=366))
        # In whole minutes, as the widget sends it back: otherwise it would report a change that nobody made.
        session.show(
            st.datetime_input,
            f"Time ({shown.tzname()})",
            min_value=min(least, shown).replace(tzinfo=None, second=0, microsecond=0),
            max_value=most.replace(tzinfo=None),
            step=60,
            shown=shown.replace(tzinfo=None, second=0, microsecond=0),
            key=key,
            on_change=_take_time,
            args=(key, view.zone),
            label_visibility="collapsed",
        )


def sooner(stamp: datetime, by: timedelta) -> datetime:
    return stamp - by if stamp.replace(tzinfo=None) - datetime.min > by else stamp  # noqa: DTZ901


def later(stamp: datetime, by: timedelta) -> datetime:
    return stamp + by if datetime.max - stamp.replace(tzinfo=None) > by else stamp  # noqa: DTZ901


def _checked_moment(typed: str, stream: StoredStream) -> str:
    if typed.strip() != NEWEST:
        read_moment(typed.strip(), stream.unit)
    return typed.strip()


def _take_pin(key: str, moment: str) -> None:
    session.change(as_of=moment if st.session_state[key] == "a time" else NEWEST)


def _take_time(key: str, zone: str) -> None:
    chosen: datetime | None = st.session_state[key]
    if chosen is not None:
        moment = chosen.replace(tzinfo=wording.zone(zone)).astimezone(UTC)
        session.change(as_of=moment.replace(tzinfo=None).isoformat() + "Z")


def with_current(options: tuple[str, ...] | list[str], current: str) -> list[str]:
    """The options with the current one among them, in the order of their length. An empty one stays first or last."""
    if current in options:
        return list(options)
    filled = sorted([*(text for text in options if text), current], key=parse_duration)
    return ["", *filled] if options[0] == "" else [*filled, ""]


def half_lives(current: float) -> list[str]:
    """Durations for a slider, with the current one among them."""
    return sorted({*DURATIONS, format_duration(current)}, key=parse_duration)
