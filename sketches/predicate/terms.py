"""The terms of a predicate: comparisons of a column, and what `and`, `or` and `not` make of them.

A comparison with a missing value is neither true nor false, as in SQL: `not` leaves it unknown, and only what is true
is selected. So the truth of a term is two masks, the rows where it is true and the rows where it is false.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from sketches.arrays import Flags
from sketches.errors import UnanswerableError
from sketches.predicate.columns import Literal, Values, type_of
from sketches.predicate.ranges import RANGES, number_words
from sketches.records import dataclass

OPPOSITE: Final = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_WORDS: Final = {"=": "", "!=": "not ", "<": "below ", "<=": "at most ", ">": "above ", ">=": "at least "}
_TIME_WORDS: Final = {**_WORDS, "<": "before ", "<=": "up to ", ">": "after ", ">=": "from "}
_LOW_ENDS_FIRST: Final = str.maketrans("<", "~")

ColumnsOf = Callable[[str], Values]  # a column by its name


class Truth(NamedTuple):
    """Where a term is true and where it is false; elsewhere it is unknown."""

    yes: Flags
    no: Flags

    @classmethod
    def of(cls, mask: Flags, values: Values) -> Truth:
        """A comparison of a column that holds where the mask says, and is unknown where the column is missing."""
        if values.missing is None:
            return cls(mask, ~mask)
        return cls(mask & ~values.missing, ~mask & ~values.missing)


@dataclass(frozen=True, slots=True)
class Aggregate:
    """A threshold that is itself an aggregate: a multiple of a quantile of a column or, with phi None, of its mean.

    It is over the chosen sources, under the question's decay, before all other terms; `own`: of each group.
    """

    column: str
    phi: float | None
    factor: float = 1.0
    own: bool = False

    def __str__(self) -> str:
        name = "mean" if self.phi is None else "median" if self.phi == 0.5 else "quantile"
        share = f", {self.phi!r}" if name == "quantile" else ""
        times = "" if self.factor == 1.0 else f"{self.factor!r} * "
        return f"{times}{'own ' if self.own else ''}{name}({self.column}{share})"

    def words(self) -> str:
        name = "mean" if self.phi is None else "median" if self.phi == 0.5 else f"{self.phi:g} quantile"
        times = "" if self.factor == 1.0 else f"{number_words(self.factor)} times "
        return f"{times}{'its group’s' if self.own else 'the'} {name} of the {self.column}"


Bound = Literal | Aggregate


class Term(ABC):
    """A condition on events."""

    binding: int = 3  # how tightly its text holds together: `or` 1, `and` 2, all else 3

    @abstractmethod
    def truth(self, columns: ColumnsOf) -> Truth:
        """Where it is true and where it is false."""

    @abstractmethod
    def leaves(self) -> Iterator[Leaf]:
        """The comparisons that it is made of."""

    @property
    def columns(self) -> frozenset[str]:
        """The columns that it is about."""
        return frozenset(leaf.column for leaf in self.leaves())

    @abstractmethod
    def __str__(self) -> str:
        """Its text, which is read as the same term."""

    @abstractmethod
    def words(self) -> str: ...

    def negated(self) -> Term:
        return Not(self)

    @abstractmethod
    def with_bounds(self, column: str, convert: Callable[[Literal], Literal]) -> Term:
        """The same term with other bounds on a column."""

    @abstractmethod
    def renamed(self, names: Mapping[str, str]) -> Term:
        """The same term about columns of other names."""


class Leaf(Term):
    """A condition on one column."""

    column: str

    def leaves(self) -> Iterator[Leaf]:
        yield self

    def with_bounds(self, column: str, convert: Callable[[Literal], Literal]) -> Term:
        return self

    def renamed(self, names: Mapping[str, str]) -> Term:
        other = copy(self)
        object.__setattr__(other, "column", names.get(self.column, self.column))
        return other

    def _values(self, columns: ColumnsOf, *bounds: Literal) -> Values:
        """The column, which must be one that can be compared with these."""
        values = columns(self.column)
        for bound in bounds:
            if not values.type.takes(bound):
                raise UnanswerableError(
                    f"{self}: {self.column} is compared with {type_of(bound)}, but this stream's are {values.type}"
                )
        return values


@dataclass(frozen=True, slots=True)
class Comparison(Leaf):
    """A column compared with a number, a text, true or false, or an aggregate."""

    column: str
    sign: str  # one of OPPOSITE
    bound: Bound

    def truth(self, columns: ColumnsOf) -> Truth:
        if isinstance(self.bound, Aggregate):
            raise UnanswerableError(f"{self}: how sure a threshold is that is an aggregate is not known here")
        values = self._values(columns, self.bound)
        if self.sign not in ("=", "!="):
            if isinstance(self.bound, str) or not values.type.orders(self.bound):
                raise UnanswerableError(f"{self}: {values.type} has no order here")
            return Truth.of(values.below_or_above(self.sign, self.bound), values)
        found = Truth.of(values.among((self.bound,)), values)
        return found if self.sign == "=" else Truth(found.no, found.yes)

    def __str__(self) -> str:
        return f"{self.column} {self.sign} {bound_text(self.bound)}"

    def words(self) -> str:
        at = self.bound if self.column == "time" and isinstance(self.bound, str) else _bound_words(self.bound)
        on = " on" if self.column == "time" and self.sign == ">=" else ""
        return f"the {self.column} is {(_TIME_WORDS if self.column == 'time' else _WORDS)[self.sign]}{at}{on}"

    def negated(self) -> Term:
        return replace(self, sign=OPPOSITE[self.sign])

    def with_bounds(self, column: str, convert: Callable[[Literal], Literal]) -> Term:
        if self.column != column or isinstance(self.bound, Aggregate):
            return self
        return replace(self, bound=convert(self.bound))

    @property
    def is_range(self) -> bool:
        """Whether it is a range of numbers."""
        number = isinstance(self.bound, int | float) and not isinstance(self.bound, bool)
        return number and self.sign in RANGES


@dataclass(frozen=True, slots=True)
class Among(Leaf):
    """A column that is one of several numbers or texts."""

    column: str
    wanted: tuple[Literal, ...]

    def truth(self, columns: ColumnsOf) -> Truth:
        values = self._values(columns, *self.wanted)
        return Truth.of(values.among(self.wanted), values)

    def __str__(self) -> str:
        return f"{self.column} in ({', '.join(map(bound_text, self.wanted))})"

    def words(self) -> str:
        return f"the {self.column} is one of {', '.join(map(_bound_words, self.wanted))}"

    def with_bounds(self, column: str, convert: Callable[[Literal], Literal]) -> Term:
        return self if self.column != column else replace(self, wanted=tuple(map(convert, self.wanted)))


@dataclass(frozen=True, slots=True)
class Like(Leaf):
    """A text that begins as a pattern says, or is as it says: see `sketches.predicate.columns.is_like`."""

    column: str
    pattern: str

    def truth(self, columns: ColumnsOf) -> Truth:
        values = self._values(columns, self.pattern)
        return Truth.of(values.like(self.pattern), values)

    def __str__(self) -> str:
        return f"{self.column} like {bound_text(self.pattern)}"

    def words(self) -> str:
        if self.pattern.endswith("%") and "_" not in self.pattern:
            return f"the {self.column} begins with '{self.pattern[:-1]}'"
        return f"the {self.column} is like '{self.pattern}'"


@dataclass(frozen=True, slots=True)
class Missing(Leaf):
    """A column of which nothing is known. That is true or false, never unknown."""

    column: str

    def truth(self, columns: ColumnsOf) -> Truth:
        values = columns(self.column)
        missing = values.missing if values.missing is not None else np.zeros(len(values), bool)
        return Truth(missing, ~missing)

    def __str__(self) -> str:
        return f"{self.column} is null"

    def words(self) -> str:
        return f"the {self.column} is missing"


@dataclass(frozen=True, slots=True)
class Not(Term):
    """What is false becomes true, and the other way round."""

    term: Term

    def truth(self, columns: ColumnsOf) -> Truth:
        found = self.term.truth(columns)
        return Truth(found.no, found.yes)

    def leaves(self) -> Iterator[Leaf]:
        return self.term.leaves()

    def negated(self) -> Term:
        return self.term

    def with_bounds(self, column: str, convert: Callable[[Literal], Literal]) -> Term:
        return self.term.with_bounds(column, convert).negated()

    def renamed(self, names: Mapping[str, str]) -> Term:
        return Not(self.term.renamed(names))

    def __str__(self) -> str:
        match self.term:
            case Missing(column):
                return f"{column} is not null"
            case Among(column) | Like(column):
                return f"{column} not {str(self.term).removeprefix(column + ' ')}"
            case _:
                return f"not ({self.term})"

    def words(self) -> str:
        match self.term:
            case Missing(column):
                return f"the {column} is known"
            case Among() | Like():
                said = self.term.words()
                return said.replace(" is ", " is not ", 1).replace(" begins with ", " does not begin with ", 1)
            case _:
                return f"not ({self.term.words()})"


@dataclass(frozen=True, slots=True)
class AllOf(Term):
    """Terms that must all hold; see `all_of`."""

    terms: tuple[Term, ...]
    binding = 2

    def truth(self, columns: ColumnsOf) -> Truth:
        found = [term.truth(columns) for term in self.terms]
        return Truth(np.logical_and.reduce([one.yes for one in found]), np.logical_or.reduce([one.no for one in found]))

    def leaves(self) -> Iterator[Leaf]:
        return (leaf for term in self.terms for leaf in term.leaves())

    def with_bounds(self, column: str, convert: Callable[[Literal], Literal]) -> Term:
        return all_of(term.with_bounds(column, convert) for term in self.terms)

    def renamed(self, names: Mapping[str, str]) -> Term:
        return AllOf(tuple(term.renamed(names) for term in self.terms))

    def __str__(self) -> str:
        return " and ".join(enclosed(str(term), term, self.binding) for term in self.terms)

    def words(self) -> str:
        return " and ".join(enclosed(term.words(), term, self.binding) for term in self.terms)


@dataclass(frozen=True, slots=True)
class AnyOf(Term):
    """Terms of which one must hold; see `any_of`."""

    terms: tuple[Term, ...]
    binding = 1

    def truth(self, columns: ColumnsOf) -> Truth:
        found = [term.truth(columns) for term in self.terms]
        return Truth(np.logical_or.reduce([one.yes for one in found]), np.logical_and.reduce([one.no for one in found]))

    def leaves(self) -> Iterator[Leaf]:
        return (leaf for term in self.terms for leaf in term.leaves())

    def with_bounds(self, column: str, convert: Callable[[Literal], Literal]) -> Term:
        return any_of(term.with_bounds(column, convert) for term in self.terms)

    def renamed(self, names: Mapping[str, str]) -> Term:
        return AnyOf(tuple(term.renamed(names) for term in self.terms))

    def __str__(self) -> str:
        return " or ".join(enclosed(str(term), term, self.binding) for term in self.terms)

    def words(self) -> str:
        return " or ".join(enclosed(term.words(), term, Term.binding) for term in self.terms)


def all_of(terms: Iterable[Term]) -> Term:
    """One term that holds where all of them do; each is said once, in one order."""
    found = _distinct(part for term in terms for part in (term.terms if isinstance(term, AllOf) else (term,)))
    return found[0] if len(found) == 1 else AllOf(found)


def any_of(terms: Iterable[Term]) -> Term:
    """One term that holds where any of them does."""
    found = _distinct(part for term in terms for part in (term.terms if isinstance(term, AnyOf) else (term,)))
    return found[0] if len(found) == 1 else AnyOf(found)


def _distinct(terms: Iterable[Term]) -> tuple[Term, ...]:
    return tuple(sorted(dict.fromkeys(terms), key=lambda term: str(term).translate(_LOW_ENDS_FIRST)))


def enclosed(text: str, term: Term, binding: int) -> str:
    """The text of a part, in parentheses where it holds together less tightly than what stands around it."""
    return f"({text})" if term.binding < binding else text


def bound_text(bound: Bound) -> str:
    """A bound as it is written in a predicate.

    >>> bound_text("it's"), bound_text(True), bound_text(0.5)
    ("'it''s'", 'true', '0.5')
    """
    if isinstance(bound, str):
        return "'" + bound.replace("'", "''") + "'"
    return str(bound).lower() if isinstance(bound, bool) else str(bound)


def _bound_words(bound: Bound) -> str:
    if isinstance(bound, Aggregate):
        return bound.words()
    if isinstance(bound, bool):
        return str(bound).lower()
    return f"'{bound}'" if isinstance(bound, str) else number_words(bound)
