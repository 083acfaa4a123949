"""The page Words: what each word means, in one line, and the papers that prove the guarantees."""

from __future__ import annotations

import streamlit as st

from dashboard import wording, words
from dashboard.asking.answer_cache import AnswerCache
from dashboard.parts import sidebar, tour
from store.serving.catalogue import Catalogue


def page(_: AnswerCache, catalogue: Catalogue) -> None:
    sidebar.shown(catalogue)
    st.markdown("#### Words")
    st.caption("Each in one line, in the order in which they build on each other.")
    tour.offer()
    for title, lines in words.WORDS.items():
        st.markdown(f"#### {title}")
        for word, line in lines.items():
            st.markdown(f"##### {words.heading(word)}\n{wording.capitalised(line)}")
    st.markdown("#### Papers")
    st.markdown("\n".join(f"- [{name}]({address})" for name, address in words.LINKS.items()))
    if (explore := st.session_state.get("explore page")) is not None:
        st.page_link(explore, label="Back to Explore")
