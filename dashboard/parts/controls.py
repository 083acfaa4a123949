"""The controls in the sidebar, alike on every page: stream, sources, aggregate, counting, filter, display."""

from __future__ import annotations

import math
from functools import cache, partial
from typing import Any, Final
from zoneinfo import available_timezones

import streamlit as st

from dashboard import wording, words
from dashboard.asking import session
from dashboard.asking.answer_cache import AnswerCache
from dashboard.asking.measures import aggregates_of, first_look, is_keyed, label, measures, splits, usual_measure
from dashboard.asking.view import (
    MARKS,
    MOST_GROUPS,
    NEWEST,
    PARAMETERS,
    at_first,
    check_number,
    check_tau,
    check_where,
)
from dashboard.parts.source_picker import pick_source, pick_sources
from sketches.errors import WaneError
from sketches.fields import FieldKind
from sketches.formatting import number_text, percent_text
from sketches.registry import FAMILIES
from sketches.vocabulary import COUNTINGS
from store.serving.catalogue import Catalogue, StoredStream
from store.serving.resolving import counting_of

SHARES: Final = (0.001, 0.005, *(percent / 100 for percent in range(1, 100)), 0.995, 0.999)
_MARK_NAMES: Final = {"notes": "annotations", "runs": "ingest runs", "gaps": "epochs set aside"}
TAUS: Final = ("median", "mean", "q0.9", "q0.99", "2*median")


def stream(catalogue: Catalogue, *, sources: bool = True) -> StoredStream:
    """The stream and some of its sources; the chosen stream comes back."""
    names = sorted(catalogue.streams)
    if len(names) > 1:
        session.show(
            st.selectbox,
            "Stream",
            names,
            help=words.explained("Stream", "It was ingested under this name in wane.toml."),
            **_stream_bound(catalogue),
        )
    else:
        st.markdown(f"**{wording.safe(names[0])}**")
    chosen = catalogue.streams[session.view().stream]
    if sources and len(chosen.sources) > 1:
        everything, said = f"All {len(chosen.sources):,}", words.explained("Source", _repeats(chosen))
        pick_sources(chosen, placeholder=everything, help=said)
    return chosen


def _repeats(stream: StoredStream) -> str:
    """What becomes of an event that several sources reported; it depends on the families that are stored."""
    families = [FAMILIES[name] for name in stream.sketches if name in FAMILIES]
    if all(family.abilities.forgives_repeats for family in families):
        return "An event that several sources reported counts once."
    return "An event that several sources reported counts once or several times, depending on the family that answers."


def _stream_bound(catalogue: Catalogue) -> dict[str, Any]:
    bound = session.bound("stream")
    return bound | {"on_change": _take_stream, "args": (bound["key"], catalogue)}


def _take_stream(key: str, catalogue: Catalogue) -> None:
    """Show another stream: it has other sources, values and units, but the decay stays."""
    st.session_state["problems"] = []
    view = session.view()
    before, now = (catalogue.streams[name] for name in (view.stream, st.session_state[key]))
    unasked = view == at_first(view, before)  # nobody has chosen another question
    aggregate, of = first_look(now) if unasked else (view.aggregate, "")
    session.change(
        stream=now.name,
        aggregate=aggregate,
        of=of,
        source=(),
        other="",
        value="",
        tau="",
        low="",
        high="",
        family="",
        as_of=NEWEST,
        start="",
        end="",
        mark_start="",
        mark_end="",
        by="",
        counting="",
        where="",
    )
    st.session_state["fitted"] = None


def aggregate(answers: AnswerCache, stream: StoredStream) -> None:
    """The aggregate, and the parameters that it needs."""
    view = session.view()
    session.show(
        st.selectbox,
        "Aggregate",
        aggregates_of(stream),
        format_func=wording.AGGREGATES.__getitem__,
        help=words.explained("Aggregate", "The most frequent values have a page of their own."),
        **session.bound("aggregate"),
    )
    needed = PARAMETERS.get(view.aggregate, ())
    if len(measures(stream, view.aggregate)) > 1:
        _of(stream)
    if "tau" in needed:
        tau(answers, stream)
    if "phi" in needed:
        session.show(
            st.select_slider,
            "φ",
            sorted({*SHARES, view.phi}),
            format_func=percent_text,
            help=words.explained("Quantile", "φ is that share."),
            **session.bound("phi"),
        )
    if "value" in needed:
        session.text("Value", "value", str.strip, placeholder="a value, exactly as it is in the data")
    if "low" in needed:
        left, right = st.columns(2)
        with left:
            session.text("From", "low", check_number, placeholder="least")
        with right:
            session.text("To", "high", check_number, placeholder="greatest")
    if "other" in needed:
        pick_source("Second source", "other", stream)


def _of(stream: StoredStream) -> None:
    view = session.view()
    known = measures(stream, view.aggregate)
    session.show(
        st.selectbox,
        "Of",
        [*known, *([view.of] if view.of and view.of not in known else [])],
        format_func=lambda column: label(stream, column),
        help=words.explained("Measure"),
        **_with_usual("of", usual_measure(stream, view.aggregate)),
    )


def split(stream: StoredStream) -> None:
    """What answers are split by, and how many groups are drawn."""
    view = session.view()
    known = splits(stream, view.aggregate)
    if not known:
        return
    session.show(
        st.selectbox,
        "Split by",
        ["", *known],
        format_func=lambda column: column or "nothing",
        help=words.explained("Split"),
        **session.bound("by"),
    )
    if view.by in known:
        key = "groups@"
        session.show(
            st.slider, "Groups", 1, MOST_GROUPS, shown=view.groups, key=key, on_change=_take_groups, args=(key,)
        )
        session.show(st.toggle, "The smallest first", **session.bound("smallest"))


def _take_groups(key: str) -> None:
    session.change(top=st.session_state[key])


def counting(stream: StoredStream) -> None:
    """Whether an event counts once, or as often as its weight says."""
    if stream.weighted:
        session.show(
            st.segmented_control,
            "Count",
            list(COUNTINGS),
            required=True,
            help=words.explained("Counting", "Sums and means of the weight are the same either way."),
            **_with_usual("counting", counting_of(stream)),
        )


def where(stream: StoredStream) -> None:
    """Which events are asked about."""
    names = [label(stream, column).partition(" ")[0] for column in ("value", "weight")] + sorted(stream.fields)
    session.text(
        "Only events where",
        "where",
        partial(check_where, stream=stream),
        placeholder=_example(stream, names[0]),
        help=f"Comparisons of {', '.join(f'`{name}`' for name in names)}, `time` and `source`, joined by `and`, `or` "
        "and `not`: `=`, `!=`, `<`, `<=`, `>`, `>=`, `in ('a', 'b')`, `between 1 and 5`, `like 'GET /%'`, `is null`. "
        "Text stands in single quotes. `value >= median(value)` compares with an aggregate. All other events are left "
        f"out. {words.link('Predicate', 'All words')}",
    )


def _example(stream: StoredStream, value: str) -> str:
    """A filter that this stream understands."""
    texts = [name for name, kind in stream.fields.items() if kind is FieldKind.TEXT]
    if texts:
        return f"{sorted(texts)[0]} = '…'"
    return f"{value} like 'a%'" if is_keyed(stream) else f"{value} < 60"


def _with_usual(name: str, usual: str) -> dict[str, Any]:
    """The arguments of a widget for a choice that the stream makes itself where the view does not."""
    key = f"{name}@"
    shown = getattr(session.view(), name) or usual
    return {"shown": shown, "key": key, "on_change": _take_unusual, "args": (name, key, usual)}


def _take_unusual(name: str, key: str, usual: str) -> None:
    st.session_state["problems"] = []
    chosen = st.session_state[key]
    session.change(**{name: "" if chosen in (usual, None) else chosen})


def tau(answers: AnswerCache, stream: StoredStream, place: str = "") -> None:
    """The threshold: typed, an aggregate, or chosen among the stored values by a slider."""
    view = session.view()
    session.text(
        "Threshold τ",
        "tau",
        check_tau,
        placeholder="a number, mean, or 2*median",
        help=words.explained("τ", "Or `mean`, a quantile like `q0.9`, a multiple like `2*median`."),
    )
    key = f"tau aggregate@{place}"
    session.show(
        st.pills,
        "τ as an aggregate",
        TAUS,
        shown=view.tau if view.tau in TAUS else None,
        key=key,
        on_change=_take_aggregate,
        args=(key,),
        label_visibility="collapsed",
    )
    try:
        steps = answers.steps(view, stream)
        current = float(view.tau) if view.tau else None
    except (WaneError, ValueError):
        return
    if len(steps) < 2:
        return
    key = f"tau slider@{place}"
    options = sorted({*steps, *([current] if current is not None and math.isfinite(current) else [])})
    session.show(
        st.select_slider,
        "τ among the stored values",
        options,
        format_func=number_text,
        shown=current if current in options else options[len(options) // 2],
        key=key,
        on_change=_take_tau,
        args=(key,),
        label_visibility="collapsed",
    )


def _take_aggregate(key: str) -> None:
    session.change(tau=st.session_state[key] or "")


def _take_tau(key: str) -> None:
    session.change(tau=f"{st.session_state[key]:.12g}")


def display(stream: StoredStream | None) -> None:
    """Time zone, confidence, family, and whether the page follows the store."""
    view = session.view()
    with st.expander("Display", icon=":material/tune:"):
        local = st.context.timezone
        zones = _zones()
        first = ["UTC", *([local] if local in zones else [])]
        known = first + [name for name in zones if name not in first]
        session.show(st.selectbox, "Time zone", known, **session.bound("zone"))
        if stream is not None:
            session.show(
                st.multiselect,
                "Marks in charts",
                list(MARKS),
                format_func=_MARK_NAMES.__getitem__,
                placeholder="none",
                help="Upright lines: annotations from the file, the last runs of ingest, epochs that were set aside.",
                **session.bound("marks"),
            )
            session.show(
                st.selectbox,
                "Confidence",
                sorted({0.0, 0.8, 0.9, 0.95, 0.99, 0.999, view.confidence}),
                format_func=lambda share: percent_text(share) if share else "as the sketches planned",
                help=words.explained("Confidence"),
                **session.bound("confidence"),
            )
            if len(stream.sketches) > 1:
                session.show(
                    st.selectbox,
                    "Family",
                    ["", *sorted(stream.sketches)],
                    format_func=lambda name: name or "wane picks",
                    help=words.explained("Family"),
                    **session.bound("family"),
                )
        session.show(
            st.toggle,
            "Refresh by itself",
            help="Redraw when an ingest run has committed.",
            **session.bound("refresh"),
        )


@cache
def _zones() -> list[str]:
    return sorted(available_timezones() - {"UTC"})
