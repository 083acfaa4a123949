"""What a predicate is asked of: the columns of events, their types, and which rows of a column satisfy a comparison."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import ClassVar, Final

import numpy as np

from sketches.arrays import Column, Flags, Ints
from sketches.fields import FieldColumn, FieldKind
from sketches.predicate.ranges import RANGES, Range
from sketches.records import dataclass

Literal = bool | float | str  # what a column is compared with


class ColumnType(StrEnum):
    """What a column holds, in words."""

    NUMBER = "numbers"
    TEXT = "text"
    BOOLEAN = "true or false"
    TIME = "times"
    EITHER = "numbers or text"  # which of them the stream knows

    def takes(self, literal: Literal) -> bool:
        """Whether the column can be compared with this."""
        return self in (ColumnType.TIME, ColumnType.EITHER, type_of(literal))

    def orders(self, literal: Literal) -> bool:
        """Whether it can be below or above this: text has no order here, but a time may be written as text."""
        return type_of(literal) is ColumnType.NUMBER or self is ColumnType.TIME


def type_of(literal: Literal) -> ColumnType:
    if isinstance(literal, bool):
        return ColumnType.BOOLEAN
    return ColumnType.TEXT if isinstance(literal, str) else ColumnType.NUMBER


EVENT_COLUMNS: Final[Mapping[str, ColumnType]] = {
    "value": ColumnType.EITHER,
    "weight": ColumnType.NUMBER,
    "time": ColumnType.TIME,
    "source": ColumnType.TEXT,
}


def columns_with(fields: Mapping[str, FieldKind]) -> dict[str, ColumnType]:
    """The columns of events that have these fields."""
    return {**EVENT_COLUMNS, **{name: OF_FIELDS[kind] for name, kind in fields.items()}}


OF_FIELDS: Final = {
    FieldKind.INTEGER: ColumnType.NUMBER,
    FieldKind.FLOAT: ColumnType.NUMBER,
    FieldKind.TEXT: ColumnType.TEXT,
    FieldKind.BOOLEAN: ColumnType.BOOLEAN,
}


class Values(ABC):
    """A column of events. In rows that are `missing` nothing is known of it (None: it is known in all)."""

    type: ClassVar[ColumnType]
    missing: Flags | None

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def among(self, wanted: Sequence[Literal]) -> Flags:
        """Which rows have one of these, which the column can be compared with; what missing rows get means nothing."""

    def below_or_above(self, sign: str, bound: float) -> Flags:
        """Which rows satisfy a comparison with a number."""
        raise TypeError(f"{self.type} has no order")

    def like(self, pattern: str) -> Flags:
        """Which rows are like a pattern."""
        raise TypeError(f"{self.type} is like no pattern")


@dataclass(frozen=True, eq=False, slots=True)
class Numbers(Values):
    """A column of whole numbers or floats."""

    type: ClassVar[ColumnType] = ColumnType.NUMBER
    values: Column
    missing: Flags | None = None

    def __len__(self) -> int:
        return len(self.values)

    def within(self, limits: Range) -> Flags:
        """Which rows are known and lie in a range."""
        inside = limits.holds(self.values)
        return inside if self.missing is None else inside & ~self.missing

    def below_or_above(self, sign: str, bound: float) -> Flags:
        return RANGES[sign](bound).holds(self.values)

    def among(self, wanted: Sequence[Literal]) -> Flags:
        numbers = [one for one in wanted if not isinstance(one, str)]
        if self.values.dtype.kind in "iu":  # a float between two of them is none of them
            ends = np.iinfo(self.values.dtype)
            numbers = [int(one) for one in numbers if math.floor(one) == one and ends.min <= one <= ends.max]
        known = np.sort(np.array(numbers, self.values.dtype))
        if not len(known):
            return np.zeros(len(self), bool)
        places = np.minimum(np.searchsorted(known, self.values), len(known) - 1)
        return np.asarray(known[places] == self.values)


@dataclass(frozen=True, eq=False, slots=True)
class Texts(Values):
    """A column of text: for each row the number of its text in a list. The number of a missing row may be any of it."""

    type: ClassVar[ColumnType] = ColumnType.TEXT
    codes: Ints
    texts: Sequence[str]
    missing: Flags | None = None

    def __len__(self) -> int:
        return len(self.codes)

    def among(self, wanted: Sequence[Literal]) -> Flags:
        return self._matching(frozenset(wanted).__contains__)

    def like(self, pattern: str) -> Flags:
        return self._matching(lambda text: is_like(text, pattern))

    def _matching(self, test: Callable[[str], bool]) -> Flags:
        if not len(self.texts):
            return np.zeros(len(self), bool)
        return np.fromiter(map(test, self.texts), bool, len(self.texts))[self.codes]


@dataclass(frozen=True, eq=False, slots=True)
class Booleans(Values):
    """A column of true and false."""

    type: ClassVar[ColumnType] = ColumnType.BOOLEAN
    values: Flags
    missing: Flags | None = None

    def __len__(self) -> int:
        return len(self.values)

    def among(self, wanted: Sequence[Literal]) -> Flags:
        return (self.values & (True in wanted)) | (~self.values & (False in wanted))


def is_like(text: str, pattern: str) -> bool:
    """Whether a text is like a pattern, in which _ stands for any character and a % at the end for any text.

    >>> is_like("/cart/3", "/cart%"), is_like("/cart/3", "/c_rt"), is_like("/cart", "/c_rt")
    (True, False, True)
    """
    start = pattern.removesuffix("%")
    if len(text) < len(start) or (len(text) > len(start) and start == pattern):
        return False
    if "_" not in start:
        return text.startswith(start)
    return all(wanted in ("_", found) for wanted, found in zip(start, text, strict=False))


def values_of(column: FieldColumn) -> Values:
    """A field as conditions see it."""
    match column.kind:
        case FieldKind.TEXT:
            return Texts(column.values, column.texts, column.missing)
        case FieldKind.BOOLEAN:
            return Booleans(column.values, column.missing)
        case _:
            return Numbers(column.values, column.missing)
