"""Counting how often an interval misses: the same questions put to sketches of the same stream under many seeds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.stats import binom

from sketches import Events, Question, Sample
from sketches.estimate import Estimate
from sketches.family import Sketch
from sketches.sampling.epoch_sample import EpochSample
from sketches.vocabulary import COUNTINGS
from tests.support.oracle import DECAYS, Oracle, aggregates_for, random_question
from tests.support.streams import Stream


@dataclass
class Tally:
    """Trials and misses of one question (or, added up, of many), on either side."""

    question: Question | None = None
    stream: str = ""
    trials: int = 0
    above: int = 0  # the exact answer lay above the interval
    below: int = 0
    planned: int = 0  # trials of questions as of now, for which the accuracy asked for is promised
    beyond_epsilon: int = 0  # of those, how many estimates were off by more than that
    used: list[int] = field(default_factory=list)  # sampled events that took part, per trial

    @property
    def misses(self) -> int:
        return self.above + self.below

    def add(self, other: Tally) -> None:
        self.trials += other.trials
        self.above += other.above
        self.below += other.below
        self.planned += other.planned
        self.beyond_epsilon += other.beyond_epsilon
        self.used += other.used

    def too_many(self, allowed: float, doubt: float = 1e-4) -> bool:
        """More misses than an interval that misses with probability `allowed` would give but once in 1/doubt times."""
        return bool(self.misses > binom.ppf(1.0 - doubt, self.trials, allowed))


def build(stream: Stream, seed: int, epsilon: float, delta: float, detail: int = 1) -> Sample:
    """A sample that has thinned the stream, unless more `detail` is asked for."""
    events = Events.of(stream.ids, stream.t, stream.v, stream.w)
    return Sample.build(events, epsilon=epsilon, delta=delta, seed=seed, detail=detail)


def build_epoch(stream: Stream, seed: int, epsilon: float, delta: float) -> EpochSample:
    """The same as wane kept it of a source's epoch before there was one sample for a stream."""
    events = Events.of(stream.ids, stream.t, stream.v, stream.w)
    return EpochSample.build(events, epsilon=epsilon, delta=delta, seed=seed)


def questions_for(stream: Stream, per_aggregate: int, seed: int, decays: Sequence[str] = DECAYS) -> list[Question]:
    """Random questions of every aggregate that fits the stream, lists and products of two streams apart."""
    rng = np.random.default_rng(seed)
    found = []
    for aggregate in aggregates_for(stream):
        if aggregate in ("heavy-hitters", "inner-product"):
            continue
        for at in range(per_aggregate):
            found.append(random_question(rng, stream, aggregate, decays, counting=COUNTINGS[(at + len(found)) % 2]))
        if aggregate in ("sum", "mean", "correlated-sum", "correlated-mean") and not stream.is_text:
            counting = COUNTINGS[len(found) % 2]
            found.append(random_question(rng, stream, aggregate, decays, of="value", counting=counting))
    return found


RELATIVE = ("sum", "count")
OF_THE_WHOLE = ("range-sum", "correlated-sum", "correlated-count")
PLAIN = ("selectivity", "rank", "frequency", "range-frequency")
PLANNED = (*RELATIVE, *OF_THE_WHOLE, *PLAIN)


def relative_or_additive_error(question: Question, estimate: float, exact: float, whole: float) -> float:
    """The error in the terms of the (ε, δ) guarantee: relative for sums, of the whole weight for τ-sums, else plain."""
    if question.aggregate in RELATIVE:
        return abs(estimate - exact) / exact if exact else abs(estimate - exact)
    if question.aggregate in OF_THE_WHOLE:
        return abs(estimate - exact) / whole if whole else 0.0
    return abs(estimate - exact)


def tally(
    stream: Stream,
    questions: Sequence[Question],
    seeds: Iterable[int],
    *,
    epsilon: float = 0.1,
    delta: float = 0.05,
    ask: Callable[[Any, Question], Estimate] = Sample.answer,
    make: Callable[[Stream, int, float, float], Sketch] = build,
) -> list[Tally]:
    """One tally per question over all seeds."""
    oracle = Oracle(stream)
    exact = [oracle.answer(question) for question in questions]
    whole = [
        oracle.answer(Question("count" if "count" in q.aggregate else "sum", q.decay, q.as_of, counting=q.counting))
        for q in questions
    ]
    tallies = [Tally(question, stream.name) for question in questions]
    for seed in seeds:
        sketch = make(stream, seed, epsilon, delta)
        for counted, truth, total in zip(tallies, exact, whole, strict=True):
            assert counted.question is not None
            estimate = ask(sketch, counted.question)
            counted.trials += 1
            if np.isnan(truth):
                continue
            slack = 1e-9 * abs(truth)
            counted.above += bool(truth > estimate.upper + slack)
            counted.below += bool(truth < estimate.lower - slack)
            now = counted.question.as_of is None and not counted.question.of_value
            if now and counted.question.aggregate in PLANNED:
                error = relative_or_additive_error(counted.question, estimate.value, truth, total)
                counted.planned += 1
                counted.beyond_epsilon += bool(np.isnan(estimate.value) or error > epsilon)
            counted.used.append(estimate.used)
    return tallies
