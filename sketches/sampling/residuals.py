"""What is left to estimate beside exact totals: Σ (y·f - g·z)/π over kept events, and the variance of that.

f is the decay at an event's age, g a step function of time, z/π what an event has in the totals. There are two ways:

- `residuals_by_row`, for few as-of times: f and g of every row in reach.
- `residuals_by_cell`, for many: time is cut into cells in which f is a parabola but for next to nothing, and g is
  constant. Each cell's part follows from sums over the newer rows, which serve every decay. No as-of time is looped
  over.

Several quantities y with their z may be asked together (numerator and denominator of a mean), with their covariances.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from sketches.arrays import Floats, Ints
from sketches.decay import Decay
from sketches.units import TimeUnit

_ROUNDING: Final = 4e-16  # of a sum, for each square root of its terms
_LINEAR: Final = 4  # columns of `LeanRows.newer` for each quantity
_PAIRS: Final = {1: ((0, 0),), 2: ((0, 0), (0, 1), (1, 1))}  # whose covariances are computed


class Steps(NamedTuple):
    """A step function g of time for each as-of time: step i begins at `begins[i]` and ends before `ends[i]`.

    Steps of one as-of time, `at[i]` by number, stand one after the other, in the order of time and without a gap.
    """

    at: Ints
    begins: Ints
    ends: Ints
    heights: Floats

    def of(self, times: Ints) -> Steps:
        """Those of some as-of times, whose numbers ascend; they are numbered anew."""
        which = np.isin(self.at, times)
        at = np.searchsorted(times, self.at[which])
        return Steps(at, self.begins[which], self.ends[which], self.heights[which])


class Residuals(NamedTuple):
    """For each as-of time (first axis): Σ (y·f - g·z)/π, Σ y·f/π, covariances by pairs, what rounding may be off."""

    sums: Floats
    decayed: Floats
    covariances: Floats
    rounding: Floats


def added_by(at: Ints, amounts: Floats, times: int) -> Floats:
    """The sum of the amounts of each as-of time, which are given by number."""
    return np.bincount(at, amounts, times).astype(np.float64, copy=False)


@dataclass(frozen=True)
class LeanRows:
    """Kept events sorted by time: y/π and z/π, with an axis of quantities first, and 1 - π."""

    times: Ints
    asked: Floats  # y/π
    counted: Floats  # z/π
    exclusion: Floats

    @property
    def quantities(self) -> int:
        return len(self.asked)

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        return _PAIRS[self.quantities]

    @cached_property
    def alike(self) -> bool:
        """Whether y = z, as where no row repeats and nothing restricts."""
        return self.counted is self.asked or np.array_equal(self.asked, self.counted)

    @cached_property
    def since(self) -> Floats:
        """How much older than the newest event each is, with one more entry for what is newer than all."""
        return (self.times[-1:] - self.times).astype(np.float64)

    @cached_property
    def newer(self) -> Floats:
        """Sums over the rows from each on, with nothing behind the last: of y, y·age, y·age² and z for each quantity,
        of what their squares and products are made of for each pair.

        They begin with the newest, which are sampled the most densely: so what is small is not lost beside what is
        large.
        """
        since = self.since
        columns = []
        for number in range(self.quantities):
            asked = self.asked[number]
            columns += [asked, asked * since, asked * np.square(since), self.counted[number]]
        for one, other in self.pairs:
            both = self.asked[one] * self.asked[other] * self.exclusion
            columns += [both, both * since, both * np.square(since)]
            if not self.alike:
                mixed = (self.asked[one] * self.counted[other] + self.counted[one] * self.asked[other]) / 2.0
                mixed = mixed * self.exclusion
                columns += [mixed, mixed * since, self.counted[one] * self.counted[other] * self.exclusion]
        found = np.zeros((len(columns), len(self.times) + 1))
        for sums, column in zip(found, columns, strict=True):
            np.cumsum(column[::-1], out=sums[-2::-1])
        return found


def residuals_by_row(rows: LeanRows, steps: Steps, as_of: Ints, decay: Decay, unit: TimeUnit) -> Residuals:
    """From f and g of every row."""
    found = _nothing(rows, len(as_of))
    edges = np.searchsorted(steps.at, np.arange(len(as_of) + 1))
    for at, moment in enumerate(as_of.tolist()):
        first, last = edges[at : at + 2]
        if first == last:
            continue
        bounds = np.searchsorted(rows.times, np.append(steps.begins[first:last], steps.ends[last - 1]))
        chosen = slice(int(bounds[0]), int(bounds[-1]))
        ages = moment - rows.times[chosen]
        factors = np.where(ages >= 0, decay(unit.seconds(np.maximum(ages, 0))), 0.0)
        heights = np.repeat(steps.heights[first:last], np.diff(bounds))
        decayed = rows.asked[:, chosen] * factors
        left = decayed - rows.counted[:, chosen] * heights
        found.sums[at], found.decayed[at] = left.sum(axis=1), decayed.sum(axis=1)
        spread = left * rows.exclusion[chosen]
        # not by @: its threads would wait for cores that are busy
        found.covariances[at] = [np.einsum("i,i->", spread[one], left[other]) for one, other in rows.pairs]
    return found


def _nothing(rows: LeanRows, times: int) -> Residuals:
    shape = times, rows.quantities
    return Residuals(np.zeros(shape), np.zeros(shape), np.zeros((times, len(rows.pairs))), np.zeros(shape))


class Parabolas(NamedTuple):
    """The ages between which f is a parabola but for a relative error; the last is where f ends."""

    edges: Ints
    relative_error: float


class _Cells(NamedTuple):
    """Stretches of time in which f is a parabola and g constant, in the order of as-of times and ages."""

    at: Ints  # the number of the as-of time
    older: Ints  # rows are those from here
    newer: Ints  # to before here
    middle: Floats  # how much older than the newest event the middle is
    half: Floats  # half of the length
    factor: Floats  # f in the middle
    slope: Floats  # of f there, for each unit of age
    bend: Floats  # what f adds to its tangent, for each square of that
    height: Floats  # g


def residuals_by_cell(
    rows: LeanRows, steps: Steps, as_of: Ints, pieces: Parabolas, decay: Decay, unit: TimeUnit
) -> Residuals:
    """From sums over newer rows, at the edges of cells."""
    cells = _cells(rows, steps, as_of, pieces.edges, decay, unit)
    found = _nothing(rows, len(as_of))
    terms = _ROUNDING * np.sqrt(len(rows.times) + 1.0)
    steepness = np.abs(cells.slope * cells.middle) + cells.bend * np.square(cells.middle) + cells.factor + cells.height

    def added(column: Floats) -> Floats:
        return added_by(cells.at, column, len(as_of))

    def held(first: int, columns: int) -> list[Floats]:
        """Some columns of `newer`, of the rows of each cell."""
        return [sums[cells.older] - sums[cells.newer] for sums in rows.newer[first : first + columns]]

    for number in range(rows.quantities):
        mass, moment, square, counted = held(_LINEAR * number, _LINEAR)
        first, second = _about_middle(cells, mass, moment), _square_about_middle(cells, mass, moment, square)
        decayed = cells.factor * mass + cells.slope * first + cells.bend * second
        found.decayed[:, number] = added(decayed)
        found.sums[:, number] = added(decayed - cells.height * counted)
        lost = steepness * np.abs(rows.newer[_LINEAR * number][cells.older])
        found.rounding[:, number] = terms * np.sqrt(added(np.square(lost)))
    width = 3 if rows.alike else 6
    for number, (one, other) in enumerate(rows.pairs):
        spread = added(_spread(cells, held(_LINEAR * rows.quantities + width * number, width)))
        found.covariances[:, number] = np.maximum(spread, 0.0) if one == other else spread  # rounding may be below 0
    return found


def _about_middle(cells: _Cells, mass: Floats, moment: Floats) -> Floats:
    """The moment about the middle of each cell, which rounding does not bring beyond its ends."""
    most = cells.half * np.abs(mass)
    return np.clip(moment - cells.middle * mass, -most, most)


def _square_about_middle(cells: _Cells, mass: Floats, moment: Floats, square: Floats) -> Floats:
    second = square - 2.0 * cells.middle * moment + np.square(cells.middle) * mass
    most = np.square(cells.half) * np.abs(mass)
    return np.clip(second, -most, most)


def _spread(cells: _Cells, held: list[Floats]) -> Floats:
    """Σ (y·f - g·z)² of each cell, or of two quantities the product, about the cell's middle; the
    square of how far f bends is left out."""
    mass, moment, square = held[:3]
    first = _about_middle(cells, mass, moment)
    second = _square_about_middle(cells, mass, moment, square)
    slope = cells.slope
    if len(held) == 3:
        above = cells.factor - cells.height
        return np.square(above) * mass + 2.0 * above * (slope * first + cells.bend * second) + np.square(slope) * second
    mixed, mixed_moment, counted = held[3:]
    mixed_first = _about_middle(cells, mixed, mixed_moment)
    bent = slope * first + cells.bend * second
    decayed = np.square(cells.factor) * mass + 2.0 * cells.factor * bent + np.square(slope) * second
    bent = slope * mixed_first + cells.bend * np.square(cells.half) / 3.0 * mixed
    leaning = cells.height * (cells.factor * mixed + bent)
    return decayed - 2.0 * leaning + np.square(cells.height) * counted


def fits_cells(steps: Steps, times: int) -> bool:
    """Whether the edges of all as-of times have numbers of their own."""
    return (times + 1) * (int(steps.ends.max(initial=0)) - int(steps.begins.min(initial=0)) + 2) < 1 << 62


def _cells(rows: LeanRows, steps: Steps, as_of: Ints, edges: Ints, decay: Decay, unit: TimeUnit) -> _Cells:
    """Cut the steps of each as-of time where the pieces of f begin; cells in which no row lies are left out."""
    low, high = int(steps.begins.min()), int(steps.ends.max())
    span = high - low + 1
    begin_keys = steps.at * span + (steps.begins - low)
    pieces = as_of[:, None] - edges[None, :] + 1  # what is before these times is as old as a piece, or older
    first = np.searchsorted(steps.at, np.arange(len(as_of)))
    last = np.searchsorted(steps.at, np.arange(len(as_of)), side="right") - 1
    there = last >= first
    oldest = np.where(there, steps.begins[np.minimum(first, len(steps.at) - 1)], high)
    newest = np.where(there, steps.ends[last], low)
    at, piece = np.nonzero((pieces > oldest[:, None]) & (pieces < newest[:, None]))
    piece_keys = at * span + (pieces[at, piece] - low)
    end_keys = np.flatnonzero(there) * span + (newest[there] - low)
    keys = np.sort(np.concatenate([begin_keys, piece_keys, end_keys]), kind="stable")  # a few runs in order
    number = keys // span
    times = keys - number * span + low
    rows_before = np.searchsorted(rows.times, times)
    used = np.flatnonzero((number[1:] == number[:-1]) & (rows_before[1:] > rows_before[:-1]))
    at, begins, ends = number[used], times[used], times[used + 1]
    youngest, oldest_age = as_of[at] - (ends - 1), as_of[at] - begins
    half = (oldest_age - youngest) / 2.0
    counts = (youngest >= 0) & (oldest_age < edges[-1])

    def f(ages: Floats) -> Floats:
        return np.where(counts, decay(unit.seconds(np.maximum(ages, 0.0))), 0.0)

    newer, factor, older = f(youngest.astype(np.float64)), f(youngest + half), f(oldest_age.astype(np.float64))
    width = np.maximum(half, 0.5)
    slope, bend = (older - newer) / (2.0 * width), (older + newer - 2.0 * factor) / (2.0 * np.square(width))
    step = np.searchsorted(begin_keys, keys[used], side="right") - 1
    middle = rows.times[-1] - (ends - 1) + half
    return _Cells(at, rows_before[used], rows_before[used + 1], middle, half, factor, slope, bend, steps.heights[step])
