"""The one object that says which events a question is about."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, cast

import numpy as np

from sketches.arrays import Flags
from sketches.errors import QuestionError
from sketches.predicate.columns import EVENT_COLUMNS, ColumnType, Literal, Numbers
from sketches.predicate.parser import parse
from sketches.predicate.ranges import EVERY_NUMBER, RANGES, Range
from sketches.predicate.terms import Aggregate, AllOf, ColumnsOf, Comparison, Term, all_of, enclosed
from sketches.records import dataclass


@dataclass(frozen=True, slots=True)
class Predicate:
    """Conditions on events, all of which must hold: the range of each column that is restricted, the text that the
    value must be, and whatever is more than that.

    Every family that can restrict its answers applies ranges and texts; `terms` only some do.

    >>> Predicate.parse("value < 60 and weight >= 5").words()
    'the value is below 60 and the weight is at least 5'
    >>> str(Predicate.parse("not (value > 3) and (weight=1 or weight IN (2,3))"))
    'value <= 3 and (weight = 1 or weight in (2, 3))'
    """

    ranges: tuple[tuple[str, Range], ...] = ()
    key: str | None = None  # the value itself, where it is text
    terms: tuple[Term, ...] = ()  # what is no range and no text of the value

    @classmethod
    def of(cls, key: str | None = None, /, **ranges: Range) -> Predicate:
        """The predicate with these ranges; one that leaves nothing out is no condition."""
        return cls(tuple(sorted((name, limits) for name, limits in ranges.items() if limits)), key)

    @classmethod
    def parse(
        cls, text: str, columns: Mapping[str, ColumnType] = EVENT_COLUMNS, names: Mapping[str, str] | None = None
    ) -> Predicate:
        """The predicate that a text says about these columns; `sketches.predicate.parser` has the language.

        `names` are further names of some columns: what a stream calls its value and its weight.
        """
        return cls.all_of([parse(text, columns, names)])

    @classmethod
    def all_of(cls, terms: Iterable[Term]) -> Predicate:
        """The events that satisfy all of these terms."""
        found, more = cls(), []
        for term in (part for one in terms for part in (one.terms if isinstance(one, AllOf) else (one,))):
            match term:
                case Comparison(column, sign, bound) if term.is_range and not isinstance(bound, str | Aggregate):
                    found = found.and_also(cls.of(None, **{column: RANGES[sign](bound)}))
                case Comparison("value", "=", str(text)):
                    found = found.and_also(cls.of(text))
                case _:
                    more.append(term)
        return cls(found.ranges, found.key, _together(more))

    def __bool__(self) -> bool:
        """Whether it leaves any event out."""
        return bool(self.ranges) or self.key is not None or bool(self.terms)

    def __str__(self) -> str:
        """Its text, which is read as the same predicate."""
        parts = list(self.parts())
        return " and ".join(enclosed(str(term), term, AllOf.binding) if parts[1:] else str(term) for term in parts)

    @property
    def columns(self) -> frozenset[str]:
        """The columns that it is about."""
        own = {"value"} if self.key is not None else set()
        return frozenset(own | {name for name, _ in self.ranges}).union(*(term.columns for term in self.terms))

    @property
    def is_simple(self) -> bool:
        """Whether it is made of ranges, and of a text that the value must be."""
        return not self.terms

    @property
    def thresholds(self) -> list[Comparison]:
        """The comparisons with an aggregate."""
        leaves = (leaf for term in self.terms for leaf in term.leaves() if isinstance(leaf, Comparison))
        return [leaf for leaf in leaves if isinstance(leaf.bound, Aggregate)]

    def range_of(self, column: str) -> Range:
        """The range that a column must lie in; all numbers where it is not restricted by one."""
        return dict(self.ranges).get(column, EVERY_NUMBER)

    def and_also(self, other: Predicate) -> Predicate:
        """The events that satisfy both."""
        if self.key is not None and other.key is not None and self.key != other.key:
            raise QuestionError(f"no value can be both {self.key!r} and {other.key!r}")
        ranges = dict(self.ranges) | dict(other.ranges)
        for name in dict(self.ranges).keys() & dict(other.ranges).keys():
            one, two = self.range_of(name), other.range_of(name)
            ranges[name] = one.within(two)
            if ranges[name].empty:
                raise QuestionError(f"no event has both: {one.words(f'the {name}')}, and {two.words(f'the {name}')}")
        simple = Predicate.of(self.key if self.key is not None else other.key, **ranges)
        return Predicate(simple.ranges, simple.key, _together([*self.terms, *other.terms]))

    def without(self, *terms: Term) -> Predicate:
        """The predicate without some of its terms."""
        return Predicate(self.ranges, self.key, tuple(term for term in self.terms if term not in terms))

    def with_bounds(self, column: str, convert: Callable[[Literal], Literal]) -> Predicate:
        """The same predicate with other bounds on a column: in another unit, or numbers for text."""
        if column not in self.columns:
            return self
        of_numbers = cast(Callable[[float], float], convert)
        ranges = {name: one.with_bounds(of_numbers) if name == column else one for name, one in self.ranges}
        texts = [] if self.key is None else [Comparison("value", "=", self.key)]
        terms = (term.with_bounds(column, convert) for term in (*texts, *self.terms))
        return Predicate.of(None, **ranges).and_also(Predicate.all_of(terms))

    def renamed(self, names: Mapping[str, str]) -> Predicate:
        """The same conditions on columns of other names, to be said, not to be asked.

        >>> Predicate.parse("value < 60 and weight != 5").renamed({"value": "latency"}).words()
        'the latency is below 60 and the weight is not 5'
        """
        if not names or not self.columns & names.keys():
            return self
        ranges = tuple((names.get(name, name), limits) for name, limits in self.ranges)
        texts = [] if self.key is None else [Comparison("value", "=", self.key)]
        return Predicate(ranges, None, tuple(term.renamed(names) for term in (*texts, *self.terms)))

    def holds(self, columns: ColumnsOf) -> Flags:
        """Which events satisfy it; `columns` gives a column by its name. At least one column must be restricted."""
        masks = []
        for name, limits in self.ranges:
            numbers = columns(name)
            masks.append(
                numbers.within(limits) if isinstance(numbers, Numbers) else _of_range(name, limits).truth(columns).yes
            )
        texts = [] if self.key is None else [Comparison("value", "=", self.key)]
        masks += [term.truth(columns).yes for term in (*texts, *self.terms)]
        return np.asarray(np.logical_and.reduce(masks))

    def words(self) -> str:
        parts = [] if self.key is None else [f"the value is '{self.key}'"]
        parts += [limits.words(f"the {name}") for name, limits in self.ranges]
        alone = len(parts) + len(self.terms) == 1
        parts += [term.words() if alone else enclosed(term.words(), term, AllOf.binding) for term in self.terms]
        return " and ".join(parts)

    def parts(self) -> Iterator[Term]:
        """All of it as terms."""
        if self.key is not None:
            yield Comparison("value", "=", self.key)
        for name, limits in self.ranges:
            yield _of_range(name, limits)
        yield from self.terms


EVERY_EVENT: Final = Predicate()


def everything(predicates: Iterable[Predicate]) -> Predicate:
    """The events that satisfy all of the predicates."""
    found = EVERY_EVENT
    for predicate in predicates:
        found = found.and_also(predicate)
    return found


def _together(terms: list[Term]) -> tuple[Term, ...]:
    if not terms:
        return ()
    found = all_of(terms)
    return found.terms if isinstance(found, AllOf) else (found,)


def _of_range(column: str, limits: Range) -> Term:
    """A range as one or two comparisons."""
    if limits.low == limits.high and not limits.empty:
        return Comparison(column, "=", limits.low)
    low = [Comparison(column, ">" if limits.open_low else ">=", limits.low)] if limits.low != -np.inf else []
    high = [Comparison(column, "<" if limits.open_high else "<=", limits.high)] if limits.high != np.inf else []
    return all_of([*low, *high])
