"""How wide an interval of `kll` will be, before anybody asks: the chance of ranks, and the decay within an epoch."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from sketches.holdings import Faded, measured_share, restricted_share
from sketches.kll.decayed_ranks import NORMAL_99
from sketches.promise import Built
from sketches.question import Question
from sketches.special_functions import ndtri

_COUNTED: Final = ("sum", "count")
_KEPT_WHOLE: Final = 1.6  # over ε: a sketch with fewer rows than that keeps them all


def kll_width(question: Question, built: Built) -> float:
    """The width to expect of `kll`."""
    faded = built.stored.faded(question)
    blurred = faded.uncertain(np.full(len(faded.age), built.epoch_seconds))
    if question.aggregate in _COUNTED and not question.where:
        return blurred
    missing = 1.0 - question.confidence if question.confidence is not None else built.delta
    chance = 2.0 * float(ndtri(1.0 - missing / 2.0)) / NORMAL_99 * built.epsilon * _gathered(faded, built.epsilon)
    share, left = measured_share(question, built.share), restricted_share(question)
    if question.aggregate in ("range-sum", "correlated-sum", "correlated-count", *_COUNTED):
        return chance / max(share * left, 1e-9) + blurred
    return min(1.0, chance + 2.0 * share * (1.0 - share) * blurred)


def _gathered(faded: Faded, epsilon: float) -> float:
    """What is left of one sketch's error where the errors of many meet: 1 over the root of how many count."""
    held = faded.held
    mass = np.bincount(faded.epoch, faded.events * faded.factor, minlength=len(held.events))
    compacted = held.events / np.maximum(held.parts, 1.0) > _KEPT_WHOLE / epsilon
    squares = float((np.where(compacted, mass, 0.0) ** 2 / np.maximum(held.parts, 1.0)).sum())
    return math.sqrt(squares) / faded.total if faded.total > 0.0 else 0.0
