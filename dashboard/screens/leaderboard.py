"""The page Leaderboard: all sources, or all values of a field, ranked, with what has changed against before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import streamlit as st

from dashboard import wording
from dashboard.asking import session
from dashboard.asking.answer_cache import AnswerCache
from dashboard.asking.many_groups import changed_of
from dashboard.asking.measures import aggregates_of, splits
from dashboard.asking.view import View
from dashboard.figures.bars import group_bars
from dashboard.figures.change_dots import Changed, change_dots
from dashboard.parts import against, chart, components, filters, notices, sidebar
from dashboard.parts.components import Table
from sketches.arrays import Rows
from sketches.errors import WaneError
from sketches.formatting import counted, percent_text
from store.serving.catalogue import Catalogue, StoredStream
from store.serving.split_answer import SplitAnswer
from store.serving.split_change import SplitChange

ALL: Final = 1_000_000  # groups
DRAWN: Final = 20  # as bars
QUICK: Final = {"mean": "Mean", "median": "Median", "sum": "Sum", "count": "Number", "rate": "Rate"}
Columns = dict[str, Any]  # names with arrays or lists, alike in length


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
    _choices(known, view, stream)
    with components.guarded():
        with components.working("Ranking"):
            split = answers.split(view, stream, ALL)
        _board(answers, view, stream, split)


def _choices(known: list[str], view: View, stream: StoredStream) -> None:
    """What is ranked, by which number, in which order, and against what."""
    quick = [name for name in QUICK if name in aggregates_of(stream)]
    with st.container(horizontal=True, vertical_alignment="bottom"):
        key = "aggregate@board"
        session.show(
            st.pills,
            "By",
            quick,
            format_func=QUICK.__getitem__,
            shown=view.aggregate if view.aggregate in quick else None,
            key=key,
            on_change=_take_aggregate,
            args=(key,),
        )
        against.presets(view, stream)
    first, second, third, fourth = st.columns([3, 3, 3, 2], vertical_alignment="bottom")
    with first:
        key = "by@board"
        session.show(st.selectbox, "Ranked", known, shown=view.by, key=key, on_change=_take_by, args=(key,))
    against.choices(view, second, third)
    with fourth:
        session.show(st.toggle, "Smallest first", **session.bound("smallest", "board"))


def _take_aggregate(key: str) -> None:
    if (chosen := st.session_state[key]) is not None:
        session.change(aggregate=chosen)


def _take_by(key: str) -> None:
    session.change(by=st.session_state[key])


def _board(answers: AnswerCache, view: View, stream: StoredStream, split: SplitAnswer) -> None:
    if not len(split.listed):
        notices.empty(
            "No group has an answer here",
            "Nothing that the filter leaves counts under this decay as of this time. Take a longer window, another "
            "as-of time, or remove a filter.",
        )
        return
    notices.beside(split.provenance, stream)
    name, other = against.other_side(view, stream)
    change = None
    try:
        change = changed_of(answers, view, other, stream, ALL)
    except WaneError as error:
        st.caption(f"There is nothing to compare with: {wording.safe(error)}.")
    else:
        notices.grows(view)
    _figures(answers, view, stream, split, change)
    told, rows = _told(split, change, view), _found(split)
    shown = columns(split, change, name, rows)
    _table(shown, view)
    _drill(view, stream, split, rows)
    st.caption(wording.safe(told))
    components.footer(split.provenance, answers)
    whole = split.listed
    components.exports("leaderboard", lambda: table(columns(split, change, name, whole)), split.as_dict)
    components.same_on_the_command_line(view, answers.path, split=True)


def _figures(
    answers: AnswerCache, view: View, stream: StoredStream, split: SplitAnswer, change: SplitChange | None
) -> None:
    """The first groups as bars, and beside them how they have changed."""
    axis, drawn = components.axis_of(answers.question(view, stream), stream), split.first(DRAWN)
    left, right = st.columns(2, gap="medium")
    with left:
        components.show(
            group_bars(drawn, axis, alike=True),
            "leaderboard",
            f"The first {len(drawn)} of all {view.by}s with their intervals",
            on_select="rerun",
            selection_mode="points",
        )
        if len(split.listed) > DRAWN:
            st.caption(f"The first {DRAWN} of {len(split.listed):,}; the table has all.")
    if change is not None:
        at = split.listed[:DRAWN]
        numbers = (change.change.value, change.change.lower, change.change.upper, change.certain)
        dots = [
            Changed(place.name, *numbers)
            for place, *numbers in zip(drawn, *(column[at].tolist() for column in numbers), strict=True)
        ]
        with right:
            components.show(
                change_dots(dots, axis),
                "changes of the leaderboard",
                f"How the first {len(drawn)} {view.by}s have changed, with the limits of the changes",
            )
            st.caption("How each has changed. Hollow: it may be chance.")


def columns(split: SplitAnswer, change: SplitChange | None, against: str, rows: Rows) -> Columns:
    """Some groups in their order, with their intervals and how they changed."""
    found = split.split
    rank = np.empty(len(found), np.int64)
    rank[split.listed] = np.arange(1, len(split.listed) + 1)
    shown: Columns = {
        "rank": rank[rows],
        split.by: split.texts[rows],
        "estimate": found.value[rows],
    }
    if not found.exact:
        shown |= {"from": found.lower[rows], "to": found.upper[rows]}
    shown["place"] = np.where(found.ties[rows], "tie", "clear")
    if change is None:
        return shown
    shown[against] = change.before.value[rows]
    for name, limited, scale in (("change", change.change, 1.0), ("change %", change.relative, 100.0)):
        value, ends = limited.value[rows], (limited.lower[rows], limited.upper[rows])
        shown[name] = scale * value
        if change.exact:
            continue
        for end, column in zip(("from", "to"), ends, strict=True):
            shown[f"{name}, {end}"] = np.where(np.isfinite(value) & np.isfinite(column), scale * column, np.nan)
    shown["beyond chance"] = np.where(change.certain[rows], "yes", "may be chance")
    return shown


def table(shown: Columns) -> Table:
    """The same as rows, for export."""
    listed: list[Sequence[Any]] = [
        [None if isinstance(cell, float) and not np.isfinite(cell) else cell for cell in np.asarray(column).tolist()]
        for column in shown.values()
    ]
    return list(shown), [list(row) for row in zip(*listed, strict=True)]


def _found(split: SplitAnswer) -> Rows:
    """The numbers of the groups whose name has the text that is looked for, in order; all without one."""
    key = "find@board"
    st.text_input(
        f"Find a {split.by}",
        key=key,
        placeholder=f"a part of its name, among {len(split.listed):,}",
        label_visibility="collapsed",
        icon=":material/search:",
    )
    wanted = str(st.session_state.get(key, "")).strip().lower()
    if not wanted:
        return split.listed
    texts = split.texts[split.listed].astype(np.str_)
    return split.listed[np.strings.find(np.strings.lower(texts), wanted) >= 0]


def _table(shown: Columns, view: View) -> None:
    """A click on a column sorts, a click on a row shows that group alone."""
    texts = ("rank", view.by, "place", "beyond chance")
    numbers = [name for name in shown if name not in texts]
    percents = [name for name in numbers if name.startswith("change %")]
    st.dataframe(
        shown,
        hide_index=True,
        height=min(560, 38 + 35 * max(3, len(shown["rank"]))),
        column_config={
            "rank": st.column_config.NumberColumn(width=50, pinned=True),
            view.by: st.column_config.TextColumn(pinned=True),
            **{name: st.column_config.NumberColumn(format="%.4g") for name in numbers},
            **{name: st.column_config.NumberColumn(format="%+.3g%%") for name in percents},
            "place": st.column_config.TextColumn(help="A tie: its interval overlaps that of another place."),
            "beyond chance": st.column_config.TextColumn(
                help="Yes, where the limits of the change do not hold 0. Both answers are of the same events: what is "
                "chance in both alike is left out."
            ),
        },
        key="rows of the board",
        on_select="rerun",
        selection_mode="single-row",
        alt=f"All {view.by}s, ranked, with their intervals and changes",
    )


def _drill(view: View, stream: StoredStream, split: SplitAnswer, rows: Rows) -> None:
    """Show one group on the page Explore, where a bar or a row was clicked."""
    chosen = st.session_state.get("rows of the board", {}).get("selection", {}).get("rows", [])
    points = chart.selected("figure leaderboard").get("points", [])
    which, at = (rows, chosen[0]) if chosen else (split.listed, int(points[0]["point_index"]) if points else -1)
    if not 0 <= at < len(which):
        st.caption("Click a column to sort, a bar or the left end of a row to see one on Explore.")
        return
    session.change(**filters.narrowed(view, stream, split.split.names[which[at]]))
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
    if found.ties[split.listed].any():
        told += " Ties, which are hatched, may have each other's places."
    if change is not None:
        told += f" {counted(int(change.certain[split.listed].sum()), 'change')} of {len(split.listed):,} beyond chance"
        told += f", all together at {percent_text(change.confidence)} confidence." if change.confidence < 1 else "."
    if found.unseen_share:
        share = wording.limits(0.0, found.unseen_share, "share")[1]
        told += f" A {view.by} of which no event was sampled has a share of at most {share}."
    return told
