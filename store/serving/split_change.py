"""How the answers of groups differ between two decays or two times, and whether that is more than chance."""

from __future__ import annotations

import numpy as np

from sketches.arrays import Flags, Floats
from sketches.estimate import Group, Split
from sketches.records import dataclass


@dataclass(frozen=True, eq=False)
class SplitChange:
    """The groups of a split with their answers before; arrays in the order of the split's names. NaN: no answer then.

    The intervals of both splits hold together with probability `confidence`; where they do, `certain` changes are real.
    """

    names: tuple[Group, ...]
    before: Floats
    change: Floats
    relative: Floats  # of what was before
    certain: Flags  # the intervals do not overlap
    confidence: float

    @classmethod
    def of(cls, now: Split, before: Split) -> SplitChange:
        places = {name: at for at, name in enumerate(before.names)}
        at = np.array([places.get(name, -1) for name in now.names], np.int64)
        known = at >= 0

        def then(column: Floats) -> Floats:
            if not len(column):
                return np.full(len(at), np.nan)
            return np.where(known, column[at], np.nan)

        value, lower, upper = then(before.value), then(before.lower), then(before.upper)
        change = now.value - value
        with np.errstate(divide="ignore", invalid="ignore"):
            relative = np.where(value != 0.0, change / np.abs(value), np.nan)
        certain = np.isfinite(change) & ((now.lower > upper) | (now.upper < lower))
        both = max(0.0, now.confidence + before.confidence - 1.0)
        return cls(now.names, value, change, relative, certain, both)
