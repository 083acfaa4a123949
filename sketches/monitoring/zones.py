"""Safe zones: where a site's drift may be without a word.

Every zone but the ball test is convex. So if the drifts of all sites lie in it, their mean does, and the mean of the
drifts is the sum of what all sites hold now. `contains` takes one drift or many, along the last axis, and compares in
numbers that are exact for sums of halves, or with a margin of 1e-12 to the safe side.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Final

import numpy as np

from sketches.arrays import Flags, Floats, Ints
from sketches.records import dataclass

MARGIN: Final = 1e-12
_EXACTLY: Final = np.frompyfunc(Fraction, 1, 1)
Bounds = Callable[[Floats, Floats], tuple[Floats, Floats]]  # of centres and radii of balls: least and greatest value


class Zone(ABC):
    """A set of vectors; sites whose drifts are inside need not speak."""

    @abstractmethod
    def contains(self, drift: Floats) -> Any:
        """Whether a drift is inside; of many, whether each is."""


class Nowhere(Zone):
    """No vector is inside: every site speaks at every check, which is periodic sending."""

    def contains(self, drift: Floats) -> Any:
        return np.zeros(drift.shape[:-1], np.bool_)[()]


@dataclass(frozen=True)
class Linear:
    """A sum of some numbers of a vector, each by its place and factor, and the least that it must be, or be above."""

    terms: tuple[tuple[int, Fraction], ...]
    least: Fraction
    strict: bool = False

    def holds(self, drift: Floats) -> Flags:
        """For each drift; in fractions where rounding could decide."""
        least = float(self.least)
        parts = [drift[..., place] * float(factor) for place, factor in self.terms]
        over = np.atleast_1d(sum(parts) - least)
        inside: Flags = over > 0
        unsure = np.abs(over) <= MARGIN * np.atleast_1d(sum(map(np.abs, parts)) + abs(least))
        if unsure.any():
            few = np.atleast_2d(drift)[unsure] if drift.ndim > 1 else drift[None]
            found = sum(_EXACTLY(few[:, place]) * factor for place, factor in self.terms)
            inside[unsure] = found > self.least if self.strict else found >= self.least
        return inside.reshape(drift.shape[:-1])


@dataclass(frozen=True)
class HalfSpaces(Zone):
    """Where a few linear functions are as large as they must be, to the last digit.

    `nothing`: besides, where all numbers that they name are 0. That point lies on the edge, so the set stays convex.
    """

    functions: tuple[Linear, ...]
    nothing: bool = False

    def contains(self, drift: Floats) -> Any:
        inside: Flags = np.logical_and.reduce([one.holds(drift) for one in self.functions])
        if self.nothing:
            named = sorted({place for one in self.functions for place, _ in one.terms})
            inside = inside | (drift[..., named] == 0).all(axis=-1)
        return inside[()]


@dataclass(frozen=True)
class Form:
    """The square of a row of counters: Σ x², or centred (w·Σ x² - (Σ x)²)/(w - 1), which collisions do not raise.

    `square` and `product` are `scale` times that, so that whole numbers stay whole.
    """

    width: int
    centred: bool

    @property
    def scale(self) -> float:
        return self.width - 1.0 if self.centred else 1.0

    def square(self, one: Floats) -> Floats:
        return self.product(one, one)

    def product(self, one: Floats, other: Floats) -> Floats:
        found = np.asarray((one * other).sum(axis=-1))
        return self.width * found - one.sum(axis=-1) * other.sum(axis=-1) if self.centred else found


@dataclass(frozen=True)
class SmallRows(Zone):
    """Where some rows have a square below the threshold: a ball around 0 in each of them."""

    form: Form
    rows: Ints
    threshold: float

    def contains(self, drift: Floats) -> Any:
        found = self.form.square(_rows(drift, self.form, 1)[..., 0, self.rows, :])
        return (found < self.threshold * self.form.scale).all(axis=-1)


@dataclass(frozen=True)
class LargeRows(Zone):
    """Where some rows lie beyond the plane that touches the ball of the threshold, in the direction of the estimate."""

    form: Form
    rows: Ints
    threshold: float
    estimate: Floats  # the chosen rows

    def contains(self, drift: Floats) -> Any:
        row = _rows(drift, self.form, 1)[..., 0, self.rows, :]
        reach = np.sqrt(self.form.square(self.estimate) * self.threshold * self.form.scale)
        return (self.form.product(row, self.estimate) >= reach * (1.0 + MARGIN)).all(axis=-1)


@dataclass(frozen=True)
class Products(Zone):
    """Where products a·b of rows stay on one side: 4·a·b = ‖a + b‖² - ‖a - b‖², of which the square that would make the
    set hollow is replaced by its tangent at the estimate, which is never above it."""

    form: Form
    rows: Ints
    threshold: float
    estimate: Floats  # both sides' chosen rows
    below: bool

    def contains(self, drift: Floats) -> Any:
        pair = _rows(drift, self.form, 2)[..., self.rows, :]
        plus, minus = pair[..., 0, :, :] + pair[..., 1, :, :], pair[..., 0, :, :] - pair[..., 1, :, :]
        sign = -1.0 if self.below else 1.0
        there = self.estimate[0] + sign * self.estimate[1]
        flat, bent = (minus, plus) if self.below else (plus, minus)
        tangent = 2.0 * self.form.product(there, flat) - self.form.square(there)
        square = self.form.square(bent)
        limit = 4.0 * self.threshold * self.form.scale
        slack = MARGIN * (square + np.abs(tangent))
        inside = square - tangent < limit - slack if self.below else tangent - square >= limit + slack
        return inside.all(axis=-1)


@dataclass(frozen=True)
class Balls(Zone):
    """The test of Sharfman, Schuster and Keren: the ball that has estimate and drift at its ends is on one side.

    For any function that has bounds over a ball. It is not convex; the balls of all sites cover the hull of their
    drifts, in which the mean lies.
    """

    estimate: Floats
    threshold: float
    below: bool
    bounds: Bounds

    def contains(self, drift: Floats) -> Any:
        radius = np.sqrt(((drift - self.estimate) ** 2).sum(axis=-1)) / 2.0
        least, most = self.bounds((drift + self.estimate) / 2.0, radius * (1.0 + MARGIN))
        return most < self.threshold if self.below else least >= self.threshold


def _rows(drift: Floats, form: Form, sides: int) -> Floats:
    return drift.reshape(*drift.shape[:-1], sides, -1, form.width)
