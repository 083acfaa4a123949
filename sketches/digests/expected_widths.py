"""How wide an interval of `histogram`, `qdigest` and `exponential` will be, before anybody asks.

A range of time may carry 1/K of what is newer in its epoch (`sketches.digests.dyadic_tree`), so how long it is follows
from the totals. An event of a range counts at least what the far end of the range counts and at most what the near one
does: the sum of these differences is the width. As of the past the ranges are longer, because all that is newer in the
epoch counts, and the range in which the as-of time lies is in doubt as a whole. A range of values likewise carries 1/K
of its range of time, or is one value where it would hold less than two events. Sketches that several runs have added to
are like those of one batch, but their ranges are filled a bit more (`_MERGED`).
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from sketches.arrays import Floats
from sketches.decay.functions import LastEvents
from sketches.digests.dyadic_tree import compression_factor
from sketches.holdings import Faded, measured_share, restricted_share
from sketches.promise import Built
from sketches.question import Question

# Ranges are dyadic, so most carry less than they may. To measure again: set these to 1.0; `python -m benchmarks.planner
# --widths` prints the medians of measured over expected widths.
_FILLED: Final = 0.62  # of what a range of time may carry
_MERGED: Final = 1.35  # times that where parts were merged
_VALUES: Final = 0.5  # of what a range of values may carry
_ONE_VALUE: Final = 0.7  # likewise where one value is asked for: a common one has a range of its own
_FADED: Final = 0.55  # likewise of `exponential`
_MERGED_VALUES: Final = 1.8  # times any of these where parts were merged
_SHARES: Final = ("selectivity", "rank", "frequency", "range-frequency", "quantile", "median", "heavy-hitters")


def histogram_width(question: Question, built: Built) -> float:
    """The width to expect of `histogram`: relative to the answer."""
    return _of_all(question, built, compression_factor(built.epsilon))


def qdigest_width(question: Question, built: Built) -> float:
    """The width to expect of `qdigest`: half of ε is for times, half for values."""
    factor = compression_factor(built.epsilon / 2.0)
    if not question.where and question.aggregate in ("sum", "count", "mean"):
        return _of_all(question, built, factor)
    faded = built.stored.faded(question)
    carried, _ = _ranges(faded, factor)
    coarse = _share_of(faded, carried > 2.0 * factor)
    cut = max(coarse * _cut(question, _VALUES) * _fuller(faded) / factor, faded.least)
    return of_part(question, built, _blurred(question, built, factor), cut)


def exponential_width(question: Question, built: Built) -> float:
    """The width to expect of `exponential`: it knows the sum, so only values are in doubt."""
    if question.aggregate in ("sum", "count") and not question.where:
        return 0.0
    factor = compression_factor(built.epsilon)
    faded = built.stored.faded(question)
    coarse = _share_of(faded, faded.of_epoch(built.stored.events / built.stored.parts) > 2.0 * factor)
    cut = max(coarse * _cut(question, _FADED) * _fuller(faded) / factor, faded.least)
    return of_part(question, built, 0.0, cut)


def _cut(question: Question, share: float) -> float:
    """How much of what it may carry a range of values does that a question cuts."""
    return share * _ONE_VALUE if question.aggregate in ("frequency", "heavy-hitters") else share


def _share_of(faded: Faded, chosen: np.ndarray) -> float:
    mass = faded.events * faded.factor
    return float(mass[chosen].sum() / faded.total) if faded.total > 0.0 else 0.0


def _fuller(faded: Faded) -> float:
    """How many times as much ranges of values carry where parts were merged, on average over all that counts."""
    return 1.0 + (_MERGED_VALUES - 1.0) * _share_of(faded, faded.of_epoch(faded.held.merges) > 0.0)


def _of_all(question: Question, built: Built, factor: float) -> float:
    """The width of an answer over all events, whatever their values."""
    if question.aggregate == "mean":
        return 2.0 * _blurred(question, built, factor) if built.weighted else 0.0
    if isinstance(question.decay, LastEvents) and not (built.weighted and "weight" in question.masses):
        return _tied(question.decay, built.stored.faded(question))
    return _blurred(question, built, factor)


def _tied(decay: LastEvents, faded: Faded) -> float:
    """Of the newest N events there are N, but for those at the time of the oldest of them."""
    moment = faded.density.max(initial=0.0) * faded.held.unit.numerator / faded.held.unit.denominator
    return float(max(moment - 1.0, 0.0)) / max(decay.count, 1.0)


def of_part(question: Question, built: Built, blurred: float, cut: float) -> float:
    """The width of an answer over a part of the values: each end of the part cuts ranges of values.

    `blurred` is what times leave in doubt, of all that counts or of a part; `cut` is what one end cuts, of all.
    """
    limits = question.where.range_of("value")
    ends = 2.0 if question.two_ended else 0.0 if question.aggregate in ("sum", "count", "mean") else 1.0
    if question.where:
        ends += 2.0 if math.isfinite(limits.low) and math.isfinite(limits.high) else 1.0
    if question.threshold is not None:
        ends += 1.0
    share, left = measured_share(question, built.share), restricted_share(question)
    if question.aggregate in _SHARES:
        in_doubt = 2.0 * share * (1.0 - share) * blurred  # of the part and of the rest, one high and the other low
        return min(1.0, ends * cut / left + in_doubt)
    width = ends * cut / (left * share) + blurred
    return 2.0 * width if question.averages else width


def _blurred(question: Question, built: Built, factor: float) -> float:
    """How much ranges of time leave in doubt, over all that counts."""
    faded = built.stored.faded(question)
    found = faded.uncertain(_ranges(faded, factor)[1])
    return 2.0 * found if isinstance(question.decay, LastEvents) else found  # where they begin is in doubt too


def _ranges(faded: Faded, factor: float) -> tuple[Floats, Floats]:
    """How many events of one source a range of time carries, and how many seconds it spans: 0 for a single moment."""
    held = faded.held
    parts = faded.of_epoch(held.parts)
    filled = np.where(faded.of_epoch(held.merges) > 0.0, _FILLED * _MERGED, _FILLED)
    density = faded.density / parts
    carried = filled * np.minimum(faded.behind / factor, faded.of_epoch(held.events)) / parts
    moment = density * (held.unit.numerator / held.unit.denominator)
    carried = np.where(carried >= 2.0 * np.maximum(moment, 1.0), carried, 0.0)
    return np.maximum(carried, moment), carried / np.maximum(density, 1e-300)
