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
from sketches.sampling.leaning import Quantity, most_rows
from sketches.sampling.piecewise_decay import FINE_TOLERANCE, PiecewiseDecay
from sketches.sampling.poisson_sample import PoissonSample
from sketches.sampling.residuals import added_by
from sketches.sampling.slice_totals import ROWS, VALUE, SliceTotals
from sketches.sampling.steps import stepped
from sketches.sampling.value_classes import end_of

_TAIL: Final = 3.7  # -ln 0.025: how often the largest unseen event is added to a limit
_ROUNDING: Final = 1e-9


class TallSums(NamedTuple):
    """At each as-of time the decayed sum of the highest classes: as expected, at the least, at the most."""

    value: Floats
    lower: Floats
    upper: Floats


def capped(sample: PoissonSample, quantity: Quantity, decay: Decay, as_of: Ints) -> tuple[Quantity, TallSums | None]:
    """The quantity up to the best class, and the sums of what is above it; none where that does not help."""
    classes = None if sample.totals is None else sample.totals.classes
    if classes is None or sample.kind is Kind.KEY or sample.least_value < 0.0:
        return quantity, None
    if classes.unknown_up_to >= sample.times[0]:
        return quantity, None
    known = classes.sums[:, ROWS] > 0.0
    if not known.all() or not np.isfinite(classes.sums[:, VALUE]).all():
        return quantity, None
    table = _reaching(classes, as_of, decay, sample)
    cap = _best_cap(sample, quantity, classes, table, np.sort(as_of)[len(as_of) // 2 :][:1])
    above = classes.take(classes.groups > cap)
    if not len(above):
        return quantity, None
    return quantity._replace(cap=cap), _tall_sums(sample, quantity, above, as_of, table)


def _reaching(classes: SliceTotals, as_of: Ints, decay: Decay, sample: PoissonSample) -> PiecewiseDecay:
    oldest = np.minimum(classes.slices().begins.min(keepdims=True), as_of.min())
    return PiecewiseDecay.reaching(oldest, int(as_of.max()), sample.unit, decay, FINE_TOLERANCE)


def _masses(classes: SliceTotals, quantity: Quantity) -> Floats:
    return (classes.sums[:, VALUE] - quantity.base * classes.sums[:, ROWS]) / quantity.scale


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
    sample: PoissonSample, quantity: Quantity, classes: SliceTotals, as_of: Ints, table: PiecewiseDecay
) -> TallSums:
    """What some classes add up to."""
    assert sample.totals is not None
    begins, ends, _, _ = classes.slices()
    edges = distinct_sorted(np.concatenate([begins, ends]))
    steps = stepped(edges, as_of, table, table.first)
    before = np.zeros(len(edges) + 1)
    np.add.at(before, np.searchsorted(edges, begins) + 1, _masses(classes, quantity))
    before = before.cumsum()
    held = before[steps.last] - before[steps.first]
    factors = steps.steps.heights, steps.oldest / most_rows(sample, sample.totals), steps.newest
    value, lower, upper = (added_by(steps.steps.at, factor * held, len(as_of)) for factor in factors)
    error = table.relative_error + _ROUNDING
    return TallSums(value, lower * (1.0 - error), upper * (1.0 + error))
