"""How wide an interval of `ecm` and `retractable` will be, from what the store holds and before anybody asks.

Two errors add up. Entries of a counter's log are ranges of time, as long as a share of what is newer in the epoch: what
a decay makes of them is worked out as for digests. And a value shares its counters with others, for which ε_cm of all
that counts is taken off its lower limit.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from sketches.countmin.ecm_parameters import EcmParameters
from sketches.decay.functions import LastEvents
from sketches.holdings import DISTINCT, Faded, measured_share, restricted_share
from sketches.promise import Built
from sketches.question import NEEDS_ORDER, Question

# Measured over expected widths with 1.0 here, by `python -m benchmarks.planner --widths`.
_FILLED: Final = 1.2  # of what an entry of a log may carry
_COLLISIONS: Final = 0.5  # of ε_cm, in frequencies
_PARTS: Final = 0.7  # of `bits`, the dyadic parts of a range with two ends; half as many with one
_JOINS: Final = 0.7  # of ε_cm of the squared sum, in joins


def ecm_width(question: Question, built: Built) -> float:
    """The width to expect of `ecm`."""
    parameters = _parameters(built)
    blurred = _blurred(question, built, parameters)
    aggregate, share = question.aggregate, measured_share(question, built.share)
    if aggregate in ("sum", "count") and not question.where:
        return blurred
    if aggregate in ("self-join", "inner-product"):
        crowd = 1.0 / DISTINCT + 1.0 / parameters.width  # what the counters' squares add up to, over the squared sum
        return (_JOINS * parameters.sketch_error + 2.0 * blurred * crowd) * DISTINCT
    collided = _COLLISIONS * parameters.sketch_error * (1.0 + blurred)
    if aggregate in ("frequency", "heavy-hitters"):
        return min(1.0, collided + 2.0 * blurred * (share + 1.0 / parameters.width))
    parts = _PARTS * parameters.bits * (1.0 if question.two_ended or question.where else 0.5)
    if question.threshold is not None:
        parts *= 2.0
    wide = parts * collided + blurred
    if aggregate in NEEDS_ORDER and not aggregate.endswith(("-sum", "-count")):
        return min(1.0, wide)
    return wide / (share * restricted_share(question))


def retractable_width(question: Question, built: Built) -> float:
    """The width to expect of `retractable`: it knows the sum, and a frequency is at most ε too large."""
    return 0.0 if question.aggregate in ("sum", "count") else built.epsilon


def _blurred(question: Question, built: Built, parameters: EcmParameters) -> float:
    """How much the logs leave in doubt of a counter, over what it holds."""
    faded = built.stored.faded(question)
    found = faded.uncertain(_lengths(faded, parameters))
    if isinstance(question.decay, LastEvents):
        found *= 2.0  # where they begin is in doubt too
    return found


def _lengths(faded: Faded, parameters: EcmParameters) -> np.ndarray:
    """How many seconds an entry of the log of all arrivals spans."""
    parts = faded.of_epoch(faded.held.parts)
    newer = np.minimum(parameters.window_error * faded.behind, faded.of_epoch(faded.held.events))
    carried = _FILLED * newer / parts
    return np.where(carried >= 2.0, carried * parts / np.maximum(faded.density, 1e-300), 0.0)


def _parameters(built: Built) -> EcmParameters:
    own = built.own
    bits = own.get("bits", 0)
    return EcmParameters(
        built.epsilon,
        built.delta,
        own.get("keeping", "eh"),
        own.get("purpose", "point"),
        "time",
        bits if isinstance(bits, int) else 0,
        built.stored.unit,
        0,
    )
