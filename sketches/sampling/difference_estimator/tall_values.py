"""Sums of values where a few are far greater than the others, beside exact totals by classes of values.

One event that was not kept could change such a sum by the greatest value over its probability, and an interval has to
allow for it. How much the values of the highest classes add up to is known, though, slice by slice: the decay lies
between its ends within a slice, so their decayed sum has limits that hold always. So the highest classes are bounded by
their totals and the others are estimated from the sample. From which class on is fixed by the totals and the as-of time
alone, where both parts together are expected to be the narrowest. The times of a series share two such classes, because
what serves every time is made anew for each.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from sketches.arrays import Flags, Floats, Ints, distinct_sorted
from sketches.decay import Decay
from sketches.events import Kind
from sketches.sampling.difference_estimator.leaning import Quantity, most_rows
from sketches.sampling.difference_estimator.range_sums import RangeSums
from sketches.sampling.difference_estimator.steps import SteppedDecay, added_by, stepped
from sketches.sampling.estimation.piecewise_decay import FINE_TOLERANCE, PiecewiseDecay
from sketches.sampling.estimation.poisson_sample import PoissonSample
from sketches.sampling.totals.slice_totals import ROWS, VALUE, SliceTotals
from sketches.sampling.totals.value_classes import end_of

_TAIL: Final = 3.7  # -ln 0.025: how often the largest unseen event is added to a limit
_ROUNDING: Final = 1e-9
_LOST: Final = 1e5  # times as much as a step holds has come before: then a difference has too few digits
_PROBES: Final = 8  # times of a series at which classes are compared; the others go with the nearest of them


class TallSums(NamedTuple):
    """At each as-of time the decayed sum of the highest classes: as expected, at the least, at the most."""

    value: Floats
    lower: Floats
    upper: Floats


class Capped(NamedTuple):
    """Some of the as-of times, the quantity up to the best class there, and the sums of what is above it; none where
    that does not help."""

    which: Flags
    quantity: Quantity
    tall: TallSums | None


def capped(sample: PoissonSample, quantity: Quantity, decay: Decay, as_of: Ints) -> list[Capped]:
    """All as-of times, at least one, in at most two parts."""
    everything = np.ones(len(as_of), bool)
    classes = None if sample.totals is None else sample.totals.classes
    if classes is None or not _are_known(classes, sample):
        return [Capped(everything, quantity, None)]
    table = _reaching(classes, as_of, decay, sample)
    caps = _best_caps(sample, quantity, classes, table, as_of)
    found = []
    for cap in distinct_sorted(caps).tolist():
        which, above = caps == cap, classes.take(classes.groups > cap)
        if len(above):
            tall = _tall_sums(sample, quantity, above, as_of[which], table)
            found.append(Capped(which, quantity._replace(cap=cap), tall))
        else:
            found.append(Capped(which, quantity, None))
    return found


def _are_known(classes: SliceTotals, sample: PoissonSample) -> bool:
    """Whether the totals of all classes are known, and no value is negative."""
    if sample.kind is Kind.KEY or sample.least_value < 0.0 or classes.unknown_up_to >= sample.times[0]:
        return False
    return bool((classes.sums[:, ROWS] > 0.0).all() and np.isfinite(classes.sums[:, VALUE]).all())


def _reaching(classes: SliceTotals, as_of: Ints, decay: Decay, sample: PoissonSample) -> PiecewiseDecay:
    oldest = np.minimum(classes.slices().begins.min(keepdims=True), as_of.min())
    return PiecewiseDecay.reaching(oldest, int(as_of.max()), sample.unit, decay, FINE_TOLERANCE)


def _masses(classes: SliceTotals, quantity: Quantity) -> Floats:
    return (classes.sums[:, VALUE] - quantity.base * classes.sums[:, ROWS]) / quantity.scale


def _best_caps(
    sample: PoissonSample, quantity: Quantity, classes: SliceTotals, table: PiecewiseDecay, as_of: Ints
) -> Ints:
    """For each as-of time the class above which totals bound better than the sample; one of two."""
    numbers = distinct_sorted(classes.groups[classes.groups > 0])
    if not len(numbers):
        return np.zeros(len(as_of), np.int64)
    ordered = np.sort(as_of)
    probes = ordered[np.linspace(0, len(as_of) - 1, min(len(as_of), _PROBES)).astype(np.intp)]
    widths = np.stack(
        [_widths(sample, quantity, classes, table, numbers, probes[at : at + 1]) for at in range(len(probes))]
    )
    relative = widths / np.maximum(widths.min(axis=1, keepdims=True), np.finfo(np.float64).tiny)
    important = np.ones((len(probes), 1, 1))
    important[-1] = len(probes)  # the newest time stands alone as a number beside its chart
    pairs = (np.minimum(relative[:, :, None], relative[:, None, :]) * important).sum(axis=0)
    two = np.array(np.unravel_index(pairs.argmin(), pairs.shape))
    of_probe = numbers[two[relative[:, two].argmin(axis=1)]]
    nearest = np.searchsorted((probes[1:] + probes[:-1]) / 2.0, as_of)
    return np.asarray(of_probe[nearest])


def _widths(
    sample: PoissonSample,
    quantity: Quantity,
    classes: SliceTotals,
    table: PiecewiseDecay,
    numbers: Ints,
    as_of: Ints,
) -> Floats:
    """How wide an interval is to be expected at one as-of time, where totals bound what is above each class."""
    begins, ends, _, _ = classes.slices()
    edges = distinct_sorted(np.concatenate([begins, ends]))
    steps = stepped(edges, as_of, table, table.first)
    known = sample.totals
    if known is None or not len(steps.first):
        return np.where(np.arange(len(numbers)) == len(numbers) - 1, 1.0, 2.0)  # nothing counts: nothing is bounded
    repeated = most_rows(sample, known)
    heights = steps.steps.heights
    step = np.searchsorted(steps.steps.begins, begins, side="right") - 1
    reached = (step >= 0) & (begins < steps.steps.ends[step])
    open_part = (steps.newest - steps.oldest / repeated)[step] / 2.0
    of_class = np.searchsorted(numbers, classes.groups)
    bounded = np.bincount(of_class, np.where(reached, _masses(classes, quantity) * open_part, 0.0), len(numbers) + 1)
    above = bounded[::-1].cumsum()[::-1][1 : len(numbers) + 1]
    left = np.maximum(steps.newest - heights, repeated * heights - steps.oldest)
    strata = sample.strata
    at = np.minimum(np.searchsorted(strata.newest, steps.steps.begins), len(strata.newest) - 1)
    unseen = float((left * strata.event_design_weight[at]).max(initial=0.0))
    tops = np.array([min(end_of(number), sample.greatest_value) for number in numbers.tolist()])
    return np.asarray(_TAIL * unseen * np.maximum(tops - quantity.base, 0.0) / quantity.scale + above)


def _tall_sums(
    sample: PoissonSample, quantity: Quantity, classes: SliceTotals, as_of: Ints, table: PiecewiseDecay
) -> TallSums:
    """What some classes add up to."""
    assert sample.totals is not None
    begins, ends, _, _ = classes.slices()
    edges = distinct_sorted(np.concatenate([begins, ends]))
    steps = stepped(edges, as_of, table, table.first)
    held = _held(added_by(np.searchsorted(edges, begins), _masses(classes, quantity), len(edges)), steps)
    factors = steps.steps.heights, steps.oldest / most_rows(sample, sample.totals), steps.newest
    value, lower, upper = (added_by(steps.steps.at, factor * held, len(as_of)) for factor in factors)
    error = table.relative_error + _ROUNDING
    return TallSums(value, lower * (1.0 - error), upper * (1.0 + error))


def _held(masses: Floats, steps: SteppedDecay) -> Floats:
    """What each step holds of the masses between edges, none of which is negative."""
    before = np.append(0.0, np.cumsum(masses))
    held = np.asarray(before[steps.last] - before[steps.first])
    lost = np.flatnonzero(before[steps.last] > _LOST * held)
    held[lost] = RangeSums(masses[None]).between(steps.first[lost], steps.last[lost])[0]
    return held
