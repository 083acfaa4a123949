"""The most frequent values with whiskers, and how their ranks change from one decay to another."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Final

import numpy as np
import streamlit as st

from dashboard import figures, parts, sidebar, state, words
from dashboard.desk import Desk
from dashboard.view import View
from sketches.decay import parse_decay
from sketches.estimate import Estimate
from sketches.question import Question
from store import Answer
from store.catalogue import Catalogue, StreamHeld

MOST_SOURCES: Final = 8


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
            f"{_holding(answer)} {words.safe(answer.estimate.guarantee[:1].upper() + answer.estimate.guarantee[1:])}."
        )
        parts.footer(answer.provenance, desk)
        parts.exports("top-values", lambda: rows(answer), lambda: parts.answer_json(answer, listing))
        parts.same_on_the_command_line(listing, desk.path)
    if len(held.sources) > 1:
        st.toggle(
            "Similarity of sources",
            help="How alike the values of two sources are: their inner product over the root of their self-joins, "
            "under the decay above. 100% where all values have the same shares, 0% where no value is in both.",
            **state.bound("similar"),
        )
        if view.similar:
            with parts.guarded():
                _similarity(desk, view, held)


def _holding(answer: Answer) -> str:
    """How far the intervals of the list can be trusted."""
    confidence = f"{100 * answer.estimate.confidence:g}%"
    if answer.estimate.confidence >= 1.0:
        return "Every interval of the list holds."
    if answer.estimate.family == "sample":
        return f"All intervals of the list hold together at {confidence} confidence."
    return f"Each interval holds by itself at {confidence} confidence."


def _similarity(desk: Desk, view: View, held: StreamHeld) -> None:
    """Inner products and self-joins of sources, as a square of similarities."""
    most = dict.fromkeys(view.source or held.sources, 0)
    for epoch, found in held.epochs.items():
        if epoch.source in most:
            most[epoch.source] += found.events
    names = sorted(sorted(most, key=lambda source: -most[source])[:MOST_SOURCES])
    extent = desk.extent(view, held)
    moment = view.moment(held.unit)
    question = Question("self-join", view.fading, as_of=moment if moment is not None else extent[1] if extent else None)
    joined = {name: desk.ask(replace(view, source=(name,)), held, question).estimate for name in names}
    values, told = np.full((len(names), len(names)), np.nan), [[""] * len(names) for _ in names]
    for at, one in enumerate(names):
        for beside in range(at + 1):
            two = names[beside]
            product = joined[one]
            if at != beside:
                asked = replace(question, aggregate="inner-product")
                product = desk.ask(replace(view, source=(one,), other=two), held, asked).estimate
            value, lower, upper = _cosine(product, joined[one], joined[two])
            values[at, beside] = values[beside, at] = value
            least, most_alike = words.limits(lower, upper, "share")
            text = f"{one} and {two}: {words.measured(value, 'share')} ({least} to {most_alike})"
            told[at][beside] = told[beside][at] = words.in_figure(text)
    parts.show(figures.matrix(names, values, told), "similarity", "How alike the values of two sources are")
    left = len(most) - len(names)
    st.caption(
        (f"The {len(names)} sources with the most events; {words.counted(left, 'other')} not shown. " if left else "")
        + "Hover for the bounds, which follow from those of the three joins."
    )


def _cosine(product: Estimate, one: Estimate, two: Estimate) -> tuple[float, float, float]:
    """An inner product over the root of two self-joins, between what their bounds allow."""

    def over(part: float, first: float, second: float, nothing: float) -> float:
        return min(part / math.sqrt(first * second), 1.0) if first > 0.0 and second > 0.0 else nothing

    value = over(product.value, one.value, two.value, math.nan)
    lower = over(product.lower, one.upper, two.upper, 0.0)
    return value, lower, over(product.upper, one.lower, two.lower, 1.0)


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
