"""From the survivors of the `integral` family to answers: which rows a question means, what it says of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sketches.arrays import Flags, Floats, Limits
from sketches.errors import QuestionError, UnanswerableError
from sketches.estimate import Item
from sketches.events import Extremes, Kind, Labels
from sketches.hashing import hash_one
from sketches.papers import SENSOR_SKETCHES
from sketches.predicate import Range
from sketches.question import DEFAULT_TOP, Question
from sketches.sampling.survivors import Copies, Selection, Survivors, at_least, matching

SUMS = frozenset({"sum", "count", "range-sum", "correlated-sum", "correlated-count"})


@dataclass(frozen=True)
class Asked:
    """One question to the survivors of one sketch."""

    question: Question
    copies: Copies
    kind: Kind
    labels: Labels
    extremes: Extremes

    @property
    def failures(self) -> int:
        """In how many ways the answer may fail, each with probability δ: a threshold, and the ratio of two parts."""
        restricted = bool(self.question.where) and self.question.aggregate not in SUMS
        return 1 + (self.question.threshold is not None) + restricted

    def evaluate(self) -> tuple[Limits, tuple[Item, ...]]:
        """The answer with its limits, arrays of one entry each, and the list where it is one."""
        question, copies = self.question, self.copies
        about = self._about()
        match question.aggregate:
            case "sum" | "count":
                return copies.sums(matching(about or _everything), everything=about is None), ()
            case "quantile" | "median":
                return self.quantiles(np.array([question.phi])), ()
            case "heavy-hitters":
                return self._heavy_hitters()
            case "range-sum":
                return copies.sums(matching(self._measured)), ()
            case "correlated-sum" | "correlated-count":
                return _at_both_ends(copies.sums(at_least(self._thresholds(), about))), ()
        if not copies.held:
            return (np.array([np.nan]), np.zeros(1), np.ones(1)), ()
        if question.tau is not None:
            return _at_both_ends(copies.shares(at_least(self._thresholds(), about), about)), ()
        return copies.shares(matching(self._measured), about), ()

    def quantiles(self, phis: Floats) -> Limits:
        limits = self.question.where.range_of("value")
        least, greatest = max(self.extremes.least_value, limits.low), min(self.extremes.greatest_value, limits.high)
        return self.copies.quantiles(phis, self._about(), least, greatest)

    def above(self, thresholds: Floats) -> Limits:
        """The sum from each threshold on."""
        return self.copies.sums(at_least(thresholds, self._about()))

    def _thresholds(self) -> Floats:
        """τ, and its upper and lower limit where it is itself an aggregate, of all events.

        What lies from τ on falls as τ rises, so the answers at both ends of the threshold's interval enclose it.
        """
        threshold = self.question.threshold
        if threshold is None:
            assert self.question.tau is not None
            return np.full(3, float(self.question.tau))
        assert threshold.phi is not None  # a threshold by the mean was refused
        extremes = self.extremes
        value, lower, upper = self.copies.quantiles(
            np.array([threshold.phi]), None, extremes.least_value, extremes.greatest_value
        )
        return threshold.factor * np.concatenate([value, upper, lower])

    def _about(self) -> Selection | None:
        """The rows that the question is about; None for all."""
        where = self.question.where
        if not where:
            return None

        def about(copy: Survivors) -> Flags:
            chosen = np.ones(len(copy.values), bool)
            if where.ranges:
                chosen &= where.holds(lambda name: copy.values if name == "value" else copy.weights)
            return chosen if where.key is None else chosen & (copy.values == self._code(where.key))

        return about

    def _measured(self, copy: Survivors) -> Flags:
        """The rows that the question measures, among those that it is about."""
        question, values = self.question, copy.values
        if question.aggregate == "frequency":
            inside = np.asarray(values == (question.value if self.kind is not Kind.KEY else self._code(question.value)))
        elif question.aggregate == "rank":
            inside = np.asarray(values <= question.value)
        else:
            low = -np.inf if question.low is None else question.low
            high = np.inf if question.high is None else question.high
            inside = Range(low, high).holds(values)
        about = self._about()
        return inside if about is None else inside & about(copy)

    @staticmethod
    def _code(key: object) -> np.uint64:
        return np.uint64(hash_one(str(key)))

    def _heavy_hitters(self) -> tuple[Limits, tuple[Item, ...]]:
        """The sampled values with the largest shares. With a least share φ, an estimate of φ - ε/2 is enough, but not
        less than φ/2."""
        question, copies, about = self.question, self.copies, self._about()
        nothing = np.array([np.nan]), np.zeros(1), np.ones(1)
        if not copies.held:
            return nothing, ()
        distinct, of_each = copies.by_value(about)
        shares, lower, upper = copies.shares(of_each, about)
        order = np.argsort(-shares, kind="stable")
        order = order[shares[order] > 0.0]
        if question.phi is not None:
            order = order[shares[order] >= max(question.phi - copies.error / 2.0, question.phi / 2.0)]
        if question.top is not None or question.phi is None:
            order = order[: question.top or DEFAULT_TOP]
        if len(order) == 0:
            empty = np.isnan(shares).any()
            return nothing if empty else (np.zeros(1), np.zeros(1), np.ones(1)), ()
        values = [self.labels.text_of(value) if self.kind is Kind.KEY else value for value in distinct[order].tolist()]
        found = zip(values, shares[order].tolist(), lower[order].tolist(), upper[order].tolist(), strict=True)
        first = order[:1]
        return (shares[first], lower[first], upper[first]), tuple(Item(*each) for each in found)

    def bound(self) -> str:
        """In words: which bound holds, and which theorem says so."""
        question, error = self.question, f"{self.copies.error:.3g}"
        match question.aggregate:
            case "sum" | "count" if not question.where:
                bound, source = f"relative error of at most {error}", "Theorem 3.1"
            case aggregate if aggregate in SUMS:
                bound, source = f"additive error of at most {error} of the whole decayed sum", "Theorems 3.1 and 3.2"
            case "quantile" | "median":
                bound, source = f"rank within {error} of the one asked for", "Theorem 3.3"
            case "heavy-hitters":
                bound, source = f"share of each value within {error}, each for itself", "Theorem 3.3"
            case _:
                bound, source = f"additive error of at most {error}", "Theorem 3.2"
        if question.where and question.aggregate not in SUMS:
            bound += ", as a share of all that counts"
        threshold = f", the threshold's rank being within {error}" if question.threshold is not None else ""
        return f"{bound} ({SENSOR_SKETCHES}, {source}){threshold}"


def refuse_kind(question: Question, kind: Kind) -> None:
    """Refuse text where values are numbers, and what needs an order where they are text."""
    text = question.where.key if question.where.key is not None else question.value
    if kind is not Kind.KEY:
        if isinstance(text, str):
            raise UnanswerableError(f"value is {text!r}, but this stream's values are numbers")
    elif question.where.range_of("value"):
        raise UnanswerableError("a range of values needs values with an order, but this stream's values are text")


def flat(name: str, axis: Floats) -> Floats:
    """The axis of a curve, checked."""
    if axis.ndim != 1 or np.isnan(axis).any():
        raise QuestionError(f"{name} must be a flat array of numbers")
    return axis


def _everything(copy: Survivors) -> Flags:
    return np.ones(len(copy.values), bool)


def _at_both_ends(found: Limits) -> Limits:
    """The value at τ, the lower limit at its upper end, the upper limit at its lower end."""
    value, lower, upper = found
    return value[:1], lower[1:2], upper[2:3]
