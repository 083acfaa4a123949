"""From sampled rows to answers: every aggregate with its interval, at one as-of time or at many.

Each function turns decayed sums (`sketches.totals`) into value, lower and upper limit with the intervals of
`sketches.intervals`; they work on arrays with one entry per as-of time, so that an answer is a series of length one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import numpy as np
from numba import njit

from sketches.asked import Answer, Asked, Floats, Ints, Rows
from sketches.drawn import Drawn
from sketches.errors import UnanswerableError
from sketches.estimate import Item
from sketches.events import Kind
from sketches.intervals import Total, ratio_bounds, share_bounds
from sketches.joins import self_join
from sketches.quantiles import quantiles
from sketches.totals import total

DEFAULT_TOP: Final = 10
ORDERED: Final = frozenset(
    {
        "selectivity",
        "rank",
        "quantile",
        "median",
        "range-sum",
        "range-frequency",
        "correlated-sum",
        "correlated-count",
        "correlated-mean",
    }
)


def answer(asked: Asked) -> Answer:
    """Answer the question at all its as-of times."""
    question, drawn = asked.question, asked.drawn
    if drawn.kind is Kind.KEY and len(drawn):
        if question.aggregate in ORDERED:
            raise UnanswerableError(f"{question.aggregate} needs ordered values, but this stream's values are text")
        if question.of == "value":
            raise UnanswerableError("of='value' needs numbers, but this stream's values are text")
    if question.tau_quantile is not None:
        return _at_each_time(asked, _tau_is_an_aggregate)
    return _ANSWERS[question.aggregate](asked)


def _at_each_time(asked: Asked, one: Callable[[Asked], Answer]) -> Answer:
    """For what has no closed form over many times: one time after the other."""
    parts = [one(replace(asked, as_of=asked.as_of[at : at + 1])) for at in range(len(asked.as_of))]
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return Answer(np.zeros(0), np.zeros(0), np.zeros(0), np.zeros(0, np.int64))
    return Answer(
        np.concatenate([part.value for part in parts]),
        np.concatenate([part.lower for part in parts]),
        np.concatenate([part.upper for part in parts]),
        np.concatenate([part.used for part in parts]),
    )


def _sum(asked: Asked) -> Answer:
    if asked.question.of == "value":
        return _value_sum(asked)
    return _plain(*asked.weight(), asked.confidence)


def _count(asked: Asked) -> Answer:
    return _plain(*asked.count(), asked.confidence)


def _plain(amount: Total, used: Ints, confidence: float) -> Answer:
    return Answer(amount.value, *amount.bounds(confidence), used)


def _value_sum(asked: Asked) -> Answer:
    """Σ v·f as gains less losses; they are sums over different events, so their errors add up in squares."""
    drawn = asked.drawn
    scale = max(abs(drawn.least_value), abs(drawn.greatest_value)) if len(drawn) else 0.0
    scale = scale or 1.0
    sides = []
    for sign, most in ((1, drawn.greatest_value), (-1, -drawn.least_value)):
        sums = asked.sums(drawn.value_columns(sign, scale))
        sides.append(total(sums, 0, 1, 0, asked.unseen_count, max(float(most) / scale, 0.0) if len(drawn) else 0.0))
    gain, loss = sides
    (gain_lower, gain_upper), (loss_lower, loss_upper) = (side.bounds(asked.confidence) for side in sides)
    value = gain.value - loss.value
    lower = value - np.hypot(gain.value - gain_lower, loss_upper - loss.value)
    upper = value + np.hypot(gain_upper - gain.value, loss.value - loss_lower)
    return Answer(value * scale, lower * scale, upper * scale, sums.used)


def _mean(asked: Asked, rows: Rows | None = None) -> Answer:
    drawn = asked.drawn
    if asked.question.of == "value":
        base, scale = 0.0, 1.0
        if len(drawn):
            base, scale = drawn.least_value, (drawn.greatest_value - drawn.least_value) or 1.0
        sums = asked.sums(drawn.value_mean_columns(scale), rows)
        top = total(sums, 0, 1, 0, asked.unseen_count)
        least, most = base, base + scale if len(drawn) else 0.0
    else:
        base, scale = 0.0, 1.0
        sums = asked.sums(drawn.mean_columns, rows)
        top = total(sums, 0, 1, 0, asked.unseen_weight)
        least, most = 1.0, float(drawn.greatest_weight)
    bottom = total(sums, 2, 3, 1, asked.unseen_count)
    effective = _divide(np.square(bottom.sampled), bottom.variance, np.inf)
    lower, upper = ratio_bounds(top, bottom, sums.squared[:, 2], effective, asked.confidence)
    value = base + scale * _divide(top.value, bottom.value, np.nan)
    exact = (top.unseen == 0) & (bottom.unseen == 0) & ((np.asarray(bottom.slack) == 0) | np.isnan(value))
    lower = np.where(exact, value, np.clip(base + scale * lower, least, most))
    upper = np.where(exact, value, np.clip(base + scale * upper, least, most))
    return Answer(value, lower, upper, sums.used)


def _share(asked: Asked, rows: Rows) -> Answer:
    whole, used = asked.weight()
    part, _ = asked.weight(rows)
    return Answer(*_share_limits(part, whole, asked.confidence), used)


def _share_limits(part: Total, whole: Total, confidence: float) -> tuple[Floats, Floats, Floats]:
    lower, upper = share_bounds(part, whole.less(part), confidence)
    value = _divide(part.value, whole.value, np.nan)
    nothing = whole.value <= 0
    lower = np.where(nothing, 0.0, np.where(whole.exact, value, np.fmin(lower, value)))
    upper = np.where(nothing, 1.0, np.where(whole.exact, value, np.fmax(upper, value)))
    return value, lower, upper


def _selectivity(asked: Asked) -> Answer:
    question = asked.question
    if question.tau is not None:
        return _share(asked, asked.between(float(question.tau), None))
    return _share(asked, asked.between(question.low, question.high))


def _rank(asked: Asked) -> Answer:
    value = asked.question.value
    if isinstance(value, str):
        raise UnanswerableError(f"rank needs a number, not {value!r}")
    return _share(asked, asked.between(None, value))


def _frequency(asked: Asked) -> Answer:
    assert asked.question.value is not None
    return _share(asked, asked.equal(asked.question.value))


def _range_sum(asked: Asked) -> Answer:
    return _plain(*asked.weight(asked.between(asked.question.low, asked.question.high)), asked.confidence)


def _range_frequency(asked: Asked) -> Answer:
    return _share(asked, asked.between(asked.question.low, asked.question.high))


def _correlated(asked: Asked, tau: float) -> Answer:
    """Sum, count or mean over the events with v ≥ tau, or their share of the weight."""
    rows = asked.between(tau, None)
    match asked.question.aggregate:
        case "correlated-sum":
            return _plain(*asked.weight(rows), asked.confidence)
        case "correlated-count":
            return _plain(*asked.count(rows), asked.confidence)
        case "correlated-mean":
            return _mean(asked, rows)
        case _:
            return _share(asked, rows)


def _correlated_at_tau(asked: Asked) -> Answer:
    assert asked.question.tau is not None
    return _correlated(asked, float(asked.question.tau))


def _tau_is_an_aggregate(asked: Asked) -> Answer:
    """The threshold is a quantile and itself uncertain: half of the error probability goes to it.

    Everything above a threshold only shrinks as the threshold rises, so the limits at both ends of the threshold's
    interval enclose the answer; a mean is enclosed by the limits of its numerator and denominator.
    """
    assert asked.question.tau_quantile is not None
    careful = replace(asked, confidence=(1.0 + asked.confidence) / 2.0)
    threshold = _quantile(careful, asked.question.tau_quantile)
    value, low, high = (float(x[0]) for x in (threshold.value, threshold.lower, threshold.upper))
    if np.isnan(value):
        return _correlated(careful, np.inf)
    middle = _correlated(careful, value)
    if low == high:
        return middle
    if asked.question.aggregate == "correlated-mean":
        return _mean_between(careful, middle, low, high)
    return replace(middle, lower=_correlated(careful, high).lower, upper=_correlated(careful, low).upper)


def _mean_between(asked: Asked, middle: Answer, low: float, high: float) -> Answer:
    """The mean over the events above any threshold between low and high."""
    many, few = asked.between(low, None), asked.between(high, None)
    least_weight, _ = asked.weight(few)[0].bounds(asked.confidence)
    _, most_weight = asked.weight(many)[0].bounds(asked.confidence)
    least_count, _ = asked.count(few)[0].bounds(asked.confidence)
    _, most_count = asked.count(many)[0].bounds(asked.confidence)
    lower = np.maximum(_divide(least_weight, most_count, 1.0), 1.0)
    upper = np.minimum(_divide(most_weight, least_count, np.inf), float(asked.drawn.greatest_weight))
    return replace(middle, lower=np.fmin(lower, middle.lower), upper=np.fmax(upper, middle.upper))


def _quantile_asked(asked: Asked) -> Answer:
    assert asked.question.phi is not None
    return _quantile(asked, asked.question.phi)


def _quantile(asked: Asked, phi: float) -> Answer:
    return Answer(*quantiles(asked.drawn, asked.decay, asked.as_of, phi, asked.confidence, asked.unseen_weight))


def _heavy_hitters(asked: Asked) -> Answer:
    """The values with the largest shares. The intervals hold together, for all values that were sampled at once:
    whoever picks the largest of many estimates must expect the luckiest of them."""
    if len(asked.as_of) > 1:
        raise UnanswerableError("heavy-hitters is a list: ask for it at one as-of time")
    drawn, question = asked.drawn, asked.question
    distinct, codes = drawn.groups
    faded = asked.faded[0]
    used = np.array([np.count_nonzero(faded.weights)])
    certain, sampled, variance = _per_group(codes, drawn.time_columns, faded.weights, faded.rows.start, len(distinct))
    whole = certain.sum() + sampled.sum()
    if whole <= 0:
        return Answer(np.array([np.nan]), np.array([0.0]), np.array([1.0]), used)
    order = np.argsort(-(certain + sampled), kind="stable")
    order = order[(certain + sampled)[order] > 0]
    candidates = len(order)
    if question.phi is not None:
        least = max(question.phi - asked.share_error / 2.0, question.phi / 2.0)
        order = order[(certain + sampled)[order] >= least * whole]
    if question.top is not None or question.phi is None:
        order = order[: question.top or DEFAULT_TOP]
    most = asked.unseen_weight
    part = Total(certain[order], sampled[order], variance[order], *most, faded.slack)
    everything = Total(certain.sum(), sampled.sum(), variance.sum(), *most, faded.slack)
    together = 1.0 - (1.0 - asked.confidence) / candidates
    value, lower, upper = _share_limits(part, everything, together)
    items = tuple(
        Item(_shown(drawn, distinct[code]), float(v), float(low), float(high))
        for code, v, low, high in zip(order, value, lower, upper, strict=True)
    )
    if not items:
        return Answer(np.array([0.0]), np.array([0.0]), np.array([1.0]), used)
    return Answer(value[:1], lower[:1], upper[:1], used, items)


@njit(cache=True, nogil=True)
def _per_group(codes: Rows, columns: Floats, fading: Floats, start: int, groups: int) -> Floats:
    """Certain, sampled and variance sums of each group in one pass."""
    sums = np.zeros((3, groups))
    for row in range(len(fading)):
        code = codes[start + row]
        sums[0, code] += columns[0, start + row] * fading[row]
        sums[1, code] += columns[1, start + row] * fading[row]
        sums[2, code] += columns[2, start + row] * fading[row] * fading[row]
    return sums


def _shown(drawn: Drawn, value: np.generic) -> int | float | str:
    if drawn.kind is Kind.KEY:
        return drawn.labels.text_of(int(value))
    return int(value) if drawn.kind is Kind.INTEGER else float(value)


def _divide(top: Floats, bottom: Floats, otherwise: float) -> Floats:
    return np.where(bottom > 0, top / np.where(bottom > 0, bottom, 1.0), otherwise)


def _self_join(asked: Asked) -> Answer:
    return _at_each_time(asked, self_join)


_ANSWERS: Final[dict[str, Callable[[Asked], Answer]]] = {
    "sum": _sum,
    "count": _count,
    "mean": _mean,
    "selectivity": _selectivity,
    "rank": _rank,
    "quantile": _quantile_asked,
    "median": _quantile_asked,
    "heavy-hitters": _heavy_hitters,
    "frequency": _frequency,
    "range-sum": _range_sum,
    "range-frequency": _range_frequency,
    "correlated-sum": _correlated_at_tau,
    "correlated-count": _correlated_at_tau,
    "correlated-mean": _correlated_at_tau,
    "self-join": _self_join,
}
