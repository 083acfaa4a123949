"""Which answers lean on exact totals, and on which: sums, counts and means, of all values or of a range of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import numpy as np

from sketches.arrays import Flags, Floats, Rows, power_of_two
from sketches.decay.functions import NoDecay
from sketches.events import Kind
from sketches.predicate import EVERY_EVENT, Predicate, Range
from sketches.sampling.difference_estimator.counted_rows import counted_rows
from sketches.sampling.difference_estimator.leaning import (
    EVENTS,
    ROUNDING,
    WEIGHTS,
    LeanedSums,
    PlainSums,
    Quantity,
    lean,
)
from sketches.sampling.difference_estimator.tall_values import TallSums, capped
from sketches.sampling.estimation.coefficients import Coefficients
from sketches.sampling.estimation.horvitz_thompson import Sums
from sketches.sampling.estimation.inquiry import Estimates, Inquiry
from sketches.sampling.estimation.intervals import Total
from sketches.sampling.estimation.piecewise_decay import too_faded
from sketches.sampling.estimation.poisson_sample import PoissonSample
from sketches.sampling.estimation.ratios import mean_of_sums
from sketches.sampling.totals.slice_totals import VALUE

ENOUGH: Final = 25  # sampled events in a sum: with fewer, an unseen event that came twice could matter more than they
_ENOUGH_IN_A_RANGE: Final = 100  # of values, where an unseen event may leave more beside totals than without them


def leaned_count(inquiry: Inquiry, rows: Rows | None = None, values: Range | None = None) -> Estimates:
    """Σ w·f over all rows or some, with exact totals where they are known and enough sampled events count; with fewer,
    within what totals of just these events allow.

    `values` is the range of values, besides the question's predicate, that the rows are of.
    """
    question, confidence = inquiry.question, inquiry.confidence
    quantities = (WEIGHTS if question.by_weight or question.sums else EVENTS,)
    leaned, sums = _both(inquiry, quantities, lambda: inquiry.sample.weight_coefficients, rows, values)
    total = sums.total(0, 1, 0, inquiry.unseen_unit)
    worth = _worth_leaning(inquiry, total, values)
    leaned = _at(inquiry, quantities, values, worth) if leaned is None else leaned.at(worth)
    found = Estimates(total.value, *total.bounds(confidence), sums.used)
    if leaned is not None and worth.any():
        value, lower, upper = (np.maximum(limit, 0.0) for limit in leaned.limits(confidence, whole=_is_whole(inquiry)))
        every = worth.all()
        found = Estimates(value, lower, upper, sums.used) if every else _with(found, worth, value, lower, upper)
    few = ~worth & ~total.exact
    return found if rows is not None or values is not None else _cut(inquiry, found, few, quantities[0])


def _cut(inquiry: Inquiry, found: Estimates, few: Flags, quantity: Quantity) -> Estimates:
    """An answer of which too few events were sampled at some times, within what was counted of its rows."""
    counted = counted_rows(inquiry, quantity.column) if few.any() else None
    if counted is None:
        return found
    leaned = _at(inquiry, (quantity,), None, few)
    if leaned is None:
        return counted.cut(found, few)
    better = found.value.copy()
    better[few] = leaned.values[:, 0]
    return counted.cut(found, few, better)


def leaned_value_sum(inquiry: Inquiry, plain: Estimates, total: Total, values: Range | None) -> Estimates:
    """Σ w·v·f, likewise; `plain` is the answer without totals, `total` the events that it is over."""
    sample = _unrestricted(inquiry)
    worth = _worth_leaning(inquiry, total, values)
    if not _values_known(inquiry, values):
        return plain
    if values is None:
        plain = _cut(inquiry, plain, ~worth & ~total.exact, Quantity(VALUE))
    if not worth.any():
        return plain
    for some, quantity, tall in capped(sample, Quantity(VALUE), inquiry.decay, inquiry.as_of[worth]):
        which = _among(worth, some)
        leaned = _at(inquiry, (quantity,), values, which)
        if leaned is None:
            continue
        whole = tall is None and sample.kind is Kind.INTEGER and _is_whole(inquiry)
        value, lower, upper = leaned.limits(inquiry.confidence, whole=whole)
        if tall is not None:
            value, lower, upper = value + tall.value, lower + tall.lower, upper + tall.upper
        if sample.least_value >= 0.0:
            value, lower, upper = (np.maximum(limit, 0.0) for limit in (value, lower, upper))
        plain = _with(plain, which, value, lower, upper)
    return plain


def leaned_mean(inquiry: Inquiry, rows: Rows | None, values: Range | None, at_least: float) -> Estimates:
    """The mean of the weight or of the value, likewise; `at_least` where the values are known not to be less."""
    of_value = inquiry.question.of_value
    quantities = () if of_value else (WEIGHTS, EVENTS)
    leaned, sums = _both(inquiry, quantities, lambda: inquiry.mean_coefficients, rows, values)
    plain = mean_of_sums(inquiry, sums, at_least)
    worth = _worth_leaning(inquiry, sums.total(2, 3, 1, inquiry.unseen_event), values)
    if not worth.any() or (of_value and not _values_known(inquiry, values)):
        return plain
    if of_value:
        return _mean_of_values(inquiry, plain, worth, values)
    least, most = np.array([float(inquiry.sample.least_weight)]), np.array([float(inquiry.sample.greatest_weight)])
    leaned = _at(inquiry, (WEIGHTS, EVENTS), values, worth) if leaned is None else leaned.at(worth)
    if leaned is None:
        return plain
    return _with(plain, worth, *_mean_limits(leaned, None, least, most, inquiry.confidence))


def _mean_of_values(inquiry: Inquiry, plain: Estimates, worth: Flags, values: Range | None) -> Estimates:
    """The mean of the values, with totals at the times that are worth it."""
    base, scale, least, most = _scaled(inquiry)
    parts = capped(_unrestricted(inquiry), Quantity(VALUE, base, scale), inquiry.decay, inquiry.as_of[worth])
    for some, quantity, tall in parts:
        which = _among(worth, some)
        leaned = _at(inquiry, (quantity, EVENTS), values, which)
        if leaned is None:
            continue
        limits = _mean_limits(leaned, tall, np.array([least]), np.array([most]), inquiry.confidence)
        plain = _with(plain, which, *(base + scale * limit for limit in limits))
    return plain


def _scaled(inquiry: Inquiry) -> tuple[float, float, float, float]:
    """Means of values are computed as base + scale·(a mean between two numbers), and these two. The base is no value
    beside which others would lose their digits, and the scale a power of two."""
    _, least, greatest = inquiry.sample.summed
    if not np.isfinite(greatest - least):
        return 0.0, 1.0, least, greatest
    base = min(max(0.0, least), greatest)
    scale = power_of_two(max(greatest - base, base - least))
    return base, scale, (least - base) / scale, (greatest - base) / scale


def _among(which: Flags, some: Flags) -> Flags:
    """Some of the times that are chosen, among all times."""
    found = which.copy()
    found[which] = some
    return found


def _mean_limits(
    found: LeanedSums, tall: TallSums | None, least: Floats, most: Floats, confidence: float
) -> tuple[Floats, Floats, Floats]:
    """The mean with its limits; `tall` is the part of the sum that has limits of its own, which always hold."""
    quotient = found.mean(np.zeros(1) if tall is not None else least, most)
    lower, upper = quotient.bounds(confidence)
    value = quotient.value
    with np.errstate(divide="ignore", invalid="ignore"):
        further = np.maximum(np.abs(lower), np.abs(upper))
        off = (found.off[:, 0] + further * found.off[:, 1]) / found.values[:, 1] + ROUNDING * further
        lower, upper = np.fmin(lower - off, value), np.fmax(upper + off, value)
        if tall is not None:
            spread = 4.0 * (np.sqrt(found.covariances[:, 2]) + np.maximum(found.more, found.fewer)[:, 1])
            count = found.values[:, 1]
            fewest = count - np.minimum(spread, 0.5 * count)
            value, lower = value + tall.value / count, lower + tall.lower / (count + spread)
            upper = upper + tall.upper / fewest
    return np.clip(value, least, most), np.clip(lower, least, most), np.clip(upper, least, most)


def _unrestricted(inquiry: Inquiry) -> PoissonSample:
    """The sample of all events; or of those that satisfy the question's predicate, where these have totals of their
    own."""
    own = inquiry.unrestricted is None or inquiry.sample.totals is not None
    return inquiry.sample if own or inquiry.unrestricted is None else inquiry.unrestricted


def _both(
    inquiry: Inquiry,
    quantities: tuple[Quantity, ...],
    coefficients: Callable[[], Coefficients],
    rows: Rows | None,
    values: Range | None,
) -> tuple[LeanedSums | None, Sums]:
    """The sums with totals and without, from one pass; without them alone where f of each row is as cheap, or where
    nothing was left to chance, so that the answer is exact."""
    found = None
    if quantities and not replace(inquiry, sample=_unrestricted(inquiry)).is_small():
        found = _leaned(inquiry, quantities, values)
    if found is None:
        return None, inquiry.sums(coefficients(), rows)
    leaned, plain = found
    sums = plain.as_sums(inquiry.used(rows))
    if not sums.squared[:, 0].all() and inquiry.is_small(rows):
        sums = inquiry.sums(coefficients(), rows)
    return leaned, sums


def _leaned(
    inquiry: Inquiry, quantities: tuple[Quantity, ...], values: Range | None, which: Flags | None = None
) -> tuple[LeanedSums, PlainSums] | None:
    """The sums with totals and without at all as-of times or some; None where nothing is known to lean on."""
    sample, inside = _unrestricted(inquiry), _range_of(inquiry, values)
    as_of = inquiry.as_of if which is None else inquiry.as_of[which]
    leaning = None if inside is None or not len(as_of) else lean(sample, quantities, inside or None)
    return None if leaning is None else leaning.sums(inquiry.decay, as_of, sample.unit)


def _at(inquiry: Inquiry, quantities: tuple[Quantity, ...], values: Range | None, which: Flags) -> LeanedSums | None:
    """Those with totals alone, at some as-of times."""
    found = _leaned(inquiry, quantities, values, which)
    return None if found is None else found[0]


def _values_known(inquiry: Inquiry, values: Range | None) -> bool:
    """Whether sums of all values are asked for, and every event counts once, or as often as it came: sums of values
    are not known by weight."""
    sample, inside = _unrestricted(inquiry), _range_of(inquiry, values)
    most = sample.most_rows if sample.counts_rows else 1
    return inside is not None and not inside and sample.least_weight == 1 and sample.greatest_weight in (1, most)


def _worth_leaning(inquiry: Inquiry, total: Total, values: Range | None) -> Flags:
    """At which times enough sampled events count, and not all have faded too far."""
    sample = _unrestricted(inquiry)
    if sample.totals is None or not len(sample):
        return np.zeros(len(inquiry.as_of), bool)
    enough = _ENOUGH_IN_A_RANGE if _range_of(inquiry, values) else ENOUGH
    worth = (total.variance > 0) & (np.square(total.sampled) >= enough * total.variance)
    worth[too_faded(sample.times, sample.unit, inquiry.decay, inquiry.as_of)] = False
    return worth


def _is_whole(inquiry: Inquiry) -> bool:
    """Whether numbers of events and sums of whole numbers are whole: f is 1 or 0."""
    return isinstance(inquiry.decay.split()[0], NoDecay)


def _range_of(inquiry: Inquiry, values: Range | None) -> Range | None:
    """The values that an answer is about, among those that totals are of; None where it is restricted by more than a
    range of values."""
    where = EVERY_EVENT if inquiry.sample.totals is not None else inquiry.question.where
    found = where.range_of("value")
    if where != Predicate.of(None, value=found):
        return None
    return found if values is None else found.within(values)


def _with(plain: Estimates, which: Flags, value: Floats, lower: Floats, upper: Floats) -> Estimates:
    """The plain estimates with others at some times."""
    columns = []
    for before, better in ((plain.value, value), (plain.lower, lower), (plain.upper, upper)):
        column = before.copy()
        column[which] = better
        columns.append(column)
    return replace(plain, value=columns[0], lower=columns[1], upper=columns[2])
