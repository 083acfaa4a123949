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
from sketches.decay.functions import LastEvents
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


AGGREGATES: Final = {  # with their names in a list
    "sum": "Sum",
    "count": "Number of events",
    "mean": "Mean",
    "median": "Median value",
    "quantile": "Quantile of the values",
    "correlated-sum": "Sum where value ≥ τ",
    "correlated-count": "Number of events where value ≥ τ",
    "correlated-mean": "Mean where value ≥ τ",
    "selectivity": "Share where value ≥ τ",
    "rank": "Share up to a value",
    "frequency": "Share of one value",
    "range-sum": "Sum in a range of values",
    "range-frequency": "Share in a range of values",
    "self-join": "Self-join size",
    "inner-product": "Inner product of two sources",
}
ON_KEYS: Final = ("sum", "count", "mean", "frequency", "self-join", "inner-product")

DECAYS: Final = {
    "none": "None: age does not matter",
    "last": "The newest N events",
    "exp": "Exponential",
    "poly": "Polynomial",
    "power": "Power of the age",
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
            "weight squared": f"({self.weight})²" if self.weight else "weight²",
            "events squared": "events²",
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
    >>> [decay_sentence(parse_decay(text)) for text in ("none", "window:1h", "exp:half_life=30m,window=1d", "last:500")]
    ['events of any age count', 'only the last 1 h counts', \
'an event counts half after 30 min, and nothing from 1 d on', 'only the newest 500 events count']
    """
    if isinstance(decay, LastEvents):
        return f"only the newest {decay.count:,.0f} events count"
    base, window = decay.split()
    if base.name == "none":
        return "events of any age count" if math.isinf(window) else f"only the last {human_duration(window)} counts"
    half = base.half_age
    faded = (
        "an event never counts less than half"
        if math.isinf(half)
        else f"an event counts half after {human_duration(half)}"
    )
    faded += "" if base.at_newest == 1.0 else f" (of {base.at_newest:.6g}, which the newest count)"
    return faded if math.isinf(window) else f"{faded}, and nothing from {human_duration(window)} on"


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
        "last": "newest {count}",
        "exp": "half-life {half_life}",
        "poly": "polynomial α {alpha}, {unit}",
        "power": "power α {alpha}, {unit}",
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
