"""The view of a session: read from the address once, changed by widgets, written back to the address.

A widget shows what the view says and changes it in its callback, before the page is drawn again; so a preset, a click
in a chart and a copied address all move every widget along. What cannot be taken stays in its box with the reason.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import streamlit as st

from dashboard import words
from dashboard.view import View, fitting, from_parameters, to_parameters
from sketches.errors import WaneError
from store.catalogue import Catalogue


def view() -> View:
    """What this session looks at."""
    found: View = st.session_state["view"]
    return found


def change(**choices: Any) -> None:
    """Look at something else."""
    st.session_state["view"] = replace(view(), **choices)
    for name in choices:
        forget_draft(name)


def begin(catalogue: Catalogue) -> list[str]:
    """Bring the session in line with its address and with the store; what did not fit comes back as sentences."""
    given = _address()
    # A widget that was moved on quickly sends the address from before its last move: another address is one that was
    # opened or gone back to only where nothing has changed here since.
    touched = st.session_state.get("view") != st.session_state.get("published view")
    moved = bool(given) and given != st.session_state.get("published") and not touched
    if "view" not in st.session_state or moved:
        st.session_state["drafts"] = {}
        st.session_state["view"], problems = from_parameters(given, catalogue)
        st.session_state["problems"] = problems
    elif view().stream not in catalogue.streams or catalogue.generation != st.session_state.get("fitted"):
        st.session_state["view"], st.session_state["problems"] = fitting(view(), catalogue)
    st.session_state["fitted"] = catalogue.generation
    return list(st.session_state["problems"])


def publish() -> None:
    """Put the view into the address, so that a copied link shows the same."""
    wanted = to_parameters(view())
    if wanted != _address():
        st.query_params.from_dict(wanted)
    st.session_state["published"] = wanted
    st.session_state["published view"] = view()


def _address() -> dict[str, list[str]]:
    return {key: st.query_params.get_all(key) for key in st.query_params}


def bound(name: str, place: str = "") -> dict[str, Any]:
    """The arguments that tie a widget to a choice of the view."""
    key = f"{name}@{place}"
    value = getattr(view(), name)
    put(key, list(value) if isinstance(value, tuple) else value)
    return {"key": key, "on_change": _take, "args": (name, key)}


def put(key: str, value: Any) -> None:
    """Have a widget show a value. One that shows it already is left alone: it may have been moved on since, and a value
    that is put there again would drop that move on its way here."""
    if key not in st.session_state or st.session_state[key] != value:
        st.session_state[key] = value


def _take(name: str, key: str) -> None:
    value = st.session_state[key]
    st.session_state["problems"] = []
    if value is not None:
        change(**{name: tuple(value) if isinstance(value, list) else value})


def text(label: str, name: str, check: Callable[[str], Any], shown: str | None = None, **options: Any) -> None:
    """A box for text that becomes a choice once it passes its check; until then it keeps the text and says why.

    What `check` gives is the choice, or a whole view.
    """
    drafts: dict[str, tuple[str, str]] = st.session_state["drafts"]
    draft, complaint = drafts.get(name, (getattr(view(), name) if shown is None else shown, ""))
    key = f"{name}@text"
    put(key, draft)
    st.text_input(label, key=key, on_change=_take_text, args=(name, key, check), **options)
    if complaint:
        st.error(words.safe(complaint), icon=":material/block:")


def _take_text(name: str, key: str, check: Callable[[str], Any]) -> None:
    typed = st.session_state[key]
    st.session_state["problems"] = []
    try:
        found = check(typed)
    except WaneError as error:
        st.session_state["drafts"][name] = (typed, str(error))
        return
    if isinstance(found, View):
        st.session_state["view"] = found
        forget_draft(name)
    else:
        change(**{name: found})


def forget_draft(name: str) -> None:
    """What was typed there and refused is no longer wanted."""
    st.session_state["drafts"].pop(name, None)
