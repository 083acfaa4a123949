"""A small safe language for decay functions, and the check that a formula in it is a decay function.

Arithmetic in `age`, read by a hand-written parser, never by Python's own:

    comparison  = sum [("<" | "<=" | ">" | ">=") sum]           1 where it holds, else 0; does not chain
    sum         = product {("+" | "-") product}
    product     = unary {("*" | "/") unary}
    unary       = "-" unary | power
    power       = operand [("^" | "**") unary]                  right associative: 2^3^2 is 2^9, -age^2 is -(age^2)
    operand     = number | "age" | "pi" | "e" | function "(" comparison {"," comparison} ")" | "(" comparison ")"

A number may carry a unit of time (`10m` is 600). Text, nesting and size are bounded, so reading and evaluating take
bounded time whatever is typed. A formula is checked and classed on a dense grid of ages (`GRID`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketches.durations import NUMBER_PATTERN, UNITS, read_quantity, shorten
from sketches.errors import DecayError

MAX_LENGTH = 500
MAX_DEPTH = 32
MAX_NODES = 200

_TOKEN = re.compile(
    rf"(?P<number>{NUMBER_PATTERN}(?P<unit>\w*))|(?P<name>[A-Za-z_]\w*)|(?P<sign>\*\*|<=|>=|[-+*/^<>(),])", re.ASCII
)
_BLANK = re.compile(r"[ \t\r\n]*")

_CONSTANTS = {"pi": math.pi, "e": math.e}
_OPERATIONS: dict[str, tuple[int, Callable[..., Any]]] = {
    "+": (2, np.add),
    "-": (2, np.subtract),
    "*": (2, np.multiply),
    "/": (2, np.divide),
    "^": (2, np.power),
    "<": (2, lambda a, b: np.less(a, b) * 1.0),
    "<=": (2, lambda a, b: np.less_equal(a, b) * 1.0),
    ">": (2, lambda a, b: np.greater(a, b) * 1.0),
    ">=": (2, lambda a, b: np.greater_equal(a, b) * 1.0),
    "negate": (1, np.negative),
    "exp": (1, np.exp),
    "ln": (1, np.log),
    "log": (1, np.log),
    "log2": (1, np.log2),
    "log10": (1, np.log10),
    "sqrt": (1, np.sqrt),
    "abs": (1, np.abs),
    "min": (2, np.minimum),
    "max": (2, np.maximum),
    "pow": (2, np.power),
}
GRID = np.unique(np.concatenate([np.arange(4097.0), np.geomspace(1e-6, 1e10, 6401)]))
_SCALES = np.concatenate([[0.0], np.geomspace(1e-6, 1e10, 6401)])  # even in ln(age), so that bends show at every scale
LARGEST_WEIGHT = 1e30  # of f(0): variances of ratios take fourth powers of f, which must stay in the range of floats
LEAST_START = 1e-30  # of f(0), likewise
_ROUNDING = 1e-12  # relative; rounding may lift a value by this much without its function rising
_CANCELLATION = 1e-15  # of f(0), or of 1 if that is more; what is left of 1 - 1 may have either sign
_UNDERFLOW = 1e-300  # likewise; a value that turns 0 below this may only have run out of digits
FUNCTIONS = ("exp", "ln", "log", "log2", "log10", "sqrt", "abs", "min", "max", "pow")
_MANY = ("min", "max")  # these take two arguments or more
_COMPARISONS = ("<", "<=", ">", ">=")
_BINDING = {"<": 1, "<=": 1, ">": 1, ">=": 1, "+": 2, "-": 2, "*": 3, "/": 3, "^": 5}
_UNARY = 4  # tighter than "*", looser than "^"
_END = "the end"


@dataclass(frozen=True)
class Formula:
    """A formula in `age`, as a postfix program over an allow-list of operations.

    >>> Formula.parse("max(0, 1 - age / 10m)")([0.0, 150.0, 900.0])
    array([1.  , 0.75, 0.  ])
    >>> Formula.parse("age.__class__")
    Traceback (most recent call last):
    sketches.errors.DecayError: formula 'age.__class__': the character '.' at position 4 is not allowed
    """

    text: str  # without blanks, powers written ^
    program: tuple[float | str, ...]

    @classmethod
    def parse(cls, text: str) -> Formula:
        """Read `text`, or raise a DecayError that names the position and what was expected there."""
        if len(text) > MAX_LENGTH:
            raise DecayError(f"the formula has {len(text)} characters; at most {MAX_LENGTH} are allowed")
        parser = _Parser(text)
        return cls("".join(token.text for token in parser.tokens[:-1]), tuple(parser.parse()))

    def __call__(self, ages: Any) -> NDArray[np.float64]:
        """The formula at every age (seconds, any shape): NaN or infinity where it has no value, never a warning."""
        ages = np.asarray(ages, dtype=np.float64)
        stack: list[Any] = []
        with np.errstate(all="ignore"):
            for step in self.program:
                if isinstance(step, float):
                    stack.append(np.float64(step))  # which overflows to infinity where a Python float raises
                elif step == "age":
                    stack.append(ages)
                else:
                    arity, operation = _OPERATIONS[step]
                    stack[-arity:] = [operation(*stack[-arity:])]
        result = stack.pop()
        # A bare `age` must not alias the caller's array, and a constant must take its shape.
        return np.array(np.broadcast_to(result, ages.shape)) if np.ndim(result) == 0 or result is ages else result


@dataclass(frozen=True)
class _Token:
    kind: str  # number, name, sign or end
    text: str
    position: int  # from 1


class _Parser:
    """Precedence climbing that writes the postfix program as it goes."""

    def __init__(self, text: str) -> None:
        self.source = text
        self.tokens = self._tokenise()
        self.at = 0
        self.program: list[float | str] = []

    def parse(self) -> list[float | str]:
        self._expression(1, 0)
        if self._next.kind != "end":
            raise self._expected("an operator or the end")
        return self.program

    def _tokenise(self) -> list[_Token]:
        tokens = []
        at = _blank_end(self.source, 0)
        while at < len(self.source):
            match = _TOKEN.match(self.source, at)
            if match is None:
                raise self._error(f"the character {self.source[at]!a} at position {at + 1} is not allowed")
            kind = "sign" if match["sign"] else "name" if match["name"] else "number"
            if kind == "number" and match["unit"] and match["unit"] not in UNITS:
                problem = f"the unit {match['unit']!r} in {match[0]!r} at position {at + 1} is not one of"
                raise self._error(f"{problem} {', '.join(UNITS)}")
            tokens.append(_Token(kind, "^" if match[0] == "**" else match[0], at + 1))
            at = _blank_end(self.source, match.end())
        return [*tokens, _Token("end", _END, len(self.source) + 1)]

    @property
    def _next(self) -> _Token:
        return self.tokens[self.at]

    def _take(self, sign: str) -> bool:
        found = self._next.kind == "sign" and self._next.text == sign
        self.at += found
        return found

    def _need(self, sign: str, why: str) -> None:
        if not self._take(sign):
            raise self._expected(f"{sign!r} {why}")

    def _emit(self, step: float | str) -> None:
        if len(self.program) == MAX_NODES:
            raise self._error(f"it has more than the {MAX_NODES} numbers, names and operators allowed")
        self.program.append(step)

    def _expression(self, binding: int, depth: int) -> None:
        """Read operands joined by operators that bind at least as tightly as `binding`."""
        if depth > MAX_DEPTH:
            where = f"at position {self._next.position}"
            raise self._error(f"{where} it is nested deeper than the {MAX_DEPTH} levels allowed")
        self._operand(depth)
        while self._next.kind == "sign" and _BINDING.get(self._next.text, 0) >= binding:
            sign = self._next.text
            self.at += 1
            if sign == "^":
                self._expression(_UNARY, depth + 1)
            else:
                self._expression(_BINDING[sign] + 1, depth)
            self._emit(sign)
            if sign in _COMPARISONS and self._next.text in _COMPARISONS:
                raise self._expected("no second comparison (multiply two of them instead)")

    def _operand(self, depth: int) -> None:
        token = self._next
        if token.kind == "end" or (token.kind == "sign" and token.text not in ("-", "(")):
            raise self._expected("a number, age, a function or '('")
        self.at += 1
        if token.kind == "number":
            self._emit(self._number(token))
        elif token.kind == "name":
            self._name(token, depth)
        elif token.text == "-":
            self._expression(_UNARY, depth + 1)
            self._emit("negate")
        else:
            self._expression(1, depth + 1)
            self._need(")", f"for the '(' at position {token.position}")

    def _number(self, token: _Token) -> float:
        quantity = read_quantity(token.text)
        if quantity is None or not math.isfinite(quantity[0]):
            raise self._error(f"the number {token.text!r} at position {token.position} is too large")
        return quantity[0]

    def _name(self, token: _Token, depth: int) -> None:
        name = token.text
        if name == "age":
            self._emit("age")
        elif name in _CONSTANTS:
            self._emit(_CONSTANTS[name])
        elif name in FUNCTIONS:
            self._call(name, depth)
        else:
            allowed = ", ".join(("age", *_CONSTANTS, *FUNCTIONS))
            raise self._error(f"the name {name!r} at position {token.position} is unknown; the names are {allowed}")

    def _call(self, name: str, depth: int) -> None:
        self._need("(", f"after {name}")
        arity = _OPERATIONS[name][0]
        self._expression(1, depth + 1)
        for _ in range(arity - 1):
            self._need(",", f"because {name} takes {arity}{' or more' if name in _MANY else ''} arguments")
            self._expression(1, depth + 1)
        self._emit(name)
        while name in _MANY and self._take(","):
            self._expression(1, depth + 1)
            self._emit(name)
        self._need(")", f"after {arity} argument{'s' if arity > 1 else ''} of {name}")

    def _expected(self, what: str) -> DecayError:
        found = self._next.text if self._next.kind == "end" else repr(self._next.text)
        return self._error(f"expected {what} at position {self._next.position}, found {found}")

    def _error(self, problem: str) -> DecayError:
        return DecayError(f"formula {shorten(self.source)!a}: {problem}")


def _blank_end(text: str, at: int) -> int:
    match = _BLANK.match(text, at)
    return match.end() if match else at


def check_range(spec: str, ages: NDArray[np.float64], values: NDArray[np.float64], most: float) -> None:
    """Raise at the first of these ages where the value is NaN, negative or above `most`, which is f(0)."""
    if (wrong := _outside(values, most, _slack(most))).any():
        first = int(np.argmax(wrong))
        raise _failure(spec, float(ages[first]), _complaint(float(values[first]), most))


def check_formula(spec: str, formula: Formula) -> tuple[str, float]:
    """Refuse a formula that is not a decay function on the grid, else give its class and the age from which it is 0."""
    check_points(spec, GRID, formula(GRID), formula)
    return _numeric_class(formula)


def check_points(
    spec: str, ages: NDArray[np.float64], values: NDArray[np.float64], formula: Formula | None = None
) -> None:
    """Raise at the first age where the values turn negative, NaN or infinite, or rise; a `formula` tells where."""
    lowest = np.fmin.accumulate(values)
    slack = _slack(float(values[0]))
    wrong = _outside(values, LARGEST_WEIGHT, slack)
    with np.errstate(all="ignore"):
        bad = wrong | (values > np.append(np.inf, lowest[:-1]) * (1 + _ROUNDING) + slack)
    if not bad.any():
        if values[0] <= 0:
            raise DecayError(f"{shorten(spec)} is 0 at every age, so nothing would count; it must start above 0")
        if values[0] < LEAST_START:
            raise DecayError(f"{shorten(spec)} starts at {values[0]:.6g}; it must start at {LEAST_START:g} or above")
        return
    first = int(np.argmax(bad))
    if wrong[first] and not (first and values[first] > 0):  # what passes the limit on its way is rising
        age, value = float(ages[first]), float(values[first])
        if formula and first:
            age = edge(float(ages[first - 1]), age, lambda x: bool(_outside(formula(x), LARGEST_WEIGHT, slack)))[1]
        raise _failure(spec, age, _complaint(value, LARGEST_WEIGHT))
    start = first - 1 - int(np.argmin(values[:first][::-1]))
    top = first + int(np.argmin(np.append(values[first + 1 :] > values[first:-1], False)))
    age, low, high = float(ages[start]), float(values[start]), float(values[top])
    if formula:  # a jump is named by its own age and height
        middle, rise = (low + values[first]) / 2, values[first] - low
        before, after = edge(age, float(ages[first]), lambda x: bool(formula(x) >= middle))
        if formula(after) - formula(before) > rise / 2:
            age, low, high = after, float(formula(before)), float(formula(after))
    digits = 6 if f"{low:.6g}" != f"{high:.6g}" else 17
    raise _failure(spec, age, f"rises from {low:.{digits}g} to {high:.{digits}g}")


def _numeric_class(formula: Formula) -> tuple[str, float]:
    """The class of a decay function as far as the grid shows it, and the age from which it is 0.

    Where the slope of ln f never falls, f(x+1)/f(x) never falls either, for any unit of time: f is converging. Where
    the slope never rises again once f has halved, f(x)/f(x+1) stays above a constant: f is super-exponential.
    """
    values = formula(GRID)
    values = np.clip(values, 0.0, values[0])
    if (values == 1).all():
        return "none", math.inf
    underflow = _UNDERFLOW * max(1.0, float(values[0]))
    last = int(np.flatnonzero(values)[-1])
    if last + 1 < len(GRID):
        before, after = edge(float(GRID[last]), float(GRID[last + 1]), lambda x: bool(formula(x) <= 0))
        if formula(before) > underflow:
            return "finite", after
    values = formula(_SCALES)
    ages, logs = _SCALES[values > underflow], np.log(values[values > underflow])
    if len(ages) < 8:
        return "general", math.inf
    drop = logs[0] - logs[-1]
    line = logs[0] - drop * (ages / ages[-1])
    if drop > 1e-4 and (np.abs(logs - line) <= _ROUNDING * (1 + np.abs(logs))).all():
        return "exponential", math.inf
    steps = np.diff(ages)
    noise = 16 * np.finfo(np.float64).eps * (1 + np.abs(logs))
    slack = (noise[1:] + noise[:-1]) / steps
    slack = slack[1:] + slack[:-1]
    bends = np.diff(np.diff(logs) / steps)
    if (bends >= -slack).all():
        return "converging", math.inf
    halved = logs[1:-1] < logs[0] - math.log(2)
    if drop > math.log(1e6) and halved.sum() >= 4 and (bends <= slack)[halved].all():
        return "super-exponential", math.inf
    return "general", math.inf


def edge(low: float, high: float, beyond: Callable[[float], bool]) -> tuple[float, float]:
    """Two neighbouring floats between `low` and `high`, the first before an edge and the second beyond it."""
    while low < (middle := (low + high) / 2) < high:
        low, high = (low, middle) if beyond(middle) else (middle, high)
    return low, high


def _slack(newest: float) -> float:
    return _CANCELLATION * max(1.0, newest) if newest <= LARGEST_WEIGHT else _CANCELLATION


def _outside(values: NDArray[np.float64], most: float, slack: float) -> NDArray[np.bool_]:
    return ~((values >= -slack) & (values <= most * (1 + _ROUNDING)))  # NaN is outside too


def _complaint(value: float, most: float) -> str:
    if math.isnan(value):
        return "is not a number"
    if value < 0:
        return f"turns negative ({value:.6g})"
    return "is infinite" if math.isinf(value) else f"is above {most:.6g} ({value:.6g})"


def _failure(spec: str, age: float, problem: str) -> DecayError:
    return DecayError(f"{shorten(spec)} is not a decay function: at age {float(f'{age:.6g}')} s it {problem}")
