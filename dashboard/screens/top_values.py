"""The page Top values: the most frequent values with whiskers, their ranks under two decays, and similar sources."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np
import streamlit as st

from dashboard import wording
from dashboard.asking import session
from dashboard.asking.answer_cache import AnswerCache
from dashboard.asking.view import View, largest_sources
from dashboard.figures.bars import ranking
from dashboard.figures.matrix import matrix
from dashboard.figures.ranks import slopes
from dashboard.parts import components, filters, notices, sidebar
from dashboard.parts.components import Table
from sketches.decay import parse_decay
from sketches.errors import UnanswerableError
from sketches.formatting import counted, percent_text
from sketches.question import Question
from sketches.registry import family_of
from sketches.similarity import cosine
from store import Answer
from store.serving.catalogue import Catalogue, StoredStream

MOST_SOURCES: Final = 8  # in the square of similarities


def page(answers: AnswerCache, catalogue: Catalogue) -> None:
    stream = sidebar.question(answers, catalogue)
    view = session.view()
    components.heading("The most frequent values", view)
    filters.chips(stream)
    _choices(view)
    empty = False
    with components.guarded():
        empty = not _lists(answers, view, stream)
    if len(stream.sources) > 1 and not empty:
        session.show(
            st.toggle,
            "Similarity of sources",
            help="How alike the values of two sources are: their inner product over the root of their self-joins, "
            "under the decay above. 100% where all values have the same shares, 0% where no value is in both.",
            **session.bound("similar"),
        )
        if view.similar:
            with components.guarded(), components.working("Comparing each source with each other one"):
                _similarity(answers, view, stream)


def _choices(view: View) -> None:
    """How many values, from which share on, and the decay to compare ranks with."""
    first, second, third = st.columns([3, 2, 4], vertical_alignment="bottom")
    with first:
        session.show(
            st.slider,
            "Least share φ",
            0.0,
            0.5,
            step=0.001,
            format="percent",
            help="Only values that have at least this share of all that counts, or may have it within the bounds.",
            **_share(),
        )
    with second:
        session.show(st.slider, "At most", 1, 50, **session.bound("top"))
    with third:
        session.text(
            "Ranks against another decay",
            "against 0",
            _with_other_decay,
            shown=_other_decay(view),
            placeholder="none",
            help="The decay on the left side of the picture, such as `none`, `window:1d` or `exp:half_life=1w`.",
        )


def _share() -> dict[str, Any]:
    bound = session.bound("share")
    return bound | {"shown": min(0.5, bound["shown"])}


def _other_decay(view: View) -> str:
    return view.against[0] if view.against else "none"


def _with_other_decay(typed: str) -> View:
    spec = parse_decay(typed.strip() or "none").spec
    return replace(session.view(), against=(spec, *session.view().against[1:]))


def _lists(answers: AnswerCache, view: View, stream: StoredStream) -> bool:
    """The most frequent values under the view's decay, and their ranks under the other one; False where there are
    none."""
    listing = replace(view, aggregate="heavy-hitters")
    before = listing.with_fading(parse_decay(_other_decay(view)))
    answer = answers.ask(listing, stream)
    other: Answer | UnanswerableError
    try:
        other = answers.ask(before, stream)
    except UnanswerableError as error:
        other = error
    notices.beside(answer.provenance, stream)
    if not answer.estimate.items and not (isinstance(other, Answer) and other.estimate.items):
        filtered = ", or a wider filter" if view.where else ""
        st.info(
            f"No value has that share: choose a lower φ, a decay that forgets more slowly{filtered}.",
            icon=":material/hourglass_empty:",
        )
        return False
    left, right = st.columns([6, 5], gap="medium")
    with left:
        counted_by = wording.safe(answer.provenance.asked.partition(", ")[2])
        st.markdown(
            f"**Shares** where {wording.safe(wording.decay_sentence(view.fading))}"
            + (f", {counted_by}" if counted_by else "")
        )
        components.show(ranking(answer.estimate.items), "top-values", "Shares of the most frequent values")
        if said := left_out(answer.estimate.unlisted):
            st.caption(wording.safe(said))
    with right:
        st.markdown("**Ranks** under both decays")
        if isinstance(other, Answer):
            names = (wording.decay_label(before.fading), wording.decay_label(view.fading))
            figure = slopes(other.estimate.items, answer.estimate.items, names)
            components.show(figure, "ranks", "Ranks of the most frequent values under both decays")
        else:
            st.info(f"There are no ranks to compare with: {wording.safe(other)}.", icon=":material/info:")
    st.caption(f"{confidence_of(answer)} {wording.safe(wording.capitalised(answer.estimate.guarantee))}.")
    components.footer(answer.provenance, answers)
    components.exports("top-values", lambda: table(answer), lambda: components.answer_json(answer, listing))
    components.same_on_the_command_line(listing, answers.path)
    return True


def left_out(share: float | None) -> str:
    """Which share no value exceeds that a list leaves out; empty where nothing is known of it.

    >>> left_out(0.123456), left_out(0.0), left_out(None)
    ('No value that is not listed has a share above 12.4%.', 'No value that is not listed has any share.', '')
    """
    if share is None or share >= 1:
        return ""
    above = f"a share above {wording.limits(0.0, share, 'share')[1]}" if share else "any share"
    return f"No value that is not listed has {above}."


def confidence_of(answer: Answer) -> str:
    """How sure the intervals of a list are: all of them together, or each by itself."""
    estimate = answer.estimate
    if estimate.confidence >= 1.0:
        return "Every interval of the list holds."
    confidence = percent_text(estimate.confidence)
    if family_of(estimate.family).abilities.joint_lists:
        return f"All intervals of the list hold together at {confidence} confidence."
    return f"Each interval holds by itself at {confidence} confidence."


def _similarity(answers: AnswerCache, view: View, stream: StoredStream) -> None:
    """How alike each two of the largest sources are, as a square."""
    names = largest_sources(stream, MOST_SOURCES, among=view.source)
    extent = answers.extent(view, stream)
    moment = view.moment(stream.unit)
    question = Question(
        "self-join",
        view.fading,
        as_of=moment if moment is not None else extent[1] if extent else None,
        where=view.predicate(stream),
        counting=view.counted,
    )
    self_joins = {name: answers.ask(replace(view, source=(name,)), stream, question).estimate for name in names}
    values, hover = np.full((len(names), len(names)), np.nan), [[""] * len(names) for _ in names]
    for row, one in enumerate(names):
        for column, two in enumerate(names[: row + 1]):
            product = self_joins[one]
            if one != two:
                joined = replace(question, aggregate="inner-product")
                product = answers.ask(replace(view, source=(one,), other=two), stream, joined).estimate
            found = cosine(product, self_joins[one], self_joins[two])
            values[row, column] = values[column, row] = found.value
            least, most = wording.limits(found.lower, found.upper, "share")
            text = f"{one} and {two}: {percent_text(found.value)} ({least} to {most})"
            hover[row][column] = hover[column][row] = wording.in_figure(text)
    components.show(matrix(names, values, hover), "similarity", "How alike the values of two sources are")
    left_out = len(set(view.source or stream.sources)) - len(names)
    shown = f"The {len(names)} sources with the most events; {counted(left_out, 'other')} not shown. "
    st.caption((shown if left_out else "") + "Hover for the bounds, which follow from the bounds of the three joins.")


def table(answer: Answer) -> Table:
    """The list of values."""
    head = ["rank", "value", "share", "lower", "upper"]
    return head, [
        [at + 1, item.value, item.estimate, item.lower, item.upper] for at, item in enumerate(answer.estimate.items)
    ]
