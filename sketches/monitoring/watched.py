"""Functions of the sum of all sites' counters that can be watched: what a site sends, the value, its side, the zone.

Two promises. An *estimate* is watched on the counters' middle values: the sites are never on the wrong side of it, and
it errs as the sketch errs. A *certain* one is watched on upper limits: below the threshold by them, the truth is below
it, for collisions only add. Where they are not, the truth may be on either side, or is above it by lower limits with
the probability that the sketch was built for, at a moment.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from enum import StrEnum
from fractions import Fraction
from typing import Final

import numpy as np

from sketches.arrays import Floats
from sketches.monitoring.readings import Readings, Shape
from sketches.monitoring.zones import Balls, Form, HalfSpaces, LargeRows, Linear, Nowhere, Products, SmallRows, Zone
from sketches.records import dataclass

FUNCTIONS: Final = ("self-join", "inner-product", "frequency", "share")
PROMISES: Final = ("estimate", "certain")


class Side(StrEnum):
    """Where a value stands to its threshold."""

    BELOW = "below"
    POSSIBLE = "possible"  # certainty was asked for, and there is none
    ABOVE = "above"  # or at it


class Watched(ABC):
    """A function of the sum of the sites' vectors."""

    @abstractmethod
    def vector(self, readings: Sequence[Readings]) -> Floats:
        """What a site sends of its readings, of two streams for an inner product."""

    @abstractmethod
    def value(self, total: Floats) -> float:
        """The function of a sum of vectors."""

    @abstractmethod
    def zone(self, total: Floats, threshold: float) -> tuple[Side, Zone]:
        """On which side a sum of vectors is, and a zone of that side around it."""


@dataclass(frozen=True)
class Join(Watched):
    """Self-join size, or inner product of two streams (`sides` = 2).

    The estimate is the middle one of the centred rows, for an even number of them the larger of the two: some fixed
    majority of rows on one side keeps it there. Certain is the least row of upper limits. One row is common to all
    sites: each choosing its own least row would be wrong.
    """

    shape: Shape
    sides: int = 1
    certain: bool = False

    @property
    def form(self) -> Form:
        return Form(self.shape.width, centred=not self.certain)

    def vector(self, readings: Sequence[Readings]) -> Floats:
        return np.concatenate([(one.upper if self.certain else one.value).reshape(-1) for one in readings])

    def squares(self, total: Floats) -> Floats:
        """The value of each row."""
        pair = self._pair(total)
        return np.asarray(self.form.product(pair[..., 0, :, :], pair[..., -1, :, :]) / self.form.scale)

    def value(self, total: Floats) -> float:
        rows = np.sort(self.squares(total))
        return float(rows[0] if self.certain else rows[len(rows) // 2])

    def zone(self, total: Floats, threshold: float) -> tuple[Side, Zone]:
        order = np.argsort(self.squares(total), kind="stable")
        below = self.value(total) < threshold
        if self.certain and not below:
            return Side.POSSIBLE, Nowhere()
        count = len(order)
        majority = order[: count // 2 + 1] if below else order[count // 2 :]
        rows = order[:1] if self.certain else majority
        chosen = self._pair(total)[:, rows, :]
        side = Side.BELOW if below else Side.ABOVE
        if self.sides == 2:
            return side, Products(self.form, rows, threshold, chosen, below)
        if below:
            return side, SmallRows(self.form, rows, threshold)
        return side, LargeRows(self.form, rows, threshold, chosen[0])

    def balls(self, total: Floats, threshold: float) -> Balls:
        """The zone of the ball test, for comparison: of the least row of a self-join, as its extrema are known."""
        least = Join(self.shape, certain=True)

        def bounds(centre: Floats, radius: Floats) -> tuple[Floats, Floats]:
            norms = np.sqrt(least.squares(centre))
            low, high = np.maximum(norms - radius[..., None], 0.0), norms + radius[..., None]
            return (low**2).min(axis=-1), (high**2).min(axis=-1)

        return Balls(total, threshold, least.value(total) < threshold, bounds)

    def _pair(self, total: Floats) -> Floats:
        return total.reshape(*total.shape[:-1], self.sides, self.shape.rows, self.shape.width)


@dataclass(frozen=True)
class Occurrences(Watched):
    """How often one key came, or its share of all arrivals: linear in a few counters, so that zones are half-spaces.

    A vector is the key's counter of each row and what all arrivals weigh; certain, these as upper and lower limits.
    A share of nothing is 0, and so below every threshold.
    """

    shape: Shape
    share: bool = False
    certain: bool = False

    def vector(self, readings: Sequence[Readings]) -> Floats:
        (one,) = readings
        if not self.certain:
            return np.append(one.value[:, 0], one.totals[1])
        return np.concatenate((one.upper[:, 0], one.lower[:, 0], one.totals[[0, 2]]))

    def value(self, total: Floats) -> float:
        counted = float(total[: self.shape.rows].min())
        whole = float(total[-2 if self.certain else -1])
        if not self.share:
            return counted
        return counted / whole if whole else float(counted > 0)

    def zone(self, total: Floats, threshold: float) -> tuple[Side, Zone]:
        below, above = self._below(total, threshold), self._above(total, threshold)
        if below.contains(total):
            return Side.BELOW, below
        if above.contains(total):
            return Side.ABOVE, above
        return Side.POSSIBLE, Nowhere()

    def _below(self, total: Floats, threshold: float) -> HalfSpaces:
        """The key's least counter is below: one row that all sites have in common."""
        row = int(np.argmin(total[: self.shape.rows]))
        if not self.share:
            return HalfSpaces((Linear(((row, Fraction(-1)),), -as_written(threshold), strict=True),))
        whole = len(total) - (2 if self.certain else 1)
        under = Linear(((whole, as_written(threshold)), (row, Fraction(-1))), Fraction(0), strict=True)
        return HalfSpaces((under,), nothing=True)

    def _above(self, total: Floats, threshold: float) -> HalfSpaces:
        """Every counter of the key is above, also less what may collide with it where that must be sure."""
        whole, first = len(total) - 1, self.shape.rows if self.certain else 0
        rows = range(first, first + self.shape.rows)
        colliding = Fraction(self.shape.collisions) if self.certain else Fraction(0)
        if not self.share:
            least = as_written(threshold)
            return HalfSpaces(tuple(Linear(((row, Fraction(1)), (whole, -colliding)), least) for row in rows))
        part = as_written(threshold) + colliding
        over = [Linear(((row, Fraction(1)), (whole, -part)), Fraction(0)) for row in rows]
        some = [Linear(((row, Fraction(1)),), Fraction(0), strict=True) for row in rows]  # nothing is no share
        return HalfSpaces((*over, *some))


def as_written(threshold: float) -> Fraction:
    """A threshold as people write it: 0.1 is a tenth, whatever it is in binary.

    >>> as_written(0.1), as_written(2e-7)
    (Fraction(1, 10), Fraction(1, 5000000))
    """
    return Fraction(repr(float(threshold)))


def watched_of(function: str, promise: str, shape: Shape) -> Watched:
    """The function by its name, with one of the two promises."""
    certain = promise == "certain"
    if function in ("self-join", "inner-product"):
        return Join(shape, 2 if function == "inner-product" else 1, certain)
    return Occurrences(shape, function == "share", certain)
