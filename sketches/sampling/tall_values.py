"""Sums of values where a few are far greater than the others, beside exact totals by classes of values.

One event that was not kept could change such a sum by the greatest value over its probability, and an interval has to
allow for it. How much the values of the highest classes add up to is known, though, slice by slice: the decay lies
between its ends within a slice, so their decayed sum has limits that hold always. So the highest classes are bounded by
their totals and the others are estimated from the sample. From which class on is fixed by the totals alone, where both
parts together are expected to be the narrowest.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from sketches.arrays import Floats, Ints, distinct_sorted
from sketches.decay import Decay
from sketches.events import Kind
from sketches.predicate import Range
from sketches.sampling.leaning import Quantity, most_rows
from sketches.sampling.piecewise_decay import FINE_TOLERANCE, PiecewiseDecay
from sketches.sampling.poisson_sample import PoissonSample
from sketches.sampling.residuals import added_by
from sketches.sampling.slice_totals import ROWS, VALUE, SliceTotals
from sketches.sampling.steps import stepped
from sketches.sampling.value_classes import end_of, shares_inside

_TAIL: Final = 3.7  # -ln 0.025: how often the largest unseen event is added to a limit
_HARDLY: Final = 1e-6  # of a class: the range ends where it begins
_ROUNDING: Final = 1e-9


class TallSums(NamedTuple):
    """At each as-of time the decayed sum of the highest classes: as expected, at the least, at the most."""

    value: Floats
    lower: Floats
    upper: Floats


def capped(
    sample: PoissonSample, quantity: Quantity, inside: Range | None, decay: Decay, as_of: Ints
) -> tuple[Quantity, TallSums | None]:
    """The quantity up to the best class, and the sums of what is above it; none where that does not help."""
    classes = None if sample.totals is None else sample.totals.classes
    if classes is None or sample.kind is Kind.KEY or sample.least_value < 0.0:
        return quantity, None
    if classes.unknown_up_to >= sample.times[0]:
        return quantity, None
    known = classes.sums[:, ROWS] > 0.0
    if not known.all() or not np.isfinite(classes.sums[:, VALUE]).all():
        return quantity, None
    shares = shares_inside(classes.groups, inside or Range(), whole=sample.kind is Kind.INTEGER)
    table = _reaching(classes, as_of, decay, sample)
    cap = _best_cap(sample, quantity, classes.take(shares > 0.0), table, np.sort(as_of)[len(as_of) // 2 :][:1])
    above = (classes.groups > cap) & (shares > 0.0)
    if not above.any() or shares[above].min() < _HARDLY:  # of next to nothing of a class nothing can be expected
        return quantity, None
    return quantity._replace(cap=cap), _tall_sums(sample, quantity, classes.take(above), shares[above], as_of, table)


def _reaching(classes: SliceTotals, as_of: Ints, decay: Decay, sample: PoissonSample) -> PiecewiseDecay:
    oldest = np.minimum(classes.slices().begins.min(keepdims=True), as_of.min())
    return PiecewiseDecay.reaching(oldest, int(as_of.max()), sample.unit, decay, FINE_TOLERANCE)


def _masses(classes: SliceTotals, quantity: Quantity) -> Floats:
    return (classes.sums[:, VALUE] - quantity.base * classes.sums[:, ROWS]) / quantity.scale


def _most_above(classes: SliceTotals, shares: Floats, quantity: Quantity) -> Floats:
    """The most that the values of each entry which lie in the range add up to beyond the base.

    That is all of it, unless the range cuts the class below the base. What a value is above the base is convex, so it
    is not above the chord over the class.
    """
    ends = np.array([end_of(number) for number in classes.groups.tolist()])
    slope = np.clip(2.0 - 2.0 * quantity.base / ends, 0.0, 1.0)
    chord = slope * (classes.sums[:, VALUE] - ends / 2.0 * classes.sums[:, ROWS]) / quantity.scale
    cut = (shares < 1.0) & (ends / 2.0 < quantity.base)
    return np.where(cut, np.maximum(chord, 0.0), _masses(classes, quantity))


def _best_cap(
    sample: PoissonSample, quantity: Quantity, classes: SliceTotals, table: PiecewiseDecay, as_of: Ints
) -> int:
    """The class above which totals bound better than the sample, at one as-of time."""
    begins, ends, _, _ = classes.slices()
    edges = distinct_sorted(np.concatenate([begins, ends]))
    steps = stepped(edges, as_of, table, table.first)
    known = sample.totals
    if known is None or not len(steps.first):
        return int(classes.groups.max(initial=0))
    repeated = most_rows(sample, known)
    heights = steps.steps.heights
    step = np.searchsorted(steps.steps.begins, begins, side="right") - 1
    reached = (step >= 0) & (begins < steps.steps.ends[step])
    open_part = (steps.newest - steps.oldest / repeated)[step] / 2.0
    numbers = distinct_sorted(classes.groups[classes.groups > 0])
    of_class = np.searchsorted(numbers, classes.groups)
    bounded = np.bincount(of_class, np.where(reached, _masses(classes, quantity) * open_part, 0.0), len(numbers) + 1)
    above = bounded[::-1].cumsum()[::-1][1 : len(numbers) + 1]
    left = np.maximum(steps.newest - heights, repeated * heights - steps.oldest)
    strata = sample.strata
    at = np.minimum(np.searchsorted(strata.newest, steps.steps.begins), len(strata.newest) - 1)
    unseen = float((left * strata.event_design_weight[at]).max(initial=0.0))
    tops = np.array([min(end_of(number), sample.greatest_value) for number in numbers.tolist()])
    widths = _TAIL * unseen * np.maximum(tops - quantity.base, 0.0) / quantity.scale + above
    return int(numbers[widths.argmin()]) if len(numbers) else 0


def _tall_sums(
    sample: PoissonSample, quantity: Quantity, classes: SliceTotals, shares: Floats, as_of: Ints, table: PiecewiseDecay
) -> TallSums:
    """What some classes add up to; of a class that the range cuts, between nothing and the most that may be in it."""
    assert sample.totals is not None
    begins, ends, _, _ = classes.slices()
    edges = distinct_sorted(np.concatenate([begins, ends]))
    steps = stepped(edges, as_of, table, table.first)
    most = _most_above(classes, shares, quantity)
    found = []
    repeated = most_rows(sample, sample.totals)
    for masses, factor in (
        (shares * most, steps.steps.heights),
        (np.where(shares == 1.0, most / repeated, 0.0), steps.oldest),
        (most, steps.newest),
    ):
        before = np.zeros(len(edges) + 1)
        np.add.at(before, np.searchsorted(edges, begins) + 1, masses)
        before = before.cumsum()[:-1]
        found.append(added_by(steps.steps.at, factor * (before[steps.last] - before[steps.first]), len(as_of)))
    value, lower, upper = found
    error = table.relative_error + _ROUNDING
    return TallSums(value, lower * (1.0 - error), upper * (1.0 + error))
