"""Lengths of time as text: `parse_duration` reads them, `format_duration` writes what it reads back exactly, and
`human_duration` writes them short for people."""

from __future__ import annotations

import math
import re
from decimal import Decimal

from sketches.errors import DecayError

# In seconds, as exact decimals.
UNITS = {"ns": "1e-9", "us": "1e-6", "ms": "0.001", "s": "1", "m": "60", "h": "3600", "d": "86400", "w": "604800"}
SHORTEST, LONGEST = 1e-9, 1e12  # seconds of a duration
DURATION = "a duration such as 250ms, 90s, 15m, 1h, 7d or 2w, from 1e-9 s to 1e12 s"
NUMBER_PATTERN = r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_QUANTITY = re.compile(rf"({NUMBER_PATTERN})[ \t]*([A-Za-z]*)")
_YEAR = 365.25 * 86_400
_FOR_PEOPLE = (("w", 604_800), ("d", 86_400), ("h", 3600), ("min", 60), ("s", 1))


def shorten(text: str) -> str:
    """`text` as error messages quote it: 60 characters at most."""
    return text if len(text) <= 60 else text[:57] + "..."


def read_quantity(text: str) -> tuple[float, str] | None:
    """The number in `text` and its unit of time. With a unit the number is in seconds; without one the unit is "".

    None where the text is neither. The product is taken in decimals: ``1.1h`` is 3960 s and not 3960.0000000000005 s.

    >>> read_quantity("1.1h"), read_quantity("0.25"), read_quantity("5 parsecs")
    ((3960.0, 'h'), (0.25, ''), None)
    """
    match = _QUANTITY.fullmatch(text)
    if match is None or (match[2] and match[2] not in UNITS):
        return None
    number = float(match[1])
    if match[2] and math.isfinite(number) and number:
        number = float(Decimal(match[1]) * Decimal(UNITS[match[2]]))
    return number, match[2]


def parse_duration(text: str) -> float:
    """Seconds of ``250ms``, ``90s``, ``15m``, ``1.5h``, ``7d``, ``2w`` or a plain number of seconds."""
    quantity = read_quantity(text.strip())
    if quantity is None or not SHORTEST <= quantity[0] <= LONGEST:
        raise DecayError(f"duration is {shorten(text.strip())!a}; it must be {DURATION}")
    return quantity[0]


def format_duration(seconds: float) -> str:
    """A text that `parse_duration` reads back to exactly `seconds`; in whole days, hours or minutes if it can be.

    >>> [format_duration(x) for x in (604800, 5400, 0.25, 0.1234567)]
    ['7d', '90m', '250ms', '0.1234567s']
    """
    if seconds == 0:
        return "0"
    for unit in ("d", "h", "m", "s"):
        if seconds % int(UNITS[unit]) == 0:
            return f"{format_number(seconds // int(UNITS[unit]))}{unit}"
    thousands = f"{format_number(round(seconds * 1000))}ms"
    return thousands if read_quantity(thousands) == (seconds, "ms") else f"{format_number(seconds)}s"


def format_number(value: float) -> str:
    """The shortest text of exactly `value`, a whole number without its point."""
    return str(int(value)) if abs(value) < 1e15 and value == int(value) else repr(float(value))


def human_duration(seconds: float) -> str:
    """A length of time in two units at most, for people to read.

    >>> [human_duration(x) for x in (90, 3600, 100_000, 0.25, math.inf, 7 * 86_400)]
    ['1 min 30 s', '1 h', '1 d 4 h', '0.25 s', 'never', '1 w']
    """
    if not math.isfinite(seconds):
        return "never"
    if seconds >= 100 * _YEAR:
        return f"{seconds / _YEAR:,.3g} years"
    seconds = float(f"{seconds:.6g}")  # an age found by bisection may be the last digit short of a round one
    if seconds < 59.95:
        return f"{seconds:.3g} s"
    largest = next(at for at, (_, unit) in enumerate(_FOR_PEOPLE) if seconds >= unit)
    smallest = _FOR_PEOPLE[largest : largest + 2][-1][1]
    left = round(seconds / smallest) * smallest  # which may be a whole larger unit
    texts = []
    for name, unit in _FOR_PEOPLE:
        count, left = divmod(left, unit)
        texts += [f"{count:,} {name}"] if count else []
    return " ".join(texts)
