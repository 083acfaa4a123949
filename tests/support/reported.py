"""Streams whose events are reported by several sources, fresh for every seed, and exact answers about some sources.

The exact answers come from the rows alone, by what a user is told: rows that agree in id, time, value and weight are
one event, and an event is one of a source's if that source has reported it. Only decay functions and the shape of a
question come from the code. Values are whole numbers below `VALUES`, so that every aggregate can be read off how many
events, and how much weight, there are of each value.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sketches import Question
from sketches.arrays import Flags, Floats, Ints
from sketches.decay import Decay
from tests.support.streams import HOUR, START, Stream

NAMES = ("east", "north", "small", "west")
EPOCH = 600
SMALL = "small"  # makes up a twentieth
VALUES = 400
KINDS = ("late rows", "zero weights", "heavy weights", "repeated rows", "migrated")
_ODDS = (0.34, 0.31, 0.04, 0.31)  # that a source reports an event first; others may report it too
_ROUNDING = 1e-12  # a cumulated share this close below phi, relatively, has reached it


@dataclass(frozen=True, eq=False)
class Reported:
    """Rows with the number of the source that reported each, and of the batch that it came in."""

    rows: Stream
    sources: Ints
    batches: Ints

    def by_source(self, which: Flags) -> dict[str, Stream]:
        """Of every source that has some of these rows its own."""
        found = {name: self.rows.take(which & (self.sources == at)) for at, name in enumerate(NAMES)}
        return {name: rows for name, rows in found.items() if len(rows)}


def reported(kind: str, events: int, seed: int) -> Reported:
    """About so many events of a kind of `KINDS`, over an hour, in batches 0 and 1 and, where rows are late, 2.

    Late rows have weight 1. Those of a migrated stream are to be held in the earlier form up to a time; one of its
    epochs then has few events.
    """
    rng = np.random.default_rng([seed, zlib.crc32(kind.encode())])
    ids = rng.integers(0, 2**50) + np.arange(events)
    again = rng.random(events) < 0.05
    ids[again] = rng.choice(ids, int(again.sum()))  # rows that share an id and disagree are events of their own
    values = np.minimum(np.floor(rng.lognormal(3.0, 1.0, events)), VALUES - 1).astype(np.int64)
    times = rng.integers(START, START + HOUR, events)
    if kind == "migrated":  # an epoch of which samples were complete
        quiet = (times // EPOCH == START // EPOCH + 1) & (rng.random(events) < 0.95)
        times[quiet] = START + HOUR - 1 - rng.integers(0, HOUR // 3, int(quiet.sum()))
    stream = Stream.of(kind, ids, times, values, _weights(kind, events, rng))
    event, source = _reports(kind, events, rng)
    order = rng.permutation(len(event))
    event, source = event[order], source[order]
    batch = rng.integers(0, 2, len(event))
    if kind == "late rows":
        batch[rng.random(len(event)) < 0.2] = 2
    return Reported(stream.take(event), source, batch)


def _weights(kind: str, events: int, rng: np.random.Generator) -> Ints:
    if kind == "late rows":
        return np.ones(events, np.int64)
    if kind == "heavy weights":  # a few events carry most of the sum
        heavy = np.where(rng.random(events) < 0.5, rng.lognormal(4, 3, events), 1 + rng.pareto(0.5, events))
        return np.clip(np.ceil(heavy), 1, 4_000_000).astype(np.int64)
    weights = rng.geometric(0.25, events)
    return weights * (rng.random(events) < 0.6) if kind == "zero weights" else weights


def _reports(kind: str, events: int, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """Which event each row is of, and which source has reported it."""
    first = rng.choice(len(NAMES), events, p=_ODDS)
    second = rng.choice(len(NAMES), events, p=_ODDS)
    if kind != "repeated rows":
        also = rng.random(events) < (0.6 if kind == "migrated" else 0.3)
        return np.append(np.arange(events), np.flatnonzero(also)), np.append(first, second[also])
    event, source = np.tile(np.arange(events), 2), np.append(first, second)
    times = rng.integers(1, 4, len(event))
    return np.repeat(event, times), np.repeat(source, times)


class Truth:
    """Exact answers about the events of some sources.

    >>> rows = Stream.of("two", ids=[1, 1, 2], t=[0, 0, 60], v=[5, 5, 7], w=[2, 2, 3])
    >>> truth = Truth(Reported(rows, np.array([0, 3, 3]), np.zeros(3, np.int64)))
    >>> truth.answer(Question("sum", as_of=60), ["east", "west"]), truth.answer(Question("sum", as_of=60), ["east"])
    (5.0, 2.0)
    """

    def __init__(self, told: Reported) -> None:
        columns = (told.rows.w, told.rows.v, told.rows.t, told.rows.ids)
        order = np.lexsort(columns)
        differs = np.zeros(len(order) - 1, bool)
        for column in columns:
            differs |= np.diff(column[order]) != 0
        number = np.concatenate([[0], np.cumsum(differs)])
        self.times, self.values, self.weights = (np.empty(number[-1] + 1, np.int64) for _ in range(3))
        for into, column in ((self.times, told.rows.t), (self.values, told.rows.v), (self.weights, told.rows.w)):
            into[number] = column[order]
        self._has = np.zeros((len(NAMES), len(self.times)), bool)
        self._has[told.sources[order], number] = True
        self._masses: dict[tuple[str, int, tuple[str, ...]], tuple[Floats, Floats]] = {}

    def __len__(self) -> int:
        return len(self.times)

    @cached_property
    def newest(self) -> int:
        return int(self.times.max())

    def masses(self, decay: Decay, as_of: int, sources: Sequence[str]) -> tuple[Floats, Floats]:
        """Of each value how many decayed events the sources have reported up to a time, and how much weight."""
        key = (decay.spec, as_of, tuple(sources))
        if key not in self._masses:
            ages = as_of - self.times
            counts = self._has[[NAMES.index(name) for name in sources]].any(axis=0) & (ages >= 0)
            decayed = np.where(counts, decay(np.maximum(ages, 0).astype(np.float64)), 0.0)
            self._masses[key] = (
                np.bincount(self.values, decayed, VALUES),
                np.bincount(self.values, decayed * self.weights, VALUES),
            )
        return self._masses[key]

    def shares(self, question: Question, sources: Sequence[str]) -> Floats:
        """The share of every value."""
        mass = self._mass(question, sources)
        return np.asarray(mass / mass.sum())

    def _mass(self, question: Question, sources: Sequence[str]) -> Floats:
        assert question.as_of is not None
        events, weight = self.masses(question.decay, question.as_of, sources)
        return weight if question.counting == "weight" else events

    def answer(self, question: Question, sources: Sequence[str], other: Sequence[str] = ()) -> float:
        """The exact answer, NaN for a ratio of nothing; `other` are the sources of the second side of a product."""
        assert question.as_of is not None
        events, weight = self.masses(question.decay, question.as_of, sources)
        mass, every = self._mass(question, sources), np.arange(VALUES)
        of_value = question.of == "value"
        summed, over = (every * mass, mass) if of_value else (weight, events)
        low, high = question.low or 0, VALUES if question.high is None else question.high
        match question.aggregate:
            case "sum" | "range-sum":
                return float(summed[(every >= low) & (every <= high)].sum())
            case "count":
                return float(mass.sum())
            case "mean":
                return _ratio(summed.sum(), over.sum())
            case "rank":
                return _ratio(mass[every <= question.value].sum(), mass.sum())
            case "frequency":
                return _ratio(mass[every == question.value].sum(), mass.sum())
            case "median" | "quantile":
                return self._quantile(mass, 0.5 if question.phi is None else question.phi)
            case "range-frequency":
                return _ratio(mass[(every >= low) & (every <= high)].sum(), mass.sum())
            case "self-join":
                return float(np.square(mass).sum())
            case "inner-product":
                return float(mass @ self._mass(question, other))
        above = every >= self._tau(question, mass)
        match question.aggregate:
            case "selectivity":
                return _ratio(mass[above].sum(), mass.sum())
            case "correlated-sum":
                return float(summed[above].sum())
            case "correlated-count":
                return float(mass[above].sum())
            case "correlated-mean":
                return _ratio(summed[above].sum(), over[above].sum())
        raise ValueError(f"{question.aggregate!r} has no single exact answer")

    def _tau(self, question: Question, mass: Floats) -> float:
        assert question.tau is not None
        if not isinstance(question.tau, str):
            return question.tau
        return self._quantile(mass, 0.5 if question.tau == "median" else float(question.tau[1:]))

    def _quantile(self, mass: Floats, phi: float) -> float:
        """The least value whose cumulated share reaches phi."""
        cumulated = np.cumsum(mass)
        if cumulated[-1] == 0:
            return float("nan")
        return float(np.argmax(cumulated >= phi * cumulated[-1] * (1 - _ROUNDING)))


def _ratio(part: float, whole: float) -> float:
    return float(part / whole) if whole else float("nan")
