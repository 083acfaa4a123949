"""Interval arithmetic on formulas: what a formula and its slope can be between two ages, for many pairs at once.

Every operand is enclosed between two ages x < y by its values, by its slopes (f(y) − f(x))/(y − x), where it is
positive by the slopes of its logarithm, and where it is smooth by its bends (its second derivative). The rules hold for
slopes between any two ages of a piece. So jumps and corners need no care of their own: a jump has an infinite slope in
its direction. Bounds are rounded outwards; constant parts of a formula are the floats that it computes with.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import field
from typing import Any, Final

import numpy as np

from sketches.arrays import Flags, Floats
from sketches.records import dataclass

_ULPS: Final = 2.0**-50  # relative: more than numpy's functions are ever off
_MOST: Final = np.finfo(np.float64).max
_LEAST: Final = 5e-324


@dataclass(frozen=True, slots=True)
class Interval:
    """The numbers from `low` to `high`, one pair a piece; NaN as either bound stands for no knowledge."""

    low: Any  # Floats, or a float that is the same for all pieces
    high: Any

    @classmethod
    def rounded(cls, low: Any, high: Any) -> Interval:
        """Bounds moved outwards by more than rounding can have moved them; 0 stays 0."""
        low, high = np.minimum(low, _MOST), np.maximum(high, -_MOST)  # a float that overflowed is no bound
        return cls(
            np.where(np.isnan(low), -np.inf, low - np.abs(low) * _ULPS),
            np.where(np.isnan(high), np.inf, high + np.abs(high) * _ULPS),
        )

    def __neg__(self) -> Interval:
        return Interval(-self.high, -self.low)

    def __add__(self, other: Interval) -> Interval:
        return Interval.rounded(self.low + other.low, self.high + other.high)

    def __sub__(self, other: Interval) -> Interval:
        return self + -other

    def __mul__(self, other: Interval) -> Interval:
        corners = [_product(a, b) for a in (self.low, self.high) for b in (other.low, other.high)]
        return Interval.rounded(*_hull(corners))

    def inverse(self) -> Interval:
        """1/x; no knowledge where x may be 0."""
        safe = (self.low > 0) | (self.high < 0)
        return _where(safe, Interval.rounded(1.0 / self.high, 1.0 / self.low), _UNKNOWN)

    def both(self, other: Interval) -> Interval:
        """What two enclosures of the same number leave."""
        return Interval(np.maximum(self.low, other.low), np.minimum(self.high, other.high))

    def either(self, other: Interval) -> Interval:
        return Interval(np.minimum(self.low, other.low), np.maximum(self.high, other.high))


_UNKNOWN: Final = Interval(np.float64(-np.inf), np.float64(np.inf))
_ZERO: Final = Interval(np.float64(0.0), np.float64(0.0))


@dataclass(frozen=True, slots=True)
class Enclosed:
    """A part of a formula between two ages: its values, its slopes, and those of its logarithm where it is positive.

    Where the bends are known it is smooth, and at a single age its slope is its derivative.
    """

    value: Interval
    slope: Interval
    growth: Interval = field(default=_UNKNOWN)
    bend: Interval = field(default=_UNKNOWN)
    sound: Any = True  # Flags: whether the formula surely has a value at every age of the piece
    constant: float | None = None
    part: tuple[float | str, ...] = ()  # its program: equal parts have equal values

    @classmethod
    def number(cls, value: float, part: tuple[float | str, ...]) -> Enclosed:
        number = np.float64(value)  # which divides by 0 without raising
        growth = _ZERO if value > 0 else _UNKNOWN
        return cls(Interval(number, number), _ZERO, growth, _ZERO, np.isfinite(number), value, part)

    def settled(self, part: tuple[float | str, ...], sound: Any = True) -> Enclosed:
        """Each kind of slope says something about the other where the value is positive."""
        positive = self.value.low > 0
        growth = self.growth.both(_where(positive, self.slope * self.value.inverse(), _UNKNOWN))
        nowhere_negative = Interval(np.maximum(self.value.low, 0.0), self.value.high)
        known = np.isfinite(growth.low) | np.isfinite(growth.high)
        slope = self.slope.both(_where(known & (self.value.low >= 0), growth * nowhere_negative, _UNKNOWN))
        return Enclosed(self.value, slope, growth, self.bend, self.sound & sound, None, part)


def enclose(program: tuple[float | str, ...], operations: dict[str, Any], low: Floats, high: Floats) -> Enclosed:
    """The whole formula over the pieces `low` to `high`."""
    stack: list[Enclosed] = []
    with np.errstate(all="ignore"):
        for step in program:
            if isinstance(step, float):
                stack.append(Enclosed.number(step, (step,)))
            elif step == "age":
                ages = Interval(low, high)
                stack.append(Enclosed(ages, Interval(1.0, 1.0), bend=_ZERO).settled(("age",)))
            else:
                arity, operation = operations[step]
                operands = stack[-arity:]
                stack[-arity:] = [_apply(step, operation, operands)]
    return stack.pop()


def _apply(step: str, operation: Callable[..., Any], operands: list[Enclosed]) -> Enclosed:
    part = (*(each for one in operands for each in one.part), step)
    sound: Any = np.logical_and.reduce(np.broadcast_arrays(*(one.sound for one in operands)))
    constants = [one.constant for one in operands if one.constant is not None]
    if len(constants) == len(operands):
        return Enclosed.number(float(operation(*(np.float64(each) for each in constants))), part)
    if step in ("-", "/") and operands[0].part == operands[1].part:
        other = operands[1].value
        fits = np.isfinite(other.low) & np.isfinite(other.high) & ((step == "-") | (other.low > 0) | (other.high < 0))
        if np.all(fits & sound):
            return Enclosed.number(0.0 if step == "-" else 1.0, part)
    return _RULES[step](*operands).settled(part, sound)


def _add(a: Enclosed, b: Enclosed) -> Enclosed:
    up, down = _reaches(a.value, np.inf), _reaches(a.value, -np.inf)
    opposite = up & _reaches(b.value, -np.inf) | down & _reaches(b.value, np.inf)
    return Enclosed(a.value + b.value, a.slope + b.slope, bend=a.bend + b.bend, sound=~opposite)


def _subtract(a: Enclosed, b: Enclosed) -> Enclosed:
    return _add(a, _negate(b))


def _negate(a: Enclosed) -> Enclosed:
    return Enclosed(-a.value, -a.slope, bend=-a.bend)


def _multiply(a: Enclosed, b: Enclosed) -> Enclosed:
    slope = a.slope * b.value + a.value * b.slope
    undefined = _infinite(a.value) & _may_be_zero(b.value) | _infinite(b.value) & _may_be_zero(a.value)
    bend = a.bend * b.value + Interval(2.0, 2.0) * a.slope * b.slope + a.value * b.bend
    return Enclosed(a.value * b.value, slope, a.growth + b.growth, bend, ~undefined)


def _divide(a: Enclosed, b: Enclosed) -> Enclosed:
    undefined = _may_be_zero(b.value) | _infinite(a.value) & _infinite(b.value)
    inverse = b.value.inverse()
    quotient = a.value * inverse
    slope = (a.slope - quotient * b.slope) * inverse
    bend = (a.bend - Interval(2.0, 2.0) * slope * b.slope - quotient * b.bend) * inverse
    return Enclosed(quotient, slope, a.growth - b.growth, bend, ~undefined)


def _power(a: Enclosed, b: Enclosed) -> Enclosed:
    if b.constant is not None:
        return _fixed_power(a, b.constant)
    usable = (a.value.low > 0) | ((a.value.low == 0) & (b.value.low > 0))
    corners = [np.power(base, exponent) for base in _bounds(a.value) for exponent in _bounds(b.value)]
    value = _positive(_where(usable, Interval.rounded(*_hull(corners)), _UNKNOWN))
    logarithm = _logarithm(a.value, np.log)
    growth = a.growth * b.value + logarithm * b.slope
    bend = _UNKNOWN if a.constant is None else value * (_whole(growth, 2.0) + logarithm * b.bend)
    return Enclosed(value, _UNKNOWN, growth, bend, usable)


def _fixed_power(a: Enclosed, n: float) -> Enclosed:
    whole = float(n).is_integer()
    power = _whole if whole else _real
    first = Interval(n, n) * power(a.value, n - 1.0)
    second = Interval.rounded(n * (n - 1.0), n * (n - 1.0)) * power(a.value, n - 2.0)
    bend = first * a.bend + second * _whole(a.slope, 2.0)
    sound = (~_may_be_zero(a.value) if n < 0 else True) if whole else (a.value.low > 0) | (a.value.low == 0) & (n > 0)
    return Enclosed(power(a.value, n), first * a.slope, Interval(n, n) * a.growth, bend, sound)


def _real(base: Interval, n: float) -> Interval:
    """base^n of any number n, unknown where the base may be negative."""
    return _where(base.low >= 0, Interval.rounded(*_hull([np.power(each, n) for each in _bounds(base)])), _UNKNOWN)


def _whole(base: Interval, n: float) -> Interval:
    """base^n of a whole number n: down to 0 where n is even and the base may be 0, unknown there if n is negative."""
    ends = _hull([np.power(base.low, n), np.power(base.high, n)])
    crosses = (base.low <= 0) & (base.high >= 0)
    if n < 0:
        return _where(crosses, _UNKNOWN, Interval.rounded(*ends))
    low = np.where(crosses & (n % 2 == 0) & (n > 0), 0.0, ends[0])
    return Interval.rounded(low, ends[1])


def _exp(a: Enclosed) -> Enclosed:
    value = _positive(Interval.rounded(np.exp(a.value.low), np.exp(a.value.high)))
    return Enclosed(value, _UNKNOWN, a.slope, value * (a.bend + _whole(a.slope, 2.0)))


def _log(function: Callable[[Any], Any], unit: float) -> Callable[[Enclosed], Enclosed]:
    def rule(a: Enclosed) -> Enclosed:
        usable, scale = a.value.low > 0, Interval.rounded(unit, unit)
        slope = _where(usable, a.growth * scale, _UNKNOWN)
        bend = _where(usable, scale * (a.bend * a.value.inverse() - _whole(a.growth, 2.0)), _UNKNOWN)
        return Enclosed(_logarithm(a.value, function), slope, bend=bend, sound=usable)

    return rule


def _sqrt(a: Enclosed) -> Enclosed:
    usable = a.value.low >= 0
    roots = Interval.rounded(np.sqrt(a.value.low), np.sqrt(a.value.high))
    steep = Interval.rounded(0.5 / roots.high, 0.5 / np.maximum(roots.low, 0.0))
    half = Interval(0.5, 0.5)
    value, slope = _where(usable, roots, _UNKNOWN), _where(usable, steep * a.slope, _UNKNOWN)
    bend = _where(a.value.low > 0, (half * a.bend - _whole(slope, 2.0)) * roots.inverse(), _UNKNOWN)
    return Enclosed(value, slope, half * a.growth, bend, usable)


def _abs(a: Enclosed) -> Enclosed:
    rising, falling = a.value.low >= 0, a.value.high <= 0
    values = a.value.either(-a.value)
    value = Interval(np.where(rising, a.value.low, np.where(falling, -a.value.high, 0.0)), values.high)
    slope = _where(rising, a.slope, _where(falling, -a.slope, a.slope.either(-a.slope)))
    bend = _where(rising, a.bend, _where(falling, -a.bend, _UNKNOWN))
    return Enclosed(value, slope, _where(rising, a.growth, _UNKNOWN), bend)


def _extreme(choose: Callable[[Any, Any], Any], sign: float) -> Callable[[Enclosed, Enclosed], Enclosed]:
    def rule(a: Enclosed, b: Enclosed) -> Enclosed:
        value = Interval(choose(a.value.low, b.value.low), choose(a.value.high, b.value.high))
        first = (a.value.low >= b.value.high) if sign > 0 else (a.value.high <= b.value.low)
        second = (b.value.low >= a.value.high) if sign > 0 else (b.value.high <= a.value.low)
        slope = _where(first, a.slope, _where(second, b.slope, a.slope.either(b.slope)))
        growth = _where(first, a.growth, _where(second, b.growth, a.growth.either(b.growth)))
        known = (a.value.low > 0) & (b.value.low > 0) | first & (a.value.low >= 0) | second & (b.value.low >= 0)
        bend = _where(first, a.bend, _where(second, b.bend, _UNKNOWN))
        return Enclosed(value, slope, _where(known, growth, _UNKNOWN), bend)

    return rule


def _compare(sign: float, *, strict: bool) -> Callable[[Enclosed, Enclosed], Enclosed]:
    """1 where sign·(a − b) is above 0 (or at least 0), else 0: it jumps up only where that difference rises."""

    def rule(a: Enclosed, b: Enclosed) -> Enclosed:
        low, high = (a.value.low, a.value.high), (b.value.low, b.value.high)
        more, less = (low, high) if sign > 0 else (high, low)
        surely, never = more[0] > less[1], more[1] < less[0]
        if not strict:
            surely = more[0] >= less[1]
        else:
            never = more[1] <= less[0]
        change = a.slope - b.slope if sign > 0 else b.slope - a.slope
        jump = Interval(np.where(change.low >= 0, 0.0, -np.inf), np.where(change.high <= 0, 0.0, np.inf))
        value = Interval(np.where(surely, 1.0, 0.0), np.where(never, 0.0, 1.0))
        return Enclosed(value, _where(surely | never, _ZERO, jump), bend=_where(surely | never, _ZERO, _UNKNOWN))

    return rule


def _logarithm(value: Interval, function: Callable[[Any], Any]) -> Interval:
    return _where(value.low > 0, Interval.rounded(function(value.low), function(value.high)), _UNKNOWN)


def _positive(value: Interval) -> Interval:
    """What is above 0 stays above 0 where its floats end."""
    return Interval(np.where(value.low > -np.inf, np.maximum(value.low, 0.0), -np.inf), np.maximum(value.high, _LEAST))


def _infinite(value: Interval) -> Any:
    return _reaches(value, np.inf) | _reaches(value, -np.inf)


def _reaches(value: Interval, end: float) -> Any:
    return (value.high == np.inf) if end > 0 else (value.low == -np.inf)


def _may_be_zero(value: Interval) -> Any:
    return (value.low <= 0) & (value.high >= 0)


def _bounds(value: Interval) -> tuple[Any, Any]:
    return value.low, value.high


def _product(a: Any, b: Any) -> Any:
    """An infinite bound is never reached, so that 0 times it is 0."""
    return np.where((a == 0) | (b == 0), 0.0, a * b)


def _hull(corners: list[Any]) -> tuple[Any, Any]:
    low, high = corners[0], corners[0]
    for each in corners[1:]:
        low, high = np.minimum(low, each), np.maximum(high, each)
    return low, high


def _where(fits: Flags | Any, yes: Interval, no: Interval) -> Interval:
    return Interval(np.where(fits, yes.low, no.low), np.where(fits, yes.high, no.high))


_RULES: Final[dict[str, Callable[..., Enclosed]]] = {
    "+": _add,
    "-": _subtract,
    "*": _multiply,
    "/": _divide,
    "^": _power,
    "pow": _power,
    "<": _compare(-1.0, strict=True),
    "<=": _compare(-1.0, strict=False),
    ">": _compare(1.0, strict=True),
    ">=": _compare(1.0, strict=False),
    "negate": _negate,
    "exp": _exp,
    "ln": _log(np.log, 1.0),
    "log": _log(np.log, 1.0),
    "log2": _log(np.log2, 1.0 / math.log(2)),
    "log10": _log(np.log10, 1.0 / math.log(10)),
    "sqrt": _sqrt,
    "abs": _abs,
    "min": _extreme(np.minimum, -1.0),
    "max": _extreme(np.maximum, 1.0),
}
