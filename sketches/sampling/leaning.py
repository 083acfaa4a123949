"""Sums, counts and means that lean on exact totals of slices of time (`sketches.sampling.row_totals`).

Ingest has counted the rows of every slice, and what they weigh. With X the total of a slice, m how often a kept event
came, x what the totals are of, y what is asked of it and g a mean of the decay over the slice, fixed beforehand:

    Σ over slices β·g·X  +  Σ over kept events (y·f - β·g·m·x)/π

is unbiased whatever β is. Only how far f is from its mean, and which events repeat, is left to the sample, and the
variance is of that. Where f hardly changes within a slice and no row repeats, hardly anything is left to be estimated.
β is 1 where no kept event came twice, and else found by regression. Under a range of values, totals by classes of
values are used: β is 1 in the classes inside the range, 0 in those outside, and a share that is fixed beforehand in
those that the range cuts.

What is left has both signs. Its interval is a gamma interval that is as skewed as the largest residual allows, with the
most that an unseen event could have left (`sketches.sampling.quotients.deviation`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from sketches.arrays import Flags, Floats, Ints, Limits, distinct_sorted
from sketches.decay import Decay
from sketches.events import Kind
from sketches.predicate import Range
from sketches.sampling.intervals import Total
from sketches.sampling.known_totals import KnownTotals
from sketches.sampling.piecewise_decay import FINE_TOLERANCE, TOLERANCE, PiecewiseDecay
from sketches.sampling.poisson_sample import PoissonSample
from sketches.sampling.quotients import LeanedQuotient, Quotient, deviation, shape_of
from sketches.sampling.residuals import (
    LeanRows,
    Parabolas,
    Residuals,
    added_by,
    fits_cells,
    residuals_by_cell,
    residuals_by_row,
)
from sketches.sampling.slice_totals import ROWS, VALUE, WEIGHT, Slices
from sketches.sampling.steps import SteppedDecay, parabolas, stepped
from sketches.sampling.value_classes import end_of, shares_inside

_FEW_TIMES: Final = 6  # up to which rows are cheaper than cells
_REMEMBERED: Final = 3  # questions of which the sums over newer rows are kept
_AT_ONCE: Final = 4_000_000  # times and edges that are held in memory together
_LEAST_ROWS: Final = 2.0  # that an unseen event may have come in, unless the stream is known to have no repeats
_ROUNDING: Final = 1e-12
_LOST: Final = 1e-4  # of an answer: where rounding is beyond it, rows are added up instead of cells


class Quantity(NamedTuple):
    """What is added up of each event: 1, its weight, or its value less a base in units of a scale.

    With a `cap`, values of higher classes are left out.
    """

    column: int  # of the totals
    base: float = 0.0
    scale: float = 1.0
    cap: int | None = None


EVENTS: Final = Quantity(ROWS)
WEIGHTS: Final = Quantity(WEIGHT)


class LeanedSums(NamedTuple):
    """At each as-of time, for each quantity: the sum, how far it may be off but for chance, the most that an unseen
    event could add and take away; and the covariances of what chance does, by pairs."""

    values: Floats
    off: Floats
    more: Floats
    fewer: Floats
    covariances: Floats
    least: Floats  # what the sum of the first quantity surely is not below
    most: Floats  # nor above

    def limits(self, confidence: float) -> Limits:
        """Of the one quantity: its sum, and its limits."""
        tail = (1.0 - confidence) / 2.0
        value, off, variance = self.values[:, 0], self.off[:, 0], self.covariances[:, 0]
        more, fewer = self.more[:, 0], self.fewer[:, 0]
        events = shape_of(variance, np.maximum(more, fewer))
        lower = value - deviation(variance, fewer, events, tail) - off
        upper = value + deviation(variance, more, events, tail) + off
        value = np.clip(value, self.least, self.most)
        return value, np.minimum(np.maximum(lower, self.least), value), np.maximum(np.minimum(upper, self.most), value)

    def mean(self, least: Floats, greatest: Floats) -> Quotient:
        """The first quantity over the second, whose quotient of an event is from `least` to `greatest`."""
        nothing, unseen = np.zeros(len(self.values)), np.maximum(self.more, self.fewer)
        top, bottom = (
            Total(self.values[:, one], nothing, self.covariances[:, pair], unseen[:, one], nothing)
            for one, pair in ((0, 0), (1, 2))
        )
        return LeanedQuotient(top, bottom, self.covariances[:, 1], least, greatest)


@dataclass(frozen=True)
class Leaning:
    """Kept events beside the totals of the rows that they are a sample of, for some quantities in a range of values."""

    rows: LeanRows
    edges: Ints  # the ends of slices and of the sample, in order
    totals: Floats  # of all rows before each edge, with an axis of quantities first
    unknown: Ints  # how many unknown slices lie before each edge
    filled: Ints  # how many slices in which rows came
    largest: Floats  # for each quantity the largest design weight times size of an event from an edge to the next
    repeated: float  # the most rows that an event may have come in that was not kept
    beta: float
    restricted: bool
    certain: bool  # no row repeats, and no event can take away from a sum

    def sums(self, decay: Decay, as_of: Ints, sample: PoissonSample) -> LeanedSums:
        """At all as-of times, a block after the other."""
        blocks = max(1, min(len(as_of), -(-len(as_of) * len(self.edges) // _AT_ONCE)))
        found = [self._sums(decay, block, sample) for block in np.array_split(as_of, blocks)]
        return LeanedSums(*(np.concatenate(column) for column in zip(*found, strict=True)))

    def _sums(self, decay: Decay, as_of: Ints, sample: PoissonSample) -> LeanedSums:
        few = len(as_of) <= _FEW_TIMES
        oldest = np.minimum(self.edges[:1], as_of.min())
        tolerance = FINE_TOLERANCE if few else TOLERANCE
        table = PiecewiseDecay.reaching(oldest, int(as_of.max()), sample.unit, decay, tolerance)
        pieces = parabolas(table)
        steps = stepped(self.edges, as_of, table, pieces.edges)
        if few or not len(steps.first) or not fits_cells(steps.steps, len(as_of)):
            left, error = residuals_by_row(self.rows, steps.steps, as_of, decay, sample.unit), np.zeros(len(as_of))
        else:
            left, error = self._by_cell(steps, as_of, pieces, decay, sample)
        heights = steps.steps.heights
        whole = np.stack(
            [
                added_by(steps.steps.at, heights * (totals[steps.last] - totals[steps.first]), len(as_of))
                for totals in self.totals
            ],
            axis=1,
        )
        more, fewer = self._unseen(steps, len(as_of))
        off = error[:, None] * np.abs(left.decayed) + left.rounding
        certain = self._certain(steps, len(as_of), table.relative_error)
        return LeanedSums(whole + left.sums, off, more, fewer, left.covariances, *certain)

    def _by_cell(
        self, steps: SteppedDecay, as_of: Ints, pieces: Parabolas, decay: Decay, sample: PoissonSample
    ) -> tuple[Residuals, Floats]:
        """By cells; where rounding has taken too much, by rows. Besides, the relative error of f."""
        left = residuals_by_cell(self.rows, steps.steps, as_of, pieces, decay, sample.unit)
        error = np.full(len(as_of), pieces.relative_error)
        lost = np.flatnonzero((left.rounding > _LOST * np.abs(left.decayed)).any(axis=1))
        if len(lost):
            exact = residuals_by_row(self.rows, steps.steps.of(lost), as_of[lost], decay, sample.unit)
            for column, better in zip(left, exact, strict=True):
                column[lost] = better
            error[lost] = 0.0
        return left, error

    def _unseen(self, steps: SteppedDecay, times: int) -> tuple[Floats, Floats]:
        """The most that an unseen event could add to each sum, and take away from it."""
        heights, newest, oldest = steps.steps.heights, steps.newest, steps.oldest
        unknown = self.unknown[steps.last] > self.unknown[steps.first]
        there = unknown | (self.filled[steps.last] > self.filled[steps.first])
        above = np.where(unknown, newest, newest if self.restricted else newest - self.beta * heights)
        below = self.repeated * self.beta * heights - (0.0 if self.restricted else oldest)
        found = []
        for left in (above, below):
            side = np.where(there, np.maximum(left, 0.0), 0.0)
            columns = []
            for largest in self.largest:
                most = _greatest_between(largest, steps.first, steps.last)
                column = np.zeros(times)
                np.maximum.at(column, steps.steps.at, side * most)
                columns.append(column)
            found.append(np.stack(columns, axis=1))
        return found[0], found[1]

    def _certain(self, steps: SteppedDecay, times: int, error: float) -> tuple[Floats, Floats]:
        """Limits of a sum where no row repeats and nothing is unknown: f lies between its ends in every slice."""
        if not self.certain or self.restricted or self.unknown[-1] > 0:
            return np.full(times, -np.inf), np.full(times, np.inf)
        totals = self.totals[0]
        held = totals[steps.last] - totals[steps.first]
        least, most = (added_by(steps.steps.at, f * held, times) for f in (steps.oldest, steps.newest))
        return least * (1.0 - error - _ROUNDING), most * (1.0 + error + _ROUNDING)


def _greatest_between(column: Floats, first: Ints, last: Ints) -> Floats:
    """The greatest entry from each `first` to before `last`."""
    if not len(first):
        return np.zeros(0)
    pairs = np.stack([first, last], axis=1).ravel()
    return np.maximum.reduceat(np.append(column, 0.0), pairs)[::2]


def lean(sample: PoissonSample, quantities: tuple[Quantity, ...], inside: Range | None = None) -> Leaning | None:
    """A sample of all events beside its totals; None where there are none of these quantities.

    `inside` is the range of values to which an answer is restricted. What is made is kept with the sample, for other
    decays and as-of times.
    """
    known = sample.totals
    if known is None or not len(sample):
        return None
    key = (quantities, inside)
    if key not in sample.leanings:
        if len(sample.leanings) >= _REMEMBERED:
            sample.leanings.clear()
        sample.leanings[key] = _lean(sample, known, quantities, inside)
    found: Leaning | None = sample.leanings[key]
    return found


def _lean(
    sample: PoissonSample, known: KnownTotals, quantities: tuple[Quantity, ...], inside: Range | None
) -> Leaning | None:
    table, share = known.slices, np.ones(len(sample))
    by_class = inside is not None or any(one.cap is not None for one in quantities)
    if by_class:
        if known.classes is None or sample.kind is Kind.KEY:
            return None
        whole = sample.kind is Kind.INTEGER
        shares = shares_inside(known.classes.groups, inside or Range(), whole=whole)
        table = known.classes.weighted(shares)
        share = shares_inside(sample.value_classes, inside or Range(), whole=whole)
    slices = _within(table.slices(), sample)
    usable = slices.sums[:, ROWS] > 0.0
    if any(one.column == VALUE for one in quantities):
        usable &= np.isfinite(slices.sums[:, VALUE])
    if not usable.any():
        return None
    # No edge lies inside a slice, whose total is of all of it; beyond all slices the sample may reach further.
    first, last = min(int(slices.begins[0]), int(sample.times[0])), max(int(slices.ends[-1]), int(sample.times[-1]) + 1)
    edges = distinct_sorted(np.concatenate([slices.begins, slices.ends, [first, last]]))
    at = np.searchsorted(edges, slices.begins)
    place = np.searchsorted(slices.begins, sample.times, side="right") - 1
    in_known = (place >= 0) & (sample.times < slices.ends[place]) & usable[place]
    matching = None if inside is None else inside.holds(sample.values)
    rows, beta = _rows(sample, quantities, share * in_known, matching)
    totals = np.zeros((len(quantities), len(edges) + 1))
    for number, one in enumerate(quantities):
        own = slices
        if one.cap is not None:
            assert known.classes is not None
            own = known.classes.weighted(shares * (np.abs(known.classes.groups) <= one.cap)).slices()
        own = _within(own, sample)
        mass = own.sums[:, one.column]
        if one.column == VALUE:
            mass = (mass - one.base * own.sums[:, ROWS]) / one.scale
        counted = usable[np.searchsorted(slices.begins, own.begins)]
        totals[number, np.searchsorted(edges, own.begins) + 1] = np.where(counted, mass, 0.0) * beta
    totals = np.cumsum(totals, axis=1)[:, :-1]
    unknown, filled = (_before(edges, at, which) for which in (~usable, usable))
    if slices.unknown_up_to >= int(sample.times[0]):
        unknown[np.searchsorted(edges, slices.unknown_up_to, side="right") :] += 1
    largest = np.stack([_largest(sample, one, edges, known) for one in quantities])
    repeated = most_rows(sample, known)
    certain = known.unique and (quantities[0].column != VALUE or sample.least_value >= quantities[0].base)
    return Leaning(rows, edges, totals, unknown, filled, largest, repeated, beta, inside is not None, certain)


def _within(slices: Slices, sample: PoissonSample) -> Slices:
    """The slices without what lies before all events or after them."""
    oldest, newest = int(sample.strata.oldest.min()), int(sample.strata.newest.max())
    return slices._replace(begins=np.maximum(slices.begins, oldest), ends=np.minimum(slices.ends, newest + 1))


def most_rows(sample: PoissonSample, known: KnownTotals) -> float:
    """The most rows that an event may have come in that was not kept, where it counts once."""
    return 1.0 if known.unique or sample.counts_rows else max(float(sample.most_rows), _LEAST_ROWS)


def _before(edges: Ints, at: Ints, which: Flags) -> Ints:
    """How many of the slices that begin at some edges lie before each edge."""
    found = np.zeros(len(edges) + 1, np.int64)
    found[at + 1] = which
    return np.cumsum(found)[:-1]


def _rows(
    sample: PoissonSample, quantities: tuple[Quantity, ...], share: Floats, matching: Flags | None
) -> tuple[LeanRows, float]:
    """The rows with what is asked and what is in the totals of each; and β, by which both have to be multiplied."""
    sizes = np.stack([_sizes(sample, one) for one in quantities])
    asked = sizes if matching is None else sizes * matching
    repeats = sample.most_rows > 1 and not sample.counts_rows
    if repeats and sample.counts is not None:
        share = share * sample.counts
    elif share.min(initial=1.0) == 1.0 and matching is None:
        return LeanRows(sample.times, asked, asked, sample.exclusion_probabilities), 1.0
    counted = sizes * share
    beta = 1.0
    if repeats:
        spread = sample.exclusion_probabilities * counted[-1]
        both, squared = spread @ asked[-1], spread @ counted[-1]
        beta = float(both / squared) if squared > 0.0 else 1.0
    return LeanRows(sample.times, asked, counted * beta, sample.exclusion_probabilities), beta


def _sizes(sample: PoissonSample, quantity: Quantity) -> Floats:
    """What each row adds to an undecayed sum: over π."""
    if quantity.column == ROWS:
        return sample.expanded_events
    if quantity.column == WEIGHT:
        return sample.expanded_weights
    sizes = (sample.values / quantity.scale - quantity.base / quantity.scale) * sample.expanded_events
    return sizes if quantity.cap is None else np.where(np.abs(sample.value_classes) <= quantity.cap, sizes, 0.0)


def _largest(sample: PoissonSample, quantity: Quantity, edges: Ints, known: KnownTotals) -> Floats:
    """The largest size of an unseen event from each edge to the next."""
    strata = sample.strata
    at = np.minimum(np.searchsorted(strata.newest, edges), len(strata.newest) - 1)
    if quantity.column == WEIGHT:
        return strata.unit_design_weight[at]
    weights = strata.event_design_weight[at]
    if quantity.column == ROWS:
        return weights
    least, greatest = sample.least_value, sample.greatest_value
    if quantity.cap is not None:
        greatest = min(greatest, end_of(quantity.cap))
    return weights * known.largest_between(edges, quantity.base, least, greatest) / quantity.scale
