"""The choices in the sidebar: each page shows those it needs, alike everywhere."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Final
from zoneinfo import available_timezones

import streamlit as st

from dashboard import state, words
from dashboard.desk import Desk
from dashboard.view import (
    DURATIONS,
    NEWEST,
    OF,
    PARAMETERS,
    aggregates_of,
    check_number,
    check_span,
    check_tau,
)
from sketches.decay import format_duration, parse_duration
from sketches.errors import WaneError
from store.catalogue import Catalogue, StreamHeld
from store.timeline import read_moment

WINDOWS: Final = ("", "5m", "15m", "1h", "6h", "12h", "1d", "3d", "7d", "28d")
SPANS: Final = ("15m", "1h", "6h", "1d", "3d", "7d", "28d", "182d", "364d", "")


def stream(catalogue: Catalogue, *, sources: bool = True) -> StreamHeld:
    """Which stream, and which of its sources."""
    names = sorted(catalogue.streams)
    if len(names) > 1:
        st.selectbox("Stream", names, help="What was ingested under this name in wane.toml.", **_stream_bound())
    else:
        st.markdown(f"**{words.safe(names[0])}**")
    held = catalogue.streams[state.view().stream]
    if sources and len(held.sources) > 1:
        st.multiselect(
            "Sources",
            held.sources,
            placeholder=f"All {len(held.sources):,}",
            help="All of them, or some. An event that several sources reported counts once.",
            **state.bound("source"),
        )
    return held


def _stream_bound() -> dict[str, Any]:
    bound = state.bound("stream")
    return {"key": bound["key"], "on_change": _take_stream, "args": (bound["key"],)}


def _take_stream(key: str) -> None:
    """Another stream has other sources, values and units; how the past fades is asked of it alike."""
    st.session_state["problems"] = []
    state.change(
        stream=st.session_state[key], source=(), other="", value="", tau="", low="", high="", family="", as_of=NEWEST
    )
    st.session_state["fitted"] = None


def aggregate(desk: Desk, held: StreamHeld) -> None:
    """What is computed, and what that needs besides."""
    view = state.view()
    st.selectbox(
        "Aggregate",
        aggregates_of(held),
        format_func=lambda name: words.AGGREGATES[name].label,
        help="What is computed of the events that count; the most frequent values have a page of their own.",
        **state.bound("aggregate"),
    )
    needed = PARAMETERS.get(view.aggregate, ())
    if view.aggregate in OF and held.described.get("kind") != "key":
        st.segmented_control(
            "Of",
            ["weight", "value"],
            required=True,
            help="The weight column of the stream, or its value column.",
            **state.bound("of"),
        )
    if "tau" in needed:
        tau(desk)
    if "phi" in needed:
        st.slider("φ", 0.01, 0.99, step=0.01, help="The share of the weight at or below the value.", **_phi())
    if "value" in needed:
        state.text("Value", "value", str.strip, placeholder="a value, exactly as it is in the data")
    if "low" in needed:
        left, right = st.columns(2)
        with left:
            state.text("From", "low", check_number, placeholder="least")
        with right:
            state.text("To", "high", check_number, placeholder="greatest")
    if "other" in needed:
        names = held.sources
        st.selectbox("Second source", names, index=None, **_other(names))


def _phi() -> dict[str, Any]:
    bound = state.bound("phi")
    state.put(bound["key"], min(0.99, max(0.01, round(state.view().phi, 2))))
    return bound


def _other(names: list[str]) -> dict[str, Any]:
    bound = state.bound("other")
    state.put(bound["key"], state.view().other if state.view().other in names else None)
    return bound


def tau(desk: Desk, place: str = "") -> None:
    """The threshold: typed exactly, or moved through the values that are there."""
    view = state.view()
    state.text(
        "Threshold τ",
        "tau",
        check_tau,
        placeholder="a number, median, or q0.9",
        help="Only events with a value of at least τ count. It may itself be an aggregate: `median`, or a quantile "
        "like `q0.9`.",
    )
    try:
        steps = desk.steps(view)
        current = float(view.tau) if view.tau else None
    except (WaneError, ValueError):
        return
    if len(steps) < 2:
        return
    key = f"tau slider@{place}"
    options = sorted({*steps, *([current] if current is not None and math.isfinite(current) else [])})
    state.put(key, current if current in options else options[len(options) // 2])
    st.select_slider(
        "τ among the stored values",
        options,
        format_func=words.number,
        key=key,
        on_change=_take_tau,
        args=(key,),
        label_visibility="collapsed",
    )


def _take_tau(key: str) -> None:
    state.change(tau=f"{st.session_state[key]:.12g}")


def window() -> None:
    """Beyond which age nothing counts at all."""
    view = state.view()
    options = _with(WINDOWS, view.window)
    st.selectbox(
        "Window",
        options,
        format_func=lambda text: f"the last {words.duration(parse_duration(text))}" if text else "no limit",
        accept_new_options=True,
        help="Older events count nothing, whatever the fading says. With no fading this is a sliding window. Pick one "
        "or type a length such as 90m.",
        **_duration_bound("window"),
    )
    _complaint("window")


def _duration_bound(name: str) -> dict[str, Any]:
    bound = state.bound(name)
    return {"key": bound["key"], "on_change": _take_duration, "args": (name, bound["key"])}


def _take_duration(name: str, key: str) -> None:
    typed = st.session_state[key] or ""
    st.session_state["problems"] = []
    try:
        state.change(**{name: check_span(typed)})
    except WaneError as error:
        st.session_state["drafts"][name] = (typed, str(error))


def _complaint(name: str) -> None:
    """Said once: the box shows what holds instead."""
    if found := st.session_state["drafts"].pop(name, None):
        st.error(words.safe(found[1]), icon=":material/block:")


def as_of(desk: Desk, held: StreamHeld) -> None:
    """The time from which ages are counted back."""
    view = state.view()
    zone = words.zone(view.zone)
    known = desk.extent(view, held)
    if known is None:
        return
    pinned = view.as_of != NEWEST
    newest = words.stamp(known[1], held.unit, zone)
    oldest = words.stamp(known[0], held.unit, zone)
    chosen = view.moment(held.unit)
    shown = newest if chosen is None else words.stamp(chosen, held.unit, zone)
    if newest is None or oldest is None or shown is None:  # beyond the calendar
        state.text("As of", "as_of", lambda typed: _checked_moment(typed, held), placeholder="the newest event")
        return
    key = "as-of kind"
    state.put(key, "a time" if pinned else "newest event")
    st.segmented_control(
        "As of",
        ["newest event", "a time"],
        required=True,
        key=key,
        on_change=_take_pin,
        args=(key, shown.isoformat(timespec="minutes") if shown.microsecond or shown.second else shown.isoformat()),
        help="Ages are counted back from here; newer events do not count.",
        width="stretch",
    )
    if pinned:
        key = "as-of time"
        now = datetime.now(zone)  # which Streamlit takes for the value at first, so it must be in the range
        least = _sooner(min(oldest, now), timedelta(days=1))
        most = _later(max(newest, shown, now), timedelta(days=366))
        # In whole minutes, as the widget sends it back: it would else report a change that nobody made.
        state.put(key, shown.replace(tzinfo=None, second=0, microsecond=0))
        st.datetime_input(
            f"Time ({shown.tzname()})",
            min_value=min(least, shown).replace(tzinfo=None, second=0, microsecond=0),
            max_value=most.replace(tzinfo=None),
            step=60,
            key=key,
            on_change=_take_time,
            args=(key, view.zone),
            label_visibility="collapsed",
        )


def _sooner(stamp: datetime, by: timedelta) -> datetime:
    return stamp - by if stamp.replace(tzinfo=None) - datetime.min > by else stamp  # noqa: DTZ901


def _later(stamp: datetime, by: timedelta) -> datetime:
    return stamp + by if datetime.max - stamp.replace(tzinfo=None) > by else stamp  # noqa: DTZ901


def _checked_moment(typed: str, held: StreamHeld) -> str:
    if typed.strip() != NEWEST:
        read_moment(typed.strip(), held.unit)
    return typed.strip()


def _take_pin(key: str, moment: str) -> None:
    state.change(as_of=moment if st.session_state[key] == "a time" else NEWEST)


def _take_time(key: str, zone: str) -> None:
    chosen: datetime | None = st.session_state[key]
    if chosen is not None:
        moment = chosen.replace(tzinfo=words.zone(zone)).astimezone(UTC)
        state.change(as_of=moment.replace(tzinfo=None).isoformat() + "Z")


def span(desk: Desk, held: StreamHeld) -> float:
    """How far back the chart goes; the seconds come back."""
    view = state.view()
    known = desk.extent(view, held)
    whole = 0.0 if known is None else (known[1] - known[0]) * held.unit.numerator / held.unit.denominator
    shorter = [text for text in SPANS if text and parse_duration(text) < whole]
    st.select_slider(
        "Chart shows",
        _with([*shorter[-6:], ""], view.span),
        format_func=lambda text: f"last {words.duration(parse_duration(text))}" if text else "all",
        help="The stretch of time on the chart's axis. It changes no answer.",
        **state.bound("span"),
    )
    return parse_duration(view.span) if view.span else math.inf


def _with(options: tuple[str, ...] | list[str], current: str) -> list[str]:
    """The options in the order of their length with the current one among them; none is where it was."""
    if current in options:
        return list(options)
    filled = sorted([*(text for text in options if text), current], key=parse_duration)
    return ["", *filled] if options[0] == "" else [*filled, ""]


def display(held: StreamHeld | None) -> None:
    """What changes how things are shown, not what they are."""
    view = state.view()
    with st.expander("Display", icon=":material/tune:"):
        local = st.context.timezone
        zones = _zones()
        first = ["UTC", *([local] if local in zones else [])]
        st.selectbox("Time zone", first + [name for name in zones if name not in first], **state.bound("zone"))
        if held is not None:
            st.selectbox(
                "Confidence",
                sorted({0.0, 0.8, 0.9, 0.95, 0.99, 0.999, view.confidence}),
                format_func=lambda share: f"{100 * share:g}%" if share else "as the sketches planned",
                help="How often an interval may be trusted to hold the exact answer.",
                **state.bound("confidence"),
            )
            if len(held.sketches) > 1:
                st.selectbox(
                    "Family",
                    ["", *sorted(held.sketches)],
                    format_func=lambda name: name or "wane picks",
                    help="Which kind of sketch answers.",
                    **state.bound("family"),
                )
        st.toggle("Refresh by itself", help="Redraw when an ingest run has committed.", **state.bound("refresh"))


@cache
def _zones() -> list[str]:
    return sorted(available_timezones() - {"UTC"})


def half_lives(current: float) -> list[str]:
    """Durations for a slider, the current one among them."""
    return sorted({*DURATIONS, format_duration(current)}, key=parse_duration)
