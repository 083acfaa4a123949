"""The exact totals that a sample of some sources can lean on, and what is known of repeats."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from sketches.arrays import Floats, Ints
from sketches.fields import FieldColumn
from sketches.predicate import Predicate, values_of
from sketches.sampling.totals.field_totals import FieldTotals
from sketches.sampling.totals.slice_totals import ROWS, SliceTotals


class KnownTotals(NamedTuple):
    """Totals of all rows of the events that a sample is of: by slice, by class of value and slice, by value of a field
    and slice.

    `hourly` are those of all sources, whatever the sample is of: their least and greatest values hold for each source.
    """

    slices: SliceTotals
    hourly: SliceTotals
    classes: SliceTotals | None = None
    fields: Mapping[str, FieldTotals] = MappingProxyType({})
    unique: bool = False  # no row repeats
    of_field: bool = False  # of some values of a field, in which copies of an event may differ

    def where(self, predicate: Predicate) -> KnownTotals | None:
        """Those of the events that satisfy a predicate on one field alone, of which they are known."""
        found = self.fields.get(next(iter(predicate.columns), "")) if len(predicate.columns) == 1 else None
        if found is None or not len(found.values):
            return None
        inside = predicate.holds(lambda _: values_of(found.values))
        return self._of(found.slices.together(np.flatnonzero(inside)))

    def by(self, name: str, values: FieldColumn) -> KnownTotals | None:
        """Those of each value of a field that is among these, by its number there."""
        found = self.fields.get(name)
        if found is None or not len(found.values):
            return None
        place = {value: number for number, value in enumerate(values.to_list())}
        numbers = [place.get(value, -1) for value in found.values.to_list()]
        return self._of(found.slices.renumbered(np.array(numbers, np.int64)))

    def _of(self, slices: SliceTotals) -> KnownTotals:
        return KnownTotals(slices, self.hourly, unique=self.unique, of_field=True)

    def largest_between(self, edges: Ints, base: float, least: float, greatest: float) -> Floats:
        """How far from a base values may be from each edge to the next; what all values lie between is given."""
        everywhere = max(abs(least - base), abs(greatest - base))
        found = np.full(len(edges), everywhere)
        hours, limits = self.hourly, self.hourly.limits
        if limits is None or not len(hours) or len(edges) < 2:
            return found
        away = np.where(hours.sums[:, ROWS] > 0.0, np.abs(limits - base).max(axis=1), everywhere)
        begins, ends, _, unknown_up_to = hours.slices()
        first = np.searchsorted(ends, edges[:-1], side="right")
        last = np.searchsorted(begins, edges[1:], side="left")
        pairs = np.stack([first, np.maximum(last, first)], axis=1).ravel()
        most = np.maximum.reduceat(np.append(away, 0.0), pairs)[::2]
        known = edges[:-1] > unknown_up_to
        found[:-1] = np.where(known, np.where(last > first, np.minimum(most, everywhere), 0.0), everywhere)
        return found
