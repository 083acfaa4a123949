"""The most frequent values with whiskers, and how their ranks change from one decay to another."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import streamlit as st

from dashboard import figures, parts, sidebar, state, words
from dashboard.desk import Desk
from dashboard.view import View
from sketches.decay import parse_decay
from store import Answer
from store.catalogue import Catalogue


def page(desk: Desk, catalogue: Catalogue) -> None:
    held, _ = sidebar.question(desk, catalogue)
    view = state.view()
    parts.heading("The most frequent values", view)
    first, second, third = st.columns([3, 2, 4], vertical_alignment="bottom")
    with first:
        st.slider(
            "Least share φ",
            0.0,
            0.5,
            step=0.001,
            format="percent",
            help="Only values that have this share of the decayed weight, or may have it for all the sketch knows.",
            **_share(),
        )
    with second:
        st.slider("At most", 1, 50, **state.bound("top"))
    with third:
        state.text(
            "Ranks against another decay",
            "against 0",
            _with_other,
            shown=_other(view),
            placeholder="none",
            help="How the past fades on the other side of the picture, such as `none`, `window:1d` or "
            "`exp:half_life=1w`.",
        )
    with parts.guarded():
        listing = replace(view, aggregate="heavy-hitters")
        answer = desk.ask(listing, held)
        other_view = listing.with_fading(parse_decay(_other(view)))
        other = desk.ask(other_view, held)
        parts.incomplete(answer.provenance, held)
        if not answer.estimate.items and not other.estimate.items:
            st.info(
                "No value has that share of the weight: lower φ, or let the past count longer.",
                icon=":material/hourglass_empty:",
            )
            return
        left, right = st.columns([6, 5], gap="medium")
        with left:
            st.markdown(f"**Shares** where {words.safe(words.fading(view.fading))}")
            parts.show(figures.ranking(answer.estimate.items), "top-values", "Shares of the most frequent values")
        with right:
            st.markdown("**Ranks** under both decays")
            names = (words.short_fading(other_view.fading), words.short_fading(view.fading))
            figure = figures.slopes(other.estimate.items, answer.estimate.items, names)
            parts.show(figure, "ranks", "Ranks of the most frequent values under both decays")
        st.caption(
            f"All intervals of the list hold together at {100 * answer.estimate.confidence:g}% confidence. "
            f"{words.safe(answer.estimate.guarantee[:1].upper() + answer.estimate.guarantee[1:])}."
        )
        parts.footer(answer.provenance, desk)
        parts.exports("top-values", lambda: rows(answer), lambda: parts.answer_json(answer, listing))
        parts.same_on_the_command_line(listing, desk.path)


def _share() -> dict[str, Any]:
    bound = state.bound("share")
    state.put(bound["key"], min(0.5, state.view().share))
    return bound


def _other(view: View) -> str:
    return view.against[0] if view.against else "none"


def _with_other(typed: str) -> View:
    spec = parse_decay(typed.strip() or "none").spec
    return replace(state.view(), against=(spec, *state.view().against[1:]))


def rows(answer: Answer) -> tuple[list[str], list[list[Any]]]:
    head = ["rank", "value", "share", "lower", "upper"]
    return head, [
        [at + 1, item.value, item.estimate, item.lower, item.upper] for at, item in enumerate(answer.estimate.items)
    ]
