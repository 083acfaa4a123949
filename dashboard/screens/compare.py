"""Two to four decays, sources or as-of times over the same data, on the same axes."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import streamlit as st

from dashboard import figures, parts, sidebar, state, words
from dashboard.desk import Desk
from dashboard.figures import Axis, Line
from dashboard.view import COMPARED, MOST_DECAYS, View
from sketches.decay import parse_decay, parse_duration
from sketches.errors import QuestionError
from sketches.estimate import Series
from sketches.events import MAX_TIME
from store import Answer, Provenance
from store.catalogue import Catalogue, StreamHeld
from store.timeline import affected

NAMES: Final = {"decays": "Decays", "sources": "Sources", "times": "Times"}
SHIFTS: Final = ("1h", "1d", "7d", "28d")


@dataclass(frozen=True, slots=True)
class Side:
    """One of the things compared: a view of its own, drawn `shift` units of time later than it is."""

    name: str
    view: View
    shift: int = 0


def page(desk: Desk, catalogue: Catalogue) -> None:
    by = state.view().compare
    held, span = sidebar.question(desk, catalogue, sources=by != "sources", aggregate=True, span=True)
    view = state.view()
    parts.heading(f"{parts.subject(view)}, compared", view)
    _choices(held)
    with parts.guarded():
        sides = sides_of(state.view(), held)
        as_of = desk.moments(view, held, span)
        found = [desk.series(side.view, held, as_of - side.shift) for side in sides]
        ends = [replace(side.view, as_of=str(as_of[-1] - side.shift)) for side in sides]
        answers = [desk.ask(end, held) for end in ends]
        _show(view, held, sides, found)
        _table(view, held, sides, answers)
        parts.footer(found[0][1], desk)
        parts.exports("compare", lambda: rows(sides, found, held, view), lambda: whole(sides, answers, found))


def _choices(held: StreamHeld) -> None:
    """What is compared with what."""
    view = state.view()
    st.segmented_control(
        "Compare",
        list(COMPARED),
        format_func=NAMES.__getitem__,
        required=True,
        label_visibility="collapsed",
        **state.bound("compare"),
    )
    if view.compare == "decays":
        for number, column in enumerate(st.columns(MOST_DECAYS - 1)):
            with column:
                state.text(
                    f"Against decay {number + 1}",
                    f"against {number}",
                    partial(_with_decay, number),
                    shown=dict(enumerate(against(view))).get(number, ""),
                    placeholder="such as window:1d",
                    help="A decay as `wane query --decay` takes it; empty for none.",
                )
    elif view.compare == "sources":
        st.multiselect(
            "Sources",
            held.sources,
            placeholder="Choose two to four; the largest are shown",
            **state.bound("source", "compare"),
        )
        if len(view.source) > MOST_DECAYS:
            st.caption(f"Drawn are the first {MOST_DECAYS} of the {len(view.source)} chosen.")
    else:
        st.pills(
            "Against so long before",
            [*SHIFTS, *(text for text in view.shift if text not in SHIFTS)],
            selection_mode="multi",
            format_func=lambda text: f"{words.duration(parse_duration(text))} before",
            **state.bound("shift"),
        )


def _with_decay(number: int, typed: str) -> View:
    view = state.view()
    texts = dict(enumerate(against(view)))
    texts[number] = parse_decay(typed).spec if typed.strip() else ""
    return replace(view, against=tuple(text for _, text in sorted(texts.items()) if text))


def against(view: View) -> tuple[str, ...]:
    """The other decays; without a choice, no fading at all."""
    return view.against or ("none",)


def sides_of(view: View, held: StreamHeld) -> list[Side]:
    """What is drawn side by side, at most four."""
    if view.compare == "decays":
        others = [view.with_fading(parse_decay(spec)) for spec in against(view)]
        return [Side(words.short_fading(one.fading), one) for one in [view, *others]][:MOST_DECAYS]
    if view.compare == "sources":
        names = view.source or largest(held)
        return [Side(name, replace(view, source=(name,))) for name in names[:MOST_DECAYS]]
    later = [
        Side(
            f"{words.duration(parse_duration(text))} before",
            view,
            _units(text, held),
        )
        for text in view.shift
    ]
    return [Side("now" if not view.as_of else "as of then", view), *later][:MOST_DECAYS]


def _units(text: str, held: StreamHeld) -> int:
    units = round(parse_duration(text) * held.unit.denominator / held.unit.numerator)
    if units > MAX_TIME:
        raise QuestionError(f"{text} before is longer than this stream can count")
    return units


def largest(held: StreamHeld) -> tuple[str, ...]:
    """The sources with the most events, by name."""
    events: dict[str, int] = {}
    for epoch, known in held.epochs.items():
        events[epoch.source] = events.get(epoch.source, 0) + known.events
    return tuple(sorted(sorted(events, key=lambda name: -events[name])[:MOST_DECAYS]))


def _show(view: View, held: StreamHeld, sides: list[Side], found: list[tuple[Series, Provenance]]) -> None:
    zone = words.zone(view.zone)
    measure = parts.measure_of(view)
    lines = []
    for side, (series, provenance) in zip(sides, found, strict=True):
        touched = affected(provenance.missing, series.as_of, side.view.fading, held.unit)
        at = words.axis_times((series.as_of + side.shift).tolist(), held.unit, zone)
        lines.append(Line.of(side.name, at, series, inside=touched.inside, reached=touched.reached))
    for _, provenance in found:
        if not provenance.complete:
            parts.incomplete(provenance, held)
            break
    axis = Axis(parts.units_of(held).axis(measure), measure == "share")
    parts.show(figures.over_time(lines, axis, view.zone, height=440), "compare", "The compared series on the same axes")


def _table(view: View, held: StreamHeld, sides: list[Side], answers: list[Answer]) -> None:
    measure = parts.measure_of(view)
    first = answers[0].estimate
    limits = [words.limits(answer.estimate.lower, answer.estimate.upper, measure) for answer in answers]
    columns: dict[str, list[Any]] = {
        "": [side.name for side in sides],
        "estimate": [words.measured(answer.estimate.value, measure) for answer in answers],
        "from": [low for low, _ in limits],
        "to": [high for _, high in limits],
        "as of": [words.moment(answer.estimate.as_of, held.unit, words.zone(view.zone)) for answer in answers],
        "against the first": [_verdict(first, answer.estimate, at) for at, answer in enumerate(answers)],
    }
    st.dataframe(columns, hide_index=True, alt="The compared answers with their intervals")


def _verdict(first: Any, other: Any, at: int) -> str:
    """What the two intervals allow to say."""
    if at == 0:
        return ""
    if math.isnan(first.value) or math.isnan(other.value):
        return "nothing to compare"
    if other.lower > first.upper:
        return "higher"
    if other.upper < first.lower:
        return "lower"
    return "equal" if first.exact and other.exact else "no clear difference"


def rows(
    sides: list[Side], found: list[tuple[Series, Provenance]], held: StreamHeld, view: View
) -> tuple[list[str], list[list[Any]]]:
    zone = words.zone(view.zone)
    table = [
        [side.name, at, words.moment(at, held.unit, zone), *numbers]
        for side, (series, _) in zip(sides, found, strict=True)
        for at, *numbers in parts.points(series.as_of, series)
    ]
    return ["compared", "as_of", "time", "estimate", "lower", "upper"], table


def whole(sides: list[Side], answers: list[Answer], found: list[tuple[Series, Provenance]]) -> dict[str, Any]:
    return {
        "compared": [
            {"name": side.name, **parts.answer_json(answer, side.view), "points": len(series)}
            for side, answer, (series, _) in zip(sides, answers, found, strict=True)
        ]
    }
