"""Thresholds τ that are themselves aggregates: the median, a quantile or the mean of a column, or a multiple of it."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import Final

from sketches.errors import QuestionError
from sketches.predicate import Aggregate, Comparison, Predicate
from sketches.records import dataclass

_TAU: Final = re.compile(r"(?:([0-9]+\.?[0-9]*|\.[0-9]+)\s*\*\s*)?(own\s+)?(median|mean|q(0?\.[0-9]+))")
_TAU_TEXTS: Final = (
    "a number, 'median', 'mean', a quantile like 'q0.9', or a multiple like '2*median'; for groups also 'own median'"
)
HONEST: Final = (
    "how sure a threshold is that is an aggregate is known only for a column >= and the median, a quantile or the mean "
    "of the same column, or a multiple of it, once and joined to all else by and"
)


@dataclass(frozen=True, slots=True)
class Threshold:
    """A threshold τ that is itself an aggregate: a multiple of a quantile of the values or, with phi None, of the mean.

    It is over the chosen sources, under the question's decay and counting, before any predicate; `own`: of each group.
    """

    phi: float | None
    factor: float = 1.0
    own: bool = False

    @classmethod
    def read(cls, text: str) -> Threshold:
        match = _TAU.fullmatch(text)
        if not match or not math.isfinite(factor := float(match[1] or 1.0)) or (match[4] and float(match[4]) == 0.0):
            raise QuestionError(f"tau is {text[:40]!r}; it must be {_TAU_TEXTS}")
        return cls({"median": 0.5, "mean": None}.get(match[3], float(match[4] or 0.0)), factor, bool(match[2]))

    def text(self, *, own: bool | None = None) -> str:
        """As `tau` takes it; `own`: as if it were of each group, or were not."""
        times = "" if self.factor == 1.0 else f"{_digits(self.factor)}*"
        name = "mean" if self.phi is None else "median" if self.phi == 0.5 else f"q{_digits(self.phi)}"
        return f"{times}{'own ' if (self.own if own is None else own) else ''}{name}"


def honest_threshold(predicate: Predicate) -> Comparison:
    """The one comparison with an aggregate, where the interval of an answer can account for how sure that is."""
    threshold, *more = predicate.thresholds
    match threshold:
        case Comparison(column, ">=", Aggregate(same)) if (
            column == same and column not in ("weight", "time") and not more and threshold in predicate.terms
        ):
            return threshold
    raise QuestionError(f"{threshold}: {HONEST}")


def tau_text(threshold: Comparison) -> str:
    """The text of a threshold as `tau` takes it."""
    bound = threshold.bound
    assert isinstance(bound, Aggregate)
    return Threshold(bound.phi, bound.factor, bound.own).text()


def _digits(number: float) -> str:
    return f"{Decimal(repr(number)):f}"
