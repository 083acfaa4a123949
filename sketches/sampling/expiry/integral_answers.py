"""From the survivors of the `integral` family to answers: which rows a question means, what it says of them."""

from __future__ import annotations

import numpy as np

from sketches import guarantees
from sketches.arrays import Column, Flags, Floats, Ints, Limits, apart
from sketches.errors import QuestionError, UnanswerableError
from sketches.estimate import Item
from sketches.events import Extremes, Kind, Labels
from sketches.hashing import hash_one
from sketches.predicate import Numbers, Predicate, Range
from sketches.question import DEFAULT_TOP, Question
from sketches.records import dataclass
from sketches.sampling.expiry.survivors import Copies, Selection, Survivors, at_least, matching

SUMS = frozenset({"sum", "count", "range-sum", "correlated-sum", "correlated-count"})


@dataclass(frozen=True)
class Asked:
    """One question to the survivors of one sketch."""

    question: Question
    copies: Copies
    kind: Kind
    labels: Labels
    extremes: Extremes
    floors: bool = False  # weights are rounded down
    complete: bool = True  # no event counts so little that it was rounded down to nothing

    @property
    def failures(self) -> int:
        """In how many ways the answer may fail, each with probability δ: a threshold, and the ratio of two parts."""
        restricted = bool(self.question.where) and self.question.aggregate not in SUMS
        return 1 + (self.question.threshold is not None) + restricted

    def evaluate(self) -> tuple[Limits, tuple[Item, ...], float | None]:
        """The answer with its limits, arrays of one entry each; of a list the list, and the most that it leaves out."""
        found, items, unlisted = self._heavy_hitters() if self._lists else (self._evaluate(), (), None)
        if self.floors and items:
            items = tuple(Item(item.value, item.estimate, 0.0, 1.0) for item in items)
        return self._unfloored(found), items, None if unlisted is None else 1.0 if self.floors else unlisted

    @property
    def _lists(self) -> bool:
        return self.question.aggregate == "heavy-hitters"

    def _unfloored(self, found: Limits) -> Limits:
        """Limits of the question's own answer where weights are rounded down."""
        value, lower, upper = found
        if not self.floors:
            return found
        if self.question.aggregate in SUMS:
            if self.question.threshold is not None:  # the quantile of what is left may be any other value
                lower, upper = np.zeros(1), self.copies.sums(matching(_everything), everything=True)[2]
            return value, lower - self._gained(value), upper + self._lost
        ends = (0.0, 1.0)
        if self.question.aggregate in ("quantile", "median"):
            ends = self.extremes.least_value, self.extremes.greatest_value
        return value, np.full(len(value), ends[0]), np.full(len(value), ends[1])

    @property
    def _lost(self) -> float:
        """What rounding down takes at the most: up to 1 of each event, and all of those that count less than 1."""
        if not self.floors:
            return 0.0
        return float(max(len(copy.values) for copy in self.copies.all)) if self.complete else np.inf

    def _gained(self, value: Floats) -> Floats:
        """What rounding up at the edge of a whole number gives at the most, and the floats of large weights."""
        rows = max(len(copy.values) for copy in self.copies.all)
        return np.asarray(2e-9 * rows + 1e-14 * value if self.floors else np.zeros(len(value)))

    def _evaluate(self) -> Limits:
        question, copies = self.question, self.copies
        about = self._about()
        match question.aggregate:
            case "sum" | "count":
                return copies.sums(matching(about or _everything), everything=about is None)
            case "quantile" | "median":
                return self.quantiles(np.array([question.phi]))
            case "range-sum":
                return copies.sums(matching(self._measured))
            case "correlated-sum" | "correlated-count":
                return _at_both_ends(copies.sums(at_least(self._thresholds(), about)))
        if not copies.held:
            return np.array([np.nan]), np.zeros(1), np.ones(1)
        if question.tau is not None:
            return _at_both_ends(copies.shares(at_least(self._thresholds(), about), about))
        return copies.shares(matching(self._measured), about)

    def quantile_curve(self, phis: Floats) -> Limits:
        return self._unfloored(self.quantiles(phis))

    def quantiles(self, phis: Floats) -> Limits:
        limits = self.question.where.range_of("value")
        least, greatest = max(self.extremes.least_value, limits.low), min(self.extremes.greatest_value, limits.high)
        return self.copies.quantiles(phis, self._about(), least, greatest)

    def above(self, thresholds: Floats) -> Limits:
        """The sum from each threshold on."""
        value, lower, upper = self.copies.sums(at_least(thresholds, self._about()))
        return value, lower - self._gained(value), upper + self._lost

    def _thresholds(self) -> Column:
        """τ, and its upper and lower limit where it is itself an aggregate, of all events.

        What lies from τ on falls as τ rises, so the answers at both ends of the threshold's interval enclose it.
        """
        threshold = self.question.threshold
        if threshold is None:
            assert self.question.tau is not None
            return np.full(3, self.question.tau)  # a whole number keeps all its digits
        assert threshold.phi is not None  # a threshold by the mean was refused
        phi, extremes = np.array([threshold.phi]), self.extremes
        if self.kind is Kind.INTEGER and threshold.factor == 1.0:
            return self._whole_quantile(phi)
        value, lower, upper = self.copies.quantiles(phi, None, extremes.least_value, extremes.greatest_value)
        if self.kind is Kind.INTEGER:
            lower, upper = apart(lower, upper)
        return threshold.factor * np.concatenate([value, upper, lower])

    def _whole_quantile(self, phi: Floats) -> Ints:
        """A quantile with its upper and lower limit, all with all their digits."""
        found = self.copies.quantile_places(phi, None)
        if found is None:
            return np.zeros(3, np.int64)  # nothing is held on either side of it
        distinct, (value, lower, upper) = found
        ends = np.iinfo(np.int64)
        values = np.concatenate([[ends.min], distinct.astype(np.int64), [ends.max]])
        return np.concatenate([values[value], values[upper], values[lower]])

    def _about(self) -> Selection | None:
        """The rows that the question is about; None for all."""
        where = self.question.where
        if not where:
            return None

        def about(copy: Survivors) -> Flags:
            chosen = np.ones(len(copy.values), bool)
            if where.ranges:
                ranges = Predicate(where.ranges)
                chosen &= ranges.holds(lambda name: Numbers(copy.values if name == "value" else copy.weights))
            return chosen if where.key is None else chosen & (copy.values == self._code(where.key))

        return about

    def _measured(self, copy: Survivors) -> Flags:
        """The rows that the question measures, among those that it is about."""
        question, values = self.question, copy.values
        if question.aggregate == "frequency" and self.kind is Kind.KEY:
            inside = np.asarray(values == self._code(question.value))
        elif question.aggregate in ("rank", "frequency"):
            value = question.value
            assert value is not None
            assert not isinstance(value, str)  # it was refused
            inside = Range(-np.inf if question.aggregate == "rank" else value, value).holds(values)
        else:
            low = -np.inf if question.low is None else question.low
            high = np.inf if question.high is None else question.high
            inside = Range(low, high).holds(values)
        about = self._about()
        return inside if about is None else inside & about(copy)

    @staticmethod
    def _code(key: object) -> np.uint64:
        return np.uint64(hash_one(str(key)))

    def _heavy_hitters(self) -> tuple[Limits, tuple[Item, ...], float]:
        """The sampled values with the largest shares, and what no other value exceeds. With a least share φ, an
        estimate of φ - ε/2 is enough, but not less than φ/2."""
        question, copies, about = self.question, self.copies, self._about()
        nothing = np.array([np.nan]), np.zeros(1), np.ones(1)
        if not copies.held:
            return nothing, (), 0.0 if copies.exact else 1.0
        distinct, of_each = copies.by_value(about)
        shares, lower, upper = copies.shares(of_each, about)
        unseen = float(copies.shares(lambda copy, column: np.zeros(1), about)[2][0])
        if np.isnan(shares).any():
            return nothing, (), unseen
        order = np.argsort(-shares, kind="stable")
        listed = order[shares[order] > 0.0]
        if question.phi is not None:
            listed = listed[shares[listed] >= max(question.phi - copies.error / 2.0, question.phi / 2.0)]
        if question.top is not None or question.phi is None:
            listed = listed[: question.top or DEFAULT_TOP]
        most = max(unseen, float(np.delete(upper, listed).max(initial=0.0)))
        if len(listed) == 0:
            return (np.zeros(1), np.zeros(1), np.ones(1)), (), most
        values = [self.labels.text_of(value) if self.kind is Kind.KEY else value for value in distinct[listed].tolist()]
        found = zip(values, shares[listed].tolist(), lower[listed].tolist(), upper[listed].tolist(), strict=True)
        first = listed[:1]
        return (shares[first], lower[first], upper[first]), tuple(Item(*each) for each in found), most

    def bound(self, confidence: float, unlisted: float | None) -> str:
        """In words: which bound holds, and how surely; from the same numbers as the interval."""
        question, likely = self.question, guarantees.likely(confidence)
        if unlisted is not None:
            return guarantees.clauses(
                guarantees.lists_hold(confidence, together=False), guarantees.none_unlisted(unlisted)
            )
        if question.aggregate in ("quantile", "median"):
            if question.where:
                return guarantees.inside(confidence)
            return f"{guarantees.rank_within(self.copies.error, 'all that counts')} {likely}"
        error = self._part_of_the_whole() if question.aggregate in SUMS else self.copies.error
        if question.threshold is not None or error >= 1 or (question.where and question.aggregate not in SUMS):
            return guarantees.inside(confidence)
        if question.aggregate not in SUMS:
            return f"{guarantees.within(error, '1')} {likely}"
        counts = "decayed weight" if question.by_weight else "decayed count"
        mass = counts if "count" in question.aggregate else "decayed sum"
        of_all = question.aggregate in ("sum", "count") and not question.where
        return f"{guarantees.within(error, f'the {mass}' if of_all else f'the whole {mass}')} {likely}"

    def _part_of_the_whole(self) -> float:
        """How far sums may be off, as a part of the exact whole: ε above level 0 (Theorem 3.1); in level 0 the error is
        known as a part of the estimated whole."""
        errors = [self.copies.error if copy.level else _of_the_exact(self.copies.error) for copy in self.copies.all]
        return max(errors, default=np.inf)


def _of_the_exact(error: float) -> float:
    return error / (1.0 - error) if error < 1.0 else np.inf


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
