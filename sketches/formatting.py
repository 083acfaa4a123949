"""How numbers, sizes, times and lists are written for people, alike on the command line and in the dashboard.

Lengths of time are in `sketches.durations`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, tzinfo
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from typing import Any, Final

from sketches.units import TimeUnit

_DIGITS: Final = 6  # shown; whole numbers of a million and more keep all of theirs
_DOWN: Final = Context(prec=_DIGITS, rounding=ROUND_FLOOR)
_UP: Final = Context(prec=_DIGITS, rounding=ROUND_CEILING)
_WHOLE: Final = (1e6, 1e15)  # from and below which a number is written as a whole number
_SIZES: Final = (("GB", 1e9), ("MB", 1e6), ("kB", 1e3))


def number_text(value: float) -> str:
    """A number with six digits; from a million on a whole number.

    >>> number_text(27.314159), number_text(1234567.8), number_text(math.nan), number_text(0.00001234)
    ('27.3142', '1,234,568', 'no data', '1.234e-05')
    """
    if math.isnan(value):
        return "no data"
    if math.isinf(value):
        return "unbounded" if value > 0 else "minus unbounded"
    return f"{value:,.0f}" if _is_whole(value) else f"{value:,.{_DIGITS}g}"


def percent_text(share: float) -> str:
    """A share of 1 in per cent.

    >>> percent_text(0.123456), percent_text(0.95), percent_text(math.inf)
    ('12.3456%', '95%', 'unbounded')
    """
    return f"{100 * share:.{_DIGITS}g}%" if math.isfinite(share) else number_text(share)


def outward(limit: float, *, up: bool) -> float:
    """A limit of an interval with no more digits than are shown, rounded away from the interval's middle.

    So the interval that people read contains the interval that was computed.

    >>> outward(27.31416, up=False), outward(27.31411, up=True), outward(1234567.2, up=True), outward(12.1, up=False)
    (27.3141, 27.3142, 1234568.0, 12.1)
    """
    if not math.isfinite(limit):
        return limit
    if _is_whole(limit):
        return float(math.ceil(limit) if up else math.floor(limit))
    return float((_UP if up else _DOWN).create_decimal(repr(float(limit))))


def limit_texts(lower: float, upper: float, text: Callable[[float], str] = number_text) -> tuple[str, str]:
    """Both ends of an interval, rounded outward; `text` writes one of them.

    >>> limit_texts(0.12345678, 0.23456712, percent_text), limit_texts(1.23456789, math.inf)
    (('12.3456%', '23.4568%'), ('1.23456', 'unbounded'))
    """
    return text(outward(lower, up=False)), text(outward(upper, up=True))


def size_text(count: float) -> str:
    """A number of bytes.

    >>> size_text(640), size_text(12_345), size_text(999_700), size_text(7.8e9)
    ('640 B', '12.3 kB', '1 MB', '7.8 GB')
    """
    for name, unit in _SIZES:
        if count >= 0.9995 * unit:  # 999.7 kB would be rounded to 1e+03 kB
            return f"{count / unit:.3g} {name}"
    return f"{count:.0f} B"


def counted(count: int, one: str, many: str = "") -> str:
    """A count with its noun.

    >>> counted(1, "epoch"), counted(2000, "epoch"), counted(2, "sketch", "sketches")
    ('1 epoch', '2,000 epochs', '2 sketches')
    """
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def listed(names: Sequence[str], most: int = 3) -> str:
    """The first names of a list, and how many more there are.

    >>> listed(["a", "b", "c", "d", "e"]), listed(["a", "b"])
    ('a, b, c and 2 more', 'a, b')
    """
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def row_text(row: Any) -> str:
    """A row of a raw file: its columns by name, or the text that it was found as.

    >>> row_text({"id": "a7", "time": None}), row_text("a7;;3")
    ("id 'a7', time missing", 'a7;;3')
    """
    if not isinstance(row, dict):
        return str(row)
    return ", ".join(f"{name} {'missing' if value is None else repr(value)}" for name, value in row.items())


def calendar_time(moment: int, unit: TimeUnit, zone: tzinfo = UTC) -> datetime | None:
    """A time of a stream as date and time of a zone; None where it lies outside the calendar."""
    try:
        return datetime.fromtimestamp(moment * unit.numerator / unit.denominator, UTC).astimezone(zone)
    except (OverflowError, ValueError, OSError):
        return None


def moment_text(moment: int | None, unit: TimeUnit, zone: tzinfo = UTC) -> str:
    """A time of a stream as text: the bare number where it lies outside the calendar, "nothing" where there is none.

    >>> from sketches.units import SECOND
    >>> moment_text(1_700_000_000, SECOND), moment_text(10**17, SECOND), moment_text(None, SECOND)
    ('2023-11-14 22:13:20 UTC', '100000000000000000', 'nothing')
    """
    if moment is None:
        return "nothing"
    found = calendar_time(moment, unit, zone)
    return str(moment) if found is None else f"{found:%Y-%m-%d %H:%M:%S} {found.tzname()}"


def numbered_moment_text(moment: int, unit: TimeUnit) -> str:
    """A time of a stream as text, with its number in the unit of the stream.

    >>> from sketches.units import SECOND
    >>> numbered_moment_text(1_700_000_000, SECOND), numbered_moment_text(10**17, SECOND)
    ('2023-11-14 22:13:20 UTC (1700000000)', '100000000000000000')
    """
    text = moment_text(moment, unit)
    return text if text == str(moment) else f"{text} ({moment})"


def _is_whole(value: float) -> bool:
    least, most = _WHOLE
    return least <= abs(value) < most
