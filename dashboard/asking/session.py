"""The view of a session: read from the address once, changed by widgets, written back to the address.

A widget shows what the view says, and changes the view in its callback, before the page is drawn again. So a preset, a
click in a chart and a copied address all move every widget. Text that is refused stays in its box, with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from dashboard import wording
from dashboard.asking.address import from_parameters, to_parameters
from dashboard.asking.view import View, fitting, with_own_columns, with_own_decay
from sketches.errors import WaneError
from store.serving.catalogue import Catalogue

LINKED: Final = "linked"  # a parameter of the links in a page: an address with it was never published
PUBLISHED: Final = 50  # addresses that a session remembers


def view() -> View:
    """What this session shows."""
    found: View = st.session_state["view"]
    return found


def change(**choices: Any) -> None:
    """Change some choices of the view."""
    st.session_state["view"] = replace(view(), **choices)
    for name in choices:
        forget_draft(name)


def is_first_sight() -> bool:
    """Whether this session began without a view of somebody in its address."""
    return bool(st.session_state.get("first sight"))


def pause() -> None:
    """Give way to a change that came meanwhile: at each use of its state Streamlit abandons a page that is not wanted
    any more, and draws the next one."""
    st.session_state.get("view")


def begin(catalogue: Catalogue, *, opened: bool = True) -> list[str]:
    """Bring the view in line with the address and with the store. What did not fit comes back as sentences. A page that
    was not `opened` by a view has another address."""
    given = _address() if opened else {}
    follows = given.pop(LINKED, None) is not None
    if opened and "view" not in st.session_state:
        st.session_state["first sight"] = not given
    if "view" not in st.session_state or follows or _is_opened(given):
        st.session_state["drafts"] = {}
        st.session_state["view"], problems = from_parameters(given, catalogue)
        st.session_state["problems"] = problems
    elif view().stream not in catalogue.streams or catalogue.name != st.session_state.get("fitted"):
        st.session_state["view"], st.session_state["problems"] = fitting(view(), catalogue)
    st.session_state["fitted"] = catalogue.name
    if view().stream in catalogue.streams:  # a widget may have chosen what does not go with other choices
        stream = catalogue.streams[view().stream]
        st.session_state["view"], more = with_own_decay(with_own_columns(view(), stream), stream)
        st.session_state["problems"] += more
    return list(st.session_state["problems"])


def publish() -> None:
    """Write the view into the address, so that a copied link shows the same."""
    wanted = to_parameters(view())
    published = st.session_state.setdefault("published", [])
    if published[-1:] != [wanted] or wanted != _address():  # the browser may have either
        st.query_params.from_dict(wanted)
    if published[-1:] != [wanted]:
        published.append(wanted)
        del published[:-PUBLISHED]


def linked(given: Mapping[str, list[str]]) -> dict[str, list[str]]:
    """The parameters of a link in a page, which shows its view also where the session has shown it not long ago."""
    return {**given, LINKED: ["on"]}


def _is_opened(given: dict[str, list[str]]) -> bool:
    """Whether somebody opened an address, or went back to it.

    A browser tells its address with every move of a widget. Of two quick moves the second comes with the address from
    before the first: such an address was published not long ago, and nobody opened it.
    """
    published = st.session_state.get("published", [])
    if not given or given in published[-1:]:
        return False
    context = get_script_run_ctx()
    return given not in published or (context is not None and context.is_history_navigation)


def _address() -> dict[str, list[str]]:
    return {key: st.query_params.get_all(key) for key in st.query_params}


def bound(name: str, place: str = "") -> dict[str, Any]:
    """The arguments of `show` for a widget that is bound to a choice of the view; `place` tells apart widgets for the
    same choice."""
    key = f"{name}@{place}"
    value = getattr(view(), name)
    shown = list(value) if isinstance(value, tuple) else value
    return {"shown": shown, "key": key, "on_change": _take, "args": (name, key)}


def segments(label: str, names: Mapping[str, str], choice: str, **more: Any) -> None:
    """A row of buttons for a choice of the view: its values with what each is called; the first where the choice is not
    offered here."""
    bind = bound(choice)
    bind["shown"] = bind["shown"] if bind["shown"] in names else next(iter(names))
    show(
        st.segmented_control,
        label,
        list(names),
        format_func=names.__getitem__,
        required=True,
        label_visibility="collapsed",
        **more,
        **bind,
    )


def show(widget: Callable[..., Any], label: str, *given: Any, shown: Any, key: str, **more: Any) -> None:
    """Draw a widget that shows a value. A widget that shows it already is left alone: it may have been moved
    meanwhile, and the move would be lost if its value were set again.

    The value is also what the widget begins with. A browser that draws a page twice in quick succession can lose a
    value that was only set; it would go back to where the widget begins, and report that as a choice.
    """
    if key not in st.session_state or st.session_state[key] != shown:
        st.session_state[key] = shown
    name = widget.__name__
    if name == "selectbox":
        begins = {"index": given[0].index(shown) if shown in given[0] else None}
    elif name in ("segmented_control", "pills", "multiselect"):
        begins = {"default": shown}
    else:
        begins = {"value": shown}
    widget(label, *given, key=key, **begins, **more)


def _take(name: str, key: str) -> None:
    value = st.session_state[key]
    st.session_state["problems"] = []
    if value is not None:
        change(**{name: tuple(value) if isinstance(value, list) else value})


def text(label: str, name: str, check: Callable[[str], Any], shown: str | None = None, **options: Any) -> None:
    """A box for text. The text becomes a choice if `check` accepts it; if not, it stays in the box with the reason.

    `check` gives the choice, or a whole view.
    """
    drafts: dict[str, tuple[str, str]] = st.session_state["drafts"]
    draft, complaint = drafts.get(name, (getattr(view(), name) if shown is None else shown, ""))
    key = f"{name}@text"
    show(st.text_input, label, shown=draft, key=key, on_change=_take_text, args=(name, key, check), **options)
    if complaint:
        st.error(wording.safe(complaint), icon=":material/block:")


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
    """Forget the refused text of a box."""
    st.session_state["drafts"].pop(name, None)
