"""How wide an interval of `sample` and `integral` will be, from what the store holds and before anybody asks.

Level i of a stream's ladder holds the newest `capacity`·2^i events with probability 2^-i. So the probability π with
which an event was kept follows from how many events of the stream are newer, and the variance Σ f²·(1/π - 1) of a
decayed sum from the totals alone. All else is the usual width of an interval for that variance, at the prior shares of
`sketches.holdings`.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from sketches.arrays import Floats
from sketches.family import Built
from sketches.holdings import DISTINCT, SPREAD, Holdings, measured_share, restricted_share
from sketches.question import Question
from sketches.sampling.integral_decay import zero_or_one
from sketches.sampling.ladder_parameters import ALL, DEFAULT_DETAIL, LadderParameters
from sketches.sampling.sample_parameters import SampleParameters
from sketches.special_functions import ndtri

# How much wider intervals are than 2·z standard deviations; that of sums and counts is 1.0. To measure again: set these
# to 1.0; `python -m benchmarks.planner --widths` prints the medians of measured over expected widths.
_SHARES: Final = 1.0  # shares and ranks
_QUANTILES: Final = 1.0
_MEANS: Final = 0.6  # sum and count of one sample err together
_THRESHOLDS: Final = 1.0  # where τ is itself an aggregate: its interval and that of the sum
_JOINS: Final = 1.5
_LISTED: Final = 100.0  # values among which the intervals of a list hold together


def sample_width(question: Question, built: Built) -> float:
    """The width to expect of `sample`; 0 where every event that counts was kept."""
    variance = _variance(built.stored, question, built)
    there = _variance(built.other, question, built) if built.other is not None else variance
    return width(question, built, variance, there)


def integral_width(question: Question, built: Built) -> float:
    """The width to expect of `integral`: its intervals are those that ε promises, unless it kept all that counts."""
    faded = built.stored.faded(question)
    if zero_or_one(question.decay) and faded.alive <= _accuracy(built).capacity:
        return 0.0
    wide = 2.0 * built.epsilon * (2.0 if question.threshold is not None else 1.0)
    left, aggregate = restricted_share(question), question.aggregate
    if aggregate in ("sum", "count") or aggregate.endswith(("-sum", "-count")):
        return wide / (left * measured_share(question))
    return min(1.0, wide * (2.0 / left if question.where else 1.0))


def width(question: Question, built: Built, variance: float, there: float) -> float:
    """The width of an interval where a decayed sum over all events has this relative variance.

    `there` is the variance of the second side of an inner product.
    """
    if variance == there == 0.0:
        return 0.0
    delta = built.delta if question.confidence is None else 1.0 - question.confidence
    z = -float(ndtri(delta / 2.0))
    few = 3.0  # the rule of three: what may be there of which nothing was sampled
    variance = variance / restricted_share(question)
    share = measured_share(question)
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
        return min(1.0, _QUANTILES * 2.0 * z * math.sqrt(share * (1.0 - share) * variance) + few * variance)
    blurred = _THRESHOLDS if question.threshold is not None else 1.0
    if aggregate in ("selectivity", "rank", "frequency", "range-frequency"):
        inside = _SHARES * 2.0 * z * math.sqrt(share * (1.0 - share) * variance)
        return min(1.0, blurred * inside + few * variance)
    variance /= share
    if aggregate.endswith("mean"):
        if not question.of_value and not built.weighted:
            return 0.0
        return _MEANS * blurred * (2.0 * z * SPREAD * math.sqrt(variance) + few * variance)
    varied = math.sqrt(1.0 + SPREAD**2) if question.of_value else 1.0
    return blurred * (2.0 * z * varied * math.sqrt(variance) + few * variance)


def _variance(held: Holdings, question: Question, built: Built) -> float:
    """The variance of the decayed number of events over its square."""
    faded = held.faded(question)
    if faded.total <= 0.0:
        return 0.0
    length = faded.events / np.maximum(faded.density, 1e-300)
    stream = built.stream if built.stream is not None else held
    far, near = (stream.newer_than(faded.as_of, faded.age + side * length / 2.0) for side in (1.0, -1.0))
    far, near = far / _capacity(built), near / _capacity(built)
    missing = (_missing_up_to(far) - _missing_up_to(near)) / np.maximum(far - near, 1e-300)
    missing = np.where(far - near > 1e-9 * far, missing, np.exp2(np.ceil(np.log2(np.maximum(far, 1.0)))) - 1.0)
    return float(faded.events @ (faded.factor**2 * missing)) / faded.total**2


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
