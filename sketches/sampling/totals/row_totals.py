"""All that a sample knows exactly of the rows it has seen: by hour, by source and slice, by class of value and slice,
and by value and slice of each field that has few.

Hours of all sources together are kept for ever. The others share an eighth of the room that the sample's rows take:
their oldest slices grow longer where they would take more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import Final

import numpy as np

from sketches.arrays import Ints, Rows
from sketches.encoding.envelope import Reader, Writer
from sketches.errors import CorruptError
from sketches.events import Events, Extremes
from sketches.fields import name_fault
from sketches.parts import HourTotals, SliceLengths
from sketches.records import dataclass
from sketches.sampling.inclusion.ladder import NO_CUT, Codes
from sketches.sampling.totals.field_totals import FieldTotals, few_values
from sketches.sampling.totals.known_totals import KnownTotals
from sketches.sampling.totals.slice_totals import NEVER, ROWS, VALUE, WEIGHT, SliceTotals, hour_length
from sketches.units import TimeUnit

_ROWS_A_SLICE: Final = {"by_source": 8, "by_class": 24}  # kept rows for each slice that a table may have
_FEW: Final = {"by_source": 3_000, "by_class": 1_000}  # slices that it may have however few rows are kept
_ROWS_A_SLICE_OF_FIELDS: Final = 24  # likewise, of all fields together
_FEW_OF_FIELDS: Final = 1_000


def _room(kept: int) -> dict[str, int]:
    """How many slices each table may have beside so many kept rows."""
    return {name: max(_FEW[name], kept // rows) for name, rows in _ROWS_A_SLICE.items()}


def _room_of_a_field(kept: int, fields: int) -> int:
    """How many slices each field may have."""
    return max(_FEW_OF_FIELDS, kept // _ROWS_A_SLICE_OF_FIELDS) // max(fields, 1)


def slices_by_source(kept: int) -> int:
    """How many slices the sources may have together, beside so many kept rows."""
    return _room(kept)["by_source"]


@dataclass(frozen=True, slots=True)
class RowTotals:
    """Totals for all sources by hour, for each source (its number in the sample's list), for each class of values, and
    for the values of each field by its name."""

    hourly: SliceTotals
    by_source: SliceTotals
    by_class: SliceTotals
    by_field: Mapping[str, FieldTotals] = field(default_factory=dict)

    @classmethod
    def of(
        cls, events: Events, sources: Codes, unit: TimeUnit, kept: int | None = None, extremes: Extremes | None = None
    ) -> RowTotals:
        """The totals of a batch of rows, of which so many were kept; None: whatever room they take."""
        from sketches.sampling.totals.row_counts import Room, count_rows  # noqa: PLC0415 - compiled, and only who builds needs it

        names = list(events.fields) if len(events) else []
        few = {name: found for name in names if (found := few_values(events.fields[name])) is not None}
        room = Room() if kept is None else Room(**_room(kept), by_field=_room_of_a_field(kept, len(names)))
        too_many = int(sources.max(initial=-1)) >= room.by_source
        numbers, codes = np.zeros_like(sources) if too_many else sources, [codes for _, codes in few.values()]
        counts = count_rows(events, numbers, hour_length(unit), extremes, room, codes)
        by_source = SliceTotals.nothing(unit, NEVER) if too_many else counts.by_source
        by_field = {name: FieldTotals.unknown(unit) for name in names}
        for (name, (values, _)), slices in zip(few.items(), counts.by_field, strict=True):
            by_field[name] = FieldTotals(values, slices)
        totals = cls(counts.hourly, by_source, counts.by_class, by_field)
        return totals if kept is None else totals.fitted(kept)

    @classmethod
    def nothing(cls, unit: TimeUnit, unknown_up_to: int = NO_CUT) -> RowTotals:
        hourly = SliceTotals.nothing(unit, unknown_up_to, limits=True)
        return cls(hourly, SliceTotals.nothing(unit, unknown_up_to), SliceTotals.nothing(unit, unknown_up_to))

    @classmethod
    def union(
        cls,
        parts: Sequence[tuple[RowTotals | None, Codes, int]],
        unit: TimeUnit,
        kept: int,
        contested: Iterable[str] = (),
    ) -> RowTotals | None:
        """The totals of all rows, beside so many kept ones; None where none of the parts has counted its rows.

        Each part comes with the new numbers of its sources and the time of its newest event: where rows were not
        counted, nothing is known up to then. Of fields that are `contested` between copies nothing will be.
        """
        if all(totals is None for totals, _, _ in parts):
            return None
        found, names = [], set().union(*(one.by_field for one, _, _ in parts if one is not None))
        for totals, numbers, newest in parts:
            own = cls.nothing(unit, newest) if totals is None else totals.renumbered(numbers.astype(np.int64))
            unknown = {name: FieldTotals.unknown(unit, newest) for name in names}
            found.append(replace(own, by_field={**unknown, **own.by_field}))
        return cls.merged(found).fitted(kept).giving_up(contested)

    @classmethod
    def merged(cls, parts: Sequence[RowTotals]) -> RowTotals:
        """The totals of all rows of all parts, whose sources have the same numbers, and whose fields the same names."""
        return cls(
            SliceTotals.merged([part.hourly for part in parts]),
            SliceTotals.merged([part.by_source for part in parts]),
            SliceTotals.merged([part.by_class for part in parts]),
            {name: FieldTotals.merged([part.by_field[name] for part in parts]) for name in sorted(parts[0].by_field)},
        )

    def fitted(self, kept: int) -> RowTotals:
        """The totals as they may stand beside so many kept rows."""
        most = _room_of_a_field(kept, len(self.by_field))
        by_field = {name: one.fitted(most) for name, one in self.by_field.items()}
        tables = {name: getattr(self, name).fitted(most) for name, most in _room(kept).items()}
        return RowTotals(self.hourly, **tables, by_field=by_field)

    def giving_up(self, names: Iterable[str]) -> RowTotals:
        """The totals without those of some fields, for good."""
        lost = {name: self.by_field[name].lost() for name in names if name in self.by_field}
        return replace(self, by_field={**self.by_field, **lost}) if lost else self

    def renumbered(self, numbers: Ints) -> RowTotals:
        """The totals with other numbers for the sources; those below 0 are left out."""
        return replace(self, by_source=self.by_source.renumbered(numbers))

    def without(self, begin: int, end: int, sources: Rows | None) -> RowTotals:
        """The totals without the rows of a stretch of time, of all sources or of some."""
        by_field = {name: one.forgotten(begin, end) for name, one in self.by_field.items()}
        if sources is None:
            hourly, by_source, by_class = (
                one.without(begin, end) for one in (self.hourly, self.by_source, self.by_class)
            )
            return RowTotals(hourly, by_source, by_class, by_field)
        gone = self.by_source.together(sources)
        return RowTotals(
            self.hourly.less(gone, begin, end),
            self.by_source.without(begin, end, sources),
            self.by_class.without(begin, end, wholly=False),
            by_field,
        )

    def known(self, sources: Rows | None) -> KnownTotals:
        """What a sample of some sources can lean on, or one of all."""
        if sources is not None:
            return KnownTotals(self.by_source.together(sources), self.hourly)
        return KnownTotals(self.hourly, self.hourly, self.by_class, self.by_field)

    def hours(self) -> HourTotals:
        """The totals of all sources, of the hours of which they are known."""
        known = self.hourly.take(self.hourly.sums[:, ROWS] > 0.0)
        begins, _, sums, unknown_up_to = known.slices()
        return HourTotals(known.length, begins, sums[:, ROWS], sums[:, WEIGHT], sums[:, VALUE], unknown_up_to)

    def lengths_at(self, time: int) -> SliceLengths:
        """How long slices are at a time."""
        return SliceLengths(self.hourly.length_at(time), self.by_source.length_at(time))

    @property
    def unknown_up_to(self) -> int:
        return self.hourly.unknown_up_to

    def write(self, writer: Writer) -> None:
        """All but the totals by field."""
        for table in (self.hourly, self.by_source, self.by_class):
            table.write(writer)

    @classmethod
    def read(cls, reader: Reader, unit: TimeUnit) -> RowTotals:
        hourly = SliceTotals.read(reader, unit, limits=True)
        return cls(hourly, SliceTotals.read(reader, unit), SliceTotals.read(reader, unit))

    def write_by_field(self, writer: Writer) -> None:
        writer.u8(len(self.by_field))
        for name, one in sorted(self.by_field.items()):
            writer.blob(name.encode())
            one.write(writer)

    def with_fields_of(self, reader: Reader, unit: TimeUnit) -> RowTotals:
        """The same with the totals by field that were written behind it."""
        count, found = reader.u8(), dict[str, FieldTotals]()
        for _ in range(count):
            name = reader.blob().decode(errors="replace")
            if name_fault(name) is not None:
                raise CorruptError(f"a sample has totals of a field {name[:40]!r}")
            found[name] = FieldTotals.read(reader, unit)
        if len(found) < count or list(found) != sorted(found):
            raise CorruptError("the fields of which a sample has totals are not in order")
        return replace(self, by_field=found)

    @classmethod
    def read_hourly(cls, reader: Reader, unit: TimeUnit) -> RowTotals:
        """The totals of format 4, which had those of all sources alone, and no values."""
        hourly = SliceTotals.read_rows_and_weights(reader, unit)
        newest = int(hourly.starts[-1] + 1) * hourly.length if len(hourly) else NO_CUT
        other = SliceTotals.nothing(unit, max(newest, hourly.unknown_up_to))
        return cls(hourly, other, other)
