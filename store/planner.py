"""Which stored family answers: the one with the tightest guarantee, by what each promises and never by its answer.

The narrowest of several random intervals covers less often than each of them says, so nothing here looks at an answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from sketches.answers import ORDERED
from sketches.decay import Decay, parse_decay
from sketches.ecm import Ecm
from sketches.errors import DecayError, UnanswerableError
from sketches.exponential import Exponential
from sketches.histogram import Histogram
from sketches.integral import Integral
from sketches.qdigest import QDigest
from sketches.question import Question
from sketches.retractable import Retractable
from store.catalogue import StreamHeld

_TOTALS: Final = ("sum", "count")
_JOINS: Final = ("self-join", "inner-product")
_EPSILON: Final = 0.05
_DELTA: Final = 0.05


@dataclass(frozen=True, slots=True)
class _Promise:
    """How wide an interval a family's guarantee allows: of the answer for sums and counts, else of all that counts."""

    width: float
    sure: bool
    words: str


def pick(held: StreamHeld, question: Question, asked: str | None, past: bool) -> tuple[str, str]:
    """The family and why; `past` where the answer is as of times before the newest event."""
    stored = sorted(held.sketches)
    if asked is not None:
        return asked, "asked for"
    if not stored:
        raise UnanswerableError(f"stream {held.name!r} holds no sketches yet")
    if len(stored) == 1:
        return stored[0], "the only stored family"
    promises = {family: _PROMISES[family](held, question, past) for family in stored if family in _PROMISES}
    found = {family: promise for family, promise in promises.items() if promise is not None}
    if not found:
        kept = ", ".join(stored)
        raise UnanswerableError(
            f"none of the stored families ({kept}) answers {question.aggregate} under {_decay(question).spec}"
        )

    def place(family: str) -> tuple[bool, float, bool, str]:
        """Families that lack epochs come last, then the widest, then those that may fail."""
        lacking = len(held.sketches[family]) < len(held.epochs)
        return lacking, found[family].width, not found[family].sure, family

    best = min(found, key=place)
    if len(found) == 1:
        return best, f"the only stored family that answers {question.aggregate} under this decay"
    others = ", ".join(f"{family} {found[family].words}" for family in found if family != best)
    return best, f"the tightest guarantee of those stored: {found[best].words} (others: {others})"


def _decay(question: Question) -> Decay:
    assert isinstance(question.decay, Decay)
    return question.decay


def _accuracy(held: StreamHeld, family: str, name: str, default: float) -> float:
    """ε or δ of a family: its own, or its stream's."""
    own = held.described.get(family)
    for settings in (own if isinstance(own, Mapping) else {}, held.described):
        value = settings.get(name)
        if isinstance(value, int | float):
            return float(value)
    return default


def _built_for(held: StreamHeld, family: str) -> Decay | None:
    own = held.described.get(family)
    try:
        return parse_decay(str(own["decay"])) if isinstance(own, Mapping) and "decay" in own else None
    except DecayError:
        return None


def _two_ended(question: Question) -> bool:
    """Whether ranges of values may be cut at either end; those that hold one value lie on one path."""
    return question.low is not None and question.high is not None


def _widening(held: StreamHeld, question: Question) -> float:
    """As of the past, events of the same epoch that came later blur the edges: the more, the longer an epoch is beside
    the time that the decay looks back."""
    epoch = held.epoch * held.unit.numerator / held.unit.denominator
    age = _decay(question).half_age
    return 1.0 + (epoch / age if age > 0.0 else math.inf)


def _sample(held: StreamHeld, question: Question, past: bool) -> _Promise:
    epsilon, delta = _accuracy(held, "sample", "epsilon", _EPSILON), _accuracy(held, "sample", "delta", _DELTA)
    return _Promise(2.0 * epsilon, False, f"within {epsilon:.3g} with probability {1.0 - delta:.3g}")


def _integral(held: StreamHeld, question: Question, past: bool) -> _Promise | None:
    if past or question.aggregate not in Integral.answered or question.of == "value":
        return None
    if _built_for(held, "integral") != _decay(question):
        return None
    epsilon, delta = _accuracy(held, "integral", "epsilon", _EPSILON), _accuracy(held, "integral", "delta", _DELTA)
    words = f"within {epsilon:.3g} with probability {1.0 - delta:.3g}, of weights rounded down"
    return _Promise(math.nextafter(2.0 * epsilon, 1.0), False, words)  # after sample, which rounds nothing


def _histogram(held: StreamHeld, question: Question, past: bool) -> _Promise | None:
    if question.aggregate not in Histogram.answered or question.of == "value":
        return None
    width = _accuracy(held, "histogram", "epsilon", _EPSILON) * (1.0 if question.aggregate in _TOTALS else 2.0)
    return _sure(width * (_widening(held, question) if past else 1.0))


def _qdigest(held: StreamHeld, question: Question, past: bool) -> _Promise | None:
    if question.aggregate not in QDigest.answered or question.of == "value":
        return None
    epsilon = _accuracy(held, "qdigest", "epsilon", _EPSILON)
    factor = 0.5 if question.aggregate in _TOTALS else 1.0
    if question.tau_quantile is not None or question.aggregate == "correlated-mean":
        factor = 2.0
    elif _two_ended(question):
        factor = 1.5
    return _sure(epsilon * factor * (_widening(held, question) if past else 1.0))


def _exponential(held: StreamHeld, question: Question, past: bool) -> _Promise | None:
    if past or question.aggregate not in Exponential.answered or question.of == "value":
        return None
    if _built_for(held, "exponential") != _decay(question):
        return None
    epsilon = _accuracy(held, "exponential", "epsilon", _EPSILON)
    if question.aggregate == "sum":
        return _Promise(0.0, True, "never outside its bounds, which rounding alone sets apart")
    return _sure(epsilon * (2.0 if question.tau_quantile is not None or _two_ended(question) else 1.0))


def _retractable(held: StreamHeld, question: Question, past: bool) -> _Promise | None:
    if past or question.aggregate not in Retractable.answered or question.of == "value":
        return None
    if _built_for(held, "retractable") != _decay(question):
        return None
    epsilon, delta = (
        _accuracy(held, "retractable", "epsilon", _EPSILON),
        _accuracy(held, "retractable", "delta", _DELTA),
    )
    if question.aggregate == "sum":
        return _Promise(0.0, True, "never outside its bounds, which rounding alone sets apart")
    return _Promise(epsilon, False, f"at most {epsilon:.3g} too large with probability {1.0 - delta:.3g}")


def _ecm(held: StreamHeld, question: Question, past: bool) -> _Promise | None:
    if question.aggregate not in Ecm.answered or question.of == "value":
        return None
    own = held.described.get("ecm")
    settings = own if isinstance(own, Mapping) else {}
    if question.aggregate in ORDERED and not settings.get("bits"):
        return None
    if question.aggregate == "heavy-hitters" and past and not settings.get("bits"):
        return None  # names are kept of values that were heavy up to the newest event
    if settings.get("basis", "time") != "time" or (settings.get("keeping") == "rw" and question.aggregate in _JOINS):
        return None
    epsilon, delta = _accuracy(held, "ecm", "epsilon", _EPSILON), _accuracy(held, "ecm", "delta", _DELTA)
    width = 2.0 * epsilon * (_widening(held, question) if past else 1.0)
    if question.aggregate in ORDERED:
        width *= float(settings.get("bits", 1))
    if question.aggregate in _JOINS:
        return _Promise(width, False, f"within {epsilon:.3g} of the squared sum with probability {1.0 - delta:.3g}")
    return _Promise(
        width, False, f"within {epsilon:.3g} of the sum with probability {1.0 - delta:.3g}, repeats counted"
    )


def _sure(width: float) -> _Promise:
    return _Promise(width, True, f"never outside bounds {width:.3g} wide")


_PROMISES: Final[Mapping[str, Callable[[StreamHeld, Question, bool], _Promise | None]]] = {
    "sample": _sample,
    "integral": _integral,
    "histogram": _histogram,
    "qdigest": _qdigest,
    "exponential": _exponential,
    "retractable": _retractable,
    "ecm": _ecm,
}
