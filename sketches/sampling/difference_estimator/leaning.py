"""Sums, counts and means that lean on exact totals of slices of time (`sketches.sampling.totals.row_totals`).

Ingest has counted the rows of every slice, and what they weigh. With X the total of a slice, m how often a kept event
came, x what the totals are of, y what is asked of it and g a mean of the decay over the slice, fixed beforehand:

    Σ over slices β·g·X  +  Σ over kept events (y·f - β·g·m·x)/π

is unbiased whatever β is. Only how far f is from its mean, and which events repeat, is left to the sample, and the
variance is of that. Where f hardly changes within a slice and no row repeats, hardly anything is left to be estimated.
β is 1 where no kept event came twice, and else found by regression. Under a range of values, totals by classes of
values are used: β is 1 in the classes inside the range, 0 in those outside, and a share that is fixed beforehand in
those that the range cuts.

What is left has both signs. Its interval is a gamma interval that is as skewed as the largest residual allows, with the
most that an unseen event could have left (`sketches.sampling.estimation.quotients.deviation`).
"""

from __future__ import annotations

from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from sketches.arrays import Flags, Floats, Ints, Limits, distinct_sorted
from sketches.decay import Decay
from sketches.decay.functions import NoDecay
from sketches.events import Kind
from sketches.predicate import Range
from sketches.records import dataclass
from sketches.sampling.difference_estimator.residuals import LeanRows, Residuals, residuals
from sketches.sampling.difference_estimator.slice_tree import FINE_TOLERANCE, TOLERANCE, SliceTree, Steps, of_groups
from sketches.sampling.difference_estimator.steps import added_by
from sketches.sampling.difference_estimator.windows import RowsInWindows
from sketches.sampling.estimation.horvitz_thompson import Sums
from sketches.sampling.estimation.intervals import Total
from sketches.sampling.estimation.poisson_sample import PoissonSample
from sketches.sampling.estimation.quotients import LeanedQuotient, Quotient, deviation, divide, shape_of
from sketches.sampling.estimation.time_tree import oldest_age
from sketches.sampling.totals.known_totals import KnownTotals
from sketches.sampling.totals.slice_totals import ROWS, VALUE, WEIGHT, Slices
from sketches.sampling.totals.value_classes import end_of, shares_inside
from sketches.units import TimeUnit

_FEW_TIMES: Final = 6  # up to which more precision costs little
_LEAST_ROWS: Final = 2.0  # that an unseen event may have come in, unless the stream is known to have no repeats
ROUNDING: Final = 1e-12  # declared of all that is added up, whatever its sign
_UNSURE: Final = 0.25  # by how much more a sum may be off that is a whole number, for it to be known
_LOST: Final = 1e-3  # of an answer: where parabolas may be off by more, all rows are looked at
_BY_ROW: Final = -1.0  # no parabola is as close


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


class Unseen(NamedTuple):
    """What an event that was not kept may leave of f and of g, the mean of f that totals count for each of its rows:
    at most `most`·f - `once`·g, and at least `least`·f - `often`·g, for each time that an event can count."""

    most: float
    once: float
    least: float
    often: float

    @classmethod
    def of(cls, sample: PoissonSample, known: KnownTotals, *, restricted: bool = False) -> Unseen:
        if restricted:
            return cls(1.0, 0.0, 0.0, most_rows(sample, known))
        if known.of_field and sample.counts_rows:  # copies that differ: all count, or none does, and totals have some
            came = float(sample.most_rows)
            differ = max(came, _LEAST_ROWS)
            return cls(differ / came, 1.0 / came, 0.0, (differ - 1.0) / came)
        return cls(1.0, 1.0, 1.0, most_rows(sample, known))

    def of_f(self, newest: Floats, oldest: Floats, heights: Floats, unknown: Flags) -> tuple[Floats, Floats]:
        """The most that it could add and take away, in stretches of time by f at both ends and by g."""
        above = np.where(unknown, newest, self.most * newest - self.once * heights)
        return np.maximum(above, 0.0), np.maximum(self.often * heights - self.least * oldest, 0.0)


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

    def at(self, which: Flags) -> LeanedSums:
        """Those of some as-of times, or groups."""
        return LeanedSums(*(column[which] for column in self))

    def limits(self, confidence: float, *, whole: bool = False) -> Limits:
        """Of the one quantity: its sum, and its limits. `whole`: it is a whole number, and so is what rounding alone
        keeps from being one."""
        tail = (1.0 - confidence) / 2.0
        value, off, variance = self.values[:, 0], self.off[:, 0], self.covariances[:, 0]
        more, fewer = self.more[:, 0], self.fewer[:, 0]
        events = shape_of(variance, np.maximum(more, fewer))
        below, above = (deviation(variance, unseen, events, tail) for unseen in (fewer, more))
        lower, upper = np.maximum(value - below - off, self.least), np.minimum(value + above + off, self.most)
        value = np.clip(value, self.least, self.most)
        if whole:
            nearest = np.rint(value)
            known = (below == 0.0) & (above == 0.0) & (off < _UNSURE) & (np.abs(value - nearest) <= off)
            value, lower, upper = (np.where(known, nearest, limit) for limit in (value, lower, upper))
        return value, np.minimum(lower, value), np.maximum(upper, value)

    def mean(self, least: Floats, greatest: Floats) -> Quotient:
        """The first quantity over the second, whose quotient of an event is from `least` to `greatest`."""
        nothing, unseen = np.zeros(len(self.values)), np.maximum(self.more, self.fewer)
        top, bottom = (
            Total(self.values[:, one], nothing, self.covariances[:, pair], unseen[:, one], nothing)
            for one, pair in ((0, 0), (1, 2))
        )
        return LeanedQuotient(top, bottom, self.covariances[:, 1], least, greatest)


class PlainSums(NamedTuple):
    """The same sums without totals: what was kept with certainty, what was sampled, and the covariances of that by
    pairs; and how far they may be off but for chance."""

    certain: Floats
    sampled: Floats
    spreads: Floats
    off: Floats

    def as_sums(self, used: Ints) -> Sums:
        """As `Inquiry.sums` has them: of weights, or of weights and events."""
        quantities = self.certain.shape[1]
        linear = np.stack([self.certain, self.sampled], axis=2).reshape(-1, 2 * quantities)
        squared = self.spreads if quantities == 1 else self.spreads[:, [0, 2, 1]]
        error = divide(self.off, self.certain + self.sampled, 0.0).max(axis=1) + ROUNDING
        return Sums(linear, squared, used, error)


@dataclass(frozen=True)
class Leaning:
    """Kept events beside the totals of the rows that they are a sample of, for some quantities in a range of values."""

    rows: LeanRows
    held: Floats  # the totals of each slice and group of slices, with an axis of quantities first
    masses: Floats  # of these, all that is added up, whatever its sign: of totals and of rows
    unknown: Flags  # whether something in it is unknown
    filled: Flags  # whether rows came in it
    largest: Floats  # for each quantity the largest design weight times size of an event in it
    left: Unseen
    beta: float
    restricted: bool
    certain: bool  # no row repeats, and no event can take away from a sum

    def sums(self, decay: Decay, as_of: Ints, unit: TimeUnit) -> tuple[LeanedSums, PlainSums]:
        """With totals and without, at all as-of times at once."""
        tree, times = self.rows.tree, len(as_of)
        if isinstance(decay.split()[0], NoDecay):
            return self._in_windows(oldest_age(unit, decay, max(int(as_of.max(initial=0) - tree.begins[0]), 0)), as_of)
        tolerance = FINE_TOLERANCE if times <= _FEW_TIMES else TOLERANCE
        cover = tree.cover(decay, unit, as_of, tolerance)
        left = residuals(self.rows, cover, as_of, decay, unit)
        found = self._leaned(cover.steps, left, times)
        plain = PlainSums(left.certain, left.sampled, left.spreads, left.off)
        lost = np.flatnonzero((left.off > _LOST * np.abs(left.certain + left.sampled)).any(axis=1))
        for some in np.array_split(lost, -(-len(lost) // _FEW_TIMES)) if len(lost) else ():
            cover = tree.cover(decay, unit, as_of[some], _BY_ROW)
            exact = residuals(self.rows, cover, as_of[some], decay, unit)
            better = *self._leaned(cover.steps, exact, len(some)), exact.certain, exact.sampled, exact.spreads
            for column, numbers in zip((*found, *plain[:3]), better, strict=True):
                column[some] = numbers
        return found, plain

    def _in_windows(self, oldest: int, as_of: Ints) -> tuple[LeanedSums, PlainSums]:
        """The same where each event counts once up to the oldest age, and not at all from there on."""
        windows = self.in_windows.windows(as_of, oldest)
        left, whole, between, masses = self.in_windows.sums(windows)
        tree = self.rows.tree
        first, steps = tree.depths[tree.slices], windows.steps()
        steps = steps._replace(nodes=steps.nodes + first)
        sides = self._unseen(steps, len(as_of))
        of_slices = slice(first, tree.steps)
        unknown, ones = self.unknown[of_slices], np.ones(tree.steps - first)
        there = unknown | self.filled[of_slices]
        for most, columns in zip(self.left.of_f(ones, ones, self.beta * ones, unknown), sides, strict=True):
            for number, largest in enumerate(self.largest):
                inner = self.in_windows.greatest(np.where(there, most, 0.0) * largest[of_slices], windows)
                np.maximum(columns[:, number], inner, out=columns[:, number])
        least, most = self._certain(steps, len(as_of))
        if np.isfinite(most).all():
            least, most = least + between[:, 0] * (1.0 - ROUNDING), most + between[:, 0] * (1.0 + ROUNDING)
        sums = LeanedSums(whole + left.sums, left.off + ROUNDING * masses, *sides, left.covariances, least, most)
        return sums, PlainSums(left.certain, left.sampled, left.spreads, left.off)

    @cached_property
    def in_windows(self) -> RowsInWindows:
        return RowsInWindows(self.rows, self.held, self.masses)

    def _leaned(self, steps: Steps, left: Residuals, times: int) -> LeanedSums:
        whole, masses = (
            np.stack([added_by(steps.times, factors * column[steps.nodes], times) for column in columns], axis=1)
            for factors, columns in ((steps.heights, self.held), (steps.newest, self.masses))
        )
        return LeanedSums(
            whole + left.sums,
            left.off + ROUNDING * masses,
            *self._unseen(steps, times),
            left.covariances,
            *self._certain(steps, times),
        )

    def _unseen(self, steps: Steps, times: int) -> tuple[Floats, Floats]:
        """The most that an unseen event could add to each sum, and take away from it."""
        heights, newest, oldest = steps.heights, steps.newest, steps.oldest
        unknown = self.unknown[steps.nodes]
        there = unknown | self.filled[steps.nodes]
        found = np.zeros((2, times, len(self.largest)))
        sides = self.left.of_f(newest, oldest, self.beta * heights, unknown)
        for most, columns in zip(sides, found, strict=True):
            side = np.where(there, most, 0.0)
            for number, largest in enumerate(self.largest):
                np.maximum.at(columns[:, number], steps.times, side * largest[steps.nodes])
        return found[0], found[1]

    def _certain(self, steps: Steps, times: int) -> tuple[Floats, Floats]:
        """Limits of a sum where no row repeats and nothing is unknown: f lies between its ends in every slice."""
        if not self.certain or self.restricted or self.unknown.any():
            return np.full(times, -np.inf), np.full(times, np.inf)
        held = self.held[0][steps.nodes]
        least, most = (added_by(steps.times, f * held, times) for f in (steps.oldest, steps.newest))
        return least * (1.0 - ROUNDING), most * (1.0 + ROUNDING)


def lean(sample: PoissonSample, quantities: tuple[Quantity, ...], inside: Range | None = None) -> Leaning | None:
    """A sample of all events beside its totals; None where there are none of these quantities.

    `inside` is the range of values to which an answer is restricted. What is made is kept with the sample, for other
    decays and as-of times.
    """
    known = sample.totals
    if known is None or not len(sample):
        return None
    found: Leaning | None = sample.leanings.get((quantities, inside), lambda: _lean(sample, known, quantities, inside))
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
    unknown, filled = np.zeros((2, len(edges) - 1), bool)
    at = np.searchsorted(edges, slices.begins)
    unknown[at], filled[at] = ~usable, usable
    unknown |= edges[:-1] <= slices.unknown_up_to
    tree = SliceTree.over(edges, sample.times, unknown | filled)
    place = np.searchsorted(slices.begins, sample.times, side="right") - 1
    in_known = (place >= 0) & (sample.times < slices.ends[place]) & usable[place]
    matching = None if inside is None else inside.holds(sample.values)
    rows, beta = _rows(sample, tree, quantities, share * in_known, matching)
    totals, masses = np.zeros((2, len(quantities), len(edges) - 1))
    for number, one in enumerate(quantities):
        own = slices
        if one.cap is not None:
            assert known.classes is not None
            own = known.classes.weighted(shares * (np.abs(known.classes.groups) <= one.cap)).slices()
        own = _within(own, sample)
        at, counted = np.searchsorted(edges, own.begins), usable[np.searchsorted(slices.begins, own.begins)]
        held = mass = own.sums[:, one.column]
        if one.column == VALUE:
            held = (held - one.base * own.sums[:, ROWS]) / one.scale
            mass = _mass_of_values(sample, own, edges, known, one)
        totals[number, at] = np.where(counted, held, 0.0) * beta
        masses[number, at] = np.where(counted, mass, 0.0) * beta
    largest = np.stack([_largest(sample, one, edges, known)[:-1] for one in quantities])
    certain = known.unique and (quantities[0].column != VALUE or sample.least_value >= quantities[0].base)
    return Leaning(
        rows,
        of_groups(np.add, totals),
        of_groups(np.add, masses) + rows.masses_of_steps,
        of_groups(np.logical_or, unknown),
        of_groups(np.logical_or, filled),
        of_groups(np.maximum, largest),
        Unseen.of(sample, known, restricted=inside is not None),
        beta,
        inside is not None,
        certain,
    )


def _within(slices: Slices, sample: PoissonSample) -> Slices:
    """The slices without what lies before all events or after them; forgetting may leave nothing of some."""
    oldest, newest = int(sample.strata.oldest.min()), int(sample.strata.newest.max())
    begins, ends = np.maximum(slices.begins, oldest), np.minimum(slices.ends, newest + 1)
    inside = begins < ends
    return Slices(begins[inside], ends[inside], slices.sums[inside], slices.unknown_up_to)


def most_rows(sample: PoissonSample, known: KnownTotals) -> float:
    """The most rows that an event may have come in that was not kept, where it counts once."""
    return 1.0 if known.unique or sample.counts_rows else max(float(sample.most_rows), _LEAST_ROWS)


def _rows(
    sample: PoissonSample, tree: SliceTree, quantities: tuple[Quantity, ...], share: Floats, matching: Flags | None
) -> tuple[LeanRows, float]:
    """The rows with what is asked and what is in the totals of each; and β, by which both have to be multiplied."""
    columns = [_sizes(sample, one) for one in quantities]
    sizes = columns[0][None] if len(columns) == 1 else np.stack(columns)  # without a copy where there is one
    asked = sizes if matching is None else sizes * matching
    repeats = sample.most_rows > 1 and not sample.counts_rows
    if repeats and sample.counts is not None:
        share = share * sample.counts
    elif share.min(initial=1.0) == 1.0 and matching is None:
        return LeanRows(tree, asked, None, sample.exclusion_probabilities), 1.0
    counted = sizes * share
    beta = 1.0
    if repeats:
        spread = sample.exclusion_probabilities * counted[-1]
        both, squared = spread @ asked[-1], spread @ counted[-1]
        beta = float(both / squared) if squared > 0.0 else 1.0
    return LeanRows(tree, asked, counted * beta, sample.exclusion_probabilities), beta


def _sizes(sample: PoissonSample, quantity: Quantity) -> Floats:
    """What each row adds to an undecayed sum: over π."""
    if quantity.column == ROWS:
        return sample.expanded_events
    if quantity.column == WEIGHT:
        return sample.expanded_weights
    sizes = (sample.values / quantity.scale - quantity.base / quantity.scale) * sample.expanded_events
    return sizes if quantity.cap is None else np.where(np.abs(sample.value_classes) <= quantity.cap, sizes, 0.0)


def _mass_of_values(sample: PoissonSample, own: Slices, edges: Ints, known: KnownTotals, quantity: Quantity) -> Floats:
    """The most that values and bases of slices add up to, whatever their signs."""
    rows, values = own.sums[:, ROWS], np.abs(own.sums[:, VALUE])
    least, greatest = sample.least_value, sample.greatest_value
    if least < 0.0 < greatest:
        largest = known.largest_between(edges, 0.0, least, greatest)[np.searchsorted(edges, own.begins)]
        values = np.maximum(values, rows * largest)
    return np.asarray((values + abs(quantity.base) * rows) / quantity.scale)


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
