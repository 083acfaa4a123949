"""The exact totals that a sample of some sources can lean on, and what is known of repeats."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sketches.arrays import Floats, Ints
from sketches.sampling.totals.slice_totals import ROWS, SliceTotals


class KnownTotals(NamedTuple):
    """Totals of all rows of the events that a sample is of: by slice, and by class of value and slice.

    `hourly` are those of all sources, whatever the sample is of: their least and greatest values hold for each source.
    """

    slices: SliceTotals
    hourly: SliceTotals
    classes: SliceTotals | None = None
    unique: bool = False  # no row repeats

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
