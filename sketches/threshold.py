"""Thresholds τ that are themselves aggregates: the median, a quantile or the mean of a column, or a multiple of it."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from sketches.errors import QuestionError
from sketches.predicate import Aggregate, Comparison, Predicate

_TAU: Final = re.compile(r"(?:([0-9]+\.?[0-9]*|\.[0-9]+)\s*\*\s*)?(median|mean|q(0?\.[0-9]+))")
_TAU_TEXTS: Final = "a number, 'median', 'mean', a quantile like 'q0.9', or a multiple like '2*median'"
HONEST: Final = (
    "how sure a threshold is that is an aggregate is known only for a column >= and the median, a quantile or the mean "
    "of the same column, or a multiple of it, once and joined to all else by and"
)


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


def honest_threshold(predicate: Predicate) -> Comparison:
    """The one comparison with an aggregate, where the interval of an answer can account for how sure that is."""
    threshold, *more = predicate.thresholds
    match threshold:
        case Comparison(column, ">=", Aggregate(same, own=False)) if (
            column == same and column not in ("weight", "time") and not more and threshold in predicate.terms
        ):
            return threshold
        case Comparison(bound=Aggregate(own=True)):
            raise QuestionError(f"{threshold}: 'own' is of each group, and this question has no groups")
    raise QuestionError(f"{threshold}: {HONEST}")


def tau_text(threshold: Comparison) -> str:
    """The text of a threshold as `tau` takes it."""
    bound = threshold.bound
    assert isinstance(bound, Aggregate)
    times = "" if bound.factor == 1.0 else f"{_digits(bound.factor)}*"
    return times + ("mean" if bound.phi is None else "median" if bound.phi == 0.5 else f"q{_digits(bound.phi)}")


def _digits(number: float) -> str:
    return f"{Decimal(repr(number)):f}"
