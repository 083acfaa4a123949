"""What every page offers to pass on: its link, its view under a name, its question as a panel of a board."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import streamlit as st

from dashboard import wording
from dashboard.asking import session
from dashboard.asking.address import to_parameters
from dashboard.asking.answer_cache import AnswerCache
from dashboard.boards.board_folder import BoardFolder
from dashboard.boards.desk import desk
from dashboard.boards.editor import add_panel
from dashboard.boards.saved_views import LONGEST_NAME, SavedView, check_name
from dashboard.parts import links
from sketches.errors import WaneError
from store.serving.catalogue import Catalogue

SHOWN_BY: Final = {
    "explore": "line",
    "leaderboard": "groups",
    "top-values": "top-values",
    "distribution": "distribution",
}


def visible_boards(answers: AnswerCache, catalogue: Catalogue, *, whole: bool = False) -> list[str]:
    """The boards of which the reader may see something; with `whole`, everything."""
    folder = BoardFolder(desk.folder(answers.path))
    if answers.streams is None:
        return folder.names()
    found = []
    for name in folder.names():
        try:
            board = folder.read(name)[0]
        except WaneError:  # whoever may see all streams is told
            continue
        seen = len(board.seen_by(catalogue, limited=True))
        if seen and (not whole or seen == len(board.panels)):
            found.append(name)
    return found


def visible_views(answers: AnswerCache, catalogue: Catalogue) -> Mapping[str, SavedView]:
    """The saved views of streams that the reader may see."""
    views = BoardFolder(desk.folder(answers.path)).views()
    return {name: view for name, view in views.items() if view.stream in catalogue.streams}


def menu(answers: AnswerCache, catalogue: Catalogue, page: str, *, editor: bool) -> None:
    """Saved views, and what can be done with this one. What is in a box is drawn once it is opened."""
    with st.container(horizontal=True):
        views = st.popover("Views", icon=":material/bookmark:", help="Saved views", key="views", on_change="rerun")
        told = "Copy a link, or put this on a board" if editor else "Copy a link"
        share = st.popover("Share", icon=":material/share:", help=told, key="share", on_change="rerun")
    if views.open:
        with views:
            _views(answers, catalogue, page, editor=editor)
    if share.open:
        with share:
            _share(answers, catalogue, page, editor=editor)


def _share(answers: AnswerCache, catalogue: Catalogue, page: str, *, editor: bool) -> None:
    view = session.view()
    links.box(links.view_links(page if page != "explore" else "", view, catalogue.streams[view.stream]), "view")
    if editor and page in SHOWN_BY:
        st.markdown("**Add to a board**")
        folder = BoardFolder(desk.folder(answers.path))
        add_panel(folder, visible_boards(answers, catalogue, whole=True), view, SHOWN_BY[page])


def _views(answers: AnswerCache, catalogue: Catalogue, page: str, *, editor: bool) -> None:
    folder = BoardFolder(desk.folder(answers.path))
    try:
        views = visible_views(answers, catalogue)
    except WaneError as error:
        st.warning(wording.safe(wording.as_sentence(error)), icon=":material/rule:")
        return
    pages = st.session_state.get("pages", {})
    for name, saved in sorted(views.items()):
        with st.container(horizontal=True, vertical_alignment="center"):
            if (target := pages.get(saved.page)) is not None:
                st.page_link(target, label=wording.safe(name), query_params=_parameters(saved))
            if editor:
                key = f"forget view {name}"
                st.button("Forget", icon=":material/delete:", key=key, on_click=_forget, args=(folder, name))
    if not views:
        hint = "" if editor else f" They stand in {wording.quoted(folder.path / 'saved-views.toml')}."
        st.caption(f"No view is saved yet.{hint}")
    if editor:
        _save(folder, page)


def _parameters(saved: SavedView) -> dict[str, list[str]]:
    return session.linked({name: list(texts) for name, texts in saved.given.items()})


def _save(folder: BoardFolder, page: str) -> None:
    with st.form("save view", border=False, clear_on_submit=True):
        name = st.text_input("Save this view as", max_chars=LONGEST_NAME, key="view name")
        if st.form_submit_button("Save", icon=":material/bookmark_add:"):
            try:
                given = {key: texts for key, texts in to_parameters(session.view()).items() if key != "refresh"}
                folder.save_view(check_name("the name", name.strip()), SavedView(page, given))
                st.rerun()
            except WaneError as error:
                st.error(wording.safe(wording.as_sentence(error)), icon=":material/block:")


def _forget(folder: BoardFolder, name: str) -> None:
    try:
        folder.remove_view(name)
    except WaneError as error:
        st.session_state["board problem"] = wording.as_sentence(error)
