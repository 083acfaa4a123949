"""The rows of a sample that count at each of some as-of times, each once for every time at which it does.

For what is no sum of one column over rows times f, so that no weights of chunks of rows serve it: all as-of times are
looked at together, with f of each row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sketches.arrays import Floats, Ints, Rows, ranges
from sketches.sampling.estimation.inquiry import Inquiry
from sketches.sampling.estimation.poisson_sample import PoissonSample
from sketches.sampling.estimation.time_tree import rows_that_count


class CountingRows(NamedTuple):
    """Numbers of rows in the order of as-of times, the number of the as-of time of each, and f."""

    rows: Rows
    at: Rows
    factors: Floats
    used: Ints  # how many there are at each as-of time

    @classmethod
    def of(cls, sample: PoissonSample, inquiry: Inquiry, some: Rows | None = None) -> CountingRows:
        """Those of all rows, or of some in the order of time; the numbers are then among these."""
        times = sample.times if some is None else sample.times[some]
        first, last = rows_that_count(times, sample.unit, inquiry.decay, inquiry.as_of)
        rows, at = ranges(first, last)
        return cls(rows, at, inquiry.decay(sample.unit.seconds(inquiry.as_of[at] - times[rows])), last - first)

    def added(self, column: Floats) -> Floats:
        """The sum of a column at each as-of time."""
        return np.bincount(self.at, column, len(self.used)).astype(np.float64)

    def sums(self, columns: Sequence[Floats]) -> Floats:
        """The sums of several columns at each as-of time (first axis)."""
        return np.stack([self.added(one) for one in columns], axis=1)

    def largest(self, column: Floats) -> Floats:
        """The largest number of a column at each as-of time; 0 where none is positive."""
        found = np.zeros(len(self.used))
        some = self.used > 0
        if some.any():
            starts = np.cumsum(self.used) - self.used
            found[some] = np.maximum.reduceat(column, starts[some])
        return np.maximum(found, 0.0)


def span(sample: PoissonSample, inquiry: Inquiry) -> slice:
    """The rows that count at some as-of time, and those between them."""
    first, last = rows_that_count(sample.times, sample.unit, inquiry.decay, inquiry.as_of)
    return slice(int(first.min(initial=len(sample))), int(last.max(initial=0)))
