"""The numbers in a decay's text: how each is read, written and refused."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from sketches.decay.checks import LARGEST_WEIGHT
from sketches.durations import DURATION as DURATION_TEXT
from sketches.durations import LONGEST, SHORTEST, format_duration, format_number, read_quantity, shorten
from sketches.errors import DecayError
from sketches.records import dataclass

if TYPE_CHECKING:
    from sketches.decay.base import Decay


@dataclass(frozen=True)
class Parameter:
    """How one parameter is read, written and refused."""

    valid: str
    accepts: Callable[[float], bool]
    duration: bool = False

    def read(self, owner: str, text: str) -> float:
        quantity = read_quantity(text.strip())
        if quantity is None or (quantity[1] and not self.duration):
            raise DecayError(f"{owner} is {shorten(text.strip())!a}; it must be {self.valid}")
        return self.check(owner, quantity[0])

    def check(self, owner: str, value: float) -> float:
        if not self.accepts(value):
            raise DecayError(f"{owner} is {format_number(value)}; it must be {self.valid}")
        return value

    def write(self, value: float) -> str:
        return format_duration(value) if self.duration else format_number(value)


DURATION = Parameter(DURATION_TEXT, lambda x: SHORTEST <= x <= LONGEST, duration=True)
RATE = Parameter("a number per second from 1e-12 to 1e8", lambda x: 1e-12 <= x <= 1e8)
ALPHA = Parameter("a number above 0, at most 1000", lambda x: 0 < x <= 1000)
BETA = Parameter("a number above 1, at most 100", lambda x: 1 < x <= 100)
FLOOR = Parameter("a number above 0 and below 1", lambda x: 0 < x < 1)
EVENTS = Parameter("a whole number of events from 1 to 1e15", lambda x: 1 <= x <= 1e15 and x == int(x))
DEGREE = Parameter("a whole number from 0 to 20", lambda x: x in range(21))
AGE = Parameter("0 or a duration such as 90s, 15m or 1h", lambda x: 0 <= x <= LONGEST, duration=True)
WEIGHT = Parameter(f"a number from 0 to {LARGEST_WEIGHT:g}", math.isfinite)  # one outside is refused with its age
SHARE = Parameter("a number from 0 to 1", lambda x: 0 <= x <= 1)


def assignment(decay: type[Decay], part: str) -> tuple[str, str]:
    key, equals, value = (piece.strip() for piece in part.partition("="))
    if not (key and equals and value):
        raise DecayError(f"{decay.name}: {shorten(part.strip())!a} cannot be read; write it like {decay.example}")
    return key, value


def assignments(decay: type[Decay], text: str, valid: Iterable[str]) -> dict[str, str]:
    if "=" not in decay.example:
        if bool(text) != bool(decay.parameters) or "=" in text or "," in text:
            durations = all(each.duration for each in decay.parameters.values())
            takes = f"one {'duration' if durations else 'number'}" if decay.parameters else "no parameters"
            raise DecayError(f"{decay.name} takes {takes}, not {shorten(text)!a}; write it like {decay.example}")
        return dict.fromkeys(decay.parameters, text)
    given: dict[str, str] = {}
    for key, value in (assignment(decay, part) for part in text.split(",") if text):
        if key not in valid:
            raise DecayError(f"{decay.name} has no parameter {shorten(key)!a}; it takes {', '.join(valid)}")
        if key in given:
            raise DecayError(f"{decay.name}: {key} is given twice; it takes each of {', '.join(valid)} once")
        given[key] = value
    return given
