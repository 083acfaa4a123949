"""All that a sample knows exactly of the rows it has seen: by hour, by source and slice, by class of value and slice.

Hours of all sources together are kept for ever. The other two share an eighth of the room that the sample's rows take:
their oldest slices grow longer where they would take more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from sketches.arrays import Ints, Rows
from sketches.encoding.envelope import Reader, Writer
from sketches.events import Events, Extremes
from sketches.parts import HourTotals, SliceLengths
from sketches.records import dataclass
from sketches.sampling.inclusion.ladder import NO_CUT, Codes
from sketches.sampling.totals.known_totals import KnownTotals
from sketches.sampling.totals.slice_totals import NEVER, ROWS, VALUE, WEIGHT, SliceTotals, hour_length
from sketches.units import TimeUnit

_ROWS_A_SLICE: Final = {"by_source": 8, "by_class": 24}  # kept rows for each slice that a table may have
_FEW: Final = {"by_source": 3_000, "by_class": 1_000}  # slices that it may have however few rows are kept


def _room(kept: int) -> dict[str, int]:
    """How many slices each table may have beside so many kept rows."""
    return {name: max(_FEW[name], kept // rows) for name, rows in _ROWS_A_SLICE.items()}


def slices_by_source(kept: int) -> int:
    """How many slices the sources may have together, beside so many kept rows."""
    return _room(kept)["by_source"]


@dataclass(frozen=True, slots=True)
class RowTotals:
    """Totals for all sources by hour, for each source (its number in the sample's list), for each class of values."""

    hourly: SliceTotals
    by_source: SliceTotals
    by_class: SliceTotals

    @classmethod
    def of(
        cls, events: Events, sources: Codes, unit: TimeUnit, kept: int | None = None, extremes: Extremes | None = None
    ) -> RowTotals:
        """The totals of a batch of rows, of which so many were kept; None: whatever room they take."""
        from sketches.sampling.totals.row_counts import count_rows  # noqa: PLC0415 - compiled, and only who builds needs it

        length = hour_length(unit)
        if kept is None:
            return cls(*count_rows(events, sources, length, extremes))
        most = _room(kept)
        too_many = int(sources.max(initial=-1)) >= most["by_source"]
        counts = count_rows(events, np.zeros_like(sources) if too_many else sources, length, extremes, **most)
        by_source = SliceTotals.nothing(unit, NEVER) if too_many else counts.by_source
        return cls(counts.hourly, by_source, counts.by_class).fitted(kept)

    @classmethod
    def nothing(cls, unit: TimeUnit, unknown_up_to: int = NO_CUT) -> RowTotals:
        hourly = SliceTotals.nothing(unit, unknown_up_to, limits=True)
        return cls(hourly, SliceTotals.nothing(unit, unknown_up_to), SliceTotals.nothing(unit, unknown_up_to))

    @classmethod
    def union(cls, parts: Sequence[tuple[RowTotals | None, Codes, int]], unit: TimeUnit, kept: int) -> RowTotals | None:
        """The totals of all rows, beside so many kept ones; None where none of the parts has counted its rows.

        Each part comes with the new numbers of its sources and the time of its newest event: where rows were not
        counted, nothing is known up to then.
        """
        if all(totals is None for totals, _, _ in parts):
            return None
        return cls.merged(
            [
                cls.nothing(unit, newest) if totals is None else totals.renumbered(numbers.astype(np.int64))
                for totals, numbers, newest in parts
            ]
        ).fitted(kept)

    @classmethod
    def merged(cls, parts: Sequence[RowTotals]) -> RowTotals:
        """The totals of all rows of all parts, whose sources have the same numbers."""
        return cls(
            SliceTotals.merged([part.hourly for part in parts]),
            SliceTotals.merged([part.by_source for part in parts]),
            SliceTotals.merged([part.by_class for part in parts]),
        )

    def fitted(self, kept: int) -> RowTotals:
        """The totals as they may stand beside so many kept rows."""
        return RowTotals(self.hourly, **{name: getattr(self, name).fitted(most) for name, most in _room(kept).items()})

    def renumbered(self, numbers: Ints) -> RowTotals:
        """The totals with other numbers for the sources; those below 0 are left out."""
        return RowTotals(self.hourly, self.by_source.renumbered(numbers), self.by_class)

    def without(self, begin: int, end: int, sources: Rows | None) -> RowTotals:
        """The totals without the rows of a stretch of time, of all sources or of some."""
        if sources is None:
            return RowTotals(
                self.hourly.without(begin, end), self.by_source.without(begin, end), self.by_class.without(begin, end)
            )
        gone = self.by_source.together(sources)
        return RowTotals(
            self.hourly.less(gone, begin, end),
            self.by_source.without(begin, end, sources),
            self.by_class.without(begin, end, wholly=False),
        )

    def known(self, sources: Rows | None) -> KnownTotals:
        """What a sample of some sources can lean on, or one of all."""
        if sources is not None:
            return KnownTotals(self.by_source.together(sources), self.hourly)
        return KnownTotals(self.hourly, self.hourly, self.by_class)

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
        for table in (self.hourly, self.by_source, self.by_class):
            table.write(writer)

    @classmethod
    def read(cls, reader: Reader, unit: TimeUnit) -> RowTotals:
        hourly = SliceTotals.read(reader, unit, limits=True)
        return cls(hourly, SliceTotals.read(reader, unit), SliceTotals.read(reader, unit))

    @classmethod
    def read_hourly(cls, reader: Reader, unit: TimeUnit) -> RowTotals:
        """The totals of format 4, which had those of all sources alone, and no values."""
        hourly = SliceTotals.read_rows_and_weights(reader, unit)
        newest = int(hourly.starts[-1] + 1) * hourly.length if len(hourly) else NO_CUT
        other = SliceTotals.nothing(unit, max(newest, hourly.unknown_up_to))
        return cls(hourly, other, other)
