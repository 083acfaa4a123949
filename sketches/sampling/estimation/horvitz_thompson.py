"""Horvitz–Thompson sums: decayed sums over the rows of a Poisson sample, at one as-of time or at hundreds in one pass.

There are two ways to compute them, and `sketches.sampling.estimation.inquiry` picks the cheaper:

- `sums_by_row`, for few as-of times: f of each row once, then dot products.
- `sums_by_tree`, for many as-of times or very many rows: f at a few ages of chunks of rows, with weights that serve
  every decay (`estimation.time_tree`). The cost hardly grows with the number of rows. Such sums say how far off
  they may be.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import numpy as np

from sketches.arrays import Flags, Floats, Ints, Rows
from sketches.decay import Decay
from sketches.records import dataclass
from sketches.sampling.estimation.coefficients import Coefficients
from sketches.sampling.estimation.intervals import Total, Unseen
from sketches.sampling.estimation.piecewise_decay import FINE_TOLERANCE, TOLERANCE
from sketches.sampling.estimation.poisson_sample import PoissonSample
from sketches.sampling.estimation.time_tree import Cover
from sketches.units import TimeUnit

MANY_ROWS: Final = 200_000  # from here on a cover of chunks is cheaper than the decay of each row
FEW_TIMES: Final = 6  # as-of times up to which the decay of each of fewer rows is cheaper
_AT_ONCE: Final = 1 << 15  # rows of which f is computed together: what is computed on the way stays in the cache
_FEW_ROWS: Final = 8  # as one in so many, rows are copied together before they are added up
MOST_UNSEEN: Final = 1e150  # so that its square is a number; beside it nothing else counts
_ROUNDING: Final = 1e-12  # of a sum, relatively
MOST_ERROR: Final = 1e-3  # of a sum from a cover of chunks, relatively; else it is computed by row


@dataclass(frozen=True, slots=True)
class Sums:
    """For each as-of time (first axis) one decayed sum of each coefficient, and the number of rows with f > 0.

    `table_error` is how far, relatively, the sums may be off because f was not computed for each row; else 0.
    """

    linear: Floats
    squared: Floats
    used: Ints
    table_error: float | Floats = 0.0

    def plus(self, others: Sums) -> Sums:
        """The sums over these rows and others, with f of each row."""
        return Sums(self.linear + others.linear, self.squared + others.squared, self.used + others.used)

    def total(self, certain: int, sampled: int, variance: int, unseen: Unseen, scale: float = 1.0) -> Total:
        """The `Total` of three of the sums; `scale` is the largest factor that an unseen row may carry besides."""
        return Total(
            self.linear[:, certain],
            self.linear[:, sampled],
            self.squared[:, variance],
            unseen.contribution * scale,
            unseen.variance * scale**2,
            self.table_error,
        )


@dataclass(frozen=True, slots=True)
class DecayFactors:
    """The rows that can count at one as-of time, and f of each."""

    rows: slice
    factors: Floats

    @classmethod
    def at(cls, times: Ints, as_of: int, decay: Decay, unit: TimeUnit) -> DecayFactors:
        rows = _rows_in_reach(times, as_of, decay, unit)
        factors = np.empty(rows.stop - rows.start)
        for start in range(0, len(factors), _AT_ONCE):
            inside = times[rows.start + start : min(rows.start + start + _AT_ONCE, rows.stop)]
            factors[start : start + len(inside)] = decay(unit.seconds(as_of - inside))
        return cls(rows, factors)


def _rows_in_reach(times: Ints, as_of: int, decay: Decay, unit: TimeUnit) -> slice:
    """The rows that are not newer than the as-of time and not older than the decay's horizon."""
    stop = int(np.searchsorted(times, as_of, side="right"))
    start = 0
    reach = decay.horizon * unit.denominator / unit.numerator
    if reach < float(1 << 62):
        start = int(np.searchsorted(times, as_of - int(np.ceil(reach)), side="left"))
    return slice(min(start, stop), stop)


def sums_by_row(coefficients: Coefficients, factors: Sequence[DecayFactors], chosen: Flags | None = None) -> Sums:
    """The sums from f of each row, over all rows or over the chosen ones."""
    linear = np.zeros((len(factors), len(coefficients.linear)))
    squared = np.zeros((len(factors), len(coefficients.squared)))
    used = np.zeros(len(factors), np.int64)
    for at, one in enumerate(factors):
        counting, decayed = (one.rows, one.factors) if chosen is None else _of_some(one, chosen[one.rows])
        linear[at] = [np.einsum("n,n->", column[counting], decayed) for column in coefficients.linear]
        squares = np.square(decayed)
        squared[at] = [np.einsum("n,n->", column[counting], squares) for column in coefficients.squared]
        used[at] = np.count_nonzero(decayed)
    return Sums(linear, squared, used)


def _of_some(one: DecayFactors, chosen: Flags) -> tuple[slice | Rows, Floats]:
    """Rows that count, and f of each: the chosen alone where they are few, else all, and 0 for the others."""
    if np.count_nonzero(chosen) * _FEW_ROWS > len(chosen):
        return one.rows, one.factors * chosen
    rows = np.flatnonzero(chosen)
    return rows + one.rows.start, one.factors[rows]


def sums_by_value(sample: PoissonSample, decay: Decay, as_of: int, starts: Rows) -> Floats:
    """The certain part, the sampled part and the variance of Σ w·f over rows in the order of values, from each start to
    before the next; the first start is 0."""
    found = np.zeros((3, len(starts)))
    for first in range(0, len(sample), _AT_ONCE):
        rows = slice(first, min(first + _AT_ONCE, len(sample)))
        factors = decay(sample.unit.seconds(as_of - sample.times_by_value[rows]))
        begin, end = np.searchsorted(starts, (rows.start, rows.stop))
        begin -= begin == len(starts) or starts[begin] > rows.start  # one that began before goes on
        own = np.maximum(starts[begin:end] - rows.start, 0)
        for at, column in enumerate(sample.coefficients_by_value[:, rows]):
            decayed = column * factors
            if at == 2:  # the variance is that of f²
                decayed *= factors
            found[at, begin:end] += np.add.reduceat(decayed, own)
    return found


def sums_by_tree(coefficients: Coefficients, unit: TimeUnit, decay: Decay, as_of: Ints) -> Sums:
    """The sums from chunks of rows; from f of each row where too little would be known of them."""

    def by_row(moments: Ints) -> Sums:
        factors = [DecayFactors.at(coefficients.times, moment, decay, unit) for moment in moments.tolist()]
        return sums_by_row(coefficients, factors)

    if len(coefficients.times) == 0 or len(as_of) == 0:
        return by_row(as_of)
    tolerance = TOLERANCE if len(as_of) > FEW_TIMES else FINE_TOLERANCE
    cover = coefficients.tree.cover(unit, decay, as_of, tolerance)
    linear, squared = _sums_of_cover(coefficients, unit, decay, as_of, cover)
    error = cover_error(coefficients, cover, linear)
    sums = Sums(linear, squared, coefficients.tree.used(unit, decay, as_of), error)
    lost = np.flatnonzero(error > MOST_ERROR)
    if len(lost):
        exact = by_row(as_of[lost])
        linear[lost], squared[lost], sums.used[lost], error[lost] = exact.linear, exact.squared, exact.used, _ROUNDING
    return sums


def _sums_of_cover(
    coefficients: Coefficients, unit: TimeUnit, decay: Decay, as_of: Ints, cover: Cover
) -> tuple[Floats, Floats]:
    found = [np.zeros((len(columns), len(as_of))) for columns, _ in coefficients.kinds]
    for power, (sums, (_, weights)) in enumerate(zip(found, coefficients.kinds, strict=True), start=1):
        for pairs, of_chunks in zip(cover.pairs, weights, strict=True):
            parts = np.einsum("jp,pjk->kp", pairs.factors**power, of_chunks[pairs.chunks])
            for at, part in enumerate(parts):
                sums[at] += np.bincount(pairs.times, part, len(as_of))
    for times, rows, factors in coefficients.tree.by_row(cover, unit, decay, as_of):
        for power, (sums, (columns, _)) in enumerate(zip(found, coefficients.kinds, strict=True), start=1):
            decayed = factors**power
            for at, column in enumerate(columns):
                sums[at] += np.bincount(times, np.einsum("pr,pr->p", column[rows], decayed), len(as_of))
    linear, squared = (np.maximum(sums.T, 0.0) for sums in found)
    return linear, squared


def cover_error(coefficients: Coefficients, cover: Cover, linear: Floats) -> Floats:
    """How far sums from a cover may be off, relatively, at each as-of time.

    Rows that hardly count may be off by more, beside all that is summed. Two columns make up a sum: what is certain,
    and what was sampled.
    """
    error = cover.relative_error + _ROUNDING
    if not cover.faint_error.any():
        return error
    sums, whole = (one.reshape(len(one), -1, 2).sum(axis=2) for one in (linear, coefficients.whole[None]))
    with np.errstate(divide="ignore", invalid="ignore"):
        off = cover.faint_error[:, None] * whole
        faint = np.where(off > 0.0, off / sums, 0.0)
    return np.asarray(error + faint.max(axis=1))


def largest_unseen(sample: PoissonSample, decay: Decay, as_of: Ints, per: Literal["unit", "event"]) -> Unseen:
    """The most that one unsampled unit of weight or one unsampled event could count at each as-of time."""
    strata = sample.strata
    if per == "unit":
        design_weight, exclusion_probability = strata.unit_design_weight, strata.unit_exclusion_probability
    else:
        design_weight, exclusion_probability = strata.event_design_weight, strata.event_exclusion_probability
    sampled = design_weight > 0
    if not sampled.any() or not len(as_of):
        return Unseen(np.zeros(len(as_of)), np.zeros(len(as_of)))
    newest, oldest = strata.newest[sampled], strata.oldest[sampled]
    ages = as_of[:, None] - np.minimum(newest, as_of[:, None])
    factors = np.where(oldest <= as_of[:, None], decay(sample.unit.seconds(ages)), 0.0)
    with np.errstate(over="ignore"):
        contributions = np.minimum(factors * design_weight[sampled], MOST_UNSEEN)
    largest = contributions.argmax(axis=1)
    contribution = contributions[np.arange(len(as_of)), largest]
    return Unseen(contribution, np.square(contribution) * exclusion_probability[sampled][largest])
