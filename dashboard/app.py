"""The dashboard's entry: which pages there are, which store they show, and when they are drawn again.

wane dashboard --store wane.duckdb
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial

import streamlit as st

from dashboard import wording, words
from dashboard.asking import session
from dashboard.asking.answer_cache import AnswerCache
from dashboard.boards import sharing
from dashboard.boards.desk import desk
from dashboard.door.roles import ROLE
from dashboard.parts import components, notices
from dashboard.screens import (
    audit,
    board,
    changes,
    compare,
    distribution,
    explore,
    glossary,
    health,
    leaderboard,
    panels,
    top_values,
)
from dashboard.shared import shared_answers
from sketches.errors import WaneError
from store.database import StoreBusyError
from store.serving.catalogue import Catalogue

CRESCENT = '<path fill="#4c6ef5" d="M21 3a13 13 0 1 0 8 18A11 11 0 0 1 21 3z"/>'
MOON = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32" width="32" height="32">{CRESCENT}</svg>'
NAME = (
    f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 112 32" width="112" height="32">{CRESCENT}'
    '<text x="38" y="24" font-family="sans-serif" font-size="24" font-weight="600" fill="#4c6ef5">wane</text></svg>'
)
LOG = logging.getLogger("wane.dashboard")
NO_STORE, UNREADABLE = ("", "no store"), ("", "unreadable")  # in place of the names of a store and its commit
LOOK_AGAIN = 2.0  # seconds between looks at whether the store has changed

Draw = Callable[[AnswerCache, Catalogue], None]


def main(path: str, raw: Sequence[str] = ()) -> None:
    st.set_page_config("wane", MOON, layout="wide", initial_sidebar_state="auto")
    st.logo(NAME, size="large")
    answers = shared_answers(path, raw, st.context.headers.get(ROLE))
    pages = [
        _page(answers, explore.page, "Explore", "explore", default=True),
        _page(answers, leaderboard.page, "Leaderboard", "leaderboard"),
        _page(answers, distribution.page, "Distribution", "distribution"),
        _page(answers, top_values.page, "Top values", "top-values"),
        _page(answers, panels.page, "Panels", "panels"),
        _page(answers, changes.page, "Changes", "changes"),
        _page(answers, compare.page, "Compare", "compare"),
        _page(answers, board.page, "Boards", "board"),
        _page(answers, health.page, "Health", "health"),
        _page(answers, audit.page, "Audit", "audit"),
        _page(answers, glossary.page, "Words", words.ADDRESS, hidden=True),
    ]
    st.session_state["explore page"] = pages[0]
    st.session_state["pages"] = {page.url_path or "explore": page for page in pages}
    st.navigation(pages, position="top").run()


def _page(
    answers: AnswerCache, draw: Draw, title: str, path: str, *, default: bool = False, hidden: bool = False
) -> st.Page:
    draws = partial(run, answers, draw, path)
    return st.Page(draws, title=title, url_path=path, default=default, visibility="hidden" if hidden else "visible")


def run(answers: AnswerCache, draw: Draw, path: str = "explore") -> None:
    """Draw one page: bring the session in line with address and store, draw, and write the view into the address."""
    begun = time.perf_counter()
    answers.begin(session.pause)
    catalogue = _catalogue(answers)
    if catalogue is None:
        watch(answers, None)
        return
    on_board = draw is board.page
    for problem in session.begin(catalogue, opened=not on_board):
        st.warning(problem, icon=":material/link_off:")
    if not catalogue.streams and answers.streams is not None:
        notices.empty("There is nothing here for you", "Whoever runs this dashboard can open streams to your role.")
        watch(answers, catalogue)
        return
    if not catalogue.streams:
        notices.empty(
            "This store is empty",
            f"{wording.quoted(answers.path)} holds no streams yet. `wane ingest` reads the raw files that a settings "
            "file names. This page shows them as soon as the run commits.",
            "wane ingest --config wane.toml",
        )
        watch(answers, catalogue)
        return
    with components.guarded():
        if draw not in (health.page, board.page, glossary.page) and not answers.is_ready(session.view()):
            with components.working("Loading and merging sketches"):
                answers.prepare(session.view())
        above = None if on_board else st.sidebar.container()
        draw(answers, catalogue)
        if above is not None:
            with above:
                editor = desk.may_edit(st.context.headers.get(ROLE))
                sharing.menu(answers, catalogue, path, editor=editor)
    (board.publish if on_board else session.publish)()
    if not (on_board and board.is_kiosk()):
        with st.sidebar:
            _all_words()
    with st.container() if on_board and board.is_kiosk() else st.sidebar:
        watch(answers, catalogue, partial(board.state, answers) if on_board else None)
    LOG.debug("drawn in %.1f ms, of it %.1f ms for answers", (time.perf_counter() - begun) * 1e3, answers.spent_ms)
    if draw is explore.page:
        explore.refine(answers, catalogue)


def _catalogue(answers: AnswerCache) -> Catalogue | None:
    """What the store holds; None where it cannot be read, and then the page says why and what to do."""
    if not answers.path.exists():
        notices.empty(
            "There is no store yet",
            f"{wording.quoted(answers.path)} does not exist. An ingest run creates it, and this page shows it as soon "
            "as the run commits. `wane demo` creates one with generated data.",
            "wane ingest --config wane.toml",
        )
        return None
    try:
        return answers.catalogue()
    except StoreBusyError as error:
        notices.empty(
            "Another process holds the store", f"{wording.safe(error)}. This page shows the store as soon as it can."
        )
        return None
    except WaneError as error:
        notices.empty("This store cannot be read", wording.safe(error))
        return None


def watch(answers: AnswerCache, shown: Catalogue | None, state: Callable[[], object] | None = None) -> None:
    """Draw the page again when the store has changed, or the state of something else that the page shows, unless that
    is switched off; None: there is nothing to show."""
    state = state or (lambda: None)
    refreshing = "view" not in st.session_state or session.view().refresh
    before = _name_now(answers) if shown is None else shown.name, state()

    @st.fragment(run_every=LOOK_AGAIN if refreshing else None)
    def look() -> None:
        if refreshing and (_name_now(answers), state()) != before:
            st.rerun()
        text = "waiting for a store" if shown is None else f"generation {shown.generation:,}"
        st.caption(f":green[●] live, {text}" if refreshing else f":gray[●] refreshing is off, {text}")

    look()


def _all_words() -> None:
    """The way to the page of words, which has no place in the navigation."""
    if (page := st.session_state.get("pages", {}).get(words.ADDRESS)) is not None:
        st.page_link(page, label="Words and tour", icon=":material/dictionary:")


def _name_now(answers: AnswerCache) -> tuple[str, str]:
    """The random names of the store and of its last commit."""
    try:
        return answers.catalogue().name if answers.path.exists() else NO_STORE
    except WaneError:
        return UNREADABLE


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
