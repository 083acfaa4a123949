"""Ranges of codes: which values a question measures, and which it is restricted to."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from sketches.encoding.value_codes import CODES, greatest_code, least_code
from sketches.errors import UnanswerableError
from sketches.events import Kind
from sketches.hashing import hash_one
from sketches.predicate import Predicate
from sketches.question import Question


class Codes(NamedTuple):
    """The codes from a least to a greatest one, both included; none where the least is the greater."""

    least: int
    most: int

    @property
    def empty(self) -> bool:
        return self.least > self.most

    @property
    def single(self) -> bool:
        """Whether it is the range of one value."""
        return self.least == self.most

    def within(self, other: Codes) -> Codes:
        """The codes that lie in both."""
        return Codes(max(self.least, other.least), min(self.most, other.most))

    def without(self, part: Codes) -> tuple[Codes, Codes]:
        """The codes below and above a part that is taken out."""
        inner = self.within(part)
        if inner.empty:
            return self, NOTHING
        return Codes(self.least, inner.least - 1), Codes(inner.most + 1, self.most)


EVERYTHING: Final = Codes(0, CODES - 1)
NOTHING: Final = Codes(CODES, -1)


def from_number(number: float, kind: Kind) -> Codes:
    """The codes of the values at or above a number."""
    return Codes(least_code(number, kind), CODES - 1)


def restriction(where: Predicate, kind: Kind) -> Codes:
    """The codes of the values that a predicate lets pass; a family refuses what is not about the value."""
    if where.key is not None:
        code = int(hash_one(where.key))
        return Codes(code, code)
    limits = where.range_of("value")
    if not limits:
        return EVERYTHING
    least, most = least_code(limits.low, kind), greatest_code(limits.high, kind)
    if limits.open_low and _is_value(limits.low, kind):
        least += 1
    if limits.open_high and _is_value(limits.high, kind):
        most -= 1
    return Codes(least, most).within(EVERYTHING)


def _is_value(number: float, kind: Kind) -> bool:
    """Whether a value can be this number; else the codes next to it are those of its neighbours already."""
    return math.isfinite(number) and (kind is Kind.FLOAT or number == math.floor(number))


def measured(question: Question, kind: Kind) -> Codes:
    """The codes of the values that an aggregate itself asks for, where τ is a number."""
    if question.aggregate in ("rank", "frequency"):
        return _asked_value(question, kind)
    least = 0 if question.low is None else least_code(question.low, kind)
    most = CODES - 1 if question.high is None else greatest_code(question.high, kind)
    if question.tau is not None:
        assert not isinstance(question.tau, str)
        least = max(least, least_code(question.tau, kind))
    return Codes(least, most).within(EVERYTHING)


def _asked_value(question: Question, kind: Kind) -> Codes:
    value = question.value
    if kind is Kind.KEY:
        code = int(hash_one(str(value)))
        return Codes(code, code)
    if isinstance(value, str) or value is None:
        raise UnanswerableError(f"value is {value!r}, but this stream's values are numbers")
    number = float(value) if kind is Kind.FLOAT else value
    least = least_code(number, kind) if question.aggregate == "frequency" else 0
    return Codes(least, greatest_code(number, kind)).within(EVERYTHING)
