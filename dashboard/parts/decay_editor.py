"""The editor of decay functions: presets, kinds of decay with their parameters, a table, a formula, plain text."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import streamlit as st

from dashboard import wording, words
from dashboard.asking import session
from dashboard.asking.view import View, by_number, nearest
from dashboard.parts.time_controls import half_lives
from sketches.decay import Decay, parse_decay
from sketches.durations import format_duration, human_duration, parse_duration
from sketches.errors import WaneError
from store.serving.catalogue import StoredStream
from store.serving.timeline import extent

SCALES: Final = (  # a short and a long stretch of time, with their names
    *(("1s", "second", "1m", "minute"), ("1m", "minute", "15m", "15 minutes"), ("15m", "15 minutes", "1h", "hour")),
    *(("1h", "hour", "1d", "day"), ("1d", "day", "7d", "week"), ("7d", "week", "28d", "4 weeks")),
    *(("28d", "4 weeks", "182d", "half year"), ("182d", "half year", "728d", "2 years")),
)
LABELS: Final = {
    "half_life": "Half-life",
    "unit": "Unit of age",
    "horizon": "Reaches zero at",
    "scale": "Scale",
    "alpha": "Exponent α",
    "beta": "Exponent β",
    "k": "Length of the plateau k",
    "floor": "Counts nothing below",
    "count": "How many events",
}
RANGES: Final[dict[str, tuple[float, float, float]]] = {
    "alpha": (0.1, 5.0, 0.1),
    "beta": (1.1, 6.0, 0.1),
    "k": (0, 20, 1),
    "floor": (0.001, 0.5, 0.001),
}
FIRST: Final = {  # what another kind of decay begins with
    "none": "none",
    "last": "last:10000",
    "exp": "exp:half_life={scale}",
    "poly": "poly:alpha=1.5,unit={scale}",
    "power": "power:alpha=1.5,unit={scale}",
    "log": "log:unit={scale}",
    "chordal": "chordal:{scale}",
    "finite-exp": "finite-exp:half_life={scale},floor=0.01",
    "polyexp": "polyexp:k=2,half_life={scale}",
    "superexp": "superexp:beta=2,scale={scale}",
    "table": "table:0=1,{scale}=0.5,{twice}=0",
    "expr": "expr:exp(-age/{scale})",
}


def presets(stream: StoredStream) -> dict[str, str]:
    """Decays by name that fit the time which a stream covers: a part of it, and a smaller part."""
    oldest, newest = extent(stream) or (0, 0)
    seconds = (newest - oldest) * stream.unit.numerator / stream.unit.denominator
    fitting = [scale for scale in SCALES if 2 * parse_duration(scale[2]) <= seconds] or [SCALES[3]]
    short, name, long, longer = fitting[-1]
    return {
        f"Last {name}": f"window:{short}",
        f"Last {longer}": f"window:{long}",
        f"Half-life {human_duration(parse_duration(short))}": f"exp:half_life={short}",
        "Slow polynomial": f"poly:alpha=0.5,unit={short}",
    }


def editor(stream: StoredStream) -> None:
    """The choice of the decay, but for its window."""
    view = session.view()
    base = parse_decay(view.decay)
    specs = {name: parse_decay(text).spec for name, text in presets(stream).items()}
    key = "preset"
    session.show(
        st.pills,
        "Presets",
        list(specs),
        shown=next((name for name, spec in specs.items() if spec == view.fading.spec), None),
        key=key,
        on_change=_take_preset,
        args=(key, specs),
        label_visibility="collapsed",
    )
    key = "decay kind"
    session.show(
        st.selectbox,
        "Fading",
        list(wording.DECAYS),
        format_func=wording.DECAYS.__getitem__,
        shown=base.name,
        key=key,
        on_change=_take_kind,
        args=(key,),
        help=words.explained("Decay"),
    )
    if base.name == "table":
        _table(base)
    elif base.name == "expr":
        session.text(
            "Formula in age",
            "decay",
            _formula_checked,
            shown=base.spec.removeprefix("expr:"),
            placeholder="exp(-age/10m)",
            help="Arithmetic in `age` (seconds) with numbers that may carry a unit (`10m`), + - * / ^, comparisons, "
            "and exp, ln, log2, sqrt, min, max, abs. It must never rise and never fall below 0.",
        )
    else:
        for name in base.parameters:
            _parameter(base, name)


def _formula_checked(typed: str) -> View:
    view = session.view()
    return view.with_fading(within_window(parse_decay(f"expr:{typed}"), view.fading))


def line() -> None:
    """The decay with its window as text, as the command line takes it."""
    session.text(
        "As text",
        "spec",
        _spec_checked,
        shown=session.view().fading.spec,
        help="The same decay as `wane query --decay` takes it. Type here what the sliders cannot express.",
    )


def _spec_checked(typed: str) -> View:
    return session.view().with_fading(parse_decay(typed))


def _take_preset(key: str, specs: Mapping[str, str]) -> None:
    chosen = st.session_state[key]
    st.session_state["problems"] = []
    if chosen in specs:
        _set(parse_decay(specs[chosen]))


def _take_kind(key: str) -> None:
    """Another kind of decay begins with the old half-life, rounded."""
    half = parse_decay(session.view().decay).half_age
    scale = nearest(half if 0 < half < math.inf else 3600.0)
    texts = {"scale": scale, "twice": format_duration(2 * parse_duration(scale))}
    _set(within_window(parse_decay(FIRST[st.session_state[key]].format(**texts)), session.view().fading))


def within_window(base: Decay, old: Decay) -> Decay:
    """A new decay, cut off at the window of the old one; a number of newest events is a window by itself."""
    window = old.split()[1]
    return base if math.isinf(window) or by_number(base) else base.cut(window)


def _set(decay: Decay) -> None:
    st.session_state["view"] = session.view().with_fading(decay)
    for name in ("decay", "spec"):
        session.forget_draft(name)


def _parameter(base: Decay, name: str) -> None:
    key = f"decay {base.name} {name}"
    value = getattr(base, name)
    arguments: dict[str, Any] = {"key": key, "on_change": _take_parameter, "args": (key, base.name, name)}
    if base.parameters[name].duration:
        session.show(
            st.select_slider,
            LABELS[name],
            half_lives(value),
            format_func=lambda text: human_duration(parse_duration(text)),
            shown=format_duration(value),
            **arguments,
        )
        return
    if name == "count":
        session.show(st.number_input, LABELS[name], 1, 10**15, step=100, shown=int(value), **arguments)
        return
    least, most, step = RANGES[name]
    if name == "k":
        session.show(st.slider, LABELS[name], int(least), int(most), step=int(step), shown=int(value), **arguments)
    else:
        limits = min(least, value), max(most, value)
        session.show(st.slider, LABELS[name], *limits, step=step, shown=float(value), **arguments)


def _take_parameter(key: str, kind: str, name: str) -> None:
    base = parse_decay(session.view().decay)
    if base.name != kind:  # a late message from a slider that is gone
        return
    chosen = st.session_state[key]
    number = parse_duration(chosen) if isinstance(chosen, str) else chosen
    if isinstance(number, float) and not isinstance(chosen, str):
        number = float(f"{number:.6g}")
    values = {each: getattr(base, each) for each in base.parameters} | {name: number}
    _set(within_window(type(base)(**values), session.view().fading))


def _table(base: Any) -> None:
    """The points of a table. Streamlit's editor keeps its changes itself, so a new one is made when the decay was
    changed elsewhere."""
    if st.session_state.get("table shown") != base.spec:
        st.session_state["table shown"] = st.session_state["table begun"] = base.spec
        st.session_state["table number"] = st.session_state.get("table number", 0) + 1
    begun: Any = parse_decay(st.session_state["table begun"])
    edited = st.data_editor(
        {
            "age": [format_duration(age) if age else "0" for age, _ in begun.points],
            "counts": [counts for _, counts in begun.points],
        },
        key=f"table {st.session_state['table number']}",
        num_rows="dynamic",
        hide_index=True,
        column_config={
            "age": st.column_config.TextColumn("Age", help="such as 0, 10m, 1h", required=True),
            "counts": st.column_config.NumberColumn("Counts", min_value=0.0, required=True),
        },
    )
    rows = [
        f"{str(age).strip()}={counts:.12g}"
        for age, counts in zip(edited["age"], edited["counts"], strict=True)
        if age is not None and counts is not None
    ]
    try:
        found = parse_decay("table:" + ",".join(rows))
    except WaneError as error:
        st.error(wording.safe(error), icon=":material/block:")
        return
    if found.spec != base.spec:
        st.session_state["table shown"] = found.spec
        view = session.view()
        st.session_state["view"] = view.with_fading(within_window(found, view.fading))
        st.rerun()  # what was drawn before the controls is of the table before
