"""Fields: further columns of events, kept with those that are sampled, to be summed, filtered and split by later.

A field is no part of an event's identity. Where copies of an event differ in a field, one of them is taken, the same
one in whatever order they come: the least, field by field in the order of names, a missing value after all others.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from functools import partial
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from sketches.arrays import Column, Flags, Rows, distinct_sorted
from sketches.errors import EventError, IncompatibleError
from sketches.event_rules import LONGEST_FIELD_TEXT, MAX_VALUE, MOST_FIELDS
from sketches.records import dataclass

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
_COLUMNS: Final = frozenset({"id", "time", "value", "weight", "source", "events"})
_WORDS: Final = frozenset({"and", "or", "not", "in", "between", "like", "is", "null", "true", "false", "own"})
_TAKEN: Final = _COLUMNS | _WORDS | {"median", "mean", "quantile"}  # they mean something else in a question


class FieldKind(StrEnum):
    """What a field holds."""

    INTEGER = "integer"
    FLOAT = "float"
    TEXT = "text"
    BOOLEAN = "boolean"

    @property
    def dtype(self) -> type[np.generic]:
        """What a column of it holds; of text, numbers in a list of texts."""
        return _DTYPES[self]

    @property
    def is_number(self) -> bool:
        return self in (FieldKind.INTEGER, FieldKind.FLOAT)


_DTYPES: Final = {
    FieldKind.INTEGER: np.int64,
    FieldKind.FLOAT: np.float64,
    FieldKind.TEXT: np.int32,
    FieldKind.BOOLEAN: np.bool_,
}


def name_fault(name: str) -> str | None:
    """Why a field cannot have this name; None where it can.

    >>> name_fault("status"), name_fault("Value")
    (None, "'Value' means something else in a question")
    """
    if name.lower() in _TAKEN:
        return f"{name!r} means something else in a question"
    if not _NAME.fullmatch(name):
        return f"{name[:40]!r} is not a letter followed by at most 62 letters, digits and _"
    return None


@dataclass(frozen=True, eq=False, slots=True)
class FieldColumn:
    """One field of some rows; a missing row has 0, false or the first text, so that equal columns have equal bytes.

    `texts` are in order, each once; some may be those of no row.
    """

    kind: FieldKind
    values: Column
    missing: Flags | None = None  # None: it is known in all rows
    texts: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.values)

    @classmethod
    def of(cls, values: ArrayLike, missing: Flags | None = None) -> FieldColumn:
        """A column of numbers, text or booleans; None and NaN are missing.

        >>> column = FieldColumn.of(["b", None, "a"])
        >>> column.values.tolist(), column.missing.tolist(), column.texts
        ([1, 0, 0], [False, True, False], ('a', 'b'))
        """
        column = np.asarray(values)
        if column.ndim != 1:
            raise EventError(f"a field has {column.ndim} dimensions; it must be a flat array")
        gone = np.zeros(len(column), bool) if missing is None else missing
        if column.dtype.kind in "OUST":
            return cls._of_texts(column, gone)
        if column.dtype.kind == "f":
            gone = gone | np.isnan(column)
            return cls._of_numbers(FieldKind.FLOAT, column, gone)
        if column.dtype.kind == "u" and len(column) and column.max() > np.iinfo(np.int64).max:
            raise EventError("a field that is a whole number must be below 2^63")
        if column.dtype.kind in "iub":
            return cls._of_numbers(FieldKind.BOOLEAN if column.dtype.kind == "b" else FieldKind.INTEGER, column, gone)
        raise EventError(f"a field is of type {column.dtype}; it must be numbers, text, or true and false")

    @classmethod
    def _of_numbers(cls, kind: FieldKind, column: Column, gone: Flags) -> FieldColumn:
        values = np.where(gone, np.zeros(1, column.dtype), column).astype(kind.dtype)
        if kind is FieldKind.FLOAT:
            if len(values) and not np.abs(values).max() <= MAX_VALUE:
                raise EventError(f"a field holds a number beyond {MAX_VALUE:g}")
            values = values + 0.0  # minus zero is zero
        return cls(kind, values, gone if gone.any() else None)

    @classmethod
    def _of_texts(cls, column: Column, gone: Flags) -> FieldColumn:
        items = column.tolist()
        gone = gone | np.fromiter((item is None for item in items), bool, len(items))
        if any(not isinstance(item, str) for item in items if item is not None):
            raise EventError("a field of text holds something that is neither text nor None")
        texts = tuple(sorted({item for item, without in zip(items, gone.tolist(), strict=True) if not without}))
        if any(len(text.encode()) > LONGEST_FIELD_TEXT for text in texts):
            raise EventError(f"a field holds a text of more than {LONGEST_FIELD_TEXT:,} bytes")
        place = {text: number for number, text in enumerate(texts)}
        codes = np.fromiter((place.get(item, 0) for item in items), np.int32, len(items))
        return cls(FieldKind.TEXT, np.where(gone, np.int32(0), codes), gone if gone.any() else None, texts)

    @classmethod
    def absent(cls, rows: int, kind: FieldKind = FieldKind.INTEGER) -> FieldColumn:
        """A field of which nothing is known in any row."""
        return cls(kind, np.zeros(rows, kind.dtype), np.ones(rows, bool) if rows else None)

    @property
    def known(self) -> Flags:
        return np.ones(len(self), bool) if self.missing is None else ~self.missing

    @property
    def is_absent(self) -> bool:
        """Whether no row has it."""
        return len(self) == 0 or (self.missing is not None and bool(self.missing.all()))

    def to_list(self) -> list[int | float | str | bool | None]:
        """The rows as Python has them; None where one is missing.

        >>> FieldColumn.of(["b", None, "a"]).to_list()
        ['b', None, 'a']
        """
        values = self.values.tolist()
        if self.kind is FieldKind.TEXT and self.texts:
            values = [self.texts[at] for at in values]
        return [value if known else None for value, known in zip(values, self.known.tolist(), strict=True)]

    def take(self, which: Rows | Flags | slice) -> FieldColumn:
        missing = None if self.missing is None else self.missing[which]
        return replace(self, values=self.values[which], missing=missing if missing is None or missing.any() else None)

    def ends(self) -> tuple[float, float]:
        """The least and the greatest number; infinite the other way round where there is none."""
        values = self.values if self.missing is None else self.values[~self.missing]
        if not self.kind.is_number or not len(values):
            return np.inf, -np.inf
        return float(values.min()), float(values.max())

    def tight(self) -> FieldColumn:
        """The same column without the texts of no row."""
        if self.kind is not FieldKind.TEXT:
            return self
        used = distinct_sorted(self.values if self.missing is None else self.values[~self.missing])
        if len(used) == len(self.texts):
            return self
        number = np.zeros(max(len(self.texts), 1), np.int32)
        number[used] = np.arange(len(used), dtype=np.int32)
        values = number[self.values] if len(self.texts) else self.values
        if self.missing is not None:
            values = np.where(self.missing, np.int32(0), values)
        return replace(self, values=values, texts=tuple(self.texts[at] for at in used.tolist()))

    def grouped(self) -> tuple[FieldColumn, Rows]:
        """The different values in order, a missing one last, and the number of each row's among them.

        >>> values, numbers = FieldColumn.of([5, float("nan"), 3, 5]).grouped()
        >>> values.to_list(), numbers.tolist()
        ([3.0, 5.0, None], [1, 2, 0, 1])
        """
        tight, known = self.tight(), self.known
        if tight.kind is FieldKind.TEXT:
            distinct: Column = np.arange(len(tight.texts), dtype=np.int32)
            codes = tight.values.astype(np.intp)
        else:
            distinct = distinct_sorted(tight.values if self.missing is None else tight.values[known])
            codes = np.searchsorted(distinct, tight.values)
        if self.missing is None:
            return replace(tight, values=distinct), codes
        last = np.append(np.zeros(len(distinct), bool), True)
        values = np.append(distinct, np.zeros(1, distinct.dtype))
        return replace(tight, values=values, missing=last), np.where(known, codes, len(distinct))

    @classmethod
    def together(cls, parts: Sequence[FieldColumn], name: str = "a field") -> FieldColumn:
        """The rows of all parts, one after the other; whole numbers and floats are floats."""
        kinds = {part.kind for part in parts if not part.is_absent}
        if len(kinds) > 1 and any(not kind.is_number for kind in kinds):
            raise IncompatibleError(f"{name} holds {' in one part and '.join(sorted(kinds))} in another")
        kind = kinds.pop() if len(kinds) == 1 else FieldKind.FLOAT if kinds else parts[0].kind
        missing = None
        if any(part.missing is not None for part in parts):
            missing = ~np.concatenate([part.known for part in parts])
        if kind is not FieldKind.TEXT:
            columns = [part.values if not part.is_absent else np.zeros(len(part), kind.dtype) for part in parts]
            return cls(kind, np.concatenate([column.astype(kind.dtype, copy=False) for column in columns]), missing)
        texts = tuple(sorted(set().union(*(part.texts for part in parts))))
        place = {text: number for number, text in enumerate(texts)}
        codes = [part._codes(place) for part in parts]
        values = np.concatenate(codes)
        return cls(kind, values if missing is None else np.where(missing, np.int32(0), values), missing, texts)

    def _codes(self, place: Mapping[str, int]) -> Column:
        """The rows' numbers in a longer list of texts."""
        if not self.texts:
            return np.zeros(len(self), np.int32)
        return np.fromiter(map(place.__getitem__, self.texts), np.int32, len(self.texts))[self.values]

    def same_as(self, other: FieldColumn) -> bool:
        """Whether it has the same in every row; texts have the same numbers."""
        return bool((self.values == other.values).all() and (self.known == other.known).all())

    def sort_keys(self) -> tuple[Column, Column]:
        """By what copies of an event are put in order, the lesser key first: numbers or texts, then the missing."""
        return self.values, ~self.known


class Fields:
    """The fields of some rows by name. A column is made when it is first asked for: most questions ask for none.

    `contested` are those in which copies of an event were seen to differ.
    """

    def __init__(
        self, rows: int, makers: Mapping[str, Callable[[], FieldColumn]], contested: frozenset[str] = frozenset()
    ) -> None:
        self.rows = rows
        self.contested = contested
        self._makers = makers
        self._made: dict[str, FieldColumn] = {}
        self._parts: dict[tuple[int, int], Fields] = {}  # what they were put together from, by first and last row

    @classmethod
    def of(cls, rows: int, columns: Mapping[str, FieldColumn]) -> Fields:
        """Fields whose columns are there; all have so many rows."""
        for name, column in columns.items():
            if (fault := name_fault(name)) is not None:
                raise EventError(f"a field cannot be called so: {fault}")
            if len(column) != rows:
                raise EventError(f"field {name!r} has {len(column)} rows, but there are {rows} events")
        if len(columns) > MOST_FIELDS:
            raise EventError(f"there are {len(columns)} fields; at most {MOST_FIELDS} are kept")
        return cls(rows, {name: _always(column) for name, column in sorted(columns.items())})

    @classmethod
    def none(cls, rows: int = 0) -> Fields:
        return cls(rows, {})

    def __bool__(self) -> bool:
        return bool(self._makers)

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __contains__(self, name: object) -> bool:
        return name in self._makers

    def __getitem__(self, name: str) -> FieldColumn:
        if name not in self._made:
            self._made[name] = self._makers[name]()
        return self._made[name]

    def _column(self, name: str) -> FieldColumn:
        """A column that whoever asks puts into a longer one, so that it is not kept twice."""
        return self._made[name] if name in self._made else self._makers[name]()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._makers)

    def settled(self) -> Fields:
        """The same with all columns made: what they were made from, a large batch perhaps, is no longer held."""
        return Fields(self.rows, {name: _always(self[name].tight()) for name in self._makers}, self.contested)

    def take(self, which: Rows | Flags | slice, rows: int) -> Fields:
        """The fields of some rows, so many."""
        if not self._makers:
            return Fields.none(rows)
        part = self._parts.get((which.start, which.stop)) if isinstance(which, slice) else None
        if part is not None:  # as it came, which does not hold on to all the others
            absent = partial(FieldColumn.absent, rows)
            return Fields(rows, {name: part._makers.get(name, absent) for name in self._makers}, self.contested)
        return Fields(rows, {name: _taken(self, name, which) for name in self._makers}, self.contested)

    def one_of_copies(self, among: Rows, taken: Rows) -> Fields:
        """The fields where the rows `among` all are copies of others, and get the fields of the rows `taken`."""
        differ = {name for name in self._makers if not self[name].take(among).same_as(self[name].take(taken))}
        of_rows = np.arange(self.rows)
        of_rows[among] = taken
        found = self.take(of_rows, self.rows)
        found.contested = self.contested | differ
        return found

    @classmethod
    def together(cls, parts: Sequence[Fields]) -> Fields:
        """The rows of all parts, one after the other; what a part does not have is missing in its rows."""
        rows = sum(part.rows for part in parts)
        names = sorted(set().union(*(part.names for part in parts)))
        contested = frozenset().union(*(part.contested for part in parts))
        found = cls(rows, {name: _joined(parts, name) for name in names}, contested)
        ends = np.cumsum([0, *(part.rows for part in parts)]).tolist()
        found._parts = dict(zip(pairwise(ends), parts, strict=True))
        return found

    def least_first(self, group: Column, among: Rows) -> Rows:
        """The rows `among` all, in the order of their groups and, within each, of their fields."""
        keys: list[Column] = [group]
        for name in self._makers:
            values, missing = self[name].take(among).sort_keys()
            keys += [missing, values]
        return np.lexsort(keys[::-1])


def _always(column: FieldColumn) -> Callable[[], FieldColumn]:
    return lambda: column


def _taken(fields: Fields, name: str, which: Rows | Flags | slice) -> Callable[[], FieldColumn]:
    return lambda: fields[name].take(which)


def _joined(parts: Sequence[Fields], name: str) -> Callable[[], FieldColumn]:
    def make() -> FieldColumn:
        columns = [part._column(name) if name in part else FieldColumn.absent(part.rows) for part in parts]
        return FieldColumn.together(columns, f"field {name!r}")

    return make


class KnownField(NamedTuple):
    """What is known of a field of all events, sampled or not.

    `unknown_since` to `unknown_until` are the ends of the events that came without it: before it was added to the
    settings, or after it was removed. None: all came with it.
    """

    kind: FieldKind
    least: float = np.inf
    greatest: float = -np.inf
    unknown_since: int | None = None
    unknown_until: int | None = None

    @classmethod
    def of(cls, column: FieldColumn) -> KnownField:
        return cls(column.kind, *column.ends())

    def without(self, oldest: int | None, newest: int | None) -> KnownField:
        """The same beside events of these times that came without the field."""
        if oldest is None or newest is None:
            return self
        since = oldest if self.unknown_since is None else min(self.unknown_since, oldest)
        until = newest if self.unknown_until is None else max(self.unknown_until, newest)
        return self._replace(unknown_since=since, unknown_until=until)

    def joined(self, other: KnownField) -> KnownField:
        """Of the events of both."""
        kind = self.kind if self.kind == other.kind else FieldKind.FLOAT
        if self.kind != other.kind and not (self.kind.is_number and other.kind.is_number):
            seen = [one for one in (self, other) if one.least <= one.greatest or not one.kind.is_number]
            kind = seen[0].kind if seen else self.kind
        found = self._replace(
            kind=kind, least=min(self.least, other.least), greatest=max(self.greatest, other.greatest)
        )
        return found.without(other.unknown_since, other.unknown_until)


Known = Mapping[str, KnownField]


def known_together(parts: Sequence[tuple[Known, int | None, int | None]]) -> dict[str, KnownField]:
    """What is known of the fields of all parts; each comes with the times of its oldest and newest event."""
    found: dict[str, KnownField] = {}
    for known, _, _ in parts:
        for name, one in known.items():
            found[name] = found[name].joined(one) if name in found else one
    for known, oldest, newest in parts:
        for name in found.keys() - known.keys():
            found[name] = found[name].without(oldest, newest)
    return dict(sorted(found.items()))
