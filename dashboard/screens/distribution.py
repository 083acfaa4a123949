"""The page Distribution: the value at every share, and the sum, count or mean above every threshold τ."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np
import streamlit as st

from dashboard import wording
from dashboard.asking import session
from dashboard.asking.answer_cache import AnswerCache
from dashboard.asking.measures import is_keyed
from dashboard.asking.view import View
from dashboard.figures.distribution import quantile_figure, wide
from dashboard.figures.frame import Axis
from dashboard.figures.lines import Line, along
from dashboard.parts import chart, components, controls, filters, notices, sidebar
from dashboard.parts.components import Table
from sketches.arrays import Floats
from sketches.errors import WaneError
from sketches.estimate import Curve
from sketches.formatting import number_text, percent_text
from sketches.registry import family_of
from store import Provenance
from store.serving.catalogue import Catalogue, StoredStream

BAND_NAMES: Final = {"each": "Band for each point by itself", "all": "Band for all points at once"}
RARE: Final = 1.0 - np.array([5e-4, 2e-4, 1e-4, 5e-5, 2e-5, 1e-5])  # shares below
CURVE_NAMES: Final = {"sum": "Sum", "mean": "Mean", "count": "Count"}


def page(answers: AnswerCache, catalogue: Catalogue) -> None:
    stream = sidebar.question(answers, catalogue)
    view = drawable(session.view(), stream)
    if is_keyed(stream):
        notices.empty(
            "These values have no order",
            f"The values of **{wording.safe(stream.name)}** are texts, so they have no quantiles and no threshold. The "
            "page Top values shows which of them are frequent.",
        )
        components.way_to("top-values", "Top values")
        return
    components.heading("How the values are distributed", view)
    if not stream.epochs:
        notices.no_events(stream)
        return
    filters.chips(stream)
    with components.guarded():
        with components.working("Finding the value at each share"):
            _, provenance = answers.quantiles(view, stream)
        notices.beside(provenance, stream)
    wider = "Read off one point, or judge the whole curve: a band for all points at once is wider."
    session.segments("Error band", BAND_NAMES, "band", help=wider)
    left, right = st.columns(2, gap="medium")
    with left, components.guarded():
        quantiles(answers, view, stream)
    with right:
        above(answers, stream)
    with components.guarded():
        curve, provenance = answers.quantiles(view, stream)
        at = taus(curve)
        if len(at):
            sums, _ = answers.thresholds(view, stream, at)
            components.exports(
                "distribution",
                lambda: table(curve, sums, view.curve),
                lambda: as_json(view, curve, sums, provenance),
            )
        components.footer(provenance, answers)


def curves(stream: StoredStream) -> dict[str, str]:
    """What can be drawn against a threshold, with its names: sums are of the weight."""
    return {name: text for name, text in CURVE_NAMES.items() if name != "sum" or stream.weighted}


def drawable(view: View, stream: StoredStream) -> View:
    """The view with a curve that can be drawn."""
    known = curves(stream)
    return view if view.curve in known else replace(view, curve=next(iter(known)))


def quantiles(answers: AnswerCache, view: View, stream: StoredStream) -> None:
    """The quantile function."""
    curve, provenance = answers.quantiles(view, stream)
    counted_by = wording.safe(provenance.asked.partition(", ")[2])
    st.markdown("**Value at each share**" + (f", {counted_by}" if counted_by else ""))
    figure = quantile_figure(curve, components.units_of(stream).axis("value"))
    if figure is None:
        notices.nothing_counts(view)
        return
    components.show(figure, "quantiles", "The value at every share, with its error band")
    texts = [f"{percent_text(phi)}: **{wording.safe(number_text(_at(curve, phi)))}**" for phi in (0.5, 0.9, 0.99)]
    st.caption(" · ".join(texts) + f" {wording.safe(components.units_of(stream).value)}")
    st.caption(band_words(curve))


def band_words(curve: Curve) -> str:
    """How sure a band is, and of what."""
    if curve.confidence >= 1.0:
        return "The exact curve is never outside the band."
    confidence = percent_text(curve.confidence)
    if curve.together:
        return f"The whole exact curve is inside the band at {confidence} confidence."
    return f"Each point of the band holds by itself at {confidence} confidence; some point of a curve may lie outside."


def _at(curve: Curve, phi: float) -> float:
    return float(curve.value[np.argmin(np.abs(curve.at - phi))])


@st.fragment
def above(answers: AnswerCache, stream: StoredStream) -> None:
    """The sum, count or mean at or above τ. A click or the slider moves τ; only this part is then drawn again."""
    with components.guarded():  # here inside, because Streamlit itself shows errors that leave a fragment
        _above(answers, stream)
    session.publish()


def _above(answers: AnswerCache, stream: StoredStream) -> None:
    session.segments("Curve of the", curves(stream), "curve")
    view = drawable(session.view(), stream)
    curve, _ = answers.quantiles(view, stream)
    at = taus(curve)
    if len(at) == 0:
        notices.nothing_counts(view)
        return
    sums, provenance = answers.thresholds(view, stream, at)
    tail = family_of(provenance.family).abilities.tells_tails  # its error is a part of the answer, however rare
    if tail:
        at = np.union1d(at, taus(answers.quantiles(view, stream, RARE)[0]))
        sums, _ = answers.thresholds(view, stream, at)
    above_each = replace(view, aggregate=f"correlated-{view.curve}", tau=view.tau or "0")
    question = answers.question(above_each, stream)
    whole = replace(view, aggregate=view.curve)
    st.markdown(f"**{wording.safe(components.subject(answers, whole, stream))}**, at or above each threshold τ")
    mark, share = None, None
    if view.tau:
        try:
            threshold = _threshold(answers, view, stream)
            total = answers.ask(above_each, stream).estimate
            share = answers.ask(replace(view, aggregate="selectivity"), stream)
            mark = (threshold, total.value, f"τ = {number_text(threshold)}")
        except WaneError as error:
            st.warning(wording.safe(error), icon=":material/info:")
    units = components.units_of(stream)
    figure = along(
        Line.of(view.curve, sums.at, sums),
        Axis(f"threshold τ, {units.axis('value')}"),
        components.axis_of(question, stream),
        mark=mark,
        log_x=wide(curve),
        log_y=tail and view.curve != "mean",
        clickable=True,
        height=400,
    )
    components.show(
        figure,
        "thresholds",
        f"The {view.curve} at or above each threshold, with its error band",
        on_select=_take_click,
        selection_mode="points",
    )
    controls.tau(answers, stream, "distribution")
    if share is not None:
        st.metric(
            "Share of the weight at or above τ" if question.by_weight else "Share at or above τ",
            components.number_of(share, "share"),
            help=wording.safe(share.estimate.guarantee),
        )
        st.markdown(components.interval(share, "share"))
        components.same_on_the_command_line(replace(view, aggregate="selectivity"), answers.path)
    else:
        st.caption("Click a point of the curve, or move the slider, to see the share above a threshold.")


def _take_click() -> None:
    points = chart.selected("figure thresholds")["points"]
    if points and isinstance(points[0].get("x"), int | float):
        session.change(tau=f"{points[0]['x']:.12g}")


def _threshold(answers: AnswerCache, view: View, stream: StoredStream) -> float:
    """τ as a number; where it is an aggregate, of all events, the store is asked for it."""
    threshold = replace(view, aggregate="selectivity").question(stream).threshold
    if threshold is None:
        return float(view.tau)
    of_all = replace(view, where="", of="value", aggregate="mean")
    if threshold.phi is not None:
        of_all = replace(of_all, aggregate="quantile", phi=threshold.phi)
    return threshold.factor * answers.ask(of_all, stream).estimate.value


def taus(curve: Curve) -> Floats:
    """The thresholds of the curve: each value of the quantile function once."""
    return np.unique(curve.value[np.isfinite(curve.value)])


def table(curve: Curve, sums: Curve, of: str = "sum") -> Table:
    """The numbers of both curves."""
    rows = [
        [kind, at, *numbers]
        for kind, one in (("value at share", curve), (f"{of} at or above", sums))
        for at, *numbers in components.points(one.at, one)
    ]
    return ["curve", "at", "estimate", "lower", "upper"], rows


def as_json(view: View, curve: Curve, sums: Curve, provenance: Provenance) -> dict[str, Any]:
    """The same numbers with the question and the generation."""
    head, rows = table(curve, sums, view.curve)
    return {
        "stream": view.stream,
        "sources": list(provenance.sources),
        "decay": view.fading.spec,
        "as_of": view.as_of or "newest",
        "confidence": curve.confidence,
        "together": curve.together,
        "generation": provenance.generation,
        "points": [dict(zip(head, row, strict=True)) for row in rows],
    }
