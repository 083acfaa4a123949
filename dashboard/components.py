"""What pages are made of: an answer in words, its exports, a figure in the page, warnings, and empty pages."""

from __future__ import annotations

import csv
import io
import json
import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import tzinfo
from typing import Any, Final

import plotly.graph_objects as go
import streamlit as st
from numpy.typing import NDArray

from dashboard import session, wording
from dashboard.answer_cache import AnswerCache
from dashboard.command import command
from dashboard.figures.decay_curve import decay_picture, decay_points
from dashboard.figures.frame import Axis, shown_as
from dashboard.view import View, sources_text
from dashboard.wording import AGGREGATES, Units
from sketches.decay import Decay
from sketches.durations import human_duration
from sketches.errors import WaneError
from sketches.estimate import Curve, Series
from sketches.formatting import counted, listed, moment_text, percent_text, size_text
from store import Answer, Provenance
from store.serving.catalogue import StoredStream

LOG: Final = logging.getLogger("wane.dashboard")
Table = tuple[Sequence[str], Sequence[Sequence[Any]]]  # names of the columns, rows
AGES: Final = (("s", 1.0), ("min", 60.0), ("h", 3600.0), ("d", 86_400.0))


@contextmanager
def guarded() -> Iterator[None]:
    """Show a sentence where something goes wrong. The trace of a fault in the program goes to the server's log."""
    try:
        yield
    except WaneError as error:
        st.warning(wording.safe(error), icon=":material/info:")
    except Exception:  # nobody should see a stack trace
        LOG.exception("a page failed")
        st.error(
            "Something went wrong here. It is a fault of the program: the server's log has the details. The rest of "
            "the page still works.",
            icon=":material/error:",
        )


def units_of(stream: StoredStream) -> Units:
    """The units that the stream's settings name."""
    described = stream.described
    return Units(str(described.get("value_unit", "")), str(described.get("weight_unit", "")))


def measure_of(view: View) -> str:
    """What the number of a view measures."""
    if view.aggregate in ("sum", "mean") and view.of == "value":
        return "value"
    return AGGREGATES[view.aggregate].measure


def axis_of(view: View, stream: StoredStream) -> Axis:
    """The axis for the number of a view."""
    measure = measure_of(view)
    return Axis(units_of(stream).axis(measure), share=measure == "share")


def subject(view: View) -> str:
    """What the number of a view is, as the beginning of a sentence."""
    what = ("values" if view.of == "value" else "weights") if view.aggregate == "sum" else view.of
    texts = {"tau": wording.threshold(view.tau), "phi": percent_text(view.phi), "value": view.value or "a value"}
    texts |= {"low": view.low or "…", "high": view.high or "…", "other": view.other or "another source", "what": what}
    return AGGREGATES[view.aggregate].subject.format(**texts)


def heading(text: str, view: View, number: str = "") -> None:
    """The title of a page: what is shown, of which stream and sources, under which decay."""
    st.markdown(f"#### {wording.safe(text)}" + (f": :blue[{wording.safe(number)}]" if number else ""))
    st.caption(
        f"{wording.safe(view.stream)} · {wording.safe(sources_text(view))} · "
        f"{wording.safe(wording.decay_sentence(view.fading))}"
    )


def answer_card(answer: Answer, view: View, stream: StoredStream) -> None:
    """The number and its interval, both in one sentence, the guarantee, and which family answered and why."""
    estimate = answer.estimate
    measure = measure_of(view)
    units = units_of(stream)
    with st.container(border=True):
        unit = units.with_number("", measure).strip()
        st.metric(wording.safe(AGGREGATES[view.aggregate].label), wording.measured(estimate.value, measure))
        st.markdown(interval(answer, measure) + (f" {wording.safe(unit)}" if unit else ""))
        st.markdown(f":small[{wording.safe(sentence(answer, view, stream, wording.zone(view.zone)))}]")
        st.caption(
            f"Answered by **{wording.safe(estimate.family)}**: {wording.safe(answer.provenance.why)}. "
            f"{wording.safe(wording.capitalised(estimate.guarantee))}."
        )


def interval(answer: Answer, measure: str) -> str:
    """The interval as one line of Markdown; where epochs are missing it says that they are not in it."""
    estimate = answer.estimate
    between = (
        ""
        if estimate.exact
        else f"**{wording.safe(' … '.join(wording.limits(estimate.lower, estimate.upper, measure)))}** "
    )
    sure = "exact" if estimate.exact else "certain" if estimate.confidence >= 1 else percent_text(estimate.confidence)
    if not answer.provenance.complete:
        return f"{between}:orange-badge[{sure}, of the readable epochs only]"
    return f"{between}:{'green' if estimate.exact or estimate.confidence >= 1 else 'blue'}-badge[{sure}]"


def sentence(answer: Answer, view: View, stream: StoredStream, zone: tzinfo) -> str:
    """The answer in one sentence."""
    estimate = answer.estimate
    at = moment_text(estimate.as_of, stream.unit, zone)
    only = "" if answer.provenance.complete else ", counting only the epochs that can be read"
    if math.isnan(estimate.value):
        return f"Nothing counts as of {at}{only}: no event is young enough, or none fits."
    measure = measure_of(view)
    what = subject(view)
    number = units_of(stream).with_number(wording.measured(estimate.value, measure), measure)
    if estimate.exact:
        sure = f"is exactly {number}"
    else:
        low, high = wording.limits(estimate.lower, estimate.upper, measure)
        with_certainty = (
            "certainly" if estimate.confidence >= 1 else f"with {percent_text(estimate.confidence)} confidence"
        )
        sure = f"is about {number}, {with_certainty} between {low} and {high}"
    return f"{what} {sure}, as of {at}, where {wording.decay_sentence(view.fading)}{only}."


def decay_card(decay: Decay) -> None:
    """A picture of the decay, and the age at which half the weight is gone."""
    ages, weights = decay_points(decay)
    unit = age_unit(float(ages[-1]))
    with st.container(border=True):
        half = decay.half_age
        st.markdown(
            "Half the weight is never gone."
            if math.isinf(half)
            else f"Half the weight is gone after **{human_duration(half)}**."
        )
        show(decay_picture(ages, weights, half, unit), "decay", f"The decay {decay.spec} over age", bare=True)


def age_unit(seconds: float) -> tuple[str, float]:
    """The unit for an axis of ages up to `seconds`, with its seconds: the largest of which there are at least two."""
    return next((unit for unit in reversed(AGES) if seconds >= 2 * unit[1]), AGES[0])


def show(figure: go.Figure, name: str, alt: str, *, bare: bool = False, **options: Any) -> Any:
    """Put a figure into the page. `name` names its picture when it is saved, `alt` is for screen readers."""
    config = {"displayModeBar": False, "responsive": True} if bare else shown_as(f"wane-{name}")
    return st.plotly_chart(figure, key=f"figure {name}", config=config, alt=alt, **options)


def exports(name: str, table: Callable[[], Table], as_json: Callable[[], Mapping[str, Any]]) -> None:
    """Buttons that save what is drawn as CSV and as JSON; the camera above the figure saves its picture."""
    with st.container(horizontal=True):
        st.download_button(
            "CSV",
            lambda: to_csv(*table()),
            f"wane-{name}.csv",
            "text/csv",
            key=f"csv {name}",
            on_click="ignore",
            icon=":material/table:",
            help="The numbers of this chart",
        )
        st.download_button(
            "JSON",
            lambda: json.dumps(as_json(), ensure_ascii=False, indent=1, default=str),
            f"wane-{name}.json",
            "application/json",
            key=f"json {name}",
            on_click="ignore",
            icon=":material/data_object:",
            help="The numbers with their guarantee and where they come from",
        )
        st.caption("PNG: the camera above the chart")


def points(at: NDArray[Any], found: Series | Curve) -> list[tuple[Any, float, float, float]]:
    """The points of a chart: place, estimate, lower and upper limit of each."""
    return list(zip(at.tolist(), found.value.tolist(), found.lower.tolist(), found.upper.tolist(), strict=True))


def to_csv(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Rows as CSV. A text that a spreadsheet would take for a formula is marked as text."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(head)
    writer.writerows([_without_formula(cell) for cell in row] for row in rows)
    return out.getvalue()


def _without_formula(cell: Any) -> Any:
    return f"'{cell}" if isinstance(cell, str) and cell[:1] in ("=", "+", "-", "@", "\t", "\r") else cell


def same_on_the_command_line(view: View, store: Any) -> None:
    """The command that gives the same number."""
    with st.expander("The same on the command line", icon=":material/terminal:"):
        st.code(command(view, store), language="bash", wrap_lines=True)


def footer(provenance: Provenance, answers: AnswerCache) -> None:
    """Where the numbers come from, and how long they took."""
    st.caption(
        f"Drawn by {wording.safe(provenance.family)} · Generation {provenance.generation:,} · "
        f"{counted(provenance.epochs, 'epoch')} of "
        f"{counted(len(provenance.sources), 'source')} · {size_text(provenance.sketch_bytes)} of sketches · "
        f"computed in {answers.spent_ms:.0f} ms"
    )


def incomplete(provenance: Provenance, stream: StoredStream) -> None:
    """A warning where epochs are missing."""
    if provenance.complete:
        return
    zone = wording.zone(session.view().zone)
    gaps = sorted({(gap.start, gap.source, gap.reason) for gap in provenance.missing})
    named = listed([f"{source} at {moment_text(start, stream.unit, zone)} ({why})" for start, source, why in gaps])
    st.warning(
        f"Incomplete: {counted(len(gaps), 'epoch is', 'epochs are')} missing: {wording.safe(named)}. "
        "Numbers and their bounds are of the readable epochs only. *Check every sketch* on the page Health lists all "
        "missing epochs.",
        icon=":material/warning:",
    )


def empty(title: str, text: str, code: str = "") -> None:
    """What a page says where there is nothing to show, and the command that changes that."""
    with st.container(border=True):
        st.markdown(f"### {title}")
        st.markdown(text)
        if code:
            st.code(code, language="bash", wrap_lines=True)


def no_events(stream: StoredStream) -> None:
    """What a page says of a stream without events."""
    empty("No events yet", f"The stream **{wording.safe(stream.name)}** is known, but it holds no events yet.")


def answer_json(answer: Answer, view: View) -> dict[str, Any]:
    """An answer and the view that it belongs to."""
    return {"view": asdict(view), "decay": view.fading.spec, **answer.as_dict()}
