"""Pickers of sources: all of them where they are few, else the largest, and any other by its name.

A page sends the names that a picker offers to the browser. Of ten thousand and more that is a megabyte, and nobody
looks through so many.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import streamlit as st

from dashboard.asking import session
from dashboard.asking.view import largest_sources
from dashboard.wording import quoted
from store.serving.catalogue import StoredStream

LISTED: Final = 1000


def pick_sources(stream: StoredStream, place: str = "", **more: Any) -> None:
    """Choose any number of them."""
    bound = session.bound("source", place)
    if len(stream.sources) <= LISTED:
        session.show(st.multiselect, "Sources", stream.sources, **more, **bound)
        return
    more["help"] = f"{more.get('help', '')} {_hint(stream)}".strip()
    typed: dict[str, Any] = {"on_change": _take, "args": ("source", bound["key"], stream)}
    session.show(
        st.multiselect,
        "Sources",
        listed(stream, session.view().source),
        accept_new_options=True,
        **more,
        **bound | typed,
    )


def pick_source(label: str, name: str, stream: StoredStream) -> None:
    """Choose one of them, for a choice of the view."""
    bound = session.bound(name)
    if len(stream.sources) <= LISTED:
        shown = bound["shown"] if bound["shown"] in stream.by_source else None
        session.show(st.selectbox, label, stream.sources, **bound | {"shown": shown})
        return
    names = listed(stream, [bound["shown"]] if bound["shown"] else [])
    typed: dict[str, Any] = {"on_change": _take, "args": (name, bound["key"], stream)}
    shown = {"shown": bound["shown"] or None}
    session.show(st.selectbox, label, names, accept_new_options=True, help=_hint(stream), **bound | typed | shown)


def listed(stream: StoredStream, chosen: Sequence[str]) -> list[str]:
    """The largest sources, and those that are chosen, by name."""
    return sorted({*largest_sources(stream, LISTED), *chosen})


def _hint(stream: StoredStream) -> str:
    return f"The largest {LISTED:,} of {len(stream.sources):,} are listed; type the whole name of another."


def _take(name: str, key: str, stream: StoredStream) -> None:
    """Take what was chosen or typed, as far as the stream has it."""
    value = st.session_state[key]
    st.session_state["problems"] = []
    given = list(value) if isinstance(value, list) else [value] if value else []
    known = [one for one in given if one in stream.by_source]
    if unknown := [one for one in given if one not in stream.by_source]:
        sentence = f"{quoted(stream.name)} has no source {quoted(', '.join(unknown[:3]))}."
        st.session_state["problems"] = [sentence]
    session.change(**{name: tuple(known) if isinstance(value, list) else next(iter(known), "")})
