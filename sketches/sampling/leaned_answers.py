"""Which answers lean on exact totals, and on which: sums, counts and means, of all values or of a range of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from sketches.arrays import Flags, Floats
from sketches.predicate import Range
from sketches.question import Question
from sketches.sampling.horvitz_thompson import Sums
from sketches.sampling.inquiry import Estimates, Inquiry
from sketches.sampling.intervals import Total
from sketches.sampling.leaning import EVENTS, WEIGHTS, LeanedSums, Quantity, lean
from sketches.sampling.piecewise_decay import too_faded
from sketches.sampling.poisson_sample import PoissonSample
from sketches.sampling.slice_totals import VALUE
from sketches.sampling.tall_values import TallSums, capped

_ENOUGH: Final = 25  # sampled events in a sum: with fewer, an unseen event that came twice could matter more than they
_ENOUGH_IN_A_RANGE: Final = 100  # of values, where an unseen event may leave more beside totals than without them
_ROUNDING: Final = 1e-12  # declared of exact totals


def leaned_sum(inquiry: Inquiry, plain: Estimates, total: Total, values: Range | None) -> Estimates:
    """A sum over events, with exact totals where they are known and enough sampled events count.

    `plain` is the answer without them, `total` the events that it is over, `values` the range that it is restricted to
    besides the question's predicate.
    """
    sample, question = _unrestricted(inquiry), inquiry.question
    inside = _range_of(question, values)
    worth = _worth_leaning(inquiry, total, restricted=bool(inside))
    if inside is None or not worth.any() or (question.of_value and (inside or not _each_alike(sample))):
        return plain
    as_of = inquiry.as_of[worth]
    quantity, tall = (WEIGHTS if question.by_weight or question.sums else EVENTS), None
    if question.of_value:
        quantity, tall = capped(sample, Quantity(VALUE), inquiry.decay, as_of)
    leaning = lean(sample, (quantity,), inside or None)
    if leaning is None:
        return plain
    value, lower, upper = leaning.sums(inquiry.decay, as_of, sample).limits(inquiry.confidence)
    if tall is not None:
        value, lower, upper = value + tall.value, lower + tall.lower, upper + tall.upper
    off = np.where(lower == upper, 0.0, _ROUNDING * np.abs(value))
    lower, upper = lower - off, upper + off
    if not question.of_value or sample.least_value >= 0.0:
        value, lower, upper = (np.maximum(limit, 0.0) for limit in (value, lower, upper))
    return _with(plain, worth, value, lower, upper)


def leaned_mean(inquiry: Inquiry, plain: Estimates, sums: Sums, values: Range | None) -> Estimates:
    """The mean of the weight or of the value, likewise; `sums` are those of `Inquiry.mean_coefficients`."""
    sample, question = _unrestricted(inquiry), inquiry.question
    inside = _range_of(question, values)
    worth = _worth_leaning(inquiry, sums.total(2, 3, 1, inquiry.unseen_event), restricted=bool(inside))
    if inside is None or not worth.any() or (question.of_value and (inside or not _each_alike(sample))):
        return plain
    base, scale = inquiry.mean_scale
    as_of, quantity, tall = inquiry.as_of[worth], WEIGHTS, None
    least, most = np.array([float(inquiry.sample.least_weight)]), np.array([float(inquiry.sample.greatest_weight)])
    if question.of_value:
        least, most = np.zeros(1), np.ones(1)
        quantity, tall = capped(sample, Quantity(VALUE, base, scale), inquiry.decay, as_of)
    leaning = lean(sample, (quantity, EVENTS), inside or None)
    if leaning is None:
        return plain
    found = leaning.sums(inquiry.decay, as_of, sample)
    value, lower, upper = _mean_limits(found, tall, least, most, inquiry.confidence)
    return _with(plain, worth, *(base + scale * limit for limit in (value, lower, upper)))


def _mean_limits(
    found: LeanedSums, tall: TallSums | None, least: Floats, most: Floats, confidence: float
) -> tuple[Floats, Floats, Floats]:
    """The mean with its limits; `tall` is the part of the sum that has limits of its own, which always hold."""
    quotient = found.mean(np.zeros(1) if tall is not None else least, most)
    lower, upper = quotient.bounds(confidence)
    value = quotient.value
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = (found.off / np.abs(found.values)).sum(axis=1) + 2.0 * _ROUNDING
        lower, upper = np.fmin(lower * (1.0 - relative), value), np.fmax(upper * (1.0 + relative), value)
        if tall is not None:
            spread = 4.0 * (np.sqrt(found.covariances[:, 2]) + np.maximum(found.more, found.fewer)[:, 1])
            count = found.values[:, 1]
            fewest = count - np.minimum(spread, 0.5 * count)
            value, lower = value + tall.value / count, lower + tall.lower / (count + spread)
            upper = upper + tall.upper / fewest
    return np.clip(value, least, most), np.clip(lower, least, most), np.clip(upper, least, most)


def _unrestricted(inquiry: Inquiry) -> PoissonSample:
    return inquiry.sample if inquiry.unrestricted is None else inquiry.unrestricted


def _each_alike(sample: PoissonSample) -> bool:
    """Whether every event counts once, or as often as it came: sums of values are not known by weight."""
    most = sample.most_rows if sample.counts_rows else 1
    return sample.least_weight == 1 and sample.greatest_weight in (1, most)


def _worth_leaning(inquiry: Inquiry, total: Total, *, restricted: bool) -> Flags:
    """At which times enough sampled events count, and not all have faded too far for a table of f."""
    sample = _unrestricted(inquiry)
    if sample.totals is None or not len(sample):
        return np.zeros(len(inquiry.as_of), bool)
    enough = _ENOUGH_IN_A_RANGE if restricted else _ENOUGH
    worth = (total.variance > 0) & (np.square(total.sampled) >= enough * total.variance)
    worth[too_faded(sample.times, sample.unit, inquiry.decay, inquiry.as_of)] = False
    return worth


def _range_of(question: Question, values: Range | None) -> Range | None:
    """The values that an answer is about; None where it is restricted by more than a range of values."""
    where = question.where
    if where.key is not None or any(column != "value" for column, _ in where.ranges):
        return None
    found = where.range_of("value")
    return found if values is None else found.within(values)


def _with(plain: Estimates, which: Flags, value: Floats, lower: Floats, upper: Floats) -> Estimates:
    """The plain estimates with others at some times."""
    columns = []
    for before, better in ((plain.value, value), (plain.lower, lower), (plain.upper, upper)):
        column = before.copy()
        column[which] = better
        columns.append(column)
    return replace(plain, value=columns[0], lower=columns[1], upper=columns[2])
