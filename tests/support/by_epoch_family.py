"""A family of the tests' own with one sketch for each source and epoch, as `sample` was before it kept one a stream."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from sketches.family import Abilities
from sketches.promise import Built, Promise
from sketches.question import Question
from sketches.registry import register
from sketches.sampling.epoch_sample import EpochSample
from sketches.vocabulary import AGGREGATES

_BEFORE = EpochSample.abilities
_NO_PAIRS = tuple(aggregate for aggregate in AGGREGATES if aggregate != "inner-product")


class ByEpoch(EpochSample):
    """Names that error messages list, as those of families with curves and joins, are those of wane's own families."""

    family: ClassVar[str] = "by-epoch"
    abilities: ClassVar[Abilities] = replace(_BEFORE, aggregates=_NO_PAIRS, curves=False, joint_lists=False)

    @classmethod
    def _promise(cls, question: Question, built: Built, *, past: bool) -> Promise:
        return Promise(built.epsilon, certain=False)


register(ByEpoch)
