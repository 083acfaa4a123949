"""The dashboard's entry: which pages there are, which store they look at, and when to look again.

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

from dashboard import parts, state, words
from dashboard.desk import Desk
from dashboard.screens import audit, compare, distribution, explore, health, top_values
from sketches.errors import WaneError
from store.catalogue import Catalogue

CRESCENT = '<path fill="#4c6ef5" d="M21 3a13 13 0 1 0 8 18A11 11 0 0 1 21 3z"/>'
MOON = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32" width="32" height="32">{CRESCENT}</svg>'
NAME = (
    f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 112 32" width="112" height="32">{CRESCENT}'
    '<text x="38" y="24" font-family="sans-serif" font-size="24" font-weight="600" fill="#4c6ef5">wane</text></svg>'
)
LOG = logging.getLogger("wane.dashboard")
NO_STORE, UNREADABLE = -1, -2  # in place of a generation
LOOK_AGAIN = 2.0  # seconds between looks at whether the store has changed

Draw = Callable[[Desk, Catalogue], None]


@st.cache_resource
def desk_of(path: str) -> Desk:
    """One desk for all sessions: sketches are loaded once, answers given once."""
    gc.freeze()  # a million objects of libraries that no collection need look at again
    return Desk(Path(path))


def main(path: str) -> None:
    st.set_page_config("wane", MOON, layout="wide", initial_sidebar_state="auto")
    st.logo(NAME, size="large")
    desk = desk_of(path)
    pages = [
        _page(desk, explore.page, "Explore", ":material/monitoring:", "explore", default=True),
        _page(desk, distribution.page, "Distribution", ":material/stacked_line_chart:", "distribution"),
        _page(desk, top_values.page, "Top values", ":material/leaderboard:", "top-values"),
        _page(desk, compare.page, "Compare", ":material/compare_arrows:", "compare"),
        _page(desk, health.page, "Health", ":material/ecg_heart:", "health"),
        _page(desk, audit.page, "Audit", ":material/fact_check:", "audit"),
    ]
    st.navigation(pages, position="top").run()


def _page(desk: Desk, draw: Draw, title: str, icon: str, path: str, *, default: bool = False) -> st.Page:
    return st.Page(partial(run, desk, draw), title=title, icon=icon, url_path=path, default=default)


def run(desk: Desk, draw: Draw) -> None:
    """One page: the session in line with address and store, then the page, then the address."""
    begun = time.perf_counter()
    desk.begin()
    catalogue = _catalogue(desk)
    if catalogue is None:
        watch(desk, UNREADABLE if desk.path.exists() else NO_STORE)
        return
    for problem in state.begin(catalogue):
        st.warning(problem, icon=":material/link_off:")
    if not catalogue.streams:
        parts.empty(
            "This store is empty",
            f"{words.quoted(desk.path)} holds no streams yet. `wane ingest` reads the raw files that a settings file "
            "names and brings them; this page shows them as soon as the run commits.",
            "wane ingest --config wane.toml",
        )
        watch(desk, catalogue.generation)
        return
    if draw is not health.page and not desk.is_ready(state.view()):
        with st.spinner("Loading and merging sketches …", show_time=True):
            desk.prepare(state.view())
    with parts.guarded():
        draw(desk, catalogue)
    state.publish()
    with st.sidebar:
        watch(desk, catalogue.generation)
    LOG.debug("drawn in %.1f ms, of it %.1f ms for answers", (time.perf_counter() - begun) * 1e3, desk.spent_ms)


def _catalogue(desk: Desk) -> Catalogue | None:
    """What the store holds; where it cannot be read the page says why and what to do."""
    if not desk.path.exists():
        parts.empty(
            "There is no store yet",
            f"{words.quoted(desk.path)} does not exist. An ingest run creates it, and this page shows it as soon as "
            "the run commits; `wane demo` makes one with generated data.",
            "wane ingest --config wane.toml",
        )
        return None
    try:
        return desk.catalogue()
    except WaneError as error:
        parts.empty("This store cannot be read", words.safe(error))
        return None


def watch(desk: Desk, generation: int) -> None:
    """Draw the page anew when the store has changed, unless that is switched off."""
    refreshing = "view" not in st.session_state or state.view().refresh

    @st.fragment(run_every=LOOK_AGAIN if refreshing else None)
    def look() -> None:
        try:
            now = desk.catalogue().generation if desk.path.exists() else NO_STORE
        except WaneError:
            now = UNREADABLE
        if refreshing and now != generation:
            st.rerun()
        text = f"generation {generation:,}" if generation >= 0 else "waiting for a store"
        st.caption(f":green[●] live, {text}" if refreshing else f":gray[●] refreshing is off, {text}")

    look()


if __name__ == "__main__":
    main(sys.argv[1])
