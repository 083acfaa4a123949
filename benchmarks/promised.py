"""How often estimates of `sample` are off by more than it promises: what docs/sample.md says, counted.

Every trial has fresh events and a fresh seed. Stretches of time hold a sixteenth of what has come since they began, no
more: of the events for counts and shares, of the weight for sums. Some begin where a level of the ladder has just
overflowed, so that the next one, which answers, holds as little as it ever does; the others midway between. Decays are
as of the newest event.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sketches import Events, Question, Sample, parse_decay
from sketches.arrays import Floats, Ints
from sketches.sampling.inclusion.ladder_parameters import DEFAULT_DETAIL
from tests.support.thinned import Count

WEIGHINGS: dict[str, Callable[[np.random.Generator, int], Ints]] = {
    "unit weights": lambda rng, events: np.ones(events, np.int64),
    "zero weights": lambda rng, events: rng.geometric(0.25, events) * (rng.random(events) < 0.6),
    "heavy weights": lambda rng, events: np.ceil(rng.lognormal(0, 2, events)).astype(np.int64),
}
SMALL, OTHERS = "a twentieth", "others"
ALL = "all sources"
FACTOR = {ALL: 1, SMALL: 4}  # times ε
TAU = 700  # values are 0 to 999
BEGINNINGS = {"a level has just overflowed": 1.03, "midway": 1.5}  # times the capacity, or 2, 4, … times that


class Case(NamedTuple):
    """What is counted together: a weighing, an aggregate, a stretch or a decay, and whose events."""

    weighing: str
    aggregate: str
    group: str
    which: str
    whose: str


@dataclass(frozen=True, eq=False)
class Drawn:
    """Events in the order of time, one or two a second."""

    times: Ints
    values: Ints
    weights: Ints
    small: Floats  # 1 where the event is of the small source

    @classmethod
    def of(cls, weighing: str, events: int, seed: int) -> Drawn:
        rng = np.random.default_rng([seed, events, *map(ord, weighing)])
        return cls(
            np.sort(rng.integers(0, events, events)),
            rng.integers(0, 1_000, events),
            WEIGHINGS[weighing](rng, events),
            (rng.random(events) < 0.05).astype(np.float64),
        )

    def sample(self, epsilon: float, seed: int) -> Sample:
        names = np.array([OTHERS, SMALL])[self.small.astype(np.int64)]
        ids = seed * len(names) + np.arange(len(names))
        events = Events.of(ids, self.times, self.values, self.weights)
        return Sample.build(events, epsilon=epsilon, seed=seed, sources=names)

    def mass(self, aggregate: str, whose: str) -> Floats:
        """What each event adds."""
        mine = self.small if whose == SMALL else np.ones(len(self.times))
        return mine * self.weights if aggregate == "sum" else mine

    def stretches(self, aggregate: str, capacity: int) -> Iterator[tuple[str, int, slice]]:
        """Where stretches begin, how many events have come since, and their rows: a sixteenth of these."""
        total = np.concatenate([[0.0], np.cumsum(self.mass(aggregate, ALL))])
        for begins, times in BEGINNINGS.items():
            since = int(times * capacity)
            while since <= len(self.times):
                first = int(np.searchsorted(self.times, self.times[len(self.times) - since]))
                enough = total[first] + (total[-1] - total[first]) / DEFAULT_DETAIL
                last = self.times[int(np.searchsorted(total, enough)) - 1]
                yield begins, since, slice(first, int(np.searchsorted(self.times, last, side="right")))
                since *= 2


def decays(events: int) -> list[str]:
    """Decays that reach from a few thousandths of the stream to all of it."""
    windows = [f"window:{events // part}s" for part in (2, 8, 32)]
    halves = [f"exp:half_life={events // part}s" for part in (3, 20, 150)]
    return ["none", *windows, *halves, f"poly:alpha=1,unit={events // 500}s", f"superexp:beta=2,scale={events // 4}s"]


def count_promised(weighing: str, events: int, epsilon: float, seed: int, counts: dict[Case, Count]) -> None:
    """One trial of every case: an estimate that is off by more than promised has missed."""
    drawn = Drawn.of(weighing, events, seed)
    sample = drawn.sample(epsilon, seed)
    assert sample.kept < len(drawn.times)
    askable = {ALL: sample.of(None), SMALL: sample.of([SMALL])}

    def see(case: Case, question: Question, exact: float, allowed: float) -> None:
        found = askable[case.whose].answer(question).value
        counted = counts.setdefault(case, Count())
        counted.trials += 1
        counted.missed += not abs(found - exact) <= allowed
        counted.above += exact > found + allowed

    for aggregate in ("count", "sum"):
        for begins, since, rows in drawn.stretches(aggregate, sample.parameters.capacity):
            until = int(drawn.times[rows.stop - 1])
            decay = f"window:{until - int(drawn.times[rows.start]) + 1}s"
            for whose, factor in FACTOR.items():
                exact = float(drawn.mass(aggregate, whose)[rows].sum())
                case = Case(weighing, aggregate, f"stretch, {begins}", f"{since:,} since", whose)
                see(case, Question(aggregate, decay, until), exact, factor * epsilon * exact)
            if aggregate == "count":
                share = float((drawn.values[rows] >= TAU).mean())
                case = Case(weighing, "selectivity", f"stretch, {begins}", f"{since:,} since", ALL)
                see(case, Question("selectivity", decay, until, tau=TAU), share, epsilon)
        newest = int(drawn.times[-1])
        for decay in decays(events):
            exact = float(drawn.mass(aggregate, ALL) @ parse_decay(decay)((newest - drawn.times).astype(np.float64)))
            case = Case(weighing, aggregate, "decay as of now", decay, ALL)
            see(case, Question(aggregate, decay, newest), exact, epsilon * exact)
