"""For the sceptic: exact answers over the raw files as dots on the chart, and how many are inside the band."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import streamlit as st

from dashboard import parts, sidebar, state, words
from dashboard.desk import Desk
from dashboard.screens import explore
from dashboard.view import View
from sketches.estimate import Series
from store.catalogue import Catalogue, StreamHeld
from store.exact import Exact
from store.raw import RawFiles
from store.timeline import affected

DOTS: Final = 24


def page(desk: Desk, catalogue: Catalogue) -> None:
    held, span = sidebar.question(desk, catalogue, aggregate=True, span=True)
    view = state.view()
    parts.heading("Estimates against the raw files", view)
    raw = desk.raw_files(view.stream)
    if raw.reason is not None:
        parts.empty(
            "This stream cannot be checked here",
            f"{words.safe(raw.reason[:1].upper() + raw.reason[1:])}. Estimates and bounds do not depend on it.",
        )
        return
    if not raw.present:
        parts.empty(
            "The raw files are gone",
            f"{words.counted(len(raw.missing) + len(raw.changed), 'file')} were read into this stream; none of them is "
            "where it was, unchanged. That is as it may be: the sketches answer without them.",
        )
        return
    _files(raw)
    key = f"audited {view.stream}"
    if not st.session_state.get(key):
        st.markdown(
            f"Reads {words.counted(raw.rows, 'row')} of {words.counted(len(raw.present), 'file')} into memory, asks "
            f"them with plain SQL, and puts {DOTS} exact answers on the chart."
        )
        if not st.button("Check against the raw files", type="primary", icon=":material/fact_check:"):
            return
        st.session_state[key] = True
        st.rerun()
    with parts.guarded():
        _audit(desk, view, held, raw, span)


def _files(raw: RawFiles) -> None:
    """Which files there are, and which are not."""
    gone = len(raw.missing) + len(raw.changed)
    text = f"{words.counted(len(raw.present), 'raw file is', 'raw files are')} at hand, as they were read."
    st.caption(text)
    if gone:
        named = words.listed([file.path for file in (*raw.missing, *raw.changed)])
        st.warning(
            f"{words.counted(len(raw.missing), 'file is', 'files are')} gone and {len(raw.changed):,} have changed "
            f"({words.safe(named)}): the dots miss their events, so they may lie outside the band.",
            icon=":material/warning:",
        )


def _audit(desk: Desk, view: View, held: StreamHeld, raw: RawFiles, span: float) -> None:
    as_of = desk.moments(view, held, span)
    series, provenance = desk.series(view, held, as_of)
    chosen = np.unique(np.linspace(0, len(as_of) - 1, min(DOTS, len(as_of))).round().astype(int))
    with st.spinner(f"Reading {words.counted(raw.rows, 'row')} …"):
        exact = desk.exact(raw)
    truth = _exact_answers(desk, view, held, exact, as_of[chosen])
    accepted = sum(known.events for known in held.epochs.values())
    if raw.complete and exact.events != accepted:
        st.warning(
            f"The files hold {exact.events:,} valid rows now, but {accepted:,} were ingested: limits or options of the "
            "settings file differ, so dots may lie outside the band.",
            icon=":material/warning:",
        )
    inside = series.covers(truth, chosen)
    touched = affected(provenance.missing, as_of, view.fading, held.unit)
    known = np.isfinite(truth) & ~(touched.inside | touched.reached)[chosen]  # elsewhere no band is drawn
    parts.incomplete(provenance, held)
    left, right = st.columns([7, 3], gap="medium")
    with left:
        figure = explore.chart(desk, view, held, series, provenance, (as_of[chosen].tolist(), truth))
        parts.show(figure, "audit", "Exact answers as dots on the estimate with its error band")
    with right:
        _verdict(series, int(inside[known].sum()), int(known.sum()))
    parts.footer(provenance, desk)
    rows = table(series, chosen, truth, inside, view, held)
    parts.exports("audit", lambda: rows, lambda: whole(view, series, rows))


def _exact_answers(desk: Desk, view: View, held: StreamHeld, exact: Exact, moments: Any) -> Any:
    """One exact answer after the other, with progress: each is a query over all rows."""
    question = view.question(held.unit)
    bar = st.progress(0.0, "Asking the raw files …")
    found = []
    for number, moment in enumerate(moments.tolist()):
        found.append(desk.exact_answer(view, exact, question.at(moment)))
        bar.progress((number + 1) / len(moments), f"Asked the raw files {number + 1} of {len(moments)} times")
    bar.empty()
    return np.array(found, float)


def _verdict(series: Series, inside: int, dots: int) -> None:
    with st.container(border=True):
        share = inside / dots if dots else float("nan")
        st.metric("Exact answers inside the band", f"{inside} of {dots}")
        if not dots:
            st.markdown("There is nothing to compare: no event counts at these times, or epochs are missing.")
        elif inside == dots:
            st.markdown(":green-badge[all inside]")
        else:
            st.markdown(f"{100 * share:.3g}%, where {100 * series.confidence:g}% are promised for each by itself.")
        st.caption(
            "Each interval holds with the probability it states over the random choice of the sample. Neighbouring "
            "dots come from the same sample: where one lies outside, its neighbours often do too."
        )


def table(
    series: Series, chosen: Any, truth: Any, inside: Any, view: View, held: StreamHeld
) -> tuple[list[str], list[list[Any]]]:
    zone = words.zone(view.zone)
    head = ["as_of", "time", "exact", "estimate", "lower", "upper", "inside"]
    return head, [
        [
            int(series.as_of[at]),
            words.moment(int(series.as_of[at]), held.unit, zone),
            exact,
            float(series.value[at]),
            float(series.lower[at]),
            float(series.upper[at]),
            held_in,
        ]
        for at, exact, held_in in zip(chosen.tolist(), truth.tolist(), inside.tolist(), strict=True)
    ]


def whole(view: View, series: Series, rows: tuple[list[str], list[list[Any]]]) -> dict[str, Any]:
    head, found = rows
    return {
        "stream": view.stream,
        "sources": list(view.source),
        "aggregate": view.aggregate,
        "decay": view.fading.spec,
        "confidence": series.confidence,
        "answers": [dict(zip(head, row, strict=True)) for row in found],
    }
