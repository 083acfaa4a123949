"""Counting how often the intervals of a thinned sample miss, by cells, on the path by which a store serves them.

A *cell* is a kind of stream, an aggregate, a decay, a selection of sources and an as-of time. Every trial has fresh
data and a fresh seed: partial samples of batches and sources are merged, written in parts, read again and asked for the
sources. The trials of a cell are therefore independent; those of different cells are not, which Holm's method allows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import binom

from sketches import Events, Question, Sample
from sketches.arrays import Flags
from sketches.estimate import Estimate
from sketches.family import Askable
from sketches.registry import load
from sketches.sampling.epoch_sample import EpochSample
from store.keys import Epoch
from store.serving.stream_sketches import StreamSketch
from store.writing.stream_parts import take_over
from tests.support.reported import EPOCH, NAMES, SMALL, Reported, Truth, reported
from tests.support.streams import HOUR, START, Stream

ALLOWED = 0.05  # share of intervals that may miss
MIGRATED_UNTIL = (
    START - START % EPOCH + 4 * EPOCH
)  # in a migrated store samples of older epochs are in the earlier form
EARLIER_EPSILON = 1.5  # times ε: then most epochs of the small source have been thinned too
MOMENTS = {"now": START + HOUR - 1, "past": START + int(0.6 * HOUR)}
DECAYS = ("none", "window:20m", "exp:half_life=10m")
SELECTIONS = {"a twentieth": (SMALL,), "two that overlap": ("east", "north"), "all": NAMES}
SECOND = ("west", "north")  # the second side of an inner product
SIMPLE: Mapping[str, dict[str, Any]] = {  # a store would take a sum for one of values where all weights are 1
    "sum": {"aggregate": "sum", "of": "weight"},
    "count": {"aggregate": "count"},
    "sum of values": {"aggregate": "sum", "of": "value"},
    "selectivity": {"aggregate": "selectivity", "tau": 40},
    "rank by weight": {"aggregate": "rank", "value": 15, "counting": "weight"},
    "frequency": {"aggregate": "frequency", "value": 12},
    "range-sum": {"aggregate": "range-sum", "of": "weight", "low": 10, "high": 30},
    "range-frequency": {"aggregate": "range-frequency", "low": 8, "high": 12},
    "correlated-sum": {"aggregate": "correlated-sum", "of": "weight", "tau": 60},
    "correlated-count": {"aggregate": "correlated-count", "tau": 90},
    "self-join": {"aggregate": "self-join"},
}
COSTLY: Mapping[str, dict[str, Any]] = {  # they take milliseconds
    "mean": {"aggregate": "mean", "of": "weight"},
    "mean of values": {"aggregate": "mean", "of": "value"},
    "median": {"aggregate": "median"},
    "quantile by weight": {"aggregate": "quantile", "phi": 0.9, "counting": "weight"},
    "correlated-mean": {"aggregate": "correlated-mean", "of": "weight", "tau": 40},
    "correlated-sum, τ = median": {"aggregate": "correlated-sum", "of": "weight", "tau": "median"},
    "heavy-hitters": {"aggregate": "heavy-hitters", "top": 4},
    "inner-product": {"aggregate": "inner-product"},
}
_NONE, _WINDOW, _EXP = DECAYS
SIMPLE_TIMES = ((_NONE, "now"), (_EXP, "now"), (_WINDOW, "past"))  # asked unless all are wanted
COSTLY_TIMES = {"a twentieth": (_EXP, "now"), "two that overlap": (_WINDOW, "past"), "all": (_EXP, "past")}


class Cell(NamedTuple):
    """What is counted together."""

    kind: str
    aggregate: str
    decay: str
    selection: str
    when: str


@cache
def question_of(cell: Cell) -> Question:
    settings: dict[str, Any] = {**SIMPLE, **COSTLY}[cell.aggregate]
    return Question(decay=cell.decay, as_of=MOMENTS[cell.when], confidence=1 - ALLOWED, **settings)


def cells_of(kind: str, *, every: bool = False) -> list[Cell]:
    """The cells of a kind of stream: every decay at every time, or only some, so that counting them takes less long."""
    times = tuple((decay, when) for decay in DECAYS for when in MOMENTS)
    return [
        Cell(kind, aggregate, decay, selection, when)
        for selection in SELECTIONS
        for aggregates, some in ((SIMPLE, SIMPLE_TIMES), (COSTLY, (COSTLY_TIMES[selection],)))
        for aggregate in aggregates
        for decay, when in (times if every else some)
    ]


@dataclass
class Count:
    """Trials of a cell, or of several: how many missed on either side, and how many were answered exactly."""

    trials: int = 0
    missed: int = 0
    above: int = 0  # the exact answer lay above the interval
    exact: int = 0

    def add(self, other: Count) -> None:
        self.trials += other.trials
        self.missed += other.missed
        self.above += other.above
        self.exact += other.exact

    @property
    def chance(self) -> float:
        """How likely as many misses are, or more, where each trial misses with the probability allowed."""
        return float(binom.sf(self.missed - 1, self.trials, ALLOWED))

    def see(self, estimate: Estimate, within: tuple[bool, bool]) -> None:
        """Count an answer; `within` says whether the truth is not below and not above the interval."""
        self.trials += 1
        self.missed += not all(within)
        self.above += not within[1]
        self.exact += estimate.exact


def holm(chances: Mapping[Any, float], doubt: float = 0.001) -> list[Any]:
    """The keys whose chances are too small for luck, all in all with an error probability of `doubt` (Holm 1979)."""
    found: list[Any] = []
    for rank, key in enumerate(sorted(chances, key=lambda one: chances[one])):
        if chances[key] > doubt / (len(chances) - rank):
            break
        found.append(key)
    return found


def within(truth: Truth, question: Question, sources: Sequence[str], found: Estimate) -> tuple[bool, bool] | None:
    """Whether the truth is not below and not above the interval, or all intervals of a list; None: there is none."""
    if question.aggregate == "heavy-hitters":
        shares = truth.shares(question, sources)
        listed = [int(item.value) for item in found.items]
        unlisted = float(np.delete(shares, listed).max())
        assert found.unlisted is not None
        low = all(item.lower <= shares[int(item.value)] * (1 + 1e-9) for item in found.items)
        high = all(shares[int(item.value)] <= item.upper * (1 + 1e-9) for item in found.items)
        return low, high and unlisted <= found.unlisted * (1 + 1e-9)
    exact = truth.answer(question, sources, SECOND)
    slack = 1e-9 * abs(exact)
    return None if np.isnan(exact) else (found.lower - slack <= exact, exact <= found.upper + slack)


Ask = Callable[[str, Question], Estimate]  # the name of a selection, and the question


def count(
    cells: Sequence[Cell], seeds: Iterable[int], *, events: int = 10_000, epsilon: float = 0.2
) -> dict[Cell, Count]:
    """Count the cells of one kind of stream, each once a seed, on samples that have been thinned."""
    (kind,) = {cell.kind for cell in cells}
    counts = {cell: Count() for cell in cells}
    for seed in seeds:
        told = reported(kind, events, seed)
        truth = Truth(told)
        sketch = served(told, kind, seed=seed, epsilon=epsilon)
        assert sketch.sketch is not None
        assert sketch.sketch.kept < 0.5 * len(truth), "the sample must have been thinned"
        see(counts, truth, asking(sketch))
    return counts


def see(counts: Mapping[Cell, Count], truth: Truth, ask: Ask) -> None:
    """Ask the question of every cell once, and count the answer where there is an exact one."""
    for cell, counted in counts.items():
        question = question_of(cell)
        found = ask(cell.selection, question)
        seen = within(truth, question, SELECTIONS[cell.selection], found)
        if seen is not None:
            counted.see(found, seen)


def asking(sketch: StreamSketch) -> Ask:
    """How a stream's sketch is asked."""
    askables = {name: askable(sketch, sources) for name, sources in SELECTIONS.items()}
    second = askable(sketch, SECOND)

    def ask(selection: str, question: Question) -> Estimate:
        product = {"other": second} if question.aggregate == "inner-product" else {}
        return askables[selection].answer(question, **product)

    return ask


def askable(sketch: StreamSketch, sources: Sequence[str]) -> Askable:
    found = sketch.of(sources, every=set(sources) == set(NAMES))
    assert found is not None
    return found


def served(told: Reported, kind: str, *, seed: int, epsilon: float) -> StreamSketch:
    """The sketch of a stream as a store serves it once all batches have come, one run each."""
    settings: dict[str, Any] = {"epsilon": epsilon, "seed": seed, "detail": 1}
    if kind == "repeated rows":  # and what is kept besides the levels
        settings |= {"per_source": 40, "fine": 60}
    old = (told.rows.t < MIGRATED_UNTIL) if kind == "migrated" else np.zeros(len(told.rows), bool)
    earlier = by_epoch(told, old, seed=seed, epsilon=EARLIER_EPSILON * epsilon)
    sketch: Any = None
    for batch in range(int(told.batches.max()) + 1):
        fresh = [
            partial(told, (told.batches == batch) & (told.sources % 2 == half) & ~old, settings) for half in (0, 1)
        ]
        sketch, moved = take_over(Sample.union([*([] if sketch is None else [sketch]), *fresh]), earlier)
        earlier = [(epoch, payload) for epoch, payload in earlier if epoch not in moved]
        parts = sketch.parts(EPOCH)
        sketch, damaged = Sample.from_parts(parts.head, [segment.payload for segment in parts.segments])
        assert not damaged
    assert bool(earlier) == old.any(), "epochs that were thinned are left"
    return StreamSketch(Sample.family, sketch, [(epoch, load(payload)) for epoch, payload in earlier])


def partial(told: Reported, which: Flags, settings: Mapping[str, Any]) -> Sample:
    """The sample that a worker makes of some of the rows."""
    return Sample.partial(events_of(told.rows.take(which)), told.sources[which].astype(np.int32), NAMES, **settings)


def by_epoch(told: Reported, which: Flags, **accuracy: Any) -> list[tuple[Epoch, bytes]]:
    """Samples of each source and epoch, as wane kept them before there was one of a stream."""
    found = []
    for source, rows in told.by_source(which).items():
        starts = rows.t - rows.t % EPOCH
        for start in np.unique(starts).tolist():
            sample = EpochSample.build(events_of(rows.take(starts == start)), **accuracy)
            found.append((Epoch(source, start, EPOCH), sample.to_bytes()))
    return found


def events_of(rows: Stream) -> Events:
    return Events.of(rows.ids, rows.t, rows.v, rows.w)
