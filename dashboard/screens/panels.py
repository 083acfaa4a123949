"""The page Panels: many groups over time at once, as small charts or as a heatmap, or the values themselves."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any, Final

import numpy as np
import streamlit as st

from dashboard import wording
from dashboard.asking import session
from dashboard.asking.answer_cache import AnswerCache
from dashboard.asking.many_groups import Grid, classes, grid
from dashboard.asking.measures import is_keyed, splits
from dashboard.asking.view import View
from dashboard.figures.frame import Axis
from dashboard.figures.heatmap import heatmap
from dashboard.figures.panels import panels
from dashboard.parts import components, filters, notices, sidebar, time_range
from dashboard.parts.components import Table
from sketches.arrays import Ints
from sketches.changes import Between
from sketches.estimate import SplitSeries
from sketches.formatting import moment_text, percent_text
from store.serving.catalogue import Catalogue, StoredStream
from store.serving.changes_answer import name_text
from store.serving.resolving import has_values
from store.serving.split_answer import group_text

NAMES: Final = {"panels": "Panels", "heatmap": "Heatmap", "values": "Values over time"}
MOST: Final = {"panels": 24, "heatmap": 40}  # groups
WIDE: Final = 4  # panels beside each other; on a phone half as many
SHARE_OF: Final = Axis("share of what counts", share=True)


def page(answers: AnswerCache, catalogue: Catalogue) -> None:
    stream = sidebar.question(answers, catalogue, aggregate=True)
    if not stream.epochs:
        notices.no_events(stream)
        return
    view = session.view()
    numbers = has_values(stream) and not is_keyed(stream)
    known = splits(stream, view.aggregate)
    layouts = [name for name in NAMES if numbers or name != "values"]
    shown = view.layout if view.layout in layouts else "panels"
    _heading(answers, view, stream, shown, known)
    filters.chips(stream)
    _choices(view, shown, layouts, known)
    with time_range.row():
        span = time_range.picker(answers, stream)
    with components.guarded():
        as_of = answers.moments(view, stream, span)
        if shown == "values":
            _values(answers, view, stream, as_of)
        elif not known:
            notices.empty(
                "There is nothing to set side by side",
                f"**{wording.safe(stream.name)}** has one source and no fields, or this aggregate has one answer only. "
                "Choose another aggregate, or name further columns as fields in the settings file. *Values over time* "
                "needs neither.",
            )
        else:
            _groups(answers, view if view.by in known else replace(view, by=known[0]), stream, as_of, shown)


def _heading(answers: AnswerCache, view: View, stream: StoredStream, shown: str, known: list[str]) -> None:
    if shown == "values":
        own = components.units_of(stream).axis("value")
        components.heading(f"How the values ({own}) are spread over time", view)
        return
    by = view.by if view.by in known else next(iter(known), "")
    components.heading(f"{components.subject(answers, view, stream)}" + (f", by {by}" if by else ""), view)


def _choices(view: View, shown: str, layouts: list[str], known: list[str]) -> None:
    """How they are drawn, what they are split by, and which come first."""
    first, second, third = st.columns([4, 3, 2], vertical_alignment="bottom")
    with first:
        key = "layout@"
        session.show(
            st.segmented_control,
            "Drawn as",
            layouts,
            format_func=NAMES.__getitem__,
            required=True,
            shown=shown,
            key=key,
            on_change=_take,
            args=("layout", key),
        )
    if shown == "values" or not known:
        return
    with second:
        key = "by@panels"
        by = view.by if view.by in known else known[0]
        session.show(st.selectbox, "One for each", known, shown=by, key=key, on_change=_take, args=("by", key))
    with third:
        session.show(st.toggle, "Smallest first", **session.bound("smallest", "panels"))


def _take(name: str, key: str) -> None:
    if st.session_state[key]:
        session.change(**{name: st.session_state[key]})


def _groups(answers: AnswerCache, view: View, stream: StoredStream, as_of: Ints, shown: str) -> None:
    with components.working("Answering for every group at every time"):
        found = grid(answers, view, stream, as_of, MOST[shown])
    if not found.split.places:
        st.info(
            "No group has an answer here. Try a longer window, or fewer filters.", icon=":material/hourglass_empty:"
        )
        return
    notices.beside(found.split.provenance, stream)
    axis = components.axis_of(answers.question(view, stream), stream)
    names = [group_text(name) for name in found.series.names]
    at = wording.axis_times(found.series.as_of.tolist(), stream.unit, wording.zone(view.zone))
    order = "smallest" if view.smallest else "largest"
    alt = f"{len(names)} {view.by}s with the {order} answers, each over time with its intervals"
    if shown == "panels":
        columns = WIDE // 2 if _is_phone() else WIDE
        st.caption(
            f"{wording.safe(axis.title)}, on the same axes everywhere. The shade is the interval; wide ones go on."
        )
        components.show(panels(names, at, found.series, axis, columns), "panels", alt)
    else:
        drawn = heatmap(names, at, found.series.value, found.series.lower, found.series.upper, axis, view.zone)
        components.show(drawn, "heatmap", alt)
    st.caption(wording.safe(_told(found, view)))
    _open_one(view, stream, found)
    head, rows = table(found.series, names, view, stream)
    _as_table(view.by, found.series, names, components.measure_of(answers.question(view, stream)))
    components.footer(found.split.provenance, answers)
    components.exports("panels", lambda: (head, rows), lambda: as_json(found, view))


def _is_phone() -> bool:
    return "Mobi" in (st.context.headers.get("User-Agent") or "")


def _told(found: Grid, view: View) -> str:
    split, drawn = found.split, len(found.series.names)
    order = "smallest" if view.smallest else "largest"
    told = f"The {order} {drawn} of {len(split.split):,} now" if len(split.split) > drawn else f"All {drawn}"
    told += ", by their answers as of the end. At each time all intervals hold together at "
    told += f"{percent_text(found.series.confidence)} confidence, whichever groups are drawn."
    if split.split.unseen_share:
        share = wording.limits(0.0, split.split.unseen_share, "share")[1]
        told += f" A {view.by} of which no event was sampled has a share of at most {share}."
    return told


def _open_one(view: View, stream: StoredStream, found: Grid) -> None:
    """A way to one of them on Explore, also without a pointer."""
    names = {group_text(name): name for name in found.series.names}
    chosen = st.selectbox("See one on Explore", list(names), index=None, placeholder="choose", key="one of the panels")
    if chosen is None or chosen not in names:
        return
    session.change(**filters.narrowed(view, stream, names[chosen]))
    st.session_state.pop("one of the panels", None)
    if (explore := st.session_state.get("explore page")) is not None:
        st.switch_page(explore)


def _as_table(by: str, series: SplitSeries, names: list[str], measure: str) -> None:
    """The newest answer of each row, and between what it went: the same in words."""
    with st.expander("The numbers as a table", icon=":material/table:"):
        last = [one[:, -1].tolist() for one in (series.value, series.lower, series.upper)]
        limits = [wording.limits(low, high, measure) for low, high in zip(last[1], last[2], strict=True)]
        known = np.isfinite(series.value)
        least = np.where(known.any(axis=1), np.where(known, series.value, np.inf).min(axis=1), np.nan)
        most = np.where(known.any(axis=1), np.where(known, series.value, -np.inf).max(axis=1), np.nan)
        st.dataframe(
            {
                by: names,
                "at the end": [wording.estimated(*one, measure) for one in zip(last[0], last[1], last[2], strict=True)],
                "from": [low for low, _ in limits],
                "to": [high for _, high in limits],
                "least": [wording.measured(float(f"{one:.4g}"), measure) for one in least.tolist()],
                "greatest": [wording.measured(float(f"{one:.4g}"), measure) for one in most.tolist()],
            },
            hide_index=True,
            alt=f"The last answer of each {by}, and the least and the greatest of all times",
        )


def _values(answers: AnswerCache, view: View, stream: StoredStream, as_of: Ints) -> None:
    """The share of each class of values, as of each time."""
    with components.working("Answering for every class of values at every time"):
        series, provenance = classes(answers, view, stream, as_of)
    edges = [float(edge) for edge in series.names[1:] if isinstance(edge, float)]
    if not edges:
        st.info("There are too few different values for classes.", icon=":material/hourglass_empty:")
        return
    notices.beside(provenance, stream)
    unit = components.units_of(stream)
    ends = [-np.inf, *edges, np.inf]
    names = [name_text(Between(low, high)) for low, high in pairwise(ends)][::-1]
    turned = replace(series, value=series.value[::-1], lower=series.lower[::-1], upper=series.upper[::-1])
    at = wording.axis_times(series.as_of.tolist(), stream.unit, wording.zone(view.zone))
    figure = heatmap(names, at, turned.value, turned.lower, turned.upper, SHARE_OF, view.zone)
    figure.update_layout(yaxis_title={"text": wording.in_figure(unit.axis("value"))})
    components.show(figure, "values", "The share of each class of values over time, the greatest values at the top")
    st.caption(
        "Each column is the distribution as of its time, as the decay weighs it: with no fading and a window as long "
        "as a column, each column is its own events. In each column all intervals hold together at "
        f"{percent_text(series.confidence)} confidence."
    )
    head, rows = table(turned, names, view, stream)
    _as_table("value", turned, names, "share")
    components.footer(provenance, answers)
    components.exports("values", lambda: (["value", *head[1:]], rows), lambda: _series_json(turned, names))


def table(series: SplitSeries, names: list[str], view: View, stream: StoredStream) -> Table:
    """The numbers of all cells."""
    zone = wording.zone(view.zone)
    moments = [(at, moment_text(at, stream.unit, zone)) for at in series.as_of.tolist()]
    columns = (series.value.tolist(), series.lower.tolist(), series.upper.tolist())
    rows = [
        [name, *moment, *numbers]
        for name, *row in zip(names, *columns, strict=True)
        for moment, *numbers in zip(moments, *row, strict=True)
    ]
    return [view.by or "source", "as_of", "time", "estimate", "lower", "upper"], rows


def as_json(found: Grid, view: View) -> dict[str, Any]:
    """The ranking, and every cell."""
    names = [group_text(name) for name in found.series.names]
    return {**found.split.as_dict(), "over_time": _series_json(found.series, names)}


def _series_json(series: SplitSeries, names: list[str]) -> dict[str, Any]:
    def numbers(column: Any) -> list[list[float | None]]:
        return [[one if np.isfinite(one) else None for one in row] for row in column.tolist()]

    return {
        "names": names,
        "as_of": series.as_of.tolist(),
        "estimate": numbers(series.value),
        "lower": numbers(series.lower),
        "upper": numbers(series.upper),
        "confidence": series.confidence,
        "guarantee": series.guarantee,
    }
