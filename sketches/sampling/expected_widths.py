"""How wide an interval of `sample` and `integral` will be, from what the store holds and before anybody asks.

Level i of a stream's ladder holds the newest `capacity`·2^i events with probability 2^-i. So the probability π with
which an event was kept follows from how many events of the stream are newer, and the variance Σ f²·(1/π - 1) of a
decayed sum from the totals alone. Where rows were counted exactly, only what f varies within an hour is left of it:
`leaned_answers` says of which answers. All else is the usual width of an interval for that variance, at the
prior shares of `sketches.holdings`.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from sketches.arrays import Floats
from sketches.holdings import DISTINCT, SPREAD, Holdings, measured_share, restricted_share
from sketches.predicate import Predicate
from sketches.promise import Built
from sketches.question import Question
from sketches.sampling.expiry.integral_decay import zero_or_one
from sketches.sampling.inclusion.ladder_parameters import ALL, DEFAULT_DETAIL, LadderParameters
from sketches.sampling.sample_bytes import Uncounted
from sketches.sampling.sample_parameters import SampleParameters
from sketches.sampling.totals.row_totals import slices_by_source
from sketches.sampling.totals.slice_totals import worth_keeping
from sketches.special_functions import ndtri

# How much wider intervals are than 2·z standard deviations; that of sums and counts is 1.0. To measure again: set these
# to 1.0; `python -m benchmarks.planner --widths` prints the medians of measured over expected widths.
_SHARES: Final = 1.0  # shares and ranks
_QUANTILES: Final = 1.0
_MEANS: Final = 0.6  # sum and count of one sample err together
_SPREADS: Final = {"variance": 3.0, "stddev": 1.5}  # times as wide as a mean
_THRESHOLDS: Final = 1.0  # where τ is itself an aggregate: its interval and that of the sum
_JOINS: Final = 1.5
_LISTED: Final = 100.0  # values among which the intervals of a list hold together
_HOUR: Final = 3600.0
_UNSEEN: Final = 3.0  # the rule of three: what may be there of which nothing was sampled
_UNSEEN_REPEATS: Final = 7.0  # likewise, of what exact totals have counted and an event that came twice explains
_CUT: Final = 0.2  # of the variance above a threshold: that of the one class of values which the threshold cuts


def sample_width(question: Question, built: Built) -> float:
    """The width to expect of `sample`; 0 where every event that counts was kept."""
    variance = _variance(built.stored, question, built)
    there = _variance(built.other, question, built) if built.other is not None else variance
    left = _leaned_variance(question, built, variance) if _leans(question, built) else variance
    return width(question, built, variance, there, left)


def integral_width(question: Question, built: Built) -> float:
    """The width to expect of `integral`: its intervals are those that ε promises, unless it kept all that counts."""
    faded = built.stored.faded(question)
    if zero_or_one(question.decay) and faded.alive <= _accuracy(built).capacity:
        return 0.0
    wide = 2.0 * built.epsilon * (2.0 if question.threshold is not None else 1.0)
    left, aggregate = restricted_share(question), question.aggregate
    if aggregate in ("sum", "count") or aggregate.endswith(("-sum", "-count")):
        return wide / (left * measured_share(question, built.share))
    return min(1.0, wide * (2.0 / left if question.where else 1.0))


def width(question: Question, built: Built, variance: float, there: float, left: float) -> float:
    """The width of an interval where a decayed sum over all events has this relative variance.

    `there` is the variance of the second side of an inner product, `left` what exact totals leave of the variance.
    """
    if variance == there == 0.0:
        return 0.0
    delta = built.delta if question.confidence is None else 1.0 - question.confidence
    z = -float(ndtri(delta / 2.0))
    few = _UNSEEN
    variance, left = variance / restricted_share(question), left / restricted_share(question)
    share = measured_share(question, built.share)
    aggregate = question.aggregate
    if aggregate in ("self-join", "inner-product"):
        if aggregate == "self-join":
            squared = 4.0 * variance + 2.0 * DISTINCT * variance**2
        else:
            squared = variance + there + DISTINCT * variance * there
        return _JOINS * 2.0 * z * math.sqrt(squared)
    if aggregate == "heavy-hitters":
        z = -float(ndtri(delta / (2.0 * _LISTED)))
        return min(1.0, 2.0 * z * math.sqrt(share * (1.0 - share) * variance) + few * variance)
    if aggregate in ("quantile", "median"):
        if (threshold := question.threshold) is not None:  # of the events above it, and it is blurred itself
            variance *= _THRESHOLDS**2 / max(1.0 - (0.5 if threshold.phi is None else threshold.phi), 0.001)
        return min(1.0, _QUANTILES * 2.0 * z * math.sqrt(share * (1.0 - share) * variance) + few * variance)
    blurred = _THRESHOLDS if question.threshold is not None else 1.0
    if aggregate in ("selectivity", "rank", "frequency", "range-frequency"):
        inside = _SHARES * 2.0 * z * math.sqrt(share * (1.0 - share) * variance)
        return min(1.0, blurred * inside + few * variance)
    leans, variance, left = left < variance, variance / share, left / share
    unseen = _UNSEEN_REPEATS * variance if leans else few * variance
    if question.averages:
        blurred *= _SPREADS.get(aggregate, 1.0)
        if not question.of_value and not built.weighted:
            return 0.0
        unseen = unseen if leans else _MEANS * unseen
        return blurred * (_MEANS * 2.0 * z * SPREAD * math.sqrt(left) + unseen)
    varied = math.sqrt(1.0 + SPREAD**2) if question.of_value else 1.0
    return blurred * (2.0 * z * varied * math.sqrt(left) + unseen)


def _leans(question: Question, built: Built) -> bool:
    """Whether the answer is one that exact totals help, and the stored sample has counted its rows."""
    if Uncounted.stated(built.beginning) is None or question.threshold is not None:
        return False
    if question.aggregate not in ("sum", "count", "mean", "correlated-sum", "correlated-count", "correlated-mean"):
        return False
    if question.where != Predicate.of(None, value=question.where.range_of("value")):
        return False
    if question.where or question.tau is not None:
        return not question.of_value and not _of_some(built)
    return not question.of_value or not built.weighted


def _leaned_variance(question: Question, built: Built, plain: float) -> float:
    """The variance beside exact totals: of what the decay varies within a slice, and of the class that τ cuts."""
    seconds = _slice_seconds(built)
    if seconds is None:
        return plain
    half = seconds / 2.0
    faded = built.stored.faded(question)
    near, far = (
        np.where(age >= 0.0, faded.decay(np.maximum(age, 0.0)), 0.0) for age in (faded.age - half, faded.age + half)
    )
    restricted = question.where or question.tau is not None
    varied = np.maximum(np.abs(near - faded.factor), np.abs(far - faded.factor))
    known = faded.times > _uncounted_up_to(built, restricted=bool(restricted))
    varied = np.where(known, np.minimum(varied / math.sqrt(3.0), faded.factor), faded.factor)
    left = min(_variance(built.stored, question, built, varied), plain)
    return left + _CUT * (plain - left) if restricted else left


def _uncounted_up_to(built: Built, *, restricted: bool) -> int:
    """The time up to which nothing is known of the totals that an answer leans on."""
    uncounted = Uncounted.stated(built.beginning) or Uncounted()
    if _of_some(built):
        return uncounted.by_source
    return uncounted.by_class if restricted else uncounted.by_hour


def _of_some(built: Built) -> bool:
    """Whether only some of the stream's sources are asked."""
    return built.stream is not None and built.stored.events.sum() < built.stream.events.sum()


def _slice_seconds(built: Built) -> float | None:
    """How long the slices are: an hour for all sources; for some, as long as makes them few enough to be kept; None
    where there are too many sources for that."""
    stream = built.stream
    if stream is None or not _of_some(built):
        return _HOUR
    seconds = stream.unit.numerator / stream.unit.denominator
    slices = stream.parts @ np.maximum((stream.newest - stream.oldest) * seconds / _HOUR, 1.0)
    levels = max(math.log2(max(float(stream.events.sum()), 1.0) / _capacity(built)), 0.0)
    room = slices_by_source(int(_capacity(built) * (1.0 + levels / 2.0)))
    if slices > room and not worth_keeping(int(stream.parts.max(initial=0.0)), room):
        return None
    return _HOUR * 2.0 ** max(math.ceil(math.log2(slices / room)), 0)


def _variance(held: Holdings, question: Question, built: Built, factor: Floats | None = None) -> float:
    """The variance of the decayed number of events over its square; `factor` is another one than the decay's."""
    faded = held.faded(question)
    if faded.total <= 0.0:
        return 0.0
    length = faded.events / np.maximum(faded.density, 1e-300)
    stream = built.stream if built.stream is not None else held
    far, near = (stream.newer_than(faded.as_of, faded.age + side * length / 2.0) for side in (1.0, -1.0))
    far, near = far / _capacity(built), near / _capacity(built)
    missing = (_missing_up_to(far) - _missing_up_to(near)) / np.maximum(far - near, 1e-300)
    missing = np.where(far - near > 1e-9 * far, missing, np.exp2(np.ceil(np.log2(np.maximum(far, 1.0)))) - 1.0)
    factor = faded.factor if factor is None else factor
    return float(faded.events @ (factor**2 * missing)) / faded.total**2


def _missing_up_to(back: Floats) -> Floats:
    """The integral of 1/π - 1 over the newest events; `back` is counted in capacities, and below 1 all are kept."""
    level = np.ceil(np.log2(np.maximum(back, 1.0)))
    begin = np.exp2(level - 1.0)  # of the level, which reaches back to twice that
    levels_before = (2.0 / 3.0) * (begin**2 - 1.0) - (begin - 1.0)
    return np.where(back <= 1.0, 0.0, levels_before + (2.0 * begin - 1.0) * (back - begin))


def _accuracy(built: Built) -> SampleParameters:
    return SampleParameters.derive(built.epsilon, built.delta, built.stored.unit, 0)


def _capacity(built: Built) -> int:
    detail = built.stated("detail", DEFAULT_DETAIL)
    detail = detail if isinstance(detail, int) else ALL
    return LadderParameters.derive(built.epsilon, built.delta, built.stored.unit, 0, detail=detail).capacity
