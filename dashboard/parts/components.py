"""What pages are made of: an answer in words, its exports, a figure in the page."""

from __future__ import annotations

import csv
import html
import io
import json
import logging
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, replace
from datetime import tzinfo
from typing import Any, Final

import plotly.graph_objects as go
import streamlit as st
from numpy.typing import NDArray

from dashboard import wording, words
from dashboard.asking import session
from dashboard.asking.answer_cache import AnswerCache
from dashboard.asking.command import command
from dashboard.asking.view import View, by_number, sources_text
from dashboard.figures.decay_curve import decay_picture, decay_points
from dashboard.figures.frame import Axis
from dashboard.parts import chart
from dashboard.wording import AGGREGATES, Units
from sketches.decay import Decay
from sketches.errors import QuestionError, WaneError
from sketches.estimate import Curve, Series
from sketches.formatting import counted, moment_text, percent_text, size_text
from sketches.question import Question
from sketches.sentences import sentence as sentence_of
from store import Answer, Provenance
from store.serving.catalogue import StoredStream
from store.serving.resolving import names_of

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


def working(what: str) -> AbstractContextManager[None]:
    """Say what is done, with the seconds, where it takes longer than a moment."""
    return st.spinner(f"{what} …", show_time=True)


def units_of(stream: StoredStream) -> Units:
    """The units that the stream's settings name, and its names for value and weight."""
    described = stream.described
    return Units(str(described.get("value_unit", "")), str(described.get("weight_unit", "")), names_of(stream))


def measure_of(question: Question) -> str:
    """What the number of a question measures: weight, events, value, a field, share, a square or a rate of one."""
    measure = _measured(question)
    if question.aggregate in ("self-join", "inner-product", "variance"):
        measure += wording.SQUARED
    return measure + wording.PER_SECOND if question.per_second else measure


def _measured(question: Question) -> str:
    if question.sums:
        return _column(question.measured)
    if question.aggregate in ("median", "quantile"):
        return _column(question.ranked)
    if question.aggregate in ("count", "correlated-count", "self-join", "inner-product"):
        return "weight" if question.by_weight else "events"
    return "share"


def _column(name: str) -> str:
    return name if name in ("weight", "value") else wording.FIELD + name


def axis_of(question: Question, stream: StoredStream) -> Axis:
    """The axis for the number of a question."""
    measure = measure_of(question)
    return Axis(units_of(stream).axis(measure), share=measure == "share")


def subject(answers: AnswerCache, view: View, stream: StoredStream) -> str:
    """What is asked, as the beginning of a sentence in the words of the stream's own columns; the aggregate alone while
    the view still lacks something."""
    try:
        asked = answers.question(view, stream)
    except QuestionError:
        return AGGREGATES[view.aggregate]
    asked = replace(asked, where=view.question(stream).where)  # with times and weights as they were written
    names = replace(names_of(stream), alone=True)
    return wording.capitalised(sentence_of(asked, names, weighted=stream.weighted))


def heading(text: str, view: View, number: str = "") -> None:
    """The title of a page: what is shown, of which stream and sources, under which decay."""
    st.markdown(f"#### {wording.safe(text)}" + (f": :blue[{wording.safe(number)}]" if number else ""))
    below = f"{view.stream} · {sources_text(view)} · {wording.decay_sentence(view.fading)}"
    st.caption(wording.safe(below))
    st.session_state["heading"] = [f"{text}: {number}" if number else text, below]


def answer_card(answer: Answer, measure: str, view: View, stream: StoredStream, note: str = "") -> None:
    """The number and its interval, both in one sentence, a note, the guarantee, and which family answered and why."""
    estimate = answer.estimate
    units = units_of(stream)
    early = is_early(answer, stream)
    with st.container(border=True):
        unit = units.with_number("", measure).strip()
        st.metric(wording.safe(AGGREGATES[view.aggregate]), "no events yet" if early else number_of(answer, measure))
        if not early:
            between = ", in " if estimate.exact else " "  # no number stands before the unit of an exact one
            st.markdown(interval(answer, measure) + (f"{between}{wording.safe(unit)}" if unit else ""))
        st.markdown(f":small[{wording.safe(sentence(answer, measure, view, stream, wording.zone(view.zone)))}]")
        if note and not early:
            st.caption(f":material/trending_up: {wording.safe(note)}")
        for said in answer.provenance.unknown:
            st.caption(f":material/help: {wording.safe(wording.capitalised(said))}.")
        st.markdown(  # not a caption, which is pale, and its links are too pale to be read
            f":small[Answered by {words.link('Family', wording.safe(estimate.family))}: "
            f"{wording.safe(answer.provenance.why)}. "
            f"{words.cited(wording.safe(wording.capitalised(estimate.guarantee)))}.]"
        )


def number_of(answer: Answer, measure: str) -> str:
    """The number of an answer, with no more digits than its interval justifies."""
    estimate = answer.estimate
    return wording.estimated(estimate.value, estimate.lower, estimate.upper, measure)


def number_in_words(answer: Answer, measure: str, stream: StoredStream) -> str:
    """The number of an answer with its unit."""
    if is_early(answer, stream):
        return "no events yet"
    return units_of(stream).with_number(number_of(answer, measure), measure)


def is_early(answer: Answer, stream: StoredStream) -> bool:
    """Whether the answer is as of a time before the first event of its sources."""
    oldest = [stream.by_source[name].oldest for name in answer.provenance.sources if name in stream.by_source]
    return bool(oldest) and answer.estimate.as_of < min(oldest)


def plain_interval(answer: Answer, measure: str) -> str:
    """The interval as plain text, and how sure it is."""
    estimate = answer.estimate
    if math.isnan(estimate.value):
        return ""
    if estimate.exact:
        return "exact" if answer.provenance.rejected is None else "exact for the rows taken"
    low, high = wording.limits(estimate.lower, estimate.upper, measure)
    sure = "certain" if estimate.confidence >= 1 else percent_text(estimate.confidence)
    return f"{low} … {high}, {sure}"


def interval(answer: Answer, measure: str) -> str:
    """The interval as one line of Markdown; where epochs are missing it says that they are not in it."""
    estimate = answer.estimate
    limits = estimate.lower, estimate.upper
    between = "" if estimate.exact else f"**{wording.safe(' … '.join(wording.limits(*limits, measure)))}** "
    half = wording.half_width(estimate.value, *limits, measure)
    width = f" {wording.safe(half)}" if half else ""
    sure = "exact" if estimate.exact else "certain" if estimate.confidence >= 1 else percent_text(estimate.confidence)
    taken = " for the rows taken" if answer.provenance.rejected is not None and estimate.confidence >= 1 else ""
    if not answer.provenance.complete:
        return f"{between}:orange-badge[{sure}{taken}, of the readable epochs only]{width}"
    if taken:
        return f"{between}:orange-badge[{sure}{taken}]{width}"
    return f"{between}:{'green' if estimate.exact or estimate.confidence >= 1 else 'blue'}-badge[{sure}]{width}"


def sentence(answer: Answer, measure: str, view: View, stream: StoredStream, zone: tzinfo) -> str:
    """The answer in one sentence."""
    estimate = answer.estimate
    at = moment_text(estimate.as_of, stream.unit, zone)
    only = "" if answer.provenance.rejected is None else ", for the rows taken"
    only += "" if answer.provenance.complete else ", counting only the epochs that can be read"
    if is_early(answer, stream):
        return f"There are no events yet as of {at}: the first one came later."
    if math.isnan(estimate.value):
        return f"Nothing counts as of {at}{only}: no event is young enough, or none fits."
    what = wording.capitalised(answer.provenance.in_own_words)
    number = units_of(stream).with_number(number_of(answer, measure), measure)
    if estimate.exact:
        sure = f"is exactly {number}"
    else:
        low, high = wording.limits(estimate.lower, estimate.upper, measure)
        with_certainty = (
            "certainly" if estimate.confidence >= 1 else f"with {percent_text(estimate.confidence)} confidence"
        )
        sure = f"is about {number}, {with_certainty} between {low} and {high}"
    return f"{what} {sure}, as of {at}, where {wording.decay_sentence(view.fading)}{only}."


def way_to(path: str, label: str) -> None:
    """A link to another page, which shows the same stream."""
    if (page := st.session_state.get("pages", {}).get(path)) is not None:
        st.page_link(page, label=label, icon=":material/arrow_forward:")


def decay_card(decay: Decay) -> None:
    """What a decay does, in a sentence and as a picture."""
    with st.container(border=True):
        st.markdown(f"{wording.safe(wording.capitalised(wording.decay_sentence(decay)))}.")
        if by_number(decay):
            st.caption("An event counts by its number, not by its age, so there is no curve over age.")
            return
        ages, weights = decay_points(decay)
        unit = age_unit(float(ages[-1]))
        half = math.inf if decay.split()[0].name == "none" else decay.half_age  # a window takes all at once
        show(decay_picture(ages, weights, half, unit), "decay", f"The decay {decay.spec} over age", bare=True)


def age_unit(seconds: float) -> tuple[str, float]:
    """The unit for an axis of ages up to `seconds`, with its seconds: the largest of which there are at least two."""
    return next((unit for unit in reversed(AGES) if seconds >= 2 * unit[1]), AGES[0])


def show(
    figure: go.Figure,
    name: str,
    alt: str,
    *,
    bare: bool = False,
    on_select: Callable[[], None] | str | None = None,
    selection_mode: str | Sequence[str] = "points",
) -> None:
    """Put a figure into the page. `name` names its picture when it is saved, `alt` is for screen readers.

    `on_select` is called, or the page is drawn again where it is "rerun", when a hand does what `selection_mode` names;
    `chart.selected` says what.
    """
    modes = [selection_mode] if isinstance(selection_mode, str) else list(selection_mode)
    chart.draw(
        figure,
        f"figure {name}",
        alt,
        caption(name),
        bare=bare,
        listens=modes if on_select else (),
        on_select=on_select if callable(on_select) else None,
    )


def caption(name: str) -> chart.Caption:
    """What the picture of a chart says: what the page shows, as of when, and the same in the name of its file."""
    view, at = session.view(), st.session_state.get("as of", "")
    parts = ["wane", view.stream, name, view.fading.spec, at]
    file = "-".join(filter(None, (re.sub(r"[^A-Za-z0-9.]+", "_", part).strip("_") for part in parts)))
    lines = [html.escape(line, quote=False) for line in st.session_state.get("heading", [])]
    return chart.Caption(file, [*lines, *([f"as of {at}"] if at else [])])


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


def same_on_the_command_line(view: View, store: Any, family: str = "", *, split: bool = False) -> None:
    """The command that gives the same number; `family` is the one that gave it, where wane would pick another.

    It is drawn once it is opened.
    """
    shown = st.expander("The same on the command line", icon=":material/terminal:", key="command", on_change="rerun")
    if shown.open:
        with shown:
            st.code(command(view, store, family, split=split), language=None, wrap_lines=True)


def footer(provenance: Provenance, answers: AnswerCache) -> None:
    """Where the numbers come from, and how long they took."""
    st.caption(
        f"Drawn by {wording.safe(provenance.family)} · Generation {provenance.generation:,} · "
        f"{counted(provenance.epochs, 'epoch')} of "
        f"{counted(len(provenance.sources), 'source')} · {size_text(provenance.sketch_bytes)} of sketches · "
        f"computed in {answers.spent_ms:.0f} ms"
    )


def answer_json(answer: Answer, view: View) -> dict[str, Any]:
    """An answer and the view that it belongs to."""
    return {"view": asdict(view), "decay": view.fading.spec, **answer.as_dict()}
