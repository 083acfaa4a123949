"""Sums, counts, means, shares and quantiles over the values above a threshold τ that is itself an aggregate.

τ is a multiple of a quantile or of the mean of all values and so has an interval of its own. For a quantile itself, of
all events that are asked about, `answers.above_quantile` knows more. Else half of the error probability goes
to τ: what lies above a threshold only shrinks as the threshold rises, so the sums at both ends of its interval enclose
those at τ itself. The mean *value* above a threshold only rises with it; that of another column need not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple

import numpy as np

from sketches.arrays import Flags, Floats, Ints, Rows, apart, power_of_two, ranges
from sketches.errors import UnanswerableError
from sketches.sampling.answers.above_quantile import AboveQuantile, Around, counts_above, largest_ties
from sketches.sampling.answers.cuts import Cuts, cuts_of
from sketches.sampling.answers.quantiles_above import Ranking, quantiles_above
from sketches.sampling.estimation.coefficients import Coefficients
from sketches.sampling.estimation.horvitz_thompson import FEW_TIMES, MOST_ERROR, Sums, sums_by_row
from sketches.sampling.estimation.inquiry import Estimates, Inquiry
from sketches.sampling.estimation.intervals import Total
from sketches.sampling.estimation.quotients import divide
from sketches.sampling.estimation.ratios import mean_of_sums, noticed, share_limits
from sketches.sampling.estimation.value_grid import grid_of, stride_of
from sketches.threshold import Threshold

_FEW_VALUES: Final = 0.25  # of what lies between the limits of a quantile: a value with more is not one of many


class SumsAround(NamedTuple):
    """Adds up coefficients over the rows above each end of a threshold, or below each."""

    above: Callable[[Coefficients], Around]
    below: Callable[[Coefficients], Around]


_Estimator = Callable[[Inquiry, Cuts, SumsAround], Estimates]


def above_threshold(inquiry: Inquiry, threshold: Threshold) -> Estimates:
    """The answer at all as-of times at once."""
    if threshold.own:
        raise UnanswerableError(f"{inquiry.question.tau}: 'own' is of each group, and this question has no groups")
    careful = replace(inquiry, confidence=(1.0 + inquiry.confidence) / 2.0)
    cuts = cuts_of(careful, threshold)
    if inquiry.question.ranks_above:
        return Estimates.joined([_quantile_at_one_time(careful, cuts, at) for at in range(len(inquiry.as_of))])
    estimates = enclosed_estimates
    if threshold.phi is not None and threshold.factor == 1.0 and _of_everything(inquiry):
        estimates = partial(_above_quantile, phi=threshold.phi, confidence=inquiry.confidence)
    times = len(inquiry.as_of)
    if times <= FEW_TIMES or len(inquiry.sample) == 0:
        return Estimates.joined([_at_one_time(careful, cuts, at, estimates) for at in range(times)])
    error = np.zeros(times)

    def around(coefficients: Coefficients, *, below: bool) -> Around:
        sums = _sums_around(careful, cuts, coefficients, below=below)
        np.maximum(error, sums.middle.table_error, out=error)
        return sums

    found = estimates(careful, cuts, SumsAround(partial(around, below=False), partial(around, below=True)))
    for at in np.flatnonzero(error > MOST_ERROR).tolist():
        exact = _at_one_time(careful, cuts, at, estimates)
        for name in ("value", "lower", "upper", "used"):
            getattr(found, name)[at] = getattr(exact, name)[0]
    return found


def _of_everything(inquiry: Inquiry) -> bool:
    """Whether it is asked of the same events as the threshold is of."""
    everything = inquiry.everything
    return not inquiry.question.where and (everything is None or len(everything) == len(inquiry.sample))


def _at_one_time(inquiry: Inquiry, cuts: Cuts, at: int, estimates: _Estimator) -> Estimates:
    """With f of each row."""
    one, here = replace(inquiry, as_of=inquiry.as_of[at : at + 1]), cuts.at(at)
    compared = here.compared(one.sample)
    low, middle, high = (compared >= end[0] for end in here.ends)

    def above(coefficients: Coefficients) -> Around:
        few = sums_by_row(coefficients, one.factors, high)
        some = few.plus(sums_by_row(coefficients, one.factors, middle & ~high))
        return Around(some.plus(sums_by_row(coefficients, one.factors, low & ~middle)), some, few)

    def below(coefficients: Coefficients) -> Around:
        few = sums_by_row(coefficients, one.factors, ~low)
        some = few.plus(sums_by_row(coefficients, one.factors, low & ~middle))
        return Around(few, some, some.plus(sums_by_row(coefficients, one.factors, middle & ~high)))

    return estimates(one, here, SumsAround(above, below))


def _quantile_at_one_time(inquiry: Inquiry, cuts: Cuts, at: int) -> Estimates:
    """A quantile of what lies above the threshold, with f of each row."""
    one, here = replace(inquiry, as_of=inquiry.as_of[at : at + 1]), cuts.at(at)
    sample, (decayed,) = one.sample, one.factors
    factors = np.zeros(len(sample))
    factors[decayed.rows] = decayed.factors
    compared = here.compared(sample)
    above = (compared >= here.ends.low, compared >= here.ends.middle, compared >= here.ends.high)
    order = sample.by_summed
    if (counts := above[0] & (factors > 0.0)).any():  # no other row is looked at
        order = order[counts[order]]
    return ranked_above(one, order, np.array([0, len(order)]), factors, above, here.taus.low)


def ranked_above(
    inquiry: Inquiry, order: Rows, bounds: Rows, factors: Floats, above: tuple[Flags, Flags, Flags], least: Floats
) -> Estimates:
    """The quantile of each group of rows above a threshold; `order` has the groups one after the other, and the rows of
    each by what is ranked. `least` is the lower limit of the threshold in each group."""
    sample, phi = inquiry.sample, inquiry.question.phi
    assert phi is not None
    masses, (values, smallest, greatest) = sample.weight_coefficients, sample.summed
    factors = factors[order]
    squares = np.square(factors)
    columns = [*(one[order] * factors for one in masses.linear), *(one[order] * squares for one in masses.squared)]
    decayed = np.stack(columns)
    own = sample.measures is None  # what is ranked is what lies above the threshold
    groups = len(bounds) - 1
    ends = np.full(groups, smallest), np.full(groups, greatest)
    ranking = Ranking(
        values=values[order].astype(np.float64),
        bounds=bounds,
        masses=decayed,
        above=(above[0][order], above[1][order], above[2][order]),
        ends=(np.fmin(np.maximum(ends[0], least), greatest) if own else ends[0], ends[1]),
    )
    value, lower, upper = quantiles_above(ranking, phi, inquiry.confidence, inquiry.unseen_unit)
    if values.dtype.kind in "iu":
        lower, upper = apart(lower, upper)
    counting = np.append(0, np.cumsum((factors > 0.0) & ranking.above[1]))
    return Estimates(value, lower, upper, np.diff(counting[bounds]))


def _above_quantile(inquiry: Inquiry, cuts: Cuts, sums: SumsAround, phi: float, confidence: float) -> Estimates:
    """Value and limits above a quantile of all events, whose rank is known; or above any of a few values it may be."""
    question, asked = inquiry.question, replace(inquiry, confidence=confidence)
    counted = inquiry.everything if inquiry.everything is not None else inquiry.sample
    ties, between = largest_ties(asked, counted, cuts.taus)
    plain = cuts.ends.certain | ~np.isfinite(cuts.taus.middle) | (ties > _FEW_VALUES * between)
    if plain.all():
        return enclosed_estimates(inquiry, cuts, sums)
    if question.masses <= {"weight" if question.by_weight else "events"}:
        found = counts_above(asked, phi, sums.above(inquiry.sample.weight_coefficients), ties)
    else:
        whole = asked.sums(asked.mean_coefficients)
        above = AboveQuantile(asked, phi, cuts.taus, sums.above(asked.mean_coefficients), whole, ties)
        with np.errstate(invalid="ignore"):  # where nothing counts, there is no threshold
            found = above.answer()
    if plain.any():
        enclosed = enclosed_estimates(inquiry, cuts, sums)
        lower, upper = (np.where(plain, getattr(enclosed, one), getattr(found, one)) for one in ("lower", "upper"))
        found = replace(found, value=np.where(plain, enclosed.value, found.value), lower=lower, upper=upper)
    return found


def enclosed_estimates(inquiry: Inquiry, cuts: Cuts, sums: SumsAround) -> Estimates:
    """Value and limits from the sums around the threshold."""
    question = inquiry.question
    if question.aggregate == "correlated-mean":
        return _means(inquiry, cuts.ends.certain, sums.above(inquiry.mean_coefficients))
    if question.of_value:
        return _value_sums(inquiry, sums)
    around = sums.above(inquiry.sample.weight_coefficients)
    many, middle, few = (part.total(0, 1, 0, inquiry.unseen_unit) for part in around)
    if question.aggregate == "selectivity":
        below = sums.below(inquiry.sample.weight_coefficients)
        rests = (part.total(0, 1, 0, inquiry.unseen_unit) for part in below)
        parts = zip((many, middle, few), rests, strict=True)
        most, share, least = (share_limits(part, rest, inquiry.confidence) for part, rest in parts)
        lower = np.where(cuts.ends.certain, share[1], least[1])
        upper = np.where(cuts.ends.certain, share[2], most[2])
        return Estimates(share[0], lower, upper, around.middle.used + below.middle.used)
    return Estimates(middle.value, *_enclosed(many, few, inquiry.confidence), around.middle.used)


def _enclosed(many: Total, few: Total, confidence: float) -> tuple[Floats, Floats]:
    return few.bounds(confidence)[0], many.bounds(confidence)[1]


def _value_sums(inquiry: Inquiry, sums: SumsAround) -> Estimates:
    """Σ w·v·f: the positive values above the threshold and the negative ones both grow fewer as it rises."""
    sample = inquiry.sample
    _, least, greatest = sample.summed
    largest_size = max(abs(least), abs(greatest))
    scale = power_of_two(largest_size) if largest_size < np.inf else 1.0
    sides = []
    for sign, largest in ((1, greatest), (-1, -least)):
        around = sums.above(sample.value_coefficients(sign, scale))
        factor = max(float(largest) / scale, 0.0) if np.isfinite(largest) else 0.0
        many, middle, few = (part.total(0, 1, 0, inquiry.unseen_unit, factor) for part in around)
        sides.append((middle.value, *_enclosed(many, few, inquiry.confidence)))
    (positive, least_positive, most_positive), (negative, least_negative, most_negative) = sides
    value, lost = positive - negative, noticed(positive + negative, positive - negative)
    lower, upper = least_positive - most_negative - lost, most_positive - least_negative + lost
    return Estimates(value * scale, lower * scale, upper * scale, around.middle.used)


def _means(inquiry: Inquiry, certain: Flags, around: Around) -> Estimates:
    many, middle, few = (mean_of_sums(inquiry, sums) for sums in around)
    of_value = inquiry.question.of_value
    if of_value and inquiry.sample.measures is None:
        lower, upper = np.fmin(many.lower, middle.lower), np.fmax(few.upper, middle.upper)
    else:
        unseen = inquiry.unseen_unit if of_value else inquiry.unseen_event
        tops = [sums.total(0, 1, 0, inquiry.unseen_unit).bounds(inquiry.confidence) for sums in around]
        bottoms = [sums.total(2, 3, 1, unseen).bounds(inquiry.confidence) for sums in around]
        base, scale = inquiry.mean_scale
        ends = (0.0, 1.0) if of_value else (float(inquiry.sample.least_weight), float(inquiry.sample.greatest_weight))
        least = np.maximum(divide(tops[2][0], bottoms[0][1], ends[0]), ends[0])
        most = np.minimum(divide(tops[0][1], bottoms[2][0], np.inf), ends[1])
        lower, upper = np.fmin(base + scale * least, middle.lower), np.fmax(base + scale * most, middle.upper)
    lower, upper = np.where(certain, middle.lower, lower), np.where(certain, middle.upper, upper)
    return Estimates(middle.value, lower, upper, middle.used)


def _sums_around(inquiry: Inquiry, cuts: Cuts, coefficients: Coefficients, *, below: bool) -> Around:
    """The sums of the blocks of values above (or below) each threshold, and of the rows of the block that it cuts."""
    sample, as_of = inquiry.sample, inquiry.as_of
    stride = stride_of(sample)
    found = grid_of(sample, coefficients, stride).sums(sample.unit, inquiry.decay, as_of)
    added = [(_before_each if below else _from_each)(blocks) for blocks in (found.linear, found.squared)]
    compared, parts = cuts.compared(sample)[sample.by_value], []
    for end in cuts.ends:
        ranks = np.searchsorted(compared, end, side="left")
        whole = ranks // stride if below else np.minimum((ranks + stride - 1) // stride, found.linear.shape[2])
        sums, squares = (_at(blocks, whole) for blocks in added)  # of the blocks that the threshold does not cut
        edges = np.minimum(whole * stride, len(sample))
        _add_ranks(inquiry, coefficients, (edges, ranks) if below else (ranks, edges), sums, squares)
        used = np.minimum(found.used, len(sample) - ranks)  # at most: those that have faded are not told apart
        used = found.used - used if below else used
        parts.append(Sums(sums, squares, used, found.relative_error))
    return Around(*parts)


def _from_each(blocks: Floats) -> Floats:
    """For each time the sum of the blocks from each of them on, and of none."""
    above = np.zeros((*blocks.shape[:2], blocks.shape[2] + 1))
    np.cumsum(blocks[:, :, ::-1], axis=2, out=above[:, :, -2::-1])
    return above


def _before_each(blocks: Floats) -> Floats:
    """For each time the sum of the blocks before each of them, and of all."""
    below = np.zeros((*blocks.shape[:2], blocks.shape[2] + 1))
    np.cumsum(blocks, axis=2, out=below[:, :, 1:])
    return below


def _at(blocks: Floats, first: Ints) -> Floats:
    """For each time the number of one block."""
    return np.ascontiguousarray(blocks[np.arange(len(first)), :, first])


def _add_ranks(
    inquiry: Inquiry, coefficients: Coefficients, ends: tuple[Ints, Ints], sums: Floats, squares: Floats
) -> None:
    """For each time add the rows of a range of ranks in the order of values."""
    sample, times = inquiry.sample, len(inquiry.as_of)
    ranks, which = ranges(*ends)
    rows = sample.by_value[ranks]
    factors = inquiry.decay(sample.unit.seconds(inquiry.as_of[which] - sample.times[rows]))
    for power, (found, columns) in enumerate(((sums, coefficients.linear), (squares, coefficients.squared)), start=1):
        decayed = factors**power
        for at, column in enumerate(columns):
            found[:, at] += np.bincount(which, column[rows] * decayed, times)
