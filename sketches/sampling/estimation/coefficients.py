"""What is summed over the rows of a sample under any decay, with the weights of chunks of rows that serve them all."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final

import numpy as np

from sketches.arrays import Floats, Ints, Rows
from sketches.recent import Recent
from sketches.records import dataclass
from sketches.sampling.estimation.time_tree import TimeTree

_LEAF: Final = 64  # rows of a smallest chunk


@dataclass(frozen=True)
class Coefficients:
    """What is summed over rows sorted by time: each of `linear` times f, each of `squared` times f²."""

    times: Ints
    linear: Sequence[Floats]  # for each sum a number of each row of the sample
    squared: Sequence[Floats]

    @cached_property
    def tree(self) -> TimeTree:
        return TimeTree(self.times, _LEAF)

    @cached_property
    def kinds(self) -> tuple[tuple[Sequence[Floats], list[Floats]], tuple[Sequence[Floats], list[Floats]]]:
        """Both, each with its weights in chunks of all sizes, which serve every decay."""
        every = self.tree.weights([*self.linear, *self.squared])
        sums = len(self.linear)
        linear, squared = [of[:, :, :sums] for of in every], [of[:, :, sums:] for of in every]
        return (self.linear, linear), (self.squared, squared)

    @cached_property
    def whole(self) -> Floats:
        """The sums of `linear` without decay."""
        return np.array([column.sum() for column in self.linear])

    def rows(self, which: Rows) -> Coefficients:
        """Those of some rows. The latest two results, of a part and of the rest, are remembered, because the next
        question often changes only the decay."""
        for known, coefficients in self._latest:
            if known is which:
                return coefficients
        linear, squared = ([column[which] for column in kind] for kind in (self.linear, self.squared))
        found = Coefficients(self.times[which], linear, squared)
        self._latest[:] = [(which, found), *self._latest[:1]]
        return found

    @cached_property
    def grids(self) -> Recent[Any]:
        """The grid of values of the latest number of rows a block (`sketches.sampling.estimation.value_grid`)."""
        return Recent(1)

    @cached_property
    def _latest(self) -> list[tuple[Rows, Coefficients]]:
        return []
