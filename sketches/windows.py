"""Paper A's own estimator: any decay as a mixture of sliding windows (§4.2), medians over copies where δ needs them.

A decay f is written as a sum of windows that begin at the sampled times, each with the height by which f rises there;
a window is answered from the finest level that is complete over all of it, as RangeSample counts over 2^-level
(Theorem 4.1). Where the sketch has copies, each window's answer is the median over them (Theorems 4.2, 4.3).

The bound is the a-priori one: ε relative for sums and counts, ε additive for shares, with probability 1 - δ.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sketches.answers import DEFAULT_TOP, ORDERED
from sketches.answers import answer as stratified
from sketches.asked import Asked
from sketches.decay import Decay
from sketches.errors import UnanswerableError
from sketches.estimate import Estimate, Item
from sketches.events import Column, Kind
from sketches.nested_sample import NestedSample, starts_of
from sketches.question import Question
from sketches.range_sample import PROBABILITY, range_sample

if TYPE_CHECKING:
    from sketches.sample import Sample

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class _Ladder:
    """The levels of one copy up to the as-of time: per level the units that each row contributes to it."""

    times: Ints
    values: Column
    levels: Ints  # the level that answers the window beginning at each probe
    first: NDArray[np.intp]  # the first row inside the window beginning at each probe
    units: dict[int, Ints]

    @classmethod
    def of(cls, copy: NestedSample, as_of: int, probes: Ints, per: str) -> _Ladder:
        stop = int(np.searchsorted(copy.times, as_of, side="right"))
        times = copy.times[:stop]
        levels = copy.levels_at(probes)[0 if per == "weight" else 1]
        starts = starts_of(copy.hashes[:stop])
        weights = copy.weights[:stop] if per == "weight" else np.ones(stop, np.int64)
        units = {level: np.asarray(range_sample(starts, weights, level)) for level in np.unique(levels).tolist()}
        return cls(times, copy.values[:stop], levels, np.searchsorted(times, probes, side="left"), units)

    def window_sums(self, matching: Mask | None) -> Floats:
        """The estimated weight of each window."""
        sums = np.zeros(len(self.levels))
        for level, units in self.units.items():
            counted = units if matching is None else np.where(matching, units, 0)
            suffix = np.append(np.cumsum(counted[::-1])[::-1], 0)
            here = self.levels == level
            sums[here] = suffix[self.first[here]] / PROBABILITY[level]
        return sums


@dataclass(frozen=True)
class _Windows:
    """All windows of one question: where they begin, how high each is, and the copies that answer them."""

    sketch: Sample
    question: Question
    as_of: int

    @cached_property
    def probes(self) -> Ints:
        times = np.unique(np.concatenate([copy.times for copy in self.sketch.copies]))
        return times[times <= self.as_of]

    @cached_property
    def heights(self) -> Floats:
        assert isinstance(self.question.decay, Decay)
        fading = self.question.decay(self.sketch.parameters.unit.seconds(self.as_of - self.probes))
        return np.diff(fading, prepend=0.0)

    @cached_property
    def by_weight(self) -> list[_Ladder]:
        return [_Ladder.of(copy, self.as_of, self.probes, "weight") for copy in self.sketch.copies]

    @cached_property
    def by_count(self) -> list[_Ladder]:
        return [_Ladder.of(copy, self.as_of, self.probes, "count") for copy in self.sketch.copies]

    def total(self, low: float | None = None, high: float | None = None, per: str = "weight") -> float:
        """Σ w·f (or Σ f) over low ≤ v ≤ high: the windows' medians, added up by their heights."""
        ladders = self.by_weight if per == "weight" else self.by_count
        answers = [ladder.window_sums(_between(ladder.values, low, high)) for ladder in ladders]
        return float(self.heights @ np.median(answers, axis=0)) if len(self.probes) else 0.0


def _between(values: Column, low: float | None, high: float | None) -> Mask | None:
    if low is None and high is None:
        return None
    inside = np.ones(len(values), bool)
    if low is not None:
        inside &= values >= low
    if high is not None:
        inside &= values <= high
    return inside


def answer(sketch: Sample, question: Question, as_of: int) -> Estimate:
    """The paper's estimate with its a-priori interval."""
    if question.of == "value" or question.aggregate in ("self-join", "inner-product"):
        raise UnanswerableError(f"{question.aggregate} is not a sum of weights: use the stratified estimator")
    if question.confidence is not None and question.confidence > 1.0 - sketch.parameters.delta:
        raise UnanswerableError(
            f"confidence is {question.confidence}; windows are planned for {1.0 - sketch.parameters.delta:.6g}"
        )
    found = _Windows(sketch, question, as_of)
    value, lower, upper, items = _evaluate(found, sketch.parameters.epsilon)
    failures = 2.0 if question.aggregate in ("mean", "correlated-mean") else 1.0
    return Estimate(
        value=value,
        lower=lower,
        upper=upper,
        confidence=1.0 - failures * sketch.parameters.delta,
        guarantee=f"a priori, by sliding windows (A, Theorems 4.1 to 4.3): ε = {sketch.parameters.epsilon:.3g}",
        family=sketch.family,
        as_of=as_of,
        used=sum(int(np.searchsorted(copy.times, as_of, side="right")) for copy in sketch.copies),
        items=items,
    )


def _evaluate(found: _Windows, epsilon: float) -> tuple[float, float, float, tuple[Item, ...]]:
    question = found.question
    if found.sketch.kind is Kind.KEY and question.aggregate in ORDERED:
        raise UnanswerableError(f"{question.aggregate} needs ordered values, but this stream's values are text")
    low, high = question.low, question.high
    if question.tau is not None:
        tau = question.tau
        low = _quantile(found, question.tau_quantile) if question.tau_quantile is not None else float(tau)
    match question.aggregate:
        case "sum" | "count":
            value = found.total(per="weight" if question.aggregate == "sum" else "count")
            return value, value / (1.0 + epsilon), value / (1.0 - epsilon), ()
        case "mean":
            return *_ratio(found.total(), found.total(per="count"), epsilon, epsilon), ()
        case "correlated-mean":
            top, bottom = found.total(low), found.total(low, per="count")
            slack = (_over(epsilon * found.total(), top), _over(epsilon * found.total(per="count"), bottom))
            return *_ratio(top, bottom, *slack), ()
        case "range-sum" | "correlated-sum" | "correlated-count":
            per = "count" if question.aggregate == "correlated-count" else "weight"
            value, whole = found.total(low, high, per), found.total(per=per)
            slack_sum = epsilon * whole / (1.0 - epsilon)
            return value, max(0.0, value - slack_sum), value + slack_sum, ()
        case "quantile" | "median":
            assert question.phi is not None
            value = _quantile(found, question.phi)
            extremes = found.sketch.extremes
            lower = _quantile(found, question.phi - epsilon) if question.phi > epsilon else extremes.least_value
            upper = _quantile(found, question.phi + epsilon) if question.phi + epsilon < 1 else extremes.greatest_value
            return value, lower, upper, ()
        case "heavy-hitters":
            return _heavy_hitters(found, epsilon)
        case "rank":
            return *_share(found, None, float(question.value or 0.0), epsilon), ()
        case "frequency":
            assert question.value is not None
            return *_frequency(found, question.value, epsilon), ()
        case _:
            return *_share(found, low, high, epsilon), ()


def _share(found: _Windows, low: float | None, high: float | None, epsilon: float) -> tuple[float, float, float]:
    whole = found.total()
    if whole <= 0:
        return np.nan, 0.0, 1.0
    value = found.total(low, high) / whole
    return value, max(0.0, value - epsilon), min(1.0, value + epsilon)


def _frequency(found: _Windows, value: float | str, epsilon: float) -> tuple[float, float, float]:
    asked = Asked(found.sketch.sampled.drawn, found.question, np.array([found.as_of]), 0.5, epsilon)
    rows = asked.equal(value)
    code = found.sketch.sampled.drawn.values[rows[0]] if len(rows) else None
    if code is None:
        return 0.0, 0.0, epsilon
    return _share(found, code, code, epsilon)


def _ratio(top: float, bottom: float, above: float, below: float) -> tuple[float, float, float]:
    if bottom <= 0:
        return np.nan, 0.0, np.inf
    value = top / bottom
    lower = value * max(0.0, 1.0 - above) / (1.0 + below)
    upper = value * (1.0 + above) / (1.0 - below) if below < 1 else np.inf
    return value, lower, upper


def _over(top: float, bottom: float) -> float:
    return top / bottom if bottom > 0 else np.inf


def _quantile(found: _Windows, phi: float) -> float:
    """The smallest sampled value whose share of the windows' weight reaches φ, by bisection over the values."""
    values = np.unique(np.concatenate([ladder.values for ladder in found.by_weight]))
    whole = found.total()
    if whole <= 0:
        return np.nan
    low, high = 0, len(values) - 1
    while low < high:
        middle = (low + high) // 2
        if found.total(None, values[middle]) >= phi * whole * (1.0 - 1e-12):
            high = middle
        else:
            low = middle + 1
    return float(values[low])


def _heavy_hitters(found: _Windows, epsilon: float) -> tuple[float, float, float, tuple[Item, ...]]:
    """Candidates are the values that weigh most in the stratified sample; each is then asked for by windows."""
    question, drawn = found.question, found.sketch.sampled.drawn
    wanted = question.top or DEFAULT_TOP
    wide = Question("heavy-hitters", question.decay, found.as_of, top=max(4 * wanted, 100))
    listed = stratified(Asked(drawn, wide, np.array([found.as_of]), 0.5, epsilon)).items
    items = [Item(item.value, *_frequency(found, item.value, epsilon)) for item in listed]
    items.sort(key=lambda item: -item.estimate)
    if question.phi is not None:
        items = [item for item in items if item.estimate >= question.phi - epsilon / 2.0]
    if question.top is not None or question.phi is None:
        items = items[:wanted]
    if not items:
        return 0.0, 0.0, 1.0, ()
    return items[0].estimate, items[0].lower, items[0].upper, tuple(items)
