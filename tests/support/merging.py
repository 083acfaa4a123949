"""A stream dealt out to parts as runs, late files and many sites bring it, and what a user is told of digests of it.

Every check is written from the sentences in the docstrings of the families, against sums over the events themselves. It
gives the widest interval that it met, relative to what the sentence relates it to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np

from sketches import Ecm, Estimate, Events, Question
from sketches.arrays import Ints
from sketches.digests.exponential import Exponential
from sketches.digests.histogram import Histogram
from sketches.digests.qdigest import QDigest

DAY: Final = 86_400
ORDERS: Final = ("in order", "a tenth late", "at random")
DECAY: Final = "exp:half_life=6h"
ULPS: Final = 1e-11  # what sums of decayed masses may be off by, on both sides
Order = Literal["in order", "a tenth late", "at random"]
Merged = Histogram | QDigest | Exponential
DELTA: Final = 0.05  # of `ecm`


@dataclass(frozen=True)
class Arrivals:
    """Events in the order of their times, with skewed values and with weights that are now and then 0 or large."""

    times: Ints
    values: Ints
    weights: Ints

    @classmethod
    def of(cls, rows: int, seed: int, *, span: int = DAY) -> Arrivals:
        rng = np.random.default_rng([seed, 21])
        weights = (rng.random(rows) ** 4 * 100).astype(np.int64)
        values = rng.lognormal(5.0, 1.5, rows).astype(np.int64)
        return cls(np.sort(rng.integers(0, span, rows)), values, weights)

    @classmethod
    def of_keys(cls, rows: int, seed: int, *, span: int = DAY) -> Arrivals:
        """Skewed keys, each of which counts once."""
        rng = np.random.default_rng([seed, 22])
        times = np.sort(rng.integers(0, span, rows))
        return cls(times, rng.zipf(1.3, rows) % 500, np.ones(rows, np.int64))

    def take(self, rows: Any) -> Arrivals:
        return Arrivals(self.times[rows], self.values[rows], self.weights[rows])

    def events(self, rows: Any = slice(None)) -> Events:
        times = self.times[rows]
        return Events.of(np.arange(len(times)), times, self.values[rows], self.weights[rows])

    def dealt(self, order: Order, parts: int, seed: int = 0) -> list[Events]:
        """As one run after the other brings them, as they come when a tenth is late, or to many sites at random."""
        rng, rows = np.random.default_rng([seed, parts]), len(self.times)
        part = np.arange(rows) * parts // rows
        if order == "at random":
            part = rng.integers(0, parts, rows)
        elif order == "a tenth late":
            late = rng.random(rows) < 0.1
            part = np.where(late, np.minimum(part + rng.integers(0, parts, rows), parts - 1), part)
        return [self.events(np.flatnonzero(part == number)) for number in range(parts)]


def built(family: str, events: Events, epsilon: float, counting: Literal["events", "weight"] = "events") -> Merged:
    if family == "exponential":
        return Exponential.build(events, decay=DECAY, epsilon=epsilon, counting=counting)
    return (Histogram if family == "histogram" else QDigest).build(events, epsilon=epsilon)


def checked(sketch: Merged, arrivals: Arrivals, questions: int = 12) -> float:
    """The widest interval as of the newest event, once all that the family promises was found to hold."""
    if isinstance(sketch, Histogram):
        return _histogram(sketch, arrivals, questions)
    if isinstance(sketch, QDigest):
        return _qdigest(sketch, arrivals, questions)
    return _exponential(sketch, arrivals, questions)


def checked_ecm(sketch: Ecm, arrivals: Arrivals, questions: int = 12) -> tuple[float, float]:
    """Counts are never outside, frequencies but with probability δ; how wide both are in the mean, of what was asked.

    Frequencies are of the three most frequent keys, as of now and the past.
    """
    times, newest, missed = arrivals.times, int(arrivals.times[-1]), 0
    sums, shares = [], []
    for as_of in (newest, int(np.quantile(times, 0.6))):
        for length in _lengths(arrivals, questions):
            seen, window = (times <= as_of) & (as_of - times < length), f"window:{length}s"
            exact = int(np.count_nonzero(seen))
            width = _holds(sketch.answer(Question("count", window, as_of=as_of)), exact)
            if as_of == newest and exact:
                sums.append(width / exact)
            for key in (1, 2, 3) if exact else ():
                estimate = sketch.answer(Question("frequency", window, value=key, as_of=as_of))
                share = np.count_nonzero(arrivals.values[seen] == key) / exact
                missed += not estimate.lower - ULPS <= share <= estimate.upper + ULPS
                if as_of == newest:
                    shares.append(estimate.upper - estimate.lower)
    assert missed <= 2.0 * DELTA * len(shares)
    return float(np.mean(sums)), float(np.mean(shares))


def _lengths(arrivals: Arrivals, questions: int) -> list[int]:
    """Windows from a second to more than all of it."""
    whole = int(arrivals.times[-1] - arrivals.times[0]) + 2
    return sorted({int(length) for length in np.geomspace(1, whole, questions)})


def _holds(estimate: Estimate, exact: float, slack: float = 0.0) -> float:
    assert estimate.lower <= exact * (1.0 + slack)
    assert exact * (1.0 - slack) <= estimate.upper
    return estimate.upper - estimate.lower


def _loads(arrivals: Arrivals) -> Sequence[tuple[str, Ints]]:
    return (("sum", arrivals.weights), ("count", np.ones(len(arrivals.times), np.int64)))


def _histogram(sketch: Histogram, arrivals: Arrivals, questions: int) -> float:
    """Counts and sums are never outside, at most ε of the answer wide as of now; in the past 2ε of what came since."""
    times, epsilon, newest, widest = arrivals.times, sketch.parameters.epsilon, int(arrivals.times[-1]), 0.0
    for aggregate, load in _loads(arrivals):
        for length in _lengths(arrivals, 5 * questions):
            exact = int(load[newest - times < length].sum())
            width = _holds(sketch.answer(Question(aggregate, f"window:{length}s")), exact)
            assert width <= epsilon * exact
            widest = max(widest, width / max(exact, 1))
        for as_of in np.quantile(times, np.linspace(0.03, 0.97, questions)).astype(np.int64).tolist():
            for length in _lengths(arrivals, questions):
                seen = (times <= as_of) & (as_of - times < length)
                span = sketch.parameters.span
                since = (times > as_of - length) & (times // span <= as_of // span)
                estimate = sketch.answer(Question(aggregate, f"window:{length}s", as_of=as_of))
                assert _holds(estimate, int(load[seen].sum())) <= 2.0 * epsilon * int(load[since].sum())
    return widest


def _qdigest(sketch: QDigest, arrivals: Arrivals, questions: int) -> float:
    """Sums over v ≥ x are never outside, and as of now at most ε of the whole wide; ranks within ε, by either mass."""
    times, values, epsilon, widest = arrivals.times, arrivals.values, sketch.parameters.epsilon, 0.0
    thresholds = np.quantile(values, np.linspace(0.02, 0.98, questions)).astype(np.int64).tolist()
    newest = int(times[-1])
    for aggregate, load in _loads(arrivals):
        for as_of in (newest, int(np.quantile(times, 0.6))):
            for length in _lengths(arrivals, 6):
                seen = (times <= as_of) & (as_of - times < length)
                whole, window = int(load[seen].sum()), f"window:{length}s"
                _holds(sketch.answer(Question(aggregate, window, as_of=as_of)), whole)
                for tau in thresholds:
                    asked = Question(f"correlated-{aggregate}", window, tau=tau, as_of=as_of)
                    width = _holds(sketch.answer(asked), int(load[seen & (values >= tau)].sum()))
                    if as_of == newest:
                        assert width <= epsilon * whole
                        widest = max(widest, width / max(whole, 1))
                if as_of == newest and whole:
                    counting: Literal["events", "weight"] = "weight" if aggregate == "sum" else "events"
                    for phi in (0.1, 0.5, 0.99):
                        found = sketch.answer(Question("quantile", window, phi=phi, counting=counting)).value
                        _ranked(values[seen], load[seen].astype(np.float64), found, phi, epsilon)
    return widest


def _exponential(sketch: Exponential, arrivals: Arrivals, questions: int) -> float:
    """Sums over v ≥ x are never outside and at most ε of all wide; ranks are within ε."""
    times, values, epsilon, widest = arrivals.times, arrivals.values, sketch.parameters.epsilon, 0.0
    by_weight = sketch.parameters.counting == "weight"
    load = arrivals.weights if by_weight else np.ones(len(times), np.int64)
    half_life, decay = sketch.parameters.decay.half_age, sketch.parameters.decay
    decayed = load * 0.5 ** ((int(times[-1]) - times) / half_life)
    whole = float(decayed.sum())
    thresholds = np.unique(np.quantile(values, np.linspace(0.0, 1.0, 5 * questions)).astype(np.int64)).tolist()
    for later in (0, int(3 * half_life)):
        faded, as_of = 0.5 ** (later / half_life), int(times[-1]) + later
        for tau in thresholds:
            asked = Question("correlated-sum" if by_weight else "correlated-count", decay, tau=tau, as_of=as_of)
            width = _holds(sketch.answer(asked), faded * float(decayed[values >= tau].sum()), ULPS)
            assert width <= (epsilon + ULPS) * faded * whole
            widest = max(widest, width / (faded * whole))
    for phi in (0.1, 0.5, 0.99):
        asked = Question("quantile", decay, phi=phi, counting=sketch.parameters.counting)
        _ranked(values, decayed, sketch.answer(asked).value, phi, epsilon)
    return widest


def _ranked(values: Ints, load: Any, found: float, phi: float, epsilon: float) -> None:
    """The ranks of a value, all that is below it and all that is not above it, lie around φ up to ε."""
    whole = float(load.sum())
    assert float(load[values < found].sum()) <= (phi + epsilon + ULPS) * whole
    assert float(load[values <= found].sum()) >= (phi - epsilon - ULPS) * whole
