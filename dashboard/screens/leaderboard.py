"""The page Leaderboard: all sources, or all values of a field, ranked, with what has changed against before."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np
import streamlit as st

from dashboard import wording
from dashboard.asking import session
from dashboard.asking.answer_cache import AnswerCache
from dashboard.asking.measures import splits
from dashboard.asking.view import View
from dashboard.figures.bars import group_bars
from dashboard.parts import chart, components, filters, notices, sidebar
from dashboard.parts.components import Table
from sketches.decay import parse_decay
from sketches.durations import human_duration, parse_duration
from sketches.errors import WaneError
from sketches.formatting import counted, percent_text
from store.serving.catalogue import Catalogue, StoredStream
from store.serving.split_answer import SplitAnswer, group_text
from store.serving.split_change import SplitChange

ALL: Final = 1_000_000  # groups
DRAWN: Final = 20  # as bars
AGAINST: Final = {"decays": "Against another decay", "times": "Against a time before"}
SHIFTS: Final = ("1h", "1d", "7d", "28d")


def page(answers: AnswerCache, catalogue: Catalogue) -> None:
    stream = sidebar.question(answers, catalogue, aggregate=True)
    if not stream.epochs:
        notices.no_events(stream)
        return
    known = splits(stream, session.view().aggregate)
    if not known:
        notices.empty(
            "There is nothing to rank",
            f"**{wording.safe(stream.name)}** has one source and no fields, or this aggregate has one answer only. "
            "Choose another aggregate, or name further columns as fields in the settings file.",
        )
        return
    view = session.view() if session.view().by in known else replace(session.view(), by=known[0])
    components.heading(f"{components.subject(answers, view, stream)}, ranked by {view.by}", view)
    filters.chips(stream)
    _choices(known, view)
    with components.guarded():
        with components.working("Ranking"):
            split = answers.split(view, stream, ALL)
        _board(answers, view, stream, split)


def _choices(known: list[str], view: View) -> None:
    """What is ranked, in which order, and against what."""
    first, second, third, fourth = st.columns([3, 3, 3, 2], vertical_alignment="bottom")
    with first:
        key = "by@board"
        session.show(st.selectbox, "Ranked", known, shown=view.by, key=key, on_change=_take_by, args=(key,))
    with fourth:
        session.show(st.toggle, "Smallest first", **session.bound("smallest", "board"))
    with second:
        key = "against@board"
        session.show(
            st.selectbox,
            "Change",
            list(AGAINST),
            format_func=AGAINST.__getitem__,
            shown=view.compare if view.compare in AGAINST else "decays",
            key=key,
            on_change=_take_against,
            args=(key,),
        )
    with third:
        if view.compare == "times":
            key = "shift@board"
            chosen = view.shift[0] if view.shift else SHIFTS[1]
            session.show(
                st.selectbox,
                "So long before",
                [*SHIFTS, *([chosen] if chosen not in SHIFTS else [])],
                format_func=lambda text: human_duration(parse_duration(text)),
                shown=chosen,
                key=key,
                on_change=_take_shift,
                args=(key,),
            )
        else:
            session.text(
                "The other decay",
                "against 0",
                _with_decay,
                shown=view.against[0] if view.against else "none",
                placeholder="none",
                help="A decay as `wane query --decay` takes it, such as `window:28d`.",
            )


def _take_by(key: str) -> None:
    session.change(by=st.session_state[key])


def _take_against(key: str) -> None:
    session.change(compare=st.session_state[key])


def _take_shift(key: str) -> None:
    session.change(shift=(st.session_state[key],))


def _with_decay(typed: str) -> View:
    spec = parse_decay(typed.strip() or "none").spec
    return replace(session.view(), against=(spec, *session.view().against[1:]))


def other_side(view: View, stream: StoredStream) -> tuple[str, View]:
    """What the answers are compared with, in words, and its view."""
    if view.compare != "times":
        other = view.with_fading(parse_decay(view.against[0] if view.against else "none"))
        return wording.decay_label(other.fading), other
    shift = view.shift[0] if view.shift else SHIFTS[1]
    units = round(parse_duration(shift) * stream.unit.denominator / stream.unit.numerator)
    now = view.moment(stream.unit)
    at = (stream.as_of() or 0) if now is None else now
    return f"{human_duration(parse_duration(shift))} before", replace(view, as_of=str(at - units))


def _board(answers: AnswerCache, view: View, stream: StoredStream, split: SplitAnswer) -> None:
    if not split.places:
        st.info("No group has an answer here.", icon=":material/hourglass_empty:")
        return
    notices.beside(split.provenance, stream)
    question = answers.question(view, stream)
    name, other = other_side(view, stream)
    change = None
    try:
        change = SplitChange.of(split.split, answers.split(other, stream, ALL).split)
    except WaneError as error:
        st.caption(f"There is nothing to compare with: {wording.safe(error)}.")
    left, right = st.columns([1, 2], gap="medium")
    with left:
        drawn = split.places[:DRAWN]
        figure = group_bars(drawn, components.axis_of(question, stream))
        components.show(
            figure,
            "leaderboard",
            f"The first {len(drawn)} of all {view.by}s with their intervals",
            on_select="rerun",
            selection_mode="points",
        )
        if len(split.places) > DRAWN:
            st.caption(f"The first {DRAWN} of {len(split.places):,}; the table has all.")
    with right:
        head, rows = board(split, change, name)
        _table(head, rows, view)
    _drill(view, stream, split)
    st.caption(wording.safe(_told(split, change, view)))
    components.footer(split.provenance, answers)
    components.exports("leaderboard", lambda: (head, rows), split.as_dict)
    components.same_on_the_command_line(view, answers.path, split=True)


def board(split: SplitAnswer, change: SplitChange | None, against: str) -> Table:
    """All groups in their order, with their intervals and how they changed."""
    found = split.split
    columns: list[Any] = [found.value, found.lower, found.upper]
    head = ["rank", split.by, "estimate", "from", "to", "place"]
    if change is not None:
        head += [against, "change", "change %", "is it real?"]
    rows = []
    ties = found.ties
    for rank, at in enumerate(split.listed.tolist(), 1):
        row: list[Any] = [rank, group_text(found.names[at]), *(float(column[at]) for column in columns)]
        row.append("tie" if ties[at] else "clear")
        if change is not None:
            row += [float(change.before[at]), float(change.change[at]), 100.0 * float(change.relative[at])]
            row.append("yes" if change.certain[at] else "unsure")
        rows.append([None if isinstance(cell, float) and not np.isfinite(cell) else cell for cell in row])
    return head, rows


def _table(head: Any, rows: Any, view: View) -> None:
    """The table: a click on a column sorts, its magnifying glass searches, a click on a row shows that group alone."""
    numbers = [name for name in head if name not in ("rank", view.by, "place", "is it real?")]
    st.dataframe(
        {name: [row[at] for row in rows] for at, name in enumerate(head)},
        hide_index=True,
        height=min(700, 38 + 35 * max(6, len(rows))),
        column_config={
            **{name: st.column_config.NumberColumn(format="%.4g") for name in numbers},
            "place": st.column_config.TextColumn(help="A tie: its interval overlaps that of another place."),
            "is it real?": st.column_config.TextColumn(
                help="Yes, where the intervals of now and before do not overlap; else it may be chance."
            ),
            "change %": st.column_config.NumberColumn(format="%+.3g%%"),
        },
        key="rows of the board",
        on_select="rerun",
        selection_mode="single-row",
        alt=f"All {view.by}s, ranked, with their intervals and changes",
    )


def _drill(view: View, stream: StoredStream, split: SplitAnswer) -> None:
    """Show one group on the page Explore, where a bar or a row was clicked."""
    rows = st.session_state.get("rows of the board", {}).get("selection", {}).get("rows", [])
    points = chart.selected("figure leaderboard").get("points", [])
    places = split.places
    at = rows[0] if rows else int(points[0]["point_index"]) if points else -1
    if not 0 <= at < len(places):
        st.caption("Click a column to sort, the magnifying glass to search, a bar or the left end of a row to see one.")
        return
    session.change(**filters.narrowed(view, stream, places[at].value))
    for key in ("rows of the board", "figure leaderboard"):
        st.session_state.pop(key, None)
    if (explore := st.session_state.get("explore page")) is not None:
        st.switch_page(explore)
    st.rerun()


def _told(split: SplitAnswer, change: SplitChange | None, view: View) -> str:
    found = split.split
    told = (
        "All numbers are exact."
        if found.exact
        else f"All intervals hold together at {percent_text(found.confidence)} confidence."
    )
    if any(place.tie for place in split.places):
        told += " Ties, which are hatched, may have each other's places."
    if change is not None:
        told += f" {counted(int(change.certain.sum()), 'change')} of {len(split.places):,} beyond chance"
        told += f", at {percent_text(change.confidence)} confidence." if change.confidence < 1 else "."
    if found.unseen_share:
        share = wording.limits(0.0, found.unseen_share, "share")[1]
        told += f" A {view.by} of which no event was sampled has a share of at most {share}."
    return told
