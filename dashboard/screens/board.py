"""The page Boards: saved panels on one page, each with its own question; with `?kiosk` nothing else is on it."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from typing import Any, Final

import streamlit as st

from dashboard import wording
from dashboard.asking import session
from dashboard.asking.address import parameter_text, to_parameters
from dashboard.asking.answer_cache import AnswerCache
from dashboard.asking.view import NEWEST
from dashboard.boards.board import Board, Panel
from dashboard.boards.board_folder import BoardFolder
from dashboard.boards.desk import desk
from dashboard.boards.editor import board_menu, new_board, panel_menu
from dashboard.boards.export import page_of
from dashboard.boards.panels import Drawn, asked_together
from dashboard.boards.sharing import visible_boards
from dashboard.boards.toml_text import BoardError
from dashboard.door.roles import ROLE
from dashboard.parts import components, links, notices
from sketches.errors import WaneError
from sketches.formatting import counted
from sketches.units import SECOND
from store.serving.catalogue import Catalogue
from store.serving.timeline import read_moment

PAUSE: Final = 0.1  # seconds between looks at whether the page is still wanted
PAGE_OF: Final = {"top-values": "top-values", "distribution": "distribution"}  # all others are on Explore
KIOSK: Final = """<style>
[data-testid=stHeader], [data-testid=stSidebar], [data-testid=stSidebarCollapsedControl],
[data-testid=stExpandSidebarButton], [data-testid=stToolbar] {display: none !important}
[data-testid=stMainBlockContainer] {padding: 1rem 1.5rem !important; max-width: none !important}
</style>"""


@dataclass(frozen=True, slots=True)
class Opened:
    """A board that is shown: what its address says, and what its file held."""

    name: str
    board: Board
    panels: tuple[Panel, ...]  # those that the reader may see
    content: str  # the name of the file's content
    as_of: str
    editing: bool


def is_kiosk() -> bool:
    """Whether the page is for a wall screen."""
    return "kiosk" in st.query_params


def state(answers: AnswerCache) -> tuple[object, ...]:
    """What changes when the board that is shown does."""
    folder = BoardFolder(desk.folder(answers.path))
    return (folder.state(st.query_params.get("board", "")), *folder.names())


def page(answers: AnswerCache, catalogue: Catalogue) -> None:
    folder = BoardFolder(desk.folder(answers.path))
    kiosk = is_kiosk()
    if kiosk:
        st.html(KIOSK)
    editor = desk.may_edit(st.context.headers.get(ROLE)) and not kiosk
    _read_refresh()
    if (problem := st.session_state.pop("board problem", None)) is not None:
        st.warning(wording.safe(problem), icon=":material/sync_problem:")
    names = visible_boards(answers, catalogue)
    name = _chosen(names)
    if not name:
        _nothing_yet(folder, editor=editor)
        return
    opened = _open(answers, folder, name, catalogue, editor=editor)
    if not kiosk:
        with st.sidebar:
            _sidebar(answers, folder, names, name, opened, catalogue, editor=editor)
    if opened is None:
        return
    st.markdown(f"#### {wording.safe(opened.board.title or name)}")
    if opened.as_of != NEWEST:
        st.caption(f":material/push_pin: Pinned: all panels are as of {wording.safe(opened.as_of)}.")
    hidden = len(opened.board.panels) - len(opened.panels)
    if hidden:
        st.caption(f"{counted(hidden, 'panel')} of streams that you may not see or that do not exist.")
    if not opened.board.panels:
        notices.empty(
            "This board has no panels yet",
            "Open Explore, Top values or Distribution, choose a question, and add it with *Add to a board* in the side "
            "bar."
            if editor
            else "Whoever may edit it can add panels.",
        )
    _panels(answers, catalogue, opened, folder, kiosk=kiosk)


def publish() -> None:
    """Write into the address which board is shown, and how; nothing else belongs to it."""
    wanted = {name: st.query_params.get_all(name) for name in ("board", "as-of", "kiosk") if name in st.query_params}
    if not session.view().refresh:
        wanted["refresh"] = ["off"]
    if wanted != {name: st.query_params.get_all(name) for name in st.query_params}:
        st.query_params.from_dict(wanted)
    st.session_state["published board"] = wanted


def _read_refresh() -> None:
    """Take from a new address whether the page follows the store."""
    given = {name: st.query_params.get_all(name) for name in st.query_params}
    if "refresh" in given and given != st.session_state.get("published board"):
        session.change(refresh=st.query_params["refresh"] != parameter_text(False))


def _chosen(names: Sequence[str]) -> str:
    """The board that the address names; without a name the last one that was shown, or the first."""
    asked = st.query_params.get("board", "")
    if asked and asked not in names:
        st.warning(f"There is no board {wording.quoted(asked)}.", icon=":material/link_off:")
        asked = ""
    last = st.session_state.get("last board", "")
    name = asked or (last if last in names else next(iter(names), ""))
    st.session_state["last board"] = name
    if name and st.query_params.get("board") != name:
        st.query_params["board"] = name
    return name


def _open(answers: AnswerCache, folder: BoardFolder, name: str, catalogue: Catalogue, *, editor: bool) -> Opened | None:
    try:
        board, content = folder.read(name)
    except BoardError as error:
        st.error(wording.safe(wording.as_sentence(error)), icon=":material/rule:")
        return None
    panels = board.seen_by(catalogue, limited=answers.streams is not None)
    editing = editor and len(panels) == len(board.panels) and bool(st.session_state.get("editing board"))
    return Opened(name, board, panels, content, _pinned(), editing)


def _pinned() -> str:
    """The time that the address pins all panels to; the newest where it does not, or where it is no time."""
    asked = st.query_params.get("as-of", NEWEST)
    try:
        if asked != NEWEST:
            read_moment(asked, SECOND)
    except WaneError as error:
        st.warning(f"The address asks for `as-of`: {wording.quoted(error)}.", icon=":material/link_off:")
        return NEWEST
    return asked


def _nothing_yet(folder: BoardFolder, *, editor: bool) -> None:
    if editor:
        notices.empty(
            "There are no boards yet",
            "A board is a page of panels, each with a question of its own. Give the first one a name, then add panels "
            "from the other pages.",
        )
        new_board(folder)
        return
    notices.empty(
        "There are no boards yet",
        f"A board is a page of panels. Each is a TOML file in {wording.quoted(folder.path)}, which docs/dashboard.md "
        "describes; with `--edit` it is made here, in the browser.",
        "wane dashboard --store wane.duckdb --edit",
    )


def _sidebar(
    answers: AnswerCache,
    folder: BoardFolder,
    names: list[str],
    name: str,
    opened: Opened | None,
    catalogue: Catalogue,
    *,
    editor: bool,
) -> None:
    key = "board@"
    session.show(st.selectbox, "Board", names, shown=name, key=key, on_change=_take_board, args=(key,))
    session.show(st.toggle, "Refresh by itself", help="Redraw when the store or the board has changed.",
                 **session.bound("refresh", "board"))  # fmt: skip
    if opened is not None:
        _share(answers, opened, catalogue)
        whole = len(opened.panels) == len(opened.board.panels)
        if editor and whole:
            st.toggle("Edit this board", key="editing board")
            if opened.editing:
                board_menu(folder, name, opened.board, opened.content)
        elif editor:
            st.caption("Some panels are not for you, so this board cannot be changed here.")
    if editor:
        with st.popover("New board", icon=":material/add:", width="stretch"):
            new_board(folder)


def _share(answers: AnswerCache, opened: Opened, catalogue: Catalogue) -> None:
    """Links to the board, to its wall screen, and the board as a file."""
    box = st.popover("Share", icon=":material/share:", width="stretch", key="share board", on_change="rerun")
    if not box.open:
        return
    with box:
        streams = [catalogue.streams[one.stream] for one in opened.panels if one.stream in catalogue.streams]
        moment = opened.as_of if opened.as_of != NEWEST else links.newest_of(streams)
        kiosk = st.checkbox("As a wall screen, without controls", key="link kiosk")
        base = {"board": [opened.name], **({"kiosk": [""]} if kiosk else {})}
        pinned = {**base, **({"as-of": [moment]} if moment != NEWEST else {})}
        links.box({links.FOLLOW: links.address("board", base), links.PIN: links.address("board", pinned)}, "board")
        st.download_button(
            "HTML file",
            lambda: page_of(answers, opened.board, opened.panels, catalogue, opened.as_of, opened.name),
            f"{opened.name}.html",
            "text/html",
            key="export board",
            on_click="ignore",
            icon=":material/download:",
            help="The board as it is now, in one file that needs no network",
        )


def _take_board(key: str) -> None:
    if (chosen := st.session_state[key]) is not None:
        st.query_params["board"] = chosen
        st.query_params.pop("as-of", None)


def _panels(answers: AnswerCache, catalogue: Catalogue, opened: Opened, folder: BoardFolder, *, kiosk: bool) -> None:
    """All panels in their places, each drawn as soon as it is answered."""
    places: list[Any] = []
    for row in opened.board.rows(opened.panels):
        widths = [min(opened.panels[number].width, opened.board.columns) for number in row]
        spare = opened.board.columns - sum(widths)
        columns = st.columns([*widths, *([spare] if spare else [])], gap="small")
        for column, _ in zip(columns, row, strict=False):
            places.append(column.container(border=True, height="stretch"))
    with asked_together(answers, opened.panels, catalogue, opened.as_of) as asked:
        waiting = dict(zip(asked, range(len(asked)), strict=True))
        while waiting:
            done, _ = wait(waiting, timeout=PAUSE, return_when=FIRST_COMPLETED)
            session.pause()
            for one in sorted(done, key=waiting.__getitem__):
                number = waiting.pop(one)
                with places[number]:
                    _panel(one, number, opened, kiosk=kiosk)
                    if opened.editing:
                        panel_menu(folder, opened.name, opened.board, number, opened.content)


def _panel(asked: Future[Drawn], number: int, opened: Opened, *, kiosk: bool) -> None:
    drawn, panel = asked.result(), opened.panels[number]
    st.markdown(f"**{wording.safe(drawn.title or f'Panel {number + 1}')}**")
    for problem in drawn.problems:
        st.warning(wording.safe(problem), icon=":material/rule:")
    if drawn.problems:
        return
    if drawn.number:
        size = "##" if panel.shows == "number" else "###"  # a step below the largest: headings must not skip one
        st.markdown(f"{size} {wording.safe(drawn.number)}")
        if drawn.sure:
            st.markdown(f":blue-badge[{wording.safe(drawn.sure)}]")
    if drawn.figure is not None:
        components.show(drawn.figure, f"panel-{number}", drawn.alt, bare=True)
    for note in (*([panel.note] if panel.note else []), *drawn.notes):
        st.caption(wording.safe(note))
    as_of = f" · as of {drawn.as_of}" if drawn.as_of else ""
    told = " ".join(wording.as_sentence(part) for part in (drawn.sentence, drawn.guarantee) if part)
    st.caption(wording.safe(f"{drawn.asked}{as_of}"), help=wording.safe(told))
    page = st.session_state.get("pages", {}).get(PAGE_OF.get(panel.shows, "explore"))
    if page is not None and not kiosk:
        given = session.linked(to_parameters(drawn.view))
        st.page_link(page, label="Open", icon=":material/open_in_new:", query_params=given)
