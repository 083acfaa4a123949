"""How the dashboard words aggregates, units and decays, and how it makes text from outside harmless."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import Final
from zoneinfo import ZoneInfo

from sketches.decay import Decay
from sketches.durations import human_duration
from sketches.formatting import calendar_time, limit_texts, number_text, percent_text
from sketches.units import TimeUnit

_SPECIAL: Final = re.compile(r"([\\`*_{}\[\]()#+\-.!|<>$~:&])")
# Control characters, halves of surrogate pairs, and marks that reverse the direction of the text after them.
_INVISIBLE: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
# What becomes a link, an icon or an emoji even where its signs are escaped: https://…, www.…, a@b, :material/home:
_STILL_SPECIAL: Final = re.compile(r"https?(?=:)|www(?=\.)|@|:(?=(?!\d{1,2}:)[\w/+-]+:)", re.IGNORECASE)
_LONGEST_QUOTED: Final = 80  # characters
_LONGEST_IN_FIGURE: Final = 40


@dataclass(frozen=True, slots=True)
class Aggregate:
    """An aggregate: its name in a list, its name as the subject of a sentence, and what its number measures."""

    label: str
    subject: str
    measure: str  # weight, events, value, share or square


AGGREGATES: Final = {
    "sum": Aggregate("Sum", "The sum of {what}", "weight"),
    "count": Aggregate("Number of events", "The number of events", "events"),
    "mean": Aggregate("Mean", "The mean {what}", "weight"),
    "median": Aggregate("Median value", "The median value", "value"),
    "quantile": Aggregate("Quantile of the values", "The {phi} quantile of the values", "value"),
    "correlated-sum": Aggregate(
        "Sum where value ≥ τ", "The sum of weights where the value is at least {tau}", "weight"
    ),
    "correlated-count": Aggregate(
        "Number of events where value ≥ τ", "The number of events with a value of at least {tau}", "events"
    ),
    "correlated-mean": Aggregate(
        "Mean where value ≥ τ", "The mean weight of events with a value of at least {tau}", "weight"
    ),
    "selectivity": Aggregate(
        "Share where value ≥ τ", "The share of the weight where the value is at least {tau}", "share"
    ),
    "rank": Aggregate("Share up to a value", "The share of the weight at values up to {value}", "share"),
    "frequency": Aggregate("Share of one value", "The share of the weight at {value}", "share"),
    "range-sum": Aggregate("Sum in a range of values", "The sum of weights at values from {low} to {high}", "weight"),
    "range-frequency": Aggregate(
        "Share in a range of values", "The share of the weight at values from {low} to {high}", "share"
    ),
    "self-join": Aggregate("Self-join size", "The self-join size", "square"),
    "inner-product": Aggregate("Inner product of two sources", "The inner product with {other}", "square"),
}
ON_KEYS: Final = ("sum", "count", "mean", "frequency", "self-join", "inner-product")

DECAYS: Final = {
    "none": "None: all count alike",
    "exp": "Exponential",
    "poly": "Polynomial",
    "log": "Logarithmic",
    "chordal": "Straight line to zero",
    "finite-exp": "Exponential with an end",
    "polyexp": "Plateau, then exponential",
    "superexp": "Faster than exponential",
    "table": "Table of my own",
    "expr": "Formula",
}


@dataclass(frozen=True, slots=True)
class Units:
    """What the numbers of a stream measure, as its settings file says."""

    value: str = ""
    weight: str = ""

    def axis(self, measure: str) -> str:
        """The title of an axis."""
        return {
            "weight": self.weight or "weight",
            "events": "events",
            "value": f"value, {self.value}" if self.value else "value",
            "share": "share",
            "square": f"({self.weight})²" if self.weight else "weight²",
        }[measure]

    def with_number(self, text: str, measure: str) -> str:
        """A number as text with its unit, where there is one."""
        unit = {"weight": self.weight, "value": self.value}.get(measure, "")
        return f"{text} {unit}" if unit else text


def safe(text: object) -> str:
    """Text from outside for use in Markdown: shown as it is, without links, images, formulas or HTML.

    An invisible joiner breaks up addresses and icons, which a renderer finds even in escaped text.
    """
    return _SPECIAL.sub(r"\\\1", _STILL_SPECIAL.sub("\\g<0>\N{WORD JOINER}", _one_line(text)))


def quoted(text: object) -> str:
    """Text from outside as inline code, cut off where it is long."""
    line = _one_line(text).replace("`", "'")
    return f"`{_cut(line, _LONGEST_QUOTED)}`" if line else "nothing"


def in_figure(text: object) -> str:
    """Text from outside for use in a Plotly figure, which understands some HTML."""
    return html.escape(_cut(_one_line(text), _LONGEST_IN_FIGURE), quote=False)


def _cut(text: str, most: int) -> str:
    return text[:most] + ("…" if len(text) > most else "")


def _one_line(text: object) -> str:
    """The text on one line, without characters that cannot be seen."""
    return _INVISIBLE.sub("\ufffd", " ".join(str(text).split()))


def capitalised(text: str) -> str:
    """A text as the beginning of a sentence."""
    return text[:1].upper() + text[1:]


def measured(value: float, measure: str) -> str:
    """A number of a measure: shares as per cent.

    >>> measured(0.123456, "share"), measured(12.5, "weight")
    ('12.3456%', '12.5')
    """
    return percent_text(value) if measure == "share" else number_text(value)


def limits(lower: float, upper: float, measure: str) -> tuple[str, str]:
    """The ends of an interval of a measure, rounded outward.

    >>> limits(0.12345678, 0.23456712, "share"), limits(1.23456789, math.inf, "weight")
    (('12.3456%', '23.4568%'), ('1.23456', 'unbounded'))
    """
    return limit_texts(lower, upper, percent_text if measure == "share" else number_text)


def axis_times(moments: Iterable[int], unit: TimeUnit, zone: tzinfo) -> list[datetime] | list[int]:
    """Times for an axis: wall-clock times of the zone, or all as bare numbers where one lies outside the calendar."""
    numbers = list(moments)
    times = [calendar_time(moment, unit, zone) for moment in numbers]
    inside = [time.replace(tzinfo=None) for time in times if time is not None]
    return inside if len(inside) == len(numbers) else numbers


def zone(name: str) -> tzinfo:
    """The named time zone."""
    return UTC if name == "UTC" else ZoneInfo(name)


def decay_sentence(decay: Decay) -> str:
    """What a decay does, as part of a sentence.

    >>> from sketches import parse_decay
    >>> [decay_sentence(parse_decay(text)) for text in ("none", "window:1h", "exp:half_life=30m,window=1d")]
    ['all events count alike', 'only the last 1 h counts', \
'half the weight is gone after 30 min, and events older than 1 d count nothing']
    """
    base, window = decay.split()
    if base.name == "none":
        return "all events count alike" if math.isinf(window) else f"only the last {human_duration(window)} counts"
    half = base.half_age
    faded = (
        "half the weight is never gone" if math.isinf(half) else f"half the weight is gone after {human_duration(half)}"
    )
    return faded if math.isinf(window) else f"{faded}, and events older than {human_duration(window)} count nothing"


def decay_label(decay: Decay) -> str:
    """A decay as the legend of a chart names it.

    >>> from sketches import parse_decay
    >>> [decay_label(parse_decay(text)) for text in ("none", "window:1h", "exp:half_life=30m", "poly:alpha=1,unit=1h")]
    ['no fading', 'last 1 h', 'half-life 30 min', 'polynomial α 1, 1 h']
    """
    base, window = decay.split()
    texts = {key: _parameter(base, key) for key in base.parameters}
    name = {
        "none": "no fading",
        "exp": "half-life {half_life}",
        "poly": "polynomial α {alpha}, {unit}",
        "log": "logarithmic, {unit}",
        "chordal": "straight line to {horizon}",
        "finite-exp": "half-life {half_life}, ends at {floor}",
        "polyexp": "plateau k {k}, {half_life}",
        "superexp": "super-exponential β {beta}, {scale}",
        "table": "table",
        "expr": base.spec.removeprefix("expr:"),
    }[base.name]
    name = name if base.name == "expr" else name.format(**texts)
    if math.isinf(window):
        return name
    return f"last {human_duration(window)}" if base.name == "none" else f"{name}, last {human_duration(window)}"


def _parameter(decay: Decay, key: str) -> str:
    value = getattr(decay, key)
    return human_duration(value) if decay.parameters[key].duration else f"{value:g}"


def threshold(tau: str) -> str:
    """A threshold as part of a sentence.

    >>> threshold("600"), threshold("median"), threshold("q0.9"), threshold("")
    ('600', 'the median', 'the 90% quantile', 'τ')
    """
    if tau == "median":
        return "the median"
    return f"the {percent_text(float(tau[1:]))} quantile" if tau.startswith("q") else tau or "τ"
