"""The controls in the sidebar, alike on every page: stream, sources, aggregate, window, as-of time, display."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Final
from zoneinfo import available_timezones

import streamlit as st

from dashboard import session, wording
from dashboard.answer_cache import AnswerCache
from dashboard.view import (
    DURATIONS,
    NEWEST,
    OF,
    PARAMETERS,
    aggregates_of,
    check_number,
    check_span,
    check_tau,
    is_keyed,
)
from sketches.durations import format_duration, human_duration, parse_duration
from sketches.errors import WaneError
from sketches.formatting import calendar_time, number_text, percent_text
from sketches.registry import FAMILIES
from store.serving.catalogue import Catalogue, StoredStream
from store.serving.timeline import read_moment

WINDOWS: Final = ("", "5m", "15m", "1h", "6h", "12h", "1d", "3d", "7d", "28d")
SPANS: Final = ("15m", "1h", "6h", "1d", "3d", "7d", "28d", "182d", "364d", "")


def stream(catalogue: Catalogue, *, sources: bool = True) -> StoredStream:
    """The stream and some of its sources; the chosen stream comes back."""
    names = sorted(catalogue.streams)
    if len(names) > 1:
        st.selectbox("Stream", names, help="What was ingested under this name in wane.toml.", **_stream_bound())
    else:
        st.markdown(f"**{wording.safe(names[0])}**")
    chosen = catalogue.streams[session.view().stream]
    if sources and len(chosen.sources) > 1:
        st.multiselect(
            "Sources",
            chosen.sources,
            placeholder=f"All {len(chosen.sources):,}",
            help=f"All of them, or some. {_repeats(chosen)}",
            **session.bound("source"),
        )
    return chosen


def _repeats(stream: StoredStream) -> str:
    """What becomes of an event that several sources reported; it depends on the families that are stored."""
    families = [FAMILIES[name] for name in stream.sketches if name in FAMILIES]
    if all(family.abilities.forgives_repeats for family in families):
        return "An event that several sources reported counts once."
    return "An event that several sources reported counts once or several times, depending on the family that answers."


def _stream_bound() -> dict[str, Any]:
    bound = session.bound("stream")
    return {"key": bound["key"], "on_change": _take_stream, "args": (bound["key"],)}


def _take_stream(key: str) -> None:
    """Show another stream: it has other sources, values and units, but the decay stays."""
    st.session_state["problems"] = []
    session.change(
        stream=st.session_state[key], source=(), other="", value="", tau="", low="", high="", family="", as_of=NEWEST
    )
    st.session_state["fitted"] = None


def aggregate(answers: AnswerCache, stream: StoredStream) -> None:
    """The aggregate, and the parameters that it needs."""
    view = session.view()
    st.selectbox(
        "Aggregate",
        aggregates_of(stream),
        format_func=lambda name: wording.AGGREGATES[name].label,
        help="What is computed from the events that count. The most frequent values have a page of their own.",
        **session.bound("aggregate"),
    )
    needed = PARAMETERS.get(view.aggregate, ())
    if view.aggregate in OF and not is_keyed(stream):
        st.segmented_control(
            "Of",
            ["weight", "value"],
            required=True,
            help="The weight column of the stream, or its value column.",
            **session.bound("of"),
        )
    if "tau" in needed:
        tau(answers)
    if "phi" in needed:
        st.slider("φ", 0.01, 0.99, step=0.01, help="The share of the weight at or below the value.", **_phi())
    if "value" in needed:
        session.text("Value", "value", str.strip, placeholder="a value, exactly as it is in the data")
    if "low" in needed:
        left, right = st.columns(2)
        with left:
            session.text("From", "low", check_number, placeholder="least")
        with right:
            session.text("To", "high", check_number, placeholder="greatest")
    if "other" in needed:
        names = stream.sources
        st.selectbox("Second source", names, index=None, **_other(names))


def _phi() -> dict[str, Any]:
    bound = session.bound("phi")
    session.put(bound["key"], min(0.99, max(0.01, round(session.view().phi, 2))))
    return bound


def _other(names: list[str]) -> dict[str, Any]:
    bound = session.bound("other")
    session.put(bound["key"], session.view().other if session.view().other in names else None)
    return bound


def tau(answers: AnswerCache, place: str = "") -> None:
    """The threshold: typed, or chosen among the stored values by a slider."""
    view = session.view()
    session.text(
        "Threshold τ",
        "tau",
        check_tau,
        placeholder="a number, median, or q0.9",
        help="Only events with a value of at least τ count. It may itself be an aggregate: `median`, or a quantile "
        "like `q0.9`.",
    )
    try:
        steps = answers.steps(view)
        current = float(view.tau) if view.tau else None
    except (WaneError, ValueError):
        return
    if len(steps) < 2:
        return
    key = f"tau slider@{place}"
    options = sorted({*steps, *([current] if current is not None and math.isfinite(current) else [])})
    session.put(key, current if current in options else options[len(options) // 2])
    st.select_slider(
        "τ among the stored values",
        options,
        format_func=number_text,
        key=key,
        on_change=_take_tau,
        args=(key,),
        label_visibility="collapsed",
    )


def _take_tau(key: str) -> None:
    session.change(tau=f"{st.session_state[key]:.12g}")


def window() -> None:
    """The age from which on events count nothing."""
    view = session.view()
    options = _with(WINDOWS, view.window)
    st.selectbox(
        "Window",
        options,
        format_func=lambda text: f"the last {human_duration(parse_duration(text))}" if text else "no limit",
        accept_new_options=True,
        help="Older events count nothing, whatever the fading is. Without fading this is a sliding window. Choose one, "
        "or type a length such as 90m.",
        **_duration_bound("window"),
    )
    _complaint("window")


def _duration_bound(name: str) -> dict[str, Any]:
    bound = session.bound(name)
    return {"key": bound["key"], "on_change": _take_duration, "args": (name, bound["key"])}


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
    session.put(key, "a time" if pinned else "newest event")
    st.segmented_control(
        "As of",
        ["newest event", "a time"],
        required=True,
        key=key,
        on_change=_take_pin,
        args=(key, shown.isoformat(timespec="minutes") if shown.microsecond or shown.second else shown.isoformat()),
        help="The age of an event is counted back from here. Newer events do not count.",
        width="stretch",
    )
    if pinned:
        key = "as-of time"
        now = datetime.now(zone)  # Streamlit's first value, so it must be in the range
        least = _sooner(min(oldest, now), timedelta(days=1))
        most = _later(max(newest, shown, now), timedelta(days=366))
        # In whole minutes, as the widget sends it back: otherwise it would report a change that nobody made.
        session.put(key, shown.replace(tzinfo=None, second=0, microsecond=0))
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


def span(answers: AnswerCache, stream: StoredStream) -> float:
    """How far back the chart goes, in seconds."""
    view = session.view()
    known = answers.extent(view, stream)
    whole = 0.0 if known is None else (known[1] - known[0]) * stream.unit.numerator / stream.unit.denominator
    shorter = [text for text in SPANS if text and parse_duration(text) < whole]
    st.select_slider(
        "Chart shows",
        _with([*shorter[-6:], ""], view.span),
        format_func=lambda text: f"last {human_duration(parse_duration(text))}" if text else "all",
        help="How much time the chart shows. It changes no answer.",
        **session.bound("span"),
    )
    return parse_duration(view.span) if view.span else math.inf


def _with(options: tuple[str, ...] | list[str], current: str) -> list[str]:
    """The options with the current one among them, in the order of their length. An empty one stays first or last."""
    if current in options:
        return list(options)
    filled = sorted([*(text for text in options if text), current], key=parse_duration)
    return ["", *filled] if options[0] == "" else [*filled, ""]


def display(stream: StoredStream | None) -> None:
    """Time zone, confidence, family, and whether the page follows the store."""
    view = session.view()
    with st.expander("Display", icon=":material/tune:"):
        local = st.context.timezone
        zones = _zones()
        first = ["UTC", *([local] if local in zones else [])]
        st.selectbox("Time zone", first + [name for name in zones if name not in first], **session.bound("zone"))
        if stream is not None:
            st.selectbox(
                "Confidence",
                sorted({0.0, 0.8, 0.9, 0.95, 0.99, 0.999, view.confidence}),
                format_func=lambda share: percent_text(share) if share else "as the sketches planned",
                help="The probability with which an interval holds the exact answer.",
                **session.bound("confidence"),
            )
            if len(stream.sketches) > 1:
                st.selectbox(
                    "Family",
                    ["", *sorted(stream.sketches)],
                    format_func=lambda name: name or "wane picks",
                    help="Which kind of sketch answers.",
                    **session.bound("family"),
                )
        st.toggle("Refresh by itself", help="Redraw when an ingest run has committed.", **session.bound("refresh"))


@cache
def _zones() -> list[str]:
    return sorted(available_timezones() - {"UTC"})


def half_lives(current: float) -> list[str]:
    """Durations for a slider, with the current one among them."""
    return sorted({*DURATIONS, format_duration(current)}, key=parse_duration)
