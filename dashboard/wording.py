"""How the dashboard words aggregates, units and decays, and how it makes text from outside harmless."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal
from typing import Final
from zoneinfo import ZoneInfo

from sketches.decay import Decay
from sketches.decay.functions import LastEvents
from sketches.durations import human_duration
from sketches.formatting import calendar_time, number_text, outward, percent_text
from sketches.sentences import NO_NAMES, Names
from sketches.units import TimeUnit

_SPECIAL: Final = re.compile(r"([\\`*_{}\[\]()#+\-.!|<>$~:&])")
# Control characters, halves of surrogate pairs, and marks that reverse the direction of the text after them.
_INVISIBLE: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
# What becomes a link, an icon or an emoji even where its signs are escaped: https://…, www.…, a@b, :material/home:
_STILL_SPECIAL: Final = re.compile(r"https?(?=:)|www(?=\.)|@|:(?=(?!\d{1,2}:)[\w/+-]+:)", re.IGNORECASE)
_LONGEST_QUOTED: Final = 80  # characters
_LONGEST_IN_FIGURE: Final = 40
_SMALL: Final = 1e-3  # a half-width that is told only as a share of its estimate
_NEGLIGIBLE: Final = 1e-5  # of an estimate: a half-width that its digits do not show


PER_SECOND: Final = " per second"
SQUARED: Final = " squared"
FIELD: Final = "field "  # before the name of a field, where a number measures it

AGGREGATES: Final = {  # with their names in a list
    "sum": "Sum",
    "count": "Number of events",
    "mean": "Mean",
    "rate": "Rate, per second",
    "variance": "Variance",
    "stddev": "Standard deviation",
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
ON_KEYS: Final = (
    *("sum", "count", "mean", "rate", "variance", "stddev"),
    *("frequency", "self-join", "inner-product"),
)

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
    """What the numbers of a stream measure, and what it calls them, as its settings file says."""

    value: str = ""
    weight: str = ""
    names: Names = NO_NAMES

    def axis(self, measure: str) -> str:
        """The title of an axis."""
        if measure.endswith(PER_SECOND):
            return self.axis(measure.removesuffix(PER_SECOND)) + PER_SECOND
        if measure.endswith(SQUARED):
            base = measure.removesuffix(SQUARED)
            unit = self._unit(base)
            return f"({unit})²" if unit else f"{self._name(base)}²"
        unit, name = self._unit(measure), self._name(measure)
        if measure == "weight":
            return unit or name
        return f"{name}, {unit}" if unit else name

    def with_number(self, text: str, measure: str) -> str:
        """A number as text with its unit, where there is one."""
        if measure.endswith(PER_SECOND):
            unit = self._unit(measure.removesuffix(PER_SECOND))
            return f"{text} {unit}{PER_SECOND}" if unit else f"{text}{PER_SECOND}"
        unit = self._unit(measure)
        return f"{text} {unit}" if unit else text

    def _unit(self, measure: str) -> str:
        return {"weight": self.weight, "value": self.value}.get(measure, "")

    def _name(self, measure: str) -> str:
        own = {"weight": self.names.weight, "value": self.names.value}.get(measure, "")
        return own or measure.removeprefix(FIELD)


def safe(text: object) -> str:
    """Text from outside for use in Markdown: shown as it is, without links, images, formulas or HTML.

    An invisible joiner breaks up addresses and icons, which a renderer finds even in escaped text.
    """
    return _SPECIAL.sub(r"\\\1", _STILL_SPECIAL.sub("\\g<0>\N{WORD JOINER}", one_line(text)))


def quoted(text: object) -> str:
    """Text from outside as inline code, cut off where it is long."""
    line = one_line(text).replace("`", "'")
    return f"`{_cut(line, _LONGEST_QUOTED)}`" if line else "nothing"


def in_figure(text: object, most: int = _LONGEST_IN_FIGURE) -> str:
    """Text from outside for use in a Plotly figure, which understands some HTML."""
    return html.escape(_cut(one_line(text), most), quote=False)


def _cut(text: str, most: int) -> str:
    return text[:most] + ("…" if len(text) > most else "")


def one_line(text: object) -> str:
    """The text on one line, without characters that cannot be seen."""
    return _INVISIBLE.sub("\ufffd", " ".join(str(text).split()))


def capitalised(text: str) -> str:
    """A text as the beginning of a sentence."""
    return text[:1].upper() + text[1:]


def as_sentence(text: object) -> str:
    """A message as a sentence: with a capital letter and an end.

    >>> as_sentence("there is no board 'a'; did you mean 'b'?"), as_sentence("it is full")
    ("There is no board 'a'; did you mean 'b'?", 'It is full.')
    """
    said = capitalised(str(text))
    return said if said.endswith((".", "?", "!")) else f"{said}."


def measured(value: float, measure: str) -> str:
    """A number of a measure: shares as per cent.

    >>> measured(0.123456, "share"), measured(12.5, "weight")
    ('12.3456%', '12.5')
    """
    return percent_text(value) if measure == "share" else number_text(value)


def estimated(value: float, lower: float, upper: float, measure: str) -> str:
    """An estimate with at most one digit more than its interval justifies, and all digits where it is exact.

    >>> estimated(6225.02, 6100.0, 6350.0, "weight"), estimated(6225.02, 6225.02, 6225.02, "weight")
    ('6,230', '6,225.02')
    """
    step = _step(lower, upper)
    if step is None or not math.isfinite(value) or value == 0.0:
        return measured(value, measure)
    first = Decimal(1).scaleb(math.floor(math.log10(abs(value))))  # a digit is shown, however wide the interval
    return measured(float(_to_step(value, min(step, first), ROUND_HALF_EVEN)), measure)


def limits(lower: float, upper: float, measure: str) -> tuple[str, str]:
    """The ends of an interval of a measure, rounded outward, with no more digits than the estimate; no share is below
    0 or above 1.

    >>> limits(0.12345678, 0.23456712, "share"), limits(1.23456789, math.inf, "weight"), limits(0.9, 1.2, "share")
    (('12.3%', '23.5%'), ('1.23456', 'unbounded'), ('90%', '100%'))
    """
    text = percent_text if measure == "share" else number_text
    step = _step(lower, upper)
    if step:
        lower, upper = float(_to_step(lower, step, ROUND_FLOOR)), float(_to_step(upper, step, ROUND_CEILING))
    else:
        lower, upper = outward(lower, up=False), outward(upper, up=True)
    if measure == "share":
        lower, upper = max(lower, 0.0), min(upper, 1.0)
    return text(lower), text(upper)


def change(value: float, lower: float, upper: float, measure: str) -> str:
    """By how much something has changed, with its limits; shares change by points.

    >>> change(12.34, 10.01, 14.7, "weight"), change(-0.031, -0.05, 0.004, "share"), change(2.0, 2.0, 2.0, "value")
    ('+12.3 (+10 to +14.7)', '-3.1 points (-5 points to +0.4 points)', '+2')
    """
    unit, scale = (" points", 100.0) if measure == "share" else ("", 1.0)
    if not math.isfinite(value):
        return ""
    value, lower, upper = (scale * number for number in (value, lower, upper))
    told = _signed(estimated(value, lower, upper, "")) + unit
    if lower == upper:
        return told
    ends = (_signed(end) + (unit if end[-1].isdigit() else "") for end in limits(lower, upper, ""))
    return f"{told} ({' to '.join(ends)})"


def change_in_percent(value: float, lower: float, upper: float) -> str:
    """The same in per cent of what was before.

    >>> change_in_percent(0.25, 0.2, 0.301), change_in_percent(math.nan, 0.0, 1.0)
    ('+25% (+20% to +30.1%)', '')
    """
    if not math.isfinite(value):
        return ""
    told = _signed(measured_percent(value, lower, upper))
    if lower == upper:
        return told
    step = limits(100.0 * lower, 100.0 * upper, "")
    return f"{told} ({' to '.join(_signed(end) + ('%' if end[-1].isdigit() else '') for end in step)})"


def measured_percent(value: float, lower: float, upper: float) -> str:
    """A part as per cent, with no more digits than its limits justify."""
    return estimated(100.0 * value, 100.0 * lower, 100.0 * upper, "") + "%"


def _signed(text: str) -> str:
    return text if text.startswith(("-", "unbounded")) or not text.strip("0.,%") else f"+{text}"


def half_width(value: float, lower: float, upper: float, measure: str) -> str:
    """Half the width of an interval, by itself and as a share of the estimate; empty where it is none.

    >>> half_width(200.0, 190.0, 214.0, "weight"), half_width(0.5, 0.49, 0.52, "share"), half_width(1.0, 1.0, 1.0, "")
    ('± 12 (6%)', '± 1.5%', '')
    """
    half = (upper - lower) / 2
    if not (math.isfinite(half) and half > 0):
        return ""
    if measure == "share":
        return f"± {100 * half:.2g}%"
    if value and half < _NEGLIGIBLE * abs(value):
        return f"± under {100 * _NEGLIGIBLE:g}%"
    if value and half < _SMALL:
        return f"± {100 * half / abs(value):.2g}%"
    relative = f" ({100 * half / abs(value):.2g}%)" if value else ""
    return f"± {number_text(float(f'{half:.2g}'))}{relative}"


def _step(lower: float, upper: float) -> Decimal | None:
    """The place of the last digit that is shown of an estimate: one below the first digit of the half-width. None
    where all digits are shown that there is room for."""
    half = (upper - lower) / 2
    if not (math.isfinite(half) and half > 0):
        return None
    place = math.floor(math.log10(half)) - 1
    room = math.floor(math.log10(max(abs(lower), abs(upper)))) - 5
    return Decimal(1).scaleb(place) if place >= room else None


def _to_step(value: float, step: Decimal, rounding: str) -> Decimal:
    return (Decimal(repr(float(value))) / step).to_integral_value(rounding) * step


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
