"""A stream committed epoch by epoch to a store in which old epochs fade, and the same without."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sketches import Events
from sketches.countmin.ecm import Ecm
from sketches.digests.exponential import Exponential
from sketches.digests.histogram import Histogram
from sketches.digests.qdigest import QDigest
from sketches.family import Sketch
from store import EpochSketches, Run, SketchTables, Stream, commit
from tests.support.stores import NOON

HOUR = 3600
FAMILIES = ("histogram", "qdigest", "exponential", "ecm")
DECAY = "exp:half_life=1d"
EPSILON = {"histogram": 0.05, "qdigest": 0.2, "exponential": 0.05, "ecm": 0.2}


def built(family: str, events: Events, epsilon: float | None = None) -> Sketch:
    accuracy = EPSILON[family] if epsilon is None else epsilon
    match family:
        case "histogram":
            return Histogram.build(events, epsilon=accuracy, span=HOUR)
        case "qdigest":
            return QDigest.build(events, epsilon=accuracy, span=HOUR)
        case "exponential":
            return Exponential.build(events, epsilon=accuracy, decay=DECAY)
        case _:
            return Ecm.build(events, epsilon=accuracy, delta=0.1)


@dataclass(frozen=True)
class Hours:
    """Events of some hours in the order of time, with values and weights; the hour after a busy one may be quiet."""

    t: Any
    v: Any
    w: Any

    @classmethod
    def of(cls, hours: int, an_hour: int, seed: int) -> Hours:
        rng = np.random.default_rng(seed)
        many = rng.poisson(an_hour * np.where(rng.random(hours) < 0.1, 4.0, 0.8))
        times = np.sort(np.repeat(np.arange(hours) * HOUR, many) + rng.integers(0, HOUR, int(many.sum())))
        values = np.minimum(np.ceil(rng.exponential(20.0, len(times))), 200).astype(np.int64)
        return cls(times, values, rng.integers(1, 9, len(times)))

    def events(self, rows: Any = slice(None)) -> Events:
        ids = np.arange(len(self.t))[rows]
        return Events.of(ids, self.t[rows], self.v[rows], self.w[rows])

    def epochs(self, families: Sequence[str], source: str, rows: Any = None) -> list[EpochSketches]:
        """One sketch of each family for every hour of these rows."""
        rows = np.arange(len(self.t)) if rows is None else rows
        found, hours = [], self.t[rows] // HOUR
        for hour in np.unique(hours).tolist():
            mine = rows[hours == hour]
            events, ends = self.events(mine), (int(self.t[mine].min()), int(self.t[mine].max()))
            sketches = [built(family, events) for family in families]
            weight = float(self.w[mine].sum())
            found.append(EpochSketches(source, hour * HOUR, HOUR, len(mine), weight, *ends, sketches))
        return found


def committed(path: Path, parts: Iterable[Sequence[EpochSketches]], detail: object = 4, **settings: object) -> None:
    """A commit for each part."""
    stream = Stream("calls", HOUR, settings={"detail": detail, "unique": True, **settings})
    for part in parts:
        commit(path, Run(stream, SketchTables.of(part), NOON, NOON))
