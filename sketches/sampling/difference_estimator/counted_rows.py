"""What the exact totals of rows alone say of a sum, where too few events were sampled for it to lean on them.

Each event came in one row at least, with its weight and, where totals are of a value of a field, with that value. So
what is added up of events is never more than what was counted of rows; where no row came, it is nothing. Where no row
repeats, it is no less either. Both hold always, so an interval that is cut by them covers as often as before.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from sketches.arrays import Flags, Floats
from sketches.sampling.estimation.inquiry import Estimates, Inquiry
from sketches.sampling.inclusion.ladder import NO_CUT
from sketches.sampling.totals.slice_totals import ROWS, VALUE

_ROUNDING = 1e-12
_AT_ONCE = 1 << 20  # times and slices together


class Counted(NamedTuple):
    """At each as-of time the least and the most that a sum can be, and the sum where no row repeats and where what
    came within a slice is spread evenly."""

    least: Floats
    most: Floats
    even: Floats

    def cut(self, found: Estimates, which: Flags, better: Floats | None = None) -> Estimates:
        """An answer with its interval within these limits at some times; `better` is the answer that leans on them."""
        middle = self.even if better is None else better
        known = which & np.isfinite(self.most)
        slack = _ROUNDING * np.where(known, self.most, 0.0) * (self.least < self.most)
        low, high = np.maximum(self.least - slack, 0.0), self.most + slack
        lower = np.where(known, np.clip(found.lower, low, high), found.lower)
        upper = np.where(known, np.clip(found.upper, lower, high), found.upper)
        value = np.where(known, np.clip(middle, lower, upper), found.value)
        return replace(found, value=value, lower=lower, upper=upper)


def counted_rows(inquiry: Inquiry, column: int) -> Counted | None:
    """Of the rows, their weights or their values; None where no totals of just these events are known.

    The most is infinite where rows came that were not counted.
    """
    known, sample = inquiry.sample.totals, inquiry.sample
    if known is None or len(np.unique(known.slices.groups)) > 1:
        return None
    if column == VALUE and not sample.least_value >= 0.0:
        return None
    begins, ends, sums, unknown_up_to = known.slices.slices()
    mass = np.where(sums[:, ROWS] > 0.0, sums[:, column], np.nan)
    found = np.zeros((3, len(inquiry.as_of)))
    step = max(1, _AT_ONCE // max(len(begins), 1))
    for start in range(0, len(inquiry.as_of), step):
        some = slice(start, start + step)
        as_of = inquiry.as_of[some, None]

        def f(times: Floats) -> Floats:
            ages = as_of - times  # noqa: B023 - used at once
            return np.where(ages >= 0, inquiry.decay(sample.unit.seconds(np.maximum(ages, 0))), 0.0)

        newest = np.where(begins <= as_of, f(np.minimum(ends - 1, as_of)), 0.0)
        oldest = np.where(ends - 1 <= as_of, f(np.broadcast_to(begins, newest.shape)), 0.0)
        for row, factors in enumerate((oldest, newest, (newest + oldest) / 2.0)):
            found[row, some] = np.where(factors > 0.0, factors * mass, 0.0).sum(axis=1)
        if unknown_up_to != NO_CUT:
            uncounted = f(np.minimum(as_of, unknown_up_to))[:, 0] > 0.0
            found[1, some] = np.where(uncounted, np.nan, found[1, some])
    least, most, even = found
    if not known.unique:
        least = np.zeros_like(least)
    if sample.counts_rows and not known.unique:
        most = np.where(most == 0.0, 0.0, np.nan)  # copies that differ in a field are not all among its rows
    unknown = np.isnan(most)
    return Counted(np.where(unknown, 0.0, least), np.where(unknown, np.inf, most), np.where(unknown, 0.0, even))
