"""What all pages are made of: the answer in words, its exports, a figure in the page, and what to say when there is
nothing to show."""

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

from dashboard import figures, state, words
from dashboard.desk import Desk, picture
from dashboard.view import View, command, sources_text
from dashboard.words import AGGREGATES, Units
from sketches.curves import Curve
from sketches.decay import Decay
from sketches.errors import WaneError
from sketches.estimate import Series
from store import Answer, Provenance
from store.catalogue import StreamHeld

LOG: Final = logging.getLogger("wane.dashboard")
AGES: Final = (("s", 1.0), ("min", 60.0), ("h", 3600.0), ("d", 86_400.0))


@contextmanager
def guarded() -> Iterator[None]:
    """Whatever goes wrong becomes a sentence; what is our fault goes to the server's log with its trace."""
    try:
        yield
    except WaneError as error:
        st.warning(words.safe(error), icon=":material/info:")
    except Exception:  # a person must never see a stack trace
        LOG.exception("a page failed")
        st.error(
            "Something went wrong here, on our side. The server's log has the details; the rest of the page still "
            "works.",
            icon=":material/error:",
        )


def units_of(held: StreamHeld) -> Units:
    """The units the stream's settings name."""
    described = held.described
    return Units(str(described.get("value_unit", "")), str(described.get("weight_unit", "")))


def measure_of(view: View) -> str:
    """What the number of a view measures."""
    if view.aggregate in ("sum", "mean") and view.of == "value":
        return "value"
    return AGGREGATES[view.aggregate].measure


def subject(view: View) -> str:
    """What the number of a view is, as the beginning of a sentence."""
    what = ("values" if view.of == "value" else "weights") if view.aggregate == "sum" else view.of
    texts = {"tau": words.threshold(view.tau), "phi": f"{100 * view.phi:g}%", "value": view.value or "a value"}
    texts |= {"low": view.low or "…", "high": view.high or "…", "other": view.other or "another source", "what": what}
    return AGGREGATES[view.aggregate].subject.format(**texts)


def heading(text: str, view: View, number: str = "") -> None:
    """The title of a page's main part: what, of which stream and sources; a number where there is one."""
    st.markdown(f"#### {words.safe(text)}" + (f": :blue[{words.safe(number)}]" if number else ""))
    st.caption(
        f"{words.safe(view.stream)} · {words.safe(sources_text(view))} · {words.safe(words.fading(view.fading))}"
    )


def answer_card(answer: Answer, view: View, held: StreamHeld) -> None:
    """The number, its interval, what holds in one plain sentence, which family answered and why."""
    found = answer.estimate
    measure = measure_of(view)
    units = units_of(held)
    with st.container(border=True):
        unit = units.with_number("", measure).strip()
        st.metric(words.safe(AGGREGATES[view.aggregate].label), words.measured(found.value, measure))
        st.markdown(interval(answer, measure) + (f" {words.safe(unit)}" if unit else ""))
        st.markdown(f":small[{words.safe(sentence(answer, view, held, words.zone(view.zone)))}]")
        st.caption(
            f"Answered by **{words.safe(found.family)}**: {words.safe(answer.provenance.why)}. "
            f"{words.safe(found.guarantee[:1].upper() + found.guarantee[1:])}."
        )


def interval(answer: Answer, measure: str) -> str:
    """The interval as one line of Markdown; where epochs are missing it says that it is that of the others."""
    found = answer.estimate
    between = "" if found.exact else f"**{words.safe(' … '.join(words.limits(found.lower, found.upper, measure)))}** "
    sure = "exact" if found.exact else "certain" if found.confidence >= 1 else f"{100 * found.confidence:g}%"
    if not answer.provenance.complete:
        return f"{between}:orange-badge[{sure}, of the readable epochs only]"
    return f"{between}:{'green' if found.exact or found.confidence >= 1 else 'blue'}-badge[{sure}]"


def sentence(answer: Answer, view: View, held: StreamHeld, zone: tzinfo) -> str:
    """One plain sentence that holds."""
    found = answer.estimate
    at = words.moment(found.as_of, held.unit, zone)
    only = "" if answer.provenance.complete else ", counting only the epochs that can be read"
    if math.isnan(found.value):
        return f"Nothing counts as of {at}{only}: no event is young enough, or none fits."
    measure = measure_of(view)
    what = subject(view)
    number = units_of(held).with_number(words.measured(found.value, measure), measure)
    if found.exact:
        sure = f"is exactly {number}"
    else:
        low, high = words.limits(found.lower, found.upper, measure)
        with_certainty = "certainly" if found.confidence >= 1 else f"with {100 * found.confidence:g}% confidence"
        sure = f"is about {number}, {with_certainty} between {low} and {high}"
    return f"{what} {sure}, as of {at}, where {words.fading(view.fading)}{only}."


def decay_card(decay: Decay) -> None:
    """A live picture of the decay and the age at which half the weight is gone."""
    ages, weights = picture(decay)
    unit = next((each for each in reversed(AGES) if ages[-1] >= 2 * each[1]), AGES[0])
    with st.container(border=True):
        half = decay.half_age
        told = (
            "Half the weight is never gone."
            if math.isinf(half)
            else f"Half the weight is gone after **{words.duration(half)}**."
        )
        st.markdown(told)
        show(figures.decay_picture(ages, weights, half, unit), "decay", f"The decay {decay.spec} over age", bare=True)


def show(figure: go.Figure, name: str, alt: str, *, bare: bool = False, **options: Any) -> Any:
    """A figure in the page, as wide as there is room, with a name for its picture and words for those who hear it."""
    config = {"displayModeBar": False, "responsive": True} if bare else figures.shown_as(f"wane-{name}")
    return st.plotly_chart(figure, key=f"figure {name}", config=config, alt=alt, **options)


def exports(
    name: str, rows: Callable[[], tuple[Sequence[str], Iterable[Sequence[Any]]]], whole: Callable[[], Mapping[str, Any]]
) -> None:
    """What is drawn, to take along: CSV and JSON; the picture is saved from the figure's own camera."""
    with st.container(horizontal=True):
        st.download_button(
            "CSV",
            lambda: to_csv(*rows()),
            f"wane-{name}.csv",
            "text/csv",
            key=f"csv {name}",
            on_click="ignore",
            icon=":material/table:",
            help="The numbers of this chart",
        )
        st.download_button(
            "JSON",
            lambda: json.dumps(whole(), ensure_ascii=False, indent=1, default=str),
            f"wane-{name}.json",
            "application/json",
            key=f"json {name}",
            on_click="ignore",
            icon=":material/data_object:",
            help="The numbers with their guarantee and where they come from",
        )
        st.caption("PNG: the camera above the chart")


def points(at: NDArray[Any], found: Series | Curve) -> list[tuple[Any, float, float, float]]:
    """What is drawn, point by point: where, the estimate, its lower and upper limit."""
    return list(zip(at.tolist(), found.value.tolist(), found.lower.tolist(), found.upper.tolist(), strict=True))


def to_csv(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Rows as CSV; a text that a spreadsheet would take for a formula is marked as text."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(head)
    writer.writerows([_plain(cell) for cell in row] for row in rows)
    return out.getvalue()


def _plain(cell: Any) -> Any:
    return f"'{cell}" if isinstance(cell, str) and cell[:1] in ("=", "+", "-", "@", "\t", "\r") else cell


def same_on_the_command_line(view: View, store: Any) -> None:
    """The command that gives the same number."""
    with st.expander("The same on the command line", icon=":material/terminal:"):
        st.code(command(view, store), language="bash", wrap_lines=True)


def footer(provenance: Provenance, desk: Desk) -> None:
    """Where the numbers come from and what they cost."""
    st.caption(
        f"Drawn by {words.safe(provenance.family)} · Generation {provenance.generation:,} · "
        f"{words.counted(provenance.epochs, 'epoch')} of "
        f"{words.counted(len(provenance.sources), 'source')} · {words.size(provenance.sketch_bytes)} of sketches · "
        f"computed in {desk.spent_ms:.0f} ms"
    )


def incomplete(provenance: Provenance, held: StreamHeld) -> None:
    """Says so where epochs are missing."""
    if provenance.complete:
        return
    zone = words.zone(state.view().zone)
    gaps = sorted({(gap.start, gap.source, gap.reason) for gap in provenance.missing})
    named = words.listed([f"{source} at {words.moment(start, held.unit, zone)} ({why})" for start, source, why in gaps])
    st.warning(
        f"Incomplete: {words.counted(len(gaps), 'epoch is', 'epochs are')} missing: {words.safe(named)}. "
        "Numbers and their bounds are of the readable epochs only. *Check every sketch* on the page Health lists all.",
        icon=":material/warning:",
    )


def empty(title: str, text: str, code: str = "") -> None:
    """What to say where there is nothing yet, and what to do about it."""
    with st.container(border=True):
        st.markdown(f"### {title}")
        st.markdown(text)
        if code:
            st.code(code, language="bash", wrap_lines=True)


def answer_json(answer: Answer, view: View) -> dict[str, Any]:
    """An answer with the view it belongs to."""
    return {"view": asdict(view), "decay": view.fading.spec, **answer.as_dict()}
