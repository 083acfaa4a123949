"""The sidebar of the pages that ask: the same choices in the same order, as many as a page needs."""

from __future__ import annotations

import math

import streamlit as st

from dashboard import controls, fading
from dashboard.desk import Desk
from store.catalogue import Catalogue, StreamHeld


def question(
    desk: Desk, catalogue: Catalogue, *, sources: bool = True, aggregate: bool = False, span: bool = False
) -> tuple[StreamHeld, float]:
    """What is asked of which stream; the stream and how many seconds a chart shows come back."""
    with st.sidebar:
        held = controls.stream(catalogue, sources=sources)
        if aggregate:
            controls.aggregate(desk, held)
        fading.editor()
        controls.window()
        fading.line()
        controls.as_of(desk, held)
        seconds = controls.span(desk, held) if span else math.inf
        controls.display(held)
    return held, seconds
