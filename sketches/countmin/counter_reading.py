"""The counters of `ecm` sketches as one question reads them at one moment, and what collides with a value there.

A value weighs at most the least of its counters. What the others add to a counter of its is what a counter of that row
holds that was drawn at random, because the place of a value does not depend on those of the others. So if K_j of the w
counters of row j hold more than t, all rows of a value are that full with probability Π K_j / w at most, which is how
much collides with it read off the rows themselves. Markov's inequality, of which paper E makes its Theorem 1, says the
same of a row of which only the sum is known: a t that is never smaller.
"""

from __future__ import annotations

from dataclasses import field
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sketches.arrays import Floats, Limits, Words
from sketches.countmin.counter_contents import CounterContents
from sketches.question import Question
from sketches.records import dataclass

Bounds = tuple[float, float, float]  # value, lower, upper
_AT_LEAST: Final = 2  # values as which one counts: its bound is as sharp as chance allows, and a hash is not chance


@dataclass(frozen=True)
class CounterReading:
    """Levels are read once. Where not `every` counter is read, those of the values are, and Markov bounds the rest."""

    contents: CounterContents
    question: Question
    moment: int
    every: bool = True
    _levels: dict[int, Limits] = field(default_factory=dict, repr=False)

    @cached_property
    def total(self) -> Bounds:
        """What all arrivals weigh."""
        value, lower, upper = self.contents.total(self.question, np.array([self.moment], np.int64))
        return float(value[0]), float(lower[0]), float(upper[0])

    @property
    def past(self) -> bool:
        """Whether events came after the moment."""
        newest = self.contents.extremes.newest
        return newest is not None and self.moment < newest

    def level(self, level: int) -> Limits:
        """What every counter of a level holds: rows by width."""
        if level not in self._levels:
            parameters = self.contents.parameters
            cells = np.arange(parameters.rows * parameters.width) + level * parameters.rows * parameters.width
            self._levels[level] = self._read(cells, (parameters.rows, parameters.width))
        return self._levels[level]

    def masses(self, codes: Words, level: int = 0, *, together: int = 1) -> Limits:
        """What codes weigh: at most the least of their counters, and that less what may collide with them.

        Each lower limit holds but with probability δ / `together`: so many values that were named before the sketch was
        drawn are above theirs all at once.
        """
        parameters = self.contents.parameters
        cells = self.contents.cells_of(codes, level)
        if self.every:
            places = cells - level * parameters.rows * parameters.width
            value, lower, upper = (limit.reshape(-1)[places].min(axis=1) for limit in self.level(level))
            excess = collided(self.level(level)[2], parameters.sketch_delta / max(together, _AT_LEAST))
        else:
            distinct, inverse = np.unique(cells, return_inverse=True)
            read = self._read(distinct, distinct.shape)
            value, lower, upper = (limit[inverse].reshape(cells.shape).min(axis=1) for limit in read)
            excess = parameters.excess(together) * self.total[2]
        return value, np.maximum(lower - excess, 0.0), upper

    def greatest(self, codes: Words, lower: Floats) -> float:
        """What any value can weigh but these codes, which weigh so much at least: no row has a counter with more."""
        left = self.level(0)[2].copy()
        np.subtract.at(left.reshape(-1), self.contents.cells_of(codes, 0), lower[:, None])
        return max(float(left.max(axis=1).min()), 0.0)

    def _read(self, cells: NDArray[np.intp], shape: tuple[int, ...]) -> Limits:
        moments = np.array([self.moment], np.int64)
        value, lower, upper = self.contents.contents_of(self.question, moments, cells)
        return value.reshape(shape), lower.reshape(shape), upper.reshape(shape)


def collided(held: Floats, chance: float) -> float:
    """What all rows of a value hold besides it, but with this chance; `held` is what they hold, rows by width.

    >>> collided(np.array([[9.0, 4.0, 3.0, 0.0], [7.0, 6.0, 1.0, 0.0]]), 0.25)
    3.0
    """
    rows, width = held.shape
    order = np.argsort(-held, axis=None, kind="stable")
    above = np.cumsum(order // width == np.arange(rows)[:, None], axis=1)  # in each row, with the counter itself
    few = int(np.count_nonzero(np.prod(above / width, axis=0) <= chance))
    return float(held.reshape(-1)[order[min(few, len(order) - 1)]])
