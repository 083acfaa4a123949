"""The estimator of paper A §4.2: any decay as a mixture of sliding windows.

A decay f is a sum of windows that begin at the sampled times; the height of each is the amount by which f rises there.
A window is answered from the finest level that is complete over all of it, as the RangeSample count over 2^-level
(Theorem 4.1). Where the sketch has several copies, a window's answer is the median over them (Theorems 4.2, 4.3).

The bound is a priori, as of now: a relative error of ε for sums and counts, an additive error of ε for shares, with
probability 1 - δ. As of the past it does not hold. `EpochSample.answer` uses the Horvitz–Thompson estimator; this one
is a peer for the tests to compare with.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np

from sketches.arrays import Column, Flags, Floats, Ints, Rows
from sketches.errors import UnanswerableError
from sketches.estimate import Estimate, Item
from sketches.events import Kind
from sketches.papers import SENSOR_SKETCHES
from sketches.question import DEFAULT_TOP, NEEDS_ORDER, Question
from sketches.sampling.answers.estimators import answer as horvitz_thompson_answer
from sketches.sampling.estimation.inquiry import Inquiry
from sketches.sampling.inclusion.nested_sample import NestedSample, starts_of
from sketches.sampling.inclusion.range_sample import LEVEL_PROBABILITY, range_sample

if TYPE_CHECKING:
    from sketches.sampling.epoch_sample import EpochSample

_Per = Literal["weight", "count"]


@dataclass(frozen=True)
class _Levels:
    """The levels of one copy, with its rows up to the as-of time."""

    times: Ints
    values: Column
    levels: Ints  # of each window: the level that answers it
    first: Rows  # of each window: its first row
    units: dict[int, Ints]  # of each level: the units of each row that it holds

    @classmethod
    def of(cls, copy: NestedSample, as_of: int, begins: Ints, per: _Per) -> _Levels:
        """Those that sample every unit of weight, or those that sample only the first unit of each event."""
        stop = int(np.searchsorted(copy.times, as_of, side="right"))
        times = copy.times[:stop]
        levels = copy.levels_at(begins)[0 if per == "weight" else 1]
        starts = starts_of(copy.hashes[:stop])
        weights = copy.weights[:stop] if per == "weight" else np.ones(stop, np.int64)
        units = {level: np.asarray(range_sample(starts, weights, level)) for level in np.unique(levels).tolist()}
        return cls(times, copy.values[:stop], levels, np.searchsorted(times, begins, side="left"), units)

    def window_sums(self, matching: Flags | None) -> Floats:
        """The estimated weight of each window."""
        sums = np.zeros(len(self.levels))
        for level, units in self.units.items():
            counted = units if matching is None else np.where(matching, units, 0)
            suffix = np.append(np.cumsum(counted[::-1])[::-1], 0)
            here = self.levels == level
            sums[here] = suffix[self.first[here]] / LEVEL_PROBABILITY[level]
        return sums


@dataclass(frozen=True)
class _Windows:
    """All windows of one question: where they begin, their heights, and the copies that answer them."""

    sketch: EpochSample
    question: Question
    as_of: int

    @cached_property
    def begins(self) -> Ints:
        """Where the windows begin: at all sampled times up to the as-of time."""
        times = np.unique(np.concatenate([copy.times for copy in self.sketch.copies]))
        return times[times <= self.as_of]

    @cached_property
    def heights(self) -> Floats:
        """The amount by which f rises at the beginning of each window."""
        factors = self.question.decay(self.sketch.parameters.unit.seconds(self.as_of - self.begins))
        return np.diff(factors, prepend=0.0)

    @cached_property
    def by_weight(self) -> list[_Levels]:
        return [_Levels.of(copy, self.as_of, self.begins, "weight") for copy in self.sketch.copies]

    @cached_property
    def by_count(self) -> list[_Levels]:
        return [_Levels.of(copy, self.as_of, self.begins, "count") for copy in self.sketch.copies]

    def total(self, low: float | None = None, high: float | None = None, per: _Per = "weight") -> float:
        """Σ w·f (or Σ f) over low ≤ v ≤ high: the sum of the windows' medians, each times its height."""
        copies = self.by_weight if per == "weight" else self.by_count
        answers = [copy.window_sums(_between(copy.values, low, high)) for copy in copies]
        return float(self.heights @ np.median(answers, axis=0)) if len(self.begins) else 0.0


def _between(values: Column, low: float | None, high: float | None) -> Flags | None:
    if low is None and high is None:
        return None
    inside = np.ones(len(values), bool)
    if low is not None:
        inside &= values >= low
    if high is not None:
        inside &= values <= high
    return inside


def answer(sketch: EpochSample, question: Question) -> Estimate:
    """The paper's estimate with its a-priori interval."""
    _refuse(sketch, question)
    if question.confidence is not None and question.confidence > 1.0 - sketch.parameters.delta:
        raise UnanswerableError(
            f"confidence is {question.confidence}; the bound of windows holds with probability "
            f"{1.0 - sketch.parameters.delta:.6g}: build the sketch with a smaller delta"
        )
    as_of = sketch.askable_sample.as_of(question)
    windows = _Windows(sketch, question, as_of)
    value, lower, upper, items = _evaluate(windows, sketch.parameters.epsilon)
    failures = 2.0 if question.aggregate in ("mean", "correlated-mean") else 1.0
    return Estimate(
        value=value,
        lower=lower,
        upper=upper,
        confidence=1.0 - failures * sketch.parameters.delta,
        guarantee=f"a priori, by sliding windows ({SENSOR_SKETCHES}, Theorems 4.1 to 4.3): "
        f"ε = {sketch.parameters.epsilon:.3g}",
        family=sketch.family,
        as_of=as_of,
        used=sum(int(np.searchsorted(copy.times, as_of, side="right")) for copy in sketch.copies),
        items=items,
    )


def _refuse(sketch: EpochSample, question: Question) -> None:
    """Refuse what the paper's estimator does not have: it weighs events, and knows no predicate."""
    threshold = question.threshold
    sums = (question.sums or question.aggregate.endswith("count")) and threshold is None
    weighs = question.by_weight or sums or sketch.extremes.unit_weights
    plain = threshold is None or (threshold.phi is not None and threshold.factor == 1.0)
    joins = question.aggregate in ("self-join", "inner-product")
    if not weighs or not plain or joins or question.of_value or question.where or question.decay.name == "last":
        raise UnanswerableError(
            f"windows answer sums of weights only, not {question.aggregate} as it is asked here: use the default "
            "estimator"
        )


def _evaluate(windows: _Windows, epsilon: float) -> tuple[float, float, float, tuple[Item, ...]]:
    question = windows.question
    if windows.sketch.kind is Kind.KEY and question.aggregate in NEEDS_ORDER:
        raise UnanswerableError(f"{question.aggregate} needs ordered values, but this stream's values are text")
    low, high = question.low, question.high
    if question.tau is not None:
        threshold = question.threshold
        low = float(question.tau) if threshold is None else _quantile(windows, threshold.phi or 0.5)
    match question.aggregate:
        case "sum" | "count":
            value = windows.total(per="weight" if question.aggregate == "sum" or question.by_weight else "count")
            return value, value / (1.0 + epsilon), value / (1.0 - epsilon), ()
        case "mean":
            return *_ratio(windows.total(), windows.total(per="count"), epsilon, epsilon), ()
        case "correlated-mean":
            top, bottom = windows.total(low), windows.total(low, per="count")
            top_error = _relative(epsilon * windows.total(), top)
            bottom_error = _relative(epsilon * windows.total(per="count"), bottom)
            return *_ratio(top, bottom, top_error, bottom_error), ()
        case "range-sum" | "correlated-sum" | "correlated-count":
            counts = question.aggregate == "correlated-count" and not question.by_weight
            per: _Per = "count" if counts else "weight"
            value, whole = windows.total(low, high, per), windows.total(per=per)
            additive_error = epsilon * whole / (1.0 - epsilon)
            return value, max(0.0, value - additive_error), value + additive_error, ()
        case "quantile" | "median":
            assert question.phi is not None
            value = _quantile(windows, question.phi)
            extremes = windows.sketch.extremes
            lower = _quantile(windows, question.phi - epsilon) if question.phi > epsilon else extremes.least_value
            upper = (
                _quantile(windows, question.phi + epsilon) if question.phi + epsilon < 1 else extremes.greatest_value
            )
            return value, lower, upper, ()
        case "heavy-hitters":
            return _heavy_hitters(windows, epsilon)
        case "rank":
            return *_share(windows, None, float(question.value or 0.0), epsilon), ()
        case "frequency":
            assert question.value is not None
            return *_frequency(windows, question.value, epsilon), ()
        case _:
            return *_share(windows, low, high, epsilon), ()


def _share(windows: _Windows, low: float | None, high: float | None, epsilon: float) -> tuple[float, float, float]:
    whole = windows.total()
    if whole <= 0:
        return np.nan, 0.0, 1.0
    value = windows.total(low, high) / whole
    return value, max(0.0, value - epsilon), min(1.0, value + epsilon)


def _frequency(windows: _Windows, value: float | str, epsilon: float) -> tuple[float, float, float]:
    sample = windows.sketch.askable_sample.sample
    rows = Inquiry(sample, windows.question, np.array([windows.as_of]), 0.5, epsilon).equal(value)
    if len(rows) == 0:
        return 0.0, 0.0, epsilon
    code = sample.values[rows[0]]
    return _share(windows, code, code, epsilon)


def _ratio(top: float, bottom: float, top_error: float, bottom_error: float) -> tuple[float, float, float]:
    """Value, lower and upper limit of top / bottom, from the relative errors of both."""
    if bottom <= 0:
        return np.nan, 0.0, np.inf
    value = top / bottom
    lower = value * max(0.0, 1.0 - top_error) / (1.0 + bottom_error)
    upper = value * (1.0 + top_error) / (1.0 - bottom_error) if bottom_error < 1 else np.inf
    return value, lower, upper


def _relative(error: float, value: float) -> float:
    return error / value if value > 0 else np.inf


def _quantile(windows: _Windows, phi: float) -> float:
    """The smallest sampled value whose cumulated share reaches φ, found by bisection."""
    values = np.unique(np.concatenate([copy.values for copy in windows.by_weight]))
    whole = windows.total()
    if whole <= 0:
        return np.nan
    low, high = 0, len(values) - 1
    while low < high:
        middle = (low + high) // 2
        if windows.total(None, values[middle]) >= phi * whole * (1.0 - 1e-12):
            high = middle
        else:
            low = middle + 1
    return float(values[low])


def _heavy_hitters(windows: _Windows, epsilon: float) -> tuple[float, float, float, tuple[Item, ...]]:
    """The Horvitz–Thompson estimator lists candidates; windows then estimate the share of each."""
    question, sample = windows.question, windows.sketch.askable_sample.sample
    wanted = question.top or DEFAULT_TOP
    longer = Question("heavy-hitters", question.decay, windows.as_of, top=max(4 * wanted, 100))
    candidates = horvitz_thompson_answer(Inquiry(sample, longer, np.array([windows.as_of]), 0.5, epsilon)).items
    items = [Item(item.value, *_frequency(windows, item.value, epsilon)) for item in candidates]
    items.sort(key=lambda item: -item.estimate)
    if question.phi is not None:
        items = [item for item in items if item.estimate >= question.phi - epsilon / 2.0]
    if question.top is not None or question.phi is None:
        items = items[:wanted]
    if not items:
        return 0.0, 0.0, 1.0, ()
    return items[0].estimate, items[0].lower, items[0].upper, tuple(items)
