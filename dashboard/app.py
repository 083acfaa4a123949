"""The dashboard's entry: which pages there are, which store they show, and when they are drawn again.

wane dashboard --store wane.duckdb
"""

from __future__ import annotations

import gc
import logging
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import streamlit as st

from dashboard import components, notices, session, wording
from dashboard.answer_cache import AnswerCache
from dashboard.screens import audit, compare, distribution, explore, health, top_values
from sketches.errors import WaneError
from store.serving.catalogue import Catalogue

CRESCENT = '<path fill="#4c6ef5" d="M21 3a13 13 0 1 0 8 18A11 11 0 0 1 21 3z"/>'
MOON = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32" width="32" height="32">{CRESCENT}</svg>'
NAME = (
    f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 112 32" width="112" height="32">{CRESCENT}'
    '<text x="38" y="24" font-family="sans-serif" font-size="24" font-weight="600" fill="#4c6ef5">wane</text></svg>'
)
LOG = logging.getLogger("wane.dashboard")
NO_STORE, UNREADABLE = -1, -2  # in place of a generation
LOOK_AGAIN = 2.0  # seconds between looks at whether the store has changed

Draw = Callable[[AnswerCache, Catalogue], None]


@st.cache_resource
def shared_answers(path: str) -> AnswerCache:
    """One cache for all sessions: sketches are loaded once, and each answer is found once."""
    gc.freeze()  # the garbage collector need not look again at a million objects of libraries
    return AnswerCache(Path(path))


def main(path: str) -> None:
    st.set_page_config("wane", MOON, layout="wide", initial_sidebar_state="auto")
    st.logo(NAME, size="large")
    answers = shared_answers(path)
    pages = [
        _page(answers, explore.page, "Explore", ":material/monitoring:", "explore", default=True),
        _page(answers, distribution.page, "Distribution", ":material/stacked_line_chart:", "distribution"),
        _page(answers, top_values.page, "Top values", ":material/leaderboard:", "top-values"),
        _page(answers, compare.page, "Compare", ":material/compare_arrows:", "compare"),
        _page(answers, health.page, "Health", ":material/ecg_heart:", "health"),
        _page(answers, audit.page, "Audit", ":material/fact_check:", "audit"),
    ]
    st.navigation(pages, position="top").run()


def _page(answers: AnswerCache, draw: Draw, title: str, icon: str, path: str, *, default: bool = False) -> st.Page:
    return st.Page(partial(run, answers, draw), title=title, icon=icon, url_path=path, default=default)


def run(answers: AnswerCache, draw: Draw) -> None:
    """Draw one page: bring the session in line with address and store, draw, and write the view into the address."""
    begun = time.perf_counter()
    answers.begin()
    catalogue = _catalogue(answers)
    if catalogue is None:
        watch(answers, UNREADABLE if answers.path.exists() else NO_STORE)
        return
    for problem in session.begin(catalogue):
        st.warning(problem, icon=":material/link_off:")
    if not catalogue.streams:
        notices.empty(
            "This store is empty",
            f"{wording.quoted(answers.path)} holds no streams yet. `wane ingest` reads the raw files that a settings "
            "file names. This page shows them as soon as the run commits.",
            "wane ingest --config wane.toml",
        )
        watch(answers, catalogue.generation)
        return
    with components.guarded():
        if draw is not health.page and not answers.is_ready(session.view()):
            with st.spinner("Loading and merging sketches …", show_time=True):
                answers.prepare(session.view())
        draw(answers, catalogue)
    session.publish()
    with st.sidebar:
        watch(answers, catalogue.generation)
    LOG.debug("drawn in %.1f ms, of it %.1f ms for answers", (time.perf_counter() - begun) * 1e3, answers.spent_ms)


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
    except WaneError as error:
        notices.empty("This store cannot be read", wording.safe(error))
        return None


def watch(answers: AnswerCache, generation: int) -> None:
    """Draw the page again when the store has changed, unless that is switched off."""
    refreshing = "view" not in st.session_state or session.view().refresh

    @st.fragment(run_every=LOOK_AGAIN if refreshing else None)
    def look() -> None:
        try:
            now = answers.catalogue().generation if answers.path.exists() else NO_STORE
        except WaneError:
            now = UNREADABLE
        if refreshing and now != generation:
            st.rerun()
        text = f"generation {generation:,}" if generation >= 0 else "waiting for a store"
        st.caption(f":green[●] live, {text}" if refreshing else f":gray[●] refreshing is off, {text}")

    look()


if __name__ == "__main__":
    main(sys.argv[1])
