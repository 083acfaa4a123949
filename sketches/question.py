"""The questions of wane: one aggregate, one decay, one as-of time, and what the aggregate needs besides.

With f the decay at an event's age, w its weight and v its value, sums running over distinct events. Where a share, a
rank or a count is of *events*, each event counts c = 1; with counting="weight" it counts c = w, as in the papers. x is
what is summed: of="weight" the weight w (each event once, whatever is counted), of="value" the value, c·v.

=================  =====================================================  ==========================
aggregate          meaning                                                needs
=================  =====================================================  ==========================
sum                Σ x·f
count              Σ c·f
mean               Σ w·f / Σ f, or Σ c·v·f / Σ c·f
selectivity        Σ_P c·f / Σ c·f                                        low/high, or tau (v ≥ tau)
rank               Σ_{v ≤ value} c·f / Σ c·f                              value
quantile           smallest v whose cumulated share reaches phi           phi, or phis
median             quantile at phi = 1/2
heavy-hitters      the values with the largest shares of Σ c·f            top, or phi as least share
frequency          Σ_{v = value} c·f / Σ c·f                              value
range-sum          Σ_{low ≤ v ≤ high} x·f                                 low, high
range-frequency    Σ_{low ≤ v ≤ high} c·f / Σ c·f                         low, high
correlated-sum     Σ_{v ≥ tau} x·f                                        tau
correlated-count   Σ_{v ≥ tau} c·f                                        tau
correlated-mean    the mean over v ≥ tau                                  tau
self-join          Σ_k (Σ_{v = k} c·f)²
inner-product      Σ_k (Σ_{v = k} c·f here) · (Σ_{v = k} c·f there)       another sketch
=================  =====================================================  ==========================

`where` restricts any of them to the events that satisfy a predicate, numerator and denominator alike. What an aggregate
does not measure restricts it too: ``Question("mean", high=60)`` is the mean over v ≤ 60.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import Final, Literal

from sketches.decay import Decay, parse_decay
from sketches.errors import QuestionError
from sketches.event_rules import MAX_TIME
from sketches.predicate import EVERY_EVENT, Predicate, Range
from sketches.suggestions import did_you_mean
from sketches.vocabulary import AGGREGATES, COUNTINGS, MEASURES

Counting = Literal["events", "weight"]
Measure = Literal["weight", "value"]
DEFAULT_TOP: Final = 10  # heavy hitters, where a question does not say how many
NEEDS_ORDER: Final = frozenset(  # aggregates of values that can be compared, so not of text
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

_NO_DECAY: Final = parse_decay("none")
_NEEDS = {
    "rank": ("value",),
    "quantile": ("phi",),
    "frequency": ("value",),
    "range-sum": ("low", "high"),
    "range-frequency": ("low", "high"),
    "correlated-sum": ("tau",),
    "correlated-count": ("tau",),
    "correlated-mean": ("tau",),
}
_SUMS: Final = frozenset({"sum", "mean", "range-sum", "correlated-sum", "correlated-mean"})  # they are of something
_MEASURED: Final = {  # what an aggregate measures by itself, so that it does not restrict
    "tau": frozenset({"selectivity", "correlated-sum", "correlated-count", "correlated-mean"}),
    "low": frozenset({"selectivity", "range-sum", "range-frequency"}),
    "high": frozenset({"selectivity", "range-sum", "range-frequency"}),
    "value": frozenset({"rank", "frequency"}),
    "phi": frozenset({"quantile", "median", "heavy-hitters"}),
    "top": frozenset({"heavy-hitters"}),
}
_TAU: Final = re.compile(r"(?:([0-9]+\.?[0-9]*|\.[0-9]+)\s*\*\s*)?(median|mean|q(0?\.[0-9]+))")
_TAU_TEXTS: Final = "a number, 'median', 'mean', a quantile like 'q0.9', or a multiple like '2*median'"
_MOST_SHARES: Final = 1_000


@dataclass(frozen=True, slots=True)
class Threshold:
    """A threshold τ that is itself an aggregate: a multiple of a quantile of the values or, with phi None, of the mean.

    It is over the chosen sources, under the question's decay and counting, before any predicate.
    """

    phi: float | None
    factor: float = 1.0

    @classmethod
    def read(cls, text: str) -> Threshold:
        match = _TAU.fullmatch(text)
        if not match or not math.isfinite(factor := float(match[1] or 1.0)) or (match[3] and float(match[3]) == 0.0):
            raise QuestionError(f"tau is {text[:40]!r}; it must be {_TAU_TEXTS}")
        return cls({"median": 0.5, "mean": None}.get(match[2], float(match[3] or 0.0)), factor)


class DecayOrText:
    """A field that takes a decay or its text and always holds a decay."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = f"_{name}"

    def __get__(self, instance: object | None, owner: type | None = None) -> Decay:
        return _NO_DECAY if instance is None else getattr(instance, self._name)

    def __set__(self, instance: object, value: Decay | str) -> None:
        object.__setattr__(instance, self._name, parse_decay(value) if isinstance(value, str) else value)


@dataclass(frozen=True)
class Question:
    """One question; the decay may be text (see `sketches.decay`), `tau` a number or like ``"median"``, ``"2*mean"``.

    >>> Question("correlated-mean", "window:1h", tau="median").threshold
    Threshold(phi=0.5, factor=1.0)
    >>> Question("mean", high=60).where.words()
    'the value is at most 60'
    """

    aggregate: str
    decay: DecayOrText = DecayOrText()
    as_of: int | None = None  # None: the newest event
    tau: float | str | None = None
    phi: float | None = None
    value: float | str | None = None
    low: float | None = None
    high: float | None = None
    top: int | None = None
    of: Measure | None = None  # None: the weight; a store asks for the value where its stream has no weight
    confidence: float | None = None  # None: 1 - delta of the sketch
    where: Predicate = EVERY_EVENT
    counting: Counting | None = None  # None: events; a store asks by the setting of its stream
    phis: tuple[float, ...] = ()  # several shares of a quantile, instead of phi

    def __post_init__(self) -> None:
        if self.aggregate not in AGGREGATES:
            hint = did_you_mean(self.aggregate, AGGREGATES)
            raise QuestionError(f"aggregate {self.aggregate!r} is not one of {', '.join(AGGREGATES)}{hint}")
        self._check_numbers()
        self._restrict()
        self._check_needs()
        if self.as_of is not None and abs(self.as_of) > MAX_TIME:
            raise QuestionError(f"as_of is {self.as_of}; times lie between -2^62 and 2^62")
        for name, known in (("of", MEASURES), ("counting", COUNTINGS)):
            if getattr(self, name) not in (None, *known):
                raise QuestionError(f"{name} is {getattr(self, name)!r}; it must be {' or '.join(map(repr, known))}")
        if self.of is not None and self.aggregate not in _SUMS:
            raise QuestionError(f"of={self.of!r} goes with {', '.join(sorted(_SUMS))}, not with {self.aggregate!r}")

    def _check_numbers(self) -> None:
        for name in ("phi", "confidence"):
            number = getattr(self, name)
            if number is not None and not 0 < number < 1:
                raise QuestionError(f"{name} is {number!r}; it must lie strictly between 0 and 1")
        if not all(0 < phi < 1 for phi in self.phis) or len(self.phis) > _MOST_SHARES:
            raise QuestionError(f"phis must be at most {_MOST_SHARES} shares strictly between 0 and 1")
        for name in ("low", "high", "value", "tau"):
            number = getattr(self, name)
            if isinstance(number, float) and math.isnan(number):
                raise QuestionError(f"{name} is NaN; it must be a number")
        if isinstance(self.tau, str):
            Threshold.read(self.tau)
        if self.low is not None and self.high is not None and self.low > self.high:
            raise QuestionError(f"low is {self.low!r} and high is {self.high!r}; low must not exceed high")
        if self.top is not None and self.top < 1:
            raise QuestionError(f"top is {self.top!r}; it must be at least 1")

    def _restrict(self) -> None:
        """Let what the aggregate does not measure restrict it, or refuse it: nothing that was asked is ignored."""
        if self.tau is not None and self.aggregate in ("sum", "count", "mean"):
            object.__setattr__(self, "aggregate", f"correlated-{self.aggregate}")
        where = self.where
        for name, measured in _MEASURED.items():
            given = getattr(self, name)
            if given is None or self.aggregate in measured:
                continue
            if name in ("phi", "top"):
                raise QuestionError(f"{name} goes with {', '.join(sorted(measured))}, not with {self.aggregate!r}")
            if name == "tau" and isinstance(given, str):
                sums = ", ".join(sorted({"sum", "count", "mean", *measured}))
                raise QuestionError(f"tau={given!r} goes with {sums}, not with {self.aggregate!r}")
            where = where.and_also(_restriction(name, given))
            object.__setattr__(self, name, None)
        object.__setattr__(self, "where", where)

    def _check_needs(self) -> None:
        if self.phis and self.aggregate != "quantile":
            raise QuestionError(f"several shares go with quantile, not with {self.aggregate!r}")
        if self.phis:
            object.__setattr__(self, "phi", self.phis[0])
        for name in _NEEDS.get(self.aggregate, ()):
            if getattr(self, name) is None:
                raise QuestionError(f"aggregate {self.aggregate!r} needs {name}")
        if self.aggregate == "selectivity":
            ranged = self.low is not None or self.high is not None
            if self.tau is None and not ranged:
                raise QuestionError("aggregate 'selectivity' needs what it is the share of: tau, or low and/or high")
            if self.tau is not None and ranged:
                raise QuestionError(
                    "aggregate 'selectivity' is the share of one thing: either tau, or low and/or high; what is to "
                    "restrict both sides goes into where (--above, --below)"
                )
        if self.aggregate == "median":
            if self.phi not in (None, 0.5):
                raise QuestionError(f"the median is the quantile at 0.5, not at {self.phi}; ask for a quantile")
            object.__setattr__(self, "phi", 0.5)

    @property
    def threshold(self) -> Threshold | None:
        """τ where it is itself an aggregate, else None."""
        return Threshold.read(self.tau) if isinstance(self.tau, str) else None

    @property
    def of_value(self) -> bool:
        """Whether it sums or averages the value."""
        return self.of == "value"

    @property
    def sums(self) -> bool:
        """Whether it sums or averages something, which `of` names."""
        return self.aggregate in _SUMS

    @property
    def by_weight(self) -> bool:
        """Whether an event counts as often as its weight says."""
        return self.counting == "weight"

    @property
    def masses(self) -> frozenset[str]:
        """What it adds up of each event: 1 ("events"), its weight, its value."""
        counted = "weight" if self.by_weight else "events"
        if not self.sums:
            return frozenset({counted})
        if self.of_value:
            return frozenset({"value", counted})
        also = {"events"} if self.aggregate.endswith("mean") else {counted} if self.threshold is not None else set()
        return frozenset({"weight"} | also)

    @property
    def two_ended(self) -> bool:
        """Whether the question is about a range of values with two ends."""
        return self.low is not None and self.high is not None

    def at(self, as_of: int) -> Question:
        """The same question at another as-of time."""
        return replace(self, as_of=as_of)


def _restriction(name: str, given: float | str) -> Predicate:
    """The predicate that a field stands for where its aggregate does not measure it."""
    if isinstance(given, str):
        return Predicate.of(given)
    if name == "value":
        return Predicate.of(None, value=Range(given, given))
    return Predicate.of(None, value=Range(high=given) if name == "high" else Range(low=given))
