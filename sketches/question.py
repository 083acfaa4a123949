"""The questions of wane: one aggregate, one decay, one as-of time, and what the aggregate needs besides.

With f the decay at an event's age, w its weight and v its value, sums running over distinct events. Where a share, a
rank or a count is of *events*, each event counts c = 1; with counting="weight" it counts c = w, as in the papers. x is
what is summed: of="weight" the weight w (each event once, whatever is counted), of="value" the value, c·v. Instead of
the value, `of` may name a field, a further column of events: then v is the field, and events without it are left out.

=================  =====================================================  ==========================
aggregate          meaning                                                needs
=================  =====================================================  ==========================
sum                Σ x·f
count              Σ c·f
mean               Σ w·f / Σ f, or Σ c·v·f / Σ c·f
variance           the mean of the squared distance from that mean
stddev             the square root of the variance
ratio              Σ a·f / Σ b·f, of two measures                         of, per
selectivity        Σ_P c·f / Σ c·f                                        share, low/high, or tau (v ≥ tau)
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
does not measure restricts it too: ``Question("mean", high=60)`` is the mean over v ≤ 60. A predicate may compare the
value with an aggregate, as in `value >= median(value)`: that is the same as tau="median". With a field in the place of
the value, `latency >= median(latency)`, it is tau="median" with tau_of="latency".
"""

from __future__ import annotations

import math
from dataclasses import replace
from types import NoneType
from typing import Final, Literal

import numpy as np

from sketches.decay import Decay, parse_decay
from sketches.decay.functions import LastEvents
from sketches.errors import QuestionError
from sketches.event_rules import MAX_TIME
from sketches.fields import name_fault
from sketches.predicate import EVENT_COLUMNS, EVERY_EVENT, Comparison, Predicate, Range
from sketches.records import dataclass
from sketches.suggestions import did_you_mean
from sketches.threshold import HONEST, Threshold, honest_threshold, tau_text
from sketches.vocabulary import AGGREGATES, COUNTINGS, EVENTS, MEASURES

Counting = Literal["events", "weight"]
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
    "ratio": ("of", "per"),
    "rank": ("value",),
    "quantile": ("phi",),
    "frequency": ("value",),
    "range-sum": ("low", "high"),
    "range-frequency": ("low", "high"),
    "correlated-sum": ("tau",),
    "correlated-count": ("tau",),
    "correlated-mean": ("tau",),
}
_SUMS: Final = frozenset(  # they are of something
    {"sum", "mean", "variance", "stddev", "range-sum", "correlated-sum", "correlated-mean"}
)
_RANKED: Final = frozenset(  # they rank or count the values of something
    {"selectivity", "rank", "quantile", "median", "heavy-hitters", "frequency", "range-frequency", "self-join"}
    | {"inner-product"}
)
_MEASURED: Final = {  # what an aggregate measures by itself, so that it does not restrict
    "tau": frozenset({"selectivity", "correlated-sum", "correlated-count", "correlated-mean"}),
    "low": frozenset({"selectivity", "range-sum", "range-frequency"}),
    "high": frozenset({"selectivity", "range-sum", "range-frequency"}),
    "value": frozenset({"rank", "frequency"}),
    "phi": frozenset({"quantile", "median", "heavy-hitters"}),
    "top": frozenset({"heavy-hitters"}),
}
_TAKEN: Final = {  # the types of what is compared
    **dict.fromkeys(("low", "high"), (int, float, np.number, NoneType)),
    **dict.fromkeys(("value", "tau"), (int, float, np.number, str, NoneType)),
}
_MOST_SHARES: Final = 1_000
_ONE_SHARE: Final = "aggregate 'selectivity' is the share of one thing"
_ABOVE: Final = frozenset({"sum", "count", "mean"})  # aggregates over what is above a threshold
_QUANTILES: Final = frozenset({"quantile", "median"})  # and these, where the threshold is itself an aggregate


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
    Threshold(phi=0.5, factor=1.0, own=False)
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
    of: str | None = None  # weight, value, or a field. None: a store decides for sums; else the weight
    confidence: float | None = None  # None: 1 - delta of the sketch
    where: Predicate = EVERY_EVENT
    share: Predicate = EVERY_EVENT  # what a selectivity is the share of
    counting: Counting | None = None  # None: events; a store asks by the setting of its stream
    phis: tuple[float, ...] = ()  # several shares of a quantile, instead of phi
    per_second: bool = False  # a sum or a count over the time that the decay weighs: a rate
    per: str | None = None  # what a ratio is per: weight, value, events or a field
    tau_of: str | None = None  # the field that a threshold is an aggregate of; None: the value

    def __post_init__(self) -> None:
        if self.aggregate not in AGGREGATES:
            hint = did_you_mean(self.aggregate, AGGREGATES)
            raise QuestionError(f"aggregate {self.aggregate!r} is not one of {', '.join(AGGREGATES)}{hint}")
        given: tuple[object, ...] = (self.where, self.share)
        if not all(isinstance(one, Predicate) for one in given):
            raise QuestionError("where and share are Predicates: text becomes one by Predicate.parse(text, columns)")
        self._check_numbers()
        self._take_share()
        self._take_threshold()
        self._restrict()
        self._check_needs()
        if self.as_of is not None and abs(self.as_of) > MAX_TIME:
            raise QuestionError(f"as_of is {self.as_of}; times lie between -2^62 and 2^62")
        if self.counting not in (None, *COUNTINGS):
            known = " or ".join(map(repr, COUNTINGS))
            raise QuestionError(f"counting is {self.counting!r}; it must be {known}")
        self._check_of()
        if self.per_second:
            self._check_rate()

    def _check_of(self) -> None:
        if self.per is not None and self.aggregate != "ratio":
            raise QuestionError(f"per={self.per!r} goes with ratio, not with {self.aggregate!r}")
        known = (*MEASURES, EVENTS) if self.aggregate == "ratio" else MEASURES
        for name in ("of", "per"):
            given = getattr(self, name)
            if given is not None and given not in known and (fault := name_fault(given)) is not None:
                raise QuestionError(
                    f"{name} is {given!r}; it must be {', '.join(map(repr, known))} or a field: {fault}"
                )
        if self.of is not None and self.aggregate not in _SUMS | _RANKED | {"ratio"}:
            those = ", ".join(sorted(_SUMS | _RANKED | {"ratio"}))
            raise QuestionError(f"of={self.of!r} goes with {those}, not with {self.aggregate!r}")
        if self.share and self.of is not None:
            raise QuestionError(f"of={self.of!r} goes with the share above tau, or from low to high, not with share=")
        if self.tau_of is not None and self.threshold is None:
            raise QuestionError(f"tau_of={self.tau_of!r} goes with a tau that is an aggregate, like 'median'")

    def _check_rate(self) -> None:
        if not self.aggregate.endswith(("sum", "count")):
            raise QuestionError(f"a rate is of a sum or a count, not of {self.aggregate!r}")
        if isinstance(self.decay, LastEvents):
            raise QuestionError(f"a rate needs a decay of time; how far {self.decay.spec} reaches back is open")

    def _check_numbers(self) -> None:
        for name in ("phi", "confidence"):
            number = getattr(self, name)
            if number is not None and not 0 < number < 1:
                raise QuestionError(f"{name} is {number!r}; it must lie strictly between 0 and 1")
        if not all(0 < phi < 1 for phi in self.phis) or len(self.phis) > _MOST_SHARES:
            raise QuestionError(f"phis must be at most {_MOST_SHARES} shares strictly between 0 and 1")
        for name in ("low", "high", "value", "tau"):
            number = getattr(self, name)
            if not isinstance(number, _TAKEN[name]) or (name != "value" and isinstance(number, bool)):
                wanted = "a number" if name in ("low", "high") else "a number or text"
                raise QuestionError(f"{name} is {number!r}; it must be {wanted}")
            if isinstance(number, float) and math.isnan(number):
                raise QuestionError(f"{name} is NaN; it must be a number")
        if isinstance(self.tau, str):
            Threshold.read(self.tau)
        if self.low is not None and self.high is not None and self.low > self.high:
            raise QuestionError(f"low is {self.low!r} and high is {self.high!r}; low must not exceed high")
        if self.top is not None and self.top < 1:
            raise QuestionError(f"top is {self.top!r}; it must be at least 1")

    def _take_share(self) -> None:
        """Let a share that is a closed range of values be `low` and `high`, and one above an aggregate be `tau`."""
        if not self.share:
            return
        if self.aggregate != "selectivity":
            raise QuestionError(f"share goes with selectivity, not with {self.aggregate!r}; where restricts an answer")
        if self.tau is not None or self.low is not None or self.high is not None:
            raise QuestionError(f"{_ONE_SHARE}: share, tau, or low and/or high")
        limits = self.share.range_of("value")
        if self.share == Predicate.of(None, value=limits) and not limits.open_low and not limits.open_high:
            for name, end in (("low", limits.low), ("high", limits.high)):
                object.__setattr__(self, name, end if math.isfinite(end) else None)
            object.__setattr__(self, "share", EVERY_EVENT)
        elif self.share.thresholds:
            threshold = honest_threshold(self.share)
            if len(self.share.terms) > 1 or self.share.without(threshold):
                raise QuestionError(f"{threshold}: {HONEST}; what else is to hold goes into where")
            self._set_threshold(threshold)
            object.__setattr__(self, "share", EVERY_EVENT)

    def _take_threshold(self) -> None:
        """Let a term `value >= median(value)` of the predicate be `tau`: its interval knows how sure the median is."""
        if not self.where.thresholds:
            return
        threshold = honest_threshold(self.where)
        if self.aggregate not in _ABOVE | _QUANTILES or self.tau is not None:
            raise QuestionError(f"{threshold}: {HONEST}, with sum, count, mean, quantile and median and without tau")
        self._set_threshold(threshold)
        object.__setattr__(self, "where", self.where.without(threshold))

    def _set_threshold(self, threshold: Comparison) -> None:
        object.__setattr__(self, "tau", tau_text(threshold))
        object.__setattr__(self, "tau_of", None if threshold.column == "value" else threshold.column)

    def _restrict(self) -> None:
        """Let what the aggregate does not measure restrict it, or refuse it: nothing that was asked is ignored."""
        if self._sums_a_field and not isinstance(self.tau, str):
            self._check_needs()  # what it needs restricts it: sums above a number are sums of what is above
            plain = "sum" if self.aggregate == "range-sum" else self.aggregate.removeprefix("correlated-")
            object.__setattr__(self, "aggregate", plain)
        elif self.tau is not None and self.aggregate in _ABOVE:
            object.__setattr__(self, "aggregate", f"correlated-{self.aggregate}")
        where = self.where
        for name, measured in _MEASURED.items():
            given = getattr(self, name)
            if given is None or self.aggregate in measured:
                continue
            if name in ("phi", "top"):
                raise QuestionError(f"{name} goes with {', '.join(sorted(measured))}, not with {self.aggregate!r}")
            if name == "tau" and isinstance(given, str):
                if self.aggregate in _QUANTILES:
                    continue
                sums = ", ".join(sorted({*_ABOVE, *_QUANTILES, *measured}))
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
            if self.tau is None and not ranged and not self.share:
                hint = f', like --share "{self.where}"; where restricts both sides of a share' if self.where else ""
                raise QuestionError(
                    f"aggregate 'selectivity' needs what it is the share of: share, tau, or low and/or high{hint}"
                )
            if self.tau is not None and ranged:
                raise QuestionError(
                    f"{_ONE_SHARE}: either tau, or low and/or high; what is to restrict both sides goes into where "
                    "(--above, --below)"
                )
        if self.aggregate == "median":
            if self.phi not in (None, 0.5):
                raise QuestionError(f"the median is the quantile at 0.5, not at {self.phi}; ask for a quantile")
            object.__setattr__(self, "phi", 0.5)

    @property
    def _sums_a_field(self) -> bool:
        return self.aggregate in _SUMS and self.of not in (None, *MEASURES)

    @property
    def fields(self) -> frozenset[str]:
        """The fields that it is about."""
        named = {name for name in (self.of, self.per, self.tau_of) if name not in (None, *MEASURES, EVENTS)}
        return (self.where.columns | self.share.columns | named) - EVENT_COLUMNS.keys()

    @property
    def measured(self) -> str:
        """What it sums or averages."""
        return self.of or "weight"

    @property
    def compared(self) -> str:
        """The column that it ranks, or compares with tau: the value, unless another takes its place."""
        if self.tau_of is not None:
            return self.tau_of
        takes_its_place = self.aggregate in _RANKED and self.of is not None and not self.ranks_above
        if self.sums:
            takes_its_place = self._sums_a_field and self.threshold is None
        return self.of if takes_its_place and self.of is not None else "value"

    @property
    def ranks_above(self) -> bool:
        """Whether it is a quantile of what lies above a threshold that is an aggregate."""
        return self.aggregate in _QUANTILES and isinstance(self.tau, str)

    @property
    def at_each_share(self) -> tuple[Question, ...]:
        """The question at one share after the other, where it names several."""
        return tuple(replace(self, phi=phi, phis=()) for phi in self.phis) or (self,)

    @property
    def ranked(self) -> str:
        """The column that a quantile is of."""
        return self.of or "value"

    @property
    def threshold(self) -> Threshold | None:
        """τ where it is itself an aggregate, else None."""
        return Threshold.read(self.tau) if isinstance(self.tau, str) else None

    @property
    def needs_order(self) -> bool:
        """Whether it is about values that can be compared, so not about text."""
        return self.aggregate in NEEDS_ORDER and not self.share

    @property
    def of_value(self) -> bool:
        """Whether it sums or averages the value, or a field."""
        return self.sums and self.of not in (None, "weight")

    @property
    def sums(self) -> bool:
        """Whether it sums or averages something, which `of` names."""
        return self.aggregate in _SUMS

    @property
    def averages(self) -> bool:
        """Whether it is a mean, or made of means: it divides by the number of events."""
        return self.aggregate.endswith("mean") or self.aggregate in ("variance", "stddev")

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
        also = {"events"} if self.averages else {counted} if self.threshold is not None else set()
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
