"""What is summed over the rows of a sample under any decay, with the prefix sums that serve them all."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numba import njit

from sketches.arrays import Floats, Ints, Rows


@dataclass(frozen=True)
class Coefficients:
    """What is summed over rows sorted by time: each of `linear` times f, each of `squared` times f²."""

    times: Ints
    linear: Floats  # a row for each sum, a column for each row of the sample
    squared: Floats

    @cached_property
    def prefixes(self) -> tuple[Floats, Floats, Floats, Floats]:
        """Prefix sums of both, plain and multiplied by the time since the first row; they serve every decay."""
        return (*_prefixes(self.times, self.linear), *_prefixes(self.times, self.squared))

    def rows(self, which: Rows) -> Coefficients:
        """Those of some rows. The latest two results, of a part and of the rest, are remembered, because the next
        question often changes only the decay."""
        for known, coefficients in self._latest:
            if known is which:
                return coefficients
        found = Coefficients(self.times[which], self.linear[:, which], self.squared[:, which])
        self._latest[:] = [(which, found), *self._latest[:1]]
        return found

    @cached_property
    def grids(self) -> dict[int, Any]:
        """The grid of values of the latest number of rows a block (`sketches.sampling.value_grid`)."""
        return {}

    @cached_property
    def _latest(self) -> list[tuple[Rows, Coefficients]]:
        return []


@njit(cache=True, nogil=True)
def _prefixes(times: Ints, rows: Floats) -> tuple[Floats, Floats]:
    """Prefix sums that begin with 0, plain and multiplied by the time since the first row.

    The result has a row for each row of the sample, so that what one lookup needs lies together.
    """
    plain = np.zeros((rows.shape[1] + 1, rows.shape[0]))
    moment = np.zeros((rows.shape[1] + 1, rows.shape[0]))
    for row in range(rows.shape[1]):
        offset = np.float64(times[row] - times[0])
        for column in range(rows.shape[0]):
            plain[row + 1, column] = plain[row, column] + rows[column, row]
            moment[row + 1, column] = moment[row, column] + rows[column, row] * offset
    return plain, moment
