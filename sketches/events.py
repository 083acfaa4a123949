"""A checked batch of events as columns: what every family is built from."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from enum import StrEnum

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sketches.arrays import Column, Flags, distinct_sorted, frozen
from sketches.errors import EventError
from sketches.event_rules import MAX_TIME, MAX_VALUE, MAX_WEIGHT, MIN_WEIGHT
from sketches.fields import FieldColumn, Fields
from sketches.hashing import hash_text
from sketches.records import dataclass


class Kind(StrEnum):
    """What the values of a stream are; keys are text, held as hashes with their labels."""

    INTEGER = "integer"
    FLOAT = "float"
    KEY = "key"

    @property
    def dtype(self) -> type[np.generic]:
        return {Kind.INTEGER: np.int64, Kind.FLOAT: np.float64, Kind.KEY: np.uint64}[self]


@dataclass(frozen=True, slots=True)
class Labels:
    """The texts behind hashed keys: parallel arrays, sorted by hash, each hash once."""

    hashes: NDArray[np.uint64]
    texts: tuple[str, ...]

    @classmethod
    def none(cls) -> Labels:
        return cls(np.empty(0, np.uint64), ())

    @classmethod
    def merged(cls, parts: Sequence[Labels], wanted: NDArray[np.uint64]) -> Labels:
        """The labels of the wanted hashes, from any of the parts. Where two texts share a hash, the smaller one wins.

        Only the wanted hashes are looked up: one batch with many labels often gives many sketches of few keys.
        """
        hashes = distinct_sorted(wanted)
        known: dict[int, str] = {}
        for part in parts:
            found = dict(part._among(hashes))
            found.update((code, min(known[code], found[code])) for code in known.keys() & found.keys())
            known |= found
        return cls(hashes, tuple(map(known.__getitem__, hashes.tolist())))

    def _among(self, hashes: NDArray[np.uint64]) -> Iterator[tuple[int, str]]:
        """The given hashes that have a label here, with their texts; the hashes are sorted."""
        if len(self.hashes) < len(hashes):
            places = np.flatnonzero(_within(self.hashes, hashes))
        else:
            hashes = hashes[_within(hashes, self.hashes)]
            places = np.searchsorted(self.hashes, hashes)
        return zip(self.hashes[places].tolist(), map(self.texts.__getitem__, places.tolist()), strict=True)

    @classmethod
    def kept(cls, parts: Sequence[Labels], kind: Kind, columns: Sequence[Column]) -> Labels:
        """The labels of the values that a sketch keeps; numbers have no labels."""
        return cls.merged(parts, np.concatenate(columns).astype(np.uint64)) if kind is Kind.KEY else cls.none()

    def text_of(self, code: int) -> str:
        return self.texts[int(np.searchsorted(self.hashes, np.uint64(code)))]


@dataclass(frozen=True, slots=True)
class Events:
    """Columns of events: ids as 64 bits (integers as they are, text hashed), times, values, weights (None: all 1).

    Values are int64 or int32, float64, or the hashes of keys. Columns that need no conversion are the caller's own
    arrays, read and never written: a copy of a large column costs more than sampling it. `fields` are further columns,
    which `sample` keeps with the events that it keeps, and other families leave.

    >>> len(Events.of([1, 2], [10, 11], values=["a", "b"]))
    2
    """

    ids: NDArray[np.uint64]
    times: NDArray[np.int64]
    values: Column
    weights: NDArray[np.int64] | None
    labels: Labels
    kind: Kind
    fields: Fields = field(default_factory=Fields.none)

    def __len__(self) -> int:
        return len(self.times)

    @classmethod
    def of(
        cls,
        ids: ArrayLike,
        times: ArrayLike,
        values: ArrayLike | None = None,
        weights: ArrayLike | None = None,
        fields: Mapping[str, ArrayLike] | None = None,
    ) -> Events:
        """Check the columns and hash text once. Nothing is sampled yet, and no input array is changed."""
        identity = _identities(np.asarray(ids))
        clock = _integers("times", np.asarray(times), -MAX_TIME, MAX_TIME)
        labels = Labels.none()
        if values is None:
            numbers: Column = np.zeros(len(clock), np.int64)
            kind = Kind.INTEGER
        else:
            numbers, labels, kind = _values(np.asarray(values))
        counts = None
        if weights is not None:
            counts = _integers("weights", np.asarray(weights), MIN_WEIGHT, MAX_WEIGHT)
            if counts.size == 0 or (counts.max() == 1 and counts.min() == 1):
                counts = None
        lengths = {"ids": len(identity), "times": len(clock), "values": len(numbers)}
        if weights is not None:
            lengths["weights"] = len(np.asarray(weights))
        if len(set(lengths.values())) > 1:
            raise EventError("columns differ in length: " + ", ".join(f"{name} {n}" for name, n in lengths.items()))
        further = {name: FieldColumn.of(column) for name, column in (fields or {}).items()}
        return cls(identity, clock, numbers, counts, labels, kind, Fields.of(len(clock), further))

    def columns(self) -> tuple[NDArray[np.uint64], NDArray[np.int64], Column, NDArray[np.int64]]:
        """Ids, times, values (64 bits, or int32) and weights (empty: all are 1), `frozen` for kernels."""
        values = self.values if self.values.dtype == np.int32 else self.values.view(np.uint64)
        weights = self.weights if self.weights is not None else np.empty(0, np.int64)
        return frozen(self.ids), frozen(self.times), frozen(values), frozen(weights)

    def each_once(self) -> Events:
        """The same events, each of which weighs 1: what a sketch is built from that counts events."""
        return replace(self, weights=None)

    def rows(self, start: int, stop: int) -> Events:
        """The events in a range of rows: views of the columns, and all of the labels."""
        if start >= stop:
            return Events.of([], [])  # has no kind of values, so that all empty sketches have the same bytes
        weights = None if self.weights is None else self.weights[start:stop]
        part = slice(start, stop)
        fields = self.fields.take(part, stop - start)
        return Events(self.ids[part], self.times[part], self.values[part], weights, self.labels, self.kind, fields)

    def take(self, which: Flags) -> Events:
        """Some of the events, and all of the labels."""
        weights = None if self.weights is None else self.weights[which]
        times = self.times[which]
        fields = self.fields.take(which, len(times))
        return Events(self.ids[which], times, self.values[which], weights, self.labels, self.kind, fields)


@dataclass(frozen=True, slots=True)
class Extremes:
    """What a sketch knows exactly of all events it has seen: repeats and merging do not change it."""

    oldest: int | None = None
    newest: int | None = None
    least_value: float = np.inf
    greatest_value: float = -np.inf
    greatest_weight: int = 1
    least_weight: int = 1

    @property
    def unit_weights(self) -> bool:
        """Whether every event weighs 1, so that events and weight are counted alike."""
        return self.least_weight == self.greatest_weight == 1

    @classmethod
    def of(cls, events: Events) -> Extremes:
        if len(events) == 0:
            return cls()
        keys = events.kind is Kind.KEY
        return cls(
            int(events.times.min()),
            int(events.times.max()),
            0.0 if keys else float(events.values.min()),
            0.0 if keys else float(events.values.max()),
            1 if events.weights is None else int(events.weights.max()),
            1 if events.weights is None else int(events.weights.min()),
        )

    @classmethod
    def merged(cls, parts: Sequence[Extremes]) -> Extremes:
        seen = [part for part in parts if part.newest is not None]
        if not seen:
            return cls()
        return cls(
            min(part.oldest for part in seen if part.oldest is not None),
            max(part.newest for part in seen if part.newest is not None),
            min(part.least_value for part in seen),
            max(part.greatest_value for part in seen),
            max(part.greatest_weight for part in seen),
            min(part.least_weight for part in seen),
        )

    def roughly(self, kind: Kind) -> Extremes:
        """The same times, and limits of values and weights that no longer tell those of an event."""
        least, greatest = self.least_value, self.greatest_value
        if kind is not Kind.KEY and self.newest is not None:
            least, greatest = -round_up(-least), round_up(greatest)
        heavy, light = min(int(round_up(self.greatest_weight)), MAX_WEIGHT), int(-round_up(-self.least_weight))
        return replace(self, least_value=least, greatest_value=greatest, greatest_weight=heavy, least_weight=light)


def round_up(number: float) -> float:
    """The next power of two that is not below a number; below zero, one with the sign changed.

    >>> [round_up(number) for number in (5, 8, 0, -5, -8, 0.3)]
    [8.0, 8.0, 0.0, -4.0, -8.0, 0.5]
    """
    if number == 0.0:
        return 0.0
    part, exponent = math.frexp(abs(number))  # part is at least a half and below 1
    if number < 0.0:
        return -math.ldexp(0.5, exponent)
    return min(math.ldexp(0.5 if part == 0.5 else 1.0, exponent), MAX_VALUE)


def _within(some: NDArray[np.uint64], others: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Which numbers occur among others; the others are sorted."""
    if len(others) == 0:
        return np.zeros(len(some), bool)
    return np.asarray(others[np.searchsorted(others[:-1], some)] == some)


def _one_dimension(name: str, column: Column) -> None:
    if column.ndim != 1:
        raise EventError(f"{name} has {column.ndim} dimensions; it must be a flat array")


def _identities(ids: Column) -> NDArray[np.uint64]:
    _one_dimension("ids", ids)
    if ids.dtype.kind in "iu":
        ids = ids.astype(ids.dtype.newbyteorder("="), copy=False)  # else the same number would be two ids
        return ids.view(np.uint64) if ids.dtype.itemsize == 8 else ids.astype(np.int64).view(np.uint64)
    if ids.size == 0:
        return np.empty(0, np.uint64)
    if ids.dtype.kind in "UOST":
        return _hashed("ids", ids)
    raise EventError(f"ids are of type {ids.dtype}; they must be integers or text")


def _integers(name: str, column: Column, least: int, most: int) -> NDArray[np.int64]:
    _one_dimension(name, column)
    if column.size == 0:
        return np.empty(0, np.int64)
    if column.dtype.kind == "f":
        if not np.isfinite(column).all():
            at = int(np.flatnonzero(~np.isfinite(column))[0])
            raise EventError(f"{name}[{at}] is {column[at]}; it must be a whole number")
        if (column != np.rint(column)).any():
            at = int(np.flatnonzero(column != np.rint(column))[0])
            raise EventError(f"{name}[{at}] is {column[at]}; it must be a whole number")
    elif column.dtype.kind not in "iu":
        raise EventError(f"{name} are of type {column.dtype}; they must be whole numbers")
    low, high = column.min(), column.max()
    if low < least or high > most:
        at = int(np.flatnonzero((column < least) | (column > most))[0])
        raise EventError(f"{name}[{at}] is {column[at]}; it must lie between {least} and {most}")
    return column.astype(np.int64, copy=False)


def _values(values: Column) -> tuple[Column, Labels, Kind]:
    _one_dimension("values", values)
    if values.size == 0:
        return np.empty(0, np.int64), Labels.none(), Kind.INTEGER
    kind = values.dtype.kind
    if kind in "iub":
        if kind == "u" and values.max() > np.iinfo(np.int64).max:
            at = int(np.argmax(values))
            raise EventError(f"values[{at}] is {values[at]}; a whole-number value must be below 2^63")
        return values if values.dtype == np.int32 else values.astype(np.int64, copy=False), Labels.none(), Kind.INTEGER
    if kind == "f":
        fine = np.abs(values) <= MAX_VALUE
        if not fine.all():
            at = int(np.flatnonzero(~fine)[0])
            raise EventError(f"values[{at}] is {values[at]}; it must be a number of at most {MAX_VALUE:g}, or text")
        return values.astype(np.float64) + 0.0, Labels.none(), Kind.FLOAT  # + 0.0: minus zero is zero
    if kind in "UOST":
        hashes = _hashed("values", values)
        distinct, first = np.unique(hashes, return_index=True)
        return hashes, Labels(distinct, tuple(_label(text) for text in values[first])), Kind.KEY
    raise EventError(f"values are of type {values.dtype}; they must be numbers or text")


def _hashed(name: str, column: Column) -> NDArray[np.uint64]:
    try:
        return hash_text(column)
    except EventError as error:
        raise EventError(f"{name}: {error}") from None


def _label(key: str | bytes) -> str:
    try:
        return key.decode() if isinstance(key, bytes) else str(key)
    except UnicodeDecodeError:
        raise EventError(f"values hold the bytes {key!r}, which are not UTF-8; a key needs a label to show") from None
