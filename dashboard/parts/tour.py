"""The first sight of the dashboard, in three steps. A cookie remembers in which browser it was closed."""

from __future__ import annotations

from typing import Final

import streamlit as st

from dashboard import words
from dashboard.asking import session

COOKIE, CLOSED = "wane-tour", "closed"  # `dashboard.server` sets it where the button is clicked that ends the tour
STEPS: Final = {
    "What you see": f"""
        The title says what is asked, and the number of now. The line is the same number as of each time before. Beside
        it stand the {words.link("Interval", "limits")} between which the exact answer lies, and how sure that is: the
        dashboard reads small sketches, not the raw events.""",
    "How the past fades": f"""
        On the left you choose how much an older event still counts, its {words.link("Decay", "decay")}. *Last day*
        forgets all that is older, a half-life lets it count ever less. Another choice is answered at once: nothing has
        to be read again.""",
    "Where to go from here": """
        Drag over the chart to see that time alone; double click to go back. *What changed here?* then lists the sources
        and values that are different in it, *Leaderboard* ranks all of them, and *Share* copies a link that restores
        all you see.""",
}


def show() -> None:
    """The step at which the reader is; nothing where the tour was closed, or where somebody else's view was opened."""
    if "tour" not in st.session_state:
        st.session_state["tour"] = 0 if session.is_first_sight() and st.context.cookies.get(COOKIE) != CLOSED else None
    step: int | None = st.session_state["tour"]
    if step is None:
        return
    title, text = list(STEPS.items())[step]
    with st.container(border=True, key="tour"):
        st.markdown(f"**{step + 1} of {len(STEPS)}: {title}.** {' '.join(text.split())}")
        with st.container(horizontal=True):
            if step + 1 < len(STEPS):
                st.button("Next", key="tour next", on_click=_go, args=(step + 1,))
            if step:
                st.button("Previous", key="tour back", on_click=_go, args=(step - 1,))
            st.button("Close the tour", key="end-tour", icon=":material/close:", on_click=_go, args=(None,))


def offer() -> None:
    """The way to see it again."""
    if st.button("Take the tour", key="tour again", icon=":material/explore:", on_click=_go, args=(0,)):
        st.switch_page(st.session_state["explore page"])


def _go(step: int | None) -> None:
    st.session_state["tour"] = step
