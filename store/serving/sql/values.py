"""What stands in a statement for a number, a text, a length of time, a moment, or a decay."""

from __future__ import annotations

import math
import re
from datetime import datetime
from typing import Final

from sqlglot import exp

from sketches.decay import Decay, parse_decay
from sketches.durations import format_duration, format_number, parse_duration
from sketches.errors import DecayError
from sketches.event_rules import WHOLE_NUMBER
from sketches.units import TimeUnit
from sketches.vocabulary import EXAMPLES
from store.serving.sql.text import Text
from store.serving.timeline import read_moment

_UNITS: Final = {
    "NANOSECOND": "ns",
    "MICROSECOND": "us",
    "MILLISECOND": "ms",
    "SECOND": "s",
    "MINUTE": "m",
    "HOUR": "h",
    "DAY": "d",
    "WEEK": "w",
}
_LENGTH: Final = "a length of time like INTERVAL 30 MINUTES"
_MOMENT: Final = "a time: now(), '2026-01-31T12:00', or a whole number in the stream's unit"
_DECAY: Final = "a decay like exp(half_life => INTERVAL 30 MINUTES), window(INTERVAL 1 DAY), or 'exp:half_life=30m'"


class Clock:
    """What now() means in a statement, and whether the statement asks for it."""

    def __init__(self, now: datetime) -> None:
        self._now = now
        self.asked = False

    def read(self) -> datetime:
        self.asked = True
        return self._now


def number(text: Text, node: exp.Expr) -> float:
    """A number as it is written: a whole one keeps all its digits."""
    sign, inner = (-1, node.this) if isinstance(node, exp.Neg) else (1, node)
    if not isinstance(inner, exp.Literal) or inner.is_string:
        raise text.refusal(node, "expected a number")
    found = int(inner.this) if re.fullmatch(WHOLE_NUMBER, inner.this) else float(inner.this)
    if not math.isfinite(found):
        raise text.refusal(node, "this is too large a number")
    return sign * found


def string(text: Text, node: exp.Expr, what: str) -> str:
    if not isinstance(node, exp.Literal) or not node.is_string:
        raise text.refusal(node, f"expected {what} in single quotes")
    return str(node.this)


def seconds(text: Text, node: exp.Expr) -> float:
    """The seconds of an interval; months and years have no fixed length."""
    if not isinstance(node, exp.Interval) or not isinstance(node.this, exp.Literal) or node.args.get("unit") is None:
        raise text.refusal(node, f"expected {_LENGTH}")
    unit = str(node.args["unit"].this).upper()
    short = _UNITS.get(unit.removesuffix("S"))
    if short is None:
        raise text.refusal(node, f"{unit} is not one of {', '.join(_UNITS)}: a length of time must be the same always")
    with text.refusing(node):
        return parse_duration(f"{node.this.this}{short}")


def moment(text: Text, node: exp.Expr, unit: TimeUnit, clock: Clock) -> int:
    """A time in units of the stream."""
    inner = node
    if isinstance(node, exp.Cast) and node.to.this in (exp.DType.TIMESTAMP, exp.DType.TIMESTAMPTZ, exp.DType.DATE):
        inner = node.this  # TIMESTAMP '2026-01-31'
    if isinstance(inner, exp.Anonymous) and str(inner.this).lower() == "now" and not inner.expressions:
        return read_moment("now", unit, clock.read())
    if isinstance(inner, exp.Neg) or (isinstance(inner, exp.Literal) and not inner.is_string):
        found = number(text, inner)
        if not isinstance(found, int):
            raise text.refusal(node, f"expected {_MOMENT}")
        written = str(found)
    elif isinstance(inner, exp.Literal):
        written = str(inner.this)
    else:
        raise text.refusal(node, f"expected {_MOMENT}")
    with text.refusing(node):
        return read_moment(written, unit)


def decay(text: Text, node: exp.Expr) -> Decay:
    """The decay that a call, a name or a text stands for."""
    match node:
        case exp.Literal(is_string=True):
            spec = str(node.this)
        case exp.Column(args={"this": exp.Identifier(this=str(name))}) if len(node.parts) == 1:
            spec = name.lower().replace("_", "-")
        case exp.Anonymous(this=str(name)):
            return _called(text, name.lower().replace("_", "-"), node)
        case _:
            raise text.refusal(node, f"expected {_DECAY}")
    with text.refusing(node):
        return parse_decay(spec)


def _called(text: Text, name: str, node: exp.Anonymous) -> Decay:
    """The decay of a call; what is wrong with a setting is said at its word."""
    spec = _spec(text, name, node)
    try:
        return parse_decay(spec)
    except DecayError as error:
        settings = {one.this.name for one in node.expressions if isinstance(one, exp.Kwarg)}
        at = text.index(place := text.place(node))
        for named in re.findall(r"\w+", str(error)):
            if named in settings:
                place = next(word.start for word in text.words[at:] if word.text == named)
                break
        raise text.refusal(place, str(error), DecayError) from None


def _spec(text: Text, name: str, node: exp.Anonymous) -> str:
    given = [
        f"{one.this.name}={_setting(text, one.expression)}" if isinstance(one, exp.Kwarg) else _setting(text, one)
        for one in node.expressions
    ]
    if name in ("table", "expr"):
        raise text.refusal(node, f"write it as text: '{EXAMPLES[name]}'")
    return f"{name}:{','.join(given)}" if given else name


def _setting(text: Text, node: exp.Expr) -> str:
    if isinstance(node, exp.Interval):
        return format_duration(seconds(text, node))
    if isinstance(node, exp.Literal) and node.is_string:
        raise text.refusal(node, f"expected a number or {_LENGTH}; a decay as text stands alone, like 'window:1h'")
    return format_number(number(text, node))
