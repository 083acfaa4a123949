"""HAVING: conditions on answers, which are known only up to their intervals.

The estimate decides. Beside it each condition knows where it holds for all, and where for some of the numbers that the
interval leaves open: between the two lie the rows that are undecided.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np
from sqlglot import exp

from sketches.arrays import Flags, Floats
from sketches.records import dataclass
from store.serving.sql.text import Text
from store.serving.sql.values import number


class Interval(NamedTuple):
    """The answers of one aggregate, one entry a row."""

    value: Floats
    lower: Floats
    upper: Floats


class Truth(NamedTuple):
    """Where a condition holds: by the estimate, for all that the interval leaves open, for some of it."""

    estimated: Flags
    surely: Flags
    possibly: Flags

    @property
    def undecided(self) -> Flags:
        return self.possibly & ~self.surely

    def negated(self) -> Truth:
        return Truth(~self.estimated, ~self.possibly, ~self.surely)


@dataclass(frozen=True)
class Compared:
    """An aggregate, by its number, compared with a number."""

    measure: int
    sign: str
    bound: float

    def truth(self, answers: Sequence[Interval]) -> Truth:
        one, bound = answers[self.measure], self.bound
        match self.sign:
            case ">":
                return Truth(one.value > bound, one.lower > bound, one.upper > bound)
            case ">=":
                return Truth(one.value >= bound, one.lower >= bound, one.upper >= bound)
            case "<":
                return Truth(one.value < bound, one.upper < bound, one.lower < bound)
            case "<=":
                return Truth(one.value <= bound, one.upper <= bound, one.lower <= bound)
        point = (one.lower == bound) & (one.upper == bound)
        equal = Truth(one.value == bound, point, (one.lower <= bound) & (bound <= one.upper))
        # A row without an answer is neither equal nor unequal, as null is in SQL.
        known = ~np.isnan(one.value)
        return equal if self.sign == "=" else Truth(*(part & known for part in equal.negated()))


@dataclass(frozen=True)
class Joined:
    """Conditions of which all must hold, or one."""

    every: bool
    parts: tuple[Condition, ...]

    def truth(self, answers: Sequence[Interval]) -> Truth:
        found = [part.truth(answers) for part in self.parts]
        join = np.logical_and.reduce if self.every else np.logical_or.reduce
        return Truth(*(join(flags) for flags in zip(*found, strict=True)))


Condition = Compared | Joined
_SIGNS: Final[dict[type[exp.Expr], str]] = {
    exp.GT: ">",
    exp.GTE: ">=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.EQ: "=",
    exp.NEQ: "!=",
}
_TURNED: Final = {">": "<", ">=": "<=", "<": ">", "<=": ">=", "=": "=", "!=": "!="}
_NEGATED: Final = {">": "<=", ">=": "<", "<": ">=", "<=": ">", "=": "!=", "!=": "="}
_FORM: Final = "HAVING compares aggregates or their names with numbers, joined by AND, OR and NOT"


def condition(text: Text, node: exp.Expr, measure_of: Callable[[exp.Expr], int], *, negated: bool = False) -> Condition:
    """The condition that HAVING states; `measure_of` gives the number of the aggregate that a part of it names."""

    def read(part: exp.Expr, turned: bool = negated) -> Condition:
        return condition(text, part, measure_of, negated=turned)

    match node:
        case exp.Paren():
            return read(node.this)
        case exp.Not():
            return read(node.this, not negated)
        case exp.And() | exp.Or():
            every = isinstance(node, exp.And) is not negated
            return Joined(every, (read(node.left), read(node.right)))
        case exp.Between():
            measure = measure_of(node.this)
            ends = (number(text, node.args["low"]), number(text, node.args["high"]))
            low, high = (
                Compared(measure, _NEGATED[sign] if negated else sign, end)
                for sign, end in zip((">=", "<="), ends, strict=True)
            )
            return Joined(not negated, (low, high))
    sign = _SIGNS.get(type(node))
    if sign is None:
        raise text.refusal(node, _FORM)
    assert isinstance(node, exp.Binary)
    turned = isinstance(node.left, exp.Literal | exp.Neg)
    measured, bound = (node.right, node.left) if turned else (node.left, node.right)
    sign = _TURNED[sign] if turned else sign
    return Compared(measure_of(measured), _NEGATED[sign] if negated else sign, number(text, bound))
