"""Totals for each value of a field that has few of them: what a question about `field = 'x'` can lean on.

They are of rows, as all totals are. Copies of an event that differ in the field are rows of different groups, but one
event of one group: so the totals of a field are given up for good once such copies were seen among the kept rows. An
unseen event of that kind leaves no more beside totals than one that came twice, for which limits allow anyway.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import numpy as np

from sketches.arrays import Rows, distinct_sorted
from sketches.encoding.envelope import Reader, Writer
from sketches.errors import CorruptError
from sketches.event_rules import LONGEST_FIELD_TEXT, MAX_VALUE
from sketches.fields import FieldColumn, FieldKind
from sketches.records import dataclass
from sketches.sampling.totals.slice_totals import NEVER, SliceTotals
from sketches.units import TimeUnit

MOST_VALUES: Final = 16  # of a field whose rows are counted; those without it are a group besides
_LOOKED_AT: Final = 1_000  # rows that tell of most fields that they have more


@dataclass(frozen=True, slots=True)
class FieldTotals:
    """The value of each group, in order, a missing one last; and the totals of the groups by their numbers."""

    values: FieldColumn
    slices: SliceTotals

    @classmethod
    def unknown(cls, unit: TimeUnit, unknown_up_to: int = NEVER) -> FieldTotals:
        """Of rows that were not counted by the field; by itself, of a field that has too many values."""
        return cls(FieldColumn.absent(0), SliceTotals.nothing(unit, unknown_up_to))

    @property
    def given_up(self) -> bool:
        return self.slices.unknown_up_to >= NEVER

    @classmethod
    def merged(cls, parts: Sequence[FieldTotals]) -> FieldTotals:
        """The totals of all rows of all parts."""
        filled = [part for part in parts if len(part.values)]
        if any(part.given_up for part in parts):
            return parts[0].lost()
        if not filled or len(parts) == 1:
            return cls(parts[0].values, SliceTotals.merged([part.slices for part in parts]))
        values, numbers = FieldColumn.together([part.values for part in filled]).grouped()
        if _too_many(values):
            return parts[0].lost()
        ends = np.cumsum([len(part.values) for part in filled])[:-1]
        found = [part.slices for part in parts if not len(part.values)]
        for part, own in zip(filled, np.split(numbers.astype(np.int64), ends), strict=True):
            found.append(part.slices.renumbered(own))
        return cls(values, SliceTotals.merged(found))._tight()

    def fitted(self, most: int) -> FieldTotals:
        slices = self.slices.fitted(most)
        return self if slices is self.slices else FieldTotals(self.values, slices)._tight()

    def lost(self) -> FieldTotals:
        """The totals given up for good."""
        none = self.slices.take(np.zeros(len(self.slices), bool))
        return FieldTotals(FieldColumn.absent(0), none.unknown_until(NEVER))

    def forgotten(self, begin: int, end: int) -> FieldTotals:
        """The totals after rows of a stretch of time were taken out: nothing is known up to its end, not even which
        values there were."""
        begins, ends = self.slices.times()
        if not ((ends > begin) & (begins < end)).any():
            return self
        return FieldTotals(self.values, self.slices.unknown_until(min(end, int(ends.max())) - 1))._tight()

    def _tight(self) -> FieldTotals:
        """The same without values of which nothing is known."""
        used = distinct_sorted(self.slices.groups)
        if len(used) == len(self.values):
            return self
        numbers = np.full(len(self.values), -1, np.int64)
        numbers[used] = np.arange(len(used))
        return FieldTotals(self.values.take(used).tight(), self.slices.renumbered(numbers))

    def write(self, writer: Writer) -> None:
        values = self.values
        writer.u8(tuple(FieldKind).index(values.kind))
        writer.u8(len(values))
        writer.u8(values.missing is not None)
        for value in values.to_list():
            match value:
                case None:
                    pass
                case str():
                    writer.blob(value.encode())
                case float():
                    writer.f64(value)
                case _:
                    writer.i64(int(value))
        self.slices.write(writer)

    @classmethod
    def read(cls, reader: Reader, unit: TimeUnit) -> FieldTotals:
        kind, count, missing = reader.u8(), reader.u8(), reader.u8()
        if kind >= len(FieldKind) or count > MOST_VALUES + 1 or missing > min(count, 1):
            raise CorruptError(f"totals of a field are of kind {kind} and of {count} values")
        values = _read_values(reader, tuple(FieldKind)[kind], count - missing, missing)
        slices = SliceTotals.read(reader, unit)
        if len(slices) and not 0 <= int(slices.groups[0]) <= int(slices.groups[-1]) < count:
            raise CorruptError(f"totals of a field are of {count} values and of group {slices.groups[-1]}")
        return cls(values, slices)


def few_values(column: FieldColumn) -> tuple[FieldColumn, Rows] | None:
    """The different values of a field and the number of each row's; None where there are too many."""
    for some in (slice(0, _LOOKED_AT), slice(None)):
        part = column.take(some)
        if part.kind is FieldKind.TEXT and part.texts:
            used = int(np.count_nonzero(np.bincount(part.values[part.known], minlength=len(part.texts))))
        else:
            used = len(distinct_sorted(part.values))
        if used > MOST_VALUES + (part.missing is not None and part.kind is not FieldKind.TEXT):
            return None
    values, numbers = column.grouped()
    return None if _too_many(values) else (values, numbers)


def _too_many(values: FieldColumn) -> bool:
    return len(values) - (values.missing is not None) > MOST_VALUES


def _read_values(reader: Reader, kind: FieldKind, known: int, missing: int) -> FieldColumn:
    gone = np.arange(known + missing) >= known if missing else None
    if kind is FieldKind.TEXT:
        spelled = [reader.blob() for _ in range(known)]
        if any(len(one) > LONGEST_FIELD_TEXT for one in spelled):
            raise CorruptError("totals of a field have a text that is too long")
        try:
            texts = tuple(one.decode() for one in spelled)
        except UnicodeDecodeError as error:
            raise CorruptError("totals of a field have a text that is not UTF-8") from error
        if any(one >= other for one, other in pairwise(texts)):
            raise CorruptError("the texts of a field's totals are not in order")
        values = np.append(np.arange(known), np.zeros(missing)).astype(np.int32)
        return FieldColumn(kind, values, gone, texts)
    numbers = [reader.f64() if kind is FieldKind.FLOAT else reader.i64() for _ in range(known)]
    if not all(one < other for one, other in pairwise(numbers)):
        raise CorruptError("the values of a field's totals are not in order")
    if kind is FieldKind.FLOAT and not all(abs(number) <= MAX_VALUE for number in numbers):
        raise CorruptError("the values of a field's totals are out of range")
    return FieldColumn(kind, np.array([*numbers, *[0] * missing], kind.dtype), gone)
