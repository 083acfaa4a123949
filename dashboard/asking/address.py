"""The view as the address of a page: every choice is a parameter, named and written like the option of `wane query`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, Final
from zoneinfo import available_timezones

from dashboard.asking.view import (
    BANDS,
    CHARTS,
    COMPARED,
    CURVES,
    LAYOUTS,
    MARKS,
    MOST_COMPARED,
    NEWEST,
    REST,
    View,
    at_first,
    by_number,
    check_decay,
    check_number,
    check_span,
    check_tau,
    fitting,
    number,
)
from dashboard.wording import AGGREGATES, quoted
from sketches.decay import parse_decay
from sketches.durations import format_number
from sketches.errors import QuestionError, WaneError
from sketches.units import SECOND
from sketches.vocabulary import COUNTINGS
from store.serving.catalogue import Catalogue
from store.serving.timeline import read_moment

LONGEST_TEXT: Final = 700  # characters of one parameter in the address
ALWAYS: Final = ("stream", "aggregate", "decay")  # written out: what is usual depends on the stream
MOST_TEXTS: Final = 200  # values of one parameter in the address


def to_parameters(view: View) -> dict[str, list[str]]:
    """The view as parameters of an address. Usual choices are left out, except for those that differ
    between streams."""
    found: dict[str, list[str]] = {}
    for field in fields(View):
        value = getattr(view, field.name)
        if value != field.default or field.name in ALWAYS:
            texts = list(value or ("",)) if isinstance(value, tuple) else [parameter_text(value)]
            found[field.name.replace("_", "-")] = texts
    return found


def from_parameters(
    given: Mapping[str, Sequence[str]], catalogue: Catalogue, place: str = "The address"
) -> tuple[View, list[str]]:
    """The view that an address asks for, as far as the store has it, and one sentence for each choice that is wrong."""
    view, problems, read = read_parameters(given, place)
    view, more = fitting(_with_own_window(view), catalogue)
    if "aggregate" not in read and not view.of and view.stream in catalogue.streams:
        view = at_first(view, catalogue.streams[view.stream])
    return view, problems + more


def read_parameters(given: Mapping[str, Sequence[str]], place: str) -> tuple[View, list[str], set[str]]:
    """The view that parameters ask for, whatever a store has, one sentence for each that is wrong, and the choices that
    were read. `place` is where they stand."""
    view, problems, read = View(), [], set()
    names = {field.name for field in fields(View)}
    for key, texts in given.items():
        name = key.replace("-", "_")
        if name not in names:
            problems.append(f"{place} has {quoted(key)}, which means nothing here.")
            continue
        try:
            if len(texts) > MOST_TEXTS or max(map(len, texts), default=0) > LONGEST_TEXT:
                raise QuestionError(f"more than {LONGEST_TEXT} characters or {MOST_TEXTS} values")
            if not all(text.isascii() or text.encode(errors="ignore").decode() == text for text in texts):
                raise QuestionError("it has characters that do not exist")
            view = replace(view, **{name: _READERS[name](list(texts))})
            read.add(name)
        except WaneError as error:
            problems.append(f"{place} asks for {quoted(key)} = {quoted(', '.join(texts))}: {quoted(error)}.")
    if view.window and by_number(parse_decay(view.decay or "none")):
        problems.append(f"{place} asks for a window and for {quoted(view.decay)}, which is a window by itself.")
        view = replace(view, window="")
    return view, problems, read


def _with_own_window(view: View) -> View:
    """The view with the window of its decay as its window; of two windows the shorter one stays."""
    return view.with_fading(view.fading) if view.decay and math.isfinite(parse_decay(view.decay).split()[1]) else view


def parameter_text(value: object) -> str:
    """A choice as it is written in an address and on the command line."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return format_number(value) if isinstance(value, float) else str(value)


def _one(texts: list[str]) -> str:
    if len(texts) != 1:
        raise QuestionError("it is given several times")
    return texts[0]


def _choice(*choices: str) -> Callable[[list[str]], str]:
    def read(texts: list[str]) -> str:
        if (text := _one(texts)) not in choices:
            raise QuestionError("it must be one of " + ", ".join(choices))
        return text

    return read


def _between(least: float, most: float) -> Callable[[list[str]], float]:
    def read(texts: list[str]) -> float:
        found = number("it", _one(texts)) or 0.0
        if not least <= found <= most:
            raise QuestionError(f"it must be a number from {least:g} to {most:g}")
        return found

    return read


def _whole(least: int, most: int) -> Callable[[list[str]], int]:
    def read(texts: list[str]) -> int:
        found = _between(least, most)(texts)
        if found != int(found):
            raise QuestionError("it must be a whole number")
        return int(found)

    return read


def _zone(texts: list[str]) -> str:
    if (text := _one(texts)) not in available_timezones():
        raise QuestionError("there is no such time zone")
    return text


def _time(texts: list[str]) -> str:
    text = _one(texts)
    if text != NEWEST:
        read_moment(text, SECOND)
    return text


def _versus(text: str) -> str:
    """What a marked time is compared with: the rest, a length of time before, or two times with a stroke between."""
    if "/" in text:
        for end in text.split("/", 1):
            read_moment(end, SECOND)
        return text
    return REST if text == REST else check_span(text) or REST


_READERS: Final[Mapping[str, Callable[[list[str]], Any]]] = {
    "stream": _one,
    "source": lambda texts: tuple(text for text in texts if text),
    "aggregate": _choice(*AGGREGATES),
    "of": _one,
    "counting": _choice(*COUNTINGS),
    "where": lambda texts: _one(texts).strip(),
    "by": _one,
    "smallest": lambda texts: _choice("on", "off")(texts) == "on",
    "tau": lambda texts: check_tau(_one(texts)),
    "phi": _between(0.001, 0.999),
    "value": _one,
    "low": lambda texts: check_number(_one(texts)),
    "high": lambda texts: check_number(_one(texts)),
    "other": _one,
    "decay": lambda texts: check_decay(_one(texts)),
    "window": lambda texts: check_span(_one(texts)),
    "as_of": _time,
    "span": lambda texts: check_span(_one(texts)),
    "start": _time,
    "end": _time,
    "chart": _choice(*CHARTS),
    "marks": lambda texts: tuple(_choice(*MARKS)([text]) for text in texts if text),
    "family": _one,
    "confidence": _between(0.5, 0.9999),
    "zone": _zone,
    "refresh": lambda texts: _choice("on", "off")(texts) == "on",
    "top": _whole(1, 100),
    "share": _between(0.0, 0.5),
    "curve": _choice(*CURVES),
    "band": _choice(*BANDS),
    "similar": lambda texts: _choice("on", "off")(texts) == "on",
    "compare": _choice(*COMPARED),
    "against": lambda texts: tuple(check_decay(text) for text in texts[: MOST_COMPARED - 1] if text.strip()),
    "layout": _choice(*LAYOUTS),
    "mark_start": _time,
    "mark_end": _time,
    "versus": lambda texts: _versus(_one(texts)),
    "shift": lambda texts: tuple(check_span(text) for text in texts[: MOST_COMPARED - 1] if text.strip()),
}
