"""The exact answer to every question, from all events, written straight from the table in `sketches.question`.

It shares no code with the sketches: only the decay function and the shape of a question come from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sketches.arrays import Flags, Floats
from sketches.decay import Decay
from sketches.predicate import Predicate
from sketches.question import Question
from sketches.vocabulary import AGGREGATES
from tests.support.streams import Stream

DECAYS = (  # one or more of every kind, at scales that matter within an hour
    "none",
    "window:10m",
    "window:50m",
    "exp:half_life=10m",
    "poly:alpha=1.5,unit=1m",
    "chordal:40m",
    "polyexp:k=2,half_life=5m",
    "superexp:beta=2,scale=20m",
    "log:unit=1m",
    "finite-exp:half_life=10m,floor=0.05",
    "table:0=1,10m=0.5,1h=0",
    "expr:1/(1+age/600)^2",
)
KEY_AGGREGATES = (
    "sum",
    "count",
    "mean",
    "variance",
    "stddev",
    "heavy-hitters",
    "frequency",
    "self-join",
    "inner-product",
)
ROUNDING = 1e-12  # a cumulated share this close below phi, relatively, has reached it


class Oracle:
    """Exact answers about one stream; keeps its distinct events, so that many questions cost little each.

    A ratio over nothing is NaN, and so is a quantile of nothing; a sum over nothing is 0.

    >>> stream = Stream.of("calls", ids=[1, 2, 2], t=[100, 160, 160], v=[30, 5, 5], w=[4, 2, 2])
    >>> Oracle(stream).answer(Question("sum", "exp:half_life=1m"))
    4.0
    """

    def __init__(self, stream: Stream, time_unit_seconds: float = 1.0) -> None:
        self.events = stream.distinct()
        self.time_unit_seconds = time_unit_seconds

    @property
    def newest(self) -> int | None:
        """The time of the newest event, None if there is none."""
        return int(self.events.t.max()) if len(self.events) else None

    def answer(self, question: Question, other: Oracle | None = None) -> float:
        """The exact answer; `other` is the second stream of an inner product.

        Where the question gives no as-of time, it is that of the newest event (of both streams, where there are two).
        """
        if question.aggregate == "heavy-hitters":
            raise ValueError("aggregate 'heavy-hitters' has a list for an answer; use shares")
        if self.events.is_text and question.aggregate not in KEY_AGGREGATES:
            raise ValueError(f"aggregate {question.aggregate!r} needs numbers for values, and these are text")
        if question.aggregate == "inner-product":
            if other is None:
                raise ValueError("aggregate 'inner-product' needs another stream")
            return self._inner_product(question, other)
        return _ANSWERS[question.aggregate](self, question)

    def shares(self, question: Question) -> dict[Any, float]:
        """Every value that carries decayed weight, with its share of the whole, largest share first."""
        masses = self.masses(question)
        total = sum(masses.values())
        return {value: mass / total for value, mass in sorted(masses.items(), key=lambda item: -item[1])}

    def masses(self, question: Question) -> dict[Any, float]:
        """Of every value how many decayed events, or how much decayed weight, where that is above 0."""
        values, codes = self._groups
        masses = np.bincount(codes, self._mass(question), minlength=len(values))
        return {value: mass for value, mass in zip(values.tolist(), masses.tolist(), strict=True) if mass > 0}

    def decayed(self, question: Question) -> Floats:
        """f of every distinct event that the question is about; 0 for the others and for those newer than as-of."""
        return self._everything_decayed(question) * self._where(question)

    def _everything_decayed(self, question: Question) -> Floats:
        as_of = self.newest if question.as_of is None else question.as_of
        if as_of is None:
            return np.zeros(0)
        if question.decay.spec.startswith("last:"):
            return self._newest(int(question.decay.spec.removeprefix("last:")), as_of)
        ages = (as_of - self.events.t) * self.time_unit_seconds
        return np.where(ages >= 0, question.decay(np.maximum(ages, 0.0)), 0.0)  # type: ignore[operator]

    def _newest(self, count: int, as_of: int) -> Floats:
        """1 for the newest `count` events up to the as-of time, and for those at the time of the last of these."""
        times = np.sort(self.events.t[self.events.t <= as_of])[::-1]
        first = times[min(count, len(times)) - 1] if len(times) else as_of + 1
        return ((self.events.t <= as_of) & (self.events.t >= first)).astype(np.float64)

    def _where(self, question: Question) -> Flags:
        """Which events a question is about, by what its words say: above, below, at least, at most, is."""
        if question.share or question.where != Predicate.of(question.where.key, **dict(question.where.ranges)):
            raise ValueError("this oracle knows ranges and one text; other predicates need one of their own")
        about = np.ones(len(self.events), bool)
        for column, limits in question.where.ranges:
            numbers = {"value": self.events.v, "weight": self.events.w, "time": self.events.t}[column]
            about &= numbers > limits.low if limits.open_low else numbers >= limits.low
            about &= numbers < limits.high if limits.open_high else numbers <= limits.high
        if question.where.key is not None:
            about &= self.events.v == question.where.key
        return about

    @cached_property
    def _groups(self) -> tuple[NDArray[Any], NDArray[np.intp]]:
        values, codes = np.unique(self.events.v, return_inverse=True)
        return values, codes.reshape(-1)

    @cached_property
    def _by_value(self) -> NDArray[np.intp]:
        return np.argsort(self.events.v, kind="stable")

    def _times(self, question: Question) -> NDArray[Any]:
        """How often each event counts: once, or as often as its weight says."""
        return self.events.w if question.counting == "weight" else np.ones(len(self.events), np.int64)

    def _mass(self, question: Question) -> Floats:
        return self._times(question) * self.decayed(question)

    def _summed(self, question: Question) -> Floats:
        """What each event adds to a sum: its weight, or its value as often as it counts."""
        if question.of != "value":
            return self.events.w * self.decayed(question)
        if self.events.v.dtype == object:
            raise ValueError("of='value' needs numbers for values, and these are text")
        return self.events.v * self._mass(question)

    def _averaged_over(self, question: Question) -> Floats:
        """What a mean divides by: the weight's by the number of events, the value's by how often they count."""
        return self._mass(question) if question.of == "value" else self.decayed(question)

    def _sum(self, question: Question) -> float:
        return float(np.sum(self._summed(question)))

    def _count(self, question: Question) -> float:
        return float(np.sum(self._mass(question)))

    def _mean(self, question: Question) -> float:
        return _ratio(self._sum(question), float(np.sum(self._averaged_over(question))))

    def _variance(self, question: Question) -> float:
        """The mean squared distance of what is asked of from its mean, over the same events, counted alike."""
        mean, mass = self._mean(question), self._averaged_over(question)
        asked = self.events.v if question.of == "value" else self.events.w
        return _ratio(float(np.sum(np.square(asked - mean) * mass)), float(np.sum(mass)))

    def _stddev(self, question: Question) -> float:
        return float(np.sqrt(self._variance(question)))

    def _ratio_of_sums(self, question: Question) -> float:
        """Of the value or the weight to events or the weight; `tests.support.wide` knows all measures."""
        sums = {"events": self._mass(question), "weight": self.events.w * self.decayed(question)}
        if question.of == "value":
            sums["value"] = self.events.v * self._mass(question)
        return _ratio(*(float(np.sum(sums[str(name)])) for name in (question.of, question.per)))

    def _fraction(self, question: Question, where: Flags) -> float:
        mass = self._mass(question)
        return _ratio(float(np.sum(mass[where])), float(np.sum(mass)))

    def _selectivity(self, question: Question) -> float:
        where = self._in_range(question)
        if question.tau is not None:
            where &= self._above(question)
        return self._fraction(question, where)

    def _rank(self, question: Question) -> float:
        return self._fraction(question, self.events.v <= question.value)

    def _frequency(self, question: Question) -> float:
        if len(self.events) and isinstance(question.value, str) != self.events.is_text:
            raise ValueError(f"value is {question.value!r}, and the stream's are {self.events.v.dtype}")
        return self._fraction(question, self.events.v == question.value)

    def _quantile(self, question: Question) -> float:
        assert question.phi is not None
        return self._quantile_at(question, question.phi)

    def _quantile_at(self, question: Question, phi: float, mass: Floats | None = None) -> float:
        counted = self._mass(question) if mass is None else mass
        cumulated = np.cumsum(counted[self._by_value], dtype=np.longdouble)
        if not len(cumulated) or cumulated[-1] == 0:
            return float("nan")
        first = np.argmax(cumulated >= phi * cumulated[-1] * (1 - np.longdouble(ROUNDING)))
        return float(self.events.v[self._by_value[first]])

    def _range_sum(self, question: Question) -> float:
        return float(np.sum(self._summed(question)[self._in_range(question)]))

    def _range_frequency(self, question: Question) -> float:
        return self._fraction(question, self._in_range(question))

    def _correlated_sum(self, question: Question) -> float:
        return float(np.sum(self._summed(question)[self._above(question)]))

    def _correlated_count(self, question: Question) -> float:
        return float(np.sum(self._mass(question)[self._above(question)]))

    def _correlated_mean(self, question: Question) -> float:
        over = float(np.sum(self._averaged_over(question)[self._above(question)]))
        return _ratio(self._correlated_sum(question), over)

    def _self_join(self, question: Question) -> float:
        return float(sum(mass**2 for mass in self.masses(question).values()))

    def _inner_product(self, question: Question, other: Oracle) -> float:
        if question.as_of is None:
            known = [newest for newest in (self.newest, other.newest) if newest is not None]
            question = question.at(max(known, default=0))
        here, there = self.masses(question), other.masses(question)
        return float(sum(mass * there[value] for value, mass in here.items() if value in there))

    def _above(self, question: Question) -> Flags:
        return self.events.v >= self.threshold(question)

    def _in_range(self, question: Question) -> Flags:
        low = -np.inf if question.low is None else question.low
        high = np.inf if question.high is None else question.high
        return (low <= self.events.v) & (self.events.v <= high)

    def threshold(self, question: Question) -> float:
        """τ as a number: itself, or so many times a quantile or the mean of the values of *all* events under the
        question's decay, counted as the question counts (NaN where nothing counts)."""
        assert question.tau is not None
        if not isinstance(question.tau, str):
            return float(question.tau)
        factor, _, what = question.tau.rpartition("*")
        mass = self._times(question) * self._everything_decayed(question)
        if what.strip() == "mean":
            number = _ratio(float(np.sum(self.events.v * mass)), float(np.sum(mass)))
        else:
            number = self._quantile_at(question, 0.5 if what.strip() == "median" else float(what.strip()[1:]), mass)
        return float(factor or 1) * number


_ANSWERS = {
    "sum": Oracle._sum,
    "count": Oracle._count,
    "mean": Oracle._mean,
    "variance": Oracle._variance,
    "stddev": Oracle._stddev,
    "ratio": Oracle._ratio_of_sums,
    "selectivity": Oracle._selectivity,
    "rank": Oracle._rank,
    "quantile": Oracle._quantile,
    "median": Oracle._quantile,
    "frequency": Oracle._frequency,
    "range-sum": Oracle._range_sum,
    "range-frequency": Oracle._range_frequency,
    "correlated-sum": Oracle._correlated_sum,
    "correlated-count": Oracle._correlated_count,
    "correlated-mean": Oracle._correlated_mean,
    "self-join": Oracle._self_join,
}


def exact(stream: Stream, question: Question, time_unit_seconds: float = 1.0, other: Stream | None = None) -> float:
    """The exact answer to one question; for many about the same stream keep an `Oracle`."""
    second = None if other is None else Oracle(other, time_unit_seconds)
    return Oracle(stream, time_unit_seconds).answer(question, second)


def exact_shares(stream: Stream, question: Question, time_unit_seconds: float = 1.0) -> dict[Any, float]:
    """The exact share of every value, largest first: what heavy hitters are picked from."""
    return Oracle(stream, time_unit_seconds).shares(question)


def aggregates_for(stream: Stream) -> tuple[str, ...]:
    """The aggregates that make sense for the stream's values: all for numbers, fewer for keys."""
    return KEY_AGGREGATES if stream.is_text else AGGREGATES


def random_question(
    rng: np.random.Generator,
    stream: Stream,
    aggregate: str,
    decays: Sequence[Decay | str] = DECAYS,
    *,
    of: Literal["weight", "value"] = "weight",
    counting: Literal["events", "weight"] = "events",
    tau_as_quantile: float = 0.2,
) -> Question:
    """A question of this aggregate that the stream makes interesting.

    As of the newest event or, as often, somewhere in the last half of the stream's time. A threshold lies between the
    5% and the 99.9% quantile of the values, with emphasis on the rare tail, or, with probability `tau_as_quantile`, is
    itself a quantile; a value is as often a common one as a rare one; a range may be wide or narrow.
    """
    if aggregate not in aggregates_for(stream):
        raise ValueError(f"aggregate {aggregate!r} makes no sense for stream {stream.name!r}, whose values are text")
    settings: dict[str, Any] = {"as_of": _random_as_of(rng, stream), "counting": counting}
    if aggregate in ("sum", "mean", "variance", "stddev", "range-sum", "correlated-sum", "correlated-mean"):
        settings["of"] = of
    if aggregate == "ratio":
        settings |= {"of": "value", "per": "events"}
    if aggregate in ("rank", "frequency"):
        settings["value"] = _random_value(rng, stream)
    elif aggregate == "quantile":
        settings["phi"] = float(rng.uniform(0.02, 0.98))
    elif aggregate == "heavy-hitters":
        settings |= {"top": int(rng.integers(1, 21))} if rng.random() < 0.5 else {"phi": float(rng.uniform(0.01, 0.1))}
    elif aggregate.startswith("range-"):
        settings |= _random_range(rng, stream)
    elif aggregate.startswith("correlated-"):
        settings["tau"] = _random_tau(rng, stream, tau_as_quantile)
    elif aggregate == "selectivity":
        by_range = rng.random() < 0.5
        settings |= _random_range(rng, stream) if by_range else {"tau": _random_tau(rng, stream, tau_as_quantile)}
    return Question(aggregate, decays[int(rng.integers(len(decays)))], **settings)


def _random_as_of(rng: np.random.Generator, stream: Stream) -> int | None:
    if not len(stream) or rng.random() < 0.5:
        return None
    oldest, newest = int(stream.t.min()), int(stream.t.max())
    return int(rng.integers(oldest + (newest - oldest + 1) // 2, newest + 1))


def _random_value(rng: np.random.Generator, stream: Stream) -> Any:
    if not len(stream):
        return 0
    pool = stream.v if rng.random() < 0.5 else np.unique(stream.v)
    return pool[rng.integers(len(pool)) :][:1].tolist()[0]


def _value_at(stream: Stream, level: float) -> float:
    return np.quantile(stream.v, level, method="inverted_cdf").item() if len(stream) else 0


def _random_level(rng: np.random.Generator) -> float:
    """Between 0.05 and 0.999, what lies above it being spread evenly on a logarithmic scale."""
    return 1 - 10 ** float(rng.uniform(np.log10(0.001), np.log10(0.95)))


def _random_tau(rng: np.random.Generator, stream: Stream, as_quantile: float) -> float | str:
    if rng.random() < as_quantile:
        return ("median", "q0.25", "q0.9", "q0.99")[int(rng.integers(4))]
    return _value_at(stream, _random_level(rng))


def _random_range(rng: np.random.Generator, stream: Stream) -> dict[str, float]:
    low = float(rng.uniform(0, 0.98))
    width = 10 ** float(rng.uniform(-3, 0))
    return {"low": _value_at(stream, low), "high": _value_at(stream, min(low + width, 1.0))}


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else float("nan")
