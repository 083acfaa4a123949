"""What a person looks at: every choice of every page in one value, all of which stands in the address of the page."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, cast

from dashboard.asking.measures import (
    COUNTS,
    EVENTS,
    OF,
    aggregates_of,
    first_look,
    is_keyed,
    measures,
    own_measure,
    splits,
)
from dashboard.wording import quoted
from sketches.decay import Decay, parse_decay
from sketches.decay.functions import LastEvents
from sketches.durations import format_duration, parse_duration
from sketches.errors import QuestionError
from sketches.formatting import counted
from sketches.predicate import EVERY_EVENT, Predicate
from sketches.promise import Built
from sketches.question import Counting, Question
from sketches.registry import FAMILIES
from sketches.units import TimeUnit
from sketches.vocabulary import RATE
from store.serving.catalogue import Catalogue, StoredStream
from store.serving.resolving import columns_of
from store.serving.timeline import extent, read_moment

NEWEST: Final = ""  # as of the newest event
COMPARED: Final = ("decays", "sources", "times")
MOST_COMPARED: Final = 4
CURVES: Final = ("sum", "count", "mean")  # against a threshold
MOST_GROUPS: Final = 10  # of a split, on one chart
LAYOUTS: Final = ("panels", "heatmap", "values")  # of many groups over time, and of the values themselves
REST: Final = "rest"  # of what a chart shows, which a marked time is compared with
CHARTS: Final = ("line", "error", "log")  # estimates with their bands, limits in % of the estimates, a log axis
MARKS: Final = ("notes", "runs", "gaps")  # in a chart: annotations, ingest runs, epochs that were set aside
BANDS: Final = ("each", "all")  # points of a curve at which its limits hold: each by itself, all at once


@dataclass(frozen=True, slots=True)
class View:
    """The choices of a person.

    An empty text means the usual: all sources, the newest event, the family wane picks, what the stream's settings say.
    """

    stream: str = ""
    source: tuple[str, ...] = ()
    aggregate: str = "sum"
    of: str = ""
    counting: str = ""
    where: str = ""
    by: str = ""
    smallest: bool = False
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
    start: str = ""
    end: str = ""
    chart: str = "line"
    marks: tuple[str, ...] = ("notes",)
    family: str = ""
    confidence: float = 0.0
    zone: str = "UTC"
    refresh: bool = True
    top: int = 10
    share: float = 0.0
    curve: str = "sum"
    band: str = "each"
    similar: bool = False
    compare: str = "decays"
    against: tuple[str, ...] = ()
    shift: tuple[str, ...] = ("1d",)
    layout: str = "panels"
    mark_start: str = ""
    mark_end: str = ""
    versus: str = REST

    @property
    def fading(self) -> Decay:
        """The chosen decay, cut off at the chosen window."""
        base = parse_decay(self.decay or "none")
        return base.cut(parse_duration(self.window)) if self.window else base

    @property
    def ranged(self) -> bool:
        """Whether a chart shows the time from `start` to `end`, and not the last of it."""
        return bool(self.start or self.end)

    def moment(self, unit: TimeUnit) -> int | None:
        """The as-of time in units of the stream; None means the newest event."""
        return None if self.as_of == NEWEST else read_moment(self.as_of, unit)

    def question(self, stream: StoredStream) -> Question:
        """The question of this view; `QuestionError` says what it still needs."""
        needed = PARAMETERS.get(self.aggregate, ())
        of = self.of if self.aggregate in OF else ""
        aggregate = COUNTS[self.aggregate] if of == EVENTS else "sum" if self.aggregate == RATE else self.aggregate
        return Question(
            aggregate,
            self.fading,
            as_of=self.moment(stream.unit),
            tau=self.threshold if "tau" in needed else None,
            phi=self.phi if "phi" in needed else self.share or None if "share" in needed else None,
            value=self.value or None if "value" in needed else None,
            low=number("low", self.low) if "low" in needed else None,
            high=number("high", self.high) if "high" in needed else None,
            top=self.top if "top" in needed else None,
            of=None if of == EVENTS else of or None,
            per_second=self.aggregate == RATE,
            confidence=self.confidence or None,
            where=self.predicate(stream),
            counting=self.counted or (EVENTS if of == EVENTS else None),
        )

    @property
    def threshold(self) -> float | str | None:
        """τ as a number, or as the text of an aggregate."""
        return _tau(self.tau)

    @property
    def counted(self) -> Counting | None:
        """What is counted; None by the stream's setting."""
        return cast(Counting | None, self.counting or None)

    def predicate(self, stream: StoredStream) -> Predicate:
        """Which events are asked about, in the names of the stream's columns."""
        return columns_of(stream).parse(self.where) if self.where else EVERY_EVENT

    @property
    def groups(self) -> int:
        """How many groups a split draws."""
        return min(self.top, MOST_GROUPS)

    def with_fading(self, decay: Decay) -> View:
        """The same view under another decay; its window becomes the chosen window."""
        base, window = decay.split()
        return replace(self, decay=base.spec, window="" if math.isinf(window) else format_duration(window))


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


def by_number(decay: Decay) -> bool:
    """Whether a decay takes events by their number, not by their age."""
    return isinstance(decay, LastEvents)


def largest_sources(stream: StoredStream, most: int, among: Sequence[str] = ()) -> tuple[str, ...]:
    """The sources with the most events, by name; of all sources, or among some."""
    events = dict.fromkeys(among or stream.sources, 0)
    for source, totals in stream.by_source.items():
        if source in events:
            events[source] = totals.events
    return tuple(sorted(sorted(events, key=lambda source: -events[source])[:most]))


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
    view, more = _with_known_columns(view, stream)
    problems += more
    try:
        view.moment(stream.unit)
    except QuestionError as error:
        problems.append(f"{quoted(view.stream)} cannot be asked as of that time: {quoted(error)}.")
        view = replace(view, as_of=NEWEST)
    try:
        begin, stop = (read_moment(text, stream.unit) if text else None for text in (view.start, view.end))
        if begin is not None and stop is not None and stop <= begin:
            raise QuestionError("it ends before it begins")
    except QuestionError as error:
        problems.append(f"The range of the chart is left out: {quoted(error)}.")
        view = replace(view, start="", end="")
    try:
        if (marked := marked_time(view, stream.unit)) is not None and marked[1] <= marked[0]:
            raise QuestionError("it ends before it begins")
    except QuestionError as error:
        problems.append(f"The marked time is left out: {quoted(error)}.")
        view = replace(view, mark_start="", mark_end="")
    if not view.decay:
        view = view.with_fading(usual_decay(stream)) if not view.window else replace(view, decay="none")
    view, more = with_own_decay(view, stream)
    return view, problems + more


def _with_known_columns(view: View, stream: StoredStream) -> tuple[View, list[str]]:
    """The view about columns that the stream has, and a sentence for each that it has not."""
    problems: list[str] = []
    view = replace(view, of=columns_of(stream).column(view.of), by=columns_of(stream).column(view.by))
    if view.aggregate in OF and view.of and own_measure(stream, view.aggregate, view.of) != view.of:
        known = ", ".join(measures(stream, view.aggregate))
        texts = " The values are texts." if view.of == "value" and is_keyed(stream) else ""
        problems.append(
            f"{quoted(view.aggregate)} cannot be of {quoted(view.of)}: it can be of {quoted(known)}.{texts}"
        )
    view = with_own_columns(view, stream)
    if view.by and view.by not in splits(stream):
        known = ", ".join(splits(stream)) or "nothing"
        problems.append(f"{quoted(view.stream)} cannot be split by {quoted(view.by)}, but by {quoted(known)}.")
        view = replace(view, by="")
    try:
        view.predicate(stream)
    except QuestionError as error:
        problems.append(f"The filter {quoted(view.where)} is left out: {quoted(error)}.")
        view = replace(view, where="")
    return view, problems


def with_own_columns(view: View, stream: StoredStream) -> View:
    """The view with a measure that its aggregate can be of."""
    return replace(view, of=own_measure(stream, view.aggregate, view.of)) if view.aggregate in OF else view


def marked_time(view: View, unit: TimeUnit) -> tuple[int, int] | None:
    """From when to before when a chart is marked; None where it is not."""
    if not (view.mark_start and view.mark_end):
        return None
    return read_moment(view.mark_start, unit), read_moment(view.mark_end, unit)


def other_time(view: View, unit: TimeUnit) -> tuple[int, int] | None:
    """From when to before when lies the time that a marked one is compared with; None where it is not given so."""
    begin, between, end = view.versus.partition("/")
    return (read_moment(begin, unit), read_moment(end, unit)) if between else None


def at_first(view: View, stream: StoredStream) -> View:
    """The view with the question on which the stream opens."""
    aggregate, of = first_look(stream)
    return replace(view, aggregate=aggregate, of=of)


def with_own_decay(view: View, stream: StoredStream) -> tuple[View, list[str]]:
    """The view under the decay of its family, where that family was built for one, and a sentence if it had another."""
    own = own_decay(stream, view.family)
    if own is None or own == view.fading:
        return view, []
    said = f"The family {quoted(view.family)} answers only under the decay it was built for, {quoted(own.spec)}"
    return view.with_fading(own), [f"{said}: for another decay choose another family."]


def own_decay(stream: StoredStream, family: str) -> Decay | None:
    """The only decay under which a family's sketches answer; None where it answers under any."""
    known = FAMILIES.get(family)
    if known is None or not known.abilities.fixed_decay:
        return None
    own = stream.described.get(family)
    return Built(own if isinstance(own, Mapping) else {}, stream.described, 1.0).decay


def usual_decay(stream: StoredStream) -> Decay:
    """The decay of a first look: a half-life of about a thirtieth of the time that the stream covers.

    Where every stored family answers under one decay only, it is that of the first.
    """
    fixed = [own_decay(stream, family) for family in sorted(stream.sketches)]
    if fixed and None not in fixed and fixed[0] is not None:
        return fixed[0]
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


def check_where(text: str, stream: StoredStream) -> str:
    """The text, unless it is no condition on the stream's events."""
    stripped = text.strip()
    if stripped:
        columns_of(stream).parse(stripped)
    return stripped


def check_number(text: str) -> str:
    """The text, unless it is no number."""
    stripped = text.strip()
    if stripped and math.isnan(number("this", stripped) or 0.0):
        raise QuestionError("NaN is not a number")
    return stripped


def _tau(text: str) -> float | str | None:
    try:
        return float(text) if text else None
    except ValueError:
        return text


def number(name: str, text: str) -> float | None:
    """A typed number; None where nothing was typed."""
    if not text:
        return None
    try:
        return float(text)
    except ValueError:
        raise QuestionError(f"{name} is {text!r}; it must be a number") from None
