"""One exponential histogram or deterministic wave by itself: a counter of arrivals over sliding windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike

from sketches.countmin.coalescing import coalesced
from sketches.countmin.window_logs import BASES, KEEPINGS, Basis, Count, Keeping, Logs, kept, room
from sketches.errors import EventError, IncompatibleError, QuestionError, WaneError
from sketches.event_rules import MAX_TIME
from sketches.papers import ECM_SKETCHES


@dataclass
class WindowCounter:
    """One exponential histogram or deterministic wave, by itself: how many arrivals in any window up to now.

    With `basis="count"` a window is of the last arrivals of a stream of which only some are counted: `times` are then
    their positions in it.

    >>> counter = WindowCounter(0.1)
    >>> counter.add(range(1000))
    >>> count = counter.count(100)
    >>> count.lower <= 100 <= count.upper and count.upper - count.lower <= 0.2 * 100
    True
    """

    epsilon: float
    keeping: Keeping = "eh"
    basis: Basis = "time"
    merged: bool = False  # whether it is made of several counters, so that its entries do not follow from their number
    logs: Logs = field(default_factory=lambda: Logs.none(1))

    def __post_init__(self) -> None:
        if not 0 < self.epsilon < 1:
            raise WaneError(f"epsilon is {self.epsilon!r}; it must lie strictly between 0 and 1")
        for name, choice, known in (("keeping", self.keeping, KEEPINGS), ("basis", self.basis, BASES)):
            if choice not in known:
                raise WaneError(f"{name} is {choice!r}; it must be one of {', '.join(known)}")

    @property
    def total(self) -> int:
        return int(self.logs.size.sum())

    def add(self, times: ArrayLike) -> None:
        """Count arrivals, which come in order, one or many: the result is the same."""
        new = np.sort(np.asarray(times, np.int64).reshape(-1))
        if len(new) == 0:
            return
        if new[0] < -MAX_TIME or new[-1] > MAX_TIME:
            raise EventError("times lie between -2^62 and 2^62")
        logs, before = self.logs, self.total
        if before and new[0] < logs.end[-1]:
            raise EventError(f"an arrival at {new[0]} comes after one at {logs.end[-1]}; merge another counter instead")
        if self.merged:
            batch = replace(self, merged=False, logs=Logs.none(1))
            batch.add(new)
            self.logs = coalesced([logs, batch.logs], room(self.epsilon))
            return
        ranks = kept(before + len(new), self.epsilon, self.keeping)
        old = np.cumsum(logs.size)
        ends = np.where(ranks <= before, 0, new[np.maximum(ranks - before - 1, 0)])
        known = ranks <= before
        ends[known] = logs.end[np.searchsorted(old, ranks[known])]
        oldest = logs.oldest() if before else new[:1]
        self.logs = Logs.in_order(np.array([0, len(ranks)]), ends, np.diff(ranks, prepend=0), oldest)

    def count(self, window: int, as_of: int | None = None) -> Count:
        """The arrivals at times in (as_of - window, as_of], where as_of is the newest arrival's or later."""
        logs = self.logs
        if window < 1:
            raise QuestionError(f"window is {window}; it must be at least 1")
        if self.total == 0:
            return Count(0.0, 0.0, 0.0)
        now = int(logs.end[-1]) if as_of is None else as_of
        if now < logs.end[-1]:
            raise QuestionError(f"as_of is {now}, but the newest arrival is at {logs.end[-1]}")
        first = now - window + 1
        surely, may = logs.start >= first, logs.end >= first
        lower, upper = float(logs.size[surely].sum()), float(logs.size[may].sum())
        # the newest arrival of an entry is at its end: of one that is cut at least that one counts
        lower += float(np.count_nonzero(may & ~surely))
        return Count((lower + upper) / 2.0, lower, upper)

    @classmethod
    def union(cls, counters: Sequence[WindowCounter]) -> WindowCounter:
        """One counter of the arrivals of all, in the order of their times, which errs by no more than they do."""
        if not counters:
            raise WaneError("a union needs at least one counter")
        first = counters[0]
        if any(
            (one.epsilon, one.keeping, one.basis) != (first.epsilon, first.keeping, first.basis) for one in counters
        ):
            raise IncompatibleError("counters of different accuracy or kind cannot be merged")
        if first.basis == "count":
            raise IncompatibleError(
                "windows of the last arrivals cannot be merged: the counters know in which order the counted "
                f"arrivals came, but not how many others came between them ({ECM_SKETCHES} §5.1, Figure 2)"
            )
        seen = [one for one in counters if one.total]
        if len(seen) < 2:
            return replace(seen[0] if seen else first)
        logs = coalesced([one.logs for one in seen], room(first.epsilon))
        return replace(first, merged=True, logs=logs)
