"""Addresses to pass on: of a page with its view, following the newest events or pinned to this moment."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final
from urllib.parse import urlencode

import streamlit as st

from dashboard.asking.address import to_parameters
from dashboard.asking.view import NEWEST, View
from dashboard.parts.time_range import code
from store.serving.catalogue import StoredStream

FOLLOW, PIN = "follow the newest", "pin this moment"
KINDS: Final = (FOLLOW, PIN)


def address(page: str, parameters: Mapping[str, Sequence[str]]) -> str:
    """The address of the page that is shown, with other parameters, as the browser knows it."""
    base = (st.context.url or "").rstrip("/").removesuffix(f"/{page}")
    query = urlencode({name: list(texts) for name, texts in parameters.items()}, doseq=True)
    return f"{base}/{page}{f'?{query}' if query else ''}"


def pinned(view: View, stream: StoredStream) -> View:
    """The view as of the time that it shows now."""
    newest = stream.as_of()
    return view if view.as_of != NEWEST or newest is None else replace(view, as_of=code(newest, stream.unit))


def following(view: View) -> View:
    """The view as of the newest event, whenever it is opened."""
    return replace(view, as_of=NEWEST)


def newest_of(streams: Sequence[StoredStream]) -> str:
    """A time, in whole seconds, by which every event of these streams has come; empty where there is none."""
    found = [
        math.ceil(newest * one.unit.numerator / one.unit.denominator)
        for one in streams
        if (newest := one.as_of()) is not None
    ]
    try:
        return f"{datetime.fromtimestamp(max(found), UTC):%Y-%m-%dT%H:%M:%SZ}" if found else NEWEST
    except (OverflowError, ValueError, OSError):  # outside the calendar
        return NEWEST


def box(links: Mapping[str, str], key: str) -> None:
    """A choice of links, with the chosen one ready to be copied."""
    chosen = st.segmented_control(
        "The link shall", KINDS, default=FOLLOW, key=f"link kind {key}", required=True, width="stretch"
    )
    with st.container(key=f"link-box-{key}"):
        st.code(links[chosen or FOLLOW], language=None, wrap_lines=True)
        # the script in `dashboard.server` copies the text above it: only a click itself may do so
        if st.button("Copy link", icon=":material/content_copy:", key=f"copy-link-{key}"):
            st.caption("It is copied.")


def view_links(page: str, view: View, stream: StoredStream) -> dict[str, str]:
    """Both links of a view."""
    return {
        FOLLOW: address(page, to_parameters(following(view))),
        PIN: address(page, to_parameters(pinned(view, stream))),
    }
