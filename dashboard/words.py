"""Numbers, times, decays and guarantees as people read them; and text from outside made harmless."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import Final
from zoneinfo import ZoneInfo

from sketches.decay import Decay
from sketches.drawn import TimeUnit
from sketches.estimate import outward

_SPECIAL: Final = re.compile(r"([\\`*_{}\[\]()#+\-.!|<>$~:&])")
# Control characters, halves of surrogate pairs, and marks that turn the direction of all that follows.
_UNSHOWN: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_YEAR: Final = 365.25 * 86_400
# What becomes a link, an icon or an emoji even where its signs are escaped: https://…, www.…, a@b, :material/home:
_FOUND: Final = re.compile(r"https?(?=:)|www(?=\.)|@|:(?=(?!\d{1,2}:)[\w/+-]+:)", re.IGNORECASE)
_UNITS: Final = (("w", 604_800), ("d", 86_400), ("h", 3600), ("min", 60), ("s", 1))
_LONGEST: Final = 80


@dataclass(frozen=True, slots=True)
class Aggregate:
    """How an aggregate is called in a list, as the subject of a sentence, and what its number measures."""

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

FADINGS: Final = {
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
    """Text from outside inside Markdown: shown as it is, nothing in it is a link, an image, a formula or HTML.

    An invisible joiner keeps apart what a renderer would still find after unescaping.
    """
    return _SPECIAL.sub(r"\\\1", _FOUND.sub("\\g<0>\N{WORD JOINER}", _flat(text)))


def quoted(text: object) -> str:
    """Text from outside as inline code, cut where it is long."""
    flat = _flat(text).replace("`", "'")
    return f"`{flat[:_LONGEST]}{'…' if len(flat) > _LONGEST else ''}`" if flat else "nothing"


def in_figure(text: object) -> str:
    """Text from outside inside a Plotly figure, which understands a little HTML."""
    flat = _flat(text)
    return html.escape(flat[:40] + ("…" if len(flat) > 40 else ""), quote=False)


def _flat(text: object) -> str:
    """On one line, and without what is no character to look at."""
    return _UNSHOWN.sub("\ufffd", " ".join(str(text).split()))


def number(value: float) -> str:
    """A number with as many digits as people compare, the same as `wane query` prints.

    >>> number(27.314159), number(1234567.8), number(math.nan), number(0.00001234)
    ('27.3142', '1,234,568', 'no data', '1.234e-05')
    """
    if math.isnan(value):
        return "no data"
    if math.isinf(value):
        return "unbounded" if value > 0 else "minus unbounded"
    return f"{value:,.0f}" if 1e6 <= abs(value) < 1e15 else f"{value:,.6g}"


def measured(value: float, measure: str) -> str:
    """A number of a measure: shares as per cent.

    >>> measured(0.123456, "share"), measured(12.5, "weight")
    ('12.3456%', '12.5')
    """
    return f"{100 * value:.6g}%" if measure == "share" and math.isfinite(value) else number(value)


def limits(lower: float, upper: float, measure: str) -> tuple[str, str]:
    """The ends of an interval, rounded outward: what lies between the texts is all that lies between the numbers.

    >>> limits(0.12345678, 0.23456712, "share"), limits(1.23456789, math.inf, "weight")
    (('12.3456%', '23.4568%'), ('1.23456', 'unbounded'))
    """
    return measured(outward(lower, up=False), measure), measured(outward(upper, up=True), measure)


def duration(seconds: float) -> str:
    """A length of time in two units at most.

    >>> [duration(x) for x in (90, 3600, 100_000, 0.25, math.inf, 7 * 86_400)]
    ['1 min 30 s', '1 h', '1 d 4 h', '0.25 s', 'never', '1 w']
    """
    if not math.isfinite(seconds):
        return "never"
    if seconds >= 100 * _YEAR:
        return f"{seconds / _YEAR:,.3g} years"
    seconds = float(f"{seconds:.6g}")  # an age found by bisection may be the last digit short of a round one
    if seconds < 59.95:
        return f"{seconds:.3g} s"
    leading = next(at for at, (_, unit) in enumerate(_UNITS) if seconds >= unit)
    least = _UNITS[leading : leading + 2][-1][1]
    left = round(seconds / least) * least  # which may be a whole larger unit
    parts = []
    for name, unit in _UNITS:
        count, left = divmod(left, unit)
        parts += [f"{count:,} {name}"] if count else []
    return " ".join(parts)


def size(count: float) -> str:
    """Bytes.

    >>> size(640), size(12_345), size(7.8e9)
    ('640 B', '12.3 kB', '7.8 GB')
    """
    for name, unit in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= unit:
            return f"{count / unit:.3g} {name}"
    return f"{count:.0f} B"


def counted(count: int, one: str, many: str = "") -> str:
    """
    >>> counted(1, "epoch"), counted(2000, "epoch")
    ('1 epoch', '2,000 epochs')
    """
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def stamp(moment: int, unit: TimeUnit, zone: tzinfo = UTC) -> datetime | None:
    """A time of the stream in the calendar of a zone; None where it lies outside every calendar."""
    try:
        return datetime.fromtimestamp(moment * unit.numerator / unit.denominator, UTC).astimezone(zone)
    except (OverflowError, ValueError, OSError):
        return None


def moment(at: int | None, unit: TimeUnit, zone: tzinfo = UTC) -> str:
    """A time of the stream in words.

    >>> from sketches.drawn import SECOND
    >>> moment(1_700_000_000, SECOND), moment(10**17, SECOND), moment(None, SECOND)
    ('2023-11-14 22:13:20 UTC', '100000000000000000', 'never')
    """
    if at is None:
        return "never"
    found = stamp(at, unit, zone)
    return str(at) if found is None else f"{found:%Y-%m-%d %H:%M:%S} {found.tzname()}"


def axis_times(moments: Iterable[int], unit: TimeUnit, zone: tzinfo) -> list[datetime] | list[int]:
    """Times for an axis: wall-clock times of the zone, or bare numbers where one lies outside the calendar."""
    given = list(moments)
    stamps = [stamp(at, unit, zone) for at in given]
    known = [found.replace(tzinfo=None) for found in stamps if found is not None]
    return known if len(known) == len(given) else given


def zone(name: str) -> tzinfo:
    """The named time zone."""
    return UTC if name == "UTC" else ZoneInfo(name)


def fading(decay: Decay) -> str:
    """How the past fades, as part of a sentence.

    >>> from sketches import parse_decay
    >>> [fading(parse_decay(text)) for text in ("none", "window:1h", "exp:half_life=30m,window=1d")]
    ['all events count alike', 'only the last 1 h counts', \
'half the weight is gone after 30 min, and events older than 1 d count nothing']
    """
    base, window = decay.split()
    if base.name == "none":
        return "all events count alike" if math.isinf(window) else f"only the last {duration(window)} counts"
    half = base.half_age
    faded = "half the weight is never gone" if math.isinf(half) else f"half the weight is gone after {duration(half)}"
    return faded if math.isinf(window) else f"{faded}, and events older than {duration(window)} count nothing"


def short_fading(decay: Decay) -> str:
    """A decay as a legend names it.

    >>> from sketches import parse_decay
    >>> [short_fading(parse_decay(text)) for text in ("none", "window:1h", "exp:half_life=30m", "poly:alpha=1,unit=1h")]
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
    return f"last {duration(window)}" if base.name == "none" else f"{name}, last {duration(window)}"


def _parameter(decay: Decay, key: str) -> str:
    value = getattr(decay, key)
    return duration(value) if decay.parameters[key].duration else f"{value:g}"


def threshold(tau: str) -> str:
    """A threshold as part of a sentence.

    >>> threshold("600"), threshold("median"), threshold("q0.9"), threshold("")
    ('600', 'the median', 'the 90% quantile', 'τ')
    """
    if tau == "median":
        return "the median"
    return f"the {100 * float(tau[1:]):g}% quantile" if tau.startswith("q") else tau or "τ"


def listed(names: Sequence[str], most: int = 3) -> str:
    """
    >>> listed(["a", "b", "c", "d", "e"]), listed(["a", "b"])
    ('a, b, c and 2 more', 'a, b')
    """
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
