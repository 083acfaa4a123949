"""The questions of wane: one aggregate, one decay, one as-of time, and what the aggregate needs besides.

With f the decay at an event's age, w its weight and v its value, sums running over distinct events:

=================  =====================================================  ==========================
aggregate          meaning                                                needs
=================  =====================================================  ==========================
sum                Σ w·f (of="value": Σ v·f)
count              Σ f
mean               Σ w·f / Σ f (of="value": Σ v·f / Σ f)
selectivity        Σ_P w·f / Σ w·f                                        low/high, or tau (v ≥ tau)
rank               Σ_{v ≤ value} w·f / Σ w·f                              value
quantile           smallest v whose cumulated share reaches phi           phi
median             quantile at phi = 1/2
heavy-hitters      the values with the largest shares of Σ w·f            top, or phi as least share
frequency          Σ_{v = value} w·f / Σ w·f                              value
range-sum          Σ_{low ≤ v ≤ high} w·f                                 low, high
range-frequency    the same over Σ w·f                                    low, high
correlated-sum     Σ_{v ≥ tau} w·f                                        tau
correlated-count   Σ_{v ≥ tau} f                                          tau
correlated-mean    Σ_{v ≥ tau} w·f / Σ_{v ≥ tau} f                        tau
self-join          Σ_k (Σ_{v = k} w·f)²
inner-product      Σ_k (Σ_{v = k} w·f here) · (Σ_{v = k} w·f there)       another sketch
=================  =====================================================  ==========================
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import Final, Literal

from sketches.decay import Decay, parse_decay
from sketches.errors import QuestionError
from sketches.event_rules import MAX_TIME
from sketches.suggestions import did_you_mean

AGGREGATES = (
    "sum",
    "count",
    "mean",
    "selectivity",
    "rank",
    "quantile",
    "median",
    "heavy-hitters",
    "frequency",
    "range-sum",
    "range-frequency",
    "correlated-sum",
    "correlated-count",
    "correlated-mean",
    "self-join",
    "inner-product",
)

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
_TAU = re.compile(r"q(0?\.\d+|0|1|1\.0*)")


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
    """One question; the decay may be text (see `sketches.decay`), `tau` a number, ``"median"`` or like ``"q0.9"``.

    >>> Question("correlated-mean", "window:1h", tau="median").tau_quantile
    0.5
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
    of: Literal["weight", "value"] = "weight"
    confidence: float | None = None  # None: 1 - delta of the sketch

    def __post_init__(self) -> None:
        if self.aggregate not in AGGREGATES:
            hint = did_you_mean(self.aggregate, AGGREGATES)
            raise QuestionError(f"aggregate {self.aggregate!r} is not one of {', '.join(AGGREGATES)}{hint}")
        for name in _NEEDS.get(self.aggregate, ()):
            if getattr(self, name) is None:
                raise QuestionError(f"aggregate {self.aggregate!r} needs {name}")
        if self.aggregate == "selectivity" and self.tau is None and self.low is None and self.high is None:
            raise QuestionError("aggregate 'selectivity' needs a predicate: tau, or low and/or high")
        if self.aggregate == "selectivity" and self.tau is not None and (self.low is not None or self.high is not None):
            raise QuestionError("aggregate 'selectivity' takes one predicate: either tau, or low and/or high")
        if self.aggregate == "median":
            object.__setattr__(self, "phi", 0.5)
        for name in ("phi", "confidence"):
            number = getattr(self, name)
            if number is not None and not 0 < number < 1:
                raise QuestionError(f"{name} is {number!r}; it must lie strictly between 0 and 1")
        for name in ("low", "high", "value"):
            number = getattr(self, name)
            if isinstance(number, float) and math.isnan(number):
                raise QuestionError(f"{name} is NaN; it must be a number")
        if self.low is not None and self.high is not None and self.low > self.high:
            raise QuestionError(f"low is {self.low!r} and high is {self.high!r}; low must not exceed high")
        if self.as_of is not None and abs(self.as_of) > MAX_TIME:
            raise QuestionError(f"as_of is {self.as_of}; times lie between -2^62 and 2^62")
        if self.top is not None and self.top < 1:
            raise QuestionError(f"top is {self.top!r}; it must be at least 1")
        if self.of not in ("weight", "value"):
            raise QuestionError(f"of is {self.of!r}; it must be 'weight' or 'value'")
        if self.of == "value" and self.aggregate not in ("sum", "mean"):
            raise QuestionError(f"of='value' goes with sum and mean, not with {self.aggregate!r}")
        if isinstance(self.tau, str):
            self._check_tau_text(self.tau)
        elif self.tau is not None and math.isnan(self.tau):
            raise QuestionError("tau is NaN; it must be a number, 'median' or like 'q0.9'")

    @staticmethod
    def _check_tau_text(text: str) -> None:
        if text == "median":
            return
        match = _TAU.fullmatch(text)
        if not match or not 0 < float(match[1]) < 1:
            raise QuestionError(f"tau is {text!r}; it must be a number, 'median', or a quantile like 'q0.9'")

    @property
    def tau_quantile(self) -> float | None:
        """φ where the threshold is itself an aggregate, else None."""
        if not isinstance(self.tau, str):
            return None
        return 0.5 if self.tau == "median" else float(self.tau[1:])

    @property
    def two_ended(self) -> bool:
        """Whether the question is about a range of values with two ends."""
        return self.low is not None and self.high is not None

    def at(self, as_of: int) -> Question:
        """The same question at another as-of time."""
        return replace(self, as_of=as_of)
