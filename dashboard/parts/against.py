"""What the answers of groups are compared with: another decay, or a time before; one click for what is asked most."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import streamlit as st

from dashboard import wording
from dashboard.asking import session
from dashboard.asking.view import View
from sketches.decay import parse_decay
from sketches.durations import human_duration, parse_duration
from store.serving.catalogue import StoredStream
from store.serving.timeline import extent

AGAINST: Final = {"decays": "Against another decay", "times": "Against a time before"}
SHIFTS: Final = ("1h", "1d", "7d", "28d")
PAIRS: Final = (("15m", "1h"), ("1h", "6h"), ("1h", "1d"), ("1d", "7d"), ("7d", "28d"), ("28d", "364d"))
OFFERED: Final = 3
WORDS: Final = {
    "15m": "15 minutes",
    "1h": "hour",
    "6h": "6 hours",
    "1d": "day",
    "7d": "week",
    "28d": "4 weeks",
    "364d": "52 weeks",
}


def presets(view: View, stream: StoredStream) -> None:
    """The last of the time against more of it, in one click: those that fit the stream."""
    offered = fitting(stream)
    if not offered:
        return
    key = "pair@board"
    named = {pair_name(pair): pair for pair in offered}
    session.show(
        st.pills,
        "Compare",
        list(named),
        shown=next((name for name, pair in named.items() if _is_shown(view, pair)), None),
        key=key,
        on_change=_take_pair,
        args=(key, named),
    )


def fitting(stream: StoredStream) -> list[tuple[str, str]]:
    """The longest pairs of windows that the stream covers."""
    oldest, newest = extent(stream) or (0, 0)
    seconds = (newest - oldest) * stream.unit.numerator / stream.unit.denominator
    return [pair for pair in PAIRS if parse_duration(pair[1]) <= 1.05 * seconds][-OFFERED:]


def pair_name(pair: tuple[str, str]) -> str:
    """A pair of windows as people say it."""
    return f"last {WORDS[pair[0]]} against last {WORDS[pair[1]]}"


def human(duration: str) -> str:
    return human_duration(parse_duration(duration))


def _is_shown(view: View, pair: tuple[str, str]) -> bool:
    other = parse_decay(view.against[0]).spec if view.against else ""
    windows = [parse_decay(f"window:{one}").spec for one in pair]
    return view.compare == "decays" and [view.fading.spec, other] == windows


def _take_pair(key: str, named: Mapping[str, tuple[str, str]]) -> None:
    if (name := st.session_state[key]) is not None:
        short, long = (parse_decay(f"window:{one}") for one in named[name])
        session.change(compare="decays", against=(long.spec,))
        st.session_state["view"] = session.view().with_fading(short)


def choices(view: View, first: Any, second: Any) -> None:
    """The same by hand, in two places of a row."""
    with first:
        key = "against@board"
        session.show(
            st.selectbox,
            "Change",
            list(AGAINST),
            format_func=AGAINST.__getitem__,
            shown=view.compare if view.compare in AGAINST else "decays",
            key=key,
            on_change=_take_against,
            args=(key,),
        )
    with second:
        if view.compare == "times":
            key = "shift@board"
            chosen = view.shift[0] if view.shift else SHIFTS[1]
            session.show(
                st.selectbox,
                "So long before",
                [*SHIFTS, *([chosen] if chosen not in SHIFTS else [])],
                format_func=human,
                shown=chosen,
                key=key,
                on_change=_take_shift,
                args=(key,),
            )
        else:
            session.text(
                "The other decay",
                "against 0",
                _with_decay,
                shown=view.against[0] if view.against else "none",
                placeholder="none",
                help="A decay as `wane query --decay` takes it, such as `window:28d`.",
            )


def _take_against(key: str) -> None:
    session.change(compare=st.session_state[key])


def _take_shift(key: str) -> None:
    session.change(shift=(st.session_state[key],))


def _with_decay(typed: str) -> View:
    spec = parse_decay(typed.strip() or "none").spec
    return replace(session.view(), against=(spec, *session.view().against[1:]))


def other_side(view: View, stream: StoredStream) -> tuple[str, View]:
    """What the answers are compared with, in words, and its view."""
    if view.compare != "times":
        other = view.with_fading(parse_decay(view.against[0] if view.against else "none"))
        return wording.decay_label(other.fading), other
    shift = view.shift[0] if view.shift else SHIFTS[1]
    units = round(parse_duration(shift) * stream.unit.denominator / stream.unit.numerator)
    now = view.moment(stream.unit)
    at = (stream.as_of() or 0) if now is None else now
    return f"{human(shift)} before", replace(view, as_of=str(at - units))
