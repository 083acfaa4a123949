"""What changes boards in the browser. Each change names the content it was made on, and is refused on any other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import streamlit as st

from dashboard import wording
from dashboard.asking.address import to_parameters
from dashboard.asking.view import View
from dashboard.boards.board import LONGEST_NOTE, LONGEST_TITLE, MOST_COLUMNS, MOST_PANELS, SHOWS, Board, Panel
from dashboard.boards.board_file import with_head
from dashboard.boards.board_folder import NAMED, BoardFolder
from dashboard.boards.toml_text import BoardError
from sketches.errors import WaneError


def new_board(folder: BoardFolder) -> None:
    """A name for a new board."""
    with st.form("new board", border=False, clear_on_submit=True):
        name = st.text_input("Name", key="new board name", max_chars=64, help=f"It must have {NAMED}.")
        if st.form_submit_button("Create", icon=":material/add:") and _done(
            lambda: folder.create(name.strip(), Board(name.strip()))
        ):
            st.query_params["board"] = name.strip()
            st.session_state["editing board"] = True
            st.rerun()


def board_menu(folder: BoardFolder, name: str, board: Board, content: str) -> None:
    """Title, columns, and the end of a board."""
    key = f"{name} {content}"
    with st.form(f"board {key}", border=False):
        title = st.text_input("Title", board.title, max_chars=LONGEST_TITLE, key=f"title {key}")
        columns = st.slider("Columns", 1, MOST_COLUMNS, board.columns, key=f"columns {key}")
        if st.form_submit_button("Save", icon=":material/save:"):
            _change(folder, name, content, lambda now: with_head(now, title=title, columns=columns))
            st.rerun()
    with st.popover("Remove this board", icon=":material/delete:", width="stretch"):
        st.markdown(f"The file of **{wording.safe(name)}** is removed for good.")
        if st.button("Remove it", key=f"remove {key}"):
            _done(lambda: folder.remove(name, content))
            st.query_params.pop("board", None)
            st.rerun()


def panel_menu(folder: BoardFolder, name: str, board: Board, number: int, content: str) -> None:
    """What one panel is called, what it shows, how wide it is, and where it stands."""
    panel, key = board.panels[number], f"{number} {name} {content}"
    with st.container(horizontal=True):
        moves = (("Earlier", ":material/arrow_back:", number - 1), ("Later", ":material/arrow_forward:", number + 1))
        for label, icon, to in moves:
            st.button(
                label,
                icon=icon,
                key=f"{label} {key}",
                disabled=not 0 <= to < len(board.panels),
                on_click=_change,
                args=(folder, name, content, lambda now, to=to: moved(now, number, to)),
            )
        st.button(
            "Remove",
            icon=":material/delete:",
            key=f"drop {key}",
            on_click=_change,
            args=(folder, name, content, lambda now: without(now, number)),
        )
        with st.popover("Edit", icon=":material/edit:"), st.form(f"panel {key}", border=False):
            title = st.text_input("Title", panel.title, max_chars=LONGEST_TITLE, key=f"panel title {key}")
            kinds = list(SHOWS)
            at = kinds.index(panel.shows)
            shows = st.selectbox("Shows", kinds, at, format_func=SHOWS.__getitem__, key=f"shows {key}")
            width = st.slider("Columns wide", 1, MOST_COLUMNS, panel.width, key=f"width {key}")
            note = st.text_area("Note", panel.note, max_chars=LONGEST_NOTE, key=f"note {key}")
            if st.form_submit_button("Save", icon=":material/save:"):
                changed = replace(panel, title=title, shows=shows, width=width, note=note, text="")
                _change(folder, name, content, lambda now: with_panel(now, number, changed))
                st.rerun()


def add_panel(folder: BoardFolder, names: list[str], view: View, shows: str) -> None:
    """Put what a page shows on a board, as a new panel or in the place of one."""
    if not names:
        st.caption("There are no boards yet: the page Boards makes one.")
        return
    with st.form("add panel", border=False):
        name = st.selectbox("Board", names, key="add to board")
        title = st.text_input("Title of the panel", key="add title", max_chars=LONGEST_TITLE,
                              placeholder="the question in words")  # fmt: skip
        kinds = list(SHOWS)
        chosen = st.selectbox("Shows", kinds, kinds.index(shows), format_func=SHOWS.__getitem__, key="add shows")
        if st.form_submit_button("Add", icon=":material/add:"):
            given = {key: texts for key, texts in to_parameters(view).items() if key not in ("refresh",)}
            panel = Panel(given, title.strip(), chosen)
            if _done(lambda: folder.change(name, "", lambda now: with_new(now, panel))):
                st.success(f"It is on the board {wording.safe(name)}.", icon=":material/check:")
            else:
                st.error(wording.safe(st.session_state.pop("board problem")), icon=":material/block:")


def moved(board: Board, number: int, to: int) -> Board:
    """The board with one panel in another place."""
    panels = list(board.panels)
    panels.insert(to, panels.pop(number))
    return replace(board, panels=tuple(panels))


def without(board: Board, number: int) -> Board:
    """The board without one panel."""
    return replace(board, panels=(*board.panels[:number], *board.panels[number + 1 :]))


def with_panel(board: Board, number: int, panel: Panel) -> Board:
    """The board with another panel in the place of one."""
    return replace(board, panels=(*board.panels[:number], panel, *board.panels[number + 1 :]))


def with_new(board: Board, panel: Panel) -> Board:
    """The board with one more panel."""
    if len(board.panels) >= MOST_PANELS:
        raise BoardError(f"this board has {MOST_PANELS} panels already, and can have no more")
    return replace(board, panels=(*board.panels, panel))


def _change(folder: BoardFolder, name: str, content: str, change: Callable[[Board], Board]) -> None:
    _done(lambda: folder.change(name, content, change))


def _done(act: Callable[[], None]) -> bool:
    """Do something that may be refused; the page then says why."""
    try:
        act()
    except WaneError as error:
        st.session_state["board problem"] = wording.as_sentence(error)
        return False
    return True
