"""What a person looks at: every choice of every page in one value, all of which stands in the address of the page.

Parameters have the same names and texts as the options of `wane query`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final, Literal, cast
from zoneinfo import available_timezones

from dashboard.wording import AGGREGATES, ON_KEYS, quoted
from sketches.decay import Decay, parse_decay
from sketches.durations import format_duration, format_number, parse_duration
from sketches.errors import QuestionError, WaneError
from sketches.events import Kind
from sketches.formatting import counted
from sketches.question import Question
from sketches.units import SECOND, TimeUnit
from store.serving.catalogue import Catalogue, StoredStream
from store.serving.timeline import extent, read_moment

LONGEST_TEXT: Final = 700  # characters of one parameter in the address
MOST_TEXTS: Final = 200  # values of one parameter in the address
NEWEST: Final = ""  # as of the newest event
COMPARED: Final = ("decays", "sources", "times")
MOST_COMPARED: Final = 4


@dataclass(frozen=True, slots=True)
class View:
    """The choices of a person. An empty text means the usual: all sources, the newest event, the family wane picks."""

    stream: str = ""
    source: tuple[str, ...] = ()
    aggregate: str = "sum"
    of: str = "weight"
    tau: str = ""
    phi: float = 0.9
    value: str = ""
    low: str = ""
    high: str = ""
    other: str = ""
    decay: str = ""
    window: str = ""
    as_of: str = NEWEST
    span: str = ""
    family: str = ""
    confidence: float = 0.0
    zone: str = "UTC"
    refresh: bool = True
    top: int = 10
    share: float = 0.0
    similar: bool = False
    compare: str = "decays"
    against: tuple[str, ...] = ()
    shift: tuple[str, ...] = ("1d",)

    @property
    def fading(self) -> Decay:
        """The chosen decay, cut off at the chosen window."""
        base = parse_decay(self.decay or "none")
        return base.cut(parse_duration(self.window)) if self.window else base

    def moment(self, unit: TimeUnit) -> int | None:
        """The as-of time in units of the stream; None means the newest event."""
        return None if self.as_of == NEWEST else read_moment(self.as_of, unit)

    def question(self, unit: TimeUnit) -> Question:
        """The question of this view; `QuestionError` says what it still needs."""
        needed = PARAMETERS.get(self.aggregate, ())
        return Question(
            self.aggregate,
            self.fading,
            as_of=self.moment(unit),
            tau=_tau(self.tau) if "tau" in needed else None,
            phi=self.phi if "phi" in needed else self.share or None if "share" in needed else None,
            value=self.value or None if "value" in needed else None,
            low=_number("low", self.low) if "low" in needed else None,
            high=_number("high", self.high) if "high" in needed else None,
            top=self.top if "top" in needed else None,
            of=cast(Literal["weight", "value"], self.of) if self.aggregate in OF else "weight",
            confidence=self.confidence or None,
        )

    def with_fading(self, decay: Decay) -> View:
        """The same view under another decay; its window becomes the chosen window."""
        base, window = decay.split()
        return replace(self, decay=base.spec, window="" if math.isinf(window) else format_duration(window))


OF: Final = ("sum", "mean")
PARAMETERS: Final[Mapping[str, tuple[str, ...]]] = {
    "quantile": ("phi",),
    "correlated-sum": ("tau",),
    "correlated-count": ("tau",),
    "correlated-mean": ("tau",),
    "selectivity": ("tau",),
    "rank": ("value",),
    "frequency": ("value",),
    "range-sum": ("low", "high"),
    "range-frequency": ("low", "high"),
    "inner-product": ("other",),
    "heavy-hitters": ("top", "share"),
}


def aggregates_of(stream: StoredStream) -> list[str]:
    """The aggregates that can be drawn over time for a stream: texts have no order and no sum."""
    return list(ON_KEYS) if is_keyed(stream) else list(AGGREGATES)


def is_keyed(stream: StoredStream) -> bool:
    """Whether the values of a stream are texts."""
    return stream.described.get("kind") == Kind.KEY


def largest_sources(stream: StoredStream, most: int, among: Sequence[str] = ()) -> tuple[str, ...]:
    """The sources with the most events, by name; of all sources, or among some."""
    events = dict.fromkeys(among or stream.sources, 0)
    for epoch, totals in stream.epochs.items():
        if epoch.source in events:
            events[epoch.source] += totals.events
    return tuple(sorted(sorted(events, key=lambda source: -events[source])[:most]))


def to_parameters(view: View) -> dict[str, list[str]]:
    """The view as parameters of an address. Usual choices are left out, except for the stream and the decay."""
    found: dict[str, list[str]] = {}
    for field in fields(View):
        value = getattr(view, field.name)
        if value != field.default or field.name in ("stream", "decay"):
            texts = list(value or ("",)) if isinstance(value, tuple) else [parameter_text(value)]
            found[field.name.replace("_", "-")] = texts
    return found


def from_parameters(given: Mapping[str, Sequence[str]], catalogue: Catalogue) -> tuple[View, list[str]]:
    """The view that an address asks for, as far as the store has it, and one sentence for each choice that is wrong."""
    view, problems = View(), []
    names = {field.name for field in fields(View)}
    for key, texts in given.items():
        name = key.replace("-", "_")
        if name not in names:
            problems.append(f"The address has {quoted(key)}, which means nothing here.")
            continue
        try:
            if len(texts) > MOST_TEXTS or max(map(len, texts), default=0) > LONGEST_TEXT:
                raise QuestionError(f"more than {LONGEST_TEXT} characters or {MOST_TEXTS} values")
            if not all(text.isascii() or text.encode(errors="ignore").decode() == text for text in texts):
                raise QuestionError("it has characters that do not exist")
            view = replace(view, **{name: _READERS[name](list(texts))})
        except WaneError as error:
            problems.append(f"The address asks for {quoted(key)} = {quoted(', '.join(texts))}: {quoted(error)}.")
    view, more = fitting(_with_own_window(view), catalogue)
    return view, problems + more


def _with_own_window(view: View) -> View:
    """The view with the window of its decay as its window; of two windows the shorter one stays."""
    return view.with_fading(view.fading) if view.decay and math.isfinite(parse_decay(view.decay).split()[1]) else view


def fitting(view: View, catalogue: Catalogue) -> tuple[View, list[str]]:
    """The view with every choice replaced that the store does not have, and a sentence for each of them."""
    problems: list[str] = []
    if view.stream not in catalogue.streams:
        if view.stream:
            problems.append(f"There is no stream {quoted(view.stream)} in this store.")
        view = replace(view, stream=next(iter(sorted(catalogue.streams)), ""))
    stream = catalogue.streams.get(view.stream)
    if stream is None:
        return view, problems
    known = set(stream.sources)
    if unknown := [source for source in view.source if source not in known]:
        problems.append(f"{quoted(view.stream)} has no source {quoted(', '.join(unknown[:3]))}.")
        view = replace(view, source=tuple(source for source in view.source if source in known))
    if view.other and view.other not in known:
        problems.append(f"{quoted(view.stream)} has no source {quoted(view.other)}.")
        view = replace(view, other="")
    if view.family and view.family not in stream.sketches:
        problems.append(f"{quoted(view.stream)} has no sketches of the family {quoted(view.family)}.")
        view = replace(view, family="")
    if view.aggregate not in aggregates_of(stream):
        problems.append(f"{quoted(view.aggregate)} needs numbers, and the values of {quoted(view.stream)} are texts.")
        view = replace(view, aggregate=aggregates_of(stream)[0])
    if view.of != "weight" and is_keyed(stream):
        problems.append(f"The values of {quoted(view.stream)} are texts and have no sum: this is the sum of weights.")
        view = replace(view, of="weight")
    try:
        view.moment(stream.unit)
    except QuestionError as error:
        problems.append(f"{quoted(view.stream)} cannot be asked as of that time: {quoted(error)}.")
        view = replace(view, as_of=NEWEST)
    if not view.decay:
        view = view.with_fading(usual_decay(stream)) if not view.window else replace(view, decay="none")
    return view, problems


def usual_decay(stream: StoredStream) -> Decay:
    """The decay of a first look: a half-life of about a thirtieth of the time that the stream covers."""
    oldest, newest = extent(stream) or (0, 0)
    seconds = (newest - oldest) * stream.unit.numerator / stream.unit.denominator
    return parse_decay(f"exp:half_life={nearest(seconds / 30)}")


DURATIONS: Final = (
    *("1s", "5s", "15s", "30s", "1m", "2m", "5m", "10m", "15m", "30m", "1h", "2h", "3h", "6h", "12h"),
    *("1d", "2d", "3d", "7d", "14d", "28d", "91d", "182d", "364d"),
)  # each as `format_duration` writes it


def nearest(seconds: float) -> str:
    """The round duration whose ratio to the given one is closest to 1."""
    return min(DURATIONS, key=lambda text: abs(math.log((parse_duration(text) + 1) / (seconds + 1))))


def sources_text(view: View) -> str:
    """Which sources a view shows, in a few words."""
    if not view.source:
        return "all sources"
    return view.source[0] if len(view.source) == 1 else counted(len(view.source), "source")


def check_span(text: str) -> str:
    """A duration as wane writes it; an empty text stays empty."""
    return format_duration(parse_duration(text)) if text.strip() else ""


def check_decay(text: str) -> str:
    """A decay as wane writes it."""
    return parse_decay(text).spec


def check_tau(text: str) -> str:
    """The text, unless it is no threshold."""
    stripped = text.strip()
    if stripped:
        Question("correlated-sum", tau=_tau(stripped))
    return stripped


def check_number(text: str) -> str:
    """The text, unless it is no number."""
    stripped = text.strip()
    if stripped and math.isnan(_number("this", stripped) or 0.0):
        raise QuestionError("NaN is not a number")
    return stripped


def _tau(text: str) -> float | str | None:
    try:
        return float(text) if text else None
    except ValueError:
        return text


def _number(name: str, text: str) -> float | None:
    if not text:
        return None
    try:
        return float(text)
    except ValueError:
        raise QuestionError(f"{name} is {text!r}; it must be a number") from None


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
        found = _number("it", _one(texts)) or 0.0
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


_READERS: Final[Mapping[str, Callable[[list[str]], Any]]] = {
    "stream": _one,
    "source": lambda texts: tuple(text for text in texts if text),
    "aggregate": _choice(*AGGREGATES),
    "of": _choice("weight", "value"),
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
    "family": _one,
    "confidence": _between(0.5, 0.9999),
    "zone": _zone,
    "refresh": lambda texts: _choice("on", "off")(texts) == "on",
    "top": _whole(1, 100),
    "share": _between(0.0, 0.5),
    "similar": lambda texts: _choice("on", "off")(texts) == "on",
    "compare": _choice(*COMPARED),
    "against": lambda texts: tuple(check_decay(text) for text in texts[: MOST_COMPARED - 1] if text),
    "shift": lambda texts: tuple(check_span(text) for text in texts[: MOST_COMPARED - 1] if text),
}
