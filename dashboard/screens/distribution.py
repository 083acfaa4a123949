"""The whole distribution under the chosen decay: the value at every share, and what lies above every threshold τ."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import streamlit as st

from dashboard import controls, figures, parts, sidebar, state, words
from dashboard.desk import Desk
from dashboard.figures import Axis, Line
from dashboard.view import View, is_keyed
from sketches.curves import Curve
from sketches.errors import WaneError
from store import Provenance
from store.catalogue import Catalogue, StreamHeld


def page(desk: Desk, catalogue: Catalogue) -> None:
    held, _ = sidebar.question(desk, catalogue)
    view = state.view()
    if is_keyed(held):
        parts.empty(
            "These values have no order",
            f"The values of **{words.safe(held.name)}** are texts, so they have no quantiles and no threshold. The "
            "page Top values shows which of them are frequent.",
        )
        return
    parts.heading("How the values are distributed", view)
    if not held.epochs:
        parts.empty("No events yet", f"The stream **{words.safe(held.name)}** is known, but it holds no events yet.")
        return
    left, right = st.columns(2, gap="medium")
    with left, parts.guarded():
        quantiles(desk, view, held)
    with right:
        above(desk, held)
    with parts.guarded():
        curve, provenance = desk.quantiles(view, held)
        sums, _ = desk.thresholds(view, held, taus(curve))
        parts.incomplete(provenance, held)
        parts.footer(provenance, desk)
        parts.exports("distribution", lambda: rows(curve, sums), lambda: whole(view, curve, sums, provenance))


def quantiles(desk: Desk, view: View, held: StreamHeld) -> None:
    """The quantile function."""
    st.markdown("**Value at each share**")
    curve, _ = desk.quantiles(view, held)
    if not np.isfinite(curve.value).any():
        st.info("Nothing counts here: no event is young enough.", icon=":material/hourglass_empty:")
        return
    unit = parts.units_of(held).axis("value")
    figure = figures.along(
        Line.of("value", curve.at, curve),
        Axis("share of the weight at or below", share=True),
        Axis(unit),
        log_y=wide(curve),
        height=400,
    )
    parts.show(figure, "quantiles", "The value at every share of the weight, with its error band")
    texts = [f"{100 * phi:g}%: **{words.safe(words.number(_at(curve, phi)))}**" for phi in (0.5, 0.9, 0.99)]
    st.caption(" · ".join(texts) + f" {words.safe(parts.units_of(held).value)}")


def _at(curve: Curve, phi: float) -> float:
    return float(curve.value[np.argmin(np.abs(curve.at - phi))])


@st.fragment
def above(desk: Desk, held: StreamHeld) -> None:
    """The weight at or above τ against τ; a click or the slider moves τ, and only this part is drawn again."""
    with parts.guarded():  # in here: Streamlit shows by itself what a fragment lets through
        _above(desk, held)
    state.publish()


def _above(desk: Desk, held: StreamHeld) -> None:
    view = state.view()
    st.markdown("**Weight at or above each threshold τ**")
    curve, _ = desk.quantiles(view, held)
    at = taus(curve)
    if len(at) == 0:
        st.info("Nothing counts here: no event is young enough.", icon=":material/hourglass_empty:")
        return
    sums, _ = desk.thresholds(view, held, at)
    mark, share = None, None
    if view.tau:
        try:
            threshold = _threshold(desk, view, held)
            total = desk.ask(replace(view, aggregate="correlated-sum"), held).estimate
            share = desk.ask(replace(view, aggregate="selectivity"), held)
            mark = (threshold, total.value, f"τ = {words.number(threshold)}")
        except WaneError as error:
            st.warning(words.safe(error), icon=":material/info:")
    units = parts.units_of(held)
    figure = figures.along(
        Line.of("weight", sums.at, sums),
        Axis(f"threshold τ, {units.axis('value')}"),
        Axis(units.axis("weight")),
        mark=mark,
        log_x=wide(curve),
        clickable=True,
        height=400,
    )
    parts.show(
        figure,
        "thresholds",
        "The weight at or above each threshold, with its error band",
        on_select=_take_click,
        selection_mode="points",
    )
    controls.tau(desk, "distribution")
    if share is not None:
        st.metric(
            "Share of the weight at or above τ",
            words.measured(share.estimate.value, "share"),
            help=words.safe(share.estimate.guarantee),
        )
        st.markdown(parts.interval(share, "share"))
        parts.same_on_the_command_line(replace(view, aggregate="selectivity"), desk.path)
    else:
        st.caption("Click a point of the curve, or move the slider, to see the share above a threshold.")


def _take_click() -> None:
    points = st.session_state["figure thresholds"]["selection"]["points"]
    if points and isinstance(points[0].get("x"), int | float):
        state.change(tau=f"{points[0]['x']:.12g}")


def _threshold(desk: Desk, view: View, held: StreamHeld) -> float:
    """τ as a number; it may be an aggregate itself."""
    phi = replace(view, aggregate="selectivity").question(held.unit).tau_quantile
    if phi is None:
        return float(view.tau)
    return desk.ask(replace(view, aggregate="quantile", phi=phi), held).estimate.value


def taus(curve: Curve) -> Any:
    """Thresholds where the values are: each value of the quantile function once."""
    return np.unique(curve.value[np.isfinite(curve.value)])


def wide(curve: Curve) -> bool:
    """Whether values span so many sizes that only a logarithmic axis shows them all."""
    known = curve.value[np.isfinite(curve.value)]
    return len(known) > 0 and known[0] > 0 and math.log10(known[-1] / known[0]) > 2


def rows(curve: Curve, sums: Curve) -> tuple[list[str], list[list[Any]]]:
    """Both curves as one table."""
    found = [
        [kind, at, *numbers]
        for kind, one in (("value at share", curve), ("weight at or above", sums))
        for at, *numbers in parts.points(one.at, one)
    ]
    return ["curve", "at", "estimate", "lower", "upper"], found


def whole(view: View, curve: Curve, sums: Curve, provenance: Provenance) -> dict[str, Any]:
    head, table = rows(curve, sums)
    return {
        "stream": view.stream,
        "sources": list(provenance.sources),
        "decay": view.fading.spec,
        "as_of": view.as_of or "newest",
        "confidence": curve.confidence,
        "generation": provenance.generation,
        "points": [dict(zip(head, row, strict=True)) for row in table],
    }
