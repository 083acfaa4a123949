"""The page Compare: decays, sources or as-of times over the same data, on the same axes, and how they differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np
import streamlit as st

from dashboard import wording
from dashboard.asking import session
from dashboard.asking.answer_cache import AnswerCache
from dashboard.asking.view import MOST_COMPARED, View, largest_sources
from dashboard.boards.marking import shown_marks
from dashboard.figures.lines import over_time
from dashboard.parts import components, filters, notices, sidebar, time_range
from dashboard.parts.components import Table
from dashboard.parts.series_chart import drawn_marks, series_line
from dashboard.parts.source_picker import pick_sources
from sketches.arrays import Ints
from sketches.decay import parse_decay
from sketches.differences import UNKNOWN, Differences, Limited, differences
from sketches.durations import human_duration, parse_duration
from sketches.errors import QuestionError, UnanswerableError
from sketches.estimate import Series
from sketches.event_rules import MAX_TIME
from sketches.formatting import moment_text, percent_text
from sketches.question import Question
from store import Answer, Provenance
from store.serving.catalogue import Catalogue, StoredStream
from store.serving.split_answer import SOURCE
from store.serving.split_change import Answered, changes_from

NAMES: Final = {"decays": "Decays", "sources": "Sources", "times": "Times"}
SHIFTS: Final = ("1h", "1d", "7d", "28d")
CHARTS: Final = {"line": "Estimate", "log": "Log scale"}
_BEYOND: Final = "A difference is beyond chance where its limits leave out 0."


@dataclass(frozen=True, slots=True)
class Side:
    """One of the things compared: a view of its own, drawn `shift` units of time later than it is."""

    name: str
    view: View
    shift: int = 0


def page(answers: AnswerCache, catalogue: Catalogue) -> None:
    by_sources = session.view().compare == "sources"
    stream = sidebar.question(answers, catalogue, sources=not by_sources, aggregate=True)
    view = session.view()
    components.heading(f"{components.subject(answers, view, stream)}, compared", view)
    filters.chips(stream)
    _choices(stream)
    with time_range.row():
        span = time_range.picker(answers, stream)
        session.segments("Chart", CHARTS, "chart", width="content")
    with components.guarded():
        as_of = answers.moments(view, stream, span)
        sides = sides_of(session.view(), stream)
        with components.working(f"Answering at {len(as_of)} times for each of {len(sides)}"):
            found = [(side, *drawn) for side in sides if (drawn := _drawn(answers, side, stream, as_of))]
        if not found:
            return
        sides, series, last = [one[0] for one in found], [one[1] for one in found], [one[2] for one in found]
        question = answers.question(view, stream)
        _chart(answers, question, stream, sides, series)
        if view.compare == "sources" and len(view.source) > MOST_COMPARED:
            _all_sources(answers, session.view(), stream)
        else:
            last_answers(answers, stream, sides, last)
            notices.grows(session.view())
        components.footer(series[0][1], answers)
        components.exports("compare", lambda: table(sides, series, stream, view), lambda: as_json(sides, last, series))


def _drawn(
    answers: AnswerCache, side: Side, stream: StoredStream, as_of: Ints
) -> tuple[tuple[Series, Provenance], Answer] | None:
    """The series of a side and its last answer; None where no family has them, and then the page says why."""
    try:
        series = answers.series(side.view, stream, as_of - side.shift)
        last = answers.ask(replace(side.view, as_of=str(as_of[-1] - side.shift)), stream, charted=True)
    except UnanswerableError as error:
        st.warning(f"{wording.safe(side.name)} is left out: {wording.safe(error)}", icon=":material/info:")
        return None
    return series, last


def _choices(stream: StoredStream) -> None:
    """What is compared with what."""
    view = session.view()
    session.segments("Compare", NAMES, "compare")
    if view.compare == "decays":
        for number, column in enumerate(st.columns(MOST_COMPARED - 1)):
            with column:
                session.text(
                    f"Against decay {number + 1}",
                    f"against {number}",
                    partial(_with_decay, number),
                    shown=dict(enumerate(against(view))).get(number, ""),
                    placeholder="such as window:1d",
                    help="A decay as `wane query --decay` takes it; leave it empty for none.",
                )
    elif view.compare == "sources":
        pick_sources(stream, "compare", placeholder="Choose two or more; until then the largest are shown")
        if len(view.source) > MOST_COMPARED:
            st.caption(
                f"The first {MOST_COMPARED} of the {len(view.source)} chosen sources are drawn; the table has all."
            )
    else:
        session.show(
            st.pills,
            "Against so long before",
            [*SHIFTS, *(text for text in view.shift if text not in SHIFTS)],
            selection_mode="multi",
            format_func=lambda text: f"{human_duration(parse_duration(text))} before",
            **session.bound("shift"),
        )


def _with_decay(number: int, typed: str) -> View:
    view = session.view()
    texts = dict(enumerate(against(view)))
    texts[number] = parse_decay(typed).spec if typed.strip() else ""
    return replace(view, against=tuple(text for _, text in sorted(texts.items()) if text))


def against(view: View) -> tuple[str, ...]:
    """The other decays; no fading unless the view names some."""
    return view.against or ("none",)


def sides_of(view: View, stream: StoredStream) -> list[Side]:
    """What is compared, four at most."""
    if view.compare == "decays":
        others = [view.with_fading(parse_decay(spec)) for spec in against(view)]
        return [Side(wording.decay_label(one.fading), one) for one in [view, *others]][:MOST_COMPARED]
    if view.compare == "sources":
        names = view.source or largest_sources(stream, MOST_COMPARED)
        return [Side(name, replace(view, source=(name,))) for name in names[:MOST_COMPARED]]
    before = [Side(f"{human_duration(parse_duration(text))} before", view, _units(text, stream)) for text in view.shift]
    return [Side("now" if not view.as_of else "as of then", view), *before][:MOST_COMPARED]


def _units(duration: str, stream: StoredStream) -> int:
    """A duration in the stream's unit of time."""
    units = round(parse_duration(duration) * stream.unit.denominator / stream.unit.numerator)
    if units > MAX_TIME:
        raise QuestionError(f"{duration} before is longer than this stream can count")
    return units


def _chart(
    answers: AnswerCache,
    question: Question,
    stream: StoredStream,
    sides: list[Side],
    found: list[tuple[Series, Provenance]],
) -> None:
    view = session.view()
    origins = [provenance for _, provenance in found]
    for provenance in origins:
        if not provenance.complete:
            notices.incomplete(provenance, stream)
            break
    notices.rejected(stream.rejected)
    late = dict.fromkeys(text for provenance in origins for text in provenance.lagging)
    notices.lagging(replace(origins[0], lagging=tuple(late)))
    lines = [
        series_line(side.name, side.view, stream, series, provenance, side.shift)
        for side, (series, provenance) in zip(sides, found, strict=True)
    ]
    times = found[0][0].as_of + sides[0].shift
    marked = drawn_marks(shown_marks(answers, view, stream), view, stream, int(times[0]), int(times[-1]))
    axis = components.axis_of(question, stream)
    figure = over_time(lines, axis, view.zone, height=440, marks=marked, log=view.chart == "log")
    time_range.zoomable(figure, "compare", "The compared series on the same axes", view, stream)


def last_answers(answers: AnswerCache, stream: StoredStream, sides: list[Side], last: list[Answer]) -> None:
    """The last answer of each side, and how it differs from the first side's."""
    view = session.view()
    zone, measure = wording.zone(view.zone), components.measure_of(answers.question(view, stream))
    estimates = [answer.estimate for answer in last]
    columns = {
        "compared": [side.name for side in sides],
        **_estimates([(one.value, one.lower, one.upper) for one in estimates], measure),
    }
    if len(sides) > 1:
        found = changes_of_sides(answers, stream, sides, last)
        exact = [one.exact and estimates[0].exact for one in estimates[1:]]
        columns |= differences_in_words(found, exact, measure)
    columns["as of"] = [moment_text(estimate.as_of, stream.unit, zone) for estimate in estimates]  # wide: last
    st.dataframe(columns, hide_index=True, alt="The compared answers with their intervals and differences")
    confidence = percent_text(min(one.confidence for one in estimates))
    st.caption(f"Differences are from the first. Limits hold at {confidence} confidence, each by itself. {_BEYOND}")


def _estimates(numbers: Sequence[tuple[float, float, float]], measure: str) -> dict[str, Any]:
    limits = [wording.limits(lower, upper, measure) for _, lower, upper in numbers]
    return {
        "estimate": [wording.estimated(*three, measure) for three in numbers],
        "from": [low for low, _ in limits],
        "to": [high for _, high in limits],
    }


def changes_of_sides(
    answers: AnswerCache, stream: StoredStream, sides: Sequence[Side], last: Sequence[Answer]
) -> Differences:
    """How the answers of all sides but the first differ from that of the first."""
    asked = [
        Answered(replace(side.view.question(stream), as_of=answer.estimate.as_of), side.view.source, answer)
        for side, answer in zip(sides, last, strict=True)
    ]
    key = ("changes", stream.name, tuple((one.question, one.sources, one.answer.estimate.family) for one in asked))
    return answers.once(key, lambda: changes_from(answers.store, stream.name, asked[0], asked[1:]))


def differences_in_words(found: Differences, exact: Sequence[bool], measure: str) -> dict[str, Any]:
    """A row for each side: nothing for the first, then each difference with its limits, and whether it is chance."""
    said = []
    for value, beyond, known in zip(found.change.value.tolist(), found.beyond.tolist(), exact, strict=True):
        if not np.isfinite(value):
            said.append("nothing to compare")
        else:
            said.append("equal" if known and value == 0.0 else "yes" if beyond else "may be chance")
    return {
        "difference": ["", *(wording.change(*three, measure) for three in _numbers(found.change))],
        "in %": ["", *(wording.change_in_percent(*three) for three in _numbers(found.relative))],
        "beyond chance": ["", *said],
    }


def _numbers(found: Limited) -> list[tuple[float, float, float]]:
    return list(zip(found.value.tolist(), found.lower.tolist(), found.upper.tolist(), strict=True))


def _all_sources(answers: AnswerCache, view: View, stream: StoredStream) -> None:
    """More sources than are drawn: all of them in the table, from one pass over the sketches."""
    split = answers.split(replace(view, by=SOURCE), stream, len(view.source))
    places = {name: at for at, name in enumerate(split.split.names)}
    at = np.array([places[name] for name in view.source], np.intp)
    found, measure = split.split, components.measure_of(answers.question(view, stream))
    value, lower, upper = (column[at] for column in (found.value, found.lower, found.upper))
    first = Limited(*(np.repeat(column[:1], len(at) - 1) for column in (value, lower, upper)))
    apart = differences(Limited(value[1:], lower[1:], upper[1:]), first, UNKNOWN)
    exact = (lower == upper)[1:] & (lower == upper)[0]
    columns = {
        "compared": list(view.source),
        **_estimates(_numbers(Limited(value, lower, upper)), measure),
        **differences_in_words(apart, exact.tolist(), measure),
    }
    st.dataframe(columns, hide_index=True, alt="The answers of all chosen sources with their differences")
    confidence = percent_text(found.confidence)
    st.caption(f"Differences are from the first. All limits hold together at {confidence} confidence. {_BEYOND}")


def table(sides: list[Side], found: list[tuple[Series, Provenance]], stream: StoredStream, view: View) -> Table:
    """The numbers of all lines of the chart."""
    zone = wording.zone(view.zone)
    rows = [
        [side.name, at, moment_text(at, stream.unit, zone), *numbers]
        for side, (series, _) in zip(sides, found, strict=True)
        for at, *numbers in components.points(series.as_of, series)
    ]
    return ["compared", "as_of", "time", "estimate", "lower", "upper"], rows


def as_json(sides: list[Side], answers: list[Answer], found: list[tuple[Series, Provenance]]) -> dict[str, Any]:
    """The last answers with guarantee and provenance."""
    return {
        "compared": [
            {"name": side.name, **components.answer_json(answer, side.view), "points": len(series)}
            for side, answer, (series, _) in zip(sides, answers, found, strict=True)
        ]
    }
