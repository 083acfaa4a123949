"""Paper E's own way to merge counters, as a peer: half of an entry's arrivals at its start and half at its end (§5.1).

The result is the log of so many arrivals in order, but its times are no longer certain, and its error grows with every
aggregation. `sketches.countmin.coalescing` is what wane does instead.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sketches.countmin.window_counter import WindowCounter
from sketches.countmin.window_logs import Count, Logs, aggregated_error


@dataclass(frozen=True)
class AggregatedCounter:
    """A counter, and how many aggregations lie between the arrivals and it."""

    counter: WindowCounter
    levels: int = 0

    @property
    def error(self) -> float:
        """The relative error of any window's count."""
        return aggregated_error(self.counter.epsilon, self.levels)

    @property
    def total(self) -> int:
        return self.counter.total

    @property
    def logs(self) -> Logs:
        return self.counter.logs

    def count(self, window: int, as_of: int | None = None) -> Count:
        """The arrivals at times in (as_of - window, as_of]."""
        found = self.counter.count(window, as_of)
        if self.levels == 0:
            return found
        upper = found.value / (1.0 - self.error) if self.error < 1.0 else math.inf
        return Count(found.value, found.value / (1.0 + self.error), upper)


def aggregate(counters: Sequence[AggregatedCounter]) -> AggregatedCounter:
    """One counter of the arrivals of all, in the order of their times; its error grows by a level."""
    seen = [one for one in counters if one.total]
    if len(seen) < 2:
        return seen[0] if seen else counters[0]
    first = seen[0].counter
    start, end, size = (np.concatenate([getattr(one.logs, name) for one in seen]) for name in ("start", "end", "size"))
    replayed = np.concatenate((np.repeat(start, size // 2), np.repeat(end, size - size // 2)))
    whole = WindowCounter(first.epsilon, first.keeping)
    whole.add(replayed)
    return AggregatedCounter(whole, 1 + max(one.levels for one in seen))
