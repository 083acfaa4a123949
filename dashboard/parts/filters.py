"""The filter of a view as chips: a click on a group adds its condition, a click on a chip removes it."""

from __future__ import annotations

from typing import Any

import streamlit as st

from dashboard import wording
from dashboard.asking import session
from dashboard.asking.view import View
from sketches.errors import WaneError
from sketches.estimate import Group
from sketches.predicate import Predicate, Term
from store.serving.catalogue import StoredStream
from store.serving.resolving import columns_of
from store.serving.split_answer import SOURCE, is_in_group


def chips(stream: StoredStream) -> None:
    """One button for each condition of the filter, and one for each chosen source; a click removes it."""
    view = session.view()
    terms = conditions(view, stream)
    sources = view.source if len(view.source) <= 3 else ()
    if not terms and not sources:
        return
    with st.container(horizontal=True, key="chips"):
        for number, source in enumerate(sources):
            _chip(f"source = {source}", f"source {number}", _without_source, source)
        for number, term in enumerate(terms):
            _chip(in_own_names(str(term), stream), f"where {number}", _without, number, stream)
        if len(terms) + len(sources) > 1:
            st.button("Clear all", key="chip all", type="tertiary", on_click=_clear)


def _chip(text: str, key: str, act: Any, *given: Any) -> None:
    name = text if len(text) <= 60 else f"{text[:60]}…"
    st.button(
        wording.safe(name),
        key=f"chip {key}",
        icon=":material/close:",
        help="Remove this filter",
        on_click=act,
        args=given,
    )


def conditions(view: View, stream: StoredStream) -> list[Term]:
    """The conditions of the filter, all of which must hold."""
    try:
        return list(view.predicate(stream).parts())
    except WaneError:
        return []


def in_own_names(text: str, stream: StoredStream) -> str:
    """The text of one condition, with the name that the stream has for its column."""
    for name, column in columns_of(stream).names.items():
        if text.startswith(f"{column} "):
            return f"{name}{text.removeprefix(column)}"
    return text


def narrowed(view: View, stream: StoredStream, group: Group) -> dict[str, Any]:
    """What changes where a view that is split shows only one of its groups."""
    if view.by == SOURCE:
        return {"source": (str(group),), "by": ""}
    also = Predicate.all_of([is_in_group(view.by, group)])
    return {"where": str(view.predicate(stream).and_also(also)), "by": ""}


def narrow(stream: StoredStream, group: Group) -> None:
    """Show only one group; a condition that contradicts the filter changes nothing but says so."""
    try:
        session.change(**narrowed(session.view(), stream, group))
    except WaneError as error:
        st.session_state["problems"] = [str(error)]


def _without(number: int, stream: StoredStream) -> None:
    terms = conditions(session.view(), stream)
    kept = [term for at, term in enumerate(terms) if at != number]
    session.change(where=str(Predicate.all_of(kept)) if kept else "")


def _without_source(source: str) -> None:
    session.change(source=tuple(name for name in session.view().source if name != source))


def _clear() -> None:
    session.change(where="", source=())
