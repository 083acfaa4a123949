"""The page Audit: exact answers from the raw files as dots on the chart, and how many of them the band contains."""

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
from dashboard.boards.marking import shown_marks
from dashboard.parts import audited_groups, components, filters, notices, sidebar, time_range
from dashboard.parts.components import Table
from dashboard.parts.series_chart import series_chart
from sketches.arrays import Flags, Floats, Ints
from sketches.estimate import Series
from sketches.formatting import counted, listed, moment_text, percent_text
from store.audit.exact import Exact
from store.audit.raw_files import RawFiles, refusal
from store.audit.totals import compare_totals
from store.serving.catalogue import Catalogue, StoredStream
from store.serving.timeline import affected

DOTS: Final = 24


def page(answers: AnswerCache, catalogue: Catalogue) -> None:
    stream = sidebar.question(answers, catalogue, aggregate=True, split=True)
    view = session.view()
    components.heading("Estimates against the raw files", view)
    filters.chips(stream)
    raw = answers.raw_files(view.stream)
    if raw.reason is not None:
        notices.empty(
            "This stream cannot be checked here",
            f"{wording.safe(wording.capitalised(raw.reason))}. Estimates and bounds do not need the raw files.",
        )
        return
    if not raw.present:
        notices.empty(
            "The raw files are gone",
            f"{counted(len(raw.missing) + len(raw.changed), 'file was', 'files were')} read into this stream, and none "
            "is still there unchanged. Nothing is lost: the sketches answer without the raw files.",
        )
        return
    _files(raw)
    _refused(raw)
    key = f"audited {view.stream}"
    if not st.session_state.get(key):
        st.markdown(
            f"This reads {counted(raw.rows, 'row')} of {counted(len(raw.present), 'file')} into memory, asks them in "
            f"plain SQL, and puts {DOTS} exact answers on the chart."
        )
        if not st.button("Check against the raw files", icon=":material/fact_check:"):
            return
        st.session_state[key] = True
        st.rerun()
    with time_range.row():
        span = time_range.picker(answers, stream)
    with components.guarded():
        _audit(answers, view, stream, raw, span)


def _files(raw: RawFiles) -> None:
    """How many of the raw files are still there, and which are not."""
    st.caption(f"{counted(len(raw.present), 'raw file is', 'raw files are')} still there, unchanged.")
    if raw.missing or raw.changed:
        named = listed([file.path for file in (*raw.missing, *raw.changed)])
        st.warning(
            f"{counted(len(raw.missing), 'file is', 'files are')} gone and {len(raw.changed):,} have changed "
            f"({wording.safe(named)}). The dots lack their events, so they may lie outside the band.",
            icon=":material/warning:",
        )


def _refused(raw: RawFiles) -> None:
    """Which files are not read because nobody said that they may be."""
    if raw.refused:
        st.warning(
            f"{counted(len(raw.refused), 'file is', 'files are')} not read: "
            f"{wording.safe(refusal(raw.refused, raw.folders))}. The dots lack their events.",
            icon=":material/block:",
        )


def _audit(answers: AnswerCache, view: View, stream: StoredStream, raw: RawFiles, span: float) -> None:
    as_of = answers.moments(view, stream, span)
    with components.working(f"Answering at {len(as_of)} times"):
        series, provenance = answers.series(view, stream, as_of)
    as_of = series.as_of  # ends of epochs, where the family answers only there
    chosen = np.unique(np.linspace(0, len(as_of) - 1, min(DOTS, len(as_of))).round().astype(int))
    with st.spinner(f"Reading {counted(raw.rows, 'row')} …"):
        exact = answers.exact(raw)
    truth = _exact_answers(answers, view, stream, exact, as_of[chosen])
    accepted = sum(totals.events for totals in stream.epochs.values())
    if raw.complete and exact.events != accepted:
        st.warning(
            f"The files hold {exact.events:,} valid rows now, but {accepted:,} were ingested: limits or options in the "
            "settings file have changed, so dots may lie outside the band.",
            icon=":material/warning:",
        )
    _totals(answers, stream, raw, exact)
    inside = series.covers(truth, chosen)
    gaps = affected(provenance.missing, as_of, view.fading, stream.unit)
    comparable = np.isfinite(truth) & ~(gaps.inside | gaps.reached)[chosen]  # elsewhere no band is drawn
    notices.beside(provenance, stream)
    left, right = st.columns([7, 3], gap="medium")
    with left:
        marks, dots = shown_marks(answers, view, stream), (as_of[chosen].tolist(), truth)
        figure = series_chart(answers, view, stream, series, provenance, dots, marks)
        components.show(figure, "audit", "Exact answers as dots on the estimate with its error band")
    with right:
        _count_inside(series, int(inside[comparable].sum()), int(comparable.sum()))
    if view.by in splits(stream, view.aggregate):
        audited_groups.audited(answers, view, stream, exact)
    components.footer(provenance, answers)
    found = table(series, chosen, truth, inside, view, stream)
    components.exports("audit", lambda: found, lambda: as_json(view, series, found))


def _totals(answers: AnswerCache, stream: StoredStream, raw: RawFiles, exact: Exact) -> None:
    """Whether the exact totals of every hour, on which sums and means lean, are those of the files."""
    totals = answers.hour_totals(stream.name)
    if totals is None or not raw.complete:
        return
    compared = compare_totals(totals, exact)
    hours = counted(len(compared.begins), "hour")
    if compared.equal:
        st.caption(f"Exact totals of {hours}: rows, weights and values are those of the files.")
        return
    first = moment_text(int(compared.begins[compared.differs][0]), stream.unit)
    st.warning(
        f"The exact totals of {int(compared.differs.sum()):,} of {hours} differ from the files, the first at {first}: "
        "were rows read with other settings?",
        icon=":material/warning:",
    )


def _exact_answers(answers: AnswerCache, view: View, stream: StoredStream, exact: Exact, moments: Ints) -> Floats:
    """One exact answer after the other, with a progress bar: each is a query over all rows."""
    asked = view.question(stream)
    # bounds as they are in the files
    question = replace(answers.question(view, stream), where=asked.where, share=asked.share)
    bar = st.progress(0.0, "Asking the raw files …")
    found = []
    for number, moment in enumerate(moments.tolist()):
        found.append(answers.exact_answer(view, exact, question.at(moment)))
        bar.progress((number + 1) / len(moments), f"Asked the raw files {number + 1} of {len(moments)} times")
    bar.empty()
    return np.array(found, float)


def _count_inside(series: Series, inside: int, dots: int) -> None:
    """How many exact answers the band contains, and what it promises."""
    with st.container(border=True):
        st.metric("Exact answers inside the band", f"{inside} of {dots}")
        if not dots:
            st.markdown("There is nothing to compare: no event counts at these times, or epochs are missing.")
        elif inside == dots:
            st.markdown(":green-badge[all inside]")
        else:
            promised = percent_text(series.confidence)
            st.markdown(f"{100 * inside / dots:.3g}% are inside. The promise is {promised} for each by itself.")
        st.caption(
            "Each interval holds with its own probability, over the random choices of the sketches. Neighbouring dots "
            "come from the same sketches: where one lies outside, its neighbours often do, too."
        )


def table(series: Series, chosen: Ints, truth: Floats, inside: Flags, view: View, stream: StoredStream) -> Table:
    """The exact answers beside the estimates."""
    zone = wording.zone(view.zone)
    head = ["as_of", "time", "exact", "estimate", "lower", "upper", "inside"]
    return head, [
        [
            int(series.as_of[at]),
            moment_text(int(series.as_of[at]), stream.unit, zone),
            exact,
            float(series.value[at]),
            float(series.lower[at]),
            float(series.upper[at]),
            is_inside,
        ]
        for at, exact, is_inside in zip(chosen.tolist(), truth.tolist(), inside.tolist(), strict=True)
    ]


def as_json(view: View, series: Series, found: Table) -> dict[str, Any]:
    """The same numbers with the question."""
    head, rows = found
    return {
        "stream": view.stream,
        "sources": list(view.source),
        "aggregate": view.aggregate,
        "decay": view.fading.spec,
        "confidence": series.confidence,
        "answers": [dict(zip(head, row, strict=True)) for row in rows],
    }
