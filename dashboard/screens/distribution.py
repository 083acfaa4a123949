"""The page Distribution: the value at every share of the weight, and the weight above every threshold τ."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import streamlit as st

from dashboard import components, controls, session, sidebar, wording
from dashboard.answer_cache import AnswerCache
from dashboard.components import Table
from dashboard.figures.frame import Axis
from dashboard.figures.lines import Line, along
from dashboard.view import View, is_keyed
from sketches.arrays import Floats
from sketches.errors import WaneError
from sketches.estimate import Curve
from sketches.formatting import number_text, percent_text
from store import Provenance
from store.serving.catalogue import Catalogue, StoredStream


def page(answers: AnswerCache, catalogue: Catalogue) -> None:
    stream, _ = sidebar.question(answers, catalogue)
    view = session.view()
    if is_keyed(stream):
        components.empty(
            "These values have no order",
            f"The values of **{wording.safe(stream.name)}** are texts, so they have no quantiles and no threshold. The "
            "page Top values shows which of them are frequent.",
        )
        return
    components.heading("How the values are distributed", view)
    if not stream.epochs:
        components.no_events(stream)
        return
    left, right = st.columns(2, gap="medium")
    with left, components.guarded():
        quantiles(answers, view, stream)
    with right:
        above(answers, stream)
    with components.guarded():
        curve, provenance = answers.quantiles(view, stream)
        sums, _ = answers.thresholds(view, stream, taus(curve))
        components.incomplete(provenance, stream)
        components.footer(provenance, answers)
        components.exports("distribution", lambda: table(curve, sums), lambda: as_json(view, curve, sums, provenance))


def quantiles(answers: AnswerCache, view: View, stream: StoredStream) -> None:
    """The quantile function."""
    st.markdown("**Value at each share**")
    curve, _ = answers.quantiles(view, stream)
    if not np.isfinite(curve.value).any():
        st.info("Nothing counts here: no event is young enough.", icon=":material/hourglass_empty:")
        return
    unit = components.units_of(stream).axis("value")
    figure = along(
        Line.of("value", curve.at, curve),
        Axis("share of the weight at or below", share=True),
        Axis(unit),
        log_y=wide(curve),
        height=400,
    )
    components.show(figure, "quantiles", "The value at every share of the weight, with its error band")
    texts = [f"{percent_text(phi)}: **{wording.safe(number_text(_at(curve, phi)))}**" for phi in (0.5, 0.9, 0.99)]
    st.caption(" · ".join(texts) + f" {wording.safe(components.units_of(stream).value)}")


def _at(curve: Curve, phi: float) -> float:
    return float(curve.value[np.argmin(np.abs(curve.at - phi))])


@st.fragment
def above(answers: AnswerCache, stream: StoredStream) -> None:
    """The weight at or above τ against τ. A click or the slider moves τ; only this part is then drawn again."""
    with components.guarded():  # here inside, because Streamlit itself shows errors that leave a fragment
        _above(answers, stream)
    session.publish()


def _above(answers: AnswerCache, stream: StoredStream) -> None:
    view = session.view()
    st.markdown("**Weight at or above each threshold τ**")
    curve, _ = answers.quantiles(view, stream)
    at = taus(curve)
    if len(at) == 0:
        st.info("Nothing counts here: no event is young enough.", icon=":material/hourglass_empty:")
        return
    sums, _ = answers.thresholds(view, stream, at)
    mark, share = None, None
    if view.tau:
        try:
            threshold = _threshold(answers, view, stream)
            total = answers.ask(replace(view, aggregate="correlated-sum"), stream).estimate
            share = answers.ask(replace(view, aggregate="selectivity"), stream)
            mark = (threshold, total.value, f"τ = {number_text(threshold)}")
        except WaneError as error:
            st.warning(wording.safe(error), icon=":material/info:")
    units = components.units_of(stream)
    figure = along(
        Line.of("weight", sums.at, sums),
        Axis(f"threshold τ, {units.axis('value')}"),
        Axis(units.axis("weight")),
        mark=mark,
        log_x=wide(curve),
        clickable=True,
        height=400,
    )
    components.show(
        figure,
        "thresholds",
        "The weight at or above each threshold, with its error band",
        on_select=_take_click,
        selection_mode="points",
    )
    controls.tau(answers, "distribution")
    if share is not None:
        st.metric(
            "Share of the weight at or above τ",
            wording.measured(share.estimate.value, "share"),
            help=wording.safe(share.estimate.guarantee),
        )
        st.markdown(components.interval(share, "share"))
        components.same_on_the_command_line(replace(view, aggregate="selectivity"), answers.path)
    else:
        st.caption("Click a point of the curve, or move the slider, to see the share above a threshold.")


def _take_click() -> None:
    points = st.session_state["figure thresholds"]["selection"]["points"]
    if points and isinstance(points[0].get("x"), int | float):
        session.change(tau=f"{points[0]['x']:.12g}")


def _threshold(answers: AnswerCache, view: View, stream: StoredStream) -> float:
    """τ as a number; where it is a quantile, the store is asked for it."""
    phi = replace(view, aggregate="selectivity").question(stream.unit).tau_quantile
    if phi is None:
        return float(view.tau)
    return answers.ask(replace(view, aggregate="quantile", phi=phi), stream).estimate.value


def taus(curve: Curve) -> Floats:
    """The thresholds of the curve: each value of the quantile function once."""
    return np.unique(curve.value[np.isfinite(curve.value)])


def wide(curve: Curve) -> bool:
    """Whether the values differ so much that only a logarithmic axis shows them all."""
    known = curve.value[np.isfinite(curve.value)]
    return len(known) > 0 and known[0] > 0 and math.log10(known[-1] / known[0]) > 2


def table(curve: Curve, sums: Curve) -> Table:
    """The numbers of both curves."""
    rows = [
        [kind, at, *numbers]
        for kind, one in (("value at share", curve), ("weight at or above", sums))
        for at, *numbers in components.points(one.at, one)
    ]
    return ["curve", "at", "estimate", "lower", "upper"], rows


def as_json(view: View, curve: Curve, sums: Curve, provenance: Provenance) -> dict[str, Any]:
    """The same numbers with the question and the generation."""
    head, rows = table(curve, sums)
    return {
        "stream": view.stream,
        "sources": list(provenance.sources),
        "decay": view.fading.spec,
        "as_of": view.as_of or "newest",
        "confidence": curve.confidence,
        "generation": provenance.generation,
        "points": [dict(zip(head, row, strict=True)) for row in rows],
    }
