"""What differs between the events of one stretch of time and those of another: the shares of sources and of values.

A share has two intervals. The one that is told holds the exact share of the events that came, as all intervals of wane
do. The other one is wider: it also allows for the chance that brought these events and no others, as if each had come
independently of the rest. The limits of how far two shares lie apart come from those of both, as in MOVER
(`sketches.differences`): the two sides have no event in common, so what is chance on one is not on the other. Only
shares that lie apart by both kinds of limits have *changed*; where they do only by the first, the events that came do
differ, but so few of them may do so in a stream that goes on as before.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple

import numpy as np

from sketches.arrays import Flags, Floats
from sketches.differences import Limited, differences
from sketches.estimate import Group, trade_places
from sketches.records import dataclass

Stretch = tuple[int, int]  # of time: from a moment to before another


class Verdict(StrEnum):
    """What can be said of the two shares of a group."""

    CHANGED = "changed"
    DIFFERS = "differs, maybe by chance"
    UNCLEAR = "cannot be told apart"


class Between(NamedTuple):
    """A class of numbers: from `low` to below `high`."""

    low: float
    high: float


Name = Group | Between


class Shares(NamedTuple):
    """The shares of groups on one side, with the limits for the events that came, and those that allow for chance."""

    value: Floats
    lower: Floats
    upper: Floats
    least: Floats
    most: Floats


class Mass(NamedTuple):
    """How much came on one side, events or their weight, and how many sampled events tell of it."""

    value: float
    lower: float
    upper: float
    used: int


@dataclass(frozen=True, slots=True, eq=False)
class ShareChanges:
    """The groups of one column that look most different: arrays in the order of their names."""

    column: str
    names: tuple[Name, ...]
    inside: Shares
    outside: Shares
    groups: int  # in all, of which something was sampled
    unseen: float  # the largest share on either side of a group of which nothing was sampled there

    def __len__(self) -> int:
        return len(self.names)


class Change(NamedTuple):
    """One group with its share on both sides; `tie`: another group may have changed as much."""

    column: str
    name: Name
    inside: tuple[float, float, float]  # share, lower and upper limit
    outside: tuple[float, float, float]
    apart: float  # how far the shares lie apart at least, below 0 where they may be equal
    verdict: Verdict
    tie: bool


@dataclass(frozen=True, eq=False)
class Changes:
    """What differs between two sides, all columns together.

    All intervals of shares hold together with probability `confidence`. With that probability too, no group has
    changed whose share is the same on both sides: in the events that came, or in the stream that brought them.
    """

    columns: tuple[ShareChanges, ...]
    inside: Mass
    outside: Mass
    confidence: float
    guarantee: str
    family: str

    @property
    def exact(self) -> bool:
        """Whether all shares are exact."""
        return all(bool((side.lower == side.upper).all()) for one in self.columns for side in (one.inside, one.outside))

    @cached_property
    def ranked(self) -> tuple[Change, ...]:
        """All groups: those that changed first, by how far they lie apart at least; then the others likewise."""
        inside, outside = (
            Shares(*(np.concatenate([[], *(getattr(one, side)[at] for one in self.columns)]) for at in range(5)))
            for side in ("inside", "outside")
        )
        columns = [one.column for one in self.columns for _ in one.names]
        names = [name for one in self.columns for name in one.names]
        apart = _apart(Limited(*inside[:3]), Limited(*outside[:3]))
        beyond = _apart(
            Limited(inside.value, inside.least, inside.most), Limited(outside.value, outside.least, outside.most)
        )
        difference = np.abs(inside.value - outside.value)
        changed, differs = (beyond > 0.0) & (apart > 0.0), apart > 0.0
        key = np.where(changed, beyond, np.where(differs, apart, np.nan_to_num(difference, nan=-1.0)))
        order = np.lexsort((-difference, -key, ~differs, ~changed))
        ties = _ties(inside, outside, difference, changed)
        verdicts = [tuple(Verdict)[at] for at in np.where(changed, 0, np.where(differs, 1, 2)).tolist()]
        sides = [
            list(zip(side.value.tolist(), side.lower.tolist(), side.upper.tolist(), strict=True))
            for side in (inside, outside)
        ]
        return tuple(
            Change(columns[at], names[at], sides[0][at], sides[1][at], float(apart[at]), verdicts[at], bool(ties[at]))
            for at in order.tolist()
        )

    def counted(self, verdict: Verdict) -> int:
        """How many groups of the ranking have a verdict."""
        return sum(one.verdict is verdict for one in self.ranked)


def _apart(inside: Limited, outside: Limited) -> Floats:
    """How far shares lie apart at least; below 0 where they may be equal."""
    change = differences(inside, outside, 0.0).change
    return np.asarray(np.maximum(np.maximum(change.lower, -change.upper), -1.0))


def _ties(inside: Shares, outside: Shares, difference: Floats, changed: Flags) -> Flags:
    """Which of the changed groups may have another place among them, by how far their shares really lie apart."""
    least = np.maximum(np.maximum(inside.lower - outside.upper, outside.lower - inside.upper), 0.0)
    most = np.maximum(inside.upper - outside.lower, outside.upper - inside.lower)
    found = np.zeros(len(changed), bool)
    found[changed] = trade_places(difference[changed], least[changed], most[changed])
    return found


def edges_of(values: Floats, weights: Floats, classes: int) -> Floats:
    """Round numbers that cut values into classes of about equal weight; fewer where few values take most of it.

    >>> edges_of(np.arange(1000.0), np.ones(1000), 4).tolist()
    [250.0, 500.0, 750.0]
    """
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order])
    if not len(reached) or reached[-1] <= 0.0:
        return np.empty(0)
    goals = np.arange(1, classes) / classes * reached[-1]
    cuts = values[order][np.minimum(np.searchsorted(reached, goals), len(order) - 1)]
    different = np.unique(cuts)
    for digits in range(2, 16):
        edges = np.unique([float(f"{cut:.{digits}g}") for cut in different.tolist()])
        if len(edges) == len(different):
            break
    return edges


def class_of(edges: Sequence[float], number: int) -> Between:
    """The class of values between two neighbouring edges, or beyond the first or the last."""
    return Between(edges[number - 1] if number else -math.inf, edges[number] if number < len(edges) else math.inf)
