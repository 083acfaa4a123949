"""A small safe language for decay functions.

Arithmetic in `age`, read by a hand-written parser, never by Python's own:

    comparison  = sum [("<" | "<=" | ">" | ">=") sum]           1 where it holds, else 0; does not chain
    sum         = product {("+" | "-") product}
    product     = unary {("*" | "/") unary}
    unary       = "-" unary | power
    power       = operand [("^" | "**") unary]                  right associative: 2^3^2 is 2^9, -age^2 is -(age^2)
    operand     = number | "age" | "pi" | "e" | function "(" comparison {"," comparison} ")" | "(" comparison ")"

A number may carry a unit of time (`10m` is 600). Text, nesting and size are bounded, so reading and evaluating take
bounded time whatever is typed. Whether a formula is a decay function is for `sketches.decay.checks` to say.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketches.durations import NUMBER_PATTERN, UNITS, read_quantity, shorten
from sketches.errors import DecayError
from sketches.records import dataclass

MAX_LENGTH = 500
MAX_DEPTH = 32
MAX_NODES = 200

_TOKEN = re.compile(
    rf"(?P<number>{NUMBER_PATTERN}(?P<unit>\w*))|(?P<name>[A-Za-z_]\w*)|(?P<sign>\*\*|<=|>=|[-+*/^<>(),])", re.ASCII
)
_BLANK = re.compile(r"[ \t\r\n]*")

_CONSTANTS = {"pi": math.pi, "e": math.e}
OPERATIONS: dict[str, tuple[int, Callable[..., Any]]] = {
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
                    arity, operation = OPERATIONS[step]
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
        arity = OPERATIONS[name][0]
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
